"""Columns of an ibis table as codes: what `schema.encode.encode_column` does, as expressions. Not private.

Differences and quotients of two columns mirror `schema.columns.relative`; the contract suite compares the
two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.engines.ibis.expressions import (
    MIN_INEXACT_NUMBER,
    Stored,
    divide_small,
    floor_divide,
    interval,
    number,
    take_rest,
    whole,
)
from margrave.errors import InputError, SchemaError, invalid
from margrave.schema.calendar import FIRST_DAY, LAST_DAY, NO_PART, Instant
from margrave.schema.columns import Binned, Column, Listed, Relative, Whole
from margrave.schema.columns.relative import (
    LIMIT,
    MAX_COMPARED,
    MAX_FACTOR,
    MIN_COMPARED,
    MOST_TERMS,
    ROUNDING,
    Comparison,
    apply_share,
    multiply_in_turn,
    sum_in_turn,
)
from margrave.schema.constraints.flag_counts import read_counted
from margrave.schema.constraints.rules import CalendarRule, DatePart, KeyYear
from margrave.schema.encode import encode_column, likeliest
from margrave.schema.storage.clock import DAY

MAX_CASE_VALUES = 48
"""Most values that are told apart by a chain of comparisons; more are joined."""

Distinct = Callable[[str], tuple[Any, NDArray[np.int64]]]
"""Gives the distinct values of a column as an Arrow array, null among them, and their rows."""

FAULTS = {
    "whole": ("made of whole numbers", "Declare it as real."),
    "bounds": ("within its declared bounds", "Widen lower and upper."),
    "unseen": ("within its declared values", "Declare every value, or an `other` label."),
    "missing": ("without missing values", "Declare missing=True, or fill them in."),
}
"""What a strict column may rule out, in the order in which it is looked for, and what to say."""


@dataclass(frozen=True, slots=True)
class Coding:
    """How a column is encoded.

    Args:
        column: Its declaration.
        code: The expression of its codes, int32 and never null; None if they are looked up.
        faults: Truths that no row of a strict column may have, by their key in FAULTS.
        stored: The storage form of what is looked up.
        keys: Its values, an Arrow array without repeats, and `codes`, their codes, both of shape [values].
        absent: The code of a null.
        unseen: The code of a value that is not among the keys.
    """

    column: Column
    code: Any
    faults: dict[str, Any]
    stored: Stored | None = None
    keys: Any = None
    codes: NDArray[np.int64] | None = None
    absent: int = 0
    unseen: int = 0

    def refuse(self, fault: str) -> InputError:
        """The error for a fault that occurs."""
        constraint, remedy = FAULTS[fault]
        return InputError(invalid(f"column {self.column.name!r}", constraint, remedy))


def code_column(column: Column, stored: Stored, distinct: Distinct) -> Coding:
    """How to encode a column of known kind.

    Numbers are cut by comparisons and declared texts found by their spelling, both in the backend. Where the
    rules are longer (text that has to be read as numbers, numbers that are listed) the column's distinct
    values are fetched, encoded here, and their codes joined.

    Args:
        column: The declaration.
        stored: The column's storage form; of a relative column its codes.
        distinct: Fetches distinct values.

    Raises:
        InputError: The column is strict and one of its distinct values is ruled out.
        SchemaError: The column is not known yet.
    """
    if isinstance(column, Relative):
        return Coding(column, stored.value.cast("int32"), {})
    if not column.known or not isinstance(column, (Binned, Listed)):
        what = f"column {column.name!r}"
        raise SchemaError(invalid(what, "known before it is encoded", "Declare it or discover it."))
    other = column.other_code if isinstance(column, Listed) else None
    fallback = likeliest(column) if other is None else other
    absent = fallback if column.missing_code is None else column.missing_code
    if isinstance(column, Binned):
        if stored.form == "text":
            # Text is read as numbers by rules that SQL has no words for, so distinct values are read here.
            return _looked_up(column, stored, distinct, absent)
        return _code_bins(column, stored.read_numbers(column.read), absent)
    values = column.values or ()
    if stored.form == "text" and not column.grouped and all(isinstance(value, str) for value in values):
        faults = _find_faults(column, stored)
        if "unseen" in faults:
            named = [stored.literal(value) for value in values]
            faults["unseen"] = (
                stored.value.notnull() & ~stored.value.isin(named) if named else stored.value.notnull()
            )
        keys = pa.array(list(values), pa.string())
        codes = np.arange(len(values), dtype=np.int64)
        return _by_key(Coding(column, None, faults, stored, keys, codes, absent, fallback))
    return _looked_up(column, stored, distinct, absent)


def _find_faults(column: Listed, stored: Stored) -> dict[str, Any]:
    faults: dict[str, Any] = {}
    if column.strict and column.other is None:
        faults["unseen"] = None
    if column.strict and column.missing_code is None:
        faults["missing"] = stored.value.isnull()
    return faults


def _code_bins(column: Binned, stored: Stored, absent: int) -> Coding:
    edges: Any = column.edge_array
    # Whole edges of this size are exact as integers, and compared as such.
    if isinstance(column, Whole) and bool((np.abs(edges) < float(1 << 62)).all()):
        edges = np.asarray(column.edges, dtype=np.int64)
    codes = interval(stored, edges[1:-1], range(column.present))
    faults: dict[str, Any] = {}
    if column.strict:
        if stored.form == "float" and isinstance(column, Whole):
            # Beyond this size every float is whole, and casting it to a whole number might overflow on some
            # backends.
            small = ibis.ifelse(stored.value.abs() < MIN_INEXACT_NUMBER, stored.value, 0.0)
            faults["whole"] = small != small.floor().cast("float64")
        faults["bounds"] = _find_outside(column, stored, edges)
        if column.missing_code is None:
            faults["missing"] = stored.value.isnull()
    return Coding(column, ibis.coalesce(codes, ibis.literal(absent, type="int32")), faults)


def _find_outside(column: Binned, stored: Stored, edges: Any) -> Any:
    exact = stored.form == "int" and edges.dtype.kind == "i"
    value = stored.value if exact else stored.number
    ends = edges[0].item(), edges[-1].item()
    low, high = (ibis.literal(end, type="int64") if exact else number(end) for end in ends)
    # Intervals of whole numbers end before the next one; the last edge of others belongs to them.
    return (value < low) | ((value >= high) if isinstance(column, Whole) else (value > high))


def _looked_up(column: Column, stored: Stored, distinct: Distinct, absent: int) -> Coding:
    """By the codes of the distinct values, found here."""
    values, _ = distinct(column.name)
    codes = encode_column(stored.arrow(values), column).astype(np.int64)
    held = values.is_valid()
    kept = np.asarray(held.to_numpy(zero_copy_only=False), dtype=np.bool_)
    keys = values.filter(held)
    if stored.form == "text":
        keys = keys.cast(pa.string())
    return _by_key(Coding(column, None, {}, stored, keys, codes[kept], absent, absent))


def _by_key(found: Coding) -> Coding:
    """With comparisons where the keys are few."""
    # A chain of comparisons grows the query with each key; beyond so many a join is cheaper.
    if len(found.keys) > MAX_CASE_VALUES or found.codes is None or found.stored is None:
        return found
    value = found.stored.value
    cases = [
        (found.stored.literal(key), ibis.literal(place, type="int32"))
        for key, place in zip(found.keys.to_pylist(), found.codes.tolist(), strict=True)
    ]
    code = ibis.literal(found.unseen, type="int32")
    if cases:
        code = value.cases(*cases, else_=code)  # the value once, not once a key
    code = ibis.ifelse(value.isnull(), ibis.literal(found.absent, type="int32"), code)
    return Coding(found.column, code, found.faults)


def comparison_cell(column: Stored, bases: Sequence[Stored], comparison: Comparison, edges: Any) -> Any:
    """The cell that a row counts in, as `schema.columns.relative.count_relation`; never null.

    Args:
        column: The column, of a form that is not text.
        bases: Its base, likewise, or the columns that this is made of.
        comparison: How they are compared.
        edges: Increasing, two or more.
    """
    cells = len(edges) - 1
    base = _join_bases(bases, comparison)
    place = interval(_compare_columns(column, base, comparison), edges[1:-1], range(cells))
    return _by_presence(column, base, place, cells, cells + 1, cells + 2)


KNOWN_PARTS = {"day_of_year": ("day_of_year", "j"), "week": ("week_of_year", "k")}
"""Parts of a date that backends tell, in whose formulas the date would stand a hundred times: the function of
ibis, and the letter of the column."""


def read_instants(dates: Sequence[Stored], reads: Sequence[str]) -> dict[str, Any]:
    """The parts of `schema.calendar.Instant` of some columns by a letter and their place, as "y0" the year.

    Args:
        dates: The columns, of a form that is not text.
        reads: "date", "moment" or "time" for each of them.
    """
    found: dict[str, Any] = {}
    for place, (date, read) in enumerate(zip(dates, reads, strict=True)):
        ticks = date.read_numbers(read).value
        days = ticks * 0 if read == "time" else date.read_numbers("date").value
        held = days.clip(FIRST_DAY, LAST_DAY)
        day = ibis.date(1970, 1, 1) + held.as_interval("D")
        clock = held * 0 if read == "date" else take_rest(ticks, DAY)
        parts = {"d": held, "t": clock, "y": day.year(), "m": day.month(), "g": day.day()}
        parts |= {letter: getattr(day, name)() for name, letter in KNOWN_PARTS.values()}
        found |= {f"{letter}{place}": part.cast("int64") for letter, part in parts.items()}
        found[f"w{place}"] = ibis.coalesce(days.between(FIRST_DAY, LAST_DAY), False)
    return found


def check_number(column: Stored, rule: CalendarRule) -> None:
    """Find a rule's number to be stored as the rule takes it.

    Raises:
        InputError: The rule is about texts, and the column has neither these nor truth values.
    """
    if rule.pairs and column.form not in ("text", "bool"):
        remedy = "Leave out the rule, or state it by numbers."
        raise InputError(invalid(f"column {column.name!r}", "of text, as a rule says", remedy))


def read_number(column: Stored, rule: CalendarRule, read: str) -> dict[str, Any]:
    """A rule's number as "n", and whether there is one as "h"; of texts the number that each stands for.

    read: "date" or "moment" where the number is one, which counts in days; else "number".
    """
    if isinstance(rule, KeyYear):
        return {"n": _read_digits(column, rule), "h": column.value.notnull()}
    if not rule.pairs:
        found = column.read_numbers(read).value
        there = found.notnull()
        # A moment that is no midnight is no date: it is none of the days of the calendar.
        days = ibis.ifelse(take_rest(found, DAY) == 0, floor_divide(found, DAY), FIRST_DAY - 1)
        return {"n": days if read == "moment" else found, "h": there}
    if column.form == "bool":
        known = dict(rule.pairs)
        true, false = (ibis.literal(known.get(text, NO_PART), type="int32") for text in ("true", "false"))
        return {"n": ibis.ifelse(column.value, true, false), "h": column.value.notnull()}
    cases = [(column.literal(text), ibis.literal(number, type="int32")) for text, number in rule.pairs]
    none = ibis.literal(NO_PART, type="int32")
    return {"n": column.value.cases(*cases, else_=none), "h": column.value.notnull()}


def _read_digits(column: Stored, rule: KeyYear) -> Any:
    """The number that a rule's digits of a whole number are, NO_PART where it has none there, or a sign."""
    place, digits = rule.place, rule.digits
    sound, value = column.number >= 0.0, column.value
    if column.form not in ("int", "uint"):
        # Bounded before they are made whole numbers, which some could not be.
        value = ibis.ifelse(whole(column), column.number, None).cast("int64")
    text = ibis.ifelse(sound, value, None).cast("string")
    # As Python cuts texts: from the end on where the place is counted from there.
    found = text.right(-place).left(digits) if place < 0 else text.substr(place, digits)
    told = ibis.ifelse(found.length() == digits, found, None).cast("int64")
    return ibis.coalesce(told, ibis.literal(NO_PART, type="int64"))


