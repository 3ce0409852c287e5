"""The schema as a table."""

from __future__ import annotations

from margrave.report.markup import Markup, join, named, tag
from margrave.report.numerals import count, significant
from margrave.report.tables import row, table
from margrave.schema.columns import Binned, Column, Listed
from margrave.schema.schema import Schema

__all__ = ["schema_section"]

SHOWN = 6
HEADS = ("Column", "Kind", "Origin", "Missing", "Values or bins", "Codes")


def schema_section(schema: Schema) -> Markup:
    """The section of the page."""
    return join(
        tag(
            "p",
            (
                "What the release knows of each column. Declared parts were given by the data "
                "holder as public; discovered parts were read from the private table with noise "
                "and are in the ledger."
            ),
        ),
        table("Columns", HEADS, [_line(column) for column in schema.columns], numeric=1),
    )


def _line(column: Column) -> Markup:
    origin = tag(
        "span",
        "declared" if column.strict else "discovered",
        class_="chip" if column.strict else "chip found",
    )
    return row(
        named(column.name),
        column.kind,
        origin,
        "possible" if column.missing else "never",
        _values(column),
        count(column.size),
        numeric=1,
    )


def _values(column: Column) -> Markup:
    if isinstance(column, Listed):
        return _listed(column)
    if isinstance(column, Binned):
        low, high = significant(column.lower or 0, 8), significant(column.upper or 0, 8)
        bins = f"{count(column.present)} bin{'s' if column.present != 1 else ''} from {low} to {high}"
        fine = f", decoded by {count(len(column.weights))} finer cells" if column.weights else ""
        return join(bins + fine)
    return join("not known")


def _listed(column: Listed) -> Markup:
    values = column.values or ()
    shown = [
        join(", " if place else "", named(str(value), limit=28)) for place, value in enumerate(values[:SHOWN])
    ]
    more = len(values) - len(shown)
    rest = f" and {count(more)} more" if more > 0 else ""
    other = join("; all else as ", named(column.other, limit=28)) if column.other is not None else None
    return join(*shown, rest, other)
