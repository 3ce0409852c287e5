"""Estimates of released contingency tables with standard errors, and of linear functions of them.

Everything here is post-processing of released numbers and costs nothing.

First the tables of a release with their uncertainty, from the noisy tables themselves or from the model, and
as tables for people and programs: one row a cell, with the labels of its codes.

Then linear functions. A mean, a share or a residual of a regression is a sum over cells of tables of a few
columns. Where several noisy tables hold the columns, each cell is pooled by 1 / variance, as in
`estimate_measured`; functions of different tables may then rest on the same noise, so covariances are
computed from the noise of the measurements themselves and not from the standard errors of pooled cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import stdtrit

from margrave.errors import InputError, SchemaError, invalid
from margrave.models.registry import resolve
from margrave.release import NoisyMarginal, Release
from margrave.schema.columns import Binned, Column, Listed, Relative
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
    for names in cliques:
        for name in names:
            release_column(release.schema, name, "columns")
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


def release_column(schema: Schema, name: object, param: str) -> Column:
    """A column of a release that has codes.

    Args:
        schema: Of the release.
        name: What was asked for; anything but the name of one column is refused.
        param: The argument that holds it, for the error.

    Raises:
        SchemaError: The release has no such column, or it is an identifier or was left out.
    """
    held = {column.name: column for column in schema.attributes}
    if not isinstance(name, str):
        raise SchemaError(invalid(param, "the name of one column", f"Pick one of {list(held)}.", got=name))
    if name not in held:
        remedy = "Check the spelling; keys, and columns that were left out, hold nothing to be counted."
        raise SchemaError(invalid(param, f"among {list(held)}", remedy, got=name))
    return held[name]


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
        remedy = "Name tables without them, or write a .json file, which keeps names and figures apart."
        raise InputError(invalid("column names", f"none of {list(FIGURES)}", remedy, got=clash))
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


BLOCK = 1 << 20
"""Numbers of a block in which a covariance is added up: 8 MB, so that tables of any size take little
memory."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of some linear functions: what they take from the table of one clique.

    Args:
        clique: Distinct names; () for the number of rows.
        rows: Which functions, shape [r].
        weights: What each adds of each cell: shape [r, size of each attribute of the clique].
    """

    clique: Clique
    rows: NDArray[np.int64]
    weights: Floats


def _pool_looks(measurements: Sequence[NoisyMarginal]) -> tuple[NoisyMarginal, ...]:
    """The same tables, but one for each set of columns: all looks at it, each cell by 1 / variance."""
    looks: dict[frozenset[str], list[NoisyMarginal]] = {}
    for table in measurements:
        looks.setdefault(frozenset(table.clique), []).append(table)
    found = []
    for same in looks.values():
        first = same[0]
        if len(same) > 1:
            turned = [[table.clique.index(name) for name in first.clique] for table in same]
            weighted: Floats = np.zeros(first.values.shape)
            precision: Floats = np.zeros(())
            for table, axes in zip(same, turned, strict=True):
                part = _turn(np.asarray(table.sigma), axes) ** -2.0
                weighted += table.values.transpose(axes) * part
                precision = precision + part
            first = NoisyMarginal(first.clique, weighted / precision, precision**-0.5)
        found.append(first)
    return tuple(found)


def _turn(sigma: Floats, axes: Sequence[int]) -> Floats:
    """Deviations of a table's cells in another order of its axes; one number stays as it is."""
    return sigma.transpose(axes) if sigma.ndim else sigma


