"""Attributes with very many codes, modelled in groups of codes, and models over groups that answer in codes.

A model may work on fewer codes than an attribute has (`CodeGrouping`). Codes that are frequent by the
released one-way keep a group of their own, rare ones share groups; inside a group codes are independent of
everything else, with the shares of the one-way. Ordered codes are grouped in runs of neighbours.
`GroupedModel` is any model over groups, answering in codes.

Such a model knows nothing of a pair inside of groups. Where the pair itself was measured, its own table says
more (`WidePair`): of each cell the noisy count where it is far from what the model expects, else what the
model expects. Rows get the first attribute's code from the model, and the second one's given the first from
this table, in the group that the model drew as often as the table has it.
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
from margrave.models._base.pooling import Pooled, dependence
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.release import project_simplex
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave import protocols


Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

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

    def summed(self, table: Pooled) -> Pooled:
        """A measurement with codes added up to groups, variances with them."""
        values, variance = table.values, table.sigma**2
        for axis, name in enumerate(table.clique):
            if name in self.groups:
                # Variances add up, not standard deviations.
                values, variance = (_add_codes(part, self.groups[name], axis) for part in (values, variance))
        return replace(table, values=values, sigma=np.sqrt(variance))

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


OWN_COUNT_DEVIATIONS = 3.5
"""Standard deviations of noise from which on a cell's own count is taken: 230 of a million empty ones."""
TURNS, PASSES = 3, 8
"""How often cells are told from noise, and passes of proportional fitting of the rest each time."""

MAX_LINE_FACTOR = 1e3
"""By how much a line of cells may be raised at most: where counts of their own leave nothing for the others,
margins cannot be met."""


class WidePair:
    """A pair of two attributes and how one is drawn given the other.

    Args:
        names: The attributes, in the domain's order.
        shares: Their distribution, shape [codes, codes].
    """

    def __init__(self, names: Clique, shares: Floats) -> None:
        self.names = names
        self.shares = shares

    def draw(self, child: str, drawn: Longs, parent: Longs, groups: Longs, rng: np.random.Generator) -> Longs:
        """Codes of one attribute given the other's, shape [rows].

        The rows with one code of the parent have the child's codes as often as the table says, up to
        rounding. Of each group of codes as many rows as possible stay in it.

        Args:
            child: The attribute to draw.
            drawn: Its groups by the model, shape [rows].
            parent: The other attribute's codes, shape [rows].
            groups: The group of each of the child's codes.
            rng: Source of randomness.
        """
        table = self.shares if child == self.names[1] else self.shares.T
        count = int(groups.max()) + 1
        # Shuffled first, so that among equals chance decides which row gets which code.
        rows = rng.permutation(len(parent))
        rows = rows[np.argsort(parent[rows] * count + drawn[rows], kind="stable")]
        # The parent's code and the child's group in one number.
        have = parent[rows] * count + drawn[rows]
        kept, codes = _codes_by_parent(table, np.bincount(parent, minlength=len(table)), rng)
        # The codes that the table wants for each parent, sorted by group in the same way as the rows are.
        order = rng.permutation(len(codes))
        order = order[np.argsort(kept[order] * count + groups[codes[order]], kind="stable")]
        kept, codes = kept[order], codes[order]
        wanted = kept * count + groups[codes]
        # Row and code number r of the same parent and group go together; all others by parent alone.
        cells = len(table) * count
        most = np.minimum(np.bincount(have, minlength=cells), np.bincount(wanted, minlength=cells))
        stays, fits = (_rank(keys) < most[keys] for keys in (have, wanted))
        found = np.empty(len(parent), dtype=np.int64)
        found[rows[stays]] = codes[fits]
        found[rows[~stays]] = codes[~fits]
        return found

    def spread(self, table: Floats, clique: Clique) -> Floats:
        """A table that holds both attributes, brought to their distribution."""
        others = tuple(i for i, name in enumerate(clique) if name not in self.names)
        # A pair that the model holds for impossible could otherwise not be raised at all.
        table = np.maximum(table, 1e-12 * float(table.sum()) / table.size)
        have = table.sum(axis=others)
        wanted = self.shares if clique.index(self.names[0]) < clique.index(self.names[1]) else self.shares.T
        return np.asarray(table * np.expand_dims(table.sum() * wanted / have, others))


def estimate_wide_pairs(
    model: Model, grouping: CodeGrouping, tables: Sequence[Pooled], *, only: Sequence[Clique] | None = None
) -> list[WidePair]:
    """The measured pairs whose attributes are both modelled in groups, the most dependent first.

    No attribute is drawn twice: a pair of two that others have settled is left out.

    Args:
        model: Over groups.
        grouping: The groups.
        tables: What was measured, in codes.
        only: Those that are wanted; None for all.
    """
    found = []
    for table in tables:
        pair, grouped = table.clique, all(name in grouping.groups for name in table.clique)
        # An inferred pair has no cells of its own to add.
        if len(pair) == 2 and grouped and not table.inferred and (only is None or pair in only):
            expected = grouping.spread(np.maximum(model.project(pair), 0.0), pair)
            found.append(WidePair(pair, merge_cells(expected, table.values, table.sigma)))
    found.sort(key=lambda pair: -dependence(pair.shares))
    # A pair draws one attribute given the other, so a pair of two that are drawn already would have nothing
    # left to say; the most dependent ones come first.
    settled: set[str] = set()
    kept = []
    for wide in found:
        if not settled.issuperset(wide.names):
            kept.append(wide)
            settled.update(wide.names)
    return kept


