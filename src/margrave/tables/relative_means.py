"""What the numbers of a column are whose codes say how it goes with others: sums and products of theirs.

A column found to be a payment of .4 to 1 times the charge, a total of net and tax, a tax of .19 times the net
has codes of quotients or differences (`schema.columns.relative`). In rows that have such a code it is

    factor * (base + ... + base) + offset + difference, factor * base * base + offset + difference,
    factor * base * (whole - base) + offset + difference, or base * quotient,

so its sum is one of products of the bases' numbers and of those of its own codes, and the mean follows from
tables of the bases with these codes (`tables.means`). A base that is itself relative takes the place of its
own sum. Where each row has a code of a difference, tables of the bases alone tell the sum, whatever they go
with.

Not all rows are as the codes say. A column that discovery relates to others has a noisy share of rows that
lie within its bins; the rest are counted in the first and the last one. They, with one more standard error of
the share, and rows that have a value and no base are rows of which no table tells (`tables.means.UNTOLD`). A
relation that was declared has no such share, and is taken at its word.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from margrave.errors import InputError, invalid
from margrave.schema.columns import Relative
from margrave.schema.columns.binned import SpeltNumber
from margrave.schema.columns.relative import MIN_COMPARED, take_own
from margrave.schema.schema import Schema
from margrave.tables.means import Averaged, Numbers, Product
from margrave.tables.numbers import ROUNDING, ranges_of, refuse_numbers, scores_of, spike_doubts_of

Form = tuple[tuple[Product, ...], float]
"""Products that are added up, and a constant."""


def average_relative(schema: Schema, column: Relative) -> Averaged:
    """What the mean of a relative column is made of.

    Args:
        schema: Of the column and its bases.
        column: Of numbers.

    Raises:
        InputError: It is of dates, times or durations, is made of more than two columns multiplied, or of
            quotients or powers.
    """
    if scores_of(column.own) is None:
        remedy = "Use `share` for its levels."
        raise InputError(invalid("column", "a column of numbers", remedy, got=column.name))
    products, offset = _expand(schema, column)
    codes, strays = np.arange(column.size), 0.0
    for one in _list_relative(schema, column):
        if one.share is not None:
            share, error = one.share
            strays += max(1.0 - share, 0.0) + error
    remedy = (
        f"Codes of {column.name!r} say how it goes with {column.base_words}: make a release that measures "
        "these together (method auto), or declare its bins, bins=32 say."
    )
    rows = codes < column.part.present
    untold = codes == column.alone_code if column.alone else None
    return Averaged(column.name, rows, products, offset, untold, min(strays, 1.0), remedy)


def find_line(schema: Schema, column: Relative) -> tuple[Product, float, float] | None:
    """The numbers of one column that a relative column is in every row that has a value, times a factor, with
    what is added and what rounding may be off; None if it is no such line.

    Args:
        schema, column: As of `average_relative`.

    Raises:
        InputError: As `average_relative`.
    """
    products, offset = _expand(schema, column)
    chain = _list_relative(schema, column)
    told = all(not one.alone and (not one.missing or one.follows) for one in chain)
    if not told or len(products) != 1 or len(products[0].names) != 1 or products[0].weight == 0.0:
        return None
    slack, scale = 0.0, 1.0
    for one in chain:
        slack += scale * one.comparison.slack
        scale *= max(1.0, abs(one.factor))
    return None if isinstance(schema[products[0].names[0]], Relative) else (products[0], offset, slack)


def _list_relative(schema: Schema, column: Relative) -> list[Relative]:
    """The column, and all it is made of that are relative themselves."""
    found = [column]
    for name in column.bases:
        base = schema[name]
        if isinstance(base, Relative):
            found += _list_relative(schema, base)
    return found


def _expand(schema: Schema, column: Relative) -> Form:
    """A relative column by the numbers of attributes.

    Raises:
        InputError: It is made of quotients or powers, of which tables of two columns tell no sum.
    """
    signs = column.powers if column.joint == "sum" else ()
    if column.powers and not signs:
        what = f"a sum or product of columns; codes of {column.name!r} are of {column.base_words}"
        remedy = "Declare its bins, bins=32 say, and make another release."
        raise InputError(invalid("column", what, remedy, got=column.name))
    bases = [_expand_base(schema, column, name) for name in column.bases]
    part = _number_part(column)
    if column.how == "quotient":
        if _is_single(part):
            return _scale(bases[0], float(part.scores[0]))
        return _multiply(column, bases[0], ((Product((column.name,), (part,)),), 0.0))
    if whole := column.share_of:
        bases[-1] = _add(_scale(bases[-1], -1.0 if whole > 0.0 else 1.0), ((), abs(whole)))
    bases = [_scale(base, sign) for base, sign in zip(bases, signs or (1,) * len(bases), strict=True)]
    joined = bases[0]
    for base in bases[1:]:
        joined = _multiply(column, joined, base) if column.joint == "product" else _add(joined, base)
    joined = _add(_scale(joined, column.factor), ((), column.offset))
    if column.comparison.is_line and len(column.bases) == 1:
        joined = _round_line(schema, column, joined)
    exact = _is_single(part) and abs(part.least) < MIN_COMPARED
    return joined if exact else _add(joined, ((Product((column.name,), (part,)),), 0.0))


def _round_line(schema: Schema, column: Relative, form: Form) -> Form:
    """A line of one base, whose values are rounded to the column's unit.

    Where a code of the base is one number, so is the rounded line, unless it is half way between two. Else
    each code has an error of its own, which hardly matters where there are many, unless nothing is rounded.
    """
    base, unit = schema[column.base], column.comparison.unit
    ranges = ranges_of(base)
    if unit == 0.0 or ranges is None or len(form[0]) != 1:
        return form
    (line,), offset = form
    (held,) = line.numbers
    steps = (line.weight * held.filled + offset) / unit
    known = (ranges[0] == ranges[1]) & (np.abs(steps - np.floor(steps) - 0.5) > ROUNDING)
    rounded = (unit * np.rint(steps) - offset) / line.weight
    step = base.unit if isinstance(base, SpeltNumber) else 0.0
    grid = np.asarray([line.weight * step, offset]) / unit
    even = step > 0.0 and bool((np.abs(grid - np.rint(grid)) < ROUNDING).all())
    doubts = held.doubts + np.where(known | even, 0.0, (unit / line.weight) ** 2 / 12.0)
    scores = np.where(known & held.present, rounded, held.scores)
    least, greatest = min(held.least, np.nanmin(scores)), max(held.greatest, np.nanmax(scores))
    turned = replace(held, scores=scores, doubts=doubts, least=float(least), greatest=float(greatest))
    return (replace(line, numbers=(turned,)),), offset


def _number_part(column: Relative) -> Numbers:
    """The numbers of its differences or quotients; of those that were found it is not known where in a cell.

    Raises:
        InputError: They are durations.
    """
    found = Numbers.of_column(column.part, column.size)
    if found is None or not isinstance(column.part, SpeltNumber):
        raise refuse_numbers(column, "column", "")
    spikes = np.pad(spike_doubts_of(column.part), (0, column.size - column.part.present))
    return found if column.share is None else replace(found, doubts=found.doubts + spikes)


def _is_single(part: Numbers) -> bool:
    """Whether all differences or quotients are one number, which ends its bin or begins it."""
    return math.isclose(part.least, part.greatest, rel_tol=2.0**-50, abs_tol=MIN_COMPARED)


def _expand_base(schema: Schema, column: Relative, name: str) -> Form:
    base = schema[name]
    if isinstance(base, Relative):
        return _expand(schema, base)
    numbers = Numbers.of_column(take_own(base))
    if numbers is None:
        raise refuse_numbers(column, "column", "")
    return (Product((name,), (numbers,)),), 0.0


def _scale(form: Form, factor: float) -> Form:
    products, offset = form
    return tuple(replace(one, weight=factor * one.weight) for one in products), factor * offset


def _add(one: Form, other: Form) -> Form:
    """Products of the same attributes become one."""
    found: dict[tuple[str, ...], Product] = {}
    for product in (*one[0], *other[0]):
        before = found.get(product.names)
        weight = product.weight + (0.0 if before is None else before.weight)
        found[product.names] = replace(product, weight=weight)
    return tuple(found.values()), one[1] + other[1]


def _multiply(column: Relative, one: Form, other: Form) -> Form:
    """The product of two sums.

    Raises:
        InputError: One of the products is of the same attribute twice, or of more than two.
    """
    found: Form = ((), one[1] * other[1])
    for mine in one[0]:
        found = _add(found, _scale(((mine,), 0.0), other[1]))
        for theirs in other[0]:
            names = (*mine.names, *theirs.names)
            if len(names) > 2 or len(set(names)) < len(names):
                what = f"made of at most two columns multiplied; codes of {column.name!r} are of {names}"
                remedy = "Declare its bins, bins=32 say, and make another release."
                raise InputError(invalid("column", what, remedy, got=column.name))
            both = Product(names, (*mine.numbers, *theirs.numbers), mine.weight * theirs.weight)
            found = _add(found, ((both,), 0.0))
    for theirs in other[0]:
        found = _add(found, _scale(((theirs,), 0.0), one[1]))
    kept = tuple(product for product in found[0] if product.weight != 0.0)
    return kept, found[1]
