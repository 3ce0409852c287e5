"""A triangle of pairs as an inline SVG picture.

Lines and marks that tell tables apart by shape as well as by colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from margrave.report.html import Markup, columns, join, mark_name, shorten, tag

MOST_NAMES = 60
SIDE = 620.0
LABEL = 18


@dataclass(frozen=True, slots=True)
class Cell:
    """One pair.

    Args:
        level: Colour class, from 0 to 4; None draws an empty place.
        text: What is written in it where there is room.
        spoken: What its tooltip says.
    """

    level: int | None
    text: str
    spoken: str


def triangle(
    names: Sequence[str],
    cells: Mapping[tuple[str, str], Cell],
    palette: str,
    key: str,
    title: str,
    description: str,
) -> Markup:
    """The picture: one row and one column a name, the names on the diagonal.

    Args:
        names: At most MOST_NAMES names.
        cells: By pair, earlier name first.
        palette: Prefix of the colour classes.
        key: Prefix of the ids, unique on the page.
        title: What a screen reader announces.
        description: More of it.
    """
    size = min(34.0, SIDE / max(len(names), 1))
    font = max(7.0, min(13.0, size * 0.8))
    parts = []
    for row, name in enumerate(names):
        for column, other in enumerate(names[:row]):
            if (other, name) in cells:
                parts.append(_cell(cells[other, name], column * size, row * size, size, palette))
        parts.append(_label(name, row * size + 4, (row + 0.5) * size + font / 3, font))
    ends = [row * size + 8 + columns(shorten(name, LABEL)) * font * 0.66 for row, name in enumerate(names)]
    width, height = max(*ends, len(names) * size), len(names) * size + 4
    return tag(
        "svg",
        tag("title", title, id=f"{key}-t"),
        tag("desc", description, id=f"{key}-d"),
        join(*parts),
        viewbox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        role="img",
        aria_labelledby=f"{key}-t {key}-d",
        class_="heat",
    )


def triangle_legend(entries: Sequence[tuple[str, str]]) -> Markup:
    """What the colours mean: colour class and words."""
    return tag(
        "p",
        *[
            tag("span", tag("span", class_=f"swatch {css}", aria_hidden="true"), text)
            for css, text in entries
        ],
        class_="legend",
    )


def _label(name: str, x: float, y: float, font: float) -> Markup:
    whole = tag("title", name[:200]) if columns(name) > LABEL else None
    return tag("text", whole, shorten(name, LABEL), x=f"{x:.1f}", y=f"{y:.1f}", font_size=f"{font:.1f}")


def _cell(cell: Cell, x: float, y: float, size: float, palette: str) -> Markup:
    css = "empty" if cell.level is None else f"{palette}{cell.level}"
    inset = 1.0 if size > 12 else 0.4
    box = tag(
        "rect",
        tag("title", cell.spoken),
        x=f"{x + inset:.1f}",
        y=f"{y + inset:.1f}",
        width=f"{size - 2 * inset:.1f}",
        height=f"{size - 2 * inset:.1f}",
        rx=3 if size > 12 else 1,
        class_=css,
    )
    if size < 24 or not cell.text:
        return box
    label = tag(
        "text",
        cell.text,
        x=f"{x + size / 2:.1f}",
        y=f"{y + size / 2 + 3.5:.1f}",
        text_anchor="middle",
        class_=f"on {css}-ink",
        aria_hidden="true",
    )
    return join(box, label)


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
        entries.append(tag("span", _sample(*sample), mark_name(name, limit=40)))
    entries += [tag("span", _sample(_line(css)), words) for css, words in others]
    return tag("p", *entries, class_="legend")


def _line(css: str) -> Markup:
    return tag("path", d="M0 7H28", class_=css)


def _sample(*shapes: Markup) -> Markup:
    return tag(
        "svg", *shapes, viewbox="0 0 28 14", width=28, height=14, aria_hidden="true", focusable="false"
    )
