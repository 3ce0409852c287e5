"""Whole rows from probabilities, with far less noise than independent draws: in groups, or row by row.

**Rows that share their parents' values** form a group. Inside a group the expected count of every value is
kept up to its integer part; the remainder is drawn by systematic sampling on the fractional parts, so that
every expectation is met and every count is within 1 of it. The starting points of consecutive groups are
stratified: groups that lie together, such as the many groups of one row below a shared first parent, make
up for each other's rounding.

**Rows that have probabilities of their own** each get a code with exactly these (`pivotal`), and the counts
of all codes stay near their expectations, overall and along the order of the rows. A row not yet decided is
kept as its vector of probabilities. Rows that are kept and the codes they may still get are the two sides of
a graph; round a cycle of it probability can be moved forth or back, at random so that every mean stays what
it was, until a row can no longer get some code. Round a cycle no code gains in total. What is left at the end
is a forest, where the same is done along paths from leaf to leaf (Gandhi, Khuller, Parthasarathy and
Srinivasan 2006). With two codes that is the ordered pivotal method (Deville and Tillé 1998). Its time grows
with rows and squared codes, so that of many rows and codes it is first decided which half of the codes each
row gets, and then each half by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

BASE = 16
"""Starting points come in blocks of BASE^2 strata; any BASE in a row are one in each of BASE."""


def order_by_group(keys: Longs, groups: int) -> Longs:
    """Rows in the order of their groups, shape [rows]. keys: the group of each row, below `groups`."""
    if groups <= 1:
        return np.arange(len(keys))
    # Counting takes time in groups and rows, so that it beats sorting unless groups far outnumber rows.
    if groups <= 4 * len(keys):
        return _counting_sort(keys, groups)
    return np.argsort(keys, kind="stable")


@dataclass(frozen=True, slots=True)
class Rounded:
    """How often each code occurs in each group of rows, before rows of a group are told apart.

    Args:
        keys: The groups that have rows, in the order of the rows, shape [groups].
        firsts: Where each group's codes begin in `codes`, and the end of the last, shape [groups + 1].
        extras: How many codes of each group come from rounding up, shape [groups].
        codes: Codes group by group, those rounded up last and all different, shape [rows].
    """

    keys: Longs
    firsts: Longs
    extras: Longs
    codes: Ints


def round_counts(keys: Longs, by: Longs, table: Floats, rng: np.random.Generator) -> Rounded:
    """Whole numbers of every code in every group.

    Args:
        keys: The group of each row, shape [rows], below len(table).
        by: Rows in the order of their groups, as from `order_by_group`.
        table: Weights of the codes in each group, shape [groups, codes]; a group of zeros is uniform.
        rng: Source of randomness.
    """
    # No more groups have rows than there are rows.
    most = min(len(keys), len(table))
    found = Rounded(
        np.empty(most, dtype=np.int64),
        np.zeros(most + 1, dtype=np.int64),
        np.empty(most, dtype=np.int64),
        np.empty(len(keys), dtype=np.int32),
    )
    count = _fill(keys, by, table, found.keys, found.firsts, found.extras, found.codes, fresh_state(rng))
    return Rounded(found.keys[:count], found.firsts[: count + 1], found.extras[:count], found.codes)


def hand_out(found: Rounded, by: Longs, column: NDArray[Any], rng: np.random.Generator) -> None:
    """Give each group's codes to its rows at random: fills `column`, shape [rows]; reorders found.codes."""
    _hand_out(found.firsts, found.codes, by, column, fresh_state(rng))


def draw_column(keys: Longs, by: Longs, table: Floats, rng: np.random.Generator) -> Longs:
    """One code a row, given its group: `round_counts`, then `hand_out`, shape [rows]."""
    codes = np.empty(len(keys), dtype=np.int64)
    hand_out(round_counts(keys, by, np.ascontiguousarray(table), rng), by, codes, rng)
    return codes


def fresh_state(rng: np.random.Generator) -> NDArray[np.uint64]:
    """The state of a generator of the kernels' own, shape [1]."""
    return np.array([rng.integers(1 << 63)], dtype=np.uint64)


@compile_kernel
def uniform(state: NDArray[np.uint64]) -> float:
    """A number in [0, 1) by SplitMix64; Steele, Lea and Flood 2014."""
    # SplitMix64's step and mixing constants, and the 53 bits that a double holds.
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compile_kernel
def _counting_sort(keys: Longs, groups: int) -> Longs:
    ends = np.zeros(groups + 1, dtype=np.int64)
    for key in keys:
        ends[key + 1] += 1
    for g in range(groups):
        ends[g + 1] += ends[g]
    by = np.empty(len(keys), dtype=np.int64)
    for row in range(len(keys)):
        by[ends[keys[row]]] = row
        ends[keys[row]] += 1
    return by


