"""Scores that see dependence, which a mean of total variations hides. **Not private**.

Covariances and correlations compare columns in pairs, by their numbers. Kernels over pairs of columns sum,
for all pairs of codes, the dependence above what independence and sampling noise give, from exact counts: the
metrics say what share of the real table's dependence a synthetic table keeps, and how much it invents.
Orders and rank correlations of columns are in `margrave.evaluation.metrics.orders`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast, final

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.evaluation.distance import embed_rows
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task, draw_pairs, say_sample
from margrave.schema.encoded import Encoded

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Numbers = NDArray[np.float64]
Codes = NDArray[np.int32]
Pairs = NDArray[np.int64]

MEASURES = ("real", "noise", "deviation", "bound", "kept", "synthetic", "synthetic_noise", "synthetic_bound")
"""What `measure_pairs` gives of a pair, in this order; docs/metrics.md defines each."""


def _compile(kernel: Kernel) -> Kernel:
    """Compile with Numba, once a machine: cached on disk, without the interpreter's lock."""
    return cast(Kernel, njit(cache=True, nogil=True)(kernel))


@_compile
def _mean_deviation(mean: float) -> float:
    """E|X - mean| of a Poisson number X (De Moivre): 2 exp(-m) m^(k+1) / k! with k the whole part of m."""
    if mean <= 0.0:
        return 0.0
    whole = math.floor(mean)
    return 2.0 * math.exp(-mean + (whole + 1.0) * math.log(mean) - math.lgamma(whole + 1.0))


@_compile
def _add_margins(table: Numbers, first: int, second: int, rows: Numbers, columns: Numbers) -> None:
    """Margins of the first cells of a flat table of shares."""
    rows[:first] = 0.0
    columns[:second] = 0.0
    for i in range(first):
        for j in range(second):
            share = table[i * second + j]
            rows[i] += share
            columns[j] += share


@_compile
def _largest_possible(rows: Numbers, columns: Numbers) -> float:
    """The most dependence that such margins allow: the less of their chances that two draws differ."""
    return min(1.0 - np.sum(rows * rows), 1.0 - np.sum(columns * columns))


@_compile
def _noise(rows: Numbers, columns: Numbers, size: int) -> tuple[float, float]:
    """Mean and standard deviation of the dependence that `size` rows of independent columns show.

    A cell's count is taken as a Poisson number about what the margins say, and its deviation shrunk by
    sqrt((1 - p) (1 - q)), since the margins are those of the rows themselves. Cells of one row or column hang
    together; the deviation is raised by the ratio of all cells to the free ones.
    """
    mean, variance = 0.0, 0.0
    # Rows and columns of the table that are not empty.
    first, second = 0, 0
    for p in rows:
        first += p > 0.0
    for q in columns:
        second += q > 0.0
    if first < 2 or second < 2:
        return 0.0, 0.0
    for p in rows:
        for q in columns:
            if p > 0.0 and q > 0.0:
                # The expected |count - expected| of a Poisson number, and the rest of its variance about
                # that.
                expected = size * p * q
                shrunk = (1.0 - p) * (1.0 - q)
                deviation = _mean_deviation(expected)
                mean += deviation * math.sqrt(shrunk)
                variance += max(0.0, expected - deviation * deviation) * shrunk
    # (R C) / ((R - 1) (C - 1)): all cells over the degrees of freedom.
    free = first * second / ((first - 1.0) * (second - 1.0))
    # Half the sum of absolute deviations is total variation; over `size` it is a share of the rows.
    return 0.5 * mean / size, 0.5 * math.sqrt(variance * free) / size


@_compile
def _compare_cells(tables: Numbers, margins: Numbers, first: int, second: int) -> tuple[float, float, float]:
    """Dependence of the real table, what the synthetic one has of it, and the synthetic table's own."""
    real, kept, synthetic = 0.0, 0.0, 0.0
    for i in range(first):
        for j in range(second):
            away = tables[0, i * second + j] - margins[0, i] * margins[1, j]
            other = tables[1, i * second + j] - margins[2, i] * margins[3, j]
            size = abs(away)
            real += 0.5 * size
            synthetic += 0.5 * abs(other)
            # Capped at the real cell's own distance, with its sign: more of it is not kept but invented.
            kept += 0.5 * max(-size, min(size, other if away >= 0.0 else -other))
    return real, kept, synthetic