def agreement_cell(table: Any, rule: CalendarRule, reads: Sequence[str]) -> Any:
    """The cell that a row counts in, as `schema.queries.agreements`; never null.

    Args:
        table: Has a number "n", whether there is one, "h", and what `read_instants` says of the rule's dates.
        rule: What they say.
        reads: As for `read_instants`.
    """
    instants = []
    for place, read in enumerate(reads):
        days, ticks, year, month, day = (table[f"{letter}{place}"] for letter in "dtymg")
        instants.append(Instant(days, ticks, year, month, day, read == "time"))
    there = table.h
    for place in range(len(reads)):
        there = there & table[f"w{place}"]
    known = KNOWN_PARTS.get(rule.part) if isinstance(rule, DatePart) else None
    # Other parts of a date are made of small numbers.
    divide = divide_small if isinstance(rule, DatePart) else floor_divide
    told = rule.tell_number(instants, divide) if known is None else table[f"{known[1]}0"]
    return _place_agreement(there, table.n == told)


def flag_cell(number: Stored, flags: Sequence[Stored], counted: Sequence[str]) -> Any:
    """The cell that a row counts in by how many flags say yes, as `schema.queries.agreements`; never null.

    Args:
        number: What is to be that many.
        flags: Columns of text, truth values or numbers.
        counted: Of each of them the value that is counted, as text.
    """
    said = sum(_say_yes(flag, value) for flag, value in zip(flags, counted, strict=True))
    found = number.read_numbers("number").value
    return _place_agreement(found.notnull(), found == said)


