"""Reads a page with html.parser and checks what every page must hold."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser

VOID = {"br", "col", "hr", "img", "input", "link", "meta"}


class Page(HTMLParser):
    """A parsed page: its elements, visible text, ids and addresses."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.stack: list[str] = []
        self.problems: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.visible: list[str] = []
        self.by_path: list[tuple[tuple[str, ...], str]] = []
        self.feed(text)
        self.close()
        if self.stack:
            self.problems.append(f"never closed: {self.stack}")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack[-1] != tag:
            self.problems.append(f"</{tag}> closes {self.stack[-3:]}")
        if tag in self.stack:
            while self.stack.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self.stack and self.stack[-1] not in {"style", "script"}:
            self.visible.append(data)
            self.by_path.append((tuple(self.stack), data))

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.visible).split())

    def values(self, attribute: str) -> list[str]:
        return [
            value for _, attrs in self.elements for key, value in attrs.items() if key == attribute and value
        ]

    def of(self, *tail: str) -> list[str]:
        """Texts directly inside a path of elements."""
        return [text for path, text in self.by_path if path[-len(tail) :] == tail]


def check(text: str, *, complete: bool = True) -> Page:
    """Balanced, self-contained, labelled, and free of what a template forgets."""
    page = Page(text)
    assert not page.problems, page.problems[:5]
    assert text.startswith('<!DOCTYPE html>\n<html lang="en">')
    addresses = page.values("src") + page.values("href") + page.values("xlink:href") + page.values("action")
    assert addresses
    assert all(address.startswith("#") for address in addresses), addresses
    assert "@import" not in text
    assert not re.search(r"url\(", text)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {address[1:] for address in addresses} <= set(ids)
    for name in ("aria-labelledby",):
        assert {key for value in page.values(name) for key in value.split()} <= set(ids)
    forgotten = re.search(r"\{\{|\}\}|\bNone\b|\bnan\b|\binf\b", page.text)
    assert not forgotten, page.text[max(forgotten.start() - 99, 0) : forgotten.end() + 99]
    assert not complete or "not defined" not in page.text
    assert all("scope" in attrs for tag, attrs in page.elements if tag == "th")
    tables = [attrs for tag, attrs in page.elements if tag == "table"]
    assert len(tables) == sum(tag == "caption" for tag, _ in page.elements)
    pictures = [attrs for tag, attrs in page.elements if tag == "svg"]
    drawn = [attrs for attrs in pictures if attrs.get("aria-hidden") != "true"]
    assert all(attrs.get("role") == "img" and attrs.get("aria-labelledby") for attrs in drawn)
    assert not any(key.startswith("on") or key == "style" for _, attrs in page.elements for key in attrs)
    _outline(page)
    return page


def _outline(page: Page) -> None:
    """One h1, no level left out, one of each landmark, a name for each section, scroller and box."""
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in itertools.pairwise(levels)), levels
    tags = [tag for tag, _ in page.elements]
    for landmark in ("header", "nav", "main", "footer"):
        assert tags.count(landmark) == 1, landmark
    for tag, attrs in page.elements:
        if tag == "section" or attrs.get("role") == "region":
            assert attrs.get("aria-label") or attrs.get("aria-labelledby"), attrs
        if attrs.get("tabindex") is not None:
            assert attrs["tabindex"] == "0", attrs
    assert tags.count("input") == tags.count("label")
    assert tags.count("details") == tags.count("summary")
    assert next(attrs["href"] for tag, attrs in page.elements if tag == "a") == "#main"
