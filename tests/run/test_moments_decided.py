"""What a run with moments buys: by a fixed share, or by what its first tables foretell."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.models.mixture import Mixture
from margrave.privacy.ledger.journal import read_ledger
from margrave.regression import linear
from margrave.regression.foretold import Foretold, share_sums
from margrave.run.buying import FIRST
from stopping import Killed, killing, repeatable, same, total_of

__all__ = ["repeatable"]
LEVELS = 16


def determined(rows: int = 4000) -> tuple[pa.Table, mg.Schema]:
    """Pay follows from the grade, one of many levels; other columns say nothing more."""
    rng = np.random.default_rng(0)
    grade = rng.integers(0, LEVELS, rows)
    names = [f"g{code:02d}" for code in range(LEVELS)]
    kind = rng.integers(0, 8, rows)
    columns = {"grade": np.array(names)[grade], "kind": np.array(list("abcdefgh"))[kind], "pay": grade}
    schema = mg.Schema(
        (
            mg.Categorical(name="grade", values=tuple(names), missing=False),
            mg.Categorical(name="kind", values=tuple("abcdefgh"), missing=False),
            mg.Integer(name="pay", lower=0, upper=LEVELS - 1, bins=LEVELS, missing=False),
        )
    )
    return pa.table(columns), schema


def weak(rows: int = 4000) -> tuple[pa.Table, mg.Schema]:
    """Pay is a sum of many numbers, none of which says much alone."""
    rng = np.random.default_rng(1)
    columns = {f"x{k}": rng.integers(0, 32, rows) for k in range(8)}
    total = np.sum(list(columns.values()), axis=0) / 8.0
    columns["pay"] = np.clip(np.round(total + rng.normal(0.0, 3.0, rows)), 0, 31).astype(np.int64)
    numbers = (mg.Integer(name=name, lower=0, upper=31, bins=32, missing=False) for name in columns)
    return pa.table(columns), mg.Schema(tuple(numbers))


def run(schema: mg.Schema, ledger: Path | None = None, **more: Any) -> mg.Synthesizer:
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "schema": schema, "target": "pay"}
    options |= {"model": Mixture(components=12, steps=40), "moments": True, "ledger": ledger}
    return mg.Synthesizer("auto", **(options | more))


def products(events: Any) -> list[Any]:
    return [event for event in events if event.what.startswith("products of")]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
@pytest.mark.parametrize(("make", "sums"), [(determined, False), (weak, True)])
def test_the_rest_goes_to_what_serves_the_target(make: Any, sums: bool, seed: int) -> None:
    """Several releases each: the noise of the first tables must not turn the decision."""
    table, schema = make()
    found = run(schema, not_private_test_seed=seed).fit(table)
    assert (found.release.sums is not None) == sums
    word = "sums of products" if sums else "tables,"
    assert word in found.release.notes["moments"]
    assert len(products(found.release.events)) == sums
    spent = float(total_of(found.release.events))
    assert 0.999 * found.guarantee.rho < spent <= found.guarantee.rho * (1 + 1e-12)


@pytest.mark.parametrize(
    ("sums", "tables", "share"),
    [(0.1, 1.0, 1), (0.31, 1.0, 0.5), (0.89, 1.0, 0.5), (1.0, 1.0, 0), (5.0, 1.0, 0), (0.0, 0.0, 0.5)],
)
def test_where_neither_is_foretold_to_be_clearly_better_each_gets_a_half(
    sums: float, tables: float, share: float
) -> None:
    assert share_sums([Foretold(sums, tables)]) == share
    assert share_sums([Foretold(sums / 2, tables), Foretold(sums / 2, 0.0)]) == share
    assert share_sums([]) == 0


def test_a_half_each_is_spent_as_the_ledger_says_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    table, schema = weak()
    monkeypatch.setattr("margrave.regression.foretold.share_sums", lambda errors: Fraction(1, 2))
    found = run(schema).fit(table)
    events = found.release.events
    whole, bought = float(total_of(events)), float(total_of(products(events)))
    assert bought / whole == pytest.approx((1 - float(FIRST)) / 2, rel=1e-3)
    assert 0.999 * found.guarantee.rho < whole <= found.guarantee.rho * (1 + 1e-12)
    assert "by halves" in found.release.notes["moments"]
    assert found.release.sums is not None
    place = events.index(products(events)[0])
    last = [event.what for event in events[place:] if "pay" in event.what and " x " in event.what]
    assert last  # tables of the target were bought after the sums as well


def test_the_ledger_has_the_parts_that_the_plan_foretells(tmp_path: Path) -> None:
    table, schema = weak()
    path = tmp_path / "run.jsonl"
    asked = run(schema, path)
    shares = asked.plan(table).shares
    assert sum(shares.values()) == pytest.approx(1)
    undecided = [share for name, share in shares.items() if name.startswith("moments or tables")]
    assert undecided == [pytest.approx(1 - float(FIRST))]
    found = asked.fit(table)
    events = read_ledger(path)[1]
    whole, last = float(total_of(events)), products(events)
    assert events[-1] == last[0]
    assert float(total_of(last)) / whole == pytest.approx(undecided[0], rel=1e-3)
    found.save(tmp_path / "a.margrave")
    kept = mg.load(tmp_path / "a.margrave")
    assert kept.release.notes == found.release.notes
    assert np.array_equal(linear(kept, "pay").estimates, linear(found, "pay").estimates)
    assert kept.guarantee == found.guarantee


def test_tables_of_both_parts_are_kept() -> None:
    """Where tables get the rest, nothing that the first part measured of the target's pair is lost."""
    table, schema = determined()
    precise = []
    for moments in (True, False):
        found = run(schema, moments=moments, not_private_test_seed=0).fit(table)
        pairs = [m for m in found.release.measurements if set(m.clique) == {"grade", "pay"}]
        assert len(pairs) == 1 + moments
        precise.append(sum(float(m.sigmas.mean()) ** -2 for m in pairs))
    assert 0.85 < precise[0] / precise[1] < 1.1


