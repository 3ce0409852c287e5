"""choose: the exponential mechanism on how badly a model fits candidate marginals.

The score of candidate r is q_r = w_r (‖M_r(D) - E_r‖_1 - b_r), or with a public table P_r that competes
with a measurement of r, q_r = w_r (‖M_r(D) - E_r‖_1 - ‖M_r(D) - P_r‖_1 - b_r).

**Privacy.** Unit and adjacency: the ledger's. E_r, P_r, w_r and b_r depend on earlier releases and on public
tables only. By the triangle inequality each of the two distances moves by at most l1, the L1 sensitivity of
one marginal. So q_r moves by at most w_r l1 without P_r and by at most 2 w_r l1 with it, and S is the largest
of these over the candidates. The factor 2 is met: for M(D) = (5, 5) and its neighbour (6, 4) under
replace_one, l1 = 2, E = (0, 10) and P = (10, 0), the score goes from 0 to 4. The draw is
epsilon-DP and epsilon^2/8-zCDP (bounded range; Cesar and Rogers 2021); in GDP it costs pi epsilon^2 / 16
(`margrave.privacy.accounting.accountants.GDP`). epsilon is the root of rho over the price of epsilon 1,
rounded down to a fraction. *Floating point*: E_r, P_r and b_r are first rounded to
multiples of a public power of two, 2^-16 or coarser, chosen so that every weighted sum for tables of up to
2^33 rows is a whole number of steps below 2^53. Such sums are exact in float64, so the computed score is
the real one and has exactly its sensitivity. The draw is exact (`margrave.privacy.noise.exponential`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.accounting.events import ExponentialEvent
from margrave.privacy.ledger.history import FULLY_SPENT, Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource, exponential

MAX_DIGITS = 16
"""Binary digits after the point of rounded expected counts and penalties; fewer where they or the noise are
large."""
ROWS = float(1 << 33)
"""More rows than a table in memory has."""
CHUNK = 1 << 20
"""Cells whose differences are held at once."""


def choose(
    counts: Callable[[], Sequence[NDArray[np.integer]]],
    expected: Sequence[NDArray[np.float64]],
    rho: Fraction,
    weights: Sequence[int] | None,
    penalties: Sequence[float] | None,
    l1: int,
    ledger: Ledger,
    noise: BitSource,
    rivals: Sequence[NDArray[np.float64] | None] | None = None,
) -> int:
    """Draw candidate r with probability proportional to exp(epsilon q_r / (2 S)).

    **Privacy.** Costs rho; proof at the head of this file.

    Args:
        counts: Gives the exact tables; not called when a resumed run has the answer already.
        expected: The model's tables, in rows.
        rho: What the draw may cost.
        weights: Whole numbers of at least 0, not all 0; 1 each by default.
        penalties: b_r; 0 each by default.
        l1: L1 sensitivity of one marginal.
        ledger: Where the spend is recorded.
        noise: Source of random bits.
        rivals: P_r, in rows, or None; None for all of them by default.

    Raises:
        InputError: No candidate, or lists of different lengths, or all weights 0.
        BudgetError: rho does not fit.
    """
    size = len(expected)
    whole, shift = _check_weights(size, weights, penalties)
    # Exact in double precision only: counts of few bytes less a table of single precision are single.
    expected = [np.asarray(table, dtype=np.float64) for table in expected]
    others = [None] * size if rivals is None else list(rivals)
    if len(others) != size:
        raise InputError(invalid("rivals", "one table or None a candidate", "Check the lists."))
    # With a rival the score is a difference of two distances, and its sensitivity doubles.
    held = np.array([other is not None for other in others])
    compared = [np.zeros(1) if other is None else np.asarray(other, dtype=np.float64) for other in others]
    # Scores are whole numbers of one grid, since the mechanism is exact only on those. Where a rival takes
    # part two distances are subtracted, so its tables have to fit with twice the weight.
    grid = min(_grid(whole, expected, shift), _grid(2 * whole, compared, shift))
    # A row moves a distance by l1 at most; a difference of two distances by twice that.
    sensitivity = Fraction(int((whole * np.where(held, 2, 1)).max()) * l1)
    epsilon = epsilon_of(ledger.price(rho), ledger.accountant.choice_price)
    event = ExponentialEvent(f"choice among {size} marginals", epsilon, sensitivity, size)

    def draw(tables: Sequence[NDArray[np.integer]]) -> Answer:
        scores = _scores(tables, expected, whole, shift, grid)
        for place in np.flatnonzero(held).tolist():
            scores[place] -= whole[place] * _distance(tables[place], compared[place], grid)
        # The index is stored as a float array, since answers of a ledger are arrays of floats.
        return Answer((np.array(float(exponential(scores, epsilon, sensitivity, noise))),))

    return _index(ledger.ask([event], counts, draw), size)


def _index(answer: Answer, size: int) -> int:
    """The candidate drawn, which a stored answer must name too."""
    index = int(answer.arrays[0])
    if not 0 <= index < size:
        raise InputError(invalid("ledger", "one with intact answers", FULLY_SPENT))
    return index


def _distance(table: NDArray[np.integer], rival: NDArray[np.float64], grid: float) -> float:
    """‖M_r(D) - P_r‖_1 with P_r rounded to the grid, exact. **Not private.**"""
    return float(np.abs(table - np.rint(rival * grid) / grid).sum())


def _scores(
    tables: Sequence[NDArray[np.integer]],
    expected: Sequence[NDArray[np.float64]],
    weights: NDArray[np.int64],
    penalties: NDArray[np.float64],
    grid: float,
) -> NDArray[np.float64]:
    """q_r of each candidate, exact: [candidates]. **Not private.**"""
    distances = _sum_tables(
        [table.size for table in tables],
        lambda some: np.abs(_join_tables(tables[some]) - np.rint(_join_tables(expected[some]) * grid) / grid),
    )
    return np.asarray(weights * (distances - np.rint(penalties * grid) / grid), dtype=np.float64)


def _check_weights(
    size: int, weights: Sequence[int] | None, penalties: Sequence[float] | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Weights and penalties as arrays of shape [candidates]."""
    whole = np.ones(size, dtype=np.int64) if weights is None else np.asarray(weights, dtype=np.int64)
    shift = np.zeros(size) if penalties is None else np.asarray(penalties, dtype=np.float64)
    if not size or len(whole) != size or len(shift) != size:
        raise InputError(invalid("candidates", "one or more, each with all its parts", "Check the lists."))
    if whole.min() < 0 or whole.max() < 1:
        raise InputError(invalid("weights", "not negative and not all 0", "Drop empty candidates."))
    return whole, shift


