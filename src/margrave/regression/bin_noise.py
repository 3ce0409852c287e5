"""Bin noise: what is not known of the numbers that stand for discovered bins, in the score of a regression.

The number of a discovered bin is the mean of its cells by noisy weights (`tables.numbers`), so that the
numbers of a design are off by something of known variance, the same for every row of a bin. The score
b - G gamma is a sum over rows of x (y - x'gamma). With x_j off by e in the rows of one code it is off by

    e (sum of those rows' (y - x'gamma) at place j, less gamma_j times the sum of their x)

to first order, and with y off by e by e times the sum of their x. All of these sums are over tables of the
model. Noises of different codes are taken as independent: cells are counted once each, and a bin's cells
are its own.

What goes with a column inside its bins is no noise but missing. Let all rows of a bin have its number n, and
let u be what theirs are beyond it. Sums of x u over rows follow from straight lines between the means of x by
bin (`weigh_covariances`). With u of the target they are missing from X'y, which makes all coefficients too
small by the share that is inside bins of the target's variance. With u of a feature the sum of n u over its
own rows is 0, but other features go with u as they go with n: the score of x_i is the sum of
n_i (y - sum of gamma_j (n_j + u_j)), so that the sums of n_i u_j are missing from G, in the row of i alone.
Lines need not be straight, so that a part of both counts as not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.regression.design import Design, ModelTables
from margrave.regression.sums import sum_labels
from margrave.schema.columns import Column
from margrave.tables.means import Product
from margrave.tables.numbers import LINE_DOUBT, weigh_covariances

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NoisyNumber:
    """One number of the design that is of discovered bins, and the sums over the rows of each of them.

    Args:
        place: Of the number among all.
        variances: Of the number of each code, in units of the centred design: shape [codes].
        crossed: Sums of all numbers x over the rows of a code, shape [codes, p].
        labelled: Sums of the centred labels over the rows of a code, shape [codes].
        in_labels: By how much the labels follow the same number, where the target is a sum that it is in.
    """

    place: int
    variances: Floats
    crossed: Floats
    labelled: Floats
    in_labels: float = 0.0


@dataclass(frozen=True, slots=True)
class BinNoise:
    """All numbers of a regression that are of discovered bins.

    Args:
        size: Numbers that a row has: p.
        numbers: Those of features.
        of_labels: The part of the target's numbers, which no coefficient changes: shape [p, p].
        inside: What X'y lacks, since all rows of a bin of the target have one number: shape [p].
        beside: What the rows of G lack, since all rows of a bin of a feature have one: shape [p, p].
        shared: The part of `inside` that is of columns which are features as well: shape [p].
    """

    size: int
    numbers: tuple[NoisyNumber, ...]
    of_labels: Floats
    inside: Floats
    beside: Floats
    shared: Floats

    def complete(self, residual: Floats, gamma: Floats) -> Floats:
        """The residual b - G gamma with what it lacks, since all rows of a bin have one number: shape [p]."""
        return np.asarray(residual + self.inside - self.beside @ gamma)

    def correct(self, inverse: Floats, slope: float) -> Floats:
        """The inverse of a Hessian, with the rows of G that `beside` completes: shape [p, p].

        (H + D)^-1 is (1 + H^-1 D)^-1 H^-1. Where what is added is as large as the Hessian itself there is
        nothing to be told, and the inverse stays as it is.

        Args:
            inverse: Of minus the score's derivative, [p, p].
            slope: gamma for a unit of the coefficients.
        """
        added = slope * inverse @ self.beside
        if not added.any() or np.abs(np.linalg.eigvals(added)).max() >= 1.0:
            return inverse
        return np.asarray(np.linalg.solve(np.eye(self.size) + added, inverse))

    def covariance(self, gamma: Floats) -> Floats:
        """Of the residual b - G gamma, by what is not known of the numbers: shape [p, p].

        Args:
            gamma: Shape [p].
        """
        found: Floats = self.of_labels.copy()
        for number in self.numbers:
            along = (number.in_labels - gamma[number.place]) * number.crossed
            along[:, number.place] += number.labelled - number.crossed @ gamma
            found += (along * number.variances[:, None]).T @ along
        doubt = LINE_DOUBT * (self.shared - self.beside @ gamma)
        return found + np.outer(doubt, doubt)


def find_bin_noise(design: Design, model: ModelTables, target: Sequence[Product]) -> BinNoise:
    """What is not known of a design's numbers.

    Args:
        design: Target and features.
        model: The tables of the release's.
        target: What the labels add up, each of one column; none where they are marks or ranks.
    """
    weights = {one.names[0]: one.weight for one in target}
    numbers = []
    beside: Floats = np.zeros((design.size, design.size))
    for feature, encoding in enumerate(design.encodings):
        noise = encoding.variances if encoding.variances is not None and encoding.variances.any() else None
        if noise is None and encoding.binned is None:
            continue
        # The number of a bin is the first of its feature's; indicators of missing values follow.
        place = design.starts[feature]
        scale = design.to_raw[place, place]
        crossed = _sum_numbers(design, model, encoding.column)
        if encoding.binned is not None:
            lost = scale * encoding.slope * _sum_inside(encoding.binned, crossed)
            lost[place : place + len(encoding.names)] = 0.0
            beside[:, place] = lost
        if noise is not None:
            labelled = _sum_target(design, model, encoding.column)
            in_labels = weights.get(encoding.column, 0.0) / (scale * encoding.slope)
            numbers.append(NoisyNumber(place, noise * scale**2, crossed, labelled, in_labels))
    of_labels: Floats = np.zeros((design.size, design.size))
    inside: Floats = np.zeros(design.size)
    shared: Floats = np.zeros(design.size)
    told = {design.encodings[list(design.starts).index(number.place)].column for number in numbers}
    for one in target:
        (name,), (held,) = one.names, one.numbers
        crossed = _sum_numbers(design, model, name)
        if name not in told:
            of_labels += one.weight**2 * (crossed * held.doubts[:, None]).T @ crossed
        if held.column is None:
            continue
        lost = one.weight * _sum_inside(held.column, crossed)
        for feature, encoding in enumerate(design.encodings):
            if encoding.binned is not None and encoding.column == name:
                lost[design.places(feature)] = 0.0
                shared += lost
        inside += lost
    of_labels += LINE_DOUBT**2 * np.outer(inside - shared, inside - shared)
    return BinNoise(design.size, tuple(numbers), of_labels, inside, beside, shared)


def _sum_target(design: Design, model: ModelTables, column: str) -> Floats:
    """Sums of the labels over the model's rows of each code of a column, shape [codes]."""
    cliques = [((column,) if column == part else (column, part), labels) for part, labels in design.parts]
    return np.asarray(np.sum([sum_labels(model.project(one), labels) for one, labels in cliques], axis=0))


