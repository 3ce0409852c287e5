"""The mixture of products: gradient, exact cases, conditionals, rows, the choice of its penalty."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from margrave.errors import InputError, ReleaseError
from margrave.limits import FULL, Deadline, Effort
from margrave.models._base.pooling import mu, pool, smooth_one_ways
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.rows import condition_weights
from margrave.models._mixture.stacked import stack
from margrave.models.mixture import Mixture
from margrave.models.mixture.descent import descend
from margrave.models.mixture.objective import Objective, point
from margrave.models.mixture.policy import (
    BLOCK_PENALTY_SHARE,
    CLEAR_SIGNAL,
    CLEAR_STEPS,
    PILOT_COMPONENTS,
    SAVED_STEPS,
    STEPS,
    Candidate,
    Choice,
    Setting,
    set_policy,
)
from margrave.models.mixture.score_moments import find_rank_moments
from margrave.release import InferredMarginal, NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "d"), (6, 3, 4, 2), (5, 0, 4, 0))


def two_components() -> tuple[np.ndarray, list[np.ndarray]]:
    """Weights and conditionals of a known mixture over DOMAIN."""
    rng = np.random.default_rng(4)
    return np.array([0.35, 0.65]), [rng.dirichlet(np.full(n, 0.7), size=2) for n in DOMAIN.sizes]


def measured(sigma: float, rows: float = 10_000.0, seed: int = 0) -> list[NoisyMarginal]:
    """All one-ways and pairs of the known mixture, with noise."""
    rng = np.random.default_rng(seed)
    weights, parts = two_components()
    made = []
    for clique in [c for k in (1, 2) for c in itertools.combinations(range(4), k)]:
        table = weights
        for i in clique:
            table = table[..., None, :] * parts[i].T
        exact = rows * table.sum(axis=-1)
        noisy = exact + sigma * rng.standard_normal(exact.shape)
        made.append(NoisyMarginal(tuple(DOMAIN.names[i] for i in clique), noisy, sigma))
    return made


@pytest.fixture(scope="module")
def fitted() -> MixtureModel:
    return Mixture(components=20, refinements=0).fit(DOMAIN, measured(5.0))


def unbought(made: list[NoisyMarginal], pairs: set[tuple[str, str]]) -> list[NoisyMarginal]:
    """The same with some pairs inferred to be independent instead of measured."""
    return [InferredMarginal(m.clique, m.values, m.sigma) if m.clique in pairs else m for m in made]


@pytest.mark.parametrize("inferred", [set(), {(DOMAIN.names[0], DOMAIN.names[2])}])
def test_the_gradient_is_that_of_the_value(inferred: set[tuple[str, str]]) -> None:
    rng = np.random.default_rng(1)
    stacked = stack(DOMAIN, pool(DOMAIN, unbought(measured(300.0), inferred), inferred=True), 10_000.0)
    logs = rng.standard_normal((15, 4)).astype(np.float32)
    weigh = rng.standard_normal(4)
    moments = find_rank_moments(stacked)
    assert moments.empty is bool(inferred)  # (a, c) is the only pair of ordered attributes
    for information, smoothness, asked in (
        *((0.0, 0.0, []), (200.0, 0.0, []), (0.0, 300.0, []), (200.0, 300.0, [])),
        *((0.0, 0.0, [moments]), (200.0, 300.0, [moments])),
    ):
        objective = Objective(stacked, 4, information, smoothness, moments=asked)
        at = point(logs, weigh, stacked.starts)
        _, by_weight = objective(at)
        objective.centre()
        by_log = at.weights * at.shares * objective.gradient
        slope = at.weights * (by_weight - float(at.weights @ by_weight))
        for _ in range(4):
            way = rng.standard_normal(logs.shape).astype(np.float32)
            lean = rng.standard_normal(4)
            ends = [point(logs + h * way, weigh + h * lean, stacked.starts) for h in (5e-3, -5e-3)]
            rise = (objective(ends[0])[0] - objective(ends[1])[0]) / 1e-2
            expected = float((by_log * way).sum() + slope @ lean)
            assert rise == pytest.approx(expected, rel=0.02, abs=2e-3 * abs(objective(at)[0]) ** 0.5)


def test_an_inferred_pair_says_nothing_of_its_one_ways() -> None:
    """Its table is of wrong one-ways here, and the model's are those that were measured all the same."""
    made = [m for m in measured(5.0) if len(m.clique) == 1]
    a, b = DOMAIN.names[:2]
    wrong = np.zeros((DOMAIN[a], DOMAIN[b]))
    wrong[0, 0] = 10_000.0
    made.append(InferredMarginal((a, b), wrong, 1.0))
    model = Mixture(components=5, refinements=0).fit(DOMAIN, made, total=10_000.0)
    for m in made[:-1]:
        assert 0.5 * np.abs(model.project(m.clique) - m.values).sum() / 10_000.0 < 0.01


