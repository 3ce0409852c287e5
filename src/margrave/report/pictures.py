"""Pictures as inline SVG: two distributions side by side, and lines and marks that tell tables apart.

Distributions over one column are shortened to what a picture can hold, and have error bars on the first.
Lines and marks differ by shape as well as by colour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from margrave.report.html import Markup, columns, count, mark_name, percent, shorten, tag
from margrave.schema.columns import Binned, Column, Listed
from margrave.schema.schema import find_kind

MOST_BINS = 40
"""Bars of a column whose codes stand in order, at most; set for reading, not measured."""
MOST_VALUES = 12
"""Bars of a column of labels before the rest share one; set for reading, not measured."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One place on the picture's axis.

    Args:
        label: What it stands for.
        tick: A shorter label for the axis.
        first: Share of rows in the first distribution.
        second: Share of rows in the second; None if there is none.
        margin: Half the length of the first one's error bar, as a share; None if it is exact.
        apart: Whether it stands apart from the axis: missing, other, or the rest.
    """

    label: str
    tick: str
    first: float
    second: float | None
    margin: float | None
    apart: bool


@dataclass(frozen=True, slots=True)
class Distribution:
    """A column's two distributions, ready to draw.

    Args:
        kind: The column's kind.
        bars: In the order of the axis.
        codes: Number of codes before shortening.
    """

    kind: str
    bars: tuple[Bar, ...]
    codes: int

    @property
    def ordered(self) -> bool:
        """Whether the axis has an order."""
        return _has_order(self.kind)

    @property
    def shortened(self) -> bool:
        """Whether a bar stands for several codes."""
        return len(self.bars) < self.codes

    @classmethod
    def of(
        cls,
        kind: str,
        labels: Sequence[str],
        tail: int,
        first: NDArray[np.float64],
        second: NDArray[np.float64] | None = None,
        margin: NDArray[np.float64] | None = None,
    ) -> Distribution:
        """The distribution of a column.

        Args:
            kind: The column's kind.
            labels: A label for each code.
            tail: How many of the last codes stand for other or missing values.
            first: Shares, shape [codes].
            second: Shares, shape [codes].
            margin: Half-lengths of the first one's error bars, shape [codes].
        """
        body = len(labels) - tail
        groups = _runs(body) if _has_order(kind) else _largest(first[:body])
        bars = []
        for group in groups:
            label, tick = _label_group(kind, [labels[code] for code in group[:1] + group[-1:]], len(group))
            apart = len(group) > 1 and not _has_order(kind)
            bars.append(_bar(label, tick, group, first, second, margin, apart))
        for code in range(body, len(labels)):
            bars.append(_bar(labels[code], labels[code], [code], first, second, margin, True))
        return cls(kind, tuple(bars), len(labels))


def _has_order(kind: str) -> bool:
    return (find_kind(kind) or Column).ordered is not Column.ordered  # such a kind says how many codes are


def tail_of(column: Column) -> int:
    """How many of the last codes stand for other or missing values."""
    other = isinstance(column, Listed) and column.other is not None
    return int(other) + int(bool(column.missing))


def _runs(codes: int) -> list[list[int]]:
    """Neighbouring codes in at most MOST_BINS groups."""
    width = -(-codes // MOST_BINS) if codes else 1
    return [list(range(start, min(start + width, codes))) for start in range(0, codes, width)]


def _largest(first: NDArray[np.float64]) -> list[list[int]]:
    """The codes of largest share alone, from the largest down, and the rest together."""
    order = np.argsort(-first, kind="stable").tolist()
    if len(order) <= MOST_VALUES + 1:
        return [[code] for code in order]
    return [[code] for code in order[:MOST_VALUES]] + [order[MOST_VALUES:]]


def _label_group(kind: str, ends: list[str], codes: int) -> tuple[str, str]:
    first, last = ends
    if issubclass(find_kind(kind) or Column, Binned):
        low, high = first.split(" to ")[0], last.split(" to ")[-1]
        if low == high:
            return low, _compact(low)
        return f"{low} to {high}", f"{_compact(low)}\u2013{_compact(high)}"
    if not _has_order(kind) and codes > 1:
        text = f"{count(codes)} other values"
        return text, text
    return (first if codes == 1 else f"{first} … {last}"), first


def _compact(number: str) -> str:
    """A long number in thousands or millions, for the axis."""
    try:
        value = float(number)
    except ValueError:
        return number
    if len(number) < 6 or abs(value) < 10_000:
        return number if len(number) < 9 else f"{value:.4g}"
    return f"{value / 1e6:.3g}M" if abs(value) >= 1e6 else f"{value / 1e3:.3g}k"


def _bar(
    label: str,
    tick: str,
    group: list[int],
    first: NDArray[np.float64],
    second: NDArray[np.float64] | None,
    margin: NDArray[np.float64] | None,
    apart: bool,
) -> Bar:
    return Bar(
        label,
        tick,
        float(first[group].sum()),
        None if second is None else float(second[group].sum()),
        None if margin is None else float(np.sqrt(np.square(margin[group]).sum())),
        apart,
    )


WIDTH = 460.0
"""Width of a picture, in points of it."""
LEFT = 46.0
"""Points left of the bars, for the numbers."""
HEIGHT = 196.0
"""Height of a picture, in points."""
TOP, BOTTOM = 8.0, 26.0
"""Points above and below the bars."""
APART = 58.0
"""Points for a bar that stands apart from the others."""
ROW = 27.0
"""Points for a line of a lying picture."""
SLIGHTLY_OVER = 1.1
"""Below this, noise is all that lifts a share above 1, and the lines of the grid end at 100 %."""
MAX_LABEL_LETTERS = 23
"""Letters of a label under the axis: two dates and a dash."""
NAMES = 136.0
"""Points left of lying bars, for their names."""

_Scale = Callable[[float], float]


def picture(distribution: Distribution, key: str, title: str, names: tuple[str, str | None]) -> Markup:
    """The picture: upright bars where the column has an order, lying bars where it has none.

    Args:
        distribution: What to draw.
        key: Prefix of the ids of its title and description, unique on the page.
        title: What a screen reader announces.
        names: What the two distributions are called.
    """
    bars = distribution.bars
    frame = frame_bars(distribution, _range(bars))
    draw = _draw_upright if distribution.ordered else _draw_lying
    described = [_spoken(bars[place], names) for place in largest_bars(bars)]
    return enclose_bars(frame, draw(bars, frame, names), described, key, title)


def enclose_bars(
    frame: Frame, drawn: Sequence[Markup], described: Sequence[str], key: str, title: str
) -> Markup:
    """The SVG element of a picture of bars.

    Args:
        frame: Its frame, which is drawn first.
        drawn: What stands in the frame.
        described: What a screen reader says of the largest bars.
        key: Prefix of the ids of its title and description, unique on the page.
        title: What a screen reader announces.
    """
    return tag(
        "svg",
        tag("title", title, id=f"{key}-t"),
        tag("desc", f"Largest first: {'; '.join(described)}.", id=f"{key}-d"),
        *frame.drawn,
        *drawn,
        viewbox=f"0 0 {WIDTH:g} {frame.height:g}",
        role="img",
        aria_labelledby=f"{key}-t {key}-d",
        class_="bars",
    )


def largest_bars(bars: Sequence[Bar]) -> list[int]:
    """The places of the five bars of largest first share, from the largest down."""
    return sorted(range(len(bars)), key=lambda place: -bars[place].first)[:5]


def _spoken(bar: Bar, names: tuple[str, str | None]) -> str:
    text = f"{shorten(bar.label, 40)}: {names[0]} {percent(bar.first)}"
    return text if bar.second is None else f"{text}, {names[1]} {percent(bar.second)}"


def _range(bars: Sequence[Bar]) -> tuple[float, float, float]:
    tops = [bar.first + (bar.margin or 0) for bar in bars] + [bar.second or 0 for bar in bars]
    return extent(tops, [bar.first - (bar.margin or 0) for bar in bars])


def extent(tops: Sequence[float], lows: Sequence[float]) -> tuple[float, float, float]:
    """The least and greatest share to show and the step of the grid."""
    high, low = max(*tops, 1e-9), min(*lows, 0.0)
    if 1.0 < high < SLIGHTLY_OVER:
        return low, high, 0.25
    raw = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw)
    return low, math.ceil(high / step) * step, step


def grid(low: float, high: float, step: float) -> list[tuple[float, str]]:
    """Shares to draw a line at, and how they are written."""
    digits = 0 if step >= 0.01 and abs(step * 100 - round(step * 100)) < 1e-9 else 1
    digits = digits if step >= 0.001 else 2 + max(0, -math.floor(math.log10(step)) - 4)
    ticks = range(math.ceil(low / step - 1e-9), round(high / step) + 1)
    return [(tick * step, percent(tick * step, digits)) for tick in ticks]


def _tooltip(bar: Bar, names: tuple[str, str | None]) -> Markup:
    margin = "" if bar.margin is None else f" ± {percent(bar.margin, 2)}"
    text = f"{bar.label[:200]}: {names[0]} {percent(bar.first, 2)}{margin}"
    return tag("title", text if bar.second is None else f"{text}, {names[1]} {percent(bar.second, 2)}")


@dataclass(frozen=True, slots=True)
class Frame:
    """The frame of a picture of bars: its grid, its labels, and where shares and bars lie.

    Args:
        drawn: Lines of the grid and all labels.
        at: Where a share lies, in points along the axis of shares.
        spans: The room of each bar, in points along the other axis: where it begins and how wide it is.
        slot: Width of a bar's room, in points, of bars that do not stand apart.
        height: Height of the picture, in points.
    """

    drawn: tuple[Markup, ...]
    at: _Scale
    spans: tuple[tuple[float, float], ...]
    slot: float
    height: float

    def middle(self, place: int) -> float:
        """The middle of a bar's room."""
        start, width = self.spans[place]
        return start + width / 2


