"""Curves of a classifier: alarms, and precision against recall.

Rows as points of a plane, one picture a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.report.comparison.verdict import BRACKETS
from margrave.report.heat import MOST_TABLES, key_of, line_class
from margrave.report.html import Markup, join, mark_name, row, table, tag
from margrave.report.numerals import count, format_fixed, percent

if TYPE_CHECKING:
    from margrave.evaluation.metrics.pictures import Curve, Curves
    from margrave.evaluation.review import Review

SIDE, LEFT, FOOT, RIGHT = 420.0, 46.0, 46.0, 24.0
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
    parts.append(tag("text", axes[0], x=f"{x(0.5):.0f}", y=f"{SIDE - 6:.0f}", text_anchor="middle"))
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
        viewbox=f"0 0 {SIDE:g} {SIDE:g}",
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


PLANE_SIDE = 420
EDGE = 8


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
        tag(
            "p",
            tag("span", tag("span", class_="swatch dot", aria_hidden="true"), "● real rows"),
            tag("span", tag("span", class_="swatch plus", aria_hidden="true"), "+ rows of the other table"),
            class_="legend",
        ),
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
        tag("rect", x=0.5, y=0.5, width=PLANE_SIDE - 1, height=PLANE_SIDE - 1, class_="frame"),
        tag("path", d=dots, class_="dots"),
        tag("path", d=pluses, class_="pluses"),
        viewbox=f"0 0 {PLANE_SIDE} {PLANE_SIDE}",
        role="img",
        aria_labelledby=f"p{at}-t p{at}-d",
        class_="plane",
    )
    return tag("figure", tag("figcaption", tag("strong", mark_name(title, limit=40))), drawn)


def _place_points(points: NDArray[np.float64]) -> list[list[float]]:
    placed: list[list[float]] = (EDGE + points * (PLANE_SIDE - 2 * EDGE)).tolist()
    return placed
