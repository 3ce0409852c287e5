"""The contact sheet of a release of pictures: synthetic rows, in their shades, and of pictures alone."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from page_checks import check

import margrave as mg
from margrave.images import Pixels
from margrave.report.release.page import DRAWN_PIXELS, sheet_section
from margrave.schema.encoded import Encoded

PIXELS = Pixels(3, 4, levels=3, labels=("bar & dot", "dot"))


def _rows(pixels: Pixels, pictures: np.ndarray, labels: np.ndarray) -> Encoded:
    flat = pictures.reshape(len(pictures), pixels.height * pixels.width).astype(np.uint8)
    return Encoded(pixels.schema.domain, (*flat.T, labels.astype(np.uint8)))


def _shades(markup: str, pixels: Pixels, columns: int) -> np.ndarray:
    """The sheet as a reader of SVG would draw it, one number a pixel; -1 where there is no picture."""
    high, wide = (int(found) for found in re.search(r'viewBox="0 0 (\d+) (\d+)"', markup).groups()[::-1])  # type: ignore[union-attr]
    sheet = np.full((high, wide), -1)
    for left, top in re.findall(r'<rect x="(\d+)" y="(\d+)"', markup):
        sheet[int(top) : int(top) + pixels.height, int(left) : int(left) + pixels.width] = 0
    for runs, tone in re.findall(r'<path d="([^"]+)" stroke="#(..)', markup):
        for left, top, length in re.findall(r"M(\d+) (\d+)\.5h(\d+)", runs):
            sheet[int(top), int(left) : int(left) + int(length)] = int(tone, 16)
    assert wide == columns * (pixels.width + 2)
    return sheet


def test_every_pixel_of_the_first_pictures_of_each_class_is_drawn_in_its_shade() -> None:
    rng = np.random.default_rng(0)
    pictures, labels = rng.integers(0, 3, (40, 3, 4)), rng.integers(0, 2, 40)
    found = sheet_section(PIXELS.schema, _rows(PIXELS, pictures, labels))
    assert found is not None
    assert "bar &amp; dot" in found
    sheet = _shades(found, PIXELS, 10)
    grey = np.array([0, 136, 255])  # 0, 8 of 15 and 15 of 15 shades
    for label in (0, 1):
        top = 7 + label * (7 + 3 + 2)
        for place, picture in enumerate(pictures[labels == label][:10]):
            drawn = sheet[top : top + 3, place * 6 : place * 6 + 4]
            np.testing.assert_array_equal(drawn, grey[picture])


def test_rows_that_are_no_pictures_and_pictures_without_rows_have_no_sheet() -> None:
    none = _rows(PIXELS, np.zeros((0, 3, 4)), np.zeros(0))
    assert sheet_section(PIXELS.schema, none) is None
    assert sheet_section(PIXELS.schema, None) is None
    plain = mg.Schema(PIXELS.schema.columns[:-1])
    rows = Encoded(plain.domain, tuple(np.zeros(2, np.uint8) for _ in range(12)))
    assert sheet_section(plain, rows) is None


def test_an_empty_class_has_its_line_and_large_sheets_are_cut() -> None:
    empty = sheet_section(PIXELS.schema, _rows(PIXELS, np.ones((3, 3, 4)), np.zeros(3)))
    assert empty is not None
    assert len(re.findall("<rect", empty)) == 3
    assert len(re.findall("<text", empty)) == 2
    large = Pixels(28, 28, levels=256, labels=tuple(f"class {k}" for k in range(25)))
    rng = np.random.default_rng(1)
    rows = _rows(large, rng.integers(0, 256, (500, 28, 28)), np.arange(500) % 25)
    found = sheet_section(large.schema, rows)
    assert found is not None
    assert len(re.findall("<rect", found)) * 28 * 28 <= DRAWN_PIXELS
    assert len(found) < 700_000
    assert "5 more are not" in found


def test_the_report_of_a_release_of_pictures_has_the_sheet(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    images = rng.integers(0, 256, (300, 3, 4), dtype=np.uint8)
    table = PIXELS.tabulate(images, rng.choice(PIXELS.labels, 300).tolist())
    synthesis = mg.Synthesizer("independent", epsilon=5.0, delta=1e-5, schema=PIXELS.schema).fit(table)
    synthesis.report(tmp_path / "report.html")
    page = check((tmp_path / "report.html").read_text(encoding="utf-8"))
    headings = page.of("section", "h2")
    assert headings.index("Pictures") == headings.index("Columns") - 1
    assert "Contact sheet of synthetic pictures" in page.text
