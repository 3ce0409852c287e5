"""Likelihood: coefficients from X'y, X'X and rows of the model.

A canonical model's log likelihood is theta'X'y - sum of A(theta'x). The first part needs tables of pairs
alone; the second needs the joint distribution of the features, which the model has. It is split again: the
mean A'(s) of a row is a straight line alpha + beta s, the best for these rows, plus a remainder, so that

    X'y - sum of x A'(s)  =  X'(y - c) - X'X gamma - sum of x (A'(s) - alpha - beta s),   gamma = beta theta
    + (alpha - c) e_0

for any constant c. Tables of pairs answer for the first two terms, rows only for the last, which is small:
all of the noise that matters is in tables, whose noise is known, and drawing rows adds little. For linear
models nothing remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel
from margrave.regression.design import Design
from margrave.regression.families import Family

Floats = NDArray[np.float64]
Places = NDArray[np.int32]

STEPS = 50
"""Most Newton steps; six are enough unless the target is separated from its levels."""
PRECISE = 1e-8
"""Relative size of a step after which none follows: it leaves a tenth of itself at most."""
ROUGH, FOUND = 1e-5, 1e-10
"""Share of the likelihood that a step has to gain for another to follow, where a maximum is looked for to
begin with, and where it is the answer."""
SLOW = 0.1
"""Share of what there is to gain that a step may leave before the Hessian is made anew."""
MOVED = 1e-4
"""Distance in units of the linear predictor by which a Hessian may be off when it is returned: it is wrong by
about that share, far below the noise of what it multiplies."""
RIDGE = 1e-9
"""Added to X'X over the number of rows, whose diagonal is 1, so that collinear columns have finite
coefficients."""
SEPARATED = 1e-7
"""The same where maximising: a target that a level determines has no finite coefficients."""


COUNTED = 3
"""Numbers a feature has on average from which on X'WX is made of counts of pairs of codes: these take about
1 ns a row and pair of features, a matrix product about 0.2 ns a row and pair of numbers."""
MAX_JOINED = 256
"""Combinations of codes up to which features are looked at as one: on Adult X'WX takes least with 256, three
times as long with 512, on claims-a as long with 128 to 512 (bench/LOG.md)."""


@compile_kernel
def _add_numbers(lines: Places, numbers: Floats, found: Floats) -> None:
    """Add the numbers of each row's codes, shape [codes], to what is there of the row: shape [rows]."""
    for row in range(len(lines)):
        line, total = lines[row], found[row]
        for j in range(len(line)):
            total += numbers[line[j]]
        found[row] = total


@compile_kernel
def _add_weights(lines: Places, weights: Floats, found: Floats) -> None:
    """Add each row's weight to each of its codes, shape [codes]."""
    for row in range(len(lines)):
        line, weight = lines[row], weights[row]
        for j in range(len(line)):
            found[line[j]] += weight


@compile_kernel
def _add_pairs(lines: Places, feature: int, first: int, weights: Floats, found: Floats) -> None:
    """Add each row's weight to its pairs of one feature's code, from `first` on, with codes of later ones.

    Shape of found: [codes of the feature, all codes]. A row's cells lie apart, so that none waits for the one
    before it.
    """
    for row in range(len(lines)):
        line, weight = lines[row], weights[row]
        own = found[line[feature] - first]
        for k in range(feature + 1, len(line)):
            own[line[k]] += weight


@dataclass(frozen=True, slots=True)
class _Joined:
    """Features that are looked at as one, whose codes are the combinations of theirs that rows have.

    Args:
        places: Of their numbers among all, shape [numbers].
        matrix: The numbers of each combination, shape [numbers, combinations].
        codes: The combination of each row, shape [rows].
    """

    places: NDArray[np.int64]
    matrix: Floats
    codes: NDArray[np.int64]

    def join(self, other: _Joined) -> _Joined | None:
        """Both as one; None where rows have more than MAX_JOINED combinations of their codes."""
        size = other.matrix.shape[1]
        if self.matrix.shape[1] * size > MAX_JOINED**2:
            return None
        cells = self.codes * size + other.codes
        held = np.bincount(cells, minlength=1) > 0
        one, two = np.divmod(np.flatnonzero(held), size)
        if len(one) > MAX_JOINED:
            return None
        matrix = np.vstack([self.matrix[:, one], other.matrix[:, two]])
        return _Joined(np.concatenate([self.places, other.places]), matrix, (np.cumsum(held) - 1)[cells])


