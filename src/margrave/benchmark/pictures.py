"""The figures of a benchmark, after those of the papers, drawn from its results. **Not private.**

    errors      error by epsilon, a panel a table
    efficiency  error by processor seconds, as figure 3 of Chen et al. 2025
    learning    how well models learn from the rows, bars, as table 2 of Chen et al. 2025
    ratios      log2 ratios of errors, a map a metric, as figures 1 and 2 of Donhauser et al. 2024

All are SVG and come out the same from the same results.

They are planes of lines, bars and coloured cells as SVG documents: no scripts, no fonts, light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from margrave.benchmark.results import Findings
from margrave.report.html import Child, Markup, join, tag

LEFT, TOP, WIDE, HIGH, RIGHT, FOOT = 56, 32, 212, 168, 66, 44
"""Of a panel, in pixels: margins around the plane and its size; names of levels stand at the right."""
LINE = 11.0
"""Between two names of levels, at least."""
INKS = (
    ("#1f5a96", "#6fb0f0"),
    ("#b0530c", "#f0a05a"),
    ("#2c7560", "#6fcdb0"),
    ("#7d3f98", "#cf9be6"),
    ("#8f1d14", "#f09388"),
    ("#5f6a12", "#c3cf6a"),
    ("#2b6f8f", "#7cc6e6"),
    ("#8a4b6b", "#e6a3c3"),
)
"""Colours of the entries on a light and on a dark page; with a mark each, later entries start anew."""
GROUNDS = (("#fcfcfa", "#1d2530", "#545e6b", "#e6e8eb"), ("#14181d", "#e4e8ec", "#a4aeb9", "#2b323b"))
"""Page, ink, axis and grid of the light and of the dark scheme."""
STYLE = (
    "text{font:12px system-ui,'Segoe UI',Roboto,'Liberation Sans','DejaVu Sans',sans-serif}"
    ".h{font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}.k{stroke-width:1.8}"
    ".d{stroke-dasharray:5 4;stroke-width:1.2}.t{font-size:10px}.w{stroke-width:1}"
)
SHAPES = (
    "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
    "m-3.5 -3.5h7v7h-7z",
    "m0 -4.8l4.5 8h-9z",
    "m0 -5l5 5l-5 5l-5 -5z",
    "m-3 -5l3 3l3 -3l2 2l-3 3l3 3l-2 2l-3 -3l-3 3l-2 -2l3 -3l-3 -3z",
)


@dataclass(frozen=True, slots=True)
class Line:
    """One entry's line.

    Args:
        entry: Its place in the legend, from 0.
        points: x, y, and the ends of y's interval; by rising x.
    """

    entry: int
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A dashed line across: a reference.

    Args:
        name: What is written at its end.
        value: Its y.
    """

    name: str
    value: float


class Axis:
    """Where values stand between two pixels, on a logarithmic scale.

    Args:
        values: What has to be seen; above 0.
        low, high: The pixels of the least and the greatest.
        spread: Decades that are shown at least.
    """

    def __init__(self, values: Sequence[float], low: float, high: float, spread: float = 0.5) -> None:
        first, last = math.log10(min(values)), math.log10(max(values))
        pad = max(0.06 * (last - first), (spread - (last - first)) / 2, 0.02)
        self._first, self._last, self._low, self._high = first - pad, last + pad, low, high

    def at(self, value: float) -> float:
        """The pixel of a value; one outside stands at the end."""
        share = (math.log10(max(value, 1e-300)) - self._first) / (self._last - self._first)
        return px(self._low + (self._high - self._low) * min(max(share, 0.0), 1.0))

    def shows(self, value: float) -> bool:
        """Whether a value stands between the ends."""
        return self._first <= math.log10(value) <= self._last

    def ticks(self) -> list[float]:
        """Values to label: powers of ten, with steps between where there are few."""
        span = self._last - self._first
        steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if span < 0.8 else (1.0, 2.0, 5.0) if span < 2.2 else (1.0,)
        found = [
            step * 10.0**power
            for power in range(math.floor(self._first), math.ceil(self._last) + 1)
            for step in steps
        ]
        return [value for value in found if self.shows(value)]


def lines_panel(
    title: str,
    x: str,
    lines: Sequence[Line],
    levels: Sequence[Level],
    ticks: Sequence[float] = (),
    *,
    y: str,
) -> Markup:
    """A plane with logarithmic axes.

    Args:
        title: Above it.
        x: What the x axis is.
        lines: One an entry.
        levels: References across.
        ticks: Where the x axis is labelled; chosen from its values without.
        y: What the y axis is.
    """
    shown = [line for line in lines if line.points]
    ys = [end for line in shown for point in line.points for end in point[1:]] + [v.value for v in levels]
    ys = [y for y in ys if y > 0] or [1.0]
    heading = tag("text", title, x=LEFT - 40, y=TOP - 12, class_="h")
    if not shown:
        return join(heading, tag("text", "no runs", x=LEFT, y=TOP + 20))
    up = Axis(ys, TOP + HIGH, TOP)
    across = Axis([point[0] for line in shown for point in line.points], LEFT, LEFT + WIDE, 0.3)
    return join(
        heading,
        _draw_grid(up, across, ticks),
        tag("text", x, x=LEFT + WIDE / 2, y=TOP + HIGH + 36, class_="m"),
        height_title(y),
        levels_across([(up.at(level.value), level.name) for level in levels if level.value > 0]),
        *(_draw_line(line, across, up) for line in shown),
    )