KILLED = [
    pytest.param(late, make, when, marks=pytest.mark.slow if make is determined else ())
    for late, make, when in product((False, True), (determined, weak), ("before", "lost", "stored"))
]


@pytest.mark.parametrize(("late", "make", "when"), KILLED)
@pytest.mark.usefixtures("repeatable")
def test_a_killed_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, when: str, make: Any, late: bool
) -> None:
    """Killed in the first part, and at the last spend."""
    table, schema = make(1000)
    path = tmp_path / "run.jsonl"
    with killing(monkeypatch, 10**6, when) as calls:
        whole = run(schema, tmp_path / "whole.jsonl").fit(table)
    step = calls[0] - 1 if late else 1
    with pytest.raises(Killed), killing(monkeypatch, step, when):
        run(schema, path).fit(table)
    if late and when == "lost":
        return  # what was left is spent: `check_unfinished` refuses it
    found = run(schema, path).fit(table, resume=True)
    assert float(total_of(found.release.events)) <= found.guarantee.rho * (1 + 1e-12)
    if when != "lost":
        same(whole, found)
        assert (found.release.sums is None) == (whole.release.sums is None)


def test_a_number_is_a_fixed_share() -> None:
    table, schema = determined(500)
    asked = run(schema, moments=0.25)
    assert asked.moment_shares.sums == Fraction(1, 4)
    assert asked.plan(table).shares["moments"] == pytest.approx(0.25)
    found = asked.fit(table)
    bought = products(found.release.events)
    assert float(total_of(bought)) / float(total_of(found.release.events)) == pytest.approx(0.25, rel=1e-3)
    assert "moments" not in found.release.notes


@pytest.mark.parametrize("share", [0, 0.0, 1, 1.0, -0.5, 1.5, float("nan"), float("inf"), "half", None])
def test_bad_shares_are_refused(share: Any) -> None:
    with pytest.raises(InputError, match="moments must be True, False, or above 0 and below 1"):
        run(determined(10)[1], moments=share)


def test_a_strategy_that_measures_no_tables_has_a_fixed_share() -> None:
    schema = determined(10)[1]
    asked = mg.Synthesizer("dp_merf", epsilon=1.0, schema=schema, target="pay", moments=True)
    assert asked.moment_shares.sums == Fraction(1, 2)
    assert not asked.moment_shares.decides


@pytest.mark.parametrize("more", [{"adjacency": "replace_one"}, {"unit": mg.Unit("id", 2)}])
def test_owners_and_replaced_rows(more: Any) -> None:
    table, schema = determined(600)
    if "unit" in more:
        table = table.append_column("id", pa.array(np.arange(600) // 2))
    found = run(schema, **more).fit(table)
    assert float(total_of(found.release.events)) <= found.guarantee.rho * (1 + 1e-12)


def test_a_target_with_missing_values_gets_tables() -> None:
    """Z'Z does not tell which rows have a target."""
    table, _ = weak(1000)
    schema = mg.Schema(
        tuple(
            mg.Integer(name=name, lower=0, upper=31, bins=32, missing=name == "pay")
            for name in table.column_names
        )
    )
    assert run(schema).fit(table).release.sums is None


def test_a_time_limit_leaves_the_run_complete() -> None:
    table, schema = determined(500)
    found = run(schema, max_seconds=2.0).fit(table)
    assert 0.99 * found.guarantee.rho < float(total_of(found.release.events))
