"""Sample: synthetic rows from a calibrated junction tree, against the elimination order."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from margrave.models.balance import balanced
from margrave.models.pgm.inference import Inference
from margrave.models.pgm.pairs import pair_marginals
from margrave.models.pgm.project import marginal
from margrave.models.pgm.tree import Layout
from margrave.models.rounding import draw_column, grouped, shuffled

__all__ = ["conditioned", "draw"]

Floats = NDArray[np.float64]

PASSES = 4
"""Swaps tried for each row and column to balance pair counts."""

SWAPS = 1 << 19
"""Most swaps tried for one column: many rows need few, since their counts are close anyway."""


def conditioned(layout: Layout, theta: Floats, evidence: Mapping[int, int]) -> tuple[Layout, Floats]:
    """The model given the codes of some attributes: their axes shrink to the one code.

    Potentials are finite, so no code is impossible; the result is exact.

    Returns:
        The smaller layout, on the same tree, and its calibrated beliefs.
    """
    sizes = [1 if v in evidence else size for v, size in enumerate(layout.sizes)]
    parts = [np.zeros(0)]
    for k, clique in enumerate(layout.measured):
        table = theta[layout.starts[k] : layout.starts[k + 1]].reshape(layout.shape(clique))
        cut = tuple(slice(evidence[v], evidence[v] + 1) if v in evidence else slice(None) for v in clique)
        parts.append(table[cut].ravel())
    smaller = Layout(sizes, layout.measured, layout.node_starts[-1], layout.tree)
    inference = Inference(smaller)
    inference.run(np.concatenate(parts))
    return smaller, inference.belief


def draw(layout: Layout, belief: Floats, rows: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Codes of every attribute, each of shape [rows], by low-variance rounding; rows in random order."""
    count = len(layout.sizes)
    columns: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)] * count
    passes = min(PASSES, SWAPS // max(rows, 1))
    pairs = pair_marginals(layout, belief, combinations(range(count), 2)) if passes else {}
    before = np.empty((rows, count if passes else 0), dtype=np.int32)
    drawn: list[int] = []
    for v in reversed(layout.tree.order):
        parents = layout.tree.later[v]
        joint = marginal(layout, belief, tuple(sorted((v, *parents))))
        ordered, table = _conditional(joint, v, parents)
        keys = np.zeros(rows, dtype=np.int64)
        for u in ordered:
            keys *= layout.sizes[u]
            keys += columns[u]
        by = grouped(keys, len(table))
        columns[v] = draw_column(keys, by, table, rng)
        if passes and drawn:
            expected = [rows * (pairs[u, v] if u < v else pairs[v, u].T) for u in drawn]
            balanced(columns[v], by, keys, table, before, expected, passes, rng)
        if passes:
            before[:, len(drawn)] = columns[v]
            drawn.append(v)
    return shuffled(columns, rng)


def _conditional(joint: Floats, v: int, parents: tuple[int, ...]) -> tuple[list[int], Floats]:
    """The parents, those that tell most about v first, and the joint as [parents' cells, codes of v].

    Rows are grouped in that order, and neighbouring groups share their rounding; see `rounding`.
    """
    names = sorted((v, *parents))
    axis = {u: i for i, u in enumerate(names)}
    ordered = sorted(parents, key=lambda u: (-_information(joint, axis[v], axis[u]), u))
    turned = joint.transpose([axis[u] for u in (*ordered, v)])
    return ordered, turned.reshape(-1, joint.shape[axis[v]])


def _information(joint: Floats, a: int, b: int) -> float:
    """Mutual information of two axes of a joint table, in nats."""
    pair = joint.sum(axis=tuple(i for i in range(joint.ndim) if i not in (a, b)))
    product = np.outer(pair.sum(axis=1), pair.sum(axis=0))
    held = pair > 0
    return float((pair[held] * np.log(pair[held] / product[held])).sum())
