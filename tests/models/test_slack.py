from __future__ import annotations

import numpy as np
import pytest

from margrave.models._mixture.additive import LIKENESS, chain_neighbours, slack, sum_to_shares


def pair(level, codes, width, noise, seed):
    """A noisy pair in proportions whose label has effects of a given standard deviation, and the codes'
    shares."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(codes, 5.0))
    table = rng.dirichlet(np.full(width, 8.0)) * np.exp(level * rng.standard_normal((codes, width)))
    table *= (shares / table.sum(axis=1))[:, None]
    sigma = np.full(table.shape, noise)
    noisy = table + noise * rng.standard_normal(table.shape)
    return sum_to_shares(noisy, sigma, shares), sigma, shares


def test_slack_falls_with_what_the_pair_shows_and_grows_with_its_noise():
    for width in (2, 4):
        by_level = [slack(*pair(level, 40, width, 2e-3, 1), 1.2).mean() for level in (0.0, 0.2, 0.6, 1.5)]
        assert by_level == sorted(by_level, reverse=True)
        assert by_level[0] > 3.0 * by_level[-1]
        by_noise = [slack(*pair(0.6, 40, width, noise, 1), 1.2).mean() for noise in (1e-4, 1e-3, 1e-2)]
        assert by_noise == sorted(by_noise)


def test_slack_is_the_geometric_mean_of_the_noise_and_of_bayes_shrinkage():
    exact, _, shares = pair(0.5, 400, 3, 1e-12, 5)
    values, sigma, _ = pair(0.5, 400, 3, 5e-4, 5)
    labels = exact.sum(axis=0)
    level = float(((exact / (shares[:, None] * labels) - 1.0) ** 2).mean())
    slope = shares[:, None] * labels * (1.0 - labels)
    common = slope > 0.3 * slope.mean()
    bayes = sigma**2 / (slope * level)
    found = slack(values, sigma, shares, 1.0)
    np.testing.assert_allclose(found[common], np.sqrt(sigma * bayes)[common], rtol=0.5)


def test_lines_are_moved_to_sum_to_their_shares_where_noise_is():
    values, sigma, shares = pair(0.4, 12, 3, 1e-3, 2)
    sigma[:, 0] = 0.0
    off = values + np.array([0.0, 0.05, 0.05])
    np.testing.assert_allclose(sum_to_shares(off, sigma + 1e-300, shares), values)
    shares[4] = 0.0
    assert not sum_to_shares(off, sigma, shares)[4].any()


def test_codes_without_rows_labels_of_one_code_and_no_rows_at_all():
    values, sigma, shares = pair(0.4, 12, 3, 1e-3, 2)
    shares[3] = 0.0
    found = slack(values, sigma, shares, 1.2)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert (found[3] >= found.max(axis=1).min()).all()
    assert (slack(values, sigma, np.zeros(12), 1.2) == 1.2 * sigma).all()
    assert (slack(values[:, :1], sigma[:, :1], shares, 1.2) == 1.2 * sigma[:, :1]).all()


@pytest.mark.parametrize("ordered", [3, 6, 7])
def test_the_chain_is_an_autoregression_of_unit_variance(ordered):
    single, bonds = chain_neighbours(np.ones((7, 2)), ordered)
    precision = np.diag(single[:, 0])
    for code, weight in enumerate(bonds[:, 0]):
        precision[code : code + 2, code : code + 2] += weight * np.array([[1.0, -1.0], [-1.0, 1.0]])
    places = np.arange(7)
    expected = LIKENESS ** np.abs(places[:, None] - places).astype(float)
    expected[ordered:] = expected[:, ordered:] = 0.0
    expected[places[ordered:], places[ordered:]] = 1.0
    np.testing.assert_allclose(np.linalg.inv(precision), expected, atol=1e-12)
