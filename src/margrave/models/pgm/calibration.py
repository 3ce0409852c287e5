"""Calibration: what the optimiser and the model ask of an engine of inference, compiled or on a device.

`Held` is inference with some potentials that the optimiser does not move: those of cells that rules forbid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from margrave.models.pgm.graph import rank_attributes
from margrave.models.pgm.tree import Layout, tree_cells
from margrave.schema.domain import Clique, Domain


class Calibration(Protocol):
    """log Z, all measured marginals and all beliefs of p(x) = exp(sum_r theta_r(x_r) - log Z)."""

    @property
    def layout(self) -> Layout:
        """The tree and the measured tables."""

    @property
    def marginals(self) -> NDArray[np.float64]:
        """Probabilities of every measured clique at the last theta, [layout.starts[-1]]."""

    @property
    def belief(self) -> NDArray[np.float64]:
        """Probabilities of every tree clique at the last theta, [layout.node_starts[-1]]."""

    def run(self, theta: NDArray[np.float64]) -> float:
        """log Z at theta, [layout.starts[-1]]; fills `belief` and `marginals`."""


Floats = NDArray[np.float64]

FORBIDDEN_POTENTIAL = -1e4
"""Potential of a forbidden cell: finite, so that logarithms never meet infinity, though its exponential is 0.
Where measurements contradict the rules other potentials reach hundreds."""

MAX_RULE_CELLS = 1 << 17
"""Cells of one rule's table, and of the junction tree of all of them, that a model takes in. Larger rules are
left to drawing rows again."""


class Held:
    """Inference whose last tables have fixed potentials: the optimiser sees those before.

    Args:
        inner: Over all tables.
        fixed: Potentials of the last ones.
    """

    def __init__(self, inner: Calibration, fixed: Floats) -> None:
        self.inner = inner
        self.fixed = fixed
        self.free = inner.layout.starts[-1] - len(fixed)

    @property
    def layout(self) -> Layout:
        """The tree and all tables."""
        return self.inner.layout

    @property
    def marginals(self) -> Floats:
        """Probabilities of the tables that are not fixed, at the last theta."""
        return self.inner.marginals[: self.free]

    @property
    def belief(self) -> Floats:
        """Probabilities of every tree clique at the last theta."""
        return self.inner.belief

    def run(self, theta: Floats) -> float:
        """log Z at theta, which leaves out the fixed potentials."""
        return self.inner.run(np.concatenate([theta, self.fixed]))


def rule_tables(domain: Domain) -> list[tuple[Clique, NDArray[np.bool_]]]:
    """The rules that a junction tree takes in: which cells of which cliques are allowed."""
    if domain.rules is None:
        return []
    taken: list[tuple[Clique, NDArray[np.bool_]]] = []
    for clique, allowed in domain.rules.tables(MAX_RULE_CELLS):
        used = domain.project([n for n in domain.names if any(n in c for c, _ in taken) or n in clique])
        if tree_cells(used, [*(c for c, _ in taken), clique]) <= MAX_RULE_CELLS:
            taken.append((clique, allowed))
    return taken


def forbid_cells(domain: Domain, tables: Sequence[tuple[Clique, NDArray[np.bool_]]]) -> Floats:
    """Potentials of rule tables, one after another, axes in the engine's order."""
    names = rank_attributes(domain)
    parts = [np.zeros(0)]
    for clique, allowed in tables:
        axes = sorted(range(len(clique)), key=lambda i, clique=clique: names.index(clique[i]))  # type: ignore[misc]
        parts.append(np.where(allowed.transpose(axes), 0.0, FORBIDDEN_POTENTIAL).ravel())
    return np.concatenate(parts)
