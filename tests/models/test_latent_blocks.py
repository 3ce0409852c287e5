"""Latent blocks: gradients, what they say that products cannot, conditionals, rows, state, which
attributes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.limits import FULL
from margrave.models._base.pooling import Pooled, dependence, pool
from margrave.models._mixture import rows
from margrave.models._mixture.constraint_blocks import MIN_LOG_PROBABILITY
from margrave.models._mixture.latent_blocks import dependences, group_attributes
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.stacked import Stacked, stack
from margrave.models.mixture.descent import _Moves
from margrave.models.mixture.fitter import Mixture
from margrave.models.mixture.objective import LatentBlockPart, Objective, Point, point
from margrave.models.mixture.policy import Choice, Setting, Trials
from margrave.models.mixture.score_moments import find_score_moments
from margrave.release import InferredMarginal, NoisyMarginal, RankProduct
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "d", "e"), (12, 12, 3, 10, 10), (12, 0, 0, 10, 0))
ROWS = 50_000


def joint() -> np.ndarray:
    """b nearly follows from a, and e from d; a and d are nearly independent: [12, 12, 3, 10, 10]."""
    rng = np.random.default_rng(3)
    first = np.exp(-np.abs(np.arange(12)[:, None] - np.arange(12)[None, :]) / 0.3) * rng.random((12, 1))
    second = np.exp(-np.abs(np.arange(10)[:, None] - np.arange(10)[None, ::-1]) / 0.3) * rng.random((10, 1))
    tilt = 1 + 0.3 * rng.standard_normal((12, 3))
    table = np.einsum("ab,ac,de->abcde", first, np.maximum(tilt, 0.1), second)
    table *= (1 + 0.2 * np.sign(rng.standard_normal((12, 10))))[:, None, None, :, None]
    return np.asarray(table / table.sum())


def measured(sigma: float, width: int = 2) -> list[NoisyMarginal]:
    """All one-ways and pairs, with noise."""
    rng, exact, made = np.random.default_rng(0), joint() * ROWS, []
    for k in range(1, width + 1):
        for places in itertools.combinations(range(5), k):
            table = exact.sum(axis=tuple(i for i in range(5) if i not in places))
            noisy = table + sigma * rng.standard_normal(table.shape)
            made.append(NoisyMarginal(tuple(DOMAIN.names[i] for i in places), noisy, sigma))
    return made


def error(model: MixtureModel, width: int) -> float:
    """Mean total variation of the model's tables of so many attributes from the truth."""
    found = []
    for places in itertools.combinations(range(5), width):
        table = joint().sum(axis=tuple(i for i in range(5) if i not in places))
        got = model.project(tuple(DOMAIN.names[i] for i in places)) / model.total
        found.append(0.5 * np.abs(got - table).sum())
    return float(np.mean(found))


@pytest.fixture(scope="module")
def fitted() -> MixtureModel:
    model = Mixture(components=24, refinements=0).fit(DOMAIN, measured(10.0))
    assert isinstance(model, MixtureModel)
    return model


def dense(model: MixtureModel) -> np.ndarray:
    """The whole distribution from weights, shares and latent blocks, by brute force."""
    parts = {name: model.block(name) for name in DOMAIN.names}
    held = {name: latent_block for latent_block in model.latent_blocks for name in latent_block.names}
    found = np.zeros(DOMAIN.sizes)
    for k, weight in enumerate(model.weights):
        table, axes = np.asarray(weight), ""
        for latent_block in model.latent_blocks:
            inner, letters = latent_block.state_weights[:, k], "".join(latent_block.names)
            for name in latent_block.names:
                inner = inner[..., None, :] * latent_block.block(name)
            table, axes = np.multiply.outer(table, inner.sum(axis=-1)), axes + letters
        for name in DOMAIN.names:
            if name not in held:
                table, axes = np.multiply.outer(table, parts[name][:, k]), axes + name
        found += np.einsum(f"{axes}->{''.join(DOMAIN.names)}", table)
    return found


