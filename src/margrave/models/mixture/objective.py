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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import summing
from margrave.models.mixture.stacked import Stacked

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
        _normalise(self.logs, self.shares, starts)
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
    """

    def __init__(self, stacked: Stacked, components: int, information: float, smoothness: float) -> None:
        self.stacked = stacked
        self.information = np.float32(information)
        self.smoothness = np.float32(smoothness)
        self.gradient = np.empty((stacked.codes, components), np.float32)
        self._scaled = np.empty_like(self.gradient)
        self._model = np.empty((stacked.codes, stacked.codes), np.float32)

    def __call__(self, at: Point) -> tuple[float, Floats]:
        """The value, and the derivative by each weight, shape [components]; `gradient` holds that by Q."""
        s = self.stacked
        np.multiply(at.shares, np.sqrt(at.weights), out=self._scaled)
        np.matmul(self._scaled, self._scaled.T, out=self._model)  # one array twice: half the products
        ones = np.maximum(at.shares @ at.weights, FLOOR)
        fit = _residual(self._model, s.pairs, s.pair_weights)
        np.matmul(self._model, at.shares, out=self.gradient)
        miss = s.one_weights * (ones - s.ones)
        fit += float((miss * (ones - s.ones)).sum(dtype=np.float64))
        offset = (2.0 * miss).astype(self.gradient.dtype)
        by_weight = _pull(self.gradient, at.shares, offset)
        rest = _prices(
            self.gradient, at.logs, at.shares, at.weights, ones,
            s.starts, s.ordered, self.information, self.smoothness, by_weight,
        )  # fmt: skip
        return fit + rest, by_weight

    def centre(self, at: Point) -> None:
        """Make the gradient that of the logarithms: take out its mean under each Q_k."""
        _centre(self.gradient, at.shares, self.stacked.starts)


@summing
def _normalise(logs: Singles, shares: Singles, starts: Longs) -> None:
    components = logs.shape[1]
    total, shift = np.empty(components, logs.dtype), np.empty(components, logs.dtype)
    for i in range(len(starts) - 1):
        total[:] = 0.0
        for c in range(starts[i], starts[i + 1]):
            for k in range(components):
                total[k] += shares[c, k]
        for k in range(components):
            shift[k] = np.log(total[k])
            total[k] = np.float32(1.0) / total[k]
        for c in range(starts[i], starts[i + 1]):
            for k in range(components):
                shares[c, k] *= total[k]
                logs[c, k] -= shift[k]


@summing
def _residual(model: Singles, target: Singles, weights: Singles) -> float:
    """Turns the model's table into twice the weighted residuals; returns half their squared sum."""
    value = 0.0
    for a in range(model.shape[0]):
        row = np.float32(0.0)
        for b in range(model.shape[1]):
            miss = model[a, b] - target[a, b]
            pull = weights[a, b] * miss
            row += pull * miss
            model[a, b] = np.float32(2.0) * pull
        value += row
    return 0.5 * value


@summing
def _pull(gradient: Singles, shares: Singles, offset: Singles) -> Floats:
    """Adds the one-ways' part; returns the derivative of the squares by each weight."""
    codes, components = gradient.shape
    pairs, ones = np.zeros(components, gradient.dtype), np.zeros(components, gradient.dtype)
    for c in range(codes):
        for k in range(components):
            pairs[k] += gradient[c, k] * shares[c, k]
            ones[k] += offset[c] * shares[c, k]
            gradient[c, k] += offset[c]
    return 0.5 * pairs.astype(np.float64) + ones


@summing
def _prices(
    gradient: Singles,
    logs: Singles,
    shares: Singles,
    weights: Singles,
    ones: Singles,
    starts: Longs,
    ordered: Longs,
    information: np.float32,
    smoothness: np.float32,
    by_weight: Floats,
) -> float:
    """Adds information and smoothness to the gradient and to by_weight; returns their value."""
    components = logs.shape[1]
    paid = np.zeros(components, gradient.dtype)
    for c in range(logs.shape[0]):
        own = np.log(ones[c])
        for k in range(components):
            nats = information * (logs[c, k] - own)
            gradient[c, k] += nats
            paid[k] += shares[c, k] * nats
    value = 0.0
    for k in range(components):
        value += weights[k] * paid[k]
        by_weight[k] += paid[k]
    if smoothness > 0.0:
        for i in range(len(ordered)):
            if ordered[i] > 1:
                a, b = starts[i], starts[i] + ordered[i]
                value += _smooth(gradient[a:b], shares[a:b], weights, ones[a:b], smoothness, by_weight)
    return value


@summing
def _smooth(
    gradient: Singles,
    shares: Singles,
    weights: Singles,
    ones: Singles,
    smoothness: np.float32,
    by_weight: Floats,
) -> float:
    """The part of one attribute's ordered codes; derivatives run through m as well as through Q."""
    codes, components = shares.shape
    through = np.zeros(codes, np.float64)
    cost = np.zeros(components, gradient.dtype)
    for c in range(codes - 1):
        both = ones[c] + ones[c + 1]
        h = smoothness * ones[c] * ones[c + 1] / both
        low, high = np.float32(1.0) / ones[c], np.float32(1.0) / ones[c + 1]
        bent = below = above = np.float32(0.0)
        for k in range(components):
            step = shares[c + 1, k] * high - shares[c, k] * low
            pull = h * step
            gradient[c + 1, k] += pull * high
            gradient[c, k] -= pull * low
            cost[k] += np.float32(0.5) * pull * step
            bent += weights[k] * step * step
            above += weights[k] * pull * shares[c + 1, k]
            below += weights[k] * pull * shares[c, k]
        half = 0.5 * smoothness * bent
        through[c] += half * (ones[c + 1] / both) ** 2 + below * low * low
        through[c + 1] += half * (ones[c] / both) ** 2 - above * high * high
    value = 0.0
    for k in range(components):
        value += weights[k] * cost[k]
        by_weight[k] += cost[k]
    for c in range(codes):
        also = gradient.dtype.type(through[c])
        for k in range(components):
            gradient[c, k] += also
            by_weight[k] += through[c] * shares[c, k]
    return value


@summing
def _centre(gradient: Singles, shares: Singles, starts: Longs) -> None:
    components = gradient.shape[1]
    mean = np.empty(components, gradient.dtype)
    for i in range(len(starts) - 1):
        mean[:] = 0.0
        for c in range(starts[i], starts[i + 1]):
            for k in range(components):
                mean[k] += gradient[c, k] * shares[c, k]
        for c in range(starts[i], starts[i + 1]):
            for k in range(components):
                gradient[c, k] -= mean[k]
