"""Auto: when a graphical model is tried and taken, and that its models come back from their state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.limits import Deadline, Effort
from margrave.models import auto
from margrave.models._base.pooling import pool
from margrave.models._mixture.model import MixtureModel
from margrave.models.auto import Auto, Trees, find_unjudged_model, rank_pairs
from margrave.protocols import Model
from margrave.release import InferredMarginal, NoisyMarginal
from margrave.schema.domain import Clique, Domain

SMALL = Domain(("a", "b", "c"), (12, 14, 16))
LONG = Domain(tuple("abcdefghij"), (24,) * 10)


def tables(domain: Domain, rows: float, sigma: float, states: int, seed: int = 0) -> list[NoisyMarginal]:
    """One-ways and pairs of a random mixture, with noise."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(states))
    parts = {name: rng.dirichlet(np.full(domain[name], 0.05), size=states) for name in domain.names}
    made = []
    for clique in [c for k in (1, 2) for c in itertools.combinations(domain.names, k)]:
        table = weights
        for name in clique:
            table = table[..., None, :] * parts[name].T
        exact = rows * table.sum(axis=-1)
        made.append(NoisyMarginal(clique, exact + sigma * rng.standard_normal(exact.shape), sigma))
    return made


def scattered(sigma: float) -> list[NoisyMarginal]:
    """One-ways and pairs of a joint table with a few hundred cells of any size, with noise."""
    rng = np.random.default_rng(2)
    joint = 3e6 * rng.dirichlet(np.full(SMALL.size(SMALL.names), 0.03)).reshape(SMALL.sizes)
    made = []
    for places in [p for k in (1, 2) for p in itertools.combinations(range(3), k)]:
        exact = joint.sum(axis=tuple(i for i in range(3) if i not in places))
        noisy = exact + sigma * rng.standard_normal(exact.shape)
        made.append(NoisyMarginal(tuple(SMALL.names[i] for i in places), noisy, sigma))
    return made


def far(model: Model, made: list[NoisyMarginal]) -> float:
    """Mean total variation from the measured pairs."""
    pairs = [m for m in made if len(m.clique) == 2]
    return float(
        np.mean([0.5 * np.abs(model.project(m.clique) - m.values).sum() / model.total for m in pairs])
    )


@pytest.fixture(scope="module")
def precise() -> list[NoisyMarginal]:
    """Three attributes that six hundred products cannot follow, and hardly any noise."""
    return scattered(2.0)


def test_little_noise_on_few_attributes_asks_for_a_graphical_model(precise: list[NoisyMarginal]) -> None:
    model = Auto().fit(SMALL, precise)
    assert isinstance(model, Trees)
    assert {frozenset(pair) for pair in model.kept} == {frozenset("ab"), frozenset("ac"), frozenset("bc")}
    assert far(model, precise) < 0.003


def test_a_tree_that_would_be_too_large_is_not_tried() -> None:
    made = tables(LONG, 1e5, 20.0, 20)
    assert isinstance(Auto().fit(LONG, made), MixtureModel)


def test_rough_and_late_fits_are_mixtures(precise: list[NoisyMarginal]) -> None:
    assert isinstance(Auto().fit(SMALL, precise, effort=Effort(rough=True)), MixtureModel)
    late = Deadline(1e-9)
    while not late.passed:
        pass
    assert isinstance(Auto().fit(SMALL, precise, effort=Effort(deadline=late)), MixtureModel)


@pytest.mark.parametrize(("rows", "sigma"), [(3e6, 2.0), (500.0, 60.0)])
def test_models_come_back_from_their_state(rows: float, sigma: float) -> None:
    made = tables(SMALL, rows, sigma, 50)
    model = Auto().fit(SMALL, made)
    again = Auto().restore(SMALL, made, model.state())
    cliques: list[Clique] = [("a",), ("c", "a"), ("a", "b", "c")]
    for one, two in zip(model.project_many(cliques), again.project_many(cliques), strict=True):
        assert np.allclose(one, two)
    rows_of = [m.sample(500, np.random.default_rng(0)).columns for m in (model, again)]
    assert all(np.array_equal(a, b) for a, b in zip(*rows_of, strict=True))


def test_damaged_trees_are_refused(precise: list[NoisyMarginal]) -> None:
    state = Auto().fit(SMALL, precise).state()
    for wrong in (np.array([0.0, 1.0]), np.array([[0.0, 7.0]]), np.array([[np.nan, 1.0]])):
        with pytest.raises(ReleaseError):
            Auto().restore(SMALL, precise, state | {"trees": wrong})


