"""What the codes of a listed column stand for, in an Arrow type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from margrave.schema import clock, storage
from margrave.schema.columns import Boolean, Categorical, Listed, Scalar
from margrave.schema.encoded import Codes
from margrave.schema.looks import readings
from margrave.schema.shapes import draw_texts

__all__ = ["integer_range", "is_text_type", "label_array", "with_endings"]

REDRAWS = 4
"""How often a completed text that the column lists is drawn anew."""
TRUTHS = {"true": True, "false": False, "1": True, "0": False}


def label_array(column: Listed, kind: Any = None) -> Any:
    """What each code decodes to, an Arrow array of shape [codes].

    Args:
        column: A column with known values.
        kind: The Arrow type wanted, not a dictionary; the one that the values suggest when None. A label
            that it cannot hold, such as the text of `other` among numbers, becomes null.

    A beginning that stands for many texts decodes to itself here; `with_endings` completes it.
    """
    values: list[Scalar] = [*(column.values or ()), *column.stems]
    if column.other is not None:
        values.append(column.other)
    wanted = _natural(values, column) if kind is None else kind
    if isinstance(column, Boolean) and is_text_type(wanted):
        values = [column.spell(value) for value in values]
    entries = [_label(value, wanted) for value in values] + [None] * bool(column.missing)
    if clock.is_temporal(wanted):
        return _instants(entries, wanted)
    if pa.types.is_decimal(wanted) or pa.types.is_floating(wanted):
        return pa.array(entries, pa.float64()).cast(wanted, safe=False)
    return pa.array(entries, wanted)


def with_endings(values: Any, codes: Codes, column: Categorical, rng: np.random.Generator) -> Any:
    """Decoded values whose beginnings are completed: a text is drawn for each that has an ending, and for
    those of the code `other` where the column has a shape for them.

    A text that the column lists is drawn again a few times, since it has a code of its own.

    Args:
        values: An Arrow array of text, as `label_array` decodes the codes, shape [rows].
        codes: Shape [rows].
        column: Of the codes.
        rng: Draws the endings.
    """
    listed, found = set(column.values or ()), None
    drawn = [*zip(column.prefixes, column.endings, strict=True), ("", column.others)]
    for place, (prefix, ending) in enumerate(drawn, len(column.values or ())):
        rows = np.flatnonzero(codes == place)
        if not ending or not len(rows):
            continue
        found = values.to_pylist() if found is None else found
        for _ in range(REDRAWS):
            for row, rest in zip(rows.tolist(), draw_texts(ending, len(rows), rng), strict=True):
                found[row] = prefix + rest
            rows = np.array([row for row in rows.tolist() if found[row] in listed], dtype=np.int64)
            if not len(rows):
                break
    return values if found is None else pa.array(found, values.type)


def is_text_type(kind: Any) -> bool:
    """Whether an Arrow type is one of text."""
    view = getattr(pa.types, "is_string_view", bool)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or view(kind))


def _instants(entries: list[Any], kind: Any) -> Any:
    """Labels in ISO form as dates or times; null where they are something else."""
    texts = ["" if entry is None else entry for entry in entries]
    values, known = readings(pa.array(texts, pa.large_string()), clock.meaning(kind))
    return clock.from_ticks(pa.array(values, mask=~known), kind)


def _natural(values: list[Scalar], column: Listed) -> Any:
    kinds = {type(value) for value in values}
    if kinds == {bool} or (not kinds and isinstance(column, Boolean)):
        return pa.bool_()
    if kinds == {int}:
        return pa.int64()
    return pa.float64() if kinds and kinds <= {int, float} else pa.large_string()


def _label(value: Scalar, kind: Any) -> Any:
    if pa.types.is_null(kind):
        return None
    if pa.types.is_boolean(kind):
        return TRUTHS.get(value.lower()) if isinstance(value, str) else bool(value)
    if pa.types.is_integer(kind):
        return _whole(value, kind)
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return storage.number_of(TRUTHS.get(value, value) if isinstance(value, str) else value)
    return storage.spelling(value)


def _whole(value: Scalar, kind: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.lstrip("+-").isdecimal():
        number: float | None = int(value)
    else:
        number = value if isinstance(value, int) else storage.number_of(value)
    if number is None or number != int(number):
        return None
    low, high = integer_range(kind)
    return int(number) if low <= number <= high else None


def integer_range(kind: Any) -> tuple[int, int]:
    """Least and greatest value of an Arrow integer type."""
    info = np.iinfo(kind.to_pandas_dtype())
    return int(info.min), int(info.max)
