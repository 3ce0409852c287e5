"""The twin audit of codes, keys and free text: the looks at shapes, distinct values and beginnings.

And of the search of several columns together, in which a row counts for each of its texts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from twin_losses import true_events
from twin_runs import audited, fitting
from twin_tables import KINDS, pair
from twins import Run, record, replay

from margrave.engines import memory
from margrave.measure.discovery import text as codes
from margrave.privacy.accounting.events import GaussianEvent, PartitionEvent
from margrave.privacy.unit import Adjacency

COLUMNS = ("city", "icd", "key", "note")
EPSILON = 150.0
"""At which 150 rows are enough for each of the looks."""
TOGETHER = "values of 2 columns of text together"
LISTS = "public lists of key"
DIGITS = "first digits of key"
LOOKS = {LISTS, "distinct values of key", "keys of key", DIGITS, "shapes of note", TOGETHER, "counts of city"}
PLACES = "digits of pressure, place by place"
LETTERED = ("city", "mail")
"""A column of keys with letters behind their digits."""
MIXED = ("city", "serial")
"""A column of keys in which any sign may be at any place."""
REPEATED = ("city", "pressure")
"""A column of texts that repeat and that beginnings would tear."""
ALONE = ("city", "icd")
"""Too few columns to be searched together."""


def _run(data: Any, adjacency: Adjacency, k: int, columns: tuple[str, ...] = COLUMNS) -> Run:
    return fitting(data, "independent", columns, adjacency, k, whole=False, epsilon=EPSILON, delta=0.01)


def _asked(tape: Any) -> set[str]:
    return {event.what for question in tape.questions for event in question.events}


def _audit(kind: str, columns: tuple[str, ...], adjacency: Adjacency, k: int) -> set[str]:
    """Find nothing wrong with the looks at two neighbours; what was asked of them."""
    tables = pair(kind, columns, adjacency, k)
    first, second = (_run(table, adjacency, k, columns) for table in tables)
    tape, found = audited(first, second, rows=max(table.num_rows for table in tables))
    assert tape.error is None
    assert found == []
    return _asked(tape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 3)])
def test_no_look_at_codes_loses_more_than_it_declares(kind: str, adjacency: Adjacency, k: int) -> None:
    asked = _audit(kind, COLUMNS, adjacency, k)
    if not k:
        assert asked >= LOOKS


@pytest.mark.parametrize("kind", ["the same row again", "a new category"])
@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 3)])
def test_no_look_at_columns_one_by_one_loses_more_than_it_declares(
    kind: str, adjacency: Adjacency, k: int
) -> None:
    asked = _audit(kind, ALONE, adjacency, k)
    if not k:
        assert "beginnings of icd, 3 letters" in asked


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 3)])
def test_no_look_at_texts_that_repeat_loses_more_than_it_declares(
    kind: str, adjacency: Adjacency, k: int
) -> None:
    asked = _audit(kind, REPEATED, adjacency, k)
    if not k:
        assert asked >= {"patterns of pressure", PLACES, "first digits of pressure"}


@pytest.mark.parametrize("kind", ["the same row again", "a new category", "another spelling"])
@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 3)])
def test_no_look_at_letters_of_keys_loses_more_than_it_declares(
    kind: str, adjacency: Adjacency, k: int
) -> None:
    asked = _audit(kind, LETTERED, adjacency, k)
    if not k:
        assert asked >= {"keys of mail", "patterns of mail", "first digits of mail"}


@pytest.mark.parametrize("kind", ["the same row again", "a new category", "another spelling"])
@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 3)])
def test_no_look_at_signs_of_keys_loses_more_than_it_declares(
    kind: str, adjacency: Adjacency, k: int
) -> None:
    asked = _audit(kind, MIXED, adjacency, k)
    if not k:
        assert "signs of serial" in asked


@pytest.mark.parametrize("fault", ["each sign", "those of others"])
def test_faults_in_the_look_at_signs_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row counts once for each of its signs; or its shape hangs on how many rows were read before it."""
    if fault == "each sign":
        seen = codes.TextSearch._rest

        def count_signs(one: Any, known: Any) -> Any:
            return [(text, count * len(text)) for text, count in seen(one, known)]

        monkeypatch.setattr(codes.TextSearch, "_rest", count_signs)
    else:
        true, read = codes.read_shape, list[str]()

        def read_shape(text: str, sort: str) -> str:
            read.append(text)
            return true(text, sort) + ("-" if sort == "signs" and len(read) % 2 else "")

        monkeypatch.setattr(codes, "read_shape", read_shape)
    first, second = (
        _run(table, "add_remove", 0, MIXED) for table in pair("the same row again", MIXED, "add_remove", 0)
    )
    _, found = audited(first, second)
    assert found


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("add_remove", 3), ("replace_one", 0)])
def test_a_text_moves_the_digits_of_all_its_places_by_what_is_declared(adjacency: Adjacency, k: int) -> None:
    """So the sensitivity of one marginal for those of five places would be a finding."""
    tables = list(pair("a new category", REPEATED, adjacency, k))
    texts = tables[1]["pressure"].to_pylist()
    texts[-max(k, 1) :] = ["137/92"] * max(k, 1)
    place = tables[1].column_names.index("pressure")
    tables[1] = tables[1].set_column(place, "pressure", pa.array(texts))
    first, second = (_run(table, adjacency, k, REPEATED) for table in tables)
    tape = record(first)
    again = replay(second, tape)
    true = [e for two in zip(tape.questions, again.questions, strict=True) for e in true_events(*two)]
    declared = [event for question in tape.questions for event in question.events]
    moved = {b.what: (a.l2_squared, b.l2_squared) for a, b in zip(true, declared, strict=True)}
    whole = max(k, 1) ** 2
    swapped = 2 if adjacency == "replace_one" else 1
    assert moved["patterns of pressure"][1] == moved["first digits of pressure"][1] == whole * swapped
    assert moved[PLACES][1] == 5 * whole * swapped
    assert 5 * whole <= moved[PLACES][0] <= 5 * whole * swapped


