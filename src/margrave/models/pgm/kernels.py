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

__all__ = ["calibrate", "calibrate_logs", "gather_add", "gather_multiply", "scatter_add"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

START, CELLS, PARENT, SEPARATOR, LENGTH, OWN, THEIRS, FIRST, ROWS, WIDTH = range(10)
"""What a row of `nodes` says: where its cells start, how many they are, its parent, where the separator to
the parent starts and its length, the maps to it from the node and from the parent, where its rows start in
`rows`, how many they are and how many cells each has."""

TINY = 1e-300
"""Below this a probability is as good as lost; what that may cost is bounded in `_lost`."""

SAFE = 600.0
"""Largest log factor by which anything lost may have been scaled up: e^600 * 1e-300 < 1e-39."""


@summing
def scatter_add(
    source: Floats, base: int, at: Longs, outer: Ints, inner: Ints, target: Floats, start: int
) -> None:
    """Add every cell of source[base:] to its cell of target[start:]."""
    rows, width, kind = at[0], np.uintp(at[1]), at[2]
    for r in range(rows):
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
def gather_multiply(
    source: Floats, base: int, at: Longs, outer: Ints, inner: Ints, target: Floats, start: int
) -> None:
    """Multiply every cell of source[base:] by its cell of target[start:]."""
    rows, width, kind = at[0], np.uintp(at[1]), at[2]
    for r in range(rows):
        c = np.uintp(base + r * at[1])
        t = np.uintp(start + outer[at[3] + r])
        if kind == 0:
            factor = target[t]
            for j in range(width):
                source[c + j] *= factor
        elif kind == 1:
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
    groups: Longs,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    factors: Floats,
    belief: Floats,
    rows: Floats,
    up: Floats,
    down: Floats,
    marginals: Floats,
) -> float:
    """Hugin passing in probability space; return log Z, or NaN where precision would be lost.

    nodes: rows of START to WIDTH, children before parents. groups: rows (node, map, start). factors: [group
    cells], each group's largest 1. Fills belief and marginals with probabilities. Messages are scaled to a
    largest entry of 1. What depends on the row of a clique alone is done in `rows`, one number a row, so
    that the cells are touched only for what needs them. Jensen, Lauritzen and Olesen 1990.
    """
    count = len(nodes)
    belief[:] = 1.0
    rows[:] = 1.0
    for g in range(len(groups)):
        node, at, start = groups[g]
        _multiply(nodes[node], maps[at], outer, inner, belief, rows, factors, start)
    scale = np.empty(count)
    for k in range(count):
        scale[k] = _collect(nodes[k], nodes, maps, outer, inner, belief, rows, up)
        if not scale[k] > TINY:
            return np.nan
    if _lost(nodes, scale) > SAFE:
        return np.nan
    for k in range(count - 1, -1, -1):
        _distribute(nodes[k], scale[k], nodes, maps, outer, inner, belief, rows, up, down)
    marginals[:] = 0.0
    for g in range(len(groups)):
        node, at, start = groups[g]
        _add_up(nodes[node], maps[at], outer, inner, belief, rows, marginals, start)
    return float(np.log(scale).sum())


@compiled
def _multiply(
    node: Longs,
    at: Longs,
    outer: Ints,
    inner: Ints,
    belief: Floats,
    rows: Floats,
    table: Floats,
    start: int,
) -> None:
    """Multiply a node by a table over part of it: by row where the map says so, else by cell."""
    if at[2] == 0:
        for r in range(node[ROWS]):
            rows[node[FIRST] + r] *= table[start + outer[at[3] + r]]
    else:
        gather_multiply(belief, node[START], at, outer, inner, table, start)


@compiled
def _add_up(
    node: Longs,
    at: Longs,
    outer: Ints,
    inner: Ints,
    belief: Floats,
    rows: Floats,
    table: Floats,
    start: int,
) -> None:
    """Add a node's cells to a table over part of it; `rows` holds the sums of the node's rows."""
    if at[2] == 0:
        for r in range(node[ROWS]):
            table[start + outer[at[3] + r]] += rows[node[FIRST] + r]
    else:
        scatter_add(belief, node[START], at, outer, inner, table, start)


