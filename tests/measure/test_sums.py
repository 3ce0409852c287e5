"""sums: exact in whole numbers, of the sensitivity it says, recorded first, and noisy as it says."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from numpy.typing import NDArray

import margrave.measure.mechanisms.regression.sums as door
from margrave.engines.memory import open_source
from margrave.engines.opening import open_source as open_any
from margrave.errors import BudgetError, InputError, SchemaError
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP, event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.features import RowNumbers
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

RHO = Fraction(1, 10)
SIZES = {"y": 3, "a": 5, "b": 4}
NUMBERS = RowNumbers(
    ("y", "a", "b"),
    (np.linspace(-1, 1, 3)[None, :], np.linspace(-1, 1, 5)[None, :], np.eye(4)[1:]),
)
SCHEMA = Schema.from_sizes(SIZES)
ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")


def _drawn(rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
    return rng.integers(0, list(SIZES.values()), (rows, 3))


def _table(rows: int = 500) -> pa.Table:
    return pa.table(dict(zip(SIZES, _drawn(np.random.default_rng(5), rows).T, strict=True)))


def _vectors(codes: NDArray[np.int64], matrices: Any) -> NDArray[Any]:
    """A row a line: the constant, then each column's numbers of its code."""
    parts = [np.full((len(codes), 1), matrices[0][0, 0])]
    parts += [matrix.T[codes[:, place]] for place, matrix in enumerate(matrices[1:])]
    return np.hstack(parts)


def _curator(ledger: Ledger) -> Curator:
    held = _table()
    if ledger.neighbours.unit.owner:
        held = held.append_column("id", pa.array(np.arange(len(held))))
    curator = Curator(open_source(held)[0], ledger, SeededSource(1))
    curator.discover(SCHEMA)
    return curator


def _ledger(neighbours: Neighbours, gdp: bool = False, **more: Any) -> Ledger:
    options = {"epsilon": 2.0, "delta": 1e-5, **more}
    return Ledger(neighbours=neighbours, accountant=GDP() if gdp else ZCDP(), **options)


def test_the_sums_are_products_of_the_rows() -> None:
    codes = np.column_stack([_table()[name] for name in SIZES])
    found = _curator(_ledger(Neighbours(), epsilon=1e9)).sums(NUMBERS, Fraction(10) ** 8)
    vectors = _vectors(codes, [np.ones((1, 1)), *found.numbers.numbers])
    np.testing.assert_allclose(found.values, vectors.T @ vectors, atol=0.02)
    np.testing.assert_array_equal(found.values, found.values.T)
    for cut, asked in zip(found.numbers.numbers, NUMBERS.numbers, strict=True):
        assert (np.abs(cut) <= np.abs(asked)).all()
        assert np.abs(cut - asked).max() <= 2.0**-10


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_neighbour_moves_the_sums_further_than_it_says(adjacency: Adjacency) -> None:
    """In exact integers: at most k rows come, go or are exchanged for at most k others."""
    rng, reached = np.random.default_rng(7), 0.0
    for _ in range(3000):
        k = int(rng.integers(1, 4))
        shared = [rng.uniform(-1, 1, (int(rng.integers(1, 3)), size)) for size in SIZES.values()]
        if rng.random() < 0.5:  # far ends of few columns: rows that are orthogonal, or as long as can be
            shared = [np.round(part) for part in shared]
        matrices = RowNumbers(NUMBERS.names, tuple(shared)).cut(64)
        mine = _drawn(rng, int(rng.integers(1, k + 1)))
        other = _drawn(rng, int(rng.integers(0, k + 1)) if adjacency == "replace_one" else 0)
        if rng.random() < 0.7:
            mine, other = (np.repeat(part[:1], k if len(part) else 0, axis=0) for part in (mine, other))
        one, two = (_vectors(part, matrices) for part in (mine, other))
        moved = one.T @ one - two.T @ two
        upper = np.triu_indices(len(moved))
        square = int(((moved[upper] * np.where(upper[0] == upper[1], door.ON, door.OFF)) ** 2).sum())
        units = Neighbours(Unit("id", k), adjacency).marginal_l2_squared
        assert square <= door._sensitivity(matrices, units)
        reached = max(reached, square / door._sensitivity(matrices, units))
    assert reached > (0.9 if adjacency == "add_remove" else 0.6)


def test_orthogonal_rows_come_near_the_bound_of_replace_one() -> None:
    numbers = RowNumbers(("a",), (np.array([[1.0, 1.0], [1.0, -1.0]]),), constant=False)
    matrices = numbers.cut(1)
    one, two = matrices[0].T[:1], matrices[0].T[1:]
    moved = one.T @ one - two.T @ two
    assert moved.tolist() == [[0, 2], [2, 0]]
    assert (moved[0, 1] * door.OFF) ** 2 == door._sensitivity(matrices, 2) == 36