@pytest.mark.parametrize(
    "kind", ["the same row again", "another spelling", "no value at all", "a new category"]
)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_no_vote_on_spellings_loses_more_than_it_declares(
    kind: str, adjacency: Adjacency, tmp_path: Path
) -> None:
    """In text files, where numbers, marks and truth values have spellings."""
    names = ("score", "gaps", "open", "icd")
    paths = [
        tmp_path / folder / "table.csv" for folder in ("first", "second")
    ]  # a release has the file's name
    for path, table in zip(paths, pair(kind, names, adjacency), strict=True):
        path.parent.mkdir()
        pa_csv.write_csv(table, path)
    first, second = (
        fitting(path, "independent", names, adjacency, 0, whole=False, epsilon=EPSILON, delta=0.01)
        for path in paths
    )
    tape, found = audited(first, second)
    assert tape.error is None
    assert found == []
    assert _asked(tape) >= {"spelling of score", "marks of gaps", "shapes of icd"}


def _pair(
    adjacency: Adjacency, k: int, keys: tuple[str, ...], columns: tuple[str, ...] = COLUMNS
) -> list[pa.Table]:
    """A table and its neighbour, in which the odd unit, which stands last, has these keys in its rows."""
    tables = list(pair("a new category", columns, adjacency, k))
    if keys:
        names = tables[1]["key"].to_pylist()
        names[-len(keys) :] = keys
        place = tables[1].column_names.index("key")
        tables[1] = tables[1].set_column(place, "key", pa.array(names, tables[1]["key"].type))
    return tables


def _events(
    adjacency: Adjacency, k: int, keys: tuple[str, ...] = (), columns: tuple[str, ...] = COLUMNS
) -> list[tuple[Any, Any]]:
    """True and declared events of a run on a table, answered on a neighbour with other codes as well."""
    first, second = (_run(table, adjacency, k, columns) for table in _pair(adjacency, k, keys, columns))
    tape = record(first)
    again = replay(second, tape)
    assert tape.error is again.error is None
    true = [e for two in zip(tape.questions, again.questions, strict=True) for e in true_events(*two)]
    declared = [event for question in tape.questions for event in question.events]
    return list(zip(true, declared, strict=True))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_what_is_declared_is_reached(adjacency: Adjacency) -> None:
    """So a smaller sensitivity would be a finding: one row moves the number of distinct values by 1."""
    reached = {b.what: (a.l2_squared, b.l2_squared) for a, b in _events(adjacency, 0)}
    whole = 2 if adjacency == "replace_one" else 1
    assert reached["shapes of key"] == reached["keys of key"] == (whole, whole)
    true, declared = reached[TOGETHER]
    assert declared == whole * codes.WEIGHT**2
    assert 0.999 * declared < true <= declared
    alone = {b.what: (a.l2_squared, b.l2_squared) for a, b in _events(adjacency, 0, columns=ALONE)}
    assert alone["beginnings of icd, 3 letters"] == (1, whole)
    if adjacency == "add_remove":
        assert reached["distinct values of key"] == (1, 1)


def test_an_owner_moves_the_number_of_distinct_values_by_all_its_rows() -> None:
    """So a sensitivity of 1, or of the cap without its square, would be a finding."""
    events = _events("add_remove", 3, ("W0", "W1", "W2"))
    moved = {b.what: (a.l2_squared, b.l2_squared) for a, b in events}
    assert moved["distinct values of key"] == (9, 9)


def _numbers(adjacency: Adjacency, k: int) -> list[pa.Table]:
    """A table and its neighbour with numbers of two rows each, but that of the odd unit, which is in a third
    row or in none.
    """
    found = []
    for table, odd in zip(pair("the same row again", ("city", "age"), adjacency, k), (9_999, 1), strict=True):
        numbers = 1_000_003 * (np.arange(table.num_rows) // 2)
        if adjacency != "add_remove" or odd == 1:  # else the unit is in the second table alone
            numbers[-max(k, 1) :] = 1_000_003 * odd
        place = table.column_names.index("age")
        found.append(table.set_column(place, "age", pa.array(numbers, table["age"].type)))
    return found


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 3)])
def test_no_look_at_numbers_that_come_back_loses_more_than_it_declares(adjacency: Adjacency, k: int) -> None:
    first, second = (_run(table, adjacency, k, ("city", "age")) for table in _numbers(adjacency, k))
    tape, found = audited(first, second)
    assert tape.error is None
    assert found == []
    if not k:
        assert "distinct values of age" in _asked(tape)


