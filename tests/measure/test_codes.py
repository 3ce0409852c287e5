"""What discovery makes of columns of codes, keys and free text, and what it pays for it."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from margrave import Synthesizer
from margrave.cli.released import column_notes
from margrave.engines.opening import open_source
from margrave.measure.curator import Curator
from margrave.measure.discovery.beginnings import complete_shape, cut_lengths
from margrave.measure.discovery.text import WEIGHT, weight_of
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import GaussianEvent, PartitionEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.report.release.record import handling_section
from margrave.schema.columns import Boolean, Categorical, Column, Identifier, Integer, Omitted
from margrave.schema.columns.identifier import find_rest_shape
from margrave.schema.columns.public_lists import (
    MOST_LISTS,
    PUBLIC_LISTS,
    choose_list,
    count_by_list,
    find_list,
    lists_used,
    may_fit_list,
    name_counts,
)
from margrave.schema.constraints.rules import Forbidden
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

ROWS = 20_000
ROW = Unit()


def _columns() -> dict[str, list[Any]]:
    rng = np.random.default_rng(7)
    chapter = rng.choice(list("EIJK"), ROWS)
    stem = np.floor(30 * rng.random(ROWS) ** 3).astype(int) + 10
    last = rng.integers(0, 10, ROWS)
    place = np.floor(4000 * rng.random(ROWS) ** 2).astype(int)
    return {
        "visit": [f"V{number:07d}" for number in range(1, ROWS + 1)],
        "zip": [f"{1000 + number:05d}" for number in place],
        "diagnosis": [f"{a}{b}.{c}" for a, b, c in zip(chapter, stem, last, strict=True)],
        "note": [f"text {rng.integers(1 << 40)} of a nurse" for _ in range(ROWS)],
        "city": rng.choice(["Aachen", "Bonn"], ROWS).tolist(),
        "sold": np.where(rng.random(ROWS) < 0.001, "True", "False").tolist(),
        "count": [f"{number}" if number else "NA" for number in rng.integers(0, 12, ROWS)],
    }


@pytest.fixture(scope="module")
def columns() -> dict[str, list[Any]]:
    return _columns()


@pytest.fixture(scope="module")
def path(columns: dict[str, list[Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("codes") / "visits.csv"
    pa_csv.write_csv(pa.table(columns), found)
    return found


def _discover(
    data: object,
    declared: Schema | None = None,
    *,
    epsilon: float = 3.0,
    unit: Unit = ROW,
    adjacency: Adjacency = "add_remove",
) -> tuple[Schema, Ledger, Curator]:
    source, _ = open_source(data)
    delta = Fraction(1, 10**9)
    whom = Neighbours(unit, adjacency)
    ledger = Ledger(epsilon=epsilon, delta=1e-8, neighbours=whom, accountant=ZCDP(), partition_delta=delta)
    curator = Curator(source, ledger, SeededSource(2))
    return curator.discover(declared, ledger.total / 4), ledger, curator


@pytest.fixture(scope="module")
def found(path: Path) -> tuple[Schema, Ledger, Curator]:
    return _discover(path)


def _kind(schema: Schema, name: str, kind: type[Column]) -> Any:
    column = schema[name]
    assert isinstance(column, kind), column
    return column


def test_digits_with_leading_zeros_stay_text(found: tuple[Schema, Ledger, Curator]) -> None:
    column = _kind(found[0], "zip", Categorical)
    assert all(re.fullmatch("0[0-9]{4}", value) for value in column.values)
    assert all(
        re.fullmatch("0[0-9]*", prefix) and re.fullmatch(r"\[0-9\](\{\d\})?", ending)
        for prefix, ending in zip(column.prefixes, column.endings, strict=True)
    )


def test_a_few_leading_zeros_are_enough_and_none_is_not(tmp_path: Path) -> None:
    zips = [f"{number:05d}" for number in range(9700, 9700 + ROWS)]
    path = tmp_path / "zips.csv"
    pa_csv.write_csv(pa.table({"zip": zips, "n": [str(number) for number in range(ROWS)]}), path)
    schema, _, _ = _discover(path)
    assert not isinstance(schema["zip"], Integer)
    assert isinstance(schema["n"], Integer)


def test_codes_fall_back_to_frequent_beginnings(
    found: tuple[Schema, Ledger, Curator], columns: dict[str, list[Any]]
) -> None:
    schema, _, curator = found
    column = _kind(schema, "diagnosis", Categorical)
    assert {"E", "I", "J", "K"} <= set(column.prefixes)
    assert sum(len(prefix) == 3 for prefix in column.prefixes) >= 4
    assert set(column.endings) == {""}
    marginal = next(m for m in curator.measurements if m.clique == ("diagnosis",))
    codes = Counter(_code_of(column, text) for text in columns["diagnosis"])
    truth = np.array([codes[code] for code in range(column.size)])
    assert column.other_code is None or truth[column.other_code] < 0.02 * ROWS
    assert (np.abs(marginal.values - truth) < 5 * marginal.sigmas + 3).all()


def _code_of(column: Categorical, text: str) -> int:
    values = column.values or ()
    if text in values:
        return values.index(text)
    fitting = [prefix for prefix in column.prefixes if text.startswith(prefix)]
    if not fitting:
        return int(column.other_code or 0)
    return len(values) + column.prefixes.index(max(fitting, key=len))


def test_keys_are_made_anew_in_their_own_pattern(found: tuple[Schema, Ledger, Curator]) -> None:
    schema, _, curator = found
    assert _kind(schema, "visit", Identifier).shapes == ("V00[0-9]{5}",)
    assert "visit" not in schema.domain.names
    assert not any("visit" in m.clique for m in curator.measurements)


def test_free_text_is_left_out_with_a_reason(found: tuple[Schema, Ledger, Curator]) -> None:
    assert "text of its own" in _kind(found[0], "note", Omitted).reason
    assert "nurse" not in repr(found[0])


def test_truth_values_keep_both_and_their_spelling(found: tuple[Schema, Ledger, Curator]) -> None:
    column = _kind(found[0], "sold", Boolean)
    assert (column.values, column.spelling, column.missing) == ((False, True), "True", False)


def test_marks_of_missing_values_do_not_make_numbers_text(found: tuple[Schema, Ledger, Curator]) -> None:
    assert _kind(found[0], "count", Integer).missing is True


def test_a_column_of_a_few_values_asks_for_their_counts_alone(found: tuple[Schema, Ledger, Curator]) -> None:
    assert _kind(found[0], "city", Categorical).values == ("Aachen", "Bonn")
    asked = {event.what for event in found[1].events if event.what.endswith("of city")}
    assert asked == {"profile of city", "values of city", "counts of city"}


def test_each_look_is_in_the_ledger_and_within_the_share(found: tuple[Schema, Ledger, Curator]) -> None:
    _, ledger, _ = found
    assert ledger.spent <= ledger.total / 4
    assert sum(e.delta for e in ledger.events if isinstance(e, PartitionEvent)) <= ledger.partition_delta
    kinds = {event.what: type(event) for event in ledger.events}
    assert kinds["shapes of diagnosis"] is PartitionEvent
    assert kinds["keys of visit"] is PartitionEvent
    assert kinds["distinct values of visit"] is GaussianEvent
    assert kinds["beginnings of diagnosis, 3 letters"] is GaussianEvent
    assert kinds["beginnings of diagnosis, 1 letters"] is GaussianEvent


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_numbers_of_distinct_values_move_by_the_rows_of_an_owner(adjacency: Adjacency) -> None:
    keys = [f"K{number:06d}" for number in range(4 * ROWS)]
    table = pa.table({"key": keys, "who": [f"o{number // 4}" for number in range(4 * ROWS)]})
    table = table.append_column("n", [[1] * (4 * ROWS)])
    schema, ledger, _ = _discover(table, unit=Unit("who", 3), adjacency=adjacency)
    assert schema["key"].kind == "identifier"
    squared = {e.what: e.l2_squared for e in ledger.events if isinstance(e, GaussianEvent | PartitionEvent)}
    whole = 9 * (2 if adjacency == "replace_one" else 1)
    assert squared["distinct values of key"] == squared["shapes of key"] == squared["keys of key"] == whole


def test_a_column_of_a_rule_stays_an_attribute() -> None:
    table = pa.table({"key": [f"K{number:06d}" for number in range(ROWS)], "b": [True, False] * (ROWS // 2)})
    columns = (Categorical(name="key", strict=False), Boolean(name="b", missing=False))
    rule = Forbidden(("key", "b"), [("K000001", True)])
    schema, _, _ = _discover(table, Schema(columns, (rule,)))
    assert isinstance(schema["key"], Categorical)


def test_a_table_of_free_text_alone_keeps_a_column() -> None:
    rng = np.random.default_rng(0)
    texts = [f"a note of {rng.integers(1 << 40)}" for _ in range(ROWS)]
    schema, _, curator = _discover(pa.table({"note": texts}))
    assert schema.domain.size(("note",)) >= 1
    assert all("note" not in m.clique for m in curator.measurements)


@pytest.mark.parametrize(
    ("shape", "lengths", "endings"),
    [
        (r"[A-Z][0-9]{2}\.[0-9]", (3, 1), ("", "")),
        ("[0-9]{5}", (3, 1), ("[0-9]{2}", "[0-9]{4}")),
        ("[0-9]{6}", (4, 2), ("[0-9]{2}", "[0-9]{4}")),
        ("[A-Z][0-9]{5}", (3, 1), ("[0-9]{3}", "[0-9]{5}")),
        ("[A-Z]{2}[0-9]", (2,), ("[0-9]",)),
        ("[A-Z]{9}[0-9]", (3,), ("[A-Z]{6}[0-9]",)),
    ],
)
def test_where_codes_are_cut(shape: str, lengths: tuple[int, ...], endings: tuple[str, ...]) -> None:
    assert cut_lengths(shape) == lengths
    assert tuple(complete_shape(shape, length) for length in lengths) == endings


STATES = [state for state in find_list(["Ohio", "Iowa", "Utah"])[1] if state != "Puerto Rico"]  # type: ignore[index]


def _states() -> pa.Table:
    """Half of the rows in four states, the others even over the rest; two columns beside them."""
    rng = np.random.default_rng(3)
    rare = [state for state in STATES if state not in ("Ohio", "Iowa", "Utah", "Texas")]
    drawn = np.where(
        rng.random(ROWS) < 0.5, rng.choice(["Ohio", "Iowa", "Utah", "Texas"], ROWS), rng.choice(rare, ROWS)
    )
    sex, ward = rng.choice(["F", "M"], ROWS), rng.choice(["north", "south", "west"], ROWS)
    return pa.table({"state": drawn, "sex": sex, "ward": ward})


@pytest.mark.parametrize(
    ("columns", "epsilon"), [(("state", "sex", "ward"), 0.5), (("state",), 0.16)], ids=["three", "one"]
)
def test_values_of_a_public_list_are_counted_without_a_threshold(
    columns: tuple[str, ...], epsilon: float
) -> None:
    """Those that no search could tell from the texts of one owner have a code, and their counts are right."""
    table = _states().select(list(columns))
    schema, ledger, curator = _discover(table, epsilon=epsilon)
    column = _kind(schema, "state", Categorical)
    searched = next(e for e in ledger.events if e.what == "values of state")
    assert isinstance(searched, PartitionEvent)
    held = Counter(table["state"].to_pylist())
    below = [state for state in STATES if held[state] < searched.threshold / 2]
    assert len(below) > 30
    assert len(set(below) & set(column.values or ())) > 0.7 * len(below)
    assert "Puerto Rico" not in held
    looks = [e for e in ledger.events if e.what.startswith("counts of state by the public list ")]
    assert len(looks) == 1
    assert isinstance(looks[0], GaussianEvent)
    assert looks[0].l2_squared == 1
    marginal = next(m for m in curator.measurements if m.clique == ("state",))
    truth = np.array([held[str(value)] for value in column.values or ()])
    listed = slice(0, len(truth))
    assert (np.abs(marginal.values[listed] - truth) < 5 * marginal.sigmas[listed] + 3).all()


def test_a_list_is_found_by_its_rows_where_no_value_is_frequent_enough() -> None:
    """Before, such a column was left out: no search could tell any of its values from one owner's text."""
    rng = np.random.default_rng(6)
    table = pa.table({"state": rng.choice(STATES, 8_000), "sex": rng.choice(["F", "M"], 8_000)})
    schema, ledger, _ = _discover(table, epsilon=0.4)
    searched = next(e for e in ledger.events if e.what == "values of state")
    assert isinstance(searched, PartitionEvent)
    assert max(Counter(table["state"].to_pylist()).values()) < 0.7 * searched.threshold
    look = next(e for e in ledger.events if e.what == "public lists of state")
    assert isinstance(look, GaussianEvent)
    assert look.l2_squared == MOST_LISTS
    values = _kind(schema, "state", Categorical).values or ()
    assert len(set(values) & set(STATES)) > 0.8 * len(STATES)
    assert lists_used([event.what for event in ledger.events]) == {"state": "states of the US"}


