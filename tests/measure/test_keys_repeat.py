"""Keys that come back: found under noise, drawn as often, kept in a release; texts that tell too little."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave import Synthesizer, Unit, load
from margrave.cli.released import column_notes
from margrave.errors import SchemaError
from margrave.measure.discovery.keys import KeyCounts, list_steps
from margrave.schema.columns import Categorical, Identifier, Integer, Omitted
from margrave.schema.columns.repeats import rows_per_key, share_rows
from margrave.schema.draws import repeated_numbers
from margrave.schema.queries import count_repeats
from margrave.schema.schema import Schema
from margrave.schema.storage.arrow import decode_column

ORDERS, CUSTOMERS = 8_000, 2_000
KEYS: dict[str, Callable[[np.random.Generator], Any]] = {
    "text": lambda rng: [f"CUST{number:07d}" for number in rng.choice(10**7, CUSTOMERS, replace=False)],
    "code with years": lambda rng: [
        f"{2021 + number % 3}-{number:05d}" for number in rng.choice(10**5, CUSTOMERS, replace=False)
    ],
    "mail": lambda rng: [
        f"u{number:07d}@a.example" for number in rng.choice(10**7, CUSTOMERS, replace=False)
    ],
    "number": lambda rng: rng.choice(900_000, CUSTOMERS, replace=False) + 100_000,
}


def _owners(seed: int = 0) -> np.ndarray:
    """The customer of each order: one order each at least, and a skew number of others."""
    rng = np.random.default_rng(seed)
    weights = rng.gamma(1.0, 1.0, CUSTOMERS)
    more = rng.multinomial(ORDERS - CUSTOMERS, weights / weights.sum())
    return rng.permutation(np.repeat(np.arange(CUSTOMERS), 1 + more))


def orders(kind: str) -> pa.Table:
    """Orders of customers who come back, each order with a key of its own, and a ward."""
    rng = np.random.default_rng(1)
    customers = np.array(KEYS[kind](rng))
    return pa.table(
        {
            "order": [f"O{number:07d}" for number in rng.choice(10**7, ORDERS, replace=False)],
            "customer": customers[_owners()],
            "ward": rng.choice(["east", "north", "south"], ORDERS),
        }
    )


def _sizes(values: Any) -> Counter[int]:
    """How many values are in so many rows."""
    return Counter(Counter(values).values())


def _far(found: Counter[int], real: Counter[int]) -> float:
    """The total variation between the numbers of rows of keys."""
    first, second = (sum(one.values()) for one in (found, real))
    return sum(abs(found[size] / first - real[size] / second) for size in found | real) / 2


def _fit(table: pa.Table, epsilon: float, **options: Any) -> Any:
    return Synthesizer("independent", epsilon=epsilon, delta=1e-9, not_private_test_seed=0, **options).fit(
        table
    )


@pytest.mark.parametrize("kind", sorted(KEYS))
@pytest.mark.parametrize(("epsilon", "keys", "far"), [(1.0, 0.2, 0.4), (3.0, 0.08, 0.25)])
def test_synthetic_keys_come_back_as_real_ones(kind: str, epsilon: float, keys: float, far: float) -> None:
    table = orders(kind)
    synthesis = _fit(table, epsilon)
    rows = synthesis.sample_arrow(rng=np.random.default_rng(0))
    made, real = _sizes(rows["customer"].to_pylist()), _sizes(table["customer"].to_pylist())
    each = sum(made.values()) / rows.num_rows
    assert each == pytest.approx(CUSTOMERS / ORDERS, rel=keys)
    assert _far(made, real) < far
    # A key of their own for all rows is told from keys that come back.
    assert len(rows["order"].unique()) == rows.num_rows
    assert isinstance(synthesis.schema["order"], Identifier)
    said = " ".join(column_notes(synthesis.release))
    assert (
        f"'customer': {'numbers' if kind == 'number' else 'texts'} that are made up come back as often"
        in said
    )
    assert "'order': texts that" not in said


def test_a_release_keeps_them_and_draws_as_many_rows_as_are_asked_for(tmp_path: Path) -> None:
    made = _fit(orders("text"), 3.0)
    made.save(tmp_path / "r.margrave")
    again = load(tmp_path / "r.margrave")
    assert again.schema == made.schema
    assert Schema.from_json(made.schema.to_json()) == made.schema
    column = again.schema["customer"]
    assert isinstance(column, Categorical)
    assert rows_per_key(column.repeats) == pytest.approx(ORDERS / CUSTOMERS, rel=0.08)
    for rows in (0, 1, 400, 30_000):
        drawn = again.sample_arrow(rows, rng=np.random.default_rng(rows))["customer"]
        assert len(drawn) == rows
        if rows > 1:
            # Fewer rows are those of fewer keys, with as many rows each.
            assert rows / len(drawn.unique()) == pytest.approx(ORDERS / CUSTOMERS, rel=0.15)


def test_the_owner_has_no_column_and_other_keys_come_back() -> None:
    table = orders("text").append_column("who", [[f"p{one}" for one in _owners(3)]])
    synthesis = _fit(table, 20.0, unit=Unit("who", 4))
    assert "who" not in synthesis.schema.names
    (event,) = (one for one in synthesis.release.events if one.what == "distinct values of customer")
    assert event.l2_squared == 16
    rows = synthesis.sample_arrow(rng=np.random.default_rng(0))
    assert len(rows["customer"].unique()) < rows.num_rows / 2


def test_numbers_that_measure_are_drawn_by_their_cells() -> None:
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "grams": rng.normal(3_300, 400, ORDERS).round().astype(int),
            "cells": rng.gamma(3.0, 200, ORDERS).round().astype(int),
            "ward": rng.choice(["east", "north", "south"], ORDERS),
        }
    )
    synthesis = _fit(table, 3.0)
    for name in ("grams", "cells"):
        assert "distinct values of " + name in {event.what for event in synthesis.release.events}
        column = synthesis.schema[name]
        assert isinstance(column, Integer)
        assert (column.unique, column.repeats) == (False, ())


def _wide(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """So many rows of one pattern with a thousand million texts."""
    return np.array([1e9]), np.array([float(rows)])


def test_values_that_come_back_as_even_draws_do_are_drawn_evenly() -> None:
    """Two codes of a thousand numbers each, of which one is dense."""
    rng, rows = np.random.default_rng(0), np.array([9_000, 500])
    held = np.concatenate([code * 1_000 + rng.integers(0, 1_000, rows[code]) for code in (0, 1)])
    steps = list_steps(float(rows.sum()))
    found = KeyCounts(steps, count_repeats(np.unique(held, return_counts=True)[1], steps) + 0.0, 10.0)
    assert found.fit_repeats((np.array([1e3, 1e3]), rows + 0.0), 1.0) == ()
    assert found.fit_repeats((np.array([1e6, 1e6]), rows + 0.0), 1.0) != ()


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=60),
    sigma=st.sampled_from([0.5, 5.0, 60.0]),
    seed=st.integers(0, 99),
)
def test_any_noise_gives_sound_shares(sizes: list[int], sigma: float, seed: int) -> None:
    rows, steps = sum(sizes), list_steps(float(sum(sizes)))
    noise = np.random.default_rng(seed).normal(0, sigma, len(steps))
    counts = count_repeats(np.array(sizes), steps)
    repeats = KeyCounts(steps, counts + noise, sigma).fit_repeats(_wide(rows), 1.0)
    assert Categorical(name="x", values=(), patterns=("[0-9]{9}",), repeats=repeats).repeats == repeats
    assert rows_per_key(repeats) >= 1.0
    owners = share_rows(rows, repeats, np.random.default_rng(0))
    assert len(owners) == rows


def test_values_that_are_listed_are_none_of_the_keys() -> None:
    steps = list_steps(1_000.0)
    counts = count_repeats(np.array([300, 200, *[2] * 100]), steps).astype(float)
    repeats = KeyCounts(steps, counts, 0.5).fit_repeats(_wide(200), 1.0, [300.2, 199.7])
    assert repeats[:2] == ((1, 1.0), (2, 1.0))
    assert rows_per_key(repeats) == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize(
    "repeats",
    [((2, 1.0),), ((1, 0.9),), ((1, 1.0), (2, 1.1)), ((1, 1.0), (1, 0.5)), ((1, 1.0), (3, -0.1)), (1,)],
)
def test_shares_that_are_none_are_refused(repeats: Any) -> None:
    with pytest.raises(SchemaError, match="repeats"):
        Integer(name="x", edges=(0, 10), missing=False, repeats=repeats)


def test_texts_of_a_small_pattern_are_apart_while_there_are_enough() -> None:
    column = Categorical(
        name="x",
        values=("A7",),
        patterns=("A[0-9]",),
        missing=False,
        repeats=((1, 1.0), (10, 1.0), (11, 0.0)),
    )
    texts = decode_column(np.ones(90, dtype=np.uint8), column, np.random.default_rng(0)).to_pylist()
    # Nine keys of ten rows for nine texts that are not listed.
    assert sorted(Counter(texts).values()) == [10] * 9
    assert "A7" not in texts


def test_numbers_with_a_cell_of_their_own_stay_as_they_are_drawn() -> None:
    column = Integer(
        name="x",
        edges=(0, 1_000),
        fine=(0, 7, 8, 1_000),
        weights=(5.0, 90.0, 5.0),
        missing=False,
        repeats=((1, 1.0), (5, 1.0), (6, 0.0)),
    )
    found = repeated_numbers(
        np.zeros(10_000, dtype=np.int64), column, np.random.default_rng(0), np.arange(10_000)
    )
    assert (found == 7).mean() == pytest.approx(0.9, abs=0.02)
    assert np.median(list(Counter(found[found > 7].tolist()).values())) == 5


def test_a_text_that_is_nearly_always_other_is_left_out() -> None:
    rng = np.random.default_rng(4)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    rare = ["".join(word) for word in letters[rng.integers(0, 26, (ORDERS, 9))]]
    table = pa.table(
        {
            # One of ten rows has a frequent name, and four of ten a frequent town.
            "name": [rare[i] if i % 10 else "smith" for i in range(ORDERS)],
            "town": [rare[-i] if i % 10 > 3 else f"town {'abcd'[i % 10]}" for i in range(ORDERS)],
            "ward": rng.choice(["east", "north", "south"], ORDERS),
        }
    )
    synthesis = _fit(table, 3.0)
    name, town = synthesis.schema["name"], synthesis.schema["town"]
    assert isinstance(name, Omitted)
    assert isinstance(town, Categorical)
    assert len(town.values or ()) == 4
    assert f"'name' is left out: {name.reason}" in column_notes(synthesis.release)
    assert "one in five" in name.reason
    assert "smith" not in repr(synthesis.schema)
    kept = _fit(table, 3.0, schema=Schema((Categorical(name="name", rare=0.01),)))
    assert isinstance(kept.schema["name"], Categorical)
