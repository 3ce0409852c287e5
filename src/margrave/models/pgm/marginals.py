"""Marginals of a calibrated junction tree: of any attributes, and of very many pairs at once.

Pairs are found by passing conditionals along the tree as matrix products. Seen from a node, everything beyond
a separator T matters through p(A | T) alone. So the rows p(T, a) of the attributes a beyond T lie side by
side, and one product with p(S, T) / p(T) takes them all to the next separator S. Pairs that share a clique
are summed up there; the others meet once, in the topmost clique of the one that a walk through the tree
reaches later, and only what is still to meet somewhere is carried on.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models.pgm.tree import Layout

Floats = NDArray[np.float64]
Clique = tuple[int, ...]
Table = tuple[Floats, Clique]

MAX_PROJECTED_CELLS = 1 << 28
"""Most cells of one projected table, or of one table on the way to it."""

MAX_CACHED_CELLS = 1 << 16
"""Most cells of a message that is kept while many cliques are projected."""


def marginal(layout: Layout, belief: Floats, wanted: Clique) -> Floats:
    """Probabilities of some attributes, ascending, shape layout.shape(wanted); see `marginals`."""
    return marginals(layout, belief, [wanted])[wanted]


def marginals(layout: Layout, belief: Floats, cliques: Iterable[Clique]) -> dict[Clique, Floats]:
    """Probabilities of several cliques, each ascending, of shape layout.shape(clique).

    Variable elimination over the smallest part of the tree that holds a clique; nothing larger than the
    separators and the wanted attributes on one side is ever built. Where that would be too large, a clique
    is found code by code of some of its attributes. What all cliques ask of one tree clique is summed up in
    one go.

    Args:
        layout: The tree.
        belief: Probabilities of its cliques, calibrated.
        cliques: Distinct cliques, ascending.

    Raises:
        InputError: A clique, or a separator, has more than MAX_PROJECTED_CELLS cells.
    """
    links = _links(layout)
    steps: dict[Clique, list[Step]] = {}
    fixed: dict[Clique, Clique] = {}
    asked: list[set[Clique]] = [set() for _ in layout.tree.cliques]
    # First say what is needed: of which tree clique each answer takes which of its attributes.
    for wanted in cliques:
        _guard(layout, wanted)
        # A clique inside one node is a plain sum over its table; only the others need elimination.
        home = layout.home(wanted)
        steps[wanted] = [] if home >= 0 else _steps(layout, links, wanted)
        fixed[wanted] = _fix_attributes(layout, steps[wanted], wanted)
        for node, needed in [(home, wanted)] if home >= 0 else [step[:2] for step in steps[wanted]]:
            asked[node].add(needed)
    # Then sum each tree clique once to all that is asked of it, since it is the largest thing read here.
    tables: list[dict[Clique, Floats]] = []
    found: dict[Clique, Floats] = {}
    for k, clique in enumerate(layout.tree.cliques):
        table = belief[layout.node_starts[k] : layout.node_starts[k + 1]].reshape(layout.shape(clique))
        tables.append(sums(table, clique, asked[k]))
    known: dict[tuple[int, Clique], Floats] = {}
    for wanted, several in steps.items():
        if fixed[wanted]:
            found[wanted] = _eliminate_by_code(layout, tables, several, wanted, fixed[wanted])
        elif several:
            found[wanted] = _eliminate_nodes(layout, tables, several, wanted, known)
        else:
            found[wanted] = tables[layout.home(wanted)][wanted]
    return found


Step = tuple[int, Clique, Clique]
"""A node of the elimination, the attributes its own table keeps, and those its message has."""


def _steps(layout: Layout, links: Sequence[Mapping[int, Clique]], wanted: Clique) -> list[Step]:
    """The nodes that hold a clique together, children first, and what each keeps and sends."""
    keep = _prune_tree(layout, links, set(wanted))
    below: dict[int, set[int]] = {k: set() for k in keep}
    steps = []
    for k in sorted(keep):
        clique, parent = layout.tree.cliques[k], layout.tree.parents[k]
        # A root of what is kept sends nothing up, even where it has a parent in the whole tree.
        separator = layout.tree.separators[k] if parent in keep else ()
        # Its own table keeps what was wanted, what it sends, and what messages from below join it by.
        needed = tuple(v for v in clique if v in below[k] or v in wanted or v in separator)
        # What is sent: the separator, by which the parent joins it, and what is wanted of all below.
        out = tuple(sorted(set(separator) | (below[k] | set(clique)) & set(wanted)))
        if parent in keep:
            below[parent] |= set(out)
        steps.append((k, needed, out))
    return steps


def _fix_attributes(layout: Layout, steps: Sequence[Step], wanted: Clique) -> Clique:
    """Wanted attributes, largest first, of which one code at a time keeps all messages within the limit."""
    left = sorted(wanted, key=lambda v: layout.sizes[v])
    fixed: set[int] = set()
    while any(_count_cells(layout, out, fixed) > MAX_PROJECTED_CELLS for _, _, out in steps):
        if not left:
            # The separator alone is too large.
            _guard(
                layout, max((out for _, _, out in steps), key=lambda out: _count_cells(layout, out, fixed))
            )
        fixed.add(left.pop())
    return tuple(sorted(fixed))


def _eliminate_by_code(
    layout: Layout,
    tables: Sequence[Mapping[Clique, Floats]],
    steps: Sequence[Step],
    wanted: Clique,
    fixed: Clique,
) -> Floats:
    """As `_eliminate_nodes`, for one code after another of some wanted attributes."""
    found = np.empty(layout.shape(wanted))
    for codes in product(*(range(layout.sizes[v]) for v in fixed)):
        at = dict(zip(fixed, codes, strict=True))
        found[_pick_codes(wanted, at)] = _eliminate_nodes(layout, tables, steps, wanted, {}, at)
    return found


def _pick_codes(clique: Clique, at: Mapping[int, int]) -> tuple[slice, ...]:
    """The part of a clique's table in which some attributes have one code; their axes stay."""
    return tuple(slice(at[v], at[v] + 1) if v in at else slice(None) for v in clique)


