"""FirstLook: the score of relations that a person checks first, the worst in words. **Not private**."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.first_look.dependencies import Labels, find_dependencies
from margrave.evaluation.first_look.finding import KINDS, Finding
from margrave.evaluation.first_look.pairs import find_missing, find_orders, find_ranks
from margrave.evaluation.first_look.values import find_codes, find_spellings
from margrave.evaluation.metrics.orders import OrderedColumn, read_ordered
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task
from margrave.schema.columns import Listed

MOST_ROWS = 1 << 16
"""Rows of each table of which pairs of columns are compared: shares to .002, a standard error."""
MIN_KEPT_UNSAID = 0.9
"""A relation of which less is kept is told in words."""
MAX_SENTENCES = 3
"""Most sentences of a kind."""


def look_first(task: Task) -> list[Finding]:
    """All findings of a task, those of a kind together, in the order of `KINDS`. **Not private**."""
    columns = _sample_columns(task) if task.real.exact and task.synthetic.exact else ()
    found = find_orders(columns)
    found += find_dependencies(_sample_labels(task))
    found += find_missing(*[_find_missing(task, rows) for rows in (True, False)])
    found += find_ranks(columns)
    found += find_codes(task)
    found += find_spellings(task)
    return sorted(found, key=lambda finding: KINDS.index(finding.kind))


@final
@dataclass(frozen=True, slots=True)
class FirstLook:
    """How much of what a person checks first is kept. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The mean over kinds of the mean share kept; each finding is a part, the worst are told in words."""
        found = look_first(task)
        known = task.real.exact and task.synthetic.exact
        note = "" if known else "numbers are known by their bins only, so pairs of them are left out"
        if not found:
            return self.facts.undefined_score("0 relations", note or "the real table shows no such relation")
        kinds = {kind: list(held) for kind, held in groupby(found, key=lambda finding: finding.kind)}
        means = [float(np.mean([finding.kept for finding in held])) for held in kinds.values()]
        scope = f"{len(found)} relations of {len(kinds)} kinds"
        parts = {f"{finding.kind}: {finding.name}": finding.kept for finding in found}
        return self.facts.score(
            float(np.mean(means)), scope, parts=parts, note=note, words=_choose_worst(list(kinds.values()))
        )


def _choose_worst(kinds: Sequence[list[Finding]]) -> tuple[str, ...]:
    """Sentences on what is lost: the worst of each kind first, then the second of each, and so on."""
    lines = []
    for held in kinds:
        held = sorted(held, key=lambda finding: finding.kept)[:MAX_SENTENCES]
        lines += [(place, finding) for place, finding in enumerate(held) if finding.kept < MIN_KEPT_UNSAID]
    lines.sort(key=lambda line: (line[0], line[1].kept))
    return tuple(finding.words for _, finding in lines)


def _choose_places(task: Task, rows: int) -> NDArray[np.int64]:
    """The rows that are looked at: the same for tables of one length."""
    if rows <= MOST_ROWS:
        return np.arange(rows)
    return np.sort(task.rng("first look").choice(rows, MOST_ROWS, replace=False))


def _sample_columns(task: Task) -> tuple[OrderedColumn, ...]:
    real, synthetic = _choose_places(task, task.real.size), _choose_places(task, task.synthetic.size)
    return tuple(
        OrderedColumn(column.name, column.scale, column.real[real], column.synthetic[synthetic])
        for column in read_ordered(task)
    )


def _sample_labels(task: Task) -> list[Labels]:
    """The columns of listed values, by the codes of the rows looked at, -1 for missing values."""
    real, synthetic = _choose_places(task, task.real.size), _choose_places(task, task.synthetic.size)
    found = []
    for column in task.schema.attributes:
        if isinstance(column, Listed):
            sides = [task.real.encoded.column(column.name)[real].astype(np.int64)]
            sides.append(task.synthetic.encoded.column(column.name)[synthetic].astype(np.int64))
            for codes in sides:
                codes[codes == (-1 if column.missing_code is None else column.missing_code)] = -1
            found.append(Labels(column.name, *sides))
    return found


def _find_missing(task: Task, real: bool) -> dict[str, NDArray[np.bool_]]:
    """Which of the rows looked at lack a value, by column that may lack one."""
    rows = task.real if real else task.synthetic
    places = _choose_places(task, rows.size)
    return {
        column.name: rows.encoded.column(column.name)[places] == column.missing_code
        for column in task.schema.attributes
        if column.missing_code is not None
    }