def height_title(text: str) -> Markup:
    """What the y axis is, written upwards along it."""
    middle = TOP + HIGH / 2
    return tag("text", text, x=12, y=middle, transform=f"rotate(-90 12 {middle:g})", class_="m")


def _draw_grid(up: Axis, across: Axis, ticks: Sequence[float]) -> Markup:
    parts: list[Child] = []
    for value in up.ticks():
        y = up.at(value)
        parts.append(tag("line", x1=LEFT, x2=LEFT + WIDE, y1=y, y2=y, class_="g"))
        parts.append(tag("text", short(value), x=LEFT - 6, y=y + 4, class_="e"))
    for value in ticks or across.ticks():
        if not across.shows(value):
            continue
        x = across.at(value)
        parts.append(tag("line", x1=x, x2=x, y1=TOP, y2=TOP + HIGH, class_="g"))
        parts.append(tag("text", short(value), x=x, y=TOP + HIGH + 17, class_="m"))
    parts.append(tag("line", x1=LEFT, x2=LEFT + WIDE, y1=TOP + HIGH, y2=TOP + HIGH, class_="a"))
    return join(*parts)


def levels_across(levels: Sequence[tuple[float, str]]) -> Markup:
    """Dashed lines at some heights, their names beside the plane, apart from each other."""
    parts, free = list[Markup](), math.inf
    for y, name in sorted(levels, reverse=True):
        free = min(y + 4, free - LINE)
        parts.append(tag("line", x1=LEFT, x2=LEFT + WIDE, y1=y, y2=y, class_="a d"))
        parts.append(tag("text", name, x=LEFT + WIDE + 5, y=px(free), class_="t"))
    return join(*parts)


def _draw_line(line: Line, across: Axis, up: Axis) -> Markup:
    colour = f"s{line.entry % len(INKS)}"
    at = [(across.at(x), up.at(y), up.at(low), up.at(high)) for x, y, low, high in line.points]
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y, _, _ in at)
    whiskers = "".join(f"M{x:g} {low:g}V{high:g}" for x, _, low, high in at if low != high)
    return join(
        tag("path", d=path, class_=f"k n {colour}") if len(at) > 1 else None,
        tag("path", d=whiskers, class_=f"w n {colour}") if whiskers else None,
        *(mark(line.entry, x, y) for x, y, _, _ in at),
    )


def mark(entry: int, x: float, y: float) -> Markup:
    """The mark of an entry, in its colour."""
    shape = SHAPES[entry % len(SHAPES)]
    return tag("path", d=f"M{x:g} {y:g}{shape}", class_=f"s{entry % len(INKS)}")


def document(
    title: str,
    names: Sequence[str],
    panels: Sequence[Markup],
    *,
    size: tuple[float, float] = (LEFT + WIDE + RIGHT, TOP + HIGH + FOOT),
    across: int = 3,
    styles: Callable[[int], str] = lambda dark: "",
    described: str = "",
) -> str:
    """Panels in rows under one legend, as an SVG document.

    Args:
        title: What a screen reader announces.
        names: The legend's entries, by place; empty for no legend.
        panels: Drawn from their own origin.
        size: Of a panel.
        across: Panels in a row.
        styles: More rules of the light (0) and of the dark scheme (1).
        described: More of what a screen reader says.
    """
    across = min(across, len(panels))
    legend, head = _draw_legend(names, across * size[0])
    drawn = [
        tag("g", panel, transform=f"translate({k % across * size[0]:g},{head + k // across * size[1]:g})")
        for k, panel in enumerate(panels)
    ]
    width, height = across * size[0], head + math.ceil(len(panels) / across) * size[1]
    paper = tag("rect", width=f"{width:g}", height=f"{height:g}", class_="p")
    told = (tag("title", title), tag("desc", described) if described else None)
    style = tag("style", Markup(_write_style(styles)))
    outside = {"xmlns": "http://www.w3.org/2000/svg", "viewbox": f"0 0 {width:g} {height:g}", "role": "img"}
    return f"{tag('svg', *told, style, paper, legend, *drawn, **outside)}\n"


