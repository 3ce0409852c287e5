"""Columns of codes: beginnings that share a code, how they are encoded, decoded and told; omitted columns."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from margrave.errors import InputError, SchemaError
from margrave.schema.columns import Boolean, Categorical, Column, Identifier, Integer, Omitted
from margrave.schema.columns.identifier import keys
from margrave.schema.encode import decode, encode, encode_column
from margrave.schema.encoded import Encoded
from margrave.schema.frame import Frame
from margrave.schema.given import given_values
from margrave.schema.schema import Schema

ICD = Categorical(
    name="code",
    values=("I10.0", "K10.0"),
    prefixes=("I10", "I", "K"),
    endings=("", "", ""),
    other="(other)",
    missing=True,
    strict=False,
)
ZIP = Categorical(
    name="zip",
    values=("01590", "01591"),
    prefixes=("0159",),
    endings=("[0-9]",),
    other="(other)",
    missing=False,
)


def test_a_text_has_the_code_of_its_longest_beginning() -> None:
    texts = ["I10.0", "I10.4", "I10", "I11.0", "K99", "Z00", None, "i10.4", "", "K10.0"]
    assert encode_column(pa.array(texts), ICD).tolist() == [0, 2, 2, 3, 4, 5, 6, 5, 5, 1]
    assert ICD.labels == ("I10.0", "K10.0", "I10…", "I…", "K…", "(other)", "missing")
    assert (ICD.size, ICD.present, ICD.other_code, ICD.missing_code) == (7, 6, 5, 6)


def _decoded(column: Column, codes: list[int], kind: Frame | None = None) -> Any:
    schema = Schema((column,))
    rows = Encoded(schema.domain, (np.array(codes, dtype=np.uint8),))
    return decode(rows, schema, np.random.default_rng(0), kind)


def test_a_beginning_that_is_a_code_stands_alone() -> None:
    assert _decoded(ICD, [0, 2, 3, 4, 5, 6])["code"].to_pylist() == [
        "I10.0",
        "I10",
        "I",
        "K",
        "(other)",
        None,
    ]


def test_other_beginnings_are_completed_and_not_to_listed_values() -> None:
    frame = _decoded(ZIP, [0, 1, *[2] * 4000])
    texts = frame["zip"].to_pylist()
    assert texts[:2] == ["01590", "01591"]
    assert all(re.fullmatch("0159[0-9]", text) for text in texts)
    assert {text[-1] for text in texts[2:]} >= set("23456789")
    assert sum(text in ("01590", "01591") for text in texts[2:]) < 40
    pandas = _decoded(ZIP, [2] * 9, Frame("pandas", {"zip": "category[object]"}))
    assert isinstance(pandas["zip"].dtype, pd.CategoricalDtype)
    assert all(re.fullmatch("0159[0-9]", text) for text in pandas["zip"])


PRESSURE = Categorical(
    name="pressure",
    values=("120/80", "unknown"),
    prefixes=("9",),
    endings=("[0-9]/[0-9]{2}",),
    patterns=("12[0-9]/8[0-9]", "1[0-9]{2}/[0-9]{2}", r"[A-Z]\.[0-9]"),
    other="(other)",
    missing=True,
    strict=False,
)


def test_a_text_has_the_code_of_the_first_pattern_that_it_is_of() -> None:
    texts = ["120/80", "121/83", "130/80", "95/60", "a.1", "A.1", "Ax1", "121/833", "1２1/83", "", None]
    assert encode_column(pa.array(texts), PRESSURE).tolist() == [0, 3, 4, 2, 6, 5, 6, 6, 6, 6, 7]
    assert PRESSURE.labels[3:] == (*PRESSURE.patterns, "(other)", "missing")
    assert (PRESSURE.size, PRESSURE.present, PRESSURE.other_code, PRESSURE.grouped) == (8, 7, 6, 4)


def test_a_text_of_a_pattern_is_drawn_and_is_no_listed_value() -> None:
    texts = _decoded(PRESSURE, [0, *[3] * 4000, *[5] * 50, 6, 7])["pressure"].to_pylist()
    assert texts[0] == "120/80"
    assert all(re.fullmatch("12[0-9]/8[0-9]", text) for text in texts[1:4001])
    assert len(set(texts[1:4001])) == 99
    assert all(re.fullmatch(r"[A-Z]\.[0-9]", text) for text in texts[4001:4051])
    assert texts[4051:] == ["(other)", None]


def test_patterns_are_told_where_a_schema_is_read() -> None:
    assert "2 values" not in repr(Schema((PRESSURE,)))
    assert "120/80, unknown, 1 beginnings of codes, 3 patterns of texts" in repr(Schema((PRESSURE,)))
    with pytest.raises(InputError, match="a value of the column"):
        given_values(Schema((PRESSURE,)), {"pressure": "121/83"})


def test_a_value_of_a_beginning_cannot_be_given() -> None:
    schema = Schema((ICD,))
    assert given_values(schema, {"code": "I10.0"}).codes == {"code": 0}
    with pytest.raises(InputError, match="a value of the column"):
        given_values(schema, {"code": "I10.4"})


@pytest.mark.parametrize(
    "more",
    [
        {"prefixes": ("a", "a"), "endings": ("", "")},
        {"prefixes": ("a",)},
        {"prefixes": ("",), "endings": ("",)},
        {"prefixes": ("a",), "endings": ("[0-9]*",)},
        {"patterns": ("[0-9]", "[0-9]")},
        {"patterns": ("",)},
        {"patterns": ("[0-9]*",)},
    ],
)
def test_beginnings_are_checked(more: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        Categorical(name="x", values=("b",), **more)


def test_the_new_kinds_are_kept_in_json() -> None:
    key = Identifier(name="visit", pattern="shape", shapes=("V[0-9]{7}", "W[0-9]"), shares=(0.9, 0.1))
    schema = Schema(
        (
            ICD,
            ZIP,
            PRESSURE,
            key,
            Omitted(name="note", reason="free text"),
            Boolean(name="b", spelling="True"),
        )
    )
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.domain.names == ("code", "zip", "pressure", "b")


def test_keys_have_their_shapes_and_are_distinct() -> None:
    column = Identifier(name="visit", pattern="shape", shapes=("V[0-9]{7}", "W[0-9]"), shares=(0.9, 0.1))
    found = keys(column, 5000, np.random.default_rng(1)).to_pylist()
    assert len(set(found)) == 5000
    assert 4300 < sum(bool(re.fullmatch("V[0-9]{7}", text)) for text in found) < 4700
    # The ten of W[0-9] are too few: most are longer.
    assert all(re.fullmatch("V[0-9]{7}|W[0-9]+", text) for text in found)
    assert sum(len(text) == 2 for text in found) == 10


@pytest.mark.parametrize(
    "more",
    [
        {"pattern": "shape"},
        {"shapes": ("V[0-9]",)},
        {"pattern": "shape", "shapes": ("V*",)},
        {"pattern": "shape", "shapes": ("V",), "shares": (1.0, 2.0)},
        {"pattern": "shape", "shapes": ("V",), "shares": (0.0,)},
    ],
)
def test_shapes_of_keys_are_checked(more: dict[str, Any]) -> None:
    with pytest.raises(SchemaError):
        Identifier(name="x", **more)


def test_omitted_columns_are_neither_read_nor_written() -> None:
    schema = Schema((Integer(name="n", lower=0, upper=1, missing=False), Omitted(name="note")))
    table = pa.table({"n": [0, 1], "note": [["a"], []]})
    rows = encode(table, schema)
    back = decode(rows, schema, np.random.default_rng(0), Frame("arrow", {"n": "int64", "note": "string"}))
    assert back.column_names == ["n"]


def test_truth_values_are_written_as_declared() -> None:
    column = Boolean(name="x", missing=True, spelling="TRUE", strict=False)
    codes = encode_column(pa.array(["TRUE", "FALSE", "true", "NA", None, "perhaps"]), column)
    assert codes.tolist() == [1, 0, 1, 2, 2, 0]
    texts = _decoded(column, [1, 0, 2], Frame("arrow", {"x": "string"}))
    assert texts["x"].to_pylist() == ["TRUE", "FALSE", None]
    with pytest.raises(SchemaError, match="spelling"):
        Boolean(name="x", spelling="yes")


def test_other_texts_are_drawn_where_their_shape_is_known() -> None:
    column = Categorical(name="zip", values=("01590",), others="[0-9]{5}", other="(other)", missing=True)
    texts = _decoded(column, [0, 1, 1, 2])["zip"].to_pylist()
    assert texts[0] == "01590"
    assert all(re.fullmatch("[0-9]{5}", text) for text in texts[1:3])
    assert texts[3] is None
    assert column.labels == ("01590", "(other)", "missing")