def test_an_inferred_pair_is_fitted_as_independent() -> None:
    """Measured, the first pair is dependent; the others alone would let the model keep some of it."""
    pair = DOMAIN.names[:2]
    apart = []
    for made in (measured(20.0), unbought(measured(20.0), {pair})):
        model = Mixture(components=20, refinements=0).fit(DOMAIN, made, total=10_000.0)
        table = model.project(pair) / model.total
        apart.append(0.5 * np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum())
    assert apart[1] < 0.3 * apart[0]


def test_one_component_is_the_product_of_the_one_ways() -> None:
    ones = [m for m in measured(1.0) if len(m.clique) == 1]
    model = Mixture(components=1, smoothness=0.0).fit(DOMAIN, ones)
    for m in ones:
        assert np.abs(model.project(m.clique) - m.values).max() < 10
    product = np.outer(model.project(("a",)), model.project(("c",))) / model.total
    assert np.allclose(model.project(("a", "c")), product, atol=1e-2)


def test_a_known_mixture_is_recovered_from_its_pairs() -> None:
    model = Mixture(components=2, information=1e-3, steps=1500).fit(DOMAIN, measured(0.5))
    for m in measured(1e-9):
        assert 0.5 * np.abs(model.project(m.clique) - m.values).sum() < 30  # of 10,000 rows
    weights, parts = two_components()
    truth = np.einsum("k,ka,kb,kc->abc", weights, *parts[:3])
    assert 0.5 * np.abs(model.project(("a", "b", "c")) / model.total - truth).sum() < 0.02


def test_information_has_its_price() -> None:
    dear = Mixture(components=20, refinements=0, information=1e7).fit(DOMAIN, measured(50.0))
    product = np.outer(dear.project(("a",)), dear.project(("b",))) / dear.total
    assert 0.5 * np.abs(dear.project(("a", "b")) - product).sum() < 0.002 * dear.total
    fair = Mixture(components=20, refinements=0).fit(DOMAIN, measured(50.0))
    clear = Mixture(components=20, refinements=0, information=1e-3).fit(DOMAIN, measured(50.0))
    truth = {m.clique: m.values for m in measured(1e-9)}
    errors = [
        sum(np.abs(model.project(clique) - table).sum() for clique, table in truth.items())
        for model in (clear, fair, dear)
    ]
    assert errors[1] < errors[0]
    assert errors[1] < errors[2]


def test_smoothness_draws_ordered_codes_together_and_no_others() -> None:
    rough = measured(200.0, seed=3)

    def unevenness(smoothness: float, name: str) -> float:
        fitter = Mixture(components=20, information=20.0, smoothness=smoothness, refinements=0)
        model = fitter.fit(DOMAIN, rough)
        ratios = model.project((name, "d"))[:5] / model.project((name,))[:5, None]
        return float(np.abs(np.diff(ratios[:, 0])).sum())

    assert unevenness(50.0, "a") < 0.7 * unevenness(0.0, "a")
    plain = Domain(DOMAIN.names, DOMAIN.sizes)
    one, two = (Mixture(components=5, smoothness=s).fit(plain, rough) for s in (0.0, 50.0))
    assert np.array_equal(one.project(("a", "b")), two.project(("a", "b")))


def test_wide_cliques_count_through_their_pairs() -> None:
    weights, parts = two_components()
    joint = 10_000 * np.einsum("k,ka,kb,kc->abc", weights, *parts[:3])
    table = NoisyMarginal(("c", "a", "b"), joint.transpose(2, 0, 1), 3.0)
    model = Mixture(components=20).fit(DOMAIN, [table])
    assert 0.5 * np.abs(model.project(("a", "b")) - joint.sum(axis=2)).sum() < 150
    stacked = stack(DOMAIN, pool(DOMAIN, [NoisyMarginal(("a", "b", "c"), joint, 3.0)]), 10_000.0)
    assert stacked.pair_weights[0, 6] == pytest.approx(1e8 / (9.0 * 4), rel=1e-6)  # four codes of c added


def test_unequal_measurements_are_weighed_by_their_precision() -> None:
    good, bad = (np.array([[600.0, 400.0]] * 2).T, np.array([[100.0, 900.0]] * 2).T)
    domain = Domain(("x", "y"), (2, 2))
    both = [NoisyMarginal(("x", "y"), good, 1.0), NoisyMarginal(("x", "y"), bad, 1000.0)]
    model = Mixture(components=5).fit(domain, both)
    assert model.project(("x",))[0] / model.total == pytest.approx(0.6, abs=0.01)


