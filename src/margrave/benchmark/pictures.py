"""The figures of a benchmark, after those of the papers, drawn from its results. **Not private.**

    errors      error by epsilon, a panel a table
    efficiency  error by processor seconds, as figure 3 of Chen et al. 2025
    learning    how well models learn from the rows, bars, as table 2 of Chen et al. 2025
    ratios      log2 ratios of errors, a map a metric, as figures 1 and 2 of Donhauser et al. 2024

All are SVG and come out the same from the same results.
"""

from __future__ import annotations

from collections.abc import Sequence

from margrave.benchmark.charts import (
    HIGH,
    INKS,
    LEFT,
    TOP,
    WIDE,
    Level,
    Line,
    document,
    height_title,
    levels_across,
    lines_panel,
    px,
)
from margrave.benchmark.findings import Findings
from margrave.report.markup import Child, Markup, join, tag

__all__ = ["HEADLINES", "LEARNT", "RATIOS", "efficiency", "errors", "learning", "ratios"]

HEADLINES = ("fidelity_error", "average_tv", "l1_3way", "query_error")
"""Metrics that get a picture of their own, where they were scored."""
LEARNT = ("ml_f1", "downstream_error", "logistic_f1")
"""Metrics of models that learned from the rows; the first that was scored is drawn."""
RATIOS = (
    *("downstream_error", "covariance_error", "counting_queries", "threshold_queries"),
    *("average_sw1", "average_tv"),
)
"""Metrics of the maps of ratios."""
WORST = 3.0
"""log2 ratios are coloured up to here."""
HEATS = (("#1f5a96", "#4a8fd0"), ("#b0530c", "#d9813a"))
"""Colours of better and of worse than the other method, on a light and on a dark page."""


def errors(found: Findings, metric: str) -> str:
    """Error by epsilon: a panel a table, a line a method, dashed lines for the references."""
    panels = []
    for table in found.tables:
        lines = [
            Line(place, tuple(_points(found, table, method, metric)))
            for place, method in enumerate(found.methods)
        ]
        panels.append(
            lines_panel(
                table, "epsilon", lines, _levels(found, table, metric), ticks=found.epsilons, y=metric
            )
        )
    told = f"{found.facts(metric).definition} Lower is better. Whiskers are 95 % intervals over runs."
    return document(f"{metric} by epsilon", found.methods, panels, described=told)


def _points(found: Findings, table: str, method: str, metric: str) -> list[tuple[float, float, float, float]]:
    points = []
    for epsilon in found.epsilons:
        summary = found.score(table, method, epsilon, metric)
        if summary is None or not summary.mean > 0:
            continue
        low, high = summary.interval if summary.runs > 1 else (summary.mean, summary.mean)
        points.append((epsilon, summary.mean, max(low, summary.mean / 2), min(high, summary.mean * 2)))
    return points


def _levels(found: Findings, table: str, metric: str) -> list[Level]:
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
        panels.append(lines_panel(table, "processor seconds", lines, _levels(found, table, metric), y=metric))
    told = "Each line joins the epsilons of one method, the greatest at its lower end. Left and low is good."
    return document(f"{metric} by time", found.methods, panels, described=told)


def learning(found: Findings, metric: str) -> str:
    """How well models learn from the rows: a panel a table, a group of bars an epsilon, a line for real."""
    panels = [_bars(found, table, metric) for table in found.tables]
    facts = found.facts(metric)
    told = f"{facts.definition} {facts.better.capitalize()} is better. The dashed line is the real rows."
    return document(f"{metric} by method", found.methods, panels, described=told)


def _bars(found: Findings, table: str, metric: str) -> Markup:
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
                parts.append(_bar(summary.mean, left, thick * 0.86, place, f"{method}, epsilon {epsilon:g}"))
        parts.append(tag("text", f"{epsilon:g}", x=px(middle), y=TOP + HIGH + 17, class_="m"))
    parts.append(tag("text", "epsilon", x=LEFT + WIDE / 2, y=TOP + HIGH + 36, class_="m"))
    parts.append(height_title(metric))
    real = found.score(table, "real", None, metric)
    if real is not None:
        y = px(TOP + HIGH * (1 - min(max(real.mean, 0.0), 1.0)))
        parts.append(levels_across([(y, "real")]))
    return join(*parts)


def _bar(value: float, left: float, width: float, place: int, spoken: str) -> Markup:
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
    panels = [_map(found, metric, rows, epsilon, against) for metric in metrics]
    wide = 96 + CELL[0] * len(found.tables) + 16
    high = TOP + CELL[1] * len(rows) + 34
    told = f"Below 0 is better than {against}. Colours end at a ratio of {2**WORST:g} or its inverse."
    return document(
        f"log2 ratio of errors to {against}'s, epsilon {epsilon:g}",
        (),
        panels,
        size=(wide, high),
        across=2,
        styles=_heat,
        described=told,
    )


CELL = (64, 24)


def _map(found: Findings, metric: str, rows: Sequence[str], epsilon: float, against: str) -> Markup:
    parts: list[Child] = [tag("text", metric, x=12, y=TOP - 12, class_="h")]
    for row, method in enumerate(rows):
        y = TOP + CELL[1] * row
        parts.append(tag("text", method[:14], x=88, y=y + 16, class_="e"))
        for column, table in enumerate(found.tables):
            ratio = found.ratio(table, method, epsilon, metric, against)
            parts.append(_cell(ratio, 96 + CELL[0] * column, y))
    for column, table in enumerate(found.tables):
        x = 96 + CELL[0] * (column + 0.5)
        parts.append(tag("text", table[:10], x=x, y=TOP + CELL[1] * len(rows) + 16, class_="m t"))
    return join(*parts)


def _cell(ratio: float | None, x: float, y: float) -> Markup:
    side = "c1" if ratio is not None and ratio > 0 else "c0"
    deep = 0.0 if ratio is None else min(abs(ratio) / WORST, 1.0)
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


def _heat(dark: int) -> str:
    return "".join(f".c{side}{{fill:{inks[dark]}}}" for side, inks in enumerate(HEATS))
