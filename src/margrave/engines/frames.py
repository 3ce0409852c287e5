"""Tables of any library, and files, as one Arrow table and what is public about it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from margrave.engines.files import (
    DEFAULT_TEXT_FORMAT,
    Choose,
    all_columns,
    choose_columns,
    chosen_columns,
    is_untyped_file,
    read_file,
)
from margrave.errors import InputError, invalid
from margrave.schema.frame import TEXT_FILE, Frame
from margrave.schema.storage import forms
from margrave.schema.storage.arrow import type_text
from margrave.schema.storage.text import TextFormat

ROUNDED = {b"margrave": b"rounded"}
"""Marks a column of the storage forms that may hold one value where the table has two."""


def read_table(
    data: Any,
    missing: Sequence[str] = ("",),
    text: TextFormat = DEFAULT_TEXT_FORMAT,
    choose: Choose = all_columns,
    owner: str | None = None,
) -> tuple[Any, Frame]:
    """Any table as a pyarrow.Table in the storage forms, and its public description.

    **Not private**: the table holds the rows.

    Args:
        data: A pandas or polars DataFrame, a pyarrow.Table, another eager frame that narwhals knows, or the
            path of a CSV, Excel, Parquet or Arrow file. The index of a pandas frame is not a column and is
            left out; its columns that are named by whole numbers are named by their text.
        missing: Texts that mean missing, in text files only.
        text: How a text file is written, and how synthetic rows are to be.
        choose: Picks the columns to read by their names; others may store anything.
        owner: Name of the column that says whose row it is: in text files and Excel sheets the empty cell
            alone is missing there, and all others are taken as they stand.

    Raises:
        InputError: It is none of these, a name repeats or is no text, or a column stores what has no
            column kind, such as lists.
    """
    if isinstance(data, (str, os.PathLike)):
        return _from_path(str(data), missing, text, choose, owner)
    if isinstance(data, pa.Table):
        return _from_arrow(choose_columns(data, choose), text)
    import narwhals as nw  # a fiftieth of a second, for what tables of Arrow and files never ask

    # Libraries of frames are told apart without importing any that is not loaded already.
    data = nw.to_native(data, pass_through=True)
    if nw.dependencies.is_pandas_dataframe(data):
        from margrave.schema.storage.pandas import arrow_columns as from_pandas
        from margrave.schema.storage.pandas import name_by_text

        data = name_by_text(data)
        kept = chosen_columns(list(data.columns), choose)
        names, arrays, dtypes = from_pandas(data if kept is None else data[kept])
        return _make_table(names, arrays), Frame("pandas", dict(zip(names, dtypes, strict=True)), text)
    if nw.dependencies.is_polars_dataframe(data):
        from margrave.schema.storage.polars import WIDE_INTEGERS
        from margrave.schema.storage.polars import arrow_columns as from_polars

        kept = chosen_columns(data.columns, choose)
        names, arrays, dtypes = from_polars(data if kept is None else data.select(kept))
        types = dict(zip(names, dtypes, strict=True))
        wide = [name for name, dtype in types.items() if dtype in WIDE_INTEGERS]
        return _make_table(names, arrays, wide), Frame("polars", types, text)
    return _from_arrow(choose_columns(_as_arrow(data), choose), text)


def _from_path(
    name: str, missing: Sequence[str], text: TextFormat, choose: Choose, owner: str | None
) -> tuple[Any, Frame]:
    if isinstance(missing, str):
        raise InputError(invalid("missing", "a list of texts", f"Try missing=[{missing!r}].", got=missing))
    plain, _, sheet = name.partition("::")
    path = Path(plain if sheet and not Path(name).exists() else name)
    table, found = read_file(path, missing, text, sheet or None, owner, choose)
    if not is_untyped_file(path):
        return _from_arrow(table, found)
    names = list(table.column_names)
    return _make_table(names, table.columns), Frame("arrow", dict.fromkeys(names, TEXT_FILE), found)


def _from_arrow(table: Any, text: TextFormat) -> tuple[Any, Frame]:
    names = list(table.column_names)
    result = _make_table(names, table.columns)
    types = {name: type_text(kind) for name, kind in zip(names, table.schema.types, strict=True)}
    return result, Frame("arrow", types, text)


def _as_arrow(data: Any) -> Any:
    import narwhals as nw

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    try:
        return nw.from_native(data, eager_only=True).to_arrow()
    except (TypeError, ValueError, AttributeError, pa.ArrowException):
        pass
    raise InputError(
        invalid(
            "data",
            "a pandas, polars or Arrow table in memory, or the path of a file",
            "Collect a lazy frame first; turn other objects into one of these.",
            got=type(data).__name__,
        )
    )


def _make_table(names: Sequence[Any], arrays: Sequence[Any], off: Sequence[str] = ()) -> Any:
    """The columns in their storage forms, under names that are distinct texts.

    `off` are the names of columns that were rounded before they were Arrow arrays.
    """
    if not names:
        raise InputError(invalid("data", "a table with one column or more", "Pass one with columns."))
    if not all(isinstance(name, str) and name for name in names):
        raise InputError(
            invalid("column names", "texts that are not empty", "Rename the columns, as in ['c0', 'c1'].")
        )
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if list(names).count(name) > 1})
        raise InputError(invalid("column names", "distinct", "Rename those that repeat.", got=twice))
    # Whether storage had single precision is noted before it becomes float64: sums of such numbers are off
    # by more.
    rounded = [name in off or is_rounded(array.type) for name, array in zip(names, arrays, strict=True)]
    columns = [forms.keep_column(array, name) for name, array in zip(names, arrays, strict=True)]
    for name, column in zip(names, columns, strict=True):
        if forms.is_text(column) and not _is_unicode(column.dictionary):
            raise InputError(
                invalid(f"column {name!r}", "text in valid Unicode", "Clean or drop the column.")
            )
    fields = [
        pa.field(name, column.type, metadata=ROUNDED if less else None)
        for name, column, less in zip(names, columns, rounded, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def is_rounded(kind: Any) -> bool:
    """Whether the storage forms may make one value of two. Public.

    Decimals; dates in milliseconds, which need not be whole days; times in nanoseconds; and moments and
    durations in seconds or milliseconds, of which those beyond int64 microseconds are held at its end.
    """
    if pa.types.is_dictionary(kind):
        return is_rounded(kind.value_type)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return bool(kind.unit != "us")
    fine = pa.types.is_time(kind) and kind.unit == "ns"
    return bool(pa.types.is_decimal(kind) or pa.types.is_date64(kind) or fine)


def check_owner(table: Any, owner: str) -> None:
    """Refuse an owner column that `read_table` has rounded; decided by its storage type alone.

    Two owners that are taken for one would share a cap, and then what is kept of the one depends on the rows
    of the other.

    Args:
        table: As `read_table` gives it.
        owner: Name of a column.

    Raises:
        InputError: Its storage type may make one value of two, see `is_rounded`.
    """
    if table.schema.field(owner).metadata == ROUNDED:
        raise rounded_owner(owner)


def check_bounds(max_rows: int) -> None:
    """Check how many rows of each owner are to be kept.

    Raises:
        InputError: It is below 1.
    """
    if max_rows < 1:
        raise InputError(invalid("max_rows", "at least 1", "Try max_rows=1.", got=max_rows))


def check_most(most: int) -> None:
    """Check up to how many rows owners are to be told apart.

    Raises:
        InputError: It is below 1.
    """
    if most < 1:
        raise InputError(invalid("most", "at least 1", "Try most=10.", got=most))


def lone_owner(owner: str) -> InputError:
    """The error for an owner column without another column beside it."""
    return InputError(invalid("owner", "beside another column", "Keep a column to release.", got=owner))


def unknown_column(name: str, names: Sequence[str], param: str = "column") -> InputError:
    """The error about a column that the table does not have."""
    return InputError(invalid(param, f"one of {list(names)}", "Check the spelling.", got=name))


def unknown_owner(owner: str) -> InputError:
    """The error for an owner column in which a row has no value."""
    constraint = "a column without missing values"
    return InputError(invalid("owner", constraint, "Fill in the owner of every row.", got=owner))


def rows_elsewhere() -> InputError:
    """The error where public columns are asked of a table whose rows are not in memory."""
    remedy = "Pass a frame or an Arrow table, or engine='memory' for a file."
    return InputError(invalid("public", "columns of a table that is held in memory", remedy))


def rounded_owner(owner: str) -> InputError:
    """The error for an owner column of which not all values are told apart."""
    constraint = "stored as text, whole numbers, dates or microseconds"
    return InputError(invalid("owner", constraint, "Cast it to text.", got=owner))


def _is_unicode(texts: Any) -> bool:
    """Whether Arrow text is valid UTF-8: files and foreign buffers are not checked when they are read."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
