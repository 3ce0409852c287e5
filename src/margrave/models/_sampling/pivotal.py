"""Dependent rounding: whole codes for rows or groups of rows, whose counts add up over all of them too.

A row is a line of probabilities; a group is a line of what the expected counts of its codes leave beyond
their whole parts. The numbers of a line are between 0 and 1 and add up to a whole number: so many codes are
chosen, none twice, each with its number as the chance. Counts of all codes over all lines stay near their
expectations, and along the order of the lines as well.

Lines that are not decided and the codes they may still get are the two sides of a graph. Round a cycle of it
probability can be moved forth or back, at random so that every mean stays what it was, until some number is
0 or 1. Round a cycle no code gains in total. What is left at the end is a forest, where the same is done
along paths from leaf to leaf (Gandhi, Khuller, Parthasarathy and Srinivasan 2006). With two codes a row that
is the ordered pivotal method (Deville and Tillé 1998). Its time grows with lines and squared codes, so that
of many rows and codes it is first decided which half of the codes each row gets, and then each half by
itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel
from margrave.models._sampling.streams import fresh_state, uniform

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

MIN_PROBABILITY = 1e-13
"""Probabilities below this are taken as none, and those as near to 1 as certain."""

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
    found = np.zeros(rows, dtype=np.int32)
    if rows and size > 1:
        _decide(probabilities, order, found, *make_forest(size), fresh_state(rng))
    return found.astype(np.int64)


@compile_kernel
def make_forest(size: int) -> tuple[Floats, Longs]:
    """Room for the lines that are not decided: `open_` and `notes` of the kernels, empty.

    Args:
        size: How many codes there are.

    Returns:
        What the lines hold still, shape [size + 1, size]; a forest in which each line has two codes or more
        holds fewer lines than codes, and one more is the fresh one. And for each line, shape [5, size + 2]:
        the next place of its chosen codes and the last, how many codes it may still get, and room for a walk.
    """
    return np.zeros((size + 1, size)), np.zeros((5, size + 2), dtype=np.int64)


SLOTS, ENDS, LEFT, CODES, LINES = 0, 1, 2, 3, 4
"""Lines of `notes`: for each line of the forest the place in `found` of its next chosen code, the place
behind its last, and how many codes it may still get; and the codes and lines of a walk."""


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
    probabilities: Floats, order: Longs, found: Ints, open_: Floats, notes: Longs, state: NDArray[np.uint64]
) -> None:
    """Fill `found` row by row."""
    held = 0
    for row in order:
        held = add_line(probabilities[row], row, row + 1, held, found, open_, notes, state)
    close_lines(held, found, open_, notes, state)


@compile_kernel
def add_line(
    values: Floats,
    first: int,
    end: int,
    held: int,
    found: Ints,
    open_: Floats,
    notes: Longs,
    state: NDArray[np.uint64],
) -> int:
    """Take in one more line, and decide what can be decided without moving any code's total.

    Args:
        values: The chance of each code, shape [size]; they add up to end - first.
        first: The place of its first chosen code in `found`; `end`, behind the last.
        held: How many lines are not decided; they are the first of `open_`, a forest.
        found: Where chosen codes are written.
        open_: As `make_forest` made them, like `notes`.
        state: Of the generator.

    Returns: how many lines are not decided now.
    """
    notes[SLOTS, held], notes[ENDS, held], notes[LEFT, held] = first, end, len(values)
    for code in range(len(values)):
        _write(found, open_, notes, held, code, values[code])
    # Cycles of the fresh line with one other line are removed first: they are cheap to find.
    for line in range(held):
        _exchange(found, open_, notes, line, held, state)
    # Whatever cycle is left passes through the fresh line, as the lines before it are a forest.
    held, fresh = _settle(found, open_, notes, held + 1, held)
    while fresh >= 0:
        length = _cycle(open_, held, fresh, notes[CODES], notes[LINES])
        if length == 0:
            break
        _move(found, open_, notes, length, state)
        held, fresh = _settle(found, open_, notes, held, fresh)
    return held


@compile_kernel
def close_lines(held: int, found: Ints, open_: Floats, notes: Longs, state: NDArray[np.uint64]) -> None:
    """Decide the lines that are left, a forest: totals of two codes move along each path between leaves."""
    while held:
        length = _path(open_, held, notes[CODES], notes[LINES])
        _move(found, open_, notes, length, state)
        held, _ = _settle(found, open_, notes, held, -1)


@compile_kernel
def _write(found: Ints, open_: Floats, notes: Longs, line: int, code: int, value: float) -> None:
    """Set what a line holds of a code that it may still get, and take the code out if that is decided."""
    # What rounding leaves of 0 and 1 would keep a line open for ever.
    if value >= 1.0 - MIN_PROBABILITY:
        _choose(found, notes, line, code)
        value = 0.0
    if value <= MIN_PROBABILITY:
        notes[LEFT, line] -= 1
        value = 0.0
    open_[line, code] = value


@compile_kernel
def _choose(found: Ints, notes: Longs, line: int, code: int) -> None:
    """Write a code down as one of a line's, unless it has all of them."""
    if notes[SLOTS, line] < notes[ENDS, line]:
        found[notes[SLOTS, line]] = code
        notes[SLOTS, line] += 1


