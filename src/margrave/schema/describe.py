"""A schema for reading: what is known of each column, in one line each, and what rules say."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from margrave.schema.columns import (
    Binned,
    Column,
    Identifier,
    Integer,
    Listed,
    Omitted,
    Real,
    Relative,
    Unknown,
)
from margrave.schema.columns.identifier import name_shapes
from margrave.schema.columns.listed import has_new_keys
from margrave.schema.constraints.rules import Rule

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
    """The kind of a rule and its columns, and of one that was found in which noisy share of the rows."""
    if rule.found is None:
        return rule.words
    share, error = rule.found
    return f"{rule.words} in {share:.1%} (± {error:.1%}) of the rows, found and not promised"


def describe_found_ranges(columns: Sequence[Column], declared: Collection[str]) -> str:
    """What became of numbers beyond the bins that discovery found; empty where it found none.

    The share is that of `bench/runs/ranges.py`: at most .013 of the rows over 120 settings.

    Args:
        columns: Those of a release.
        declared: Names of the columns that were declared.
    """
    # Declared bins have no finer cells, also where missing values alone were to be found.
    found = [
        column
        for column in columns
        if isinstance(column, Relative) or (isinstance(column, Binned) and column.fine is not None)
    ]
    count = sum(column.name not in declared for column in found)
    if not count:
        return ""
    whose = "one column" if count == 1 else f"{count} columns"
    return (
        f"the bins of {whose} of numbers or dates were found under noise; values beyond them, about 1 % of "
        "the rows of a column at most unless its bounds were declared, are moved to their ends"
    )


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
        parts.append(f"written as in {column.format}" if column.format else "")
    if isinstance(column, Listed):
        parts.append(_describe_values(column))
    if column.attribute:
        missing = {True: "may be missing", False: "", None: "missing values to be discovered"}
        parts.append(missing[column.missing] + _describe_censored(column))
    else:
        named, more = name_shapes(column) if isinstance(column, Identifier) else ((), 0)
        shapes = " or ".join((*named, *([f"{more} more"] if more else [])))
        parts.append("new keys" + (f" of the shape {shapes}" if named else ""))
    return ", ".join(part for part in parts if part)


def _describe_censored(column: Column) -> str:
    texts = [text for text, _ in column.censored if text] if isinstance(column, Integer | Real) else []
    return f" as {' or '.join(texts)}" if texts and column.missing else ""


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
    parts = [kept] if count or not column.grouped else []
    parts += [f"{len(column.stems)} beginnings of codes"] if column.stems else []
    what = "new keys" if has_new_keys(column) else "texts"
    parts += [f"{len(column.patterns)} patterns of {what}"] if column.patterns else []
    kept = ", ".join(parts)
    return kept if column.other is None else f"{kept} and {column.other}"
