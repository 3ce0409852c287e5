"""What discovery asks about one column: exact answers on one Arrow array, such as a batch. **Not private.**

In each answer a cell of the column is counted once at most, and answers for parts of a column add up to the
answer for the whole. `weigh_unlisted` and `agreements` alone are about several columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.calendar import FIRST_DAY, LAST_DAY, NO_PART, Instant
from margrave.schema.storage import clock, forms

if TYPE_CHECKING:
    from margrave.schema.constraints.rules import CalendarRule

READS = ("number", "date", "moment", "time", "duration")
"""As what cells are read. Text is a number, date, moment or time by its spelling, and a date may stand for
the moment it begins; a stored moment has a date; in other storage a number is a number of the unit."""

Numbers = NDArray[np.int64] | NDArray[np.float64]
Truths = NDArray[np.bool_]


def readings(array: Any, read: str = "number", name: str = "") -> tuple[Numbers, Truths]:
    """A column's numbers, and which cells have one; both of shape [rows]. **Not private.**

    Args:
        array: An Arrow array of any storage that has a column kind.
        read: One of `READS`.
        name: The column's name, for the error.

    Raises:
        InputError: The storage has no such reading, such as durations read as dates.
    """
    kind = array.type
    normal = forms.normal(array, name)
    if forms.is_text(normal) and read != "number":
        return _texts(normal, read)
    if pa.types.is_int64(normal.type):
        absent = np.asarray(normal.is_null().to_numpy(zero_copy_only=False))
        values = np.asarray(pc.fill_null(normal, 0).to_numpy(zero_copy_only=False))
        held = clock.temporal_kind(kind) if clock.is_temporal(kind) else read
        return (values if held in (read, "number") else _convert_temporal(values, held, read, name)), ~absent
    numbers, _ = forms.numbers(normal)
    return numbers, ~np.isnan(numbers)


def check_reading(held: str, read: str, name: str) -> None:
    """Refuse a reading that storage of dates or times does not have. Public: by types alone.

    Args:
        held: What is stored, one of `READS`.
        read: As what it is to be read.
        name: The column's name, for the error.

    Raises:
        InputError: It is another one than what is stored, a number of its unit, or for dates and moments the
            other of the two.
    """
    if read not in (held, "number") and {held, read} != {"date", "moment"}:
        constraint = f"stored as what it is declared, a {read}"
        raise InputError(invalid(f"column {name!r}", constraint, f"It stores a {held}."))


def _convert_temporal(values: NDArray[np.int64], held: str, read: str, name: str) -> NDArray[np.int64]:
    """Temporal values of one meaning read as another."""
    check_reading(held, read, name)
    if read == "number":
        return values
    if held == "moment":
        return values // clock.DAY
    return np.clip(values, -(clock.MAX_TICKS // clock.DAY), clock.MAX_TICKS // clock.DAY) * clock.DAY


def _texts(normal: Any, read: str) -> tuple[NDArray[np.int64], Truths]:
    codes, distinct = forms.texts(normal)
    if read == "date":
        values, known = clock.dates(distinct)
    elif read == "time":
        values, known = clock.times(distinct)
    elif read == "moment":
        values, known = clock.moments(distinct)
        days, plain = clock.dates(distinct)
        values, known = np.where(plain, days * clock.DAY, values), known | plain
    else:
        numbers, text = forms.parse(distinct)
        known = ~text & forms.whole(numbers)
        values = np.where(known, numbers, 0).astype(np.int64)
    return np.append(values, 0)[codes], np.append(known, False)[codes]


def places(values: Numbers, edges: Any) -> NDArray[np.int64]:
    """The half-open interval that each value lies in, -1 below all and len(edges) - 1 above: shape [values].

    Whole numbers are compared as whole numbers, exactly at any size.
    """
    edges = np.asarray(edges)
    if values.dtype.kind == "i":
        low, high = float(clock.MIN_TICKS), float(1 << 62)
        if edges.dtype.kind != "i":
            edges = np.clip(np.ceil(edges), low, high).astype(np.int64)
        return np.searchsorted(edges, values, side="right") - 1
    return np.searchsorted(edges.astype(np.float64), values, side="right") - 1


def histogram(
    array: Any, edges: NDArray[np.float64], read: str = "number", name: str = "", *, absent: bool = False
) -> NDArray[np.int64]:
    """Cells with a reading by the half-open interval it lies in, those outside in the end ones: [edges - 1].

    With `absent` the cells without a reading are counted, too, in one more cell at the end: [edges].

    Args:
        array: An Arrow array.
        edges: Increasing, two or more.
        read: As what the cells are read, one of `READS`.
        name: The column's name, for the error.
        absent: Whether cells without a reading are counted.

    Raises:
        InputError: The edges do not increase, or the storage has no such reading.
    """
    edges = np.asarray(edges, dtype=np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not bool((np.diff(edges) > 0).all()):
        raise InputError(invalid("edges", "increasing, two or more", "Sort them and drop repeats."))
    values, known = readings(array, read, name)
    last = len(edges) - 2
    found = np.bincount(np.clip(places(values[known], edges), 0, last), minlength=last + 1).astype(np.int64)
    return np.append(found, len(known) - int(known.sum())) if absent else found


def grids(array: Any, steps: Sequence[float], read: str = "number", name: str = "") -> NDArray[np.int64]:
    """Cells with a reading by the first step it is a whole multiple of, the last for none: [steps + 1].

    A number x is a multiple of a step s of at least 1, a whole number, if the remainder of x by s is 0; of a
    step below 1, one over a whole number m, if round(x m) / m is x again, in double precision. 0 is a
    multiple of every step.

    Args:
        array: An Arrow array.
        steps: Positive, the coarsest first.
        read: As what the cells are read, one of `READS`.
        name: The column's name, for the error.
    """
    values, known = readings(array, read, name)
    values = values[known]
    result = np.zeros(len(steps) + 1, dtype=np.int64)
    for place, step in enumerate(steps):
        on = _multiple(values, float(step))
        result[place] = on.sum()
        values = values[~on]
    result[-1] = len(values)
    return result


def places_in_cycle(array: Any, read: str, tick: int, ticks: int, name: str = "") -> NDArray[np.int64]:
    """Cells with a reading by their place in a period of so many ticks, that of 0 first: [ticks].

    Args:
        array: An Arrow array.
        read: As what the cells are read, one of `READS`; fractions of a unit are rounded down.
        tick: Length of a tick in the unit of the reading, a whole number above 0.
        ticks: Of a period.
        name: The column's name, for the error.
    """
    values, known = readings(array, read, name)
    return count_ticks(values[known], tick, ticks)


def count_ticks(values: Numbers, tick: int, ticks: int) -> NDArray[np.int64]:
    """Numbers by their place in a period of so many ticks, that of 0 first: [ticks].

    Args:
        values: None missing; fractions are rounded down.
        tick: Length of a tick, a whole number above 0.
        ticks: Of a period.
    """
    whole = np.floor(values) if values.dtype.kind == "f" else values
    places = (np.remainder(whole, tick * ticks) // tick).astype(np.int64)
    return np.bincount(places, minlength=ticks).astype(np.int64)


def agreements(
    arrays: Mapping[str, Any], rules: Sequence[CalendarRule], reads: Mapping[str, str]
) -> list[NDArray[np.int64]]:
    """For each rule the rows in which its number is what its dates say, is not, and in which one is missing.

    A date outside the years 1 to 9999 counts as missing; a text that stands for no number is not what a date
    says. Each row is in one cell of each rule, which depends on that row alone. **Not private.**

    Args:
        arrays: An Arrow array of each of the rules' columns, of as many rows each.
        rules: Which numbers, which dates, and what they say.
        reads: "date", "moment" or "time" for each of the dates, and for a number that is one: as what it is
            read. A moment is what a date says only at midnight.

    Returns:
        Of shape [3] each.
    """
    dates = {name: _read_instants(arrays[name], reads[name], name) for rule in rules for name in rule.dates}
    read = {rule: reads[rule.number] if rule.tells_date else "number" for rule in rules}
    plain = {(rule.number, read[rule]) for rule in rules if not rule.reads_texts}
    numbers = {(name, own): readings(arrays[name], own, name) for name, own in plain}
    found = []
    for rule in rules:
        held = None if rule.reads_texts else numbers[rule.number, read[rule]]
        values, there = held or _read_texts(arrays[rule.number], rule)
        own = [dates[name] for name in rule.dates]
        there = np.logical_and.reduce([there, *(known for _, known in own)])
        told = rule.tell_number([instant for instant, _ in own])
        agreed = there & ((told * clock.DAY if read[rule] == "moment" else told) == values)
        counts = [int(agreed.sum()), int((there & ~agreed).sum()), int((~there).sum())]
        found.append(np.array(counts, dtype=np.int64))
    return found


def _read_texts(array: Any, rule: CalendarRule) -> tuple[NDArray[np.int64], Truths]:
    """The numbers that a column's texts stand for, NO_PART for none, and which cells have a text."""
    codes, distinct = forms.texts(forms.list_values(array, rule.number))
    values = np.append(rule.read_texts(distinct.to_pylist()), NO_PART)
    return values[codes], codes >= 0