@pytest.mark.parametrize("gdp", [False, True])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_event_prices_all_products_together(adjacency: Adjacency, k: int, gdp: bool) -> None:
    ledger = _ledger(Neighbours(Unit("id", k) if k else Unit(), adjacency), gdp)
    found = _curator(ledger).sums(NUMBERS, RHO)
    (event,) = ledger.events
    assert isinstance(event, GaussianEvent)
    assert event.rounded is gdp
    units = max(k, 1) ** 2 * (2 if adjacency == "replace_one" else 1)
    assert event.l2_squared == door._sensitivity(NUMBERS.cut(1 << 10), units)
    assert RHO * Fraction(999_999, 1_000_000) < event_rho(event) <= RHO
    bound = 4.0  # the constant, two numbers within 1, and one of three levels: R^2
    expected = math.sqrt(units) * bound / math.sqrt(2) / math.sqrt(2 * float(RHO))
    assert found.sigma == pytest.approx(expected, rel=1e-3)
    assert found.diagonal_sigma == pytest.approx(1.5 * expected, rel=1e-3)


@pytest.mark.parametrize("gdp", [False, True])
def test_the_noise_is_of_the_recorded_size(gdp: bool) -> None:
    many = RowNumbers(("y", "a", "b"), (np.zeros((60, 3)), np.zeros((20, 5)), np.zeros((20, 4))))
    found = _curator(_ledger(Neighbours(), gdp)).sums(many, RHO)
    noise = found.values.copy()
    noise[0, 0] -= 500
    off, diagonal = noise[np.triu_indices(101, 1)], np.diag(noise)
    assert scipy.stats.kstest(off, scipy.stats.norm(scale=found.sigma).cdf).pvalue > 1e-4
    assert scipy.stats.kstest(off / 2, scipy.stats.norm(scale=found.sigma).cdf).pvalue < 1e-20
    assert scipy.stats.kstest(diagonal, scipy.stats.norm(scale=found.diagonal_sigma).cdf).pvalue > 1e-4


def test_a_file_in_batches_and_a_frame_give_the_same_sums(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(_table(), tmp_path / "t.parquet")
    answers = []
    for engine in ("memory", "stream"):
        source, _ = open_any(str(tmp_path / "t.parquet"), engine=engine)
        curator = Curator(source, _ledger(Neighbours()), SeededSource(3))
        curator.discover(SCHEMA)
        answers.append(curator.sums(NUMBERS, RHO).values)
    np.testing.assert_array_equal(*answers)


def test_what_cannot_be_paid_or_drawn_is_refused(tmp_path: Path) -> None:
    ledger = _ledger(Neighbours(), path=tmp_path / "l.jsonl")
    curator = _curator(ledger)
    with pytest.raises(BudgetError):
        curator.sums(NUMBERS, 2 * ledger.total)
    for rho in (Fraction(0), Fraction(-1), Fraction(1, 1 << 60)):
        with pytest.raises(InputError, match="rho"):
            curator.sums(NUMBERS, rho)
    with pytest.raises(SchemaError, match="of the domain's sizes"):
        curator.sums(RowNumbers(("a",), (np.zeros((1, 4)),)), RHO)
    with pytest.raises(SchemaError):
        curator.sums(RowNumbers(("z",), (np.zeros((1, 4)),)), RHO)
    assert ledger.events == read_ledger(tmp_path / "l.jsonl")[1] == ()


def test_the_event_is_on_disk_before_noise_is_drawn(tmp_path: Path) -> None:
    path, seen = tmp_path / "l.jsonl", []

    class Watched(SeededSource):
        def words(self, n: int) -> NDArray[np.uint64]:
            seen.append(len(read_ledger(path)[1]))
            return super().words(n)

    curator = _curator(_ledger(Neighbours(), path=path))
    curator._noise = Watched(1)
    curator.sums(NUMBERS, RHO)
    assert set(seen) == {1}


def test_little_rho_makes_coarser_steps_and_not_an_overflow() -> None:
    ledger = _ledger(Neighbours(Unit("id", 100), "replace_one"))
    found = _curator(ledger).sums(NUMBERS, Fraction(1, 1 << 20))
    assert np.isfinite(found.values).all()
    assert "2^-10" not in ledger.events[0].what


@pytest.mark.parametrize(
    ("names", "numbers"),
    [
        ((), ()),
        (("a", "a"), (np.zeros((1, 2)),) * 2),
        (("a",), (np.zeros(2),)),
        (("a",), (np.array([[0.0, 1.5]]),)),
        (("a",), (np.array([[0.0, np.nan]]),)),
    ],
)
def test_numbers_that_bound_no_row_are_refused(names: Any, numbers: Any) -> None:
    with pytest.raises(SchemaError, match="numbers must"):
        RowNumbers(names, numbers)
