"""Runs: where a descent starts, and the mixture that it amounts to.

In between is Adam on natural gradients of the logarithms, with a step that falls to nearly nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel
from margrave.models._mixture.constraint_blocks import MIN_LOG_PROBABILITY, rake_block
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.stacked import Stacked
from margrave.models.mixture.objective import SPREAD, LatentBlockPart, Objective, Point, log_shares, point
from margrave.models.mixture.score_moments import ScoreMoments
from margrave.schema.domain import Domain

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]

MEMORY = 0.9
"""How long the mean and the mean square of gradients are remembered. Squares are forgotten as quickly as the
mean: gradients shrink by orders of magnitude on the way, and a long memory stalls (0.999, the usual value,
needs five times the steps)."""
LAST = 0.02
"""The last step's length over the first one's."""


@dataclass(frozen=True, slots=True)
class Descent:
    """How an optimisation went.

    Args:
        value: The objective at the end.
        gap: Mean absolute natural gradient under the model over the penalty per nat: how far, relative to
            what dependence costs, the codes' penalties are from being in balance.
        steps: Steps taken.
    """

    value: float
    gap: float
    steps: int


def descend(
    objective: Objective,
    at: Point,
    steps: int,
    rate: float,
    stop: Callable[[], bool] = lambda: False,
) -> Descent:
    """Move `at` down the objective, in place.

    Args:
        objective: What is minimised.
        at: Start and end.
        steps: How many steps the falling step length is planned for.
        rate: First step length, in logarithms.
        stop: Asked before each step; ends the descent early.
    """
    starts = objective.stacked.starts
    latent_blocks = objective.latent_blocks
    moves = [_Moves(part) for part in (at, *(part for block in latent_blocks for part in block.points))]
    slope, bend = np.zeros_like(at.weigh), np.zeros_like(at.weigh)
    done = 0
    while done < steps and not stop():
        done += 1
        _, by_weight = objective(at)
        objective.centre()
        # The step falls linearly to LAST times the first.
        length = rate * (1.0 - done / steps + LAST)
        # Adam's correction (Kingma and Ba 2015, algorithm 1): the means begin at 0 and are too small at
        # first.
        known = 1.0 - MEMORY**done
        scale, bias = np.float32(length / known), np.float32(1.0 / known)
        slopes = (objective.gradient, *(slope for block in latent_blocks for slope in block.slopes))
        for move, gradient in zip(moves, slopes, strict=True):
            move.step(gradient, scale, bias)
        for block in latent_blocks:
            block.settle()
        # The weights are a softmax of `weigh`, whose gradient is the weight times what exceeds the mean.
        pull = at.weights * (by_weight - float(at.weights @ by_weight))
        slope += (1.0 - MEMORY) * (pull - slope)
        bend += (1.0 - MEMORY) * (pull * pull - bend)
        at.weigh -= length / known * slope / (np.sqrt(bend / known) + 1e-12)
        at.settle(starts)
    value, _ = objective(at)
    objective.centre()
    return Descent(value, _gap(objective, at), done)


class _Moves:
    """The remembered gradients of one table of logarithms."""

    def __init__(self, at: Point) -> None:
        self._logs = at.logs
        self._mean, self._square = np.zeros_like(at.logs), np.zeros_like(at.logs)

    def step(self, gradient: Singles, scale: np.float32, bias: np.float32) -> None:
        """Move the logarithms, in place."""
        _advance(self._logs, gradient, self._mean, self._square, scale, bias)


def _gap(objective: Objective, at: Point) -> float:
    """Mean over attributes, and latent blocks' states, of E|natural gradient|, over the penalty per nat."""
    # Expectation under each conditional, then under the weights: rare codes count as little as they occur.
    moved = float(np.abs(objective.gradient * objective.shares).sum(axis=0, dtype=np.float64) @ at.weights)
    moved += sum(latent_block.moved(at.weights) for latent_block in objective.latent_blocks)
    places = objective.stacked.attributes + len(objective.latent_blocks)
    return moved / max(places, 1) / max(float(objective.information), 1e-30)


