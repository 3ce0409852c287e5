from __future__ import annotations

import itertools

import numpy as np
import pytest

from margrave import limits
from margrave.models._sampling import balance as balance_module
from margrave.models._sampling.balance import balance
from margrave.models._sampling.rounding import draw_column, order_by_group

SIZES = (6, 2, 9, 4, 12, 3)
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
ROWS = 4000


def mixture(components, seed):
    """Weights, and the codes' probabilities in each component: [components], [components, codes]."""
    rng = np.random.default_rng(seed)
    ways = [rng.dirichlet(np.full(size, 0.4), size=components) for size in SIZES]
    return rng.dirichlet(np.full(components, 2.0)), np.concatenate(ways, axis=1)


def rounded(weights, ways, rows, rng):
    """Rows of the mixture by low-variance rounding, and their components."""
    groups = draw_column(np.zeros(rows, dtype=np.int64), np.arange(rows), weights[None], rng)
    by = order_by_group(groups, len(weights))
    tables = [np.ascontiguousarray(ways[:, a:b]) for a, b in itertools.pairwise(STARTS)]
    return [draw_column(groups, by, table, rng) for table in tables], groups


def counts(columns, names):
    shape = tuple(SIZES[v] for v in names)
    cells = np.ravel_multi_index([columns[v] for v in names], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)


def excess(columns, expected):
    """What is too many in every pair's table, one after another."""
    tables = []
    for u, v in itertools.combinations(range(len(SIZES)), 2):
        block = expected[STARTS[u] : STARTS[u + 1], STARTS[v] : STARTS[v + 1]]
        tables.append((counts(columns, (u, v)) - block).ravel())
    return np.concatenate(tables)


def triples(columns, weights, ways):
    """Mean total variation of the rows' triples from the mixture's."""
    found = []
    parts = [ways[:, a:b] for a, b in itertools.pairwise(STARTS)]
    for names in itertools.combinations(range(len(SIZES)), 3):
        table = np.einsum("k,ka,kb,kc->abc", weights, *(parts[v] for v in names))
        found.append(np.abs(counts(columns, names) / len(columns[0]) - table).sum() / 2)
    return float(np.mean(found))


@pytest.fixture(scope="module")
def drawn():
    weights, ways = mixture(8, 1)
    columns, groups = rounded(weights, ways, ROWS, np.random.default_rng(2))
    return weights, ways, columns, groups, ROWS * (ways.T * weights) @ ways


def test_pairs_come_close_and_triples_do_not_suffer(drawn):
    weights, ways, columns, groups, expected = drawn
    after = balance(columns, groups, expected, SIZES, 8, np.random.default_rng(3))
    was, now = excess(columns, expected), excess(after, expected)
    assert np.abs(now).sum() < 0.25 * np.abs(was).sum()
    assert np.abs(now).max() < 0.25 * np.abs(was).max()
    assert triples(after, weights, ways) < triples(columns, weights, ways)


def test_every_group_keeps_its_one_way_counts(drawn):
    _, _, columns, groups, expected = drawn
    after = balance(columns, groups, expected, SIZES, 2, np.random.default_rng(3))
    for before, now, size in zip(columns, after, SIZES, strict=True):
        assert (before != now).any()
        assert np.array_equal(np.bincount(groups * size + before), np.bincount(groups * size + now))


def test_squared_excess_never_grows_and_more_passes_help(drawn):
    _, _, columns, groups, expected = drawn
    fewer, more = (balance(columns, groups, expected, SIZES, n, np.random.default_rng(3)) for n in (1, 4))
    squares = [(excess(c, expected) ** 2).sum() for c in (columns, fewer, more)]
    assert squares[0] > squares[1] > squares[2]


def test_few_tries_are_spread_over_all_groups(drawn):
    _, _, columns, groups, expected = drawn
    after = balance(columns, groups, expected, SIZES, 3, np.random.default_rng(3), most=ROWS // 10)
    changed = np.any([a != b for a, b in zip(columns, after, strict=True)], axis=0)
    assert set(groups[changed]) == set(groups)
    assert np.abs(excess(after, expected)).sum() < 0.8 * np.abs(excess(columns, expected)).sum()


def test_rows_alone_in_their_groups_stay_as_they_are(drawn):
    columns, expected = drawn[2], drawn[4]
    after = balance(columns, np.arange(ROWS), expected, SIZES, 2, np.random.default_rng(0))
    assert all(np.array_equal(a, b) for a, b in zip(columns, after, strict=True))


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_hardly_any_rows(rows):
    columns = [np.arange(rows) % size for size in SIZES]
    expected = np.zeros((STARTS[-1], STARTS[-1]))
    after = balance(columns, np.zeros(rows, dtype=np.int64), expected, SIZES, 2, np.random.default_rng(0))
    assert [len(column) for column in after] == [rows] * len(SIZES)


def test_the_same_generator_gives_the_same_rows(drawn):
    _, _, columns, groups, expected = drawn
    kept = [column.copy() for column in columns]
    one, two = (balance(columns, groups, expected, SIZES, 2, np.random.default_rng(4)) for _ in range(2))
    other = balance(columns, groups, expected, SIZES, 2, np.random.default_rng(5))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
    assert any((a != b).any() for a, b in zip(one, other, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(columns, kept, strict=True))


class Clock:
    """Stands where the machine's clock is read, and goes on by a second at each reading."""

    def __init__(self):
        self.readings = 0

    def monotonic_ns(self):
        self.readings += 1
        return self.readings * 10**9


def test_the_deadline_is_kept_while_pairs_are_counted_and_while_codes_are_swapped(drawn, monkeypatch):
    """A reading for each part of the work: a deadline after `looks` of them leaves that much undone."""
    _, _, columns, groups, expected = drawn
    counting = -(-ROWS // 32)
    monkeypatch.setattr(balance_module, "COUNTED_AT_ONCE", 32)
    monkeypatch.setattr(balance_module, "WORK_A_LOOK", ROWS * len(SIZES))  # one column at a time
    whole = balance(columns, groups, expected, SIZES, 2, np.random.default_rng(3))
    squares = []
    for looks in (1, counting, counting + 1, counting + 3, counting + 2 * len(SIZES), 10_000):
        clock = Clock()
        monkeypatch.setattr(limits, "time", clock)
        deadline = limits.Deadline(looks + 0.5, limits.Stopwatch())
        before = clock.readings
        found = balance(columns, groups, expected, SIZES, 2, np.random.default_rng(3), deadline=deadline)
        assert clock.readings - before <= looks + 1
        for column, now, size in zip(columns, found, SIZES, strict=True):
            assert np.array_equal(np.bincount(groups * size + column), np.bincount(groups * size + now))
        if looks <= counting:
            assert all(np.array_equal(a, b) for a, b in zip(columns, found, strict=True))
        squares.append((excess(found, expected) ** 2).sum())
    assert squares[1] > squares[2] > squares[3] > squares[4] == squares[5]
    assert all(np.array_equal(a, b) for a, b in zip(whole, found, strict=True))


def test_rows_counted_in_parts_are_balanced_as_in_one(drawn, monkeypatch):
    _, _, columns, groups, expected = drawn
    found = []
    for at_once in (1, 1000, ROWS):
        monkeypatch.setattr(balance_module, "COUNTED_AT_ONCE", at_once)
        found.append(balance(columns, groups, expected, SIZES, 2, np.random.default_rng(3)))
    assert all(np.array_equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))
