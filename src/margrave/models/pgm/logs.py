"""Message passing in log space: slower than `kernels`, and safe for any finite potentials."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models.compiled import compiled
from margrave.models.pgm.kernels import gather_add, scatter_add

__all__ = ["calibrate_logs"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


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
    """As `kernels.calibrate`, all in log space. tables: logs of factors."""
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