def _join_features(design: Design, codes: Sequence[NDArray[np.int64]]) -> list[_Joined]:
    """All features, those of few codes joined; each feature's codes have shape [rows]."""
    found: list[_Joined] = []
    for j in sorted(range(len(codes)), key=lambda j: design.matrices[j].shape[1]):
        places = np.arange(design.starts[j], design.starts[j + 1])
        alone = _Joined(places, design.matrices[j], codes[j])
        both = found[-1].join(alone) if found else None
        found[-1:] = [*found[-1:], alone] if both is None else [both]
    return found


@dataclass(frozen=True)
class ModelRows:
    """Rows of the model in the design's numbers, kept as codes: sums over rows are sums over tables.

    Args:
        design: Target and features.
        codes: Of each feature, shape [rows].
        labels: Centred labels, shape [rows].
        weight: How many rows of the private table one of these stands for.
    """

    design: Design
    codes: tuple[NDArray[np.int64], ...]
    labels: Floats
    weight: float

    def predict(self, theta: Floats) -> Floats:
        """The linear predictor x'theta, shape [rows]."""
        found = np.full(len(self.labels), theta[0])
        if self._joined:
            numbers = [theta[part.places] @ part.matrix for part in self._joined]
            _add_numbers(self._lines, np.concatenate(numbers), found)
        return found

    def sum_weighted(self, weights: Floats) -> Floats:
        """The sum over rows of x times a weight a row, times `weight`: shape [p]."""
        return self.weight * self._sum_tables(float(weights.sum()), self._sum_codes(weights))

    def sum_codes(self, numbers: Sequence[Floats]) -> Floats:
        """The sum over rows of x times a number of the code that it comes from, times `weight`: shape [p].

        Args:
            numbers: Of each feature's codes, shape [codes] each; the constant's is `middle` of the design.
        """
        found = np.zeros(self.design.size)
        found[0] = len(self.labels) * self.design.middle
        for j, (matrix, own) in enumerate(zip(self.design.matrices, numbers, strict=True)):
            counts = np.bincount(self.codes[j], minlength=matrix.shape[1])
            found[self.design.places(j)] = matrix @ (counts * own)
        return self.weight * found

    def cross(self, weights: Floats) -> Floats:
        """The sum over rows of x x' times a weight a row, times `weight`: shape [p, p]."""
        design, matrices = self.design, self.design.matrices
        if design.size <= COUNTED * len(matrices):
            return np.asarray(self.weight * ((self._numbers * weights) @ self._numbers.T))
        weights, sums = np.ascontiguousarray(weights), self._sum_codes(weights)
        # Numbers stand in the order of the joined features here, so that blocks are stretches of it.
        order = np.concatenate([[0], *(part.places for part in self._joined)])
        found, starts, at = np.zeros((design.size, design.size)), self._starts, 1
        found[0] = self._sum_tables(float(weights.sum()), sums)[order]
        for j, part in enumerate(self._joined):
            own, end = slice(starts[j], starts[j + 1]), at + len(part.places)
            found[at:end, at:end] = (part.matrix * sums[own]) @ part.matrix.T
            tables = np.zeros((part.matrix.shape[1], starts[-1]))
            _add_pairs(self._lines, j, int(starts[j]), weights, tables)
            turned, beside = part.matrix @ tables[:, own.stop :], end
            for k, other in enumerate(self._joined[j + 1 :], j + 1):
                inside = slice(starts[k] - own.stop, starts[k + 1] - own.stop)
                found[at:end, beside : beside + len(other.places)] = turned[:, inside] @ other.matrix.T
                beside += len(other.places)
            at = end
        placed = np.empty_like(found)
        placed[np.ix_(order, order)] = np.triu(found) + np.triu(found, 1).T
        return np.asarray(self.weight * placed)

    def _sum_codes(self, weights: Floats) -> Floats:
        """The sum of weights a row by code of joined features: shape [their codes]."""
        sums = np.zeros(self._starts[-1])
        _add_weights(self._lines, np.ascontiguousarray(weights), sums)
        return sums

    def _sum_tables(self, constant: float, sums: Floats) -> Floats:
        """Sums of the constant and of the numbers of codes, of sums by code: shape [p] of [codes]."""
        found = np.zeros(self.design.size)
        found[0] = constant
        for j, part in enumerate(self._joined):
            found[part.places] = part.matrix @ sums[self._starts[j] : self._starts[j + 1]]
        return found

    @cached_property
    def _numbers(self) -> Floats:
        """x of every row, for few numbers of many codes: shape [p, rows]."""
        found = np.ones((self.design.size, len(self.labels)))
        for j, (matrix, codes) in enumerate(zip(self.design.matrices, self.codes, strict=True)):
            np.take(matrix, codes, axis=1, out=found[self.design.places(j)], mode="clip")
        return found

    @cached_property
    def _joined(self) -> list[_Joined]:
        """The features, some as one."""
        return _join_features(self.design, self.codes)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        """Place of each one's first code among all, and the number of all codes: shape [joined + 1]."""
        return np.cumsum([0, *(part.matrix.shape[1] for part in self._joined)])

    @cached_property
    def _lines(self) -> Places:
        """Places of a row's codes among all, shape [rows, joined]."""
        found = np.zeros((len(self.labels), len(self._joined)), dtype=np.int32)
        for j, part in enumerate(self._joined):
            found[:, j] = part.codes + self._starts[j]
        return found


