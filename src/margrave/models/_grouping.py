"""Attributes with very many codes, modelled in groups of codes, and models over groups that answer in codes.

A model may work on fewer codes than an attribute has (`CodeGrouping`). Codes that are frequent by the
released one-way keep a group of their own, rare ones share groups; inside a group codes are independent of
everything else, with the shares of the one-way. Ordered codes are grouped in runs of neighbours.
`GroupedModel` is any model over groups, answering in codes.

Such a model knows nothing of a pair inside of groups. Where the pair itself was measured, its own table says
more (`margrave.models._wide_pairs`). Rows get the first attribute's code from the model, and the second one's
given the first from this table; which row gets which of those codes is settled so that the pairs of the
second attribute with all others come close to the model's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import ReleaseError, invalid
from margrave.limits import Deadline
from margrave.models._base.constraints import Evidence
from margrave.models._base.model import Model
from margrave.models._base.pooling import Pooled
from margrave.models._sampling.balance import balance_column
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.release import RankProduct, project_simplex
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave import protocols
    from margrave.models._wide_pairs import WidePair


Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

PASSES, MAX_SETTLED_ROWS = 8, 1 << 19
"""Swaps tried for each row when codes drawn from a wide pair are settled, and rows that take part at most."""

SINGLE_CODE_SHARE = 0.75
"""Share of the groups that single frequent codes get."""


@dataclass(frozen=True, slots=True)
class CodeGrouping:
    """Which group each code of the large attributes is in, and its share of it.

    Args:
        domain: The attributes with all their codes.
        groups: For each large attribute, the group of each code, shape [size].
        shares: For each large attribute, each code's share of its group, shape [size].
    """

    domain: Domain
    groups: Mapping[str, Longs]
    shares: Mapping[str, Floats]

    @property
    def inner(self) -> Domain:
        """The domain with groups in place of the large attributes' codes, and the rules on the others."""
        sizes = [
            int(self.groups[n].max()) + 1 if n in self.groups else self.domain[n] for n in self.domain.names
        ]
        # Codes that stood in order still do in groups, as runs keep the order.
        ordered = [min(size, own) for size, own in zip(sizes, self.domain.ordered, strict=True)]
        rules = None if self.domain.rules is None else self.domain.rules.without(self.groups)
        return Domain(self.domain.names, tuple(sizes), tuple(ordered), rules)

    def without(self, names: Sequence[str]) -> CodeGrouping:
        """The same with all codes of some attributes."""
        kept = [name for name in self.groups if name not in names]
        return CodeGrouping(self.domain, {n: self.groups[n] for n in kept}, {n: self.shares[n] for n in kept})

    def find_one_way(self, tables: Sequence[Pooled], name: str) -> Floats:
        """An attribute's distribution over its codes, of the smallest table that has it, shape [codes]."""
        return _ways(self.domain, tables, name)

    def summed(self, table: Pooled) -> Pooled:
        """A measurement with codes added up to groups, variances with them."""
        values, variance = table.values, table.sigma**2
        for axis, name in enumerate(table.clique):
            if name in self.groups:
                # Variances add up, not standard deviations.
                values, variance = (_add_codes(part, self.groups[name], axis) for part in (values, variance))
        return replace(table, values=values, sigma=np.sqrt(variance), product=self._mean_scores(table))

    def _mean_scores(self, table: Pooled) -> RankProduct | None:
        """The rank product of a pair, with a group's score the mean of its codes'."""
        if table.product is None:
            return None
        one, two = (
            _add_codes(self.shares[name] * own, self.groups[name], 0) if name in self.groups else own
            for name, own in zip(table.clique, table.product.scores, strict=True)
        )
        return replace(table.product, scores=(one, two))

    def spread(self, table: Floats, clique: Clique) -> Floats:
        """A table over groups as one over codes, shape domain.shape(clique)."""
        for axis, name in enumerate(clique):
            if name in self.groups:
                shape = [1] * len(clique)
                shape[axis] = -1
                table = np.take(table, self.groups[name], axis=axis) * self.shares[name].reshape(shape)
        return table

    def draw_codes(self, name: str, codes: Longs, rng: np.random.Generator) -> Longs:
        """A code for each row's group, counts within 1 of their expectation."""
        groups = self.groups[name]
        # Codes sorted by group, and a table with a row a group: the shares of its codes, side by side.
        order = np.argsort(groups, kind="stable")
        firsts = np.searchsorted(groups[order], np.arange(int(groups.max()) + 2))
        widest = int(np.diff(firsts).max())
        table = np.zeros((len(firsts) - 1, widest))
        places = np.arange(len(groups)) - firsts[groups[order]]
        table[groups[order], places] = self.shares[name][order]
        place = draw_column(codes, order_by_group(codes, len(table)), table, rng)
        # The code in the chosen place of its row's group.
        return np.asarray(order[firsts[codes] + place])

    def state(self) -> dict[str, Floats]:
        """Arrays for `groups_from_state`."""
        kept: dict[str, Floats] = {}
        for name in self.groups:
            place = self.domain.index(name)
            kept[f"groups_{place}"] = self.groups[name].astype(np.float64)
            kept[f"shares_{place}"] = np.asarray(self.shares[name])
        return kept


