"""Linear inequalities among a few numbers, the same for all rows, with bounds of each row's own.

Fourier-Motzkin elimination: a variable is removed from a system A x <= b by adding up every inequality that
bounds it above with every one that bounds it below (Schrijver 1986, section 12.2). What is left is solvable
just when the whole is, and going back each variable gets the exact interval that is open to it given those
drawn before: no draw runs into a dead end. b has one column a row, so all rows are worked on at once.

The intervals are exact for numbers on a line. For whole numbers they are exact where every elimination pairs
coefficients of which one is 1 or -1, as it is for orders and sums that are not entangled; elsewhere a draw
may find no whole number, and says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid

__all__ = ["Inequality", "Tower", "eliminated"]

Floats = NDArray[np.float64]
Coefficients = tuple[int, ...]
Sized = tuple[Floats, Floats]
"""A bound, and the sum of the absolute values that it was made of."""

MOST = 400
"""Inequalities a system may grow to."""


@dataclass(frozen=True, slots=True)
class Inequality:
    """The sum of coefficients times variables is at most `bound`.

    Args:
        coefficients: One whole number a variable.
        bound: A number for all rows, or one a row, [rows].
    """

    coefficients: Coefficients
    bound: Any


@dataclass(frozen=True, slots=True)
class Tower:
    """A system with its variables eliminated one by one.

    Args:
        levels: For each variable, the first eliminated first: its position and the inequalities on it that
            mention no variable eliminated before.
        slack: What the inequalities without variables leave, the least of them in each row, [rows]: the
            system is solvable where it is at least 0.
    """

    levels: tuple[tuple[int, tuple[Inequality, ...]], ...]
    slack: Floats

    def solved(self, grains: Sequence[float], rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """A solution for each row, each variable even in the interval left to it, [variables, rows].

        Args:
            grains: The step of which each variable is a whole multiple; 0 for a number on a line.
            rng: Source of randomness.

        Returns:
            The solutions, and in which rows some interval had nothing in it.
        """
        rows = len(self.slack)
        found, failed = np.zeros((len(grains), rows)), np.zeros(rows, dtype=np.bool_)
        for v, inequalities in reversed(self.levels):
            low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
            for inequality in inequalities:
                rest = np.zeros(rows)
                for u, factor in enumerate(inequality.coefficients):
                    if factor and u != v:
                        rest += factor * found[u]
                a = inequality.coefficients[v]
                limit = (inequality.bound - rest) / a
                low, high = (low, np.minimum(high, limit)) if a > 0 else (np.maximum(low, limit), high)
            found[v], empty = _drawn(low, high, grains[v], rng)
            failed |= empty
        return found, failed


def eliminated(
    system: Sequence[Inequality], order: Sequence[int], whole: bool, rounding: float = 0.0
) -> Tower:
    """The system with the variables eliminated in some order.

    Args:
        system: One bound a row in each, or a number.
        order: Positions of the variables; the last is drawn first.
        whole: Whether all variables are whole numbers, so that bounds may be rounded down.
        rounding: What sums may be off by, over the sizes of what is added up.

    Raises:
        SchemaError: The system grows beyond MOST.
    """
    rows = max((np.size(one.bound) for one in system), default=1)
    held: dict[Coefficients, Sized] = {}
    for one in system:
        bound = np.broadcast_to(np.asarray(one.bound, dtype=np.float64), rows)
        _add(held, one.coefficients, (bound, np.abs(bound)), whole)
    levels = []
    for v in order:
        mine = {c: held.pop(c) for c in list(held) if c[v]}
        levels.append((v, tuple(Inequality(c, bound) for c, (bound, _) in mine.items())))
        for up, above in mine.items():
            for down, below in mine.items():
                if up[v] > 0 > down[v]:
                    a, b = up[v], -down[v]
                    joined = tuple(b * x + a * y for x, y in zip(up, down, strict=True))
                    _add(held, joined, (b * above[0] + a * below[0], b * above[1] + a * below[1]), whole)
        if len(held) > MOST:
            remedy = "Leave out rules that follow from others."
            raise SchemaError(
                invalid("rules", f"of at most {MOST} joint inequalities", remedy, got=len(held))
            )
    slack = np.full(rows, np.inf)
    for bound, size in held.values():
        slack = np.minimum(slack, bound + rounding * size)
    return Tower(tuple(levels), slack)


def _add(held: dict[Coefficients, Sized], coefficients: Coefficients, added: Sized, whole: bool) -> None:
    """Keep an inequality in lowest terms, the tighter one of two with equal coefficients."""
    bound, size = added
    divisor = math.gcd(*coefficients)
    if divisor > 1:
        coefficients = tuple(c // divisor for c in coefficients)
        bound, size = np.floor(bound / divisor) if whole else bound / divisor, size / divisor
    if coefficients in held:
        known, other = held[coefficients]
        bound, size = np.minimum(known, bound), np.where(known <= bound, other, size)
    held[coefficients] = (bound, size)


def _drawn(
    low: Floats, high: Floats, grain: float, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """A number in each interval, and which intervals hold none."""
    part = rng.random(len(low))
    if grain == 0.0:
        width = np.maximum(high - low, 0.0)
        # Rounding may leave the two ends of one point in the wrong order; that is no empty interval.
        return np.minimum(low + part * width, np.maximum(high, low)), high < low - 1e-9 * np.abs(low)
    near = 1e-9 + 1e-15 * np.abs(low / grain)
    first = np.ceil(low / grain - near)
    count = np.floor(high / grain + near) - first + 1.0
    step = first + np.floor(part * np.maximum(count, 1.0))
    return step * grain, count < 1.0
