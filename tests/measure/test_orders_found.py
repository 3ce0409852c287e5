"""Orders of dates: found where next to no row breaks them, kept by every row, and of nothing else."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave import Synthesizer
from margrave.measure.discovery.between.links import pair_up
from margrave.measure.discovery.between.orders import find_orders, list_open
from margrave.measure.discovery.between.relations import ORDERS, SHARE
from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.run.synthesizer import DISCOVERY
from margrave.schema.columns import Date, Integer, Moment, Relative
from margrave.schema.constraints.calendar import follow_dates
from margrave.schema.constraints.rules import Elapsed, Ordered, rule_from_json
from margrave.schema.describe import describe_rule
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema


def people(rows: int, seed: int = 0, wrong: float = 0.0) -> pa.Table:
    """A date of birth that lies before a visit, often by little; of a share of the rows after it."""
    rng = np.random.default_rng(seed)
    seen = np.datetime64("2018-01-01") + rng.integers(0, 1_500, rows)
    ages = np.where(rng.random(rows) < 0.2, rng.integers(0, 800, rows), rng.integers(0, 25_000, rows))
    born = seen - np.where(rng.random(rows) < wrong, -1 - ages % 900, ages)
    return pa.table({"born": born, "seen": seen, "x": rng.integers(0, 3, rows).astype(str)})


def fit(table: pa.Table, epsilon: float = 2.0) -> tuple[list[Ordered], pa.Table]:
    synthesis = Synthesizer("independent", epsilon=epsilon, not_private_test_seed=0).fit(table)
    found = [rule for rule in synthesis.schema.rules if isinstance(rule, Ordered)]
    return found, synthesis.sample_arrow(4_000, rng=np.random.default_rng(0))


def test_nobody_is_seen_before_being_born() -> None:
    (rule,), made = fit(people(12_000))
    assert (rule.low, rule.high) == ("born", "seen")
    assert rule.found is not None
    assert 0.95 < rule.found[0] <= 1.0
    assert (made["born"].to_numpy() <= made["seen"].to_numpy()).all()


@pytest.mark.parametrize("wrong", [0.2, 0.5])
def test_an_order_that_many_rows_break_is_none(wrong: float) -> None:
    found, made = fit(people(12_000, wrong=wrong))
    assert found == []
    assert (made["born"].to_numpy() > made["seen"].to_numpy()).any()


def columns(*ranges: tuple[str, str], kind: Any = Date) -> list[Any]:
    """Columns of cells of equal weight, named a, b, ..."""
    made = []
    for name, (lower, upper) in zip("abc", ranges, strict=False):
        edges = kind(name=name, lower=lower, upper=upper, bins=10, missing=False).edges
        made.append(kind(name=name, edges=edges, fine=edges, weights=(5.0,) * 10, missing=False))
    return made


def counts_of(pair: Any, rows: float, broken: float) -> np.ndarray:
    """Rows of which some are in the cells below 0, and the others above."""
    starts = pair.edges[:-1]
    cells = np.where(starts < 0, 0.0, rows * (1 - broken) / (starts >= 0).sum())
    cells[0] = rows * broken
    return np.append(cells, np.zeros(3))


@pytest.mark.parametrize(
    ("broken", "sigma", "found"),
    [
        (0.0, 10.0, True),
        (0.002, 10.0, True),
        (0.05, 10.0, False),
        (0.01, 40.0, True),
        (0.018, 45.0, False),  # more than half as many as of independent dates, .025
        (0.02, 60.0, False),
        (0.0, 150.0, False),  # noise is larger than that
        (0.0, 600.0, False),
        (-0.2, 450.0, False),
    ],
)
def test_what_noise_may_hide_is_no_break_if_it_is_little(broken: float, sigma: float, found: bool) -> None:
    overlapping = columns(("2010-01-01", "2012-01-01"), ("2011-06-01", "2014-01-01"))
    (pair,) = pair_up(overlapping, 9)
    orders = find_orders([pair], [counts_of(pair, 10_000.0, broken)], sigma, ())
    assert [(one.low, one.high) for one in orders] == ([("a", "b")] if found else [])
    # Where one of both follows from other columns the other one moves, and where both do none.
    assert len(find_orders([pair], [counts_of(pair, 10_000.0, broken)], sigma, ("a",))) == found
    assert find_orders([pair], [counts_of(pair, 10_000.0, broken)], sigma, ("a", "b")) == []


def test_what_noise_leaves_open_is_asked_again_and_what_it_does_not_is_not() -> None:
    overlapping = columns(("2010-01-01", "2012-01-01"), ("2011-01-01", "2013-01-01"))
    (pair,) = pair_up(overlapping, 9)
    hidden, plain = counts_of(pair, 1_000.0, 0.0), counts_of(pair, 1_000.0, 0.5)
    (again,) = list_open([pair], [hidden], 100.0, set(), ())
    assert (again.base.name, again.column.name, len(again.edges)) == ("a", "b", 4)
    assert again.chance.sum() == pytest.approx(1.0)
    assert 0.05 < again.chance[0] < 0.2
    assert list_open([pair], [hidden], 1.0, set(), ()) == []  # told by the first look
    assert list_open([pair], [hidden], 100.0, {frozenset(("a", "b"))}, ()) == []  # one is coded by the other
    assert list_open([pair], [hidden], 100.0, set(), ("a", "b")) == []
    # Half of the rows break either order, and the noise is small.
    assert list_open([pair], [plain], 1.0, set(), ()) == []


def test_few_rows_with_both_dates_keep_their_order_and_a_date_between_two_stays_there() -> None:
    rng = np.random.default_rng(0)
    rows = 12_000
    start = np.datetime64("2019-01-01") + rng.integers(0, 1_300, rows)
    end = start + rng.integers(300, 900, rows)
    claim = start + (rng.random(rows) * (end - start).astype(int)).astype(int)
    claim[rng.random(rows) >= 0.1] = np.datetime64("NaT")
    table = pa.table({"start": start, "end": end, "claim": claim, "x": rng.integers(0, 9, rows)})
    kept, asked = [], 0
    for seed in range(3):
        synthesis = Synthesizer("independent", epsilon=2.0, not_private_test_seed=seed).fit(table)
        for event in synthesis.release.events:
            if event.what.startswith("orders of"):
                assert isinstance(event, GaussianEvent)
                assert event.l2_squared == int(event.what.split()[2])
                most = synthesis.guarantee.rho * float(DISCOVERY * SHARE * ORDERS)
                assert 0.0 < float(event_rho(event)) <= most
                asked += 1
        made = synthesis.sample_arrow(rng=np.random.default_rng(0))
        own = {
            name: made[name].to_numpy(zero_copy_only=False).astype("datetime64[D]")
            for name in made.column_names[:3]
        }
        there = ~np.isnat(own["claim"])
        between = (own["start"] <= own["claim"]) & (own["claim"] <= own["end"])
        kept.append(between[there].mean())
    assert np.mean(kept) > 0.95
    assert asked > 0


def test_ranges_that_are_apart_and_other_kinds_have_no_rule() -> None:
    apart = columns(("2010-01-01", "2012-01-01"), ("2013-06-01", "2014-01-01"))
    (pair,) = pair_up(apart, 9)
    assert find_orders([pair], [counts_of(pair, 10_000.0, 0.0)], 1.0, ()) == []
    mixed = [columns(("2010-01-01", "2012-01-01"))[0], columns(("2010-06-01", "2012-06-01"), kind=Moment)[0]]
    mixed[1] = Moment(
        name="b", edges=mixed[1].edges, fine=mixed[1].fine, weights=mixed[1].weights, missing=False
    )
    (pair,) = pair_up(mixed, 9)
    assert find_orders([pair], [counts_of(pair, 10_000.0, 0.0)], 1.0, ()) == []


def ordered(share: tuple[float, float] | None) -> Schema:
    low = Date(name="low", lower="2010-01-01", upper="2019-12-31", bins=10, missing=True)
    high = Date(name="high", lower="2012-01-01", upper="2021-12-31", bins=10, missing=False)
    return Schema((low, high), (Ordered("low", "high", share=share),))


def test_a_found_order_holds_for_values_and_leaves_codes_alone() -> None:
    schema = ordered((0.99, 0.01))
    assert schema.code_rules is None
    assert schema.domain == Schema(schema.columns).domain
    rng = np.random.default_rng(0)
    codes = (rng.integers(0, 11, 5_000).astype(np.uint8), rng.integers(0, 10, 5_000).astype(np.uint8))
    table = decode(Encoded(schema.domain, codes), schema, rng)
    low, high = (table[name].to_numpy(zero_copy_only=False) for name in ("low", "high"))
    there = codes[0] < 10
    assert (low[there] <= high[there]).all()
    assert np.isnat(low[~there]).all()
    # Only what broke the order moved.
    places = [
        np.searchsorted(schema[name].edge_array, days.astype("datetime64[D]").astype(int), side="right") - 1  # type: ignore[attr-defined]
        for name, days in (("low", low), ("high", high))
    ]
    assert (places[1] == codes[1]).all()
    fits = there & (codes[0] <= codes[1])
    assert (places[0] == codes[0])[fits].all()


def test_it_is_kept_in_json_and_told() -> None:
    schema = ordered((0.99, 0.01))
    assert Schema.from_json(schema.to_json()) == schema
    assert describe_rule(schema.rules[0]).startswith("low is at most high in 99.0% (± 1.0%)")
    assert describe_rule(Ordered("low", "high")) == "ordered (low, high)"
    assert rule_from_json({"kind": "ordered", "low": "a", "high": "b"}).found is None


def test_an_age_and_an_order_hold_together() -> None:
    born = Date(name="born", lower="1990-01-01", upper="2021-12-31", bins=8, missing=False)
    seen = Date(name="seen", lower="2018-01-01", upper="2021-12-31", bins=4, missing=False)
    age = Integer(name="age", lower=0, upper=31, bins=32, missing=False)
    rules = (Ordered("born", "seen", share=(1.0, 0.01)), Elapsed("age", "born", "seen", "years"))
    schema = Schema((born, seen, age), rules)
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(0, column.size, 4_000).astype(np.uint8) for column in schema.attributes)
    encoded = Encoded(schema.domain, codes)
    assert follow_dates(encoded, Schema(schema.columns), rng, {}, {}, {}) == ({}, {})
    table = decode(encoded, schema, rng)
    assert (table["born"].to_numpy() <= table["seen"].to_numpy()).all()
    assert Fraction(int((table["age"].to_numpy() == codes[2]).sum()), 4_000) > Fraction(9, 10)


def test_a_date_moves_between_all_its_bounds_and_behind_the_earlier_where_they_contradict() -> None:
    own = {"lower": "2010-01-01", "upper": "2019-12-31", "bins": 10, "missing": False}
    columns = [Date(name=name, **own) for name in ("first", "last", "between")]  # type: ignore[arg-type]
    rules = [Ordered(*names, share=(1.0, 0.01)) for names in (("first", "between"), ("between", "last"))]
    for one in ("first", "last"):  # others follow from these, so that they do not move
        part = Integer(name=f"{one}_due", lower=0, upper=9, bins=2, missing=False)
        due = Date(name=f"{one}_due", **own)  # type: ignore[arg-type]
        columns.append(
            Relative(name=due.name, base=one, base_read="date", own=due, part=part, missing=False)  # type: ignore[arg-type]
        )
    schema = Schema(tuple(columns), tuple(rules))
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, c.size, 4_000).astype(np.uint8) for c in schema.attributes]
    made = decode(Encoded(schema.domain, tuple(codes)), schema, rng)
    first, last, between = (made[name].to_numpy().astype(int) for name in ("first", "last", "between"))
    held = first <= last
    assert 0.4 < held.mean() < 0.6
    assert ((first <= between) & (between <= last))[held].mean() > 0.99
    assert (first <= between)[~held].mean() > 0.95
