"""Singling out and linkability: against brute force, planted leaks, and Anonymeter where it is installed."""

from __future__ import annotations

import importlib
import warnings
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from people import SCHEMA, made
from scipy.stats import binom, norm

from margrave.errors import SchemaError
from margrave.evaluation.attacks import (
    Closeness,
    Linkability,
    Predicate,
    Risk,
    SinglingOut,
    alone,
    matches,
    of_columns,
    of_rows,
    wilson,
)
from margrave.evaluation.metrics.efficiency import join_rows
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

NUMERIC = frozenset(("age", "pay", "tax"))
ATTACKS = ("attack_linkability", "attack_singling_out", "attack_singling_out_1way")


def _scored(synthetic: Rows, rows: int = 600, held: int = 600) -> dict[str, Score]:
    task = Task(made(rows, 0), synthetic, SCHEMA, held_out=made(held, 1))
    return {score.name: score for score in score_metrics(task, ATTACKS)}


def test_the_interval_is_wilsons() -> None:
    """Its ends are where the observed rate is z standard errors away."""
    for hits, tries in ((0, 30), (7, 30), (30, 30)):
        middle, half = wilson(hits, tries, 0.9)
        for end in (middle - half, middle + half):
            assert (hits / tries - end) ** 2 == pytest.approx(
                norm.isf(0.05) ** 2 * end * (1 - end) / tries, abs=1e-12
            )


def test_the_interval_of_the_risk_covers_it() -> None:
    rng, tries, attack, control = np.random.default_rng(0), 400, 0.4, 0.2
    risk = (attack - control) / (1 - control)
    inside = 0
    for _ in range(500):
        low, high = Risk(rng.binomial(tries, attack), tries, rng.binomial(tries, control), tries).interval
        inside += low <= risk <= high
    assert 0.92 < inside / 500 < 0.985


def test_a_risk_below_the_controls_is_none() -> None:
    risk = Risk(10, 100, 30, 100)
    assert (risk.value, risk.interval) == (0.0, (0.0, 0.0))
    assert risk.parts()["control rate"] == 0.3
    assert Risk(100, 100, 0, 100).value > 0.9


def test_copies_are_singled_out_and_linked() -> None:
    for score in _scored(made(600, 0)).values():
        assert score.value > 0.5, score.name
        assert score.parts["risk at least"] > 0.3
        assert score.parts["attack rate"] > score.parts["control rate"]


def test_fresh_rows_carry_no_risk() -> None:
    for seed in (5, 6):
        for score in _scored(made(600, seed)).values():
            assert score.parts["risk at least"] < 0.02, score.name
            assert score.value < 0.12


def test_half_copies_lie_between() -> None:
    found = _scored(join_rows(made(600, 0).take(np.arange(300)), made(300, 5)))
    whole = _scored(made(600, 0))
    for name in ATTACKS:
        assert 0.05 < found[name].value < whole[name].value


def test_a_control_of_fewer_rows_is_scaled_and_said() -> None:
    for seed, leak in ((0, True), (5, False)):
        score = _scored(made(600, seed), held=200)["attack_singling_out"]
        assert score.note == "control scaled up from fewer held-out rows"
        assert (score.parts["risk at least"] > 0.2) is leak
    assert _scored(made(600, 0), held=700)["attack_singling_out"].note == ""


def _holds(one: Predicate, rows: Rows, row: int) -> bool:
    """Brute force over one row."""
    for name, kind, value in one.asks:
        raw = float(rows.numbers[name][row]) if name in NUMERIC else int(rows.encoded.column(name)[row])
        yes = {"is": raw == value, "missing": raw != raw, "at most": raw <= value, "at least": raw >= value}
        if not yes[kind]:
            return False
    return True


@pytest.mark.parametrize("width", [1, 2, 3])
def test_predicates_hold_for_one_row_by_brute_force(width: int) -> None:
    rows, other, rng = made(80, 0), made(60, 1), np.random.default_rng(0)
    if width == 1:
        found = of_columns(rows, NUMERIC, SCHEMA.names, 50, rng)
    else:
        found = of_rows(rows, NUMERIC, SCHEMA.names, width, 50, rng)
    assert len(set(found)) == len(found) == 50
    assert all(len(one.asks) == width for one in found)
    for one in found:
        assert sum(_holds(one, rows, row) for row in range(80)) == 1
    expected = [sum(_holds(one, other, row) for row in range(60)) for one in found]
    assert matches(found, other, NUMERIC).tolist() == expected