@compile_kernel
def _settle(found: Ints, open_: Floats, notes: Longs, held: int, fresh: int) -> tuple[int, int]:
    """Take out the lines that have one code left; return how many stay, and where the fresh one is, or -1."""
    line = 0
    while line < held:
        if notes[LEFT, line] > 1:
            line += 1
            continue
        held -= 1
        for code in range(open_.shape[1]):
            # What is left of a line adds up to a whole number, so a single code has 0 or 1 of it.
            if open_[line, code] > 0.0:
                _choose(found, notes, line, code)
            open_[line, code] = open_[held, code]
        # The last line takes the freed place, so the open ones stay together and nothing is shifted.
        for note in (SLOTS, ENDS, LEFT):
            notes[note, line] = notes[note, held]
        if fresh == line:
            fresh = -1
        elif fresh == held:
            fresh = line
    return held, fresh


@compile_kernel
def _exchange(
    found: Ints, open_: Floats, notes: Longs, one: int, other: int, state: NDArray[np.uint64]
) -> None:
    """Move probability round the cycles of two lines alone, until they share at most one code."""
    before = -1
    for code in range(open_.shape[1]):
        if notes[LEFT, one] < 2 or notes[LEFT, other] < 2:
            return
        if open_[one, code] == 0.0 or open_[other, code] == 0.0:
            continue
        if before >= 0:
            # The most that can be moved each way before one of the four is 0 or 1.
            forth = min(_room(open_, one, before, code), _room(open_, other, code, before))
            back = min(_room(open_, one, code, before), _room(open_, other, before, code))
            # Going round the cycle one way or the other with these chances leaves every probability as it
            # was on average, and at least one of the four is settled.
            amount = forth if uniform(state) * (forth + back) < back else -back
            _shift(found, open_, notes, one, before, code, amount)
            _shift(found, open_, notes, other, code, before, amount)
        # The code for the next cycle is one that both lines still share.
        if before < 0 or open_[one, before] == 0.0 or open_[other, before] == 0.0:
            before = code if open_[one, code] > 0.0 and open_[other, code] > 0.0 else -1


@compile_kernel
def _room(open_: Floats, line: int, giving: int, taking: int) -> float:
    """The most that a line can move from one code to another."""
    return float(min(open_[line, giving], 1.0 - open_[line, taking]))


@compile_kernel
def _shift(
    found: Ints, open_: Floats, notes: Longs, line: int, giving: int, taking: int, amount: float
) -> None:
    """Move an amount within one line."""
    # Whichever of the two comes to 1 is written down before the line counts as spent.
    _write(found, open_, notes, line, giving, open_[line, giving] - amount)
    _write(found, open_, notes, line, taking, open_[line, taking] + amount)


@compile_kernel
def _move(found: Ints, open_: Floats, notes: Longs, length: int, state: NDArray[np.uint64]) -> None:
    """Move probability in each line from one code of the walk to the next, or back, until one is spent.

    The i-th line of the walk lies between its codes i and i + 1. How much may go each way decides how likely
    it goes that way, so that no probability changes in the mean.
    """
    codes, lines = notes[CODES], notes[LINES]
    # No probability exceeds 1, so that 2 is above all.
    forth = back = 2.0
    for i in range(length):
        forth = min(forth, _room(open_, lines[i], codes[i], codes[i + 1]))
        back = min(back, _room(open_, lines[i], codes[i + 1], codes[i]))
    amount = forth if uniform(state) * (forth + back) < back else -back
    for i in range(length):
        _shift(found, open_, notes, lines[i], codes[i], codes[i + 1], amount)


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
