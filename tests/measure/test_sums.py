"""Sums of columns: found where totals are their parts, paid for, and none made where there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from test_relations import discover, relatives

import margrave as mg
from margrave.engines.opening import open_source
from margrave.measure.discovery.pairs import Link
from margrave.measure.discovery.relations import Relations
from margrave.measure.discovery.sums import SUM_EDGES, Candidate, attach, choose_sums
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.columns import Binned, Integer, Relative

ROWS = 6000
SUMS = {"total": {"net", "tax", "ship"}, "persons": {"young", "adults", "old"}}


def bills(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Amounts to the cent with their total, half of them paid at once, persons by age, and a stray number."""
    rng = np.random.default_rng(seed)
    net = np.round(rng.lognormal(5, 0.8, rows), 2)
    tax = np.round(net * rng.choice([0, 0.07, 0.19], rows), 2)
    ship = np.round(rng.choice([0, 4.9, 9.9, 25.0], rows) + rng.integers(0, 300, rows) / 100, 2)
    total = np.round(net + tax + ship, 2)
    young, adults, old = (rng.poisson(mean, rows) for mean in (3, 8, 20))
    return pd.DataFrame(
        {
            "net": net,
            "tax": tax,
            "ship": ship,
            "total": total,
            "paid": np.round(total * np.where(rng.random(rows) < 0.5, 1.0, rng.random(rows)), 2),
            "young": young,
            "adults": adults,
            "old": old,
            "persons": young + adults + old,
            "stray": rng.lognormal(4, 1, rows).round(2),
        }
    )


def sums(schema: Any) -> dict[str, set[str]]:
    return {c.name: set(c.bases) for c in relatives(schema).values() if c.others}


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_totals_are_found_and_coded(epsilon: float) -> None:
    schema, ledger, curator = discover(bills(), epsilon)
    assert sums(schema) == SUMS
    for name in SUMS:
        column = relatives(schema)[name]
        measured = [m for m in curator.measurements if m.clique == (name,)]
        assert [m.values.shape for m in measured] == [(column.size,)]
        assert column.share is not None
        assert column.share[0] > 0.9
    assert len({m.clique for m in curator.measurements}) == len(curator.measurements)
    assert ledger.planned >= ledger.total * 2 / 3
    assert [event for event in ledger.events if "columns with sums of others" in event.what]


def test_synthetic_rows_add_up(tmp_path: Path) -> None:
    path = tmp_path / "bills.csv"
    bills().to_csv(path, index=False)
    synthesis = mg.Synthesizer("independent", epsilon=2.0, delta=1e-6).fit(path)
    made = synthesis.sample_arrow(rng=0).to_pandas()
    parts = made["net"] + made["tax"] + made["ship"]
    assert ((made["total"] - parts).abs() < 0.005).mean() >= 0.95
    assert (made["persons"] == made["young"] + made["adults"] + made["old"]).mean() >= 0.95
    # What else was found of the total is kept beside the sum.
    assert (made["paid"] > made["total"] + 0.005).mean() <= 0.02
    assert "total is net + tax + ship" in str(synthesis.schema)


def test_a_sum_that_few_rows_break_keeps_them() -> None:
    data = bills()
    rows = np.random.default_rng(1).random(ROWS) < 0.15
    data.loc[rows, "persons"] += 7
    column = relatives(discover(data, 6.0)[0])["persons"]
    assert set(column.bases) == SUMS["persons"]
    assert column.part.edge_array[-1] > 7


@pytest.mark.parametrize("seed", range(3))
def test_none_are_made_where_there_are_none(seed: int) -> None:
    """Columns in order whose means add up, but not row by row; the look that says so is paid for."""
    rng = np.random.default_rng(seed)
    parts = {name: rng.poisson(mean, 4000) for name, mean in (("a", 4), ("b", 9), ("c", 12))}
    data = pd.DataFrame(parts | {"d": 13 + rng.poisson(12, 4000), "e": 40 + rng.poisson(9, 4000)})
    schema, ledger, _ = discover(data, 3.0, seed)
    assert [event for event in ledger.events if "columns with sums" in event.what]
    assert not sums(schema)


def test_no_look_is_taken_where_no_column_is_above_others() -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({f"n{i}": rng.normal(100, 20 + i, 4000).round(1) for i in range(6)})
    _, ledger, _ = discover(data)
    assert [event for event in ledger.events if "pairs of columns" in event.what]
    assert not [event for event in ledger.events if "columns with sums" in event.what]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("k", [1, 3])
