"""Columns and pairs of columns in the real and in several synthetic tables.

One column each as an inline SVG picture first; then every pair of columns: how far each table is off, and how
strongly columns depend on each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.report.html import (
    Markup,
    count,
    details,
    format_fixed,
    fraction,
    join,
    mark_name,
    percent,
    row,
    shorten,
    table,
    tag,
)
from margrave.report.pictures import (
    MOST_TABLES,
    Bar,
    Distribution,
    Frame,
    enclose_bars,
    extent,
    frame_bars,
    key_of,
    largest_bars,
    line_class,
    mark,
)
from margrave.report.release.columns import (
    ASSOCIATION_LEVELS,
    ASSOCIATION_WORDS,
    card,
    figures,
    level,
    pair_figure,
)
from margrave.report.triangle import MOST_NAMES, Cell

if TYPE_CHECKING:
    from margrave.evaluation.comparison import ColumnPair
    from margrave.evaluation.review import Review


MOST_CELLS = 7_000
"""Bars and marks of all pictures together, so that the page stays small."""


def marginals_section(review: Review) -> Markup:
    """The section of the page: a card a column."""
    tables = [comparison.columns for comparison in review.comparisons.values()]
    cards, cells = [], 0
    for place, column in enumerate(tables[0]):
        pairs = [columns[place] for columns in tables]
        shown = [_distribution(pair) for pair in pairs]
        cells += len(shown[0].bars) * (1 + 2 * len(shown))
        if cells > MOST_CELLS:
            break
        cards.append(_card(column, place, pairs, shown, review.names))
    left = len(tables[0]) - len(cards)
    return join(
        tag(
            "p",
            "The share of rows that have each value, in the real table and in the synthetic ones. Numbers "
            "are cut into bins that "
            "may differ in width.",
        ),
        key_of("real rows", review.names),
        tag("p", f"The pictures show the first {MOST_TABLES} tables.")
        if len(review.names) > MOST_TABLES
        else None,
        figures(cards),
        tag("p", f"{count(left)} more columns are not drawn here.") if left else None,
    )


def _distribution(pair: ColumnPair) -> Distribution:
    return Distribution.of(pair.kind, pair.labels, pair.tail, pair.real, pair.synthetic)


def _card(
    column: ColumnPair,
    place: int,
    pairs: Sequence[ColumnPair],
    shown: Sequence[Distribution],
    names: Sequence[str],
) -> Markup:
    drawn = marginal(shown, names, f"c{place}", f"Distribution of {column.name}")
    codes = f"{column.kind}, {count(len(column.labels))} code{'s' if len(column.labels) != 1 else ''}"
    apart = [
        tag(
            "span",
            "differs by ",
            tag("strong", percent(pair.tv)),
            f" ({shorten(name, 24)})" if len(names) > 1 else "",
        )
        for name, pair in zip(names, pairs, strict=True)
    ]
    lines = [
        row(
            mark_name(bar.label, limit=40),
            percent(bar.first, 2),
            *(percent(one.bars[at].second or 0, 2) for one in shown),
            numeric=1 + len(shown),
        )
        for at, bar in enumerate(shown[0].bars)
    ]
    last = row("Total variation", "–", *(format_fixed(pair.tv, 4) for pair in pairs), numeric=1 + len(pairs))
    heads = ("Value", "Real", *names)
    numbers = table(f"{column.name}, shares of rows", heads, [*lines, last], numeric=len(heads) - 1)
    return card(column.name, join(tag("span", codes), *apart), drawn, details("Numbers", numbers))


def marginal(shown: Sequence[Distribution], names: Sequence[str], key: str, title: str) -> Markup:
    """The picture: the real rows as bars, each synthetic table as marks or, along an order, as a line.

    Args:
        shown: The column's distributions, one a synthetic table: the first of each is the real one.
        names: Of the synthetic tables.
        key: Prefix of the ids of its title and description, unique on the page.
        title: What a screen reader announces.
    """
    kept = shown[:MOST_TABLES]
    shares = [bar.second or 0.0 for one in kept for bar in one.bars]
    scale = extent([bar.first for bar in kept[0].bars] + shares, [0.0])
    frame = frame_bars(kept[0], scale)
    draw = _draw_upright if kept[0].ordered else _draw_lying
    spoken = [_spoken(kept, names, place) for place in largest_bars(kept[0].bars)]
    return enclose_bars(frame, draw(kept, names, frame), spoken, key, title)


def _spoken(shown: Sequence[Distribution], names: Sequence[str], at: int) -> str:
    bar = shown[0].bars[at]
    others = (
        f"{shorten(name, 24)} {percent(one.bars[at].second or 0)}"
        for name, one in zip(names, shown, strict=False)
    )
    return f"{shorten(bar.label, 40)}: real {percent(bar.first)}, {', '.join(others)}"


def _draw_upright(shown: Sequence[Distribution], names: Sequence[str], frame: Frame) -> list[Markup]:
    bars = shown[0].bars
    parts = []
    for place, (bar, (x, width)) in enumerate(zip(bars, frame.spans, strict=True)):
        top, zero = frame.at(bar.first), frame.at(0)
        box = {"x": f"{x + 0.4:.1f}", "y": f"{top:.1f}", "width": f"{max(width - 0.8, 0.6):.1f}"}
        tooltip = tag("title", _spoken(shown, names, place))
        parts.append(tag("rect", tooltip, **box, height=f"{max(zero - top, 0.3):.1f}", class_="real"))
    body = [place for place, bar in enumerate(bars) if not bar.apart]
    for n, one in enumerate(shown):
        parts += _stairs(n, one.bars, body, frame)
        parts += [_mark_bar(n, one.bars, place, frame) for place, bar in enumerate(bars) if bar.apart]
    return parts


def _mark_bar(n: int, bars: Sequence[Bar], place: int, frame: Frame) -> Markup:
    """The mark of a table at its share of an upright bar."""
    return mark(n, frame.middle(place), frame.at(bars[place].second or 0))


def _stairs(n: int, bars: Sequence[Bar], body: Sequence[int], frame: Frame) -> list[Markup]:
    """A line of steps over the bins, with a few marks so that it is told from others without its colour."""
    if not body:
        return []
    steps: list[str] = []
    for place in body:
        x, width = frame.spans[place]
        y = frame.at(bars[place].second or 0)
        steps.append(f"{'L' if steps else 'M'}{x:.1f} {y:.1f}H{x + width:.1f}")
    path = tag("path", d="".join(steps), class_=line_class(n))
    every = max(len(body) // 6, 1)
    marked = body[min(n, len(body) - 1) % every :: every]
    return [path, *(_mark_bar(n, bars, place, frame) for place in marked)]


def _draw_lying(shown: Sequence[Distribution], names: Sequence[str], frame: Frame) -> list[Markup]:
    at = frame.at
    parts = []
    for place, bar in enumerate(shown[0].bars):
        middle = frame.middle(place)
        box = {
            "x": f"{at(0):.1f}",
            "y": f"{middle - 8:.1f}",
            "width": f"{max(at(bar.first) - at(0), 0.3):.1f}",
        }
        tooltip = tag("title", _spoken(shown, names, place))
        parts.append(tag("rect", tooltip, **box, height=16, class_="real"))
        # Marks of several tables share the height of the bar, so that equal shares do not hide each other.
        spread = 14.0 / max(len(shown), 2)
        for n, one in enumerate(shown):
            y = middle + (n - (len(shown) - 1) / 2) * spread
            parts.append(mark(n, at(one.bars[place].second or 0), y))
    return parts


TV_LEVELS = (0.01, 0.02, 0.05, 0.1)
"""Total variations at which the colour of a pair changes; set for reading, not measured."""
SIGNED_LEVELS = (-0.4, -0.1, 0.1, 0.4)
"""Correlations at which the colour of a pair changes; set for reading, not measured."""
TV_WORDS = ("at most 1%", "to 2%", "to 5%", "to 10%", "above 10%")
SIGNED_WORDS = ("at most −0.4", "to −0.1", "to 0.1", "to 0.4", "above 0.4")
PAIRS_DESCRIBED = 15
"""Pairs that are described in words under a picture; set for reading, not measured."""
NO_VALUE = "not computed: too large, or one value only"
MOST_PAIR_CELLS = 1400
"""Cells of all pictures of a section together, so that the page stays small."""

Matrix = NDArray[np.float64]


def pairs_section(review: Review) -> Markup:
    """The section of the page about errors of pairs."""
    pairs = review.first.pairs
    if len(pairs.names) < 2:
        return tag("p", "There is one column, so there are no pairs.")
    shown = {name: one.pairs.tv for name, one in list(review.comparisons.items())[:MOST_TABLES]}
    drawn = [
        _figure(
            pairs.names,
            tv,
            TV_LEVELS,
            "q",
            TV_WORDS,
            f"tv{at}",
            f"Error of each pair: {name}",
            shares=True,
            among=len(shown),
        )
        for at, (name, tv) in enumerate(shown.items())
    ]
    return join(
        tag(
            "p",
            "The share of rows that would have to change for the table of two columns to agree with the "
            "real one: its total variation.",
        ),
        _cut(pairs.names, len(shown)),
        tag("div", *drawn, class_="heats"),
        _largest(review),
    )


def correlation_section(review: Review) -> Markup:
    """The section of the page about dependence: Cramér's V of all columns, Pearson's r of numbers."""
    pairs = review.first.pairs
    if len(pairs.names) < 2:
        return tag("p", "There is one column, so there is nothing to depend on it.")
    values = {"real rows": pairs.real}
    values |= {name: one.pairs.synthetic for name, one in list(review.comparisons.items())[:MOST_TABLES]}
    drawn = [
        _figure(
            pairs.names,
            v,
            ASSOCIATION_LEVELS,
            "q",
            ASSOCIATION_WORDS,
            f"v{at}",
            f"Cramér's V: {name}",
            among=len(values),
        )
        for at, (name, v) in enumerate(values.items())
    ]
    return join(
        tag("p", "How strongly two columns depend on each other: 0 not at all, 1 if one decides the other."),
        _cut(pairs.names, len(values)),
        tag("div", *drawn, class_="heats"),
        _draw_signed(review),
    )


def _draw_signed(review: Review) -> Markup | None:
    found = review.correlations
    if found is None:
        return None
    shown = dict(list(found.tables.items())[: MOST_TABLES + 1])
    drawn = [
        _figure(
            found.names, r, SIGNED_LEVELS, "d", SIGNED_WORDS, f"r{at}",
            f"Pearson's r: {'real rows' if name == 'real' else name}", among=len(shown), signed=True,
        )
        for at, (name, r) in enumerate(shown.items())
    ]  # fmt: skip
    return join(
        tag("h3", "Numeric columns"),
        tag(
            "p",
            "Pearson's coefficient of raw numbers: 1 if they rise together on a line, −1 if one falls as "
            "the other rises.",
        ),
        tag("div", *drawn, class_="heats"),
    )


def _count_fitting(names: Sequence[str], among: int) -> int:
    """How many columns fit into each of several pictures."""
    most = math.isqrt(2 * MOST_PAIR_CELLS // max(among, 1))
    return min(len(names), most, MOST_NAMES)


def _cut(names: Sequence[str], among: int) -> Markup | None:
    kept = _count_fitting(names, among)
    return tag("p", f"The pictures show the first {kept} columns.") if kept < len(names) else None


def _figure(
    names: Sequence[str],
    values: Matrix,
    levels: tuple[float, ...],
    palette: str,
    words: Sequence[str],
    key: str,
    title: str,
    *,
    among: int,
    shares: bool = False,
    signed: bool = False,
) -> Markup:
    names = names[: _count_fitting(names, among)]
    cells = {}
    for i, j in combinations(range(len(names)), 2):
        value, text = float(values[i, j]), f"{names[i]} × {names[j]}"
        if math.isnan(value):
            cells[names[i], names[j]] = Cell(None, "", f"{text}: {NO_VALUE}")
            continue
        shown = f"{100 * value:.0f}" if shares else _short(value) if signed else fraction(value)
        spoken = percent(value) if shares else format_fixed(value)
        cells[names[i], names[j]] = Cell(level(value, levels), shown, f"{text}: {spoken}")
    return pair_figure(names, cells, palette, key, title, _describe_largest(cells), words)


def _short(value: float) -> str:
    text = fraction(abs(value))
    return f"−{text}" if value < -0.005 else text


def _describe_largest(cells: dict[tuple[str, str], Cell]) -> str:
    known = [cell for cell in cells.values() if cell.level is not None]
    known.sort(key=lambda cell: -(cell.level or 0))
    return f"Among the largest: {'; '.join(cell.spoken for cell in known[:5])}." if known else "No values."


def _largest(review: Review) -> Markup:
    """The pairs that differ most in any table."""
    pairs = review.first.pairs
    matrices = [one.pairs for one in review.comparisons.values()]
    worst = np.max([np.nan_to_num(one.tv, nan=-1.0) for one in matrices], axis=0)
    places = sorted(combinations(range(len(pairs.names)), 2), key=lambda place: -worst[place])[
        :PAIRS_DESCRIBED
    ]
    lines = []
    for i, j in places:
        if worst[i, j] < 0:
            continue
        cells = [percent(one.tv[i, j]) for one in matrices]
        cells += [format_fixed(pairs.real[i, j]), *(format_fixed(one.synthetic[i, j]) for one in matrices)]
        text = join(mark_name(pairs.names[i], limit=32), " × ", mark_name(pairs.names[j], limit=32))
        lines.append(row(text, *cells, numeric=len(cells)))
    heads = ["Pair", *(f"Rows to change, {name}" for name in review.names), "Cramér's V, real"]
    heads += [f"Cramér's V, {name}" for name in review.names]
    return table(f"The {len(lines)} pairs that differ most", heads, lines, numeric=len(heads) - 1)
