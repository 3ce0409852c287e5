"""MeanDistance: how far the marginals of two tables are from each other, on average. **Not private**.

`KSComplement` and `TVComplement` say how alike single columns are, as SDMetrics counts it, and
`SlicedTransport` is the sliced Wasserstein distance of pairs, from tables of counts. Random queries ask both
tables for parts of the marginals of three columns: a range, a combination of codes, a threshold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import centres, cramers_v, shares, total_variation
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task
from margrave.schema.domain import Clique

Share = NDArray[np.float64]
WORDS = {1: "columns", 2: "pairs", 3: "triples", 4: "quadruples"}
"""How sets of columns are called, by how many columns they have."""


def l1_distance(first: Share, second: Share) -> float:
    """Sum of the absolute differences of two tables of shares, from 0 to 2."""
    return float(np.abs(first - second).sum())


def k_marginal(first: Share, second: Share) -> float:
    """NIST's points of one marginal: 1000 if equal, 0 if the tables have nothing in common."""
    return 1000 * (1 - total_variation(first, second))


def association_difference(first: Share, second: Share) -> float:
    """Absolute difference of Cramér's V of two two-way tables of shares."""
    return abs(cramers_v(first) - cramers_v(second))


@final
@dataclass(frozen=True, slots=True)
class MeanDistance:
    """The mean of a distance over marginals of some widths. **Not private**: it reads exact counts.

    Args:
        facts: What the metric says about itself.
        widths: Numbers of columns of a marginal; above a task's `max_cliques` they are drawn by its seed.
        distance: Of two tables of shares of one shape.
        unseen: Whether it is against held-out rows, where there are some.
        listed: Whether it takes the columns of listed values only.
    """

    facts: Facts
    widths: tuple[int, ...]
    distance: Callable[[Share, Share], float] = total_variation
    unseen: bool = False
    listed: bool = False

    def cliques(self, task: Task) -> Sequence[Clique]:
        """All cliques of the widths, or as many as the task allows, narrow ones first."""
        found = [clique for width in self.widths for clique in task.width(width)[0]]
        kept = set(task.listed)
        return [clique for clique in found if kept.issuperset(clique)] if self.listed else found

    def of(self, clique: Clique, real: Share, synthetic: Share, task: Task) -> tuple[float, ...]:
        """The distance of one clique's tables."""
        return (self.distance(real, synthetic),)

    def run(self, task: Task) -> Score:
        """The mean over cliques; its parts are the means of each width, and of pairs each pair."""
        kept = task.values_of(self)
        scope = f"{len(kept)} {', '.join(WORDS.get(w, f'{w}-way') for w in self.widths)}"
        notes = [text for width in self.widths if (text := task.width(width)[1])]
        if not kept:
            return self.facts.undefined_score(scope, "; ".join(["there is no such marginal", *notes]))
        parts = {" x ".join(clique): values[0] for clique, values in kept.items()}
        value = float(np.mean(list(parts.values())))
        return self.facts.score(value, scope, parts=parts, note="; ".join(notes))


DECIMALS = sys.float_info.dig - 1
"""Decimals that numbers are rounded to before they are compared, as SDMetrics does."""
UNSEEN = 1e-6
"""Rows that SDMetrics adds to the real count of a value that only the synthetic column has."""


def ks_complement(real: NDArray[np.float64], synthetic: NDArray[np.float64]) -> float:
    """1 minus the largest gap between two empirical distribution functions; NaN if a side is empty.

    Missing values (NaN) are left out and numbers rounded to 14 decimals, as SDMetrics does.
    """
    first, second = (np.sort(np.round(side[~np.isnan(side)], DECIMALS)) for side in (real, synthetic))
    if not (first.size and second.size):
        return float("nan")
    places = np.concatenate([first, second])
    below = [np.searchsorted(side, places, side="right") / side.size for side in (first, second)]
    return 1 - float(np.abs(below[0] - below[1]).max())


def tv_complement(real: NDArray[np.int64], synthetic: NDArray[np.int64]) -> float:
    """1 minus the total variation of two columns' counts; NaN if a side is empty.

    A value that only the synthetic column has counts as a millionth of a real row, as in SDMetrics.
    """
    if not (real.sum() and synthetic.sum()):
        return float("nan")
    padded = np.where((real == 0) & (synthetic > 0), UNSEEN, real.astype(np.float64))
    return 1 - float(np.abs(shares(padded) - shares(synthetic)).sum()) / 2


@final
@dataclass(frozen=True, slots=True)
class KSComplement:
    """Mean over numeric columns of `ks_complement` of the raw numbers. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The mean over columns; each column is a part."""
        first, second = task.real.numbers, task.synthetic.numbers
        parts = {name: ks_complement(first[name], second[name]) for name in task.numeric}
        return _mean(self.facts, parts, "numeric")


