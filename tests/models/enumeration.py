"""Enumeration: what the engine should say, by writing out the whole joint table."""

from __future__ import annotations

import numpy as np

from margrave.models.pgm.tree import Layout


def random_layout(rng, *, largest=6, widest=4, cliques=7) -> Layout:
    """A layout over few attributes with random, often looping cliques."""
    count = int(rng.integers(1, largest + 1))
    sizes = sorted(int(n) for n in rng.integers(2, widest + 1, size=count))
    measured = []
    for _ in range(int(rng.integers(0, cliques))):
        width = min(count, int(rng.integers(1, 4)))
        clique = tuple(sorted(int(v) for v in rng.choice(count, size=width, replace=False)))
        if clique not in measured:
            measured.append(clique)
    return Layout(sizes, measured, 1 << 20)


def joint(layout: Layout, theta: np.ndarray) -> tuple[np.ndarray, float]:
    """The joint probabilities and log Z."""
    logs = np.zeros(layout.sizes)
    for k, clique in enumerate(layout.measured):
        table = theta[layout.starts[k] : layout.starts[k + 1]]
        logs = logs + table.reshape([n if v in clique else 1 for v, n in enumerate(layout.sizes)])
    peak = logs.max()
    log_z = float(peak + np.log(np.exp(logs - peak).sum()))
    return np.exp(logs - log_z), log_z


def summed(table: np.ndarray, kept) -> np.ndarray:
    """The marginal of some axes, ascending."""
    return table.sum(axis=tuple(v for v in range(table.ndim) if v not in kept))
