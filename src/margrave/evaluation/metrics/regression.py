"""RegressionOverlap: whether a regression says the same of both tables. **Not private**."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.learners import Features
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

Matrix = NDArray[np.float64]
LEVEL = 1.959963984540054
"""Half a 95 % interval in standard errors."""


def least_squares(inputs: Matrix, wanted: Matrix) -> tuple[Matrix, Matrix]:
    """Coefficients of ordinary least squares and their standard errors, both of shape [features].

    Args:
        inputs: Shape [rows, features], of full rank and with more rows than features.
        wanted: Shape [rows].
    """
    gram = np.linalg.inv(inputs.T @ inputs)
    found = gram @ (inputs.T @ wanted)
    rest = wanted - inputs @ found
    variance = float(rest @ rest) / (len(wanted) - inputs.shape[1])
    return found, np.sqrt(variance * np.diag(gram))


def interval_overlap(first: tuple[float, float], second: tuple[float, float]) -> float:
    """How much two intervals share: the mean over both of the share that lies in the other, from 0 to 1.

    Karr et al. 2006; disjoint intervals count as 0 here, and two equal points as 1.
    """
    common = min(first[1], second[1]) - max(first[0], second[0])
    widths = [high - low for low, high in (first, second)]
    if common < 0:
        return 0.0
    return float(np.mean([common / width if width > 0 else float(max(widths) == 0) for width in widths]))


@final
@dataclass(frozen=True, slots=True)
class RegressionOverlap:
    """Mean overlap of the 95 % intervals of a regression's coefficients. **Not private**.

    The target is regressed by least squares on all other columns: numbers, standardised by the real rows,
    and one column a code but the commonest. A listed target counts as 1 for its commonest real value and 0
    else. Of SDNist's regression report (two columns of one survey) this is the form for any schema.

    Args:
        facts: What the metric says about itself.
        most: Columns of more codes are left out.
    """

    facts: Facts
    most: int = 20

    def run(self, task: Task) -> Score:
        """The mean over coefficients; one that cannot be estimated from the synthetic rows counts as 0."""
        target = task.target
        if target is None:
            return self.facts.undefined_score("no target", "name a target, the column to predict")
        wide = tuple(name for name in task.listed if task.schema.domain[name] > self.most)
        features = Features(task.real, task.schema, tuple({target, *wide}))
        answers = [self._select_response(task, side, target) for side in (task.real, task.synthetic)]
        scope, note = f"predict {target}", f"without {', '.join(wide)}" if wide else ""
        if len(set(wide) | {target}) == len(task.names):
            return self.facts.undefined_score(scope, "no other column is left to regress on")
        tables = [features.dense(side)[known] for side, (_, known) in zip(_sides(task), answers, strict=True)]
        if not (len(tables[0]) and len(tables[1])):
            return self.facts.undefined_score(scope, "no row of a table has a value of the target")
        kept = _estimable(tables[0])
        if len(tables[0]) <= len(kept) + 1:
            return self.facts.undefined_score(scope, "there are fewer real rows than coefficients")
        real = self._intervals(tables[0][:, kept], answers[0][0])
        usable = [place for place in _estimable(tables[1]) if place in set(kept)]
        parts = dict.fromkeys((features.dense_names[place] for place in kept), 0.0)
        if len(tables[1]) > len(usable) + 1:
            synthetic = self._intervals(tables[1][:, usable], answers[1][0])
            for place, interval in zip(usable, synthetic, strict=True):
                overlap = interval_overlap(real[kept.index(place)], interval)
                parts[features.dense_names[place]] = overlap
        if not parts:
            return self.facts.undefined_score(scope, "no other column varies")
        scope = f"predict {target}, {len(parts)} coefficients"
        return self.facts.score(float(np.mean(list(parts.values()))), scope, parts=parts, note=note)

    @staticmethod
    def _select_response(task: Task, rows: Rows, target: str) -> tuple[Matrix, NDArray[np.bool_]]:
        """What is regressed, and which rows have it."""
        if target in task.numeric:
            known = ~np.isnan(rows.numbers[target])
            return rows.numbers[target][known], known
        common = int(np.bincount(task.real.encoded.column(target)).argmax())
        wanted = (rows.encoded.column(target) == common).astype(np.float64)
        return wanted, np.ones(rows.size, dtype=np.bool_)

    @staticmethod
    def _intervals(inputs: Matrix, wanted: Matrix) -> list[tuple[float, float]]:
        padded = np.column_stack([inputs, np.ones(len(inputs))])
        found, errors = least_squares(padded, wanted)
        bounds = zip(found[:-1], errors[:-1], strict=True)
        return [(float(value - LEVEL * error), float(value + LEVEL * error)) for value, error in bounds]


def _sides(task: Task) -> tuple[Rows, Rows]:
    return task.real, task.synthetic


def _estimable(inputs: Matrix) -> list[int]:
    """Columns that, with a constant, are linearly independent, commonest code of each block left out."""
    centred = inputs - inputs.mean(axis=0)
    spread = np.linalg.norm(centred, axis=0)
    # Frequent codes last, so that it is the commonest that depends on the others and is dropped.
    order = np.argsort(inputs.mean(axis=0) * (spread > 0), kind="stable")
    kept: list[int] = []
    basis = np.zeros((len(inputs), 0))
    for place in order:
        if spread[place] <= 1e-9:
            continue
        rest = centred[:, place] - basis @ (basis.T @ centred[:, place])
        rest -= basis @ (basis.T @ rest)
        norm = float(np.linalg.norm(rest))
        if norm > 1e-7 * spread[place]:
            kept.append(int(place))
            basis = np.column_stack([basis, rest / norm])
    return sorted(kept)
