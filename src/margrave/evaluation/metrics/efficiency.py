"""Efficiency: models trained on synthetic rows and tested on real ones. **Not private**.

`Propensity` asks the opposite of a model: how well it tells synthetic rows from real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import centres
from margrave.evaluation.learners import (
    LEARNERS,
    Features,
    absent,
    fit_quietly,
    learn,
    one_against_rest,
    part,
    stops_early,
)
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task
from margrave.schema.encoded import Encoded

MOST_ROWS = 50_000
"""Rows that models learn from or are tested on; more are sampled by the task's seed."""

Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]


def sample_rows(rows: Rows, rng: np.random.Generator, most: int = MOST_ROWS) -> tuple[Rows, bool]:
    """At most so many of the rows, drawn without replacement, and whether any were left out."""
    if rows.size <= most:
        return rows, False
    return rows.take(np.sort(rng.choice(rows.size, most, replace=False))), True


def macro_f1(actual: Codes, chances: Matrix) -> float:
    """The F1 score of each class, averaged with equal weights over the classes of the tested rows."""
    f1_score, labels = part("metrics").f1_score, np.unique(actual)
    score = f1_score(actual, chances.argmax(axis=1), labels=labels, average="macro", zero_division=0)
    return float(score)


@dataclass(frozen=True, slots=True)
class _Lesson:
    """What models learn from and are asked: the synthetic rows and the real ones to test on."""

    train: Rows
    test: Rows
    notes: tuple[str, ...]

    @property
    def problem(self) -> str:
        """Why nothing can be learned from it; empty if something can."""
        if len(self.train.domain) < 2:
            return "there is no other column to predict from"
        return "" if self.train.size and self.test.size else "no row has a value to predict"

    @classmethod
    def of(cls, task: Task, target: str) -> _Lesson:
        rng = task.rng("rows to learn from")
        sides, cut = [], False
        for side in (task.synthetic, task.truth):
            numbers = side.numbers.get(target)
            known = side if numbers is None else side.take(np.flatnonzero(~np.isnan(numbers)))
            kept, less = sample_rows(known, rng)
            sides.append(kept)
            cut = cut or less
        notes = [] if task.held_out else ["tested on the very rows that the synthetic ones were made from"]
        notes += [f"{MOST_ROWS} rows drawn"] if cut else []
        return cls(sides[0], sides[1], tuple(notes))


@dataclass(frozen=True, slots=True)
class _Answers:
    """What each model predicted, and what was so."""

    actual: NDArray[Any]
    predicted: dict[str, Matrix]
    notes: tuple[str, ...]


def _answers(task: Task, target: str) -> _Answers:
    lesson = _Lesson.of(task, target)
    numeric = target in task.numeric
    missing = [name for name, learner in LEARNERS.items() if absent(learner)]
    notes = (*lesson.notes, *([f"without {', '.join(missing)}, not installed"] if missing else []))
    predicted: dict[str, Matrix] = {}
    actual = lesson.test.numbers[target] if numeric else lesson.test.encoded.column(target).astype(np.int64)
    if lesson.problem:
        return _Answers(actual, predicted, (*notes, lesson.problem))
    features = Features(lesson.train, task.schema, (target,))
    # Learners number classes from 0 without gaps; codes that no row to learn from has get no chance.
    wanted: NDArray[Any] = lesson.train.encoded.column(target)
    classes, wanted = np.unique(wanted, return_inverse=True)
    wanted = lesson.train.numbers[target] if numeric else wanted
    for name, learner in LEARNERS.items():
        if name in missing:
            continue
        view = features.dense if learner.dense else features.plain
        found = learn(learner, view(lesson.train), wanted, view(lesson.test), task.seed)
        if not numeric:
            chances = np.zeros((lesson.test.size, task.schema.domain[target]))
            chances[:, classes] = found
            found = chances
        predicted[name] = found
    return _Answers(actual, predicted, notes)


@final
@dataclass(frozen=True, slots=True)
class Efficiency:
    """The mean over models of how well they predict a column after learning from synthetic rows.

    **Not private**: they are tested on the held-out real rows, or on the real rows where there are none.
    Models: a neural network, CatBoost, XGBoost and a random forest (Chen et al. 2025, section 8.3); one
    that is not installed is left out, and the score says so. All scores of a task share the models.

    Args:
        facts: What the metric says about itself.
        of: Of what is so and what one model predicts: chances [rows, codes], or numbers [rows].
        numeric: Whether it is for numeric targets; else for listed ones.
    """

    facts: Facts
    of: Callable[[NDArray[Any], Matrix], float | None]
    numeric: bool = False

    def run(self, task: Task) -> Score:
        """The mean over models; each model is a part."""
        target = task.target
        if target is None:
            return self.facts.undefined_score("no target", "name a target, the column to predict")
        if (target in task.numeric) is not self.numeric:
            kind = "a numeric" if self.numeric else "a listed"
            return self.facts.undefined_score(f"predict {target}", f"it is for {kind} target")
        answers = task.once("answers", lambda: _answers(task, target))
        scores = {name: self.of(answers.actual, found) for name, found in answers.predicted.items()}
        parts = {name: value for name, value in scores.items() if value is not None}
        scope, note = f"predict {target}, {len(parts)} models", "; ".join(answers.notes)
        if not parts:
            return self.facts.undefined_score(scope, note or "the rows to test on are of one class")
        return self.facts.score(float(np.mean(list(parts.values()))), scope, parts=parts, note=note)


