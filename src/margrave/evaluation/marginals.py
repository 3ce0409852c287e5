"""MeanDistance: how far the marginals of two tables are from each other, on average. **Not private**."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import cramers_v, total_variation
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task
from margrave.schema.domain import Clique

__all__ = ["MeanDistance", "association_difference", "k_marginal", "l1_distance"]

Share = NDArray[np.float64]
WORDS = {1: "columns", 2: "pairs", 3: "triples", 4: "quadruples"}


def l1_distance(first: Share, second: Share) -> float:
    """Sum of the absolute differences of two tables of shares, from 0 to 2."""
    return float(np.abs(first - second).sum())


def k_marginal(first: Share, second: Share) -> float:
    """NIST's points of one marginal: 1000 if equal, 0 if the tables have nothing in common."""
    return 1000 * (1 - total_variation(first, second))


def association_difference(first: Share, second: Share) -> float:
    """Absolute difference of Cramér's V of two two-way tables of shares."""
    return abs(cramers_v(first) - cramers_v(second))


@final
@dataclass(frozen=True, slots=True)
class MeanDistance:
    """The mean of a distance over marginals of some widths. **Not private**: it reads exact counts.

    Args:
        facts: What the metric says about itself.
        widths: Numbers of columns of a marginal; above a task's `max_cliques` they are drawn by its seed.
        distance: Of two tables of shares of one shape.
        unseen: Whether it is against held-out rows, where there are some.
        listed: Whether it takes the columns of listed values only.
    """

    facts: Facts
    widths: tuple[int, ...]
    distance: Callable[[Share, Share], float] = total_variation
    unseen: bool = False
    listed: bool = False

    def cliques(self, task: Task) -> Sequence[Clique]:
        """All cliques of the widths, or as many as the task allows, narrow ones first."""
        found = [clique for width in self.widths for clique in task.width(width)[0]]
        kept = set(task.listed)
        return [clique for clique in found if kept.issuperset(clique)] if self.listed else found

    def of(self, clique: Clique, real: Share, synthetic: Share, task: Task) -> tuple[float, ...]:
        """The distance of one clique's tables."""
        return (self.distance(real, synthetic),)

    def run(self, task: Task) -> Score:
        """The mean over cliques; its parts are the means of each width, and of pairs each pair."""
        kept = task.kept(self)
        scope = f"{len(kept)} {', '.join(WORDS.get(w, f'{w}-way') for w in self.widths)}"
        notes = [text for width in self.widths if (text := task.width(width)[1])]
        if not kept:
            return self.facts.undefined(scope, "; ".join(["there is no such marginal", *notes]))
        parts = {" x ".join(clique): values[0] for clique, values in kept.items()}
        value = float(np.mean(list(parts.values())))
        return self.facts.score(value, scope, parts=parts, note="; ".join(notes))
