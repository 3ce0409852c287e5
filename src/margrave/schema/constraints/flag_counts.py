"""Rows in which a number is how many of some columns say yes, as rules of `FlagCount` have it.

Models know nothing of such rules. The flags stay as they were drawn, and the number follows: what else a row
has may follow from each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Column, Listed, Relative, Whole
from margrave.schema.constraints.draws import Drawn, in_bins
from margrave.schema.constraints.numbers import list_written
from margrave.schema.constraints.rules import FlagCount, find_ruled
from margrave.schema.encoded import Codes, Encoded
from margrave.schema.queries import readings
from margrave.schema.schema import Schema
from margrave.schema.storage import forms

Truths = NDArray[np.bool_]


def follow_flags(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    settled: Mapping[str, NDArray[Any]],
    linked: Mapping[str, Drawn],
    codes: Mapping[str, Codes],
    known: Collection[str] = (),
) -> dict[str, Drawn]:
    """The numbers of columns that count flags, and of flags that are numbers, by name.

    A number stays where others hang on it, where some of it are given, and in rows in which the count is
    beyond the column's range; a missing one stays missing.

    Args:
        encoded: The rows.
        schema: Their schema.
        rng: Source of randomness.
        settled: Numbers of columns that were drawn before.
        linked: Those of columns that follow from others, which come before.
        codes: Codes that changed before.
        known: Names of columns some of whose numbers are given.
    """
    fixed = find_ruled(schema.rules) | set(known)
    fixed |= {base for column in schema.columns if isinstance(column, Relative) for base in column.bases}
    changed: dict[str, Drawn] = {}

    def read(name: str) -> Drawn | None:
        column = schema[name]
        if name not in linked and name not in changed and isinstance(column, Binned):
            own = encoded.column(name)
            drawn = settled[name] if name in settled else in_bins(own, column, rng)
            changed[name] = Drawn(np.array(drawn), own >= column.present)
        return changed.get(name, linked.get(name))

    for rule in schema.rules:
        column = schema[rule.number] if isinstance(rule, FlagCount) else None
        if not isinstance(rule, FlagCount) or not isinstance(column, Binned) or rule.number in fixed:
            continue
        said = np.zeros(encoded.rows, dtype=np.int64)
        for name, value in zip(rule.flags, rule.counted, strict=True):
            drawn = read(name)
            numbers = None if drawn is None else np.where(drawn.absent, np.nan, drawn.numbers)
            said += say_yes(schema[name], value, codes.get(name, encoded.column(name)), numbers)
        number = read(rule.number)
        assert number is not None  # noqa: S101 - a column of numbers
        edges = column.edge_array
        held = (said >= edges[0]) & (said <= edges[-1] - isinstance(column, Whole)) & ~number.absent
        number.numbers[held] = said[held]
    return changed


def count_agreeing(arrays: Mapping[str, Any], rule: FlagCount) -> NDArray[np.int64]:
    """The rows in which a number is how many flags say yes, is not, and in which it is missing: shape [3].

    Each row is in one cell, which depends on that row alone. **Not private.**

    Args:
        arrays: An Arrow array of each of the rule's columns, of as many rows each.
        rule: Which number, which flags, and what of them is counted.
    """
    values, there = readings(arrays[rule.number], "number", rule.number)
    said = np.zeros(len(values), dtype=np.int64)
    for name, counted in zip(rule.flags, rule.counted, strict=True):
        codes, distinct = forms.texts(forms.list_values(arrays[name], name))
        # The last place is that of cells without a value.
        yes = np.array([*(text == counted for text in distinct.to_pylist()), False], dtype=np.bool_)
        said += yes[codes]
    agreed = there & (said == values)
    counts = [int(agreed.sum()), int((there & ~agreed).sum()), int((~there).sum())]
    return np.array(counts, dtype=np.int64)


def say_yes(column: Column, counted: str, codes: Codes, numbers: NDArray[Any] | None) -> Truths:
    """Which rows of a flag have the value that is counted: shape [rows].

    Args:
        column: The flag.
        counted: That value, as text.
        codes: The flag's codes, where it is listed: shape [rows].
        numbers: Its numbers, where it has some, NaN where they are missing: shape [rows].
    """
    if isinstance(column, Listed):
        texts = list_written(column)
        return np.asarray(codes == texts.index(counted)) if counted in texts else np.zeros(len(codes), bool)
    number = read_counted(counted)
    return np.zeros(len(codes), dtype=np.bool_) if number is None else np.asarray(numbers == number)


def read_counted(counted: str) -> float | None:
    """The number that a counted value is for flags that are numbers; None where it is none."""
    try:
        return float(counted)
    except ValueError:
        return None