@compile_kernel
def _advance(
    logs: Singles,
    gradient: Singles,
    mean: Singles,
    square: Singles,
    scale: np.float32,
    bias: np.float32,
) -> None:
    """One step; no logarithm moves by more than 1, or below MIN_LOG_PROBABILITY."""
    part = np.float32(1.0 - MEMORY)
    # Python floats would turn the whole inner loop to double precision.
    one = np.float32(1.0)
    # No share underflows to 0 in single precision.
    floor = np.float32(MIN_LOG_PROBABILITY)
    for c in range(logs.shape[0]):
        for k in range(logs.shape[1]):
            g = gradient[c, k]
            mean[c, k] += part * (g - mean[c, k])
            square[c, k] += part * (g * g - square[c, k])
            step = scale * mean[c, k] / (np.sqrt(square[c, k] * bias) + np.float32(1e-12))
            logs[c, k] = max(logs[c, k] - min(max(step, -one), one), floor)


@dataclass(frozen=True, slots=True)
class Run:
    """One descent: where it ended, how it went, and its latent blocks."""

    at: Point
    descent: Descent
    latent_blocks: Sequence[LatentBlockPart] = ()


def make_model(domain: Domain, rows: float, stacked: Stacked, run: Run, penalty: float) -> MixtureModel:
    """The mixture that a descent ended at, in double precision."""
    weights, shares = run.at.weights.astype(np.float64), _exact(stacked, run.at.shares)
    latent_blocks = [part.latent_block(domain) for part in run.latent_blocks]
    for latent_block, part in zip(latent_blocks, run.latent_blocks, strict=True):
        # What a latent block's attributes look like outside of it follows from V and U, not from `Q`.
        shares[part.rows] = latent_block.shares
    return MixtureModel(
        domain, rows, weights / weights.sum(), shares, penalty, run.descent, latent_blocks=latent_blocks
    )


def start(stacked: Stacked, components: int, rng: np.random.Generator) -> Point:
    """Around the measured one-ways; uniform where an attribute has none."""
    logs = np.repeat(_one_way_logs(stacked), components, axis=1)
    logs += SPREAD * rng.standard_normal(logs.shape, dtype=np.float32)
    return point(logs, np.zeros(components), stacked.starts)


def resume(stacked: Stacked, model: MixtureModel) -> Point:
    """Where the descent ended that a mixture of the same attributes came from."""
    return point(log_shares(model.fitted), np.log(np.maximum(model.weights, 1e-300)), stacked.starts)


def prefer_product(
    stacked: Stacked, run: Run, penalty: float, smoothness: float, moments: Sequence[ScoreMoments] = ()
) -> Run:
    """A descent that the clock ended, or the product of the measured one-ways where its objective is lower.

    A descent starts at components that are scattered around the one-ways, and takes some steps to get nearer
    to the measurements than their product is.

    Args:
        stacked: The measurements.
        run: Where the descent ended.
        penalty: Of a nat of dependence.
        smoothness: Of unlike neighbours among ordered codes.
        moments: What the descent's objective asked of moments of scores.
    """
    at = point(_one_way_logs(stacked), np.zeros(1), stacked.starts)
    for tables in stacked.tied:  # within constraints a product of the one-ways has others
        ends = np.cumsum(tables.constraint.sizes)
        blocks = np.split(at.shares[tables.rows].astype(np.float64), ends[:-1])
        # Within rules, the conditionals are those whose allowed cells have the measured one-ways.
        raked = np.concatenate(rake_block(tables.constraint, blocks, np.ones(1)))
        at.logs[tables.rows] = np.maximum(np.log(np.maximum(raked, 1e-300)), MIN_LOG_PROBABILITY)
    at.settle(stacked.starts)
    value, _ = Objective(stacked, 1, penalty, smoothness, moments=moments)(at)
    return run if run.descent.value < value else Run(at, replace(run.descent, value=value))


def _one_way_logs(stacked: Stacked) -> Singles:
    """Logarithms of the measured one-ways, shape [codes, 1]; uniform where an attribute has none."""
    logs = np.zeros((stacked.codes, 1), np.float32)
    for i in range(stacked.attributes):
        part = slice(stacked.starts[i], stacked.starts[i + 1])
        # Noise may make counts negative, which have no logarithm.
        base = np.maximum(stacked.one_way(i), 1e-6)
        logs[part, 0] = np.log(base / base.sum())
    return logs


def _exact(stacked: Stacked, shares: NDArray[np.float32]) -> Floats:
    """The conditionals in double precision, each summing to 1; uniform for attributes not measured."""
    exact = shares.astype(np.float64)
    for i in range(stacked.attributes):
        part = slice(stacked.starts[i], stacked.starts[i + 1])
        # The gradient of an attribute without measurements is rounding alone; it is exactly uniform.
        if not (stacked.one_weights[part].any() or stacked.pair_weights[part].any()):
            exact[part] = 1.0
        exact[part] /= exact[part].sum(axis=0)
    return exact