def _write_style(more: Callable[[int], str]) -> str:
    """The colours of both schemes; without variables, which not every viewer of SVG knows."""
    schemes = []
    for dark, (page, ink, soft, grid) in enumerate(GROUNDS):
        lines = "".join(f".s{k}{{stroke:{ink[dark]};fill:{ink[dark]}}}" for k, ink in enumerate(INKS))
        ground = f"text{{fill:{ink}}}.p{{fill:{page}}}.a{{stroke:{soft}}}.g{{stroke:{grid}}}"
        schemes.append(f"{ground}{lines}{more(dark)}.n{{fill:none}}")
    return f"{STYLE}{schemes[0]}@media(prefers-color-scheme:dark){{{schemes[1]}}}"


def _draw_legend(names: Sequence[str], width: float) -> tuple[Markup, float]:
    """The entries in as many rows as they need, and how far down they reach."""
    parts, x, y = list[Markup](), float(LEFT), 16.0
    for entry, name in enumerate(names):
        need = 32 + 7.2 * len(name)
        if x + need > width and x > LEFT:
            x, y = float(LEFT), y + 20
        parts.append(mark(entry, x, y))
        parts.append(tag("text", name, x=px(x + 10), y=px(y + 4)))
        x += need
    return join(*parts), (y + 14 if names else 0.0)


def px(value: float) -> float:
    """A pixel to a tenth, so that a picture is the same on every machine."""
    return round(value, 1)


