from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from margrave.evaluation.distance import cramers_v, shares, total_variation
from margrave.evaluation.rows import MOST_ROWS, Shuffled, bootstrap
from margrave.schema.domain import Domain


@given(
    st.lists(st.integers(0, 50), min_size=6, max_size=6), st.lists(st.integers(0, 50), min_size=6, max_size=6)
)
def test_total_variation_is_a_distance_of_shares(first: list[int], second: list[int]) -> None:
    one, two = shares(np.array(first)), shares(np.array(second))
    distance = total_variation(one, two)
    assert 0 <= distance <= 1 + 1e-12
    assert distance == total_variation(two, one)
    events = max(abs(one[list(e)].sum() - two[list(e)].sum()) for e in _subsets(6))
    assert distance == pytest.approx(events, abs=1e-12)


def _subsets(size: int) -> list[list[int]]:
    return [[place for place in range(size) if mask >> place & 1] for mask in range(1, 1 << size)]


@given(st.lists(st.integers(0, 30), min_size=12, max_size=12))
def test_cramers_v_is_scipys(cells: list[int]) -> None:
    table = np.array(cells).reshape(3, 4)
    kept = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    expected = 0.0
    if min(kept.shape) > 1:
        expected = float(scipy.stats.contingency.association(kept, method="cramer"))
    assert cramers_v(shares(table) if table.sum() else np.zeros((3, 4))) == pytest.approx(expected, abs=1e-7)


def test_cramers_v_of_the_extremes() -> None:
    assert cramers_v(np.eye(3) / 3) == pytest.approx(1)
    assert cramers_v(np.outer([0.2, 0.8], [0.5, 0.5])) == pytest.approx(0, abs=1e-7)


def test_a_bootstrap_has_as_many_rows_and_the_right_spread() -> None:
    rng = np.random.default_rng(0)
    counts = np.array([[30, 50], [20, 0]])
    drawn = np.array([bootstrap(counts, rng) for _ in range(4000)]) * 100
    np.testing.assert_allclose(drawn.sum(axis=(1, 2)), 100)
    np.testing.assert_allclose(drawn, np.rint(drawn), atol=1e-9)
    np.testing.assert_allclose(drawn.mean(axis=0), counts, atol=0.5)
    np.testing.assert_allclose(drawn.var(axis=0), counts * (1 - counts / 100), rtol=0.1, atol=1e-9)


def test_shuffling_keeps_columns_and_loses_association() -> None:
    domain = Domain(("a", "b", "c"), (2, 3, 300))
    counts = {
        "a": np.array([600, 400]),
        "b": np.array([100, 200, 700]),
        "c": np.eye(1, 300, 7, dtype=int)[0] * 1000,
    }
    shuffled = Shuffled(domain, counts, np.random.default_rng(0))
    table = shuffled.share(("b", "a"))
    np.testing.assert_allclose(table.sum(axis=0), [0.6, 0.4])
    np.testing.assert_allclose(table.sum(axis=1), [0.1, 0.2, 0.7])
    assert 0 < cramers_v(table) < 0.12
    assert shuffled.share(("c", "a", "b")).shape == (300, 2, 3)


def test_a_very_long_table_is_shuffled_in_the_limit() -> None:
    domain = Domain(("a", "b"), (2, 2))
    counts = {name: np.array([MOST_ROWS, MOST_ROWS // 4]) for name in domain.names}
    shuffled = Shuffled(domain, counts, np.random.default_rng(0))
    np.testing.assert_allclose(shuffled.share(("a", "b")), np.outer([0.8, 0.2], [0.8, 0.2]))
