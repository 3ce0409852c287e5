"""Which columns dates may tell by names, kinds and texts alone: all public, or released before.

Names of columns say of which part of a date their numbers may be, or of which period a date is the end;
listed texts say whether they are names of a part, such as weekdays.
"""

from __future__ import annotations

from collections.abc import Collection

from margrave.schema.columns import Binned, Boolean, Column, Date, Listed, Moment, Temporal, Time
from margrave.schema.constraints.numbers import is_of_labels, list_texts
from margrave.schema.date_names import list_named_parts, list_period_parts, read_flags, read_names


def may_tell(columns: Collection[Column], ruled: Collection[str]) -> bool:
    """Whether a number or a text may follow from dates, by the kinds of columns and declared texts alone.

    Args:
        columns: All of the table, their kinds known.
        ruled: Names of those that rules are about.
    """
    free = [column for column in columns if column.name not in ruled]
    numbers = any(isinstance(one, Binned) and not isinstance(one, Temporal) for one in free)
    able = numbers or any(_may_name(one) for one in free)
    dated = [column for column in columns if isinstance(column, (Date, Moment, Time))]
    return bool(dated) and (able or may_be_periods(columns, ruled))


def may_be_periods(columns: Collection[Column], ruled: Collection[str]) -> bool:
    """Whether a date may be the end of a period of another one, by names and formats alone.

    Args:
        columns: All of the table, their kinds known.
        ruled: Names of those that rules are about.
    """
    periods = {one.name for one in columns if one.name not in ruled and list_periods(one)}
    others = [one for one in columns if isinstance(one, (Date, Moment)) and one.name not in periods]
    return bool(periods) and bool(others)


def list_periods(column: Column) -> tuple[str, ...]:
    """The periods of which a column of dates may be an end, by its name or as its texts are months."""
    if not isinstance(column, (Date, Moment)):
        return ()
    return ("month_start",) if column.has_months else list_period_parts(column.name)


def _may_name(column: Column) -> bool:
    """Whether the texts of a column are names of a part of a date, or may turn out to be."""
    searched = is_of_labels(column) and not column.stems and column.values is None
    flag = isinstance(column, Boolean) and _is_of_weekends(column)
    return searched or flag or list_names(column) is not None


def list_dated(columns: Collection[Column]) -> frozenset[str]:
    """Names of columns that say a part of a date, where there is one: others do not code these."""
    if not any(isinstance(column, (Date, Moment)) for column in columns):
        return frozenset()
    return frozenset(column.name for column in columns if list_named_parts(column.name))


def _is_of_weekends(column: Column) -> bool:
    """Whether a column's name, which is public, says that it tells weekends."""
    return "weekend" in list_named_parts(column.name)


def list_names(column: Column) -> tuple[str, dict[str, int]] | None:
    """The part of a date that the listed texts of a column name, and the number of each; None if they do not.

    As `margrave.schema.date_names.read_names`; what is "(other)" is not looked at. Yes and no, and truth
    values, name weekends where the column's name says so.
    """
    listed = is_of_labels(column) or isinstance(column, Boolean)
    if listed and isinstance(column, Listed) and _is_of_weekends(column):
        flags = read_flags(list_texts(column))
        if flags is not None:
            return "weekend", flags
    return read_names(column.values or ()) if is_of_labels(column) and not column.stems else None
