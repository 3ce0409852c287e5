"""Score moments: ranks and halves, what is known of them and how well, and what they are worth to a fit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import spearmanr

from margrave.limits import FULL
from margrave.models._base.pooling import halves, pool
from margrave.models._grouping import group_codes
from margrave.models._mixture.stacked import Stacked, stack
from margrave.models.mixture import Mixture
from margrave.models.mixture import fitter as fitter_module
from margrave.models.mixture.objective import LatentBlockPart, Objective, point
from margrave.models.mixture.score_moments import (
    MOMENT_WEIGHT,
    find_rank_moments,
    find_score_moments,
    score_codes,
)
from margrave.release import InferredMarginal, NoisyMarginal, RankProduct
from margrave.schema.columns import Integer
from margrave.schema.constraints.rules import Ordered
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema

ROWS = 20_000
DOMAIN = Domain(("a", "b", "c", "d"), (8, 6, 3, 7), (8, 5, 0, 7))
"""b has a code outside of its order, c none in it."""


def codes(seed: int = 0) -> np.ndarray:
    """Rows of four attributes of which a, b and d rise together, shape [rows, 4]."""
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal(ROWS)
    parts = [0.8 * hidden + 0.6 * rng.standard_normal(ROWS) for _ in range(4)]
    cut = [
        np.searchsorted(np.quantile(x, np.arange(1, n) / n), x)
        for x, n in zip(parts, DOMAIN.sizes, strict=True)
    ]
    return np.stack(cut, axis=1)


def measured(sigma: float, seed: int = 0) -> list[NoisyMarginal]:
    """All one-ways and pairs of those rows, with noise."""
    rng, rows, made = np.random.default_rng(100 + seed), codes(), []
    for k in (1, 2):
        for places in itertools.combinations(range(4), k):
            sizes = [DOMAIN.sizes[i] for i in places]
            counts = np.bincount(np.ravel_multi_index(rows[:, places].T, sizes), minlength=np.prod(sizes))
            noisy = counts.reshape(sizes) + sigma * rng.standard_normal(sizes)
            made.append(NoisyMarginal(tuple(DOMAIN.names[i] for i in places), noisy, sigma))
    return made


def stacked(made: list[NoisyMarginal], domain: Domain = DOMAIN) -> Stacked:
    return stack(domain, pool(domain, made, inferred=True), float(ROWS))


def test_scores_are_mid_ranks_with_mean_0_and_variance_1() -> None:
    shares = np.array([0.5, 0.2, 0.3])
    scores = score_codes(2.0 * shares)  # whatever they sum to
    assert shares @ scores == pytest.approx(0.0, abs=1e-12)
    assert shares @ scores**2 == pytest.approx(1.0)
    steps = np.diff([0.25, 0.6, 0.85])
    np.testing.assert_allclose(np.diff(scores) / np.diff(scores)[0], steps / steps[0])


@pytest.mark.parametrize("shares", [[], [1.0], [1.0, 0.0, 0.0], [-3.0, -1.0], [1.0, 1e-9]])
def test_one_code_in_all_but_name_has_no_scores(shares: list[float]) -> None:
    np.testing.assert_array_equal(score_codes(np.array(shares)), np.zeros(len(shares)))


def test_without_noise_a_moment_is_the_rank_correlation_of_the_rows() -> None:
    found, rows = find_rank_moments(stacked(measured(1e-6))), codes()
    wanted = spearmanr(rows[:, 0], rows[:, 3]).statistic
    assert found.targets[0, 3] == found.targets[3, 0] == pytest.approx(wanted, abs=1e-4)


def test_only_measured_pairs_of_ordered_attributes_count() -> None:
    made = measured(30.0)
    found = find_rank_moments(stacked(made))
    assert {tuple(place) for place in np.argwhere(found.weights > 0).tolist()} == {
        *itertools.permutations((0, 1, 3), 2)
    }
    # The code of b outside of its order, and all of c, have no score.
    assert found.scores[13] == 0.0
    assert not found.scores[14:17].any()
    made = [InferredMarginal(m.clique, m.values, m.sigma) if m.clique == ("a", "b") else m for m in made]
    left = find_rank_moments(stacked([m for m in made if m.clique != ("b", "d")])).weights
    assert left[0, 1] == left[1, 3] == 0.0
    assert left[0, 3] > 0.0


def test_a_pair_that_a_rule_ties_together_has_no_moment_of_its_own() -> None:
    """The constraint block holds its table, cell by cell."""
    columns = tuple(Integer(name=n, lower=0, upper=11, bins=4, missing=False) for n in ("low", "high", "x"))
    domain = Schema(columns, (Ordered("low", "high"),)).domain
    rng, made = np.random.default_rng(0), []
    for places in itertools.combinations(domain.names, 2):
        made.append(NoisyMarginal(places, 100.0 + rng.standard_normal((4, 4)), 1.0))
    halves = np.repeat([-1.0, 1.0], 2)
    product = RankProduct((halves, halves), 0.3, 0.01)
    made += [
        InferredMarginal(p, np.ones((4, 4)), 1.0, product=product)
        for p in itertools.combinations(domain.names, 2)
    ]
    found = find_score_moments(stacked(made, domain))
    assert len(found) == 2
    for weights in (moments.weights for moments in found):
        assert weights[0, 1] == 0.0
        assert weights[0, 2] > 0.0
        assert weights[1, 2] > 0.0


def test_the_weight_is_that_of_the_noise() -> None:
    """The spread of a moment over releases of the same rows is what its weight is made of."""
    found = [find_rank_moments(stacked(measured(40.0, seed))) for seed in range(200)]
    spread = np.std([one.targets[0, 3] for one in found])  # far above noise, so that nothing is taken off
    assert spread == pytest.approx(np.sqrt(MOMENT_WEIGHT / found[0].weights[0, 3]), rel=0.15)


def test_what_noise_explains_counts_as_0() -> None:
    rng, made = np.random.default_rng(0), []
    for k in (1, 2):
        for places in itertools.combinations(range(4), k):
            sizes = [DOMAIN.sizes[i] for i in places]
            even = np.full(sizes, ROWS / np.prod(sizes)) + 200.0 * rng.standard_normal(sizes)
            made.append(NoisyMarginal(tuple(DOMAIN.names[i] for i in places), even, 200.0))
    found = find_rank_moments(stacked(made))
    noise = np.sqrt(MOMENT_WEIGHT / found.weights[found.weights > 0])
    assert (found.targets == 0.0).sum() > 10
    assert np.abs(found.targets[found.weights > 0]).max() < 2.5 * noise.max()


def test_a_fit_keeps_rank_correlations_that_the_penalty_would_shrink(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = pool(DOMAIN, measured(300.0))
    wanted = [spearmanr(codes()[:, i], codes()[:, j]).statistic for i, j in ((0, 1), (0, 3), (1, 3))]

    def shortfall(weight: float) -> float:
        monkeypatch.setattr(fitter_module, "find_score_moments", lambda one: find_score_moments(one, weight))
        mixture = Mixture(components=40, refinements=0, latent_blocks=False, information=400.0)
        model = mixture.fit_at(None, DOMAIN, [t.measurement for t in tables], ROWS, FULL)
        drawn = model.sample(ROWS, np.random.default_rng(0))
        rows = np.stack([drawn.column(name) for name in DOMAIN.names], axis=1)
        kept = [spearmanr(rows[:, i], rows[:, j]).statistic for i, j in ((0, 1), (0, 3), (1, 3))]
        return float(np.mean(np.abs(np.array(kept) - wanted)))

    assert shortfall(MOMENT_WEIGHT) < 0.6 * shortfall(0.0)


SCORES = {
    "a": np.repeat([-1.0, 1.0], 4),
    "b": np.array([-1.0, -1.0, -1.0, 1.0, 1.0, 0.0]),
    "d": np.array([-1.0] * 4 + [1.0] * 3),
}


def exact_product(a: str, b: str) -> float:
    """The mean over the rows of the product of two attributes' scores."""
    one, two = (SCORES[name][codes()[:, DOMAIN.index(name)]] for name in (a, b))
    return float(np.mean(one * two))