def _eliminate_nodes(
    layout: Layout,
    tables: Sequence[Mapping[Clique, Floats]],
    steps: Sequence[Step],
    wanted: Clique,
    known: dict[tuple[int, Clique], Floats],
    at: Mapping[int, int] | None = None,
) -> Floats:
    """The product of the nodes' conditionals, summed down to the wanted attributes.

    A message depends on its node and its attributes alone; small ones are kept in `known` for other cliques.
    Attributes that `at` gives a code have that one alone, and an axis of length 1.
    """
    keep = {k for k, _, _ in steps}
    messages: dict[int, list[Table]] = {k: [] for k in keep}
    finished: list[Table] = []
    for k, needed, out in steps:
        table, parent = tables[k][needed], layout.tree.parents[k]
        received = messages.pop(k)
        sent = known.get((k, out)) if parent in keep else None
        if sent is None:
            # p(x) is the product over nodes of p(clique | separator to the parent); roots keep their
            # marginals.
            if parent in keep:
                table = _condition_table(table, needed, layout.tree.separators[k])
            if at:
                table = table[_pick_codes(needed, at)]
            sent = contract_tables([(table, needed), *received], out)
            if parent in keep and sent.size <= MAX_CACHED_CELLS:
                known[k, out] = sent
        # Parts of the tree that nothing joins are independent: each ends in a table of its own, and these
        # multiply.
        (messages[parent] if parent in keep else finished).append((sent, out))
    return contract_tables(finished, wanted)


def sums(table: Floats, names: tuple[int, ...], asked: set[tuple[int, ...]]) -> dict[tuple[int, ...], Floats]:
    """Many marginals of one table at once; all cliques ascending, `asked` within `names`.

    Long axes are summed out first and what remains is shared, so that all pairs of k attributes cost
    about k passes over the table instead of k (k - 1) / 2.
    """
    found = {names: table} if names in asked else {}
    # The longest axis goes first, as what is left of the table is the smallest then.
    rest = asked - {names}
    for axis in sorted(range(len(names)), key=lambda i: -table.shape[i]):
        without = {clique for clique in rest if names[axis] not in clique}
        if without:
            found |= sums(table.sum(axis=axis), names[:axis] + names[axis + 1 :], without)
            rest -= without
    return found


