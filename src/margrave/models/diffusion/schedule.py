"""Schedule: how fast rows turn into noise, and the way back, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Schedule", "cosine"]

Floats = NDArray[np.float64]

MOST_BETA = 0.999


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The noise of each step t = 0, ..., T - 1 of the two processes (Kotelnikov et al. 2023, section 3).

    Numbers: x_t = sqrt(kept_t) x_0 + sqrt(1 - kept_t) e with e ~ N(0, 1). A category of K values:
    q(x_t | x_{t-1}) keeps the value with probability 1 - beta_t and else draws one of all K, evenly, so that
    q(x_t | x_0) is kept_t [x_t = x_0] + (1 - kept_t) / K (Hoogeboom et al. 2021, equations 11 and 12).

    Args:
        betas: Shape [T], in (0, 1).
    """

    betas: Floats

    @property
    def times(self) -> int:
        """T."""
        return len(self.betas)

    @property
    def kept(self) -> Floats:
        """The product of 1 - beta up to each step, shape [T]."""
        return np.asarray(np.cumprod(1.0 - self.betas))

    @property
    def before(self) -> Floats:
        """`kept` of the step before, 1 for the first: [T]."""
        return np.append(1.0, self.kept[:-1])

    def back(self, t: int) -> tuple[float, float, float]:
        """Of x_{t-1} given x_t and x_0, for numbers: the weights of x_0 and x_t in its mean; its variance.

        Ho, Jain and Abbeel 2020, equation 7.
        """
        beta, kept, before = self.betas[t], self.kept[t], self.before[t]
        first = np.sqrt(before) * beta / (1.0 - kept)
        second = np.sqrt(1.0 - beta) * (1.0 - before) / (1.0 - kept)
        return float(first), float(second), float(beta * (1.0 - before) / (1.0 - kept))

    def posterior(self, t: int, now: NDArray[np.int64], start: Floats) -> Floats:
        """Of x_{t-1} given x_t and a distribution of x_0, for a category: [rows, K].

        In proportion to ((1 - beta_t) x_t + beta_t / K) * (before_t x_0 + (1 - before_t) / K), Hoogeboom et
        al. 2021, equation 13. For x_0 known it is Bayes' rule. For a distribution of x_0 it is that if the
        distribution takes no notice of x_t, as the first factor does: x_t would count twice.

        Args:
            t: The step.
            now: x_t, [rows].
            start: x_0, as a distribution, [rows, K].
        """
        size, beta, before = start.shape[1], self.betas[t], self.before[t]
        found = before * start + (1.0 - before) / size
        found[np.arange(len(now)), now] *= 1.0 + (1.0 - beta) * size / beta
        return np.asarray(found / found.sum(axis=1, keepdims=True))


def cosine(times: int) -> Schedule:
    """The cosine schedule of T steps.

    1 - beta_t = f(t + 1) / f(t) with f(t) = cos^2((t / T + 0.008) / 1.008 pi / 2): Nichol and Dhariwal
    2021, equation 17; beta is at most 0.999.
    """
    angles = (np.arange(times + 1) / times + 0.008) / 1.008 * np.pi / 2
    kept = np.cos(angles) ** 2
    return Schedule(np.minimum(1.0 - kept[1:] / kept[:-1], MOST_BETA))
