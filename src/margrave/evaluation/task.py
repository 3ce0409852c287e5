"""Task: two tables, what is known of them, and what several metrics share of the work. **Not private**.

`draw_pairs` says which pairs of columns metrics compare where a table has very many columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import combinations
from math import comb
from typing import Any, Protocol, TypeVar, runtime_checkable
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.evaluation.distance import shares
from margrave.evaluation.rows import Rows, batches
from margrave.evaluation.score import Facts, Score
from margrave.schema.columns import Binned, Listed
from margrave.schema.constraints.rules import Rule
from margrave.schema.domain import Clique
from margrave.schema.schema import Schema

MOST_CELLS = 4_000_000
"""Cells of one table of counts, at most, unless a task says otherwise: 32 MB."""
MOST_CLIQUES = 500
"""Sets of columns of one width that are counted, at most, unless a task says otherwise."""

Share = NDArray[np.float64]
Values = dict[Clique, tuple[float, ...]]
Made = TypeVar("Made")


class Metric(Protocol):
    """A promise: one number about a real and a synthetic table. **Not private**: do not publish it."""

    @property
    def facts(self) -> Facts:
        """Its name, range, goal, cost and source."""

    def run(self, task: Task) -> Score:
        """The score of the task's synthetic table."""


@runtime_checkable
class Counted(Metric, Protocol):
    """A metric made from tables of counts, one clique at a time, so that several can share a pass."""

    def cliques(self, task: Task) -> Sequence[Clique]:
        """The cliques whose tables it wants."""

    def of(self, clique: Clique, real: Share, synthetic: Share, task: Task) -> tuple[float, ...]:
        """What it keeps of one clique's two tables of shares."""

    @property
    def unseen(self) -> bool:
        """Whether it is against the held-out rows, where there are some."""


