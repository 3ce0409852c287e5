"""Releases that no private table is opened for: made-up rows, and a model of published tables.

`make_dummy` makes rows from a schema alone, for trying out programs where no private value may be. No table
is read, so nothing is spent and nothing about anybody is told: each row is drawn evenly from what the schema
declares. It is the first step before a release, not a small release.

`fit_tables`, below, makes a model and synthetic rows from noisy tables alone, whoever released them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from margrave import __version__
from margrave.errors import InputError, invalid
from margrave.models.independent import Independent
from margrave.models.registry import resolve
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import check_budget
from margrave.privacy.unit import Neighbours
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.run.options import check_libraries
from margrave.run.synthesis import Synthesis
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
from margrave.tables.files import Tables, read_tables

if TYPE_CHECKING:
    import pyarrow as pa

    from margrave.protocols import Fitter
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
"""Where numbers begin whose bounds are not declared, and how far they reach, in the unit of the kind; other
kinds are taken for real numbers."""


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
    start, width = WIDTHS.get(type(column), WIDTHS[Real])
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


def fit_tables(
    tables: Tables | str | Path,
    *,
    schema: Schema | str | Path | None = None,
    model: Fitter | str = "mixture",
    total: float | None = None,
    guarantee: Guarantee | None = None,
) -> Synthesis:
    """A model fitted to noisy tables that are public already: nothing private is touched, nothing is spent.

    Args:
        tables: What `read_tables` gave, or the path of a file for it.
        schema: What the labels mean, where the file does not carry it.
        model: A fitter or its name: "mixture" takes any tables, "pgm" those with a small junction tree.
        total: The number of rows, if it is public; estimated from the tables otherwise.
        guarantee: What the publisher of the tables promised, where the file does not say.

    Raises:
        InputError: The file cannot be used, there is no table, nobody says what was promised, or something is
            promised of the tables of a test run.
        MissingExtraError: The model computes with a library that is not installed.

    Example:
        ``fit_tables("census_tables.parquet").sample(1000)``
    """
    fitter = resolve(model) if isinstance(model, str) else model
    check_libraries(fitter)
    if not isinstance(tables, Tables):
        known = schema if isinstance(schema, Schema) or schema is None else Schema.load(schema)
        tables = read_tables(tables, schema=known)
    if guarantee is not None and tables.guarantee is not None and tables.guarantee.warning:
        remedy = "They are of a test run, whose noise comes from a seed: nothing can be promised of them."
        raise InputError(invalid("guarantee", "left out for these tables", remedy))
    promise = guarantee if guarantee is not None else tables.guarantee
    if promise is None:
        remedy = "Pass the publisher's as guarantee=; margrave cannot make one up."
        raise InputError(invalid("guarantee", "stated for tables that carry none", remedy))
    if not tables.measurements:
        raise InputError(invalid("tables", "one or more", "The file holds none."))
    return _fit_model(tables, fitter, total, promise)


def stated_guarantee(epsilon: float, delta: float, neighbours: Neighbours | None = None) -> Guarantee:
    """What a publisher promised in words, as a guarantee: (epsilon, delta) for a unit, priced as zCDP.

    Args:
        epsilon: Above 0.
        delta: Between 0 and 1.
        neighbours: Whom it protects; single rows, added or removed, by default.

    Raises:
        InputError: epsilon or delta is out of range.
    """
    check_budget(epsilon, delta)
    rho = ZCDP().total(float(epsilon), Fraction(float(delta)))
    return Guarantee(float(epsilon), float(delta), float(rho), neighbours or Neighbours(), "zcdp")


def _fit_model(tables: Tables, fitter: Fitter, total: float | None, promise: Guarantee) -> Synthesis:
    measurements, domain = tables.measurements, tables.schema.domain
    fitter.admit(domain, [table.clique for table in measurements])
    model = fitter.fit(domain, measurements, total=total)
    release = Release(
        schema=tables.schema,
        measurements=measurements,
        guarantee=promise,
        events=(),
        strategy="tables",
        fitter=fitter.name,
        state=model.state(),
        total=model.total,
        notes={"margrave": __version__, "method": "tables"},
    )
    return Synthesis(release, model)