def contract_tables(tables: Sequence[Table], out: tuple[int, ...]) -> Floats:
    """The product of tables, summed down to some attributes: two at a time, smallest results first."""
    left = list(tables)
    while len(left) > 1:
        # Greedy is enough: a node has few tables, and their order changes the time only.
        choices = [(i, j, _attributes_kept(left, i, j, out)) for j in range(len(left)) for i in range(j)]
        i, j, kept = min(choices, key=lambda choice: _cells(left, choice))
        second, first = left.pop(j), left.pop(i)
        left.append((_product(first, second, kept), kept))
    table, names = left[0]
    gone = tuple(i for i, v in enumerate(names) if v not in out)
    return np.asarray(table.sum(axis=gone), dtype=np.float64) if gone else table


def _attributes_kept(tables: Sequence[Table], i: int, j: int, out: tuple[int, ...]) -> tuple[int, ...]:
    """The attributes the product of two tables must keep: those wanted and those other tables have."""
    # An attribute may be summed out as soon as no other table has it and nobody wants it.
    others = {v for k, (_, names) in enumerate(tables) if k not in (i, j) for v in names}
    return tuple(sorted({*tables[i][1], *tables[j][1]} & {*out, *others}))


def _cells(tables: Sequence[Table], choice: tuple[int, int, tuple[int, ...]]) -> float:
    """Cells of the product that a choice of two tables would make."""
    i, j, kept = choice
    sizes: dict[int, int] = {}
    for table, names in (tables[i], tables[j]):
        sizes.update(zip(names, table.shape, strict=True))
    return float(np.prod([sizes[v] for v in kept]))


def _product(a: Table, b: Table, out: tuple[int, ...]) -> Floats:
    """The product of two tables summed down to `out`, as a batch of matrix products."""
    shared = set(a[1]) & set(b[1])
    # Attributes of both tables that stay are batched over; those of both that go are summed by the product
    # itself; those of one table alone are its rows, or are summed out of it beforehand.
    batch = [v for v in out if v in shared]
    inner = sorted(shared - set(out))
    (x, x_own), (y, y_own) = (_reduce_table(table, names, shared, out) for table, names in (a, b))
    x_names = [v for v in a[1] if v in shared or v in out]
    y_names = [v for v in b[1] if v in shared or v in out]
    sizes = {**dict(zip(x_names, x.shape, strict=True)), **dict(zip(y_names, y.shape, strict=True))}

    def cells(names: Sequence[int]) -> int:
        return int(np.prod([sizes[v] for v in names], dtype=np.int64))

    left = x.transpose([x_names.index(v) for v in (*batch, *x_own, *inner)])
    right = y.transpose([y_names.index(v) for v in (*batch, *inner, *y_own)])
    product = left.reshape(cells(batch), cells(x_own), cells(inner)) @ right.reshape(
        cells(batch), cells(inner), cells(y_own)
    )
    order = [*batch, *x_own, *y_own]
    wide = product.reshape([sizes[v] for v in order])
    return np.asarray(wide.transpose([order.index(v) for v in out]), dtype=np.float64)


def _reduce_table(
    table: Floats, names: tuple[int, ...], shared: set[int], out: tuple[int, ...]
) -> tuple[Floats, list[int]]:
    """A table without the attributes only it has and nobody wants; and those only it has that are wanted."""
    gone = tuple(i for i, v in enumerate(names) if v not in shared and v not in out)
    own = [v for v in names if v not in shared and v in out]
    return (table.sum(axis=gone) if gone else table), own


def _condition_table(table: Floats, names: tuple[int, ...], given: Sequence[int]) -> Floats:
    """p(names | given) from p(names); 0 where the condition has no probability."""
    others = tuple(i for i, v in enumerate(names) if v not in given)
    mass = table.sum(axis=others, keepdims=True)
    conditional: Floats = np.divide(table, mass, out=np.zeros_like(table), where=mass > 0)
    return conditional


def _links(layout: Layout) -> list[dict[int, Clique]]:
    """Each node's neighbours in the tree and the separators to them."""
    links: list[dict[int, Clique]] = [{} for _ in layout.tree.cliques]
    for k, parent in enumerate(layout.tree.parents):
        if parent >= 0:
            links[k][parent] = links[parent][k] = layout.tree.separators[k]
    return links


