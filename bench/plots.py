"""Pictures and tables of docs/performance.md, from the lines that bench/runs/scale.py wrote.

    python bench/plots.py

Of each point the lines of the latest run count: the median is drawn and written. Pictures are SVG without
scripts or fonts of their own, logarithmic on both axes, light or dark as the reader's screen is. A hollow
mark is a run that its time limit ended: early but complete for a method that takes one, else killed, and
then it stands where it was killed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from margrave.report.html import Markup, join, tag

__all__ = ["Panel", "Series", "figure", "main"]

HERE = Path(__file__).parent
LEFT, TOP, WIDE, HIGH, RIGHT, FOOT = 58, 34, 330, 220, 14, 44
"""Of a panel, in pixels: margins around the plane and its size."""
INKS = {
    "auto": ("#1f5a96", "#6fb0f0"),
    "aim": ("#b0530c", "#f0a05a"),
    "batched": ("#2c7560", "#6fcdb0"),
    "mst": ("#7d3f98", "#cf9be6"),
    "counting": ("#8f1d14", "#f09388"),
    "inference": ("#1f5a96", "#6fb0f0"),
    "fit of 30 steps": ("#b0530c", "#f0a05a"),
    "all pairs": ("#2c7560", "#6fcdb0"),
    "10,000 rows": ("#7d3f98", "#cf9be6"),
    "memory": ("#8f1d14", "#f09388"),
}
GROUNDS = (("#fcfcfa", "#1d2530", "#545e6b", "#e6e8eb"), ("#14181d", "#e4e8ec", "#a4aeb9", "#2b323b"))
"""Page, ink, axis and grid of the light and of the dark scheme."""
STYLE = (
    "text{font:12px system-ui,'Segoe UI',Roboto,'Liberation Sans','DejaVu Sans',sans-serif}"
    ".h{font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}.k{stroke-width:2}.o{stroke-width:1.8}"
)
MARKS = ("circle", "square", "triangle", "diamond", "cross")
Line = Mapping[str, object]


@dataclass(frozen=True)
class Series:
    """One line of a panel.

    Args:
        name: As in the legend, one of INKS.
        points: x and y, both above 0, by rising x.
        hollow: x of the points that a time limit ended.
    """

    name: str
    points: tuple[tuple[float, float], ...]
    hollow: frozenset[float] = frozenset()


@dataclass(frozen=True)
class Panel:
    """One plane with logarithmic axes.

    Args:
        title: What is drawn up the y axis, with its unit.
        x: What the x axis is.
        series: The lines.
    """

    title: str
    x: str
    series: tuple[Series, ...]


def figure(title: str, panels: Sequence[Panel]) -> str:
    """A picture of panels, two in a row under one legend, as an SVG document."""
    names = list(dict.fromkeys(series.name for panel in panels for series in panel.series))
    width, height = LEFT + WIDE + RIGHT, TOP + HIGH + FOOT
    rows = math.ceil(len(panels) / 2)
    xs = [x for panel in panels for series in panel.series for x, _ in series.points]
    drawn = [
        tag("g", _panel(panel, names, xs), transform=f"translate({k % 2 * width},{30 + k // 2 * height})")
        for k, panel in enumerate(panels)
    ]
    size = (min(len(panels), 2) * width, 30 + rows * height)
    body = tag(
        "svg",
        tag("title", title),
        tag("style", Markup(_style(names))),
        tag("rect", width=size[0], height=size[1], class_="p"),
        _legend(names),
        *drawn,
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {size[0]} {size[1]}",
        role="img",
    )
    return f"{body}\n"


def _style(names: Sequence[str]) -> str:
    """The picture's colours, in both schemes; without variables, which not every viewer of SVG knows."""
    schemes = []
    for dark, (page, ink, soft, grid) in enumerate(GROUNDS):
        lines = "".join(
            f".s{k}{{stroke:{INKS[name][dark]};fill:{INKS[name][dark]}}}" for k, name in enumerate(names)
        )
        ground = f"text{{fill:{ink}}}.p{{fill:{page}}}.a{{stroke:{soft}}}.g{{stroke:{grid}}}"
        schemes.append(f"{ground}{lines}.o{{fill:{page}}}.k{{fill:none}}")
    return f"{STYLE}{schemes[0]}@media(prefers-color-scheme:dark){{{schemes[1]}}}"


def _legend(names: Sequence[str]) -> Markup:
    parts, at = [], LEFT
    for k, name in enumerate(names):
        line = tag("line", x1=at, y1=16, x2=at + 26, y2=16, class_=f"k s{k}")
        parts += [line, _mark(k, at + 13.0, 16.0, hollow=False), tag("text", name, x=at + 33, y=20)]
        at += 56 + 7 * len(name)
    return join(*parts)


