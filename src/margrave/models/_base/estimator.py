"""Estimator: the base of every family of models. What it takes and learns from is declared, never sniffed.

`DelegatingEstimator` is one that fits another family.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.constraints import resolve_dependencies
from margrave.models._base.pooling import Pooled, pool, rows_of
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Fitter, LearnsFrom, Model
    from margrave.release import NoisyMarginal

Fitted = TypeVar("Fitted", bound="Model", covariant=True)
Own = TypeVar("Own", bound="Estimator[Any]")


class Estimator(ABC, Generic[Fitted]):
    """Turns released marginals into a model. It sees released quantities only: post-processing.

    A family defines `name`, `fit_tables`, which is given one table a clique, and `restore_model`, both over a
    domain whose rules are resolved; or the whole of `fit`, or of `restore`, where it resolves them itself. It
    is a frozen dataclass of its settings: what a run adds to them (`options`) is set in a copy.

    Example:
        >>> from margrave.models.independent import Independent
        >>> Independent().options, sorted(Independent().learns_from)
        (frozenset(), ['marginals'])
    """

    __slots__ = ()

    options: ClassVar[frozenset[str]] = frozenset()
    """What a run may set in it, each a field of this name: "target", "max_memory", "given" and "reference"
    for public rows, "dependent_noise" where all tables come from the same noisy rows."""
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"marginals"})
    """What it learns from: marginals, moments of the rows, gradients of the rows, noisy copies of them, or
    votes of teachers."""
    small: ClassVar[bool] = False
    """Whether its models take next to no memory, so that no limit of memory concerns it."""
    instant: ClassVar[bool] = False
    """Whether a fit without rules takes next to no time and is the same whatever the effort says."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name it is saved and resolved under."""

    @property
    def fit_seconds(self) -> float:
        """Processor seconds that its fits add to a run, a squared column, where a plan knows no more of it.

        A family with a measured figure (bench/runs/adult.py, the pages of docs/methods) states it as a class
        variable.
        """
        return 0.0

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> Fitted:
        """The model that explains the measurements, weighted by 1 / sigma^2; see the class.

        Args:
            domain: Names and sizes of the attributes, with their rules.
            measurements: Noisy marginals of any cliques, several of one clique included.
            total: Rows to stand for; the inverse-variance mean of the measurements' sums when None.
            warm: A model of this family over the same domain, from which some families start.
            effort: How precise to be, and when to stop.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, the model would be too large,
                or the family does not learn from marginals.
        """
        if "marginals" not in self.learns_from:
            remedy = f"{self.name!r} learns from {' and '.join(sorted(self.learns_from))}."
            raise InputError(invalid("model", "one that learns from marginals", remedy, got=self.name))
        rows, tables = rows_of(measurements, total), pool(domain, measurements)
        return self.fit_tables(resolve_dependencies(domain, tables), tables, rows, warm, effort)

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> Fitted:
        """The model that explains one table a clique.

        Args:
            domain: Names and sizes of the attributes; dependencies among its rules are read off the tables.
            tables: Measurements pooled by clique, in the domain's order: values and sigma, in rows.
            rows: To stand for, above 0.
            warm, effort: As for `fit`.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither fit_tables nor fit")

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> Fitted:
        """The model whose `state` was saved, with no optimisation and no optional library.

        Raises:
            ReleaseError: The state is not that of a model of these measurements.
        """
        if domain.rules is not None:
            # Dependencies were read off the tables when the model was fitted; a release keeps the tables.
            domain = resolve_dependencies(domain, pool(domain, measurements))
        return self.restore_model(domain, measurements, state)

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> Fitted:
        """The model whose `state` was saved, over a domain whose rules are resolved as for `fit_tables`.

        Raises:
            ReleaseError: The state is not that of a model of these measurements.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither restore_model nor restore")

    def prepare(self) -> None:
        """Check that libraries and devices it computes with are there, before anything is spent.

        Raises:
            InputError: There is no such device.
            MissingExtraError: A library is not installed.
        """

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check that a model of these cliques is not too large, before they are bought.

        Raises:
            InputError: It is.
        """

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Any:
        """Cells that the model would hold with cliques plus each one candidate, infinite where too many.

        Shape [candidates]. By default those of all one-ways, whatever is measured.
        """
        return np.full(len(candidates), float(sum(domain.sizes)))

    def count_codes(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Codes that are modelled of attributes of these sizes, and how many it takes at most."""
        return float(sum(sizes)), math.inf

    @property
    def target(self) -> str | None:
        """An attribute that rows are meant to predict; a field of families that take one."""
        return None

    @property
    def max_memory(self) -> int | None:
        """Bytes that the program may take with the model; a field of families that take a limit."""
        return None

    @property
    def named_columns(self) -> frozenset[str]:
        """The columns that it was told of by name: the target."""
        return frozenset() if self.target is None else frozenset({self.target})

    def with_options(self: Own, **options: Any) -> Own:
        """A copy with some of its `options` set."""
        asked: Any = self
        changed: Own = dataclasses.replace(asked, **options)
        return changed


class DelegatingEstimator(Estimator[Fitted]):
    """Fits another family, to tables that are no longer as they were measured.

    A subclass is a dataclass with the fields `fitter`, the other family, and `max_memory`; it defines
    `fit_tables` and `restore_model`, or the whole of `fit` and `restore`, by `_inner`. All else is asked of
    the other family. Its model is a `DelegatingModel` whose state has the other's by `pack_inner`.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def fitter(self) -> Fitter:
        """The family that is fitted."""

    @property
    def _inner(self) -> Fitter:
        """The fitter, with this one's limit of memory where there is one."""
        if self.max_memory is None:
            return self.fitter
        return self.fitter.with_options(max_memory=self.max_memory)

    def _check_memory(self) -> None:
        if self.max_memory is not None and "max_memory" not in self.fitter.options:
            remedy = f"{self.fitter.name!r} has no limit of its own."
            raise InputError(invalid("max_memory", "left out with this fitter", remedy))

    def prepare(self) -> None:
        """See the fitter's `prepare`."""
        self._inner.prepare()

    def count_codes(self, sizes: Sequence[int]) -> tuple[float, float]:
        """See the fitter's `count_codes`."""
        return self._inner.count_codes(sizes)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """See the fitter's `admit`: what becomes of the tables is not known beforehand."""
        self._inner.admit(domain, cliques)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Any:
        """See the fitter's `cells`, shape [candidates]."""
        return self._inner.cells(domain, cliques, candidates)

    @property
    def named_columns(self) -> frozenset[str]:
        """See the fitter's `named_columns`."""
        return self.fitter.named_columns
