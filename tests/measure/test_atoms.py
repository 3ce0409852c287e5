"""Atoms: values with many rows of their own come back exactly, and where there are none nothing is made
up."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.measure.discovery.numeric import SHARES
from margrave.measure.discovery.values import (
    MOST_NUMBERS,
    Atom,
    Histogram,
    are_single,
    atom_edges,
    binary_numbers,
    count_looks,
    find_spikes,
    place_atoms,
    round_numbers,
    split_atoms,
)
from margrave.privacy.accounting.accountants import ZCDP, event_rho
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.columns import Binned, Date, Integer, Moment, Real
from margrave.schema.draws import real_numbers, whole_numbers
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

ROWS = 40_000
PLAIN = Real(name="x")


def _discovered(table: pa.Table, seed: int = 0, declared: Schema | None = None) -> tuple[Schema, Ledger]:
    source, _ = open_source(table)
    ledger = Ledger(
        epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=ZCDP(), partition_delta=Fraction(0)
    )
    return Curator(source, ledger, SeededSource(seed)).discover(declared, ledger.total / 3), ledger


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
    assert low[cell] == pytest.approx(atom, rel=1e-15)
    step = 1.0 if isinstance(column, Integer) else column.grids[-1][0]
    assert high[cell] <= (atom + step) * (1 + 1e-12)  # all values are on that step, so the cell holds one
    assert weights[cell] == pytest.approx((values == atom).mean(), rel=0.1)
    assert {low[cell], high[cell]} <= set(column.edges or ())  # a code of its own
    bins = np.full(200, list(column.edges or ()).index(atom))
    draw = whole_numbers if isinstance(column, Integer) else real_numbers
    assert set(draw(bins, column, rng).tolist()) == {atom}  # type: ignore[operator]


def test_values_that_are_not_round_come_back_exactly() -> None:
    """Means that were filled in, standard scores, amounts that were single precision once."""
    rng = np.random.default_rng(8)
    held = np.array([-1.204084686093323, 1 / 3, 167844.53125, 10.251476510067114])
    rest = rng.lognormal(1, 1, ROWS)
    place = rng.choice(5, ROWS, p=(0.2, 0.1, 0.1, 0.1, 0.5))
    values = np.where(place < 4, held[np.minimum(place, 3)], rest)
    column = _discovered(pa.table({"x": values}))[0]["x"]
    assert isinstance(column, Binned)
    low, high, weights = _weights(column)
    for value in held.tolist():
        cell = low.tolist().index(value)
        assert high[cell] == np.nextafter(value, np.inf)
        assert weights[cell] == pytest.approx((values == value).mean(), rel=0.1)
    drawn = real_numbers(rng.choice(column.present, ROWS, p=_bin_weights(column)), column, rng)
    shares = [(drawn == value).mean() for value in held.tolist()]
    assert shares == pytest.approx([(values == value).mean() for value in held.tolist()], abs=0.01)


def test_a_mean_that_was_filled_in_comes_back_from_few_rows() -> None:
    """Years of school, and 9.9372 for a quarter of 4,000 rows: seventeen deviations of noise. The second look
    at single values finds it, from which those that follow must not take."""
    rng = np.random.default_rng(10)
    values = np.where(rng.random(4_000) < 0.25, 9.9372, rng.binomial(18, 0.6, 4_000))
    for seed in range(6):
        source, _ = open_source(pa.table({"x": values}))
        ledger = Ledger(
            epsilon=0.2, delta=1e-6, neighbours=Neighbours(), accountant=ZCDP(), partition_delta=Fraction(0)
        )
        schema = Curator(source, ledger, SeededSource(seed)).discover(None, ledger.total / 3)
        column = schema["x"]
        assert isinstance(column, Binned)
        assert column.noise is not None
        assert column.noise > 50
        low, high, weights = _weights(column)
        assert high[low.tolist().index(9.9372)] <= 9.93731  # all numbers are on a step of a ten-thousandth
        assert weights[low.tolist().index(9.9372)] == pytest.approx(0.25, abs=0.06)


def _bin_weights(column: Binned) -> np.ndarray:
    low, _, weights = _weights(column)
    found = np.bincount(np.searchsorted(column.edge_array, low, side="right") - 1, weights=weights)
    return found / found.sum()


def test_many_numbers_close_together_are_no_atom_of_any() -> None:
    """A narrow lump of numbers that are all different is looked at down to single floats, which hold none."""
    rng = np.random.default_rng(9)
    lump = 7.3 + rng.random(ROWS) * 1e-9
    values = np.where(rng.random(ROWS) < 0.4, lump, rng.uniform(0.0, 100.0, ROWS))
    for seed in range(3):
        column = _discovered(pa.table({"x": values}), seed)[0]["x"]
        assert isinstance(column, Binned)
        low, high, weights = _weights(column)
        single = high == np.nextafter(low, np.inf)
        assert weights[single & (low != 0)].sum() < 0.01
        inside = (low >= 7.2) & (high <= 7.4)
        assert weights[inside].sum() == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.5, 2.5), (0.1, 0.3), (-8.0, -7.0), (5.0, np.nextafter(5.0, 6.0))]
)
def test_binary_numbers_come_down_to_single_floats(low: float, high: float) -> None:
    value = min(low + 0.625 * (high - low), float(np.nextafter(high, -np.inf)))
    looks = count_looks([(low, high)], PLAIN)
    for _ in range(looks):
        numbers = binary_numbers(low, high, MOST_NUMBERS // 2)
        assert 1 <= len(numbers) <= MOST_NUMBERS // 2
        assert ((numbers >= low) & (numbers < high)).all()
        place = int(np.searchsorted(numbers, value, side="right"))
        low = float(numbers[place - 1]) if place else low
        high = float(numbers[place]) if place < len(numbers) else high
    assert (low, high) == (value, np.nextafter(value, np.inf))


@pytest.mark.parametrize("step", [1.0, 0.5, 0.01, 0.0])
@pytest.mark.parametrize("share", [0.3, 0.02])
def test_the_greatest_declared_number_comes_back_exactly(step: float, share: float) -> None:
    """Before, none of its rows had it: bins were half open, and the declared end is a value."""
    rng = np.random.default_rng(5)
    values = rng.uniform(0.0, 100.0, ROWS)
    values = np.round(values / step) * step if step else values
    values = np.where(rng.random(ROWS) < share, 100.0, np.minimum(values, 100.0))
    declared = Schema((Real(name="x", lower=0.0, upper=100.0),))
    column = _discovered(pa.table({"x": values}), declared=declared)[0]["x"]
    assert isinstance(column, Binned)
    assert column.upper == 100.0
    low, _, weights = _weights(column)
    assert low[-1] == 100.0
    assert weights[-1] == pytest.approx((values == 100.0).mean(), rel=0.25)
    rows = real_numbers(np.full(100, column.present - 1), column, rng)
    assert rows.max() == 100.0


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


@pytest.mark.parametrize("value", [5e-324, -5e-324, 1e-320, 2.3e-308])
def test_a_number_nearest_to_zero_is_found(value: float) -> None:
    """It ended a run that had spent most of what it had."""
    column = _discovered(pa.table({"x": np.where(np.arange(ROWS) % 2 == 0, value, 0.0)}), 1)[0]["x"]
    assert isinstance(column, Binned)
    assert {0.0, value} <= set(_weights(column)[0])


def test_a_value_of_few_rows_is_never_made_an_atom() -> None:
    rng = np.random.default_rng(3)
    values = np.where(np.arange(ROWS) < 5, 777.25, rng.choice([100.0, 250.5], ROWS) + rng.normal(0, 30, ROWS))
    for seed in range(5):
        column = _discovered(pa.table({"x": values}), seed)[0]["x"]
        assert isinstance(column, Binned)
        assert 777.25 not in _weights(column)[0]


@pytest.mark.parametrize(
    ("low", "high", "column", "some"),
    [
        (96.0, 104.0, PLAIN, [96.0, 99.9, 100.0]),
        (0.25, 0.5, PLAIN, [0.3, 0.33, 0.4]),
        (992.0, 1008.0, Integer(name="x"), [992.0, 999.0, 1007.0]),
        (-8.0, -4.0, PLAIN, [-7.5, -5.0]),
        (0.0, 6e10, Moment(name="x"), [0.0, 5.94e10]),
        (18_000.0, 18_031.0, Date(name="x"), [18_000.0, 18_030.0]),
        (1.0, 2.0, Real(name="x", grids=((0.25, 1.0),)), [1.0, 1.25, 1.75]),
        (0.0, 2.0**-1010, PLAIN, [0.0]),
        (0.0, 2.0**-1070, PLAIN, []),
        (5e-324, 1e-323, PLAIN, []),
    ],
)
def test_round_numbers_of_a_cell(low: float, high: float, column: Binned, some: list[float]) -> None:
    found = round_numbers(low, high, 100, column)
    assert set(some) <= set(found.tolist())
    assert len(found) <= 100
    assert ((found >= low) & (found < high)).all()
    edges = atom_edges([(low, high)], column, again=False)
    assert (np.diff(edges) > 0).all()
    assert (edges[0], edges[-1]) == (low, high)


def test_cells_that_stand_out_are_found_and_slopes_are_not() -> None:
    edges = np.arange(0.0, 101.0)
    noisy = np.linspace(0.0, 2000.0, 100)
    assert find_spikes(edges, noisy, 10.0, 0.0) == []
    noisy[40] += 900.0
    assert find_spikes(edges, noisy, 10.0, 0.0) == [(40.0, 41.0)]
    assert find_spikes(edges, noisy, 10.0, 1.0) == []  # each cell is one number already


def test_an_atom_between_two_round_numbers_is_looked_for_once_more() -> None:
    spikes = [(100.0, 116.0)]
    edges = atom_edges(spikes, PLAIN, again=False)
    counts = np.histogram(np.full(500, 107.123), edges)[0].astype(float)
    atoms, closer = place_atoms(spikes, edges, counts, 5.0, PLAIN)
    assert atoms == []
    (low, high), *rest = closer
    assert low < 107.123 < high
    assert not rest
    edges = atom_edges(closer, PLAIN, again=True)
    counts = np.histogram(np.full(500, 107.123), edges)[0].astype(float)
    assert place_atoms(closer, edges, counts, 5.0, PLAIN)[0] == [Atom(107.123, 500.0, 5.0)]


def test_splitting_keeps_the_sums() -> None:
    cells = np.array([10.0, 300.0, 20.0])
    edges = np.array([0.0, 10.0, 20.0, 30.0])
    single = are_single(edges, 0.0)
    found = Histogram(edges, cells, np.full(3, 4.0), cells, single, single)
    atoms = [Atom(12.5, 250.0, 3.0), Atom(10.0, 30.0, 3.0), Atom(99.0, 5.0, 3.0)]
    split = split_atoms(found, atoms, PLAIN, lambda noisy, _: np.maximum(noisy, 0.0))
    assert split.noisy.sum() == pytest.approx(330.0)
    assert split.weights.sum() == pytest.approx(330.0)
    assert (np.diff(split.edges) > 0).all()
    at = split.edges[:-1].tolist().index(12.5)
    assert split.alone[at]
    assert (split.noisy[at], split.variances[at]) == (250.0, 9.0)
    assert split.edges[at + 1] == np.nextafter(12.5, np.inf)
    assert split.alone.sum() == 2


def test_an_atom_is_drawn_as_often_as_its_cell_says_where_the_rest_holds_nothing() -> None:
    """The cell's own count has less noise; without the rest, what the atom's look missed is the atom's."""
    edges, counts = np.array([0.0, 10.0, 20.0, 30.0]), np.array([0.0, 400.0, 0.0])
    none = np.zeros(3, dtype=np.bool_)
    found = Histogram(edges, counts, np.full(3, 25.0), counts, none, none)
    split = split_atoms(found, [Atom(12.5, 310.0, 50.0)], PLAIN, lambda noisy, _: np.zeros(len(noisy)))
    assert split.weights[split.edges[:-1] == 12.5] == pytest.approx(400.0)
    split = split_atoms(found, [Atom(12.5, 310.0, 50.0)], PLAIN, lambda *_: np.array([70.0, 80.0, 75.0]))
    assert split.weights[split.edges[:-1] == 12.5] == pytest.approx(320.0)
    assert split.weights.sum() == pytest.approx(400.0 + 70.0 + 75.0)