@_compile
def measure_pairs(real: Codes, synthetic: Codes, sizes: Pairs, pairs: Pairs) -> Numbers:
    """The dependence of pairs of columns in two tables.

    Args:
        real: Codes, shape [columns, real rows].
        synthetic: Codes, shape [columns, synthetic rows].
        sizes: Codes of each column, shape [columns].
        pairs: Places of two columns each, shape [pairs, 2].

    Returns:
        `MEASURES` of each pair, shape [pairs, 8].
    """
    # One pair of buffers as large as the largest pair serves all of them.
    most = 1
    for k in range(pairs.shape[0]):
        most = max(most, sizes[pairs[k, 0]] * sizes[pairs[k, 1]])
    tables = np.zeros((2, most))
    margins = np.zeros((4, np.max(sizes)))
    found = np.zeros((pairs.shape[0], 8))
    for k in range(pairs.shape[0]):
        a, b = pairs[k, 0], pairs[k, 1]
        first, second = sizes[a], sizes[b]
        cells = first * second
        tables[:, :cells] = 0.0
        for t in range(real.shape[1]):
            tables[0, real[a, t] * second + real[b, t]] += 1.0
        for t in range(synthetic.shape[1]):
            tables[1, synthetic[a, t] * second + synthetic[b, t]] += 1.0
        tables[0, :cells] /= real.shape[1]
        tables[1, :cells] /= synthetic.shape[1]
        # Margins 0 and 1 are those of the real table, 2 and 3 those of the synthetic one.
        _add_margins(tables[0], first, second, margins[0], margins[1])
        _add_margins(tables[1], first, second, margins[2], margins[3])
        found[k, 0], found[k, 4], found[k, 5] = _compare_cells(tables, margins, first, second)
        found[k, 1], found[k, 2] = _noise(margins[0, :first], margins[1, :second], real.shape[1])
        found[k, 6] = _noise(margins[2, :first], margins[3, :second], synthetic.shape[1])[0]
        found[k, 3] = _largest_possible(margins[0, :first], margins[1, :second])
        found[k, 7] = _largest_possible(margins[2, :first], margins[3, :second])
    return found


@_compile
def order_holds(lower: Numbers, upper: Numbers) -> tuple[bool, int]:
    """Whether lower <= upper in every row that has both numbers, and in how many up to the first other."""
    rows = 0
    for t in range(lower.size):
        if lower[t] > upper[t]:
            return False, rows
        rows += lower[t] <= upper[t]
    return True, rows


@_compile
def count_exceeding(lower: Numbers, upper: Numbers) -> float:
    """The chance that a number drawn from `lower` exceeds one drawn from `upper`; both sorted, not empty."""
    total = 0.0
    below = 0
    for value in lower:
        while below < upper.size and upper[below] < value:
            below += 1
        total += below
    return total / (float(lower.size) * float(upper.size))


