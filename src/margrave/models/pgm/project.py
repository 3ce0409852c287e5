"""Project: the marginal of any attributes from a calibrated junction tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models.pgm.tree import Layout

__all__ = ["MOST", "marginal", "sums"]

Floats = NDArray[np.float64]
Table = tuple[Floats, tuple[int, ...]]

MOST = 1 << 28
"""Most cells of one projected table, or of one table on the way to it."""


def marginal(layout: Layout, belief: Floats, wanted: tuple[int, ...]) -> Floats:
    """Probabilities of some attributes, ascending, shape layout.shape(wanted).

    Variable elimination over the smallest part of the tree that holds them; nothing larger than the
    separators and the wanted attributes on one side is ever built.

    Args:
        layout: The tree.
        belief: Probabilities of its cliques, calibrated.
        wanted: Attributes, ascending.

    Raises:
        InputError: The table would have more than MOST cells.
    """
    _guard(layout, wanted)
    home = layout.home(wanted)
    if home >= 0:
        return summed(layout, belief, home, wanted)
    keep = _pruned(layout, set(wanted))
    messages: dict[int, list[Table]] = {k: [] for k in keep}
    finished: list[Table] = []
    for k in sorted(keep):
        clique, parent = layout.tree.cliques[k], layout.tree.parents[k]
        top = parent not in keep
        separator = () if top else layout.tree.separators[k]
        below = {v for _, names in messages[k] for v in names}
        needed = tuple(v for v in clique if v in below or v in wanted or v in separator)
        table = summed(layout, belief, k, needed)
        if not top:
            table = _given(table, needed, separator)
        out = tuple(sorted(set(separator) | (below | set(clique)) & set(wanted)))
        _guard(layout, out)
        sent = contracted([(table, needed), *messages[k]], out)
        (finished if top else messages[parent]).append((sent, out))
    return contracted(finished, wanted)


def summed(layout: Layout, belief: Floats, node: int, wanted: Sequence[int]) -> Floats:
    """The marginal of some attributes of one tree clique, ascending."""
    clique = layout.tree.cliques[node]
    table = belief[layout.node_starts[node] : layout.node_starts[node + 1]].reshape(layout.shape(clique))
    gone = tuple(i for i, v in enumerate(clique) if v not in set(wanted))
    return np.asarray(table.sum(axis=gone), dtype=np.float64) if gone else table


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


def _pruned(layout: Layout, wanted: set[int]) -> set[int]:
    """Nodes of the smallest subtree of each component that holds the wanted attributes of it."""
    tree = layout.tree
    links: list[dict[int, tuple[int, ...]]] = [{} for _ in tree.cliques]
    for k, parent in enumerate(tree.parents):
        if parent >= 0:
            links[k][parent] = links[parent][k] = tree.separators[k]
    keep = set(range(len(tree.cliques)))
    queue = list(keep)
    while queue:
        k = queue.pop()
        near = [n for n in links[k] if n in keep]
        held = wanted & set(tree.cliques[k])
        if k in keep and len(near) <= 1 and held <= set(links[k][near[0]] if near else ()):
            keep.discard(k)
            queue += near
    return keep


def _guard(layout: Layout, clique: Sequence[int]) -> None:
    cells = 1
    for v in clique:
        cells *= layout.sizes[v]
    if cells > MOST:
        raise InputError(
            invalid("clique", f"of at most {MOST} cells", "Project fewer attributes at a time.", got=cells)
        )