@compile_kernel
def shuffle(values: NDArray[Any], count: int, state: NDArray[np.uint64]) -> None:
    """Put the first `count` values in random order."""
    for i in range(count - 1, 0, -1):
        j = int(uniform(state) * (i + 1))
        values[i], values[j] = values[j], values[i]


@compile_kernel
def _strata(points: Floats, state: NDArray[np.uint64]) -> None:
    """Fill points, shape [BASE^2], with one uniform in each of BASE^2 strata, any aligned BASE of them
    one in each of BASE, in an order that repeats no pattern."""
    # First digits are dealt out once in each aligned block of BASE; second digits once over all blocks.
    digits = np.arange(BASE)
    second = np.empty((BASE, BASE), dtype=np.int64)
    for d in range(BASE):
        second[d] = np.arange(BASE)
        shuffle(second[d], BASE, state)
    for block in range(BASE):
        shuffle(digits, BASE, state)
        for i in range(BASE):
            fine = second[digits[i], block] + uniform(state)
            points[block * BASE + i] = (digits[i] + fine / BASE) / BASE


@compile_kernel
def _fill(
    keys: Longs,
    by: Longs,
    table: Floats,
    found: Longs,
    firsts: Longs,
    extras: Longs,
    codes: Ints,
    state: NDArray[np.uint64],
) -> int:
    """Round group by group; return how many there are."""
    rows = len(keys)
    fractions = np.empty(table.shape[1])
    points = np.empty(BASE * BASE)
    used = BASE * BASE
    first, group = 0, 0
    while first < rows:
        key = keys[by[first]]
        # Rows are sorted by key: a group ends where the key changes.
        last = first + 1
        while last < rows and keys[by[last]] == key:
            last += 1
        # Points come from strata, so that groups of alike tables are rounded up evenly and not by chance.
        if used == BASE * BASE:
            _strata(points, state)
            used = 0
        found[group] = key
        extras[group] = _round(table[key], last - first, points[used], fractions, codes[first:last])
        firsts[group + 1] = last
        used += 1
        group += 1
        first = last
    return group


@compile_kernel
def _hand_out(firsts: Longs, codes: Ints, by: Longs, column: NDArray[Any], state: NDArray[np.uint64]) -> None:
    for group in range(len(firsts) - 1):
        first, last = firsts[group], firsts[group + 1]
        shuffle(codes[first:last], last - first, state)
        for i in range(first, last):
            column[by[i]] = codes[i]


@compile_kernel
def _round(weights: Floats, rows: int, point: float, fractions: Floats, values: Ints) -> int:
    """List in `values` the codes of a group of some rows; return how many of them are rounded up."""
    total = weights.sum()
    filled = 0
    rest = 0.0
    for a in range(len(weights)):
        expected = rows * (weights[a] / total) if total > 0.0 else rows / len(weights)
        # The whole part of each expectation is given for certain; the fractions share what is missing.
        whole = min(int(expected + 1e-9), rows - filled)
        fractions[a] = max(expected - whole, 0.0)
        rest += fractions[a]
        for _ in range(whole):
            values[filled] = a
            filled += 1
    missing = rows - filled
    if missing == 0:
        return 0
    # Systematic sampling: marks at equal distance along the cumulated fractions, the first at `point`.
    spacing = rest / missing
    mark = point * spacing
    reached = 0.0
    last = 0
    for a in range(len(weights)):
        if fractions[a] > 0.0:
            last = a
        reached += fractions[a]
        while filled < rows and mark < reached:
            values[filled] = a
            filled += 1
            mark += spacing
    # Rounding of sums may leave the last mark just beyond the end.
    while filled < rows:
        values[filled] = last
        filled += 1
    return missing


MIN_PROBABILITY = 1e-13
"""Probabilities below this are taken as none."""

FEW_CODES, MAX_WORK = 8, 1e8
"""Codes, and rows times squared codes, up to which all codes are decided at once: a second or two. A million
rows of 32 codes would take 11 s, and take 2 by halves. What it costs: in 100,000 rows with shares drawn at
random, counts were off by 12 in the mean in place of .4 (independent draws: 56), and by .9 where shares were
peaks, as those of numbers are (bench/LOG.md)."""