def _panel(panel: Panel, names: Sequence[str], xs: Sequence[float]) -> Markup:
    """A plane; all of a picture reach over the same xs."""
    ys = [y for series in panel.series for _, y in series.points]
    across, ticks_x = _axis(xs, LEFT, LEFT + WIDE)
    up, ticks_y = _axis(ys, TOP + HIGH, TOP)
    parts = [tag("text", panel.title, x=LEFT - 40, y=TOP - 12, class_="h")]
    for value, label in ticks_y:
        y = _px(up(value))
        parts.append(tag("line", x1=LEFT, x2=LEFT + WIDE, y1=y, y2=y, class_="g"))
        parts.append(tag("text", label, x=LEFT - 6, y=y + 4, class_="e") if label else None)
    for value, label in ticks_x:
        x = _px(across(value))
        parts.append(tag("line", x1=x, x2=x, y1=TOP, y2=TOP + HIGH, class_="g"))
        parts.append(tag("text", label, x=x, y=TOP + HIGH + 17, class_="m") if label else None)
    parts.append(tag("line", x1=LEFT, x2=LEFT + WIDE, y1=TOP + HIGH, y2=TOP + HIGH, class_="a"))
    parts.append(tag("text", panel.x, x=LEFT + WIDE / 2, y=TOP + HIGH + 36, class_="m"))
    for series in panel.series:
        k = names.index(series.name)
        at = [(_px(across(x)), _px(up(y)), x in series.hollow) for x, y in series.points]
        path = "M" + "L".join(f"{x} {y}" for x, y, _ in at)
        parts.append(tag("path", d=path, class_=f"k s{k}") if len(at) > 1 else None)
        parts += [_mark(k, x, y, hollow=hollow) for x, y, hollow in at]
    return join(*parts)


def _axis(
    values: Sequence[float], low: float, high: float
) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
    """Where a value stands between two pixels, and the ticks with their labels."""
    first, last = math.log10(min(values)), math.log10(max(values))
    pad = max(0.04 * (last - first), 0.5 - (last - first) / 2)  # a decade at least
    first, last = first - pad, last + pad
    decades = range(math.floor(first), math.ceil(last) + 1)
    steps = (1, 2, 5) if last - first < 2.6 else (1,)
    every = max(1, math.ceil((last - first) / 8))
    ticks = [
        (step * 10.0**power, _short(step * 10.0**power) if power % every == 0 else "")
        for power in decades
        for step in steps
        if first <= power + math.log10(step) <= last
    ]

    def place(value: float) -> float:
        return low + (high - low) * (math.log10(value) - first) / (last - first)

    return place, ticks


def _mark(k: int, x: float, y: float, *, hollow: bool) -> Markup:
    kind = MARKS[k % len(MARKS)]
    style = f"s{k} o" if hollow else f"s{k}"
    if kind == "circle":
        return tag("circle", cx=x, cy=y, r=4, class_=style)
    shape = {
        "square": "h7v7h-7z",
        "triangle": "l4.5 8h-9z",
        "diamond": "l5 5l-5 5l-5 -5z",
        "cross": "l3 3l3 -3l2 2l-3 3l3 3l-2 2l-3 -3l-3 3l-2 -2l3 -3l-3 -3z",
    }[kind]
    left, above = {"square": (-3.5, -3.5), "triangle": (0, -4.8), "diamond": (0, -5), "cross": (-3, -5)}[kind]
    return tag("path", d=f"M{x + left:g} {y + above:g}{shape}", class_=style)


def _px(value: float) -> float:
    return round(value, 1)


