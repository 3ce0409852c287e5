"""Damaged books and damaged answers: a clear error."""

from __future__ import annotations

import contextlib
import sqlite3
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from booking import book, opened, spend
from hypothesis import given, settings
from hypothesis import strategies as st

from margrave.errors import InputError, MargraveError
from margrave.privacy.ledger.book import Book
from margrave.privacy.ledger.history import Answer, answer_from_bytes, answer_to_bytes


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("PRAGMA user_version = 3", "Update margrave"),
        ("PRAGMA application_id = 7", "a book of margrave"),
        ("DROP TABLE caps", "intact"),
        ("UPDATE runs SET rho = 'much'", "intact"),
        ("UPDATE runs SET rho = '-1/2'", "intact"),
        ("UPDATE runs SET header = '[]'", "intact"),
        ("UPDATE runs SET header = '{'", "intact"),
        ("UPDATE runs SET state = 'lost'", "intact"),
        ("UPDATE caps SET epsilon = 'x'", "intact"),
        ("UPDATE caps SET adjacency = 'far'", "intact"),
        ("UPDATE caps SET epsilon = 9.0", "intact"),
        ("UPDATE caps SET id = 2", "intact"),
        ("UPDATE runs SET dataset = 'peoqle'", "intact"),
        ("UPDATE runs SET id = 3", "intact"),
        ("UPDATE events SET event = replace(event, '\"l2_squared\": 1', '\"l2_squared\": 0')", "intact"),
        ("UPDATE answers SET body = replace(body, '[]', '{}')", "intact"),
        ("UPDATE events SET seq = 7", "intact"),
        ("UPDATE attempts SET outcome = 'done'", "intact"),
        ("UPDATE attempts SET id = 2", "intact"),
        ("DROP TABLE retired", "intact"),
        ("UPDATE events SET event = '{}'", "intact"),
        ("UPDATE answers SET body = x'00'", "intact"),
        ("UPDATE answers SET events = 9", "intact"),
    ],
)
def test_a_damaged_book_is_refused(tmp_path: Path, statement: str, named: str) -> None:
    kept = book(tmp_path)
    spend(opened(kept), Fraction(1, 2))
    kept.close()
    with sqlite3.connect(kept.path) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        db.execute(statement)
    db.close()

    def read() -> None:
        found = Book(kept.path)
        found.accounts()
        found.events(1)
        opened(found, resume=True)

    with pytest.raises(MargraveError, match=named):
        read()


def test_a_file_that_is_no_book_is_refused(tmp_path: Path) -> None:
    for name, content in (("a.db", b""), ("b.db", b"hello"), ("c.db", b"SQLite format 3\x00" + b"x" * 200)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="ledger must be"):
            Book(tmp_path / name)
        assert (tmp_path / name).read_bytes() == content


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=40),
    st.floats(0.05, 1),
)
def test_any_damage_is_a_clear_error(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[float, int]], share: float
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    kept = book(folder)
    spend(opened(kept, analyst="ann"), Fraction(1, 2))
    kept.close()
    data = bytearray(kept.path.read_bytes())
    for place, value in flips:
        data[int(place * len(data))] = value
    kept.path.write_bytes(data[: max(int(share * len(data)), 1)])
    with contextlib.suppress(MargraveError):
        found = Book(kept.path)
        found.accounts()
        found.caps()
        for run in found.runs():
            found.events(run.run)
        opened(found, analyst="ann", resume=True)


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=200), st.integers(0, 80))
def test_damaged_answers_are_a_clear_error(noise: bytes, cut: int) -> None:
    whole = answer_to_bytes(Answer((np.arange(6.0).reshape(2, 3), np.array(0.5)), ("ä", "b")))
    for data in (noise, whole[:cut] + noise, whole[: len(whole) - cut]):
        try:
            found = answer_from_bytes(data)
        except InputError:
            continue
        assert all(array.dtype == np.float64 for array in found.arrays)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.floats(allow_nan=True, width=64), max_size=5),
    st.lists(st.integers(-(2**53), 2**53), max_size=5),
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=3),
)
def test_answers_come_back_equal(reals: list[float], wholes: list[int], texts: list[str]) -> None:
    arrays = (np.array(reals), np.array(wholes, dtype=np.float64), np.zeros((0, 3)), np.array(7.0))
    found = answer_from_bytes(answer_to_bytes(Answer(arrays, tuple(texts))))
    assert found.texts == tuple(texts)
    for one, other in zip(arrays, found.arrays, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.shape == other.shape
