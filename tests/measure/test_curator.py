"""The door: every verb records first, costs what it says, and hides what it must."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import BudgetError, InputError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms import choose
from margrave.privacy.accounting.accountants import GDP, ZCDP, Accountant
from margrave.privacy.accounting.events import ExponentialEvent, GaussianEvent
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

SCHEMA = Schema.from_sizes({"a": 2, "b": 3})


def _table(rows: int = 600) -> pa.Table:
    return pa.table({"a": np.arange(rows) % 2, "b": np.arange(rows) % 3})


def _curator(
    adjacency: Adjacency = "add_remove",
    unit: Unit | None = None,
    accountant: Accountant | None = None,
    path: Path | None = None,
    table: pa.Table | None = None,
) -> tuple[Curator, Ledger]:
    source, _ = open_source(_table() if table is None else table)
    ledger = Ledger(
        epsilon=1.0,
        delta=1e-5,
        neighbours=Neighbours(unit or Unit(), adjacency),
        accountant=accountant or ZCDP(),
        path=path,
    )
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(SCHEMA)
    return curator, ledger


@pytest.mark.parametrize(("adjacency", "factor"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize("k", [1, 3])
def test_the_noise_of_a_marginal_follows_the_unit(adjacency: Adjacency, factor: int, k: int) -> None:
    table = _table().append_column("id", pa.array(np.arange(600)))
    curator, ledger = _curator(adjacency, Unit("id", k), table=table)
    rho = Fraction(1, 100)
    (marginal,) = curator.measure([("a", "b")], rho)
    assert marginal.values.shape == (2, 3)
    assert marginal.sigma == pytest.approx(k * np.sqrt(factor / (2 * float(rho))), rel=1e-6)
    (event,) = ledger.events
    assert isinstance(event, GaussianEvent)
    assert event.l2_squared == factor * k * k
    assert event.sigma_squared >= Fraction(factor * k * k) / (2 * rho)
    assert ledger.spent <= rho


def test_discrete_noise_under_zcdp_and_rounded_noise_under_gdp() -> None:
    for accountant, rounded in ((ZCDP(), False), (GDP(), True)):
        curator, ledger = _curator(accountant=accountant)
        (marginal,) = curator.measure([("a",)], Fraction(1, 100))
        assert ledger.events[0].rounded is rounded  # type: ignore[attr-defined]
        assert (marginal.values == np.round(marginal.values)).all()


def test_gdp_buys_less_noise_at_equal_epsilon_and_less_of_a_choice() -> None:
    (plain, zcdp), (exact, gdp) = _curator(), _curator(accountant=GDP())
    assert gdp.total > zcdp.total * Fraction(115, 100)
    rho = Fraction(1, 1000)
    for curator in (plain, exact):
        curator.choose([("a",)], [np.zeros(2)], rho)
    for ledger in (zcdp, gdp):
        assert rho * Fraction(999, 1000) < ledger.spent <= rho
    dear, cheap = gdp.events[0].epsilon, zcdp.events[0].epsilon  # type: ignore[attr-defined]
    assert float(cheap / dear) == pytest.approx((np.pi / 2) ** 0.5)


def test_a_choice_is_recorded_and_rounded_to_the_safe_side() -> None:
    for adjacency, factor in (("add_remove", 1), ("replace_one", 2)):
        curator, ledger = _curator(adjacency)  # type: ignore[arg-type]
        rho = Fraction(1, 300)
        curator.choose([("a",), ("b",)], [np.zeros(2), np.zeros(3)], rho, weights=[1, 4])
        (event,) = ledger.events
        assert isinstance(event, ExponentialEvent)
        assert event.sensitivity == 4 * factor
        assert rho * Fraction(999, 1000) < ledger.spent <= rho


def test_the_score_of_neighbours_moves_by_at_most_the_sensitivity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "CHUNK", 50)
    rng = np.random.default_rng(5)
    shapes = [(), (7,), (3, 4), (60,), (2, 2, 2), (1,), (41,)]
    weights, penalties = np.array([1, 3, 1, 2, 0, 5, 1]), rng.random(7) * 9
    for _ in range(200):
        tables = [rng.integers(0, 1000, shape) for shape in shapes]
        models = [rng.random(shape) * 1000 for shape in shapes]
        near = [table.copy() for table in tables]
        for table in near:
            table.reshape(-1)[rng.integers(table.size)] += 1
        ours, theirs = (choose._scores(some, models, weights, penalties, 65536.0) for some in (tables, near))
        assert (np.abs(ours - theirs) <= weights).all()
        for place, (table, model) in enumerate(zip(tables, models, strict=True)):
            apart = Fraction(0)
            for count, expected in zip(table.ravel().tolist(), model.ravel().tolist(), strict=True):
                apart += abs(count - Fraction(round(expected * 65536), 65536))
            penalty = Fraction(round(penalties[place] * 65536), 65536)
            assert Fraction(ours[place]) == weights[place].item() * (apart - penalty)


def test_a_choice_finds_the_worst_candidate_when_epsilon_is_large() -> None:
    source, _ = open_source(_table())
    ledger = Ledger(epsilon=500.0, delta=1e-5, neighbours=Neighbours(), accountant=ZCDP())
    curator = Curator(source, ledger)
    curator.discover(SCHEMA)
    good = [np.full(2, 300.0), np.full(3, 200.0), np.full((2, 3), 100.0)]
    bad = [good[0], good[1], np.eye(2, 3) * 300]
    cliques = [("a",), ("b",), ("a", "b")]
    assert curator.choose(cliques, bad, Fraction(50)) == 2
    assert curator.choose(cliques[:2], [np.array([600.0, 0.0]), good[1]], Fraction(50)) == 0


def test_the_budget_is_refused_before_anything_is_released() -> None:
    curator, ledger = _curator()
    with pytest.raises(BudgetError):
        curator.measure([("a",)], ledger.total * 2)
    assert ledger.spent == 0
    assert curator.measurements == ()


def test_spends_are_on_disk_before_noise_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    curator, ledger = _curator(path=path)

    class Broken:
        def words(self, n: int) -> np.ndarray:
            raise OSError("no entropy")

    curator._noise = curator._gaussian._noise = Broken()  # type: ignore[assignment]
    with pytest.raises(OSError, match="no entropy"):
        curator.measure([("a",)], Fraction(1, 100))
    assert read_ledger(path)[1] == ledger.events
    assert len(ledger.events) == 1


def test_public_rows_only_where_the_adjacency_makes_them_so() -> None:
    assert _curator("replace_one")[0].public_rows == 600.0
    assert _curator("add_remove")[0].public_rows is None
    table = _table().append_column("id", pa.array(np.arange(600)))
    assert _curator("replace_one", Unit("id", 2), table=table)[0].public_rows is None


def test_owners_are_capped_before_counting() -> None:
    table = _table().append_column("id", pa.array(np.zeros(600, dtype=np.int64)))
    curator, _ = _curator(unit=Unit("id", 2), table=table)
    counts = curator._counts([()])[0]
    assert counts.sum() == 2


def test_nothing_private_in_reprs_or_pickles() -> None:
    curator, _ = _curator()
    assert repr(curator) == "Curator()"
    counts = curator._open.count([("a",)])[0]
    assert "300" not in repr(counts)
    with pytest.raises(TypeError, match="private"):
        pickle.dumps(counts)


def test_bad_arguments_are_named() -> None:
    curator, ledger = _curator()
    with pytest.raises(InputError, match="rho must be above 0"):
        curator.measure([("a",)], Fraction(0))
    with pytest.raises(InputError, match="weights"):
        curator.choose([("a",)], [np.zeros(2)], Fraction(1, 100), weights=[0])
    with pytest.raises(InputError, match="candidates"):
        curator.choose([], [], Fraction(1, 100))
    with pytest.raises(InputError, match="clique"):
        curator.measure([("nothing",)], Fraction(1, 100))
    assert ledger.spent == 0


def test_what_is_set_aside_is_left_out_of_the_plan_inside_alone() -> None:
    curator, ledger = _curator()
    whole = curator.remaining
    with curator.set_aside(whole / 4):
        assert curator.remaining == curator.total == whole * 3 / 4
        curator.measure([("a",)], whole / 2)
        assert curator.remaining == pytest.approx(whole / 4)
        assert curator.total == whole * 3 / 4
        curator.measure([("b",)], curator.remaining + whole / 8)  # a plan, not a limit: the ledger has that
        assert curator.remaining == 0
    assert curator.total == whole
    assert curator.remaining == ledger.planned == pytest.approx(whole / 8)
    with curator.set_aside(Fraction(0)):
        assert curator.total == curator.remaining == ledger.planned
    with pytest.raises(BudgetError), curator.set_aside(whole):
        curator.measure([("a",)], whole)
    assert curator.total == whole
    assert curator.remaining == ledger.planned


@pytest.mark.parametrize("wide", [(2, 2), (1, 2), (3,), ()])
def test_expected_tables_of_another_shape_would_count_a_row_in_many_cells_and_are_refused(
    wide: tuple[int, ...],
) -> None:
    curator, ledger = _curator()
    rho, wrong, right = Fraction(1, 100), [np.zeros(wide)], [np.zeros(2)]
    for ask in (
        lambda: curator.choose([("a",)], wrong, rho),
        lambda: curator.choose([("a",)], right, rho, rivals=wrong),
        lambda: curator.appraise([("a",)], wrong, rho),
    ):
        with pytest.raises(InputError, match="one table a clique, of its shape"):
            ask()
    assert ledger.events == ()