def frame_bars(distribution: Distribution, scale: tuple[float, float, float]) -> Frame:
    """The frame of upright bars where the column has an order, of lying bars where it has none.

    Args:
        distribution: Whose bars they are.
        scale: The least and greatest share to show and the step of the grid, as `extent` has them.
    """
    return (_frame_upright if distribution.ordered else _frame_lying)(distribution.bars, scale)


def _frame_upright(bars: Sequence[Bar], scale: tuple[float, float, float]) -> Frame:
    low, high, _ = scale
    floor = HEIGHT - BOTTOM

    def at(share: float) -> float:
        return floor - (share - low) / (high - low) * (floor - TOP)

    drawn = [
        tag(
            "g",
            _segment(LEFT, at(value), WIDTH, at(value), "zero" if value == 0 else "grid"),
            tag("text", text, x=LEFT - 6, y=f"{at(value) + 4:.1f}", text_anchor="end"),
        )
        for value, text in grid(*scale)
    ]
    # Bars that stand apart are the last ones of a column with an order.
    apart = [bar for bar in bars if bar.apart]
    body = bars[: len(bars) - len(apart)]
    slot = (WIDTH - LEFT - 4 - APART * len(apart)) / max(len(body), 1)
    spans = [(LEFT + 4 + slot * place, slot) for place in range(len(body))]
    for place, bar in enumerate(apart):
        start = WIDTH - APART * (len(apart) - place - 0.25)
        spans.append((start, APART / 2))
        middle = start + APART / 4
        drawn.append(tag("text", shorten(bar.tick, 9), x=f"{middle:.1f}", y=HEIGHT - 8, text_anchor="middle"))
    drawn += _ticks(body, slot, WIDTH - APART * len(apart) * 0.95)
    return Frame(tuple(drawn), at, tuple(spans), slot, HEIGHT)


