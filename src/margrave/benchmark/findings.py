"""Findings: outcomes by table, method and epsilon, as means with intervals. **Not private.**"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from margrave.benchmark.methods import REFERENCES
from margrave.errors import InputError, invalid
from margrave.evaluation.score import Facts
from margrave.evaluation.summary import Summary, summarise
from margrave.evaluation.table import METRICS
from margrave.methods.table import METHODS

__all__ = ["Findings"]

Outcome = Mapping[str, Any]


class Findings:
    """What the cells of a benchmark found.

    Args:
        outcomes: As `results.read_results` gives them.
        metrics: Names of the metrics to look at; all there are by default.

    Raises:
        InputError: There are no outcomes, or there is no such metric among them.
    """

    def __init__(self, outcomes: Sequence[Outcome], metrics: Sequence[str] | None = None) -> None:
        if not outcomes:
            raise InputError(invalid("folder", "one with outcomes", "Run margrave bench first."))
        self.outcomes = tuple(outcomes)
        there = sorted({name for one in outcomes for name in one["scores"]} & set(METRICS))
        unknown = sorted(set(metrics or ()) - set(there))
        if unknown:
            raise InputError(invalid("metrics", f"among {there}", "Run the others first.", got=unknown))
        self.metrics = tuple(metrics or there)
        self.tables = tuple(sorted({str(one["data"]) for one in outcomes}))
        names = {str(one["method"]): str(one["kind"]) for one in outcomes}
        ours = [name for name in sorted(names, key=_rank) if names[name] != "reference"]
        self.methods = tuple(ours)
        self.references = tuple(name for name in REFERENCES if name in names)
        self.epsilons = tuple(sorted({one["epsilon"] for one in outcomes if one["epsilon"] is not None}))
        self._groups: dict[tuple[str, str, float | None], list[Outcome]] = {}
        for one in outcomes:
            self._groups.setdefault((one["data"], one["method"], one["epsilon"]), []).append(one)

    def facts(self, metric: str) -> Facts:
        """What a metric says about itself."""
        return METRICS[metric].facts

    def runs(self, table: str, method: str, epsilon: float | None) -> list[Outcome]:
        """The finished runs of a cell, by repeat; a reference's are the same for every epsilon."""
        key = (table, method, None if method in REFERENCES else epsilon)
        done = [one for one in self._groups.get(key, []) if one["status"] == "done"]
        return sorted(done, key=lambda one: int(one["repeat"]))

    def score(self, table: str, method: str, epsilon: float | None, metric: str) -> Summary | None:
        """A metric's mean over the runs of a cell; None where it is not defined in any."""
        values = [one["scores"].get(metric) for one in self.runs(table, method, epsilon)]
        facts = self.facts(metric)
        found = summarise([[facts.score(value, "")] for value in values if value is not None])
        return found[0] if found and not math.isnan(found[0].mean) else None

    def middle(self, table: str, method: str, epsilon: float | None, field: str) -> float | None:
        """The median of a measured field, such as seconds, over the runs of a cell."""
        found = [one.get(field) for one in self.runs(table, method, epsilon)]
        values = [float(value) for value in found if value is not None]
        return statistics.median(values) if values else None

    def ratio(self, table: str, method: str, epsilon: float, metric: str, against: str) -> float | None:
        """log2 of a mean error over that of another method; of what is missing to 1 where higher is better.

        As figures 1 and 2 of Donhauser et al. 2024. None where one of the two is not there or is 0.
        """
        errors = [self.error(table, name, epsilon, metric) for name in (method, against)]
        if errors[0] is None or errors[1] is None or not (errors[0] > 0 and errors[1] > 0):
            return None
        return math.log2(errors[0] / errors[1])

    def error(self, table: str, method: str, epsilon: float | None, metric: str) -> float | None:
        """A mean as an error: itself where lower is better, else its distance from the goal."""
        found = self.score(table, method, epsilon, metric)
        if found is None:
            return None
        facts = self.facts(metric)
        if facts.better == "lower":
            return found.mean
        best = facts.goal if facts.goal is not None else facts.high
        return None if best is None else best - found.mean

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """Cells that failed, by key."""
        failed = (one for one in self.outcomes if one["status"] != "done")
        return tuple(sorted(failed, key=lambda one: str(one["key"])))


def _rank(name: str) -> tuple[int, str]:
    """margrave's methods in the order of their table, then others by name."""
    plain = name.removesuffix("+target")
    place = list(METHODS).index(plain) if plain in METHODS else len(METHODS)
    return place, name
