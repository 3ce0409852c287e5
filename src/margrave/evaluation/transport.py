"""SlicedTransport: the sliced Wasserstein distance of pairs, from tables of counts. **Not private**."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.embedding import centres
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task
from margrave.schema.domain import Clique

__all__ = ["SlicedTransport", "sliced_distance"]

Share = NDArray[np.float64]
BLOCK = 1 << 20


def sliced_distance(first: Share, second: Share, directions: NDArray[np.float64]) -> float:
    """The sliced 1-Wasserstein distance of two distributions over the cells of one table.

    The mean over directions of the distance of the projections, and that is the area between their
    distribution functions (Donhauser et al. 2024, equations 1 and 3).

    Args:
        first: Shares of the cells, of any number of axes.
        second: Shares of the same shape.
        directions: Unit vectors, shape [directions, axes].
    """
    change = (first - second).ravel()
    places = np.flatnonzero(change)
    if not places.size:
        return 0.0
    cells = np.unravel_index(places, first.shape)
    points = np.column_stack([centres(size)[cell] for size, cell in zip(first.shape, cells, strict=True)])
    total, step = 0.0, max(1, BLOCK // places.size)
    for start in range(0, len(directions), step):
        heights = directions[start : start + step] @ points.T
        order = np.argsort(heights, axis=1)
        gaps = np.diff(np.take_along_axis(heights, order, axis=1), axis=1)
        # Cells of no change may be left out: the distribution functions differ by the same there.
        total += float((np.abs(np.cumsum(change[places][order], axis=1)[:, :-1]) * gaps).sum())
    return total / len(directions)


@final
@dataclass(frozen=True, slots=True)
class SlicedTransport:
    """The mean sliced Wasserstein distance over pairs of columns. **Not private**.

    Args:
        facts: What the metric says about itself.
        directions: How many directions are drawn, by the task's seed.
    """

    facts: Facts
    directions: int = 100
    unseen: bool = False

    def cliques(self, task: Task) -> Sequence[Clique]:
        """All pairs, or as many as the task allows."""
        return task.width(2)[0]

    def of(self, clique: Clique, real: Share, synthetic: Share, task: Task) -> tuple[float, ...]:
        """The distance of one pair's tables."""
        return (sliced_distance(real, synthetic, self._drawn(task)),)

    def run(self, task: Task) -> Score:
        """The mean over pairs; each pair is a part."""
        kept = task.kept(self)
        scope, note = f"{len(kept)} pairs, {self.directions} directions", task.width(2)[1]
        if not kept:
            return self.facts.undefined(scope, "there is no pair of columns")
        parts = {" x ".join(clique): values[0] for clique, values in kept.items()}
        return self.facts.score(float(np.mean(list(parts.values()))), scope, parts=parts, note=note)

    def _drawn(self, task: Task) -> NDArray[np.float64]:
        def draw() -> NDArray[np.float64]:
            vectors = task.rng(self.facts.name).normal(size=(self.directions, 2))
            return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

        return task.once(f"directions of {self.facts.name}", draw)
