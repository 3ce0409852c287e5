"""Slices: all of rho for one noisy copy of every row, from which the tables of all pairs follow.

SliceTraining: the same, for generators that are trained against the copies.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, cast, final

import numpy as np

from margrave.errors import InputError, invalid
from margrave.limits import Deadline, Effort, machine_memory
from margrave.progress import OnStep, Step
from margrave.release import NoisyMarginal, NoisySlices, project_simplex
from margrave.schema.features import RowNumbers
from margrave.select._steps.one_ways import all_cliques
from margrave.select.strategy import Shares, Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from margrave.privacy.unit import Neighbours
    from margrave.protocols import Curator, Fitter, LearnsFrom, Model, SlicesFitter

MAX_CODES = 20_000
"""Codes of all attributes together: second moments have the square of it, 3.2 GB of float64."""
BYTES = 40
"""Memory for each number of a noisy copy at the door: exact, noise and sum, of 8 bytes, and what holds two of
them at once."""


class _NoisyCopies(Strategy):
    """What strategies share that buy one noisy copy of every row."""

    __slots__ = ()
    needs_rows: ClassVar[bool] = True
    gaussian_only: ClassVar[bool] = True
    adjacencies: ClassVar[frozenset[str] | None] = frozenset({"replace_one", "zero_out"})

    def split_rho(self, counted: bool) -> Shares:
        """All of it for the noisy copies."""
        return {"noisy copies of all rows": Fraction(1)}

    def share_marginal(self, columns: int) -> Shares:
        """None: no marginal is bought, all of them follow from the noisy copies."""
        return {}

    def bound_copies(self, sizes: Sequence[int], neighbours: Neighbours) -> int | None:
        """The square of the largest change of the noisy copies: what the door finds for indicators of codes.

        A row that is emptied loses one indicator of each attribute. One that is replaced may change two of
        each attribute that has two codes.
        """
        if neighbours.adjacency == "replace_one":
            return max(2 * sum(size > 1 for size in sizes), 1)
        return len(sizes)

    def check_neighbours(self, neighbours: Neighbours) -> None:
        """Check, before anything is spent, that single rows of a public number are protected.

        Raises:
            InputError: They are not.
        """
        Strategy.check_neighbours(self, neighbours)
        if neighbours.unit.owner is not None:
            remedy = "Keep one row of each owner first, and leave the owner's column out."
            raise InputError(invalid("owner", "left out where every row is released with noise", remedy))

    def _buy_copies(self, curator: Curator, fitter: Fitter, on_step: OnStep) -> NoisySlices:
        """The copies, once it is checked that the fitter will take what follows from them."""
        domain = curator.domain
        if sum(domain.sizes) > MAX_CODES:
            remedy = "Leave out columns with very many values, or use another method."
            raise InputError(invalid("table", f"of at most {MAX_CODES} codes in all for slices", remedy))
        # The number of rows is public here, so that a refusal by it tells nothing.
        limit, needed = machine_memory(), BYTES * (curator.public_rows or 1.0) * sum(domain.sizes)
        if limit is not None and needed > limit:
            constraint = f"one whose noisy copies fit into this machine's memory, not {needed / 1e9:.2g} GB"
            raise InputError(invalid("table", constraint, "Release fewer rows, columns or bins."))
        fitter.admit(domain, all_cliques(domain, min(2, len(domain)), MAX_CODES**2))
        on_step(Step("measure", "noisy copies of all rows", 0, curator.progress))
        return curator.slices(RowNumbers.indicate_codes(domain), curator.remaining)


@final
@dataclass(frozen=True, slots=True)
class Slices(_NoisyCopies):
    """The slicing mechanism (Greenewald, Yu, Wang and Xu 2024) on indicators of codes, and its second
    moments.

    Every row becomes a vector of indicators and is released with Gaussian noise. The mean over rows of
    products of two numbers of it is an unbiased estimate of a cell of a pair's table, with a known variance
    (`NoisySlices.tables`), and any model that is fitted to pairs can be fitted to these. The paper trains a
    generator against projections instead: `SliceTraining`.

    The noise of one row is as large as its signal, so a cell of n rows is known to about c / mu^2 in units of
    root n with c attributes, where counting it centrally has noise that does not grow with n. It is there to
    compare with, and for features that no table of counts can hold.

    **Privacy.** One answer of the curator's (`margrave.measure.mechanisms.slices` has the proof), Gaussian,
    so GDP accounting applies. All of rho is spent. The adjacency has to keep the number of rows: "zero_out"
    or "replace_one".
    """

    name: ClassVar[str] = "slices"

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model fitted to the tables of all pairs.

        deadline: when the fit stops and returns the best so far.

        Raises:
            InputError: The attributes have too many codes, the copies would not fit into memory, or the
                adjacency or the unit is not one that slices protect.
        """
        self._buy_copies(curator, fitter, on_step)
        on_step(Step("fit", "tables of all pairs", 0, 1.0))
        effort = Effort(deadline=deadline)
        total = curator.public_rows
        tables = shrink_pairs(curator.measurements, total or 1.0)
        return fitter.fit(curator.domain, tables, total=total, effort=effort)


