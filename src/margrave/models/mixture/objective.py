"""Objective: how badly a mixture of products explains the measurements, and what its dependence costs.

For weights w_k and conditionals Q_k over the codes c of attribute i, with M = sum_k w_k Q_k Q_k' and
m = sum_k w_k Q_k, the value is

    F = sum over measured pairs and ones of (M - y)^2 / variance
      + information * sum_k w_k sum_c Q_kc log(Q_kc / m_c)
      + smoothness / 2 * sum_k w_k sum over neighbouring ordered codes of h_c (Q_k,c+1 / m_c+1 - Q_kc / m_c)^2

with h_c = m_c m_c+1 / (m_c + m_c+1). The second line is the mutual information between component and each
attribute: a price for each nat of dependence. The third asks that likelihood ratios of neighbouring codes be
alike. Gradients are natural: the derivative by Q_kc over w_k, centred under Q_k, so that rare components and
rare codes move as readily as frequent ones.
Where a pair was not measured but is held to be about independent, y is m m' of its two attributes, and the
derivative by m counts.
Attributes that rules tie together are looked at as the rules leave them: see `rules_objective`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.models.mixture.kernels import (
    centred,
    normalised,
    priced,
    pulled,
    residual,
    subtract_products,
    write_products,
)
from margrave.models.mixture.rules_objective import TiedPart
from margrave.models.mixture.stacked import Stacked

if TYPE_CHECKING:
    from margrave.models.mixture.nest_objective import NestPart

__all__ = ["FLOOR", "Objective", "Point", "point"]

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

FLOOR = np.float32(1e-9)
"""Least share of a code that a logarithm or a ratio is taken of."""
LOWEST = np.float32(-30.0)
"""Least log-probability of a code in a component."""


@dataclass(slots=True)
class Point:
    """Where the optimiser stands.

    Args:
        logs: log Q, attributes' codes by components, shape [codes, components]; normalised by `settle`.
        weigh: log w, shape [components].
        shares: Q, shape of logs.
        weights: w, shape [components].
    """

    logs: Singles
    weigh: Floats
    shares: Singles
    weights: Singles

    def settle(self, starts: Longs) -> None:
        """Normalise logs and weights, and bring shares and weights up to date."""
        np.maximum(self.logs, LOWEST, out=self.logs)
        np.exp(self.logs, out=self.shares)
        normalised(self.logs, self.shares, starts)
        self.weigh -= self.weigh.max()
        self.weigh -= np.log(np.exp(self.weigh).sum())
        self.weights = np.exp(self.weigh).astype(self.logs.dtype)


def point(logs: Singles, weigh: Floats, starts: Longs) -> Point:
    """A settled point of these logarithms, copied."""
    made = Point(logs.copy(), weigh.astype(np.float64), np.empty_like(logs), np.empty(0, np.float32))
    made.settle(starts)
    return made


class Objective:
    """The value and the natural gradient of one set of measurements.

    Args:
        stacked: The measurements.
        components: Number of components K.
        information: Price of a nat of dependence, in the units of the squared residuals.
        smoothness: Price of unlike neighbours among ordered codes.
        nests: Attributes that have atoms of their own, see `nest_objective`.
    """

    def __init__(
        self,
        stacked: Stacked,
        components: int,
        information: float,
        smoothness: float,
        nests: Sequence[NestPart] = (),
    ) -> None:
        self.stacked = stacked
        self.nests = tuple(nests)
        self.information = np.float32(information)
        self.smoothness = np.float32(smoothness)
        self.gradient = np.empty((stacked.codes, components), np.float32)
        self._scaled = np.empty_like(self.gradient)
        self._model = np.empty((stacked.codes, stacked.codes), np.float32)
        self._tied = [TiedPart(tables, components, information) for tables in stacked.tied]
        self._pairs = stacked.pairs if stacked.inferred is None else stacked.pairs.copy()
        self._apart, self._alone, self._ordered = stacked.apart, stacked.alone, stacked.ordered.copy()
        if self.nests:
            self._apart, self._alone = self._apart.copy(), self._alone.copy()
        for nest in self.nests:
            self._apart[np.ix_(nest.rows, nest.rows)] = 0.0
            self._alone[nest.rows] = False
            self._ordered[list(nest.members)] = 0
        self.shares = self._scaled
        """Q of the last point looked at, as rules and nests leave it, shape [codes, components]."""

    def __call__(self, at: Point) -> tuple[float, Floats]:
        """The value, and the derivative by each weight, shape [components]; `gradient` holds that by Q."""
        s = self.stacked
        self.shares = shares = at.shares.copy() if self._tied or self.nests else at.shares
        for part in self._tied:
            part.spread(shares, at.logs)
        for nest in self.nests:
            nest.spread(shares)
        np.multiply(shares, np.sqrt(at.weights), out=self._scaled)
        np.matmul(self._scaled, self._scaled.T, out=self._model)  # one array twice: half the products
        ones = np.maximum(shares @ at.weights, FLOOR)
        if s.inferred is not None:
            write_products(self._pairs, ones, s.inferred, s.starts)
        value = residual(self._model, self._pairs, self._apart)
        np.matmul(self._model, shares, out=self.gradient)
        miss = s.one_weights * (ones - s.ones)
        value += float((miss * (ones - s.ones)).sum(dtype=np.float64))
        offset = (2.0 * miss).astype(self.gradient.dtype)
        if s.inferred is not None:
            subtract_products(offset, self._model, ones, s.inferred, s.starts)
        by_weight = pulled(self.gradient, shares, offset)
        value += priced(
            self.gradient, at.logs, shares, at.weights, ones, self._alone,
            s.starts, self._ordered, self.information, self.smoothness, by_weight,
        )  # fmt: skip
        for part in self._tied:
            value += part.pulled(self.gradient, shares, at.weights, by_weight)
        for nest in self.nests:
            value += nest.pulled(self.gradient, at.weights, by_weight)
        return value, by_weight

    def centre(self) -> None:
        """Make the gradient at the last point that of the logarithms: take out its mean under each Q_k."""
        centred(self.gradient, self.shares, self.stacked.starts)
