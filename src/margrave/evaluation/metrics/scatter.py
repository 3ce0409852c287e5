"""Scatter: rows of several tables as points of one plane. **Not private**."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.errors import MissingExtraError
from margrave.evaluation.learners import Features, one_thread, part
from margrave.evaluation.metrics.efficiency import sample_rows
from margrave.evaluation.rows import Rows
from margrave.schema.schema import Schema

MOST_POINTS = 1200
"""Points of one picture, at most, those of all tables together."""
MOST_ROWS = 400
"""Rows drawn of each table, fewer where there are many tables."""
DIMENSIONS = 30
"""Principal components that t-SNE is given: as many as van der Maaten and Hinton 2008 take."""
PERPLEXITY = 30.0
"""Of t-SNE: the default of scikit-learn, in the middle of the 5 to 50 that van der Maaten and Hinton 2008
advise."""

Points = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """Rows of the real and of other tables as points of one plane. **Not private**.

    Args:
        method: "t-SNE", or "principal components" where scikit-learn is missing.
        points: By table, "real" first: shape [rows, 2], within the unit square.
        how: How it was made, a whole sentence.
    """

    method: str
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
    most = min(MOST_ROWS, MOST_POINTS // len(sides))
    drawn = {name: sample_rows(rows, rng, most)[0] for name, rows in sides.items()}
    if real.size < 5:
        return "There are too few rows to draw."
    features = Features(real, schema)
    joint = np.concatenate([features.dense(rows) for rows in drawn.values()])
    shown = f"{drawn['real'].size} rows of each table" if most < real.size else f"at most {most} rows a table"
    plane, method, how = _plane(principal(joint, DIMENSIONS), shown, seed)
    ends = np.cumsum([rows.size for rows in drawn.values()])[:-1]
    return Scatter(method, dict(zip(drawn, np.split(_unit(plane), ends), strict=True)), how)


def _plane(points: Points, shown: str, seed: int) -> tuple[Points, str, str]:
    """Coordinates, the method's name, and how it was done in a sentence."""
    try:
        # Rows alike would all lie in one point; what t-SNE makes of that is no picture.
        alike = not np.ptp(points, axis=0).max(initial=0.0) > 0
        plane = points[:, :2] if alike else _tsne(points, seed)
    except MissingExtraError:
        how = (
            f"The first two principal components of {shown}. Where scikit-learn is installed (pip install "
            "'margrave[eval]') t-SNE is drawn instead, which shows clusters better."
        )
        return points[:, :2], "principal components", how
    return plane, "t-SNE", f"t-SNE of {shown}, perplexity {PERPLEXITY:g}, drawn and placed by a fixed seed."


def principal(points: Points, dimensions: int) -> Points:
    """Coordinates along the directions of greatest variance, shape [rows, at least 2 and at most dimensions].

    Signs are fixed by the largest coefficient of each direction, so that a picture does not depend on the
    library.
    """
    centred = points - points.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    vectors = vectors[:, np.argsort(-values)[:dimensions]]
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
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
