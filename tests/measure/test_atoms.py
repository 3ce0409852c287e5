"""Atoms: values with many rows of their own come back exactly, and where there are none nothing is made
up."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

from margrave.engines.opening import open_source
from margrave.measure.curator import Curator
from margrave.measure.discovery.values import (
    Histogram,
    are_single,
    has_spikes,
    split_atoms,
)
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import PartitionEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.columns import Binned, Integer, Real
from margrave.schema.draws import real_numbers, whole_numbers
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

ROWS = 40_000
PLAIN = Real(name="x")


def _discovered(table: Any, seed: int = 0, partition: Fraction = Fraction(1, 10**7)) -> tuple[Schema, Ledger]:
    source, _ = open_source(table)
    ledger = Ledger(
        epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=ZCDP(), partition_delta=partition
    )
    return Curator(source, ledger, SeededSource(seed)).discover(None, ledger.total / 3), ledger


def _weights(column: Binned) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    assert column.fine is not None
    weights = np.asarray(column.weights)
    return np.asarray(column.fine)[:-1], np.asarray(column.fine)[1:], weights / weights.sum()


@pytest.mark.parametrize(
    ("kind", "atom", "share"),
    [("code", 999, 0.157), ("percent", 100.0, 0.57), ("amount", 5402.19, 0.05), ("round", 36_000, 0.03)],
)
def test_values_with_many_rows_come_back_exactly(kind: str, atom: float, share: float) -> None:
    rng = np.random.default_rng(1)
    rest = {
        "code": rng.poisson(6, ROWS),
        "percent": (rng.beta(5, 2, ROWS) * 100).round(1),
        "amount": rng.lognormal(8, 1, ROWS).round(2),
        "round": rng.lognormal(10, 0.8, ROWS).astype(np.int64),
    }[kind]
    values = np.where(rng.random(ROWS) < share, atom, rest).astype(rest.dtype)
    column = _discovered(pa.table({"x": values}))[0]["x"]
    assert isinstance(column, Binned)
    low, high, weights = _weights(column)
    cell = int(np.searchsorted(low, atom, side="right")) - 1
    assert low[cell] == atom
    assert high[cell] == (atom + 1 if isinstance(column, Integer) else np.nextafter(atom, np.inf))
    assert weights[cell] == pytest.approx((values == atom).mean(), rel=0.1)
    assert {low[cell], high[cell]} <= set(column.edges or ())  # a code of its own
    bins = np.full(200, list(column.edges or ()).index(atom))
    draw = whole_numbers if isinstance(column, Integer) else real_numbers
    assert set(draw(bins, column, rng).tolist()) == {atom}  # type: ignore[operator]


def test_where_no_value_stands_out_no_look_is_paid_for() -> None:
    rng = np.random.default_rng(2)
    schema, ledger = _discovered(
        pa.table({"x": rng.uniform(0.0, 1000.0, ROWS), "n": rng.integers(0, 20, ROWS)})
    )
    assert not [event for event in ledger.events if "atoms" in event.what]
    column = schema["x"]
    assert isinstance(column, Binned)
    low, high, _ = _weights(column)
    assert ((high == np.nextafter(low, np.inf)) <= (low == 0)).all()


def test_a_value_of_few_rows_is_never_made_an_atom() -> None:
    rng = np.random.default_rng(3)
    values = np.where(np.arange(ROWS) < 5, 777.25, rng.choice([100.0, 250.5], ROWS) + rng.normal(0, 30, ROWS))
    for seed in range(5):
        column = _discovered(pa.table({"x": values}), seed)[0]["x"]
        assert isinstance(column, Binned)
        assert 777.25 not in _weights(column)[0]


def test_cells_that_stand_out_are_found_and_slopes_are_not() -> None:
    edges = np.arange(0.0, 101.0)
    noisy = np.linspace(0.0, 2000.0, 100)
    assert not has_spikes(edges, noisy, 10.0, 0.0)
    noisy[40] += 900.0
    assert has_spikes(edges, noisy, 10.0, 0.0)
    assert not has_spikes(edges, noisy, 10.0, 1.0)  # each cell is one number already


def test_numbers_that_are_not_round_are_found_to_the_last_bit() -> None:
    rng = np.random.default_rng(4)
    sizes = np.log([1, 2, 3, 4, 5, 6])
    values = rng.choice(sizes, ROWS, p=[0.1, 0.15, 0.2, 0.3, 0.15, 0.1])
    schema, ledger = _discovered(pa.table({"size": values}))
    column = schema["size"]
    assert isinstance(column, Binned)
    low, _, weights = _weights(column)
    found = dict(zip(low.tolist(), weights.tolist(), strict=True))
    for size in sizes:
        assert found[size] == pytest.approx((values == size).mean(), abs=0.01)
    assert not [event for event in ledger.events if event.what == "grids of size"]  # nothing else is left


def test_numbers_in_text_and_dates_are_found_as_well(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    rare = rng.random(ROWS) < 0.4
    days = np.datetime64("1990-01-01") + rng.integers(0, 9000, ROWS)
    amounts = np.where(rare, 17.25, rng.lognormal(8, 1, ROWS).round(2))
    text = np.where(rng.random(ROWS) < 0.5, [f"{value:.2f}" for value in amounts], amounts.astype(str) + "0")
    day = np.where(rare, np.datetime64("1999-12-31"), days)
    pa_csv.write_csv(pa.table({"day": day, "text": text.tolist()}), tmp_path / "table.csv")
    schema, _ = _discovered(tmp_path / "table.csv")
    for name, value in (("day", 10_956.0), ("text", 17.25)):
        column = schema[name]
        assert isinstance(column, Binned)
        low, _, weights = _weights(column)
        assert weights[low.tolist().index(value)] == pytest.approx(0.4, abs=0.05)


def test_a_search_is_in_the_ledger_with_its_share_of_delta() -> None:
    values = np.where(np.arange(ROWS) % 3 == 0, 777.25, np.random.default_rng(6).normal(0, 300, ROWS))
    _, ledger = _discovered(pa.table({"x": values}))
    (event,) = (event for event in ledger.events if event.what == "atoms of x")
    assert isinstance(event, PartitionEvent)
    assert event.delta <= Fraction(1, 10**7)
    assert event.threshold > 5 * float(event.sigma_squared) ** 0.5


def test_without_delta_no_number_is_searched_for() -> None:
    table = pa.table({"x": np.where(np.arange(ROWS) % 3 == 0, 777.25, np.arange(ROWS) / 7.0)})
    schema, ledger = _discovered(table, partition=Fraction(0))
    assert not [event for event in ledger.events if "atoms" in event.what]
    assert schema.known


def test_a_rest_that_is_not_evident_gets_little_weight() -> None:
    edges, cells = np.array([0.0, 10.0, 20.0, 30.0]), np.array([10.0, 300.0, 20.0])
    found = Histogram(edges, cells, np.full(3, 100.0), cells, are_single(edges, 0.0))
    split = split_atoms(found, [(12.5, 260.0)], 20.0, PLAIN)
    at = split.edges[:-1].tolist().index(12.5)
    assert split.weights[at] == pytest.approx(260.0 + 40.0 * 400.0 / 500.0)
    assert split.weights[[at - 1, at + 1]].sum() == pytest.approx(4.0)
    clear = split_atoms(found, [(12.5, 100.0)], 20.0, PLAIN)
    assert clear.weights[at] == pytest.approx(100.0)
    assert clear.weights[[at - 1, at + 1]].sum() == pytest.approx(200.0)


def test_splitting_keeps_the_sums() -> None:
    cells = np.array([10.0, 300.0, 20.0])
    edges = np.array([0.0, 10.0, 20.0, 30.0])
    found = Histogram(edges, cells, np.full(3, 4.0), cells, are_single(edges, 0.0))
    split = split_atoms(found, [(12.5, 200.0), (10.0, 30.0), (99.0, 5.0)], 3.0, PLAIN)
    assert split.noisy.sum() == pytest.approx(330.0)
    assert split.weights.sum() == pytest.approx(330.0)
    assert (np.diff(split.edges) > 0).all()
    at = split.edges[:-1].tolist().index(12.5)
    assert split.alone[at]
    assert (split.noisy[at], split.variances[at]) == (200.0, 9.0)
    assert split.edges[at + 1] == np.nextafter(12.5, np.inf)
    assert split.alone.sum() == 2
