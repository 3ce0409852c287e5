"""choose: the exponential mechanism on how badly a model fits candidate marginals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.events import ExponentialEvent
from margrave.privacy.ledger import Ledger
from margrave.privacy.noise import BitSource, exponential

__all__ = ["choose", "epsilon_of"]

GRID = float(1 << 16)
"""Expected counts and penalties are rounded to multiples of 1 / GRID: see the proof."""


def choose(
    counts: Callable[[], Sequence[NDArray[np.int64]]],
    expected: Sequence[NDArray[np.float64]],
    rho: Fraction,
    weights: Sequence[int] | None,
    penalties: Sequence[float] | None,
    l1: int,
    ledger: Ledger,
    noise: BitSource,
) -> int:
    """Draw candidate r with probability proportional to exp(epsilon q_r / (2 S)).

    The score is q_r = w_r (‖M_r(D) - E_r‖_1 - b_r), with E_r the model's expected counts, b_r a penalty.

    **Privacy.** Unit and adjacency: the ledger's. E_r, w_r and b_r depend on earlier releases only. By the
    triangle inequality q_r moves by at most w_r times the L1 sensitivity of one marginal, so S = max_r
    w_r * l1. The draw is epsilon-DP and epsilon^2/8-zCDP (bounded range; Cesar and Rogers 2021), and
    epsilon = sqrt(8 rho) rounded down to a fraction. *Floating point*: E_r and b_r are first rounded to
    multiples of 2^-16, a public step. Sums of such numbers are exact in float64 as long as they stay
    below 2^37, so the computed score is the real one and has exactly its sensitivity. The draw itself
    is exact (`margrave.privacy.noise.exponential`).

    Args:
        counts: Gives the exact tables; called after the spend is recorded.
        expected: The model's tables, in rows.
        rho: What the draw may cost.
        weights: Whole numbers of at least 0, not all 0; 1 each by default.
        penalties: b_r; 0 each by default.
        l1: L1 sensitivity of one marginal.
        ledger: Where the spend is recorded.
        noise: Source of random bits.

    Returns:
        The index of the candidate drawn.

    Raises:
        InputError: No candidate, or lists of different lengths, or all weights 0.
        BudgetError: rho does not fit.
    """
    size = len(expected)
    whole = np.ones(size, dtype=np.int64) if weights is None else np.asarray(weights, dtype=np.int64)
    shift = np.zeros(size) if penalties is None else np.asarray(penalties, dtype=np.float64)
    if not size or len(whole) != size or len(shift) != size:
        raise InputError(invalid("candidates", "one or more, each with all its parts", "Check the lists."))
    if whole.min() < 0 or whole.max() < 1:
        raise InputError(invalid("weights", "not negative and not all 0", "Drop empty candidates."))
    sensitivity = Fraction(int(whole.max()) * l1)
    epsilon = epsilon_of(rho)
    ledger.record(ExponentialEvent(f"choice among {size} marginals", epsilon, sensitivity, size))
    scores = [
        weight * (_l1(table, model) - _on_grid(bias))
        for weight, table, model, bias in zip(whole, counts(), expected, shift, strict=True)
    ]
    return exponential(np.asarray(scores, dtype=np.float64), epsilon, sensitivity, noise)


def epsilon_of(rho: Fraction) -> Fraction:
    """The largest multiple of 2^-40 whose square over 8 is at most rho."""
    root = math.isqrt(math.floor(8 * rho * (1 << 80)))
    return Fraction(root, 1 << 40)


def _on_grid(value: float) -> float:
    return round(float(value) * GRID) / GRID


def _l1(table: NDArray[np.int64], model: NDArray[np.float64]) -> float:
    rounded = np.rint(model * GRID) / GRID
    return float(np.abs(table - rounded).sum())