@final
@dataclass(frozen=True, slots=True)
class TVComplement:
    """Mean over columns of listed values of `tv_complement` of their codes. **Not private**.

    Missing values are left out; values that the schema does not list are one value.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The mean over columns; each column is a part."""
        names, parts = task.listed, {}
        cliques = [(name,) for name in names]
        counted = zip(names, task.real.count(cliques), task.synthetic.count(cliques), strict=True)
        for name, real, synthetic in counted:
            present = task.schema[name].present
            parts[name] = tv_complement(real[:present], synthetic[:present])
        return _mean(self.facts, parts, "listed")


def _mean(facts: Facts, parts: dict[str, float], kind: str) -> Score:
    known = [value for value in parts.values() if not np.isnan(value)]
    scope = f"{len(known)} {kind} columns"
    if not known:
        return facts.undefined_score(scope, f"no {kind} column has values in both tables")
    left = len(parts) - len(known)
    note = f"{left} left out, a table holds no value of it" if left else ""
    return facts.score(float(np.mean(known)), scope, parts=parts, note=note)


BLOCK = 1 << 20
"""Projected cells that are held at a time: 8 MiB an array."""


def sliced_distance(first: Share, second: Share, directions: NDArray[np.float64]) -> float:
    """The sliced 1-Wasserstein distance of two distributions over the cells of one table.

    The mean over directions of the distance of the projections, and that is the area between their
    distribution functions (Donhauser et al. 2024, equations 1 and 3).

    Args:
        first: Shares of the cells, of any number of axes.
        second: Shares of the same shape.
        directions: Unit vectors, shape [directions, axes].
    """
    change = (first - second).ravel()
    places = np.flatnonzero(change)
    if not places.size:
        return 0.0
    cells = np.unravel_index(places, first.shape)
    points = np.column_stack([centres(size)[cell] for size, cell in zip(first.shape, cells, strict=True)])
    total, step = 0.0, max(1, BLOCK // places.size)
    for start in range(0, len(directions), step):
        heights = directions[start : start + step] @ points.T
        order = np.argsort(heights, axis=1)
        gaps = np.diff(np.take_along_axis(heights, order, axis=1), axis=1)
        # Cells of no change may be left out: the distribution functions differ by the same there.
        running = np.cumsum(change[places][order], axis=1)
        total += float((np.abs(running[:, :-1]) * gaps).sum())
    return total / len(directions)


@final
@dataclass(frozen=True, slots=True)
class SlicedTransport:
    """The mean sliced Wasserstein distance over pairs of columns. **Not private**.

    Args:
        facts: What the metric says about itself.
        directions: How many directions are drawn, by the task's seed.
    """

    facts: Facts
    directions: int = 100
    unseen: bool = False

    def cliques(self, task: Task) -> Sequence[Clique]:
        """All pairs, or as many as the task allows."""
        return task.width(2)[0]

    def of(self, clique: Clique, real: Share, synthetic: Share, task: Task) -> tuple[float, ...]:
        """The distance of one pair's tables."""
        return (sliced_distance(real, synthetic, self._draw_directions(task)),)

    def run(self, task: Task) -> Score:
        """The mean over pairs; each pair is a part."""
        kept = task.values_of(self)
        scope, note = f"{len(kept)} pairs, {self.directions} directions", task.width(2)[1]
        if not kept:
            return self.facts.undefined_score(scope, "there is no pair of columns")
        parts = {" x ".join(clique): values[0] for clique, values in kept.items()}
        return self.facts.score(float(np.mean(list(parts.values()))), scope, parts=parts, note=note)

    def _draw_directions(self, task: Task) -> NDArray[np.float64]:
        def draw() -> NDArray[np.float64]:
            vectors = task.rng(self.facts.name).normal(size=(self.directions, 2))
            return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

        return task.once(f"directions of {self.facts.name}", draw)


Mask = NDArray[np.bool_]
WIDTH = 3
"""Columns that a query asks about."""


def _all(parts: list[Mask]) -> float:
    return float(np.logical_and.reduce(parts).mean())


def _columns(task: Task, rng: np.random.Generator) -> list[str]:
    width = min(WIDTH, len(task.names))
    return [task.names[place] for place in rng.choice(len(task.names), width, replace=False)]


@final
@dataclass(frozen=True, slots=True)
class RangeQueries:
    """Mean absolute error of random 3-way queries. **Not private**.

    A query is about three distinct columns drawn at random: a column of numbers is asked for an interval
    between two values drawn evenly from its range, any other for one value drawn evenly from those that
    occur. Numbers are taken raw, the range and the values from the real rows.

    Args:
        facts: What the metric says about itself.
        queries: How many are drawn, by the task's seed.
    """

    facts: Facts
    queries: int = 1000

    def run(self, task: Task) -> Score:
        """The mean over queries of |share of synthetic rows - share of held-out rows|."""
        rng = task.rng(self.facts.name)
        errors = []
        for _ in range(self.queries):
            real, synthetic = [], []
            for name in _columns(task, rng):
                first, second = self._ask(task, name, rng)
                real.append(first)
                synthetic.append(second)
            errors.append(abs(_all(real) - _all(synthetic)))
        return self.facts.score(float(np.mean(errors)), f"{self.queries} queries")

    @staticmethod
    def _ask(task: Task, name: str, rng: np.random.Generator) -> tuple[Mask, Mask]:
        """Which rows of the truth and of the synthetic table one column of a query holds for."""
        sides = (task.truth, task.synthetic)
        known = task.truth.numbers[name] if name in task.numeric else np.zeros(0)
        if np.isnan(known).all():
            present = task.once(f"codes of {name}", lambda: np.unique(task.truth.encoded.column(name)))
            code = rng.choice(present)
            first, second = (side.encoded.column(name) == code for side in sides)
            return first, second
        bounds = task.once(f"range of {name}", lambda: (np.nanmin(known), np.nanmax(known)))
        low, high = np.sort(rng.uniform(bounds[0], bounds[1], 2))
        first, second = ((side.numbers[name] >= low) & (side.numbers[name] <= high) for side in sides)
        return first, second


@final
@dataclass(frozen=True, slots=True)
class CountingQueries:
    """Relative error of random 3-sparse counting queries over codes. **Not private**.

    Each of three columns is asked for an interval of codes, the lower end drawn evenly from all codes and
    then the upper from those not below it; drawn again until 5 % to 95 % of the real rows are inside.

    Args:
        facts: What the metric says about itself.
        queries: How many are drawn, by the task's seed.
        tries: Queries in a row that hold for too few or too many rows before the metric gives up.
    """

    facts: Facts
    queries: int = 200
    tries: int = 1000

    def run(self, task: Task) -> Score:
        """The sum over queries of the absolute differences over the sum of the real answers."""
        rng = task.rng(self.facts.name)
        answers: list[tuple[float, float]] = []
        failed = 0
        while len(answers) < self.queries and failed < self.tries:
            box = [self._interval(task, name, rng) for name in _columns(task, rng)]
            real = self._inside(task.real, box)
            failed += 1
            if 0.05 <= real <= 0.95:
                answers.append((real, self._inside(task.synthetic, box)))
                failed = 0
        scope = f"{len(answers)} queries"
        if not answers:
            return self.facts.undefined_score(scope, "no query held for 5 % to 95 % of the real rows")
        return self.facts.score(_relative(answers), scope)

    @staticmethod
    def _interval(task: Task, name: str, rng: np.random.Generator) -> tuple[str, int, int]:
        size = task.truth.domain[name]
        low = int(rng.integers(size))
        return name, low, int(rng.integers(low, size))

    @staticmethod
    def _inside(rows: Rows, box: list[tuple[str, int, int]]) -> float:
        codes = [(rows.encoded.column(name), low, high) for name, low, high in box]
        return _all([(column >= low) & (column <= high) for column, low, high in codes])


@final
@dataclass(frozen=True, slots=True)
class ThresholdQueries:
    """Relative error of random 3-sparse linear threshold queries over embedded codes. **Not private**.

    A query is the share of rows with <x, theta> above a threshold: theta is a random direction of three
    random columns, the threshold drawn evenly between the least and the greatest <x, theta> of the real
    rows. (The paper writes <x, theta> + b > 0 with b from that very interval; the sign of b is taken so
    that the threshold is inside it.)

    Args:
        facts: What the metric says about itself.
        queries: How many are drawn, by the task's seed.
    """

    facts: Facts
    queries: int = 200

    def run(self, task: Task) -> Score:
        """The sum over queries of the absolute differences over the sum of the real answers."""
        rng, answers = task.rng(self.facts.name), []
        for _ in range(self.queries):
            names = _columns(task, rng)
            theta = rng.normal(size=len(names))
            theta /= np.linalg.norm(theta)
            real, synthetic = (self._along(side, names, theta) for side in (task.real, task.synthetic))
            threshold = rng.uniform(real.min(), real.max())
            answers.append((float((real > threshold).mean()), float((synthetic > threshold).mean())))
        scope = f"{len(answers)} queries"
        if not sum(real for real, _ in answers):
            return self.facts.undefined_score(scope, "no real row is above any threshold")
        return self.facts.score(_relative(answers), scope)

    @staticmethod
    def _along(rows: Rows, names: list[str], theta: NDArray[np.float64]) -> NDArray[np.float64]:
        total = np.zeros(rows.size)
        for name, weight in zip(names, theta, strict=True):
            total += (weight * centres(rows.domain[name]))[rows.encoded.column(name)]
        return total


def _relative(answers: list[tuple[float, float]]) -> float:
    """Equation 9 of Donhauser et al. 2024: mean difference over mean real answer."""
    real, synthetic = np.array(answers).T
    return float(np.abs(synthetic - real).sum() / real.sum())
