"""Relations between columns: found where there are any, paid for, and none made where there are none."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import margrave as mg
from margrave.engines.opening import open_source
from margrave.measure.curator import Curator
from margrave.measure.discovery.between.links import eligible_columns, greatest_distance
from margrave.measure.discovery.between.relations import Relations
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.columns import Integer, Relative
from margrave.schema.columns.relative import Comparison
from margrave.schema.constraints.rules import Ordered
from margrave.schema.schema import Schema
from seeded_noise import SeededSource
from stopping import Killed, killing, repeatable, same

__all__ = ["repeatable"]
ROWS = 6000
DAY = np.datetime64("2022-01-01")


def stays(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Dates in order, a time stamp of the day, an amount and a part of it, and near-copies."""
    rng = np.random.default_rng(seed)
    came = DAY + rng.integers(0, 700, rows)
    charge = np.round(rng.lognormal(7, 1, rows), 2)
    lines = rng.poisson(12, rows)
    return pd.DataFrame(
        {
            "came": came.astype("datetime64[s]"),
            "left": (came + rng.poisson(3, rows)).astype("datetime64[s]"),
            "stamp": came.astype("datetime64[s]") + rng.integers(0, 86_400, rows).astype("timedelta64[s]"),
            "charge": charge,
            "paid": np.round(charge * np.where(rng.random(rows) < 0.3, 1.0, 0.6 + 0.4 * rng.random(rows)), 2),
            "lines": lines,
            "open": lines - (rng.random(rows) < 0.1),
            "age": rng.integers(18, 90, rows),
        }
    )


def discover(
    data: Any,
    epsilon: float = 3.0,
    seed: int = 1,
    schema: Schema | None = None,
    unit: Unit | None = None,
    adjacency: Adjacency = "add_remove",
) -> tuple[Schema, Ledger, Curator]:
    ledger = Ledger(
        epsilon=epsilon,
        delta=1e-6,
        neighbours=Neighbours(unit or Unit(), adjacency),
        accountant=ZCDP(),
        partition_delta=Fraction(1, 4_000_000),
    )
    curator = Curator(open_source(data)[0], ledger, SeededSource(seed))
    return curator.discover(schema, ledger.total / 3), ledger, curator


def relatives(schema: Schema) -> dict[str, Relative]:
    return {column.name: column for column in schema.columns if isinstance(column, Relative)}


def links(schema: Schema) -> set[frozenset[str]]:
    return {frozenset((column.name, column.base)) for column in relatives(schema).values()}


def test_relations_are_found_and_coded() -> None:
    schema, ledger, curator = discover(stays())
    found = relatives(schema)
    assert links(schema) >= {frozenset(("charge", "paid")), frozenset(("lines", "open"))}
    assert len(found.keys() & {"came", "left", "stamp"}) == 2
    assert "age" not in found
    assert found["paid"].how == "quotient"
    assert found["paid"].stays_below
    for column in found.values():
        assert column.share is not None
        share, deviation = column.share
        assert share > 0.9
        assert share + 3 * deviation > 0.99  # all rows fit, and the noise of the look is known
        assert column.part.noise > 0.0  # so that means can tell how sure the numbers of its bins are
        measured = [m for m in curator.measurements if m.clique == (column.name,)]
        assert [m.values.shape for m in measured] == [(column.size,)]
    assert len({m.clique for m in curator.measurements}) == len(curator.measurements) == len(schema.columns)
    assert ledger.planned >= ledger.total * 2 / 3


def test_a_few_whole_numbers_are_no_share_of_their_product() -> None:
    """Coded so, 7 % of the rows were above the greatest quantity."""
    rng = np.random.default_rng(0)
    quantity, price = rng.integers(1, 12, 20_000), rng.choice([1.25, 2.5, 9.99, 20.0, 49.5], 20_000)
    table = pd.DataFrame({"quantity": quantity, "price": price, "total": np.round(quantity * price, 2)})
    schema, _, _ = discover(table)
    assert "quantity" not in relatives(schema)
    assert schema["quantity"].edges[-1] == 12