def _ticks(body: Sequence[Bar], slot: float, end: float) -> list[Markup]:
    """A few labels under the axis, far enough apart to be read."""
    if not body:
        return []
    texts = [shorten(bar.tick, MAX_LABEL_LETTERS) for bar in body]
    widest = max(columns(text) for text in texts) * 6.6 + 14
    every = max(1, math.ceil(widest / slot))
    # The first label that does not stick out on the left.
    first = max(0, math.ceil((widest / 2 - 7 - LEFT - 4) / slot - 0.5))
    return [
        tag(
            "text",
            texts[place],
            x=f"{LEFT + 4 + slot * (place + 0.5):.1f}",
            y=HEIGHT - 8,
            text_anchor="middle",
        )
        for place in range(first, len(body), every)
        if LEFT + 4 + slot * (place + 0.5) + widest / 2 - 7 <= end
    ]


def _frame_lying(bars: Sequence[Bar], scale: tuple[float, float, float]) -> Frame:
    low, high, _ = scale
    foot = TOP + ROW * len(bars)

    def at(share: float) -> float:
        return NAMES + (share - low) / (high - low) * (WIDTH - NAMES - 22)

    drawn = [
        tag(
            "g",
            _segment(at(value), TOP, at(value), foot, "zero" if value == 0 else "grid"),
            tag("text", text, x=f"{at(value):.1f}", y=f"{foot + 16:.1f}", text_anchor="middle"),
        )
        for value, text in grid(*scale)
    ]
    for place, bar in enumerate(bars):
        y, css = f"{TOP + ROW * (place + 0.5) + 4:.1f}", "apart" if bar.apart else None
        drawn.append(tag("text", shorten(bar.label, 20), x=NAMES - 8, y=y, text_anchor="end", class_=css))
    spans = tuple((TOP + ROW * place, ROW) for place in range(len(bars)))
    return Frame(tuple(drawn), at, spans, ROW, foot + 24)


