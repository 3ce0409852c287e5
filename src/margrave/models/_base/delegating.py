"""DelegatingModel: a model whose answers are another's, with something that its fitter has to remember."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.limits import Deadline
from margrave.models._base.model import Model
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded

if TYPE_CHECKING:
    from margrave import protocols

Floats = NDArray[np.float64]
Inner = TypeVar("Inner", bound="protocols.Model")


class DelegatingModel(Model, Generic[Inner]):
    """All answers are the inner model's.

    Args:
        inner: The model.
    """

    def __init__(self, inner: Inner) -> None:
        self.inner = inner

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self.inner.domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self.inner.total

    @property
    def converged(self) -> bool:
        """Whether the inner model's fit met its tolerance."""
        return self.inner.converged

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        return self.inner.project(clique)

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        return self.inner.project_many(cliques)

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        given: Mapping[str, int | Codes] | None = None,
        deadline: Deadline | None = None,
    ) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given` and on the rules; see the inner model's.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """
        return self.inner.sample(rows, rng, given, deadline)

    def state(self) -> dict[str, Floats]:
        """Arrays from which the fitter's `restore` builds the same model again."""
        return self.inner.state()
