"""Contrast of the colours of style.css, computed (WCAG 2.2: 4.5 for text, 3 for graphics)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

TEXT = [("ink", "page"), ("soft", "page"), ("link", "page"), ("warn-ink", "warn"), ("chip-ink", "chip"),
        ("found-ink", "found"), ("beyond", "page"), ("ink", "panel"),
        *[(f"{key}{level}-ink", f"{key}{level}") for key in "fq" for level in range(5)]]  # fmt: skip
GRAPHICS = [("s1", "page"), ("s2", "page"), ("err", "s1"), ("err", "page"), ("soft", "page")]


def _themes() -> dict[str, dict[str, str]]:
    css = files("margrave.report").joinpath("style.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root\s*\{(.*?)\}", css, re.S)
    light, dark = (dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", block)) for block in blocks[:2])
    return {"light": light, "dark": {**light, **dark}}


def _luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(first: str, second: str) -> float:
    low, high = sorted((_luminance(first), _luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_the_formula_knows_black_and_white() -> None:
    assert _contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), TEXT)
def test_text_can_be_read(theme: str, front: str, back: str) -> None:
    colours = _themes()[theme]
    assert _contrast(colours[front], colours[back]) >= 4.5


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), GRAPHICS)
def test_pictures_can_be_seen(theme: str, front: str, back: str) -> None:
    colours = _themes()[theme]
    assert _contrast(colours[front], colours[back]) >= 3


def test_both_themes_define_the_same_colours() -> None:
    css = files("margrave.report").joinpath("style.css").read_text(encoding="utf-8")
    used = set(re.findall(r"var\(--([\w-]+)\)", css))
    assert used <= set(_themes()["light"])
    blocks = re.findall(r":root\s*\{(.*?)\}", css, re.S)
    names = [set(re.findall(r"--([\w-]+):", block)) for block in blocks[:2]]
    assert names[0] == names[1]
