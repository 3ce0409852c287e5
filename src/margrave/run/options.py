"""The strategy and the fitter of a run, with what the run's arguments add to them: a target, limits.

What becomes of rows that break a declaration: an error, or the nearest thing that was declared.

What is public about where a release comes from: the data set's name, the file's, the day, the schema.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from datetime import datetime, timezone
from fractions import Fraction
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from margrave.errors import InputError, SchemaError, invalid
from margrave.limits import Limits
from margrave.models._base.estimator import Estimator
from margrave.models.registry import FITTERS, import_estimator, resolve
from margrave.privacy.accounting.accountants import GDP, ZCDP, Accountant, Renyi
from margrave.privacy.accounting.renyi import best_order, check_sampled
from margrave.privacy.noise.source import RepeatableSource
from margrave.privacy.unit import Neighbours
from margrave.release import Provenance
from margrave.schema.columns import Binned, Date, Listed, Moment, Relative, Time, Unknown
from margrave.schema.frame import Selection
from margrave.schema.schema import Schema
from margrave.schema.storage.clock_numbers import is_clock_format
from margrave.schema.storage.date_numbers import is_stamp_format
from margrave.schema.storage.months import names_months
from margrave.schema.storage.text import AS_TEXT, SEPARATORS, TextFormat
from margrave.select.strategy import Strategy as BaseStrategy

if TYPE_CHECKING:
    from margrave.privacy.ledger.location import LedgerLocation
    from margrave.protocols import Fitter, Source, Strategy


def use_strategy(select: Strategy) -> Strategy:
    """The strategy, found to be one.

    Raises:
        InputError: It is not derived from `margrave.select.Strategy`.
    """
    if not isinstance(select, BaseStrategy):
        remedy = "Pass an object such as margrave.select.AIM(); docs/extending.md shows how to write one."
        got = type(select).__name__
        raise InputError(
            invalid("select", "an object derived from margrave.select.Strategy", remedy, got=got)
        )
    return select


def use_estimator(model: Fitter | str) -> Fitter:
    """The estimator, or the one of a name or at a place such as "package.module:Class".

    Raises:
        InputError: There is none of this name, or it is not derived from `margrave.models.Estimator`.
    """
    if isinstance(model, str):
        return import_estimator(model) if ":" in model else resolve(model)
    if not isinstance(model, Estimator):
        remedy = f"Pass one of the names {list(FITTERS)}; docs/extending.md shows how to write one."
        got = type(model).__name__
        raise InputError(
            invalid("model", "an object derived from margrave.models.Estimator", remedy, got=got)
        )
    return model


def describe_method(recipe: str, parts: Sequence[object], strategy: Strategy, fitter: Fitter) -> str:
    """What plans, releases and errors call a run's method.

    Args:
        recipe: Name of the named method.
        parts: The strategy and the estimator that were passed instead of the method's; None where none was.
        strategy: Of the run.
        fitter: Of the run.

    Returns:
        The recipe's name, or the names of the two parts where a part of it was replaced.
    """
    own = any(part is not None for part in parts)
    return f"{strategy.name} with {fitter.name}" if own else recipe


def check_pricing(strategy: Strategy, fitter: Fitter, neighbours: Neighbours) -> None:
    """Check, from arguments alone, that a run has an accountant: before the table is opened.

    Raises:
        InputError: The model does not learn from what the strategy buys, or samples of rows do not protect
            these neighbours.
    """
    strategy.check_fitter(fitter)
    strategy.check_neighbours(neighbours)
    if strategy.training is not None:
        check_sampled(neighbours)


def accountant(
    strategy: Strategy, fitter: Fitter, epsilon: float, delta: float, neighbours: Neighbours
) -> Accountant:
    """What prices the strategy's run: GDP where it only measures, Renyi where it samples rows, else zCDP.

    Raises:
        InputError: As `check_pricing`.
    """
    check_pricing(strategy, fitter, neighbours)
    if strategy.training is not None:
        steps, rate, share = strategy.training
        return Renyi(best_order(epsilon, delta, rate, steps, share))
    return GDP() if strategy.gaussian_only else ZCDP()


def check_deadline(strategy: Strategy, limits: Limits) -> Strategy:
    """The strategy, found to keep a deadline where there is one.

    Raises:
        InputError: It takes none, or it trains on the rows, in a number of steps that no clock may decide.
    """
    if limits.max_seconds is None:
        return strategy
    if not strategy.keeps_deadline:
        remedy = "It keeps no deadline."
        if strategy.training is not None:
            remedy = (
                "It takes a public number of steps, however long they take: set select=Training(steps=...)."
            )
        raise InputError(invalid("max_seconds", f"left out with strategy {strategy.name!r}", remedy))
    return strategy


def set_target(strategy: Strategy, fitter: Fitter, target: str) -> tuple[Strategy, Fitter]:
    """The strategy and the fitter with the target, where they take one.

    Raises:
        InputError: Neither does.
    """
    if "target" not in strategy.options | fitter.options:
        with_it = f"left out with {strategy.name!r} and {fitter.name!r}"
        raise InputError(invalid("target", with_it, "Use method='auto'.", got=target))
    aimed_strategy = strategy.with_options(target=target) if "target" in strategy.options else strategy
    return aimed_strategy, fitter.with_options(target=target) if "target" in fitter.options else fitter


def named_columns(strategy: Strategy, fitter: Fitter) -> frozenset[str]:
    """The columns that a strategy or a fitter was told of by name: a target, the cliques to measure."""
    return strategy.named_columns | fitter.named_columns


def set_memory(fitter: Fitter, limits: Limits) -> Fitter:
    """The fitter with the memory limit, or its own where that is lower.

    Raises:
        InputError: It takes none, and its models may be large.
    """
    if limits.max_memory is None or fitter.small:
        return fitter
    if "max_memory" not in fitter.options:
        raise InputError(
            invalid("max_memory", f"left out with model {fitter.name!r}", "It has no limit of its own.")
        )
    own = fitter.max_memory
    return fitter.with_options(max_memory=limits.max_memory if own is None else min(own, limits.max_memory))


def check_libraries(fitter: Fitter) -> None:
    """Check that the libraries and the device a fitter computes with are there.

    It is called where computing starts, before a table is opened: a plan computes nothing and needs neither.

    Raises:
        InputError: The fitter's device is not on this machine.
        MissingExtraError: A library is not installed.
    """
    fitter.prepare()


def check_rows_held(source: Source, strategy: Strategy) -> Source:
    """The table, found to let the strategy look at its rows where it has to.

    Raises:
        InputError: The table is counted where it lies, and the strategy needs more than counts.
    """
    if strategy.needs_rows and not source.holds_rows:
        remedy = "Pass a frame or a file, or use a method that asks for marginals only."
        with_it = f"in memory or a file with strategy {strategy.name!r}"
        raise InputError(invalid("table", with_it, remedy))
    return source


ALL_COLUMNS = Selection()
OUTSIDE = ("refuse", "absorb")
"""What may become of a value outside its column's declaration; see `Schema.absorb_outside`."""


