"""Epsilon found from an error or a risk: the plan's own figures are kept, and nothing is read for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import margrave as mg
from command_line import call
from margrave.errors import InputError
from margrave.privacy.accounting.conversions import bound_power
from margrave.run.epsilon import MARGIN, Risk
from margrave.run.plan import Plan

SCHEMA = mg.Schema.from_sizes({"a": 6, "b": 9, "c": 4})
TABLE = pa.table({name: pa.array([], "int64") for name in SCHEMA.names})


def plan(method: str = "auto", **more: Any) -> Plan:
    return mg.Synthesizer(method, epsilon=1.0, delta=1e-6, schema=SCHEMA).plan(TABLE, **more)


@pytest.mark.parametrize("error", [0.3, 0.05, 0.01])
@pytest.mark.parametrize("method", ["auto", "mst", "independent"])
def test_the_least_epsilon_keeps_the_error_and_a_smaller_one_does_not(method: str, error: float) -> None:
    found = plan(method, rows=2000, error=error)
    key = "pair" if "pair" in found.error else "one-way marginal"
    assert MARGIN * found.error[key] <= error
    assert f"epsilon {found.epsilon:g} is the least for an error of {error:g}" in found.need
    smaller = mg.Synthesizer(method, epsilon=0.98 * found.epsilon, delta=1e-6, schema=SCHEMA)
    assert MARGIN * smaller.plan(TABLE, rows=2000).error[key] > error
    assert f"epsilon = {found.epsilon:g}" in found.guarantee


@pytest.mark.parametrize("method", ["tabddpm", pytest.param("dpsgd_gan", marks=pytest.mark.slow)])
def test_small_epsilons_that_no_training_can_keep_are_passed_by(method: str) -> None:
    """The search begins at an epsilon at which no Renyi order allows anything: that was its end."""
    run = mg.Synthesizer(method, epsilon=1.0, delta=1e-9, schema=SCHEMA)
    found = run.plan(TABLE, rows=8_000, error=0.02)
    assert MARGIN * found.error["one-way marginal"] <= 0.02
    smaller = run.clone().set_params(epsilon=0.98 * found.epsilon)
    assert MARGIN * smaller.plan(TABLE, rows=8_000).error["one-way marginal"] > 0.02


def test_the_error_of_tables_that_follow_from_noisy_copies_has_an_epsilon() -> None:
    """It was a failure of the program, as no marginal is measured."""
    run = mg.Synthesizer("slicing", epsilon=1.0, delta=1e-6, adjacency="zero_out", schema=SCHEMA)
    found = run.plan(TABLE, rows=20_000, error=0.3)
    assert 0.29 < MARGIN * found.error["pair"] <= 0.3
    assert found.epsilon > 3 * plan(rows=20_000, error=0.3).epsilon
    with pytest.raises(InputError, match="error must be to be had"):
        run.plan(TABLE, rows=200, error=0.01)


@pytest.mark.parametrize("method", ["auto", "aim"])
def test_the_largest_epsilon_keeps_the_risk_by_the_curve_and_not_by_epsilon_and_delta(method: str) -> None:
    found = plan(method, risk="10% at 1%")
    accounting = "gdp" if method == "auto" else "zcdp"
    assert 0.098 < bound_power(accounting, found.rho, 0.01) <= 0.1
    larger = mg.Synthesizer(method, epsilon=1.02 * found.epsilon, delta=1e-6, schema=SCHEMA).plan(TABLE)
    assert bound_power(accounting, larger.rho, 0.01) > 0.1
    assert found.epsilon > 2.3  # what e^epsilon 1 % = 10 % would say
    assert "finds at most 10 % of those who are" in found.need
    assert "false alarms in 5 % of the cases" in found.odds


def test_both_together_take_what_the_error_needs_or_are_refused() -> None:
    alone = plan(rows=2000, error=0.1)
    both = plan(rows=2000, error=0.1, risk=Risk(0.5, 0.01))
    assert both.epsilon == alone.epsilon
    assert "for the risk 50% at 1%" in both.need
    with pytest.raises(InputError, match=r"error must be within the risk 2% at 1%.*is needed"):
        plan(rows=2000, error=0.01, risk="2% at 1%")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"error": 0.1}, "rows must be given"),
        ({"error": 0.0, "rows": 100}, "error must be above 0"),
        ({"error": 1e-6, "rows": 100}, "at epsilon 50 or less"),
        ({"risk": "10%"}, "of the form"),
        ({"risk": "1.2.3% at 1%"}, "of the form"),
        ({"risk": "1% at 10%"}, "the first the larger"),
        ({"risk": "200% at 10%"}, "the first the larger"),
        ({"risk": Risk(0.0100000001, 0.01)}, "some epsilon keeps"),
    ],
)
def test_what_no_epsilon_can_do_is_refused(more: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan(**more)


def test_a_plan_without_them_is_that_of_its_epsilon() -> None:
    found = plan(rows=2000)
    assert (found.epsilon, found.need) == (1.0, "")
    assert "odds " in str(found)


def test_the_command_line_finds_epsilon_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,3\n", "utf-8")
    SCHEMA.save(tmp_path / "schema.json")
    args = ["plan", tmp_path / "t.csv", "--schema", tmp_path / "schema.json", "--delta", 1e-6]
    document = json.loads(call(*args, "--rows", 2000, "--error", 0.05, "--json").out)
    assert document["epsilon"] == plan(rows=2000, error=0.05).epsilon
    said = call(*args, "--risk", "10% at 1%")
    assert (said.code, "is the largest for the risk 10% at 1%" in said.out) == (0, True)
    neither = call(*args)
    assert (neither.code, "epsilon must be given" in neither.err) == (2, True)
    both = call(*args, "-e", 1, "--risk", "10% at 1%")
    assert (both.code, "epsilon must be given, or else" in both.err) == (2, True)
