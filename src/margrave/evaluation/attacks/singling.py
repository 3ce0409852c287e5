"""SinglingOut: does a description of one synthetic row describe just one person of the table?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from margrave.evaluation.attacks.predicates import alone, matches, of_columns, of_rows
from margrave.evaluation.attacks.risk import Risk
from margrave.evaluation.efficiency import sampled
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

__all__ = ["SinglingOut"]


@final
@dataclass(frozen=True, slots=True)
class SinglingOut:
    """How much more often predicates single out a member than a row not in the table. **Not private**.

    Predicates that hold for just one synthetic row are asked of the real rows; one that holds for just one of
    them has singled a person out. As some would by chance, the same predicates are asked of the held-out
    rows, brought to as many rows as the real table has; see `predicates.alone` (Giomi et al. 2023).

    What it can show: that synthetic rows describe single members, such as copied outliers. What it cannot
    show: that no better description does. With few held-out rows the control is an extrapolation.

    Args:
        facts: What the metric says about itself.
        width: Columns of a predicate; 1 is the univariate attack of lone values and extremes.
        most: Predicates that are tried.
        rows: Synthetic rows they are made from.
    """

    facts: Facts
    width: int = 3
    most: int = 500
    rows: int = 50_000

    def run(self, task: Task) -> Score:
        """The risk; the parts give both rates and its 95 % confidence interval."""
        if task.held_out is None:
            return self.facts.undefined("no held-out rows", "hold out real rows")
        rng, numeric = task.rng("predicates"), frozenset(task.numeric)
        searched = sampled(task.synthetic, rng, self.rows)[0]
        if self.width == 1:
            asked = of_columns(searched, numeric, task.names, self.most, rng)
        else:
            asked = of_rows(searched, numeric, task.names, self.width, self.most, rng)
        scope = f"{len(asked)} predicates"
        if not asked:
            return self.facts.undefined(scope, "no predicate holds for just one synthetic row")
        hits = int((matches(asked, task.real, numeric) == 1).sum())
        held = matches(asked, task.held_out, numeric)
        control = alone(held, task.held_out.size, task.real.size)
        risk = Risk(hits, len(asked), control, len(asked))
        note = "" if task.held_out.size >= task.real.size else "control scaled up from fewer held-out rows"
        return self.facts.score(risk.value, scope, parts=risk.parts(), note=note)
