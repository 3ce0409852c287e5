"""Shapes of codes: what they keep of a text, and texts that are drawn of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.errors import SchemaError
from margrave.schema.columns.identifier import (
    cut_shape,
    digit_runs,
    draw_texts,
    mix_signs,
    shape_of,
    shape_parts,
    shape_space,
    widen_shape,
)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("V0000123", "V0[0-9]{6}"),
        ("V1000123", "V[1-9][0-9]{6}"),
        ("E11.9", r"E[1-9][0-9]\.[0-9]"),
        ("01591", "0[0-9]{4}"),
        ("7", "[0-9]"),
        ("INV-2023-0001", "INV-[1-9][0-9]{3}-[0-9]{4}"),
        ("044 123 45 67", "0[0-9]{2} [0-9]{3} [0-9]{2} [0-9]{2}"),
        ("+41791234567", r"\+[1-9][0-9]{10}"),
        ("AB 12 34 56 C", "AB [1-9][0-9] [0-9]{2} [0-9]{2} [A-Z]"),
        ("B-MW 4821", "B-MW [1-9][0-9]{3}"),
        ("SW1 2AB", "SW[0-9] [0-9][A-Z]{2}"),
        ("CH93AB12", "CH[1-9][0-9][A-Z]{2}[0-9]{2}"),
        ("3f2a9cde11", "[0-9a-f]{10}"),
        ("3F2A9CDE11", "[0-9A-F]{10}"),
        ("F24000317", "F[1-9][0-9]{7}"),
        ("ac0012345", "ac0[0-9]{6}"),
        ("FACE0012345", "[0-9A-F]{11}"),
        (
            "1b4e28ba-2fa1-11d2-883f-0016d3cca427",
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        ),
        *[
            (text, "")
            for text in ("", "a note", "Room 12 was cold", "12 Main Street", "é1", "a\t1", "x1" * 30)
        ],
        *[(text, "") for text in ("12 MAIN ST", "ab 12", "B 12 three")],
    ],
)
def test_the_shape_of_a_text(text: str, shape: str) -> None:
    assert shape_of(text) == shape


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("1HGCM82633A004352", "[0-9A-Z]{17}"),
        ("k7q2-99", "[0-9a-z]{4}-[0-9a-z]{2}"),
        ("Ab3/7.x", r"[0-9A-Za-z]{3}/[0-9A-Za-z]\.[0-9A-Za-z]"),
        ("12-34", "[0-9]{2}-[0-9]{2}"),
        *[(text, "") for text in ("", "ABC", "a note", "12 MAIN ST")],
    ],
)
def test_the_shape_of_any_signs(text: str, shape: str) -> None:
    assert mix_signs(text) == shape
    if shape:
        assert re.fullmatch(shape, text)
        assert all(sign in signs for sign, signs in zip(text, shape_parts(shape), strict=True))
        # Nothing is said of its digits, and no class is made wider.
        assert digit_runs(shape) == [] or text == "12-34"
        assert widen_shape(shape) == shape


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=20))
def test_a_text_is_one_of_those_of_its_shape(text: str) -> None:
    shape = shape_of(text)
    if shape:
        assert re.fullmatch(shape, text)
        parts = shape_parts(shape)
        assert len(parts) == len(text)
        assert all(sign in signs for sign, signs in zip(text, parts, strict=True))
        assert re.fullmatch(widen_shape(shape), text)
        for start in range(len(text)):
            assert re.fullmatch(cut_shape(shape, start), text[start:])
        assert re.fullmatch(shape, draw_texts(shape, 1, np.random.default_rng(0))[0])


def test_all_texts_of_a_shape_are_drawn_alike() -> None:
    drawn = draw_texts(r"K[1-9]\.[0-9]", 90_000, np.random.default_rng(3))
    assert shape_space(r"K[1-9]\.[0-9]") == 90
    counts = np.unique(drawn, return_counts=True)[1]
    assert len(counts) == 90
    assert abs(counts - 1000).max() < 6 * 1000**0.5


@pytest.mark.parametrize("shape", ["", "[2-8]", "[0-9", "a{2}", "[A-Z]*", "(a)", "x|y", ".", "[0-9]{2", "\\"])
def test_other_regular_expressions_are_refused(shape: str) -> None:
    with pytest.raises(SchemaError, match="shape"):
        shape_parts(shape)
