"""Project: the marginal of any attributes from a calibrated junction tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models.pgm.tree import Layout

__all__ = ["MOST", "marginal", "marginals", "sums"]

Floats = NDArray[np.float64]
Clique = tuple[int, ...]
Table = tuple[Floats, Clique]

MOST = 1 << 28
"""Most cells of one projected table, or of one table on the way to it."""

REMEMBERED = 1 << 16
"""Most cells of a message that is kept while many cliques are projected."""


def marginal(layout: Layout, belief: Floats, wanted: Clique) -> Floats:
    """Probabilities of some attributes, ascending, shape layout.shape(wanted); see `marginals`."""
    return marginals(layout, belief, [wanted])[wanted]


def marginals(layout: Layout, belief: Floats, cliques: Iterable[Clique]) -> dict[Clique, Floats]:
    """Probabilities of several cliques, each ascending, of shape layout.shape(clique).

    Variable elimination over the smallest part of the tree that holds a clique; nothing larger than the
    separators and the wanted attributes on one side is ever built. What all cliques ask of one tree clique
    is summed up in one go.

    Args:
        layout: The tree.
        belief: Probabilities of its cliques, calibrated.
        cliques: Distinct cliques, ascending.

    Raises:
        InputError: A table would have more than MOST cells.
    """
    links = _links(layout)
    steps: dict[Clique, list[Step]] = {}
    asked: list[set[Clique]] = [set() for _ in layout.tree.cliques]
    for wanted in cliques:
        _guard(layout, wanted)
        home = layout.home(wanted)
        steps[wanted] = [] if home >= 0 else _steps(layout, links, wanted)
        for node, needed in [(home, wanted)] if home >= 0 else [step[:2] for step in steps[wanted]]:
            asked[node].add(needed)
    tables: list[dict[Clique, Floats]] = []
    found: dict[Clique, Floats] = {}
    for k, clique in enumerate(layout.tree.cliques):
        table = belief[layout.node_starts[k] : layout.node_starts[k + 1]].reshape(layout.shape(clique))
        tables.append(sums(table, clique, asked[k]))
    known: dict[tuple[int, Clique], Floats] = {}
    for wanted, several in steps.items():
        if several:
            found[wanted] = _eliminated(layout, tables, several, wanted, known)
        else:
            found[wanted] = tables[layout.home(wanted)][wanted]
    return found


Step = tuple[int, Clique, Clique]
"""A node of the elimination, the attributes its own table keeps, and those its message has."""


def _steps(layout: Layout, links: Sequence[Mapping[int, Clique]], wanted: Clique) -> list[Step]:
    """The nodes that hold a clique together, children first, and what each keeps and sends."""
    keep = _pruned(layout, links, set(wanted))
    below: dict[int, set[int]] = {k: set() for k in keep}
    steps = []
    for k in sorted(keep):
        clique, parent = layout.tree.cliques[k], layout.tree.parents[k]
        separator = layout.tree.separators[k] if parent in keep else ()
        needed = tuple(v for v in clique if v in below[k] or v in wanted or v in separator)
        out = tuple(sorted(set(separator) | (below[k] | set(clique)) & set(wanted)))
        _guard(layout, out)
        if parent in keep:
            below[parent] |= set(out)
        steps.append((k, needed, out))
    return steps


def _eliminated(
    layout: Layout,
    tables: Sequence[Mapping[Clique, Floats]],
    steps: Sequence[Step],
    wanted: Clique,
    known: dict[tuple[int, Clique], Floats],
) -> Floats:
    """The product of the nodes' conditionals, summed down to the wanted attributes.

    A message depends on its node and its attributes alone; small ones are kept in `known` for other cliques.
    """
    keep = {k for k, _, _ in steps}
    messages: dict[int, list[Table]] = {k: [] for k in keep}
    finished: list[Table] = []
    for k, needed, out in steps:
        table, parent = tables[k][needed], layout.tree.parents[k]
        received = messages.pop(k)
        sent = known.get((k, out)) if parent in keep else None
        if sent is None:
            if parent in keep:
                table = _given(table, needed, layout.tree.separators[k])
            sent = contracted([(table, needed), *received], out)
            if parent in keep and sent.size <= REMEMBERED:
                known[k, out] = sent
        (messages[parent] if parent in keep else finished).append((sent, out))
    return contracted(finished, wanted)


def sums(table: Floats, names: tuple[int, ...], asked: set[tuple[int, ...]]) -> dict[tuple[int, ...], Floats]:
    """Many marginals of one table at once; all cliques ascending, `asked` within `names`.

    Long axes are summed out first and what remains is shared, so that all pairs of k attributes cost
    about k passes over the table instead of k (k - 1) / 2.
    """
    found = {names: table} if names in asked else {}
    rest = asked - {names}
    for axis in sorted(range(len(names)), key=lambda i: -table.shape[i]):
        without = {clique for clique in rest if names[axis] not in clique}
        if without:
            found |= sums(table.sum(axis=axis), names[:axis] + names[axis + 1 :], without)
            rest -= without
    return found


def contracted(tables: Sequence[Table], out: tuple[int, ...]) -> Floats:
    """The product of tables, summed down to some attributes: two at a time, smallest results first."""
    left = list(tables)
    while len(left) > 1:
        choices = [(i, j, _kept(left, i, j, out)) for j in range(len(left)) for i in range(j)]
        i, j, kept = min(choices, key=lambda choice: _cells(left, choice))
        second, first = left.pop(j), left.pop(i)
        left.append((_product(first, second, kept), kept))
    table, names = left[0]
    gone = tuple(i for i, v in enumerate(names) if v not in out)
    return np.asarray(table.sum(axis=gone), dtype=np.float64) if gone else table


def _kept(tables: Sequence[Table], i: int, j: int, out: tuple[int, ...]) -> tuple[int, ...]:
    """The attributes the product of two tables must keep: those wanted and those other tables have."""
    others = {v for k, (_, names) in enumerate(tables) if k not in (i, j) for v in names}
    return tuple(sorted({*tables[i][1], *tables[j][1]} & {*out, *others}))


def _cells(tables: Sequence[Table], choice: tuple[int, int, tuple[int, ...]]) -> float:
    """Cells of the product that a choice of two tables would make."""
    i, j, kept = choice
    sizes = {v: n for t, names in (tables[i], tables[j]) for v, n in zip(names, t.shape, strict=True)}
    return float(np.prod([sizes[v] for v in kept]))


def _product(a: Table, b: Table, out: tuple[int, ...]) -> Floats:
    """The product of two tables summed down to `out`, as a batch of matrix products."""
    shared = set(a[1]) & set(b[1])
    batch = [v for v in out if v in shared]
    inner = sorted(shared - set(out))
    (x, x_own), (y, y_own) = (_reduced(table, names, shared, out) for table, names in (a, b))
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


def _reduced(
    table: Floats, names: tuple[int, ...], shared: set[int], out: tuple[int, ...]
) -> tuple[Floats, list[int]]:
    """A table without the attributes only it has and nobody wants; and those only it has that are wanted."""
    gone = tuple(i for i, v in enumerate(names) if v not in shared and v not in out)
    own = [v for v in names if v not in shared and v in out]
    return (table.sum(axis=gone) if gone else table), own


def _given(table: Floats, names: tuple[int, ...], given: Sequence[int]) -> Floats:
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


def _pruned(layout: Layout, links: Sequence[Mapping[int, Clique]], wanted: set[int]) -> set[int]:
    """Nodes of the smallest subtree of each component that holds the wanted attributes of it."""
    keep = set(range(len(links)))
    held = [wanted.intersection(clique) for clique in layout.tree.cliques]
    degree = [len(near) for near in links]
    queue = [k for k in keep if degree[k] <= 1]
    while queue:
        k = queue.pop()
        if k not in keep or degree[k] > 1:
            continue
        near = next((n for n in links[k] if n in keep), -1)
        if held[k] <= set(links[k][near] if near >= 0 else ()):
            keep.discard(k)
            if near >= 0:
                degree[near] -= 1
                queue.append(near)
    return keep


def _guard(layout: Layout, clique: Sequence[int]) -> None:
    cells = 1
    for v in clique:
        cells *= layout.sizes[v]
    if cells > MOST:
        raise InputError(
            invalid("clique", f"of at most {MOST} cells", "Project fewer attributes at a time.", got=cells)
        )
