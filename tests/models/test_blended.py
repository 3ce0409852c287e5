"""BlendedModel: the share that split noise says, rows whose pairs are the mean of both models', its state."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.models._base.pooling import Pooled
from margrave.models._base.public_rows import tabulate_rows
from margrave.models.gated import Gated
from margrave.models.gated.blended import KEY, USUAL_SHARE, BlendedModel, choose_rows, find_share
from margrave.models.gated.public_auto import PublicAuto
from margrave.models.independent import Independent
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded

DOMAIN = Domain(("p", "a", "b", "c"), (3, 4, 5, 2))
PAIRS = list(combinations(DOMAIN.names, 2))


def draw(rows: int, strength: float, seed: int) -> Encoded:
    """Rows in which all attributes follow a hidden code, each as often as `strength` says."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 60, rows)
    columns = [
        np.where(rng.random(rows) < strength, hidden % size, rng.integers(0, size, rows))
        for size in DOMAIN.sizes
    ]
    return Encoded(DOMAIN, tuple(columns))


def tables_of(rows: Encoded) -> list[np.ndarray]:
    return [tabulate_rows(rows, DOMAIN, pair) for pair in PAIRS]


def judge(one: list[np.ndarray], other: list[np.ndarray], share: float, sigma: float, seed: int) -> float:
    """The share that is found where the judged tables are those of a blend, in noise."""
    rng = np.random.default_rng(seed)
    mean = [share * a + (1.0 - share) * b for a, b in zip(one, other, strict=True)]
    tables = [
        Pooled(pair, table + sigma * rng.standard_normal(table.shape), np.full(table.shape, sigma))
        for pair, table in zip(PAIRS, mean, strict=True)
    ]
    return find_share(one, other, tables, 5000.0)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.7, 1.0])
def test_without_noise_the_share_is_that_of_the_blend_that_the_tables_were_made_of(share: float) -> None:
    one, other = (tables_of(draw(5000, strength, 1)) for strength in (0.2, 0.8))
    assert judge(one, other, share, 1e-6, 0) == pytest.approx(share, abs=1e-6)


def test_the_share_is_near_the_true_one_in_little_noise_and_near_the_usual_one_in_much() -> None:
    one, other = (tables_of(draw(5000, strength, 1)) for strength in (0.3, 0.7))
    little, much = ([judge(one, other, 0.1, sigma, seed) for seed in range(100)] for sigma in (10.0, 1e4))
    assert np.mean(little) == pytest.approx(0.1, abs=0.03)
    assert np.abs(np.asarray(much) - USUAL_SHARE).max() < 0.05
    between = np.mean([judge(one, other, 0.1, 150.0, seed) for seed in range(100)])
    assert np.mean(little) < between < USUAL_SHARE


def test_pairs_that_nobody_measured_and_equal_models_leave_the_usual_share() -> None:
    one = tables_of(draw(500, 0.5, 1))
    ones = [np.ones(table.shape) for table in one]
    guessed = [Pooled(p, t, s, inferred=True) for p, t, s in zip(PAIRS, one, ones, strict=True)]
    other = tables_of(draw(500, 0.9, 2))
    assert find_share(one, other, guessed, 500.0) == USUAL_SHARE
    assert find_share(one, one, [Pooled(*parts) for parts in zip(PAIRS, one, ones, strict=True)], 500.0) == (
        USUAL_SHARE
    )


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_rows_are_of_either_draw_and_their_pairs_are_nearer_the_mean_than_chance_leaves_them(share) -> None:
    one, other = draw(4000, 0.2, 1), draw(4000, 0.8, 2)
    wanted = [share * a + (1 - share) * b for a, b in zip(tables_of(one), tables_of(other), strict=True)]
    rng = np.random.default_rng(0)

    def miss(chosen: np.ndarray) -> float:
        parts = zip(one.columns, other.columns, strict=True)
        mixed = Encoded(DOMAIN, tuple(np.where(chosen, a, b) for a, b in parts))
        return sum(np.abs(t - w).sum() for t, w in zip(tables_of(mixed), wanted, strict=True))

    chosen = choose_rows(one, other, share, rng)
    assert chosen.mean() == pytest.approx(share, abs=0.05)
    assert miss(chosen) < 0.1 * miss(rng.random(4000) < share)


def blend(rows: Encoded, share: float = 0.4) -> tuple[BlendedModel, list[NoisyMarginal]]:
    public = Encoded(DOMAIN.project(("p",)), (rows.column("p"),))
    tables = [NoisyMarginal(p, t, 3.0) for p, t in zip(PAIRS, tables_of(rows), strict=True)]
    gated = Gated(given=public, components=6).fit(DOMAIN, tables)
    other = Independent().fit(DOMAIN, tables, total=float(rows.rows))
    return BlendedModel(gated, other, share), tables


def test_marginals_are_means_and_those_of_public_attributes_are_counted() -> None:
    rows = draw(2000, 0.8, 1)
    model, _ = blend(rows)
    for clique in (("a", "b"), ("p", "c"), ("a", "b", "c")):
        wanted = 0.4 * model.other.project(clique) + 0.6 * model.gated.project(clique)
        np.testing.assert_allclose(model.project(clique), wanted, rtol=1e-12)
        assert model.project(clique).sum() == pytest.approx(model.total)
    np.testing.assert_allclose(model.project(("p",)), tabulate_rows(rows, DOMAIN, ("p",)), rtol=1e-6)


def test_given_codes_stand_in_the_rows_public_or_private_and_few_rows_can_be_drawn() -> None:
    rows = draw(2000, 0.8, 1)
    model, rng = blend(rows)[0], np.random.default_rng(0)
    drawn = model.sample(2000, rng, {"p": rows.column("p")})
    np.testing.assert_array_equal(drawn.column("p"), rows.column("p"))
    assert set(model.sample(50, rng, {"b": 3}).column("b")) == {3}
    assert [model.sample(count, rng).rows for count in (0, 1, 7)] == [0, 1, 7]


def test_a_damaged_state_is_refused(monkeypatch) -> None:
    rows = draw(1000, 0.8, 1)
    public = Encoded(DOMAIN.project(("p",)), (rows.column("p"),))
    monkeypatch.setattr("margrave.models.gated.public_auto.find_share", lambda *_: 0.5)
    tables = [NoisyMarginal(p, t, 3.0) for p, t in zip(PAIRS, tables_of(rows), strict=True)]
    model = PublicAuto(given=public).fit(DOMAIN, tables)
    assert isinstance(model, BlendedModel)
    state = model.state()
    for damage in ({KEY: np.asarray(1.5)}, {KEY: np.zeros(2)}, {KEY: np.asarray(np.nan)}):
        with pytest.raises(ReleaseError):
            PublicAuto().restore(DOMAIN, tables, state | damage)
    with pytest.raises(ReleaseError):
        PublicAuto().restore(DOMAIN, tables, {k: v for k, v in state.items() if not k.startswith("inner_")})