def test_no_list_is_found_where_half_of_the_rows_are_on_one_or_noise_hides_them() -> None:
    rng = np.random.default_rng(7)
    towns = [f"town {number}" for number in rng.integers(0, 4_000, 8_000)]
    table = pa.table(
        {"place": np.where(rng.random(8_000) < 0.6, rng.choice(STATES, 8_000), towns), "town": towns}
    )
    _, ledger, _ = _discover(table, epsilon=0.4)
    asked = [event.what for event in ledger.events]
    assert {"public lists of place", "public lists of town"} <= {*asked}
    assert not lists_used(asked)
    noisy = np.zeros(len(PUBLIC_LISTS))
    places = {name: place for place, name in enumerate(PUBLIC_LISTS)}
    both, states = (
        places["states of the US and provinces of Canada, codes"],
        places["states of the US, codes"],
    )
    noisy[[both, states]] = 1000.0, 990.0
    assert choose_list(noisy, 10.0, 1000.0) == (
        "states of the US, codes",
        PUBLIC_LISTS["states of the US, codes"],
    )
    noisy[states] = 850.0
    assert (choose_list(noisy, 10.0, 1000.0) or ("",))[0] == "states of the US and provinces of Canada, codes"
    assert choose_list(noisy, 10.0, 1300.0) is None
    assert choose_list(noisy, 300.0, 1000.0) is None