class PooledTables:
    """All released tables of a release, seen as estimates of the tables of any cliques they hold.

    Args:
        domain: The domain of the measurements.
        measurements: Released tables, of independent noise.
    """

    def __init__(self, domain: Domain, measurements: Sequence[NoisyMarginal]) -> None:
        self._domain = domain
        self._measurements = _pool_looks(measurements)
        self._sets = [frozenset(table.clique) for table in self._measurements]
        self._places = {name: set[int]() for table in self._measurements for name in table.clique}
        for place, table in enumerate(self._measurements):
            for name in table.clique:
                self._places[name].add(place)
        self._variances = [table.sigmas**2 for table in self._measurements]
        self._pooled: dict[Clique, tuple[Floats, dict[int, Floats], Floats]] = {}

    @property
    def measurements(self) -> tuple[NoisyMarginal, ...]:
        """The released tables by their place, those of the same columns as one."""
        return self._measurements

    def holds(self, clique: Sequence[str]) -> bool:
        """Whether a measured table has all these columns."""
        return bool(self._find_places(clique))

    def _find_places(self, clique: Sequence[str]) -> list[int]:
        """Places of the measurements that have all these columns, in order."""
        if not clique:
            return list(range(len(self._measurements)))
        return sorted(set.intersection(*(self._places.get(name, set()) for name in clique)))

    def table(self, clique: Clique) -> Floats:
        """The best unbiased estimate of a clique's table in rows, shape domain.shape(clique).

        The clique has to be held (`holds`).
        """
        return self._pool(clique)[0]

    def variances(self, clique: Clique) -> Floats:
        """The variance of each cell's noise in the pooled table. The clique has to be held (`holds`)."""
        return self._pool(clique)[2]

    def shares(self, clique: Clique) -> Mapping[int, Floats]:
        """The weight of each measurement's cells in the pooled table, by the measurement's place.

        Each is an array of shape domain.shape(clique): a measured cell counts by the weight of the cell of
        the clique that it is summed into. The clique has to be held (`holds`).
        """
        return self._pool(clique)[1]

    def values(self, terms: Sequence[Term], functions: int) -> Floats:
        """Estimates of linear functions, in rows times the weights' unit: shape [functions]."""
        found = np.zeros(functions)
        for term in terms:
            axes = term.weights.ndim - 1
            np.add.at(found, term.rows, np.tensordot(term.weights, self.table(term.clique), axes))
        return found

    def covariance(self, terms: Sequence[Term], functions: int) -> Floats:
        """Exact covariance of the noise in `values`, shape [functions, functions].

        With the pooling weights fixed every estimate is a linear function of the measured cells, whose noises
        are independent with known variances: Cov = sum over measured tables of K diag(sigma^2) K', where K
            has
        the weight of each cell in each function.
        """
        found = np.zeros((functions, functions))
        for place, table in enumerate(self._measurements):
            parts = [term for term in terms if self._sets[place] >= frozenset(term.clique)]
            if parts:
                self._add_noise(found, parts, place, table)
        return found

    def _pool(self, clique: Clique) -> tuple[Floats, dict[int, Floats], Floats]:
        """The pooled table, the weight of each measurement's cells in it by its place, and its variances."""
        turned = clique[::-1]
        if clique not in self._pooled and turned in self._pooled:
            values, shares, noise = self._pooled[turned]
            self._pooled[clique] = (values.T, {place: part.T for place, part in shares.items()}, noise.T)
        if clique not in self._pooled:
            weighted: Floats = np.zeros(self._domain.shape(clique))
            total: Floats = np.zeros(self._domain.shape(clique))
            precisions = {}
            for place in self._find_places(clique):
                table = self._measurements[place]
                precision = 1.0 / sum_out(self._variances[place], table.clique, clique)
                weighted += sum_out(table.values, table.clique, clique) * precision
                total += precision
                precisions[place] = precision
            parts = {place: part / total for place, part in precisions.items()}
            self._pooled[clique] = (weighted / total, parts, 1.0 / total)
        return self._pooled[clique]

    def _add_noise(self, found: Floats, parts: list[Term], place: int, table: NoisyMarginal) -> None:
        """Add what the noise of one measurement contributes to the covariance."""
        used = np.unique(np.concatenate([term.rows for term in parts]))
        spread = []
        for term in parts:
            share = self._pool(term.clique)[1][place]
            axes = [term.clique.index(name) for name in table.clique if name in term.clique]
            shape = [size if name in term.clique else 1 for name, size in self._sizes(table)]
            turned = (term.weights * share).transpose(0, *(axis + 1 for axis in axes))
            spread.append((np.searchsorted(used, term.rows), turned.reshape(len(term.rows), *shape)))
        sizes, variances = table.values.shape, self._variances[place]
        first = sizes[0] if sizes else 1
        step = max(1, BLOCK * first // max(len(used) * table.values.size, 1))
        within = np.zeros((len(used), len(used)))
        for start in range(0, first, step):
            cut = slice(start, start + step)
            part = variances[cut] if sizes else variances
            kernel = np.zeros((len(used), *part.shape))
            for rows, weights in spread:
                sliced = weights[:, cut] if sizes and weights.shape[1] == first else weights
                np.add.at(kernel, rows, np.broadcast_to(sliced, (len(rows), *part.shape)))
            flat = kernel.reshape(len(used), -1)
            within += (flat * part.ravel()) @ flat.T
        found[np.ix_(used, used)] += within

    def _sizes(self, table: NoisyMarginal) -> list[tuple[str, int]]:
        return list(zip(table.clique, table.values.shape, strict=True))
