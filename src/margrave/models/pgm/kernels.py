"""Adding up and spreading out tables along index maps, and message passing made of them.

A table of a clique is stored as rows of its trailing axes. A map takes the cells of a source table to a
target table over fewer attributes: cell (r, j) goes to outer[r] + inner[j]. Since all tables order their
axes alike, inner is mostly constant or consecutive, and then runs on vector units.

A row of `maps` is (rows, width, kind, start in outer, start in inner); kind 0: inner is all 0, 1: inner
counts up from 0, 2: anything else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel, compile_summing

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

START, CELLS, PARENT, SEPARATOR, LENGTH, OWN, THEIRS, ROWS, WIDTH = range(9)
"""What a row of `nodes` says: where its cells start, how many they are, its parent, where the separator to
the parent starts among all tables and its length, the maps to it from the node and from the parent (-1 for
roots), how many rows it has and how many cells each."""

BLOCK = 2048
"""Cells worked on at a time: they stay in the fastest cache while all tables pass over them."""

LOST_PROBABILITY = 1e-300
"""Below this a probability is as good as lost; what that may cost is bounded in `lost`."""

MAX_SAFE_LOG = 600.0
"""Largest log factor by which anything lost may have been scaled up: e^600 * 1e-300 < 1e-39."""


@compile_summing
def scatter_add(
    source: Floats, base: int, at: Longs, outer: Ints, inner: Ints, target: Floats, start: int
) -> None:
    """Add every cell of source[base:] to its cell of target[start:]."""
    _add_rows(source, base, at, 0, at[0], outer, inner, target, start)


@compile_summing
def _add_rows(
    source: Floats,
    base: int,
    at: Longs,
    r0: int,
    r1: int,
    outer: Ints,
    inner: Ints,
    target: Floats,
    start: int,
) -> None:
    """Add the cells of rows r0 to r1 of source[base:] to their cells of target[start:]."""
    # Unsigned offsets spare the test for negative indices, which keeps the loops in vectors. The kinds of a
    # row are: all its cells go into one, into cells side by side, or wherever a map says.
    width, kind = np.uintp(at[1]), at[2]
    for r in range(r0, r1):
        c = np.uintp(base + r * at[1])
        t = np.uintp(start + outer[at[3] + r])
        if kind == 0:
            total = 0.0
            for j in range(width):
                total += source[c + j]
            target[t] += total
        elif kind == 1:
            for j in range(width):
                target[t + j] += source[c + j]
        else:
            for j in range(width):
                target[t + np.uintp(inner[np.uintp(at[4]) + j])] += source[c + j]


@compile_kernel
def _multiply_rows(
    source: Floats,
    base: int,
    at: Longs,
    r0: int,
    r1: int,
    outer: Ints,
    inner: Ints,
    target: Floats,
    start: int,
) -> None:
    """Multiply the cells of rows r0 to r1 of source[base:] by their cells of target[start:]; not kind 0."""
    width, kind = np.uintp(at[1]), at[2]
    for r in range(r0, r1):
        c = np.uintp(base + r * at[1])
        t = np.uintp(start + outer[at[3] + r])
        if kind == 1:
            for j in range(width):
                source[c + j] *= target[t + j]
        else:
            for j in range(width):
                source[c + j] *= target[t + np.uintp(inner[np.uintp(at[4]) + j])]


@compile_kernel
def gather_add(
    source: Floats, base: int, at: Longs, outer: Ints, inner: Ints, target: Floats, start: int
) -> None:
    """Add to every cell of source[base:] its cell of target[start:]."""
    # As in `_add_rows`, one branch a row and none a cell.
    rows, width, kind = at[0], np.uintp(at[1]), at[2]
    for r in range(rows):
        c = np.uintp(base + r * at[1])
        t = np.uintp(start + outer[at[3] + r])
        if kind == 0:
            term = target[t]
            for j in range(width):
                source[c + j] += term
        elif kind == 1:
            for j in range(width):
                source[c + j] += target[t + j]
        else:
            for j in range(width):
                source[c + j] += target[t + np.uintp(inner[np.uintp(at[4]) + j])]


@compile_kernel
def calibrate(
    nodes: Longs,
    first: Longs,
    links: Longs,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    tables: Floats,
    belief: Floats,
    sums: Floats,
) -> float:
    """Hugin passing in probability space; return log Z, or NaN where precision would be lost.

    nodes: rows of START to WIDTH, children before parents. links[first[k]:first[k + 1]]: what is spread over
    node k, rows (map, start in tables and sums): its groups' factors and the messages of its children.
    tables: factors, each group's largest 1, then room for the messages up. Fills belief with probabilities
    and sums with the groups' marginals, then the messages down. Messages are scaled to a largest entry of 1;
    cells pass through memory once each way. Jensen, Lauritzen and Olesen 1990.
    """
    scale = np.empty(len(nodes))
    if not raise_nodes(0, len(nodes), nodes, first, links, maps, outer, inner, tables, belief, scale):
        return np.nan
    if lost(nodes, scale) > MAX_SAFE_LOG:
        return np.nan
    sums[:] = 0.0
    lower_nodes(0, len(nodes), nodes, first, links, maps, outer, inner, tables, belief, sums, scale)
    return float(np.log(scale).sum())


@compile_kernel
def raise_nodes(
    begin: int,
    end: int,
    nodes: Longs,
    first: Longs,
    links: Longs,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    tables: Floats,
    belief: Floats,
    scale: Floats,
) -> bool:
    """Fill the nodes from begin to before end, send their messages up; False where one is lost."""
    # The whole node is one part; a root sends nothing.
    part, own = np.array([0, 0, 0, 1]), np.empty((1, 2), dtype=np.int64)
    for k in range(begin, end):
        s, n, near = nodes[k, SEPARATOR], nodes[k, LENGTH], links[first[k] : first[k + 1]]
        # Messages are added up where they will be read: they begin at 0.
        tables[s : s + n] = 0.0
        part[1], own[0, 0], own[0, 1] = nodes[k, ROWS], nodes[k, OWN], s
        into = own if nodes[k, PARENT] >= 0 else own[:0]
        scale[k] = raise_part(nodes[k], part, near, into, maps, outer, inner, tables, belief, tables)
        if not scale_message(k, nodes, tables, scale):
            return False
    return True


@compile_kernel
def scale_message(k: int, nodes: Longs, tables: Floats, scale: Floats) -> bool:
    """Divide a node's message by its largest entry, kept in `scale`; False where that is lost."""
    if nodes[k, PARENT] >= 0:
        message = tables[nodes[k, SEPARATOR] : nodes[k, SEPARATOR] + nodes[k, LENGTH]]
        scale[k] = message.max()
        if scale[k] > LOST_PROBABILITY:
            message /= scale[k]
    return bool(scale[k] > LOST_PROBABILITY)


