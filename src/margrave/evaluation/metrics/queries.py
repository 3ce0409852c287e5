"""Random queries over three columns, asked of both tables. **Not private**."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import centres
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

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
        size = task.schema.domain[name]
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
