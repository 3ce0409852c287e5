"""What became of the rows: by column, of rare groups, and of rows beyond the cap. No row is looked at."""

from __future__ import annotations

import numpy as np

from margrave.privacy.events import PartitionEvent
from margrave.release import Release
from margrave.report.markup import Markup, join, named, tag
from margrave.report.numerals import count, significant
from margrave.report.tables import row, table
from margrave.schema.columns import Binned, Column, Identifier, Listed

__all__ = ["describe_cap", "describe_rare", "describe_texts", "handling_section", "list_identifiers"]

HEADS = ("Column", "Treated as", "What is used of the rows", "What stands in synthetic rows")


def handling_section(release: Release) -> Markup:
    """The section of the page."""
    searched = {event.what for event in release.events if isinstance(event, PartitionEvent)}
    lines = [_line(column, f"values of {column.name}" in searched) for column in release.schema.columns]
    owner = release.guarantee.neighbours.unit.owner
    if owner is not None:
        lines.insert(
            0,
            row(
                named(owner),
                "owner",
                "whose row it is, to keep at most "
                f"{count(release.guarantee.neighbours.unit.max_rows)} rows of each",
                "nothing: the column is left out",
            ),
        )
    return join(
        tag("p", "What was used of each column of the private table, and what of it can reappear."),
        table("Columns, one by one", HEADS, lines),
        tag("h3", "Identifiers", id="identifiers"),
        list_identifiers(release),
        tag("h3", "Free text", id="texts"),
        tag("p", describe_texts(release)),
        tag("h3", "Rare values and small groups", id="rare"),
        tag("p", describe_rare(release)),
        tag("h3", "Rows that were left out", id="cap"),
        tag("p", describe_cap(release)),
    )


def _line(column: Column, searched: bool) -> Markup:
    kind, used, shown = column.kind, "noisy counts of its values", "values drawn from the fitted distribution"
    if isinstance(column, Identifier):
        used, shown = "nothing: it is never read", "new keys; a real one can only be met by chance"
    elif isinstance(column, Listed):
        if not searched:
            shown = "its values, which were declared or, as true and false, are known"
        else:
            used = "noisy counts; a value is named only if its count passes a threshold"
            shown = "the named values" + (f", and “{column.other}” for all others" if column.other else "")
    elif isinstance(column, Binned):
        used = "noisy counts of ranges"
        shown = "numbers drawn inside ranges; one that many rows share may have a range of its own"
    return row(named(column.name), kind, used, shown)


def list_identifiers(release: Release) -> Markup:
    """Columns that were never read, and what that means for the others."""
    names = [column.name for column in release.schema.columns if isinstance(column, Identifier)]
    owner = release.guarantee.neighbours.unit.owner
    parts: list[Markup | str] = []
    if owner is not None:
        parts += ["The owner's column ", named(owner), " is left out of the release. "]
    if names:
        parts.append("Declared as identifiers, never read and made anew: ")
        for place, name in enumerate(names):
            parts += [", " if place else "", named(name)]
        parts.append(". ")
    else:
        parts.append("No column was declared as an identifier. ")
    parts.append(
        "Any other column with names, numbers of persons or addresses was treated as values or text: it is "
        "only safe from naming somebody by the threshold below, so leave such columns out or declare them as "
        "identifiers. Whether a column identifies somebody is not for margrave to tell."
    )
    return tag("p", *parts)


def describe_texts(release: Release) -> str:
    """What becomes of text whose values were not declared."""
    searches = [event for event in release.events if isinstance(event, PartitionEvent)]
    limits = [event.threshold for event in searches]
    if not limits:
        return (
            "No text was searched for values: every text column was declared, or is an identifier. No words "
            "of the private table can reappear."
        )
    low, high = min(limits), max(limits)
    number = len({event.what for event in searches})
    columns = "1 column of text was" if number == 1 else f"{count(number)} columns of text were"
    between = count(low) if low == high else f"{count(low)} to {count(high)}"
    return (
        f"{columns} searched for values, and a whole cell is one value: text is "
        "never cut into words. A cell's text is released only if its noisy count reaches a threshold "
        f"({between} rows here), so text that one person alone wrote is named with at most the probability δ "
        "that the ledger gives. All other text is “(other)”."
    )


def describe_rare(release: Release) -> str:
    """How large a group has to be to be seen, by the noise of this release."""
    single = [float(np.median(m.sigma)) for m in release.measurements if len(m.clique) == 1]
    pairs = [float(np.median(m.sigma)) for m in release.measurements if len(m.clique) == 2]
    parts = [
        (
            "Values below the threshold are joined into “(other)”; thin ranges of numbers are joined with "
            "their neighbours where they were discovered."
        )
    ]
    if single:
        parts.append(
            "Each count in a table of one column carries noise of about "
            f"{significant(float(np.median(single)), 2)}"
            f" rows (one standard deviation), so a group of fewer than about "
            f"{count(max(2 * float(np.median(single)), 1))} rows cannot be told from none."
        )
    if pairs:
        parts.append(f"For pairs of columns it is about {count(max(2 * float(np.median(pairs)), 1))} rows.")
    parts.append(
        "So small groups may be missing from the synthetic rows, or appear in them without there being "
        "anybody: draw no conclusion about a small group, and none about a single row."
    )
    return " ".join(parts)


def describe_cap(release: Release) -> str:
    """What the cap on the rows of an owner leaves out, as a rule."""
    unit = release.guarantee.neighbours.unit
    if unit.owner is None:
        return "No row was left out: no owner was named, so nobody's rows were capped."
    rows = "one row" if unit.max_rows == 1 else f"at most {count(unit.max_rows)} rows"
    return (
        f"Of each owner {rows} {'was' if unit.max_rows == 1 else 'were'} used, drawn at random; all further "
        "rows of the same owner were left out, so owners with many rows count for less than in the private "
        "table. How many rows that were was not asked, because the answer would cost privacy of its own; "
        "`margrave owners` buys a noisy figure. The number of rows on this page is that of the rows that "
        "were used."
    )
