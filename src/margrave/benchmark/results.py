"""Outcomes of cells as Parquet, one row a cell, and back. **Not private.**

Scores are columns `metric_NAME`. What margrave and the machine were is in every row, since cells of one
folder may have run on several.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from margrave.errors import InputError, invalid
from margrave.files import written_whole

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["METRIC", "read_results", "write_results"]

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

    ordered = sorted((_known(outcome) for outcome in outcomes), key=lambda outcome: str(outcome["key"]))
    found = hashlib.sha256(json.dumps(ordered, sort_keys=True).encode()).hexdigest().encode()
    if _digest(path) == found:
        return
    table = _table(ordered).replace_schema_metadata({DIGEST: found})
    with written_whole(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _known(outcome: Mapping[str, Any]) -> dict[str, Any]:
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


def _table(outcomes: Sequence[Mapping[str, Any]]) -> pa.Table:
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
    return [_outcome(row) for row in rows]


def _outcome(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in row.items() if not name.startswith(METRIC)}
    scores = {name[len(METRIC) :]: value for name, value in row.items() if name.startswith(METRIC)}
    objects = {name: json.loads(row[name]) for name in OBJECTS}
    return {**plain, **objects, "scores": scores}
