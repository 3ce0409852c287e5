"""Every score of a comparison, by group, with its definition, its parts and its notes one click away."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from margrave.report.first_screen import BRACKETS
from margrave.report.markup import Markup, join, named, tag
from margrave.report.metric_words import grouped, title_of
from margrave.report.numerals import count, significant
from margrave.report.tables import details, row, table

if TYPE_CHECKING:
    from margrave.evaluation.review import Review
    from margrave.evaluation.score import Score

__all__ = ["scores_section"]

MOST_PARTS = 100
"""Parts of a score on the page, over all tables."""


def scores_section(review: Review) -> Markup:
    """The section of the page."""
    names = [score.name for score in review.first.scores]
    several, left = len(review.names) > 1, review.first.skipped
    return join(
        tag(
            "p",
            "Open a score to see what it means. Each stands beside the same score of reference tables: a "
            "good table is near ",
            tag("em", "real against real"),
            " and far better than ",
            tag("em", "shuffled columns"),
            " wherever columns depend on each other.",
            " The best synthetic table of a line is marked ★." if several else None,
        ),
        tag("p", f"{count(left)} sets of columns were left out because their tables are too large.")
        if left
        else None,
        *[_group(review, heading, held) for heading, held in grouped(names)],
    )


def number(value: float | None) -> str:
    """A score, to four decimals or four digits."""
    if value is None:
        return "–"
    if math.isnan(value):
        return "not defined"
    text = f"{value:.4f}" if abs(value) < 100 else significant(value, 5)
    return text.replace("-", "−")


def _group(review: Review, heading: str, names: list[str]) -> Markup:
    references = [name for name in BRACKETS if name in review.first.references]
    heads = ("Score", "Better", *review.names, *(BRACKETS[name] for name in references))
    lines, parts = [], []
    for name in names:
        scores = {table: _score(review, table, name) for table in review.names}
        best = _best(scores)
        cells = [
            join(
                tag("strong", number(score.value)),
                tag("span", " ★", aria_label="best") if table == best else None,
            )
            for table, score in scores.items()
        ]
        others = [number(review.first.references[one].get(name)) for one in references]
        first = scores[review.names[0]]
        lines.append(row(_defined(first), first.better, *cells, *others, numeric=len(cells) + len(others)))
        parts.append(_parts(name, scores))
    shown = table(f"Scores: {heading.lower()}", heads, lines, numeric=len(heads) - 2)
    return join(tag("h3", heading), shown, *parts)


def _score(review: Review, table: str, name: str) -> Score:
    return next(score for score in review.comparisons[table].scores if score.name == name)


def _best(scores: dict[str, Score]) -> str | None:
    """The table of the best score, where there are several that differ."""
    known = {name: score.value for name, score in scores.items() if not math.isnan(score.value)}
    if len(scores) < 2 or len(set(known.values())) < 2:
        return None
    higher = next(iter(scores.values())).better == "higher"
    return (max if higher else min)(known, key=lambda name: known[name])


def _defined(score: Score) -> Markup:
    """The title of a score, which opens its definition."""
    ends = [
        f"from {number(score.low)}" if score.low is not None else "",
        f"to {number(score.high)}" if score.high is not None else "",
    ]
    entries = [
        ("Two equal tables", "depends on the table" if score.goal is None else number(score.goal)),
        ("Range", " ".join(end for end in ends if end) or "any number"),
        ("Over", score.scope),
        ("Source", score.source),
        ("Cost", score.cost),
        ("Private rows", "reads them: not to be published" if score.private else "not read"),
        ("Note", score.note),
        ("Name", score.name),
    ]
    listed = [tag("div", tag("dt", term), tag("dd", text)) for term, text in entries if text]
    return tag(
        "details",
        tag("summary", title_of(score.name)),
        tag("p", score.definition),
        tag("dl", *listed),
        class_="definition",
        id=f"score-{score.name}",
    )


def _parts(name: str, scores: dict[str, Score]) -> Markup | None:
    """What a score was made from, the parts that differ most from the best first, and notes."""
    keys = list(dict.fromkeys(key for score in scores.values() for key in score.parts))
    notes = list(dict.fromkeys(f"{table}: {score.note}" for table, score in scores.items() if score.note))
    if not keys:
        return None
    most = max(MOST_PARTS // max(len(scores), 4), 1)
    if len(keys) > most:
        higher = next(iter(scores.values())).better == "higher"
        keys.sort(key=lambda key: _worst(key, scores, higher), reverse=True)
    shown = keys[:most]
    lines = [
        row(
            named(key, limit=80),
            *(number(score.parts.get(key)) for score in scores.values()),
            numeric=len(scores),
        )
        for key in shown
    ]
    left = f", the {most} worst" if len(keys) > most else ""
    return details(
        join(f"{title_of(name)}: {count(len(keys))} part{'s' if len(keys) > 1 else ''}{left}"),
        table(f"Parts of {title_of(name)}", ("Part", *scores), lines, numeric=len(scores)),
        *[tag("p", note, class_="note") for note in notes],
    )


def _worst(key: str, scores: dict[str, Score], higher: bool) -> float:
    values = [score.parts[key] for score in scores.values() if key in score.parts]
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return -math.inf
    return -min(known) if higher else max(known)
