"""Counts are those of numpy's bincount, whatever tables, blocks, copies and threads they come from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.engines import counting, cover
from margrave.engines.counting import count_tables
from margrave.engines.cover import Cover, cover_cliques, price
from margrave.engines.memory import MemoryEngine
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import Encoded, code_dtype

NAMES = tuple("abcdefghijklmnopqrst")


def table(sizes: Sequence[int], rows: int, seed: int = 0, skew: float = 0.0) -> Encoded:
    """Random codes; with skew the first codes of each attribute are the most frequent."""
    rng = np.random.default_rng(seed)
    columns = []
    for size in sizes:
        weights = 1.0 / np.arange(1, size + 1) ** skew
        columns.append(rng.choice(size, rows, p=weights / weights.sum()).astype(code_dtype(size)))
    return Encoded(Domain(NAMES[: len(sizes)], tuple(sizes)), tuple(columns))


def expected(encoded: Encoded, clique: Clique) -> np.ndarray:
    shape = encoded.domain.shape(clique)
    if not clique:
        return np.array(encoded.rows)
    flat = np.ravel_multi_index([encoded.column(name).astype(np.int64) for name in clique], shape)
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape)


def check(encoded: Encoded, cliques: Sequence[Clique], threads: int = 1) -> None:
    answers = count_tables(encoded, cliques, threads=threads)
    assert len(answers) == len(cliques)
    for clique, answer in zip(cliques, answers, strict=True):
        assert answer.dtype == np.int64
        assert answer.shape == encoded.domain.shape(clique)
        np.testing.assert_array_equal(answer, expected(encoded, clique))


@st.composite
def questions(draw: st.DrawFn) -> tuple[Encoded, list[Clique], int]:
    sizes = draw(st.lists(st.sampled_from([1, 1, 2, 3, 5, 9, 255, 256, 257, 65_537]), min_size=1, max_size=6))
    names = NAMES[: len(sizes)]
    cliques: list[Clique] = []
    for _ in range(draw(st.integers(0, 8))):
        order = draw(st.permutations(names))
        clique = tuple(order[: draw(st.integers(0, 4))])
        if math.prod(sizes[names.index(name)] for name in clique) <= 1 << 18:
            cliques.append(clique)
    rows = draw(st.sampled_from([0, 1, 2, 3, 7, 100, 4095, 4097, 9001]))
    encoded = table(sizes, rows, draw(st.integers(0, 99)), draw(st.sampled_from([0.0, 3.0])))
    return encoded, cliques, draw(st.sampled_from([1, 2, 3]))


@given(asked=questions(), merge=st.booleans(), tight=st.booleans())
def test_same_as_bincount(asked: tuple[Encoded, list[Clique], int], merge: bool, tight: bool) -> None:
    """With and without shared tables, and with room for all counters or for one table at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "MIN_UPDATES_A_THREAD", 1)
        if merge:
            patch.setattr(cover, "MIN_ROWS_TO_SEARCH", (-1, 0))
            patch.setattr(cover, "price", lambda plan, sizes, rows: len(plan.tables))
        if tight:
            patch.setattr(counting, "COUNTERS", 600)
            patch.setattr(counting, "BUFFER", 1)
        check(*asked)


@pytest.mark.parametrize("block", [1 << 12, 1 << 13])
@pytest.mark.parametrize("off", [-1, 0, 1])
@pytest.mark.parametrize("threads", [1, 2])
def test_edges_of_blocks(block: int, off: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "BLOCK", block)
    monkeypatch.setattr(counting, "MIN_UPDATES_A_THREAD", 1)
    encoded = table((2, 300, 70_000, 5, 3), 2 * block + off)
    cliques = [(), ("a",), ("c",), ("b", "a"), ("a", "c"), ("d", "e", "a"), ("e", "a", "d", "b"), ("a", "b")]
    check(encoded, cliques, threads)


