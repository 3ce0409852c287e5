"""Repair: changing single codes until the counts of all given tables are near their expectations.

For a log-linear model p(x) = exp(sum of potentials): the odds of another code in a row are a difference
of potentials of the tables that hold its attribute, so a change can weigh what it mends against what
it makes the row less likely. Only rows in or next to wrong cells are looked at: the work grows with the
number of wrong cells. A cell that no single change mends gains weight until one does.

What is rounded up is chosen here too, so that the counts of given tables stay near their expectations. A
group of g rows holds floor(g p) or one more of each code. Which codes get one more is free but for how many
do; drawn at random, the errors of many groups add up in the tables that they share. Here codes that were
rounded up are exchanged, inside their group, for others while that lowers the sum of the tables' excesses to
the fourth power, less what the exchange makes the group less likely. Fourth powers because one cell that is
wrong by three shall outweigh several that are wrong by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_kernel
from margrave.models._sampling.rounding import Ints, Rounded
from margrave.models._sampling.streams import fresh_state, uniform

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]
State = NDArray[np.uint64]

LIMIT = 1.9
"""Excess above which a cell is wrong."""

ROUNDS = 100
"""Visits to the wrong cells, at most."""

MAX_ROWS_TRIED = 64
"""Rows looked at for one wrong cell and round, at most."""

BLOCK = 1024
"""Rows whose codes are compared, or counted, together."""

NATS = 4.0
"""How much less likely a change may make a row, as a log of odds, however much it mends; twice that in the
last four fifths of the rounds, for cells that nothing else mends."""


def repair(
    codes: NDArray[Any],
    sizes: Sequence[int],
    cliques: Sequence[tuple[int, ...]],
    expected: Floats,
    potentials: Floats,
    rng: np.random.Generator,
    *,
    limit: float = LIMIT,
) -> float:
    """Change codes, in place, until no table's count is off by more than `limit`, or ROUNDS are over.

    Args:
        codes: Codes of each attribute, shape [attributes, rows].
        sizes: Codes of each attribute.
        cliques: The attributes of each table.
        expected: Counts wanted in the tables' cells, table by table, row by row.
        potentials: Their potentials, in the same order.
        rng: Source of randomness.
        limit: Largest excess that is left alone, in rows.

    Returns:
        The largest excess left, in rows.
    """
    if not len(cliques) or not codes.shape[1]:
        return 0.0
    starts = np.cumsum([0, *(int(np.prod([sizes[v] for v in clique])) for clique in cliques)])
    # The excess begins at minus the expectations; counting adds the rows.
    members, strides, of = _axes(len(codes), sizes, cliques)
    excess = -expected
    _count(codes, starts, members, strides, excess)
    if float(np.abs(excess).max()) > limit:
        lengths = np.asarray(sizes, dtype=np.int64)
        arrays = (codes, lengths, starts, members, strides, of, excess, potentials)
        _repair(*arrays, limit, fresh_state(rng))
    return float(np.abs(excess).max())


def _axes(
    attributes: int, sizes: Sequence[int], cliques: Sequence[tuple[int, ...]]
) -> tuple[Longs, Longs, Longs]:
    """The attributes of each clique and the cells between their codes, both padded to the longest clique.

    Returns:
        Attributes, -1 beyond the last, and strides, both [cliques, longest]; and the strides by attribute,
        -1 where a clique does not hold it, [attributes, cliques].
    """
    members = np.full((len(cliques), max(len(clique) for clique in cliques)), -1, dtype=np.int64)
    strides = np.zeros_like(members)
    of = np.full((attributes, len(cliques)), -1, dtype=np.int64)
    for k, clique in enumerate(cliques):
        # Strides as of an array in row-major order, so the last attribute has stride 1.
        step = 1
        for place in range(len(clique) - 1, -1, -1):
            members[k, place], strides[k, place] = clique[place], step
            of[clique[place], k] = step
            step *= sizes[clique[place]]
    return members, strides, of


@compile_kernel
def _count(codes: NDArray[Any], starts: Longs, members: Longs, strides: Longs, excess: Floats) -> None:
    """Add the rows to all tables."""
    rows = codes.shape[1]
    # Rows are taken in blocks, so that the cells of a block stay in the cache while all its columns are
    # added.
    cells = np.empty(BLOCK, dtype=np.int32)
    for k in range(len(members)):
        counts = np.zeros(starts[k + 1] - starts[k], dtype=np.int32)
        for first in range(0, rows, BLOCK):
            length = min(BLOCK, rows - first)
            cells[:] = 0
            for place in range(members.shape[1]):
                if members[k, place] >= 0:
                    column = codes[members[k, place], first : first + length]
                    step = np.int32(strides[k, place])
                    for i in range(length):
                        cells[i] += step * column[i]
            for i in range(length):
                counts[cells[i]] += 1
        excess[starts[k] : starts[k + 1]] += counts


@compile_kernel
def _repair(
    codes: NDArray[Any],
    sizes: Longs,
    starts: Longs,
    members: Longs,
    strides: Longs,
    of: Longs,
    excess: Floats,
    potentials: Floats,
    limit: float,
    state: State,
) -> None:
    # A cell that no change could mend counts twice as much the next time, as in breakout local search.
    weights = np.ones(len(excess))
    wanted = np.empty(members.shape[1], dtype=np.int64)
    at = np.empty(len(members), dtype=np.int64)
    move = np.empty(3, dtype=np.int64)
    for turn in range(ROUNDS):
        done = True
        # In the last rounds changes may cost more of the model's likelihood.
        nats = NATS if 5 * turn < ROUNDS else 2.0 * NATS
        for k in range(len(members)):
            for cell in range(starts[k], starts[k + 1]):
                if abs(excess[cell]) <= limit:
                    continue
                done = False
                # The codes of the cell, from its number in the table.
                rest = cell - starts[k]
                for place in range(len(wanted)):
                    if members[k, place] >= 0:
                        wanted[place] = rest // strides[k, place]
                        rest %= strides[k, place]
                over = excess[cell] > 0.0
                tables = (starts, members, strides, of, excess, potentials, weights, nats)
                if _search(codes, sizes, members[k], wanted, over, tables, at, move, state):
                    _apply(codes, move, tables, at)
                else:
                    weights[cell] *= 2.0
        if done:
            break


@compile_kernel
def _search(
    codes: NDArray[Any],
    sizes: Longs,
    clique: Longs,
    wanted: Longs,
    over: bool,
    tables: Any,
    at: Longs,
    move: Longs,
    state: State,
) -> bool:
    """Find the best change for a wrong cell: fills move with [row, attribute, code]; whether it helps.

    An overfull cell gives rows away, a cell short of rows takes those that differ by one attribute.
    """
    rows = codes.shape[1]
    differences = np.empty(BLOCK, dtype=np.uint8)
    # Only a change that lowers the sum by more than rounding counts.
    best, tried = -1e-6, 0
    blocks = (rows + BLOCK - 1) // BLOCK
    # Begin at a random block, so that the first rows of the table are not changed more than others.
    start = int(uniform(state) * blocks)
    for turn in range(blocks):
        first = (start + turn) % blocks * BLOCK
        length = min(BLOCK, rows - first)
        if not _compare(codes, clique, wanted, first, length, 0 if over else 1, differences):
            continue
        for i in range(length):
            if differences[i] == (0 if over else 1):
                tried += 1
                best = _try(codes, sizes, clique, wanted, over, first + i, best, tables, at, move)
                # Enough rows were looked at: the best of them is nearly the best of all.
                if tried == MAX_ROWS_TRIED:
                    return best < -1e-6
    return best < -1e-6


@compile_kernel
def _compare(
    codes: NDArray[Any],
    clique: Longs,
    wanted: Longs,
    first: int,
    length: int,
    target: int,
    differences: NDArray[np.uint8],
) -> bool:
    """In how many attributes each row of a block differs from a cell; whether any does in `target` many."""
    differences[:] = 0
    for place in range(len(clique)):
        if clique[place] >= 0:
            column = codes[clique[place], first : first + length]
            code = column.dtype.type(wanted[place])
            # Counted without leaving early, so that the loop has no branch.
            for i in range(length):
                differences[i] += column[i] != code
    held = 0
    for i in range(length):
        held += differences[i] == target
    return held > 0


@compile_kernel
def _try(
    codes: NDArray[Any],
    sizes: Longs,
    clique: Longs,
    wanted: Longs,
    over: bool,
    i: int,
    best: float,
    tables: Any,
    at: Longs,
    move: Longs,
) -> float:
    """The least cost so far, row i's changes out of the cell, or into it, included."""
    for place in range(len(clique)):
        v = clique[place]
        # An overfull cell loses rows by any of its attributes; a cell short of rows gains by the one that
        # differs.
        if v < 0 or not (over or codes[v, i] != wanted[place]):
            continue
        _locate(codes, i, v, tables, at)
        first, last = (0, sizes[v]) if over else (wanted[place], wanted[place] + 1)
        for b in range(first, last):
            cost = _cost(codes[v, i], b, v, tables, at) if b != codes[v, i] else 0.0
            if cost < best:
                best = cost
                move[0], move[1], move[2] = i, v, b
    return best


