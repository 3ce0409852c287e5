"""Calibration: what the optimiser and the model ask of an engine of inference, compiled or on a device."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from margrave.models.pgm.tree import Layout

__all__ = ["Calibration"]


class Calibration(Protocol):
    """log Z, all measured marginals and all beliefs of p(x) = exp(sum_r theta_r(x_r) - log Z)."""

    @property
    def layout(self) -> Layout:
        """The tree and the measured tables."""

    @property
    def marginals(self) -> NDArray[np.float64]:
        """Probabilities of every measured clique at the last theta, [layout.starts[-1]]."""

    @property
    def belief(self) -> NDArray[np.float64]:
        """Probabilities of every tree clique at the last theta, [layout.node_starts[-1]]."""

    def run(self, theta: NDArray[np.float64]) -> float:
        """log Z at theta, [layout.starts[-1]]; fills `belief` and `marginals`."""