@pytest.mark.parametrize("cells", [(1 << 12) - 1, 1 << 12, (1 << 12) + 1, 1 << 14, (1 << 14) + 1])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 4096 * 3 + 3])
def test_edges_of_copies(cells: int, rows: int) -> None:
    """In four copies, two and one, with rows that do not divide among them; all rows in one cell too."""
    check(table((cells,), rows), [("a",)])
    last = np.full(rows, cells - 1, dtype=code_dtype(cells))
    check(Encoded(Domain(("a",), (cells,)), (last,)), [("a",)])


@pytest.mark.parametrize("sizes", [(256, 256), (256, 257), (65_536, 2), (2, 65_536), (65_536,), (65_537,)])
def test_edges_of_short_numbers(sizes: tuple[int, ...]) -> None:
    """The greatest cell numbers around 65,535, and codes of one, two and four bytes."""
    rows = 5000
    encoded = table(sizes, rows)
    for column, size in zip(encoded.columns, sizes, strict=True):
        column[: rows // 2] = size - 1
    check(encoded, [NAMES[: len(sizes)], tuple(reversed(NAMES[: len(sizes)]))])


def test_codes_wider_than_needed_and_strided() -> None:
    rng = np.random.default_rng(0)
    block = rng.integers(0, 5, (3000, 3)).astype(np.uint16)
    block.flags.writeable = False
    encoded = Encoded(Domain(("a", "b", "c"), (5, 5, 5)), tuple(block.T))
    check(encoded, list(itertools.permutations("abc", 2)))
    long = Encoded(encoded.domain, tuple(column.astype(np.uint64) for column in block.T))
    check(long, list(itertools.permutations("abc", 3)))


def test_all_pairs_and_triples_from_shared_tables() -> None:
    encoded = table((2, 2, 3, 4, 5, 7, 9, 12, 30, 100, 400, 1), 400_000, skew=1.2)
    pairs: list[Clique] = list(itertools.combinations(encoded.domain.names, 2))
    place = {name: index for index, name in enumerate(encoded.domain.names)}
    plain = [tuple(place[name] for name in pair) for pair in pairs if "l" not in pair]
    shared = cover_cliques(plain, encoded.domain.sizes, encoded.rows)
    assert len(shared.tables) < len(plain) / 2
    check(encoded, pairs, threads=2)
    check(encoded, [("e",), ("a", "b", "c"), ("c", "a"), ("d", "f", "b"), ("a", "b", "c"), ()])


def test_counts_beyond_sixteen_bits() -> None:
    rows = 300_001
    columns = (np.ones(rows, dtype=np.uint8), np.zeros(rows, dtype=np.uint8))
    encoded = Encoded(Domain(("a", "b"), (2, 2)), columns)
    assert count_tables(encoded, [("a", "b")])[0].tolist() == [[0, 0], [rows, 0]]


@pytest.mark.parametrize("most", [1, 999, 5000])
@pytest.mark.parametrize("threads", [1, 2])
def test_counters_are_emptied_before_they_overflow(
    most: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run of rows is longer than a counter can hold, whatever that is, and none is lost between two."""
    monkeypatch.setattr(counting, "MAX_ROWS_UNCHECKED", most)
    monkeypatch.setattr(counting, "MIN_UPDATES_A_THREAD", 1)
    runs: list[tuple[int, int]] = []
    whole = counting._fill_rows

    def seen(encoded: Encoded, batch: counting._Batch, first: int, end: int) -> np.ndarray:
        runs.append((first, end))
        return whole(encoded, batch, first, end)

    monkeypatch.setattr(counting, "_fill_rows", seen)
    rows = min(5000, 300 * most)
    check(table((3, 4), rows, skew=3.0), [("a", "b"), ("b",)], threads)
    assert sorted({row for first, end in runs for row in range(first, end)}) == list(range(rows))
    assert sum(end - first for first, end in runs) == rows
    starts = range(0, rows, most)
    assert all(sum(end - at for at, end in runs if at // most == k) <= most for k in range(len(starts)))


def test_the_largest_counter_is_exact() -> None:
    """The kernel adds without loss up to what a counter holds, which is why MOST is that."""
    encoded = table((2, 3), 7)
    [batch] = counting._make_batches(encoded, [(0, 1)])
    counters = counting._fill_rows(encoded, batch, 0, 7)
    assert int(np.iinfo(counters.dtype).max) == counting.MAX_ROWS_UNCHECKED
    copies, rest = int(batch.copies[0]), np.zeros((int(batch.copies[0]), 6), dtype=np.uint32)
    rest[-1] = counting.MAX_ROWS_UNCHECKED - counters.reshape(copies, 6).sum(axis=0, dtype=np.int64)
    [cells] = counting._sum_copies(counters + rest.ravel(), batch)
    assert cells.tolist() == [counting.MAX_ROWS_UNCHECKED] * 6


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are counted in runs of at most COUNTERS counters, a larger one by itself and in one thread."""
    monkeypatch.setattr(counting, "COUNTERS", 500)
    monkeypatch.setattr(counting, "MIN_UPDATES_A_THREAD", 1)
    encoded = table((10, 11, 30, 40), 50)
    tables = [(0, 1), (0,), (2, 3), (1,), (2,), (3,)]
    batches = list(counting._make_batches(encoded, tables))
    assert [t for batch in batches for t in batch.tables] == tables
    assert all(batch.counters <= 500 or len(batch.tables) == 1 for batch in batches)
    assert max(batch.counters for batch in batches) > 500
    for batch in batches:
        assert counting._count_workers(50, batch, 8) == (1 if batch.counters > 500 else 8)


@pytest.mark.parametrize("cap", [10, 1000, 100_000])
@given(
    sizes=st.lists(st.integers(2, 40), min_size=2, max_size=8),
    order=st.integers(1, 3),
    seed=st.integers(0, 9),
)
def test_every_clique_lies_in_its_table(cap: int, sizes: list[int], order: int, seed: int) -> None:
    every = [c for k in range(1, order + 1) for c in itertools.combinations(range(len(sizes)), k)]
    rng = np.random.default_rng(seed)
    asked = [every[k] for k in rng.permutation(len(every))[: 1 + len(every) // 2]]
    plan = cover.merge_cliques(asked, sizes, cap)
    assert len(plan.tables) <= len(asked)
    for clique, index in zip(asked, plan.owner, strict=True):
        assert set(clique) <= set(plan.tables[index])
    for members in plan.tables:
        assert members == tuple(sorted(set(members)))
        assert math.prod(sizes[v] for v in members) <= cap or members in asked


def test_the_cheapest_plan_is_chosen() -> None:
    pairs = list(itertools.combinations(range(6), 2))
    sizes = (4,) * 6
    separate = Cover(tuple(pairs), tuple(range(len(pairs))))
    assert cover_cliques(pairs, sizes, 1000) == separate
    shared = cover_cliques(pairs, sizes, 1_000_000)
    assert len(shared.tables) < len(pairs)
    assert price(shared, sizes, 1_000_000) < price(separate, sizes, 1_000_000)
    large = cover_cliques(pairs, (3000,) * 6, 1_000_000)
    assert sorted(large.tables) == pairs


def test_plans_of_many_cliques_are_made_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cover, "SLICE", 7)
    encoded = table((2, 3, 4, 5, 6, 7, 8, 9), 90_000)
    check(encoded, list(itertools.combinations(encoded.domain.names, 2)))


def test_engine_takes_threads() -> None:
    encoded = table((4, 5, 6), 9000)
    pairs: list[Clique] = list(itertools.combinations("abc", 2))
    for threads in (None, 1, 2):
        for pair, counts in zip(pairs, MemoryEngine(encoded, threads=threads).count(pairs), strict=True):
            np.testing.assert_array_equal(counts.reveal(), expected(encoded, pair))
