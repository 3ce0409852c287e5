"""GroupedModel: any model over groups of codes, answering in codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.limits import Deadline
from margrave.models._base.evidence import Evidence
from margrave.models._base.model import Model
from margrave.models._grouping.coding import CodeGrouping
from margrave.models._grouping.wide_pairs import WidePair
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave import protocols

Floats = NDArray[np.float64]
Inner = TypeVar("Inner", bound="protocols.Model")


class GroupedModel(Model, Generic[Inner]):
    """A model in which some attributes are modelled in groups of codes; see `CodeGrouping`.

    Args:
        inner: The model over groups.
        grouping: Which codes each group stands for.
        wide: Pairs of attributes in groups that are known code by code.
    """

    def __init__(self, inner: Inner, grouping: CodeGrouping, wide: Sequence[WidePair] = ()) -> None:
        self.inner = inner
        self.grouping = grouping
        self.wide = tuple(wide)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes, codes and not groups."""
        return self.grouping.domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self.inner.total

    @property
    def converged(self) -> bool:
        """Whether the fit of the model over groups met its aim."""
        return self.inner.converged

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        return self._spread(self.inner.project(clique), clique)

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The marginals of many cliques."""
        tables = self.inner.project_many(cliques)
        return [self._spread(table, clique) for table, clique in zip(tables, cliques, strict=True)]

    def _spread(self, table: Floats, clique: Clique) -> Floats:
        """A table over groups as one over codes."""
        table = self.grouping.spread(table, clique)
        for wide in self.wide:
            if set(wide.names) <= set(clique):
                table = wide.spread(table, clique)
        return table

    def draw_rows(
        self, rows: int, given: Evidence, rng: np.random.Generator, deadline: Deadline | None = None
    ) -> list[NDArray[np.int64]]:
        """Rows of the model over groups, each code drawn from its group."""
        groups = self.grouping.groups
        inner: dict[str, Any] = {n: groups[n][codes] if n in groups else codes for n, codes in given.items()}
        found = self.inner.sample(rows, rng, inner, deadline)
        columns: dict[str, NDArray[np.int64]] = {}
        for name in self.domain.names:
            codes = found.column(name).astype(np.int64)
            if name in given:
                codes = np.array(np.broadcast_to(given[name], rows), dtype=np.int64)
            elif name in groups:
                codes = self.grouping.draw_codes(name, codes, rng)
            columns[name] = codes
        fixed = set(given)
        for wide in self.wide:
            first, second = wide.names
            child = second if second not in fixed else first
            if child not in fixed:
                parent = first if child == second else second
                own = found.column(child).astype(np.int64)
                columns[child] = wide.draw(child, own, columns[parent], groups[child], rng)
            fixed.update(wide.names)
        return list(columns.values())

    def state(self) -> dict[str, Floats]:
        """Arrays from which the fitter's `restore` builds the same model again."""
        state = self.inner.state() | self.grouping.state()
        places = [[self.domain.index(name) for name in wide.names] for wide in self.wide]
        return state | {"wide_pairs": np.asarray(places, dtype=np.float64)} if places else state