def _place_agreement(there: Any, agreed: Any) -> Any:
    """The cell of rows that obey a rule, 0, that do not, 1, and of which no value is there, 2."""
    cells = [ibis.literal(cell, type="int32") for cell in range(3)]
    return ibis.ifelse(there, ibis.ifelse(ibis.coalesce(agreed, False), cells[0], cells[1]), cells[2])


def _say_yes(flag: Stored, counted: str) -> Any:
    """1 where a cell is the counted value, 0 else, where it is missing as well."""
    one, none = (ibis.literal(value, type="int32") for value in (1, 0))
    if flag.form == "text":
        held = flag.value == flag.literal(counted)
    elif flag.form == "bool":
        held = flag.value if counted == "true" else ~flag.value if counted == "false" else ibis.literal(False)
    else:
        known = read_counted(counted)
        held = ibis.literal(False) if known is None else flag.number == known
    return ibis.ifelse(ibis.coalesce(held, False), one, none)


def relative_code(own: Stored, bases: Sequence[Stored], column: Relative) -> Stored:
    """The code of a relative column, as `schema.columns.relative.relative_codes`: int32 and never null.

    Args:
        own: The column as it is stored.
        bases: Its base as it is stored, or the columns that this is made of.
        column: The coding.
    """
    base = _join_bases(bases, column.comparison)
    fallback = likeliest(column.part)
    place = interval(
        _compare_columns(own, base, column.comparison),
        column.part.edge_array[1:-1],
        range(column.part.present),
    )
    alone = fallback if column.alone_code is None else column.alone_code
    absent = fallback if column.missing_code is None else column.missing_code
    code = _by_presence(own, base, place, alone, absent, absent)
    return dataclasses.replace(own, kind=pa.int32(), form="int", value=code)


