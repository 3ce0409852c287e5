"""Dates that engines may read apart, and the engines that compare columns."""

from __future__ import annotations

import datetime as dt

import pytest
from engine_backends import STREAMS

FIRST, LAST = dt.date(1, 1, 1), dt.date(9999, 12, 31)
END = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
DAYS = [FIRST, LAST, dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29), None]
MOMENTS = [
    dt.datetime(1, 1, 1),
    END,
    dt.datetime(1969, 12, 31, 23, 59, 59, 1),
    dt.datetime(2024, 2, 29, 8),
    None,
]
ENGINES = [
    *STREAMS,
    "ibis-duckdb",
    "ibis-duckdb queries",
    pytest.param("postgres", marks=pytest.mark.slow),
    pytest.param("spark", marks=pytest.mark.slow),
]
