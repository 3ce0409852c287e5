"""What tests of extensions share: tables of names that are put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from margrave.evaluation.metrics.registry import METRICS
from margrave.methods import METHODS
from margrave.models.registry import HOMES
from margrave.schema.schema import COLUMN_KINDS


@pytest.fixture
def own_tables() -> Iterator[None]:
    """Methods, estimators, metrics and column kinds as they were before the test, once it is over."""
    tables: tuple[dict[str, Any], ...] = (METHODS, HOMES, METRICS, COLUMN_KINDS)
    before = [dict(table) for table in tables]
    yield
    for table, old in zip(tables, before, strict=True):
        table.clear()
        table.update(old)
