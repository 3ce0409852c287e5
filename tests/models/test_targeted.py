"""A mixture with a target: the target's conditional, its marginals, given targets, and what is saved."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import ReleaseError, SchemaError
from margrave.models.mixture import Mixture, MixtureModel
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "y"), (5, 4, 6, 2))
EFFECTS = (np.linspace(-2, 2, 5), np.array([1.0, -1.0, 0.5, 0.0]), np.linspace(1.5, -1.5, 6))


def joint() -> np.ndarray:
    """An additive label over three dependent attributes, in proportions."""
    rng = np.random.default_rng(2)
    tables = [rng.dirichlet(np.full(n, 2.0), 3) for n in DOMAIN.sizes[:3]]
    others = np.einsum("k,ka,kb,kc->abc", np.array([0.5, 0.3, 0.2]), *tables)
    logit = EFFECTS[0][:, None, None] + EFFECTS[1][None, :, None] + EFFECTS[2][None, None, :] - 0.5
    share = 1 / (1 + np.exp(-logit))
    return np.stack([others * (1 - share), others * share], axis=-1)


def measurements(sigma: float = 5.0, rows: float = 20_000.0) -> list[NoisyMarginal]:
    rng = np.random.default_rng(0)
    made = []
    for clique in [c for k in (1, 2) for c in itertools.combinations(range(4), k)]:
        table = rows * joint().sum(axis=tuple(i for i in range(4) if i not in clique))
        noisy = table + sigma * rng.standard_normal(table.shape)
        made.append(NoisyMarginal(tuple(DOMAIN.names[i] for i in clique), noisy, sigma))
    return made


@pytest.fixture(scope="module")
def fitted() -> MixtureModel:
    return Mixture(components=40, restarts=1, target="y").fit(DOMAIN, measurements())


def test_the_label_is_closer_to_the_truth_than_the_mixture_s(fitted: MixtureModel) -> None:
    plain = Mixture(components=40, restarts=1).fit(DOMAIN, measurements())
    clique = DOMAIN.names
    errors = []
    for model in (plain, fitted):
        table = model.project(clique)
        held = np.maximum(table.sum(axis=-1), 1e-9)
        share = joint()[..., 1] / joint().sum(axis=-1)
        errors.append(float((joint().sum(axis=-1) * np.abs(table[..., 1] / held - share)).sum()))
    assert errors[1] < 0.8 * errors[0]


def test_marginals_with_the_target_are_those_of_the_rows(fitted: MixtureModel) -> None:
    rows = fitted.sample(60_000, np.random.default_rng(0))
    for clique in (("y",), ("y", "a"), ("c", "y"), ("b", "y", "a"), ("a", "b")):
        counts = np.zeros(DOMAIN.shape(clique))
        np.add.at(counts, tuple(rows.column(name) for name in clique), 1 / rows.rows)
        model = fitted.project(clique) / fitted.total
        assert model.shape == DOMAIN.shape(clique)
        assert model.sum() == pytest.approx(1.0)
        assert 0.5 * np.abs(counts - model).sum() < 0.01
    many = fitted.project_many([("y", "a"), ("a", "b"), ("b", "c"), ("a", "c"), ("y",)])
    assert np.array_equal(many[0], fitted.project(("y", "a")))


def test_rows_given_the_target_follow_bayes(fitted: MixtureModel) -> None:
    rows = fitted.sample(20_000, np.random.default_rng(1), {"y": 1, "b": 2})
    assert (rows.column("y") == 1).all()
    assert (rows.column("b") == 2).all()
    wanted = fitted.project(("a", "b", "y"))[:, 2, 1]
    found = np.bincount(rows.column("a"), minlength=5) / rows.rows
    assert 0.5 * np.abs(found - wanted / wanted.sum()).sum() < 0.02


def test_rows_given_others_draw_the_target_from_its_conditional(fitted: MixtureModel) -> None:
    rows = fitted.sample(20_000, np.random.default_rng(1), {"a": 4, "b": 0, "c": 0})
    assert fitted.target is not None
    given = {"a": np.array([4]), "b": np.array([0]), "c": np.array([0])}
    share = fitted.target.additive.probabilities(given)[0, 1]
    assert rows.column("y").mean() == pytest.approx(share, abs=1e-3)


def test_restored_models_are_the_same(fitted: MixtureModel) -> None:
    again = Mixture().restore(DOMAIN, [], fitted.state())
    assert np.allclose(again.project(("y", "a")), fitted.project(("y", "a")), rtol=1e-12)
    one, two = (model.sample(100, np.random.default_rng(3)) for model in (again, fitted))
    assert np.array_equal(one.column("y"), two.column("y"))
    for wrong in (np.asarray(9.0), np.asarray(np.nan), np.zeros(3)):
        with pytest.raises(ReleaseError, match="damaged"):
            Mixture().restore(DOMAIN, [], fitted.state() | {"target": wrong})


def test_edges_of_the_domain() -> None:
    with pytest.raises(SchemaError):
        Mixture(target="nobody").admit(DOMAIN, [])
    alone = Domain(("y",), (2,))
    model = Mixture(components=3, target="y").fit(alone, [NoisyMarginal(("y",), np.array([30.0, 70.0]), 1.0)])
    assert model.sample(10, np.random.default_rng(0)).rows == 10
    nothing = Mixture(components=3, restarts=1, target="y").fit(DOMAIN, [])
    assert nothing.sample(4, np.random.default_rng(0)).rows == 4
    assert nothing.sample(0, np.random.default_rng(0), {"y": 1}).rows == 0
