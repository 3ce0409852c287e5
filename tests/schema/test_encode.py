from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.errors import InputError, SchemaError
from margrave.schema.columns import Boolean, Categorical, Column, Integer, Ordinal, Real, Unknown
from margrave.schema.encode import encode, encode_column
from margrave.schema.schema import Schema
from margrave.schema.storage import forms


def codes(values: Any, column: Column) -> list[int]:
    array = values if isinstance(values, (pa.Array, pa.ChunkedArray)) else pa.array(values)
    return encode_column(array, column).tolist()


def listed(*values: Any, **more: Any) -> Categorical:
    return Categorical(name="x", values=values, **{"missing": True, **more})


@pytest.mark.parametrize(
    ("values", "column", "expected"),
    [
        (["1", "01", "1.0", "1e0", "+1"], listed(1, other="o"), [0, 0, 0, 0, 0]),
        (["1", "01", "1.0"], listed("1", "01", other="o"), [0, 1, 2]),
        ([1, 2, None], listed("1", "2"), [0, 1, 2]),
        ([1.0, 2.5, math.nan], listed("1", 2.5), [0, 1, 2]),
        ([1.0, 0.1, 1e20], listed("1.0", "0.1", 1e20), [0, 1, 2]),
        (["0.50", "5e-1"], listed(0.5), [0, 0]),
        ([-0.0, 0.0], listed(0), [0, 0]),
        ([2**60, 2**60 + 1], listed(2**60 + 1, 2**60), [1, 0]),
        ([True, False, None], listed(False, True), [1, 0, 2]),
        ([True, False], listed(0, 1), [1, 0]),
        ([True, False], listed("true", "false"), [0, 1]),
        (["True", "FALSE", "false", "1", "0"], Boolean(name="x", missing=False), [1, 0, 0, 1, 0]),
        ([1, 0], Boolean(name="x", missing=False), [1, 0]),
        ([1.0, 0.0], Boolean(name="x", missing=False), [1, 0]),
        (["a", "A"], listed("a", "A"), [0, 1]),
        (["hi", "lo"], Ordinal(name="x", values=("lo", "hi"), missing=False), [1, 0]),
        (pa.array(["b", None, "a"]).dictionary_encode(), listed("a", "b"), [1, 2, 0]),
        (pa.DictionaryArray.from_arrays([0, 1, 2], ["a", None, "a"]), listed("a"), [0, 1, 0]),
        (pa.chunked_array([["a"], [], ["b", "a"]]), listed("a", "b"), [0, 1, 0]),
        (pa.nulls(2), listed("a"), [1, 1]),
        (["nan", "NULL", ""], listed("nan", "NULL", ""), [0, 1, 2]),
        ([], listed("a"), []),
    ],
)
def test_listed(values: Any, column: Column, expected: list[int]) -> None:
    assert codes(values, column) == expected


@pytest.mark.parametrize(
    ("values", "column", "expected"),
    [
        ([0, 9, 10, None], Integer(name="x", lower=0, upper=10, bins=2, missing=True), [0, 1, 1, 2]),
        (["0", "9", "1e1", None], Integer(name="x", lower=0, upper=10, bins=2, missing=True), [0, 1, 1, 2]),
        ([0.0, 0.5, 1.0], Real(name="x", lower=0, upper=1, bins=2, missing=False), [0, 1, 1]),
        ([True, False], Integer(name="x", lower=0, upper=1, missing=False), [1, 0]),
        (
            pa.array([1, 255], pa.uint8()),
            Integer(name="x", lower=0, upper=255, bins=256, missing=False),
            [1, 255],
        ),
        (pa.array([1.5], pa.float16()), Real(name="x", lower=0, upper=2, bins=2, missing=False), [1]),
        (
            pa.array([1, 2]).cast(pa.decimal128(21, 2)),
            Integer(name="x", lower=1, upper=2, missing=False),
            [0, 1],
        ),
    ],
)
def test_binned(values: Any, column: Column, expected: list[int]) -> None:
    assert codes(values, column) == expected


def test_discovered_columns_absorb() -> None:
    number = Integer(name="x", edges=(0, 5, 10), missing=True, strict=False)
    assert codes(["-3", "4.9", "99", "abc", None], number) == [0, 0, 1, 2, 2]
    heavy = Integer(
        name="x", edges=(0, 5, 10), fine=(0, 2, 5, 10), weights=(3.0, 3.0, 5.0), missing=False, strict=False
    )
    assert codes(["abc", None, "7"], heavy) == [0, 0, 1]
    assert codes([math.inf, 7], Real(name="x", edges=(0, 5, 10), missing=False, strict=False)) == [0, 1]
    assert codes(["q", None], listed("a", "b", other="o", missing=False, strict=False)) == [2, 2]
    assert codes(["q", None], listed("a", "b", missing=False, strict=False)) == [0, 0]
    assert codes(["q", None], listed(missing=True, strict=False)) == [0, 0]


def test_a_declared_other_takes_the_rest() -> None:
    assert codes(["q", "a"], listed("a", other="o", missing=False)) == [1, 0]