def test_released_values_say_whether_a_look_at_lists_is_worth_it() -> None:
    assert may_fit_list([])
    assert may_fit_list(["Ohio", "Utah"])
    assert not may_fit_list(["Ohio", "Bonn"])
    assert count_by_list(["Georgia", "Bonn", "Ohio"], [2, 7, 3]).sum() == 4 * 2 + 2 * 3


def test_no_look_is_taken_where_all_values_of_a_list_are_there_or_none_fits() -> None:
    rng = np.random.default_rng(4)
    days = rng.choice(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], ROWS)
    towns = np.where(rng.random(ROWS) < 0.5, "Bonn", [f"town {n}" for n in rng.integers(0, 300, ROWS)])
    _, ledger, _ = _discover(pa.table({"day": days, "town": towns}))
    assert not [event.what for event in ledger.events if event.what.startswith("counts of")]


def test_searching_together_finds_values_that_searching_alone_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows with a frequent value in all columns but one count whole for the text of that one."""
    rng = np.random.default_rng(5)
    table = {}
    for place in range(8):
        rare = [f"r{place}-{number}" for number in rng.integers(0, 5, ROWS)]
        table[f"t{place}"] = np.where(rng.random(ROWS) < 0.9, f"often {place}", rare)
    found = []
    for least in (3, 9):
        monkeypatch.setattr("margrave.measure.discovery.text.LEAST_TOGETHER", least)
        schema, ledger, _ = _discover(pa.table(table), epsilon=0.42)
        searches = [event for event in ledger.events if isinstance(event, PartitionEvent)]
        assert sum(event.delta for event in searches) <= ledger.partition_delta
        assert ledger.spent <= ledger.total / 4
        found.append([len(_kind(schema, name, Categorical).values or ()) for name in table])
    together, alone = found
    assert min(together) == 6
    assert max(alone) <= 3


def test_weights_of_a_row_stay_within_what_is_declared() -> None:
    assert all(held * weight_of(held) ** 2 <= WEIGHT**2 for held in range(1, 2000))
    assert all(held * (weight_of(held) + 1) ** 2 > WEIGHT**2 for held in range(1, 2000))


def test_the_list_is_named_where_a_release_is_read() -> None:
    release = (
        Synthesizer("independent", epsilon=1, delta=1e-6, not_private_test_seed=0).fit(_states()).release
    )
    used = lists_used([event.what for event in release.events])
    assert used == {"state": "states of the US"}
    assert [note for note in column_notes(release) if "public list 'states of the US'" in note]
    assert "on the public list “states of the US”" in str(handling_section(release))


def test_the_words_of_a_look_are_read_back() -> None:
    looks = [name_counts(column, name) for column in ("a", "by the public list 'x'") for name in PUBLIC_LISTS]
    for look, name in zip(looks, [*PUBLIC_LISTS] * 2, strict=True):
        ((_, found),) = lists_used([look, name_counts("b", "")]).items()
        assert found == name


def test_public_lists_hold_each_value_once_and_fit_themselves() -> None:
    for name, words in PUBLIC_LISTS.items():
        assert len(set(words)) == len(words) > 2, name
        assert all(word and word == word.strip() for word in words), name
        fitting = find_list(words)
        assert fitting is not None
        assert set(words) <= set(fitting[1])
    assert len(PUBLIC_LISTS["countries, ISO 3166 codes of two letters"]) == 249
    assert len(PUBLIC_LISTS["states of the US, codes"]) == 56
    assert find_list(["Bonn", "Aachen", "Jena"]) is None


def test_numbers_without_a_beginning_are_drawn_of_the_digits_that_are_left() -> None:
    column = Categorical(
        name="id", values=("7",), missing=False, prefixes=("1", "29"), endings=("[0-9]{2}", "[0-9]{2}")
    )
    counts = np.array([40.0, 900.0, 100.0])
    assert find_rest_shape({"[0-9]{3}": 1000.0, "[0-9]{2}": 300.0}, column, counts) == "[1-9][0-9]"
    assert find_rest_shape({"[0-9]{3}": 1500.0, "[0-9]{2}": 300.0}, column, counts) == "[1-9][0-9]{2}"
    assert find_rest_shape({"[0-9]{3}": 1000.0, "[0-9]": 300.0}, column, counts) == "[0-9]"
    assert find_rest_shape({"[0-9]{3}": 1000.0, "[A-Z][0-9]": 300.0}, column, counts) == ""
    assert find_rest_shape({"[0-9]{3}": 9.0}, Categorical(name="id", values=("7",)), counts) == ""


@pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
def test_subjects_of_a_panel_are_numbers_in_all_rows(tmp_path: Path) -> None:
    """Numbers of subjects, each in several rows, fall back to beginnings; the others stay numbers."""
    subjects = np.repeat(np.arange(1, 538), 4)
    path = tmp_path / "panel.csv"
    pa_csv.write_csv(pa.table({"id": subjects, "age": np.tile([7, 8, 9, 10], 537)}), path)
    for seed in range(1, 4):
        synthesis = Synthesizer("independent", epsilon=1.0, not_private_test_seed=seed).fit(path)
        drawn = synthesis.sample(2000, rng=0)["id"].to_pylist()
        assert all(re.fullmatch("[1-9][0-9]{0,2}|0", str(one)) for one in drawn)