def _prune_tree(layout: Layout, links: Sequence[Mapping[int, Clique]], wanted: set[int]) -> set[int]:
    """Nodes of the smallest subtree of each component that holds the wanted attributes of it."""
    keep = set(range(len(links)))
    held = [wanted.intersection(clique) for clique in layout.tree.cliques]
    degree = [len(near) for near in links]
    # Leaves are cut off as long as all that is wanted of them is in their neighbour, too.
    queue = [k for k in keep if degree[k] <= 1]
    while queue:
        k = queue.pop()
        if k not in keep or degree[k] > 1:
            continue
        # The neighbour that is left, if any; a leaf has one at most.
        near = next((n for n in links[k] if n in keep), -1)
        if held[k] <= set(links[k][near] if near >= 0 else ()):
            keep.discard(k)
            if near >= 0:
                degree[near] -= 1
                queue.append(near)
    return keep


def _count_cells(layout: Layout, clique: Sequence[int], fixed: Collection[int]) -> int:
    """Cells of a table in which fixed attributes have one code."""
    return math.prod(layout.sizes[v] for v in clique if v not in fixed)


def _guard(layout: Layout, clique: Sequence[int]) -> None:
    cells = _count_cells(layout, clique, ())
    if cells > MAX_PROJECTED_CELLS:
        raise InputError(
            invalid(
                "clique",
                f"of at most {MAX_PROJECTED_CELLS} cells",
                "Project fewer attributes at a time.",
                got=cells,
            )
        )


Pair = tuple[int, int]
Rows = tuple[tuple[int, ...], Floats]
"""Attributes and their tables p(S, a) side by side, shape [cells of S, codes of all of them]."""

MAX_STACK_CELLS = 1 << 24
"""Most cells of one stack of rows (128 MiB); more attributes are taken in several walks."""