def _read_instants(array: Any, read: str, name: str) -> tuple[Instant, Truths]:
    """A column's dates by their parts, and which cells have one within the years 1 to 9999."""
    values, known = readings(array, read, name)
    days = values if read == "date" else values // clock.DAY
    return Instant.of(values, read != "date", read == "time"), known & (days >= FIRST_DAY) & (
        days <= LAST_DAY
    )


def count_numbers(
    array: Any, read: str = "number", name: str = "", rows: NDArray[np.int64] | None = None
) -> tuple[Numbers, NDArray[np.int64]]:
    """The different numbers that cells are read as, in order, and the rows of each: both of shape [different
    numbers]. **Not private.**

    Args:
        array: An Arrow array.
        read: As what the cells are read, one of `READS`.
        name: The column's name, for the error.
        rows: In how many rows each cell is, shape [cells]; in one each if left out.
    """
    values, known = readings(array, read, name)
    return add_rows(values[known], None if rows is None else rows[known])


def add_rows(values: Any, rows: NDArray[np.int64] | None = None) -> tuple[Numbers, NDArray[np.int64]]:
    """The different ones of some numbers, in order, and the rows of each, one for each number if left out."""
    # numpy's own `unique` hashes, which takes ten times as long where nearly all numbers differ.
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    first = np.flatnonzero(np.append(True, np.diff(ordered) != 0)[: len(ordered)])
    weights = np.ones(len(values), dtype=np.int64) if rows is None else rows[order]
    held = np.add.reduceat(weights, first) if len(first) else weights[:0]
    return ordered[first], held