def test_conditioning_agrees_with_brute_force(fitted: MixtureModel) -> None:
    joint = fitted.project(DOMAIN.names) / fitted.total
    given = {"b": 1, "d": 0}
    wanted = joint[:, 1, :, 0] / joint[:, 1, :, 0].sum()
    rows = fitted.sample(40_000, np.random.default_rng(0), given)
    assert (rows.column("b") == 1).all()
    assert (rows.column("d") == 0).all()
    found = np.zeros((6, 4))
    np.add.at(found, (rows.column("a"), rows.column("c")), 1 / 40_000)
    assert 0.5 * np.abs(found - wanted).sum() < 0.003
    weights = condition_weights(fitted, given)
    mixed = np.einsum("k,ak,ck->ac", weights, fitted.block("a"), fitted.block("c"))
    assert np.abs(mixed - wanted).max() < 1e-6


@pytest.mark.parametrize("rows", [0, 1, 7, 5_000])
def test_rows_follow_the_model(fitted: MixtureModel, rows: int) -> None:
    sample = fitted.sample(rows, np.random.default_rng(3))
    assert sample.rows == rows
    for name in DOMAIN.names:
        counts = np.bincount(sample.column(name), minlength=DOMAIN[name])
        expected = rows * fitted.project((name,)) / fitted.total
        assert np.abs(counts - expected).max() <= 20  # within one a component
    if rows == 5_000:
        table = np.zeros((6, 4))
        np.add.at(table, (sample.column("a"), sample.column("c")), 1.0)
        assert 0.5 * np.abs(table / rows - fitted.project(("a", "c")) / fitted.total).sum() < 0.004


def test_rows_come_in_random_order_and_not_component_by_component() -> None:
    domain = Domain(("a", "b"), (2, 2))
    halves = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    model = MixtureModel(domain, 1000.0, np.full(2, 0.5), halves, 1.0, None)
    rows = model.sample(1000, np.random.default_rng(3))
    first, second = rows.column("a"), rows.column("b")
    assert np.array_equal(first, second)
    assert first.sum() == 500
    assert 200 < first[:500].sum() < 300


def test_the_same_seed_gives_the_same_model_and_rows() -> None:
    one, two = (Mixture(components=6, steps=40).fit(DOMAIN, measured(20.0)) for _ in range(2))
    assert np.array_equal(one.shares, two.shares)
    other = Mixture(components=6, steps=40, seed=1).fit(DOMAIN, measured(20.0))
    assert not np.array_equal(one.shares, other.shares)
    rows = [one.sample(50, np.random.default_rng(5)).column("a") for _ in range(2)]
    assert np.array_equal(*rows)


def test_restored_models_are_the_same(fitted: MixtureModel) -> None:
    again = Mixture().restore(DOMAIN, [], fitted.state())
    assert np.array_equal(again.project(("a", "b", "d")), fitted.project(("a", "b", "d")))
    for key, damage in (
        ("weights", fitted.weights * 2),
        ("shares", fitted.shares[:-1]),
        ("shares", -fitted.shares),
        ("total", np.asarray(-1.0)),
    ):
        with pytest.raises(ReleaseError, match="damaged"):
            Mixture().restore(DOMAIN, [], fitted.state() | {key: damage})


def test_convergence_is_told() -> None:
    long = Mixture(components=10, steps=400).fit(DOMAIN, measured(20.0))
    short = Mixture(components=10, steps=3).fit(DOMAIN, measured(20.0))
    assert long.converged
    assert not short.converged
    late = Mixture(components=10).fit(DOMAIN, measured(20.0), effort=Effort(deadline=Deadline(0.0)))
    assert late.descent is not None
    assert late.descent.steps == 0
    assert not late.converged


def test_without_a_step_it_is_the_product_of_the_measured_one_ways() -> None:
    late = Mixture().fit(DOMAIN, measured(20.0), effort=Effort(deadline=Deadline(0.0)))
    tables = smooth_one_ways(DOMAIN, pool(DOMAIN, measured(20.0), inferred=True), late.total)
    ones = {name: late.project((name,)) / late.total for name in DOMAIN.names}
    for table in tables:
        if len(table.clique) == 1:
            shares = np.maximum(table.values / late.total, 1e-6)
            assert np.allclose(ones[table.clique[0]], shares / shares.sum(), atol=1e-4)
    product = np.outer(ones["a"], ones["b"]) * late.total
    assert np.allclose(late.project(("a", "b")), product, atol=1e-6 * late.total)
    assert late.sample(50, np.random.default_rng(0)).rows == 50


