"""Kernels: adding up and spreading out tables along index maps, and message passing made of them.

A table of a clique is stored as rows of its trailing axes. A map takes the cells of a source table to a
target table over fewer attributes: cell (r, j) goes to outer[r] + inner[j]. Since all tables order their
axes alike, inner is mostly constant or consecutive, and then runs on vector units.

A row of `maps` is (rows, width, kind, start in outer, start in inner); kind 0: inner is all 0, 1: inner
counts up from 0, 2: anything else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled, summing

__all__ = ["calibrate", "calibrate_logs", "gather_add", "scatter_add"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

START, CELLS, PARENT, SEPARATOR, LENGTH, OWN, THEIRS, ROWS, WIDTH = range(9)
"""What a row of `nodes` says: where its cells start, how many they are, its parent, where the separator to
the parent starts among all tables and its length, the maps to it from the node and from the parent (-1 for
roots), how many rows it has and how many cells each."""

BLOCK = 2048
"""Cells worked on at a time: they stay in the fastest cache while all tables pass over them."""

TINY = 1e-300
"""Below this a probability is as good as lost; what that may cost is bounded in `_lost`."""

SAFE = 600.0
"""Largest log factor by which anything lost may have been scaled up: e^600 * 1e-300 < 1e-39."""


@summing
def scatter_add(
    source: Floats, base: int, at: Longs, outer: Ints, inner: Ints, target: Floats, start: int
) -> None:
    """Add every cell of source[base:] to its cell of target[start:]."""
    _add_rows(source, base, at, 0, at[0], outer, inner, target, start)


@summing
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


@compiled
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


@compiled
def gather_add(
    source: Floats, base: int, at: Longs, outer: Ints, inner: Ints, target: Floats, start: int
) -> None:
    """Add to every cell of source[base:] its cell of target[start:]."""
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


@compiled
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
    count = len(nodes)
    scale = np.empty(count)
    for k in range(count):
        s, n, near = nodes[k, SEPARATOR], nodes[k, LENGTH], links[first[k] : first[k + 1]]
        tables[s : s + n] = 0.0
        scale[k] = _raised(nodes[k], near, maps, outer, inner, tables, belief)
        if nodes[k, PARENT] >= 0:
            scale[k] = tables[s : s + n].max()
            if scale[k] > TINY:
                tables[s : s + n] /= scale[k]
        if not scale[k] > TINY:
            return np.nan
    if _lost(nodes, scale) > SAFE:
        return np.nan
    sums[:] = 0.0
    for k in range(count - 1, -1, -1):
        _renewed(nodes[k], scale[k], tables, sums)
        factor = 1.0 if nodes[k, PARENT] >= 0 else 1.0 / scale[k]
        near = links[first[k] : first[k + 1]]
        _lowered(nodes[k], near, factor, maps, outer, inner, tables, belief, sums)
    return float(np.log(scale).sum())


@compiled
def _renewed(node: Longs, scale: float, tables: Floats, sums: Floats) -> None:
    """The separator's message up becomes the ratio of what it should be to what it was."""
    for c in range(node[SEPARATOR], node[SEPARATOR] + node[LENGTH]):
        before = tables[c] * scale
        tables[c] = sums[c] / before if before > TINY else 0.0


