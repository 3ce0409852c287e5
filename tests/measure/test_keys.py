"""Columns of numbers of which nearly every row has one of its own: found so, drawn so, and priced."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave import Integer, Schema, Synthesizer, Unit
from margrave.errors import NotPrivateWarning
from margrave.measure.discovery.keys import KeyCounts, count_keys
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours
from margrave.schema.draws import unique_numbers
from seeded_noise import SeededSource

ROWS = 20_000


def table() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "number": rng.permutation(ROWS) + 1,
            "account": rng.choice(9_000_000, ROWS, replace=False) + 1_000_000,
            "customer": rng.integers(1, ROWS // 3, ROWS),
            "age": rng.integers(18, 90, ROWS),
        }
    )


def test_keys_are_found_and_drawn_once_each() -> None:
    synthesis = Synthesizer("independent", epsilon=2.0, not_private_test_seed=0).fit(table())
    with pytest.warns(NotPrivateWarning):
        rows = synthesis.sample(rng=0)
    unique = {name: getattr(synthesis.schema[name], "unique", None) for name in rows.column_names}
    assert unique == {"number": True, "account": True, "customer": False, "age": False}
    for name in ("number", "account"):
        assert len(rows[name].unique()) == len(rows)
    assert len(rows["customer"].unique()) < len(rows) / 2
    asked = [event.what for event in synthesis.release.events]
    assert "distinct values of account" in asked
    assert "distinct values of age" not in asked  # there are fewer numbers than rows, as released bins say


def test_a_declared_key_is_asked_nothing() -> None:
    schema = Schema((Integer(name="account", unique=True),))
    synthesis = Synthesizer("independent", epsilon=2.0, schema=schema, not_private_test_seed=0).fit(table())
    assert "distinct values of account" not in [event.what for event in synthesis.release.events]
    column = synthesis.schema["account"]
    assert isinstance(column, Integer)
    assert column.unique
    assert Schema.from_json(synthesis.schema.to_json()) == synthesis.schema


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_look_is_priced_for_what_an_owner_changes(adjacency: Adjacency) -> None:
    for most in (1, 4):
        unit = Unit("who", most) if most > 1 else Unit()
        ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(unit, adjacency), accountant=ZCDP())
        gaussian = Gaussian(ledger, SeededSource(0))
        found = count_keys("id", gaussian, Fraction(1, 1000), (1, 2), lambda: np.array([10**6, 0]))
        assert found.are_distinct(1e6, 1.0)
        (event,) = ledger.events
        assert isinstance(event, GaussianEvent)
        assert event.l2_squared == most**2 * (2 if adjacency == "replace_one" else 1)
        assert event.what == "distinct values of id"
        assert ledger.spent <= Fraction(1, 1000)


def test_numbers_that_come_back_are_no_keys_by_chance() -> None:
    """Counts of cells in blood, 484 different ones in 2,139 rows, under noise of 382, were once."""
    drawn = 484.0 + np.random.default_rng(0).normal(0.0, 382.0, 4_000)
    taken = [KeyCounts((1,), np.array([one]), 382.0).are_distinct(2_139.0, 60.0) for one in drawn]
    assert sum(taken) <= 8
    assert KeyCounts((1,), np.array([2_100.0]), 382.0).are_distinct(2_139.0, 60.0)


def test_amounts_that_are_often_0_are_no_keys_though_the_others_are_all_different() -> None:
    rng = np.random.default_rng(0)
    pay = np.where(rng.random(6_000) < 0.15, 0, rng.permutation(900_000)[:6_000] + 1)
    table = pa.table({"pay": pay, "number": rng.permutation(6_000) + 1})
    for epsilon in (0.3, 1.0):
        synthesis = Synthesizer("independent", epsilon=epsilon, delta=1e-9, not_private_test_seed=0).fit(
            table
        )
        found, number = synthesis.schema["pay"], synthesis.schema["number"]
        assert isinstance(found, Integer)
        assert isinstance(number, Integer)
        assert (found.unique, number.unique) == (False, True)
        drawn = np.array(synthesis.sample_arrow()["pay"])
        assert 0.1 < (drawn == 0).mean() < 0.2


def test_wide_noise_decides_nothing() -> None:
    found = KeyCounts((1, 2), np.array([1000.0, 0.0]), 7000.0)
    assert not found.are_distinct(1000.0, 1.0)
    assert found.fit_repeats((np.array([1e9]), np.array([1000.0])), 1.0) == ()


@given(
    edges=st.lists(st.integers(-500, 500), min_size=2, max_size=6, unique=True).map(sorted),
    step=st.sampled_from([1, 3, 10]),
    seed=st.integers(0, 99),
)
def test_no_number_is_drawn_twice_while_there_are_enough(edges: list[int], step: int, seed: int) -> None:
    grids = ((float(step), 1.0),) if step > 1 else ()
    column = Integer(name="x", edges=tuple(edges), missing=True, grids=grids, unique=True)
    room = (edges[-1] - 1) // step - -(-edges[0] // step) + 1
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, column.present, max(room, 0) + 20)
    rows = rng.permutation(len(bins))[: max(room, 0)]  # as many as there are numbers
    found = unique_numbers(bins, column, rng, rows)[rows]
    assert len(np.unique(found)) == len(rows)
    assert (found % step == 0).all()
    if len(found):
        assert found.min() >= edges[0]
        assert found.max() < edges[-1]


def test_numbers_drawn_once_stay_in_their_bins_where_there_is_room() -> None:
    column = Integer(name="x", edges=(0, 100, 10_000), missing=False, unique=True)
    bins = np.repeat([0, 1], [90, 5_000])
    found = unique_numbers(bins, column, np.random.default_rng(0), np.arange(len(bins)))
    assert len(np.unique(found)) == len(found)
    assert (np.searchsorted([0, 100], found, side="right") - 1 == bins).mean() > 0.995


def test_more_rows_than_numbers_repeat_some() -> None:
    column = Integer(name="x", edges=(0, 10), missing=False, unique=True)
    found = unique_numbers(np.zeros(30, dtype=np.int64), column, np.random.default_rng(0), np.arange(30))
    assert set(found.tolist()) <= set(range(10))
