"""The comparison of real and synthetic as a page that says on its face that it is not private."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING

import margrave
from margrave.evaluation.comparison import NOT_PRIVATE
from margrave.evaluation.reference import REFERENCES
from margrave.report.bars import legend, picture
from margrave.report.columns import MOST_CARDS, card, figures
from margrave.report.definitions import DEFINITIONS, definitions
from margrave.report.distribution import Distribution
from margrave.report.document import Section, document
from margrave.report.heat import MOST_NAMES, Cell, triangle, triangle_legend
from margrave.report.markup import Markup, join, named, tag
from margrave.report.numerals import count, fixed, fraction, percent
from margrave.report.pairs import ASSOCIATION_LEVELS, level
from margrave.report.tables import details, facts, row, table

if TYPE_CHECKING:
    from margrave.evaluation.comparison import ColumnPair, Comparison

__all__ = ["render_comparison"]

TV_LEVELS = (0.01, 0.02, 0.05, 0.1)
LARGEST = 15
USED = frozenset({"Distance, total variation, TV", "Cramér's V", "Codes"})


def render_comparison(comparison: Comparison, *, title: str | None = None) -> str:
    """The comparison of a synthetic table with the real one, as one self-contained HTML file.

    **Not private**: it shows exact shares of the real table, and says so in its title and a banner.

    Args:
        comparison: Made by `margrave.evaluation.compare`.
        title: Title of the page, after the warning.
    """
    banner = tag(
        "div",
        tag("strong", NOT_PRIVATE),
        tag("p", "No noise protects the numbers on this page. Keep it where the real table is kept."),
        class_="banner",
        role="note",
    )
    sections = (
        Section("scores", "Scores", _scores(comparison)),
        Section("columns", "Columns", _columns(comparison)),
        Section("pairs", "Pairs of columns", _pairs(comparison)),
        Section("definitions", "Definitions", _definitions(comparison)),
    )
    lead = tag(
        "p", "How close the synthetic rows are to the real ones, by exact counts of both.", class_="lead"
    )
    footer = tag("p", f"{NOT_PRIVATE}. Made by margrave {margrave.__version__}. This file fetches nothing.")
    heading = title or "Real and synthetic rows compared"
    return document(heading, lead, sections, footer, banner=banner, window=f"NOT PRIVATE: {heading}")


def _scores(comparison: Comparison) -> Markup:
    real, synthetic = comparison.rows
    heads = ("Score", "Over", "Better", "Synthetic", *(name.capitalize() for name in comparison.references))
    lines = []
    for score in comparison.scores:
        others = [values.get(score.name) for values in comparison.references.values()]
        cells = ["–" if value is None else fixed(value, 4) for value in others]
        number = tag("strong", fixed(score.value, 4))
        lines.append(
            row(_words(score.name), score.scope, score.better, number, *cells, numeric=1 + len(cells))
        )
    return join(
        facts(
            [
                ("Real rows", count(real)),
                ("Synthetic rows", count(synthetic)),
                ("Columns", count(len(comparison.columns))),
            ]
        ),
        table("Scores of the synthetic rows and of reference tables", heads, lines, numeric=len(heads) - 3),
        tag(
            "p",
            (
                "Read the synthetic column between the two references: a good table is close to "
                "the bootstrap and far better than the shuffled one wherever columns depend on "
                "each other."
            ),
        ),
        tag(
            "p",
            f"{count(comparison.skipped)} tables were left out because they have too many cells.",
            class_="note",
        )
        if comparison.skipped
        else None,
    )


def _words(name: str) -> str:
    parts = name.split("_")
    if parts[0] == "tv" and len(parts) == 3:
        width = {"1": "one column", "2": "two columns", "3": "three columns"}.get(parts[1], parts[1])
        return f"Total variation, {width}, {parts[2]}"
    return {
        "auc": "AUC",
        "association_mean": "Association error, mean",
        "association_max": "Association error, max",
    }.get(name, name.replace("_", " ").capitalize())


def _columns(comparison: Comparison) -> Markup:
    cards = [_card(column, place) for place, column in enumerate(comparison.columns[:MOST_CARDS])]
    left = len(comparison.columns) - len(cards)
    return join(
        legend("real", "synthetic"),
        figures(cards),
        tag("p", f"{count(left)} more columns are not drawn here.") if left else None,
    )


def _card(column: ColumnPair, place: int) -> Markup:
    shown = Distribution.of(column.kind, column.labels, column.tail, column.real, column.synthetic)
    drawn = picture(shown, f"c{place}", f"Distribution of {column.name}", ("real", "synthetic"))
    codes = f"{column.kind}, {count(len(column.labels))} code{'s' if len(column.labels) != 1 else ''}"
    meta = join(tag("span", codes), tag("span", "TV ", tag("strong", fixed(column.tv, 4))))
    lines = [
        row(named(bar.label, limit=40), percent(bar.first, 2), percent(bar.second or 0, 2), numeric=2)
        for bar in shown.bars
    ]
    numbers = details(
        "Numbers", table(f"{column.name}, shares of rows", ("Value", "Real", "Synthetic"), lines, numeric=2)
    )
    return card(column.name, meta, drawn, numbers)


def _pairs(comparison: Comparison) -> Markup:
    pairs = comparison.pairs
    if len(pairs.names) < 2:
        return tag("p", "There is one column, so there are no pairs.")
    names = pairs.names[:MOST_NAMES]
    tv = [("q0", "at most 0.01"), ("q1", "to 0.02"), ("q2", "to 0.05"), ("q3", "to 0.1"), ("q4", "above 0.1")]
    error = [
        ("q0", "at most 0.05"),
        ("q1", "to 0.1"),
        ("q2", "to 0.2"),
        ("q3", "to 0.4"),
        ("q4", "above 0.4"),
    ]
    return join(
        tag("p", f"The pictures show the first {MOST_NAMES} columns.") if names != pairs.names else None,
        tag(
            "div",
            _figure(
                names,
                lambda i, j: float(pairs.tv[i, j]),
                TV_LEVELS,
                tv,
                "tv",
                "Total variation of each pair",
            ),
            _figure(
                names,
                lambda i, j: abs(float(pairs.synthetic[i, j] - pairs.real[i, j])),
                ASSOCIATION_LEVELS,
                error,
                "v",
                "Error of Cramér's V of each pair",
            ),
            class_="heats",
        ),
        _largest(comparison),
    )


def _figure(
    names: tuple[str, ...],
    value: Callable[[int, int], float],
    levels: tuple[float, ...],
    entries: list[tuple[str, str]],
    key: str,
    title: str,
) -> Markup:
    cells = {}
    for i, j in combinations(range(len(names)), 2):
        number = value(i, j)
        text = f"{names[i]} × {names[j]}"
        if number != number:
            cells[names[i], names[j]] = Cell(None, "", f"{text}: too large to compute")
            continue
        shown = fraction(number)
        cells[names[i], names[j]] = Cell(level(number, levels), shown, f"{text}: {fixed(number, 4)}")
    drawn = triangle(names, cells, "q", key, title, f"{title}; real against synthetic rows.")
    return tag("figure", tag("figcaption", tag("strong", f"{title}.")), drawn, triangle_legend(entries))


def _largest(comparison: Comparison) -> Markup:
    pairs = comparison.pairs
    known = [
        (float(pairs.tv[i, j]), i, j)
        for i, j in combinations(range(len(pairs.names)), 2)
        if pairs.tv[i, j] == pairs.tv[i, j]
    ]
    known.sort(key=lambda entry: -entry[0])
    lines = [
        row(
            join(named(pairs.names[i], limit=32), " × ", named(pairs.names[j], limit=32)),
            fixed(tv, 4),
            fixed(float(pairs.real[i, j]), 3),
            fixed(float(pairs.synthetic[i, j]), 3),
            numeric=3,
        )
        for tv, i, j in known[:LARGEST]
    ]
    heads = ("Pair", "Distance (TV)", "Cramér's V, real", "Cramér's V, synthetic")
    return table(f"The {len(lines)} pairs that differ most", heads, lines, numeric=3)


def _definitions(comparison: Comparison) -> Markup:
    own = [(_words(score.name), score.definition) for score in comparison.scores]
    references = [
        (name.capitalize(), REFERENCES[name]) for name in comparison.references if name in REFERENCES
    ]
    general = [(term, text) for term, text in DEFINITIONS if term in USED]
    return definitions([*own, *references, *general])
