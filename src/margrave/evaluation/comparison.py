"""Comparison: what a comparison with the real table found, and `compare`, which makes one. **Not private**.

`compare` measures total variation and association of the synthetic table against the real one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.evaluation.distance import cramers_v, shares, total_variation
from margrave.evaluation.rows import Shuffled, batches, bootstrap
from margrave.evaluation.score import Group, Score
from margrave.evaluation.task import draw_pairs, say_sample, shown_pairs
from margrave.schema.columns import Binned, Listed
from margrave.schema.domain import Clique, Domain
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Engine


NOT_PRIVATE = "NOT PRIVATE — computed from the real table, do not publish"


def align_columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a plain table, its cells filled up to columns, and a rule below the first line."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    head, *body = [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return [head, "-" * len(head), *body]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnPair:
    """One column in the real and in the synthetic table. **Not private**.

    Args:
        name: Name of the column.
        kind: Its kind in the schema.
        labels: A label for each code.
        tail: How many of the last codes stand for other or missing values.
        real: Shares of the real rows, shape [codes].
        synthetic: Shares of the synthetic rows, shape [codes].
        tv: Total variation between the two.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    tail: int
    real: NDArray[np.float64]
    synthetic: NDArray[np.float64]
    tv: float


@dataclass(frozen=True, slots=True, eq=False)
class PairMatrix:
    """Every pair of columns. **Not private**.

    Args:
        names: Column names.
        tv: Total variation between the real and synthetic table of each pair, shape [columns, columns],
            symmetric, NaN on the diagonal and where the table was too large.
        real: Cramér's V in the real table, same shape.
        synthetic: Cramér's V in the synthetic table, same shape.
    """

    names: tuple[str, ...]
    tv: NDArray[np.float64]
    real: NDArray[np.float64]
    synthetic: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Comparison:
    """A synthetic table held against the real one. **Not private**: it is made of exact real counts.

    Its text, its repr and what a notebook shows of it all begin with the words NOT PRIVATE.

    Args:
        scores: Of the synthetic table.
        references: The same scores of reference tables, by reference and score name.
        columns: One entry a column, in order.
        pairs: All pairs of columns.
        rows: Number of real and of synthetic rows.
        skipped: How many tables were left out because they have too many cells.
    """

    scores: tuple[Score, ...]
    references: Mapping[str, Mapping[str, float]]
    columns: tuple[ColumnPair, ...]
    pairs: PairMatrix
    rows: tuple[int, int]
    skipped: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        """The value of a score.

        Raises:
            KeyError: There is none of this name.
        """
        return {score.name: score.value for score in self.scores}[name]

    def with_scores(
        self, scores: Sequence[Score], references: Mapping[str, Mapping[str, float]] | None = None
    ) -> Comparison:
        """The same comparison with more scores, such as those of `score_classifier`.

        Args:
            scores: To be added after the others.
            references: Their values for reference tables, by reference and score name.
        """
        merged = {name: dict(values) for name, values in self.references.items()}
        for name, values in (references or {}).items():
            merged.setdefault(name, {}).update(values)
        return dataclasses.replace(self, scores=(*self.scores, *scores), references=merged)

    def to_json(self) -> dict[str, Any]:
        """A JSON document; what is not defined is null. **Not private**."""
        return {
            "margrave_comparison": 1,
            "warning": NOT_PRIVATE,
            "rows": {"real": self.rows[0], "synthetic": self.rows[1]},
            "scores": [score.to_json() for score in self.scores],
            "references": {name: dict(values) for name, values in self.references.items()},
            "columns": [_column_json(column) for column in self.columns],
            "pairs": {
                "names": list(self.pairs.names),
                "tv": _matrix_json(self.pairs.tv),
                "association_real": _matrix_json(self.pairs.real),
                "association_synthetic": _matrix_json(self.pairs.synthetic),
            },
            "skipped": self.skipped,
            "notes": dict(self.notes),
        }

    def __str__(self) -> str:
        """The scores as a plain table, and below it what the first look found, the worst first."""
        said = [f"! {words}" for score in self.scores for words in score.words]
        return "\n".join([NOT_PRIVATE, *align_columns(self._lines()), *said])

    def __repr__(self) -> str:
        """As `str`: what a console or a notebook prints carries the warning."""
        return str(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the warning, and the scores as a table, with those they are made of."""
        head, *body = self._lines()
        rows = [f"<tr>{''.join(f'<th>{escape(cell)}</th>' for cell in head)}</tr>"]
        for score, line in zip(self.scores, body, strict=True):
            hint = escape(score.definition + (f" {score.note}" if score.note else ""), quote=True)
            cells = "".join(f"<td>{escape(cell)}</td>" for cell in line)
            rows.append(f'<tr title="{hint}">{cells}</tr>')
        warning = f"<p><strong>{escape(NOT_PRIVATE)}</strong></p>"
        said = [f"<li>{escape(words)}</li>" for score in self.scores for words in score.words]
        listed = f"<ul>{''.join(said)}</ul>" if said else ""
        return f"<div>{warning}<table>{''.join(rows)}</table>{listed}</div>"

    def _lines(self) -> list[list[str]]:
        """The cells of the table of scores; the parts of the overall number stand below it."""
        lines = [["score", "scope", "synthetic", *self.references, "better"]]
        for score in self.scores:
            others = [_number(values.get(score.name)) for values in self.references.values()]
            scope = score.scope
            if score.name == "overall":
                scope = ", ".join(f"{name} {value:.2f}" for name, value in score.parts.items())
            lines.append([score.name, scope, _number(score.value), *others, score.better])
        return lines


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def _column_json(column: ColumnPair) -> dict[str, Any]:
    return {
        "name": column.name,
        "kind": column.kind,
        "labels": list(column.labels),
        "real": column.real.tolist(),
        "synthetic": column.synthetic.tolist(),
        "tv": column.tv,
    }


def _matrix_json(matrix: NDArray[np.float64]) -> list[list[float | None]]:
    return [[None if math.isnan(value) else value for value in line] for line in matrix.tolist()]


MOST_TRIPLES = 500
"""Tables with more triples of columns than this have only some of them compared."""
SAMPLED_TRIPLES = 200
"""Triples that are drawn then. A mean of numbers from 0 to 1 over as many has a standard error of at most
0.036."""
WIDTHS = {1: "columns", 2: "pairs", 3: "triples"}
"""Sets of columns that are compared, by how many columns they have."""
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
        # The reference that a synthetic table should beat is made once and used for every clique, so that
        # all its figures are of one table.
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
        # Drawn with more tries than are needed, since some triples are too large; a dictionary keeps each
        # once and in order.
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
    families: list[tuple[str, str, dict[str, list[float]], str, str, Group]] = [
        (
            f"tv_{width}",
            f"{len(tv[width]['synthetic'])} {word}",
            tv[width],
            f"total variation between the real and the other table of shares, over {word}",
            f"Total variation, {('one column', 'two columns', 'three columns')[width - 1]}",
            "Single columns" if width == 1 else "Several columns at once",
        )
        for width, word in WIDTHS.items()
    ]
    families.append(
        (
            "association",
            f"{len(association['synthetic'])} pairs",
            association,
            "absolute difference of Cramér's V between the real and the other table, over pairs",
            "Association error",
            "Dependence between columns",
        )
    )
    scores: list[Score] = []
    references: dict[str, dict[str, float]] = {name: {} for name in TABLES[1:]}
    # A table of one column has no pairs, so no score of them either.
    for key, scope, values, definition, title, group in families:
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
                title=f"{title}, {word}",
                group=group,
            )
            scores.append(score)
            for reference in references:
                references[reference][name] = float(reduce(values[reference]))
    return tuple(scores), references