@dataclass(frozen=True, slots=True)
class Line:
    """Where a coefficient vector stands: the straight line, and what is left.

    Args:
        gamma: By which X'X is multiplied, shape [p].
        remainder: Sum over rows of x times what the line leaves of the mean, shape [p].
        beta: Slope of the line.
    """

    gamma: Floats
    remainder: Floats
    beta: float


def score_at(theta: Floats, design: Design, rows: ModelRows, family: Family) -> Line:
    """The line and the remainder at coefficients of the centred design, shape [p].

    The score is b - G gamma - remainder, and minus its derivative is beta G + `curvature_at`.
    """
    predictor = rows.predict(theta)
    mean = family.mean(predictor)
    off = predictor - predictor.mean() if len(predictor) else predictor
    spread = float(off @ off)
    if spread > 1e-12 * max(len(off), 1):
        beta = float(off @ mean) / spread
    else:
        beta = float(family.slope(predictor).mean()) if len(predictor) else 1.0
    alpha = float((mean - beta * predictor).mean()) if len(mean) else 0.0
    gamma = beta * theta
    gamma[0] += alpha - design.middle
    if family.affine:
        return Line(gamma, np.zeros(design.size), beta)
    remainder = rows.sum_weighted(mean - alpha - beta * predictor)
    return Line(gamma, remainder, beta)


def curvature_at(theta: Floats, line: Line, design: Design, rows: ModelRows, family: Family) -> Floats:
    """What the remainder adds to minus the derivative of the score, shape [p, p]; 0 for linear models."""
    if family.affine:
        return np.zeros((design.size, design.size))
    return rows.cross(family.slope(rows.predict(theta)) - line.beta)


def fit_model(
    design: Design,
    rows: ModelRows,
    family: Family,
    labelled: Floats,
    crossed: Floats,
    ridge: Floats,
    means: Sequence[Floats],
) -> tuple[Floats, Floats]:
    """The coefficients at which b - G gamma - remainder is ridge theta, and minus the derivative of the left.

    The search begins at the maximum of the likelihood of the model's rows, which need not be found well;
    where it does not end it begins once more at that maximum itself, as for a target that a level determines.

    Args:
        design: Target and features.
        rows: Of the model.
        family: Of the regression.
        labelled: b, X'y with centred labels, shape [p].
        crossed: G, X'X of the rows that have a target, shape [p, p].
        ridge: By which the diagonal of X'X is raised, shape [p].
        means: Of the labels given each code of each feature, shape [codes] each; not needed where the family
            is affine.

    Returns:
        theta in the centred design, shape [p], 0 where a coefficient is not fitted; and H, shape [p, p].
    """
    equations = _Equations(design, rows, family, labelled, crossed, ridge, tuple(means))
    if family.affine:
        return _solve(equations, np.zeros(design.size))[:2]
    search = _climb(equations)
    start = _stop_at(search, ROUGH, np.zeros(design.size))
    theta, hessian, ended = _solve(equations, start)
    if not ended:
        theta, hessian, _ = _solve(equations, _stop_at(search, FOUND, start))
    return theta, hessian


@dataclass(frozen=True, slots=True)
class _Equations:
    """What `fit_model` solves; see there."""

    design: Design
    rows: ModelRows
    family: Family
    labelled: Floats
    crossed: Floats
    ridge: Floats
    means: tuple[Floats, ...]

    def line(self, at: Floats) -> Line:
        return score_at(at, self.design, self.rows, self.family)

    def score(self, at: Floats, line: Line) -> Floats:
        return self.labelled - self.crossed @ line.gamma - line.remainder - self.ridge * at

    def hessian(self, at: Floats, line: Line) -> Floats:
        return line.beta * self.crossed + curvature_at(at, line, self.design, self.rows, self.family)

    def invert(self, hessian: Floats) -> Floats:
        return _invert(hessian + np.diag(self.ridge), self.design.free)


