"""Gaussian: noise on exact tables of counts, recorded first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource, discrete_gaussian, rounded_gaussian
from margrave.privacy.noise.sampling import MAX_VARIANCE

LARGEST_NOISE = 58
"""Binary digits that a variance in whole steps may have: the samplers take 2^60."""
GRID = 1 << 30
"""sigma^2 is rounded up to a multiple of 1 / GRID, so that it is a small exact fraction."""

Tables = Sequence[NDArray[np.int64]]


def _keep(tables: Tables) -> Tables:
    return tables


class Gaussian:
    """The Gaussian mechanism on tables of integers, by default of counts.

    **Privacy.** Unit and adjacency: the ledger's. One table of counts moves by at most
    sqrt(l2_squared) in L2 between neighbours (`Neighbours`); for other integers the caller proves l2_squared.
    Independent noise of variance
    sigma^2 = l2_squared / (2 rho), rounded up, in every cell costs at most rho in zCDP. Under "zcdp" the
    noise is the discrete Gaussian (Canonne, Kamath, Steinke 2020, Theorem 4 and its corollary for
    integer vectors); under "gdp" it is the continuous Gaussian rounded to integers, a post-processing of
    the continuous mechanism since counts are integers, so that mu^2 = l2_squared / sigma^2 exactly.

    Args:
        ledger: Where spends are recorded.
        noise: Source of random bits.
        l2_squared: Squared L2 sensitivity of a table; that of one marginal by default.
    """

    def __init__(self, ledger: Ledger, noise: BitSource, l2_squared: int | None = None) -> None:
        self._ledger = ledger
        self._noise = noise
        self.rounded = ledger.accountant.name == "gdp"
        self.l2_squared = ledger.neighbours.marginal_l2_squared if l2_squared is None else l2_squared

    def with_sensitivity(self, l2_squared: int) -> Gaussian:
        """The same mechanism for answers of another squared L2 sensitivity, which the caller proves."""
        return Gaussian(self._ledger, self._noise, l2_squared)

    def joint(self, tables: int) -> Gaussian:
        """The mechanism for so many tables of counts that are released as one vector of all their cells.

        A unit moves each table by at most sqrt(l2_squared) in L2, so the vector by at most
        sqrt(tables * l2_squared).
        """
        return self.with_sensitivity(tables * self.l2_squared)

    def sigma_squared(self, rho: Fraction) -> Fraction:
        """The variance that rho buys, exact and on the safe side."""
        return _variance(self.l2_squared, self._ledger.price(rho))

    def sigma(self, rho: Fraction) -> float:
        """Standard deviation of the noise in a cell that rho buys, in the table's unit."""
        return self.deviation(self.sigma_squared(rho))

    def count_tables(self, rho: Fraction, deviation: float) -> int:
        """How many tables may be asked for together such that rho leaves no more noise in a cell."""
        return int(min((deviation / self.sigma(rho)) ** 2, 1e9))

    def find_cost(self, rho: Fraction, deviation: float) -> Fraction:
        """What buys noise of a standard deviation in a cell, at most rho."""
        needed = (self.sigma(rho) / deviation) ** 2
        return rho * Fraction(math.ceil(min(needed, 1.0) * 4096), 4096)

    def deviation(self, variance: Fraction) -> float:
        """Standard deviation of the noise of a variance: rounding adds to it."""
        return _deviation(variance, self.rounded)

    def ask(
        self,
        names: Sequence[str],
        rho: Fraction,
        exact: Callable[[], Tables],
        make: Callable[[Tables], Tables] = _keep,
    ) -> tuple[list[NDArray[np.float64]], float]:
        """Tables plus noise, and its sigma; each table costs rho.

        Args:
            names: What each table is, in public words, for the ledger.
            rho: What each of them may cost, above 0.
            exact: Counts the tables; not called when a resumed run has the answer already. It is called
                before the spends are recorded, so it may be the package's own counting only.
            make: What is made of them before noise is added: one table a name. It is called once the spends
                are recorded, so that what a foreign function tells by failing is paid for.

        Raises:
            BudgetError: The spends do not fit; none is recorded.
        """
        variance = check_drawable(self.sigma_squared(rho))
        if not names:
            return [], self.deviation(variance)
        events = [GaussianEvent(name, self.l2_squared, variance, self.rounded) for name in names]
        found = self._ledger.ask(
            events, exact, lambda tables: Answer(tuple(self.noisy(table, variance) for table in make(tables)))
        )
        return list(found.arrays), self.deviation(variance)

    def noisy(self, table: NDArray[np.int64], variance: Fraction) -> NDArray[np.float64]:
        """The table plus noise of a variance; to be called inside `Ledger.ask` only."""
        # Rounded noise under GDP, discrete under zCDP: each has the proof that its accountant needs.
        draw = rounded_gaussian if self.rounded else discrete_gaussian
        noise = draw(variance, table.size, self._noise)
        return (table + noise.reshape(table.shape)).astype(np.float64)


def sigma_for(ledger: Ledger, rho: Fraction, l2_squared: int | None = None) -> float:
    """Standard deviation of the noise that rho buys; rounding adds a variance of 1/12.

    Args:
        ledger: Whose accountant and neighbours count.
        rho: What is spent.
        l2_squared: Square of the largest change of the answer; None for that of one marginal.
    """
    squared = ledger.neighbours.marginal_l2_squared if l2_squared is None else l2_squared
    return _deviation(_variance(squared, rho), ledger.accountant.name == "gdp")


def check_drawable(variance: Fraction) -> Fraction:
    """The variance, if noise of it can be drawn: asked before a spend is recorded, or it would buy nothing.

    Raises:
        InputError: It is above what the samplers draw.
    """
    if variance > MAX_VARIANCE:
        raise InputError(invalid("rho", "enough for noise that can be drawn", "Spend more, or ask for less."))
    return variance


def _deviation(variance: Fraction, rounded: bool) -> float:
    return math.sqrt(float(variance) + (1 / 12 if rounded else 0.0))


def _variance(l2_squared: int, rho: Fraction) -> Fraction:
    if rho <= 0:
        raise InputError(invalid("rho", "above 0", "Give every measurement a share."))
    # Rounded up to the grid, so that noise is never less than what rho pays for.
    return Fraction(math.ceil(Fraction(l2_squared) / (2 * rho) * GRID), GRID)