def _short(value: float) -> str:
    """A tick's label: 0.01, 5, 200, 10k, 1M."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{letter}"
    return f"{value:.6g}".replace("e-0", "e-")


def latest(lines: Iterable[Line]) -> dict[tuple[str, str, float], list[Line]]:
    """Of every point the lines of its latest run, by curve, name and x."""
    found: dict[tuple[str, str, float], list[Line]] = {}
    for line in lines:
        key = (str(line["what"]), str(line["name"]), float(line["x"]))  # type: ignore[arg-type]
        if key in found and found[key][0]["run"] != line["run"]:
            found[key] = []
        found.setdefault(key, []).append(line)
    return dict(sorted(found.items(), key=lambda item: item[0][2]))


def middle(lines: Sequence[Line], key: str) -> float | None:
    """The median of a figure over the runs of a point that have it."""
    values = [float(line[key]) for line in lines if line.get(key) is not None]  # type: ignore[arg-type]
    return statistics.median(values) if values else None


CURVES: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "rows": (
        "rows",
        (
            ("seconds to fit or count", "cpu"),
            ("seconds to draw as many rows", "sample_cpu"),
            ("largest memory, MiB", "peak"),
        ),
    ),
    "columns": (
        "columns",
        (
            ("seconds to fit", "cpu"),
            ("seconds to draw 100,000 rows", "sample_cpu"),
            ("largest memory, MiB", "peak"),
        ),
    ),
    "cells": (
        "cells of the junction tree",
        (
            ("inference|seconds", "inference_cpu"),
            ("fit of 30 steps|seconds", "cpu"),
            ("all pairs|seconds", "pairs_cpu"),
            ("10,000 rows|seconds", "sample_cpu"),
            ("memory|largest memory, MiB", "peak"),
        ),
    ),
    "epsilon": (
        "epsilon",
        (
            ("seconds to fit", "cpu"),
            ("seconds to draw 32,561 rows", "sample_cpu"),
            ("largest memory, MiB", "peak"),
            ("mean pair error", "pairs"),
        ),
    ),
}
"""Of every curve: the x axis, and its panels as title and figure; NAME|title puts several in one panel."""


def panels(what: str, points: Mapping[tuple[str, str, float], list[Line]]) -> list[Panel]:
    """The panels of a curve."""
    x, wanted = CURVES[what]
    by_title: dict[str, list[Series]] = {}
    for label, key in wanted:
        line, _, title = label.rpartition("|")
        for name in dict.fromkeys(name for curve, name, _ in points if curve == what):
            mine = {at: runs for (curve, who, at), runs in points.items() if (curve, who) == (what, name)}
            drawn = {at: value for at, runs in mine.items() if (value := _height(runs, key))}
            hollow = frozenset(at for at in drawn if _cut_short(mine[at]))
            if drawn:
                by_title.setdefault(title, []).append(Series(line or name, tuple(drawn.items()), hollow))
    return [Panel(title, x, tuple(series)) for title, series in by_title.items()]


def _height(runs: Sequence[Line], key: str) -> float | None:
    value = middle(runs, key)
    return middle(runs, "process_cpu") if value is None and key == "cpu" and _cut_short(runs) else value


def _cut_short(runs: Sequence[Line]) -> bool:
    return any(line["status"] == "limit" or line.get("ended_early") for line in runs)


def table(what: str, points: Mapping[tuple[str, str, float], list[Line]]) -> str:
    """A curve's points as a Markdown table, a row each."""
    wanted = CURVES[what][1]
    heads = [CURVES[what][0], *(["who"] if what != "cells" else [])]
    heads += [label.replace("|seconds", ", seconds").rpartition("|")[2] for label, _ in wanted]
    rows = [heads, ["---"] * len(heads)]
    for (curve, name, x), runs in points.items():
        if curve == what:
            cells = [f"{x:,.4g}" if x < 1000 else f"{x:,.0f}", *([name] if what != "cells" else [])]
            rows.append(cells + [_cell(runs, key) for _, key in wanted])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cell(runs: Sequence[Line], key: str) -> str:
    """A figure with least and most, or why there is none."""
    values = [float(line[key]) for line in runs if line.get(key) is not None]  # type: ignore[arg-type]
    if not values:
        status = "done" if any(line["status"] == "done" for line in runs) else str(runs[-1]["status"])
        return {"limit": f"over {runs[-1].get('limit', 0):.0f}", "done": ""}.get(status, status)
    spread = f" [{_figure(min(values))}, {_figure(max(values))}]" if len(values) > 1 and key != "peak" else ""
    return _figure(statistics.median(values)) + spread + (" *" if key == "cpu" and _cut_short(runs) else "")


def _figure(value: float) -> str:
    return (
        f"{value:,.0f}"
        if value >= 100
        else f"{value:#.3g}"
        if value >= 0.001
        else f"{value:.2g}".replace("e-0", "e-")
    )


def main() -> None:
    """Write the pictures, and the tables into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results" / "scale.jsonl")
    parser.add_argument("--page", type=Path, default=HERE.parent / "docs" / "performance.md")
    parser.add_argument("--pictures", type=Path, default=HERE.parent / "docs" / "pictures")
    args = parser.parse_args()
    lines = [json.loads(line) for line in args.results.read_text(encoding="utf-8").splitlines()]
    points = latest(lines)
    page = args.page.read_text(encoding="utf-8")
    args.pictures.mkdir(parents=True, exist_ok=True)
    for what in dict.fromkeys(curve for curve, _, _ in points):
        drawn = figure(f"Time and memory by {CURVES[what][0]}", panels(what, points))
        (args.pictures / f"{what}.svg").write_text(drawn, encoding="utf-8")
        written = f"<!-- table {what} -->\n{table(what, points)}\n<!-- end -->"
        parts = re.split(rf"<!-- table {what} -->\n.*?<!-- end -->", page, flags=re.DOTALL)
        page = written.join(parts)
    args.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
