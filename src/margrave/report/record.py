"""The record of a release: data set, file, day, operator, checksums, earlier releases, what to keep."""

from __future__ import annotations

import math
from collections.abc import Mapping

import margrave
from margrave.privacy.dataset_history import DatasetHistory
from margrave.release import Release
from margrave.report.markup import Child, Markup, join, named, tag
from margrave.report.numerals import count, significant
from margrave.report.tables import facts, row, table

__all__ = ["NOT_GIVEN", "NO_INPUT_HASH", "RETENTION", "describe_history", "record_section"]

NOT_GIVEN = "not given"
STATES = {
    "closed": "ended; counts by what it spent",
    "open": "not ended; counts in full",
    "crashed": "given up; counts in full",
}
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
        ("Data set", named(origin.dataset) if origin.dataset else NOT_GIVEN),
        ("File that was read", named(origin.source) if origin.source else NOT_GIVEN),
        ("Day of the run (universal time)", origin.date or NOT_GIVEN),
        ("Made by", named(origin.operator) if origin.operator else NOT_GIVEN),
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
        f"{total}δ = {significant(history.delta)}, under a cap of ε = {significant(history.cap)}. Runs that "
        "have not ended count in full."
    )
    if not history.earlier:
        return tag("p", "The book has no earlier release of this data set. ", words)
    lines = [
        row(
            count(run.run),
            run.date,
            named(run.unit),
            STATES.get(run.state, run.state),
            significant(run.epsilon),
            significant(run.delta),
            numeric=2,
        )
        for run in history.earlier
    ]
    number = len(history.earlier)
    return join(
        tag("p", f"{count(number)} earlier release{'s' if number != 1 else ''}. ", words),
        table("Earlier releases", ("Run", "Day", "Protects", "State", "ε", "δ"), lines, numeric=2),
    )


def _checksums(release: Release, outputs: Mapping[str, str]) -> Markup:
    digests = dict(outputs)
    if release.provenance.schema:
        digests["declared schema"] = release.provenance.schema
    if not digests:
        return tag("p", "No file was named when this page was made. ", NO_INPUT_HASH)
    lines = [row(named(name), tag("code", digest)) for name, digest in digests.items()]
    return join(table("SHA-256", ("File", "SHA-256"), lines), tag("p", NO_INPUT_HASH))
