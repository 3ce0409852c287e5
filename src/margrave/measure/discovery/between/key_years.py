"""Which digits of which keys may be the year of a date: 2023 in 2023-00417, 19 in V19/1234.

Released shapes of keys say where digits stand and which of them there are, released bins which years dates
have. **Privacy.** Post-processing: what is listed here is counted by `between.calendar`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Column
from margrave.schema.columns.identifier import CLASSES, Signs, digit_runs, shape_parts, widen_shape
from margrave.schema.columns.key_years import list_key_shapes
from margrave.schema.columns.listed import has_new_keys
from margrave.schema.constraints.rules import KeyYear

LEAST_SHAPES = 0.6
"""Share of a column's keys, by their shapes, whose digits may be a year of the date. Not measured."""
LEAST_YEARS = 0.01
"""Share of the rows at either end of a date's range whose years are left out: released ranges are wide where
noise hides their ends. Not measured."""
MOST_YEARS = 100
"""Years of a date from which its digits say nothing: two of them are any."""
LEAST_RUN, LEAST_BEHIND, LEAST_BEFORE = 5, 2, 3
"""Digits of a run that begins with a year and goes on with a number or a month, how many of them are behind
the year, and digits of a number in front of a year of which no digit is known. Not measured."""


def list_key_years(columns: Iterable[Column], years: Mapping[str, NDArray[np.int64]]) -> list[KeyYear]:
    """The digits of keys that may be the year of a date, with each date of which they may be.

    Args:
        columns: As they were released; those without shapes have no such digits.
        years: Of the rows of each date, drawn from its released bins: shape [draws] each.
    """
    quantiles = [LEAST_YEARS, 1.0 - LEAST_YEARS]
    ends = {date: np.quantile(told, quantiles, method="nearest").astype(int) for date, told in years.items()}
    spans = {date: range(int(first), int(last) + 1) for date, (first, last) in ends.items()}
    found = []
    for column in columns:
        ranked = _rank_places(column)
        for date, span in spans.items():
            fitting = (place for place in ranked if _fits(column, *place, span))
            own = next(fitting, None) if len(span) < MOST_YEARS else None
            found += [KeyYear(column.name, date, *own)] if own else []
    return found


def _fits(column: Column, at: int, digits: int, years: Iterable[int]) -> bool:
    """Whether digits of most keys may be one of some years."""
    texts = {f"{year % 10**digits:0{digits}}" for year in years}
    shares = [
        (_may_be(shape_parts(shape)[at:][:digits], texts), own) for shape, own in list_key_shapes(column)
    ]
    return sum(own for held, own in shares if held) >= LEAST_SHAPES * sum(own for _, own in shares)


def _rank_places(column: Column) -> list[tuple[int, int]]:
    """Where a year may stand in a column's keys, and of how many digits: what most keys have first.

    Whole years come before those of two digits, as 20 is one as well. Of a place that is counted from both
    ends the one that more keys have comes first, and that from the beginning where all do.
    """
    held: dict[tuple[int, int], float] = {}
    for shape, share in list_key_shapes(column):
        for found in _list_places(shape, open_ended=has_new_keys(column)):
            held[found] = held.get(found, 0.0) + share
    return sorted(held, key=lambda one: (-held[one], -one[1], one[0] < 0, one))


def _list_places(shape: str, open_ended: bool) -> Iterator[tuple[int, int]]:
    """Where a year of four or two digits may stand in texts of a shape, and of how many digits.

    At the beginning of a run of digits: a whole one, or a longer one whose first digits are known to some
    extent. Where the last run is a year, its place is counted from the end of the text as well.

    open_ended: Whether the last run may be a year even if nothing is known of its digits.
    """
    runs, parts = digit_runs(widen_shape(shape)), shape_parts(shape)
    for number, run in enumerate(runs):
        for digits in (4, 2):
            known = all(len(parts[place]) < 9 for place in run[: digits // 2])
            last = run is runs[-1] and run[-1] == len(parts) - 1
            behind = open_ended and last and max(map(len, runs[:number]), default=0) >= LEAST_BEFORE
            if len(run) == digits and (known or behind):
                yield run[0], digits
                if last:
                    yield -digits, digits
            elif len(run) >= max(digits + LEAST_BEHIND, LEAST_RUN) and known:
                yield run[0], digits


def _may_be(parts: Signs, texts: Iterable[str]) -> bool:
    """Whether some text has at each place one of the signs that may stand there."""
    digits = set(CLASSES["[0-9]"])
    if not parts or any(not set(signs) <= digits for signs in parts):
        return False
    return any(
        len(text) == len(parts) and all(sign in signs for sign, signs in zip(text, parts, strict=True))
        for text in texts
    )
