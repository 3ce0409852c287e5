"""Blend: what a logistic regression rests on where noise left pairs of columns unmeasured.

Two models disagree there in opposite ways. That of the release draws strength from all tables, and attenuates
how features depend on the target. That of the target's tables alone, in which features depend on each other
through the target only, attenuates nothing and knows nothing else. The blend has the tables (1 - w) M + w S
and rows of both, so that it is a distribution too.

The weight is w = max(1 - 2 p / q, 0) / 2. There q is the sum of squares of the noisy tables' X'y in units of
their noise, whose mean is p where the target depends on nothing; 1 - 2 p / q is the part of X'y that is not
noise (James and Stein 1961, with twice the noise, as in `MeasuredSums.correction`). Figures of what this wins,
and of what else was tried, are in bench/LOG.md (2026-11-26).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from margrave.limits import Effort
from margrave.models.registry import resolve
from margrave.regression.design import Design, ModelTables
from margrave.regression.families import family_of
from margrave.regression.likelihood import ModelRows, fit_model
from margrave.regression.sums import Sums
from margrave.release import Release
from margrave.schema.domain import Clique

Floats = NDArray[np.float64]
LARGEST_SHARE = 0.5
"""Share of the model of the target's tables where X'y is hardly noise: a quarter, a half and 1 were tried on
eleven tables of the choosing half (bench/LOG.md)."""
SEED = 0
"""Of the rows that are drawn and left out: results repeat."""


class BlendedTables:
    """Tables of a mixture of two models.

    Args:
        first, second: The tables of each.
        share: Of the second; both stand for the rows of the first.
    """

    def __init__(self, first: ModelTables, second: ModelTables, share: float) -> None:
        self._first, self._second, self._share = first, second, share

    @property
    def total(self) -> float:
        """The number of rows that the mixture stands for."""
        return self._first.total

    def project(self, clique: Clique) -> Floats:
        """The table of a clique, in rows."""
        return self.project_many([clique])[0]

    def project_many(self, cliques: Sequence[Clique]) -> list[Floats]:
        """The tables of many cliques."""
        scale = self._share * self._first.total / max(self._second.total, 1.0)
        both = zip(self._first.project_many(cliques), self._second.project_many(cliques), strict=True)
        return [(1.0 - self._share) * one + scale * two for one, two in both]


def find_share(sums: Sums) -> float:
    """The share of the model of the target's tables, from 0 to LARGEST_SHARE."""
    square, numbers = sums.label_signal()
    return LARGEST_SHARE * max(1.0 - 2.0 * numbers / square, 0.0) if square > 0.0 else 0.0


def blend_target_tables(
    release: Release, design: Design, rows: ModelRows, model: ModelTables, sums: Sums
) -> tuple[ModelTables, ModelRows]:
    """The release's model mixed with that of the target's tables: tables, and as many rows as are given.

    Args:
        release: Its noisy tables of one column, and of the target with another, make the second model.
        design: Target and features.
        rows, model: Of the release's model.
        sums: What was measured.
    """
    share = find_share(sums)
    drawn = round(share * len(rows.labels))
    if drawn == 0:
        return model, rows
    wanted = [
        measured
        for measured in release.measurements
        if len(measured.clique) == 1 or (len(measured.clique) == 2 and design.target in measured.clique)
    ]
    second = resolve("pgm").fit(release.domain, wanted, total=None, effort=Effort())
    rng = np.random.default_rng(SEED)
    kept = rng.permutation(len(rows.labels))[drawn:]
    codes, labels = design.codes(second.sample(drawn, rng))
    joined = tuple(np.concatenate([own[kept], other]) for own, other in zip(rows.codes, codes, strict=True))
    mixed = replace(rows, codes=joined, labels=np.concatenate([rows.labels[kept], labels]))
    return BlendedTables(model, second, share), mixed


def find_prior(
    design: Design, rows: ModelRows, sums: Sums, labelled: Floats, crossed: Floats
) -> tuple[Floats, Floats]:
    """The ridge and the centre of a logistic regression's coefficients: both of shape [p].

    X'y of n rows with noise of variance v, for coefficients that are normal around a centre with standard
    deviation 1 on the scale of log odds for a feature of standard deviation 1, asks for a ridge of v / (n h),
    where n h is the diagonal of the Hessian and h at most the variance of the target. v is the median over
    numbers, because a level of few rows would not be fitted at all with its own. The centre is the maximum of
    the likelihood's polynomial of degree 2, which does not follow noise to where a feature separates the
    target.

    Args:
        design, rows: Of the regression; rows have a target each.
        sums: What was measured.
        labelled, crossed: X'y, shape [p], and X'X, shape [p, p], of the model.
    """
    _, noise, known = sums.label_sums()
    nothing = np.zeros(design.size)
    spread = rows.weight * float(rows.labels @ rows.labels)
    if not known[1:].any() or spread <= 0.0:
        return nothing, nothing
    centre, _ = fit_model(design, rows, family_of("logistic", "quadratic"), labelled, crossed, nothing, ())
    ridge = np.full(design.size, float(np.median(noise[1:][known[1:]])) / spread)
    ridge[0] = 0.0
    return ridge, centre