def inferred(a: str, b: str, sigma: float = 0.01) -> InferredMarginal:
    """A pair that only its rank product is known of."""
    product = RankProduct((SCORES[a], SCORES[b]), exact_product(a, b), sigma)
    sizes = DOMAIN[a], DOMAIN[b]
    return InferredMarginal((a, b), np.full(sizes, ROWS / np.prod(sizes)), 50.0, product=product)


def test_rank_products_are_asked_for_as_they_were_measured() -> None:
    made = [m for m in measured(30.0) if len(m.clique) == 1]
    found = find_score_moments(stacked([*made, inferred("a", "b"), inferred("d", "a", 0.02)]))
    assert len(found) == 1  # no pair was measured, so that there are no rank moments
    moments = found[0]
    assert moments.targets[0, 1] == moments.targets[1, 0] == pytest.approx(exact_product("a", "b"), abs=1e-6)
    assert moments.weights[0, 1] == pytest.approx(1e4)
    # Said of the attributes the other way round, and with another noise.
    assert moments.targets[0, 3] == pytest.approx(exact_product("a", "d"), abs=1e-6)
    assert moments.weights[3, 0] == pytest.approx(2.5e3)
    np.testing.assert_array_equal(moments.scores[:14], np.concatenate([SCORES["a"], SCORES["b"]]))
    assert moments.weights[1, 3] == 0.0