def test_the_target_and_the_memory_limit_reach_the_models() -> None:
    made = tables(SMALL, 5000.0, 5.0, 5)
    fitter = Auto(target="c", max_memory=600_000_000)
    assert fitter._mixture.target == "c"
    assert fitter._mixture.max_memory == fitter._trees.max_memory == 600_000_000
    assert fitter.fit(SMALL, made).domain == SMALL


def test_a_small_tree_is_judged_by_its_whole_fit() -> None:
    # Six attributes of few codes and a million rows: a mixture is near, a rough tree is not.
    rng, domain = np.random.default_rng(4), Domain(tuple("uvwxyz"), (3, 7, 2, 7, 2, 11))
    logs = np.zeros(domain.sizes)
    for places in itertools.combinations(range(6), 2):
        shape = [size if place in places else 1 for place, size in enumerate(domain.sizes)]
        logs = logs + 2.0 * rng.standard_normal(shape)
    joint = 1e6 * np.exp(logs) / np.exp(logs).sum()
    made = []
    for places in [p for k in (1, 2) for p in itertools.combinations(range(6), k)]:
        exact = joint.sum(axis=tuple(place for place in range(6) if place not in places))
        noisy = exact + 10.0 * rng.standard_normal(exact.shape)
        made.append(NoisyMarginal(tuple(domain.names[place] for place in places), noisy, 10.0))
    assert isinstance(Auto().fit(domain, made), Trees)


def test_pairs_are_ranked_by_their_dependence() -> None:
    pooled = pool(SMALL, scattered(2.0))
    strong = np.full((3, 3), 0.5)
    strong[0, 2] = strong[2, 0] = 0.7
    assert rank_pairs(SMALL, pooled, strong)[0] == ("a", "c")
    assert len(rank_pairs(SMALL, pooled, strong)) == 3
    assert rank_pairs(SMALL, pooled, None) == []


def chain(rows: float, sigma: float) -> tuple[Domain, list[NoisyMarginal]]:
    """One-ways and all pairs of x - y - z, in which x and z are alike through y alone."""
    rng, domain = np.random.default_rng(7), Domain(("x", "y", "z"), (10, 12, 14))
    first = rng.dirichlet(np.full(10 * 12, 0.2)).reshape(10, 12)
    joint = rows * first[:, :, None] * rng.dirichlet(np.full(14, 0.1), size=12)[None]
    made = []
    for places in [p for k in (1, 2) for p in itertools.combinations(range(3), k)]:
        exact = joint.sum(axis=tuple(i for i in range(3) if i not in places))
        noisy = exact + sigma * rng.standard_normal(exact.shape)
        made.append(NoisyMarginal(tuple(domain.names[i] for i in places), noisy, sigma))
    return domain, made


def test_a_tree_leaves_out_a_pair_that_others_imply() -> None:
    domain, made = chain(20_000.0, 20.0)
    grown = Auto().grow_tree(domain, made, [("x", "z"), ("x", "y"), ("y", "z")], 20_000.0)
    assert set(grown.kept) == {("x", "y"), ("y", "z")}


def test_a_tree_leaves_out_pairs_that_noise_explains() -> None:
    domain, made = chain(500.0, 400.0)
    assert Auto().grow_tree(domain, made, [("x", "y"), ("y", "z")], 500.0).kept == ()


def test_a_tree_stays_below_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    domain, made = chain(20_000.0, 20.0)
    monkeypatch.setattr(auto, "MOST_CELLS", 140)
    assert len(Auto().grow_tree(domain, made, [("x", "y"), ("y", "z")], 20_000.0).kept) == 1


def test_pairs_that_nobody_looked_at_ask_for_the_model_of_all_that_was_measured() -> None:
    domain, made = chain(20_000.0, 20.0)
    some = [table for table in made if table.clique != ("x", "z")]
    assert find_unjudged_model(domain, pool(domain, some)) == [("x", "y"), ("y", "z")]
    assert find_unjudged_model(domain, pool(domain, made)) == []
    fitted = Auto().fit(domain, some)
    assert isinstance(fitted, Trees)
    assert set(fitted.kept) == {("x", "y"), ("y", "z")}
    appraised = InferredMarginal(("x", "z"), made[4].values, 20.0, 0.1, 0.1)
    assert find_unjudged_model(domain, pool(domain, [*some, appraised], inferred=True)) == []