@summing
def _settle(node: Longs, belief: Floats, rows: Floats) -> None:
    """Multiply each row of a node by its number in `rows`, and put the row's sum there."""
    width = np.uintp(node[WIDTH])
    for r in range(node[ROWS]):
        c = np.uintp(node[START] + r * node[WIDTH])
        factor = rows[node[FIRST] + r]
        total = 0.0
        for j in range(width):
            belief[c + j] *= factor
            total += belief[c + j]
        rows[node[FIRST] + r] = total


@compiled
def _collect(
    node: Longs, nodes: Longs, maps: Longs, outer: Ints, inner: Ints, belief: Floats, rows: Floats, up: Floats
) -> float:
    """Send a node's message to its parent and return its scale; a root returns its sum."""
    _settle(node, belief, rows)
    if node[PARENT] < 0:
        total = 0.0
        for r in range(node[FIRST], node[FIRST] + node[ROWS]):
            total += rows[r]
        return total
    s, n = node[SEPARATOR], node[LENGTH]
    up[s : s + n] = 0.0
    _add_up(node, maps[node[OWN]], outer, inner, belief, rows, up, s)
    largest = up[s : s + n].max()
    if largest > TINY:
        up[s : s + n] /= largest
        _multiply(nodes[node[PARENT]], maps[node[THEIRS]], outer, inner, belief, rows, up, s)
    return float(largest)


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
def _distribute(
    node: Longs,
    scale: float,
    nodes: Longs,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    belief: Floats,
    rows: Floats,
    up: Floats,
    down: Floats,
) -> None:
    """Make a node's belief a probability, from its parent's, and `rows` the sums of its rows."""
    first, s, n = node[FIRST], node[SEPARATOR], node[LENGTH]
    rows[first : first + node[ROWS]] = 1.0
    if node[PARENT] < 0:
        rows[first : first + node[ROWS]] /= scale
    else:
        down[s : s + n] = 0.0
        _add_up(nodes[node[PARENT]], maps[node[THEIRS]], outer, inner, belief, rows, down, s)
        for c in range(s, s + n):
            before = up[c] * scale
            up[c] = down[c] / before if before > TINY else 0.0
        _multiply(node, maps[node[OWN]], outer, inner, belief, rows, up, s)
    _settle(node, belief, rows)


@compiled
def calibrate_logs(
    nodes: Longs,
    groups: Longs,
    maps: Longs,
    outer: Ints,
    inner: Ints,
    logs: Floats,
    belief: Floats,
    up: Floats,
    down: Floats,
    marginals: Floats,
) -> float:
    """As `calibrate`, all in log space: slower, safe for any finite potentials. logs: [group cells]."""
    belief[:] = 0.0
    for g in range(len(groups)):
        node, at, start = groups[g]
        gather_add(belief, nodes[node, 0], maps[at], outer, inner, logs, start)
    normaliser = 0.0
    for k in range(len(nodes)):
        start, cells, parent, s, n, own, theirs, _, _, _ = nodes[k]
        if parent < 0:
            normaliser += _normalise(belief, start, start + cells)
        else:
            _log_sum(belief, start, maps[own], outer, inner, up, down, s, n)
            gather_add(belief, nodes[parent, 0], maps[theirs], outer, inner, up, s)
    for k in range(len(nodes) - 1, -1, -1):
        start, cells, parent, s, n, own, theirs, _, _, _ = nodes[k]
        if parent >= 0:
            sent = up[s : s + n].copy()
            _log_sum(belief, nodes[parent, 0], maps[theirs], outer, inner, up, down, s, n)
            up[s : s + n] -= sent
            gather_add(belief, start, maps[own], outer, inner, up, s)
    for c in range(len(belief)):
        belief[c] = np.exp(belief[c])
    marginals[:] = 0.0
    for g in range(len(groups)):
        node, at, start = groups[g]
        scatter_add(belief, nodes[node, 0], maps[at], outer, inner, marginals, start)
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
