"""The comparison of real and synthetic tables as a page that says on its face that it is not private.

Its largest part are the scores, by group, each with its definition, its parts and its notes one click away,
and with a title for readers who know none of them. Below them stand the curves of a classifier, alarms and
precision against recall, and rows as points of a plane, one picture a table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import margrave
from margrave.evaluation.comparison import NOT_PRIVATE, Comparison
from margrave.evaluation.review import Review
from margrave.evaluation.rows import REFERENCES
from margrave.evaluation.score import GROUPS, Score
from margrave.report.comparison.columns import correlation_section, marginals_section, pairs_section
from margrave.report.comparison.verdict import BRACKETS, first_screen
from margrave.report.html import (
    DEFINITIONS,
    Markup,
    Section,
    count,
    details,
    document,
    facts,
    format_fixed,
    join,
    mark_name,
    percent,
    row,
    significant,
    table,
    tag,
)
from margrave.report.pictures import MOST_TABLES, key_of, legend, line_class

if TYPE_CHECKING:
    from margrave.evaluation.metrics.pictures import Curve, Curves


def title_of(score: Score) -> str:
    """What the page calls a score."""
    return score.title or score.name.replace("_", " ").capitalize()


def group_scores(scores: Iterable[Score]) -> list[tuple[str, list[str]]]:
    """Names of scores by heading, in the order of the page; headings without scores are left out."""
    found: dict[str, list[str]] = {heading: [] for heading in GROUPS}
    for score in scores:
        found[score.group].append(score.name)
    return [(heading, held) for heading, held in found.items() if held]


MOST_PARTS = 100
"""Parts of a score on the page, over all tables."""


def scores_section(review: Review) -> Markup:
    """The section of the page."""
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
        *[_group(review, heading, held) for heading, held in group_scores(review.first.scores)],
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
        lines.append(
            row(_define_score(first), first.better, *cells, *others, numeric=len(cells) + len(others))
        )
        parts.append(_parts(scores))
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


def _define_score(score: Score) -> Markup:
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
        tag("summary", title_of(score)),
        tag("p", score.definition),
        tag("dl", *listed),
        class_="definition",
        id=f"score-{score.name}",
    )


def _parts(scores: dict[str, Score]) -> Markup | None:
    """What a score was made from, the parts that differ most from the best first, and notes."""
    title = title_of(next(iter(scores.values())))
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
            mark_name(key, limit=80),
            *(number(score.parts.get(key)) for score in scores.values()),
            numeric=len(scores),
        )
        for key in shown
    ]
    left = f", the {most} worst" if len(keys) > most else ""
    return details(
        join(f"{title}: {count(len(keys))} part{'s' if len(keys) > 1 else ''}{left}"),
        table(f"Parts of {title}", ("Part", *scores), lines, numeric=len(scores)),
        *[tag("p", note, class_="note") for note in notes],
    )


def _worst(key: str, scores: dict[str, Score], higher: bool) -> float:
    values = [score.parts[key] for score in scores.values() if key in score.parts]
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return -math.inf
    return -min(known) if higher else max(known)


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
    return facts([*references, *general], css="terms")


SIDE = 420
"""Side of the square of a curve, or of the plane that rows are placed in, in points of the picture."""
LEFT, FOOT, RIGHT = 46.0, 46.0, 24.0
"""Margins of a curve, in the same."""
_Scale = Callable[[float], float]
OTHERS = {"real rows": "line truth", "shuffled": "line ref"}


def curves_section(review: Review) -> Markup:
    """The section of the page."""
    curves = review.curves
    if isinstance(curves, str):
        return tag("p", curves or "No classifier was trained.")
    shown = (*curves.tables[:MOST_TABLES], *curves.references)
    return join(
        tag(
            "p",
            "Gradient-boosted trees learned from each table to find ",
            tag("strong", mark_name(curves.found, limit=80)),
            f" and were asked about {count(curves.tested)} real rows, {percent(curves.share)} of which "
            "are to be found. ",
            curves.how,
        ),
        key_of(
            "",
            [curve.name for curve in curves.tables],
            lines=True,
            others=[(OTHERS[curve.name], BRACKETS[curve.name]) for curve in curves.references],
        ),
        tag("div", _alarms(curves, shown), _precision(curves, shown), class_="heats duo"),
        _areas(curves),
    )


def _alarms(curves: Curves, shown: Sequence[Curve]) -> Markup:
    title = "True against false alarms (ROC)"
    spoken = ", ".join(f"{_name_curve(curve)} {format_fixed(curve.auc)}" for curve in shown)
    words = f"Areas under the curves: {spoken}. The diagonal is guessing."
    guess = ((0.0, 0.0), (1.0, 1.0))
    lines = [(curve.roc, _css(curves, curve)) for curve in shown]
    return _figure("roc", title, words, ("false alarms", "found"), lines, guess)


def _precision(curves: Curves, shown: Sequence[Curve]) -> Markup:
    title = "Precision against recall"
    spoken = ", ".join(f"{_name_curve(curve)} {format_fixed(curve.average_precision)}" for curve in shown)
    words = f"Areas under the curves: {spoken}. The level line is guessing."
    guess = ((0.0, curves.share), (1.0, curves.share))
    lines = [(curve.precision_recall, _css(curves, curve)) for curve in shown]
    return _figure("pr", title, words, ("found (recall)", "right among those named"), lines, guess)


def _name_curve(curve: Curve) -> str:
    return BRACKETS.get(curve.name, curve.name)


def _css(curves: Curves, curve: Curve) -> str:
    if curve.name in OTHERS:
        return OTHERS[curve.name]
    return line_class([one.name for one in curves.tables].index(curve.name))


def _figure(
    key: str,
    title: str,
    words: str,
    axes: tuple[str, str],
    lines: Sequence[tuple[NDArray[np.float64], str]],
    guess: tuple[tuple[float, float], tuple[float, float]],
) -> Markup:
    def x(share: float) -> float:
        return LEFT + share * (SIDE - LEFT - RIGHT)

    def y(share: float) -> float:
        return SIDE - FOOT - share * (SIDE - FOOT - 10)

    parts = _grid(x, y)
    parts.append(tag("text", axes[0], x=f"{x(0.5):.0f}", y=SIDE - 6, text_anchor="middle"))
    ends = [f"{x(a):.0f} {y(b):.0f}" for a, b in guess]
    parts.append(tag("path", d=f"M{ends[0]}L{ends[1]}", class_="guess"))
    for points, css in lines:
        path = "L".join(f"{x(a):.1f} {y(b):.1f}" for a, b in points.tolist())
        parts.append(tag("path", d=f"M{path}", class_=css))
    drawn = tag(
        "svg",
        tag("title", title, id=f"{key}-t"),
        tag("desc", words, id=f"{key}-d"),
        *parts,
        viewbox=f"0 0 {SIDE} {SIDE}",
        role="img",
        aria_labelledby=f"{key}-t {key}-d",
        class_="curves",
    )
    caption = tag("figcaption", tag("strong", f"{title}. "), f"Upwards: {axes[1]}.")
    return tag("figure", caption, drawn)


def _grid(x: _Scale, y: _Scale) -> list[Markup]:
    """Lines at each fifth of both axes, and what they stand for."""
    parts = []
    for step in range(6):
        share, text = step / 5, percent(step / 5, 0)
        css = "grid" if step else "zero"
        parts.append(
            tag(
                "path",
                d=f"M{x(share):.0f} {y(0):.0f}V{y(1):.0f}M{x(0):.0f} {y(share):.0f}H{x(1):.0f}",
                class_=css,
            )
        )
        parts.append(tag("text", text, x=f"{x(share):.0f}", y=f"{y(0) + 16:.0f}", text_anchor="middle"))
        parts.append(tag("text", text, x=f"{x(0) - 6:.0f}", y=f"{y(share) + 4:.0f}", text_anchor="end"))
    return parts


def _areas(curves: Curves) -> Markup:
    lines = [
        row(
            mark_name(_name_curve(curve), limit=40),
            format_fixed(curve.auc),
            format_fixed(curve.average_precision),
            numeric=2,
        )
        for curve in (*curves.tables, *curves.references)
    ]
    heads = ("Learned from", "Area under ROC", "Area under precision and recall")
    return table("Areas under the curves", heads, lines, numeric=2)


EDGE = 8
"""Points between the side of the plane and the outermost rows."""


def plane_section(review: Review) -> Markup:
    """The section of the page."""
    scatter = review.scatter
    if isinstance(scatter, str):
        return tag("p", scatter or "No rows were drawn.")
    names = [name for name in scatter.points if name != "real"]
    shown = [*(name for name in names if name in review.names)][:MOST_TABLES]
    shown += [name for name in names if name not in review.names]
    return join(
        tag(
            "p",
            "Each point is a row; rows that are alike lie near each other. Where synthetic rows lie in "
            "the same clusters as real ones, "
            "in the same numbers, they are alike; clusters of one kind alone tell of rows that are "
            "missing or made up.",
        ),
        legend([("dot", "● real rows"), ("plus", "+ rows of the other table")]),
        tag(
            "div",
            *[
                _picture(scatter.points["real"], scatter.points[name], name, at)
                for at, name in enumerate(shown)
            ],
            class_="planes",
        ),
        tag("p", scatter.how, class_="note"),
    )


def _picture(real: NDArray[np.float64], other: NDArray[np.float64], name: str, at: int) -> Markup:
    title = BRACKETS.get(name, name)
    words = f"{count(len(real))} real rows and {count(len(other))} rows of {title} in one plane."
    dots = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in _place_points(real))
    pluses = "".join(f"M{x - 3:.0f} {y:.0f}h6m-3 -3v6" for x, y in _place_points(other))
    drawn = tag(
        "svg",
        tag("title", f"Real rows and {title}", id=f"p{at}-t"),
        tag("desc", words, id=f"p{at}-d"),
        tag("rect", x=0.5, y=0.5, width=SIDE - 1, height=SIDE - 1, class_="frame"),
        tag("path", d=dots, class_="dots"),
        tag("path", d=pluses, class_="pluses"),
        viewbox=f"0 0 {SIDE} {SIDE}",
        role="img",
        aria_labelledby=f"p{at}-t p{at}-d",
        class_="plane",
    )
    return tag("figure", tag("figcaption", tag("strong", mark_name(title, limit=40))), drawn)


def _place_points(points: NDArray[np.float64]) -> list[list[float]]:
    placed: list[list[float]] = (EDGE + points * (SIDE - 2 * EDGE)).tolist()
    return placed
