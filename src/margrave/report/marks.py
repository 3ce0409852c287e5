"""Lines and marks that tell tables apart by shape as well as by colour."""

from __future__ import annotations

from collections.abc import Sequence

from margrave.report.markup import Markup, named, tag

__all__ = ["MOST_TABLES", "key_of", "line_class", "mark", "mark_class"]

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
        sample = [_line(line_class(place))] if lines else [mark(place, 14, 7)]
        entries.append(tag("span", _sample(*sample), named(name, limit=40)))
    entries += [tag("span", _sample(_line(css)), words) for css, words in others]
    return tag("p", *entries, class_="legend")


def _line(css: str) -> Markup:
    return tag("path", d="M0 7H28", class_=css)


def _sample(*shapes: Markup) -> Markup:
    return tag(
        "svg", *shapes, viewbox="0 0 28 14", width=28, height=14, aria_hidden="true", focusable="false"
    )
