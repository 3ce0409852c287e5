"""What a review draws: curves of a classifier, and rows as points of a plane. **Not private**.

`Curves` show how well a column is predicted on real rows after learning from each table, `Scatter` shows rows
of several tables as points of one plane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import MissingExtraError
from margrave.evaluation.learners import Features, fit_quietly, one_thread, part
from margrave.evaluation.metrics.efficiency import sample_rows
from margrave.evaluation.rows import Rows, shuffled_rows, split
from margrave.evaluation.score import Score
from margrave.schema.columns import Binned, Listed
from margrave.schema.schema import Schema

MOST_ROWS = 20_000
"""Rows that trees learn from and are tested on, at most: what `COST` says."""
POINTS = 160
"""Points of a curve that are kept for a picture."""
SOURCE = "Fawcett 2006, section 4 (ROC); Davis and Goadrich 2006, section 2 (precision and recall)"
COST = "trains gradient-boosted trees on at most 20,000 rows a table"
AUC = (
    "Chance that gradient-boosted trees, after learning from the table, rank a real row with the value to "
    "be found "
    "above one without it: 0.5 is guessing, 1 perfect. The real rows tested on are not among those "
    "learned from."
)
PRECISION = (
    "Area under precision against recall of the same trees: the share of right ones among the rows named, "
    "averaged "
    "over how many are to be found; guessing gives the share of such rows."
)

Points = NDArray[np.float64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The two curves of a model that learned from one table. **Not private**.

    Args:
        name: Of the table.
        roc: False and true alarms, both shares, shape [points, 2].
        precision_recall: Recall and precision, shape [points, 2].
        auc: Area under the first, of all points.
        average_precision: Area under the second, by steps.
    """

    name: str
    roc: Points
    precision_recall: Points
    auc: float
    average_precision: float


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """The curves of all tables, tested on the same real rows. **Not private**.

    Args:
        found: What is to be found, in words.
        share: Share of the tested rows that have it.
        tested: Number of real rows tested on.
        how: Where those come from, a whole sentence.
        tables: One entry a synthetic table.
        references: The same of real rows and of shuffled columns.
    """

    found: str
    share: float
    tested: int
    how: str
    tables: tuple[Curve, ...]
    references: tuple[Curve, ...]

    def scores(self, name: str) -> tuple[Score, ...]:
        """The areas of one synthetic table."""
        curve = next(curve for curve in self.tables if curve.name == name)
        scope = f"find {self.found}"
        entries = (
            ("roc_auc", "Area under the ROC curve", curve.auc, AUC),
            ("average_precision", "Area under precision and recall", curve.average_precision, PRECISION),
        )
        return tuple(
            Score(
                *(key, value, "higher", scope, text),
                high=1.0,
                source=SOURCE,
                cost=COST,
                note=self.how,
                title=title,
                group="Prediction",
            )
            for key, title, value, text in entries
        )

    @property
    def reference_scores(self) -> dict[str, dict[str, float]]:
        """The areas of the references, by reference and score name."""
        return {
            curve.name: {"roc_auc": curve.auc, "average_precision": curve.average_precision}
            for curve in self.references
        }


def draw_curves(
    real: Rows,
    tables: Mapping[str, Rows],
    schema: Schema,
    target: str,
    *,
    held_out: Rows | None = None,
    seed: int = 0,
) -> Curves | str:
    """Train on each table, test on real rows, and keep the curves; or say why there are none.

    **Not private**. Rows of the target's rarer value are to be found, for more than two values each in turn
    with all answers pooled, for numbers those above the real median. Without held-out rows a random half of
    the real ones is tested on, and the references learn from the other half.

    Args:
        real, tables, schema, target: Real rows, synthetic ones by name, their columns, that to predict.
        held_out, seed: Real rows that nothing was made from; of the halves, samples and training.

    Raises:
        MissingExtraError: scikit-learn is not installed.
    """
    rng = np.random.default_rng([seed, 1])
    if len(schema.domain) < 2 or (held_out is None and real.size < 20):
        return "There is no other column to predict from, or too few rows to test on half of them."
    known, tested = (real, held_out) if held_out is not None else split(real, 0.5, rng)
    tested = sample_rows(_drop_missing(tested, target), rng, MOST_ROWS)[0]
    classes, found = _classes(real, tested, schema, target)
    actual = classes(tested)
    if not tested.size or not actual.any() or actual.all():
        return f"All tested rows have one value of {target}."
    learned = {**tables, "real rows": known, "shuffled": shuffled_rows(known, rng)}
    curves = []
    for name, rows in learned.items():
        kept = sample_rows(_drop_missing(rows, target), rng, MOST_ROWS)[0]
        chances = _chances(kept, tested, schema, target, classes, seed)
        curves.append(_curve(name, actual.ravel(), chances.ravel()))
    how = _how(held_out is not None, actual.shape[1])
    own, others = tuple(curves[:-2]), tuple(curves[-2:])
    return Curves(found, float(actual.mean()), tested.size, how, own, others)


