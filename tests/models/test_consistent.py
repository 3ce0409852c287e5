"""Tables that overlap are made to agree, as least squares would have it, and to be counts that can be."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.models._base.pooling import Pooled
from margrave.models.rowwise.targets import consistent, find_shared, holders, make_agree

SIZES = {"a": 3, "b": 4, "c": 2, "d": 5}
CLIQUES = [("a", "b"), ("b", "c"), ("a", "b", "c"), ("c", "d"), ("d", "a"), ("b",)]


def noisy(cliques, sigma=20.0, seed=0, total=4000.0):
    rng = np.random.default_rng(seed)
    names = list(SIZES)
    joint = total * rng.dirichlet(np.full(120, 0.5)).reshape(tuple(SIZES.values()))
    tables = []
    for k, clique in enumerate(cliques):
        gone = tuple(i for i, name in enumerate(names) if name not in clique)
        kept = [name for name in names if name in clique]
        exact = joint.sum(axis=gone).transpose([kept.index(name) for name in clique])
        own = sigma * (1.0 + k)
        tables.append(Pooled(clique, exact + rng.normal(size=exact.shape) * own, np.full(exact.shape, own)))
    return tables


def over(values, clique, a):
    gone = tuple(i for i, name in enumerate(clique) if name not in a)
    kept = [name for name in clique if name in a]
    return values.sum(axis=gone).transpose([kept.index(name) for name in a])


def test_shared_sets_are_closed_and_smaller_ones_come_first():
    found = find_shared(CLIQUES)
    assert found == [(), ("a",), ("b",), ("c",), ("d",), ("a", "b"), ("b", "c")]
    assert find_shared([("a", "b")]) == [()]


def test_after_one_round_all_shared_marginals_agree():
    tables = noisy(CLIQUES)
    values = [table.values.copy() for table in tables]
    rooms = [np.ones(table.values.shape, bool) for table in tables]
    make_agree(tables, values, rooms, 4100.0, holders(CLIQUES))
    for table in values:
        assert table.sum() == pytest.approx(4100.0)
    for i, one in enumerate(CLIQUES):
        for j, two in enumerate(CLIQUES[:i]):
            a = tuple(name for name in one if name in two)
            np.testing.assert_allclose(over(values[i], one, a), over(values[j], two, a), atol=1e-6)


def test_two_tables_meet_where_least_squares_has_them():
    """Minimise sum (x - y)^2 / s^2 over pairs of tables with one total and one shared one-way."""
    cliques = [("a", "b"), ("b", "c")]
    tables = noisy(cliques)
    values = [table.values.copy() for table in tables]
    make_agree(tables, values, [np.ones(v.shape, bool) for v in values], 4000.0, holders(cliques))
    rows = [np.repeat(1 / t.sigma.ravel(), 1) for t in tables]
    weight = np.concatenate(rows)
    target = np.concatenate([t.values.ravel() for t in tables])
    lines = []
    for b in range(4):
        line = np.zeros(12 + 8)
        line[:12] += (np.arange(12) % 4 == b).astype(float)
        line[12:] -= (np.arange(8) // 2 == b).astype(float)
        lines.append(line)
    lines.append(np.append(np.ones(12), np.zeros(8)))
    right = np.array([0, 0, 0, 0, 4000.0])
    a = np.array(lines)
    inverse = np.diag(weight**-2.0)
    found = target - inverse @ a.T @ np.linalg.solve(a @ inverse @ a.T, a @ target - right)
    np.testing.assert_allclose(np.concatenate([v.ravel() for v in values]), found, atol=1e-8)


def test_the_result_is_counts_that_agree_nearly():
    tables = noisy(CLIQUES, sigma=15.0)
    values = consistent(tables, 4000.0)
    for i, one in enumerate(CLIQUES):
        assert (values[i] >= 0).all()
        assert values[i].sum() == pytest.approx(4000.0)
        for j, two in enumerate(CLIQUES[:i]):
            a = tuple(name for name in one if name in two)
            apart = np.abs(over(values[i], one, a) - over(values[j], two, a)).sum()
            assert apart < 0.01 * 4000.0
    before = sum(
        float(np.abs(t.values - e.values).sum()) for t, e in zip(tables, noisy(CLIQUES, 0.0), strict=True)
    )
    after = sum(float(np.abs(v - e.values).sum()) for v, e in zip(values, noisy(CLIQUES, 0.0), strict=True))
    assert after < 0.75 * before


def test_cells_without_room_stay_empty():
    tables = noisy([("a", "b"), ("b", "c")])
    rooms = [np.ones(table.values.shape, bool) for table in tables]
    rooms[0][0, 1] = rooms[0][2, :] = False
    values = consistent(tables, 4000.0, rooms)
    assert (values[0][~rooms[0]] == 0).all()
    assert values[0].sum() == pytest.approx(4000.0)
    np.testing.assert_allclose(values[0].sum(axis=0), values[1].sum(axis=1), atol=20)