def pivotal(probabilities: Floats, order: Longs, rng: np.random.Generator) -> Longs:
    """One code a row, shape [rows], each row having its own probabilities.

    Up to FEW_CODES codes, or MAX_WORK rows times squared codes, every code's count is its expectation rounded
    up or down. Along the order, counts differ from theirs by less than one row for two codes, and by less
    than codes - 1 rows in general. Beyond, the counts of the two halves of the codes do so, and that of a
    code differs from its share of the rows that got its half, which are drawn in the same way.

    Args:
        probabilities: Of each code in each row, shape [rows, codes], rows summing to 1.
        order: The rows in the order in which they are decided, neighbours making up for each other.
        rng: Source of randomness.
    """
    rows, size = probabilities.shape
    if size > FEW_CODES and rows * size**2 > MAX_WORK:
        return _decide_halves(probabilities, order, rng)
    found = np.zeros(rows, dtype=np.int64)
    if rows and size > 1:
        # A forest in which each row has two codes or more holds fewer rows than codes; one more is the fresh
        # row.
        open_ = np.zeros((size + 1, size))
        owners, left, codes, lines = np.zeros((4, size + 2), dtype=np.int64)
        _decide(probabilities, order, found, open_, owners, left, codes, lines, fresh_state(rng))
    return found


def _decide_halves(probabilities: Floats, order: Longs, rng: np.random.Generator) -> Longs:
    """As `pivotal`: first which half of the codes a row gets, then the code, given the half."""
    rows, size = probabilities.shape
    middle = size // 2
    lower, upper = probabilities[:, :middle], probabilities[:, middle:]
    halves = np.stack([lower.sum(axis=1), upper.sum(axis=1)], axis=1)
    side = pivotal(halves / halves.sum(axis=1, keepdims=True), order, rng)
    found = np.empty(rows, dtype=np.int64)
    for half, (first, end) in enumerate(((0, middle), (middle, size))):
        mine = order[side[order] == half]
        # A row is here with a probability above 0, so that there is something to divide by.
        given = probabilities[mine, first:end] / halves[mine, half, None]
        found[mine] = first + pivotal(given, np.arange(len(mine)), rng)
    return found


@compile_kernel
def _decide(
    probabilities: Floats,
    order: Longs,
    found: Longs,
    open_: Floats,
    owners: Longs,
    left: Longs,
    codes: Longs,
    lines: Longs,
    state: NDArray[np.uint64],
) -> None:
    """Fill `found` row by row.

    The first `held` lines of open_ are the probabilities of rows not decided, a forest but for a fresh one;
    `owners` are those rows and `left` the codes they may still get. codes and lines are room for a walk.
    """
    held, size = 0, probabilities.shape[1]
    for row in order:
        # The row's probabilities become one more line; those that are as good as 0 are closed.
        owners[held], left[held] = row, 0
        for code in range(size):
            share = probabilities[row, code]
            # Shares that rounding left behind would keep a row open for ever.
            open_[held, code] = share if share > MIN_PROBABILITY else 0.0
            left[held] += share > MIN_PROBABILITY
        # Cycles of the fresh line with one other line are removed first: they are cheap to find.
        for line in range(held):
            _exchange(open_, left, line, held, state)
        fresh = held
        # Whatever cycle is left passes through the fresh line, as the lines before it are a forest.
        held, fresh = _settle(open_, owners, left, held + 1, fresh, found)
        while fresh >= 0:
            length = _cycle(open_, held, fresh, codes, lines)
            if length == 0:
                break
            _move(open_, left, codes, lines, length, state)
            held, fresh = _settle(open_, owners, left, held, fresh, found)
    # A forest is left: move along paths between its leaves until every row has one code.
    while held:
        length = _path(open_, held, codes, lines)
        _move(open_, left, codes, lines, length, state)
        held, _ = _settle(open_, owners, left, held, -1, found)


@compile_kernel
def _settle(
    open_: Floats, owners: Longs, left: Longs, held: int, fresh: int, found: Longs
) -> tuple[int, int]:
    """Take out the rows that have one code left; return how many stay, and where the fresh one is, or -1."""
    line = 0
    while line < held:
        if left[line] > 1:
            line += 1
            continue
        held -= 1
        for code in range(open_.shape[1]):
            if open_[line, code] > 0.0:
                found[owners[line]] = code
            open_[line, code] = open_[held, code]
        # The last row takes the freed place, so the open rows stay together and nothing is shifted.
        owners[line], left[line] = owners[held], left[held]
        if fresh == line:
            fresh = -1
        elif fresh == held:
            fresh = line
    return held, fresh


