"""Wide pairs: a measured pair of two attributes in groups is kept code by code, by marginals and by rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.limits import Effort
from margrave.models._base.pooling import pool
from margrave.models._grouping import group_codes
from margrave.models._mixture.model import GroupedMixture
from margrave.models._wide_pairs import (
    MIN_ROWS_A_CODE,
    WidePair,
    choose_wide_pairs,
    estimate_cells,
    find_rest,
    leave_out_pairs,
)
from margrave.models.mixture import Mixture
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

CODES = 60
DOMAIN = Domain(("a", "b", "c"), (CODES, CODES, 3))
ROWS = 200_000.0
PAIR = ("a", "b")


def joint() -> np.ndarray:
    """Zipf's law for a; b is one of two partners of a, or any code; c leans on the first codes of b."""
    rng = np.random.default_rng(1)
    often = 1.0 / (np.arange(CODES) + 2.0)
    often /= often.sum()
    given = 0.4 * np.tile(often, (CODES, 1))
    for a in range(CODES):
        given[a, rng.choice(CODES, 2, replace=False)] += 0.3
    table = often[:, None] * given
    last = np.where(np.arange(CODES)[:, None] < 10, [0.8, 0.1, 0.1], [0.1, 0.2, 0.7])
    return np.asarray(table[:, :, None] * last[None, :, :])


def marginal(clique: tuple[str, ...]) -> np.ndarray:
    return joint().sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))


def measurements(sigma: float = 10.0) -> list[NoisyMarginal]:
    rng = np.random.default_rng(0)
    cliques = [c for k in (1, 2) for c in itertools.combinations(DOMAIN.names, k)]
    return [
        NoisyMarginal(c, ROWS * marginal(c) + sigma * rng.standard_normal(DOMAIN.shape(c)), sigma)
        for c in cliques
    ]


def off(table: np.ndarray, clique: tuple[str, ...]) -> float:
    return 0.5 * float(np.abs(table / table.sum() - marginal(clique)).sum())


def fitter() -> Mixture:
    return Mixture(components=30, largest=20)


@pytest.fixture(scope="module")
def fitted() -> GroupedMixture:
    model = fitter().fit(DOMAIN, measurements())
    assert isinstance(model, GroupedMixture)
    return model


def counted(columns: dict[str, np.ndarray], clique: tuple[str, ...]) -> np.ndarray:
    table = np.zeros(DOMAIN.shape(clique))
    np.add.at(table, tuple(columns[name] for name in clique), 1.0)
    return table


def drawn(model: GroupedMixture, rows: int, given: dict[str, int] | None = None) -> dict[str, np.ndarray]:
    found = model.sample(rows, np.random.default_rng(3), given)
    return {name: found.column(name) for name in DOMAIN.names}


def test_marginals_and_rows_have_the_pair(fitted: GroupedMixture) -> None:
    plain = GroupedMixture(fitted.inner, fitted.grouping)
    assert off(plain.project(PAIR), PAIR) > 0.15
    assert off(fitted.project(PAIR), PAIR) < 0.06
    assert off(counted(drawn(fitted, 200_000), PAIR), PAIR) < 0.07
    np.testing.assert_allclose(fitted.project(("b", "a")), fitted.project(PAIR).T)
    np.testing.assert_allclose(fitted.project_many([PAIR])[0], fitted.project(PAIR))
    np.testing.assert_allclose(fitted.project(("b", "c", "a")).sum(axis=1), fitted.project(("b", "a")))


def test_other_pairs_are_kept(fitted: GroupedMixture) -> None:
    rows = drawn(fitted, 200_000)
    for pair in (("a", "c"), ("b", "c")):
        apart = np.abs(counted(rows, pair) / 200_000 - fitted.project(pair) / fitted.total).sum()
        assert 0.5 * float(apart) < 0.02


