"""score_classifier: trained on synthetic rows, tested on real ones. **Not private**."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, MissingExtraError, invalid
from margrave.evaluation.comparison import Score
from margrave.evaluation.learners import one_thread, stops_early
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

__all__ = ["one_against_rest", "score_classifier"]

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
    scores = [Score("accuracy", accuracy, "higher", scope, ACCURACY)]
    area = one_against_rest(actual, chances)
    if area is not None:
        scores.append(Score("auc", area, "higher", scope, AUC))
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
    if classes.size == 1:
        chances[:, classes[0]] = 1.0
        return chances
    model = ensemble.HistGradientBoostingClassifier(
        categorical_features=[_unordered(train, name, schema) for name in names],
        early_stopping=stops_early(known),
        random_state=seed,
    )
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


def _unordered(table: Encoded, name: str, schema: Schema | None) -> bool:
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
