"""compare: total variation and association of synthetic against real. **Not private**."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.evaluation.comparison import ColumnPair, Comparison, PairMatrix
from margrave.evaluation.distance import cramers_v, shares, total_variation
from margrave.evaluation.references import Shuffled, bootstrap
from margrave.evaluation.rows import batches
from margrave.evaluation.samples import draw_pairs, say_sample, shown_pairs
from margrave.evaluation.score import Score
from margrave.schema.columns import Binned, Listed
from margrave.schema.domain import Clique, Domain
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Engine

MOST_TRIPLES = 500
SAMPLED_TRIPLES = 200
WIDTHS = {1: "columns", 2: "pairs", 3: "triples"}
TABLES = ("synthetic", "bootstrap", "shuffled")
SOURCES = {f"tv_{width}": "Chen et al. 2025, section 8.3 (fidelity), for pairs" for width in WIDTHS}
SOURCES["association"] = "Cramér 1946, section 21.9"
COST = "one table of counts a set of columns"

Table = NDArray[np.float64]


def compare(
    real: Engine,
    synthetic: Engine,
    *,
    schema: Schema | None = None,
    seed: int = 0,
    max_cells: int = 4_000_000,
) -> Comparison:
    """Hold a synthetic table against the real one.

    **Not private**: it reads exact counts of the real table. Do not publish what it returns.

    Args:
        real: Exact counts of the real table.
        synthetic: Exact counts of the synthetic one, over the same domain.
        schema: Gives kinds and labels of the columns; codes are shown without it.
        seed: Of the reference tables, and of the samples: of pairs where there are more than
            `samples.SAMPLED_PAIRS`, of triples where there are more than 500. The scope of a score says how
            many there are, and its note of how many they were drawn.
        max_cells: Tables of more cells are left out, and counted in `skipped`.

    Raises:
        InputError: The two have different domains, or one has no rows.
    """
    if real.domain != synthetic.domain:
        raise InputError(invalid("synthetic", "of the real table's domain", "Encode both under one schema."))
    run = _Run(real, synthetic, np.random.default_rng(seed), max_cells)
    tv = {width: run.distances(width) for width in WIDTHS}
    scores, references = _make_scores(tv, run.association, say_sample(*run.drawn))
    names = real.domain.names
    columns = tuple(run.column(name, schema) for name in names)
    return Comparison(scores, references, columns, run.matrix(), run.rows, run.skipped)


class _Run:
    """The tables of one comparison, counted in batches."""

    def __init__(self, real: Engine, synthetic: Engine, rng: np.random.Generator, max_cells: int) -> None:
        self._real, self._synthetic, self._rng, self._max_cells = real, synthetic, rng, max_cells
        self.domain: Domain = real.domain
        ones = [(name,) for name in self.domain.names]
        self._ones = {
            clique[0]: (first.reveal(), second.reveal())
            for clique, first, second in zip(ones, real.count(ones), synthetic.count(ones), strict=True)
        }
        first, second = next(iter(self._ones.values()))
        self.rows = (int(first.sum()), int(second.sum()))
        for param, rows in zip(("real", "synthetic"), self.rows, strict=True):
            if rows == 0:
                raise InputError(invalid(param, "a table with rows", "There is nothing to compare."))
        self._shuffled = Shuffled(self.domain, {name: pair[0] for name, pair in self._ones.items()}, rng)
        self.skipped = 0
        self.drawn = (0, 0)
        self.association: dict[str, list[float]] = {name: [] for name in TABLES}
        self._cells: dict[Clique, tuple[float, float, float]] = {}

    def distances(self, width: int) -> dict[str, list[float]]:
        """Total variation to the real table of every clique of a width, by kind of other table."""
        found: dict[str, list[float]] = {name: [] for name in TABLES}
        for batch in batches(self.domain, self._cliques(width)):
            pairs = zip(batch, self._real.count(batch), self._synthetic.count(batch), strict=True)
            for clique, first, second in pairs:
                counts = first.reveal()
                exact = shares(counts)
                others = (shares(second.reveal()), bootstrap(counts, self._rng), self._shuffled.share(clique))
                for name, other in zip(TABLES, others, strict=True):
                    found[name].append(total_variation(exact, other))
                if width == 2:
                    self._associate(clique, exact, others, found["synthetic"][-1])
        return found

    def _associate(self, clique: Clique, exact: Table, others: Sequence[Table], distance: float) -> None:
        truth = cramers_v(exact)
        values = [cramers_v(other) for other in others]
        for name, value in zip(TABLES, values, strict=True):
            self.association[name].append(abs(value - truth))
        self._cells[clique] = (distance, truth, values[0])

    def _pairs(self) -> list[Clique]:
        names = self.domain.names
        places, total = draw_pairs(len(names), self._rng)
        self.drawn = len(places), total
        return [(names[first], names[second]) for first, second in places]

    def _fill(self) -> None:
        """Count the pairs of the first columns that were not drawn: for the matrix, not for the scores."""
        names = self.domain.names
        shown = [(names[first], names[second]) for first, second in shown_pairs(len(names))]
        missing = [pair for pair in shown if pair not in self._cells]
        missing = [pair for pair in missing if self.domain.size(pair) <= self._max_cells]
        for batch in batches(self.domain, missing):
            for pair, *counts in zip(
                batch, self._real.count(batch), self._synthetic.count(batch), strict=True
            ):
                real, other = (shares(one.reveal()) for one in counts)
                self._cells[pair] = (total_variation(real, other), cramers_v(real), cramers_v(other))

    def _cliques(self, width: int) -> list[Clique]:
        names = self.domain.names
        if width < 3 or comb(len(names), 3) <= MOST_TRIPLES:
            everything = self._pairs() if width == 2 else list(combinations(names, width))
            kept = [clique for clique in everything if self.domain.size(clique) <= self._max_cells]
            self.skipped += len(everything) - len(kept)
            return kept
        drawn: dict[Clique, None] = {}
        for _ in range(20 * SAMPLED_TRIPLES):
            places = sorted(self._rng.choice(len(names), 3, replace=False).tolist())
            clique = tuple(names[place] for place in places)
            if self.domain.size(clique) <= self._max_cells:
                drawn[clique] = None
            if len(drawn) == SAMPLED_TRIPLES:
                break
        return list(drawn)

    def column(self, name: str, schema: Schema | None) -> ColumnPair:
        """One column's two distributions."""
        first, second = (shares(table) for table in self._ones[name])
        kind, labels, tail = "categorical", tuple(str(code) for code in range(first.size)), 0
        if schema is not None:
            column = schema[name]
            kind = column.kind
            if isinstance(column, Listed | Binned):
                labels = column.labels
            other = isinstance(column, Listed) and column.other is not None
            tail = int(other) + int(bool(column.missing))
        return ColumnPair(name, kind, labels, tail, first, second, total_variation(first, second))

    def matrix(self) -> PairMatrix:
        """All pairs, or those that were drawn and all of the first columns; NaN for the others."""
        if self.drawn[0] < self.drawn[1]:
            self._fill()
        size = len(self.domain)
        tables = np.full((3, size, size), np.nan)
        for (one, two), values in self._cells.items():
            row, column = self.domain.index(one), self.domain.index(two)
            tables[:, row, column] = tables[:, column, row] = values
        return PairMatrix(self.domain.names, tables[0], tables[1], tables[2])


