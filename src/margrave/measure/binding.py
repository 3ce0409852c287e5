"""Binding: a table encoded under a schema, and a net for engines that do not count each row once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Engine, Source


def bind_source(source: Source, schema: Schema) -> tuple[Engine, int]:
    """The table encoded under a schema, and its number of rows, which the engine has to find too.

    Every sensitivity rests on each row being in one cell of a table. A net for engines in which it is not:
    a backend that holds two values for equal may join one row with several codes, which adds rows.

    What the error tells: the two numbers are equal for every table of an engine that counts each row once,
    whatever the rows are, so where nothing is wrong the answer is the same for all tables. It is asked before
    anything is measured, and the error holds no number.

    Raises:
        InputError: The numbers of rows differ: the backend does not count each row once, or the table
            changed in between.
    """
    engine = source.bind(schema)
    rows = int(source.rows().reveal()[0])
    check_totals([counts.reveal() for counts in engine.count([()])], rows)
    return engine, rows


def check_totals(tables: Iterable[NDArray[np.int64]], rows: int) -> None:
    """Refuse exact tables that do not hold each of the rows once; see `bind_source` for what the error tells.

    Raises:
        InputError: One of them does not.
    """
    if any(int(table.sum()) != rows for table in tables):
        constraint = "one whose backend counts each row once, and left alone while it is counted"
        raise InputError(invalid("table", constraint, "Export it to Parquet, and run on the copy."))
