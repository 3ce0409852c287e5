"""Score: one number about two tables, and Facts: what a metric says about itself. **Not private**.

`summarise` makes means with intervals of the scores of several runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid

Better = Literal["lower", "higher"]
Group = Literal[
    "Overall",
    "First look",
    "Single columns",
    "Dependence between columns",
    "Several columns at once",
    "Questions asked of the table",
    "Prediction",
    "Telling synthetic rows from real ones",
    "Rules",
    "What the rows may give away",
    "More",
]
GROUPS: tuple[Group, ...] = get_args(Group)
"""Headings under which a page puts scores, in its order."""


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
        title: What a page calls it; the name in words if it is empty.
        group: The heading under which a page puts it.
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
    title: str = ""
    group: Group = "More"

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
            "title": self.title,
            "group": self.group,
        }


def _none_if_undefined(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Facts:
    """What a metric says about itself before it has seen a table. Public.

    Args:
        name: A short name, unique in the table of metrics.
        definition: What the number means, a whole sentence.
        title: What a page calls it; the name in words if it is empty.
        group: The heading under which a page puts it, of `GROUPS`.
        better: Whether a good table has a lower or a higher value.
        low: Least value; None if there is none.
        high: Greatest value; None if there is none.
        goal: The value of two equal tables; None if it depends on the table.
        source: Where it is defined: a paper with its equation or section, or `docs/metrics.md, section`.
        cost: How the time grows, in words.
        reads: What it reads: "counts" of the cliques that it names (`Counted`), encoded "rows", or raw
            "values" where there are numbers.
        discloses: Whether it is about what the synthetic rows give away, not about how good they are.
        needs: What it is not defined without: "target" (a column to predict), "held_out" (real rows),
            "rules".
        single_columns: Whether it looks at each column alone, so that shuffled columns are as good as the
            table itself.

    Raises:
        InputError: There is no such group.
    """

    name: str
    definition: str
    title: str = ""
    group: Group = "More"
    better: Better = "lower"
    low: float | None = 0.0
    high: float | None = 1.0
    goal: float | None = 0.0
    source: str = ""
    cost: str = ""
    reads: Literal["counts", "rows", "values"] = "counts"
    discloses: bool = False
    needs: tuple[Literal["target", "held_out", "rules"], ...] = ()
    single_columns: bool = False

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise InputError(invalid("group", f"one of {list(GROUPS)}", "Name a heading.", got=self.group))

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
            title=self.title,
            group=self.group,
        )

    def undefined_score(self, scope: str, note: str) -> Score:
        """A score without a value, and why."""
        return self.score(math.nan, scope, note=note)


Method = Literal["t", "bootstrap"]
DRAWS = 10_000
"""Bootstrap samples of the runs: the ends of a 95 % interval are then the 250th mean from either side."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One metric over several runs. **Not private**.

    Args:
        name: Of the metric.
        mean: Over the runs in which it is defined; NaN if in none.
        spread: Standard deviation over runs, with n - 1; NaN for fewer than two.
        interval: Ends of the confidence interval of the mean; NaN for fewer than two runs.
        runs: How many runs it is defined in.
        better: Whether a good table has a lower or a higher value.
        method: "t" (Student's, for means that are about normal) or "bootstrap" (percentiles of means of
            runs drawn with replacement).
        level: Of the interval.
    """

    name: str
    mean: float
    spread: float
    interval: tuple[float, float]
    runs: int
    better: Better
    method: Method
    level: float

    def __str__(self) -> str:
        """The mean, half the interval and how it was made."""
        how = f"{self.level:.0%} {self.method}, {self.runs} runs"
        return f"{self.name} {self.mean:.4f} [{self.interval[0]:.4f}, {self.interval[1]:.4f}] ({how})"


def summarise(
    runs: Iterable[Sequence[Score]],
    *,
    level: float = 0.95,
    method: Method = "t",
    rng: np.random.Generator | None = None,
) -> tuple[Summary, ...]:
    """Mean, spread and confidence interval of each metric over runs, such as seeds. **Not private**.

    An interval covers what was drawn anew in each run: noise, training, perhaps the real rows, but no more.

    Args:
        runs: The scores of each run.
        level: Of the intervals, in (0, 1).
        method: "t" or "bootstrap"; below about eight runs the second is too narrow.
        rng: Draws the runs for "bootstrap".

    Raises:
        InputError: The level or method is none, or "bootstrap" has no rng.

    Example:
        >>> runs = [[Score("tv", value, "lower", "", "")] for value in (1.0, 2.0, 3.0)]
        >>> str(summarise(runs)[0])
        'tv 2.0000 [-0.4841, 4.4841] (95% t, 3 runs)'
    """
    if not 0 < level < 1:
        raise InputError(invalid("level", "between 0 and 1, both excluded", "Try 0.95.", got=level))
    if method not in ("t", "bootstrap"):
        raise InputError(invalid("method", "'t' or 'bootstrap'", "Pick one.", got=method))
    if method == "bootstrap" and rng is None:
        raise InputError(invalid("rng", "given for a bootstrap", "Try numpy.random.default_rng(0)."))
    found: dict[str, list[float]] = {}
    better: dict[str, Better] = {}
    for run in runs:
        for score in run:
            found.setdefault(score.name, []).append(score.value)
            better.setdefault(score.name, score.better)
    return tuple(
        _summary(name, np.array(values), better[name], level, method, rng) for name, values in found.items()
    )


def _summary(
    name: str,
    values: NDArray[np.float64],
    better: Better,
    level: float,
    method: Method,
    rng: np.random.Generator | None,
) -> Summary:
    # A run in which the score was not defined says nothing about its mean; how many did is kept as their
    # number.
    known = values[~np.isnan(values)]
    mean = float(known.mean()) if known.size else math.nan
    spread = float(known.std(ddof=1)) if known.size > 1 else math.nan
    interval = (math.nan, math.nan)
    if known.size > 1 and rng is not None and method == "bootstrap":
        means = known[rng.integers(0, known.size, (DRAWS, known.size))].mean(axis=1)
        low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
        interval = (float(low), float(high))
    elif known.size > 1:
        reach = _student(level, known.size - 1) * spread / math.sqrt(known.size)
        interval = (mean - reach, mean + reach)
    return Summary(name, mean, spread, interval, int(known.size), better, method, level)


def _student(level: float, freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf((1 + level) / 2, freedom))
