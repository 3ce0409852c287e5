"""The report of a release: one file, made of released quantities alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import margrave
from margrave.errors import InputError, invalid
from margrave.release import Release
from margrave.report.columns import Sides, columns_section
from margrave.report.definitions import DEFINITIONS, definitions
from margrave.report.document import Section, document
from margrave.report.ledger import ledger_section
from margrave.report.markup import Markup, join, shorten, tag
from margrave.report.pairs import pairs_section
from margrave.report.relations import relations_section
from margrave.report.released import Fitted, Released
from margrave.report.schema_table import schema_section
from margrave.report.summary import guarantee_section, overview
from margrave.report.verdict import Verdict
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave.protocols import Model

__all__ = ["render"]


def render(
    release: Release, model: Model | None, *, synthetic: Encoded | None = None, title: str | None = None
) -> str:
    """The report of a release as one self-contained HTML file.

    **Privacy.** Reads the release, the model fitted to it and synthetic rows drawn from that, so it is
    post-processing and costs nothing.

    Args:
        release: What left the private side.
        model: The model fitted to the release; None to go without.
        synthetic: Synthetic rows under the release's schema; drawn in the pictures when given.
        title: Title of the page.

    Returns:
        The text of the file, the same for the same arguments.

    Raises:
        InputError: The synthetic rows are of another domain.
        UnsupportedEventError: The ledger holds an event whose cost is not known.
    """
    if synthetic is not None and synthetic.domain != release.domain:
        raise InputError(invalid("synthetic", "of the release's domain", "Pass rows sampled from its model."))
    rows = synthetic if synthetic is not None and synthetic.rows else None
    sections = _sections(release, Sides(Released(release), Fitted(model, rows), rows))
    lead = tag(
        "p",
        "What was released about a private table, what it cost in privacy, and how well it can be trusted. "
        "This page is made of released quantities alone: it may be published with the release.",
        class_="lead",
    )
    return document(title or "Report of a private release", lead, sections, _footer(release))


def _sections(release: Release, sides: Sides) -> tuple[Section, ...]:
    verdict = Verdict.of(sides.released, sides.fitted)
    rows = None if sides.synthetic is None else sides.synthetic.rows
    found = relations_section(release)
    related = () if found is None else (Section("relations", "Relations found", found),)
    return (
        Section("summary", "Summary", overview(release, verdict.words, rows)),
        Section("guarantee", "The guarantee", guarantee_section(release)),
        Section("quality", "Quality of the fit", verdict.render()),
        Section("ledger", "The ledger", ledger_section(release)),
        Section("schema", "The schema", schema_section(release)),
        *related,
        Section("columns", "Columns", columns_section(release.schema, sides)),
        Section("pairs", "Pairs of columns", pairs_section(sides)),
        Section("definitions", "Definitions", definitions(DEFINITIONS)),
    )


def _footer(release: Release) -> Markup:
    notes = [f"{shorten(key, 40)}: {shorten(value, 200)}" for key, value in sorted(release.notes.items())]
    return join(
        tag(
            "p",
            (
                f"Made by margrave {margrave.__version__}. This file is complete in itself and "
                "fetches nothing."
            ),
        ),
        tag("p", "; ".join(notes)) if notes else None,
    )
