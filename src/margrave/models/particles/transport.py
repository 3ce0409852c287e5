"""Transport: particles moved until their marginals are those of the projected tables, by sliced W2.

`lowest_first` says which particle is the lowest, the next and so on, in each direction.

`Penalty` is a further term of the loss that moves them: anything differentiable (PrivPGD, section 4.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models._torch.device import Device
from margrave.models.particles.embedding import Embedding
from margrave.schema.domain import Clique


class Penalty(Protocol):
    """A term of the loss. It may hold released or public numbers only: what it knows shapes the rows."""

    def admit(self, embedding: Embedding) -> None:
        """Raise InputError or SchemaError if it does not fit: asked before anything is bought."""

    def __call__(self, torch: Any, particles: Any, embedding: Embedding) -> Any:
        """Its value, a scalar tensor with a gradient.

        Args:
            torch: The library.
            particles: Where they are, shape [particles, embedding.width].
            embedding: Which columns belong to which attribute.
        """


@dataclass(frozen=True, slots=True)
class ThresholdProtection:
    """Keeps one linear threshold query away from its true answer (PrivPGD, equation 12).

    strength * scale / (floor + (s(Z) - estimate)^2), where s(Z) is the mean over particles of
    sigmoid(steepness (theta . z - offset)): the nearer the particles' answer to the estimate, the dearer.

    Args:
        direction: theta, by attribute; attributes on a line only.
        offset: The threshold.
        estimate: A released estimate of s of the private rows, between 0 and 1. Anything computed from
            private rows without noise would be a leak.
        strength: lambda. The tables pull back in proportion to the miss, and this pushes like its inverse
            cube, so that the miss grows like the fourth root of lambda: bench/runs/paper000.py found it at
            0.05 for 0.0001 and 0.14 for 0.01. (PrivPGD draws 0.01 to 10, and does not say how it scales.)
        steepness: Of the sigmoid.
        scale: Numerator.
        floor: Least denominator.

    Raises:
        InputError: An argument is out of range.
    """

    direction: Mapping[str, float]
    offset: float
    estimate: float
    strength: float = 1.0
    steepness: float = 5.0
    scale: float = 0.01
    floor: float = 1e-4

    def __post_init__(self) -> None:
        if not self.direction or not np.isfinite([*self.direction.values(), self.offset]).all():
            raise InputError(invalid("direction", "finite numbers by attribute", "Name an attribute."))
        if not 0 <= self.estimate <= 1:
            raise InputError(invalid("estimate", "between 0 and 1", "Clip the noisy answer."))
        _above("strength", self.strength)
        _above("steepness", self.steepness)
        _above("scale", self.scale)
        _above("floor", self.floor)

    def admit(self, embedding: Embedding) -> None:
        """Check that the domain has the attributes, on lines.

        Raises:
            SchemaError: It lacks one.
            InputError: One is not on a line.
        """
        _check_lines(self.direction, embedding)

    def answer(self, torch: Any, particles: Any, embedding: Embedding) -> Any:
        """s(Z), a scalar tensor."""
        score = _project(self.direction, particles, embedding)
        return torch.sigmoid(self.steepness * (score - self.offset)).mean()

    def __call__(self, torch: Any, particles: Any, embedding: Embedding) -> Any:
        """The penalty, a scalar tensor."""
        miss = self.answer(torch, particles, embedding) - self.estimate
        return self.strength * self.scale / (self.floor + miss * miss)


@dataclass(frozen=True, slots=True)
class HalfSpace:
    """Draws particles to where sum_a direction[a] z_a is at most `bound`.

    strength * mean over particles of max(direction . z - bound, 0)^2. Rules of a schema are obeyed
    exactly without a penalty; this is for soft knowledge about places in the embedding.

    Args:
        direction: By attribute; attributes on a line only.
        bound: Where the half-space ends.
        strength: Weight of the term.

    Raises:
        InputError: An argument is out of range.
    """

    direction: Mapping[str, float]
    bound: float
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not self.direction or not np.isfinite([*self.direction.values(), self.bound]).all():
            raise InputError(invalid("direction", "finite numbers by attribute", "Name an attribute."))
        _above("strength", self.strength)

    def admit(self, embedding: Embedding) -> None:
        """Check that the domain has the attributes, on lines.

        Raises:
            SchemaError: It lacks one.
            InputError: One is not on a line.
        """
        _check_lines(self.direction, embedding)

    def __call__(self, torch: Any, particles: Any, embedding: Embedding) -> Any:
        """The penalty, a scalar tensor."""
        score = _project(self.direction, particles, embedding)
        return self.strength * torch.clamp(score - self.bound, min=0.0).square().mean()


def _check_lines(direction: Mapping[str, float], embedding: Embedding) -> None:
    """Raise as `_line` does unless each attribute of a direction is on a line."""
    for name in direction:
        _line(embedding, name)


def _project(direction: Mapping[str, float], particles: Any, embedding: Embedding) -> Any:
    """sum_a direction[a] z_a of each particle, shape [particles]."""
    return sum(float(weight) * particles[:, _line(embedding, name)] for name, weight in direction.items())


def _line(embedding: Embedding, name: str) -> int:
    part = embedding.columns(name)
    if part.stop - part.start != 1:
        raise InputError(invalid("direction", f"of attributes on a line, not {name!r}", "Leave it out."))
    return int(part.start)


def _above(param: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InputError(invalid(param, "a finite number above 0", "Try the default.", got=value))


DIGIT = 11
"""Bits of a pass: three passes see all 32."""


def lowest_first(device: Device, scores: Any) -> Any:
    """The particles of each direction from the lowest score to the highest, as a tensor of int64.

    On the processor a sort by digits: ten directions of 10,000 particles took 0.8 ms of one core where
    PyTorch's sort took 6.3 ms, and of 100,000 particles 6 ms and 79 ms. Elsewhere the device's own.

    Args:
        device: Where the scores are.
        scores: Finite, of type float32, shape [directions, particles].
    """
    if device.place.type != "cpu":
        return device.torch.argsort(scores, dim=1)
    bits = np.ascontiguousarray(scores.numpy()).view(np.uint32)
    found = np.empty(bits.shape, dtype=np.int64)
    _by_digits(bits, found)
    return device.torch.from_numpy(found)


@njit("void(uint32[:, ::1], int64[:, ::1])", cache=True, nogil=True)
def _by_digits(bits, found):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Stable orders of rows of floats without NaN, given as their bits.

    Bits of floats above 0 rise with them, those of floats below 0 fall and have the sign bit set: with the
    sign bit turned, and of floats below 0 all others as well, they rise throughout.
    """
    rows, count = bits.shape
    tally = np.empty((3, 2048), np.int64)
    keys, other_keys = np.empty(count, np.uint32), np.empty(count, np.uint32)
    order, other_order = np.empty(count, np.int64), np.empty(count, np.int64)
    low = np.uint32(2047)
    for row in range(rows):
        tally[:] = 0
        for i in range(count):
            # Turn the bits so that unsigned numbers sort as the floats do.
            own = bits[row, i]
            own ^= np.uint32(0xFFFFFFFF) if own >> np.uint32(31) else np.uint32(0x80000000)
            keys[i], order[i] = own, i
            # One pass counts the digits of all three levels.
            tally[0, own & low] += 1
            tally[1, (own >> np.uint32(DIGIT)) & low] += 1
            tally[2, own >> np.uint32(2 * DIGIT)] += 1
        # Least significant digit first; each pass is stable, so that earlier digits stay in order.
        for level in range(3):
            # Counts become the place where each digit's run begins.
            below = 0
            for digit in range(2048):
                here = tally[level, digit]
                tally[level, digit] = below
                below += here
            shift = np.uint32(DIGIT * level)
            for i in range(count):
                digit = (keys[i] >> shift) & low
                at = tally[level, digit]
                tally[level, digit] = at + 1
                other_keys[at], other_order[at] = keys[i], order[i]
            keys, other_keys = other_keys, keys
            order, other_order = other_order, order
        found[row] = order


