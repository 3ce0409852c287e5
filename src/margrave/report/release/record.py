"""The record of a release: data set, file, day, operator, checksums, earlier runs, what to keep.

What became of the rows: by column, of rare groups, and of rows beyond the cap. No row is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

import margrave
from margrave.privacy.accounting.events import PartitionEvent
from margrave.privacy.ledger.history import DatasetHistory
from margrave.release import Release
from margrave.report.html import Child, Markup, count, facts, join, mark_name, row, significant, table, tag
from margrave.schema.columns import Binned, Column, Listed
from margrave.schema.columns.listed import has_new_keys
from margrave.schema.columns.public_lists import lists_used

NOT_GIVEN = "not given"
NO_INPUT_HASH = (
    "There is no checksum of the private table: it would be an exact function of the private rows, and "
    "whoever guesses the table could make sure of the guess with it. No noise protects a checksum."
)
RETENTION = (
    (
        "The ledger, or the book",
        (
            "As long as the private table exists, or anything is released of the same people. It says what "
            "has been spent; without it a later release cannot be added up. It holds promises and noisy "
            "answers, no row, so it need not be deleted with them."
        ),
    ),
    (
        "The release file and this page",
        (
            "As long as the released rows are used: they show what was promised. The release file makes more "
            "rows at no further cost in privacy. Both are made of released quantities alone."
        ),
    ),
    (
        "The answers beside a ledger (.answers)",
        ("Only until the run has ended; they are dropped when its outputs are written."),
    ),
    (
        "The private table",
        (
            "As your own rules demand; this release does not need it any more. A comparison with the real "
            "rows (margrave evaluate) is as private as the table and has to be deleted with it."
        ),
    ),
)


def record_section(release: Release, outputs: Mapping[str, str]) -> Markup:
    """The section of the page.

    Args:
        release: What left the private side.
        outputs: SHA-256 of files made from the release, by name.
    """
    return join(
        _facts(release),
        tag("h3", "Earlier releases of the same data set", id="earlier"),
        describe_history(release.provenance.history),
        tag("h3", "Checksums", id="checksums"),
        _checksums(release, outputs),
        tag("h3", "What to keep, and how long", id="retention"),
        facts(RETENTION, css="terms"),
    )


def _facts(release: Release) -> Markup:
    origin, notes = release.provenance, release.notes
    written = notes.get("margrave", margrave.__version__)
    entries: list[tuple[str, Child]] = [
        ("Data set", mark_name(origin.dataset) if origin.dataset else NOT_GIVEN),
        ("File that was read", mark_name(origin.source) if origin.source else NOT_GIVEN),
        ("Day of the run (universal time)", origin.date or NOT_GIVEN),
        ("Made by", mark_name(origin.operator) if origin.operator else NOT_GIVEN),
        ("Software", f"margrave {written}, Python {notes.get('python', 'not recorded')}"),
        ("Method", f"{notes.get('method', release.strategy)}: {release.strategy} with {release.fitter}"),
    ]
    return join(
        facts(entries, css="terms"),
        tag(
            "p",
            "The names are as whoever made the release gave them (--dataset, --operator); nothing checks "
            "them.",
            class_="note",
        ),
    )


def describe_history(history: DatasetHistory | None) -> Markup:
    """Earlier runs and the total, from the book."""
    if history is None:
        return tag(
            "p",
            "Not known to this page: the run was kept in a ledger of its own, not in a book. A book "
            "(margrave ledger init) adds up all releases of a data set and keeps a cap on them. Without "
            "one, add the ε and the δ of all releases of the same people by hand: their sums hold.",
        )
    total = (
        f"All of them and this one together promise at most ε = {significant(history.epsilon)} with "
        if math.isfinite(history.epsilon)
        else "No total can be given for all of them and this one together with "
    )
    words = (
        f"{total}δ = {significant(history.delta)}, under a cap of ε = {significant(history.cap)}. Every run "
        "that the book let in is listed and counts in full, however it ended, since an error can follow the "
        "rows. What was spent may be less."
    )
    if not history.earlier:
        return tag("p", "The book has no earlier run on this data set. ", words)
    lines = [
        row(
            count(run.run),
            run.date,
            mark_name(run.unit),
            significant(run.epsilon),
            significant(run.delta),
            numeric=2,
        )
        for run in history.earlier
    ]
    number = len(history.earlier)
    return join(
        tag("p", f"{count(number)} earlier run{'s' if number != 1 else ''}. ", words),
        table("Earlier runs", ("Run", "Day", "Protects", "ε", "δ"), lines, numeric=2),
    )


def _checksums(release: Release, outputs: Mapping[str, str]) -> Markup:
    digests = dict(outputs)
    if release.provenance.schema:
        digests["declared schema"] = release.provenance.schema
    if not digests:
        return tag("p", "No file was named when this page was made. ", NO_INPUT_HASH)
    lines = [row(mark_name(name), tag("code", digest)) for name, digest in digests.items()]
    return join(table("SHA-256", ("File", "SHA-256"), lines), tag("p", NO_INPUT_HASH))


HEADS = ("Column", "Treated as", "What is used of the rows", "What stands in synthetic rows")


def handling_section(release: Release) -> Markup:
    """The section of the page."""
    searched = {event.what for event in release.events if isinstance(event, PartitionEvent)}
    lists = lists_used([event.what for event in release.events])
    lines = [
        _line(
            column,
            f"values of {column.name}" in searched,
            column.name in release.declared_columns,
            lists.get(column.name, ""),
        )
        for column in release.schema.columns
    ]
    owner = release.guarantee.neighbours.unit.owner
    if owner is not None:
        lines.insert(
            0,
            row(
                mark_name(owner),
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


def _line(column: Column, searched: bool, declared: bool, list_name: str) -> Markup:
    kind, used, shown = column.kind, "noisy counts of its values", "values drawn from the fitted distribution"
    if has_new_keys(column):
        used = "nothing: it is never read" if declared else "noisy counts of the shape of its values"
        shown = "new keys; a real one can only be met by chance"
    elif isinstance(column, Listed):
        if not searched:
            shown = "its values, which were declared or, as true and false, are known"
        else:
            used = "noisy counts; a value is named only if its count passes a threshold"
            used += f", or if it is on the public list “{list_name}”" if list_name else ""
            shown = "the named values" + (f", and “{column.other}” for all others" if column.other else "")
    elif isinstance(column, Binned):
        used = "noisy counts of ranges"
        shown = "numbers drawn inside ranges; one that many rows share may have a range of its own"
    return row(mark_name(column.name), kind, used, shown)


def list_identifiers(release: Release) -> Markup:
    """Columns that come back as new keys, and what that means for the others."""
    names = [column.name for column in release.schema.columns if has_new_keys(column)]
    told = [name for name in names if name in release.declared_columns]
    found = [name for name in names if name not in release.declared_columns]
    owner = release.guarantee.neighbours.unit.owner
    parts: list[Markup | str] = []
    if owner is not None:
        parts += ["The owner's column ", mark_name(owner), " is left out of the release. "]
    for words, some in (
        ("Declared as identifiers, never read and made anew: ", told),
        ("Found to be keys by noisy looks at their values, and made anew: ", found),
    ):
        if some:
            parts.append(words)
            for place, name in enumerate(some):
                parts += [", " if place else "", mark_name(name)]
            parts.append(". ")
    if not told:
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
    if not searches:
        return (
            "No text was searched for values: every text column was declared, or is an identifier. No words "
            "of the private table can reappear."
        )
    # A search in several columns at once counts parts of a row by weights: its threshold is not in rows.
    plain = min(event.l2_squared for event in searches)
    limits = [math.ceil(event.threshold / math.sqrt(event.l2_squared / plain)) for event in searches]
    low, high = min(limits), max(limits)
    alone = {event.what for event in searches if event.l2_squared == plain}
    number = len({what for what in alone if what.startswith("values of ")} or alone)
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
