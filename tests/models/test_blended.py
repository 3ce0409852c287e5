"""BlendedModel: pairs between both models' and the measured ones, rows that have them, its state."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from margrave.errors import ReleaseError
from margrave.models._base.pooling import Pooled, pool
from margrave.models.gated import Gated
from margrave.models.gated.blended import KEY, BlendedModel, choose_rows, weigh_estimates
from margrave.models.gated.public_auto import PublicAuto
from margrave.models.independent import Independent
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded, tabulate_rows

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


def weigh(one: np.ndarray, other: np.ndarray, real: np.ndarray, sigma: float, seed: int = 0) -> np.ndarray:
    values = real + sigma * np.random.default_rng(seed).standard_normal(real.shape)
    return weigh_estimates(one, other, 0.4, Pooled(("a", "b"), values, np.full(real.shape, sigma)))


def test_the_less_noise_the_nearer_a_pair_is_to_the_nearer_model_and_to_what_was_measured() -> None:
    real, near, far = (tables_of(draw(5000, strength, 1))[3] for strength in (0.7, 0.6, 0.3))
    off = [np.abs(weigh(far, near, real, sigma) - real).sum() for sigma in (1.0, 10.0, 30.0, 300.0)]
    alone = np.abs(near - real).sum()
    assert off[0] < 0.3 * alone
    assert sorted(off) == off
    assert off[1] < alone < off[3]


def test_in_much_noise_a_pair_is_the_mean_of_both_models_on_average() -> None:
    real, one, other = (tables_of(draw(5000, strength, 1))[3] for strength in (0.5, 0.6, 0.4))
    tables = [weigh(one, other, real, 1e3, seed) for seed in range(400)]
    assert tables[0].sum() == pytest.approx(5000)
    assert min(table.min() for table in tables) >= 0
    middle = np.median(tables, axis=0)
    assert np.abs(middle - (0.4 * one + 0.6 * other)).sum() < 0.1 * np.abs(one - other).sum()


def test_where_both_models_are_right_little_of_the_noise_is_let_in() -> None:
    real = tables_of(draw(5000, 0.7, 1))[3]
    off = [np.abs(weigh(real, real, real, 9.0, seed) - real).mean() for seed in range(200)]
    assert np.mean(off) < 0.25 * 9.0


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_rows_are_of_either_draw_and_their_pairs_are_nearer_the_mean_than_chance_leaves_them(share) -> None:
    one, other = draw(4000, 0.2, 1), draw(4000, 0.8, 2)
    wanted = [share * a + (1 - share) * b for a, b in zip(tables_of(one), tables_of(other), strict=True)]
    rng = np.random.default_rng(0)

    def miss(chosen: np.ndarray) -> float:
        parts = zip(one.columns, other.columns, strict=True)
        mixed = Encoded(DOMAIN, tuple(np.where(chosen, a, b) for a, b in parts))
        return sum(np.abs(t - w).sum() for t, w in zip(tables_of(mixed), wanted, strict=True))

    for expected in (None, dict(zip(PAIRS, wanted, strict=True))):
        chosen = choose_rows(one, other, share, rng, expected=expected)
        assert chosen.mean() == pytest.approx(share, abs=0.05)
        assert miss(chosen) < 0.1 * miss(rng.random(4000) < share)


def blend(rows: Encoded, share: float = 0.4, sigma: float = 3.0) -> BlendedModel:
    public = Encoded(DOMAIN.project(("p",)), (rows.column("p"),))
    tables = [NoisyMarginal(p, t, sigma) for p, t in zip(PAIRS, tables_of(rows), strict=True)]
    gated = Gated(given=public, components=6).fit(DOMAIN, tables)
    other = Independent().fit(DOMAIN, tables, total=float(rows.rows))
    return BlendedModel(gated, other, pool(DOMAIN, tables), share)


def test_marginals_are_means_nearer_to_measured_pairs_and_public_ones_are_counted() -> None:
    rows = draw(2000, 0.8, 1)
    model = blend(rows)
    for clique in (("c",), ("a", "b", "c"), ("a", "b"), ("p", "c")):
        mean = 0.4 * model.other.project(clique) + 0.6 * model.gated.project(clique)
        off = [
            np.abs(found - tabulate_rows(rows, DOMAIN, clique)).sum()
            for found in (model.project(clique), mean)
        ]
        if len(clique) == 2:
            assert off[0] < 0.7 * off[1]
            np.testing.assert_allclose(model.project(clique[::-1]), model.project(clique).T, rtol=1e-12)
        else:
            np.testing.assert_allclose(model.project(clique), mean, rtol=1e-12)
        assert model.project(clique).sum() == pytest.approx(model.total)
    np.testing.assert_allclose(model.project(("p",)), tabulate_rows(rows, DOMAIN, ("p",)), rtol=1e-6)


def test_rows_with_the_models_own_public_part_come_near_measured_pairs() -> None:
    rows = draw(2000, 0.8, 1)
    model, rng, given = blend(rows, 0.6), np.random.default_rng(0), {"p": rows.column("p")}

    def miss(drawn: Encoded) -> float:
        return sum(np.abs(a - b).sum() for a, b in zip(tables_of(drawn), tables_of(rows), strict=True))

    plain = miss(BlendedModel(model.gated, model.other, (), 0.6).sample(2000, rng, given))
    assert miss(model.sample(2000, rng, given)) < 0.5 * plain
    assert miss(model.sample(2000, rng)) < 0.5 * plain


def test_given_codes_stand_in_the_rows_public_or_private_and_few_rows_can_be_drawn() -> None:
    rows = draw(2000, 0.8, 1)
    model, rng = blend(rows), np.random.default_rng(0)
    drawn = model.sample(2000, rng, {"p": rows.column("p")})
    np.testing.assert_array_equal(drawn.column("p"), rows.column("p"))
    assert set(model.sample(50, rng, {"b": 3}).column("b")) == {3}
    assert [model.sample(count, rng).rows for count in (0, 1, 7)] == [0, 1, 7]


def test_a_damaged_state_is_refused() -> None:
    rows = draw(1000, 0.8, 1)
    public = Encoded(DOMAIN.project(("p",)), (rows.column("p"),))
    tables = [NoisyMarginal(p, t, 3.0) for p, t in zip(PAIRS, tables_of(rows), strict=True)]
    model = PublicAuto(given=public).fit(DOMAIN, tables)
    assert isinstance(model, BlendedModel)
    state = model.state()
    for damage in ({KEY: np.asarray(1.5)}, {KEY: np.zeros(2)}, {KEY: np.asarray(np.nan)}):
        with pytest.raises(ReleaseError):
            PublicAuto().restore(DOMAIN, tables, state | damage)
    with pytest.raises(ReleaseError):
        PublicAuto().restore(DOMAIN, tables, {k: v for k, v in state.items() if not k.startswith("inner_")})
