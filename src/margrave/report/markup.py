"""Markup: HTML and SVG elements built as text, everything escaped unless it already is markup."""

from __future__ import annotations

import html
import re
import unicodedata
from typing import final

__all__ = ["VOID", "Child", "Markup", "columns", "join", "named", "shorten", "tag"]

VOID = frozenset({"br", "col", "hr", "input", "link", "meta", "rect", "line", "path", "circle", "use"})
"""Elements written without a closing tag: HTML's void elements, and SVG shapes when they hold nothing."""

_HTML_VOID = frozenset({"br", "col", "hr", "input", "link", "meta"})
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@final
class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


Child = str | int | float | None
"""What an element may hold: markup as it is, other text escaped, None left out."""


def tag(element: str, *children: Child, **attributes: str | int | float | bool | None) -> Markup:
    """One element.

    Args:
        element: Its name.
        children: What it holds, in order.
        attributes: Attribute values; None and False leave one out, True writes it bare. A trailing underscore
            is dropped and other underscores become hyphens, as in class_ and aria_label.

    Example:
        >>> tag("td", "a < b", class_="n")
        '<td class="n">a &lt; b</td>'
    """
    opening = "<" + element + "".join(_attribute(key, value) for key, value in attributes.items())
    body = join(*children)
    if element in VOID and not body:
        return Markup(opening + (">" if element in _HTML_VOID else "/>"))
    return Markup(f"{opening}>{body}</{element}>")


def join(*children: Child) -> Markup:
    """Children one after the other, escaped where they are plain text."""
    return Markup("".join(_child(child) for child in children))


def named(text: str, *, limit: int = 60) -> Markup:
    """A name from the table's schema: shortened, and isolated so that its script cannot reorder the page."""
    return tag("bdi", shorten(text, limit), title=text[:400] if columns(text) > limit else None)


def shorten(text: str, limit: int) -> str:
    """The text, cut to a width in columns with an ellipsis; blank text is shown in quotation marks."""
    if not text.strip():
        text = f"“{text}”"
    if columns(text) <= limit:
        return text
    width, kept = 0, []
    for letter in text:
        width += columns(letter)
        if width >= limit:
            break
        kept.append(letter)
    return "".join(kept) + "…"


def columns(text: str) -> int:
    """The width of a text in columns; a wide letter takes two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _child(child: Child) -> str:
    if child is None:
        return ""
    return child if isinstance(child, Markup) else _escape(str(child))


def _escape(text: str) -> str:
    return html.escape(_CONTROL.sub("\ufffd", text), quote=True)


def _attribute(key: str, value: str | int | float | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-").replace("viewbox", "viewBox")
    return f" {name}" if value is True else f' {name}="{_escape(str(value))}"'
