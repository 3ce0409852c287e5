"""A fitted log-linear distribution, calibrated on its junction tree, and the rows that are drawn from it.

Rows are drawn against the elimination order, and each may be given codes of its own. The tree stands for the
directed model prod p(v | parents of v), the parents being the neighbours that are eliminated after v. Given
codes are carried up by variable elimination: a message for every distinct set of codes below, and none from
parts of the tree without given codes. Going back, every attribute is drawn from its exact distribution given
all codes and the attributes drawn before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.models._base.constraints import Evidence, by_row
from margrave.models._base.model import Model
from margrave.models._sampling.balance import balance_column
from margrave.models._sampling.rounding import draw_column, hand_out, order_by_group, round_counts
from margrave.models._sampling.triples import expect_triples
from margrave.models.pgm.estimate import Solution
from margrave.models.pgm.inference import Inference
from margrave.models.pgm.marginals import marginal, marginals, pair_marginals
from margrave.models.pgm.tree import Layout, rank_attributes
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import code_dtype

if TYPE_CHECKING:
    from margrave.models.pgm.inference import Calibration

MIN_SHARED_PAIRS = 8
"""Fewer pairs than this are projected one by one."""


class GraphicalModel(Model):
    """p(x) = exp(sum_r theta_r(x_r) - log Z); made by `PGM`.

    Args:
        domain: Names and sizes of the attributes.
        total: Rows the model stands for.
        cliques: Measured cliques, in the domain's order, as the inference holds them.
        inference: Calibrated at the solution.
        solution: Where the optimiser stopped.
    """

    def __init__(
        self,
        domain: Domain,
        total: float,
        cliques: Sequence[Clique],
        inference: Calibration,
        solution: Solution,
    ) -> None:
        self._domain = domain
        self._total = float(total)
        self._cliques = tuple(cliques)
        self._inference = inference
        self._solution = solution
        self._names = rank_attributes(domain)
        self._place = {name: i for i, name in enumerate(self._names)}

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._domain

    @property
    def total(self) -> float:
        """The number of rows the model stands for; marginals sum to it."""
        return self._total

    @property
    def converged(self) -> bool:
        """Whether the fit met its tolerance."""
        return self._solution.converged

    @property
    def iterations(self) -> int:
        """Steps the optimiser took."""
        return self._solution.iterations

    @property
    def evaluations(self) -> int:
        """Inferences the optimiser ran."""
        return self._solution.evaluations

    @property
    def gap(self) -> float:
        """The largest L1 norm of the gradient over one measured table, in probability."""
        return self._solution.gap

    @property
    def cells(self) -> int:
        """Cells of all tables of the junction tree."""
        return self._inference.layout.node_starts[-1]

    def project(self, clique: Clique) -> NDArray[np.float64]:
        """The marginal of any clique, in rows, shape domain.shape(clique).

        Raises:
            SchemaError: The clique names an attribute the domain does not have.
            InputError: The clique repeats an attribute, or its table is absurdly large.
        """
        wanted = self._engine(clique)
        table = marginal(self._inference.layout, self._inference.belief, wanted)
        return self._shape_table(clique, wanted, table)

    def project_many(self, cliques: Sequence[Clique]) -> list[NDArray[np.float64]]:
        """The marginals of many cliques at once: all pairs in a few matrix products, the rest together."""
        layout, belief = self._inference.layout, self._inference.belief
        engine = [self._engine(clique) for clique in cliques]
        # Only pairs share work in a walk, and too few of them do not pay for it.
        pairs = {(c[0], c[1]) for c in engine if len(c) == 2}
        known: dict[tuple[int, ...], NDArray[np.float64]] = {}
        if len(pairs) >= MIN_SHARED_PAIRS:
            known |= {(u, v): table for (u, v), table in pair_marginals(layout, belief, pairs).items()}
        # Whatever is not a pair found already: larger cliques, single attributes, few pairs.
        known |= marginals(layout, belief, dict.fromkeys(c for c in engine if c not in known))
        return [
            self._shape_table(clique, wanted, known[wanted])
            for clique, wanted in zip(cliques, engine, strict=True)
        ]

    def draw_rows(
        self, rows: int, given: Evidence, rng: np.random.Generator, deadline: Deadline | None = None
    ) -> list[NDArray[Any]]:
        """Rows by low-variance rounding, from the exact distribution conditional on `given`.

        After the deadline rows are no longer moved towards the model's pairs; all are drawn in any case.
        """
        layout, theta, belief = self._inference.layout, self._solution.theta, self._inference.belief
        # With codes that differ by row every row has a distribution of its own; with one set of codes for
        # all, the potentials are cut once and the rows share what is left.
        if by_row(given):
            codes = {self._place[n]: np.broadcast_to(c, rows).astype(np.int64) for n, c in given.items()}
            drawn = list(draw_given(layout, belief, codes, rows, rng))
        else:
            evidence = {self._place[n]: c for n, c in given.items() if isinstance(c, int)}
            # One code for all rows turns the model into a smaller one, which is drawn as usual.
            if evidence:
                theta, (layout, belief) = (
                    cut(layout, theta, evidence),
                    condition_layout(layout, theta, evidence),
                )
            drawn = list(draw(layout, theta, belief, rows, rng, deadline))
            for v, code in evidence.items():
                drawn[v] = np.full(rows, code)
        return [drawn[self._place[name]] for name in self._domain.names]

    def potentials(self) -> dict[Clique, NDArray[np.float64]]:
        """theta by measured clique, axes in the domain's order."""
        layout = self._inference.layout
        tables = {}
        for k, clique in enumerate(self._cliques):
            wanted = tuple(sorted(clique, key=self._place.__getitem__))
            flat = self._solution.theta[layout.starts[k] : layout.starts[k + 1]]
            axes = tuple(wanted.index(name) for name in clique)
            tables[clique] = flat.reshape(self._domain.shape(wanted)).transpose(axes)
        return tables

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Arrays from which `PGM.restore` builds the same model again.

        theta: potentials of all measured cliques, by number of attributes and then position, row by row.
        fit: total, gap, iterations, evaluations, whether converged.
        """
        found = self._solution
        fit = [self._total, found.gap, found.iterations, found.evaluations, found.converged]
        flat = [np.zeros(0), *(table.ravel() for table in self.potentials().values())]
        return {"theta": np.concatenate(flat), "fit": np.asarray(fit, dtype=np.float64)}

    def _engine(self, clique: Clique) -> tuple[int, ...]:
        """A clique's attributes of more than one code, as the engine numbers them."""
        if len(set(clique)) != len(clique):
            raise InputError(invalid("clique", "without repeats", "Name each attribute once.", got=clique))
        # `index` raises the domain's own error for an attribute that it does not have.
        places = [self._place[n] if n in self._place else self._domain.index(n) for n in clique]
        return tuple(sorted(v for v in places if self._inference.layout.sizes[v] > 1))

    def _shape_table(
        self, clique: Clique, wanted: tuple[int, ...], table: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """A projected table in rows, with the axes a clique asks for."""
        # Axes of one code are unknown to the engine; the last reshape puts them back.
        asked = [self._place[n] for n in clique if self._domain[n] > 1]
        turned = np.asarray(table.transpose([wanted.index(v) for v in asked]), dtype=np.float64)
        return (turned * self._total).reshape(self._domain.shape(clique))


Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

PASSES = 4
"""Swaps tried for each row and column to balance pair counts."""

TRIPLES = 4
"""How many times as long as for one attribute alone all of them look at tables of three attributes."""

MAX_ROWS_ALL_PASSES = 1 << 16
"""Up to so many rows. More are closer to begin with and get half the passes."""


def condition_layout(layout: Layout, theta: Floats, evidence: Mapping[int, int]) -> tuple[Layout, Floats]:
    """The model given the codes of some attributes: their axes shrink to the one code.

    Potentials are finite, so no code is impossible; the result is exact.

    Returns:
        The smaller layout, on the same tree, and its calibrated beliefs.
    """
    # The tree stays as it is, so that nothing has to be triangulated anew.
    sizes = [1 if v in evidence else size for v, size in enumerate(layout.sizes)]
    smaller = Layout(sizes, layout.measured, layout.node_starts[-1], layout.tree)
    inference = Inference(smaller)
    inference.run(cut(layout, theta, evidence))
    return smaller, inference.belief


def cut(layout: Layout, theta: Floats, evidence: Mapping[int, int]) -> Floats:
    """The potentials of a smaller layout, as `condition_layout` makes it."""
    parts = [np.zeros(0)]
    for k, clique in enumerate(layout.measured):
        table = theta[layout.starts[k] : layout.starts[k + 1]].reshape(layout.shape(clique))
        kept = tuple(slice(evidence[v], evidence[v] + 1) if v in evidence else slice(None) for v in clique)
        parts.append(table[kept].ravel())
    return np.concatenate(parts)


def _late(deadline: Deadline | None) -> bool:
    return deadline is not None and deadline.passed


def draw(
    layout: Layout,
    theta: Floats,
    belief: Floats,
    rows: int,
    rng: np.random.Generator,
    deadline: Deadline | None = None,
) -> NDArray[np.unsignedinteger[Any]]:
    """Codes of every attribute, shape [attributes, rows]; rows in random order.

    Attributes are drawn against the elimination order, each by rounding in every group of rows that agree
    on its parents. What is rounded up is steered towards the measured tables, which row of a group gets
    which code towards all pairs; a few last cells are repaired.

    Args:
        layout: The tree.
        theta: Potentials of the measured cliques, shape [layout.starts[-1]].
        belief: Probabilities of the tree's cliques, calibrated at theta.
        rows: How many rows.
        rng: Source of randomness.
        deadline: After it groups are left as they were dealt, and nothing is repaired.
    """
    # Kernels that a model which is only compared with another never needs.
    from margrave.models._sampling.repair import repair, steer

    count = len(layout.sizes)
    codes = np.zeros((count, rows), dtype=code_dtype(max(layout.sizes, default=1)))
    if rows == 0:
        return codes
    # All pairs are wanted: they say which parent tells most, and what rows are balanced towards.
    pairs, steered = pair_marginals(layout, belief, combinations(range(count), 2)), _choose_steered(layout)
    passes = PASSES if rows <= MAX_ROWS_ALL_PASSES else PASSES // 2
    # Against the elimination order the parents of an attribute, its later neighbours, are drawn before it.
    inwards = layout.tree.order[::-1]
    for at, v in enumerate(inwards):
        # 1. The attribute given its parents: rows that agree on these are a group, and get whole numbers of
        # codes.
        joint = marginal(layout, belief, tuple(sorted((v, *layout.tree.later[v]))))
        ordered, table = _conditional(joint, v, layout.tree.later[v], pairs)
        keys = _keys(codes, ordered, layout.sizes)
        by = order_by_group(keys, len(table))
        found = round_counts(keys, by, table, rng)
        # 2. Which cells are rounded up is chosen so that measured tables come out near their expectations.
        steer(found, table, *_expected_tables(layout, belief, rows, v, ordered, steered[v]))
        # 3. Within a group any row may get any of its codes: which one does is free to bring pairs nearer.
        hand_out(found, by, codes[v], rng)
        if at and not _late(deadline):
            _balance(layout, codes, v, inwards[:at], pairs, (by, keys, table), passes, rng)
    if not _late(deadline):
        # 4. What rounding has left of the measured tables is mended code by code.
        wanted = [rows * marginal(layout, belief, clique).ravel() for clique in layout.measured]
        repair(codes, layout.sizes, layout.measured, np.concatenate([np.zeros(0), *wanted]), theta, rng)
    # Rows lie in the order of groups by now; the order of a release must not tell how it was drawn.
    order = rng.permutation(rows)
    for column in codes:
        column[:] = column[order]
    return codes


def _balance(
    layout: Layout,
    codes: NDArray[np.unsignedinteger[Any]],
    v: int,
    drawn: Sequence[int],
    pairs: Mapping[tuple[int, int], Floats],
    grouped: tuple[Longs, Longs, Floats],
    passes: int,
    rng: np.random.Generator,
) -> None:
    """Bring the pairs of an attribute with those drawn before, and its tables with two of them, near.

    Args:
        pairs: Tables of all pairs, in proportions.
        grouped: Rows in the order of their groups, the group of each row, weights of codes in each group.
    """
    by, keys, table = grouped
    expected = [codes.shape[1] * (pairs[u, v] if u < v else pairs[v, u].T) for u in drawn]
    sizes, parts = [layout.sizes[u] for u in drawn], max(len(layout.sizes) // TRIPLES, 1)
    two, tables = expect_triples(codes, drawn, sizes, keys, table, parts)
    others = [*((u,) for u in drawn), *two]
    balance_column(codes, v, others, by, keys, table, [*expected, *tables], passes, rng)


def _choose_steered(layout: Layout) -> list[list[tuple[int, ...]]]:
    """The tables to watch while each attribute is drawn.

    Those are the measured cliques that it completes, and its one-way. A clique's counts can be right only
    if those of its part drawn before are, so that part is watched, too.
    """
    place = {v: i for i, v in enumerate(layout.tree.order)}
    watched: list[set[tuple[int, ...]]] = [{(v,)} for v in range(len(layout.sizes))]
    for clique in layout.measured:
        part = clique
        # Take away the attribute that is drawn last, again and again: each part is complete where its last
        # one is.
        while part:
            last = min(part, key=place.__getitem__)
            watched[last].add(part)
            part = tuple(v for v in part if v != last)
    return [sorted(cliques) for cliques in watched]


def _keys(codes: NDArray[Any], ordered: Sequence[int], sizes: Sequence[int]) -> NDArray[np.int64]:
    """The group of each row: its parents' codes as the digits of one number, shape [rows]."""
    keys = np.zeros(codes.shape[1], dtype=np.int64)
    for u in ordered:
        keys *= sizes[u]
        keys += codes[u]
    return keys


def _expected_tables(
    layout: Layout,
    belief: Floats,
    rows: int,
    v: int,
    ordered: Sequence[int],
    cliques: Sequence[tuple[int, ...]],
) -> tuple[list[int], list[list[int]], list[Floats]]:
    """The tables of `steer`: its radices, strides and expected counts."""
    strides, expected = [], []
    for clique in cliques:
        given = [u for u in ordered if u in clique]
        table = marginal(layout, belief, clique).transpose([clique.index(u) for u in (*given, v)])
        # A parent outside the clique has stride 0: its code does not change the cell.
        steps, step = {}, 1
        for u in reversed(given):
            steps[u] = step
            step *= layout.sizes[u]
        strides.append([steps.get(u, 0) for u in ordered])
        expected.append(rows * table)
    return [layout.sizes[u] for u in ordered], strides, expected


def _conditional(
    joint: Floats, v: int, parents: Sequence[int], pairs: Mapping[tuple[int, int], Floats]
) -> tuple[list[int], Floats]:
    """The parents, those that tell most about v first, and the joint as [parents' cells, codes of v].

    Rows are grouped in that order, and neighbouring groups share their rounding; see `rounding`.
    """
    names = sorted((v, *parents))
    axis = {u: i for i, u in enumerate(names)}
    # Groups are ordered by the parent that tells most, so that neighbouring groups are alike.
    ordered = sorted(parents, key=lambda u: (-_information(pairs[min(u, v), max(u, v)]), u))
    turned = joint.transpose([axis[u] for u in (*ordered, v)])
    return ordered, np.ascontiguousarray(turned).reshape(-1, joint.shape[axis[v]])


def _information(pair: Floats) -> float:
    """Mutual information of the two axes of a table, in nats."""
    product = np.outer(pair.sum(axis=1), pair.sum(axis=0))
    held = (pair > 0) & (product > 0)
    return float((pair[held] * np.log(pair[held] / product[held])).sum())


ROOM = 1 << 22
"""Cells of all tables for the sets of codes that are worked on at a time, about."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A table over free attributes for each of several sets of given codes.

    Args:
        scope: Free attributes, ascending.
        tables: Shape [tables, codes of each attribute].
        ids: Which table holds for each set, shape [sets].
    """

    scope: tuple[int, ...]
    tables: Floats
    ids: Longs


def distinct(given: Mapping[int, Longs], order: Sequence[int]) -> tuple[Mapping[int, Longs], Longs]:
    """The distinct sets of given codes, neighbours alike, and the set of each row.

    Args:
        given: Codes by attribute, each of shape [rows].
        order: The elimination order: sets agree longest in what is eliminated last.
    """
    # What is eliminated last is drawn first, so sets that agree there lie together and share tables.
    names = [v for v in reversed(order) if v in given]
    found, which = np.unique(np.stack([given[v] for v in names]), axis=1, return_inverse=True)
    return dict(zip(names, found, strict=True)), which.ravel()


def draw_given(
    layout: Layout, belief: Floats, given: Mapping[int, Longs], rows: int, rng: np.random.Generator
) -> NDArray[np.unsignedinteger[Any]]:
    """Codes of every attribute, shape [attributes, rows], in the order of the given ones.

    Args:
        layout: The tree.
        belief: Probabilities of the tree's cliques, calibrated.
        given: Codes by attribute, one or more, each of shape [rows].
        rows: How many.
        rng: Source of randomness.
    """
    codes = np.zeros((len(layout.sizes), rows), dtype=code_dtype(max(layout.sizes, default=1)))
    for v, own in given.items():
        codes[v] = own
    if rows == 0:
        return codes
    # Rows with the same given codes share all tables, so that work is done by distinct set and not by row.
    work = _Work(layout, belief, set(given))
    sets, which = distinct(given, layout.tree.order)
    by = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[by], np.arange(int(which.max()) + 2))
    for first, last in work.parts(len(ends) - 1):
        here = by[ends[first] : ends[last]]
        held = {v: own[first:last] for v, own in sets.items()}
        work.draw(codes, here, which[here] - first, work.products(held, last - first), rng)
    # What given codes reach through its parents alone is drawn from those, for all rows at once.
    for v in reversed(layout.tree.order):
        if v not in given and v not in work.told:
            work.draw_rest(codes, v, rng)
    return codes


class _Work:
    """The conditionals of the directed model, and what of it given codes reach."""

    def __init__(self, layout: Layout, belief: Floats, given: set[int]) -> None:
        self.layout = layout
        self.given = given
        self.belief = belief
        self.place = {v: i for i, v in enumerate(layout.tree.order)}
        self.told: dict[int, tuple[int, ...]] = {}
        # A given code speaks of its free parents, and through a message of theirs in turn: all these are
        # `told`.
        for v in layout.tree.order:
            scope = self._free(v)
            if scope and (v in given or v in self.told):
                # The first of the free parents to be eliminated is where the message waits.
                self.told.setdefault(self._next(scope), ())
        for v in self.told:
            self.told[v] = tuple(sorted((v, *self._free(v))))
        self.conditionals = {v: self._conditional(v) for v in [*given, *self.told]}

    def parts(self, sets: int) -> Iterator[tuple[int, int]]:
        """Stretches of sets whose tables fit into ROOM."""
        cells = sum(int(np.prod([self.layout.sizes[u] for u in scope])) for scope in self.told.values())
        step = max(1, ROOM // max(cells, 1))
        for first in range(0, sets, step):
            yield first, min(first + step, sets)

    def products(self, held: Mapping[int, Longs], sets: int) -> dict[int, Factor]:
        """For every attribute that is reached, the product of all that speaks of it, messages included."""
        waiting: dict[int, list[Factor]] = {v: [] for v in self.told}
        found = {}
        for v in self.layout.tree.order:
            if v not in self.given and v not in self.told:
                continue
            factor = self._slice_conditional(v, held, sets)
            if v in self.told:
                factor = self._join_factors([factor, *waiting.pop(v)], self.told[v])
                found[v] = factor
                scope = tuple(u for u in factor.scope if u != v)
                # Sum the attribute out: what is left is a message on its parents.
                summed = factor.tables.sum(axis=1 + factor.scope.index(v))
                factor = Factor(scope, summed, factor.ids)
            if factor.scope:
                # Only ratios within a table matter; dividing by the largest keeps long products from
                # vanishing.
                flat = factor.tables.reshape(len(factor.tables), -1).max(axis=1)
                peak = np.where(flat > 0, flat, 1.0).reshape(-1, *[1] * len(factor.scope))
                waiting[self._next(factor.scope)].append(
                    Factor(factor.scope, factor.tables / peak, factor.ids)
                )
        return found

    def draw(
        self,
        codes: NDArray[Any],
        rows: Longs,
        which: Longs,
        products: Mapping[int, Factor],
        rng: np.random.Generator,
    ) -> None:
        """Draw the attributes that are reached, in place.

        Args:
            codes: Shape [attributes, all rows].
            rows: Those to draw.
            which: The set of each of them.
            products: As from `products`.
            rng: Source of randomness.
        """
        for v in reversed(self.layout.tree.order):
            if v not in products:
                continue
            factor = products[v]
            keys = factor.ids[which]
            for u in factor.scope:
                if u != v:
                    keys = keys * self.layout.sizes[u] + codes[u, rows]
            table = np.moveaxis(factor.tables, 1 + factor.scope.index(v), -1)
            codes[v, rows] = _draw_column(keys, table.reshape(-1, self.layout.sizes[v]), rng)

    def draw_rest(self, codes: NDArray[Any], v: int, rng: np.random.Generator) -> None:
        """Draw an attribute that no given code reaches but through its parents, in place."""
        parents, table = self._conditional(v)
        keys = np.zeros(codes.shape[1], dtype=np.int64)
        for u in parents:
            keys = keys * self.layout.sizes[u] + codes[u]
        lines = np.moveaxis(table, 0, -1).reshape(-1, self.layout.sizes[v])
        codes[v] = _draw_column(keys, lines, rng)

    def _free(self, v: int) -> tuple[int, ...]:
        return tuple(sorted(u for u in self.layout.tree.later[v] if u not in self.given))

    def _next(self, scope: Sequence[int]) -> int:
        return min(scope, key=self.place.__getitem__)

    def _conditional(self, v: int) -> tuple[tuple[int, ...], Floats]:
        """The parents, ascending, and p(v | parents), shape [codes of v, codes of each]."""
        names = tuple(sorted((v, *self.layout.tree.later[v])))
        joint = np.moveaxis(marginal(self.layout, self.belief, names), names.index(v), 0)
        mass = joint.sum(axis=0, keepdims=True)
        table = np.divide(joint, mass, out=np.zeros_like(joint), where=mass > 0)
        return tuple(u for u in names if u != v), table

    def _slice_conditional(self, v: int, held: Mapping[int, Longs], sets: int) -> Factor:
        """p(v | parents) at the given codes, as a factor of what is free."""
        parents, table = self.conditionals[v]
        names = (v, *parents)
        fixed = [u for u in names if u in self.given]
        scope = tuple(sorted(u for u in names if u not in self.given))
        turned = table.transpose([names.index(u) for u in (*fixed, *scope)])
        flat = turned.reshape(-1, *[self.layout.sizes[u] for u in scope])
        keys = np.zeros(sets, dtype=np.int64)
        for u in fixed:
            keys = keys * self.layout.sizes[u] + held[u]
        # Sets with the same fixed codes share one slice.
        cells, ids = np.unique(keys, return_inverse=True)
        return Factor(scope, flat[cells], ids.ravel())

    def _join_factors(self, factors: Sequence[Factor], scope: tuple[int, ...]) -> Factor:
        """The product of factors, one table for each distinct choice of theirs."""
        # Sets that share all factors' tables share the product: it is worked out once for each such choice.
        ids, firsts = factors[0].ids, np.arange(len(factors[0].ids))
        for factor in factors[1:]:
            # One number for the choice of all factors so far; numbered anew each time, so that it cannot
            # overflow.
            _, ids = np.unique(ids * len(factor.tables) + factor.ids, return_inverse=True)
            ids = ids.ravel()
        _, firsts = np.unique(ids, return_index=True)
        product = np.ones((len(firsts), *[self.layout.sizes[u] for u in scope]))
        for factor in factors:
            shape = [self.layout.sizes[u] if u in factor.scope else 1 for u in scope]
            product *= factor.tables[factor.ids[firsts]].reshape(-1, *shape)
        return Factor(scope, product, ids)


def _draw_column(keys: Longs, table: Floats, rng: np.random.Generator) -> Longs:
    return draw_column(keys, order_by_group(keys, len(table)), table, rng)
