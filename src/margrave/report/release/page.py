"""The report of a release: one file, made of released quantities alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import margrave
from margrave.errors import InputError, invalid
from margrave.release import Release
from margrave.report.definitions import DEFINITIONS, definitions
from margrave.report.html import Markup, Section, document, join, shorten, tag
from margrave.report.release.advice import usefulness_box, usefulness_section
from margrave.report.release.columns import Sides, columns_section
from margrave.report.release.fit import Fitted, Released, TableFits
from margrave.report.release.ledger import ledger_section
from margrave.report.release.pairs import pairs_section
from margrave.report.release.questions import question_links, questions_section
from margrave.report.release.record import handling_section, record_section
from margrave.report.release.schema import relations_section, schema_section
from margrave.report.release.sheet import sheet_section
from margrave.report.release.summary import (
    guarantee_section,
    not_private_banner,
    overview,
    owner_box,
    rules_box,
)
from margrave.report.release.usefulness import Usefulness, judge_release
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave.protocols import Model


def render(
    release: Release,
    model: Model | None,
    *,
    synthetic: Encoded | None = None,
    title: str | None = None,
    outputs: Mapping[str, str] | None = None,
    use: Usefulness | None = None,
) -> str:
    """The report of a release as one self-contained HTML file.

    **Privacy.** Reads the release, the model fitted to it and synthetic rows drawn from that, so it is
    post-processing and costs nothing.

    Args:
        release: What left the private side.
        model: The model fitted to the release; None to go without.
        synthetic: Synthetic rows under the release's schema; drawn in the pictures when given.
        title: Title of the page.
        outputs: SHA-256 of files made from the release, by name.
        use: The verdict, where it has been made already.

    Returns:
        The text of the file, the same for the same arguments.

    Raises:
        InputError: The synthetic rows are of another domain.
        UnsupportedEventError: The ledger holds an event whose cost is not known.
    """
    if synthetic is not None and synthetic.domain != release.domain:
        raise InputError(invalid("synthetic", "of the release's domain", "Pass rows sampled from its model."))
    rows = synthetic if synthetic is not None and synthetic.rows else None
    judged = judge_release(release, model) if use is None else use
    sections = _sections(release, Sides(Released(release), Fitted(model, rows), rows), judged, outputs or {})
    heading, banner = title or _title(release), not_private_banner(release.guarantee)
    window = None if banner is None else f"NOT PRIVATE: {heading}"
    return document(heading, _lead(release), sections, _footer(release), banner=banner, window=window)


def _lead(release: Release) -> Markup:
    """What stands under the title."""
    return tag(
        "p",
        "What was released about a private table, what it may be used for, and what it cost in privacy. "
        "This page is made of released quantities alone: it may be published with the release."
        if not release.guarantee.warning
        else "What a test run made of a private table. None of it is for anybody who may not see that table.",
        class_="lead",
    )


def _title(release: Release) -> str:
    dataset = release.provenance.dataset
    what = "Report of a test run" if release.guarantee.warning else "Report of a private release"
    return f"{what}: {shorten(dataset, 80)}" if dataset else what


def _sections(
    release: Release, sides: Sides, use: Usefulness, outputs: Mapping[str, str]
) -> tuple[Section, ...]:
    fits = TableFits.of(sides.released, sides.fitted)
    found = relations_section(release)
    related = () if found is None else (Section("relations", "Relations found", found),)
    sheet = sheet_section(release.schema, sides.synthetic)
    drawn = () if sheet is None else (Section("pictures", "Pictures", sheet),)
    return (
        Section("summary", "Summary", _summary(release, sides, use)),
        Section("questions", "Questions and answers", questions_section(release, use, outputs)),
        Section("guarantee", "The guarantee", guarantee_section(release)),
        Section("record", "About this release", record_section(release, outputs)),
        Section("handling", "What became of each column", handling_section(release)),
        Section("usefulness", "Usefulness, column by column", usefulness_section(use)),
        Section("ledger", "The ledger", ledger_section(release.guarantee, release.events)),
        Section("schema", "The schema", schema_section(release)),
        *related,
        *drawn,
        Section("columns", "Columns", columns_section(release.schema, sides)),
        Section("pairs", "Pairs of columns", pairs_section(sides)),
        Section("quality", "Quality of the fit", fits.render()),
        Section("definitions", "Definitions", definitions(DEFINITIONS)),
    )


def _summary(release: Release, sides: Sides, use: Usefulness) -> Markup:
    """The first screen: what it may be used for, whom it protects, key facts, and links to answers."""
    rows = None if sides.synthetic is None else sides.synthetic.rows
    return tag(
        "div",
        tag("div", usefulness_box(use), owner_box(release.guarantee), rules_box(release)),
        tag("div", tag("h3", "Twenty questions"), question_links(), class_="asked"),
        tag("div", overview(release, rows)),
        class_="first",
    )


def _footer(release: Release) -> Markup:
    warning = release.guarantee.warning
    notes = [f"{shorten(key, 40)}: {shorten(value, 200)}" for key, value in sorted(release.notes.items())]
    return join(
        tag("p", warning) if warning else None,
        tag(
            "p",
            (
                f"Made by margrave {margrave.__version__}. This file is complete in itself and "
                "fetches nothing."
            ),
        ),
        tag("p", "; ".join(notes)) if notes else None,
    )