def _how(held_out: bool, questions: int) -> str:
    """How the curves were made, in sentences."""
    tested, other = "a random half of the real rows", "the other half"
    if held_out:
        tested, other = "held-out rows", "the real rows"
    how = f"Tested on {tested}; the reference tables are made from {other}."
    if questions > 1:
        how += " Answers for all values are pooled, so guessing is above 0.5: see the shuffled columns."
    return how


def _drop_missing(rows: Rows, target: str) -> Rows:
    """The rows that have a number to predict; all, where the target is listed."""
    numbers = rows.numbers.get(target)
    return rows if numbers is None else rows.take(np.flatnonzero(~np.isnan(numbers)))


def _classes(real: Rows, tested: Rows, schema: Schema, target: str) -> Any:
    """What says which rows have what is to be found, [rows, questions], and that in words."""
    column = schema[target]
    if isinstance(column, Binned):
        middle = float(np.nanmedian(real.numbers[target])) if real.size else 0.0
        return (lambda rows: (rows.numbers[target] > middle)[:, None]), f"{target} above its real median"
    codes, counts = np.unique(tested.encoded.column(target), return_counts=True)
    if codes.size <= 2:
        rare = int(codes[counts.argmin()]) if codes.size else 0
        label = column.labels[rare] if isinstance(column, Listed) else str(rare)
        return (lambda rows: (rows.encoded.column(target) == rare)[:, None]), f"{target} = {label}"
    return (lambda rows: rows.encoded.column(target)[:, None] == codes), f"each value of {target}"


def _chances(train: Rows, tested: Rows, schema: Schema, target: str, classes: Any, seed: int) -> Points:
    """The chance of each question for each tested row, shape [rows, questions]."""
    answers: Truths = classes(train)
    several = answers.shape[1] > 1
    if several:
        # Rows of none of the classes make a class of their own.
        wanted = np.where(answers.any(axis=1), answers.argmax(axis=1), answers.shape[1])
    else:
        wanted = answers[:, 0]
    values = np.unique(wanted)
    chances = np.zeros((tested.size, answers.shape[1]))
    if values.size < 2:
        for value in values:
            if several and value < answers.shape[1]:
                chances[:, int(value)] = 1.0
        return chances
    features = Features(train, schema, (target,))
    model = part("ensemble").HistGradientBoostingClassifier(
        categorical_features=features.categorical, random_state=seed
    )
    with one_thread():
        guessed = fit_quietly(model, features.plain(train), wanted).predict_proba(features.plain(tested))
    if not several:
        return np.asarray(guessed[:, [list(values).index(True)]])
    inside = values < answers.shape[1]
    chances[:, values[inside].astype(np.int64)] = guessed[:, inside]
    return chances


def _curve(name: str, actual: Truths, chances: Points) -> Curve:
    first, area = roc(actual, chances)
    second, precision = precision_recall(actual, chances)
    return Curve(name, _thin_points(first), _thin_points(second), area, precision)


def _tallies(actual: Truths, chances: Points) -> tuple[Points, Points]:
    """Right and all rows named at each distinct chance, from the highest down, after a first of none."""
    order = np.argsort(-chances, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(chances[order])), chances.size - 1)
    right = np.cumsum(actual[order])[ends]
    return np.append(0.0, right), np.append(0.0, ends + 1.0)


def roc(actual: Truths, chances: Points) -> tuple[Points, float]:
    """The curve of true against false alarms, [points, 2], and the area under it.

    Args:
        actual: Whether each row is to be found; some are and some are not. Shape [rows].
        chances: The higher, the surer. Shape [rows].
    """
    right, named = _tallies(actual, chances)
    points = np.column_stack([(named - right) / (named - right)[-1], right / right[-1]])
    x, y = points.T
    return points, float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum())


def precision_recall(actual: Truths, chances: Points) -> tuple[Points, float]:
    """The curve of precision against recall, [points, 2], and its area by steps; arguments as for `roc`."""
    right, named = _tallies(actual, chances)
    recall, precision = right[1:] / right[-1], right[1:] / named[1:]
    area = float((np.diff(np.append(0.0, recall)) * precision).sum())
    return np.column_stack([np.append(0.0, recall), np.append(precision[0], precision)]), area


