"""Propensity: how well a model tells synthetic rows from real ones. **Not private**."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.learners import Features, fit_quietly, part
from margrave.evaluation.metrics.efficiency import sample_rows
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task
from margrave.schema.encoded import Encoded


def pmse(chances: NDArray[np.float64], share: float) -> float:
    """Mean squared distance of the chances to be synthetic from the share that is: shape [rows].

    0 if nothing can be told, share * (1 - share) if everything can (Woo et al. 2009; Snoke et al. 2018).
    """
    return float(((chances - share) ** 2).mean())


def join_rows(first: Rows, second: Rows) -> Rows:
    """The rows of one table and then those of another. **Not private**."""
    codes = zip(first.encoded.columns, second.encoded.columns, strict=True)
    encoded = Encoded(first.domain, tuple(np.concatenate(pair) for pair in codes))
    names = first.numbers.keys() & second.numbers.keys()
    return Rows(
        encoded, {name: np.concatenate([first.numbers[name], second.numbers[name]]) for name in names}
    )


@final
@dataclass(frozen=True, slots=True)
class Propensity:
    """Propensity mean squared error of a model that learned to tell the tables apart. **Not private**.

    Args:
        facts: What the metric says about itself.
        model: "cart", a decision tree of depth 5 as in SDNist, or "logistic", a logistic regression of main
            effects, lightly regularised.
    """

    facts: Facts
    model: Literal["cart", "logistic"] = "cart"

    def run(self, task: Task) -> Score:
        """The error on the rows learned from; for "logistic" also its ratio to that of a bootstrap."""
        rng = task.rng("rows to tell apart")
        (real, less), (synthetic, fewer) = (sample_rows(side, rng) for side in (task.real, task.synthetic))
        both = join_rows(real, synthetic)
        wanted = np.repeat([0, 1], [real.size, synthetic.size])
        share = synthetic.size / both.size
        features = Features(both, task.schema)
        inputs = features.plain(both) if self.model == "cart" else features.dense(both)
        chances = fit_quietly(self._make_classifier(task.seed), inputs, wanted).predict_proba(inputs)[:, 1]
        value, parts = pmse(chances, share), {"share of synthetic rows": share}
        if self.model == "logistic":
            # Snoke et al. 2018: (k - 1) (1 - c)^2 c / N for k parameters where the synthetic rows are drawn
            # from the very distribution of the real ones. Rows of the same source, but independent of the
            # real ones, have 1 / (1 - c) times as much.
            rank = int(np.linalg.matrix_rank(inputs - inputs.mean(axis=0)))
            expected = rank * (1 - share) ** 2 * share / both.size
            parts["ratio to a bootstrap"] = value / expected if expected > 0 else float("nan")
        note = "rows drawn, a table has more than are learned from" if less or fewer else ""
        return self.facts.score(value, f"{both.size} rows", parts=parts, note=note)

    def _make_classifier(self, seed: int) -> Any:
        if self.model == "cart":
            return part("tree").DecisionTreeClassifier(max_depth=5, random_state=seed)
        return part("linear_model").LogisticRegression(C=100.0, max_iter=1000)
