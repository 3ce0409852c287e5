"""Numbers of relative columns: those of the base, plus a difference or times a quotient that is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Temporal, Whole
from margrave.schema.draws import real_numbers, whole_numbers
from margrave.schema.encoded import Codes, Encoded
from margrave.schema.relative import Relative, in_turn
from margrave.schema.rules_draw import Storage
from margrave.schema.schema import Schema

__all__ = ["Drawn", "draw_overall", "relative_numbers"]

Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Drawn:
    """The numbers of a column.

    Args:
        numbers: Shape [rows], int64 or float64; anything where they are absent.
        absent: Which rows have none, shape [rows].
    """

    numbers: NDArray[Any]
    absent: Truths


def relative_numbers(
    encoded: Encoded,
    schema: Schema,
    dtypes: Mapping[str, str],
    rng: np.random.Generator,
    settled: Mapping[str, NDArray[Any]],
    known: Mapping[str, NDArray[np.float64]],
) -> dict[str, Drawn]:
    """The numbers of all relative columns and of the columns they are relative to, by name.

    Args:
        encoded: The rows.
        schema: Their schema.
        dtypes: Storage types by name, as in a Frame: numbers are held as the storage will hold them, so that
            orders and equalities outlast it.
        rng: Source of randomness.
        settled: Numbers of other columns that were drawn before, such as those that rules speak of.
        known: Numbers that are given, by name, NaN where they are to be drawn.
    """
    found: dict[str, Drawn] = {}
    for column in in_turn(schema.columns):
        codes = encoded.column(column.name)
        dtype = dtypes.get(column.name, "")
        if isinstance(column, Relative):
            drawn = _relative(column, codes, _added(column, found), dtype, rng)
        else:
            numbers = settled[column.name] if column.name in settled else in_bins(codes, column, rng)
            drawn = Drawn(_held(numbers, column, dtype), codes >= column.present)
        if column.name in known:
            given = known[column.name]
            there = ~np.isnan(given)
            kind = drawn.numbers.dtype
            drawn = Drawn(np.where(there, given, drawn.numbers).astype(kind), drawn.absent & ~there)
        found[column.name] = drawn
    return found


def _added(column: Relative, found: Mapping[str, Drawn]) -> Drawn:
    """The base of a column: another column's numbers, or the sum of several, absent where one of them is."""
    terms = [found[name] for name in column.bases]
    if len(terms) == 1:
        return terms[0]
    absent: Truths = np.logical_or.reduce([term.absent for term in terms])
    numbers = column.comparison.add([term.numbers for term in terms])
    # .1 + .2 is .3: what adding floats leaves behind the ninth decimal is no part of the sum.
    return Drawn(numbers if numbers.dtype.kind == "i" else np.round(numbers, 9), absent)


def in_bins(codes: Codes, column: Binned, rng: np.random.Generator) -> NDArray[Any]:
    """A number in each row's bin, that of the first where the code is no bin: shape [rows]."""
    bins = np.where(codes < column.present, codes, 0).astype(np.int64)
    if isinstance(column, Whole):
        return whole_numbers(bins, column, rng)
    return np.asarray(real_numbers(bins, column, rng))


def _relative(column: Relative, codes: Codes, base: Drawn, dtype: str, rng: np.random.Generator) -> Drawn:
    """The numbers of one column, given those of its base."""
    coded = np.where(codes < column.part.present, codes, 0).astype(np.int64)
    overall = _overall(column.part, len(codes), rng)  # for rows that must have a value but have no bin
    absent = codes == column.missing_code if column.missing else np.zeros(len(codes), dtype=np.bool_)
    if column.follows:
        coded = np.where(absent & ~base.absent, overall, coded)
        absent = base.absent
    part = in_bins(coded.astype(np.uint32), column.part, rng)
    numbers = _combined(column, part, base.numbers)
    numbers = _rounded(column, numbers, part, rng)
    numbers = _bounded(column, _held(numbers, column.own, dtype), base.numbers)
    by_itself = base.absent if column.alone_code is None else base.absent | (codes == column.alone_code)
    if by_itself.any():
        own = draw_overall(column.own, len(codes), rng)
        numbers = np.where(by_itself, _held(own, column.own, dtype), numbers)
    return Drawn(numbers, absent)


