from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from margrave.report.html import (
    count,
    format_fixed,
    fraction,
    join,
    mark_name,
    percent,
    root,
    shorten,
    significant,
    tag,
)
from margrave.report.pictures import Distribution, picture
from margrave.report.triangle import Cell, triangle


def _floats(svg: str, attribute: str, css: str) -> list[float]:
    nodes = ET.fromstring(svg).iter("rect")  # noqa: S314
    return [float(node.attrib[attribute]) for node in nodes if node.attrib.get("class") == css]


def test_bars_are_as_long_as_their_shares() -> None:
    first = np.array([0.1, 0.2, 0.4, 0.3])
    upright = Distribution.of("ordinal", list("abcd"), 0, first, first[::-1])
    svg = picture(upright, "k", "t", ("released", "model"))
    heights = np.array(_floats(svg, "height", "s1"))
    np.testing.assert_allclose(heights / heights.sum(), first, atol=0.002)
    np.testing.assert_allclose(
        np.array(_floats(svg, "height", "s2")) / heights.sum(), first[::-1], atol=0.002
    )
    lying = Distribution.of("categorical", list("abcd"), 0, first)
    widths = np.array(_floats(picture(lying, "k", "t", ("released", None)), "width", "s1"))
    np.testing.assert_allclose(widths / widths.sum(), np.sort(first)[::-1], atol=0.002)


@pytest.mark.parametrize("kind", ["integer", "categorical"])
def test_error_bars_are_two_sigma_long(kind: str) -> None:
    first, margin = np.array([0.5, -0.02]), np.array([0.1, 0.04])
    labels = ["0 to 1", "2 to 3"]
    svg = picture(Distribution.of(kind, labels, 0, first, None, margin), "k", "t", ("released", None))
    size = _floats(svg, "height" if kind == "integer" else "width", "s1")
    pattern = r"M[\d.]+ ([\d.]+)V([\d.]+)M" if kind == "integer" else r"M([\d.]+) [\d.]+H([\d.]+)M"
    lengths = [abs(float(b) - float(a)) for a, b in re.findall(pattern, svg)]
    np.testing.assert_allclose(lengths, 2 * margin * size[0] / 0.5, atol=0.25)


def test_nothing_is_drawn_outside_the_picture() -> None:
    rng = np.random.default_rng(0)
    for kind in ("integer", "categorical"):
        for scale in (1e-6, 1.0):
            first = rng.normal(0, scale, 90)
            labels = [f"{code} to {code + 1}" for code in range(90)]
            svg = picture(
                Distribution.of(kind, labels, 2, first, abs(first), abs(first)), "k", "t", ("a", "b")
            )
            width, height = map(float, ET.fromstring(svg).attrib["viewBox"].split()[2:])  # noqa: S314
            for css in ("s1", "s2"):
                ends = np.add(_floats(svg, "x", css), _floats(svg, "width", css))
                feet = np.add(_floats(svg, "y", css), _floats(svg, "height", css))
                assert min(_floats(svg, "x", css)) >= 0
                assert max(ends) <= width
                assert min(_floats(svg, "y", css)) >= 0
                assert max(feet) <= height


def _texts(svg: str) -> list[tuple[str, float]]:
    nodes = ET.fromstring(svg).iter("text")  # noqa: S314
    return [(node.text or "", float(node.attrib["x"])) for node in nodes]


def test_bars_are_named_by_their_range() -> None:
    """Of hours in bins of two, forty stand in the bar that says so, not over its lower edge."""
    first = np.array([0.2, 0.6, 0.1, 0.1])
    labels = ["37 to 38", "39 to 40", "41", "42 to 600000"]
    shown = Distribution.of("integer", labels, 0, first)
    assert [bar.tick for bar in shown.bars] == ["37–38", "39–40", "41", "42–600k"]
    written = dict(_texts(picture(shown, "k", "t", ("released", None))))
    assert {"37–38", "39–40"} <= written.keys()


@pytest.mark.parametrize("days", [7, 40])
def test_names_of_ranges_do_not_stick_out(days: int) -> None:
    labels = [f"20{day:02d}-01-01 to 20{day:02d}-12-31" for day in range(days)]
    svg = picture(Distribution.of("date", labels, 0, np.full(days, 1 / days)), "k", "t", ("released", None))
    names = [(text, x) for text, x in _texts(svg) if "–" in text]
    assert names
    for text, x in names:
        assert len(text) == 21
        assert x - 3.3 * len(text) >= 0
        assert x + 3.3 * len(text) <= 460


def test_shortening_keeps_the_sum() -> None:
    rng = np.random.default_rng(0)
    first, second, margin = (
        rng.dirichlet(np.ones(1000)),
        rng.dirichlet(np.ones(1000)),
        rng.uniform(0, 0.1, 1000),
    )
    for kind, bars in (("integer", 42), ("categorical", 15)):
        labels = [f"{code} to {code}" for code in range(1000)]
        shown = Distribution.of(kind, labels, 2, first, second, margin)
        assert shown.shortened
        assert len(shown.bars) <= bars
        assert sum(bar.first for bar in shown.bars) == pytest.approx(1)
        assert sum(bar.second or 0 for bar in shown.bars) == pytest.approx(1)
        assert sum((bar.margin or 0) ** 2 for bar in shown.bars) == pytest.approx((margin**2).sum())
        assert [bar.first for bar in shown.bars[-2:]] == pytest.approx(first[-2:].tolist())
    assert "986 other values" in [bar.label for bar in shown.bars]


def test_a_triangle_has_one_cell_a_pair() -> None:
    names = tuple("abcde")
    cells = {(a, b): Cell(1, "x", f"{a}{b}") for i, b in enumerate(names) for a in names[:i]}
    svg = triangle(names, cells, "q", "k", "t", "d")
    spoken = {node.text for rect in ET.fromstring(svg).iter("rect") for node in rect.iter("title")}  # noqa: S314
    assert spoken == {cell.spoken for cell in cells.values()}


def test_numbers_are_written_for_reading() -> None:
    assert [significant(v) for v in (0.0305571, 12.5, 1e-9, 123456.0, -0.5)] == [
        "0.03056",
        "12.5",
        "1e-9",
        "123,456",
        "−0.5",
    ]
    assert significant(0.000625, padded=True) == "0.0006250"
    assert [format_fixed(-0.0001), format_fixed(-1.5, 1), percent(0.1234)] == ["0.000", "−1.5", "12.3%"]
    assert [fraction(0.071), fraction(1.0), count(32561.4), root(8), root(9)] == [
        ".07",
        "1.0",
        "32,561",
        "√8",
        "3",
    ]


def test_markup_escapes_what_is_not_markup() -> None:
    assert tag("p", "<", tag("b", "&")) == "<p>&lt;<b>&amp;</b></p>"
    assert tag("a", title="\"'", hidden=False, open=True, x=None) == '<a title="&quot;&#x27;" open></a>'
    assert join("\ud800", "\x07", None) == "\ufffd\ufffd"
    assert mark_name("x" * 90).count("x") == 59 + 90
    assert shorten("  ", 5) == "“  ”"