@compiled
def _raised(
    node: Longs, links: Longs, maps: Longs, outer: Ints, inner: Ints, tables: Floats, belief: Floats
) -> float:
    """Fill a node with the product of its tables, add it up to its message and return its sum."""
    step = max(BLOCK // node[WIDTH], 1)
    rows = np.empty(step)
    everything = 0.0
    for r0 in range(0, node[ROWS], step):
        r1 = min(r0 + step, node[ROWS])
        rows[:] = 1.0
        for k in range(len(links)):
            at = maps[links[k, 0]]
            if at[2] == 0:
                _multiply_each(rows, r1 - r0, tables, links[k, 1], outer, at[3] + r0)
        _spread_rows(node, r0, r1, rows, belief)
        for k in range(len(links)):
            at = maps[links[k, 0]]
            if at[2] != 0:
                _multiply_rows(belief, node[START], at, r0, r1, outer, inner, tables, links[k, 1])
        if node[PARENT] < 0:
            everything += _sum_rows(node, r0, r1, 1.0, belief, rows)
        else:
            _add_rows(belief, node[START], maps[node[OWN]], r0, r1, outer, inner, tables, node[SEPARATOR])
    return everything


@compiled
def _multiply_each(rows: Floats, count: int, table: Floats, start: int, outer: Ints, first: int) -> None:
    for r in range(count):
        rows[r] *= table[start + outer[first + r]]


@compiled
def _spread_rows(node: Longs, r0: int, r1: int, rows: Floats, belief: Floats) -> None:
    width = np.uintp(node[WIDTH])
    for r in range(r0, r1):
        c = np.uintp(node[START] + r * node[WIDTH])
        factor = rows[r - r0]
        for j in range(width):
            belief[c + j] = factor


@summing
def _sum_rows(node: Longs, r0: int, r1: int, factor: float, belief: Floats, rows: Floats) -> float:
    """Put the sums of rows r0 to r1 of a node in `rows`, and return their sum."""
    width = np.uintp(node[WIDTH])
    everything = 0.0
    for r in range(r0, r1):
        c = np.uintp(node[START] + r * node[WIDTH])
        total = 0.0
        for j in range(width):
            total += belief[c + j]
        rows[r - r0] = total
        everything += total
    return everything


@summing
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


@compiled
def _lowered(
    node: Longs,
    links: Longs,
    factor: float,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    tables: Floats,
    belief: Floats,
    sums: Floats,
) -> None:
    """Multiply a node by a number and the message from its parent, and add it up to all its tables."""
    step = max(BLOCK // node[WIDTH], 1)
    rows = np.empty(step)
    for r0 in range(0, node[ROWS], step):
        r1 = min(r0 + step, node[ROWS])
        rows[:] = factor
        if node[PARENT] >= 0:
            own = maps[node[OWN]]
            if own[2] == 0:
                _multiply_each(rows, r1 - r0, tables, node[SEPARATOR], outer, own[3] + r0)
            else:
                _multiply_rows(belief, node[START], own, r0, r1, outer, inner, tables, node[SEPARATOR])
        _settle(node, r0, r1, belief, rows)
        for k in range(len(links)):
            at = maps[links[k, 0]]
            if at[2] == 0:
                for r in range(r1 - r0):
                    sums[links[k, 1] + outer[at[3] + r0 + r]] += rows[r]
            else:
                _add_rows(belief, node[START], at, r0, r1, outer, inner, sums, links[k, 1])


@compiled
def _lost(nodes: Longs, scale: Floats) -> float:
    """The largest log factor by which scaling has raised what fell below TINY somewhere in the tree.

    All factors and messages are at most 1, so a configuration lost in a node would have weighed at most
    TINY divided by all scales from there to the root, the root's sum included.
    """
    raised = np.empty(len(nodes))
    worst = 0.0
    for k in range(len(nodes) - 1, -1, -1):
        parent = nodes[k, PARENT]
        raised[k] = -np.log(scale[k]) + (raised[parent] if parent >= 0 else 0.0)
        worst = max(worst, raised[k])
    return worst


@compiled
def calibrate_logs(
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
    """As `calibrate`, all in log space: slower, safe for any finite potentials. tables: logs of factors."""
    belief[:] = 0.0
    normaliser = 0.0
    for k in range(len(nodes)):
        start, cells, parent, s, n, own, _, _, _ = nodes[k]
        for link in range(first[k], first[k + 1]):
            gather_add(belief, start, maps[links[link, 0]], outer, inner, tables, links[link, 1])
        if parent < 0:
            normaliser += _normalise(belief, start, start + cells)
        else:
            _log_sum(belief, start, maps[own], outer, inner, tables, sums, s, n)
    for k in range(len(nodes) - 1, -1, -1):
        start, cells, parent, s, n, own, theirs, _, _ = nodes[k]
        if parent >= 0:
            sent = tables[s : s + n].copy()
            _log_sum(belief, nodes[parent, 0], maps[theirs], outer, inner, tables, sums, s, n)
            tables[s : s + n] -= sent
            gather_add(belief, start, maps[own], outer, inner, tables, s)
    for c in range(len(belief)):
        belief[c] = np.exp(belief[c])
    sums[:] = 0.0
    for k in range(len(nodes)):
        for link in range(first[k], first[k + 1]):
            scatter_add(belief, nodes[k, 0], maps[links[link, 0]], outer, inner, sums, links[link, 1])
    return normaliser


@compiled
def _normalise(logs: Floats, first: int, last: int) -> float:
    """Subtract from logs[first:last] the log of the sum of their exponentials, and return it."""
    largest = logs[first:last].max()
    total = 0.0
    for c in range(first, last):
        total += np.exp(logs[c] - largest)
    found = largest + np.log(total)
    logs[first:last] -= found
    return float(found)


@compiled
def _log_sum(
    source: Floats,
    base: int,
    at: Longs,
    outer: Ints,
    inner: Ints,
    out: Floats,
    peak: Floats,
    s: int,
    n: int,
) -> None:
    """out[s:s+n] = the log of the sum of exponentials of a source's cells that map there."""
    rows, width, o, i = at[0], at[1], at[3], at[4]
    peak[s : s + n] = -np.inf
    out[s : s + n] = 0.0
    for r in range(rows):
        for j in range(width):
            t = s + outer[o + r] + inner[i + j]
            peak[t] = max(peak[t], source[base + r * width + j])
    for r in range(rows):
        for j in range(width):
            t = s + outer[o + r] + inner[i + j]
            out[t] += np.exp(source[base + r * width + j] - peak[t])
    for c in range(s, s + n):
        out[c] = np.log(out[c]) + peak[c]
