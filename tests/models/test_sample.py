from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave.errors import InputError, SchemaError
from margrave.models._sampling import rounding
from margrave.models._sampling.rounding import draw_column, order_by_group
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.tree import rank_attributes
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(tuple("abcdef"), (6, 5, 4, 3, 7, 2))
CLIQUES = [("a", "b"), ("b", "c"), ("d", "c"), ("e", "a"), ("f", "e"), ("a", "c")]


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(11)
    noisy = [
        NoisyMarginal(c, 200 * rng.dirichlet(np.full(DOMAIN.size(c), 0.6)).reshape(DOMAIN.shape(c)), 2.0)
        for c in CLIQUES
    ]
    return PGM(strength=0.05).fit(DOMAIN, noisy)


def counted(encoded, clique):
    codes = [encoded.column(name).astype(np.int64) for name in clique]
    shape = encoded.domain.shape(clique)
    return np.bincount(np.ravel_multi_index(codes, shape), minlength=int(np.prod(shape))).reshape(shape)


def distance(encoded, model, clique):
    p = model.project(clique)
    return np.abs(counted(encoded, clique) / encoded.rows - p / p.sum()).sum() / 2


def multinomial(model, clique, rows, rng):
    p = model.project(clique)
    p = p.ravel() / p.sum()
    return np.abs(rng.multinomial(rows, p) / rows - p).sum() / 2


@pytest.mark.parametrize("rows", [0, 1, 2, 17, 1000])
def test_rows_and_dtypes_are_as_asked(model, rows):
    encoded = model.sample(rows, np.random.default_rng(0))
    assert encoded.rows == rows
    assert encoded.domain == DOMAIN
    for column, size in zip(encoded.columns, DOMAIN.sizes, strict=True):
        assert column.dtype == np.uint8
        assert (column < size).all()


@pytest.mark.parametrize("rows", [997, 64])
def test_the_root_is_within_one_of_the_model(model, rows):
    root = rank_attributes(DOMAIN)[model._inference.layout.tree.order[-1]]
    for seed in range(5):
        counts = counted(model.sample(rows, np.random.default_rng(seed)), (root,))
        assert np.abs(counts - rows * model.project((root,)) / model.total).max() < 1
        assert counts.sum() == rows


def test_all_pairs_are_far_closer_than_independent_rows_would_be(model):
    rng = np.random.default_rng(1)
    pairs = list(itertools.combinations("abcdef", 2))
    encoded = model.sample(5000, rng)
    ours = np.mean([distance(encoded, model, pair) for pair in pairs])
    plain = np.mean([multinomial(model, pair, 5000, rng) for pair in pairs])
    assert ours < 0.35 * plain


def test_triples_are_no_worse_than_those_of_independent_rows(model):
    rng = np.random.default_rng(2)
    triples = list(itertools.combinations("abcdef", 3))
    encoded = model.sample(5000, rng)
    ours = np.mean([distance(encoded, model, triple) for triple in triples])
    plain = np.mean([multinomial(model, triple, 5000, rng) for triple in triples])
    assert ours < plain


def test_a_tree_far_larger_than_the_rows_still_gives_close_pairs():
    rng = np.random.default_rng(3)
    domain = Domain(tuple("abc"), (20, 20, 20))
    values = 1000 * rng.dirichlet(np.full(8000, 0.3)).reshape(20, 20, 20)
    model = PGM(strength=0.01).fit(domain, [NoisyMarginal(("a", "b", "c"), values, 0.5)])
    encoded = model.sample(2000, rng)
    pairs = list(itertools.combinations("abc", 2))
    ours = np.mean([distance(encoded, model, pair) for pair in pairs])
    plain = np.mean([multinomial(model, pair, 2000, rng) for pair in pairs])
    assert ours < 0.6 * plain