def test_every_lone_value_and_extreme_is_a_predicate() -> None:
    rows = made(40, 0)
    found = {
        one.asks[0] for one in of_columns(rows, NUMERIC, ("age", "town"), 10**6, np.random.default_rng(0))
    }
    ages = rows.numbers["age"][~np.isnan(rows.numbers["age"])]
    values, times = np.unique(ages, return_counts=True)
    expected = {("age", "is", float(value)) for value in values[times == 1]}
    expected |= {("age", "at most", values[0])} if times[0] == 1 else set()
    expected |= {("age", "at least", values[-1])} if times[-1] == 1 else set()
    expected |= {("age", "missing", 0.0)} if 40 - ages.size == 1 else set()
    assert found == expected


def test_fewer_rows_are_averaged_over_all_draws() -> None:
    held, rows, wanted = np.array([0, 1, 2, 5]), 6, 3
    total = 0.0
    draws = list(combinations(range(rows), wanted))
    for count in held:
        total += sum(sum(row < count for row in draw) == 1 for draw in draws) / len(draws)
    assert alone(held, rows, wanted) == pytest.approx(total)
    assert alone(held, rows, rows) == pytest.approx(1)


@pytest.mark.parametrize("weights", [(1e-4, 1e-3), (1e-6, 4e-3)])
def test_more_rows_are_followed_along_the_curve(weights: tuple[float, float]) -> None:
    """Predicates of even weights: what holds for one of 4,000 rows is foretold from 1,000."""
    rng = np.random.default_rng(0)
    weight = rng.uniform(*weights, 3000)
    expected = float(binom.pmf(1, 4000, weight).sum())
    assert alone(rng.binomial(1000, weight), 1000, 4000) == pytest.approx(expected, rel=0.35)


def test_links_are_those_of_brute_force() -> None:
    real, synthetic, held = made(40, 0), made(90, 5), made(30, 1)
    lists = (("pay", "age"), ("tax",))
    task = Task(real, synthetic, SCHEMA, held_out=held)
    score = Linkability(Facts("a", ""), lists=lists, near=4).run(task)
    rates = []
    for side in (real, held):
        linked = 0
        for row in range(side.size):
            near = []
            for names in lists:
                block = next(Closeness(synthetic, names, names).blocks(side.take(np.array([row]))))[0]
                near.append(set(np.argsort(block)[:4].tolist()))
            linked += bool(near[0] & near[1])
        rates.append(linked / side.size)
    assert score.parts["attack rate"] == pytest.approx(rates[0], abs=0.03)
    assert score.parts["control rate"] == pytest.approx(rates[1], abs=0.04)
    assert score.scope == "40 members, 30 others, 2 and 1 columns"


def test_what_a_risk_lacks_is_said() -> None:
    bare = Task(made(20, 0), made(20, 1), SCHEMA)
    for score in score_metrics(bare, list(ATTACKS)):
        assert np.isnan(score.value)
        assert score.note == "hold out real rows"
    row = made(30, 0).take(np.zeros(30, np.int64))
    task = Task(row, row, SCHEMA, held_out=made(9, 1))
    assert SinglingOut(Facts("a", "")).run(task).note == "no predicate holds for just one synthetic row"
    with pytest.raises(SchemaError, match="clique must be made of"):
        Linkability(Facts("a", ""), lists=(("shoes",), ("pay",))).run(task)


@pytest.mark.oracle("anonymeter")
def test_risks_are_anonymeters() -> None:
    confidence = importlib.import_module("anonymeter.stats.confidence")
    rng = np.random.default_rng(0)
    for _ in range(20):
        tries = int(rng.integers(20, 500))
        hits, control = sorted(rng.integers(1, tries, 2).tolist(), reverse=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = confidence.EvaluationResults(tries, hits, 0, control).risk()
        ours = Risk(hits, tries, control, tries)
        assert ours.value == pytest.approx(theirs.value)
        assert ours.interval == pytest.approx(theirs.ci)


@pytest.mark.oracle("anonymeter")
def test_links_are_anonymeters() -> None:
    """On numbers without gaps, where no two rows are equally near."""
    evaluators = importlib.import_module("anonymeter.evaluators")
    real, synthetic, held = made(150, 0, 0.05), made(150, 5, 0.05), made(150, 1, 0.05)
    frames = [
        pd.DataFrame({name: side.numbers[name] for name in ("pay", "tax")})
        for side in (real, synthetic, held)
    ]
    theirs = evaluators.LinkabilityEvaluator(
        *frames[:2], aux_cols=(["pay"], ["tax"]), n_attacks=150, n_neighbors=5, control=frames[2]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = theirs.evaluate(n_jobs=1).results()
    ours = Linkability(Facts("a", ""), lists=(("pay",), ("tax",)), near=5)
    score = ours.run(Task(real, synthetic, SCHEMA, held_out=held))
    assert score.parts["attack rate"] == pytest.approx(result.n_success / 150, abs=0.03)
    assert score.parts["control rate"] == pytest.approx(result.n_control / 150, abs=0.03)
