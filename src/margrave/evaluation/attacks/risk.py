"""Risk: how much more often an attack succeeds on the rows of a table than on rows that are not in it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import norm

__all__ = ["Risk", "wilson"]

LEVEL = 0.95


def wilson(hits: float, tries: int, level: float = LEVEL) -> tuple[float, float]:
    """The middle of the score interval of a rate, and half its width (Wilson 1927).

    Args:
        hits: Successes; expected ones need not be whole.
        tries: One or more.
        level: Of the interval, in (0, 1).
    """
    z = float(norm.isf((1 - level) / 2))
    middle = (hits + z * z / 2) / (tries + z * z)
    half = z / (tries + z * z) * math.sqrt(hits * (tries - hits) / tries + z * z / 4)
    return middle, half


@dataclass(frozen=True, slots=True)
class Risk:
    """The share of what an attacker could still gain over the control that it gains (Giomi et al. 2023).

    risk = (attack rate - control rate) / (1 - control rate), both rates the middles of their Wilson
    intervals, and its error propagated from theirs, as the package Anonymeter does. What is learned about
    people in general succeeds on the control rows as well, and is no risk.

    Args:
        hits: Successes on rows of the table.
        tries: Attacks on them.
        control_hits: Successes on rows that nothing was made from.
        control_tries: Attacks on those.
        level: Of the interval.
    """

    hits: float
    tries: int
    control_hits: float
    control_tries: int
    level: float = LEVEL

    @property
    def value(self) -> float:
        """The risk, 0 where the control does no worse."""
        return min(max(self._centre, 0.0), 1.0)

    @property
    def interval(self) -> tuple[float, float]:
        """Limits of the confidence interval, within 0 and 1."""
        attack, wide = wilson(self.hits, self.tries, self.level)
        control, control_wide = wilson(self.control_hits, self.control_tries, self.level)
        half = math.hypot(wide / (1 - control), control_wide * (1 - attack) / (1 - control) ** 2)
        low, high = (min(max(self._centre + side * half, 0.0), 1.0) for side in (-1, 1))
        return low, high

    @property
    def _centre(self) -> float:
        attack, _ = wilson(self.hits, self.tries, self.level)
        control, _ = wilson(self.control_hits, self.control_tries, self.level)
        return (attack - control) / (1 - control)

    def parts(self) -> dict[str, float]:
        """Both rates and the interval, for the parts of a score."""
        low, high = self.interval
        return {
            "attack rate": self.hits / self.tries,
            "control rate": self.control_hits / self.control_tries,
            "risk at least": low,
            "risk at most": high,
        }