def group_codes(domain: Domain, tables: Sequence[Pooled], largest: int) -> CodeGrouping | None:
    """How to bring every attribute to at most `largest` codes; None if all are small enough."""
    groups, shares = {}, {}
    for name in domain.names:
        if domain[name] > largest:
            ways = _ways(domain, tables, name)
            groups[name] = _group_codes(ways, domain.ordered[domain.index(name)], largest)
            shares[name] = _share_in_group(ways, groups[name])
    return CodeGrouping(domain, groups, shares) if groups else None


def merge_rare_codes(domain: Domain, ones: Mapping[str, Pooled], sigmas: float) -> CodeGrouping | None:
    """How to merge codes whose noisy one-way count is less than so many standard deviations.

    Codes without an order form one group, ordered ones a group with their neighbours. Attributes that rules
    speak of keep their codes. This is the domain compression of MST and AIM as post-processing: there a
    merged code is measured anew, here its cells are added up.

    Args:
        domain: Names and sizes of the attributes.
        ones: The best one-way table of each attribute that has one.
        sigmas: Standard deviations below which a count is taken for noise.

    Returns:
        None where nothing is merged.
    """
    ruled = set() if domain.rules is None else set(domain.rules.names)
    groups, shares = {}, {}
    for name, table in ones.items():
        low = table.values < sigmas * table.sigma
        # High codes keep a group of their own; `own` numbers the groups from 0.
        own = _runs(low, domain.ordered[domain.index(name)])
        if name not in ruled and own.max() + 1 < len(own):
            groups[name], shares[name] = own, _share_in_group(_simplex(table), own)
    return CodeGrouping(domain, groups, shares) if groups else None


def groups_from_state(domain: Domain, state: Mapping[str, Floats]) -> CodeGrouping | None:
    """What `CodeGrouping.state` saved; None if there was nothing.

    Raises:
        ReleaseError: The arrays do not fit the domain.
    """
    groups, shares = {}, {}
    for place, name in enumerate(domain.names):
        if f"groups_{place}" in state:
            found, share = np.asarray(state[f"groups_{place}"]), np.asarray(state.get(f"shares_{place}", ()))
            # Sums of 1 in every group: a file that says otherwise would draw codes outside of the domain.
            sound = found.shape == share.shape == (domain[name],)
            if not (sound and np.isfinite(found).all() and np.isfinite(share).all() and share.min() >= 0):
                raise ReleaseError(
                    invalid("state", "groups of the domain's codes", "The release is damaged.")
                )
            groups[name], shares[name] = found.astype(np.int64), share.astype(np.float64)
            if groups[name].min() < 0 or not np.allclose(np.bincount(groups[name], weights=share), 1.0):
                raise ReleaseError(invalid("state", "shares that sum to 1", "The release is damaged."))
    return CodeGrouping(domain, groups, shares) if groups else None


def _ways(domain: Domain, tables: Sequence[Pooled], name: str) -> Floats:
    """The attribute's distribution: of its own measurement, else of the first table that has it."""
    # The smallest table that has the attribute has summed the least noise.
    for table in sorted(tables, key=lambda t: len(t.clique)):
        if name in table.clique:
            others = tuple(i for i, other in enumerate(table.clique) if other != name)
            values, variance = table.values.sum(axis=others), (table.sigma**2).sum(axis=others)
            return _simplex(Pooled((name,), values, np.sqrt(variance)))
    return np.full(domain[name], 1.0 / domain[name])


def _simplex(table: Pooled) -> Floats:
    """A noisy one-way table as the nearest distribution."""
    total = max(float(table.values.sum()), 1.0)
    return project_simplex(table.values / total, (table.sigma / total) ** 2)


def _share_in_group(ways: Floats, groups: Longs) -> Floats:
    """Each code's share of its group, even where the group holds nothing."""
    # A group that noise left empty still needs shares, here even ones.
    held, lone = np.bincount(groups, weights=ways)[groups], np.bincount(groups)[groups]
    return np.where(held > 0, ways / np.maximum(held, 1e-300), 1.0 / lone)


