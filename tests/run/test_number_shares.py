"""What a run with a target buys beside tables: sums of products of its numbers, for a share of rho."""

from __future__ import annotations

from fractions import Fraction
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
from margrave.run.buying import MORE_NUMBERS, NUMBERS
from stopping import Killed, killing, repeatable, same, total_of

__all__ = ["repeatable"]
SCHEMA = mg.Schema(
    (
        *(mg.Integer(name=name, lower=0, upper=15, bins=16, missing=False) for name in ("a", "b", "pay")),
        mg.Categorical(name="ward", values=("x", "y", "z"), missing=False),
    )
)


def table(rows: int = 1500) -> pa.Table:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 16, (2, rows))
    pay = np.clip(np.round((a + b) / 2 + rng.normal(0, 2, rows)), 0, 15).astype(np.int64)
    ward = np.array(["x", "y", "z"])[rng.integers(0, 3, rows)]
    return pa.table({"a": a, "b": b, "pay": pay, "ward": ward})


def run(ledger: Path | None = None, method: str = "auto", **more: Any) -> mg.Synthesizer:
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "schema": SCHEMA, "target": "pay"}
    small = {} if method != "auto" else {"model": Mixture(components=8, steps=20)}
    return mg.Synthesizer(method, **(options | {"ledger": ledger} | small | more))


def products(events: Any) -> list[Any]:
    return [event for event in events if event.what.startswith("products of")]


@pytest.mark.parametrize(
    ("moments", "share"), [(None, NUMBERS), (True, MORE_NUMBERS), (0.25, Fraction(1, 4)), (False, 0), (0, 0)]
)
def test_they_get_their_share_last_as_the_plan_foretells(
    moments: Any, share: Fraction, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    asked = run(path, moments=moments)
    assert asked.moment_share == share
    shares = asked.plan(table()).shares
    assert sum(shares.values()) == pytest.approx(1)
    assert shares.get("products of numbers", 0.0) == pytest.approx(float(share))
    found = asked.fit(table())
    events = read_ledger(path)[1]
    assert events == found.release.events
    whole, bought = float(total_of(events)), products(events)
    assert 0.999 * found.guarantee.rho < whole <= found.guarantee.rho * (1 + 1e-12)
    assert len(bought) == (share > 0)
    assert (found.release.sums is not None) == (share > 0)
    if bought:
        assert events[-1] == bought[0]
        assert float(total_of(bought)) / whole == pytest.approx(float(share), rel=1e-3)
        assert "a x b x pay" in bought[0].what
        assert "ward" not in bought[0].what


def test_they_are_kept_in_the_file_of_the_release(tmp_path: Path) -> None:
    found = run(epsilon=20.0, not_private_test_seed=0).fit(table())
    found.save(tmp_path / "a.margrave")
    kept, made = mg.load(tmp_path / "a.margrave"), linear(found, "pay", features=["a", "b"], of="table")
    assert kept.release.sums is not None
    again = linear(kept, "pay", features=["a", "b"], of="table")
    assert np.array_equal(again.estimates, made.estimates)
    assert np.array_equal(again.standard_errors, made.standard_errors)
    assert np.isfinite(made.standard_errors).all()


def test_runs_without_a_target_and_other_methods_buy_none() -> None:
    assert run(target=None).moment_share == 0
    assert run(method="mwem").moment_share == 0
    assert run(method="mwem", moments=True).moment_share == MORE_NUMBERS
    public = run(adjacency="replace_private", public=("a",))
    assert public.moment_share == 0


@pytest.mark.parametrize(
    "schema",
    [
        mg.Schema((*SCHEMA.columns[:2], mg.Integer(name="pay", lower=0, upper=15, bins=16, missing=True))),
        mg.Schema((SCHEMA["ward"], SCHEMA["pay"])),
    ],
)
def test_where_no_sum_would_serve_tables_get_all(schema: mg.Schema) -> None:
    """A target with missing values, and features of levels alone."""
    asked = run(schema=schema)
    rows = table().select([column.name for column in schema.columns])
    assert "products of numbers" not in asked.plan(rows).shares
    found = asked.fit(rows)
    assert found.release.sums is None
    assert 0.999 * found.guarantee.rho < float(total_of(found.release.events))


def test_where_noise_would_hide_all_tables_get_all() -> None:
    """At an epsilon at which such noise could hardly be drawn, nothing fails after tables were bought."""
    found = run(epsilon=1e-7).fit(table(200))
    assert found.release.sums is None
    assert 0.999 * found.guarantee.rho < float(total_of(found.release.events))


@pytest.mark.parametrize("when", ["before", "lost", "stored"])
@pytest.mark.parametrize("late", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("repeatable")
def test_a_killed_run_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, when: str, late: bool) -> None:
    """Killed at its second spend, and at the last, which buys the sums."""
    path = tmp_path / "run.jsonl"
    with killing(monkeypatch, 10**6, when) as calls:
        whole = run(tmp_path / "whole.jsonl").fit(table())
    step = calls[0] - 1 if late else 1
    with pytest.raises(Killed), killing(monkeypatch, step, when):
        run(path).fit(table())
    if late and when == "lost":
        return  # what was left is spent: `check_unfinished` refuses it
    found = run(path).fit(table(), resume=True)
    assert float(total_of(found.release.events)) <= found.guarantee.rho * (1 + 1e-12)
    assert found.release.sums is not None
    assert whole.release.sums is not None
    if when != "lost":
        same(whole, found)
        assert np.array_equal(found.release.sums.values, whole.release.sums.values)


@pytest.mark.parametrize("share", [1, 1.0, -0.5, 1.5, float("nan"), float("inf"), "half"])
def test_bad_shares_are_refused(share: Any) -> None:
    with pytest.raises(InputError, match="moments must be True, False, or at least 0 and below 1"):
        run(moments=share)


@pytest.mark.parametrize(
    ("more", "message"),
    [({"target": None}, "moments must be with a target"), ({"adjacency": "zero_out"}, "adjacency")],
)
def test_what_cannot_be_bought_is_refused_before_anything_is_spent(more: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(moments=0.2, **more)


@pytest.mark.parametrize("more", [{"adjacency": "replace_one"}, {"unit": mg.Unit("id", 2)}])
def test_owners_and_replaced_rows(more: Any) -> None:
    rows = table(600)
    if "unit" in more:
        rows = rows.append_column("id", pa.array(np.arange(600) // 2))
    found = run(**more).fit(rows)
    assert found.release.sums is not None
    assert float(total_of(found.release.events)) <= found.guarantee.rho * (1 + 1e-12)


def test_a_time_limit_leaves_the_run_complete() -> None:
    found = run(max_seconds=2.0).fit(table(500))
    assert found.release.sums is not None
    assert 0.99 * found.guarantee.rho < float(total_of(found.release.events))


def test_nothing_declared_buys_them_too() -> None:
    """What columns are is discovered first, and the sums are of bins that were found."""
    rows = table(4000)
    found = mg.Synthesizer("auto", epsilon=3.0, delta=1e-6, target="pay", not_private_test_seed=0).fit(rows)
    assert found.release.sums is not None
    assert set(found.release.sums.numbers.names) >= {"a", "b", "pay"}
    slopes = linear(found, "pay", features=["a", "b"], of="table")
    numbers = np.column_stack([np.ones(4000), rows["a"].to_numpy(), rows["b"].to_numpy()])
    truth = np.linalg.lstsq(numbers, rows["pay"].to_numpy(), rcond=None)[0]
    assert slopes.estimates[1:] == pytest.approx(truth[1:], abs=0.06)
