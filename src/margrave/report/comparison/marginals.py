"""One column in the real and in several synthetic tables, as an inline SVG picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from margrave.report.bars import (
    APART,
    BOTTOM,
    HEIGHT,
    LEFT,
    NAMES,
    ROW,
    TOP,
    WIDTH,
    Bar,
    Distribution,
    extent,
    grid,
    ticks,
)
from margrave.report.heat import MOST_TABLES, key_of, line_class, mark
from margrave.report.html import Markup, details, join, mark_name, row, shorten, table, tag
from margrave.report.numerals import count, format_fixed, percent
from margrave.report.release.columns import card, figures

if TYPE_CHECKING:
    from margrave.evaluation.comparison import ColumnPair
    from margrave.evaluation.review import Review

MOST_CELLS = 7_000
"""Bars and marks of all pictures together, so that the page stays small."""

_Scale = Callable[[float], float]


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
    drawn, height = (_upright if kept[0].ordered else _draw_lying)(kept, names, scale)
    largest = sorted(range(len(kept[0].bars)), key=lambda at: -kept[0].bars[at].first)[:5]
    spoken = "; ".join(_spoken(kept, names, at) for at in largest)
    return tag(
        "svg",
        tag("title", title, id=f"{key}-t"),
        tag("desc", f"Largest first: {spoken}.", id=f"{key}-d"),
        drawn,
        viewbox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_labelledby=f"{key}-t {key}-d",
        class_="bars",
    )


def _spoken(shown: Sequence[Distribution], names: Sequence[str], at: int) -> str:
    bar = shown[0].bars[at]
    others = (
        f"{shorten(name, 24)} {percent(one.bars[at].second or 0)}"
        for name, one in zip(names, shown, strict=False)
    )
    return f"{shorten(bar.label, 40)}: real {percent(bar.first)}, {', '.join(others)}"


def _upright(
    shown: Sequence[Distribution], names: Sequence[str], scale: tuple[float, float, float]
) -> tuple[Markup, float]:
    low, high, _ = scale
    floor = HEIGHT - BOTTOM

    def at(share: float) -> float:
        return floor - (share - low) / (high - low) * (floor - TOP)

    parts = _levels(scale, at)
    bars = shown[0].bars
    body = [place for place, bar in enumerate(bars) if not bar.apart]
    apart = [place for place, bar in enumerate(bars) if bar.apart]
    slot = (WIDTH - LEFT - 4 - APART * len(apart)) / max(len(body), 1)
    spans = {place: (LEFT + 4 + slot * n, slot) for n, place in enumerate(body)}
    spans |= {place: (WIDTH - APART * (len(apart) - n - 0.25), APART / 2) for n, place in enumerate(apart)}
    for place, (x, width) in spans.items():
        top = at(bars[place].first)
        box = {"x": f"{x + 0.4:.1f}", "y": f"{top:.1f}", "width": f"{max(width - 0.8, 0.6):.1f}"}
        tooltip = tag("title", _spoken(shown, names, place))
        parts.append(tag("rect", tooltip, **box, height=f"{max(floor - top, 0.3):.1f}", class_="real"))
    for place in apart:
        middle = spans[place][0] + spans[place][1] / 2
        parts.append(
            tag("text", shorten(bars[place].tick, 9), x=f"{middle:.1f}", y=HEIGHT - 8, text_anchor="middle")
        )
    for n, one in enumerate(shown):
        parts += _stairs(n, one.bars, body, spans, at)
        parts += [mark(n, spans[p][0] + spans[p][1] / 2, at(one.bars[p].second or 0)) for p in apart]
    parts += ticks([bars[place] for place in body], slot, WIDTH - APART * len(apart) * 0.95)
    return join(*parts), HEIGHT


def _levels(scale: tuple[float, float, float], at: _Scale) -> list[Markup]:
    """Level lines of the grid and what they stand for."""
    found = []
    for value, text in grid(*scale):
        y, css = f"{at(value):.1f}", "grid" if value else "zero"
        line = tag("line", x1=LEFT, y1=y, x2=WIDTH, y2=y, class_=css)
        found.append(
            tag("g", line, tag("text", text, x=LEFT - 6, y=f"{at(value) + 4:.1f}", text_anchor="end"))
        )
    return found


def _stairs(
    place: int, bars: Sequence[Bar], body: Sequence[int], spans: dict[int, tuple[float, float]], at: _Scale
) -> list[Markup]:
    """A line of steps over the bins, with a few marks so that it is told from others without its colour."""
    if not body:
        return []
    steps = []
    for n, one in enumerate(body):
        x, width = spans[one]
        y = at(bars[one].second or 0)
        steps.append(f"{'M' if n == 0 else 'L'}{x:.1f} {y:.1f}H{x + width:.1f}")
    path = tag("path", d="".join(steps), class_=line_class(place))
    every = max(len(body) // 6, 1)
    marked = body[min(place, len(body) - 1) % every :: every]
    return [path, *(mark(place, spans[p][0] + spans[p][1] / 2, at(bars[p].second or 0)) for p in marked)]


def _draw_lying(
    shown: Sequence[Distribution], names: Sequence[str], scale: tuple[float, float, float]
) -> tuple[Markup, float]:
    low, high, step = scale
    bars = shown[0].bars
    foot = TOP + ROW * len(bars)

    def at(share: float) -> float:
        return NAMES + (share - low) / (high - low) * (WIDTH - NAMES - 22)

    parts = [
        tag(
            "g",
            tag(
                "line", x1=f"{at(v):.1f}", y1=TOP, x2=f"{at(v):.1f}", y2=foot, class_="grid" if v else "zero"
            ),
            tag("text", text, x=f"{at(v):.1f}", y=f"{foot + 16:.1f}", text_anchor="middle"),
        )
        for v, text in grid(low, high, step)
    ]
    for place, bar in enumerate(bars):
        middle = TOP + ROW * (place + 0.5)
        css = "apart" if bar.apart else None
        label = shorten(bar.label, 20)
        parts.append(tag("text", label, x=NAMES - 8, y=f"{middle + 4:.1f}", text_anchor="end", class_=css))
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
    return join(*parts), foot + 24