class FewSteps:
    """A clock that lets a descent take some steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    @property
    def passed(self) -> bool:
        self.left -= 1
        return self.left < 0


def test_a_descent_that_was_stopped_early_is_no_worse_than_the_product() -> None:
    stacked = stack(DOMAIN, pool(DOMAIN, measured(20.0), inferred=True), 10_000.0)
    values = []
    for steps in (0, 1, 5, 40):
        effort: Any = Effort(deadline=FewSteps(steps))  # type: ignore[arg-type]
        found = Mixture(components=60).descend_once(DOMAIN, stacked, 1e4, Setting(100.0), effort).descent
        assert found is not None
        assert found.steps == steps
        values.append(found.value)
    assert values == sorted(values, reverse=True)
    assert values[3] < values[0]


def test_more_steps_do_not_raise_the_objective() -> None:
    stacked = stack(DOMAIN, pool(DOMAIN, measured(20.0)), 10_000.0)
    values = []
    for steps in (1, 30, 300):
        logs = np.random.default_rng(0).standard_normal((15, 12)).astype(np.float32)
        at = point(logs, np.zeros(12), stacked.starts)
        values.append(descend(Objective(stacked, 12, 100.0, 30.0), at, steps, 0.1).value)
    assert values[0] > values[1] > values[2]


def test_the_last_fit_goes_on_from_a_judged_mixture_of_as_many_components() -> None:
    def fit(mixture: Mixture, setting: Setting, judged: MixtureModel | None) -> MixtureModel:
        pilot = None if judged is None else Candidate(setting, [], judged)
        model = mixture.fit_at(Choice(setting, pilot=pilot), DOMAIN, measured(5.0), None, FULL)
        assert isinstance(model, MixtureModel)
        return model

    few, most, setting = PILOT_COMPONENTS, PILOT_COMPONENTS + 20, Setting(penalty_rule(500.0))
    mixture = Mixture(components=most, refinements=0)
    anew, small = (fit(replace(mixture, components=k), setting, None) for k in (most, few))
    again = fit(mixture, setting, anew)
    assert (anew.descent.steps, again.descent.steps) == (STEPS, STEPS - SAVED_STEPS)
    clear = fit(mixture, set_policy(sum(DOMAIN.sizes), CLEAR_SIGNAL), None)
    assert clear.descent.steps == CLEAR_STEPS
    assert fit(replace(mixture, steps=7), setting, None).descent.steps == 7
    assert again.descent.value < 1.01 * anew.descent.value
    # One of another size says nothing of where to start, and a pilot has not taken all steps.
    assert fit(mixture, setting, small).descent == anew.descent
    assert fit(replace(mixture, components=few), setting, small).descent == small.descent


def penalty_rule(signal: float) -> float:
    return set_policy(sum(DOMAIN.sizes), signal).penalty


def test_few_rows_have_few_components() -> None:
    assert set_policy(60, 1e3, rows=2000.0).components == 100
    assert set_policy(60, 1e3, rows=100.0).components == 20
    assert set_policy(60, 1e3, rows=1e5).components == set_policy(60, 1e3).components == 800


def test_the_rule_follows_the_precision_and_split_noise_may_overrule_it() -> None:
    signal = mu(pool(DOMAIN, measured(10.0)))
    assert penalty_rule(1e4 * signal) == pytest.approx(10 * np.sqrt(1e4 * np.sqrt(10 / 100)))
    finer = mu(pool(DOMAIN, measured(5.0)))
    assert penalty_rule(1e4 * finer) == pytest.approx(2**0.5 * penalty_rule(1e4 * signal))
    assert penalty_rule(100.0 * finer) == pytest.approx(2**0.75 * penalty_rule(100.0 * signal))
    model = Mixture(components=10).fit(DOMAIN, measured(10.0))
    rule = penalty_rule(model.total * signal)
    steps = [nested * rule * 2 ** (step / 2) for nested in (1, BLOCK_PENALTY_SHARE) for step in range(-6, 7)]
    assert min(abs(model.information - penalty) for penalty in steps) < 1e-6
    rough = Mixture().fit(DOMAIN, measured(10.0), effort=Effort(rough=True))
    assert rough.information == pytest.approx(penalty_rule(rough.total * signal))
    assert len(rough.weights) == PILOT_COMPONENTS


@pytest.mark.parametrize(
    "wrong", [{"components": 0}, {"steps": 0}, {"information": -1.0}, {"smoothness": -0.1}, {"rate": np.nan}]
)
def test_settings_out_of_range_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        replace(Mixture(), **wrong)


def test_too_many_codes_are_refused_before_anything_is_bought() -> None:
    with pytest.raises(InputError, match="codes must be at most 14"):
        Mixture(max_codes=14).admit(DOMAIN, [])
