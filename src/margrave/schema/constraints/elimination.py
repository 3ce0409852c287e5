"""Linear inequalities among a few numbers, the same for all rows, with bounds of each row's own.

Fourier-Motzkin elimination: a variable is removed from a system A x <= b by adding up every inequality that
bounds it above with every one that bounds it below (Schrijver 1986, section 12.2). What is left is solvable
just when the whole is, and going back each variable gets the exact interval that is open to it given those
drawn before: no draw runs into a dead end. b has one column a row, so all rows are worked on at once.

The intervals are exact for numbers on a line. Multiples of a step, such as whole numbers, are counted in the
finest step and eliminated after all numbers on a line, finer ones first, so that these find an exact interval
between them. For multiples the intervals are exact where every elimination pairs coefficients of which one is
1 or -1, as it is for orders and sums that are not entangled (Pugh 1991, section 2.3.1: the exact shadow);
elsewhere a draw may find no multiple, and is made again, up to TRIES times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid

Floats = NDArray[np.float64]
Coefficients = tuple[int, ...]
Sized = tuple[Floats, Floats]
"""A bound, and the sum of the absolute values that it was made of."""

ROUNDING = 2.0**-46
"""What sums of numbers that are not whole may be off by, over the largest bound."""
MOST = 400
"""Inequalities a system may grow to."""
TRIES = 64
"""Draws of a row's numbers, at most, where intervals turn out to hold no multiple of a step."""


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
        stepped: Which variables are whole numbers; the others lie on a line.
        slack: What the inequalities without variables leave, the least of them in each row, [rows]: the
            system is solvable where it is at least 0.
    """

    levels: tuple[tuple[int, tuple[Inequality, ...]], ...]
    stepped: tuple[bool, ...]
    slack: Floats

    def solve(self, rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """A solution for each row, each variable even in the interval left to it, [variables, rows].

        Returns:
            The solutions, and in which rows some interval had nothing in it, in each of TRIES draws.
        """
        rows = np.arange(len(self.slack))
        found, failed = self._draw(rows, rng)
        for _ in range(TRIES - 1):
            rows = np.flatnonzero(failed & (self.slack >= 0.0))
            if not len(rows):
                break
            found[:, rows], failed[rows] = self._draw(rows, rng)
        return found, failed

    def _draw(self, rows: NDArray[np.int64], rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
        """One draw of some rows, [variables, rows], and where it ran into an interval with nothing in it."""
        found, failed = np.zeros((len(self.stepped), len(rows))), np.zeros(len(rows), dtype=np.bool_)
        for v, inequalities in reversed(self.levels):
            low, high = np.full(len(rows), -np.inf), np.full(len(rows), np.inf)
            for inequality in inequalities:
                rest = np.zeros(len(rows))
                for u, factor in enumerate(inequality.coefficients):
                    if factor and u != v:
                        rest += factor * found[u]
                a = inequality.coefficients[v]
                limit = (inequality.bound[rows] - rest) / a
                low, high = (low, np.minimum(high, limit)) if a > 0 else (np.maximum(low, limit), high)
            found[v], empty = _draw_between(low, high, self.stepped[v], rng)
            failed |= empty
        return found, failed


def eliminate_variables(
    system: Sequence[Inequality], order: Sequence[int], stepped: Sequence[bool], rounding: float = 0.0
) -> Tower:
    """The system with the variables eliminated in some order.

    Args:
        system: One bound a row in each, or a number.
        order: Positions of the variables; the last is drawn first.
        stepped: Which variables are whole numbers: bounds on these alone are rounded down.
        rounding: What sums may be off by, over the sizes of what is added up.

    Raises:
        SchemaError: The system grows beyond MOST.
    """
    rows = max((np.size(one.bound) for one in system), default=1)
    held: dict[Coefficients, Sized] = {}
    for one in system:
        bound = np.broadcast_to(np.asarray(one.bound, dtype=np.float64), rows)
        _add(held, one.coefficients, (bound, np.abs(bound)), stepped)
    levels = []
    for v in order:
        mine = {c: held.pop(c) for c in list(held) if c[v]}
        levels.append((v, tuple(Inequality(c, bound) for c, (bound, _) in mine.items())))
        # Fourier and Motzkin's step: a bound from above and one from below leave a bound without the
        # variable. Sizes are carried along, since they say how much rounding may have moved the sum.
        for up, above in mine.items():
            for down, below in mine.items():
                if up[v] > 0 > down[v]:
                    a, b = up[v], -down[v]
                    joined = tuple(b * x + a * y for x, y in zip(up, down, strict=True))
                    _add(held, joined, (b * above[0] + a * below[0], b * above[1] + a * below[1]), stepped)
        if len(held) > MOST:
            remedy = "Leave out rules that follow from others."
            raise SchemaError(
                invalid("rules", f"of at most {MOST} joint inequalities", remedy, got=len(held))
            )
    slack = np.full(rows, np.inf)
    for bound, size in held.values():
        slack = np.minimum(slack, bound + rounding * size)
    return Tower(tuple(levels), tuple(stepped), slack)


def _add(
    held: dict[Coefficients, Sized], coefficients: Coefficients, added: Sized, stepped: Sequence[bool]
) -> None:
    """Keep an inequality in lowest terms, the tighter one of two with equal coefficients."""
    bound, size = added
    divisor = math.gcd(*coefficients)
    if divisor > 1:
        coefficients = tuple(c // divisor for c in coefficients)
        bound, size = bound / divisor, size / divisor
    # Multiples of steps cannot lie between steps, so the bound may be cut to one.
    if divisor and all(one for c, one in zip(coefficients, stepped, strict=True) if c):
        bound = np.floor(bound + _near(size))
    if coefficients in held:
        known, other = held[coefficients]
        bound, size = np.minimum(known, bound), np.where(known <= bound, other, size)
    held[coefficients] = (bound, size)


def _near(size: Floats) -> Floats:
    """What rounding may have taken from a bound of some size: far less than strict orders ask for."""
    return np.minimum(ROUNDING * np.abs(size), 1e-3)


def _draw_between(
    low: Floats, high: Floats, stepped: bool, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """A number in each interval, whole where it is stepped, and which intervals hold none."""
    part = rng.random(len(low))
    if not stepped:
        width = np.maximum(high - low, 0.0)
        # Rounding may leave the two ends of one point in the wrong order; that is no empty interval.
        return np.minimum(low + part * width, np.maximum(high, low)), high < low - _near(low)
    first = np.ceil(low - _near(low))
    count = np.floor(high + _near(low)) - first + 1.0
    return first + np.floor(part * np.maximum(count, 1.0)), count < 1.0
