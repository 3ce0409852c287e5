"""widened: a schema read off two tables, with what a third one holds besides. **Not private.**"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from margrave.schema.columns import Categorical, Column
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Source

__all__ = ["widened"]


def widened(schema: Schema, other: Source, declared: Schema | None = None) -> Schema:
    """The schema with codes for the values and missing cells that only `other` has.

    **Not private**: it reads the table exactly. Without it a category of held-out rows that neither other
    table holds would be taken for one that they do. Bins stay as they are: the end ones take what is
    beyond. What is declared stays as declared.

    Args:
        schema: Made by `observed_schema` of the other two tables.
        other: The third table, with the same columns.
        declared: What was known of the columns before any was read.
    """
    known = {column.name for column in declared.columns if column.known} if declared else set()
    columns = (
        column if column.name in known or not column.attribute else _wider(column, other)
        for column in schema.columns
    )
    return dataclasses.replace(schema, columns=tuple(columns))


def _wider(column: Column, other: Source) -> Column:
    missing = bool(column.missing) or bool(other.kinds(column.name).reveal()[0] > 0)
    if not isinstance(column, Categorical) or column.values is None or column.other is not None:
        return dataclasses.replace(column, missing=missing)
    listed = {str(value) for value in column.values}
    more = [text for text in other.values(column.name)[0] if text not in listed]
    return dataclasses.replace(column, values=(*column.values, *sorted(more)), missing=missing)
