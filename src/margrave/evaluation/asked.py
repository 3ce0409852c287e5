"""asked: the scores of metrics that a caller named, for tables of any kind. **Not private.**"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Score
from margrave.evaluation.scoring import score_metrics, score_references
from margrave.evaluation.task import Task
from margrave.evaluation.widening import widened
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Engine, Source

__all__ = ["asked", "held_rows"]


class _Held(Protocol):
    """An engine that has the rows' codes at hand."""

    @property
    def encoded(self) -> Encoded: ...


def asked(
    metrics: Sequence[str],
    tables: Mapping[str, tuple[Source, Any]],
    schema: Schema,
    *,
    declared: Schema | None = None,
    target: str | None = None,
    seed: int = 0,
) -> tuple[tuple[Score, ...], dict[str, Mapping[str, float]]]:
    """Scores of a synthetic table, and of reference tables in its place. **Not private**.

    Args:
        metrics: Names from `METRICS`.
        tables: By "real", "synthetic" and, where rows are held out, "test": the source, whose engine holds
            the codes, and the pyarrow.Table of raw values, or None where it is too large to be held.
        schema: Of the first two tables, as `observed_schema` reads it off them.
        declared: What was known of the columns before any was read.
        target: The column to predict.
        seed: Of all that is drawn.

    Raises:
        InputError: There is no such metric, or a table cannot be used.
        MissingExtraError: scikit-learn is missing.
    """
    if "test" in tables:
        schema = widened(schema, tables["test"][0], declared)
    rows = {name: held_rows(source, raw, schema) for name, (source, raw) in tables.items()}
    task = Task(
        *(rows["real"], rows["synthetic"], schema),
        held_out=rows.get("test"),
        target=target,
        seed=seed,
        rules=() if declared is None else declared.rules,
    )
    return score_metrics(task, metrics), score_references(task, metrics)


def held_rows(source: Source, raw: Any, schema: Schema) -> Rows:
    """Rows with what counts them: of raw values, of codes where those are None. **Not private**."""
    engine: Any = source.bind(schema)
    if raw is not None:
        return Rows.of(raw, schema, engine)
    held: _Held = engine
    counts: Engine = engine
    return Rows.coded(held.encoded, schema, counts)
