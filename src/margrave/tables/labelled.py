"""Estimates as tables for people and programs: one row a cell, with the labels of its codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from margrave.errors import InputError, invalid
from margrave.schema.columns import Binned, Listed, Relative
from margrave.schema.schema import Schema
from margrave.tables.estimate import Estimate

__all__ = ["FIGURES", "cells_of", "labels_of", "long"]

FIGURES = ("table", "cell", "count", "std_error", "lower", "upper", "source")
"""Columns of a written table that are not columns of the schema."""


def labels_of(schema: Schema, name: str) -> tuple[str, ...]:
    """A text for each code of a column, all different.

    Raises:
        InputError: The column has no codes.
    """
    column = schema[name]
    if not isinstance(column, (Listed, Binned, Relative)):
        raise InputError(invalid("columns", "columns with codes", "Leave it out.", got=name))
    seen: dict[str, int] = {}
    distinct = []
    for label in column.labels:
        seen[label] = seen.get(label, 0) + 1
        distinct.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return tuple(distinct)


def cells_of(estimate: Estimate, schema: Schema, level: float) -> dict[str, Any]:
    """Columns of one table, one entry a cell in row-major order: labels by attribute, then the figures."""
    indices = np.indices(estimate.values.shape).reshape(len(estimate.clique), -1)
    lower, upper = estimate.interval(level)
    found: dict[str, Any] = {
        name: pa.array(labels_of(schema, name), pa.large_string()).take(pa.array(codes))
        for name, codes in zip(estimate.clique, indices, strict=True)
    }
    return found | {
        "count": estimate.values.ravel(),
        "std_error": estimate.errors.ravel(),
        "lower": lower.ravel(),
        "upper": upper.ravel(),
    }


def long(estimates: Sequence[Estimate], schema: Schema, level: float = 0.95) -> Any:
    """Many tables below each other: a pyarrow.Table with one row a cell.

    Columns: `table` (the number of the table), the schema's columns that any table holds (null in tables that
    do not), `cell` (the cell's place in row-major order, axes in the schema's order), and the figures.

    Raises:
        InputError: A column of the schema bears the name of a figure.
    """
    used = [name for name in schema.names if any(name in e.clique for e in estimates)]
    clash = sorted(set(used) & set(FIGURES))
    if clash:
        raise InputError(invalid("column names", f"none of {list(FIGURES)}", "Rename them.", got=clash))
    kind = pa.schema(
        [
            ("table", pa.int64()),
            *((name, pa.large_string()) for name in used),
            ("cell", pa.int64()),
            *((name, pa.float64()) for name in ("count", "std_error", "lower", "upper")),
            ("source", pa.large_string()),
        ]
    )
    parts = []
    for number, estimate in enumerate(estimates):
        held = _in_order(estimate, schema)
        cells = cells_of(held, schema, level)
        size = held.values.size
        empty = pa.nulls(size, pa.large_string())
        columns = {
            "table": np.full(size, number),
            **{name: cells.pop(name, empty) for name in used},
            "cell": np.arange(size),
            **cells,
            "source": [held.source] * size,
        }
        parts.append(pa.table(columns).cast(kind))
    return pa.concat_tables(parts) if parts else kind.empty_table()


def _in_order(estimate: Estimate, schema: Schema) -> Estimate:
    """The same table with its axes in the schema's order."""
    clique = tuple(name for name in schema.names if name in estimate.clique)
    axes = [estimate.clique.index(name) for name in clique]
    return Estimate(
        clique,
        estimate.values.transpose(axes),
        estimate.errors.transpose(axes),
        estimate.source,
        estimate.freedom,
    )
