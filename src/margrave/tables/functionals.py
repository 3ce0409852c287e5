"""Linear functions of released tables: their best estimates, and the exact covariance of their noise.

A mean, a share or a residual of a regression is a sum over cells of tables of a few columns. Where several
noisy tables hold the columns, each cell is pooled by 1 / variance, as in
`tables.estimates.estimate_measured`; functions of different tables may then rest on the same noise, so
covariances are computed from the noise of the measurements themselves and not from the standard errors of
pooled cells.

Everything here is post-processing of released numbers and costs nothing.

`scores_of` gives the numbers that stand for the codes of a column in means, quantiles and regressions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.release import NoisyMarginal
from margrave.schema.columns import Column, Integer, Listed, Real, Whole
from margrave.schema.domain import Clique, Domain
from margrave.tables.estimates import sum_out

Floats = NDArray[np.float64]


def scores_of(column: Column) -> Floats | None:
    """A number for each code, shape [codes], NaN where a code has none; None if no code has.

    The number of a bin is the middle of its values, that of a listed value is the value. Missing values, and
    "(other)", have none. Dates, times and durations are not numbers here.
    """
    found: Floats = np.full(column.size, np.nan)
    if isinstance(column, Integer | Real):
        edges = column.edge_array
        last = 1.0 if isinstance(column, Whole) else 0.0
        found[: column.present] = (edges[:-1] + edges[1:] - last) / 2.0
        return found
    if not isinstance(column, Listed) or column.values is None or column.stems:
        return None
    if not column.values or any(isinstance(value, str) for value in column.values):
        return None
    found[: len(column.values)] = [float(value) for value in column.values]
    return found


def ranges_of(column: Column) -> tuple[Floats, Floats] | None:
    """The least and the greatest number of each code, both of shape [codes]; see `scores_of`."""
    middles = scores_of(column)
    if middles is None or not isinstance(column, Integer | Real):
        return None if middles is None else (middles, middles)
    least, greatest = middles.copy(), middles.copy()
    edges = column.edge_array
    least[: column.present] = edges[:-1]
    greatest[: column.present] = edges[1:] - (1.0 if isinstance(column, Whole) else 0.0)
    return least, greatest


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
            parts = [table.sigmas.transpose(axes) ** -2.0 for table, axes in zip(same, turned, strict=True)]
            weighted = sum(
                table.values.transpose(axes) * part
                for table, axes, part in zip(same, turned, parts, strict=True)
            )
            precision: Floats = np.sum(parts, axis=0)
            first = NoisyMarginal(first.clique, weighted / precision, precision**-0.5)
        found.append(first)
    return tuple(found)


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
        self._held: dict[frozenset[str], bool] = {}
        self._pooled: dict[Clique, tuple[Floats, dict[int, Floats], Floats]] = {}

    @property
    def measurements(self) -> tuple[NoisyMarginal, ...]:
        """The released tables by their place, those of the same columns as one."""
        return self._measurements

    def holds(self, clique: Sequence[str]) -> bool:
        """Whether a measured table has all these columns."""
        wanted = frozenset(clique)
        if wanted not in self._held:
            self._held[wanted] = any(wanted <= names for names in self._sets)
        return self._held[wanted]

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
        if clique not in self._pooled:
            weighted: Floats = np.zeros(self._domain.shape(clique))
            total: Floats = np.zeros(self._domain.shape(clique))
            shares, wanted = {}, frozenset(clique)
            for place, table in enumerate(self._measurements):
                if self._sets[place] >= wanted:
                    precision = 1.0 / sum_out(table.sigmas**2, table.clique, clique)
                    weighted += sum_out(table.values, table.clique, clique) * precision
                    total += precision
                    shares[place] = precision
            parts = {place: part / total for place, part in shares.items()}
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
        sizes, variances = table.values.shape, table.sigmas**2
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