def _runs(low: NDArray[np.bool_], ordered: int) -> Longs:
    """The group of each code: low neighbours among the ordered ones together, and all other low ones."""
    # `new` marks codes that begin a group. A code that is high does; so does an ordered one behind a high
    # one. Low codes without an order all belong to the group that the first of them begins.
    new = ~low
    new[:ordered] |= ~np.concatenate([[False], low[:-1]])[:ordered]
    rest = np.flatnonzero(low[ordered:]) + ordered
    new[rest[:1]] = True
    groups = np.cumsum(new) - 1
    groups[rest] = groups[rest[0]] if len(rest) else 0
    return np.asarray(groups)


def _group_codes(ways: Floats, ordered: int, largest: int) -> Longs:
    """The group of each code: frequent codes alone and the rest together, or runs of ordered neighbours."""
    groups = np.zeros(len(ways), dtype=np.int64)
    # Mostly ordered: runs of equal length, so that a group is a range; codes behind the order share what is
    # left.
    if ordered > largest // 2:
        rest = len(ways) - ordered
        runs = max(largest - rest, 1)
        groups[:ordered] = np.arange(ordered) * runs // ordered
        groups[ordered:] = np.minimum(runs + np.arange(rest), largest - 1)
        return groups
    # Without an order: the most frequent codes alone, the others dealt out in runs of like frequency.
    order = np.argsort(-ways, kind="stable")
    # Rare codes share what groups are left.
    own = int(SINGLE_CODE_SHARE * largest)
    groups[order[:own]] = np.arange(own)
    rest = len(ways) - own
    groups[order[own:]] = own + np.arange(rest) * (largest - own) // rest
    return groups


def _add_codes(values: Floats, groups: Longs, axis: int) -> Floats:
    # Sorted by group, every group is one stretch, and reduceat adds it up.
    order = np.argsort(groups, kind="stable")
    firsts = np.searchsorted(groups[order], np.arange(int(groups.max()) + 1))
    return np.asarray(np.add.reduceat(np.take(values, order, axis=axis), firsts, axis=axis))


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
        # Only now inside the groups: the model has said which group each code is in, and the pair says
        # which code.
        for wide in self.wide:
            first, second = wide.names
            child = second if second not in fixed else first
            if child not in fixed:
                parent = first if child == second else second
                own = found.column(child).astype(np.int64)
                columns[child] = wide.draw(child, own, columns[parent], groups[child], rng)
                # Given codes would change what the model says of the other pairs.
                if not given and not (deadline is not None and deadline.passed):
                    columns[child] = self._settle_codes(child, parent, columns, rng)
            fixed.update(wide.names)
        return list(columns.values())

    def _settle_codes(
        self, child: str, parent: str, columns: Mapping[str, Longs], rng: np.random.Generator
    ) -> Longs:
        """A child's codes moved between rows with one code of the parent, shape [rows].

        Its pair with the parent stays as it is; its groups' pairs with all others come close to the model's.
        """
        groups, inner = self.grouping.groups, self.grouping.inner
        others = [name for name in self.domain.names if name not in (child, parent)]
        if not others:
            return columns[child]
        rows = len(columns[child])
        own = groups[child][columns[child]]
        lines = np.stack(
            [*(groups[n][columns[n]] if n in groups else columns[n] for n in others), own],
            dtype=np.int32,
            casting="same_kind",
        )
        tables = self.inner.project_many([(name, child) for name in others])
        expected = [table * (rows / max(float(table.sum()), 1e-300)) for table in tables]
        by = order_by_group(columns[parent], self.domain[parent])
        # Weights of 0 keep rows that are alone with their parent's code where they are.
        none = np.zeros((self.domain[parent], inner[child]))
        keys, last = columns[parent], len(others)
        drawn = [(u,) for u in range(last)]
        balance_column(lines, last, drawn, by, keys, none, expected, PASSES, rng, most=MAX_SETTLED_ROWS)
        # Of each parent's code and group there are as many rows as before, so the same codes go round.
        count = inner[child]
        before, after = (np.argsort(keys * count + part, kind="stable") for part in (own, lines[last]))
        codes = np.empty(rows, dtype=np.int64)
        codes[after] = columns[child][before]
        return codes

    def state(self) -> dict[str, Floats]:
        """Arrays from which the fitter's `restore` builds the same model again."""
        state = self.inner.state() | self.grouping.state()
        places = [[self.domain.index(name) for name in wide.names] for wide in self.wide]
        return state | {"wide_pairs": np.asarray(places, dtype=np.float64)} if places else state
