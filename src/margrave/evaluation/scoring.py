"""score_metrics: several metrics of one synthetic table, with reference rows. **Not private**.

`score_request` scores the metrics that a caller named, for tables of any kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from margrave.errors import InputError, invalid
from margrave.evaluation.learners import one_thread
from margrave.evaluation.metrics.registry import METRICS, metric
from margrave.evaluation.observed import widen_schema
from margrave.evaluation.rows import Rows, references
from margrave.evaluation.score import Score
from margrave.evaluation.task import Counted, Metric, Task
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Engine, Source

GROUND_TRUTH = "real rows"
"""Name of the reference row in which the real rows themselves take the synthetic ones' place."""


def score_metrics(task: Task, metrics: Sequence[str | Metric] | None = None) -> tuple[Score, ...]:
    """Scores of a task's synthetic table, in the order asked for. **Not private**: do not publish them.

    Metrics made from counts share one pass over each table. Models are trained on one thread, so that a score
    does not depend on the number of cores and a busy machine does not slow it down further.

    Args:
        task: The tables.
        metrics: Names from `METRICS`, or metrics of your own; all of `METRICS` by default, those that need
            a target, held-out rows or rules only if the task has them.

    Raises:
        InputError: There is no such metric, two have one name, or one says that it reads "counts" and is not
            `Counted`.
        MissingExtraError: A metric needs scikit-learn, which is not installed.

    Example:
        >>> import numpy as np
        >>> from margrave.evaluation import Rows
        >>> from margrave.schema.encoded import Encoded
        >>> from margrave.schema.schema import Schema
        >>> schema = Schema.from_sizes({"a": 2, "b": 2})
        >>> codes = Encoded(schema.domain, (np.array([0, 1, 1], np.uint8), np.array([1, 0, 0], np.uint8)))
        >>> rows = Rows.coded(codes, schema)
        >>> [score.value for score in score_metrics(Task(rows, rows, schema), ["average_tv", "k_marginal"])]
        [0.0, 1000.0]
    """
    chosen = _choose_metrics(task, metrics)
    task.survey([one for one in chosen if _counts_cliques(one)])
    with one_thread():
        return tuple(one.run(task) for one in chosen)


def score_references(
    task: Task, metrics: Sequence[str | Metric] | None = None
) -> dict[str, Mapping[str, float]]:
    """The same scores of tables to hold the synthetic one against, by reference and name. **Not private**.

    The references are a bootstrap and a shuffle of the real rows and, where rows are held out, the real
    rows themselves, as in the row "Ground Truth" of Chen et al. 2025 (table 2). What is not defined is
    left out.
    """
    tables = references(task.real, task.rng("references"))
    if task.held_out is not None:
        tables = {GROUND_TRUTH: task.real} | tables
    found: dict[str, Mapping[str, float]] = {}
    for name, table in tables.items():
        scores = score_metrics(task.of(table), metrics)
        found[name] = {score.name: score.value for score in scores if not math.isnan(score.value)}
    return found


def _choose_metrics(task: Task, metrics: Sequence[str | Metric] | None) -> list[Metric]:
    if metrics is None:
        had = {"target"} if task.target is not None else set[str]()
        had |= {"held_out"} if task.held_out is not None else set()
        had |= {"rules"} if task.rules else set()
        return [one for one in METRICS.values() if had.issuperset(one.facts.needs)]
    chosen = [metric(one) if isinstance(one, str) else one for one in metrics]
    names = [one.facts.name for one in chosen]
    if len(set(names)) < len(names):
        raise InputError(invalid("metrics", "of distinct names", "Ask for each once.", got=names))
    return chosen


def _counts_cliques(one: Metric) -> TypeGuard[Counted]:
    if one.facts.reads != "counts":
        return False
    if not isinstance(one, Counted):
        must = "one with `cliques`, `of` and `unseen`, since its facts have reads='counts', the default"
        remedy = "Give its Facts reads='rows' or reads='values', or see margrave.evaluation.task.Counted."
        raise InputError(invalid(f"metric {one.facts.name!r}", must, remedy))
    return True


class _Held(Protocol):
    """An engine that has the rows' codes at hand."""

    @property
    def encoded(self) -> Encoded: ...


def score_request(
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
        schema = widen_schema(schema, tables["test"][0], declared)
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