def test_of_atoms_that_hold_more_than_their_cell_the_lightest_is_noise() -> None:
    edges, counts = np.array([0.0, 10.0, 20.0]), np.array([0.0, 240.0])
    none = np.zeros(2, dtype=np.bool_)
    found = Histogram(edges, counts, np.full(2, 400.0), counts, none, none)
    both = [Atom(12.5, 230.0, 49.0), Atom(12.6, 200.0, 49.0)]
    split = split_atoms(found, both, PLAIN, lambda noisy, _: np.zeros(len(noisy)))
    assert split.edges[:-1][split.atoms].tolist() == [12.5]
    fewer = [Atom(12.5, 130.0, 49.0), Atom(12.6, 100.0, 49.0)]
    split = split_atoms(found, fewer, PLAIN, lambda noisy, _: np.zeros(len(noisy)))
    assert split.edges[:-1][split.atoms].tolist() == [12.5, 12.6]


def test_thirty_values_far_from_round_come_back_exactly() -> None:
    """Speeds in whole knots, written in miles an hour; eight of them were found once."""
    values = np.random.default_rng(3).binomial(30, 0.4, ROWS) * 1.15078
    column = _discovered(pa.table({"x": values}))[0]["x"]
    assert isinstance(column, Binned)
    rng = np.random.default_rng(4)
    drawn = real_numbers(rng.choice(column.present, ROWS, p=_bin_weights(column)), column, rng)
    frequent = [value for value in np.unique(values) if (values == value).mean() > 0.01]
    assert len(frequent) > 12
    for value in frequent:
        assert (drawn == value).mean() == pytest.approx((values == value).mean(), abs=0.008)


