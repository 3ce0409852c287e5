"""fit_tables: a model and synthetic rows from noisy tables alone, whoever released them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from margrave import __version__
from margrave.errors import InputError, invalid
from margrave.models.registry import resolve
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import check_budget
from margrave.privacy.unit import Neighbours
from margrave.release import Guarantee, Release
from margrave.run.options import check_libraries
from margrave.run.synthesis import Synthesis
from margrave.schema.schema import Schema
from margrave.tables.files import Tables, read_tables

if TYPE_CHECKING:
    from margrave.protocols import Fitter


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