DEVIATIONS = 2.0
"""A pair counts as dependent if it lies as many standard deviations above the largest that noise is likely to
give in so many pairs, which is sqrt(2 log pairs) above its mean."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PairDependence:
    """The dependence of pairs of columns. **Not private**: its repr shows nothing.

    Args:
        names: The pairs, as in "age x job".
        strength: Of each pair in the real table, from 0 to 1: dependence above noise over the most that its
            margins allow; 0 where it is within noise. Shape [pairs].
        kept: What of the strength the synthetic table has too, below 0 where it is turned around; shape
            [pairs]. Noise gives as much above 0 as below.
        invented: The strength of what the synthetic table has and the real one has not, shape [pairs].
        note: How many pairs were drawn, and how many are left out because their tables have too many cells.
    """

    names: tuple[str, ...]
    strength: Numbers
    kept: Numbers
    invented: Numbers
    note: str


def measure_dependence(task: Task) -> PairDependence:
    """The dependence of pairs of columns whose tables have at most `task.max_cells` cells: all, or a sample.

    The sample is the same for every metric and every table that a task holds against the real one.
    """
    return task.once("pair dependence", lambda: _measure_all(task))


def _measure_all(task: Task) -> PairDependence:
    domain = task.schema.domain
    every, total = draw_pairs(len(domain.names), task.rng("pair dependence"))
    places = [pair for pair in every if domain.sizes[pair[0]] * domain.sizes[pair[1]] <= task.max_cells]
    pairs = np.array(places, dtype=np.int64).reshape(-1, 2)
    sizes = np.array(domain.sizes, dtype=np.int64)
    measures = measure_pairs(_stack_codes(task.real), _stack_codes(task.synthetic), sizes, pairs)
    of = dict(zip(MEASURES, measures.T, strict=True))
    # The largest of many deviations of noise grows with the root of twice the logarithm of their number.
    far = DEVIATIONS + np.sqrt(2 * np.log(max(len(places), 1)))
    above = np.where(of["real"] > of["noise"] + far * of["deviation"], of["real"] - of["noise"], 0.0)
    # What the synthetic table has beyond what it keeps, and beyond what sampling noise alone gives.
    invented = of["synthetic"] - np.clip(of["kept"], 0.0, None) - of["synthetic_noise"]
    return PairDependence(
        tuple(f"{domain.names[a]} x {domain.names[b]}" for a, b in places),
        _divide(above, of["bound"]),
        np.where(above > 0, _divide(np.minimum(of["kept"], above), of["bound"]), 0.0),
        np.clip(_divide(invented, of["synthetic_bound"]), 0.0, 1.0),
        _say_left_out(len(every) - len(places), task.max_cells, say_sample(len(every), total)),
    )


def _say_left_out(left_out: int, max_cells: int, sampled: str) -> str:
    large = f"{left_out} pairs left out, above {max_cells} cells" if left_out else ""
    return "; ".join(filter(None, [sampled, large]))


def _stack_codes(rows: Rows) -> NDArray[np.int32]:
    return np.stack([np.asarray(column, dtype=np.int32) for column in rows.encoded.columns])


def _divide(part: Numbers, whole: Numbers) -> Numbers:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 1e-12)


@final
@dataclass(frozen=True, slots=True)
class DependenceKept:
    """The share of the real dependence of pairs, above noise, that is kept. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """Sum of what is kept over the sum of strengths; the parts are the shares of the dependent pairs."""
        found = measure_dependence(task)
        dependent = np.flatnonzero(found.strength > 0)
        scope = f"{dependent.size} dependent pairs of {len(found.names)}"
        if not dependent.size:
            return self.facts.undefined_score(
                scope, "no pair of the real table depends beyond sampling noise"
            )
        shares = _divide(found.kept, found.strength)
        parts = {found.names[place]: float(shares[place]) for place in dependent}
        value = max(0.0, float(found.kept.sum() / found.strength.sum()))
        return self.facts.score(value, scope, parts=parts, note=found.note)


@final
@dataclass(frozen=True, slots=True)
class DependenceInvented:
    """Dependence of pairs that the synthetic table has and the real one has not, on average. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The mean over pairs; the parts are those of the pairs where something is invented."""
        found = measure_dependence(task)
        scope = f"{len(found.names)} pairs"
        if not found.names:
            return self.facts.undefined_score(
                scope, "; ".join(["there is no pair of columns", *filter(None, [found.note])])
            )
        parts = {found.names[place]: float(found.invented[place]) for place in np.flatnonzero(found.invented)}
        return self.facts.score(float(found.invented.mean()), scope, parts=parts, note=found.note)


BLOCK = 1 << 16
"""Rows whose indicators are held at a time."""