def test_codes_are_settled_without_a_change_of_the_pair(
    fitted: GroupedMixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled = counted(drawn(fitted, 50_000), PAIR)
    monkeypatch.setattr(GroupedMixture, "_settle_codes", lambda self, child, *_: _[1][child])
    rows = drawn(fitted, 50_000)
    np.testing.assert_array_equal(settled, counted(rows, PAIR))
    # Without it the second attribute's pair with the third is lost for the most part.
    wanted = fitted.project(("b", "c")) / fitted.total
    assert 0.5 * float(np.abs(counted(rows, ("b", "c")) / 50_000 - wanted).sum()) > 0.04


def test_rows_with_given_codes_are_not_settled(
    fitted: GroupedMixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's pairs are not those of rows with given codes."""
    monkeypatch.setattr(GroupedMixture, "_settle_codes", lambda *_: pytest.fail("codes are settled"))
    drawn(fitted, 1_000, {"c": 1})


def test_a_pair_of_many_rows_is_left_out_of_the_model_over_groups() -> None:
    made = measurements()
    tables = pool(DOMAIN, made)
    grouping = group_codes(DOMAIN, tables, 20)
    assert grouping is not None
    chosen = choose_wide_pairs(grouping, tables)
    assert chosen == [PAIR]
    every = {table.clique for table in tables}
    assert {t.clique for t in leave_out_pairs(grouping, tables, chosen)} == every - {PAIR}
    # Nothing else would say how frequent codes are.
    alone = [table for table in tables if table.clique != ("a",)]
    assert PAIR in {t.clique for t in leave_out_pairs(grouping, alone, chosen)}
    few = pool(DOMAIN, [NoisyMarginal(m.clique, m.values / 10, 1.0) for m in made])
    assert ROWS / 10 < MIN_ROWS_A_CODE * CODES
    assert PAIR in {t.clique for t in leave_out_pairs(grouping, few, chosen)}


def test_rows_given_either_attribute_follow_the_pair(fitted: GroupedMixture) -> None:
    shares = fitted.wide[0].shares
    for name, line in (("a", shares[2]), ("b", shares[:, 2])):
        columns = drawn(fitted, 50_000, {name: 2})
        assert set(columns[name].tolist()) == {2}
        other = "b" if name == "a" else "a"
        found = np.bincount(columns[other], minlength=CODES) / 50_000
        assert 0.5 * float(np.abs(found - line / line.sum()).sum()) < 0.02


def test_restored_models_are_the_same(fitted: GroupedMixture) -> None:
    again = fitter().restore(DOMAIN, measurements(), fitted.state())
    np.testing.assert_array_equal(again.project(PAIR), fitted.project(PAIR))
    one, other = (m.sample(1000, np.random.default_rng(5)) for m in (fitted, again))
    for name in DOMAIN.names:
        np.testing.assert_array_equal(one.column(name), other.column(name))


@pytest.mark.parametrize("places", [np.array([[0.0, 2.0]]), np.array([[0.0, 7.0]]), np.array([0.0, 1.0])])
def test_damaged_places_are_refused(fitted: GroupedMixture, places: np.ndarray) -> None:
    with pytest.raises(ReleaseError):
        fitter().restore(DOMAIN, measurements(), dict(fitted.state()) | {"wide_pairs": places})


def test_what_was_not_measured_is_not_made_up() -> None:
    some = [m for m in measurements() if m.clique != PAIR]
    model = fitter().fit(DOMAIN, some)
    assert isinstance(model, GroupedMixture)
    assert model.wide == ()
    assert "wide_pairs" not in model.state()
    rough = fitter().fit(DOMAIN, measurements(), effort=Effort(rough=True))
    assert isinstance(rough, GroupedMixture)
    assert rough.wide == ()


def test_cells_near_what_is_expected_are_not_noise() -> None:
    rng = np.random.default_rng(0)
    expected = np.outer(rng.dirichlet(np.ones(40)), rng.dirichlet(np.ones(40))) * 100_000
    truth = expected.copy()
    truth[3, 5] += 4_000
    truth[7, 9] += 3_000
    sigma = np.full(truth.shape, 50.0)
    found = estimate_cells(expected, truth + rng.normal(0, sigma), sigma)
    truth /= truth.sum()
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)
    assert found[3, 5] == pytest.approx(truth[3, 5], rel=0.1)
    noise = 0.5 * 40 * 40 * 50 * 0.8 / 107_000
    assert 0.5 * float(np.abs(found - truth).sum()) < 0.25 * noise


def test_three_wide_attributes_are_drawn_along_a_tree() -> None:
    """Of a chain a - b - c with all pairs measured, two pairs are kept and each attribute is drawn once."""
    domain = Domain(("a", "b", "c"), (CODES, CODES, CODES))
    table = marginal(PAIR)
    given = table / table.sum(axis=1, keepdims=True)
    whole = table[:, :, None] * given[None, :, :]
    made = [
        NoisyMarginal(clique, ROWS * whole.sum(axis=tuple(i for i in range(3) if i not in places)), 10.0)
        for places, clique in (((0, 1), ("a", "b")), ((0, 2), ("a", "c")), ((1, 2), ("b", "c")))
    ]
    model = fitter().fit(domain, made)
    assert isinstance(model, GroupedMixture)
    assert {wide.names for wide in model.wide} == {("a", "b"), ("b", "c")}
    with pytest.raises(ReleaseError):
        fitter().restore(
            domain, made, dict(model.state()) | {"wide_pairs": np.array([[0, 1], [1, 2], [0, 2]])}
        )
    rows = model.sample(200_000, np.random.default_rng(0))
    for wide in model.wide:
        found = np.zeros((CODES, CODES))
        np.add.at(found, tuple(rows.column(name) for name in wide.names), 1.0)
        assert 0.5 * float(np.abs(found / found.sum() - wide.shares).sum()) < 0.05


def test_rows_stay_in_their_groups_as_far_as_the_table_lets_them() -> None:
    shares = np.array([[0.1, 0.2, 0.2, 0.0], [0.1, 0.1, 0.1, 0.2]])
    groups = np.array([0, 0, 1, 1])
    parent = np.repeat([0, 1], 500)
    group = np.tile([0, 0, 0, 1, 1], 200)
    found = WidePair(("a", "b"), shares).draw("b", group, parent, groups, np.random.default_rng(0))
    counts = np.zeros((2, 4))
    np.add.at(counts, (parent, found), 1)
    np.testing.assert_allclose(counts, 1000 * shares, atol=1)
    # The first parent has 300 rows of group 0 in both, the second 300 where the table has 200.
    moved = groups[found] != group
    assert int(moved[parent == 0].sum()) <= 1
    assert int(moved[parent == 1].sum()) in (99, 100, 101)


@pytest.mark.parametrize("sigma", [1e-3, 1.0, 1e6])
def test_margins_that_cannot_be_met_give_a_distribution_all_the_same(sigma: float) -> None:
    rng = np.random.default_rng(0)
    expected = np.outer(np.eye(30)[0], rng.dirichlet(np.full(30, 0.05))) * 1000
    for values in (np.eye(30) * 500.0, np.zeros((30, 30)), rng.normal(0, 1e4, (30, 30))):
        found = estimate_cells(expected, values, np.full((30, 30), sigma))
        assert np.isfinite(found).all()
        assert found.min() >= 0
        assert found.sum() == pytest.approx(1.0) or not found.any()


def estimates(truth: np.ndarray, sigma: np.ndarray) -> tuple[float, float]:
    """How far the estimate is from the truth, and how far own counts where they are evident would be."""
    rng = np.random.default_rng(0)
    values = truth + rng.normal(0, sigma)
    total = float(truth.sum())
    expected = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / total
    rest, evident = find_rest(expected, values, sigma)
    plain = np.where(evident, np.maximum(values, 0.0), rest)
    return tuple(
        0.5 * float(np.abs(table / table.sum() - truth / total).sum())  # type: ignore[return-value]
        for table in (estimate_cells(expected, values, sigma), plain)
    )


@pytest.mark.parametrize("unequal", [False, True])
def test_dependence_below_the_noise_of_a_cell_is_estimated(unequal: bool) -> None:
    """Ratios to the product between 1/4 and 3, nowhere 3.5 deviations from it: own counts see nothing."""
    rng = np.random.default_rng(0)
    ways = rng.dirichlet(np.full(80, 3.0)), rng.dirichlet(np.full(80, 3.0))
    ratio = np.where(rng.random((80, 80)) < 0.5, 0.25, 1.75)
    truth = rng.poisson(200_000 * np.outer(*ways) * ratio).astype(float)
    sigma = np.full(truth.shape, 12.0)
    if unequal:
        sigma[:40] *= 6.0
    found, plain = estimates(truth, sigma)
    assert found < 0.75 * plain


def test_what_evident_cells_take_is_not_expected_of_others() -> None:
    """Nine tenths of the rows are in two cells of each line, and the rest is spread thin."""
    rng = np.random.default_rng(0)
    ways = rng.dirichlet(np.full(80, 2.0)), rng.dirichlet(np.full(80, 2.0))
    thin = rng.poisson(4_000 * np.outer(*ways)).astype(float)
    truth = thin.copy()
    for line in range(80):
        truth[line, rng.choice(80, 2, replace=False)] += 36_000 * ways[0][line] / 2
    evident = truth > thin
    sigma = np.full(truth.shape, 6.0)
    expected = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    found = estimate_cells(expected, truth + rng.normal(0, sigma), sigma) * truth.sum()
    assert float(found[~evident].sum()) == pytest.approx(float(thin[~evident].sum()), rel=0.15)
    # What lines lack of their margins is spread over their cells.
    np.testing.assert_allclose(found.sum(axis=1), truth.sum(axis=1), atol=3.0)
    np.testing.assert_allclose(found.sum(axis=0), truth.sum(axis=0), atol=3.0)


def test_a_code_that_follows_from_another_is_estimated_without_a_haze() -> None:
    truth = np.zeros((89, 400))
    truth[np.arange(400) % 89, np.arange(400)] = np.random.default_rng(0).integers(20, 150, 400)
    found, plain = estimates(truth, np.full(truth.shape, 8.0))
    assert found < 0.9 * plain