def _draw_upright(bars: Sequence[Bar], frame: Frame, names: tuple[str, str | None]) -> list[Markup]:
    thick = min(frame.slot * 0.42, 18.0)
    widths = [min(max(thick, 5.0), 12.0) if bar.apart else thick for bar in bars]
    return [
        _pair(bar, names, frame.middle(place), width, frame.at)
        for place, (bar, width) in enumerate(zip(bars, widths, strict=True))
    ]


def _draw_lying(bars: Sequence[Bar], frame: Frame, names: tuple[str, str | None]) -> list[Markup]:
    return [_lying_pair(bar, names, frame.middle(place), frame.at) for place, bar in enumerate(bars)]


def _pair(bar: Bar, names: tuple[str, str | None], middle: float, thick: float, at: _Scale) -> Markup:
    """Two upright bars about a middle."""
    left = middle - (thick if bar.second is not None else thick / 2)
    shapes = [_column(left, thick, at(0), at(bar.first), "s1")]
    if bar.second is not None:
        shapes.append(_column(middle, thick, at(0), at(bar.second), "s2"))
    if bar.margin is not None:
        center = left + thick / 2
        cap = min(thick / 2, 3.0)
        top, foot = at(bar.first + bar.margin), at(bar.first - bar.margin)
        path = f"M{center:.1f} {top:.1f}V{foot:.1f}M{center - cap:.1f} {top:.1f}h{2 * cap:.1f}"
        shapes.append(tag("path", d=f"{path}M{center - cap:.1f} {foot:.1f}h{2 * cap:.1f}", class_="err"))
    return tag("g", _tooltip(bar, names), *shapes)