def draw_overall(column: Binned, rows: int, rng: np.random.Generator) -> NDArray[Any]:
    """Numbers drawn from a column's bins by their weights, shape [rows]."""
    return in_bins(_overall(column, rows, rng).astype(np.uint32), column, rng)


def _overall(part: Binned, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Bins drawn by the weights of a column's cells, evenly where it has none: shape [rows]."""
    if part.fine is None or part.weights is None or not sum(part.weights) > 0:
        return rng.integers(0, part.present, rows)
    owner = np.searchsorted(part.edge_array, np.asarray(part.fine[:-1]), side="right") - 1
    mass = np.bincount(owner, weights=np.asarray(part.weights), minlength=part.present)
    return rng.choice(part.present, rows, p=mass / mass.sum())


def _combined(column: Relative, part: NDArray[Any], base: NDArray[Any]) -> NDArray[Any]:
    """The base in the column's unit, with the difference added or times the quotient."""
    base = column.comparison.base_in_unit(base)
    numbers: NDArray[Any] = base * part if column.how == "quotient" else base + part
    if isinstance(column.own, Whole) and numbers.dtype.kind == "f":
        numbers = np.clip(np.rint(numbers), -(2.0**62), 2.0**62).astype(np.int64)
    return numbers


def _rounded(
    column: Relative, numbers: NDArray[Any], part: NDArray[Any], rng: np.random.Generator
) -> NDArray[Any]:
    """The numbers with each row's share put on the column's own grids; equal ones stay equal."""
    if not column.own.grids:
        return numbers
    ends = np.cumsum([share for _, share in column.own.grids])
    chosen = np.searchsorted(ends, rng.random(len(numbers)) * max(1.0, float(ends[-1])), side="right")
    equal: Truths = part == (1.0 if column.how == "quotient" else 0)
    found: NDArray[Any] = numbers.copy()
    for place, (step, _) in enumerate(column.own.grids):
        rows = (chosen == place) & ~equal
        found[rows] = _on_grid(numbers[rows], step, isinstance(column.own, Temporal))
    return found


def _on_grid(numbers: NDArray[Any], step: float, down: bool) -> NDArray[Any]:
    """The nearest multiples of a step, or those below, so that a time stays within its day."""
    if numbers.dtype.kind == "i":
        width = int(step)
        found: NDArray[Any] = (numbers + (0 if down else width // 2)) // width * width
        return found
    if step >= 1:
        return np.asarray(np.rint(numbers / step) * step, dtype=np.float64)
    parts = float(round(1 / step))
    return np.asarray(np.rint(numbers * parts) / parts, dtype=np.float64)


def _bounded(column: Relative, numbers: NDArray[Any], base: NDArray[Any]) -> NDArray[Any]:
    """The numbers within the column's range or as far outside as the base, on the side of the base they are.

    A declared range is kept whatever the base is. Rounding must not carry a number across its base where no
    bin of the difference does.
    """
    base = column.comparison.base_in_unit(base)
    ends: NDArray[Any] = column.own.edge_array
    if isinstance(column.own, Whole):
        base = np.floor(base).astype(np.int64) if base.dtype.kind == "f" else base
        ends = np.asarray(column.own.edges, dtype=np.int64)
        ends[-1] -= 1
    found = np.clip(numbers, np.minimum(ends[0], base), np.maximum(ends[-1], base))
    if column.keeps_order:
        found = np.maximum(found, base)
    if column.stays_below:
        below = (base >= 0) | (column.how == "difference")
        found = np.where(below, np.minimum(found, base), found)
    return np.asarray(np.clip(found, ends[0], ends[-1]) if column.within else found)


def _held(numbers: NDArray[Any], column: Binned, dtype: str) -> NDArray[Any]:
    """The numbers as the column's storage holds them."""
    if isinstance(column, Whole):
        return numbers
    return Storage.of(column, dtype).held(numbers)