@compile_kernel
def _locate(codes: NDArray[Any], i: int, v: int, tables: Any, at: Longs) -> None:
    """Fill `at` with the cell of row i, code 0 of attribute v, in each table that holds v."""
    starts, members, strides, of = tables[0], tables[1], tables[2], tables[3]
    for k in range(len(at)):
        if of[v, k] < 0:
            continue
        # Code 0 of the attribute, so that a change needs only steps of the attribute's stride.
        at[k] = starts[k]
        for place in range(members.shape[1]):
            u = members[k, place]
            if u >= 0 and u != v:
                at[k] += strides[k, place] * codes[u, i]


@compile_kernel
def _cost(a: int, b: int, v: int, tables: Any, at: Longs) -> float:
    """What a change from a to b adds to the weighted fourth powers, and to the row's unlikeliness in nats."""
    of, excess, potentials, weights, nats = tables[3], tables[4], tables[5], tables[6], tables[7]
    cost, likelier = 0.0, 0.0
    for k in range(len(at)):
        step = of[v, k]
        if step < 0:
            continue
        p, q = at[k] + step * a, at[k] + step * b
        e, f = excess[p], excess[q]
        # (e - 1)^4 - e^4 and (f + 1)^4 - f^4, as polynomials of the excess: large misses count most, and
        # nothing is subtracted that would cancel.
        cost += weights[p] * (((6.0 - 4.0 * e) * e - 4.0) * e + 1.0)
        cost += weights[q] * (((6.0 + 4.0 * f) * f + 4.0) * f + 1.0)
        likelier += potentials[q] - potentials[p]
    # Beyond this a row would be less likely than the model allows for any gain.
    if likelier < -nats:
        return 0.0
    # Becoming likelier is no gain of its own, or rows would drift to the model's mode.
    return cost - min(likelier, 0.0)


