"""The comparison of real and synthetic tables as a page that says on its face that it is not private."""

from __future__ import annotations

import margrave
from margrave.evaluation.comparison import NOT_PRIVATE, Comparison
from margrave.evaluation.references import REFERENCES
from margrave.evaluation.review import Review
from margrave.report.comparison.curves import curves_section, plane_section
from margrave.report.comparison.marginals import marginals_section
from margrave.report.comparison.matrices import correlation_section, pairs_section
from margrave.report.comparison.scores import scores_section
from margrave.report.comparison.verdict import BRACKETS, first_screen
from margrave.report.definitions import DEFINITIONS, definitions
from margrave.report.html import Markup, Section, document, tag

USED = frozenset({"Distance, total variation, TV", "Cramér's V", "Codes"})
TRUTH = (
    "The real rows themselves in the synthetic ones' place, as in the row “Ground Truth” of Chen et al. "
    "2025, table 2. What is "
    "learned from them is tested on real rows that they do not hold."
)


def render_comparison(found: Review | Comparison, *, title: str | None = None) -> str:
    """Synthetic tables against the real one, as one self-contained HTML file.

    **Not private**: it shows exact shares and rows of the real table, and says so in its title and a banner.

    Args:
        found: Made by `margrave.review`, or by `margrave.evaluate` for one table without pictures of rows.
        title: Title of the page, after the warning.

    Returns:
        The text of the file, the same for the same arguments.
    """
    review = found if isinstance(found, Review) else Review({"synthetic": found})
    banner = tag(
        "aside",
        tag("strong", NOT_PRIVATE),
        tag(
            "p",
            "No noise protects the numbers and points on this page. Keep it where the real table is kept.",
        ),
        class_="banner",
        aria_label="Warning",
    )
    lead = tag("p", _lead(review), class_="lead")
    footer = tag("p", f"{NOT_PRIVATE}. Made by margrave {margrave.__version__}. This file fetches nothing.")
    heading = title or "Real and synthetic rows compared"
    return document(
        heading,
        lead,
        _sections(review, isinstance(found, Review)),
        footer,
        banner=banner,
        window=f"NOT PRIVATE: {heading}",
    )


def _sections(review: Review, pictures: bool) -> list[Section]:
    sections = [
        Section("summary", "At a glance", first_screen(review)),
        Section("columns", "Columns", marginals_section(review)),
        Section("pairs", "Pairs of columns", pairs_section(review)),
        Section("dependence", "Dependence", correlation_section(review)),
    ]
    if pictures:
        sections += [
            Section("rows", "Rows in a plane", plane_section(review)),
            Section("prediction", "Prediction", curves_section(review)),
        ]
    sections += [
        Section("scores", "All scores", scores_section(review)),
        Section("definitions", "Definitions", _definitions(review)),
    ]
    return sections


def _lead(review: Review) -> str:
    if len(review.names) == 1:
        return "How close the synthetic rows are to the real ones, by exact counts of both."
    many = f"How close the rows of {len(review.names)} synthetic tables are to the real ones"
    return f"{many}, by exact counts of all."


def _definitions(review: Review) -> Markup:
    texts = {"real rows": TRUTH, **REFERENCES}
    references = [
        (BRACKETS.get(name, name), texts[name]) for name in review.first.references if name in texts
    ]
    general = [(term, text) for term, text in DEFINITIONS if term in USED]
    return definitions([*references, *general])