@pytest.mark.parametrize("fault", ["twice", "just so many"])
def test_faults_in_numbers_that_come_back_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = memory.count_repeats

    def count(rows: Any, steps: Any) -> Any:
        cells = honest(rows, steps)
        return 2 * cells if fault == "twice" else cells - np.append(cells[1:], 0)

    monkeypatch.setattr(memory, "count_repeats", count)
    first, second = (_run(table, "replace_one", 0, ("city", "age")) for table in _numbers("replace_one", 0))
    _, found = audited(first, second)
    assert any("sensitivity" in text for text in found), found


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("add_remove", 3), ("replace_one", 0)])
def test_a_text_on_four_public_lists_moves_them_by_what_is_declared(adjacency: Adjacency, k: int) -> None:
    """So a sensitivity as if it were on one list would be a finding."""
    events = _events(adjacency, k, ("Georgia",) * max(k, 1))
    true, declared = next((a.l2_squared, b.l2_squared) for a, b in events if b.what == LISTS)
    assert declared == 4 * max(k, 1) ** 2 * (2 if adjacency == "replace_one" else 1)
    assert true == 4 * max(k, 1) ** 2


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_key_moves_first_digits_by_what_is_declared(adjacency: Adjacency) -> None:
    """So a smaller sensitivity would be a finding; V09 is another cell than that of the key it replaces."""
    events = _events(adjacency, 0, ("V0900000",))
    true, declared = next((a.l2_squared, b.l2_squared) for a, b in events if b.what == DIGITS)
    assert true == declared == (2 if adjacency == "replace_one" else 1)


def test_places_declared_as_one_marginal_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = codes.TextSearch._look
    monkeypatch.setattr(codes.TextSearch, "_look", lambda *given: honest(*given[:5]))
    tables = pair("the same row again", REPEATED)
    first, second = (_run(table, "add_remove", 0, REPEATED) for table in tables)
    _, found = audited(first, second)
    assert any("sensitivity" in text for text in found), found


@pytest.mark.parametrize(
    ("fault", "finding"),
    [
        ("digits", "sensitivity"),
        ("distinct", "sensitivity"),
        ("repeats", "sensitivity"),
        ("shape", "sensitivity"),
        ("weights", "sensitivity"),
        ("bar", "delta"),
        ("lists", "sensitivity"),
    ],
)
def test_planted_faults_are_found(fault: str, finding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """First digits that count a key in two cells; numbers of distinct values that count each twice, or those
    in just so many rows; shapes that count a row once for each letter; a row that counts whole for each of
    its texts; a bar as if a row added 1 to a text; public lists as if a text were on one.
    """
    if fault == "distinct":
        honest = codes.count_repeats
        monkeypatch.setattr(codes, "count_repeats", lambda rows, steps: 2 * honest(rows, steps))
    elif fault == "repeats":
        # Values that are in so many rows and no more: a row moves two of them.
        seen_keys = codes.count_repeats
        monkeypatch.setattr(
            codes,
            "count_repeats",
            lambda rows, steps: (cells := seen_keys(rows, steps)) - np.append(cells[1:], 0),
        )
    elif fault == "digits":
        honest_count = codes.count_digits
        monkeypatch.setattr(
            codes,
            "count_digits",
            lambda *given: (cells := honest_count(*given)) + np.roll(cells, 1),
        )
    elif fault == "lists":
        monkeypatch.setattr(codes, "MOST_LISTS", 1)
    elif fault == "weights":
        monkeypatch.setattr(codes, "weight_of", lambda held: codes.WEIGHT)
    elif fault == "bar":
        honest_search = codes.find_texts
        monkeypatch.setattr(
            codes,
            "find_texts",
            lambda *given, **more: honest_search(*given, **(more | {"weight": 1, "cells": 1})),
        )
    else:
        seen = codes.TextSearch._rest
        monkeypatch.setattr(
            codes.TextSearch,
            "_rest",
            lambda one, known: [(text, count * len(text)) for text, count in seen(one, known)],
        )
    first, second = (_run(table, "add_remove", 0) for table in pair("the same row again", COLUMNS))
    if fault not in ("shape", "repeats"):
        keys = {"lists": ("Georgia",), "digits": ("V0900000",)}.get(fault, ())
        first, second = (_run(table, "add_remove", 0) for table in _pair("add_remove", 0, keys))
    _, found = audited(first, second)
    assert any(finding in text for text in found), found


def test_the_audit_sees_both_sorts_of_events() -> None:
    kinds = {type(b) for _, b in _events("add_remove", 3)}
    assert {GaussianEvent, PartitionEvent} <= kinds
