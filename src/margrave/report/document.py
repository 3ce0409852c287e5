"""The shell of a page: head, style, contents, footer. Nothing is fetched from anywhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from margrave.report.markup import Markup, join, tag

__all__ = ["Section", "document"]

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
