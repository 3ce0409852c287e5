"""The models that machine-learning efficiency is measured with, behind one call. **Not private**."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from margrave.errors import MissingExtraError

__all__ = ["LEARNERS", "Learner", "absent", "fitted", "learn", "one_thread", "part", "stops_early"]

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


def _mlp(classes: bool, seed: int, rarest: int) -> Any:
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


def _forest(classes: bool, seed: int, rarest: int) -> Any:
    ensemble = part("ensemble")
    kind = ensemble.RandomForestClassifier if classes else ensemble.RandomForestRegressor
    return kind(100, min_samples_leaf=3, random_state=seed)


def _xgboost(classes: bool, seed: int, rarest: int) -> Any:
    module = import_module("xgboost")
    kind = module.XGBClassifier if classes else module.XGBRegressor
    return kind(n_estimators=100, max_depth=6, tree_method="hist", random_state=seed, verbosity=0, n_jobs=1)


def _catboost(classes: bool, seed: int, rarest: int) -> Any:
    module = import_module("catboost")
    kind = module.CatBoostClassifier if classes else module.CatBoostRegressor
    # By itself CatBoost leaves a folder of what it learned in the working directory.
    return kind(iterations=200, random_seed=seed, verbose=False, allow_writing_files=False, thread_count=1)


LEARNERS: dict[str, Learner] = {
    "mlp": Learner("mlp", "sklearn", _mlp, dense=True),
    "catboost": Learner("catboost", "catboost", _catboost),
    "xgboost": Learner("xgboost", "xgboost", _xgboost),
    "random_forest": Learner("random_forest", "sklearn", _forest),
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


def fitted(model: Any, inputs: Matrix, wanted: NDArray[Any]) -> Any:
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
    model = fitted(learner.make(classes, seed, rarest), inputs, scaled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.predict_proba(asked) if classes else model.predict(asked)
    return np.asarray(found, dtype=np.float64) * spread + mean