def test_a_unit_moves_the_look_by_no_more_than_is_declared(
    adjacency: Adjacency, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one run asked about sums, asked of two neighbours of which one holds an owner's k odd rows."""
    asked: list[Any] = []
    true = Relations._compared

    def note(self: Relations, column: Any, bases: Any, *how: Any) -> Any:
        asked.append((column.name, bases[0].name, *how, [base.name for base in bases[1:]]))
        return true(self, column, bases, *how)

    monkeypatch.setattr(Relations, "_compared", note)
    data, unit = bills().assign(who=np.arange(ROWS) // k), Unit("who", k)
    _, ledger, _ = discover(data, unit=unit, adjacency=adjacency)
    (event,) = [event for event in ledger.events if "columns with sums" in event.what]
    assert isinstance(event, GaussianEvent)
    tables = int(event.what.split()[2])
    assert event.l2_squared == tables * Neighbours(unit, adjacency).marginal_l2_squared
    questions = [one for one in asked if one[4] and len(one[3]) == len(SUM_EDGES[0])]
    assert len(questions) == tables
    odd = data.iloc[[0] * k].assign(total=-1e9, net=1e9, persons=-5, who=-1)
    other = data.iloc[[1] * k].assign(total=1e9, net=-1e9, persons=10**6, who=-1)
    frames = [pd.concat([data, odd]), data if adjacency == "add_remove" else pd.concat([data, other])]
    sources = [open_source(table)[0].bounded("who", k) for table in frames]
    moved = 0
    for question in questions:
        answers = [source.differences(*question).reveal() for source in sources]
        moved += int(((answers[0] - answers[1]) ** 2).sum())
    assert event.l2_squared / 2 <= moved <= event.l2_squared


def numbers(*names: str) -> list[Binned]:
    return [Integer(name=name, lower=0, upper=9, bins=3, missing=False) for name in names]


def test_the_simplest_of_the_sums_that_hold_is_taken() -> None:
    a, b, c, t = numbers("a", "b", "c", "t")
    candidates = [Candidate(t, (a, b, c), 0.1), Candidate(t, (a, b), 0.1), Candidate(t, (a, c), 0.1)]
    counts = [np.array([0.0, exact, 1000.0 - exact, 0, 0, 0]) for exact in (1001.0, 999.0, 700.0)]
    (link,) = choose_sums(candidates, counts, 10.0)
    assert (link.column, link.base, link.others) == ("t", "a", ("b",))
    # One that holds no better than the equality with one part alone is none.
    assert not choose_sums([Candidate(t, (a, b), 0.98)], [counts[1]], 10.0)
    assert not choose_sums([Candidate(t, (a, b), 0.1)], [np.array([0.0, 520.0, 480.0, 0, 0, 0])], 10.0)


def test_no_sum_leads_back_to_itself_and_totals_keep_their_other_links() -> None:
    a, b, c = numbers("a", "b", "c")
    exact = np.array([0.0, 1000.0, 0.0, 0, 0, 0])
    links = choose_sums([Candidate(a, (b, c), 0.0), Candidate(b, (a, c), 0.0)], [exact, exact - 1], 1.0)
    assert [link.column for link in links] == ["a"]
    plain, total = Link("b", "d", 1, 0.5), Link("a", "t", 0, 9.0, ("b",))
    more = [Link("t", "d", -1, 0.9), Link("t", "a", -1, 0.8), Link("e", "t", 1, 0.7)]
    found = {link.column: link for link in attach([total], [plain], more)}
    assert found["d"].base == "t"  # it tells more than the link to b
    assert "a" not in found  # t is made of a
    assert (found["e"].base, found["e"].sign) == ("t", -1)


def test_a_relative_total_is_a_column_as_others_are(tmp_path: Path) -> None:
    synthesis = mg.Synthesizer("mst", epsilon=3.0, delta=1e-6).fit(bills(2500))
    synthesis.save(tmp_path / "bills.margrave")
    again = mg.load(tmp_path / "bills.margrave")
    assert again.schema == synthesis.schema
    assert any(isinstance(column, Relative) and column.others for column in again.schema.columns)
    given = again.sample_arrow(20, rng=0, given={"net": 100.0}).to_pandas()
    assert (given["net"] == 100.0).all()
