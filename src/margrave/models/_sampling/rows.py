"""RowModel: a distribution that is the frequencies of a table of synthetic rows.

Rows that go with given codes are found in the table, and even picks are made among them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import Deadline
from margrave.models._base.compiled import compile_kernel
from margrave.models._base.constraints import Evidence, by_row, sample_constrained
from margrave.models._base.estimator import Estimator
from margrave.models._base.memory import Room
from margrave.models._base.model import Model
from margrave.models._sampling.rounding import draw_column
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import code_dtype

if TYPE_CHECKING:
    from margrave.release import NoisyMarginal

Longs = NDArray[np.int64]
Rows = NDArray[Any]

MAX_KEY = 1 << 62
"""Keys stay below this; beyond it those that occur are numbered anew."""


def key_rows(columns: Sequence[NDArray[Any]], sizes: Sequence[int], rows: int) -> Longs:
    """A number a row, equal for two rows exactly where all their codes are: shape [rows].

    Args:
        columns: Codes, each of shape [rows].
        sizes: Codes of each column.
        rows: How many.
    """
    keys, bound = np.zeros(rows, dtype=np.int64), 1
    for column, size in zip(columns, sizes, strict=True):
        # Keys that occur are at most as many as rows, so numbering them anew makes room again.
        if bound * size > MAX_KEY:
            occurring, keys = np.unique(keys, return_inverse=True)
            bound = len(occurring)
        keys, bound = keys * size + column, bound * size
    return keys


def order_alike(columns: Rows, sizes: Sequence[int], rng: np.random.Generator) -> Longs:
    """The rows in an order in which neighbours are alike: by as many attributes as fit a key, [rows].

    Attributes come in random order and rows that agree in all of them as they lie, after a shuffle.
    """
    rows = columns.shape[1]
    # Shuffled first, since a stable sort leaves equal keys as they lie.
    start, keys, bound = rng.permutation(rows), np.zeros(rows, dtype=np.int64), 1
    for place in rng.permutation(len(sizes)).tolist():
        if bound * sizes[place] > MAX_KEY:
            break
        keys, bound = keys * sizes[place] + columns[place], bound * sizes[place]
    return np.asarray(start[np.argsort(keys[start], kind="stable")])


def picks(wanted: int, there: int, rng: np.random.Generator) -> Longs:
    """Places among `there` rows, as even as can be: every one occurs wanted / there times, rounded.

    Shape [wanted], in random order. The start is uniform, so each place is expected wanted / there times.
    """
    # Systematic sampling: one uniform start, then equal steps through the table.
    steps = (np.arange(wanted) + rng.random()) * (there / max(wanted, 1))
    return np.asarray(rng.permutation(np.minimum(steps.astype(np.int64), there - 1)))


def match_most(columns: Rows, attributes: Sequence[int], codes: Sequence[int]) -> Longs:
    """The rows that agree with the most of some codes, shape [matches].

    Args:
        columns: Codes, shape [attributes, rows].
        attributes: Which of them the codes are of.
        codes: The code wanted of each.
    """
    agreed = np.empty(columns.shape[1], dtype=np.int64)
    return _match_most(columns, np.asarray(attributes, np.int64), np.asarray(codes, np.int64), agreed)


@compile_kernel
def _match_most(columns: Rows, attributes: Longs, codes: Longs, agreed: Longs) -> Longs:
    agreed[:] = 0
    for k in range(len(attributes)):
        for row in range(len(agreed)):
            agreed[row] += np.int64(columns[attributes[k], row]) == codes[k]
    most = agreed.max()
    return np.flatnonzero(agreed == most)


Floats = NDArray[np.float64]


class RowModel(Model):
    """The frequencies of rows that a generator has made, times uniform codes of attributes it knew nothing
    of.

    Given codes select the rows that have them. Where no row has them all, those that have the most of them
    are used and the rest of the codes written over: the limit, as the probability goes to 0, of a table in
    which each code of each row is replaced with a small probability by any other. So every code can be given.

    Args:
        domain: Names and sizes of the attributes.
        total: Rows the model stands for.
        names: The attributes the rows have, in the domain's order.
        columns: Their codes, shape [names, rows], one row or more.
    """

    def __init__(self, domain: Domain, total: float, names: Clique, columns: Rows) -> None:
        self._domain = domain
        self._total = float(total)
        self._names = tuple(names)
        self._columns = columns
        self._sizes = domain.shape(self._names)

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self._total

    @property
    def rows(self) -> int:
        """Rows of the table the model is made of."""
        return int(self._columns.shape[1])

    def project(self, clique: Clique) -> Floats:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            InputError: The clique repeats an attribute.
        """
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        shape = self._domain.shape(clique)
        held = [name for name in clique if name in self._names]
        cells = np.zeros(self.rows, dtype=np.int64)
        for name in held:
            cells = cells * self._domain[name] + self._column(name)
        # Columns that the rows lack are uniform: their cells share each count evenly.
        counts = np.bincount(cells, minlength=self._domain.size(held)).astype(np.float64)
        spread = self._domain.size(clique) // self._domain.size(held)
        wide = [self._domain[name] if name in held else 1 for name in clique]
        scale = self._total / self.rows / spread
        return np.array(np.broadcast_to(counts.reshape(wide) * scale, shape))

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `row_model_from_state` builds the same model again."""
        places = [self._domain.index(name) for name in self._names]
        return {
            "total": np.asarray(self._total),
            "held": np.asarray(places, dtype=np.int64),
            "rows": self._columns,
        }

    def one_ways(self) -> dict[str, Floats]:
        """Each attribute's distribution, [codes]."""
        return {name: self.project((name,)) / self._total for name in self._domain.names}

    def _column(self, name: str) -> Rows:
        column: Rows = self._columns[self._names.index(name)]
        return column

    def draw_rows(
        self, rows: int, given: Evidence, rng: np.random.Generator, deadline: Deadline | None = None
    ) -> list[Rows]:
        """Rows of the table, each as often as any other to within one; see the class."""
        held = {name: codes for name, codes in given.items() if name in self._names}
        chosen = self._choose_rows(rows, held, rng)
        found = []
        for name in self._domain.names:
            if name in given:
                found.append(np.array(np.broadcast_to(given[name], rows)))
            elif name in self._names:
                found.append(self._column(name)[chosen])
            else:
                # Nothing is known of the attribute, so its codes come as evenly as can be.
                even, one = np.ones((1, self._domain[name])), np.zeros(rows, dtype=np.int64)
                found.append(draw_column(one, np.arange(rows), even, rng))
        return found

    def _choose_rows(self, rows: int, given: Evidence, rng: np.random.Generator) -> NDArray[np.int64]:
        """Which row of the table each row that is asked for comes from, shape [rows]."""
        if not rows:
            return np.zeros(0, dtype=np.int64)
        order = order_alike(self._columns, self._sizes, rng)
        if not given:
            return np.asarray(order[picks(rows, self.rows, rng)])
        # Codes that are the same in all rows need one search.
        names = tuple(given)
        if not by_row(given):
            matching = self._matching_rows(order, names, [int(given[name]) for name in names])
            return np.asarray(matching[picks(rows, len(matching), rng)])
        return self._chosen_by_row(rows, given, order, rng)

    def _chosen_by_row(
        self, rows: int, given: Evidence, order: NDArray[np.int64], rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """As `_choose_rows`, one distinct set of codes after another."""
        names = tuple(given)
        wanted = [np.broadcast_to(given[name], rows).astype(np.int64) for name in names]
        both = [np.append(self._column(n)[order], w) for n, w in zip(names, wanted, strict=True)]
        # Numbers for combinations of codes: rows of the table and rows asked for are matched by sorting
        # both, not by comparing each with each.
        keys = key_rows(both, self._domain.shape(names), self.rows + rows)
        by_key = np.argsort(keys[: self.rows], kind="stable")
        own, asked = keys[: self.rows][by_key], keys[self.rows :]
        by_asked = np.argsort(asked, kind="stable")
        groups, firsts = np.unique(asked[by_asked], return_index=True)
        lows, highs = np.searchsorted(own, groups, "left"), np.searchsorted(own, groups, "right")
        found = np.empty(rows, dtype=np.int64)
        for low, high, mine in zip(lows, highs, np.split(by_asked, firsts[1:]), strict=True):
            matching = order[by_key[low:high]]
            # No row has these codes; those that have the most of them stand in.
            if low == high:
                matching = self._matching_rows(order, names, [int(w[mine[0]]) for w in wanted])
            # Rows with the same codes take even picks among those that match.
            found[mine] = matching[picks(len(mine), len(matching), rng)]
        return found

    def _matching_rows(self, order: NDArray[np.int64], names: Clique, codes: list[int]) -> NDArray[np.int64]:
        """The rows that agree with the most of the codes, in the given order."""
        matches = np.zeros(self.rows, dtype=np.bool_)
        # The order's likeness of neighbours is kept, so that even picks are spread over all kinds of rows.
        matches[match_most(self._columns, [self._names.index(name) for name in names], codes)] = True
        return np.asarray(order[matches[order]])


def row_dtype(domain: Domain) -> np.dtype[Any]:
    """The narrowest type that holds every attribute's codes."""
    return code_dtype(max(domain.sizes, default=1))


def ruled_rows(model: RowModel, rng: np.random.Generator) -> Rows:
    """As many rows of a model as it is made of, all of which obey the rules, shape [names, rows]."""

    def draw_rows(count: int, codes: Evidence) -> list[Rows]:
        return model.draw_rows(count, codes, rng)

    columns = sample_constrained(model.domain, model.rows, {}, rng, draw_rows, model.one_ways)
    kept = [columns[model.domain.index(name)] for name in model._names]
    return np.array(kept, dtype=model._columns.dtype).reshape(len(kept), model.rows)


def row_model_from_state(domain: Domain, state: Mapping[str, NDArray[Any]]) -> RowModel:
    """The model whose `state` was saved.

    Raises:
        ReleaseError: The state is not that of rows over this domain.
    """
    total, held = np.asarray(state.get("total", 0.0)), np.asarray(state.get("held", ()))
    columns = np.asarray(state.get("rows", ()))
    # A release file may come from anybody, so shapes, types and bounds are checked before use.
    sound = total.shape == () and total.dtype.kind == "f" and np.isfinite(total) and total > 0
    sound = sound and held.ndim == 1 and held.dtype.kind in "iu" and len(set(held.tolist())) == len(held)
    sound = sound and bool(((held >= 0) & (held < len(domain))).all())
    sound = sound and bool((np.diff(held) > 0).all())
    sound = sound and columns.ndim == 2 and columns.shape[0] == len(held) and columns.shape[1] >= 1
    sound = sound and columns.dtype.kind == "u"
    if not sound:
        raise ReleaseError(invalid("state", "rows of codes of the domain", "The release is damaged."))
    names = tuple(domain.names[place] for place in held.tolist())
    if any(int(column.max()) >= domain[name] for name, column in zip(names, columns, strict=True)):
        raise ReleaseError(invalid("state", "codes of the domain", "The release is damaged."))
    return RowModel(domain, float(total), names, columns)


class RowEstimator(Estimator[RowModel]):
    """The base of families whose model is a table of rows within limits of rows and cells."""

    __slots__ = ()

    @property
    @abstractmethod
    def room(self) -> Room:
        """Rows and cells it may have."""

    @property
    def most_cells(self) -> int:
        """Cells that all tables may have together."""
        return self.room.most_cells

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> RowModel:
        """The model whose `state` was saved, with no optimisation.

        Raises:
            ReleaseError: The state is not that of rows over this domain.
        """
        return row_model_from_state(domain, state)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check that the tables fit, before anything is measured.

        Raises:
            InputError: They have more cells than max_cells or max_memory allow.
        """
        self.room.admit(domain, cliques)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells of all tables with each one candidate, infinite where too many: shape [candidates]."""
        return self.room.cells(domain, cliques, candidates)