def test_numbers_on_a_grid_add_nothing_to_a_value_that_is_counted_by_itself() -> None:
    """A cell without a multiple of the step took the nearest one, which has its own rows already."""
    fine = (0.0, 400.0, 490.0, 500.0, 501.0, 600.0, 1000.0)
    weights = (10.0, 20.0, 30.0, 5.0, 20.0, 10.0)
    column = Integer(
        name="x", edges=(0, 1000), fine=fine, weights=weights, grids=((100.0, 0.7),), missing=False
    )
    drawn = whole_numbers(np.zeros(20_000, dtype=np.int64), column, np.random.default_rng(5))
    assert (drawn == 500).mean() == pytest.approx(5 / 95, abs=0.006)


def test_rows_just_above_zero_stand_out_whatever_noise_is_beside_them() -> None:
    """Of a zero that was stored as 5e-79: noise in narrow cells below would be millions of rows by width."""
    edges = np.array([-3e-9, -2e-9, -1e-9, 0.0, 5e-324, 1e-4, 0.5, 1.0])
    noisy = np.array([40.0, 35.0, -10.0, 20.0, 5_000.0, 300.0, 280.0])
    assert find_spikes(edges, noisy, 36.0, 0.0) == [(5e-324, 1e-4)]
    evident = np.where(np.arange(7) < 3, [500.0, 480.0, 520.0, 0, 0, 0, 0], noisy)
    assert (5e-324, 1e-4) not in find_spikes(edges, evident, 36.0, 0.0)