@compile_kernel
def _apply(codes: NDArray[Any], move: Longs, tables: Any, at: Longs) -> None:
    """Make a change and keep the tables' excess."""
    of, excess = tables[3], tables[4]
    i, v, b = move
    _locate(codes, i, v, tables, at)
    for k in range(len(at)):
        if of[v, k] >= 0:
            excess[at[k] + of[v, k] * codes[v, i]] -= 1.0
            excess[at[k] + of[v, k] * b] += 1.0
    codes[v, i] = b


PASSES = 6
"""Rounds over all groups; a round without an exchange is the last."""

MIN_EXCESS = 1.0
"""Excess above which a cell gives codes away: below, rounding is left to chance, so that it is unbiased."""

ODDS = 20.0
"""How many times less likely an exchange may make a group: rare cells shall not become a dump."""


def steer(
    found: Rounded,
    table: Floats,
    radices: Sequence[int],
    strides: Sequence[Sequence[int]],
    expected: Sequence[Floats],
) -> None:
    """Exchange codes that were rounded up, in place.

    Args:
        found: Groups of rows and their codes.
        table: Weights of the codes in each group, shape [groups, codes], that were rounded.
        radices: Codes of the attributes that make a group's key, the last running fastest.
        strides: For each table, what a step in each of those attributes adds to its row.
        expected: Counts wanted in each table, each of shape [rows, codes].
    """
    width = table.shape[1]
    # Tables lie one behind the other in one array; starts say where each begins.
    starts = np.cumsum([0, *(counts.size for counts in expected)])[:-1]
    excess = -np.concatenate([counts.ravel() for counts in expected])
    steps = np.asarray(strides, dtype=np.int64).reshape(len(expected), len(radices)) * width
    places = _places(found.keys, np.asarray(radices, dtype=np.int64), steps, starts)
    _count_cells(found.firsts, found.codes, places, excess)
    _steer(found.keys, found.firsts, found.extras, found.codes, table, places, excess)