def short(value: float) -> str:
    """A tick's label: 0.01, 5, 200, 10k, 1M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "")):
        if value >= unit and letter:
            return f"{value / unit:g}{letter}"
    return f"{value:.4g}".replace("e-0", "e-")


HEADLINES = ("fidelity_error", "average_tv", "l1_3way", "query_error")
"""Metrics that get a picture of their own, where they were scored."""
LEARNING_METRICS = ("ml_f1", "downstream_error", "logistic_f1")
"""Metrics of models that learned from the rows; the first that was scored is drawn."""
RATIOS = (
    *("downstream_error", "covariance_error", "counting_queries", "threshold_queries"),
    *("average_sw1", "average_tv"),
)
"""Metrics of the maps of ratios."""
MAX_LOG_RATIO = 3.0
"""log2 ratios are coloured up to here."""
HEATS = (("#1f5a96", "#4a8fd0"), ("#b0530c", "#d9813a"))
"""Colours of better and of worse than the other method, on a light and on a dark page."""


def errors(found: Findings, metric: str) -> str:
    """Error by epsilon: a panel a table, a line a method, dashed lines for the references."""
    panels = []
    for table in found.tables:
        lines = [
            Line(place, tuple(_find_points(found, table, method, metric)))
            for place, method in enumerate(found.methods)
        ]
        panels.append(
            lines_panel(
                table, "epsilon", lines, _find_levels(found, table, metric), ticks=found.epsilons, y=metric
            )
        )
    told = f"{found.facts(metric).definition} Lower is better. Whiskers are 95 % intervals over runs."
    return document(f"{metric} by epsilon", found.methods, panels, described=told)


def _find_points(
    found: Findings, table: str, method: str, metric: str
) -> list[tuple[float, float, float, float]]:
    points = []
    for epsilon in found.epsilons:
        summary = found.score(table, method, epsilon, metric)
        if summary is None or not summary.mean > 0:
            continue
        low, high = summary.interval if summary.runs > 1 else (summary.mean, summary.mean)
        points.append((epsilon, summary.mean, max(low, summary.mean / 2), min(high, summary.mean * 2)))
    return points


def _find_levels(found: Findings, table: str, metric: str) -> list[Level]:
    levels = []
    for name in found.references:
        summary = found.score(table, name, None, metric)
        if summary is not None and summary.mean > 0:
            levels.append(Level(name, summary.mean))
    return levels


def efficiency(found: Findings, metric: str) -> str:
    """Error by the processor seconds of fit and sample: a panel a table, a mark an epsilon."""
    panels = []
    for table in found.tables:
        lines = []
        for place, method in enumerate(found.methods):
            points = []
            for epsilon in found.epsilons:
                seconds = found.middle(table, method, epsilon, "synthesis_cpu_seconds")
                summary = found.score(table, method, epsilon, metric)
                if seconds is not None and seconds > 0 and summary is not None and summary.mean > 0:
                    points.append((seconds, summary.mean, summary.mean, summary.mean))
            lines.append(Line(place, tuple(points)))
        panels.append(
            lines_panel(table, "processor seconds", lines, _find_levels(found, table, metric), y=metric)
        )
    told = "Each line joins the epsilons of one method, the greatest at its lower end. Left and low is good."
    return document(f"{metric} by time", found.methods, panels, described=told)


def draw_learning(found: Findings, metric: str) -> str:
    """How well models learn from the rows: a panel a table, a group of bars an epsilon, a line for real."""
    panels = [_draw_bars(found, table, metric) for table in found.tables]
    facts = found.facts(metric)
    told = f"{facts.definition} {facts.better.capitalize()} is better. The dashed line is the real rows."
    return document(f"{metric} by method", found.methods, panels, described=told)


def _draw_bars(found: Findings, table: str, metric: str) -> Markup:
    parts: list[Child] = [tag("text", table, x=LEFT - 40, y=TOP - 12, class_="h")]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = px(TOP + HIGH * (1 - share))
        parts.append(tag("line", x1=LEFT, x2=LEFT + WIDE, y1=y, y2=y, class_="g" if share else "a"))
        parts.append(tag("text", f"{share:g}", x=LEFT - 6, y=y + 4, class_="e"))
    group = WIDE / len(found.epsilons)
    thick = min(group * 0.86 / max(len(found.methods), 1), 22.0)
    for column, epsilon in enumerate(found.epsilons):
        middle = LEFT + group * (column + 0.5)
        for place, method in enumerate(found.methods):
            summary = found.score(table, method, epsilon, metric)
            if summary is not None:
                left = middle + (place - len(found.methods) / 2) * thick
                parts.append(
                    _draw_bar(summary.mean, left, thick * 0.86, place, f"{method}, epsilon {epsilon:g}")
                )
        parts.append(tag("text", f"{epsilon:g}", x=px(middle), y=TOP + HIGH + 17, class_="m"))
    parts.append(tag("text", "epsilon", x=LEFT + WIDE / 2, y=TOP + HIGH + 36, class_="m"))
    parts.append(height_title(metric))
    real = found.score(table, "real", None, metric)
    if real is not None:
        y = px(TOP + HIGH * (1 - min(max(real.mean, 0.0), 1.0)))
        parts.append(levels_across([(y, "real")]))
    return join(*parts)


def _draw_bar(value: float, left: float, width: float, place: int, spoken: str) -> Markup:
    height = HIGH * min(max(value, 0.0), 1.0)
    title = tag("title", f"{spoken}: {value:.4g}")
    return tag(
        "rect",
        title,
        x=px(left),
        y=px(TOP + HIGH - height),
        width=px(width),
        height=px(max(height, 0.3)),
        class_=f"s{place % len(INKS)}",
    )


def ratios(found: Findings, metrics: Sequence[str], epsilon: float, against: str) -> str:
    """log2 of each method's error over another's: a map a metric, a row a method, a column a table."""
    rows = [method for method in found.methods if method != against]
    panels = [_draw_map(found, metric, rows, epsilon, against) for metric in metrics]
    wide = 96 + CELL[0] * len(found.tables) + 16
    high = TOP + CELL[1] * len(rows) + 34
    told = f"Below 0 is better than {against}. Colours end at a ratio of {2**MAX_LOG_RATIO:g} or its inverse."
    return document(
        f"log2 ratio of errors to {against}'s, epsilon {epsilon:g}",
        (),
        panels,
        size=(wide, high),
        across=2,
        styles=_write_heat_colours,
        described=told,
    )


CELL = (64, 24)
"""Width and height of one ratio in the table of ratios, in units of the picture."""


def _draw_map(found: Findings, metric: str, rows: Sequence[str], epsilon: float, against: str) -> Markup:
    parts: list[Child] = [tag("text", metric, x=12, y=TOP - 12, class_="h")]
    for row, method in enumerate(rows):
        y = TOP + CELL[1] * row
        parts.append(tag("text", method[:14], x=88, y=y + 16, class_="e"))
        for column, table in enumerate(found.tables):
            ratio = found.ratio(table, method, epsilon, metric, against)
            parts.append(_draw_cell(ratio, 96 + CELL[0] * column, y))
    for column, table in enumerate(found.tables):
        x = 96 + CELL[0] * (column + 0.5)
        parts.append(tag("text", table[:10], x=x, y=TOP + CELL[1] * len(rows) + 16, class_="m t"))
    return join(*parts)


def _draw_cell(ratio: float | None, x: float, y: float) -> Markup:
    side = "c1" if ratio is not None and ratio > 0 else "c0"
    deep = 0.0 if ratio is None else min(abs(ratio) / MAX_LOG_RATIO, 1.0)
    box = tag(
        "rect",
        x=x + 1,
        y=y + 1,
        width=CELL[0] - 2,
        height=CELL[1] - 2,
        class_=side,
        fill_opacity=f"{0.55 * deep:.2f}",
    )
    text = "–" if ratio is None else f"{ratio:+.2f}".replace("-", "−")
    return join(box, tag("text", text, x=x + CELL[0] / 2, y=y + 16, class_="m t"))


def _write_heat_colours(dark: int) -> str:
    return "".join(f".c{side}{{fill:{inks[dark]}}}" for side, inks in enumerate(HEATS))