def covariance(rows: Encoded) -> NDArray[np.float64]:
    """The centred covariance matrix of embedded rows, over n: shape [attributes, attributes].

    **Not private** if the rows are real. Rows are taken in blocks, so that memory does not grow with them.
    """
    size = len(rows.domain)
    sums, products = np.zeros(size), np.zeros((size, size))
    for start in range(0, rows.rows, BLOCK):
        part = Encoded(rows.domain, tuple(column[start : start + BLOCK] for column in rows.columns))
        points = embed_rows(part) - 0.5
        sums += points.sum(axis=0)
        products += points.T @ points
    mean = sums / rows.rows
    return products / rows.rows - np.outer(mean, mean)


@final
@dataclass(frozen=True, slots=True)
class CovarianceError:
    """How far the covariance matrices of the embedded tables are apart, relatively. **Not private**.

    Args:
        facts: What the metric says about itself.
    """

    facts: Facts

    def run(self, task: Task) -> Score:
        """The Frobenius norm of the difference over that of the synthetic table's matrix."""
        real, synthetic = covariance(task.real.encoded), covariance(task.synthetic.encoded)
        scope, norm = f"{len(task.names)} columns", float(np.linalg.norm(synthetic))
        if norm < 1e-12:
            return self.facts.undefined_score(scope, "no column of the synthetic table varies")
        return self.facts.score(float(np.linalg.norm(real - synthetic)) / norm, scope)


def pearson(rows: Rows, first: str, second: str) -> float:
    """Pearson's coefficient over the rows that have both numbers; NaN where one of them is constant.

    **Not private** if the rows are real.
    """
    x, y = rows.numbers[first], rows.numbers[second]
    both = ~(np.isnan(x) | np.isnan(y))
    if both.sum() < 2:
        return float("nan")
    x, y = x[both] - x[both].mean(), y[both] - y[both].mean()
    if not (np.ptp(x) and np.ptp(y)):
        return float("nan")
    # Each is scaled first: squares of numbers such as microseconds since 1970 would lose digits.
    x, y = x / np.abs(x).max(), y / np.abs(y).max()
    return float(np.clip(x @ y / np.sqrt((x @ x) * (y @ y)), -1, 1))


def similarity(real: float, synthetic: float) -> float:
    """SDMetrics' CorrelationSimilarity of two coefficients: 1 if equal, 0 if 1 and -1."""
    return 1 - abs(real - synthetic) / 2


def pearson_difference(real: float, synthetic: float) -> float:
    """How far two coefficients are apart, from 0 to 2."""
    return abs(real - synthetic)


@final
@dataclass(frozen=True, slots=True)
class PairCorrelations:
    """The mean of something about the Pearson coefficients of pairs of raw numbers. **Not private**.

    Args:
        facts: What the metric says about itself.
        of: Of the real and the synthetic coefficient.
    """

    facts: Facts
    of: Callable[[float, float], float]

    def run(self, task: Task) -> Score:
        """The mean over pairs of numeric columns that vary in both tables; each pair is a part."""
        table = task.once("pearson", lambda: self._coefficients(task))
        parts = {" x ".join(pair): self.of(real, synthetic) for pair, (real, synthetic) in table.items()}
        known = [value for value in parts.values() if not np.isnan(value)]
        scope = f"{len(known)} pairs of numeric columns"
        if not known:
            return self.facts.undefined_score(
                scope, "there are no two numeric columns that vary in both tables"
            )
        left = len(parts) - len(known)
        total = len(task.numeric) * (len(task.numeric) - 1) // 2
        constant = f"{left} pairs left out, a column is constant" if left else ""
        note = "; ".join(filter(None, [say_sample(len(parts), total), constant]))
        return self.facts.score(float(np.mean(known)), scope, parts=parts, note=note)

    @staticmethod
    def _coefficients(task: Task) -> dict[tuple[str, str], tuple[float, float]]:
        sides, names = (task.real, task.synthetic), task.numeric
        return {
            (names[i], names[j]): (
                pearson(sides[0], names[i], names[j]),
                pearson(sides[1], names[i], names[j]),
            )
            for i, j in draw_pairs(len(names), task.rng("pairs of numbers"))[0]
        }