def follow(keep: float, rows: int = ROWS) -> pd.DataFrame:
    """Four numbers in a row, each `keep` of the one before it and noise, of the same spread."""
    rng = np.random.default_rng(0)
    columns = [rng.normal(0, 1000, rows)]
    for _ in range(3):
        noise = rng.normal(0, 1000 * np.sqrt(1 - keep**2), rows)
        columns.append(keep * columns[-1] + noise)
    return pd.DataFrame({f"x{t}": np.round(column).astype(np.int64) for t, column in enumerate(columns)})


def test_a_series_is_coded_by_its_differences_from_one_of_its_numbers() -> None:
    schema, _, _ = discover(follow(0.99))
    found = relatives(schema)
    assert len(found) == 3
    assert len({column.base for column in found.values()}) == 1


def test_a_difference_that_saves_little_is_not_made() -> None:
    rng = np.random.default_rng(0)
    first, fresh = rng.lognormal(7, 1, (2, ROWS))
    # Near the first in two rows of five, and of the others it knows nothing.
    second = np.where(rng.random(ROWS) < 0.4, first * (1 + 0.02 * rng.normal(0, 1, ROWS)), fresh)
    data = {"first": np.round(first).astype(np.int64), "second": np.round(second).astype(np.int64)}
    schema, ledger, _ = discover(pd.DataFrame(data))
    assert any(event.what.startswith("relation of") for event in ledger.events)
    assert not relatives(schema)


@pytest.mark.parametrize("method", ["independent", "mst"])
def test_synthetic_rows_keep_them(method: str, tmp_path: Path) -> None:
    path = tmp_path / "stays.csv"
    stays().to_csv(path, index=False)
    synthesis = mg.Synthesizer(method, epsilon=3.0, delta=1e-6).fit(path)
    frame = synthesis.sample_arrow(rng=0).to_pandas()
    days = {name: pd.to_datetime(frame[name]).dt.normalize() for name in ("came", "left", "stamp")}
    assert (days["left"] < days["came"]).mean() <= 0.02
    assert (days["stamp"] == days["came"]).mean() >= 0.95
    assert (frame["paid"] > frame["charge"]).mean() <= 0.02
    assert (frame["open"] > frame["lines"]).mean() <= 0.02
    again = synthesis.schema.from_json(synthesis.schema.to_json())
    assert again == synthesis.schema


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 8))])
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_none_are_made_where_there_are_none(seed: int, epsilon: float) -> None:
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({f"n{i}": rng.integers(0, 50 + 20 * i, 4000) for i in range(8)})
    for i in range(4):
        data[f"r{i}"] = rng.lognormal(3, 1, 4000).round(2)
        data[f"d{i}"] = (DAY + rng.integers(0, 500, 4000)).astype("datetime64[s]")
    schema, ledger, _ = discover(data, epsilon, seed)
    assert not relatives(schema)
    assert not [event for event in ledger.events if "relation of" in event.what]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("k", [1, 3])
