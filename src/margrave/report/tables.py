"""Tables of a page, with scoped headers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from margrave.report.markup import Child, Markup, tag

__all__ = ["details", "facts", "row", "table"]


def table(caption: str, heads: Sequence[str], rows: Iterable[Markup], *, numeric: int = 0) -> Markup:
    """A table in a box that scrolls sideways when the window is narrow.

    Args:
        caption: What it holds.
        heads: Column headings.
        rows: Made by `row`.
        numeric: How many of the last columns are numbers.
    """
    first = len(heads) - numeric
    head = [
        tag("th", text, scope="col", class_="n" if place >= first else None)
        for place, text in enumerate(heads)
    ]
    body = tag("table", tag("caption", caption), tag("thead", tag("tr", *head)), tag("tbody", *rows))
    return tag("div", body, class_="scroll", role="region", aria_label=f"Table: {caption}", tabindex=0)


def row(*cells: Child, numeric: int = 0, head: int = 0, css: str | None = None) -> Markup:
    """One line of a table.

    Args:
        cells: What the cells hold.
        numeric: How many of the last cells are numbers.
        head: Which cell is the heading of the line.
        css: Class of the line.
    """
    first = len(cells) - numeric
    parts = []
    for place, cell in enumerate(cells):
        right = "n" if place >= first else None
        if place == head:
            parts.append(tag("th", cell, scope="row", class_=right))
        else:
            parts.append(tag("td", cell, class_=right))
    return tag("tr", *parts, class_=css)


def details(summary: Child, *body: Child) -> Markup:
    """A part that is closed on the screen and open on paper."""
    return tag("details", tag("summary", summary), *body)


def facts(entries: Iterable[tuple[str, Child]], *, css: str = "facts") -> Markup:
    """A list of terms and what they are."""
    return tag("dl", *[tag("div", tag("dt", term), tag("dd", value)) for term, value in entries], class_=css)
