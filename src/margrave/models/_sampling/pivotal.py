"""Pivotal: one code a row from each row's own probabilities, with counts that hardly vary.

Every row gets a code with exactly its own probabilities, and the counts of all codes stay near their
expectations, overall and along the order of the rows. A row not yet decided is kept as its vector of
probabilities. Rows that are kept and the codes they may still get are the two sides of a graph; round a
cycle of it probability can be moved forth or back, at random so that every mean stays what it was, until a
row can no longer get some code. Round a cycle no code gains in total. What is left at the end is a forest,
where the same is done along paths from leaf to leaf (Gandhi, Khuller, Parthasarathy and Srinivasan 2006).
With two codes that is the ordered pivotal method (Deville and Tillé 1998).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel
from margrave.models._sampling.rounding import fresh_state, uniform

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

MIN_PROBABILITY = 1e-13
"""Probabilities below this are taken as none."""


def pivotal(probabilities: Floats, order: Longs, rng: np.random.Generator) -> Longs:
    """One code a row, shape [rows].

    Every code's count is its expectation rounded up or down. Along the order, counts differ from theirs by
    less than one row for two codes, and by less than codes - 1 rows in general.

    Args:
        probabilities: Of each code in each row, shape [rows, codes], rows summing to 1.
        order: The rows in the order in which they are decided, neighbours making up for each other.
        rng: Source of randomness.
    """
    rows, size = probabilities.shape
    found = np.zeros(rows, dtype=np.int64)
    if rows and size > 1:
        open_ = np.zeros((size + 1, size))
        owners, left, codes, lines = np.zeros((4, size + 2), dtype=np.int64)
        _decide(probabilities, order, found, open_, owners, left, codes, lines, fresh_state(rng))
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
            forth = min(open_[one, before], open_[other, code])
            back = min(open_[one, code], open_[other, before])
            # Going round the cycle one way or the other with these chances leaves every probability as it
            # was on average, and at least one of the four is settled.
            amount = forth if uniform(state) * (forth + back) < back else -back
            _shift(open_, left, one, before, code, amount)
            _shift(open_, left, other, code, before, amount)
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
    came_by, came_from, queue = np.empty(size, np.int64), np.empty(held, np.int64), np.empty(size, np.int64)
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
    while degrees[at] != 1:
        at += 1
    codes[0] = at
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