def epsilon_of(rho: Fraction, price: Fraction) -> Fraction:
    """The largest multiple of 2^-40 whose square times the price of epsilon 1 is at most rho."""
    # The root of rho times 2^80 in whole numbers, cut off, so that epsilon's price never exceeds rho.
    root = math.isqrt(math.floor(rho / price * (1 << 80)))
    return Fraction(root, 1 << 40)


def _grid(
    weights: NDArray[np.int64], expected: Sequence[NDArray[np.float64]], penalties: NDArray[np.float64]
) -> float:
    """Steps a row, a power of two of at least 1, from public numbers alone.

    Raises:
        InputError: The expected counts or the penalties are too large for exact sums, or not finite.
    """
    sums = _sum_tables([table.size for table in expected], lambda some: np.abs(_join_tables(expected[some])))
    sizes = sums + np.abs(penalties)
    # Sums of counts and expected cells, with their weights, are to be whole numbers of steps below 2^53.
    largest = float((weights * (ROWS + sizes)).max())
    if not largest < 2.0**52:
        raise InputError(invalid("expected", "finite and below 2^52 with their weights", "Check the model."))
    return 2.0 ** min(MAX_DIGITS, 52 - math.ceil(math.log2(largest)))


def _sum_tables(sizes: Sequence[int], cells: Callable[[slice], NDArray[np.float64]]) -> NDArray[np.float64]:
    """Sums of tables by table, shape [tables], a few tables' cells at a time.

    Args:
        sizes: Cells of each table, at least 1.
        cells: The cells of some tables, one after the other.
    """
    ends, found, first = np.cumsum(sizes), np.empty(len(sizes)), 0
    while first < len(sizes):
        before = int(ends[first - 1]) if first else 0
        # As many tables as fit into CHUNK cells, and always one.
        last = max(int(np.searchsorted(ends, before + CHUNK, side="right")), first + 1)
        starts = np.append(before, ends[first : last - 1]) - before
        found[first:last] = np.add.reduceat(cells(slice(first, last)), starts)
        first = last
    return found


def _join_tables(tables: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([table.reshape(-1) for table in tables])