def _double(part: LatentBlockPart, at: Point, stacked: Stacked) -> None:
    """Turn everything the objective reads to double precision, so that differences are exact enough."""
    for place in (at, *part.points):
        place.logs, place.shares = place.logs.astype(np.float64), place.shares.astype(np.float64)
    part._pairs, part._weights = part._pairs.astype(np.float64), part._weights.astype(np.float64)


@pytest.mark.parametrize(("smoothness", "state_penalty"), [(0.0, 1.0), (40.0, 1.0), (40.0, 3.0)])
@pytest.mark.parametrize("inferred", [False, True])
@pytest.mark.parametrize("members", [(0, 1), (0, 3)])
def test_the_gradients_are_those_of_the_value(
    smoothness: float, state_penalty: float, inferred: bool, members: tuple[int, int]
) -> None:
    """Two ordered attributes have a rank moment: from inside of the latent block, or from outside."""
    rng, made = np.random.default_rng(0), measured(300.0)
    if inferred:  # a pair inside the latent block
        made = [InferredMarginal(m.clique, m.values, m.sigma) if m.clique == ("a", "b") else m for m in made]
        halves = [np.repeat([-1.0, 1.0], size // 2) for size in (12, 10)]
        product = RankProduct((halves[0], halves[1]), 0.2, 0.05)
        made.append(InferredMarginal(("a", "d"), np.ones((12, 10)), 1.0, product=product))
    stacked = stack(DOMAIN, pool(DOMAIN, made, inferred=True), float(ROWS))
    at = point(rng.standard_normal((47, 5)).astype(np.float32), rng.standard_normal(5), stacked.starts)
    moments = find_score_moments(stacked)
    assert len(moments) == 1 + inferred
    part = LatentBlockPart(stacked, members, at.logs, 5, 200.0, smoothness, rng, state_penalty, moments)
    _double(part, at, stacked)
    at.settle(stacked.starts)
    part.settle()
    objective = Objective(stacked, 5, 200.0, smoothness, [part], moments)
    for name in ("gradient", "_scaled", "_model"):
        setattr(objective, name, np.zeros(getattr(objective, name).shape))
    _, by_weight = objective(at)
    objective.centre()
    states, state_weights = part.points
    held = state_weights.shares @ at.weights
    slopes = {
        id(at): objective.gradient * objective.shares * at.weights,
        id(states): part.slopes[0] * states.shares * held,
        id(state_weights): part.slopes[1] * state_weights.shares * at.weights,
    }
    pull = at.weights * (by_weight - float(at.weights @ by_weight))

    def value() -> float:
        at.settle(stacked.starts)
        part.settle()
        return objective(at)[0]

    for place in (at, states, state_weights):
        old, way = place.logs.copy(), rng.standard_normal(place.logs.shape)
        ends = []
        for step in (1e-5, -1e-5):
            place.logs[:] = old + step * way
            ends.append(value())
        place.logs[:] = old
        rise = (ends[0] - ends[1]) / 2e-5
        assert rise == pytest.approx(float((slopes[id(place)] * way).sum()), rel=1e-4, abs=1e-3)
    start, ends = at.weigh.copy(), []
    for at.weigh in (start + 1e-5 * np.arange(5.0), start - 1e-5 * np.arange(5.0)):
        ends.append(value())
    assert (ends[0] - ends[1]) / 2e-5 == pytest.approx(float(pull @ np.arange(5.0)), rel=1e-4, abs=1e-3)


def test_nests_find_the_strongly_dependent_pairs_and_say_more_than_products(fitted: MixtureModel) -> None:
    assert {latent_block.names for latent_block in fitted.latent_blocks} == {("a", "b"), ("d", "e")}
    flat = Mixture(components=24, refinements=0, latent_blocks=False).fit(DOMAIN, measured(10.0))
    assert isinstance(flat, MixtureModel)
    assert error(fitted, 2) < 0.7 * error(flat, 2)
    assert error(fitted, 3) < 0.7 * error(flat, 3)


def test_attributes_share_no_states_where_tables_share_their_noise() -> None:
    """Split noise would take it for dependence; who asks for latent blocks has them."""
    fitter = Mixture(components=24, steps=20, refinements=0, dependent_noise=True)
    model = fitter.fit(DOMAIN, measured(10.0))
    assert isinstance(model, MixtureModel)
    assert not model.latent_blocks
    asked = replace(fitter, latent_blocks=True).fit(DOMAIN, measured(10.0))
    assert isinstance(asked, MixtureModel)
    assert asked.latent_blocks


def test_trials_decide_about_latent_blocks_where_noise_hides_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Trials, "prefers", lambda self, rival, default: not rival.setting.groups)
    fitter = Mixture(components=24, steps=20, refinements=0)
    asked = replace(fitter, latent_blocks=True)
    for how, sigma, nested in ((fitter, 10.0, False), (fitter, 5.0, True), (asked, 10.0, True)):
        model = how.fit(DOMAIN, measured(sigma))
        assert isinstance(model, MixtureModel)
        assert bool(model.latent_blocks) == nested


def test_marginals_are_those_of_the_whole_distribution(fitted: MixtureModel) -> None:
    whole = dense(fitted)
    assert whole.sum() == pytest.approx(1.0)
    for width in (1, 2, 3, 4):
        for names in itertools.permutations(DOMAIN.names, width):
            places = [DOMAIN.names.index(n) for n in names]
            table = whole.sum(axis=tuple(i for i in range(5) if i not in places))
            order = np.argsort(np.argsort(places))
            assert np.allclose(fitted.project(names) / fitted.total, table.transpose(order), atol=1e-9)
    pairs = list(itertools.combinations(DOMAIN.names, 2))
    for pair, table in zip(pairs, fitted.project_many(pairs), strict=True):
        assert np.allclose(table, fitted.project(pair))


@pytest.mark.parametrize("given", [{"a": 4}, {"a": 4, "b": 4}, {"b": 3, "e": 2}, {"a": 2, "c": 1, "d": 5}])
def test_conditional_rows_follow_the_whole_distribution(fitted: MixtureModel, given: dict[str, int]) -> None:
    cut = dense(fitted)[tuple(given.get(name, slice(None)) for name in DOMAIN.names)]
    cut = cut / cut.sum()
    rows = 40_000
    for evidence in (given, {name: np.full(rows, code) for name, code in given.items()}):
        drawn = fitted.sample(rows, np.random.default_rng(1), evidence)
        left = [name for name in DOMAIN.names if name not in given]
        cells = np.ravel_multi_index([drawn.column(n).astype(np.int64) for n in left], cut.shape)
        shares = np.bincount(cells, minlength=cut.size) / rows
        # Total variation of independent rows would be about sum sqrt(2 p / (pi rows)) / 2.
        noise = float(np.sqrt(2 * cut.ravel() / (np.pi * rows)).sum() / 2)
        assert 0.5 * np.abs(shares - cut.ravel()).sum() < 1.3 * noise + 0.002
        assert all((drawn.column(name) == code).all() for name, code in given.items())


def test_rows_come_close_to_all_pairs(fitted: MixtureModel) -> None:
    rows = 20_000
    drawn = fitted.sample(rows, np.random.default_rng(5))
    for one, two in itertools.combinations(DOMAIN.names, 2):
        cells = drawn.column(one).astype(np.int64) * DOMAIN[two] + drawn.column(two)
        table = np.bincount(cells, minlength=DOMAIN[one] * DOMAIN[two]) / rows
        wanted = fitted.project((one, two)).ravel() / fitted.total
        independent = float(np.sqrt(2 * wanted / (np.pi * rows)).sum() / 2)
        assert 0.5 * np.abs(table - wanted).sum() < 0.5 * independent, (one, two)


def test_restored_models_are_the_same_and_damage_is_seen(fitted: MixtureModel) -> None:
    tables, state = measured(10.0), fitted.state()
    again = Mixture().restore(DOMAIN, tables, state)
    assert np.array_equal(again.project(("b", "a", "e")), fitted.project(("b", "a", "e")))
    for key, value in (
        ("nest_0_names", np.array([0.0, 0.0])),
        ("nest_0_names", np.array([0.0, 99.0])),
        ("nest_0_atoms", state["nest_0_atoms"][:-1]),
        ("nest_0_tops", state["nest_0_tops"] + 0.1),
        ("nest_1_names", state["nest_0_names"]),
    ):
        with pytest.raises(ReleaseError):
            Mixture().restore(DOMAIN, tables, state | {key: value})


def test_pairs_inside_a_nest_that_are_inferred_stay_about_independent() -> None:
    """a and b are one, and c and d, and nothing else was measured: a latent block used to be free to tie them
    all."""
    rng, domain, made = np.random.default_rng(2), Domain(tuple("abcd"), (8,) * 4), []
    for clique in itertools.combinations("abcd", 2):
        if clique in (("a", "b"), ("c", "d")):
            table = ROWS * np.eye(8) / 8 + 20.0 * rng.standard_normal((8, 8))
            made.append(NoisyMarginal(clique, table, 20.0))
        else:
            made.append(InferredMarginal(clique, np.full((8, 8), ROWS / 64), 20.0, 0.0, 0.01))
    mixture = Mixture(components=16, refinements=0)
    model = mixture.fit_at(Choice(Setting(20.0, ((0, 1, 2, 3),))), domain, made, float(ROWS), FULL)
    found = {m.clique: dependence(model.project(m.clique) / ROWS) for m in made}
    assert found["a", "b"] > 0.4
    assert found["c", "d"] > 0.4
    assert max(found[m.clique] for m in made if isinstance(m, InferredMarginal)) < 0.25


def test_a_descent_goes_on_from_where_another_has_ended() -> None:
    stacked, setting = stack(DOMAIN, pool(DOMAIN, measured(20.0)), float(ROWS)), Setting(20.0, ((0, 1),))
    mixture = Mixture(components=16, steps=200)
    ended = mixture.descend_once(DOMAIN, stacked, float(ROWS), setting, FULL)
    one = replace(mixture, steps=1, rate=1e-6)
    again = one.descend_once(DOMAIN, stacked, float(ROWS), setting, FULL, ended)
    anew = one.descend_once(DOMAIN, stacked, float(ROWS), setting, FULL)
    first, second, other = (model.descent.value for model in (ended, again, anew) if model.descent)
    assert second == pytest.approx(first, rel=1e-3)
    assert other > 2.0 * first
    for pair in itertools.combinations(DOMAIN.names, 2):
        assert np.allclose(again.project(pair), ended.project(pair), atol=1e-3 * ROWS)


def test_a_target_and_attributes_of_two_codes_stay_alone() -> None:
    domain = Domain(("a", "b", "c", "d"), (5, 5, 5, 2))
    tied = np.full((4, 4), 0.6)
    assert group_attributes(domain, tied) == ((0, 1, 2),)
    assert group_attributes(domain, tied, {"b"}) == ((0, 2),)
    assert group_attributes(domain, 0.3 * tied) == ()
    many = Domain(tuple("abcdefghij"), (4,) * 10)
    assert sorted(map(len, group_attributes(many, np.full((10, 10), 0.9)))) == [4, 6]


def test_groups_that_depend_less_on_each_other_stay_apart() -> None:
    domain = Domain(("a", "b", "c", "d"), (5,) * 4)
    tied = np.full((4, 4), 0.25)
    tied[0, 1] = tied[1, 0] = 0.6
    tied[2, 3] = tied[3, 2] = 0.5
    assert group_attributes(domain, tied) == ((0, 1), (2, 3))
    assert group_attributes(domain, np.maximum(tied, 0.35)) == ((0, 1, 2, 3),)


def test_dependence_is_the_distance_from_independence() -> None:
    tables = pool(DOMAIN, measured(1e-3))
    stacked = stack(DOMAIN, tables, float(ROWS))
    found = dependences(DOMAIN, stacked.pairs.astype(np.float64))
    pair = joint().sum(axis=(2, 3, 4))
    expected = 0.5 * np.abs(pair - np.outer(pair.sum(1), pair.sum(0))).sum()
    assert found[0, 1] == found[1, 0] == pytest.approx(expected, abs=1e-4)


def test_without_dependence_split_noise_leaves_nests_out() -> None:
    flat = [
        Pooled(t.clique, np.full(t.values.shape, ROWS / t.values.size), t.sigma)
        for t in pool(DOMAIN, measured(10.0))
    ]
    assert Mixture(components=10, refinements=0).choose(DOMAIN, flat, float(ROWS)).setting.groups == ()


def test_dependence_that_a_model_misses_is_seen_in_what_was_measured() -> None:
    exact = stack(DOMAIN, pool(DOMAIN, measured(1e-3)), float(ROWS)).pairs.astype(np.float64)
    ones = np.concatenate([joint().sum(axis=tuple(j for j in range(5) if j != i)) for i in range(5)])
    truth, missed = dependences(DOMAIN, exact), np.outer(ones, ones)
    assert dependences(DOMAIN, missed).max() < 1e-9
    for sigma in (10.0, 100.0):
        found = dependences(DOMAIN, missed, pool(DOMAIN, measured(sigma)), float(ROWS))
        assert found[0, 1] == pytest.approx(truth[0, 1], abs=0.1)
        assert found[3, 4] == pytest.approx(truth[3, 4], abs=0.1)
        assert found[2, 4] < 0.05


def test_dependence_that_a_model_invents_counts_as_it_was_appraised() -> None:
    """Two chains are too dear for a small mixture side by side, which then ties them to each other."""
    invented = np.full((sum(DOMAIN.sizes), sum(DOMAIN.sizes)), 0.0)
    starts = np.cumsum([0, *DOMAIN.sizes])
    for i, j in itertools.product(range(5), repeat=2):
        block = np.eye(DOMAIN.sizes[i], DOMAIN.sizes[j]) + 1e-3
        invented[starts[i] : starts[i + 1], starts[j] : starts[j + 1]] = block / block.sum()
    assert dependences(DOMAIN, invented)[0, 3] > 0.8
    flat = np.full((12, 10), ROWS / 120)
    tables = pool(DOMAIN, [InferredMarginal(("a", "d"), flat, 20.0, 0.03, 0.02)], inferred=True)
    found = dependences(DOMAIN, invented, tables, float(ROWS))
    assert found[0, 3] == found[3, 0] == pytest.approx(0.03)
    assert found[0, 4] > 0.8


def test_rows_hold_pairs_of_two_latent_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes that follow from their state can't be moved by themselves; states can, before codes are drawn."""
    model = Mixture(components=12, latent_blocks=True, refinements=0).fit(DOMAIN, measured(5.0))
    assert isinstance(model, MixtureModel)
    assert len(model.latent_blocks) == 2
    want, off = model.project(("a", "d")) / model.total, []
    for work in (0, 1 << 22):
        monkeypatch.setattr(rows, "LITTLE_WORK", work)
        drawn = [model.sample(2000, np.random.default_rng(seed)) for seed in range(5)]
        tables = [np.histogram2d(one.column("a"), one.column("d"), bins=(12, 10))[0] / 2000 for one in drawn]
        off.append(np.mean([0.5 * np.abs(table - want).sum() for table in tables]))
    assert off[1] < 0.8 * off[0]


def test_no_step_carries_a_share_below_single_precision() -> None:
    starts = np.array([0, 2])
    at = point(np.array([[0.0], [-29.5]], np.float32), np.zeros(1), starts)
    _Moves(at).step(np.array([[0.0], [50.0]], np.float32), np.float32(10.0), np.float32(1.0))
    assert at.logs.min() == np.float32(MIN_LOG_PROBABILITY)
    at.settle(starts)
    assert (at.shares > 0).all()
