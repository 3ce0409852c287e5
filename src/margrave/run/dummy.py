"""make_dummy: made-up rows from a schema alone, for trying out programs where no private value may be.

No table is read, so nothing is spent and nothing about anybody is told: each row is drawn evenly from what
the schema declares. It is the first step before a release, not a small release.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from margrave.errors import InputError, invalid
from margrave.models.independent import Independent
from margrave.release import NoisyMarginal
from margrave.schema.columns import (
    Binned,
    Categorical,
    Column,
    Date,
    Duration,
    Integer,
    Listed,
    Moment,
    Real,
    Time,
    Unknown,
)
from margrave.schema.constraints.rules import Combinations, Determines, Rule, Within
from margrave.schema.encode import decode
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from margrave.run.synthesis import Rng

PLACEHOLDERS = ("value 1", "value 2", "value 3")
"""Values of a column of which the schema lists none."""
WIDTHS: dict[type[Binned], tuple[float, float]] = {
    Integer: (0, 100),
    Real: (0.0, 100.0),
    Date: (10_957, 365),  # 2000-01-01
    Moment: (10_957 * 86_400_000_000, 365 * 86_400_000_000 - 1),
    Time: (0, 86_400_000_000 - 1),
    Duration: (0, 86_400_000_000 - 1),
}
"""Where numbers begin whose bounds are not declared, and how far they reach, in the unit of the kind."""


def make_dummy(schema: Schema | str | Path, rows: int = 100, *, rng: Rng = None) -> pa.Table:
    """Made-up rows with the columns of a schema, drawn evenly from what it declares; its rules hold.

    Args:
        schema: The schema, or the path of a schema.json. What it leaves open is filled in with placeholders,
            see `complete_schema`.
        rows: How many.
        rng: A NumPy generator or a seed; fresh by default.

    Returns:
        An Arrow table. Nothing in it comes from any table.

    Raises:
        InputError: rows is negative, or the schema cannot be read.
        SchemaError: It is no schema, or its rules leave no row among the placeholders.

    Example:
        >>> schema = Schema((Categorical(name="sex", values=("F", "M"), missing=False), Date(name="born")))
        >>> make_dummy(schema, 3, rng=0).column_names
        ['sex', 'born']
    """
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 0:
        raise InputError(invalid("rows", "a whole number, not negative", "Try rows=100.", got=rows))
    known = complete_schema(schema if isinstance(schema, Schema) else Schema.load(schema))
    generator = np.random.default_rng(rng)
    if not known.attributes:
        return _only_keys(known, int(rows), generator)
    domain = known.domain
    # Nothing is measured: made-up counts, the same in every cell, go the way of a release.
    even = [
        NoisyMarginal((name,), np.ones(size), 1.0 / size)
        for name, size in zip(domain.names, domain.sizes, strict=True)
    ]
    model = Independent().fit(domain, even, total=float(max(int(rows), 1)))
    return decode(model.sample(int(rows), generator), known, generator)


def complete_schema(schema: Schema) -> Schema:
    """The schema with made-up values, bounds and missing values where it leaves them open.

    Text without listed values gets the values that rules name and three placeholders; numbers 0 to 100 above
    a declared bound or around 0; dates and moments the year 2000; and every such column has missing values.

    Raises:
        SchemaError: The rules leave no row among them.
    """
    filled = tuple(_complete_column(column, schema.rules) for column in schema.columns)
    return Schema(filled, schema.rules)


def _complete_column(column: Column, rules: Sequence[Rule]) -> Column:
    if column.known:
        return column
    if isinstance(column, Unknown):
        column = Categorical(name=column.name, missing=column.missing)
    parts: dict[str, Any] = {"missing": True if column.missing is None else column.missing}
    if isinstance(column, Listed) and column.values is None:
        named = [value for rule in rules for value in _values_named(rule, column.name) if value is not None]
        parts["values"] = (*dict.fromkeys(named), *(word for word in PLACEHOLDERS if word not in named))
    if isinstance(column, Binned):
        parts["rare"] = 0.0
        if column.edges is None:
            parts |= _bounds(column)
    return dataclasses.replace(column, **parts)


def _bounds(column: Binned) -> dict[str, float]:
    start, width = WIDTHS[type(column)]
    if column.lower is not None:
        return {"lower": column.lower, "upper": column.lower + width}
    if column.upper is not None:
        return {"lower": column.upper - width, "upper": column.upper}
    return {"lower": start, "upper": start + width}


def _values_named(rule: Rule, name: str) -> list[Any]:
    """The values of a listed column that a rule names."""
    if isinstance(rule, Combinations) and name in rule.columns:
        place = rule.columns.index(name)
        return [entry[place] for entry in rule.combinations]
    if isinstance(rule, Determines) and name in (rule.by, rule.of):
        return [pair[name == rule.of] for pair in rule.pairs]
    if isinstance(rule, Within) and name == rule.by:
        return [entry[0] for entry in rule.entries]
    return []


def _only_keys(schema: Schema, rows: int, rng: np.random.Generator) -> pa.Table:
    """A table of identifiers alone, which have no domain."""
    import pyarrow as pa

    from margrave.schema.columns.identifier import Identifier, keys

    columns = [column for column in schema.columns if isinstance(column, Identifier)]
    return pa.table({column.name: keys(column, rows, rng) for column in columns})
