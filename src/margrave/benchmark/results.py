"""Outcomes of cells as Parquet, one row a cell, and back. **Not private.**

Scores are columns `metric_NAME`. What margrave and the machine were is in every row, since cells of one
folder may have run on several.

`Findings` has the outcomes by table, method and epsilon, as means with intervals.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from margrave.benchmark.methods import REFERENCES
from margrave.errors import InputError, invalid
from margrave.evaluation.metrics.registry import METRICS
from margrave.evaluation.score import Facts, Summary, summarise
from margrave.files import written_whole
from margrave.methods import METHODS

if TYPE_CHECKING:
    import pyarrow as pa

METRIC = "metric_"
DIGEST = b"margrave.benchmark.digest"
TEXTS = ("key", "data", "method", "kind", "status", "stage", "reason", "day")
FLOATS = (
    *("epsilon", "delta", "share", "max_seconds"),
    *(
        "fit_seconds",
        "sample_seconds",
        "score_seconds",
        "synthesis_cpu_seconds",
        "wall_seconds",
        "cpu_seconds",
    ),
)
WHOLES = (
    *("repeat", "seed", "peak_bytes", "synthesis_peak_bytes", "max_bytes"),
    *("train_rows", "held_out_rows", "columns", "workers"),
)
OBJECTS = ("versions", "machine", "notes")
"""Kept as JSON text."""


def write_results(outcomes: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write outcomes, sorted by key; a file that holds the same outcomes is left as it is.

    Args:
        outcomes: JSON objects with some of the fields above and `scores`, by name.
        path: Where to.
    """
    import pyarrow.parquet as pq

    ordered = sorted((_drop_empty(outcome) for outcome in outcomes), key=lambda outcome: str(outcome["key"]))
    found = hashlib.sha256(json.dumps(ordered, sort_keys=True).encode()).hexdigest().encode()
    if _digest(path) == found:
        return
    table = _write_outcomes(ordered).replace_schema_metadata({DIGEST: found})
    with written_whole(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _drop_empty(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """An outcome without what is None or empty: as it was before it was written, or after it was read."""
    kept = {name: value for name, value in outcome.items() if value is not None and name != "scores"}
    scores = {name: value for name, value in outcome.get("scores", {}).items() if value is not None}
    return {name: value for name, value in kept.items() if value != {}} | {"scores": scores}


def _digest(path: Path) -> bytes | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata
    except (OSError, pa.ArrowException):
        return None
    return None if metadata is None else metadata.get(DIGEST)


def _write_outcomes(outcomes: Sequence[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for names, kind in ((TEXTS, pa.string()), (FLOATS, pa.float64()), (WHOLES, pa.int64())):
        for name in names:
            columns[name] = pa.array([outcome.get(name) for outcome in outcomes], kind)
    for name in OBJECTS:
        texts = [json.dumps(outcome.get(name, {}), sort_keys=True) for outcome in outcomes]
        columns[name] = pa.array(texts, pa.string())
    for score in sorted({name for outcome in outcomes for name in outcome.get("scores", {})}):
        values = [outcome.get("scores", {}).get(score) for outcome in outcomes]
        columns[METRIC + score] = pa.array(values, pa.float64())
    return pa.table(columns)


def read_results(path: Path) -> list[dict[str, Any]]:
    """Outcomes as they were written, scores by name under `scores`.

    Raises:
        InputError: There is no such file, or it is none of these.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException):
        rows = None
    if rows is None or any("key" not in row or "status" not in row for row in rows):
        remedy = "Give the folder of a benchmark that has run."
        raise InputError(invalid("results", "a file written by margrave bench", remedy, got=path.name))
    return [_read_outcome(row) for row in rows]


def _read_outcome(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in row.items() if not name.startswith(METRIC)}
    scores = {name[len(METRIC) :]: value for name, value in row.items() if name.startswith(METRIC)}
    objects = {name: json.loads(row[name]) for name in OBJECTS}
    return {**plain, **objects, "scores": scores}


Outcome = Mapping[str, Any]


class Findings:
    """What the cells of a benchmark found.

    Args:
        outcomes: As `read_results` gives them.
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
        # Higher is better: the error is what is missing to the score of equal tables, or to the best there
        # can be.
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
