"""The share of a real table's dependence that a synthetic one keeps; what it invents. **Not private**."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.dependence.kernels import MEASURES, measure_pairs
from margrave.evaluation.rows import Rows
from margrave.evaluation.samples import draw_pairs, say_sample
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

__all__ = ["DependenceInvented", "DependenceKept", "PairDependence", "measure_dependence"]

Numbers = NDArray[np.float64]
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
    far = DEVIATIONS + np.sqrt(2 * np.log(max(len(places), 1)))
    above = np.where(of["real"] > of["noise"] + far * of["deviation"], of["real"] - of["noise"], 0.0)
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
            return self.facts.undefined(scope, "no pair of the real table depends beyond sampling noise")
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
            return self.facts.undefined(
                scope, "; ".join(["there is no pair of columns", *filter(None, [found.note])])
            )
        parts = {found.names[place]: float(found.invented[place]) for place in np.flatnonzero(found.invented)}
        return self.facts.score(float(found.invented.mean()), scope, parts=parts, note=found.note)
