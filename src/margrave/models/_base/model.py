"""Model: the base of every fitted distribution. A family says its marginals, its rows and its arrays.

`DelegatingModel` is a model whose answers are another's, with something that its fitter has to remember.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.limits import Deadline
from margrave.models._base.constraints import Evidence, sample_codes
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Codes, Encoded

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.schema.constraints.rules import Rule


Floats = NDArray[np.float64]


class Model(ABC):
    """A fitted distribution over a domain. Everything here is post-processing and free.

    A family defines `domain`, `total`, `project`, `state`, and either `draw_rows`, which the base conditions
    on the domain's rules and checks, or the whole of `sample`.

    Example:
        >>> class Uniform(Model):
        ...     def __init__(self, domain, total):
        ...         self._domain, self._total = domain, total
        ...     domain = property(lambda self: self._domain)
        ...     total = property(lambda self: self._total)
        ...     def project(self, clique):
        ...         return np.full(self.domain.shape(clique), self.total / self.domain.size(clique))
        ...     def draw_rows(self, rows, given, rng, deadline=None):
        ...         return [
        ...             np.broadcast_to(given[name], rows) if name in given else rng.integers(size, size=rows)
        ...             for name, size in zip(self.domain.names, self.domain.sizes, strict=True)
        ...         ]
        ...     def state(self):
        ...         return {"total": np.asarray(self.total)}
        >>> model = Uniform(Domain(("a", "b"), (2, 4)), 80.0)
        >>> model.project(("b",)).tolist()
        [20.0, 20.0, 20.0, 20.0]
        >>> model.sample(3, np.random.default_rng(0), {"a": 1}).column("a").tolist()
        [1, 1, 1]
    """

    __slots__ = ()

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """Names and sizes of the attributes, with their rules."""

    @property
    @abstractmethod
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""

    @property
    def converged(self) -> bool:
        """Whether the fit met its tolerance; always for a family without one."""
        return True

    @property
    def found_rules(self) -> tuple[Rule, ...]:
        """What the fit saw in released tables and its rows keep, as rules that are not promised."""
        return ()

    @abstractmethod
    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques; a family that is faster at many than one by one overrides it."""
        return [self.project(clique) for clique in cliques]

    def one_ways(self) -> dict[str, Floats]:
        """Each attribute's distribution, up to a factor, [codes]; asked for where rules leave few rows."""
        return {name: self.project((name,)) for name in self.domain.names}

    def sample(
        self,
        rows: int,
        rng: np.random.Generator,
        given: Mapping[str, int | Codes] | None = None,
        deadline: Deadline | None = None,
    ) -> Encoded:
        """Synthetic rows, conditioned on the codes in `given` and on the rules.

        Args:
            rows: How many, at least 0.
            rng: Source of randomness.
            given: Codes by attribute, one for all rows or one a row, [rows]; rows keep the order of those.
            deadline: When to leave rows as they were drawn, without work that only brings them nearer to the
                model.

        Raises:
            InputError: rows is negative, a code is outside its attribute, or no row obeys the rules with it.
        """

        def draw(count: int, codes: Evidence) -> Sequence[NDArray[Any]]:
            return self.draw_rows(count, codes, rng, deadline)

        return sample_codes(self.domain, rows, given, rng, draw, self.one_ways)

    def draw_rows(
        self, rows: int, given: Evidence, rng: np.random.Generator, deadline: Deadline | None = None
    ) -> Sequence[NDArray[Any]]:
        """Rows that may break rules, a column of codes an attribute in the domain's order, each [rows].

        Args:
            rows: How many.
            given: Checked codes by attribute, one for all rows or one a row.
            rng: Source of randomness.
            deadline: As for `sample`.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither draw_rows nor sample")

    @abstractmethod
    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which the estimator's `restore` builds the same model again."""


Inner = TypeVar("Inner", bound="protocols.Model")

INNER_PREFIX = "inner_"
"""What the names of an inner model's arrays begin with: its holder may have arrays of the same names."""


def pack_inner(model: protocols.Model) -> dict[str, NDArray[Any]]:
    """An inner model's arrays, under names that its holder's do not have."""
    return {INNER_PREFIX + key: part for key, part in model.state().items()}


def unpack_inner(state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The arrays of the inner model in its holder's state, under their own names."""
    return {
        key.removeprefix(INNER_PREFIX): part for key, part in state.items() if key.startswith(INNER_PREFIX)
    }


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

    @property
    def found_rules(self) -> tuple[Rule, ...]:
        """Those of the inner model."""
        return self.inner.found_rules

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
