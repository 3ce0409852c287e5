"""The models that machine-learning efficiency is measured with, behind one call. **Not private**.

`Features` turns rows into matrices that models of scikit-learn and its like can learn from, and
`score_classifier` trains a classifier on synthetic rows and tests it on real ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from margrave.errors import InputError, MissingExtraError, invalid
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Score
from margrave.schema.columns import Binned
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

Matrix = NDArray[np.float64]


def part(name: str) -> Any:
    """A part of scikit-learn, such as "ensemble".

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        return import_module(f"sklearn.{name}")
    except ImportError:
        raise MissingExtraError(
            "This metric needs scikit-learn. Install it with: pip install 'margrave[eval]'"
        ) from None


@contextmanager
def one_thread() -> Iterator[None]:
    """Learners and t-SNE with one thread: the number decides the order of sums, and so the last digits.

    On a machine that has other things to do, threads that wait for each other also take many times as long.
    """
    with suppress(MissingExtraError):
        part("ensemble")  # only libraries that are loaded already are limited
    with threadpool_limits(limits=1):
        yield


@dataclass(frozen=True, slots=True)
class Learner:
    """One kind of model.

    Args:
        name: As in the paper.
        module: The package that holds it; without it the model is left out, and the score says so.
        make: Makes an untrained model: for classes (else numbers), for so many rows of the rarest class.
        dense: Whether it learns from `Features.dense`, not `Features.plain`.
    """

    name: str
    module: str
    make: Callable[[bool, int, int], Any]
    dense: bool = False


def _make_mlp(classes: bool, seed: int, rarest: int) -> Any:
    network = part("neural_network")
    kind = network.MLPClassifier if classes else network.MLPRegressor
    # Early stopping holds out a tenth of the rows, of each class one at least.
    return kind(
        hidden_layer_sizes=(64, 32),
        max_iter=100,
        early_stopping=rarest >= 20,
        n_iter_no_change=5,
        random_state=seed,
    )


def _make_forest(classes: bool, seed: int, rarest: int) -> Any:
    ensemble = part("ensemble")
    kind = ensemble.RandomForestClassifier if classes else ensemble.RandomForestRegressor
    return kind(100, min_samples_leaf=3, random_state=seed)


def _make_xgboost(classes: bool, seed: int, rarest: int) -> Any:
    module = import_module("xgboost")
    kind = module.XGBClassifier if classes else module.XGBRegressor
    return kind(n_estimators=100, max_depth=6, tree_method="hist", random_state=seed, verbosity=0, n_jobs=1)


def _catboost(classes: bool, seed: int, rarest: int) -> Any:
    module = import_module("catboost")
    kind = module.CatBoostClassifier if classes else module.CatBoostRegressor
    # By itself CatBoost leaves a folder of what it learned in the working directory.
    return kind(iterations=200, random_seed=seed, verbose=False, allow_writing_files=False, thread_count=1)


LEARNERS: dict[str, Learner] = {
    "mlp": Learner("mlp", "sklearn", _make_mlp, dense=True),
    "catboost": Learner("catboost", "catboost", _catboost),
    "xgboost": Learner("xgboost", "xgboost", _make_xgboost),
    "random_forest": Learner("random_forest", "sklearn", _make_forest),
}


def absent(learner: Learner) -> bool:
    """Whether the package of a model is not installed."""
    try:
        import_module(learner.module)
    except ImportError:
        return True
    return False


def stops_early(wanted: NDArray[Any]) -> Literal["auto"] | bool:
    """Whether boosting of scikit-learn may hold out a tenth of the rows to see when to stop: "auto" or False.

    It draws them from each class, which it refuses where a class has a single row, or where a tenth of the
    rows are fewer than the classes.
    """
    classes, rows = np.unique(wanted, return_counts=True)
    return "auto" if rows.min() > 1 and len(wanted) // 10 >= len(classes) else False


