"""Keys that begin alike: which first digits are looked at, which are written out, and what is drawn."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.opening import open_source
from margrave.measure.curator import Curator
from margrave.measure.discovery.beginnings import (
    MOST_BEGINNINGS,
    ROOM,
    choose_digits,
    count_digits,
    look_at,
    narrow_shapes,
)
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.columns import Categorical, Identifier
from margrave.schema.columns.identifier import keys, shape_of, shape_space, widen_shape
from margrave.schema.schema import Schema
from margrave.schema.storage.arrow import decode_column
from seeded_noise import SeededSource

ROWS = 20_000
PHONE, ORDER, VISIT = r"\+[1-9][0-9] [0-9]{3} [0-9]{7}", "[1-9][0-9]{3}-[0-9]{7}", "V0[0-9]{6}"


def _table(rows: int = ROWS) -> pa.Table:
    rng = np.random.default_rng(4)
    lands = rng.choice(["+49", "+41", "+43"], rows, p=[0.8, 0.15, 0.05])
    serial, years = rng.permutation(10**6)[:rows], rng.choice([2021, 2022, 2023], rows)
    return pa.table(
        {
            "phone": [f"{a} {rng.integers(100, 999)} {rng.integers(10**7):07d}" for a in lands],
            "sample": [f"L{year % 100}-{number:06d}" for year, number in zip(years, serial, strict=True)],
            "order": [f"{year}-{number:07d}" for year, number in zip(years, serial, strict=True)],
            "visit": [f"V{number:07d}" for number in range(1, rows + 1)],
            "even": [f"K{number}" for number in rng.choice(9 * 10**8, rows, replace=False) + 10**8],
            "hash": [f"{number:032x}" for number in rng.integers(2**62, size=rows)],
            "n": rng.integers(0, 9, rows),
        }
    )


def _discover(
    table: pa.Table, epsilon: float = 3.0, unit: Unit | None = None, adjacency: Adjacency = "add_remove"
) -> tuple[Schema, Ledger]:
    source, _ = open_source(table)
    whom = Neighbours(unit or Unit(), adjacency)
    delta = Fraction(1, 10**9)
    ledger = Ledger(epsilon=epsilon, delta=1e-8, neighbours=whom, accountant=ZCDP(), partition_delta=delta)
    return Curator(source, ledger, SeededSource(2)).discover(None, ledger.total / 4), ledger


@pytest.fixture(scope="module")
def found() -> tuple[Schema, Ledger]:
    return _discover(_table())


def _shares(schema: Schema, name: str) -> dict[str, float]:
    column = schema[name]
    assert isinstance(column, Identifier)
    return dict(zip(column.shapes, column.shares, strict=True))


def _patterns(schema: Schema, name: str) -> tuple[str, ...]:
    column = schema[name]
    assert isinstance(column, Categorical)
    assert column.unique
    return column.patterns


def test_what_keys_begin_with_are_codes(found: tuple[Schema, Ledger]) -> None:
    expected = [rf"\+{land} [0-9]{{3}} [0-9]{{7}}" for land in (41, 43, 49)]
    assert sorted(_patterns(found[0], "phone")) == expected
    for name, beginnings in (("sample", ("L21-", "L22-", "L23-")), ("order", ("2021-", "2022-", "2023-"))):
        shapes = _patterns(found[0], name)
        assert sorted(shape.partition("-")[0] + "-" for shape in shapes) == list(beginnings)
    for name in ("visit", "even", "hash"):
        assert sum(_shares(found[0], name).values()) == pytest.approx(1, abs=1e-3)


def test_running_numbers_keep_their_zeros_and_as_many_keys_as_they_need(
    found: tuple[Schema, Ledger],
) -> None:
    """V0000001 to V0020000: V0000 has a thousand keys for a thousand rows, V00 five for each row."""
    assert list(_shares(found[0], "visit")) == ["V00[0-9]{5}"]


def test_what_is_even_is_not_split(found: tuple[Schema, Ledger]) -> None:
    assert list(_shares(found[0], "even")) == ["K[1-9][0-9]{8}"]
    assert list(_shares(found[0], "hash")) == ["[0-9a-f]{32}"]


def test_each_look_costs_half_of_what_beginnings_of_codes_would(found: tuple[Schema, Ledger]) -> None:
    events = {event.what: event for event in found[1].events}
    look, other = events["first digits of phone"], events["keys of phone"]
    assert isinstance(look, GaussianEvent)
    assert look.l2_squared == 1
    assert float(look.sigma_squared) == pytest.approx(float(other.sigma_squared), rel=1e-6)  # type: ignore[union-attr]
    assert "first digits of hash" not in events
    assert found[1].spent <= found[1].total / 4


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_an_owners_rows_move_the_look_by_as_much_as_a_marginal(adjacency: Adjacency) -> None:
    table = _table().select(["order"])
    table = table.append_column("who", [[f"o{number // 3}" for number in range(ROWS)]])
    schema, ledger = _discover(table.append_column("n", [[1] * ROWS]), 20.0, Unit("who", 3), adjacency)
    assert "2022-[0-9]{7}" in _patterns(schema, "order")
    look = next(event for event in ledger.events if event.what == "first digits of order")
    assert isinstance(look, GaussianEvent)
    assert look.l2_squared == 9 * (2 if adjacency == "replace_one" else 1)


def test_drawn_keys_are_all_their_own(found: tuple[Schema, Ledger]) -> None:
    rng = np.random.default_rng(0)
    for name in ("phone", "order", "visit"):
        column = found[0][name]
        if isinstance(column, Identifier):
            drawn = keys(column, 2 * ROWS, rng).to_pylist()
        else:
            codes = rng.integers(0, len(_patterns(found[0], name)), 2 * ROWS)
            drawn = decode_column(codes.astype(np.uint32), column, rng).to_pylist()
        assert len(set(drawn)) == 2 * ROWS
        assert {len(text) for text in drawn} == {len(drawn[0])}


@pytest.mark.parametrize(
    ("shape", "rows", "sigma", "sizes"),
    [
        (PHONE, 1000.0, 10.0, (9, 10)),
        (ORDER, 1000.0, 10.0, (9, 10, 10, 10)),
        (VISIT, 20_000.0, 10.0, (10, 10, 10, 10)),
        (VISIT, 1_500.0, 10.0, (10, 10, 10)),
        (VISIT, 2_000.0, 100.0, (10, 10)),
        (VISIT, 500.0, 60.0, (10,)),
        ("A[0-9]", 1000.0, 10.0, (10,)),
    ],
)
def test_which_digits_are_looked_at(shape: str, rows: float, sigma: float, sizes: tuple[int, ...]) -> None:
    (look,) = choose_digits({shape: rows}, sigma)
    assert look.sizes == sizes
    assert len(look.texts) == math.prod(sizes)


def test_no_digits_are_looked_at_where_none_could_be_evident() -> None:
    assert choose_digits({PHONE: 100.0}, 30.0) == []
    assert choose_digits({"[0-9a-f]{32}": 1e6, "[A-Z]{3}": 1e6}, 1.0) == []


def test_the_cells_of_all_shapes_together_are_bounded_and_the_frequent_ones_come_first() -> None:
    shapes = {f"{letter}[1-9][0-9]{{3}}": 1000.0 + place for place, letter in enumerate("ABCDEFGHIJKL")}
    looks = choose_digits(shapes, 1.0)
    assert [look.shape[0] for look in looks] == list("LKJIHGF")
    assert sum(len(look.texts) for look in looks) <= MOST_BEGINNINGS


def test_each_row_is_in_one_cell_at_most() -> None:
    looks = [look_at("V0[0-9]{6}", [2]), look_at("[A-Z]{2}[0-9]{2}", [2, 3])]
    texts = ["V0000001", "V0700001", "V1000001", "AB12", "CD12", "AB1", "note"]
    for wide, expected in ((False, {0: 1, 7: 1}), (True, {22: 2})):
        for text in texts:
            shape = widen_shape(shape_of(text) or "-") if wide else shape_of(text)
            assert count_digits(looks, [(text, shape, 1)]).sum() <= 1
        rows = [(text, widen_shape(shape_of(text) or "-") if wide else shape_of(text), 1) for text in texts]
        cells = count_digits(looks, rows)
        assert {place: int(cells[place]) for place in np.flatnonzero(cells).tolist()} == expected


def _narrow(shape: str, texts: list[str], sigma: float = 2.0, sizes: int = 4) -> dict[str, float]:
    """What is made of counts with seeded noise."""
    rng = np.random.default_rng(1)
    (look,) = choose_digits({shape: float(len(texts))}, sigma)
    cells = count_digits([look], ((text, shape, 1) for text in texts))
    noisy = cells + sigma * rng.standard_normal(len(cells))
    return narrow_shapes({shape: float(len(texts))}, [look], noisy, sigma, sigma)


def test_years_of_two_decades_are_written_out_as_far_as_they_are_uneven() -> None:
    """00 to 23: any year that begins with 0 or 1, and four that begin with 2."""
    rng = np.random.default_rng(2)
    texts = [f"{year:02d}-KX" for year in rng.integers(0, 24, ROWS)]
    shapes = _narrow("[0-9]{2}-[A-Z]{7}", texts)
    tails = [shape.removesuffix("-[A-Z]{7}") for shape in shapes]
    assert sorted(tails) == ["0[0-9]", "1[0-9]", "20", "21", "22", "23"]
    assert sum(shapes.values()) == pytest.approx(ROWS)


def test_what_is_left_keeps_the_shape_unless_it_is_within_the_noise() -> None:
    rng = np.random.default_rng(3)
    for other, kept in ((0.2, True), (0.0, False)):
        first = np.where(rng.random(ROWS) < other, rng.integers(10, 99, ROWS), 49)
        texts = [f"+{land} 123 {number:07d}" for land, number in zip(first, range(ROWS), strict=True)]
        shapes = _narrow(PHONE, texts)
        assert (PHONE in shapes) is kept
        assert r"\+49 [0-9]{3} [0-9]{7}" in shapes
        assert sum(shapes.values()) == pytest.approx(ROWS)
        assert not kept or shapes[PHONE] == pytest.approx(other * ROWS, rel=0.1)


def test_a_beginning_whose_shape_has_too_few_keys_is_left_to_a_shorter_one() -> None:
    texts = [f"{2021 + number % 3}-{number:04d}" for number in range(6_000)]
    wide = "[1-9][0-9]{3}-[0-9]{4}"
    shapes = _narrow(wide, texts, 1.0)
    # 2,000 rows a year, of which there are 10,000 keys each.
    assert list(shapes) == ["2021-[0-9]{4}", "2022-[0-9]{4}", "2023-[0-9]{4}"]
    more = [f"{2021 + number % 3}-{number:04d}" for number in range(10_000)]
    shapes = _narrow(wide, more, 1.0)
    assert list(shapes) == ["202[0-9]-[0-9]{4}"]
    assert all(shape_space(shape) >= ROOM * rows for shape, rows in shapes.items())


def test_noise_alone_makes_no_beginning() -> None:
    rng = np.random.default_rng(5)
    shape, split = "[1-9][0-9]{3}-[0-9]{7}", 0
    for _ in range(100):
        (look,) = choose_digits({shape: 5000.0}, 30.0)
        even = np.full(9000, 5000 / 9000) + 30.0 * rng.standard_normal(9000)
        split += len(narrow_shapes({shape: 5000.0}, [look], even, 30.0, 30.0)) > 1
    assert split <= 8  # one look in a hundred at each of four lengths


def test_digits_behind_letters_are_found_in_shapes_of_classes() -> None:
    rng = np.random.default_rng(6)
    letters = ["".join(rng.choice(list("ABCDEFGH"), 3)) for _ in range(ROWS)]
    numbers = rng.permutation(10**6)[:ROWS]
    table = pa.table({"key": [f"{a}23-{b:06d}" for a, b in zip(letters, numbers, strict=True)]})
    schema, _ = _discover(table.append_column("n", [[1] * ROWS]))
    assert list(_shares(schema, "key")) == ["[A-Z]{3}23-[0-9]{6}"]
    drawn = keys(schema["key"], 100, np.random.default_rng(0)).to_pylist()  # type: ignore[arg-type]
    assert Counter(text[3:6] for text in drawn) == {"23-": 100}


def test_letters_that_all_keys_have_are_kept() -> None:
    rng = np.random.default_rng(0)
    serial = rng.permutation(10**6)[:ROWS]
    table = pa.table(
        {
            "mail": [f"s{number:06d}@uni.ac.uk" for number in serial],
            "parcel": [f"1Z{number:06d}{rng.integers(10**8):08d}" for number in serial],
            "seat": [f"{number:06d}{'ABCDEFGHJK'[number % 10]}" for number in serial],
            "n": rng.integers(0, 9, ROWS),
        }
    )
    schema, ledger = _discover(table)
    shapes = {name: set(_shares(schema, name)) for name in ("mail", "parcel", "seat")}
    assert all(shape.endswith(r"@uni\.ac\.uk") for shape in shapes["mail"])
    assert all(shape.startswith("1Z") for shape in shapes["parcel"])
    # Ten letters are ten patterns, no more and no fewer.
    assert {shape[-1] for shape in shapes["seat"]} == set("ABCDEFGHJK")
    spent = [event.what for event in ledger.events if event.what.startswith("patterns of")]
    assert spent == ["patterns of mail", "patterns of parcel", "patterns of seat"]
