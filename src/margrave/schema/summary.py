"""A schema for reading: what is known of each column, in one line each."""

from __future__ import annotations

from collections.abc import Sequence

from margrave.schema.columns import Binned, Column, Identifier, Listed, Omitted, Relative, Unknown
from margrave.schema.rules import Rule

__all__ = ["describe_column", "describe_rule", "describe_schema"]

MAX_SHOWN = 60
"""Letters of a column's values that are shown, at most."""


def describe_schema(columns: Sequence[Column], rules: Sequence[Rule]) -> list[str]:
    """A line on the whole, a line a column, and one on the rules if there are any."""
    open_ = sum(column.open for column in columns)
    still = f", {open_} with parts to be discovered" if open_ else ""
    lines = [f"Schema of {len(columns)} column{'s' * (len(columns) != 1)}{still}"]
    width = max(len(column.name) for column in columns)
    lines += [f"  {column.name:<{width}}  {describe_column(column)}" for column in columns]
    if rules:
        lines.append(f"  rules: {', '.join(map(describe_rule, rules))}")
    return lines


def describe_rule(rule: Rule) -> str:
    """The kind of a rule and its columns."""
    return f"{rule.kind} ({', '.join(rule.names)})"


def describe_column(column: Column) -> str:
    """The kind of a column, its range or values, and whether values may be missing."""
    if isinstance(column, Unknown):
        return "kind, values and missing values to be discovered"
    if isinstance(column, Relative):
        return f"{column.own.kind}, {column.sentence}" + (", may be missing" if column.missing else "")
    if isinstance(column, Omitted):
        return ", ".join(part for part in ("left out", column.reason) if part)
    parts = [column.kind]
    if isinstance(column, Binned):
        parts.append(_describe_bins(column))
    if isinstance(column, Listed):
        parts.append(_describe_values(column))
    if column.attribute:
        missing = {True: "may be missing", False: "", None: "missing values to be discovered"}
        parts.append(missing[column.missing])
    else:
        shapes = (
            f" of the shape {' or '.join(column.shapes)}"
            if isinstance(column, Identifier) and column.shapes
            else ""
        )
        parts.append(f"new keys{shapes}")
    return ", ".join(part for part in parts if part)


def _describe_bins(column: Binned) -> str:
    if column.edges is None or column.lower is None or column.upper is None:
        return "range and bins to be discovered"
    bounds = f"{column.spell(column.lower)} to {column.spell(column.upper)}"
    if column.provisional:
        return f"{bounds}, bins to be discovered"
    return f"{bounds} in {'1 bin' if column.present == 1 else f'{column.present} bins'}"


def _describe_values(column: Listed) -> str:
    if column.values is None:
        return "values to be discovered"
    shown = ", ".join(map(str, column.values))
    count = len(column.values)
    kept = shown if count and len(shown) <= MAX_SHOWN else f"{count} value{'s' * (count != 1)}"
    if column.stems:
        kept += f", {len(column.stems)} beginnings of codes"
    return kept if column.other is None else f"{kept} and {column.other}"