def restore_wide_pairs(
    model: Model, grouping: CodeGrouping, tables: Sequence[Pooled], state: Mapping[str, Floats]
) -> list[WidePair]:
    """The pairs that a saved state names, from the measurements saved beside it; see `estimate_wide_pairs`.

    Raises:
        ReleaseError: The state names pairs that were not measured or are not modelled in groups.
    """
    places = np.asarray(state.get("wide_pairs", np.zeros((0, 2))), dtype=np.float64)
    known = set(range(len(grouping.domain)))
    if places.ndim != 2 or places.shape[1] != 2 or not set(places.ravel().tolist()) <= known:
        raise ReleaseError(invalid("state", "of wide pairs of the domain", "The release is damaged."))
    # Only their names are saved: the tables are among the measurements, and are not held twice.
    pairs = [(grouping.domain.names[int(a)], grouping.domain.names[int(b)]) for a, b in places]
    found = {wide.names: wide for wide in estimate_wide_pairs(model, grouping, tables, only=pairs)}
    if set(found) != set(pairs):
        raise ReleaseError(invalid("state", "of wide pairs that were measured", "The release is damaged."))
    return [found[pair] for pair in pairs]


def merge_cells(expected: Floats, values: Floats, sigma: Floats) -> Floats:
    """A distribution of noisy counts where they are far from what is expected, else of what is expected.

    Its margins are those that are expected, as far as single cells leave it open.

    Args:
        expected: Counts by a model, at least 0, shape [codes, codes].
        values: Noisy counts, of the same shape.
        sigma: Standard deviations of their noise.
    """
    rows, columns = expected.sum(axis=1), expected.sum(axis=0)
    expected = np.maximum(expected, 1e-12)
    rest = table = expected
    for _ in range(TURNS):
        # Cells that noise does not explain keep their own count. The others are fitted to what is left of the
        # margins (iterative proportional fitting), after which more or fewer cells may stand out: hence
        # several turns.
        sure = np.abs(values - rest) > OWN_COUNT_DEVIATIONS * sigma
        own = np.where(sure, np.maximum(values, 0.0), 0.0)
        left = np.where(sure, 0.0, expected)
        wanted_rows = np.maximum(rows - own.sum(axis=1), 0.0)
        wanted_columns = np.maximum(columns - own.sum(axis=0), 0.0)
        lines, fields = np.ones(len(rows)), np.ones(len(columns))
        for _ in range(PASSES):
            lines = np.minimum(wanted_rows / np.maximum(left @ fields, 1e-12), MAX_LINE_FACTOR)
            fields = np.minimum(wanted_columns / np.maximum(lines @ left, 1e-12), MAX_LINE_FACTOR)
        # What is expected of cells with counts of their own is needed to tell them from noise again.
        rest = expected * lines[:, None] * fields
        table = own + np.where(sure, 0.0, rest)
    return np.asarray(table / max(float(table.sum()), 1e-300))


def _codes_by_parent(table: Floats, counts: Longs, rng: np.random.Generator) -> tuple[Longs, Longs]:
    """As many codes of the child as each code of the parent has rows, by systematic sampling.

    Returns:
        The parent's and the child's code of each, in the order of the parent's, shape [rows] each.
    """
    whole = table.sum(axis=1)
    shares = np.where(whole[:, None] > 0, table, 1.0)
    ends = np.cumsum(shares, axis=1)
    # Systematic sampling: one uniform shift a parent, and a code is drawn as often as its interval on [0,
    # rows] contains a shifted whole number: within 1 of what is expected.
    ends *= (counts / ends[:, -1])[:, None]
    ends += rng.random(len(table))[:, None]
    ends[:, -1] = counts + 0.5
    np.floor(ends, out=ends)
    # Differences of the whole parts are how often each code is drawn.
    times = np.diff(np.minimum(ends, counts[:, None]), axis=1, prepend=0.0).astype(np.int64)
    codes = np.repeat(np.tile(np.arange(table.shape[1]), len(table)), times.ravel())
    return np.repeat(np.arange(len(table)), counts), codes


def _rank(keys: Longs) -> Longs:
    """The place of each among its equals, keys in ascending order."""
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    lengths = np.diff(np.append(starts, len(keys)))
    return np.asarray(np.arange(len(keys)) - np.repeat(starts, lengths))


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
            fixed.update(wide.names)
        return list(columns.values())

    def state(self) -> dict[str, Floats]:
        """Arrays from which the fitter's `restore` builds the same model again."""
        state = self.inner.state() | self.grouping.state()
        places = [[self.domain.index(name) for name in wide.names] for wide in self.wide]
        return state | {"wide_pairs": np.asarray(places, dtype=np.float64)} if places else state