def accuracy(actual: Codes, chances: Matrix) -> float:
    """Share of rows whose likeliest class is theirs."""
    return float((chances.argmax(axis=1) == actual).mean())


def auc(actual: Codes, chances: Matrix) -> float | None:
    """Area under the curve, one class against the rest; None if there is one class only."""
    return one_against_rest(actual, chances)


def r_squared(actual: Matrix, predicted: Matrix) -> float | None:
    """1 minus the squared error over that of the mean; None if all rows have one value."""
    spread = float(((actual - actual.mean()) ** 2).sum())
    return 1 - float(((actual - predicted) ** 2).sum()) / spread if spread > 0 else None


def rmse(actual: Matrix, predicted: Matrix) -> float:
    """Root of the mean squared error, in the column's unit."""
    return float(np.sqrt(((actual - predicted) ** 2).mean()))


@final
@dataclass(frozen=True, slots=True)
class DownstreamError:
    """Test error of gradient-boosted trees trained on synthetic rows. **Not private**.

    The share of wrong classes, or for a numeric target the mean squared error of its embedded codes.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The error on held-out rows, or on the real ones where there are none."""
        target = task.target
        if target is None:
            return self.facts.undefined_score("no target", "name a target, the column to predict")
        lesson = _Lesson.of(task, target)
        scope, note = f"predict {target}", "; ".join(lesson.notes)
        if lesson.problem:
            return self.facts.undefined_score(scope, lesson.problem)
        features = Features(lesson.train, task.schema, (target,))
        inputs, asked = features.plain(lesson.train), features.plain(lesson.test)
        wanted, actual = (side.encoded.column(target) for side in (lesson.train, lesson.test))
        ensemble = part("ensemble")
        if target in task.numeric:
            places = centres(task.schema.domain[target])
            model = ensemble.HistGradientBoostingRegressor(
                categorical_features=features.categorical, random_state=task.seed
            )
            found = fit_quietly(model, inputs, places[wanted]).predict(asked)
            return self.facts.score(float(((found - places[actual]) ** 2).mean()), scope, note=note)
        if np.unique(wanted).size == 1:
            return self.facts.score(float((actual != wanted[0]).mean()), scope, note=note)
        model = ensemble.HistGradientBoostingClassifier(
            categorical_features=features.categorical,
            early_stopping=stops_early(wanted),
            random_state=task.seed,
        )
        found = fit_quietly(model, inputs, wanted).predict(asked)
        return self.facts.score(float((found != actual).mean()), scope, note=note)


@final
@dataclass(frozen=True, slots=True)
class LogisticF1:
    """F1 score of a logistic regression trained on synthetic rows. **Not private**.

    Of the last of two values in the schema's order (True, "yes", ">50K"), classes weighted to balance;
    where the tested rows have more than two values, the mean over them.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The score on held-out rows, or on the real ones where there are none."""
        target = task.target
        if target is None:
            return self.facts.undefined_score("no target", "name a target, the column to predict")
        if target in task.numeric:
            return self.facts.undefined_score(f"predict {target}", "it is for a listed target")
        lesson = _Lesson.of(task, target)
        if lesson.problem:
            return self.facts.undefined_score(f"predict {target}", lesson.problem)
        features = Features(lesson.train, task.schema, (target,))
        wanted, actual = (side.encoded.column(target) for side in (lesson.train, lesson.test))
        if np.unique(wanted).size == 1:
            found = np.full(lesson.test.size, wanted[0])
        else:
            model = part("linear_model").LogisticRegression(class_weight="balanced", max_iter=1000)
            model = fit_quietly(model, features.dense(lesson.train), wanted)
            found = model.predict(features.dense(lesson.test))
        classes = np.unique(actual)
        labels = classes[-1:] if classes.size <= 2 else classes
        f1_score = part("metrics").f1_score
        score = f1_score(actual, found, labels=labels, average="macro", zero_division=0)
        return self.facts.score(float(score), f"predict {target}", note="; ".join(lesson.notes))


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