def declared_schema(
    schema: Schema | str | Path | None,
    outside: str,
    owner: str | None = None,
    selection: Selection = ALL_COLUMNS,
    public: Sequence[str] = (),
) -> Schema | None:
    """The schema that a run is given, without the owner's column and others that are not released.

    Args:
        schema: The schema, or the path of its file.
        outside: One of `OUTSIDE`: what becomes of values that the schema rules out.
        owner: Name of the column that says whose row it is.
        selection: The columns that are released.
        public: Names of public columns, which are read without the private ones.

    Raises:
        InputError: The file cannot be read, outside is not one of `OUTSIDE`, or a public column is relative
            to a private one.
        SchemaError: A rule is about a column that is not released, or a column's kind is not registered.
    """
    if outside not in OUTSIDE:
        raise InputError(invalid("outside", f"one of {list(OUTSIDE)}", "Leave it out.", got=outside))
    known = schema if isinstance(schema, Schema) or schema is None else Schema.load(schema)
    if known is not None:
        known.check_kinds()  # before anything is spent on rows that could not be saved
    released = selection.restrict(None if known is None else known.without(owner))
    for column in () if released is None else released.columns:
        private = set(column.bases) - set(public) if isinstance(column, Relative) else set()
        if private and column.name in public:
            constraint = f"relative to public columns alone, as it is public, and not to {sorted(private)}"
            remedy = "Declare it by bins of its own, or the private column relative to it."
            raise InputError(invalid(f"column {column.name!r}", constraint, remedy))
    return released.absorb_outside() if released is not None and outside == "absorb" else released