def fit_quietly(model: Any, inputs: Matrix, wanted: NDArray[Any]) -> Any:
    """The model after learning; that it stopped before it converged is no reason to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(inputs, wanted)


def learn(learner: Learner, inputs: Matrix, wanted: NDArray[Any], asked: Matrix, seed: int) -> Matrix:
    """Chances of each class [rows, classes] or, where wanted are floats, predictions [rows] for new rows.

    Args:
        learner: Which model.
        inputs: Features of the rows to learn from, shape [known, features].
        wanted: Their classes, all of 0 to classes - 1, or numbers: shape [known].
        asked: Features of the rows to predict, shape [rows, features].
        seed: Of the training.
    """
    classes = wanted.dtype.kind != "f"
    alike = (inputs == inputs[:1]) | (np.isnan(inputs) & np.isnan(inputs[:1]))
    if bool(alike.all()) or bool((wanted == wanted[0]).all()):
        # Nothing to learn, which some models refuse to do.
        if classes:
            return np.tile(np.bincount(wanted) / len(wanted), (len(asked), 1))
        return np.full(len(asked), wanted.mean())
    rarest = int(np.bincount(wanted).min()) if classes else len(wanted)
    # A network learns numbers of any unit only if they are scaled; to trees it is all the same.
    mean, spread = (0.0, 1.0) if classes else (float(wanted.mean()), float(wanted.std()) or 1.0)
    scaled = wanted if classes else (wanted - mean) / spread
    model = fit_quietly(learner.make(classes, seed, rarest), inputs, scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.predict_proba(asked) if classes else model.predict(asked)
    return np.asarray(found, dtype=np.float64) * spread + mean


MOST_LEVELS = 200
"""Columns of more codes are one number instead of one column a code."""


@final
class Features:
    """Turns rows into matrices, scaled by the rows it was made from. **Not private** if those are real.

    Numeric columns are taken raw, all other by code. A missing value is a code of its own there and NaN
    here in `plain`; in `dense` it is the mean, next to a column that says so.

    Args:
        rows: The rows that means and deviations are taken of.
        schema: Their columns.
        without: Columns that are no features, as a rule the one to predict.
    """

    def __init__(self, rows: Rows, schema: Schema, without: tuple[str, ...] = ()) -> None:
        self._names = tuple(name for name in schema.domain.names if name not in without)
        self._sizes = {name: schema.domain[name] for name in self._names}
        self._numeric = {
            name for name in self._names if isinstance(schema[name], Binned) and name in rows.numbers
        }
        self._scales: dict[str, tuple[float, float]] = {}
        # Scales are those of the rows learned from: rows to test on must not tell the learner anything.
        for name in self._names:
            if name in self._numeric or self._sizes[name] > MOST_LEVELS:
                values = self._values(rows, name)
                known = values[~np.isnan(values)]
                mean, spread = (float(known.mean()), float(known.std())) if known.size else (0.0, 0.0)
                self._scales[name] = (mean, spread or 1.0)

    @property
    def categorical(self) -> list[bool]:
        """Which columns of `plain` are codes without an order that trees can split as such."""
        return [name not in self._scales for name in self._names]

    @property
    def dense_names(self) -> tuple[str, ...]:
        """A name for each column of `dense`."""
        names: list[str] = []
        for name in self._names:
            if name in self._scales:
                names += [name, f"{name} missing"] if name in self._numeric else [name]
            else:
                names += [f"{name} = {code}" for code in range(self._sizes[name])]
        return tuple(names)

    def plain(self, rows: Rows) -> Matrix:
        """One column an attribute, for trees: shape [rows, attributes]."""
        return np.column_stack([self._values(rows, name) for name in self._names])

    def dense(self, rows: Rows) -> Matrix:
        """Standardised numbers and one column a code: shape [rows, features]."""
        blocks: list[Matrix] = []
        for name in self._names:
            if name not in self._scales:
                blocks.append(np.eye(self._sizes[name])[rows.encoded.column(name)])
                continue
            mean, spread = self._scales[name]
            values = self._values(rows, name)
            missing = np.isnan(values)
            # Rows to be scored may lie far outside the range learned from; a linear model would run away.
            scaled = np.clip(np.where(missing, 0.0, (values - mean) / spread), -20, 20)
            blocks.append(np.column_stack([scaled, missing] if name in self._numeric else [scaled]))
        return np.concatenate(blocks, axis=1)

    def _values(self, rows: Rows, name: str) -> Matrix:
        if name in self._numeric:
            return rows.numbers[name]
        return rows.encoded.column(name).astype(np.float64)


MOST_CATEGORIES = 255
"""Columns of more codes are taken as ordered: the trees hold at most 255 categories."""

ACCURACY = (
    "Share of the tested rows whose class gradient-boosted trees predict rightly after learning from the "
    "other table."
)
AUC = (
    "Chance that the trees rank a row of a class above a row of another, averaged over classes by their "
    "share: 0.5 is guessing, 1 perfect."
)


def score_classifier(
    train: Encoded, test: Encoded, target: str, *, schema: Schema | None = None, seed: int = 0
) -> tuple[Score, ...]:
    """Accuracy and AUC of gradient-boosted trees trained on one table and tested on another.

    **Not private** when `test` holds real rows: do not publish the scores.

    Args:
        train: Rows to learn from, as a rule synthetic ones.
        test: Rows held out, of the same domain, as a rule real ones.
        target: The column to predict; its missing and other codes are classes too.
        schema: Says which columns have no order; all are taken as ordered without it.
        seed: Of the training.

    Returns:
        The accuracy, then the AUC (one class against the rest, weighted by the classes' shares of `test`)
        unless all rows of `test` are of one class.

    Raises:
        InputError: The tables differ in domain, one has no rows, or there is no such column or no other.
        MissingExtraError: scikit-learn is not installed.
    """
    _check(train, test, target)
    chances = _chances(train, test, target, schema, seed)
    actual, scope = test.column(target), f"predict {target}"
    accuracy = float((chances.argmax(axis=1) == actual).mean())
    scores = [
        Score("accuracy", accuracy, "higher", scope, ACCURACY, title="Right classes", group="Prediction")
    ]
    area = one_against_rest(actual, chances)
    if area is not None:
        scores.append(Score("auc", area, "higher", scope, AUC, title="AUC", group="Prediction"))
    return tuple(scores)


def _chances(
    train: Encoded, test: Encoded, target: str, schema: Schema | None, seed: int
) -> NDArray[np.float64]:
    """The probability of each class for each row of `test`, shape [rows, classes]."""
    ensemble = _sklearn("ensemble")
    names = [name for name in train.domain.names if name != target]
    known = train.column(target)
    chances = np.zeros((test.rows, train.domain[target]))
    classes = np.unique(known)
    # A learner cannot be fitted to one class; the answer is certain.
    if classes.size == 1:
        chances[:, classes[0]] = 1.0
        return chances
    model = ensemble.HistGradientBoostingClassifier(
        categorical_features=[_is_unordered(train, name, schema) for name in names],
        early_stopping=stops_early(known),
        random_state=seed,
    )
    # Threads that wait for each other would take longer than the work, and add up in another order.
    with one_thread():
        model.fit(_matrix(train, names), known)
        chances[:, model.classes_] = model.predict_proba(_matrix(test, names))
    return chances


def _check(train: Encoded, test: Encoded, target: str) -> None:
    if train.domain != test.domain:
        raise InputError(invalid("test", "of the domain of train", "Encode both under one schema."))
    train.domain.index(target)
    if len(train.domain) < 2:
        raise InputError(invalid("train", "of two columns or more", "There is nothing to predict from."))
    for param, table in (("train", train), ("test", test)):
        if table.rows == 0:
            raise InputError(invalid(param, "a table with rows", "There is nothing to score."))


def _sklearn(part: str) -> Any:
    try:
        return import_module(f"sklearn.{part}")
    except ImportError:
        raise MissingExtraError(
            "The classifier score needs scikit-learn. Install it with: pip install 'margrave[eval]'"
        ) from None


def _is_unordered(table: Encoded, name: str, schema: Schema | None) -> bool:
    return schema is not None and schema[name].kind == "categorical" and table.domain[name] <= MOST_CATEGORIES


def _matrix(table: Encoded, names: list[str]) -> NDArray[np.float32]:
    return np.column_stack([table.column(name).astype(np.float32) for name in names])


def one_against_rest(actual: NDArray[Any], chances: NDArray[np.float64]) -> float | None:
    """Area under the curve, one class against the rest; None if there is one class only.

    Args:
        actual: Codes of the classes, shape [rows].
        chances: The chance of each code, shape [rows, codes].
    """
    metrics = _sklearn("metrics")
    classes, rows = np.unique(actual, return_counts=True)
    if classes.size < 2:
        return None
    areas = [metrics.roc_auc_score(actual == code, chances[:, code]) for code in classes]
    return float(np.average(areas, weights=rows))
