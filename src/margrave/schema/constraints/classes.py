"""Rows in which classes that were found, as age groups, are those that the numbers are in.

Models know nothing of such rules (`Within` with a share): they draw a bin of the number, and a class that
goes with it. Where a class ends inside the bin, the number is drawn in the part of the bin that is in the
class, and where no part is, in the class: other columns may follow from that. Where the number follows from
other columns the class is the one that the number is in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Whole
from margrave.schema.constraints.draws import Drawn, in_bins, running_weights
from margrave.schema.constraints.numbers import read_ranges
from margrave.schema.constraints.rules import Within
from margrave.schema.encoded import Codes, Encoded
from margrave.schema.schema import Schema

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

ROUNDS = 8
"""How often numbers are drawn anew in their bins before they are drawn by the cells in the class."""


def draw_in_classes(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    settled: Collection[str],
    given: Collection[str],
) -> dict[str, NDArray[Any]]:
    """Numbers drawn in their bins and in the ranges that their rows' classes say, by name: shape [rows].

    Args:
        encoded: The rows.
        schema: Their schema.
        rng: Source of randomness.
        settled: Names of columns whose numbers were drawn before: they are left out.
        given: Names of columns of which some numbers are given: these are left out as well.
    """
    found: dict[str, NDArray[Any]] = {}
    rules = [rule for rule in schema.rules if isinstance(rule, Within) and not rule.about_codes]
    for name in dict.fromkeys(rule.column for rule in rules):
        column = schema[name]
        if not isinstance(column, Binned) or name in settled or name in given:
            continue
        low, high = np.full(encoded.rows, -np.inf), np.full(encoded.rows, np.inf)
        for rule in rules:
            if rule.column == name:
                ends = [end[encoded.column(rule.by)] for end in read_ranges(schema[rule.by], column, rule)]
                # Where two columns of classes contradict each other the first is kept.
                agree = np.maximum(low, ends[0]) <= np.minimum(high, ends[1])
                low = np.where(agree, np.maximum(low, ends[0]), low)
                high = np.where(agree, np.minimum(high, ends[1]), high)
        found[name] = _draw_between(encoded.column(name), column, low, high, rng)
    return found


def _draw_between(
    codes: Codes, column: Binned, low: Floats, high: Floats, rng: np.random.Generator
) -> NDArray[Any]:
    """A number in each row's bin, between its ends if the bin has such numbers, else anywhere between them.

    Args:
        codes: The bin of each row, shape [rows].
        column: The number.
        low, high: Its least and greatest value, shape [rows] each.
        rng: Source of randomness.

    Returns:
        Shape [rows]; anything where the code is no bin.
    """
    values = in_bins(codes, column, rng)
    bins = np.where(codes < column.present, codes, 0).astype(np.int64)
    edges = column.edge_array
    whole = isinstance(column, Whole)
    least, most = np.maximum(low, edges[bins]), np.minimum(high, edges[bins + 1] - whole)
    held, able = codes < column.present, least <= most
    for _ in range(ROUNDS):
        rows = np.flatnonzero(held & able & ((values < low) | (values > high)))
        values[rows] = in_bins(codes[rows], column, rng)
    rows = np.flatnonzero(held & ((values < low) | (values > high)))
    least = np.where(able, least, np.maximum(low, edges[0]))[rows]
    most = np.where(able, most, np.minimum(high, edges[-1] - whole))[rows]
    ends, running = running_weights(column)
    at = [np.interp(end, ends, running) for end in (least, most + whole)]
    drawn = np.interp(at[0] + rng.random(len(rows)) * (at[1] - at[0]), running, ends)
    step = column.step or float(whole)
    drawn = np.clip(np.floor(drawn / step) * step if step else drawn, least, most)
    values[rows] = np.where(least <= most, drawn, values[rows]).astype(values.dtype)
    return values


def follow_numbers(
    encoded: Encoded,
    schema: Schema,
    numbers: Mapping[str, NDArray[Any]],
    linked: Mapping[str, Drawn],
    codes: Mapping[str, Codes],
    given: Collection[str] = (),
) -> dict[str, Codes]:
    """The codes of columns of classes whose numbers are in other ranges, with those of the ranges.

    Of several numbers the first one that a row's class is not the one of says it.

    Args:
        encoded: The rows.
        schema: Their schema.
        numbers: Numbers that were drawn, by name.
        linked: Those of columns that follow from others, which come before.
        codes: Codes that changed before.
        given: Names of columns whose codes stay.
    """
    found: dict[str, Codes] = {}
    for rule in schema.rules:
        if not isinstance(rule, Within) or rule.about_codes or rule.by in given:
            continue
        by, column = schema[rule.by], schema[rule.column]
        before = codes.get(rule.by, encoded.column(rule.by))
        own = found.get(rule.by, before)
        if rule.column in linked:
            drawn = linked[rule.column]
        elif isinstance(column, Binned) and rule.column in numbers:
            drawn = Drawn(numbers[rule.column], encoded.column(rule.column) >= column.present)
        else:
            continue
        low, high = read_ranges(by, column, rule)
        told = _find_code(drawn.numbers, low, high)
        held = np.isfinite(low) | np.isfinite(high)
        wrong = held[own] & ~drawn.absent & (told >= 0) & (own == before)
        wrong &= (drawn.numbers < low[own]) | (drawn.numbers > high[own])
        found[rule.by] = np.where(wrong, told, own).astype(own.dtype)
    return found


def _find_code(numbers: NDArray[Any], low: Floats, high: Floats) -> Longs:
    """The code of the range that each number is in, -1 where it is in none: shape [rows]."""
    codes = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
    codes = codes[np.argsort(low[codes], kind="stable")]
    place = np.searchsorted(low[codes], numbers, side="right") - 1
    chosen = codes[np.maximum(place, 0)]
    return np.where((place >= 0) & (numbers <= high[chosen]), chosen, -1)