def count_repeats(rows: NDArray[np.int64], steps: Sequence[int]) -> NDArray[np.int64]:
    """How many values are in at least so many rows, from the rows of each: shape [steps]. **Not private.**"""
    ordered = np.sort(rows)
    return np.asarray(len(ordered) - np.searchsorted(ordered, steps), dtype=np.int64)


def _multiple(values: Numbers, step: float) -> Truths:
    if step >= 1:
        found: Truths = np.remainder(values, int(step) if values.dtype.kind == "i" else step) == 0
        return found
    parts = round(1 / step)
    with np.errstate(over="ignore"):
        near = np.rint(values * float(parts))
    return np.asarray((near / parts == values) & np.isfinite(near))


def weigh_unlisted(
    arrays: Mapping[str, Any], listed: Mapping[str, Collection[str]], weights: Sequence[int]
) -> tuple[list[str], NDArray[np.int64]]:
    """Texts of several columns that are not listed, and the weights of the rows that hold them.

    A row that holds m such texts adds weights[m - 1] to each of them. **Not private.**

    Args:
        arrays: An Arrow array of each column, of as many rows each.
        listed: The listed texts of each of these columns.
        weights: Of a row that holds 1, 2, ... texts that are not listed, one for each column: shape
            [columns].

    Returns:
        The texts, each as the place of its column and itself, as in "0:Bonn", and the sums: shape [texts].
    """
    cells = []
    for name, known in listed.items():
        codes, distinct = forms.texts(forms.list_values(arrays[name], name))
        fresh = ~np.append(_is_among(distinct, known), True)
        cells.append((codes, distinct, fresh[codes]))
    held = np.sum([inside for _, _, inside in cells], axis=0, dtype=np.int64)
    each = np.array([0, *weights], dtype=np.int64)[held]
    names, sums = list[str](), [np.zeros(0, dtype=np.int64)]
    for place, (codes, distinct, inside) in enumerate(cells):
        total = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(total, codes[inside], each[inside])
        found = np.flatnonzero(total)
        names += [f"{place}:{text}" for text in distinct.take(pa.array(found)).to_pylist()]
        sums.append(total[found])
    return names, np.concatenate(sums)


def _is_among(distinct: Any, known: Collection[str]) -> Truths:
    """Which of some texts are among others: shape [texts]."""
    found = pc.is_in(distinct, value_set=pa.array(sorted(known), distinct.type))
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)
