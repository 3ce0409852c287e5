from __future__ import annotations

import math

import numpy as np
import pytest
from adult_like import Mixture

from margrave.privacy.unit import Neighbours
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.report.release.fit import Fitted, Released, rows_share
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema


def _released(*marginals: NoisyMarginal, total: float = 1000.0) -> Released:
    schema = Schema.from_sizes({"a": 2, "b": 3, "c": 4})
    guarantee = Guarantee(1.0, 1e-5, 0.02, Neighbours(), "zcdp")
    return Released(Release(schema, marginals, guarantee, (), "s", "f", {}, total))


def test_repeated_measurements_are_averaged_by_precision() -> None:
    first = NoisyMarginal(("a",), np.array([10.0, 20.0]), 1.0)
    second = NoisyMarginal(("a",), np.array([20.0, 10.0]), 3.0)
    estimate = _released(first, second).estimate_measured(("a",))
    np.testing.assert_allclose(estimate.values, [(9 * 10 + 20) / 10, (9 * 20 + 10) / 10])
    np.testing.assert_allclose(estimate.sigmas, math.sqrt(9 / 10))


def test_larger_tables_tell_smaller_ones() -> None:
    table = np.arange(24.0).reshape(4, 2, 3)
    sigma = np.linspace(1, 2, 24).reshape(4, 2, 3)
    released = _released(NoisyMarginal(("c", "a", "b"), table, sigma))
    estimate = released.estimate(("b", "c"))
    assert estimate is not None
    np.testing.assert_allclose(estimate.values, table.sum(axis=1).T)
    np.testing.assert_allclose(estimate.sigmas, np.sqrt((sigma**2).sum(axis=1)).T)
    assert released.pairs == (("a", "b"), ("a", "c"), ("b", "c"))
    assert released.cliques == (("c", "a", "b"),)


def test_what_was_not_measured_is_not_told() -> None:
    released = _released(NoisyMarginal((), np.array(5.0), 1.0), NoisyMarginal(("a",), np.ones(2), 1.0))
    assert released.estimate(("b",)) is None
    assert released.cliques == (("a",),)


def test_the_noise_floor_is_what_noise_gives() -> None:
    rng = np.random.default_rng(4)
    share = rng.dirichlet(np.ones(12)).reshape(3, 4)
    sigma = rng.uniform(2, 9, (3, 4))
    fits = []
    for _ in range(4000):
        noisy = NoisyMarginal(("b", "c"), 1000 * share + rng.normal(0, sigma), sigma)
        released = _released(noisy)
        fits.append(released.fit(released.estimate_measured(("b", "c")), share))
    floor = math.sqrt(2 / math.pi) * sigma.sum() / 2000
    assert fits[0].floor == pytest.approx(floor)
    distances = np.array([fit.distance for fit in fits])
    assert distances.mean() == pytest.approx(floor, rel=0.02)
    assert np.mean([fit.within for fit in fits]) == pytest.approx(0.97, abs=0.015)
    assert fits[0].ratio == pytest.approx(fits[0].distance / floor)


def test_a_wrong_distribution_is_beyond_the_noise() -> None:
    released = _released(NoisyMarginal(("a",), np.array([500.0, 500.0]), 5.0))
    fit = released.fit(released.estimate_measured(("a",)), np.array([0.6, 0.4]))
    assert fit.distance == pytest.approx(0.1)
    assert not fit.within


def test_shares_of_rows_count_them() -> None:
    schema = Schema.from_sizes({"a": 2, "b": 3, "c": 4})
    rng = np.random.default_rng(0)
    rows = Encoded(schema.domain, tuple(rng.integers(0, size, 50).astype(np.uint8) for size in (2, 3, 4)))
    table = np.zeros((4, 2))
    for a, c in zip(rows.column("a"), rows.column("c"), strict=True):
        table[c, a] += 1 / 50
    np.testing.assert_allclose(rows_share(rows, ("c", "a")), table)
    assert Fitted(None, None).shares([("a",)]) is None
    shares = Fitted(None, rows).shares([("c", "a")])
    assert shares is not None
    np.testing.assert_allclose(shares[0], table)


def test_a_models_tables_are_normalised(made: tuple[Release, Mixture, Encoded, Encoded]) -> None:
    shares = Fitted(made[1], made[2]).shares([("sex",), ("age", "sex")])
    assert shares is not None
    for share in shares:
        assert share.sum() == pytest.approx(1)