def _join_bases(bases: Sequence[Stored], comparison: Comparison) -> Stored:
    """The base: one column, the sum or product of several, or a line of it; null where one of them is, or a
    divisor is 0."""
    if not comparison.joint:
        return bases[0]
    terms = [base.read_numbers(comparison.base_read) for base in bases]
    if comparison.whole:
        # Each term is bounded so that no sum of MOST_TERMS of them leaves int64.
        held = [_to_whole(term).clip(-(LIMIT // MOST_TERMS), LIMIT // MOST_TERMS) for term in terms]
        form = "int" if all(term.form == "int" for term in terms) else "float"
    else:
        limit = _limit_factors if comparison.joint == "product" else _limit_numbers
        held, form = [limit(term.number) for term in terms], "float"
        held[-1] = apply_share(comparison.share_of, held[-1])
    product = comparison.joint == "product"
    powers = comparison.powers
    value = multiply_in_turn(held, powers, _void_zeros) if product else sum_in_turn(held, powers)
    absent = terms[0].value.isnull()
    for term in terms[1:]:
        absent = absent | term.value.isnull()
    if comparison.is_line:
        value = value * number(comparison.factor) + number(comparison.offset)
    kind, name = (pa.int64(), "int64") if form == "int" else (pa.float64(), "float64")
    # `_to_whole` makes 0 of what is missing, as its callers look at the column itself.
    value = ibis.ifelse(absent, ibis.null(name), value.cast(name))
    return dataclasses.replace(bases[0], kind=kind, form=form, value=value)


def _void_zeros(value: Any) -> Any:
    return value.nullif(number(0.0))


def _by_presence(column: Stored, base: Stored, place: Any, alone: int, absent: int, neither: int) -> Any:
    """A place where both are there, else one of three codes."""
    one, other = column.value.isnull(), base.value.isnull()
    codes = [ibis.literal(int(code), type="int32") for code in (alone, absent, neither)]
    without = ibis.ifelse(other, codes[2], codes[1])
    return ibis.ifelse(one, without, ibis.ifelse(other, codes[0], place))


def _compare_columns(column: Stored, base: Stored, comparison: Comparison) -> Stored:
    """The difference or quotient, null where a side is missing."""
    # A date and a moment are compared as whichever the comparison reads.
    left = column.read_numbers(comparison.read)
    same = comparison.base_read == comparison.read or {comparison.base_read, comparison.read} == {
        "date",
        "moment",
    }
    right = base.read_numbers(comparison.read if same else comparison.base_read)
    if comparison.whole:
        value = _to_whole(left) - _to_whole(right)
        form = "int" if left.form == right.form == "int" else "float"
        return dataclasses.replace(left, kind=pa.int64(), form=form, value=value)
    one, other = _limit_numbers(left.number), _limit_numbers(right.number)
    value = (
        _take_difference(one, other, comparison)
        if comparison.how == "difference"
        else _take_quotient(one, other)
    )
    return dataclasses.replace(left, kind=pa.float64(), form="float", value=value)


def _to_whole(side: Stored) -> Any:
    """Whole numbers within LIMIT, fractions rounded down."""
    if side.form == "int":
        return side.value.clip(-LIMIT, LIMIT)
    # Floats are bounded before `floor`, whose whole numbers could overflow.
    limit = float(LIMIT)
    within = ibis.ifelse(side.value.abs() < limit, side.value, 0.0).floor().cast("float64")
    above = ibis.ifelse(side.value >= limit, number(limit), within)
    return ibis.ifelse(side.value <= -limit, number(-limit), above)


def _limit_factors(value: Any) -> Any:
    """Numbers of which MOST_TERMS can be multiplied: some backends end in an error where one vanishes."""
    most = number(MAX_FACTOR)
    held = ibis.ifelse(value > most, most, ibis.ifelse(value < -most, -most, value))
    return ibis.ifelse(held.abs() < number(1.0 / MAX_FACTOR), number(0.0), held)


def _limit_numbers(value: Any) -> Any:
    """Numbers whose differences and quotients neither overflow nor vanish."""
    held = ibis.ifelse(value > number(MAX_COMPARED), number(MAX_COMPARED), value)
    held = ibis.ifelse(held < number(-MAX_COMPARED), number(-MAX_COMPARED), held)
    return ibis.ifelse(held.abs() < number(MIN_COMPARED), number(0.0), held)


def _take_difference(left: Any, right: Any, comparison: Comparison) -> Any:
    """left - right, 0 within rounding where the right side is made of several columns, or a line."""
    found = left - right
    if not comparison.joint:
        return found
    # A sum of floats may miss its total by rounding alone, which is no difference.
    near = found.abs() <= number(ROUNDING) * (left.abs() + right.abs()) + number(comparison.slack)
    return ibis.ifelse(near, number(0.0), found)


def _take_quotient(left: Any, right: Any) -> Any:
    """left / right, 1 where they are equal; backends differ on a division by 0, so there is none."""
    zero = number(0.0)
    divided = left / ibis.ifelse(right == zero, number(1.0), right)
    beyond = ibis.ifelse(left > zero, number(MAX_COMPARED), number(-MAX_COMPARED))
    found = ibis.ifelse(left == right, number(1.0), ibis.ifelse(right == zero, beyond, divided))
    return ibis.ifelse(left.isnull() | right.isnull(), ibis.null("float64"), found)
