"""What the released tables say, and how far a fitted distribution is from them. Post-processing only.

How well the distribution fits the tables that were released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import shares
from margrave.privacy.accounting.events import read_appraisal
from margrave.release import NoisyMarginal, Release
from margrave.report.html import Markup, count, format_fixed, join, mark_name, percent, row, table, tag
from margrave.schema.domain import Clique
from margrave.schema.encoded import Encoded, tabulate_rows

if TYPE_CHECKING:
    from margrave.protocols import Model

Table = NDArray[np.float64]

MAX_CELLS_OF_PAIRS = 30_000_000
"""Cells of the tables of all pairs that one look for a page takes in, a bound on time. Not measured."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A table of noisy counts, combined from all releases that tell it.

    Args:
        clique: Attribute names, in the order of the axes.
        values: Noisy counts in rows, shape [size of each attribute].
        sigmas: Standard deviation of each cell's noise in rows, shape of values.
        sources: The cliques it was combined from.
    """

    clique: Clique
    values: Table
    sigmas: Table
    sources: tuple[Clique, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """How far a distribution is from a released table.

    Args:
        clique: Attribute names.
        distance: Half the sum of the absolute differences, as shares of all rows. Noise makes counts that
            are below zero and sums that are not 1, so it may pass 1, which a total variation cannot.
        floor: Its expectation if noise were the only difference: sqrt(2 / pi) * sum(sigma) / (2 N).
        limit: floor plus two standard deviations of the same.
        cells: Number of cells.
    """

    clique: Clique
    distance: float
    floor: float
    limit: float
    cells: int

    @property
    def ratio(self) -> float:
        """Distance in units of the noise floor."""
        return self.distance / self.floor

    @property
    def within(self) -> bool:
        """Whether noise alone can account for the distance."""
        return self.distance <= self.limit


class Released:
    """The released tables of one run, by clique.

    Args:
        release: What left the private side.
    """

    def __init__(self, release: Release) -> None:
        self.domain = release.domain
        self.rows = max(float(release.total), 1.0)
        self.appraisals = tuple(filter(None, map(read_appraisal, release.events)))
        self._by_set: dict[frozenset[str], list[NoisyMarginal]] = {}
        for marginal in release.measurements:
            self._by_set.setdefault(frozenset(marginal.clique), []).append(marginal)
        self._holding: dict[str, list[frozenset[str]]] = {}
        for key in self._by_set:
            for name in key:
                self._holding.setdefault(name, []).append(key)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """The distinct cliques measured, in order of first release, the bare row count left out."""
        return tuple(group[0].clique for key, group in self._by_set.items() if key)

    @property
    def pairs(self) -> tuple[Clique, ...]:
        """The pairs of attributes that some measured table holds, in the domain's order."""
        index = {name: position for position, name in enumerate(self.domain.names)}
        held = {
            pair for clique in self.cliques for pair in combinations(sorted(clique, key=index.__getitem__), 2)
        }
        return tuple(sorted(held, key=lambda pair: (index[pair[0]], index[pair[1]])))

    def estimate_measured(self, clique: Clique) -> Estimate:
        """The table of a measured clique, all its measurements averaged by 1 / sigma^2."""
        return self._combine(clique, self._by_set[frozenset(clique)])

    def estimate(self, clique: Clique) -> Estimate | None:
        """The table of a clique from every measured table that holds it; None if there is none."""
        wanted = frozenset(clique)
        near = min((self._holding.get(name, []) for name in clique), key=len)
        found = [marginal for key in near if wanted <= key for marginal in self._by_set[key]]
        return self._combine(clique, found) if found else None

    def fit(self, estimate: Estimate, share: Table) -> Fit:
        """How far a distribution (shares that sum to 1, shape of values) is from a released table."""
        distance = float(np.abs(estimate.values / self.rows - share).sum()) / 2
        spread = math.sqrt((1 - 2 / math.pi) * float(np.square(estimate.sigmas).sum()))
        mean = math.sqrt(2 / math.pi) * float(estimate.sigmas.sum())
        floor, limit = mean / (2 * self.rows), (mean + 2 * spread) / (2 * self.rows)
        return Fit(estimate.clique, distance, floor, limit, estimate.values.size)

    def _combine(self, clique: Clique, marginals: Sequence[NoisyMarginal]) -> Estimate:
        precision = np.zeros(self.domain.shape(clique))
        weighted = np.zeros_like(precision)
        for marginal in marginals:
            values = _sum_onto(marginal.values, marginal.clique, clique)
            weight = 1 / _sum_onto(np.square(marginal.sigmas), marginal.clique, clique)
            precision += weight
            weighted += weight * values
        sources = tuple(dict.fromkeys(marginal.clique for marginal in marginals))
        return Estimate(clique, weighted / precision, 1 / np.sqrt(precision), sources)


