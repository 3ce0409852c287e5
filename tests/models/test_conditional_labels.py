"""Refined attributes with triples: a measured table of three attributes is held, drawn, given, saved and
loaded."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.models._mixture.model import MixtureModel
from margrave.models._mixture.refinements import with_triples
from margrave.models.mixture import Mixture
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "c", "d", "e"), (2, 3, 3, 2, 4))
ROWS = 30_000.0


def joint() -> np.ndarray:
    """c is a + b modulo 3 and d says whether a and e's parity differ, but for a tenth; e leans on b."""
    a, b, c, d, e = np.indices(DOMAIN.sizes)
    table = np.where((a + b) % 3 == c, 0.9, 0.05) * np.where((a + e) % 2 == d, 0.9, 0.1)
    table = table * np.where(e == b, 2.0, 1.0) * np.where(a == 0, 1.2, 0.8)
    return np.asarray(table / table.sum())


def marginal(clique: tuple[str, ...]) -> np.ndarray:
    return joint().sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))


def measurements(triples: list[tuple[str, ...]]) -> list[NoisyMarginal]:
    rng = np.random.default_rng(0)
    cliques = [c for k in (1, 2) for c in itertools.combinations(DOMAIN.names, k)]
    return [
        NoisyMarginal(c, ROWS * marginal(c) + 5.0 * rng.standard_normal(DOMAIN.shape(c)), 5.0)
        for c in [*cliques, *triples]
    ]


TRIPLES: list[tuple[str, ...]] = [("a", "b", "c"), ("a", "d", "e")]


def off(table: np.ndarray, clique: tuple[str, ...]) -> float:
    return 0.5 * float(np.abs(table / table.sum() - marginal(clique)).sum())


@pytest.fixture(scope="module")
def fitted() -> MixtureModel:
    return Mixture(components=40).fit(DOMAIN, measurements(TRIPLES))


def counted(model: MixtureModel, clique: tuple[str, ...]) -> np.ndarray:
    rows = model.sample(30_000, np.random.default_rng(3))
    table = np.zeros(DOMAIN.shape(clique))
    np.add.at(table, tuple(rows.column(name) for name in clique), 1.0)
    return table


@pytest.mark.parametrize("clique", TRIPLES)
def test_measured_triples_are_held_by_marginals_and_rows(
    fitted: MixtureModel, clique: tuple[str, ...]
) -> None:
    plain = Mixture(components=40).fit(DOMAIN, measurements([]))
    assert off(plain.project(clique), clique) > 0.1
    assert off(fitted.project(clique), clique) < 0.02
    assert off(counted(fitted, clique), clique) < 0.02


def test_pairs_are_held_beside_them(fitted: MixtureModel) -> None:
    for pair in itertools.combinations(DOMAIN.names, 2):
        assert off(counted(fitted, pair), pair) < 0.015


@pytest.mark.parametrize("target", [None, "a", "b", "e"])
def test_a_triple_is_held_whichever_of_its_attributes_is_drawn_last(target: str | None) -> None:
    model = Mixture(components=40, target=target).fit(DOMAIN, measurements(TRIPLES))
    assert model.refinements is not None
    assert target is None or target in model.refinements.names
    for clique in TRIPLES:
        assert off(counted(model, clique), clique) < 0.02


def test_triples_alone_make_labels() -> None:
    model = Mixture(components=40, refinements=1).fit(DOMAIN, measurements(TRIPLES))
    assert model.refinements is not None
    assert off(counted(model, TRIPLES[0]), TRIPLES[0]) < 0.02


def test_rows_given_a_label_follow_the_triple(fitted: MixtureModel) -> None:
    rows = fitted.sample(20_000, np.random.default_rng(4), {"c": 2})
    assert set(np.unique(rows.column("c"))) == {2}
    table = np.zeros((2, 3))
    np.add.at(table, (rows.column("a"), rows.column("b")), 1.0)
    wanted = marginal(("a", "b", "c"))[:, :, 2]
    assert 0.5 * float(np.abs(table / table.sum() - wanted / wanted.sum()).sum()) < 0.03


def test_restored_models_are_the_same(fitted: MixtureModel) -> None:
    state = fitted.state()
    again = Mixture().restore(DOMAIN, measurements(TRIPLES), state)
    for clique in TRIPLES:
        np.testing.assert_array_equal(again.project(clique), fitted.project(clique))
    one, other = (m.sample(500, np.random.default_rng(5)) for m in (fitted, again))
    for name in DOMAIN.names:
        np.testing.assert_array_equal(one.column(name), other.column(name))


@pytest.mark.parametrize(
    "pairs", [np.array([[0.0, 0.0]]), np.array([[0.0, 9.0]]), np.array([0.0, 1.0]), np.array([[0.5, 1.0]])]
)
def test_damaged_pairs_of_a_label_are_refused(fitted: MixtureModel, pairs: np.ndarray) -> None:
    state = dict(fitted.state())
    key = next(key for key in state if key.endswith("_pairs"))
    with pytest.raises(ReleaseError):
        Mixture().restore(DOMAIN, [], state | {key: pairs})


def test_no_label_holds_two_triples_if_others_can() -> None:
    allowed = {name: (False, DOMAIN[name]) for name in DOMAIN.names}
    assert with_triples(["a"], TRIPLES, allowed) == ["a", "d"]
    assert with_triples([], [("b", "c", "e")], allowed) == ["b"]
    assert with_triples(["a", "d", "e"], TRIPLES, allowed) == ["a", "d", "e"]
    assert with_triples(["b"], [("b", "c", "e"), ("a", "b", "d")], {}) == ["b"]
