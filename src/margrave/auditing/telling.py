"""Which test tells runs with the canary from runs without: found on some runs, judged on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.auditing.bounds import Rates

__all__ = ["Detector", "best_detector", "together"]

THRESHOLDS = 40
RIDGE = 1e-3
Numbers = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class Detector:
    """Says that the canary is in where a weighted sum of statistics is at or above a threshold.

    Args:
        name: The statistic, in words.
        weights: Of each statistic, shape [statistics].
        threshold: The least sum that counts.
    """

    name: str
    weights: tuple[float, ...]
    threshold: float

    def rates(self, without: Numbers, present: Numbers, confidence: float) -> Rates:
        """How often it says so, in runs without the canary and in runs with it: [runs, statistics] each."""
        false, true = (
            int((side @ np.array(self.weights) >= self.threshold).sum()) for side in (without, present)
        )
        return Rates(false, len(without), true, len(present), confidence)


def best_detector(
    names: Sequence[str],
    without: Numbers,
    present: Numbers,
    confidence: float,
    worth: Callable[[Rates], float],
) -> Detector:
    """The test of one statistic, or of all together, whose rates prove most on these runs.

    Args:
        names: Of the statistics.
        without, present: Their values in runs without and with the canary: [runs, statistics] each.
        confidence: Of the rates.
        worth: What rates prove; where none proves anything, the widest gap between the rates is taken.
    """
    found: list[tuple[float, float, Detector]] = []
    for name, weights in [*_single(names), ("all together", together(without, present))]:
        pooled = np.concatenate([without, present]) @ np.array(weights)
        for threshold in np.unique(np.quantile(pooled, np.linspace(0.01, 0.99, THRESHOLDS))):
            detector = Detector(name, weights, float(threshold))
            rates = detector.rates(without, present, confidence)
            gap = rates.true / rates.present - rates.false / rates.without
            found.append((worth(rates), gap, detector))
    return max(found, key=lambda entry: entry[:2])[2]


def _single(names: Sequence[str]) -> list[tuple[str, tuple[float, ...]]]:
    """Each statistic by itself, high and low."""
    size = len(names)
    weights = [
        tuple(sign * float(place == at) for place in range(size)) for at in range(size) for sign in (1, -1)
    ]
    return [(f"{'high' if sum(w) > 0 else 'low'} {names[place // 2]}", w) for place, w in enumerate(weights)]


def together(without: Numbers, present: Numbers) -> tuple[float, ...]:
    """Weights of Fisher's linear discriminant, lightly shrunk: shape [statistics]."""
    both = np.concatenate([without, present])
    scale = both.std(axis=0)
    scale[scale == 0] = 1.0
    sides = [(side - both.mean(axis=0)) / scale for side in (without, present)]
    spread = sum(np.cov(side, rowvar=False).reshape(2 * (side.shape[1],)) for side in sides) / 2
    gap = sides[1].mean(axis=0) - sides[0].mean(axis=0)
    weights = np.linalg.solve(spread + RIDGE * np.eye(len(gap)), gap) / scale
    return tuple(float(weight) for weight in weights)
