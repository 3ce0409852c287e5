"""Kernels of the mixture's objective: squares, prices, and their derivatives, over codes by components."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import summing

__all__ = ["centred", "normalised", "priced", "pulled", "residual", "subtract_products", "write_products"]

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@summing
def normalised(logs: Singles, shares: Singles, starts: Longs) -> None:
    """Divide each attribute's shares by their sum in each component, and bring the logarithms along."""
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
def residual(model: Singles, target: Singles, weights: Singles) -> float:
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
def write_products(target: Singles, ones: Singles, inferred: NDArray[np.bool_], starts: Longs) -> None:
    """Writes the product of the one-ways into the target of each inferred pair, both ways round."""
    for i in range(len(starts) - 1):
        for j in range(len(starts) - 1):
            if inferred[i, j]:
                for a in range(starts[i], starts[i + 1]):
                    for b in range(starts[j], starts[j + 1]):
                        target[a, b] = ones[a] * ones[b]


@summing
def subtract_products(
    offset: Singles, model: Singles, ones: Singles, inferred: NDArray[np.bool_], starts: Longs
) -> None:
    """Takes from `offset` the derivative by the one-ways of the products that `write_products` wrote.

    offset: derivative by each code's one-way, shape [codes]. model: as `residual` leaves it.
    """
    for i in range(len(starts) - 1):
        for j in range(len(starts) - 1):
            if inferred[i, j]:
                for a in range(starts[i], starts[i + 1]):
                    pull = np.float32(0.0)
                    for b in range(starts[j], starts[j + 1]):
                        pull += model[a, b] * ones[b]
                    offset[a] -= pull


@summing
def pulled(gradient: Singles, shares: Singles, offset: Singles) -> Floats:
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
def priced(
    gradient: Singles,
    logs: Singles,
    shares: Singles,
    weights: Singles,
    ones: Singles,
    alone: NDArray[np.bool_],
    starts: Longs,
    ordered: Longs,
    information: np.float32,
    smoothness: np.float32,
    by_weight: Floats,
) -> float:
    """Adds information, of codes that stand alone, and smoothness to both; returns their value."""
    components = logs.shape[1]
    paid = np.zeros(components, gradient.dtype)
    for c in range(logs.shape[0]):
        if not alone[c]:
            continue
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
def centred(gradient: Singles, shares: Singles, starts: Longs) -> None:
    """Take each attribute's mean under its shares out of the gradient, in each component."""
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
