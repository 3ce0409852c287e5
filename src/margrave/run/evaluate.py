"""evaluate and review: real rows against synthetic ones, of any kind of table. **Not private.**

`evaluate` compares one synthetic table with the real one, `review` one or several, with pictures.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from margrave.errors import InputError, invalid
from margrave.run.options import complete_format
from margrave.schema.columns import Listed
from margrave.schema.schema import Schema
from margrave.schema.storage.text import TextFormat

if TYPE_CHECKING:
    from margrave.engines.memory import MemoryEngine, MemorySource
    from margrave.engines.streaming.engine import StreamSource
    from margrave.evaluation.comparison import Comparison
    from margrave.evaluation.review import Review
    from margrave.evaluation.task import Metric
    from margrave.protocols import Source


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
    metrics: str | Sequence[str] = (),
) -> Comparison:
    """Hold a synthetic table against the real one. **Not private**: do not publish what it returns.

    Args:
        real, synthetic: The private table, as for `Synthesizer.fit`, and the other, with the same columns.
        schema: What is known of the columns; read off both tables where it is silent.
        target: A column to predict: adds scores of a classifier trained on the synthetic rows.
        test: Held-out real rows for what wants them; the real table by default.
        missing, text: Texts that mean a missing value in text files; how these files are written.
        seed: Of sampled triples and reference rows.
        metrics: More scores, by names of `margrave.evaluation.METRICS`, or "all"; see docs/metrics.md.

    Raises:
        InputError: The tables cannot be used. MissingExtraError: scikit-learn is missing.
    """
    from margrave.evaluation.comparison import compare
    from margrave.evaluation.metrics.registry import list_asked
    from margrave.evaluation.review import SCORED, add_overall

    known = Schema.load(schema) if isinstance(schema, str | Path) else schema
    reading = {"missing": missing, "text": complete_format(text, known)}
    shared, engines = _share_schema(real, synthetic, known, reading)
    if target is not None and target not in shared.names:
        raise InputError(invalid("target", f"one of {list(shared.names)}", "Check it.", got=target))
    found = compare(engines[0], engines[1], schema=shared, seed=seed)
    data = {"real": real, "synthetic": synthetic, "test": test if metrics else None}
    wanted = tuple(dict.fromkeys((*SCORED, "first_look", *list_asked(metrics))))
    found = add_overall(found.with_scores(*_score_raw(wanted, data, shared, known, target, reading, seed)))
    # The classifier needs a target, and is by far the slowest part.
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
    metrics: Sequence[str | Metric],
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
    from margrave.evaluation.review import score_request

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
    from margrave.evaluation.rows import observed_schema

    sources = [open_here(table, **reading) for table in (real, synthetic)]
    names = [column.name for column in sources[1].columns]
    sources = [source.only(names) for source in sources]
    schema = observed_schema(sources[0], sources[1], known)
    return schema, [source.bind(schema) for source in sources]


def review(
    real: Any,
    tables: Mapping[str, Any],
    *,
    schema: Schema | str | Path | None = None,
    target: str | None = None,
    test: Any = None,
    missing: Sequence[str] = ("",),
    text: TextFormat | None = None,
    metrics: str | Sequence[str | Metric] = (),
    pictures: bool = True,
    seed: int = 0,
    on_step: Callable[[str], None] = lambda _: None,
) -> Review:
    """Hold one or several synthetic tables against the real one. **Not private**: do not publish it.

    `margrave.report.render_comparison` makes a page of it. Columns that all tables share are compared.
    Args:
        real, tables: The private table, as for `Synthesizer.fit`, and synthetic ones by name.
        schema, missing: What is known of the columns, with rules; texts that mean missing in text files.
        text: How text files are written, if not as usual.
        target, test: A column to predict; real rows that nothing was made from.
        metrics: What to score beside the defaults, by names of `METRICS`, as objects, or "all".
        pictures: Whether to embed rows and to train the classifier of the curves, which take longest.
        seed, on_step: Of all that is drawn; told what is being done, in a few words.

    Raises:
        InputError: A table cannot be used, or a synthetic one has a column that the real one has not.
        MissingExtraError: A metric that was asked for by name needs scikit-learn.
    """
    from margrave.evaluation.review import review as judged

    on_step("reading tables")
    known = schema if isinstance(schema, Schema) or schema is None else Schema.load(schema)
    data = {"real": real} | {f"table {name}": table for name, table in tables.items()}
    data |= {} if test is None else {"test": test}
    listed = () if known is None else tuple(c.name for c in known.columns if isinstance(c, Listed))
    reading = {"missing": missing, "text": (text or TextFormat()).with_text(listed)}
    held, found, notes = _read(data, known, target, reading)
    others = {name: held[f"table {name}"] for name in tables}
    options: Any = {"metrics": metrics, "pictures": pictures, "seed": seed, "on_step": on_step}
    options |= {"test": held.get("test"), "rules": () if known is None else known.rules, "target": target}
    done = judged(held["real"], others, found, **options)
    return dataclasses.replace(done, notes=(*notes, *done.notes))


def _read(
    data: Mapping[str, Any], known: Schema | None, target: str | None, reading: Mapping[str, Any]
) -> tuple[dict[str, tuple[Source, Any]], Schema, list[str]]:
    """Each table's source with its raw values, None where it is streamed; one schema for all; and notes."""
    from margrave.engines.frames import read_table
    from margrave.engines.memory import MemorySource
    from margrave.engines.opening import open_here

    sources = {name: open_here(table, **reading) for name, table in data.items()}
    names, notes = _find_shared(sources, target)
    found, more = _observe_tables(
        {name: source.only(names) for name, source in sources.items()}, known, target
    )
    held: dict[str, tuple[Source, Any]] = {}
    for name, source in sources.items():
        small = isinstance(source, MemorySource)
        raw = read_table(data[name], **reading)[0].select(list(found.names)) if small else None
        held[name] = (source.only(found.names), raw)
    return held, found, [*notes, *more]


