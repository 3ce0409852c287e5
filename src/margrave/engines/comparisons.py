"""Differences and quotients of two columns of an ibis table, and codes made of them. Not private.

They mirror `schema.relative`; the contract suite compares the two.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import ibis
import pyarrow as pa

from margrave.engines.expressions import Stored, interval, number
from margrave.schema.encode import likeliest
from margrave.schema.relative import LIMIT, MOST_TERMS, PLAIN, ROUNDING, TINY, Comparison, Relative

__all__ = ["comparison_cell", "relative_code"]


def comparison_cell(column: Stored, bases: Sequence[Stored], comparison: Comparison, edges: Any) -> Any:
    """The cell that a row counts in, as `schema.relative.count_relation`; never null.

    Args:
        column: The column, of a form that is not text.
        bases: Its base, likewise, or the columns whose sum that is.
        comparison: How they are compared.
        edges: Increasing, two or more.
    """
    cells = len(edges) - 1
    base = _base(bases, comparison)
    place = interval(_compared(column, base, comparison), edges[1:-1], range(cells))
    return _by_presence(column, base, place, cells, cells + 1, cells + 2)


def relative_code(own: Stored, bases: Sequence[Stored], column: Relative) -> Stored:
    """The code of a relative column, as `schema.relative.relative_codes`: int32 and never null.

    Args:
        own: The column as it is stored.
        bases: Its base as it is stored, or the columns whose sum that is.
        column: The coding.
    """
    base = _base(bases, column.comparison)
    fallback = likeliest(column.part)
    place = interval(
        _compared(own, base, column.comparison), column.part.edge_array[1:-1], range(column.part.present)
    )
    alone = fallback if column.alone_code is None else column.alone_code
    absent = fallback if column.missing_code is None else column.missing_code
    code = _by_presence(own, base, place, alone, absent, absent)
    return dataclasses.replace(own, kind=pa.int32(), form="int", value=code)


def _base(bases: Sequence[Stored], comparison: Comparison) -> Stored:
    """The base: one column, or the sum of several, null where one of them is."""
    if not comparison.summed:
        return bases[0]
    terms = [base.reading(comparison.base_read) for base in bases]
    if comparison.whole:
        held = [_whole(term).clip(-(LIMIT // MOST_TERMS), LIMIT // MOST_TERMS) for term in terms]
        form = "int" if all(term.form == "int" for term in terms) else "float"
    else:
        held, form = [_plain(term.number) for term in terms], "float"
    value, absent = held[0], terms[0].value.isnull()
    for term, number_held in zip(terms[1:], held[1:], strict=True):
        value, absent = value + number_held, absent | term.value.isnull()
    kind, name = (pa.int64(), "int64") if form == "int" else (pa.float64(), "float64")
    # `_whole` makes 0 of what is missing, as its callers look at the column itself.
    value = ibis.ifelse(absent, ibis.null(name), value.cast(name))
    return dataclasses.replace(bases[0], kind=kind, form=form, value=value)


def _by_presence(column: Stored, base: Stored, place: Any, alone: int, absent: int, neither: int) -> Any:
    """A place where both are there, else one of three codes."""
    one, other = column.value.isnull(), base.value.isnull()
    codes = [ibis.literal(int(code), type="int32") for code in (alone, absent, neither)]
    without = ibis.ifelse(other, codes[2], codes[1])
    return ibis.ifelse(one, without, ibis.ifelse(other, codes[0], place))


def _compared(column: Stored, base: Stored, comparison: Comparison) -> Stored:
    """The difference or quotient, null where a side is missing."""
    left = column.reading(comparison.read)
    same = comparison.base_read == comparison.read or {comparison.base_read, comparison.read} == {
        "date",
        "moment",
    }
    right = base.reading(comparison.read if same else comparison.base_read)
    if comparison.whole:
        value = _whole(left) - _whole(right)
        form = "int" if left.form == right.form == "int" else "float"
        return dataclasses.replace(left, kind=pa.int64(), form=form, value=value)
    one, other = _plain(left.number), _plain(right.number)
    value = _difference(one, other, comparison) if comparison.how == "difference" else _quotient(one, other)
    return dataclasses.replace(left, kind=pa.float64(), form="float", value=value)


def _whole(side: Stored) -> Any:
    """Whole numbers within LIMIT, fractions rounded down."""
    if side.form == "int":
        return side.value.clip(-LIMIT, LIMIT)
    limit = float(LIMIT)
    within = ibis.ifelse(side.value.abs() < limit, side.value, 0.0).floor().cast("float64")
    above = ibis.ifelse(side.value >= limit, number(limit), within)
    return ibis.ifelse(side.value <= -limit, number(-limit), above)


def _plain(value: Any) -> Any:
    """Numbers whose differences and quotients neither overflow nor vanish."""
    held = ibis.ifelse(value > number(PLAIN), number(PLAIN), value)
    held = ibis.ifelse(held < number(-PLAIN), number(-PLAIN), held)
    return ibis.ifelse(held.abs() < number(TINY), number(0.0), held)


def _difference(left: Any, right: Any, comparison: Comparison) -> Any:
    """left - right, 0 within rounding where the right side is a sum."""
    found = left - right
    if not comparison.summed:
        return found
    near = found.abs() <= number(ROUNDING) * (left.abs() + right.abs())
    return ibis.ifelse(near, number(0.0), found)


def _quotient(left: Any, right: Any) -> Any:
    """left / right, 1 where they are equal; backends differ on a division by 0, so there is none."""
    zero = number(0.0)
    divided = left / ibis.ifelse(right == zero, number(1.0), right)
    beyond = ibis.ifelse(left > zero, number(PLAIN), number(-PLAIN))
    found = ibis.ifelse(left == right, number(1.0), ibis.ifelse(right == zero, beyond, divided))
    return ibis.ifelse(left.isnull() | right.isnull(), ibis.null("float64"), found)
