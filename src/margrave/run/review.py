"""review: the front door to a comparison of several synthetic tables with the real one. **Not private**."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from margrave.errors import InputError, invalid
from margrave.schema.columns import Listed
from margrave.schema.schema import Schema
from margrave.schema.storage.text import TextFormat

if TYPE_CHECKING:
    from margrave.evaluation.review import Review
    from margrave.evaluation.task import Metric
    from margrave.protocols import Source


def review(
    real: Any,
    tables: Mapping[str, Any],
    *,
    schema: Schema | str | Path | None = None,
    target: str | None = None,
    test: Any = None,
    missing: Sequence[str] = ("",),
    text: TextFormat | None = None,
    metrics: Sequence[str | Metric] = (),
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
        metrics: What to score beside the defaults, by names of `METRICS` or as objects.
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
    from margrave.evaluation.observed import find_identifying, observed_schema, widen_schema

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