@pytest.mark.parametrize("inner", [pa.string(), pa.large_string(), pa.string_view()])
def test_dictionaries_of_many_chunks_are_joined_as_text_of_any_size(inner: Any) -> None:
    """Plain text holds 2 GiB; beyond, Arrow would say of how many bytes the text of all chunks is."""
    kind = pa.dictionary(pa.int8(), inner)
    chunks = []
    for words in (["a", "b", None], ["b", "c", "a"], []):
        coded = pa.array(words, inner).dictionary_encode()
        chunks.append(pa.DictionaryArray.from_arrays(coded.indices.cast(pa.int8()), coded.dictionary))
    for some in (chunks, chunks[:2], []):
        joined = forms.one_chunk(pa.chunked_array(some, kind))
        assert joined.type == pa.dictionary(pa.int32(), pa.large_string())
        assert joined.to_pylist() == [word for chunk in some for word in chunk.to_pylist()]


@pytest.mark.parametrize("inner", [pa.binary(), pa.binary_view()])
def test_dictionaries_of_bytes_are_refused_after_they_are_joined(inner: Any) -> None:
    chunk = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([b"x"]).cast(inner))
    column = pa.chunked_array([chunk, chunk])
    assert forms.one_chunk(column).type.value_type == pa.large_binary()
    with pytest.raises(InputError, match="column 'x' must be made of"):
        forms.normal(column, "x")


def test_unused_dictionary_entries_are_not_values() -> None:
    coded = pa.DictionaryArray.from_arrays([0, 0], ["a", "never used"])
    assert codes(coded, listed("a", missing=False)) == [0, 0]


@pytest.mark.parametrize(
    ("values", "column"),
    [
        (["1_000"], Integer(name="x", lower=0, upper=2000, missing=True)),
        ([1.5], Integer(name="x", lower=0, upper=2, missing=True)),
        ([3], Integer(name="x", lower=0, upper=2, missing=True)),
        ([math.nan], Real(name="x", lower=0, upper=2, missing=False)),
        ([None], listed("a", missing=False)),
        (["b"], listed("a")),
        ([-1], listed(0, 1)),
        ([2], listed(0, 1)),
    ],
)
def test_strict_columns_refuse(values: Any, column: Column) -> None:
    with pytest.raises(InputError, match=r"^column 'x' must be"):
        codes(values, column)


def test_unknown_columns_are_refused() -> None:
    for column in (Unknown(name="x"), Categorical(name="x", missing=True), Real(name="x", missing=True)):
        with pytest.raises(SchemaError):
            codes(["a"], column)


def test_integer_coded_tables_keep_their_codes() -> None:
    rng = np.random.default_rng(0)
    sizes = {"a": 2, "b": 300, "c": 70_000}
    table = {name: rng.integers(0, size, 1000) for name, size in sizes.items()}
    encoded = encode(pa.table(table), Schema.from_sizes(sizes))
    assert [column.dtype for column in encoded.columns] == [np.uint8, np.uint16, np.uint32]
    for name, column in table.items():
        np.testing.assert_array_equal(encoded.column(name), column)


@given(st.text(alphabet="0123456789+-.eE_ xnaif", max_size=8))
def test_numbers_in_text_are_strict(text: str) -> None:
    values, other = forms.parse(pa.array([text], pa.large_string()))
    body = text[1:] if text[:1] in ("+", "-") else text
    mantissa, _, exponent = body.replace("E", "e").partition("e")
    digits = exponent[1:] if exponent[:1] in ("+", "-") else exponent
    plain = mantissa.replace(".", "", 1)
    is_number = plain.isdecimal() and ("e" not in body.lower() or digits.isdecimal())
    assert bool(other[0]) == (not is_number)
    if is_number and math.isfinite(float(text)):
        assert values[0] == float(text)
    else:
        assert math.isnan(values[0])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_spelling_reads_back(value: float) -> None:
    text = forms.spell_value(value)
    assert float(text or "") == value
    assert forms.number_texts(pa.array([value])).to_pylist() == [text]


@pytest.mark.parametrize("more", [27, 28, 60])
@pytest.mark.parametrize("hole", [False, True])
def test_chunks_of_any_number_of_categories_are_read(more: int, hole: bool) -> None:
    """Codes of one byte count 127 categories; no error may tell how many the chunks have together."""
    texts = [[f"v{i}" for i in range(100)], [f"w{i}" for i in range(more)]]
    if hole:
        texts[1][3] = None  # type: ignore[call-overload]
    chunks = [
        pa.DictionaryArray.from_arrays(pa.array([*range(len(own)), None], pa.int8()), pa.array(own))
        for own in texts
    ]
    column = forms.normal(pa.chunked_array(chunks), "x")
    codes, labels = forms.texts(column)
    read = [None if code < 0 else labels[int(code)].as_py() for code in codes]
    assert read == [*texts[0], None, *texts[1], None]


def test_text_of_several_chunks_has_wide_offsets() -> None:
    """Offsets of 32 bits hold 2 GiB, all chunks together."""
    joined = forms.one_chunk(pa.chunked_array([pa.array(["a", None]), pa.array(["b"])]))
    assert joined.type == pa.large_string()
    assert joined.to_pylist() == ["a", None, "b"]
