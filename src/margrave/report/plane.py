"""Rows as points of a plane, one picture a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from margrave.report.first_screen import BRACKETS
from margrave.report.marks import MOST_TABLES
from margrave.report.markup import Markup, join, named, tag
from margrave.report.numerals import count

if TYPE_CHECKING:
    from margrave.evaluation.review import Review

__all__ = ["plane_section"]

SIDE = 420
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
    dots = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in _placed(real))
    pluses = "".join(f"M{x - 3:.0f} {y:.0f}h6m-3 -3v6" for x, y in _placed(other))
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
    return tag("figure", tag("figcaption", tag("strong", named(title, limit=40))), drawn)


def _placed(points: NDArray[np.float64]) -> list[list[float]]:
    placed: list[list[float]] = (EDGE + points * (SIDE - 2 * EDGE)).tolist()
    return placed