@compile_kernel
def lower_nodes(
    begin: int,
    end: int,
    nodes: Longs,
    first: Longs,
    links: Longs,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    tables: Floats,
    belief: Floats,
    sums: Floats,
    scale: Floats,
) -> None:
    """Calibrate the nodes from before end down to begin and add them up to all their tables."""
    part = np.array([0, 0, 0, 1])
    for k in range(end - 1, begin - 1, -1):
        factor = renew_message(nodes[k], scale[k], tables, sums)
        part[1] = nodes[k, ROWS]
        near = links[first[k] : first[k + 1]]
        lower_part(nodes[k], part, near, factor, maps, outer, inner, tables, belief, sums)


@compile_kernel
def renew_message(node: Longs, scale: float, tables: Floats, sums: Floats) -> float:
    """The separator's message up becomes the ratio of what it should be to what it was.

    Returns the factor that all of the node is still to be multiplied by.
    """
    # What the parent now has over the separator, over what this node had told it (Hugin's update).
    for c in range(node[SEPARATOR], node[SEPARATOR] + node[LENGTH]):
        before = tables[c] * scale
        tables[c] = sums[c] / before if before > LOST_PROBABILITY else 0.0
    return 1.0 if node[PARENT] >= 0 else 1.0 / scale


@compile_kernel
def raise_part(
    node: Longs,
    part: Longs,
    links: Longs,
    into: Longs,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    tables: Floats,
    belief: Floats,
    out: Floats,
) -> float:
    """Fill part of a node with the product of its tables and add it up to its message, `into` of `out`.

    part: rows (first, how many, apart, times): so many rows from the first on, and again so far apart.
    Returns the sum of a root's part.
    """
    # Whole rows only, about a cache's worth of cells at a time.
    step = max(BLOCK // node[WIDTH], 1)
    rows = np.empty(step)
    everything = 0.0
    for time in range(part[3]):
        begin = part[0] + time * part[2]
        for r0 in range(begin, begin + part[1], step):
            r1 = min(r0 + step, begin + part[1])
            # Tables that are constant along a row multiply one number a row, before the row is spread out.
            rows[:] = 1.0
            for k in range(len(links)):
                at = maps[links[k, 0]]
                if at[2] == 0:
                    _multiply_each(rows, r1 - r0, tables, links[k, 1], outer, at[3] + r0)
            _spread_rows(node, r0, r1, rows, belief)
            # All other tables multiply cell by cell, while the block is in cache.
            for k in range(len(links)):
                at = maps[links[k, 0]]
                if at[2] != 0:
                    _multiply_rows(belief, node[START], at, r0, r1, outer, inner, tables, links[k, 1])
            if len(into):
                _add_rows(belief, node[START], maps[into[0, 0]], r0, r1, outer, inner, out, into[0, 1])
            else:
                everything += _sum_rows(node, r0, r1, belief)
    return everything


@compile_kernel
def _multiply_each(rows: Floats, count: int, table: Floats, start: int, outer: Ints, first: int) -> None:
    for r in range(count):
        rows[r] *= table[start + outer[first + r]]


@compile_kernel
def _spread_rows(node: Longs, r0: int, r1: int, rows: Floats, belief: Floats) -> None:
    width = np.uintp(node[WIDTH])
    for r in range(r0, r1):
        c = np.uintp(node[START] + r * node[WIDTH])
        factor = rows[r - r0]
        for j in range(width):
            belief[c + j] = factor


@compile_summing
def _sum_rows(node: Longs, r0: int, r1: int, belief: Floats) -> float:
    """The sum of rows r0 to r1 of a node."""
    total = 0.0
    for c in range(node[START] + r0 * node[WIDTH], node[START] + r1 * node[WIDTH]):
        total += belief[c]
    return total


@compile_summing
def _settle(node: Longs, r0: int, r1: int, belief: Floats, rows: Floats) -> None:
    """Multiply each row of a node by its number in `rows`, and put the row's sum there."""
    width = np.uintp(node[WIDTH])
    for r in range(r0, r1):
        c = np.uintp(node[START] + r * node[WIDTH])
        factor = rows[r - r0]
        total = 0.0
        for j in range(width):
            belief[c + j] *= factor
            total += belief[c + j]
        rows[r - r0] = total


@compile_kernel
def lower_part(
    node: Longs,
    part: Longs,
    into: Longs,
    factor: float,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    tables: Floats,
    belief: Floats,
    sums: Floats,
) -> None:
    """Multiply part of a node by a number and the message from its parent, and add it up to all its tables.

    part: as in `raise_part`. into: rows (map, start in sums).
    """
    step = max(BLOCK // node[WIDTH], 1)
    rows = np.empty(step)
    for time in range(part[3]):
        begin = part[0] + time * part[2]
        for r0 in range(begin, begin + part[1], step):
            r1 = min(r0 + step, begin + part[1])
            # The ratio of new message to old, times what scaling took out.
            rows[:] = factor
            if node[PARENT] >= 0:
                own, s = maps[node[OWN]], node[SEPARATOR]
                if own[2] == 0:
                    _multiply_each(rows, r1 - r0, tables, s, outer, own[3] + r0)
                else:
                    _multiply_rows(belief, node[START], own, r0, r1, outer, inner, tables, s)
            # After this `rows` holds the rows' sums: tables over the leading axes need no other pass.
            _settle(node, r0, r1, belief, rows)
            for k in range(len(into)):
                at = maps[into[k, 0]]
                if at[2] == 0:
                    _add_each(rows, r1 - r0, sums, into[k, 1], outer, at[3] + r0)
                else:
                    _add_rows(belief, node[START], at, r0, r1, outer, inner, sums, into[k, 1])


@compile_kernel
def _add_each(rows: Floats, count: int, table: Floats, start: int, outer: Ints, first: int) -> None:
    for r in range(count):
        table[start + outer[first + r]] += rows[r]


@compile_kernel
def lost(nodes: Longs, scale: Floats) -> float:
    """The largest log factor by which scaling has raised what fell below LOST_PROBABILITY somewhere in the
    tree.

    All factors and messages are at most 1, so a configuration lost in a node would have weighed at most
    LOST_PROBABILITY divided by all scales from there to the root, the root's sum included.
    """
    raised = np.empty(len(nodes))
    worst = 0.0
    for k in range(len(nodes) - 1, -1, -1):
        parent = nodes[k, PARENT]
        # A node's loss is raised by its own scale and by those of all nodes up to the root.
        raised[k] = -np.log(scale[k]) + (raised[parent] if parent >= 0 else 0.0)
        worst = max(worst, raised[k])
    return worst


@compile_kernel
def add_copies(
    copies: Floats, first: int, apart: int, count: int, target: Floats, start: int, n: int
) -> None:
    """Add n cells of so many copies, the first at `first` and the others so far apart, to target[start:]."""
    for k in range(count):
        source = first + k * apart
        for c in range(n):
            target[start + c] += copies[source + c]