def test_all_looks_at_single_values_keep_within_their_share() -> None:
    """However many it takes to come to single floats."""
    rng = np.random.default_rng(9)
    held = rng.normal(size=12)
    values = np.where(rng.random(ROWS) < 0.7, rng.choice(held, ROWS), rng.normal(size=ROWS))
    _, ledger = _discovered(pa.table({"x": values}))
    spent = {"detail": Fraction(0), "atoms": Fraction(0)}
    looks = 0
    for event in ledger.events:
        kind = event.what.split(" of ")[0]
        if kind in spent:
            spent[kind] += event_rho(event)
            looks += kind == "atoms"
    assert looks > 3
    most = spent["detail"] * SHARES["atoms"] / SHARES["detail"]
    assert 0.9 * float(most) < float(spent["atoms"]) < 1.001 * float(most)


def test_between_declared_bounds_no_number_is_cut_off() -> None:
    rng = np.random.default_rng(11)
    values = np.where(rng.random(4_000) < 0.999, rng.integers(0, 2, 4_000), 40)
    near = Schema([Integer(name="x", lower=0, upper=50, missing=False)])
    column = _discovered(pa.table({"x": values}), declared=near)[0]["x"]
    assert isinstance(column, Binned)
    low, _, weights = _weights(column)
    assert (weights[low >= 2] > 0).any()
    low, _, weights = _weights(_binned(_discovered(pa.table({"x": values % 40}))[0]["x"]))
    assert not (weights[low >= 2] > 0).any()


def _binned(column: object) -> Binned:
    assert isinstance(column, Binned)
    return column