@compile_kernel
def _exchange(open_: Floats, left: Longs, one: int, other: int, state: NDArray[np.uint64]) -> None:
    """Move probability round the cycles of two lines alone, until they share at most one code."""
    before = -1
    for code in range(open_.shape[1]):
        if left[one] < 2 or left[other] < 2:
            return
        if open_[one, code] == 0.0 or open_[other, code] == 0.0:
            continue
        if before >= 0:
            # The most that can be moved each way before one of the four is spent.
            forth = min(open_[one, before], open_[other, code])
            back = min(open_[one, code], open_[other, before])
            # Going round the cycle one way or the other with these chances leaves every probability as it
            # was on average, and at least one of the four is settled.
            amount = forth if uniform(state) * (forth + back) < back else -back
            _shift(open_, left, one, before, code, amount)
            _shift(open_, left, other, code, before, amount)
        # The code for the next cycle is one that both lines still share.
        if before < 0 or open_[one, before] == 0.0 or open_[other, before] == 0.0:
            before = code if open_[one, code] > 0.0 and open_[other, code] > 0.0 else -1


@compile_kernel
def _shift(open_: Floats, left: Longs, line: int, giving: int, taking: int, amount: float) -> None:
    """Move an amount within one line, and keep count of the codes it has left."""
    for code, change in ((giving, -amount), (taking, amount)):
        moved = open_[line, code] + change
        if moved <= MIN_PROBABILITY:
            moved = 0.0
            left[line] -= 1
        open_[line, code] = moved


@compile_kernel
def _move(
    open_: Floats, left: Longs, codes: Longs, lines: Longs, length: int, state: NDArray[np.uint64]
) -> None:
    """Move probability in each line from one code of the walk to the next, or back, until one is spent.

    lines[i] lies between codes[i] and codes[i + 1]. How much may go each way decides how likely it goes
    that way, so that no probability changes in the mean.
    """
    # No probability exceeds 1, so that 2 is above all.
    forth = back = 2.0
    for i in range(length):
        forth = min(forth, open_[lines[i], codes[i]])
        back = min(back, open_[lines[i], codes[i + 1]])
    amount = forth if uniform(state) * (forth + back) < back else -back
    for i in range(length):
        _shift(open_, left, lines[i], codes[i], codes[i + 1], amount)


@compile_kernel
def _cycle(open_: Floats, held: int, fresh: int, codes: Longs, lines: Longs) -> int:
    """A walk from one code of the fresh line through others to another of its codes, and back; 0 if none.

    Breadth first from each of the fresh line's codes that no earlier search has reached.
    """
    size = open_.shape[1]
    came_by, came_from = np.empty(size, np.int64), np.empty(held, np.int64)
    queue = np.empty(size, np.int64)
    came_by[:] = -2
    came_from[:] = -2
    # -2: not reached; -1: where the search began.
    for source in range(size):
        if open_[fresh, source] == 0.0 or came_by[source] != -2:
            continue
        came_by[source] = -1
        queue[0], first, last = source, 0, 1
        while first < last:
            at = queue[first]
            first += 1
            for line in range(held):
                if line == fresh or open_[line, at] == 0.0 or came_from[line] != -2:
                    continue
                came_from[line] = at
                for code in range(size):
                    if open_[line, code] == 0.0 or came_by[code] != -2:
                        continue
                    came_by[code] = line
                    if open_[fresh, code] > 0.0:
                        # Another code of the fresh line is reached: with that line the walk closes to a
                        # cycle.
                        return _trace(came_by, came_from, code, fresh, codes, lines)
                    queue[last] = code
                    last += 1
    return 0


@compile_kernel
def _trace(came_by: Longs, came_from: Longs, code: int, fresh: int, codes: Longs, lines: Longs) -> int:
    """Write down the walk that a search found, closed by the fresh line; return its number of lines."""
    codes[0], length = code, 0
    while came_by[codes[length]] >= 0:
        lines[length] = came_by[codes[length]]
        codes[length + 1] = came_from[lines[length]]
        length += 1
    lines[length], codes[length + 1] = fresh, code
    return length + 1


@compile_kernel
def _path(open_: Floats, held: int, codes: Longs, lines: Longs) -> int:
    """A walk through the forest from a code that one line has to another such; its number of lines."""
    size = open_.shape[1]
    # In how many open rows each code is still possible.
    degrees = np.zeros(size, dtype=np.int64)
    for line in range(held):
        for code in range(size):
            degrees[code] += open_[line, code] > 0.0
    # A leaf of the forest has degree 1; from there each step takes another line and another code.
    at, line, length = 0, -1, 0
    # A forest with an edge has a leaf, so a code of degree 1 exists.
    while degrees[at] != 1:
        at += 1
    codes[0] = at
    # A code that two rows can get leads on to the other row; no row is met twice in a forest.
    while length == 0 or degrees[at] > 1:
        following = 0
        while following == line or open_[following, at] == 0.0:
            following += 1
        line = following
        code = 0
        while code == at or open_[line, code] == 0.0:
            code += 1
        lines[length], codes[length + 1] = line, code
        length += 1
        at = code
    return length
