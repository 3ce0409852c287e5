"""Contrast of the colours of style.css, computed (WCAG 2.2: 4.5 for text, 3 for graphics)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

TEXT = [("ink", "page"), ("soft", "page"), ("link", "page"), ("warn-ink", "warn"), ("chip-ink", "chip"),
        ("found-ink", "found"), ("beyond", "page"), ("ink", "panel"),
        ("good-ink", "good"), ("care-ink", "care"), ("far-ink", "far"),
        *[(f"{key}{level}-ink", f"{key}{level}") for key in "fqd" for level in range(5)]]  # fmt: skip
GRAPHICS = [("s1", "page"), ("s2", "page"), ("err", "s1"), ("err", "page"), ("soft", "page"), ("ref", "page"),
            *[(f"t{place}", back) for place in range(1, 7) for back in ("page", "tint")]]  # fmt: skip


def _style() -> str:
    return files("margrave.report").joinpath("style.css").read_text(encoding="utf-8")


def _themes() -> dict[str, dict[str, str]]:
    pairs = re.findall(r"--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);", _style())
    return {
        "light": {name: light for name, light, _ in pairs},
        "dark": {name: dark for name, _, dark in pairs},
    }


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


def test_every_colour_that_is_used_has_both_shades() -> None:
    used = set(re.findall(r"var\(--([\w-]+)\)", _style()))
    assert used <= set(_themes()["light"])
    defined = re.findall(r"^\s*--([\w-]+):", _style(), re.M)
    assert set(defined) == set(_themes()["light"])
    assert len(set(defined)) == len(defined)


def test_focus_is_seen_and_paper_is_light() -> None:
    css = _style()
    assert re.search(r":focus-visible \{ outline: 3px solid var\(--link\)", css)
    assert "outline: none" not in css
    assert _contrast(_themes()["light"]["link"], _themes()["light"]["page"]) >= 3
    printed = css[css.index("@media print") :]
    assert "color-scheme: light !important" in printed
    for theme in ("light", "dark"):
        assert f":root:has(#theme-{theme}:checked) {{ color-scheme: {theme}; }}" in css