@final
@dataclass(frozen=True, slots=True)
class SliceTraining(_NoisyCopies):
    """The slicing mechanism on indicators of codes, for a generator that is trained against the copies.

    What is bought and what it costs are those of `Slices`; the fitter has to learn from noisy copies. The
    training looks at released numbers alone, so it may be repeated with other losses, networks and seeds.

    **Privacy.** As for `Slices`.
    """

    name: ClassVar[str] = "slice_training"
    learns_by: ClassVar[LearnsFrom] = "slices"

    def run(
        self, curator: Curator, fitter: Fitter, on_step: OnStep, deadline: Deadline | None = None
    ) -> Model:
        """Spend the curator's rho and return the model of the trained generator.

        deadline: when the training stops.

        Raises:
            InputError: The fitter does not learn from noisy copies, the attributes have too many codes, the
                copies would not fit into memory, the table has fewer than two rows, or the adjacency or the
                unit is not one that slices protect.
        """
        self.check_fitter(fitter)
        if (curator.public_rows or 0.0) < 2.0:  # it tells nothing: see `_buy_copies`
            remedy = "Release more rows, or use 'slicing'."
            raise InputError(invalid("table", "of at least 2 rows to train against their copies", remedy))
        copies = self._buy_copies(curator, fitter, on_step)
        on_step(Step("fit", "a generator", 0, 1.0))
        return cast("SlicesFitter", fitter).fit_slices(
            curator.domain, curator.measurements, copies, effort=Effort(deadline=deadline)
        )


FLOOR = 0.001
"""Part of a table's noise that an estimate is said to keep at least, so that weights are finite. On survey-a,
tax-a, visits-a and parities-a of the choosing half .001, .05 and .3 gave the same errors within the noise of
one fit."""


def shrink_pairs(measurements: Sequence[NoisyMarginal], total: float) -> list[NoisyMarginal]:
    """Tables of single attributes as they are, and those of pairs moved towards the product of the two.

    Noise of a pair's table that is not that of its two attributes sums to 0 along both, and has in each of
    the m m' cells the variance that the table says: m m' / f of it in each of f = (m - 1)(m' - 1) degrees of
    freedom. Of the squared difference from the product, in units of a cell's noise, m m' are expected of
    noise alone. The difference is multiplied by 1 - f / (squared difference), not below 0: the positive-part
    James-Stein estimator with f^2 / (m m') for its constant, with which for f of three or more the expected
    squared error is never larger than without; for fewer it is for some tables. That is less than all of the
    noise: the model that is fitted averages over pairs, and taking m m' off left it further from the truth
    (bench/LOG.md). The same factor is the part of the noise's variance that the difference keeps; the product
    has, to first order, the variance of its two factors.

    Args:
        measurements: Noisy tables, of every single attribute that is in a pair among them.
        total: The number of rows.

    Returns:
        Tables with the standard deviations of the estimates, in the order given.
    """
    single = {table.clique[0]: table for table in measurements if len(table.clique) == 1}
    ones = {
        name: total * project_simplex(table.values / total, np.ones(table.values.shape))
        for name, table in single.items()
    }
    found = []
    for table in measurements:
        if len(table.clique) != 2:
            found.append(table)
            continue
        (first, second), (one, other) = table.clique, (single[name] for name in table.clique)
        expected = np.multiply.outer(ones[first], ones[second]) / total
        uncertain = np.multiply.outer(one.sigmas**2, ones[second] ** 2)
        uncertain += np.multiply.outer(ones[first] ** 2, other.sigmas**2)
        difference = table.values - expected
        freedom = (table.values.shape[0] - 1) * (table.values.shape[1] - 1)
        squared = float((difference**2 / table.sigmas**2).sum())
        kept = max(1.0 - freedom / squared, 0.0) if squared > 0 else 0.0
        variance = kept * table.sigmas**2 + (1.0 - kept) * uncertain / total**2
        sigma = np.sqrt(np.maximum(variance, FLOOR * table.sigmas**2))
        found.append(NoisyMarginal(table.clique, expected + kept * difference, sigma))
    return found
