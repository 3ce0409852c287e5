"""Models of both tables: trained on synthetic rows and tested on real ones, or compared. **Not private**.

`Efficiency` and its kin train on synthetic rows and are tested on real ones. `Propensity` asks the opposite
of a model: how well it tells synthetic rows from real ones. `RegressionOverlap` asks whether a regression
says the same of both tables.
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


HALF_WIDTH = 1.959963984540054
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
        sides = (task.real, task.synthetic)
        answers = [self._select_response(task, side, target) for side in sides]
        scope, note = f"predict {target}", f"without {', '.join(wide)}" if wide else ""
        if len(set(wide) | {target}) == len(task.names):
            return self.facts.undefined_score(scope, "no other column is left to regress on")
        tables = [features.dense(side)[known] for side, (_, known) in zip(sides, answers, strict=True)]
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
        half = HALF_WIDTH * errors
        bounds = zip((found - half)[:-1], (found + half)[:-1], strict=True)
        return [(float(low), float(high)) for low, high in bounds]


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
