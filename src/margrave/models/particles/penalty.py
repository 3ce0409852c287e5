"""Penalty: further terms of the particles' loss: anything differentiable (PrivPGD, section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    from margrave.models.particles.embedding import Embedding


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
        for name in self.direction:
            _line(embedding, name)

    def answer(self, torch: Any, particles: Any, embedding: Embedding) -> Any:
        """s(Z), a scalar tensor."""
        score = sum(
            float(weight) * particles[:, _line(embedding, name)] for name, weight in self.direction.items()
        )
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
        for name in self.direction:
            _line(embedding, name)

    def __call__(self, torch: Any, particles: Any, embedding: Embedding) -> Any:
        """The penalty, a scalar tensor."""
        score = sum(
            float(weight) * particles[:, _line(embedding, name)] for name, weight in self.direction.items()
        )
        return self.strength * torch.clamp(score - self.bound, min=0.0).square().mean()


def _line(embedding: Embedding, name: str) -> int:
    part = embedding.columns(name)
    if part.stop - part.start != 1:
        raise InputError(invalid("direction", f"of attributes on a line, not {name!r}", "Leave it out."))
    return int(part.start)


def _above(param: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0):
        raise InputError(invalid(param, "a finite number above 0", "Try the default.", got=value))