@compile_kernel
def _places(keys: Longs, radices: Longs, steps: Longs, starts: Longs) -> Longs:
    """Where each group's row begins in each table, shape [groups, tables]."""
    places = np.empty((len(keys), len(starts)), dtype=np.int64)
    for group in range(len(keys)):
        # The key is a number in mixed radix; digits are taken off from the fastest one.
        rest = keys[group]
        places[group] = starts
        for j in range(len(radices) - 1, -1, -1):
            digit = rest % radices[j]
            rest //= radices[j]
            for c in range(len(starts)):
                places[group, c] += digit * steps[c, j]
    return places


@compile_kernel
def _count_cells(firsts: Longs, codes: Ints, places: Longs, excess: Floats) -> None:
    """Add the rows to the tables, equal codes that lie together at once."""
    for group in range(len(places)):
        # Codes of a group lie together but for those that were rounded up, so runs are added at once.
        first, last = firsts[group], firsts[group + 1]
        while first < last:
            code, end = codes[first], first + 1
            while end < last and codes[end] == code:
                end += 1
            for place in places[group]:
                excess[place + code] += end - first
            first = end


@compile_kernel
def _steer(
    keys: Longs, firsts: Longs, extras: Longs, codes: Ints, table: Floats, places: Longs, excess: Floats
) -> None:
    width = table.shape[1]
    fractions, costs = np.empty(width), np.empty(width)
    for _ in range(PASSES):
        quiet = True
        for group in range(len(keys)):
            rows, last = firsts[group + 1] - firsts[group], firsts[group + 1]
            ready = False
            # Only codes that were rounded up may be exchanged: the whole parts are certain.
            for i in range(last - extras[group], last):
                if not _over(places[group], codes[i], excess):
                    continue
                if not ready:
                    # Which codes of the group may be rounded up instead; computed once, when first needed.
                    _free(table[keys[group]], rows, codes[last - extras[group] : last], fractions)
                    ready = True
                old = codes[i]
                new = _better(places[group], old, fractions, excess, costs)
                if new != old:
                    codes[i] = new
                    # The sign says which codes are rounded up: it changes with the exchange.
                    fractions[old], fractions[new] = -fractions[old], -fractions[new]
                    for place in places[group]:
                        excess[place + old] -= 1.0
                        excess[place + new] += 1.0
                    quiet = False
        if quiet:
            break


@compile_kernel
def _over(places: Longs, code: int, excess: Floats) -> bool:
    """Whether any table has too many of a group's code."""
    found = False
    for place in places:
        found |= excess[place + code] > MIN_EXCESS
    return found


@compile_kernel
def _free(weights: Floats, rows: int, taken: Ints, fractions: Floats) -> None:
    """Fractional parts of a group's expectations, negative for the codes that were rounded up."""
    total = weights.sum()
    for a in range(len(weights)):
        expected = rows * (weights[a] / total) if total > 0.0 else rows / len(weights)
        # As in rounding: an expectation that is whole up to rounding error has no fraction.
        fractions[a] = min(max(expected - int(expected + 1e-9), 0.0), 1.0 - 1e-9)
    for code in taken:
        fractions[code] = -abs(fractions[code])


@compile_kernel
def _better(places: Longs, old: int, fractions: Floats, excess: Floats, costs: Floats) -> int:
    """The code to have rounded up in place of `old`, or `old` itself."""
    # Taking the old code away gains the same whatever is put in its place, so that is worked out once.
    bound = 0.0
    costs[:] = 0.0
    for place in places:
        e = excess[place + old]
        bound += ((4.0 * e - 6.0) * e + 4.0) * e - 1.0
        for a in range(len(costs)):
            e = excess[place + a]
            costs[a] += ((4.0 * e + 6.0) * e + 4.0) * e + 1.0
    # The margin keeps ties from going back and forth for ever.
    best, bound = old, bound - 1e-6
    # Exchanging one rounded code for another multiplies the group's likelihood by the ratio of their odds.
    odds = abs(fractions[old]) / (1.0 - abs(fractions[old]))
    for a in range(len(costs)):
        if fractions[a] > 0.0 and costs[a] < bound:
            less = odds * (1.0 - fractions[a]) / fractions[a]
            cost = costs[a] + (np.log(less) if less > 1.0 else 0.0)
            if less < ODDS and cost < bound:
                best, bound = a, cost
    return best
