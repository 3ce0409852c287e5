"""Keys in which a few digits are a year: 2023-00417, V19/1234, 0417/2023, 202300417."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns.base import Column
from margrave.schema.columns.binned import Integer
from margrave.schema.columns.identifier import CLASSES, Identifier, fix_signs, shape_parts
from margrave.schema.columns.listed import Categorical

Codes = NDArray[Any]
Longs = NDArray[np.int64]


def may_hold_years(column: Column) -> bool:
    """Whether a column's keys are of shapes, or may turn out to be, or are whole numbers without repeats."""
    if isinstance(column, Integer):
        return column.unique
    if isinstance(column, Categorical):
        return column.values is None or bool(column.patterns)
    return isinstance(column, Identifier) and column.pattern == "shape"


def list_key_shapes(column: Column) -> tuple[tuple[str, float], ...]:
    """The shapes of a column's keys and the share of each; patterns, of which it has none, share alike."""
    if isinstance(column, Identifier) and column.pattern == "shape":
        return tuple(zip(column.shapes, column.shares, strict=True))
    if isinstance(column, Integer) and column.unique and column.weights:
        return _list_cells(column)
    patterns = column.patterns if isinstance(column, Categorical) else ()
    return tuple((shape, 1.0 / len(patterns)) for shape in patterns)


def _list_cells(column: Integer) -> tuple[tuple[str, float], ...]:
    """What the numbers of each cell begin with, as a shape, and its share."""
    edges = np.asarray(column.edges if column.fine is None else column.fine, dtype=np.float64)
    weights = np.maximum(np.asarray(column.weights, dtype=np.float64), 0.0)
    found: dict[str, float] = {}
    for low, high, weight in zip(edges[:-1], edges[1:], weights / max(weights.sum(), 1e-300), strict=True):
        ends = [str(int(low)), str(int(high) - 1)]
        if low > 0 and weight > 0 and len(ends[0]) == len(ends[1]):
            same = list(takewhile(lambda pair: pair[0] == pair[1], zip(*ends, strict=True)))
            shape = "".join(sign for sign, _ in same) + "[0-9]" * (len(ends[0]) - len(same))
            found[shape] = found.get(shape, 0.0) + float(weight)
    return tuple(found.items())


def fix_year(shape: str, year: int, place: int, digits: int) -> str:
    """The shape with a year's digits at a place; as it is where it has no digits there.

    Example:
        >>> fix_year("INV-202[0-9]-[0-9]{4}", 2024, 4, 4), fix_year("V[0-9]{2}", 5, 1, 2)
        ('INV-2024-[0-9]{4}', 'V05')
    """
    parts = shape_parts(shape)
    places = range(len(parts))[place:][:digits] if place < len(parts) else ()
    held = all(set(parts[at]) <= set(CLASSES["[0-9]"]) for at in places)
    return fix_signs(shape, places, f"{year:0{digits}}") if held and len(places) == digits else shape


def write_years(
    column: Column, codes: Codes, years: Longs, place: int, digits: int, rng: np.random.Generator
) -> tuple[Column, Codes]:
    """The column with a pattern for each shape and year, and codes that decode to keys of these.

    Args:
        column: Whose keys have shapes; others come back as they are.
        codes: Its codes, shape [rows]; anything for an identifier, which has none.
        years: As the digits say them, negative where a row keeps what it has: shape [rows].
        place, digits: Where the year stands, as in `margrave.schema.constraints.rules.KeyYear`.
        rng: Draws the shapes of an identifier's keys.
    """
    if isinstance(column, Identifier) and column.pattern == "shape":
        shares = np.array(column.shares)
        codes = rng.choice(len(shares), len(codes), p=shares / shares.sum())
        whole = Categorical(
            name=column.name, values=(), missing=False, patterns=_name_once(column.shapes), unique=True
        )
        # Shapes that are named twice are one pattern.
        codes = np.array([whole.patterns.index(shape) for shape in column.shapes])[codes]
        return write_years(whole, codes, years, place, digits, rng)
    if not isinstance(column, Categorical) or not column.patterns:
        return column, codes
    first = len(column.values or ()) + len(column.stems)
    shapes = [*column.patterns, *([column.other_shape] if column.other_shape else [])]
    own = codes.astype(np.int64) - first
    rows = np.flatnonzero((own >= 0) & (own < len(shapes)))
    kinds, owners = np.unique(np.stack([own[rows], years[rows]]), axis=1, return_inverse=True)
    pairs = [(shapes[at], year) for at, year in kinds.T.tolist()]
    written = [fix_year(shape, year, place, digits) if year >= 0 else shape for shape, year in pairs]
    wider = dataclasses.replace(column, patterns=_name_once([*written, *column.patterns]))
    places = {shape: number for number, shape in enumerate(wider.patterns, first)}
    # Codes behind those of the patterns move by as many as there are more of these.
    found = np.where(own >= len(column.patterns), codes + (wider.present - column.present), codes)
    found = found.astype(np.uint32)
    found[rows] = np.array([places[shape] for shape in written], dtype=np.uint32)[owners.ravel()]
    return wider, found


def write_year_numbers(numbers: Longs, years: Longs, place: int, digits: int) -> Longs:
    """Keys that are whole numbers with years in them, none twice if none was: shape [rows].

    Where a year would begin a number with a zero, the number stays. Numbers that are equal then move up to
    the next ones that are free.

    Args:
        numbers: The keys, shape [rows].
        years, place, digits: As in `write_years`.

    Example:
        >>> write_year_numbers(np.array([202100017, 202200017]), np.array([2022, -1]), 0, 4).tolist()
        [202200017, 202200018]
    """
    lengths = np.searchsorted(10 ** np.arange(19, dtype=np.int64), numbers, side="right")
    behind = lengths - place - digits if place >= 0 else np.full(len(numbers), -place - digits)
    held = (years >= 0) & (behind >= 0) & (behind + digits <= lengths)
    held &= (behind + digits < lengths) | (years >= 10 ** (digits - 1))
    unit = 10 ** np.where(held, behind, 0).astype(np.int64)
    own = numbers // unit % 10**digits
    found = np.where(held, numbers + (years - own) * unit, numbers)
    order = np.argsort(found, kind="stable")
    count = np.arange(len(found))
    found[order] = np.maximum.accumulate(found[order] - count) + count
    return np.asarray(found)


def _name_once(shapes: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(shapes))
