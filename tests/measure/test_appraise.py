"""appraise: exact in fixed point, of the sensitivity it says, recorded first, and noisy as it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from numpy.typing import NDArray

import margrave.measure.mechanisms.appraise as door
from margrave.engines.memory import open_source
from margrave.errors import BudgetError, InputError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.accounting.accountants import GDP, ZCDP, event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

RHO = Fraction(1, 1000)
SIZES = {"a": 2, "b": 3}
CLIQUES = [("a",), ("b",), ("a", "b"), ()]
Table = dict[str, Sequence[int]]


def _ledger(
    neighbours: Neighbours, gdp: bool = False, path: Path | None = None, epsilon: float = 1.0
) -> Ledger:
    accountant = GDP() if gdp else ZCDP()
    return Ledger(epsilon=epsilon, delta=1e-5, neighbours=neighbours, accountant=accountant, path=path)


def _curator(ledger: Ledger, columns: Table | None = None) -> Curator:
    held = {"a": np.arange(600) % 2, "b": np.arange(600) % 3} if columns is None else columns
    table = pa.table(dict(held))
    if ledger.neighbours.unit.owner:
        table = table.append_column("id", pa.array(np.arange(len(table)) // 2))
    curator = Curator(open_source(table)[0], ledger, SeededSource(1))
    curator.discover(Schema.from_sizes(SIZES))
    return curator


def _expected(cliques: Sequence[tuple[str, ...]], fill: float = 0.3) -> list[NDArray[np.float64]]:
    return [np.full([SIZES[name] for name in clique], fill) for clique in cliques]


def _digits(event: Any) -> int:
    return int(event.what.split("2^-")[1].split()[0])


@pytest.mark.parametrize("gdp", [False, True])
@pytest.mark.parametrize(("adjacency", "times"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_event_prices_all_scores_together(adjacency: Adjacency, times: int, k: int, gdp: bool) -> None:
    ledger = _ledger(Neighbours(Unit("id", k) if k else Unit(), adjacency), gdp)
    scores = _curator(ledger).appraise(CLIQUES, _expected(CLIQUES), RHO)
    assert scores.shape == (4,)
    assert scores.dtype == np.float64
    (event,) = ledger.events
    assert isinstance(event, GaussianEvent)
    assert event.rounded is gdp
    assert event.l2_squared == 4 * (times * max(k, 1) << _digits(event)) ** 2
    assert event.sigma_squared >= event.l2_squared / (2 * RHO)
    assert RHO * Fraction(999_999, 1_000_000) < event_rho(event) <= RHO
    assert ledger.spent == event_rho(event)


@pytest.mark.parametrize("gdp", [False, True])
def test_scores_are_the_distances_with_noise_of_the_recorded_size(gdp: bool) -> None:
    ledger = _ledger(Neighbours(), gdp)
    many, third = [("a",)] * 40_000, [np.array([100.0, 1000 / 3])] * 40_000
    scores = _curator(ledger).appraise(many, third, RHO)
    (event,) = ledger.events
    assert isinstance(event, GaussianEvent)
    step = 2.0 ** -_digits(event)
    sigma = step * math.sqrt(event.sigma_squared)
    assert sigma == pytest.approx(math.sqrt(40_000 / (2 * float(RHO))), rel=1e-9)
    assert ((scores / step) % 1 == 0).all()
    noise = scores - (200 + 100 / 3)
    normal = scipy.stats.norm(scale=sigma).cdf
    assert scipy.stats.kstest(noise, normal).pvalue > 1e-4
    assert scipy.stats.kstest(noise / 2, normal).pvalue < 1e-20
    for lag in (1, 2, 3):
        assert abs((noise[lag:] * noise[:-lag]).mean()) < 4.5 * sigma**2 / math.sqrt(40_000)


def test_with_little_noise_the_distances_come_out() -> None:
    ledger = _ledger(Neighbours(), epsilon=1e6)
    curator = _curator(ledger)
    expected = [np.array([299.25, 300.5]), np.zeros(3), np.full((2, 3), 100.0), np.array(601.0)]
    scores = curator.appraise(CLIQUES, expected, Fraction(100_000))
    assert np.abs(scores - [1.25, 600.0, 0.0, 1.0]).max() < 0.05


@pytest.mark.parametrize("holds_rows", [True, False])
def test_tables_are_counted_in_runs_where_the_rows_are_and_all_at_once_elsewhere(
    monkeypatch: pytest.MonkeyPatch, holds_rows: bool
) -> None:
    curator = _curator(_ledger(Neighbours(), epsilon=1e6))
    cliques = [("a", "b"), (), ("a",), ("b",)]
    expected = [np.full((2, 3), 100.0), np.array(601.0), np.array([299.25, 300.5]), np.zeros(3)]
    monkeypatch.setattr("margrave.measure.door.CELLS_A_RUN", 5)
    monkeypatch.setattr(type(curator._source), "holds_rows", holds_rows)
    count, asked = curator._open.count, []
    monkeypatch.setattr(type(curator._open), "count", lambda _, some: asked.append(some) or count(some))
    scores = curator.appraise(cliques, expected, Fraction(100_000))
    assert asked == ([cliques[:1], cliques[1:]] if holds_rows else [cliques])
    assert np.abs(scores - [0.0, 1.0, 1.25, 600.0]).max() < 0.05
    # Counts of 300, which a byte would not hold, are remembered as they are.
    asked.clear()
    again = curator.appraise(cliques, expected, Fraction(100_000))
    assert np.abs(again - [0.0, 1.0, 1.25, 600.0]).max() < 0.05
    assert asked == []
    assert [table.dtype for table in curator._counts(cliques)] == [np.int64] * 4


def _awkward(rng: np.random.Generator) -> NDArray[np.float64]:
    scale = 10.0 ** rng.integers(-12, 12)
    return rng.choice([1 / 3, 0.5, 1e-300, 0.0, -0.1, math.pi, 2.0**-17, 7.0]) * rng.random(12) * scale


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_no_neighbour_moves_a_score_further_than_it_says(adjacency: Adjacency) -> None:
    """In exact integers, with expected counts that floating point cannot hold."""
    rng, reached = np.random.default_rng(7), 0
    for _ in range(3000):
        k = int(rng.integers(1, 4))
        l1 = Neighbours(Unit("id", k), adjacency).marginal_l1
        table, model = rng.integers(0, 40, 12) + k, _awkward(rng)
        near = table.copy()
        np.add.at(near, rng.integers(0, 12, k), 1)
        if adjacency == "replace_one":
            near[int(rng.integers(12))] -= k
        digits = door._digits([model], Fraction(10))
        moved = abs(door._steps(near, model, digits) - door._steps(table, model, digits))
        assert moved <= l1 << digits
        reached += moved == l1 << digits
    assert reached > 10


def _exact(
    ledger: Ledger, columns: Table, expected: list[Any], patch: pytest.MonkeyPatch
) -> NDArray[np.int64]:
    """The integers that were about to get noise."""
    found: list[NDArray[np.int64]] = []
    with patch.context() as inside:
        inside.setattr(Gaussian, "noisy", lambda self, table, rho: found.append(table) or table * 1.0)
        _curator(ledger, columns).appraise(CLIQUES[:3], expected, RHO)
    return found[0]


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("add_remove", 2), ("replace_one", 0)])
def test_the_bound_is_met_and_half_of_it_is_noticed(
    adjacency: Adjacency, k: int, halved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All scores move by the most there is, at once; a sensitivity halved on purpose is passed."""
    if halved:
        honest = door.Gaussian
        monkeypatch.setattr(door, "Gaussian", lambda book, bits, squared: honest(book, bits, squared // 4))
    neighbours = Neighbours(Unit("id", k) if k else Unit(), adjacency)
    base, odd, plain = [0] * 6, [1] * max(k, 1), [0] * max(k, 1)
    first = base + plain if adjacency == "replace_one" else base
    # Cell 0 is expected fuller than it is, the odd cell emptier: to leave one and enter the other hurts.
    expected = [np.full(shape, 0.0) for shape in ((2,), (3,), (2, 3))]
    for table in expected:
        table.flat[0] = 20.0
    ledgers = [_ledger(neighbours), _ledger(neighbours)]
    tables = [{"a": rows, "b": rows} for rows in (first, base + odd)]
    one, two = (_exact(book, t, expected, monkeypatch) for book, t in zip(ledgers, tables, strict=True))
    assert ledgers[0].events == ledgers[1].events
    event = ledgers[0].events[0]
    assert isinstance(event, GaussianEvent)
    moved = int(((one - two) ** 2).sum())
    assert moved == event.l2_squared * (4 if halved else 1)


def test_digits_make_room_for_large_sums_and_much_noise() -> None:
    assert door._digits([np.ones(5)], Fraction(100)) == 16
    assert door._digits([np.ones(5)], Fraction(1 << 40)) == 8
    assert door._digits([np.full(4, 2.0**48)], Fraction(100)) == 10
    table = np.array([1 << 33, 0, 5])
    model = np.array([0.0, 2.0**51, 1 / 3])
    digits = door._digits([model], Fraction(1))
    assert door._steps(table, model, digits) == pytest.approx(
        (2**33 + 2**51 + 5 - 1 / 3) * 2**digits, rel=1e-12
    )


@pytest.mark.parametrize(
    "bad", [np.zeros((5, 2)), np.array([np.nan, 1.0]), np.array([np.inf, 1.0]), np.array([1e16, 0.0])]
)
def test_unfit_tables_are_refused_before_anything_is_spent(bad: NDArray[np.float64]) -> None:
    ledger = _ledger(Neighbours())
    curator = _curator(ledger)
    for cliques, expected in (([("a",)], [bad]), ([("b",), ("a",)], [np.zeros(3), bad])):
        with pytest.raises(InputError, match="expected") as caught:
            curator.appraise(cliques, expected, RHO)
        assert "300" not in str(caught.value)
        assert "200" not in str(caught.value)
    assert ledger.spent == 0


def test_bad_arguments_are_named_and_cost_nothing() -> None:
    ledger = _ledger(Neighbours())
    curator = _curator(ledger)
    with pytest.raises(InputError, match="candidates"):
        curator.appraise([], [], RHO)
    with pytest.raises(InputError, match="expected"):
        curator.appraise([("a",), ("b",)], [np.zeros(2)], RHO)
    for rho in (Fraction(0), Fraction(-1), Fraction(1, 1 << 70)):
        with pytest.raises(InputError, match="rho"):
            curator.appraise([("a",)], [np.zeros(2)], rho)
    with pytest.raises(InputError, match="clique"):
        curator.appraise([("nothing",)], [np.zeros(2)], RHO)
    assert ledger.spent == 0
    assert ledger.events == ()


def test_nothing_is_spent_if_the_rows_cannot_be_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = _ledger(Neighbours(), path=tmp_path / "ledger.jsonl")
    curator = _curator(ledger)
    calls: list[int] = []

    def counted(cliques: Sequence[Any]) -> Any:
        calls.append(len(read_ledger(tmp_path / "ledger.jsonl")[1]))
        raise OSError("no rows")

    monkeypatch.setattr(curator, "_recall_counts", counted)
    with pytest.raises(BudgetError):
        curator.appraise([("a",)], [np.zeros(2)], 2 * ledger.total)
    assert (calls, ledger.spent) == ([], 0)
    with pytest.raises(OSError, match="no rows"):
        curator.appraise([("a",)], [np.zeros(2)], RHO)
    assert calls == [0]
    assert read_ledger(tmp_path / "ledger.jsonl")[1] == ledger.events == ()
    assert curator.measurements == ()