def test_a_unit_moves_the_comparisons_by_no_more_than_is_declared(
    adjacency: Adjacency, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one run asked, asked of two neighbours of which one holds an owner's k equal odd rows."""
    asked: list[Any] = []
    true = Relations._count_differences

    def note(self: Relations, column: Any, bases: Any, *how: Any) -> Any:
        asked.append((column.name, bases[0].name, *how, [base.name for base in bases[1:]]))
        return true(self, column, bases, *how)

    monkeypatch.setattr(Relations, "_count_differences", note)
    data, unit = stays().assign(who=np.arange(ROWS) // k), Unit("who", k)
    _, ledger, _ = discover(data, unit=unit, adjacency=adjacency)
    (event,) = [event for event in ledger.events if "pairs of columns" in event.what]
    assert isinstance(event, GaussianEvent)
    pairs = int(event.what.split()[2])
    assert event.l2_squared == pairs * Neighbours(unit, adjacency).marginal_l2_squared
    odd = data.iloc[[0] * k].assign(came=DAY, left=DAY - 900, paid=1e9, who=-1, lines=-7)
    other = data.iloc[[1] * k].assign(came=DAY + 900, left=DAY, paid=0.0, charge=5.0, who=-1, lines=10**6)
    tables = [pd.concat([data, odd]), data if adjacency == "add_remove" else pd.concat([data, other])]
    sources = [open_source(table)[0].bound_owners("who", k) for table in tables]
    moved = 0
    for question in asked[:pairs]:
        answers = [source.differences(*question).reveal() for source in sources]
        moved += int(((answers[0] - answers[1]) ** 2).sum())
    assert event.l2_squared / 2 <= moved <= event.l2_squared


def test_what_the_user_declares_wins() -> None:
    data = stays()
    source = open_source(data)[0]
    rules = (Ordered("came", "left"), Ordered("paid", "charge"))
    declared = Schema(source.columns, rules)
    schema, _, _ = discover(data, schema=declared)
    assert schema.rules == rules
    assert not relatives(schema).keys() & {"came", "left", "paid", "charge"}
    assert "open" in relatives(schema) or "lines" in relatives(schema)


def test_nothing_is_spent_where_nothing_can_be_seen() -> None:
    _, ledger, _ = discover(stays(60), epsilon=0.1)
    assert not [event for event in ledger.events if "comparisons" in event.what]
    columns = {"a": np.arange(300) % 7, "b": np.repeat(["x", "y", "z"], 100)}
    _, ledger, _ = discover(pd.DataFrame(columns))
    assert not [event for event in ledger.events if "comparisons" in event.what]


def test_missing_values_that_follow_are_found() -> None:
    data = stays()
    gone = np.random.default_rng(3).random(ROWS) < 0.2
    data.loc[gone, ["came", "left", "stamp"]] = pd.NaT
    schema, _, _ = discover(data)
    found = relatives(schema)
    assert [column.follows for column in found.values() if column.own.kind in ("date", "moment")] == [
        True
    ] * 2
    assert not found["paid"].missing


def test_a_wrong_order_keeps_its_rows() -> None:
    """A tenth of the payments are above the charge: they have bins, and nothing is clamped."""
    data = stays()
    rows = np.random.default_rng(4).random(ROWS) < 0.1
    data.loc[rows, "paid"] = data.loc[rows, "charge"] * 1.5
    schema, _, _ = discover(data, epsilon=6.0)
    column = relatives(schema).get("paid")
    assert column is None or not column.stays_below


@pytest.mark.usefixtures("repeatable")
@pytest.mark.parametrize("when", ["lost", "stored"])
def test_a_run_that_stops_at_a_relation_goes_on(
    when: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = stays(2000)
    whole = mg.Synthesizer("independent", epsilon=4.0, delta=1e-6).fit(data)
    events = [event.what for event in whole.release.events]
    step = next(place for place, what in enumerate(events) if what.startswith("relation of"))
    more: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6, "ledger": tmp_path / "run.jsonl"}
    with pytest.raises(Killed), killing(monkeypatch, step, when):
        mg.Synthesizer("independent", **more).fit(data)
    again = mg.Synthesizer("independent", **more).fit(data, resume=True)
    if when == "stored":
        same(again, whole)
    else:
        assert relatives(again.schema)


def test_comparisons_take_whole_numbers_exactly() -> None:
    big = np.array([2**53 + 1, -(2**63), 2**63 - 1])
    small = np.array([2**53, 2**63 - 1, -(2**63)])
    found = Comparison("difference", whole=True).values(big, small)
    assert found.tolist() == [1, -(2**62), 2**62]


@pytest.mark.parametrize("sizes", [(1, 1), (7, 4), (50, 50), (200, 3)])
def test_distances_of_sorted_samples_are_those_of_their_distributions(sizes: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(sizes))
    for _ in range(20):
        left, right = (np.sort(rng.integers(0, 12, size).astype(np.float64)) for size in sizes)
        both = np.concatenate([left, right])
        one, other = (np.searchsorted(side, both, side="right") / len(side) for side in (left, right))
        assert greatest_distance(left, right) == np.abs(one - other).max()
        assert greatest_distance(left, left) == 0.0


def test_flags_are_not_related() -> None:
    def column(name: str, edges: tuple[float, ...]) -> Integer:
        weights = (5.0,) * (len(edges) - 1)
        return Integer(name=name, edges=edges, fine=edges, weights=weights, missing=False, strict=False)

    schema = Schema(
        (column("flag", (0, 1, 2)), column("count", (0, 1, 2, 3)), column("year", (1990, 1991, 1992)))
    )
    assert [one.name for one in eligible_columns(schema)] == ["count"]


def test_noise_far_out_does_not_ruin_the_mean_of_a_difference() -> None:
    rng = np.random.default_rng(0)
    rows = 12_000
    came = np.datetime64("2015-01-01") + rng.integers(0, 1_500, rows)
    table = pa.table(
        {
            "came": came,
            "left": came + rng.poisson(4, rows),
            "who": np.arange(rows) // 3,
            "x": ["a", "b"] * 6_000,
        }
    )
    for seed in range(4):
        synthesizer = mg.Synthesizer(
            "independent", epsilon=0.5, unit=Unit("who", 3), not_private_test_seed=seed
        )
        made = synthesizer.fit(table).sample_arrow(8_000, rng=np.random.default_rng(0))
        stay = (made["left"].to_numpy() - made["came"].to_numpy()).astype(int)
        # Without fading a few rows years out add .2 to 3.2 days to the mean. How wide the cells near 0 are,
        # and so the mean itself, hangs on the ranges of both dates, which noise moves.
        assert stay[stay > 31].sum() < 0.1 * len(stay)
        assert np.percentile(stay, 99) < 16


def test_a_total_is_the_sum_of_its_parts_and_its_mean_a_line_of_it() -> None:
    rng = np.random.default_rng(0)
    marks = rng.integers(0, 101, (4, 20_000))
    names = [f"mark{place}" for place in range(4)]
    table = pd.DataFrame(dict(zip(names, marks, strict=True)) | {"total": marks.sum(axis=0)})
    # Either says the other, so that the total might be four times the mean and not the sum.
    table.insert(0, "score", rng.normal(50.0, 9.0, 20_000).round(1))
    table["mean"] = (table["total"] / 4).round(1)
    for seed in range(2):
        found = relatives(discover(table, seed=seed)[0])
        assert set(found["total"].bases) == set(names)
        assert found["mean"].bases in (("total",), tuple(names))


def test_of_a_sum_the_column_of_most_values_is_drawn_by_the_others() -> None:
    rng = np.random.default_rng(0)
    fee = rng.choice([8_500, 9_000, 9_250, 12_500], 20_000)
    rebate = rng.choice([0, 1_000, 2_500], 20_000, p=[0.6, 0.3, 0.1])
    parts = rng.integers(0, 40, (2, 20_000))
    table = pd.DataFrame({"fee": fee, "rebate": rebate, "to_pay": fee - rebate, "a": parts[0], "b": parts[1]})
    table["all"] = table["a"] + table["b"]
    synthesis = mg.Synthesizer("independent", epsilon=3.0, not_private_test_seed=0).fit(table)
    found = relatives(synthesis.schema)
    assert found["to_pay"].base_words == "fee - rebate"
    assert set(found["all"].bases) == {"a", "b"}
    made = synthesis.sample_arrow(5_000, rng=np.random.default_rng(0)).to_pandas()
    assert (made["fee"] - made["rebate"] == made["to_pay"]).mean() > 0.99
    assert made["fee"].isin([8_500, 9_000, 9_250, 12_500]).mean() > 0.98
    assert Schema.from_json(synthesis.schema.to_json()) == synthesis.schema
