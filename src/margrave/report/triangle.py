"""A triangle of all pairs of columns as inline SVG: a coloured square for each pair."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from margrave.report.html import Markup, columns, join, shorten, tag

MOST_NAMES = 60
"""Columns of a picture of pairs, at most; set for reading, not measured."""
SIDE = 620.0
"""Side of a picture of pairs, in points."""
LABEL = 18
"""Letters of a name beside a picture of pairs."""


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
        parts.append(_name_label(name, row * size + 4, (row + 0.5) * size + font / 3, font))
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


def _name_label(name: str, x: float, y: float, font: float) -> Markup:
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
