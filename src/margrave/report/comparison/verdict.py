"""The first screen of a comparison: a verdict on each table between two reference rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from margrave.report.comparison.words import (
    BROKEN,
    KEPT,
    LARGE,
    LEVELS,
    LOST,
    SLIGHT,
    SOUND,
    TAUGHT,
    UNTAUGHT,
    Aspect,
    Verdict,
    aspects,
    judge_comparison,
)
from margrave.report.html import Markup, details, facts, join, mark_name, row, table, tag
from margrave.report.numerals import count, percent

if TYPE_CHECKING:
    from margrave.evaluation.review import Review

BRACKETS = {
    "real rows": "Real rows themselves",
    "bootstrap": "Real against real (bootstrap)",
    "shuffled": "Shuffled columns",
}
ROLES = {
    "bootstrap": ("Real against real", "reference: the best to hope for"),
    "shuffled": ("Shuffled columns", "reference: all dependence lost"),
}
READING = (
    (
        "Columns: rows to change",
        (
            "The share of rows that would have to change, on average, for a single column to have the real "
            f"shares: its total variation. Up to {percent(SLIGHT, 0)} is called close, or twice what real "
            f"rows drawn anew have; above {percent(LARGE, 0)} far off."
        ),
    ),
    (
        "First look: relations kept",
        (
            "How much is kept of what a person checks first: orders such as admitted before discharged, "
            "columns that are equal, values that are missing together, strong rank correlations, codes that "
            "come back, values that no real row has, and how numbers and codes are written. 0% is what "
            f"independent columns would show. From {percent(SOUND, 0)} it is called close, below "
            f"{percent(LOST, 0)} far off."
        ),
    ),
    (
        "Dependence kept",
        (
            "How much of the dependence between two columns is left, on average: 100% as in real rows drawn "
            "anew, 0% as in shuffled columns, by the error of Cramér's V. From "
            f"{percent(KEPT, 0)} it is called close, below {percent(LOST, 0)} far off."
        ),
    ),
    (
        "Prediction: AUC",
        (
            "How well a model that learned from the table finds the rows asked for among real rows: 0.5 is "
            f"guessing, 1 perfect. From {percent(TAUGHT, 0)} of the way from shuffled to real rows it is "
            f"called close, below {percent(UNTAUGHT, 0)} far off."
        ),
    ),
    (
        "Rows that break rules",
        (
            "Rows that break a declared rule. No more than among the real rows is called close, above "
            f"{percent(BROKEN, 0)} more far off."
        ),
    ),
    (
        "One-of-a-kind rows that reappear",
        (
            "The share of real rows unlike any other, by the codes of all columns, that are also among the "
            "synthetic rows. It is told and not judged: a match can be chance, and no number on this page "
            "proves that people are protected. That is for the guarantee of the release, if there is one."
        ),
    ),
    ("Verdict", "The worst of the levels in its line."),
)
CHIPS = {2: "good", 1: "care", 0: "far"}


def first_screen(review: Review) -> Markup:
    """What a reader sees first."""
    verdicts = {name: judge_comparison(comparison) for name, comparison in review.comparisons.items()}
    real = review.first.rows[0]
    return join(
        _table(review, verdicts),
        tag(
            "p",
            "Read each synthetic table between the two references: real rows drawn anew, and real rows "
            "whose columns were shuffled. ",
            tag("a", "What the columns mean", href="#reading"),
            ".",
        ),
        tag("div", *[_said(name, verdict) for name, verdict in verdicts.items()], class_="verdicts"),
        _explain_columns(),
        facts(
            [
                ("Real rows", count(real)),
                *((f"Rows of {name}", count(one.rows[1])) for name, one in review.comparisons.items()),
                ("Columns compared", count(len(review.first.columns))),
            ]
        ),
        *[tag("p", note, class_="note") for note in review.notes],
    )


def chip(level: int) -> Markup:
    """A level as a word with a sign, in a colour."""
    return tag("span", LEVELS[level], class_=f"chip {CHIPS[level]}")


def _table(review: Review, verdicts: dict[str, Verdict]) -> Markup:
    columns = next(iter(verdicts.values())).aspects
    heads = ("Table", "Verdict", *(aspect.title for aspect in columns))
    lines = []
    for name, verdict in verdicts.items():
        cells = [_cell(aspect) for aspect in verdict.aspects]
        lines.append(
            row(tag("strong", mark_name(name, limit=40)), chip(verdict.level), *cells, numeric=len(cells))
        )
    for name, (title, role) in ROLES.items():
        # What is learned from real rows is known of the rows themselves only, not of a bootstrap of them.
        sources = ("real rows", name) if name == "bootstrap" else (name,)
        told: dict[str, str] = {}
        for source in sources:
            found = {aspect.key: aspect.value for aspect in aspects(review.first, source)}
            told |= {key: value for key, value in found.items() if value != "–" or key not in told}
        cells = [tag("span", told.get(aspect.key, "–")) for aspect in columns]
        lines.append(row(title, role, *cells, numeric=len(cells), css="bracket"))
    return table(
        "The synthetic tables at a glance, between reference tables", heads, lines, numeric=len(columns)
    )


def _cell(aspect: Aspect) -> Markup:
    if aspect.level is None:
        return tag("span", aspect.value)
    return join(
        tag("strong", aspect.value),
        " ",
        tag("span", LEVELS[aspect.level], class_=f"level {CHIPS[aspect.level]}"),
    )


def _said(name: str, verdict: Verdict) -> Markup:
    return tag(
        "article",
        tag("h3", mark_name(name, limit=48)),
        tag("p", chip(verdict.level), " ", verdict.headline),
        _list_lines("What is good", verdict.good),
        _list_lines("What to look at", verdict.look),
    )


def _list_lines(heading: str, lines: tuple[str, ...]) -> Markup | None:
    if not lines:
        return None
    return join(tag("h4", heading), tag("ul", *[tag("li", line) for line in lines]))


def _explain_columns() -> Markup:
    body = tag(
        "dl", *[tag("div", tag("dt", term), tag("dd", text)) for term, text in READING], class_="terms"
    )
    return tag("div", details("What the columns mean", body), id="reading")
