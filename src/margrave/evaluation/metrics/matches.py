"""Matches: real rows that reappear among the synthetic ones. **Not private**."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

Ids = NDArray[np.int64]


def row_ids(sides: Sequence[Rows], names: Sequence[str]) -> list[Ids]:
    """A number for each row, equal for rows with equal codes in some columns: one array of [rows] a table.

    **Not private** if a table is.
    """
    ids = np.zeros(sum(side.size for side in sides), dtype=np.int64)
    for name in names:
        codes = np.concatenate([side.encoded.column(name) for side in sides])
        # Numbered anew after each column, so that products of sizes cannot overflow.
        _, ids = np.unique(ids * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
    ends = np.cumsum([side.size for side in sides])[:-1]
    return [np.asarray(part, dtype=np.int64) for part in np.split(ids, ends)]


def _unique(ids: Ids) -> Ids:
    """The numbers that occur once."""
    values, rows = np.unique(ids, return_counts=True)
    return np.asarray(values[rows == 1])


@final
@dataclass(frozen=True, slots=True)
class UniqueExactMatch:
    """Share of the unique real rows that are among the synthetic ones, code by code. **Not private**.

    What it cannot show: a match may be chance, and fewer matches are no proof of privacy. Held against the
    same share of held-out rows, which nothing was made from, where there are some.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The share; parts say how many real rows are unique, and the same share of held-out rows."""
        sides = [task.real, task.synthetic, *([task.held_out] if task.held_out else [])]
        real, synthetic, *others = row_ids(sides, task.names)
        alone = _unique(real)
        parts = {"unique real rows": alone.size / real.size}
        if others and (fresh := _unique(others[0])).size:
            parts["held-out rows matched"] = float(np.isin(fresh, synthetic).mean())
        if not alone.size:
            return self.facts.undefined_score("0 unique real rows", "no real row is unique")
        matched = float(np.isin(alone, synthetic).mean())
        return self.facts.score(matched, f"{alone.size} unique real rows", parts=parts)


@final
@dataclass(frozen=True, slots=True)
class ApparentMatch:
    """Share of real rows that seem to be found again by what an outsider may know. **Not private**.

    A real row has an apparent match if it is unique in the columns `quasi`, and just one synthetic row has
    its values there. The parts say how many of the other columns then agree: a match that agrees in few is
    no disclosure.

    Args:
        facts: What the metric says about itself.
        quasi: Columns an outsider may know; all but the target by default, or all but the last.
    """

    facts: Facts
    quasi: tuple[str, ...] = ()

    def run(self, task: Task) -> Score:
        """The share; the parts tell of the agreement."""
        known = self.quasi or tuple(n for n in task.names if n != (task.target or task.names[-1]))
        for name in known:
            task.schema.domain.index(name)
        scope = f"{len(known)} known columns"
        if not known:
            return self.facts.undefined_score(scope, "there is one column only")
        real, synthetic = row_ids([task.real, task.synthetic], known)
        both = np.intersect1d(_unique(real), _unique(synthetic))
        parts = {"unique real rows": _unique(real).size / real.size}
        rest = [name for name in task.names if name not in known]
        if both.size and rest:
            places = [np.argsort(ids)[np.searchsorted(np.sort(ids), both)] for ids in (real, synthetic)]
            agreed = np.mean([self._agree(task, name, places) for name in rest], axis=0)
            parts["mean agreement in the rest"] = float(agreed.mean())
            parts["matches that agree in all"] = float((agreed == 1).mean())
        return self.facts.score(both.size / real.size, scope, parts=parts)

    @staticmethod
    def _agree(task: Task, name: str, places: list[Ids]) -> NDArray[np.bool_]:
        first = task.real.encoded.column(name)[places[0]]
        return np.asarray(first == task.synthetic.encoded.column(name)[places[1]])