def test_a_table_that_was_measured_keeps_its_values_beside_a_rank_product() -> None:
    made = measured(30.0)
    alone = pool(DOMAIN, made, inferred=True)
    both = pool(DOMAIN, [*made, inferred("b", "a")], inferred=True)
    assert [table.clique for table in both] == [table.clique for table in alone]
    for one, other in zip(both, alone, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.sigma, other.sigma)
        assert not one.inferred
        assert (one.product is not None) == (one.clique == ("a", "b"))
    assert all(table.product is None for table in pool(DOMAIN, [*made, inferred("b", "a")]))


def test_halves_of_the_noise_keep_rank_products_to_fit_by() -> None:
    tables = pool(DOMAIN, [*measured(30.0), inferred("a", "b")], inferred=True)
    fitted, judged = halves(tables, np.random.default_rng(0))
    kept = [[table.clique for table in part if table.product is not None] for part in (fitted, judged)]
    assert kept == [[("a", "b")], []]


def test_a_fit_has_the_rank_products_of_pairs_that_nobody_bought() -> None:
    made = [m for m in measured(30.0) if len(m.clique) == 1]
    pairs = [("a", "b"), ("a", "d"), ("b", "d")]
    mixture = Mixture(components=40, refinements=0, latent_blocks=False, information=100.0)
    model = mixture.fit(DOMAIN, [*made, *(inferred(*pair, 0.002) for pair in pairs)], total=float(ROWS))
    for a, b in pairs:
        table = model.project((a, b)) / model.total
        assert SCORES[a] @ table @ SCORES[b] == pytest.approx(exact_product(a, b), abs=0.03)


def test_pairs_inside_of_a_latent_block_are_asked_for_by_its_states_alone() -> None:
    tables = stacked(measured(30.0))
    found = find_score_moments(tables)
    at = point(np.zeros((24, 3), np.float32), np.zeros(3), tables.starts)
    block = LatentBlockPart(tables, (0, 1), at.logs, 3, 100.0, 0.0, np.random.default_rng(0), moments=found)
    objective = Objective(tables, 3, 100.0, 0.0, [block], found)
    (outside,), (inside,) = objective._moments, block._moments
    assert outside.weights[0, 1] == 0.0
    assert outside.weights[0, 3] == found[0].weights[0, 3] > 0.0
    assert inside.weights[0, 1] == found[0].weights[0, 1] > 0.0
    np.testing.assert_array_equal(inside.scores, found[0].scores[:14])


def test_groups_of_codes_have_the_mean_of_their_scores() -> None:
    """Rank products survive that a large attribute is modelled in groups."""
    domain = Domain(("x", "y"), (200, 2), (200, 0))
    rng = np.random.default_rng(0)
    ones = [NoisyMarginal(("x",), rng.uniform(50.0, 100.0, 200), 5.0), NoisyMarginal(("y",), [7e3, 8e3], 5.0)]
    scores = np.repeat([-1.0, 1.0], 100), np.array([-1.0, 1.0])
    made = [
        *ones,
        InferredMarginal(("x", "y"), np.ones((200, 2)), 9.0, product=RankProduct(scores, 0.4, 0.01)),
    ]
    tables = pool(domain, made, inferred=True)
    grouping = group_codes(domain, tables, 16)
    assert grouping is not None
    product = grouping.summed(tables[-1]).product
    assert product is not None
    spread = product.scores[0][grouping.groups["x"]]
    assert abs(spread[:94] + 1.0).max() < 1e-9 > abs(spread[107:] - 1.0).max()
    np.testing.assert_array_equal(product.scores[1], scores[1])
