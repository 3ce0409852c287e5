"""Sample: synthetic rows from a calibrated junction tree, against the elimination order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.limits import Deadline
from margrave.models.balance import balanced
from margrave.models.pgm.inference import Inference
from margrave.models.pgm.pairs import pair_marginals
from margrave.models.pgm.project import marginal
from margrave.models.pgm.tree import Layout
from margrave.models.repair import repair
from margrave.models.rounding import grouped, hand_out, rounded
from margrave.models.steer import steer
from margrave.schema.encoded import code_dtype

__all__ = ["conditioned", "cut", "draw"]

Floats = NDArray[np.float64]

Clique = tuple[int, ...]

PASSES = 4
"""Swaps tried for each row and column to balance pair counts."""

FEW = 1 << 16
"""Up to so many rows. More are closer to begin with and get half the passes."""


def conditioned(layout: Layout, theta: Floats, evidence: Mapping[int, int]) -> tuple[Layout, Floats]:
    """The model given the codes of some attributes: their axes shrink to the one code.

    Potentials are finite, so no code is impossible; the result is exact.

    Returns:
        The smaller layout, on the same tree, and its calibrated beliefs.
    """
    sizes = [1 if v in evidence else size for v, size in enumerate(layout.sizes)]
    smaller = Layout(sizes, layout.measured, layout.node_starts[-1], layout.tree)
    inference = Inference(smaller)
    inference.run(cut(layout, theta, evidence))
    return smaller, inference.belief


def cut(layout: Layout, theta: Floats, evidence: Mapping[int, int]) -> Floats:
    """The potentials of a smaller layout, as `conditioned` makes it."""
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
    count = len(layout.sizes)
    codes = np.zeros((count, rows), dtype=code_dtype(max(layout.sizes, default=1)))
    if rows == 0:
        return codes
    pairs, tables = pair_marginals(layout, belief, combinations(range(count), 2)), _steered(layout)
    passes = PASSES if rows <= FEW else PASSES // 2
    inwards = layout.tree.order[::-1]
    for at, v in enumerate(inwards):
        joint = marginal(layout, belief, tuple(sorted((v, *layout.tree.later[v]))))
        ordered, table = _conditional(joint, v, layout.tree.later[v], pairs)
        keys = _keys(codes, ordered, layout.sizes)
        by = grouped(keys, len(table))
        found = rounded(keys, by, table, rng)
        steer(found, table, *_wanted(layout, belief, rows, v, ordered, tables[v]))
        hand_out(found, by, codes[v], rng)
        if at and not _late(deadline):
            expected = [rows * (pairs[u, v] if u < v else pairs[v, u].T) for u in inwards[:at]]
            balanced(codes, v, inwards[:at], by, keys, table, expected, passes, rng)
    if not _late(deadline):
        wanted = [rows * marginal(layout, belief, clique).ravel() for clique in layout.measured]
        repair(codes, layout.sizes, layout.measured, np.concatenate([np.zeros(0), *wanted]), theta, rng)
    order = rng.permutation(rows)
    for column in codes:
        column[:] = column[order]
    return codes


def _steered(layout: Layout) -> list[list[tuple[int, ...]]]:
    """The tables to watch while each attribute is drawn.

    Those are the measured cliques that it completes, and its one-way. A clique's counts can be right only
    if those of its part drawn before are, so that part is watched, too.
    """
    place = {v: i for i, v in enumerate(layout.tree.order)}
    watched: list[set[tuple[int, ...]]] = [{(v,)} for v in range(len(layout.sizes))]
    for clique in layout.measured:
        part = clique
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


def _wanted(
    layout: Layout, belief: Floats, rows: int, v: int, ordered: Sequence[int], cliques: Sequence[Clique]
) -> tuple[list[int], list[list[int]], list[Floats]]:
    """The tables of `steer`: its radices, strides and expected counts."""
    strides, expected = [], []
    for clique in cliques:
        given = [u for u in ordered if u in clique]
        table = marginal(layout, belief, clique).transpose([clique.index(u) for u in (*given, v)])
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
    ordered = sorted(parents, key=lambda u: (-_information(pairs[min(u, v), max(u, v)]), u))
    turned = joint.transpose([axis[u] for u in (*ordered, v)])
    return ordered, np.ascontiguousarray(turned).reshape(-1, joint.shape[axis[v]])


def _information(pair: Floats) -> float:
    """Mutual information of the two axes of a table, in nats."""
    product = np.outer(pair.sum(axis=1), pair.sum(axis=0))
    held = (pair > 0) & (product > 0)
    return float((pair[held] * np.log(pair[held] / product[held])).sum())