def _make_scores(
    tv: dict[int, dict[str, list[float]]], association: dict[str, list[float]], sampled: str
) -> tuple[tuple[Score, ...], dict[str, dict[str, float]]]:
    families = [
        (
            f"tv_{width}",
            f"{len(tv[width]['synthetic'])} {word}",
            tv[width],
            f"total variation between the real and the other table of shares, over {word}",
        )
        for width, word in WIDTHS.items()
    ]
    families.append(
        (
            "association",
            f"{len(association['synthetic'])} pairs",
            association,
            "absolute difference of Cramér's V between the real and the other table, over pairs",
        )
    )
    scores: list[Score] = []
    references: dict[str, dict[str, float]] = {name: {} for name in TABLES[1:]}
    for key, scope, values, definition in families:
        if not values["synthetic"]:
            continue
        for word, reduce in (("mean", np.mean), ("max", np.max)):
            name = f"{key}_{word}"
            text = f"The {'mean' if word == 'mean' else 'largest'} {definition}."
            value = float(reduce(values["synthetic"]))
            note = sampled if scope.endswith(" pairs") else ""
            score = Score(
                name,
                value,
                "lower",
                scope,
                text,
                high=1.0,
                goal=0.0,
                source=SOURCES[key],
                cost=COST,
                note=note,
            )
            scores.append(score)
            for reference in references:
                references[reference][name] = float(reduce(values[reference]))
    return tuple(scores), references
