"""Adversary: a discriminator that learns from rows by noisy gradients, and a generator that learns from it.

The discriminator says how likely a row is a real one, as a logit. The door gives the noisy sum of the
gradients of
-ln sigmoid(logit) of real rows, each of norm 1 at most (Abadi et al. 2016; as a generator's only touch with
rows: Xie et al. 2018). Those of made rows, -ln(1 - sigmoid(logit)), are taken here, in public, each cut to
norm 1 as well, so that both sides weigh alike. Between steps of the generator the discriminator takes
several: where its gradients are noisy, that is what helps most (Bie, Kamath and Zhang 2023).

**A row's gradient hangs on that row alone, bit for bit**, as the door asks: see `Judge`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._sampling.coding import Coding
from margrave.models.adversarial.networks import Generator, Judge, Weights, build_vectors

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Where a training is, all of it public.

    Args:
        judge: The discriminator.
        maker: The generator.
        average: Running mean of the generator's weights, which is what is kept at the end.
        step: How many noisy gradients were taken.
    """

    judge: Weights
    maker: Weights
    average: tuple[Floats, ...]
    step: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Adversary:
    """A `Learner`, to be trained with a clip of 1.

    Args:
        generator: What makes rows.
        judge: The discriminator.
        rows: Real rows expected in a sample, by public or released numbers.
        batch: Rows that are made in a step.
        turns: Steps of the discriminator to one of the generator.
        rates: Adam's step lengths of the discriminator and of the generator.
        scale: What gradients are multiplied by before they are cut to norm 1.
        average: Weight of the past in the running mean of the generator's weights.
        seed: Of first weights and of made rows.
    """

    generator: Generator
    judge: Judge
    rows: float
    batch: int
    turns: int
    rates: tuple[float, float]
    scale: float
    average: float
    seed: int

    @property
    def coding(self) -> Coding:
        """Of the rows."""
        return self.generator.coding

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of each weight matrix of the discriminator."""
        return self.judge.shapes

    @property
    def uniforms(self) -> int:
        """One number for the score of each number of a row."""
        return len(self.generator.coding.numbers)

    def start(self) -> State:
        """Discriminator and generator before the first step."""
        rng = np.random.default_rng((self.seed, 0))
        maker = self.generator.start(rng)
        return State(self.judge.start(rng), maker, maker.layers)

    def factors(self, state: State, codes: Longs, uniform: Floats) -> list[tuple[Any, Any]]:
        """Each row's gradient as a real row, as factors: see `protocols.Learner`."""
        given = build_vectors(self.generator.coding, codes, uniform)
        found = self.judge.factors(state.judge, given, np.ones(len(given)))
        return [((left * self.scale)[:, None], right[:, None]) for left, right in found]

    def moved(self, state: State, gradients: Sequence[Floats]) -> State:
        """A step of the discriminator, and of the generator where it is its turn."""
        rng = np.random.default_rng((self.seed, 1 + state.step))
        against = self._average_made(state, rng)
        slopes = [gradient / self.rows + own for gradient, own in zip(gradients, against, strict=True)]
        state = replace(state, judge=state.judge.moved(slopes, self.rates[0]), step=state.step + 1)
        if state.step % self.turns:
            return state
        maker = self.generator.follow(state.maker, state.judge.layers, self.batch, self.rates[1], rng)
        stay = min(self.average, maker.step / (10.0 + maker.step))
        kept = zip(state.average, maker.layers, strict=True)
        return replace(state, maker=maker, average=tuple(stay * a + (1.0 - stay) * w for a, w in kept))

    def _average_made(self, state: State, rng: np.random.Generator) -> list[Floats]:
        """The mean gradient of made rows, each cut to norm 1."""
        made = self.generator.make_vectors(state.maker, self.batch, rng)
        factors = self.judge.factors(state.judge, made, np.zeros(len(made)))
        squares: Any = sum(left.square().sum(1) * right.square().sum(1) for left, right in factors)
        cut = (squares.sqrt() * self.scale).clamp(min=1.0).reciprocal()[:, None] * (self.scale / len(made))
        return [np.asarray(((left * cut).T @ right).cpu().numpy()) for left, right in factors]

    def finished(self, state: State) -> tuple[Floats, ...]:
        """The averaged weights of the generator."""
        return state.average
