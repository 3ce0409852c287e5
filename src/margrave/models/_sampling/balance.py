"""Balance: swapping codes between rows until the counts of pairs come close to a model's.

Rounding fixes how often each code occurs in each group of rows, not which row of the group gets it. Any
choice is as likely under the model, so codes of one column are swapped between rows of a group while that
lowers the squared excess of all pair counts over their expectations. No group's one-way counts change.

`balance` takes whole rows whose groups are the same for all columns; `balance_column` a column that was just
drawn given others. There rows that are alone in their group may swap with each other as well, with the
Metropolis rule for the model's own probabilities: otherwise trees with more cells than rows would leave
nothing to pair.

For that columns of codes are turned to one line a row, and back, a block of rows at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.limits import Deadline
from margrave.models._base.compiled import compile_kernel
from margrave.models._sampling.rounding import order_by_group
from margrave.models._sampling.streams import fresh_state, uniform

Longs = NDArray[np.int64]
Ints = NDArray[np.int32]
Lines = NDArray[np.uint16 | np.uint32]

BLOCK = 1 << 12
"""Rows that are turned at once: what a core's cache holds of some tens of columns. Whole columns are written
to memory once for each of their codes."""


def lines_of(
    columns: Sequence[NDArray[np.integer[Any]]], firsts: Sequence[int] | Longs, rows: Longs | int
) -> Ints:
    """Codes side by side, one attribute after another in number, shape [rows, columns].

    Args:
        columns: Codes of each attribute.
        firsts: What is added to the codes of each.
        rows: Which rows, in which order; or how many, from the first.
    """
    count = rows if isinstance(rows, int) else len(rows)
    lines = np.empty((count, len(columns)), dtype=np.int32)
    for first in range(0, count, BLOCK):
        # A block of lines is filled column by column while it lies in the cache.
        part = slice(first, min(first + BLOCK, count))
        some = part if isinstance(rows, int) else rows[part]
        for v, column in enumerate(columns):
            lines[part, v] = column[some] + firsts[v]
    return lines


def columns_of(lines: Lines, firsts: Sequence[int] | Longs, rows: Longs) -> list[Longs]:
    """What `lines_of` made lines of, for all rows: columns each of shape [rows]."""
    columns = [np.empty(len(lines), dtype=np.int64) for _ in range(lines.shape[1])]
    for first in range(0, len(rows), BLOCK):
        part = slice(first, first + BLOCK)
        for v, column in enumerate(columns):
            column[rows[part]] = lines[part, v] - firsts[v]
    return columns


Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

MAX_SWAPS_A_PASS = 1 << 17
"""Most swaps tried for one column in one pass: of many rows a part is enough, their counts are close."""

WORK_A_LOOK = 1 << 26
"""Cells of pairs that are touched between two looks at the clock: a tenth of a second, about."""

COUNTED_AT_ONCE = 1 << 8
"""Rows whose pairs are counted at once: what a core's cache holds of a thousand columns."""

SUMMED_AT_ONCE = 8
"""Attributes whose probabilities are summed in one pass over the rows."""

SWAP_REACH = 64
"""How far apart in the order of groups two rows may lie to be tried for a swap in `balance_column`."""

TRIPLE_WEIGHT = 0.25
"""What a squared excess in a table of three attributes counts beside one in a table of two: with twice the
passes triples of ten tables were .938 times as far off as without, and pairs 1.002 times; with 1/2 .932 and
1.006, with 1/8 .948 and .999 (bench/LOG.md)."""