def _sum_inside(column: Column, crossed: Floats) -> Floats:
    """Sums over rows of all numbers times what a column's are beyond those of its bins: shape [p].

    Args:
        column: Of the bins.
        crossed: Sums of all numbers over the rows of its codes, shape [codes, p]; first those of 1.
    """
    rows = crossed[:, 0]
    means = crossed / np.where(rows > 0.0, rows, 1.0)[:, None]
    return np.asarray(weigh_covariances(column, rows) @ means)


def _sum_numbers(design: Design, model: ModelTables, column: str) -> Floats:
    """Sums of all numbers over the model's rows of each code of a column, shape [codes, p]."""
    # In the order in which `model_sums` has asked for the same pairs, so that none is worked out again.
    order = {name: place for place, name in enumerate(dict.fromkeys((*design.names, column)))}
    others = [name for name in design.names if name != column]
    pairs = [(name, column) if order[name] < order[column] else (column, name) for name in others]
    ways, *tables = model.project_many([(column,), *pairs])
    joint = {
        name: table if pair[0] == column else table.T
        for name, pair, table in zip(others, pairs, tables, strict=True)
    }
    parts: list[Floats] = [ways[:, None]]
    for name, matrix in zip(design.names, design.matrices, strict=True):
        parts.append((matrix * ways).T if name == column else joint[name] @ matrix.T)
    return np.concatenate(parts, axis=1)
