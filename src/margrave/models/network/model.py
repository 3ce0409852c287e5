"""NetworkModel: the mixture of products that a generator is on its noise vectors, with its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.mixture.grouped import GroupedMixture
from margrave.models.mixture.model import MixtureModel
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded

__all__ = ["NetworkModel"]

Floats = NDArray[np.float64]


class NetworkModel:
    """A mixture of products, and the weights of the network that made it.

    All answers are the mixture's; the weights are for a later fit to go on from, and are not saved.

    Args:
        mixture: What the network is on its noise vectors.
        weights: The network's; empty for a model that was loaded.
    """

    def __init__(
        self, mixture: MixtureModel | GroupedMixture, weights: Sequence[NDArray[np.float32]] = ()
    ) -> None:
        self.mixture, self.weights = mixture, tuple(weights)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self.mixture.domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self.mixture.total

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        return self.mixture.project(clique)

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        return self.mixture.project_many(cliques)

    def sample(
        self, rows: int, rng: np.random.Generator, given: Mapping[str, int | Codes] | None = None
    ) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given` and on the rules; see `MixtureModel.sample`.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """
        return self.mixture.sample(rows, rng, given)

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Network.restore` builds the same model again."""
        return self.mixture.state()
