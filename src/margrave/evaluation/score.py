"""Score: one number about two tables, and Facts: what a metric says about itself. **Not private**."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Better = Literal["lower", "higher"]


@dataclass(frozen=True, slots=True)
class Score:
    """One number that says how close the synthetic rows are. **Not private**.

    Args:
        name: A short name, unique in a comparison.
        value: The number; NaN where it is not defined, and then `note` says why.
        better: Whether a good table has a lower or a higher value.
        scope: What it was computed over, as in "105 pairs".
        definition: What it means, a whole sentence.
        low: Least value there can be; None if there is none.
        high: Greatest value there can be; None if there is none.
        goal: The value of two equal tables; None if it depends on the table.
        source: Where it is defined, with the number of the equation or table.
        cost: How the time grows, in words.
        parts: The values it was made from, by name, such as one a column.
        note: What was left out, or why there is no value; empty if nothing.
        private: Whether it reads private rows, so that it must not be published.
        words: What stands out, whole sentences, the worst first.
    """

    name: str
    value: float
    better: Better
    scope: str
    definition: str
    low: float | None = 0.0
    high: float | None = None
    goal: float | None = None
    source: str = ""
    cost: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    private: bool = True
    words: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A JSON object; a value that is not defined is null. **Not private**."""
        return {
            "name": self.name,
            "value": _none_if_undefined(self.value),
            "better": self.better,
            "scope": self.scope,
            "definition": self.definition,
            "low": self.low,
            "high": self.high,
            "goal": self.goal,
            "source": self.source,
            "cost": self.cost,
            "parts": {name: _none_if_undefined(value) for name, value in self.parts.items()},
            "note": self.note,
            "private": self.private,
            "words": list(self.words),
        }


def _none_if_undefined(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a metric says about itself before it has seen a table. Public.

    Args:
        name: A short name, unique in the table of metrics.
        definition: What the number means, a whole sentence.
        better: Whether a good table has a lower or a higher value.
        low: Least value; None if there is none.
        high: Greatest value; None if there is none.
        goal: The value of two equal tables; None if it depends on the table.
        source: Where it is defined.
        cost: How the time grows, in words.
        reads: What it reads: "counts" of the cliques that it names (`Counted`), encoded "rows", or raw
            "values" where there are numbers.
        discloses: Whether it is about what the synthetic rows give away, not about how good they are.
        needs: What it is not defined without: "target" (a column to predict), "held_out" (real rows),
            "rules".
    """

    name: str
    definition: str
    better: Better = "lower"
    low: float | None = 0.0
    high: float | None = 1.0
    goal: float | None = 0.0
    source: str = ""
    cost: str = ""
    reads: Literal["counts", "rows", "values"] = "counts"
    discloses: bool = False
    needs: tuple[Literal["target", "held_out", "rules"], ...] = ()

    def score(
        self,
        value: float,
        scope: str,
        *,
        parts: Mapping[str, float] | None = None,
        note: str = "",
        words: tuple[str, ...] = (),
    ) -> Score:
        """A value of this metric. **Not private**."""
        return Score(
            *(self.name, float(value), self.better, scope, self.definition),
            *(self.low, self.high, self.goal, self.source, self.cost),
            parts=dict(parts or {}),
            note=note,
            words=words,
        )

    def undefined_score(self, scope: str, note: str) -> Score:
        """A score without a value, and why."""
        return self.score(math.nan, scope, note=note)