def pair_marginals(layout: Layout, belief: Floats, pairs: Iterable[Pair]) -> dict[Pair, Floats]:
    """Probabilities of pairs of attributes (ascending), each of shape [codes, codes].

    Costs about one pass over the tree's cells for each attribute of a clique and one matrix product for each
    two separators of a clique, whatever the number of pairs.
    """
    # Rows of an attribute lie beside those of the others at every separator: the widest bounds how many fit.
    walk = _Walk(layout, belief, set(pairs))
    widest = max((layout.cells(s) for s in layout.tree.separators), default=1)
    most = max(MAX_STACK_CELLS // widest, 1)
    batch: list[int] = []
    for v in sorted({v for pair in walk.far for v in pair}):
        if batch and sum(layout.sizes[u] for u in batch) + layout.sizes[v] > most:
            walk.run(set(batch))
            batch = []
        batch.append(v)
    if batch:
        walk.run(set(batch))
    return walk.found


class _Walk:
    """The state of the walks: the tables every node will be asked for, and the pairs found.

    `top` is each attribute's topmost clique, `turn` when a walk reaches each clique and `last` when it
    reaches the last one below it; `partners` are those an attribute shares no clique with but is to meet.
    """

    def __init__(self, layout: Layout, belief: Floats, wanted: set[Pair]) -> None:
        self.layout = layout
        cliques, parents = layout.tree.cliques, layout.tree.parents
        self.roots = [k for k, parent in enumerate(parents) if parent < 0]
        self.children: list[list[int]] = [[] for _ in cliques]
        for k, parent in enumerate(parents):
            if parent >= 0:
                self.children[parent].append(k)
        self._number()
        # Pairs inside a tree clique are read off it. The others are `far`, and are what the walks are for.
        homes = {pair: layout.home(pair) for pair in wanted}
        self.far = {pair for pair, home in homes.items() if home < 0}
        self.partners: dict[int, set[int]] = {}
        for u, v in self.far:
            self.partners.setdefault(u, set()).add(v)
            self.partners.setdefault(v, set()).add(u)
        near: list[set[Clique]] = [set() for _ in cliques]
        for pair, home in homes.items():
            if home >= 0:
                near[home].add(pair)
        self.joints = [self._joints(k, belief, near[k]) for k in range(len(cliques))]
        self.found: dict[Pair, Floats] = {
            pair: self.joints[home][pair] for pair, home in homes.items() if home >= 0
        }
        self.up: dict[int, Rows] = {}
        self.rows: set[int] = set()

    def _number(self) -> None:
        """Fill `turn`, `last`, `top` and `below`: attributes whose topmost clique is a node or under it."""
        tree = self.layout.tree
        self.turn, self.last = [0] * len(tree.cliques), [0] * len(tree.cliques)
        # Depth first, so that all below a node have numbers in a row: from its own turn to `last`.
        count, stack = 0, list(reversed(self.roots))
        # A node's turn is counted when it is taken off the stack, so parents come before their children.
        while stack:
            k = stack.pop()
            self.turn[k], count = count, count + 1
            stack += reversed(self.children[k])
        self.top = [-1] * len(self.layout.sizes)
        self.below: list[set[int]] = [set() for _ in tree.cliques]
        for k, (clique, separator) in enumerate(zip(tree.cliques, tree.separators, strict=True)):
            new = set(clique) - set(separator)
            for v in new:
                self.top[v] = k
            self.below[k] |= new
            self.last[k] = max([self.turn[k], *(self.last[c] for c in self.children[k])])
            if tree.parents[k] >= 0:
                self.below[tree.parents[k]] |= self.below[k]

    def run(self, rows: set[int]) -> None:
        """Find all far pairs of which the one reached first is one of some attributes."""
        # Attributes without a partner are carried nowhere.
        self.rows = rows & self.partners.keys()
        tree = self.layout.tree
        # Up: every node sends its parent the rows of attributes below it that somebody later is to meet.
        for k in range(len(tree.cliques)):
            if tree.parents[k] >= 0:
                parts = [(tree.separators[c], self.up[c]) for c in self.children[k]]
                self.up[k] = self._carry_rows(k, parts, tree.separators[k], self._leaving_attributes(k))
        # Down: every node meets what reached it, and hands on what was reached before each child.
        # Attributes of trees walked before are independent of all in this one.
        before: list[int] = []
        for root in self.roots:
            stack: list[tuple[int, Rows]] = [(root, ((), np.zeros((1, 0))))]
            while stack:
                node, down = stack.pop()
                self._meet(node, down, before)
                stack += self._hand_down(node, down)
            before += sorted(self.below[root] & self.rows)
        self.up.clear()

    def _leaving_attributes(self, k: int) -> set[int]:
        """Attributes below a node that are to meet some that a walk reaches after all of them."""
        return {
            u
            for u in self.below[k] & self.rows
            if any(self.turn[self.top[v]] > self.last[k] for v in self.partners[u])
        }

    def _entering_attributes(self, k: int) -> set[int]:
        """Attributes reached before a node that are to meet some below it."""
        return {
            u
            for u in self.rows - self.below[k]
            if self.turn[self.top[u]] < self.turn[k] and self.partners[u] & self.below[k]
        }

    def _joints(self, k: int, belief: Floats, near: set[Clique]) -> dict[Clique, Floats]:
        """All small tables of a node: pairs found in it, pairs of its separators, each with one attribute."""
        layout, tree = self.layout, self.layout.tree
        # Products need p(S, T) for any two separators of the node, and p(S, v) for each attribute that is to
        # meet another.
        clique, parent = tree.cliques[k], tree.separators[k]
        ends = {parent, *(tree.separators[c] for c in self.children[k])}
        far = [v for v in clique if v in self.partners]
        asked: set[Clique] = near | {(v,) for v in far}
        if self.far:
            asked |= {tuple(sorted({*s, *t})) for s in ends for t in ends}
            asked |= {tuple(sorted({*s, v})) for s in ends for v in far}
        table = belief[layout.node_starts[k] : layout.node_starts[k + 1]].reshape(layout.shape(clique))
        return sums(table, clique, asked)

    def _hand_down(self, k: int, down: Rows) -> list[tuple[int, Rows]]:
        """What each child is told: the rows of all that the walk reaches before it."""
        tree = self.layout.tree
        # A child is told what came from above and from the children before it, never what comes back from
        # itself.
        parts = [(tree.separators[k], down)]
        told = []
        for child in self.children[k]:
            told.append(
                (child, self._carry_rows(k, parts, tree.separators[child], self._entering_attributes(child)))
            )
            parts.append((tree.separators[child], self.up[child]))
        return told

    def _carry_rows(
        self, k: int, parts: Sequence[tuple[Clique, Rows]], target: Clique, needed: set[int]
    ) -> Rows:
        """Needed rows that reached a node over some separators, or are its own, as rows over another one."""
        names: list[int] = []
        tables = [np.zeros((self.layout.cells(target), 0))]
        # What came over separators is moved on together: one product of matrices does it for all attributes
        # held.
        for source, (held, table) in parts:
            kept = [v for v in held if v in needed]
            if kept:
                names += kept
                tables.append(self._move_rows(k, source, self._columns(held, table, kept), target))
        # Attributes of this node's own begin here, as the node's pair of them with the separator.
        for v in self.layout.tree.cliques[k]:
            if v in needed and v not in target and v not in names:
                both = tuple(sorted((*target, v)))
                turned = np.moveaxis(self.joints[k][both], both.index(v), -1)
                names.append(v)
                tables.append(turned.reshape(-1, self.layout.sizes[v]))
        return tuple(names), np.concatenate(tables, axis=1)

    def _columns(self, held: Sequence[int], table: Floats, kept: Sequence[int]) -> Floats:
        """The columns of some of the attributes of a stack."""
        if len(kept) == len(held):
            return table
        # A mask over columns: each attribute has as many of them as codes.
        mask = np.repeat([v in kept for v in held], [self.layout.sizes[v] for v in held])
        return np.asarray(table[:, mask])

    def _move_rows(self, k: int, source: Clique, stacked: Floats, target: Clique) -> Floats:
        """p(target, A) = sum over source of p(target, source) / p(source) p(source, A), both in one node."""
        if source == target:
            return stacked
        layout = self.layout
        # Axes in three groups: in both separators (batched over), in the target alone, in the source alone
        # (summed over): p(target | source) times the stacked rows is one matrix product for each cell of the
        # first group.
        kept = [v for v in source if v in target]
        gone = [v for v in source if v not in target]
        fresh = [v for v in target if v not in source]
        union = tuple(sorted({*source, *target}))
        axes = [union.index(v) for v in (*kept, *fresh, *gone)]
        joint = (
            self.joints[k][union]
            .transpose(axes)
            .reshape(layout.cells(kept), layout.cells(fresh), layout.cells(gone))
        )
        # p(S, T) / p(S): what the stack is moved by; cells without probability pass nothing on.
        mass = joint.sum(axis=1, keepdims=True)
        given = np.divide(joint, mass, out=np.zeros(joint.shape), where=mass > 0)
        shaped = stacked.reshape(*layout.shape(source), -1)
        turned = shaped.transpose([source.index(v) for v in (*kept, *gone)] + [len(source)])
        product = given @ turned.reshape(layout.cells(kept), layout.cells(gone), -1)
        wide = product.reshape(*layout.shape(kept), *layout.shape(fresh), -1)
        order = [*kept, *fresh]
        back: Floats = wide.transpose([order.index(v) for v in target] + [len(order)])
        return back.reshape(layout.cells(target), -1)

    def _meet(self, k: int, down: Rows, before: Sequence[int]) -> None:
        """Find the far pairs of a node's new attributes with those that reached it and those before it."""
        clique, separator = self.layout.tree.cliques[k], self.layout.tree.separators[k]
        for v in clique:
            if v in separator or v not in self.partners:
                continue
            # With attributes of trees walked before, the pair is the product of the two one-ways.
            single = self.joints[k][(v,)]
            for u in before:
                if u in self.partners[v]:
                    self._keep(u, v, np.outer(self.joints[self.top[u]][(u,)], single))
            met = [u for u in down[0] if u in self.partners[v]]
            if met:
                joint = self._move_rows(k, separator, self._columns(down[0], down[1], met), (v,)).T
                start = 0
                for u in met:
                    self._keep(u, v, joint[start : start + self.layout.sizes[u]])
                    start += self.layout.sizes[u]

    def _keep(self, u: int, v: int, joint: Floats) -> None:
        # Keys are ascending pairs, so a table that was met the other way round is turned.
        self.found[min(u, v), max(u, v)] = joint if u < v else joint.T