def check_ruled_kinds(schema: Schema) -> None:
    """Refuse rules about columns of unknown kind, before anything is spent.

    Discovery decides such a column's kind by noisy counts. If it turned out to be one that the rule cannot
    speak of, the run would end with an error after it has spent its budget, or the rule would not hold.

    Raises:
        SchemaError: A rule is about a column of which the schema does not say the kind.
    """
    unsure = sorted(
        {name for rule in schema.rules for name in rule.names if isinstance(schema[name], Unknown)}
    )
    if unsure:
        remedy = (
            'Say "kind": "date", "integer", "real" or "categorical" in the schema; bounds and values may be '
            "left out."
        )
        raise SchemaError(
            invalid("rules", f"about columns of a declared kind, which {unsure} have not", remedy)
        )


def check_no_oracle(schema: Schema | None, location: LedgerLocation) -> None:
    """Refuse strict declarations in a book, from the schema alone and before the table is opened.

    A strict declaration says exactly whether any row breaks it, and costs nothing. Where runs share a cap,
    a few dozen of them would find one person's value by halving, and the book would show nothing spent.

    Raises:
        InputError: The run is kept in a book and a column is strict.
    """
    if schema is None or not location.in_book or not schema.strict_columns:
        return
    remedy = (
        "Say outside='absorb' (--outside absorb) to count values outside in the nearest bin or as '(other)', "
        'or "strict": false in those columns. An error for a row that breaks a declaration tells about the '
        "rows and is paid for by no epsilon."
    )
    constraint = f"without strict columns in a book, which {list(schema.strict_columns)} are"
    raise InputError(invalid("schema", constraint, remedy))


USUAL_QUOTES = ('"', "'", "")
USUAL_ENCODINGS = (
    *("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"),
    *("iso8859-1", "iso8859-15", "cp1250", "cp1251", "cp1252", "shift_jis", "gb18030"),
)
"""As Python names them. ASCII is no such one: it asks whether any letter has an accent."""


def check_usual_reading(text: TextFormat, location: LedgerLocation) -> None:
    """Refuse ways to read a text file that ask about its cells, in a book, from the arguments alone.

    A file that is not written as its format says ends a run with an error that costs nothing. With any sign
    as quote or separator, such errors tell which signs there are and where. The usual ways are few, and none
    can be aimed at a value.

    Args:
        text: How text files are written.
        location: Where the run's ledger is kept.

    Raises:
        InputError: The run is kept in a book and the format is not a usual one.
    """
    if not location.in_book:
        return
    parts: list[tuple[str, str | None, tuple[str, ...]]] = [
        ("separator", text.separator, tuple(SEPARATORS.values())),
        ("quote", text.quote, USUAL_QUOTES),
        ("encoding", text.encoding, USUAL_ENCODINGS),
    ]
    for name, said, usual in parts:
        if said is not None and said not in usual:
            remedy = "Write the file so, or as Parquet: an error for another way would tell about the rows."
            raise InputError(invalid(name, f"one of {list(usual)} in a book", remedy, got=said))


def check_rows(source: Source, declared: Schema) -> None:
    """Refuse rows that a declaration rules out, before anything is spent. **Not private.**

    Only for runs that are not kept in a book: see `check_no_oracle`.

    Raises:
        InputError: A column that is declared strictly holds something else.
    """
    sure = []
    for name in declared.strict_columns:
        column = declared[name]
        trial = column if column.missing is not None else dataclasses.replace(column, missing=True)
        sure.append(dataclasses.replace(trial, rare=0.0) if isinstance(trial, Binned) else trial)
    if sure:
        source.only([column.name for column in sure]).bind(Schema(tuple(sure)))


def describe_origin(
    given: Provenance, data: Any, schema: Schema | str | Path | None, dataset: str | None
) -> Provenance:
    """Fill in what the caller left out, before the table is opened. No row is read, and none is hashed.

    Args:
        given: What the caller said.
        data: The table, as it was given to `Synthesizer.fit`.
        schema: What was declared: a schema, its file, or nothing.
        dataset: The name in the book.
    """
    return dataclasses.replace(
        given,
        dataset=given.dataset or dataset or "",
        source=given.source or _name_source(data),
        date=given.date or datetime.now(timezone.utc).date().isoformat(),
        schema=given.schema or _hash_schema(schema),
    )