def _solve(equations: _Equations, theta: Floats) -> tuple[Floats, Floats, bool]:
    """The coefficients by Newton steps from others, shape [p]; H there; and whether the steps ended."""
    free, affine = equations.design.free, equations.family.affine
    line = equations.line(theta)
    score, hessian = equations.score(theta, line), equations.hessian(theta, line)
    inverse, ended = equations.invert(hessian), affine
    since = 0.0  # how far theta has moved since the Hessian was made
    for _ in range(1 if affine else STEPS):
        step = inverse @ score
        moved = equations.line(theta + step)
        left = equations.score(theta + step, moved)
        part = float(np.abs(left[free]).max(initial=0.0) / max(np.abs(score[free]).max(initial=0.0), 1e-300))
        if part <= 1.0:
            theta, line, score, since = theta + step, moved, left, since + float(np.abs(step).max())
        elif since == 0.0:
            break
        if part <= 1.0 and np.abs(step).max() <= PRECISE * max(1.0, float(np.abs(theta).max())):
            ended = True
            break
        if part > SLOW:
            hessian, since = equations.hessian(theta, line), 0.0
            inverse = equations.invert(hessian)
    if since > MOVED and not affine:
        hessian = equations.hessian(theta, line)
    return theta, hessian, ended


def _invert(hessian: Floats, free: NDArray[np.int64]) -> Floats:
    """The inverse of a Hessian over the free places, 0 elsewhere, shape [p, p].

    Combinations of less than RIDGE, in units of the diagonal, are left out: collinear columns stay finite. So
    is a column that is 0 in all rows; its unit is 1, as a tiny one would make rounding of the others large.
    """
    diagonal = np.diag(hessian)[free]
    units = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(hessian[np.ix_(free, free)] / np.outer(units, units))
    steady = np.where(values > RIDGE, values, np.inf)
    found = np.zeros_like(hessian)
    found[np.ix_(free, free)] = (vectors / steady) @ vectors.T / np.outer(units, units)
    return found


def _stop_at(search: Iterator[tuple[Floats, float]], least: float, start: Floats) -> Floats:
    """Where the steps of a search gain no more than a share of the likelihood; start if there are none."""
    reached = start
    for theta, gain in search:
        reached = theta
        if gain <= least:
            break
    return reached


def _climb(equations: _Equations) -> Iterator[tuple[Floats, float]]:
    """Newton steps, halved where they are too long, towards the maximum of theta'X'y - sum of A(theta'x) -
    theta' ridge theta / 2 over the model's rows: theta after each, and the share of the likelihood it gained.

    X'y is what these rows have if the labels' mean given each code is the model's: by its own X'y a level of
    few rows could have more labels of 1 than there are rows of it, and a coefficient without bound. A Hessian
    costs more than all else, so it is used again for as long as each step leaves at most SLOW of what there
    was to gain. The first is that of the model's tables, where all rows have one curvature.
    """
    rows, family, free = equations.rows, equations.family, equations.design.free
    weight, count = rows.weight, len(rows.labels)
    pull = rows.sum_codes(equations.means)
    ridge = equations.ridge + SEPARATED * weight * max(count, 1)
    theta, predictor = np.zeros(equations.design.size), np.zeros(count)

    def value(at: Floats, predicted: Floats) -> float:
        total = weight * float(family.cumulant(predicted).sum())
        return float(pull @ at) - total - 0.5 * float(ridge @ at**2)

    best, last = value(theta, predictor), math.inf
    inverse = _invert(float(family.slope(np.zeros(1))[0]) * equations.crossed + np.diag(ridge), free)
    for _ in range(STEPS):
        score = pull - rows.sum_weighted(family.mean(predictor)) - ridge * theta
        step = inverse @ score
        if float(score @ step) > SLOW * last:
            inverse = _invert(rows.cross(family.slope(predictor)) + np.diag(ridge), free)
            step = inverse @ score
        last = float(score @ step)
        along, size = rows.predict(step), 1.0
        reached = value(theta + step, predictor + along)
        while size > 1e-6 and reached < best + 1e-4 * size * last:
            size /= 2.0
            reached = value(theta + size * step, predictor + size * along)
        theta, predictor, best = theta + size * step, predictor + size * along, reached
        yield theta, last / max(abs(best), 1.0)
