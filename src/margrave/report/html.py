"""What every page is made of. Nothing is fetched from anywhere.

First markup: HTML and SVG elements built as text, everything escaped unless it already is markup. Then the
shell of a page, head, style, contents and footer, and tables with scoped headers. Then how numbers are
written on a page, and last what every number means, in words, for the foot of a page.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from importlib.resources import files
from typing import final

MAX_LISTED = 400
"""Lines of a list on a page, at most: it is to open at once, however many columns a table has."""

VOID = frozenset({"br", "col", "hr", "input", "link", "meta", "rect", "line", "path", "circle", "use"})
"""Elements written without a closing tag: HTML's void elements, and SVG shapes when they hold nothing."""

_HTML_VOID = frozenset({"br", "col", "hr", "input", "link", "meta"})
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@final
class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


class Level(IntEnum):
    """How well a table, or a respect of it, comes off in a verdict."""

    BAD = 0
    FAIR = 1
    GOOD = 2

    @property
    def css(self) -> str:
        """The class of its colour."""
        return ("far", "care", "good")[self]


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


def mark_name(text: str, *, limit: int = 60) -> Markup:
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


_OPEN_FOR_PRINT = """(function () {
  var shut = [];
  addEventListener("beforeprint", function () {
    shut = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    shut.forEach(function (part) { part.open = true; });
  });
  addEventListener("afterprint", function () { shut.forEach(function (part) { part.open = false; }); });
})();"""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a page.

    Args:
        key: Its id.
        heading: Its heading.
        body: What it holds.
    """

    key: str
    heading: str
    body: Markup


def document(
    title: str,
    lead: Markup,
    sections: Sequence[Section],
    footer: Markup,
    *,
    banner: Markup | None = None,
    window: str | None = None,
) -> str:
    """A whole HTML file.

    Args:
        title: Title of the page.
        lead: What stands under the title.
        sections: The parts, in order.
        footer: What stands at the end.
        banner: A warning above everything.
        window: Title of the window, if another.
    """
    style = files("margrave.report").joinpath("style.css").read_text(encoding="utf-8")
    contents = [tag("li", tag("a", part.heading, href=f"#{part.key}")) for part in sections]
    body = tag(
        "body",
        tag("a", "Skip to the report", href="#main", class_="skip"),
        banner,
        tag("header", tag("h1", title), lead, _themes()),
        tag("nav", tag("ol", *contents), aria_label="Contents"),
        tag("main", *[_section(part) for part in sections], id="main"),
        tag("footer", footer),
        tag("script", Markup(_OPEN_FOR_PRINT)),
    )
    page = tag("html", _head(window or title, style), body, lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def _themes() -> Markup:
    """A choice of colours that works without a script: style.css asks which box is checked."""
    entries = (("system", "as the system"), ("light", "light"), ("dark", "dark"))
    boxes = [
        tag(
            "label",
            tag("input", type="radio", name="theme", id=f"theme-{key}", checked=key == "system"),
            words,
        )
        for key, words in entries
    ]
    return tag("fieldset", tag("legend", "Colours"), *boxes, class_="theme")


def _section(part: Section) -> Markup:
    heading = tag("h2", part.heading, id=f"{part.key}-h")
    return tag("section", heading, part.body, id=part.key, aria_labelledby=f"{part.key}-h")


def _head(title: str, style: str) -> Markup:
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; script-src "
        f"'{_digest(_OPEN_FOR_PRINT)}'; base-uri 'none'; form-action 'none'"
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        join(tag("title", title), tag("style", Markup(style))),
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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


def significant(value: float | Fraction, digits: int = 4, *, padded: bool = False) -> str:
    """A number to some significant digits, as in 0.03056, 12.5 or 1e-9; trailing zeros only if padded."""
    value = float(value)
    if not math.isfinite(value):
        return "not defined"
    text = f"{value:#.{digits}g}" if padded else f"{value:.{digits}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        power = int(exponent)
        if 0 <= power < 12:
            return f"{value:,.0f}"
        return f"{mantissa}e{power}"
    return _minus(text)


def format_fixed(value: float, digits: int = 3) -> str:
    """A number to a fixed number of decimals, for columns of numbers."""
    if not math.isfinite(value):
        return "not defined"
    text = f"{value:.{digits}f}"
    return _minus(text.lstrip("-") if float(text) == 0 else text)


def fraction(value: float) -> str:
    """A number from 0 to 1 to two decimals, as short as a picture needs: .07, 1.0."""
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text[:3]


def percent(share: float, digits: int = 1) -> str:
    """A share of 1 as a percentage."""
    if not math.isfinite(share):
        return "not defined"
    return format_fixed(100 * share, digits) + "%"


def percent_at_most(share: float) -> str:
    """A bound on a share as a percentage, rounded up to a tenth: rounded down it would not hold."""
    return percent(math.ceil(1000.0 * share - 1e-9) / 1000.0)


def factor_at_most(epsilon: float) -> str:
    """How many times as likely epsilon lets a result become, rounded up to three digits."""
    factor = math.exp(min(epsilon, 700.0))
    step = 10.0 ** (math.floor(math.log10(factor)) - 2)
    return significant(math.ceil(factor / step - 1e-9) * step, 3)


def count(value: float) -> str:
    """A number of rows or things, rounded, with thin groups of three."""
    if not math.isfinite(value):
        return "not defined"
    return _minus(f"{round(value):,}")


def equals(symbol: str, value: str) -> str:
    """A symbol and its value, never broken across lines."""
    return f"{symbol}\u00a0=\u00a0{value}"


def root(square: Fraction | int) -> str:
    """The square root of an exact number: a whole number where it is one, else as √n."""
    square = Fraction(square)
    if square.denominator == 1 and math.isqrt(square.numerator) ** 2 == square.numerator:
        return str(math.isqrt(square.numerator))
    return f"√{square}"


def _minus(text: str) -> str:
    return text.replace("-", "−") if text.startswith("-") else text


DEFINITIONS: tuple[tuple[str, str], ...] = (
    (
        "Noisy table",
        ("The number of rows for each combination of values of some columns, plus random noise in each."),
    ),
    (
        "σ (sigma)",
        (
            "Standard deviation of the noise in one cell, in rows. Two thirds of the noise is "
            "smaller, 95% is smaller than 2σ."
        ),
    ),
    ("N", "The number of rows the release stands for: public, or itself released with noise."),
    (
        "Distance",
        (
            "Half the sum over all cells of the absolute difference between two tables of shares. The "
            "released table is divided by N, the other by its own sum. Between two tables without noise it "
            "is "
            "the total variation, from 0 to 1. Noisy counts may be below zero and need not add up to N, so "
            "against a released table it passes 1 where noise is larger than what it hides."
        ),
    ),
    (
        "Noise floor",
        (
            "The distance to expect if noise were the only difference: sqrt(2/π) times the sum "
            "of σ over the cells, divided by 2N. For whole numbers it is exact to a few "
            "percent once σ is above 1."
        ),
    ),
    (
        "Ratio",
        (
            "Distance divided by noise floor. About 1 is what noise alone gives; a "
            "distribution fitted to few tables can be below it, since it follows some of the "
            "noise."
        ),
    ),
    (
        "Within noise",
        (
            "Distance at most the noise floor plus two standard deviations of the distance "
            "that noise alone gives."
        ),
    ),
    (
        "Released table of a column",
        ("All released tables that contain the column, summed to it and averaged with weights 1/σ²."),
    ),
    (
        "Cramér's V",
        (
            "Association of two columns in a table of shares p: V² = (Σ p²ᵢⱼ/(pᵢ pⱼ) − "
            "1)/(min(r, c) − 1), over the r and c values that occur. 0 if independent, 1 if "
            "one decides the other."
        ),
    ),
    (
        "Sensitivity",
        ("The most that one unit can change the exact answer, as a length (L2) or a score."),
    ),
    (
        "ρ (rho)",
        (
            "Cost of an answer. Gaussian noise: sensitivity² / (2σ²). A "
            "choice by the exponential mechanism: ε²/8. Costs of all answers add up; under "
            "Gaussian accounting μ² = 2ρ."
        ),
    ),
    ("Share, cumulative", "ρ of a line over the ρ allowed; ρ of a line and all before it."),
    (
        "Threshold",
        (
            "A value found in the table is named only if its noisy count reaches the "
            "threshold; δ of the line bounds the probability that a value held by one unit "
            "alone is named."
        ),
    ),
    (
        "Codes",
        (
            "Number of distinct values or bins of a column in the release, with one for "
            "missing and one for other values where there may be any."
        ),
    ),
)
