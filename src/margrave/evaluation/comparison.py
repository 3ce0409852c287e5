"""Comparison: what a comparison with the real table found. **Not private**."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.score import Score

NOT_PRIVATE = "NOT PRIVATE — computed from the real table, do not publish"


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
        lines = self._lines()
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        body = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]
        said = [f"! {words}" for score in self.scores for words in score.words]
        return "\n".join([NOT_PRIVATE, body[0], "-" * len(body[0]), *body[1:], *said])

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