class Fitted:
    """The distribution set against the releases: the model's, or that of synthetic rows.

    Args:
        model: The fitted model, or None.
        synthetic: Synthetic rows, used where there is no model.
    """

    def __init__(self, model: Model | None, synthetic: Encoded | None) -> None:
        self.model = model
        self._synthetic = synthetic

    @property
    def name(self) -> str:
        """What the distribution is, in words."""
        return "model" if self.model is not None else "synthetic rows"

    def shares(self, cliques: Sequence[Clique]) -> list[Table] | None:
        """The cliques' tables as shares that sum to 1; None if there is neither model nor rows."""
        if self.model is not None:
            return [shares(np.asarray(table)) for table in self.model.project_many(list(cliques))]
        if self._synthetic is not None:
            return [rows_share(self._synthetic, clique) for clique in cliques]
        return None


def rows_share(rows: Encoded, clique: Clique) -> Table:
    """The share of synthetic rows in each cell of a clique's table."""
    return shares(tabulate_rows(rows, rows.domain, clique))


def _sum_onto(table: Table, clique: Clique, onto: Clique) -> Table:
    """The table summed over the axes that are not wanted, axes in the order wanted."""
    gone = tuple(axis for axis, name in enumerate(clique) if name not in onto)
    kept = [name for name in clique if name in onto]
    summed: Table = np.asarray(table.sum(axis=gone)).transpose([kept.index(name) for name in onto])
    return summed


WORST_LISTED = 8
"""Tables that are listed, those of the largest misfit over the noise; set for reading, not measured."""
FIT_HEADS = ("Table", "Cells", "Distance", "Noise floor", "Ratio", "Within noise")


@dataclass(frozen=True, slots=True)
class TableFits:
    """The fit to every measured table.

    Args:
        fits: One for each distinct measured table, in order of release; None without a distribution.
        name: What the distribution is.
    """

    fits: tuple[Fit, ...] | None
    name: str

    @classmethod
    def of(cls, released: Released, fitted: Fitted) -> TableFits:
        """Compare the distribution with every measured table."""
        shares = fitted.shares(released.cliques)
        if shares is None:
            return cls(None, "nothing")
        pairs = zip(released.cliques, shares, strict=True)
        return cls(
            tuple(released.fit(released.estimate_measured(clique), share) for clique, share in pairs),
            fitted.name,
        )

    def render(self) -> Markup:
        """The section of the page."""
        if not self.fits:
            return tag("p", "There is no distribution to compare with the released tables.")
        good = sum(fit.within for fit in self.fits)
        worst = sorted(self.fits, key=lambda fit: -fit.ratio)[:WORST_LISTED]
        return join(
            tag(
                "p",
                tag("strong", f"{percent(good / len(self.fits), 0)} of the measured tables"),
                (
                    f" ({good} of {count(len(self.fits))}) are fitted by the {self.name} as closely as "
                    "their noise lets anyone tell: the distance is no larger than noise alone would "
                    "often make it."
                ),
                class_="lead",
            ),
            tag(
                "p",
                (
                    f"The noise itself moves a released table of one column by {_middle(self.fits, 1)} "
                    f"and of two columns by {_middle(self.fits, 2)} of all rows (medians of the distance). "
                    "This is the size of error to expect between a released table and the private one."
                ),
            ),
            table(
                f"The {len(worst)} tables fitted worst", FIT_HEADS, [fit_row(fit) for fit in worst], numeric=5
            ),
            tag(
                "p",
                (
                    "This verdict is made of released quantities alone, so it speaks of the tables "
                    "that were measured. What was not measured is inferred, and its error is not known "
                    "here."
                ),
                class_="note",
            ),
        )


def fit_row(fit: Fit) -> Markup:
    """One table's fit as a line."""
    return row(
        clique_text(fit.clique),
        count(fit.cells),
        format_fixed(fit.distance, 4),
        format_fixed(fit.floor, 4),
        f"{format_fixed(fit.ratio, 2)}",
        "yes" if fit.within else "no",
        numeric=5,
        css=None if fit.within else "beyond",
    )


def clique_text(clique: Sequence[str]) -> Markup:
    """The names of a clique."""
    parts = [join(" × " if place else "", mark_name(name, limit=32)) for place, name in enumerate(clique)]
    return join(*parts)


def _middle(fits: Sequence[Fit], width: int) -> str:
    floors = [fit.floor for fit in fits if len(fit.clique) == width]
    return format_fixed(median(floors), 4) if floors else "(none measured)"