def balance(
    columns: Sequence[NDArray[np.integer]],
    groups: Longs,
    expected: Floats,
    sizes: Sequence[int],
    passes: int,
    rng: np.random.Generator,
    *,
    most: int = MAX_SWAPS_A_PASS,
    movable: Sequence[int] | None = None,
    apart: Mapping[int, Longs] | None = None,
    deadline: Deadline | None = None,
) -> list[Longs]:
    """The rows with codes swapped inside groups so that all pair counts come close to the expected ones.

    Args:
        columns: Codes of each attribute, each of shape [rows].
        groups: The group of each row, from 0, shape [rows]; rows of a group are exchangeable.
        expected: Counts wanted, in rows, attributes one after another on both axes: [codes, codes],
            symmetric; blocks on the diagonal are not looked at.
        sizes: Codes of each attribute.
        passes: How often a swap is tried for each row and attribute; 4 to 16 are enough.
        rng: Source of randomness.
        most: Swaps tried for an attribute in one pass, at most: spread over the rows.
        movable: Positions of the columns whose codes may be swapped; all when None.
        apart: Groups of their own for some columns, by position, each of shape [rows].
        deadline: After it no swap is tried. It is looked at after every WORK_A_LOOK cells that are touched,
            in counting as well; what is counted in part only is of no use, and the rows stay as they were.

    Returns: the columns, rows in the order given.
    """
    if len(groups) < 2 or len(columns) < 2 or passes < 1:
        return [np.array(column, dtype=np.int64) for column in columns]
    starts = np.cumsum([0, *sizes])
    by = order_by_group(groups, int(groups.max()) + 1)
    codes = lines_of(columns, starts, by).astype(_narrowest(int(starts[-1])))
    # The excess begins at minus the expectation, and counting adds the rows.
    excess = (-np.asarray(expected)).astype(np.float32)  # Adult's pairs then fit a core's second cache
    if not _count_within(codes, excess, deadline):
        return [np.array(column, dtype=np.int64) for column in columns]
    # Columns inside a latent block move among rows of one state; all others among rows of one component.
    plans = _plans(by, groups, range(len(columns)) if movable is None else movable, apart or {})
    # With more rows than are tried in a pass, each pass begins one row later and so tries others.
    state, step = fresh_state(rng), max(1, len(by) // most)
    at_once = max(1, WORK_A_LOOK * step // codes.size)
    for turn, (order, ends, moved) in product(range(passes), plans):
        for first in range(0, len(moved), at_once):
            if deadline is not None and deadline.passed:
                return columns_of(codes, starts, by)
            _swap(codes, order, ends, moved[first : first + at_once], excess, turn % step, step, state)
    return columns_of(codes, starts, by)


def _narrowest(codes: int) -> np.dtype[Any]:
    """The type of so many codes: narrow, so that more rows lie in the cache, and unsigned, as telling places
    that count from the end of an array from others takes time."""
    return np.dtype(np.uint16 if codes <= 1 << 16 else np.uint32)


def _count_within(codes: Lines, excess: Singles, deadline: Deadline | None) -> bool:
    """Add all rows to the excess of all pairs, some at a time; False if the deadline came before the end."""
    counts = np.zeros(excess.shape, dtype=np.int32)
    rows, width = codes.shape
    at_once = max(1, min(COUNTED_AT_ONCE, WORK_A_LOOK // width**2))
    for first in range(0, rows, at_once):
        if deadline is not None and deadline.passed:
            return False
        _count(codes[first : first + at_once], counts)
    _add_both_ways(counts, excess)
    return True


def _plans(
    by: Longs, groups: Longs, movable: Sequence[int], apart: Mapping[int, Longs]
) -> list[tuple[Longs, Longs, Longs]]:
    """For each kind of groups: places in their order, where each group ends, and the columns that move."""
    plans = [_plan(np.arange(len(by)), groups[by], [v for v in movable if v not in apart])]
    # Columns with the same keys share one order; identity is enough, as they come from one array.
    for keys in {id(keys): keys for keys in apart.values()}.values():
        placed = keys[by]
        order = order_by_group(placed, int(placed.max()) + 1)
        moved = [v for v in movable if v in apart and apart[v] is keys]
        plans.append(_plan(order, placed[order], moved))
    return plans


def _plan(order: Longs, keys: Longs, moved: Sequence[int]) -> tuple[Longs, Longs, Longs]:
    # A group ends where the key changes; keys are in ascending order.
    ends = np.append(np.flatnonzero(np.diff(keys)) + 1, len(keys))
    return order, ends, np.asarray(moved, dtype=np.int64)


def balance_column(
    codes: NDArray[Any],
    v: int,
    drawn: Sequence[tuple[int, ...]],
    by: Longs,
    keys: Longs,
    table: Floats,
    expected: Sequence[Floats],
    passes: int,
    rng: np.random.Generator,
    *,
    most: int = MAX_SWAPS_A_PASS,
) -> None:
    """Swap codes of a column that was just drawn, in place.

    Args:
        codes: Codes of each attribute, shape [attributes, rows].
        v: The attribute just drawn.
        drawn: Attributes drawn before, (u,), whose pairs with v are looked at, and pairs of these, (u, w),
            whose tables with v are.
        by: Rows in the order of their groups, shape [rows].
        keys: The group of each row, shape [rows].
        table: Weights of v's codes in each group, shape [groups, codes].
        expected: Counts wanted for each of `drawn` with v, each of shape [its cells, codes].
        passes: Swaps tried for each row.
        rng: Source of randomness.
        most: Rows that take part, at most: stretches of neighbours, spread over all groups.
    """
    # A cell of a pair has the number width * first + second; an attribute alone is a pair with itself of
    # width 0.
    widths = {u: len(counts) for (u, *more), counts in zip(drawn, expected, strict=True) if not more}
    others = np.array(
        [(u, more[0] if more else u, sum(widths[w] for w in more)) for u, *more in drawn], dtype=np.int64
    )
    weights = np.array([TRIPLE_WEIGHT if more else 1.0 for _, *more in drawn], dtype=np.float32)
    # Rows of all tables stand one below the other; starts say where each attribute's begin.
    starts = np.cumsum([0, *(len(counts) for counts in expected)])[:-1]
    excess = (-np.concatenate(expected)).astype(np.float32)
    counts = np.zeros(excess.shape, dtype=np.int32)
    _count_with(codes, v, others, starts, counts)
    excess += counts
    # Of many rows a part in stretches is enough, since swaps need near neighbours to try.
    rows = by if len(by) <= most else _stretches(by, most, rng)
    near = np.empty((len(rows), len(others)), dtype=_narrowest(len(excess)))
    _gather(codes, others, starts, rows, near)
    column = codes[v, rows]
    _swap_drawn(column, keys[rows], table, near, excess, weights, passes, fresh_state(rng))
    codes[v, rows] = column


def _stretches(by: Longs, most: int, rng: np.random.Generator) -> Longs:
    """About `most` of the rows: stretches of SWAP_REACH neighbours at equal distances from each other."""
    # The number of stretches that one chosen stretch stands for, rounded up.
    spread = -(-len(by) // most)
    firsts = np.arange(int(rng.integers(spread)) * SWAP_REACH, len(by), spread * SWAP_REACH)
    places = (firsts[:, None] + np.arange(SWAP_REACH)).ravel()
    chosen: Longs = by[places[places < len(by)]]
    return chosen


def sum_by_code(codes: NDArray[Any], sizes: Sequence[int], shares: Floats | Singles) -> list[Floats]:
    """The sum of the rows' probabilities by code, for each attribute: shape [its codes, drawn one's codes].

    Args:
        codes: Codes of each attribute, shape [attributes, rows].
        sizes: Codes of each attribute.
        shares: Of each code of the attribute that is to be drawn, in each row: shape [rows, codes].
    """
    starts = np.cumsum([0, *sizes])
    table = np.zeros((starts[-1], shares.shape[1]))
    for first in range(0, len(codes), SUMMED_AT_ONCE):
        part = slice(first, first + SUMMED_AT_ONCE)
        _add_shares(codes[part], starts[part], shares, table)
    return np.split(table, starts[1:-1])


@compile_kernel
def _add_shares(codes: NDArray[Any], starts: Longs, shares: Floats | Singles, table: Floats) -> None:
    """Add each row's probabilities to the lines of its codes."""
    # Row by row, as lines of different attributes differ, so that no sum waits for the one before it.
    for row in range(codes.shape[1]):
        for v in range(len(codes)):
            line = table[starts[v] + codes[v, row]]
            for y in range(shares.shape[1]):
                line[y] += shares[row, y]


@compile_kernel
def _count(codes: Lines, counts: NDArray[np.int32]) -> None:
    """Count all pairs of the rows, the later column first: one column's few lines of counts at a time."""
    rows, width = codes.shape
    for u in range(width):
        for i in range(rows):
            line = counts[codes[i, u]]
            for v in range(u):
                line[codes[i, v]] += 1


@compile_kernel
def _add_both_ways(counts: NDArray[np.int32], excess: Singles) -> None:
    """Add counts, which are below the diagonal, to the excess on both sides of it."""
    # Only the lower half is counted; both halves follow from it.
    for a in range(len(counts)):
        for b in range(a):
            excess[a, b] += counts[a, b]
            excess[b, a] += counts[a, b]


@compile_kernel
def _swap(
    codes: Lines,
    order: Longs,
    ends: Longs,
    moved: Longs,
    excess: Singles,
    start: int,
    step: int,
    state: NDArray[np.uint64],
) -> None:
    """Try a swap for every step-th row and every moved column, each with a random row of its group."""
    for v in moved:
        group, first = 0, 0
        for place in range(start, len(order), step):
            # Groups lie one behind the other, so the group is followed along and never searched.
            while place >= ends[group]:
                first = ends[group]
                group += 1
            # The second row is any of the same group, maybe the first one itself, in which case nothing
            # changes.
            p, q = order[place], order[first + int(uniform(state) * (ends[group] - first))]
            # Strictly better only, or rounding would let equal pairs swap back and forth.
            if codes[p, v] != codes[q, v] and _change(codes[p], codes[q], v, excess) < -0.001:
                _exchange(codes[p], codes[q], v, excess)


@compile_kernel
def _change(one: Lines, two: Lines, v: int, excess: Singles) -> float:
    """Half of what the sum of squared excesses grows by when two rows swap their codes of column v."""
    a, b = excess[one[v]], excess[two[v]]
    change = np.float32(0.0)
    for first, last in ((0, v), (v + 1, len(one))):
        for w in range(first, last):
            s, t = one[w], two[w]
            # A cell of excess e that gains a row adds 2 e + 1 to the sum, one that loses a row 1 - 2 e: half
            # of four such terms. Whether two rows differ cannot be foretold, so both cases are worked out.
            part = b[s] - a[s] + a[t] - b[t] + np.float32(2.0)
            change += part if s != t else np.float32(0.0)
    return float(change)


@compile_kernel
def _move(excess: Singles, other: int, old: int, new: int) -> None:
    """A row with the code `other` of one attribute goes from an old code of another to a new one."""
    excess[new, other] += 1
    excess[other, new] += 1
    excess[old, other] -= 1
    excess[other, old] -= 1


@compile_kernel
def _exchange(one: Lines, two: Lines, v: int, excess: Singles) -> None:
    a, b = one[v], two[v]
    one[v], two[v] = b, a
    for w in range(len(one)):
        s, t = one[w], two[w]
        if s != t and w != v:
            # Two cells gain a row and two lose one, on both sides of the diagonal.
            _move(excess, s, a, b)
            _move(excess, t, b, a)


@compile_kernel
def _count_with(codes: NDArray[Any], v: int, others: Longs, starts: Longs, counts: NDArray[np.int32]) -> None:
    """Count the rows by v and each of the others, which are attributes or pairs of them."""
    own = codes[v]
    for w in range(len(others)):
        one, two, width = codes[others[w, 0]], codes[others[w, 1]], others[w, 2]
        for i in range(len(own)):
            counts[starts[w] + width * one[i] + two[i], own[i]] += 1


@compile_kernel
def _gather(codes: NDArray[Any], others: Longs, starts: Longs, rows: Longs, near: Lines) -> None:
    """Rows of codes of several attributes, or of cells of pairs, one after another in number."""
    for w in range(len(others)):
        one, two, width = codes[others[w, 0]], codes[others[w, 1]], others[w, 2]
        for i in range(len(rows)):
            near[i, w] = starts[w] + width * one[rows[i]] + two[rows[i]]


@compile_kernel
def _swap_drawn(
    column: NDArray[Any],
    keys: Longs,
    table: Floats,
    near: Lines,
    excess: Singles,
    weights: Singles,
    passes: int,
    state: NDArray[np.uint64],
) -> None:
    rows = len(column)
    # Every row is tried `passes` times against one of the SWAP_REACH rows behind it: rows of a group lie
    # together.
    for trial in range(passes * rows):
        p = trial % rows
        q = p + 1 + int(uniform(state) * SWAP_REACH)
        if q >= rows:
            continue
        a, b = column[p], column[q]
        if a == b or not _may_swap(p, q, a, b, keys, table, state):
            continue
        # How much the sum of squared excesses would change, halved, over the tables with every other
        # attribute.
        change = np.float32(0.0)
        for w in range(near.shape[1]):
            # s and t: the codes of another attribute in the two rows. Where they agree the swap moves
            # nothing.
            s, t = near[p, w], near[q, w]
            part = excess[s, b] - excess[s, a] + excess[t, a] - excess[t, b] + np.float32(2.0)
            change += weights[w] * part if s != t else np.float32(0.0)
        # Strictly better only: equal ones would be swapped back and forth.
        if change < -0.001:
            column[p], column[q] = b, a
            for w in range(near.shape[1]):
                s, t = near[p, w], near[q, w]
                excess[s, b] += 1
                excess[s, a] -= 1
                excess[t, a] += 1
                excess[t, b] -= 1


@compile_kernel
def _may_swap(p: int, q: int, a: int, b: int, keys: Longs, table: Floats, state: NDArray[np.uint64]) -> bool:
    """Whether places p and q may swap codes a and b."""
    k, m = keys[p], keys[q]
    if k == m:
        return True
    if not (_alone(p, keys) and _alone(q, keys)):
        return False
    # Metropolis: the swap is taken with the ratio of the joint probabilities after and before.
    return bool(table[k, b] * table[m, a] > uniform(state) * table[k, a] * table[m, b])


@compile_kernel
def _alone(p: int, keys: Longs) -> bool:
    """Whether the row at place p is the only one of its group."""
    # Rows stand in the order of their groups, so another of the group would be a neighbour.
    as_before = p > 0 and keys[p - 1] == keys[p]
    as_after = p + 1 < len(keys) and keys[p + 1] == keys[p]
    return not (as_before or as_after)
