"""Evidence: the codes that sampled rows must have, one for all rows or one a row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.domain import Domain

Evidence = Mapping[str, int | NDArray[np.int64]]
"""Codes by attribute: one for all rows, or one a row."""


def check_evidence(
    domain: Domain, given: Mapping[str, Any] | None, rows: int
) -> dict[str, int | NDArray[np.int64]]:
    """The evidence as integers and arrays of integers.

    Raises:
        SchemaError: The domain has no such attribute.
        InputError: A code is outside its attribute, or codes are not one a row.
    """
    found: dict[str, int | NDArray[np.int64]] = {}
    for name, codes in (given or {}).items():
        array, size = np.asarray(codes), domain[name]
        if array.ndim and array.shape != (rows,):
            asked = f"one code, or one for each of the {rows} rows, for {name!r}"
            raise InputError(invalid("given", asked, "Give as many as rows.", got=array.shape))
        if array.size and (array.dtype.kind not in "iub" or array.min() < 0 or array.max() >= size):
            asked = f"of codes 0 to {size - 1} for {name!r}"
            got = array.item() if array.ndim == 0 else None
            raise InputError(invalid("given", asked, "Use codes of it.", got=got))
        found[name] = int(array) if array.ndim == 0 else array.astype(np.int64)
    return found


def by_row(given: Evidence) -> bool:
    """Whether some codes are one a row, so that the rows have an order to keep."""
    return any(not isinstance(codes, int) for codes in given.values())


def pick_evidence(given: Evidence, rows: NDArray[np.int64]) -> dict[str, int | NDArray[np.int64]]:
    """The evidence of some of the rows."""
    return {name: codes if isinstance(codes, int) else codes[rows] for name, codes in given.items()}


def rows_asked(rows: int) -> int:
    """The number of rows, if it is one.

    Raises:
        InputError: It is negative.
    """
    if rows < 0:
        raise InputError(invalid("rows", "at least 0", "Ask for a number of rows.", got=rows))
    return rows
