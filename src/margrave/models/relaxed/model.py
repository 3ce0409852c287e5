"""PlacedModel: the mixture of products that relaxed rows with numbers are, with the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from margrave.models.carried import Carried
from margrave.models.mixture.grouped import GroupedMixture
from margrave.models.mixture.model import MixtureModel

__all__ = ["Placed", "PlacedModel"]


@dataclass(frozen=True, slots=True)
class Placed:
    """Relaxed rows as numbers and logits.

    Args:
        numbers: In [0, 1], shape [numbers, rows], on a device.
        gates: Logits, shape [gates, rows], on a device.
        steepness: Of the sigmoids that make shares of codes from numbers.
    """

    numbers: Any
    gates: Any
    steepness: float


class PlacedModel(Carried[MixtureModel | GroupedMixture]):
    """A mixture of products, and the numbers it is made of.

    All answers are the mixture's; the numbers are for a later fit to go on from, and are not saved.

    Args:
        inner: The relaxed rows' shares.
        placed: Their numbers; None for a model that was loaded.
    """

    def __init__(self, inner: MixtureModel | GroupedMixture, placed: Placed | None = None) -> None:
        super().__init__(inner)
        self.placed = placed
