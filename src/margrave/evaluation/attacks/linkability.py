"""Linkability: do synthetic rows tell which two halves of records belong to one person?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.attacks.risk import Closeness, Risk
from margrave.evaluation.metrics.efficiency import sample_rows
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task


@final
@dataclass(frozen=True, slots=True)
class Linkability:
    """How much more often two halves of a member's record are linked than those of others. **Not private**.

    The attacker has two lists, each with some columns of the same people, and links two records if their
    nearest synthetic rows, by the columns of each list, have one in common (Giomi et al. 2023).

    What it can show: that synthetic rows tie a member's columns together more than the world does. What it
    cannot show: that no other pair of lists can be linked.

    Args:
        facts: What the metric says about itself.
        lists: The columns of both lists; every other column by default.
        near: Nearest rows that are looked at, for each record.
        most: Members and held-out rows that are tried, each.
        rows: Synthetic rows that are searched.
    """

    facts: Facts
    lists: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    near: int = 10
    most: int = 500
    rows: int = 50_000

    def run(self, task: Task) -> Score:
        """The risk; the parts give both rates and its 95 % confidence interval."""
        if task.held_out is None:
            return self.facts.undefined_score("no held-out rows", "hold out real rows")
        if len(task.names) < 2:
            return self.facts.undefined_score("one column", "there are no two lists of columns")
        lists = self.lists or (task.names[::2], task.names[1::2])
        for name in (*lists[0], *lists[1]):
            task.schema.domain.index(name)
        rng = task.rng("records to link")
        members, others = (sample_rows(side, rng, self.most)[0] for side in (task.real, task.held_out))
        searched = sample_rows(task.synthetic, rng, self.rows)[0]
        # One list sees the rows in another order, so that of rows equally near not the same are taken.
        order = rng.permutation(searched.size)
        hits = [int(self._link_rows(task, side, searched, lists, order).sum()) for side in (members, others)]
        risk = Risk(hits[0], members.size, hits[1], others.size)
        scope = f"{members.size} members, {others.size} others, {len(lists[0])} and {len(lists[1])} columns"
        return self.facts.score(risk.value, scope, parts=risk.parts())

    def _link_rows(
        self,
        task: Task,
        asked: Rows,
        searched: Rows,
        lists: tuple[tuple[str, ...], tuple[str, ...]],
        order: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Whether both lists lead to a common synthetic row: shape [asked]."""
        near = min(self.near, searched.size)
        numeric = [[name for name in task.numeric if name in names] for names in lists]
        first = Closeness(searched, numeric[0], lists[0]).nearest_rows(asked, near)
        second = order[Closeness(searched.take(order), numeric[1], lists[1]).nearest_rows(asked, near)]
        linked: NDArray[np.bool_] = (first[:, :, None] == second[:, None, :]).any(axis=(1, 2))
        return linked