def _thin_points(points: Points) -> Points:
    """At most so many points, evenly apart along the curve, both ends kept."""
    if len(points) <= POINTS:
        return points
    along = np.append(0.0, np.abs(np.diff(points, axis=0)).sum(axis=1).cumsum())
    last = len(points) - 1
    places = np.searchsorted(along, np.linspace(0, along[-1], POINTS))
    kept = np.unique([0, *np.minimum(places, last), last])
    return np.asarray(points[kept])


MOST_POINTS = 1200
"""Points of one picture, at most, those of all tables together."""
PLOTTED_ROWS = 400
"""Rows drawn of each table, fewer where there are many tables."""
DIMENSIONS = 30
"""Principal components that t-SNE is given: as many as van der Maaten and Hinton 2008 take."""
PERPLEXITY = 30.0
"""Of t-SNE: the default of scikit-learn, in the middle of the 5 to 50 that van der Maaten and Hinton 2008
advise."""


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """Rows of the real and of other tables as points of one plane. **Not private**.

    Args:
        points: By table, "real" first: shape [rows, 2], within the unit square.
        how: How it was made, a whole sentence.
    """

    points: Mapping[str, Points]
    how: str


def draw_scatter(real: Rows, tables: Mapping[str, Rows], schema: Schema, *, seed: int = 0) -> Scatter | str:
    """A sample of the rows of all tables, embedded together; or why there is none.

    **Not private**. t-SNE (van der Maaten and Hinton 2008), as in figure 2 of Chen et al. 2025, of numbers
    scaled by the real table and one column a listed value, reduced to 30 principal components first.

    Args:
        real: The real rows.
        tables: Others by name, none of them called "real".
        schema: Their columns.
        seed: Of the sample and the embedding.
    """
    rng = np.random.default_rng([seed, 2])
    sides = {"real": real, **tables}
    most = min(PLOTTED_ROWS, MOST_POINTS // len(sides))
    drawn = {name: sample_rows(rows, rng, most)[0] for name, rows in sides.items()}
    if real.size < 5:
        return "There are too few rows to draw."
    features = Features(real, schema)
    joint = np.concatenate([features.dense(rows) for rows in drawn.values()])
    shown = f"{drawn['real'].size} rows of each table" if most < real.size else f"at most {most} rows a table"
    plane, how = _plane(principal(joint, DIMENSIONS), shown, seed)
    ends = np.cumsum([rows.size for rows in drawn.values()])[:-1]
    return Scatter(dict(zip(drawn, np.split(_unit(plane), ends), strict=True)), how)


def _plane(points: Points, shown: str, seed: int) -> tuple[Points, str]:
    """Coordinates, and how they were made in a sentence."""
    try:
        # Rows alike would all lie in one point; what t-SNE makes of that is no picture.
        alike = not np.ptp(points, axis=0).max(initial=0.0) > 0
        plane = points[:, :2] if alike else _tsne(points, seed)
    except MissingExtraError:
        how = (
            f"The first two principal components of {shown}. Where scikit-learn is installed (pip install "
            "'margrave[eval]') t-SNE is drawn instead, which shows clusters better."
        )
        return points[:, :2], how
    return plane, f"t-SNE of {shown}, perplexity {PERPLEXITY:g}, drawn and placed by a fixed seed."


def principal(points: Points, dimensions: int) -> Points:
    """Coordinates along the directions of greatest variance, shape [rows, at least 2 and at most dimensions].

    Signs are fixed by the largest coefficient of each direction, so that a picture does not depend on the
    library.
    """
    centred = points - points.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    vectors = vectors[:, np.argsort(-values)[:dimensions]]
    largest = np.abs(vectors).argmax(axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])])
    found = centred @ vectors
    return np.column_stack([found, np.zeros(len(found))]) if found.shape[1] < 2 else found


def _tsne(points: Points, seed: int) -> Points:
    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    model = part("manifold").TSNE(perplexity=perplexity, init="pca", random_state=seed)
    with one_thread():
        return np.asarray(model.fit_transform(points), dtype=np.float64)


def _unit(points: Points) -> Points:
    """The points within the unit square, one scale for both axes."""
    low, high = points.min(axis=0), points.max(axis=0)
    scale = float((high - low).max()) or 1.0
    return np.asarray(np.clip((points - (low + high) / 2) / scale + 0.5, 0.0, 1.0))
