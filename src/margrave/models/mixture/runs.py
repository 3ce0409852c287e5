"""Runs: where a descent starts, and the mixture that one or several descents amount to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.models.mixture.model import MixtureModel
from margrave.models.mixture.nest import averaged
from margrave.models.mixture.nest_objective import NestPart
from margrave.models.mixture.objective import Point, point
from margrave.models.mixture.optimise import Descent
from margrave.models.mixture.stacked import Stacked
from margrave.schema.domain import Domain

__all__ = ["Run", "Setting", "mixed", "start"]

Floats = NDArray[np.float64]

SPREAD = 0.5
"""Standard deviation of the starting logarithms around the one-ways."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a descent is told beside the measurements.

    Args:
        price: Of a nat of dependence.
        groups: Positions of the attributes of each nest.
        signal: Rows times mu, mu^2 the precision of all measurements together.
        labels: Whether attributes that nobody asked for are labels (`margrave.models.mixture.labels`).
    """

    price: float
    groups: tuple[tuple[int, ...], ...] = ()
    signal: float = 0.0
    labels: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """One descent: where it ended, how it went, and its nests."""

    at: Point
    descent: Descent
    nests: list[NestPart]


def mixed(
    domain: Domain, rows: float, stacked: Stacked, runs: Sequence[Run], setting: Setting
) -> MixtureModel:
    """The mean of the mixtures, itself a mixture."""
    worst = max((run.descent for run in runs), key=lambda descent: descent.gap)
    weights = np.concatenate([run.at.weights for run in runs]).astype(np.float64)
    shares = _exact(stacked, np.concatenate([run.at.shares for run in runs], axis=1))
    nests = [
        averaged(parts)
        for parts in zip(*([part.nest(domain) for part in r.nests] for r in runs), strict=True)
    ]
    for nest, part in zip(nests, runs[0].nests, strict=True):
        shares[part.rows] = nest.shares
    return MixtureModel(domain, rows, weights / weights.sum(), shares, setting.price, worst, nests=nests)


def start(stacked: Stacked, components: int, rng: np.random.Generator) -> Point:
    """Around the measured one-ways; uniform where an attribute has none."""
    logs = np.zeros((stacked.codes, components), np.float32)
    for i in range(stacked.attributes):
        part = slice(stacked.starts[i], stacked.starts[i + 1])
        base = np.maximum(_one_way(stacked, part), 1e-6)
        logs[part] = np.log(base / base.sum())[:, None]
    logs += SPREAD * rng.standard_normal(logs.shape, dtype=np.float32)
    return point(logs, np.zeros(components), stacked.starts)


def _exact(stacked: Stacked, shares: NDArray[np.float32]) -> Floats:
    """The conditionals in double precision, each summing to 1; uniform for attributes not measured."""
    exact = shares.astype(np.float64)
    for i in range(stacked.attributes):
        part = slice(stacked.starts[i], stacked.starts[i + 1])
        if not (stacked.one_weights[part].any() or stacked.pair_weights[part].any()):
            exact[part] = 1.0
        exact[part] /= exact[part].sum(axis=0)
    return exact


def _one_way(stacked: Stacked, part: slice) -> Floats:
    """Noisy proportions of one attribute: measured itself, else summed out of its first measured pair."""
    if stacked.one_weights[part].any():
        return stacked.ones[part].astype(np.float64)
    for j in range(stacked.attributes):
        other = slice(stacked.starts[j], stacked.starts[j + 1])
        if stacked.pair_weights[part, other].any():
            return np.asarray(stacked.pairs[part, other].sum(axis=1, dtype=np.float64))
    return np.ones(part.stop - part.start)