class Task:
    """A real and a synthetic table for metrics to score. **Not private**.

    Args:
        real: The real rows that the synthetic ones were made from.
        synthetic: The synthetic rows, of the same domain.
        schema: The columns of both.
        held_out: Real rows that nothing was made from; metrics that want them use `real` without.
        target: The column to predict; metrics that need one are not defined without.
        seed: Of all that is drawn; each metric has a stream of its own.
        rules: Declared facts that rows should obey; those of the schema by default.
        max_cells: Tables of more cells are left out, and the score says so.
        max_cliques: Where there are more cliques of a width, as many are drawn.

    Raises:
        InputError: The domains differ, a table has no rows, or there is no such target.
    """

    def __init__(
        self,
        real: Rows,
        synthetic: Rows,
        schema: Schema,
        *,
        held_out: Rows | None = None,
        target: str | None = None,
        seed: int = 0,
        rules: Sequence[Rule] | None = None,
        max_cells: int = MOST_CELLS,
        max_cliques: int = MOST_CLIQUES,
    ) -> None:
        sides = {"real": real, "synthetic": synthetic} | ({"held_out": held_out} if held_out else {})
        for param, rows in sides.items():
            if rows.domain != schema.domain:
                raise InputError(invalid(param, "of the schema's domain", "Encode all under one schema."))
            if rows.size == 0:
                raise InputError(invalid(param, "a table with rows", "There is nothing to score."))
        if target is not None:
            schema.domain.index(target)
        self.real, self.synthetic, self.schema = real, synthetic, schema
        self.held_out, self.target, self.seed = held_out, target, seed
        self.rules = tuple(schema.rules if rules is None else rules)
        self.max_cells, self.max_cliques = max_cells, max_cliques
        self._values: dict[str, Values] = {}
        self._made: dict[str, Any] = {}

    def of(self, synthetic: Rows) -> Task:
        """The same task for another table in the synthetic one's place."""
        return Task(
            *(self.real, synthetic, self.schema),
            held_out=self.held_out,
            target=self.target,
            seed=self.seed,
            rules=self.rules,
            max_cells=self.max_cells,
            max_cliques=self.max_cliques,
        )

    @property
    def truth(self) -> Rows:
        """The held-out rows, or the real ones where there are none."""
        return self.held_out or self.real

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes."""
        return self.schema.domain.names

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """Names of the columns of numbers, dates and times whose raw values are known in every table."""
        sides = [side for side in (self.real, self.synthetic, self.held_out) if side is not None]
        return tuple(
            column.name
            for column in self.schema.attributes
            if isinstance(column, Binned) and all(column.name in side.numbers for side in sides)
        )

    @cached_property
    def listed(self) -> tuple[str, ...]:
        """Names of the columns of listed values."""
        return tuple(column.name for column in self.schema.attributes if isinstance(column, Listed))

    def rng(self, name: str) -> np.random.Generator:
        """The stream of one metric: the same whatever other metrics run."""
        return np.random.default_rng([self.seed, crc32(name.encode())])

    def once(self, key: str, make: Callable[[], Made]) -> Made:
        """What `make` returns, made on the first call: for work that several metrics share."""
        if key not in self._made:
            self._made[key] = make()
        made: Made = self._made[key]
        return made

    def width(self, width: int) -> tuple[list[Clique], str]:
        """Cliques of a width, all or a seeded sample where there are many, and a note on those left out."""
        return self.once(f"cliques of {width}", lambda: self._width(width))

    def _width(self, width: int) -> tuple[list[Clique], str]:
        names, domain = self.names, self.schema.domain
        total = comb(len(names), width)
        if total <= self.max_cliques:
            everything = list(combinations(names, width))
            kept = [clique for clique in everything if domain.size(clique) <= self.max_cells]
            large = len(everything) - len(kept)
            return kept, f"{large} left out, above {self.max_cells} cells" if large else ""
        rng, drawn = self.rng(f"cliques of {width}"), dict[Clique, None]()
        for _ in range(20 * self.max_cliques):
            places = np.sort(rng.choice(len(names), width, replace=False))
            clique = tuple(names[place] for place in places)
            if domain.size(clique) <= self.max_cells:
                drawn[clique] = None
            if len(drawn) == self.max_cliques:
                break
        return list(drawn), f"{len(drawn)} drawn of {total}"

    def survey(self, metrics: Sequence[Counted]) -> None:
        """Count all that some metrics want in one pass over each table, and let each keep what it needs."""
        wanted: dict[Clique, list[Counted]] = {}
        for metric in metrics:
            if metric.facts.name not in self._values:
                self._values[metric.facts.name] = {}
                for clique in metric.cliques(self):
                    wanted.setdefault(clique, []).append(metric)
        for batch in batches(self.schema.domain, list(wanted)):
            sides = [self.real.count(batch), self.synthetic.count(batch)]
            if self.held_out is not None and any(m.unseen for clique in batch for m in wanted[clique]):
                sides.append(self.held_out.count(batch))
            for place, clique in enumerate(batch):
                tables = [shares(side[place]) for side in sides]
                for metric in wanted[clique]:
                    real = tables[-1] if metric.unseen and len(tables) > 2 else tables[0]
                    values = metric.of(clique, real, tables[1], self)
                    self._values[metric.facts.name][clique] = values

    def values_of(self, metric: Counted) -> Values:
        """What a metric kept of each clique."""
        self.survey([metric])
        return self._values[metric.facts.name]


SAMPLED_PAIRS = 20_000
"""Most pairs of columns that are compared, all those of 200 columns. A pair takes up to a millisecond for
each score (bench/runs/wide.py); a mean of numbers from 0 to 1 over as many has a standard error of at most
0.0036."""


MAX_COLUMNS_SHOWN = 60
"""Columns, the first ones, whose pairs are all counted for the matrix, drawn or not: what a picture shows."""


def draw_pairs(columns: int, rng: np.random.Generator) -> tuple[list[tuple[int, int]], int]:
    """Pairs of column numbers in order: all, or SAMPLED_PAIRS of them, each set of these equally likely.

    Args:
        columns: How many there are.
        rng: Used only where there are more than SAMPLED_PAIRS.

    Returns:
        The pairs, the smaller number first, and how many there are in all.

    Example:
        >>> draw_pairs(3, np.random.default_rng(0))
        ([(0, 1), (0, 2), (1, 2)], 3)
    """
    total = columns * (columns - 1) // 2
    if total <= SAMPLED_PAIRS:
        return list(combinations(range(columns), 2)), total
    first, second = np.triu_indices(columns, 1)
    drawn = np.sort(rng.choice(total, SAMPLED_PAIRS, replace=False))
    return list(zip(first[drawn].tolist(), second[drawn].tolist(), strict=True)), total


def say_sample(drawn: int, total: int) -> str:
    """A note where pairs were drawn; empty where all are compared."""
    return f"{drawn} pairs drawn of {total}" if drawn < total else ""


def shown_pairs(columns: int) -> list[tuple[int, int]]:
    """All pairs of the first MAX_COLUMNS_SHOWN columns.

    Example:
        >>> len(shown_pairs(1000))
        1770
    """
    return list(combinations(range(min(columns, MAX_COLUMNS_SHOWN)), 2))
