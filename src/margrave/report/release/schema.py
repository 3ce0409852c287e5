"""The schema as a table.

The relations between columns that a release found, and how sure that is.
"""

from __future__ import annotations

import math

from margrave.release import Release
from margrave.report.html import Markup, join, mark_name, row, table, tag
from margrave.report.numerals import count, percent, significant
from margrave.schema.columns import Binned, Column, Identifier, Listed, Omitted, Relative, Temporal
from margrave.schema.constraints.rules import Determines, Rule
from margrave.schema.schema import describe_found_ranges

MAX_VALUES_SHOWN = 6
LEAST_SHARE = 0.005
HEADS = ("Column", "Kind", "Origin", "Missing", "Values or bins", "Codes")


def schema_section(release: Release) -> Markup:
    """The section of the page."""
    return join(
        tag(
            "p",
            (
                "What the release knows of each column. Declared parts were given by the data "
                "holder as public; discovered parts were read from the private table with noise "
                "and are in the ledger." + _ranges_sentence(release)
            ),
        ),
        table(
            "Columns",
            HEADS,
            [_line(column, column.name in release.declared_columns) for column in release.schema.columns],
            numeric=1,
        ),
    )


def _ranges_sentence(release: Release) -> str:
    """What became of numbers beyond the bins that were found, as a sentence; empty where none were."""
    words = describe_found_ranges(release.schema.columns, release.declared_columns)
    return f" {words[0].upper()}{words[1:]}." if words else ""


def _line(column: Column, declared: bool) -> Markup:
    origin = tag(
        "span",
        "declared" if declared else "discovered",
        class_="chip" if declared else "chip found",
    )
    return row(
        mark_name(column.name),
        column.kind,
        origin,
        "possible" if column.missing else "never",
        join(_values(column), _format(column, declared)),
        count(column.size) if column.attribute else "none",
        numeric=1,
    )


def _values(column: Column) -> Markup:
    if isinstance(column, Listed):
        return _list_values(column)
    if isinstance(column, Binned):
        low, high = _ends(column)
        bins = f"{count(column.present)} bin{'s' if column.present != 1 else ''} from {low} to {high}"
        fine = f", decoded by {count(len(column.weights))} finer cells" if column.weights else ""
        return join(bins + fine + _grids(column))
    if isinstance(column, Relative):
        return join(column.sentence)
    if isinstance(column, Identifier):
        shapes = [join(", " if place else "", mark_name(one)) for place, one in enumerate(column.shapes)]
        return join("new keys", *([" of the shape ", *shapes] if shapes else []))
    if isinstance(column, Omitted):
        return join("left out", f": {column.reason}" if column.reason else "")
    return join("not known")


def _ends(column: Binned) -> tuple[str, str]:
    """Least and greatest value, for reading."""
    ends = column.lower or 0, column.upper or 0
    if isinstance(column, Temporal):
        return column.spell(ends[0]), column.spell(ends[1])
    low = column.spell(ends[0]) if ends[0] == math.nextafter(0.0, 1.0) else significant(ends[0], 8)
    return low, significant(ends[1], 8)


def _format(column: Column, declared: bool) -> str:
    """How texts have the numbers or dates of a column, where it is not as usual."""
    if not isinstance(column, Binned) or not column.format:
        return ""
    return f"; {'declared' if declared else 'found'} format {column.format}"


def _grids(column: Binned) -> str:
    """The rounding that decoding keeps up."""
    if not column.grids:
        return ""
    shown = [
        f"{percent(share, 0)} on multiples of {column.spell_step(step)}"
        for step, share in column.grids
        if share >= LEAST_SHARE
    ]
    return "; " + ", ".join(shown)


def _list_values(column: Listed) -> Markup:
    values = column.values or ()
    shown = [
        join(", " if place else "", mark_name(str(value), limit=28))
        for place, value in enumerate(values[:MAX_VALUES_SHOWN])
    ]
    more = len(values) - len(shown)
    rest = join(f" and {count(more)} more" if more > 0 else "")
    if column.stems:
        stems = [
            join(", " if place else "", mark_name(stem))
            for place, stem in enumerate(column.stems[:MAX_VALUES_SHOWN])
        ]
        more = len(column.stems) - len(stems)
        rest = join(
            rest,
            "; others by how they begin: " if values else "by how they begin: ",
            *stems,
            f" and {count(more)} more" if more > 0 else "",
        )
    other = join("; all else as ", mark_name(column.other, limit=28)) if column.other is not None else None
    return join(*shown, rest, other)


RELATION_HEADS = ("Column", "Relation", "Rows that fit", "±2σ of noise")
WORDS = (
    "Columns whose values are drawn by how they differ from another column of the row, as a part of it, or "
    "as what follows from it. These relations were found in the private table under noise. They are not "
    "promised: rows that do not fit were moved to the nearest bin or value. A relation that is public can be "
    "declared as a rule; rules are exact and cost nothing."
)


def relations_section(release: Release) -> Markup | None:
    """The section of the page; None if no column is coded by another, or was found to follow from one."""
    lines = [_relation_line(column) for column in release.schema.columns if isinstance(column, Relative)]
    lines += [_rule_line(rule) for rule in release.schema.rules if rule.found is not None]
    if not lines:
        return None
    return join(tag("p", WORDS), table("Relations found", RELATION_HEADS, lines, numeric=2))


def _rule_line(rule: Rule) -> Markup:
    """A line of the table for a rule that discovery found."""
    by, column = rule.names
    said = f"{column} follows from {by}" if isinstance(rule, Determines) else f"{by} says where {column} lies"
    share, error = rule.found or (1.0, 0.0)
    return row(
        mark_name(column), mark_name(said, limit=120), percent(share, 1), percent(2 * error, 1), numeric=2
    )


def _relation_line(column: Relative) -> Markup:
    shown = ("declared", "none") if column.share is None else tuple(percent(x, 1) for x in _noise(column))
    return row(mark_name(column.name), mark_name(column.relation, limit=120), *shown, numeric=2)


def _noise(column: Relative) -> tuple[float, float]:
    share, error = column.share or (1.0, 0.0)
    return share, 2 * error