@pytest.mark.parametrize("together", [True, False])
def test_rounding_meets_every_expectation(monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    if not together:
        monkeypatch.setattr(rounding, "MAX_WORK", 0.0)
    table = np.array([[0.5, 0.3, 0.2], [0.05, 0.0, 0.95], [1.0, 1.0, 1.0]])
    keys = np.array([0, 1, 0, 2, 1, 0, 0, 0], dtype=np.int64)
    sums = np.zeros((3, 3))
    rng = np.random.default_rng(0)
    for _ in range(4000):
        codes = draw_column(keys, order_by_group(keys, 3), table, rng)
        np.add.at(sums, (keys, codes), 1)
    expected = np.array([[5.0], [2.0], [1.0]]) * table / table.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(sums / 4000, expected, atol=0.04)
    assert sums[1, 1] == 0


@pytest.mark.parametrize("together", [True, False])
def test_every_group_is_within_one_of_its_expectation(
    monkeypatch: pytest.MonkeyPatch, together: bool
) -> None:
    if not together:
        monkeypatch.setattr(rounding, "MAX_WORK", 0.0)
    rng = np.random.default_rng(4)
    table = rng.dirichlet(np.ones(6), size=10)
    keys = rng.integers(0, 10, size=500)
    codes = draw_column(keys, order_by_group(keys, 10), table, rng)
    counts = np.zeros((10, 6))
    np.add.at(counts, (keys, codes), 1)
    expected = np.bincount(keys, minlength=10)[:, None] * table
    assert np.abs(counts - expected).max() < 1 + 1e-9
    np.testing.assert_array_equal(counts.sum(axis=1), np.bincount(keys, minlength=10))


@pytest.mark.parametrize("size", [2, 5, 40])
@pytest.mark.parametrize("concentration", [0.05, 1.0, 20.0])
def test_counts_over_groups_are_near_their_expectations_too(size: int, concentration: float) -> None:
    """Each group rounds by itself to within 1, and what 400 groups round up or down evens out, in all and
    along their order."""
    rng = np.random.default_rng(size)
    table = rng.dirichlet(np.full(size, concentration), size=400)
    keys = rng.integers(0, 400, size=6000)
    codes = draw_column(keys, order_by_group(keys, 400), table, rng)
    rows = np.bincount(keys, minlength=400)
    excess = -rows[:, None] * table
    np.add.at(excess, (keys, codes), 1)
    assert np.abs(excess).max() < 1 + 1e-9
    assert (excess[table < 1e-15] <= 0).all()
    assert np.abs(excess.sum(axis=0)).max() < 1 + 1e-6
    assert np.abs(np.cumsum(excess, axis=0)).max() < 6


def test_many_codes_of_one_group_are_rounded_up_together_without_any_twice() -> None:
    """Fractions that add up to more than 1: half of ten codes expect half a row."""
    rng = np.random.default_rng(1)
    keys = np.repeat(np.arange(300), 5)
    table = np.full((300, 10), 0.1)
    codes = draw_column(keys, np.arange(1500), table, rng)
    counts = np.zeros((300, 10))
    np.add.at(counts, (keys, codes), 1)
    assert counts.max() == 1
    assert (counts.sum(axis=1) == 5).all()
    assert (counts.sum(axis=0) == 150).all()
    # Which codes go together is left to chance, or a pair of columns would show a pattern that no model has.
    together = counts.T @ counts
    apart = together[~np.eye(10, dtype=bool)]
    assert abs(apart.mean() - 300 * 5 * 4 / 90) < 1e-9
    assert apart.std() < 25


def test_a_group_without_weight_is_uniform_and_huge_key_spaces_are_sorted():
    rng = np.random.default_rng(5)
    keys = np.zeros(60, dtype=np.int64)
    assert np.bincount(draw_column(keys, order_by_group(keys, 1), np.zeros((1, 4)), rng)).tolist() == [15] * 4
    sparse = np.array([9_000, 3, 9_000, 3, 5_000], dtype=np.int64)
    assert sparse[order_by_group(sparse, 10_000)].tolist() == [3, 3, 5_000, 9_000, 9_000]


@pytest.mark.parametrize("given", [{"a": 2}, {"f": 1, "c": 0}, {"e": 6, "b": 4, "d": 2}])
def test_given_codes_condition_exactly(model, given):
    encoded = model.sample(20_000, np.random.default_rng(6), given)
    full = model.project(tuple("abcdef"))
    cut = full[tuple(slice(given[n], given[n] + 1) if n in given else slice(None) for n in "abcdef")]
    for name, code in given.items():
        assert (encoded.column(name) == code).all()
    free = [n for n in "abcdef" if n not in given]
    for pair in itertools.combinations(free, 2):
        axes = tuple(i for i, n in enumerate("abcdef") if n not in pair)
        expected = cut.sum(axis=axes) / cut.sum()
        assert np.abs(counted(encoded, pair) / 20_000 - expected).sum() / 2 < 0.012


def test_everything_may_be_given(model):
    given = dict.fromkeys("abcdef", 1)
    assert all((column == 1).all() for column in model.sample(3, np.random.default_rng(0), given).columns)


def test_bad_evidence_is_refused(model):
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="given"):
        model.sample(5, rng, {"a": 6})
    with pytest.raises(InputError, match="given"):
        model.sample(5, rng, {"a": -1})
    with pytest.raises(SchemaError):
        model.sample(5, rng, {"z": 0})
    with pytest.raises(InputError, match="rows"):
        model.sample(-1, rng)


def test_row_order_carries_no_information(model):
    encoded = model.sample(20_000, np.random.default_rng(7))
    for column in encoded.columns:
        codes = column - column.mean()
        assert abs(np.corrcoef(codes, np.arange(20_000))[0, 1]) < 0.035
        assert abs(np.corrcoef(codes[1:], codes[:-1])[0, 1]) < 0.035


def test_the_same_generator_gives_the_same_rows(model):
    one, two = (model.sample(500, np.random.default_rng(8)) for _ in range(2))
    other = model.sample(500, np.random.default_rng(9))
    assert all((a == b).all() for a, b in zip(one.columns, two.columns, strict=True))
    assert any((a != b).any() for a, b in zip(one.columns, other.columns, strict=True))
