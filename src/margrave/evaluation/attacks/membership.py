"""MembershipInference: were these very rows in the table that the synthetic rows were made from?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.attacks.risk import Closeness
from margrave.evaluation.metrics.efficiency import sample_rows
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

Guesses = NDArray[np.float64]
FLOOR = 1e-3
"""Added to distances, so that a copy is not infinitely dense."""


def area(members: Guesses, others: Guesses) -> float:
    """Chance that a member is guessed higher than another row, ties counting half."""
    order = np.sort(others)
    below = np.searchsorted(order, members, side="left")
    upto = np.searchsorted(order, members, side="right")
    return float((below + upto).mean() / 2 / others.size)


def area_error(value: float, members: int, others: int) -> float:
    """Standard error of an area under the curve (Hanley and McNeil 1982)."""
    first, second = value / (2 - value), 2 * value**2 / (1 + value)
    spread = value * (1 - value) + (members - 1) * (first - value**2) + (others - 1) * (second - value**2)
    return math.sqrt(max(spread, 0.0) / (members * others))


def caught(members: Guesses, others: Guesses, false: float = 0.01) -> float:
    """Share of members guessed higher than all but a share `false` of the other rows."""
    return float((members > np.quantile(others, 1 - false, method="higher")).mean())


@final
@dataclass(frozen=True, slots=True)
class MembershipInference:
    """Area under the curve of an attacker who tells members from other rows. **Not private**.

    Members are drawn from the real rows, others from the held-out ones, so both follow one distribution and
    0.5 is guessing. "nearest" guesses by the distance to the nearest synthetic row. "density" guesses by the
    ratio of the density of the synthetic rows to that of reference rows the attacker has (half of the
    held-out ones), the idea of DOMIAS (van Breugel et al. 2023) with densities by nearest neighbours.

    What it can show: that rows leak, if the area is above 0.5 by more than chance. What it cannot show: that
    none do. It looks at average rows, and an outlier may be exposed all the same; the part "caught" says how
    many members are told at 1 % false alarms. A bound on epsilon takes many runs of the method.

    Args:
        facts: What the metric says about itself.
        attack: "nearest" or "density".
        most: Members and others that are tried, each.
        rows: Synthetic and reference rows that are searched, each.
    """

    facts: Facts
    attack: Literal["nearest", "density"] = "nearest"
    most: int = 1000
    rows: int = 50_000

    def run(self, task: Task) -> Score:
        """The area; the parts give its standard error and the members caught."""
        if task.held_out is None or task.held_out.size < 4:
            return self.facts.undefined_score("no held-out rows", "hold out four real rows or more")
        rng = task.rng("rows to attack")
        order = rng.permutation(task.held_out.size)
        half = task.held_out.size // 2
        reference, fresh = task.held_out.take(order[:half]), task.held_out.take(order[half:])
        members, others = (sample_rows(side, rng, self.most)[0] for side in (task.real, fresh))
        searched = sample_rows(task.synthetic, rng, self.rows)[0]
        known = sample_rows(reference, rng, self.rows)[0]
        told, untold = (self._guesses(task, side, searched, known) for side in (members, others))
        value = area(told, untold)
        parts = {
            "standard error": area_error(value, told.size, untold.size),
            "caught at 1 % false alarms": caught(told, untold),
        }
        return self.facts.score(value, f"{told.size} members, {untold.size} others", parts=parts)

    def _guesses(self, task: Task, asked: Rows, synthetic: Rows, reference: Rows) -> Guesses:
        """The higher, the surer that a row is a member: shape [asked]."""
        near = Closeness(synthetic, task.numeric, task.names)
        if self.attack == "nearest":
            return -near.nearest(asked)[0]
        usual = Closeness(reference, task.numeric, task.names)
        # A density estimated by the nearest row falls with a power of its distance, the same for both.
        return np.log((usual.nearest(asked)[0] + FLOOR) / (near.nearest(asked)[0] + FLOOR))
