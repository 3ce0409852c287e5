"""evaluate: real rows against synthetic ones, of any kind of table. **Not private.**"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from margrave.errors import InputError, invalid
from margrave.run.options import complete_format
from margrave.schema.schema import Schema
from margrave.schema.storage.text import TextFormat

if TYPE_CHECKING:
    from margrave.engines.memory import MemoryEngine, MemorySource
    from margrave.engines.streaming.engine import StreamSource
    from margrave.evaluation.comparison import Comparison


def evaluate(
    real: Any,
    synthetic: Any,
    *,
    schema: Schema | str | Path | None = None,
    target: str | None = None,
    test: Any = None,
    missing: Sequence[str] = ("",),
    text: TextFormat | None = None,
    seed: int = 0,
    metrics: Sequence[str] = (),
) -> Comparison:
    """Hold a synthetic table against the real one. **Not private**: do not publish what it returns.

    Args:
        real, synthetic: The private table, as for `Synthesizer.fit`, and the other, with the same columns.
        schema: What is known of the columns; read off both tables where it is silent.
        target: A column to predict: adds scores of a classifier trained on the synthetic rows.
        test: Held-out real rows for what wants them; the real table by default.
        missing, text: Texts that mean a missing value in text files; how these files are written.
        seed: Of sampled triples and reference rows.
        metrics: More scores, by names of `margrave.evaluation.METRICS`; see docs/metrics.md.

    Raises:
        InputError: The tables cannot be used. MissingExtraError: scikit-learn is missing.
    """
    from margrave.evaluation.comparison import compare
    from margrave.evaluation.review import SCORED, add_overall

    known = Schema.load(schema) if isinstance(schema, str | Path) else schema
    reading = {"missing": missing, "text": complete_format(text, known)}
    shared, engines = _share_schema(real, synthetic, known, reading)
    if target is not None and target not in shared.names:
        raise InputError(invalid("target", f"one of {list(shared.names)}", "Check it.", got=target))
    found = compare(engines[0], engines[1], schema=shared, seed=seed)
    data = {"real": real, "synthetic": synthetic, "test": test if metrics else None}
    wanted = tuple(dict.fromkeys((*SCORED, "first_look", *metrics)))
    found = add_overall(found.with_scores(*_score_raw(wanted, data, shared, known, target, reading, seed)))
    if target is None:
        return found
    held = engines[0] if test is None else _open_held_out(test, shared, reading).bind(shared)
    return _add_classifier(found, engines[1], held, target, shared, seed)


def _add_classifier(
    found: Comparison, synthetic: MemoryEngine, held: MemoryEngine, target: str, schema: Schema, seed: int
) -> Comparison:
    from margrave.evaluation.learners import score_classifier

    scores = score_classifier(synthetic.encoded, held.encoded, target, schema=schema, seed=seed)
    return found.with_scores(scores)


def _open_held_out(data: Any, schema: Schema, reading: dict[str, Any]) -> MemorySource | StreamSource:
    from margrave.engines.opening import open_here

    return open_here(data, **reading).only(schema.names)


def _score_raw(
    metrics: Sequence[str],
    data: dict[str, Any],
    schema: Schema,
    known: Schema | None,
    target: str | None,
    reading: dict[str, Any],
    seed: int,
) -> Any:
    """Scores of metrics and of reference tables, of raw values unless streamed. **Not private.**"""
    from margrave.engines.frames import read_table
    from margrave.engines.memory import MemorySource
    from margrave.evaluation.scoring import score_request

    tables = {}
    for name, table in data.items():
        if table is not None:
            source = _open_held_out(table, schema, reading)
            small = isinstance(source, MemorySource)
            tables[name] = (source, read_table(table, **reading)[0].select(schema.names) if small else None)
    return score_request(metrics, tables, schema, declared=known, target=target, seed=seed)


def _share_schema(
    real: Any, synthetic: Any, known: Schema | None, reading: dict[str, Any]
) -> tuple[Schema, list[MemoryEngine]]:
    """Two tables under one schema, with the columns of the second. **Not private.**"""
    from margrave.engines.opening import open_here
    from margrave.evaluation.observed import observed_schema

    sources = [open_here(table, **reading) for table in (real, synthetic)]
    names = [column.name for column in sources[1].columns]
    sources = [source.only(names) for source in sources]
    schema = observed_schema(sources[0], sources[1], known)
    return schema, [source.bind(schema) for source in sources]
