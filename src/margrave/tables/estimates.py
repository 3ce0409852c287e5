"""Estimates of contingency tables with standard errors: from the noisy tables themselves, or from the model.

Everything here is post-processing of released numbers and costs nothing.

The tables of a release with their uncertainty, from the noisy tables or from the model.

Estimates as tables for people and programs: one row a cell, with the labels of its codes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import stdtrit

from margrave.errors import InputError, invalid
from margrave.models.registry import resolve
from margrave.release import NoisyMarginal, Release
from margrave.schema.columns import Binned, Listed, Relative
from margrave.schema.domain import Clique, Domain
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Fitter, Model

Floats = NDArray[np.float64]

REPLICATES = 20
"""Refits from which the uncertainty of a model's table is taken."""
OnRefit = Callable[[int, int], None]


def ignore_refit(done: int, refits: int) -> None:
    """Say nothing about a refit."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A table of counts with its uncertainty.

    Args:
        clique: Attribute names, in the order of the axes.
        values: Estimated counts in rows, shape [size of each attribute].
        errors: Standard errors in rows, shape of values.
        source: "measured": unbiased, from noisy tables that hold the clique; errors are those of the noise.
            "model": the fitted model's table; its errors are those of noise and shrinkage if the model were
            true, and say nothing of dependence that the model cannot hold.
        freedom: Degrees of freedom of the errors; infinite where they are known.
    """

    clique: Clique
    values: Floats
    errors: Floats
    source: str
    freedom: float = math.inf

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Lower and upper confidence limits of each cell's true count, in rows, both of the values' shape.

        Two-sided and one cell at a time: of many cells about 1 - level lie outside. A count is never
        below 0, so neither are the limits.

        Raises:
            InputError: level is not between 0 and 1.
        """
        if not 0.0 < level < 1.0:
            raise InputError(invalid("level", "above 0 and below 1", "Try level=0.95.", got=level))
        wide = float(stdtrit(self.freedom, 0.5 + level / 2.0)) * self.errors
        return np.maximum(self.values - wide, 0.0), np.maximum(self.values + wide, 0.0)


def checked_clique(domain: Domain, names: Sequence[str]) -> Clique:
    """The names as a clique.

    Raises:
        SchemaError: The domain lacks one.
        InputError: One is named twice.
    """
    domain.shape(names)
    if len(set(names)) != len(names):
        raise InputError(invalid("columns", "named once each", "Drop the repeats.", got=list(names)))
    return tuple(names)


def estimate_measured(
    domain: Domain, measurements: Sequence[NoisyMarginal], clique: Clique
) -> Estimate | None:
    """The best unbiased estimate from the noisy tables that hold the clique, or None if none does.

    A table over more attributes is summed out: its noise adds up, with the variance of a sum. All estimates
    of a cell are then pooled by 1 / variance. Noises of different tables are independent; where a method
    chose what to measure after looking at earlier noise, the pooled weights depend on it a little, which the
    standard errors leave out.

    Args:
        domain: The domain of the measurements.
        measurements: Released tables.
        clique: Distinct names.
    """
    weighted: Floats = np.zeros(domain.shape(clique))
    precision: Floats = np.zeros(domain.shape(clique))
    for table in measurements:
        if set(clique) <= set(table.clique):
            values, variance = (
                sum_out(part, table.clique, clique) for part in (table.values, table.sigmas**2)
            )
            weighted += values / variance
            precision += 1.0 / variance
    if not precision.all():
        return None
    return Estimate(clique, weighted / precision, precision**-0.5, "measured")


def sum_out(values: Floats, held: Clique, clique: Clique) -> Floats:
    """A table summed out to some of its attributes, axes in the order of `clique`."""
    kept = [name for name in held if name in clique]
    summed = values.sum(axis=tuple(axis for axis, name in enumerate(held) if name not in clique))
    turned: Floats = np.asarray(summed).transpose([kept.index(name) for name in clique])
    return turned


def estimate_modelled(
    model: Model,
    fitter: Fitter,
    measurements: Sequence[NoisyMarginal],
    cliques: Sequence[Clique],
    *,
    total: float | None = None,
    replicates: int = REPLICATES,
    rng: np.random.Generator,
    on_refit: OnRefit = ignore_refit,
) -> list[Estimate]:
    """The model's tables, with errors by a parametric bootstrap (Efron and Tibshirani 1993, section 6.5).

    Each replicate measures the model itself where the table was measured, with fresh noise of the same
    standard deviations, and fits again. The error of a cell is the root mean square distance of the refits
    from the model: noise and shrinkage together. Released numbers only; the noise here protects nobody.

    Args:
        model, fitter: Fitted to the measurements, and what fitted it.
        measurements, cliques: Released tables, and those wanted.
        total: The number of rows where it is public.
        replicates: Refits, at least 2.
        rng: Draws the replicates' noise.
        on_refit: Told before each refit how many are done, and how many there are.

    Raises:
        InputError: replicates is below 2.
    """
    if replicates < 2:
        raise InputError(invalid("replicates", "at least 2", "Try replicates=20.", got=replicates))
    centres = model.project_many(cliques)
    expected = model.project_many([table.clique for table in measurements])
    squares = [np.zeros_like(centre) for centre in centres]
    # The model's own tables are measured again with the noise of the release and fitted again; how far the
    # refits scatter is the error of one fit.
    for done in range(replicates):
        on_refit(done, replicates)
        again = _measured_again(measurements, expected, rng)
        refit = fitter.fit(model.domain, again, total=total, warm=model)
        for square, centre, table in zip(squares, centres, refit.project_many(cliques), strict=True):
            square += (table - centre) ** 2
    return [
        Estimate(clique, centre, np.sqrt(square / replicates), "model", float(replicates))
        for clique, centre, square in zip(cliques, centres, squares, strict=True)
    ]


def _measured_again(
    measurements: Sequence[NoisyMarginal], means: Sequence[Floats], rng: np.random.Generator
) -> list[NoisyMarginal]:
    """Measurements as precise as those given, of other counts."""
    return [
        NoisyMarginal(table.clique, mean + table.sigmas * rng.standard_normal(mean.shape), table.sigma)
        for table, mean in zip(measurements, means, strict=True)
    ]


Source = Literal["best", "measured", "model"]
SOURCES = ("best", "measured", "model")


def estimate_released(release: Release) -> list[Estimate]:
    """Every table that was measured, each clique once and in the order of the first, all its looks pooled."""
    cliques = dict.fromkeys(release.domain.canonical(table.clique) for table in release.measurements)
    found = (estimate_measured(release.domain, release.measurements, clique) for clique in cliques)
    return [estimate for estimate in found if estimate is not None]


def estimates(
    release: Release,
    model: Model,
    cliques: Sequence[Sequence[str]],
    *,
    source: Source = "best",
    replicates: int = REPLICATES,
    rng: np.random.Generator | int | None = None,
    on_refit: OnRefit = ignore_refit,
    estimator: Fitter | None = None,
) -> list[Estimate]:
    """The tables of some columns, with standard errors.

    Args:
        release, model: What was released, and the model fitted to it.
        cliques: Columns of each table.
        source: "measured": unbiased, from noisy tables that hold the columns; "model": from the model, with a
            bootstrap; "best": measured where a noisy table holds the columns, else the model.
        replicates: Refits of the bootstrap.
        rng: Of the bootstrap.
        on_refit: Told before each refit how many are done, and how many there are.
        estimator: Fits the refits; by default the one that the release names.

    Raises:
        SchemaError: There is no such column.
        InputError: source is none of these, or "measured" and no noisy table holds the columns.
    """
    if source not in SOURCES:
        raise InputError(invalid("source", f"one of {list(SOURCES)}", "Pick one.", got=source))
    wanted = [checked_clique(release.domain, names) for names in cliques]
    found: dict[int, Estimate] = {}
    for place, clique in enumerate(wanted):
        direct = (
            None if source == "model" else estimate_measured(release.domain, release.measurements, clique)
        )
        if direct is not None:
            found[place] = direct
        elif source == "measured":
            remedy = "Use source='model'."
            raise InputError(invalid("columns", "held by a measured table", remedy, got=list(clique)))
    rest = [place for place in range(len(wanted)) if place not in found]
    if rest:
        asked = [wanted[place] for place in rest]
        computed = _bootstrap_tables(
            release, model, asked, replicates, np.random.default_rng(rng), on_refit, estimator
        )
        found |= dict(zip(rest, computed, strict=True))
    return [found[place] for place in range(len(wanted))]


def _bootstrap_tables(
    release: Release,
    model: Model,
    cliques: Sequence[Clique],
    replicates: int,
    rng: np.random.Generator,
    on_refit: OnRefit,
    estimator: Fitter | None,
) -> list[Estimate]:
    public = release.guarantee.neighbours.rows_are_public
    return estimate_modelled(
        model,
        resolve(release.fitter) if estimator is None else estimator,
        release.measurements,
        cliques,
        total=release.total if public else None,
        replicates=replicates,
        rng=rng,
        on_refit=on_refit,
    )


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
