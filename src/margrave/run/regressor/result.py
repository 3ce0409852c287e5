"""PerturbedRegression: what a regression that spent at the door has found."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.regression.encoding import Encoding, count_rows, encode_rows
from margrave.regression.families import r_squared
from margrave.regression.perturbed import PerturbedFit
from margrave.release import Guarantee
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from margrave.privacy.accounting.events import Event

Floats = NDArray[np.float64]
INTERCEPT = "(intercept)"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PerturbedRegression:
    """Coefficients of a regression that was made at the door.

    Args:
        kind: "linear" or "logistic".
        method: How it was made, such as "ssp".
        target: The column that is explained.
        labels: The number of each code of the target, shape [codes].
        meaning: Of a logistic regression: the level that counts as 1.
        names: A name for each coefficient, the intercept's first where there is one: shape [p].
        estimates: Shape [p].
        middles: The middles of the intervals, shape [p]; NaN where the method has none.
        lower, upper: Of the intervals, which hold the privacy noise alone: the coefficients of least squares
            on the private table lie in them as often as `level` says. Infinite where a coefficient is not
            identified, or where the method has no intervals.
        identified: Whether the release identifies the coefficient, [p].
        level: Of the intervals.
        encodings: How features became numbers. What was summed are these, scaled to -1 to 1 and cut to a few
            binary digits: the ledger says how many.
        schema: Of the table, completed by discovery.
        guarantee: What was promised and spent.
        events: The ledger: what was spent on what.
        fit: The same in the numbers that were summed, with the exact confidence set.
    """

    kind: str
    method: str
    target: str
    labels: Floats
    meaning: str
    names: tuple[str, ...]
    estimates: Floats
    middles: Floats
    lower: Floats
    upper: Floats
    identified: NDArray[np.bool_]
    level: float
    encodings: tuple[Encoding, ...]
    schema: Schema
    guarantee: Guarantee
    events: tuple[Event, ...]
    fit: PerturbedFit

    def __contains__(self, name: object) -> bool:
        """Whether there is a coefficient of a name."""
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        """Names of the coefficients."""
        return iter(self.names)

    def __getitem__(self, name: str) -> float:
        """The estimate of a coefficient.

        Raises:
            InputError: There is none of that name.
        """
        if name not in self.names:
            raise InputError(invalid("name", f"one of {list(self.names)}", "Check the spelling.", got=name))
        return float(self.estimates[self.names.index(name)])

    @property
    def classes(self) -> NDArray[Any]:
        """The value that counts as 0 and that which counts as 1, as rows have them; texts where several do.

        Raises:
            InputError: The regression is linear.
        """
        from margrave.tables.numbers import classes_of

        self._check_kind("logistic")
        return classes_of(self.schema, self.target, self.meaning, np.ones(len(self.labels), dtype=np.bool_))

    def _check_kind(self, kind: str) -> None:
        if self.kind != kind:
            raise InputError(invalid("regression", f"{kind} for this", "Use `predict`."))

    def _predictor(self, rows: Any) -> Floats:
        """The linear predictor of rows, shape [rows]."""
        codes = encode_rows(rows, self.schema, [encoding.column for encoding in self.encodings])
        found = np.zeros(count_rows(rows))
        first = int(self.names[:1] == (INTERCEPT,))
        if first:
            found += self.estimates[0]
        for encoding in self.encodings:
            size = len(encoding.matrix)
            found += self.estimates[first : first + size] @ encoding.matrix[:, codes[encoding.column]]
            first += size
        return found

    def predict(self, rows: Any) -> NDArray[Any]:
        """The expected target of rows, or the likelier class where the regression is logistic: shape [rows].

        Args:
            rows: A pandas or polars data frame, an Arrow table, a mapping of columns, or `Encoded`. What is
                predicted for private rows is as private as these are.

        Raises:
            InputError: A feature's column is not there.
        """
        if self.kind == "linear":
            return self._predictor(rows)
        return np.asarray(self.classes[(self._predictor(rows) > 0.0).astype(np.int64)])

    def predict_proba(self, rows: Any) -> Floats:
        """Probability of both classes, shape [rows, 2].

        Args:
            rows: As for `predict`.

        Raises:
            InputError: The regression is linear, or a feature's column is not there.
        """
        self._check_kind("logistic")
        one = 0.5 * (1.0 + np.tanh(self._predictor(rows) / 2.0))
        return np.column_stack([1.0 - one, one])

    def score(self, rows: Any) -> float:
        """R^2 of rows, or the share of them whose class is predicted, as scikit-learn has it.

        **Not private**: an exact figure of the rows that are given.

        Args:
            rows: As for `predict`, with the target's column.

        Raises:
            InputError: A column is not there, or there is no row.
        """
        truth = self.labels[encode_rows(rows, self.schema, [self.target])[self.target]]
        if not len(truth):
            raise InputError(invalid("rows", "one or more", "Pass held-out rows."))
        if self.kind == "logistic":
            return float(np.mean((self._predictor(rows) > 0.0) == (truth > 0.5)))
        return r_squared(truth, self._predictor(rows))

    def table(self) -> pa.Table:
        """The coefficients as an Arrow table, one row a coefficient."""
        import pyarrow as pa

        columns = [e.column for e in self.encodings for _ in e.names]
        levels = [level for e in self.encodings for level in e.levels]
        first = [""] * int(self.names[:1] == (INTERCEPT,))
        return pa.table(
            {
                "name": list(self.names),
                "column": [*first, *columns],
                "level": [*first, *levels],
                "estimate": self.estimates,
                "middle": self.middles,
                "lower": self.lower,
                "upper": self.upper,
                "identified": self.identified,
            }
        )

    def write(self, path: str | Path) -> None:
        """Write the table to a CSV, TSV, Parquet or Arrow file, whole or not at all.

        Raises:
            InputError: The path cannot be written.
        """
        from margrave.files import write_table

        write_table(self.table(), path)

    def format_csv(self) -> str:
        """The table as the text of a CSV file, every number with all its digits."""
        table, text = self.table(), io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows(row.values() for row in table.to_pylist())
        return text.getvalue()

    def to_json(self) -> Mapping[str, Any]:
        """All that was released as a JSON object: coefficients, promise and ledger."""
        from margrave.privacy.accounting.events import event_to_json

        figures = self.table().to_pylist()
        for row in figures:
            for name in ("middle", "lower", "upper"):
                row[name] = row[name] if np.isfinite(row[name]) else None
        whom = self.guarantee.neighbours
        return {
            "kind": self.kind,
            "method": self.method,
            "target": self.target,
            "meaning": self.meaning,
            "level": self.level,
            "coefficients": figures,
            "guarantee": {
                "epsilon": self.guarantee.epsilon if np.isfinite(self.guarantee.epsilon) else None,
                "delta": self.guarantee.delta,
                "owner": whom.unit.owner,
                "max_rows": whom.unit.max_rows,
                "adjacency": whom.adjacency,
                "said": str(self.guarantee),
            },
            "ledger": [event_to_json(event) for event in self.events],
        }

    def save(self, path: str | Path) -> None:
        """Write all that was released to a JSON file, whole or not at all.

        Raises:
            InputError: The path cannot be written.
        """
        from margrave.files import write_text

        write_text(path, json.dumps(self.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n")

    def report(self, path: str | Path, *, title: str | None = None) -> None:
        """Write the report, one HTML file made of what was released alone: coefficients, promise, ledger.

        Args:
            path: Where to.
            title: Of the page.

        Raises:
            InputError: The path cannot be written.
        """
        from margrave.files import check_writable, write_text
        from margrave.report.release.page import render_regression

        check_writable(path, "report")
        said = {"Regression": self.kind, "Target": self.target, "Method": self.method}
        if self.meaning:
            said["Level that counts as 1"] = self.meaning
        said["Level of the intervals"] = f"{100 * self.level:g} %"
        figures = self.to_json()["coefficients"]
        write_text(path, render_regression(said, figures, self.guarantee, self.events, title=title))

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        of = f" ({self.meaning})" if self.meaning else ""
        said = f"{100 * self.level:g} % intervals, privacy noise alone"
        if self.fit.products is None:
            said = "no intervals: this method releases too little to tell its own error"
        lines = [f"{self.kind} regression of {self.target}{of} by {self.method}; {said}"]
        for figures in zip(self.names, self.estimates, self.lower, self.upper, strict=True):
            lines.append(f"{figures[0]:{width}}  " + "  ".join(f"{number:11.5g}" for number in figures[1:]))
        spent = f"{len(self.events)} spends in the ledger"
        return "\n".join([*lines, spent, str(self.guarantee)])

    def __repr__(self) -> str:
        return f"PerturbedRegression({self.kind}, {len(self.names)} coefficients)"