def _observe_tables(
    sources: Mapping[str, Source], known: Schema | None, target: str | None
) -> tuple[Schema, list[str]]:
    """One schema for all tables, and what is left out of it."""
    from margrave.evaluation.rows import find_identifying, observed_schema, widen_schema

    others = [source for name, source in sources.items() if name.startswith("table ")]
    found = observed_schema(sources["real"], others, known)
    alone = find_identifying(found, sources["real"], known, keep=target)
    found = Schema(tuple(column for column in found.columns if column.name not in alone))
    if "test" in sources:
        found = widen_schema(found, sources["test"], known)
    why = "Left out, because most of their values occur once, as names of persons do"
    return found, [f"{why}: {', '.join(alone)}."] if alone else []


def _find_shared(sources: Mapping[str, Source], target: str | None) -> tuple[list[str], list[str]]:
    """The columns that all tables have, in the order of the real one, and what is left out.

    Raises:
        InputError: A synthetic table has a column that the real one has not, the held-out one lacks one, or
            they share none.
    """
    have = {name: [column.name for column in source.columns] for name, source in sources.items()}
    real = have["real"]
    for name, columns in have.items():
        more = [column for column in columns if column not in real]
        if more and name != "test":
            remedy = "Rename its columns, or drop them. Is the first table the real one?"
            raise InputError(
                invalid(f"columns of {name}", f"among the real table's {real}", remedy, got=more)
            )
    tables = [columns for name, columns in have.items() if name != "test"]
    names = [column for column in real if all(column in columns for columns in tables)]
    if not names:
        raise InputError(invalid("tables", "of columns that all share", "Check the header lines.", got=real))
    if not set(names) <= set(have.get("test", names)):
        raise InputError(
            invalid("columns of test", f"all of {names}", "Hold out whole rows.", got=have["test"])
        )
    if target is not None and target not in names:
        raise InputError(invalid("target", f"one of {names}", "Check the spelling.", got=target))
    gone = [column for column in real if column not in names]
    if not gone:
        return names, []
    return names, [f"Left out, because not every table has them: {', '.join(gone)}."]
