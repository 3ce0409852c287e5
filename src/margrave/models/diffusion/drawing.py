"""Drawing: rows from noise, step by step back, by a trained denoiser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.device import Device
from margrave.models.diffusion.coding import FARTHEST, Coding
from margrave.models.diffusion.denoiser import one_hot, prior, time_features
from margrave.models.diffusion.schedule import Schedule
from margrave.models.rounding import draw_column

__all__ = ["drawn", "spoken"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Said = Callable[[int, Floats, Longs, Longs], Floats]
"""What a network says of rows at a time: from t, scores [rows, numbers], values [rows, categories] and labels
[rows] to [rows, numbers and values]."""

BLOCK = 4096
"""Rows drawn at a time."""


def spoken(coding: Coding, schedule: Schedule, device: Device, weights: Sequence[Floats]) -> Said:
    """What the network of these weights says; in single precision, as these rows are no private ones."""
    torch, waves = device.torch, time_features(schedule)
    layers = [device.put(weight, torch.float32) for weight in weights]

    def said(t: int, scores: Floats, values: Longs, label: Longs) -> Floats:
        parts = [scores, one_hot(coding, values)]
        parts.append(np.broadcast_to(waves[t], (len(scores), waves.shape[1])))
        if coding.labels:
            parts.append(np.eye(coding.labels)[label])
        parts.append(np.ones((len(scores), 1)))
        made = device.put(np.concatenate(parts, axis=1), torch.float32)
        with torch.no_grad():
            for layer in layers[:-1]:
                made = (made @ layer.T).clamp(min=0.0)
                made = torch.cat([made, torch.ones_like(made[:, :1])], dim=1)
            out: Any = made @ layers[-1].T
        return np.asarray(out.cpu().numpy(), dtype=np.float64)

    return said


def drawn(coding: Coding, schedule: Schedule, said: Said, rows: int, rng: np.random.Generator) -> list[Longs]:
    """Codes of each attribute, [rows] each, in the domain's order: labels first, then the rest given them.

    Labels are as many of each as their shares say, to within one. Estimates of x_0 are cut to where scores
    can be, as a poor denoiser says more.
    """
    label = np.zeros(rows, dtype=np.int64)
    if coding.target is not None:
        groups, order = np.zeros(rows, dtype=np.int64), rng.permutation(rows)
        label = np.asarray(draw_column(groups, order, coding.label[None], rng), dtype=np.int64)
    blocks = []
    for first in range(0, max(rows, 1), BLOCK):
        own = label[first : first + BLOCK]
        scores = rng.standard_normal((len(own), len(coding.numbers)))
        sizes = np.array([category.size for category in coding.categories], dtype=np.int64)
        values = rng.integers(0, sizes, (len(own), len(sizes)))
        for t in range(schedule.times - 1, -1, -1):
            out = said(t, scores, values, own)
            scores, values = (
                _scores(coding, schedule, t, scores, out, rng),
                _values(coding, schedule, t, values, out, rng),
            )
        blocks.append(coding.columns(own, scores, values))
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _scores(
    coding: Coding, schedule: Schedule, t: int, now: Floats, out: Floats, rng: np.random.Generator
) -> Floats:
    """x_{t-1} of the numbers; without noise at the last step, where it is the estimate of x_0."""
    kept = schedule.kept[t]
    start = np.sqrt(kept) * now - np.sqrt(1.0 - kept) * out[:, : len(coding.numbers)]
    weight, stay, variance = schedule.back(t)
    mean = weight * np.clip(start, -FARTHEST, FARTHEST) + stay * now
    return np.asarray(mean + np.sqrt(variance) * rng.standard_normal(now.shape))


def _values(
    coding: Coding, schedule: Schedule, t: int, now: Longs, out: Floats, rng: np.random.Generator
) -> Longs:
    """x_{t-1} of the categories, drawn from the posteriors."""
    found, start = np.empty_like(now), len(coding.numbers)
    if not coding.categories:
        return found
    logits = out[:, start:] + prior(coding)
    begin = 0
    for k, category in enumerate(coding.categories):
        mine = logits[:, begin : begin + category.size]
        begin += category.size
        said = np.exp(mine - mine.max(axis=1, keepdims=True))
        said /= said.sum(axis=1, keepdims=True)
        back = schedule.posterior(t, now[:, k], said)
        sums = np.cumsum(back, axis=1)
        places = (rng.random((len(now), 1)) * sums[:, -1:] >= sums).sum(axis=1)
        found[:, k] = np.minimum(places, category.size - 1)
    return found