def _column(x: float, width: float, zero: float, end: float, css: str) -> Markup:
    top, height = min(zero, end), max(abs(zero - end), 0.3)
    return tag("rect", x=f"{x:.1f}", y=f"{top:.1f}", width=f"{width:.1f}", height=f"{height:.1f}", class_=css)


def _segment(x1: float, y1: float, x2: float, y2: float, css: str) -> Markup:
    return tag("line", x1=f"{x1:.1f}", y1=f"{y1:.1f}", x2=f"{x2:.1f}", y2=f"{y2:.1f}", class_=css)


def _lying_pair(bar: Bar, names: tuple[str, str | None], middle: float, at: _Scale) -> Markup:
    thick = 10.0
    top = middle - (thick if bar.second is not None else thick / 2)
    shapes = [_row(top, thick, at(0), at(bar.first), "s1")]
    if bar.second is not None:
        shapes.append(_row(middle, thick, at(0), at(bar.second), "s2"))
    if bar.margin is not None:
        y = top + thick / 2
        left, right = at(bar.first - bar.margin), at(bar.first + bar.margin)
        path = f"M{left:.1f} {y:.1f}H{right:.1f}M{left:.1f} {y - 3:.1f}v6M{right:.1f} {y - 3:.1f}v6"
        shapes.append(tag("path", d=path, class_="err"))
    return tag("g", _tooltip(bar, names), *shapes)


def _row(y: float, height: float, zero: float, end: float, css: str) -> Markup:
    left, width = min(zero, end), max(abs(zero - end), 0.3)
    return tag(
        "rect", x=f"{left:.1f}", y=f"{y:.1f}", width=f"{width:.1f}", height=f"{height:.1f}", class_=css
    )


def legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """What the colours of a picture mean: colour class and words."""
    return tag(
        "p",
        *[
            tag("span", tag("span", class_=f"swatch {css}", aria_hidden="true"), text)
            for css, text in entries
        ],
        class_="legend",
    )


MOST_TABLES = 6
"""Synthetic tables that pictures show; tables of numbers show all."""

SHAPES = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "M0 -5L5 0L0 5L-5 0z",
    "M0 -5L5 4H-5z",
    "M-4 -4H4V4H-4z",
    "M0 5L5 -4H-5z",
    "M-5 -1.7H-1.7V-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5z",
)


def mark(place: int, x: float, y: float) -> Markup:
    """The mark of a table: its shape about a point."""
    return tag("path", d=SHAPES[place], transform=f"translate({x:.1f} {y:.1f})", class_=mark_class(place))


def mark_class(place: int) -> str:
    """The colour class of a table's marks."""
    return f"mark t{place + 1}"


def line_class(place: int) -> str:
    """The colour and dash class of a table's lines."""
    return f"line t{place + 1}"


def key_of(
    real: str, names: Sequence[str], *, lines: bool = False, others: Sequence[tuple[str, str]] = ()
) -> Markup:
    """What marks and lines mean.

    Args:
        real: What the real rows are called.
        names: Of the synthetic tables, in order.
        lines: Whether they are drawn as lines, not as marks only.
        others: More lines: class and words.
    """
    entries = [tag("span", tag("span", class_="swatch real", aria_hidden="true"), real)] if real else []
    for place, name in enumerate(names[:MOST_TABLES]):
        sample = [_line_sample(line_class(place))] if lines else [mark(place, 14, 7)]
        entries.append(tag("span", _sample(*sample), mark_name(name, limit=40)))
    entries += [tag("span", _sample(_line_sample(css)), words) for css, words in others]
    return tag("p", *entries, class_="legend")


def _line_sample(css: str) -> Markup:
    return tag("path", d="M0 7H28", class_=css)


def _sample(*shapes: Markup) -> Markup:
    return tag(
        "svg", *shapes, viewbox="0 0 28 14", width=28, height=14, aria_hidden="true", focusable="false"
    )
