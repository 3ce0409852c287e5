"""The relations between columns that a release found, and how sure that is."""

from __future__ import annotations

from margrave.release import Release
from margrave.report.markup import Markup, join, named, tag
from margrave.report.numerals import percent
from margrave.report.tables import row, table
from margrave.schema.columns import Relative

__all__ = ["relations_section"]

HEADS = ("Column", "Relation", "Rows that fit", "±2σ of noise")
WORDS = (
    "Columns whose values are drawn by how they differ from another column of the row, or as a part of it. "
    "These relations were found in the private table under noise. They are not promised: rows that do not "
    "fit were moved to the nearest bin. A relation that is public can be declared as a rule; rules are exact "
    "and cost nothing."
)


def relations_section(release: Release) -> Markup | None:
    """The section of the page; None if no column is coded by another."""
    found = [column for column in release.schema.columns if isinstance(column, Relative)]
    if not found:
        return None
    return join(
        tag("p", WORDS), table("Relations found", HEADS, [_line(column) for column in found], numeric=2)
    )


def _line(column: Relative) -> Markup:
    shown = ("declared", "none") if column.share is None else tuple(percent(x, 1) for x in _noise(column))
    return row(named(column.name), named(column.relation, limit=120), *shown, numeric=2)


def _noise(column: Relative) -> tuple[float, float]:
    share, error = column.share or (1.0, 0.0)
    return share, 2 * error