Floats = NDArray[np.float64]

MEAN, SQUARE = 0.9, 0.999
"""How long Adam remembers gradients and their squares."""

TABLES_A_PENALTY = 5
"""Tables for which a penalty counts once (PrivPGD, algorithm 3 with its batches of five)."""
MAX_PENALTY_RATIO = 10.0
"""Length of a penalty's gradient over that of the tables' at most."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A table that the particles are to have.

    Args:
        clique: Its attributes.
        counts: Particles in each cell, shape [cells].
        weight: Of its distance in the loss.
    """

    clique: Clique
    counts: NDArray[np.int64]
    weight: float


@dataclass(frozen=True, slots=True)
class Transport:
    """How to move.

    Args:
        epochs: How often every table is seen.
        directions: Random directions for each table each time.
        batch: Tables in one step.
        rate: Adam's first step length, in units of the embedding.
        last: Its last one; it falls evenly in its logarithm.
        kept: Share of the gradient's entries that move in a step.
    """

    epochs: int
    directions: int
    batch: int
    rate: float
    last: float
    kept: float


def move(
    embedding: Embedding,
    start: NDArray[np.floating],
    goals: Sequence[Goal],
    how: Transport,
    penalty: Penalty | None,
    device: Device,
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> NDArray[np.float32]:
    """Particles with a small sum over goals of weight * SW2^2, plus the penalty (PrivPGD, algorithm 3).

    Args:
        embedding: Where codes lie.
        start: Where particles are at first, shape [particles, width].
        goals: Tables, each of as many particles.
        how: Steps and directions.
        penalty: A further term of the loss.
        device: Where to compute.
        rng: Of directions, batches and the entries that move.
        stop: Whether to take no more steps.
    """
    moved = _Moving(embedding, start, how, device, rng)
    for epoch in range(how.epochs):
        # From the first length to the last, evenly in the logarithm.
        rate = how.rate * (how.last / how.rate) ** (epoch / max(how.epochs - 1, 1))
        order = rng.permutation(len(goals))
        for first in range(0, len(goals), how.batch):
            if stop():
                return moved.copy_particles()
            moved.step([goals[k] for k in order[first : first + how.batch]], penalty, rate)
    return moved.copy_particles()


class _Moving:
    """The particles, one column a dimension, and what Adam remembers of each."""

    def __init__(
        self,
        embedding: Embedding,
        start: NDArray[np.floating],
        how: Transport,
        device: Device,
        rng: np.random.Generator,
    ) -> None:
        torch = device.torch
        self.embedding, self.how, self.device, self.rng = embedding, how, device, rng
        self.at = device.put(np.ascontiguousarray(start.T), torch.float32)
        self.slope, self.bend = torch.zeros_like(self.at), torch.zeros_like(self.at)
        self.taken = dict.fromkeys(embedding.domain.names, 0)
        self.chance = torch.Generator(device=device.place)
        self.chance.manual_seed(int(rng.integers(1 << 62)))
        self.low, self.high = _bounds(embedding, device)

    def copy_particles(self) -> NDArray[np.float32]:
        """The particles, shape [particles, width]."""
        return np.ascontiguousarray(self.at.cpu().numpy().T)

    def step(self, goals: Sequence[Goal], penalty: Penalty | None, rate: float) -> None:
        """One step of Adam on the attributes of some goals, all attributes with a penalty."""
        names = {name for goal in goals for name in goal.clique}
        gradient = self._gradient(goals)
        if penalty is not None:
            gradient += self._penalty_gradient(penalty, len(goals), gradient)
            names = set(self.taken)
        for name in self.embedding.domain.names:
            if name in names:
                self._advance(name, gradient[self.embedding.columns(name)], rate)

    def _gradient(self, goals: Sequence[Goal]) -> Any:
        """Of the sum of weight * SW2^2 (equation 8), shape [width, particles].

        In a direction g, the i-th lowest particle is matched with the i-th lowest of the goal; the derivative
        of the mean squared difference by a particle is 2 / particles * difference * g.
        """
        torch, count = self.device.torch, self.at.shape[1]
        looks = [self._look(goal) for goal in goals]
        scores = torch.cat([own for _, own, _ in looks])
        # Each goal has directions of its own, but all are sorted in one call.
        # On a line the cheapest transport pairs the lowest with the lowest, so sorting is all there is to
        # it.
        lowest = lowest_first(self.device, scores)
        goal = torch.cat([wanted for _, _, wanted in looks])
        # Each particle's score less that of its partner, which has the same rank.
        miss = scores - torch.empty_like(scores).scatter_(1, lowest, goal)
        gradient, first = torch.zeros_like(self.at), 0
        for one, (parts, own, _) in zip(goals, looks, strict=True):
            mine = miss[first : first + len(own)]
            first += len(own)
            factor = 2.0 * one.weight / (count * len(own))
            for name, part in parts.items():
                gradient[self.embedding.columns(name)] += factor * (part @ mine)
        return gradient

    def _look(self, goal: Goal) -> tuple[dict[str, Any], Any, Any]:
        """Directions by attribute, and the scores of particles and of the goal, lowest first, in each."""
        torch, clique = self.device.torch, goal.clique
        drawn = self.embedding.directions(clique, self.how.directions, self.rng)
        parts = {name: self.device.put(part, torch.float32) for name, part in zip(clique, drawn, strict=True)}
        own = sum(part.T @ self.at[self.embedding.columns(name)] for name, part in parts.items())
        filled = np.flatnonzero(goal.counts)
        # Empty cells have no particle to be matched with.
        cells = self.embedding.scores(clique, drawn)[:, filled]
        order = np.argsort(cells, axis=1, kind="stable")
        lined = self.device.put(np.take_along_axis(cells, order, 1).ravel(), torch.float32)
        counts = self.device.put(goal.counts[filled][order].ravel(), torch.int64)
        # A cell's place is repeated once for each of its particles, lowest first.
        wanted = torch.repeat_interleave(lined, counts, output_size=len(drawn[0][0]) * self.at.shape[1])
        return parts, own, wanted.reshape(own.shape)

    def _penalty_gradient(self, penalty: Penalty, goals: int, pull: Any) -> Any:
        """The penalty's gradient, for as many tables as there are, at most MAX_PENALTY_RATIO times the
        tables' own.

        Where they are in balance it is the shorter one on the whole. Far from there it may be a thousand
        times longer, and Adam would remember its square for thousands of steps in which nothing else can
        move a particle.
        """
        torch = self.device.torch
        at = self.at.detach().T.clone().requires_grad_()
        value = penalty(torch, at, self.embedding)
        (found,) = torch.autograd.grad(value, at)
        push = found.T * (goals / TABLES_A_PENALTY)
        share = MAX_PENALTY_RATIO * pull.norm() / push.norm().clamp(min=1e-30)
        return push * share.clamp(max=1.0)

    def _advance(self, name: str, gradient: Any, rate: float) -> None:
        """Adam for one attribute: entries that do not move keep what is remembered of them."""
        torch, part = self.device.torch, self.embedding.columns(name)
        self.taken[name] += 1
        slope = MEAN * self.slope[part] + (1 - MEAN) * gradient
        bend = SQUARE * self.bend[part] + (1 - SQUARE) * gradient * gradient
        # Adam's corrections by how often this attribute has moved, as attributes move at different steps.
        early, young = 1 - MEAN ** self.taken[name], 1 - SQUARE ** self.taken[name]
        length = rate / early * slope / ((bend / young).sqrt() + 1e-12)
        # Only a random part of the entries moves (see `kept`); what Adam remembers of the others stays as
        # it was.
        if self.how.kept < 1.0:
            drawn = torch.rand(length.shape, generator=self.chance, device=length.device) < self.how.kept
            slope = torch.where(drawn, slope, self.slope[part])
            bend = torch.where(drawn, bend, self.bend[part])
            length = torch.where(drawn, length, torch.zeros_like(length))
        self.slope[part], self.bend[part] = slope, bend
        self.at[part] = torch.clamp(self.at[part] - length, self.low[part], self.high[part])


def _bounds(embedding: Embedding, device: Device) -> tuple[Any, Any]:
    """The box that particles stay in, a column a dimension: [0, 1], or as far as codes lie beyond it."""
    low = np.concatenate([place.min(axis=0) for place in embedding.places])
    high = np.concatenate([place.max(axis=0) for place in embedding.places])
    single = device.torch.float32
    return device.put(np.minimum(low, 0.0)[:, None], single), device.put(
        np.maximum(high, 1.0)[:, None], single
    )