def _name_source(data: Any) -> str:
    """The last part of a path, or the kind of table."""
    if isinstance(data, str | Path):
        name = str(data).replace("\\", "/").rstrip("/").rpartition("/")[2]
        return "".join(letter if letter.isprintable() else "?" for letter in name)[:200]
    library = type(data).__module__.partition(".")[0]
    return f"a table in memory ({library})"


def _hash_schema(schema: Schema | str | Path | None) -> str:
    """SHA-256 of a schema's file, so that it can be compared by any tool, or of its JSON."""
    if schema is None:
        return ""
    if isinstance(schema, Schema):
        return hashlib.sha256(json.dumps(schema.to_json(), sort_keys=True).encode()).hexdigest()
    return hashlib.sha256(Path(schema).read_bytes()).hexdigest()


def complete_format(text: TextFormat | None, schema: Schema | None, owner: str | None = None) -> TextFormat:
    """The format of text files, in which columns declared by their values are taken as they stand.

    Raises:
        InputError: It has a format for the owner's column, in which two owners could become one.
    """
    text = text or TextFormat()
    if owner is not None and owner in text.columns and not text.is_text(owner):
        remedy = "Leave the column out of it: whose row it is, is taken as it is written."
        raise InputError(invalid("format", "of other columns than the owner's", remedy, got=owner))
    listed = () if schema is None else tuple(c.name for c in schema.columns if isinstance(c, Listed))
    return text.with_text(listed)


ALLOWED_FOR = {
    Date: "months for columns of dates alone",
    Time: "hours for times of day alone",
    Moment: "time stamps for moments alone",
}
"""What an error says of a format of text files that other columns than these cannot have."""


def declare_written(text: TextFormat, schema: Schema | None) -> tuple[TextFormat, Schema | None]:
    """A schema with the columns that have a format of months, or of times of day or time stamps as numbers,
    and a format of text files that leaves them as text.

    What draws days has to know that they are first days of months, and what draws numbers that these are
    times, so that such a format is the column's.

    Raises:
        InputError: Such a column is declared to be something else.
    """
    kinds: dict[str, type[Date] | type[Time] | type[Moment]] = {}
    for name, written in text.columns.items():
        if is_stamp_format(written):
            kinds[name] = Moment
        elif names_months(written) or is_clock_format(written):
            kinds[name] = Date if names_months(written) else Time
    if not kinds:
        return text, schema
    declared = {} if schema is None else {column.name: column for column in schema.columns}
    for name, kind in kinds.items():
        known = declared.get(name, kind(name=name))
        if not isinstance(known, kind | Unknown):
            remedy = f"Declare it as a {kind.kind}, or leave the format out."
            raise InputError(invalid("format", f"of {ALLOWED_FOR[kind]}", remedy, got=name))
        known = kind(name=name) if isinstance(known, Unknown) else known
        declared[name] = dataclasses.replace(known, format=text.columns[name])
    as_text = {**text.columns, **dict.fromkeys(kinds, AS_TEXT)}
    rules = () if schema is None else schema.rules
    return dataclasses.replace(text, columns=as_text), Schema(tuple(declared.values()), rules)


def check_test_seed(seed: int | None, location: LedgerLocation) -> int | None:
    """The seed of a test run, found to be kept in no ledger, which would record it as an ordinary spend.

    Raises:
        InputError: There is a ledger.
    """
    if seed is None:
        return None
    if location.ledger is not None:
        remedy = "A run with a seed is not private: it is no spend that a ledger or book may record."
        raise InputError(invalid("not_private_test_seed", "left out with a ledger", remedy, got=seed))
    return RepeatableSource(seed).seed


def check_share(value: Fraction | float) -> Fraction:
    """The share of rho for discovery as a fraction.

    Raises:
        InputError: It is no number of at least 0 and below 1.
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value < 1:
        raise InputError(invalid("discovery", "at least 0 and below 1", "Try 0.3.", got=value))
    return Fraction(value)
