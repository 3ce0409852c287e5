"""AttributeInference: what an attacker learns of one column of people whose other columns are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from margrave.evaluation.attacks.risk import Closeness, Risk
from margrave.evaluation.metrics.efficiency import sample_rows
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task


@final
@dataclass(frozen=True, slots=True)
class AttributeInference:
    """How much better a column is guessed for members than for people not in the table. **Not private**.

    The attacker knows all columns of a real row but one, looks up the nearest synthetic row and guesses its
    code. What is learned about people in general shows for held-out rows as well and is no leak: the score
    is the share of right guesses for members minus that for held-out rows, as in Anonymeter (Giomi et al.
    2023). The parts give the 95 % interval of its risk too; see `risk.Risk`.

    What it can show: that synthetic rows say more of their own people than of others. What it cannot show:
    that nobody is exposed, or that a better attacker learns no more.

    Args:
        facts: What the metric says about itself.
        column: The one to guess; the task's target by default.
        most: Members and held-out rows that are tried, each.
        rows: Synthetic rows that are searched.
    """

    facts: Facts
    column: str | None = None
    most: int = 1000
    rows: int = 50_000

    def run(self, task: Task) -> Score:
        """The difference; the parts give both shares and the standard error."""
        secret = self.column or task.target
        if secret is None:
            return self.facts.undefined_score("no secret", "name a target, or the column to guess")
        if task.held_out is None:
            return self.facts.undefined_score(f"guess {secret}", "hold out real rows")
        if len(task.names) < 2:
            return self.facts.undefined_score(f"guess {secret}", "there is no other column to know")
        task.schema.domain.index(secret)
        rng = task.rng("rows to attack")
        members, others = (sample_rows(side, rng, self.most)[0] for side in (task.real, task.held_out))
        searched = sample_rows(task.synthetic, rng, self.rows)[0]
        shares = [self._right(task, side, searched, secret) for side in (members, others)]
        sizes = (members.size, others.size)
        spread = sum(share * (1 - share) / size for share, size in zip(shares, sizes, strict=True))
        low, high = Risk(shares[0] * sizes[0], sizes[0], shares[1] * sizes[1], sizes[1]).interval
        parts = {
            "right for members": shares[0],
            "right for others": shares[1],
            "standard error": math.sqrt(spread),
            "risk at least": low,
            "risk at most": high,
        }
        scope = f"guess {secret}, {sizes[0]} members, {sizes[1]} others"
        return self.facts.score(shares[0] - shares[1], scope, parts=parts)

    @staticmethod
    def _right(task: Task, asked: Rows, searched: Rows, secret: str) -> float:
        names = [name for name in task.names if name != secret]
        near = Closeness(searched, [name for name in task.numeric if name != secret], names)
        guess = searched.encoded.column(secret)[near.nearest(asked)[1]]
        return float(np.mean(guess == asked.encoded.column(secret)))
