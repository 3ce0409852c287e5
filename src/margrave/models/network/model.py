"""NetworkModel: the mixture of products that a generator is on its noise vectors, with its weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.carried import Carried
from margrave.models.mixture.grouped import GroupedMixture
from margrave.models.mixture.model import MixtureModel

__all__ = ["NetworkModel"]


class NetworkModel(Carried[MixtureModel | GroupedMixture]):
    """A mixture of products, and the weights of the network that made it.

    All answers are the mixture's; the weights are for a later fit to go on from, and are not saved.

    Args:
        inner: What the network is on its noise vectors.
        weights: The network's; empty for a model that was loaded.
    """

    def __init__(
        self, inner: MixtureModel | GroupedMixture, weights: Sequence[NDArray[np.float32]] = ()
    ) -> None:
        super().__init__(inner)
        self.weights = tuple(weights)
