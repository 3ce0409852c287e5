"""Values within the cells of a look: those that hold rows of their own, and round ones.

**Atoms** are values that hold rows of their own, such as the code 999 or 100.0, told from the cells that they
lie in. A cell of the detail look that holds more rows than the cells beside it lead to expect may hold one
value many times. Its round numbers are then counted each by itself, and where the rows are between two of
those, the numbers between them. A value need not be round, such as a standard score: where no step is known
that all numbers are on, stretches are halved in binary as well, until each number is by itself.

**Grids** say which round numbers all other values of a column are on, from a noisy look at their multiples.

Everything here is post-processing of released noisy counts; the looks are those of `NumericDiscovery`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Duration, Moment, Time, Whole

Array = NDArray[np.float64]

Z_SPIKE = 4.0
"""Deviations of noise by which a cell has to stand out to be looked at."""
MORE_DEVIATIONS = 2.0
"""Deviations of noise by which atoms have to hold more than their cell for one of them to be noise. Not
measured."""
FALSE_ATOMS = 0.01
"""Atoms that noise alone makes in a look, in the mean. Not measured."""
MOST_SHARE = 100.0
"""How many times as wide as those beside it a cell is from which these tell of it by evident rows only. Not
measured."""
NEIGHBOUR_CELLS = 3
"""Cells on either side that a cell is held against."""
MOST_SPIKES, MOST_NUMBERS = 128, 2048
"""Cells that are looked at, and numbers in all of them together that are counted by themselves: engines that
run SQL need a second for every 400."""
LEAST_STEP = float(np.finfo(np.float64).tiny)
"""The least step of round numbers: one over a smaller one, as between floats nearest to 0, is no float."""
CLOCK = tuple(float(10**6 * seconds) for seconds in (1, 60, 300, 900, 1800, 3600, 21_600, 86_400))
"""Steps of moments, times and durations, in microseconds."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Cells of numbers and what is known of them, after the looks.

    Args:
        edges: Cell edges, shape [cells + 1].
        noisy: Noisy counts, shape [cells].
        variances: Of their noise, shape [cells].
        weights: Weights by which numbers are drawn, shape [cells].
        alone: Which cells hold a single number, shape [cells].
        atoms: Which of these are cells of an atom, shape [cells].
    """

    edges: Array
    noisy: Array
    variances: Array
    weights: Array
    alone: NDArray[np.bool_]
    atoms: NDArray[np.bool_]

    @property
    def apart(self) -> NDArray[np.bool_]:
        """Which cells are no part of a law of many numbers: atoms, and what is as narrow as a float."""
        return np.asarray(self.atoms | (self.edges[1:] == np.nextafter(self.edges[:-1], np.inf)))


def find_spikes(edges: Array, noisy: Array, sigma: float, unit: float) -> list[tuple[float, float]]:
    """Cells of more than one number that stand out from those beside them, the heaviest ones, in order.

    Args:
        edges: Cell edges, shape [cells + 1].
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        unit: Distance of neighbouring numbers; 0 where there is none.
    """
    # A cell of a single number has nothing inside to be looked for.
    wide = ~are_single(edges, unit)
    excess = np.full(len(noisy), -np.inf)
    width = np.diff(edges)
    for cell in np.flatnonzero(wide):
        around, spread = 0.0, sigma
        for near in _beside(int(cell), wide):  # the denser side: where numbers begin, a cell is like one side
            share = float(width[cell] / width[near].sum())
            held = float(noisy[near].sum()) * share
            if share > MOST_SHARE and noisy[near].sum() <= Z_SPIKE * sigma * len(near) ** 0.5:
                continue  # beside a number that is nearly 0 noise alone would count for millions of rows
            if held > around:
                around, spread = held, sigma * (1.0 + len(near) * share**2) ** 0.5
        if noisy[cell] - around > Z_SPIKE * spread:
            excess[cell] = noisy[cell] - around
    # A cell that does not stand out has minus infinity and sorts to the end.
    heaviest = np.argsort(-excess)[:MOST_SPIKES]
    found = sorted(int(cell) for cell in heaviest if np.isfinite(excess[cell]))
    return [(float(edges[cell]), float(edges[cell + 1])) for cell in found]


def _beside(cell: int, wide: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """The nearest cells of more than one number on either side, where there are any."""
    below = np.flatnonzero(wide[:cell])[-NEIGHBOUR_CELLS:]
    above = np.flatnonzero(wide[cell + 1 :])[:NEIGHBOUR_CELLS] + cell + 1
    return [near for near in (below, above) if len(near)]


def are_single(edges: Array, unit: float) -> NDArray[np.bool_]:
    """Which cells hold one number only: shape [cells].

    Args:
        edges: Cell edges, shape [cells + 1].
        unit: Distance of neighbouring numbers; 0 where there is none.
    """
    single = (np.diff(edges) <= unit * (1 + 1e-9)) | (edges[1:] == np.nextafter(edges[:-1], np.inf))
    return np.asarray(single)


def round_numbers(low: float, high: float, most: int, column: Binned) -> Array:
    """The roundest numbers in [low, high), in order: multiples of one step; none below LEAST_STEP.

    Args:
        low: First number.
        high: The end.
        most: How many there may be.
        column: Its kind decides on the steps: 1, 2 and 5 times the powers of ten, or those of the clock.
    """
    unit, least = column.unit, (high - low) / most
    if unit == 0 and least < LEAST_STEP:
        return np.zeros(0)
    # The smallest step that leaves at most so many numbers, in whole units of the storage.
    step = _step(least, column)
    step = max(np.ceil(step / unit) * unit, unit) if unit > 0 else step
    first, last = np.ceil(low / step), np.ceil(high / step) - 1
    # Below 1 a division by a whole number, to be exact in decimals, as `schema.draws` has them.
    times, over = (step, 1) if step >= 1 else (1.0, round(1 / step))
    numbers = np.arange(first, last + 1) * times / over
    numbers = numbers[(numbers >= low) & (numbers < high)][:most]
    return np.asarray(numbers + 0.0, dtype=np.float64)


def _step(least: float, column: Binned) -> float:
    """The smallest step of the column's kind that is not below one."""
    if column.read in ("moment", "time", "duration"):
        return next((step for step in CLOCK if step >= least), float(np.ceil(least / CLOCK[-1]) * CLOCK[-1]))
    power = 10.0 ** np.floor(np.log10(least))
    return float(
        next(power * times for times in (1.0, 2.0, 5.0, 10.0) if power * times >= least * (1 - 1e-9))
    )


def next_number(value: float, column: Binned) -> float:
    """The end of a cell that holds one number."""
    after = float(np.nextafter(value, np.inf))  # far from zero floats are further apart than numbers
    return max(value + column.unit, after)


def binary_numbers(low: float, high: float, most: int) -> Array:
    """The numbers of fewest binary digits in [low, high), in order: every so many of all floats there are.

    Args:
        low: First number.
        high: The end.
        most: How many there may be, at least 1.
    """
    first, end = _rank(low), _rank(high)
    step = 1
    while (end - first - 1) // step + 1 > most:
        step *= 2
    ranks = np.arange(-(-first // step) * step, end, step, dtype=np.int64)
    size = np.where(ranks < 0, -ranks, ranks).view(np.float64)
    return np.asarray(np.where(ranks < 0, -size, size) + 0.0, dtype=np.float64)


def _rank(value: float) -> int:
    """The place of a float among all of them, 0 for 0: neighbours differ by 1."""
    size = int(np.float64(abs(value)).view(np.int64))
    return -size if value < 0 else size


def count_looks(spikes: list[tuple[float, float]], column: Binned) -> int:
    """How many looks at stretches between round numbers it takes until each number is by itself.

    Args:
        spikes: The stretches [low, high).
        column: What kind of numbers they hold.
    """
    if not spikes:
        return 0
    most = _share_numbers(spikes)
    if column.unit > 0:
        numbers = max((high - low) / column.unit for low, high in spikes)
    else:
        numbers, most = max(float(_rank(high) - _rank(low)) for low, high in spikes), most // 2
    return max(math.ceil(math.log(max(numbers, 1.0)) / math.log(most) - 1e-9), 1)


def share_look(looks: int, done: int, left: Fraction) -> Fraction:
    """What of the rho for single values goes to the next look.

    The first one, at the roundest numbers of cells, and the second, between two of these, are to find most
    and have a third each where more follow.

    Args:
        looks: How many it still takes, as `count_looks` says now.
        done: How many there were.
        left: What is left of all of it.
    """
    return min(Fraction(1, 3), left) if looks > 2 - done > 0 else left / looks


def _share_numbers(spikes: list[tuple[float, float]]) -> int:
    """How many numbers each of the spikes has: all share one limit."""
    return MOST_NUMBERS // max(len(spikes), 1)


def atom_edges(spikes: list[tuple[float, float]], column: Binned, again: bool) -> Array:
    """Cells of a look at spikes: some of their numbers alone, and what is between: shape [cells + 1].

    The numbers are their round ones; where no step is known that all are on, half of them are those of fewest
    binary digits in the looks after the first.

    Args:
        spikes: Cells [low, high), in order and apart.
        column: What kind of numbers they hold.
        again: Whether this is a look after the first.
    """
    found: list[float] = []
    most, binary = _share_numbers(spikes), again and column.unit == 0
    for low, high in spikes:
        found += [low, high]
        values = round_numbers(low, high, most // 2 if binary else most, column)
        if binary:
            values = np.append(values, binary_numbers(low, high, most // 2))
        for value in values.tolist():
            found += [value, min(next_number(value, column), high)]
    return np.unique(np.asarray(found))


def place_atoms(
    spikes: list[tuple[float, float]], edges: Array, noisy: Array, sigma: float, column: Binned
) -> tuple[list[Atom], list[tuple[float, float]]]:
    """The atoms that a look at spikes shows, and the stretches between numbers to be looked at more closely.

    Args:
        spikes: Cells that were looked at.
        edges: Edges of the look, those of `atom_edges`, shape [cells + 1].
        noisy: Its noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        column: What kind of numbers they hold.

    Returns:
        The atoms; and cells [low, high).
    """
    wide = ~are_single(edges, column.unit)
    least = sigma * NormalDist().inv_cdf(1.0 - FALSE_ATOMS / (len(edges) - 1))
    atoms, between = [], []
    for low, high in spikes:
        for cell in range(int(np.searchsorted(edges, low)), int(np.searchsorted(edges, high))):
            if noisy[cell] <= least:
                continue
            if wide[cell]:
                between.append((float(noisy[cell]), float(edges[cell]), float(edges[cell + 1])))
            else:
                atoms.append(Atom(float(edges[cell]), float(noisy[cell]), sigma))
    heaviest = sorted(between, reverse=True)[:MOST_SPIKES]
    return atoms, sorted((low, high) for _, low, high in heaviest)


@dataclass(frozen=True, slots=True)
class Atom:
    """A value that holds rows of its own.

    Args:
        value: The number.
        count: Its noisy count.
        sigma: Standard deviation of the noise of that count.
    """

    value: float
    count: float
    sigma: float


Weigh = Callable[[Array, Array], Array]
"""Noisy counts of all cells and the variances of their noise; the weights by which numbers are drawn."""


def split_atoms(found: Histogram, atoms: list[Atom], column: Binned, weigh: Weigh) -> Histogram:
    """The histogram with a cell for each atom.

    An atom's count is what its own look says; the rest of its cell is what is left of the cell's count. As
    atoms hide how dense the rest is from cell to cell, the other cells are weighed once more without them.

    Args:
        found: After the detail look.
        atoms: Of one cell as well as of several; a value comes once.
        column: What kind of numbers they are.
        weigh: How cells are weighed.
    """
    owner = np.searchsorted(found.edges, [atom.value for atom in atoms], side="right") - 1
    cells = dict[int, list[Atom]]()
    for cell in np.unique(owner).tolist():
        inside = [atom for atom, at in zip(atoms, owner, strict=True) if at == cell]
        if 0 <= cell < len(found.noisy) and not found.alone[cell]:
            cells[cell] = _drop_lightest(inside, float(found.weights[cell]), float(found.variances[cell]))
    if not cells:
        return found
    noisy, variances = found.noisy.copy(), found.variances.copy()
    for cell, inside in cells.items():
        noisy[cell] -= math.fsum(atom.count for atom in inside)
        variances[cell] += math.fsum(atom.sigma**2 for atom in inside)
    rests = np.where(found.alone, found.weights, weigh(noisy, variances))
    held = dict[float, float]()
    weights = rests.copy()
    for cell, inside in cells.items():
        # A cell's count has less noise than the atoms in it.
        total = max(float(found.weights[cell] - rests[cell]), 0.0)
        held |= _share_out(inside, total)
        weights[cell] += total
    found = replace(found, weights=weights)
    for atom in sorted((one for inside in cells.values() for one in inside), key=lambda one: -one.count):
        found = _split(found, atom, next_number(atom.value, column), held[atom.value])
    return found


def _share_out(atoms: list[Atom], total: float) -> dict[float, float]:
    """The rows of a cell that are on its atoms, by atom: what their own looks miss or exceed it by is
    shared out evenly."""
    counts = np.array([max(atom.count, 0.0) for atom in atoms])
    counts = np.maximum(counts + (total - counts.sum()) / len(counts), 0.0)
    counts *= total / max(float(counts.sum()), 1e-12)
    return {atom.value: float(count) for atom, count in zip(atoms, counts, strict=True)}


def _drop_lightest(atoms: list[Atom], weight: float, variance: float) -> list[Atom]:
    """Atoms of one cell but the lightest, while all of them hold evidently more than their cell: noise."""
    kept = sorted(atoms, key=lambda atom: -atom.count)
    while len(kept) > 1:
        more = math.fsum(atom.count for atom in kept) - weight
        if more <= MORE_DEVIATIONS * math.sqrt(variance + math.fsum(atom.sigma**2 for atom in kept)):
            break
        kept.pop()
    return kept


def _split(found: Histogram, atom: Atom, high: float, held: float) -> Histogram:
    """The histogram with a cell of an atom taken out of the cell around it.

    Args:
        found: Before.
        atom: What is taken out.
        high: Where its cell ends.
        held: The rows that it is drawn with.
    """
    edges, low, count, variance = found.edges, atom.value, atom.count, atom.sigma**2
    cell = int(np.searchsorted(edges, low, side="right")) - 1
    # An atom that lies across cells, or in one that holds an atom already, is left where it is.
    if not 0 <= cell < len(found.noisy) or high > edges[cell + 1] or found.alone[cell]:
        return found
    noisy, weight, own = found.noisy[cell], found.weights[cell], found.variances[cell]
    # What is drawn may not exceed what the cell is drawn with.
    held = min(held, float(weight))
    parts = [(edges[cell], low), (low, high), (high, edges[cell + 1])]
    kept = [(a, b) for a, b in parts if b > a]
    # The rest of the cell is shared out to the parts beside the atom by their widths.
    rest = sum(b - a for a, b in kept if a != low)
    shares = [1.0 if a == low else (b - a) / rest for a, b in kept]
    values = [count if a == low else (noisy - count) * s for (a, _), s in zip(kept, shares, strict=True)]
    weights = [held if a == low else (weight - held) * s for (a, _), s in zip(kept, shares, strict=True)]
    # The rest is a difference of two noisy counts, whose variances add up.
    spread = [variance if a == low else (own + variance) * s for (a, _), s in zip(kept, shares, strict=True)]
    ends = [b for _, b in kept][:-1]
    if rest == 0.0:  # the cell was that number alone
        values, weights, spread = [noisy], [weight], [own]
    single = [a == low for a, _ in kept]
    return Histogram(
        np.concatenate([edges[: cell + 1], ends, edges[cell + 1 :]]),
        np.concatenate([found.noisy[:cell], values, found.noisy[cell + 1 :]]),
        np.concatenate([found.variances[:cell], spread, found.variances[cell + 1 :]]),
        np.concatenate([found.weights[:cell], weights, found.weights[cell + 1 :]]),
        np.concatenate([found.alone[:cell], single, found.alone[cell + 1 :]]),
        np.concatenate([found.atoms[:cell], single, found.atoms[cell + 1 :]]),
    )


Grids = tuple[tuple[float, float], ...]

THOUSANDS = (1e6, 5e5, 1e5, 5e4, 1e4, 5e3, 1e3, 500.0, 100.0, 50.0, 10.0, 5.0)
DECIMALS = (1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001, 1e-4, 1e-5, 1e-6)
FINEST = 0.001
CLOCK_STEPS = (*(1e6 * seconds for seconds in (86_400, 3_600, 1_800, 900, 300, 60, 1)), 1e3)
"""Public steps, the coarsest first, each a multiple of the next; those of the clock in microseconds. Cells of
steps below FINEST count as rows off a coarser one where they are evident: the noise of all of them would hide
the step of a short table."""

MIN_DEVIATIONS, MIN_ROW_SHARE = 4.0, 0.02
"""A grid is kept if its rows pass that many standard deviations of the noise, and that share of the rows."""
MIN_TOTAL_DEVIATIONS = 2.0
"""Standard deviations by which there have to be any rows for shares of them to mean something."""
REST_DEVIATIONS, MOST_REST = 2.0, 0.15
"""All values are on a grid unless the rows that are not pass that many deviations of their noise, or might be
more than that share of the rows by one deviation."""


@dataclass(frozen=True, slots=True)
class Multiples:
    """A released look at the steps that a column's numbers are multiples of.

    Args:
        steps: Those asked for, the coarsest first; none where there was no look.
        noisy: Noisy counts by the first of them that a number is a multiple of, shape [steps + 1].
        sigma: Standard deviation of their noise.
        step: The one that all numbers are multiples of, as far as is known; 0 for none.
    """

    steps: tuple[float, ...] = ()
    noisy: Array = field(default_factory=lambda: np.zeros(0))
    sigma: float = 1.0
    step: float = 0.0


def steps_of(column: Binned, most: float = math.inf) -> tuple[float, ...]:
    """The steps to ask for, the coarsest first; none for columns that have no look at grids.

    A resolution that the storage fixes is not asked for, nor anything finer. Nor are steps beyond the numbers
    that were found: a cell in which nothing but 0 can be has noise as any other.

    Args:
        column: Its kind and the grids that its storage fixes.
        most: The largest number found, in size.
    """
    if isinstance(column, (Moment, Time, Duration)):
        # A time of day is below one day, so that the coarsest step is left out for it.
        steps: tuple[float, ...] = CLOCK_STEPS[isinstance(column, Time) :]
    elif column.read == "number":
        steps = THOUSANDS + (() if isinstance(column, Whole) else DECIMALS)
    else:
        return ()
    least = column.unit * (1 + 1e-9)
    return tuple(step for step in steps if least < step <= most)


def common_step(steps: tuple[float, ...], noisy: Array, sigma: float, zeros: float) -> float:
    """The coarsest step that all values are multiples of, as far as the noise tells; 0 if there is none.

    Zeros are on every grid and say nothing. Rows on no step up to this one may not be evident, nor may there
    be room for many of them; those on this step itself are evident, so that a coarser one would not do.

    Args:
        steps: Those asked for, of `steps_of`.
        noisy: Noisy counts by the first of them that a value is a multiple of, shape [steps + 1].
        sigma: Standard deviation of their noise.
        zeros: Rows that hold 0, about.
    """
    counts = np.append(noisy[0] - zeros, noisy[1:])
    fine = sum(step >= FINEST for step in steps)
    clear = np.where(counts > REST_DEVIATIONS * sigma, counts, 0.0)
    total = float(counts[:fine].sum() + clear[fine:].sum())
    for place, step in enumerate(steps):
        # Rows on no step up to this one, and the noise of as many cells.
        if place < fine:
            rest, cells = float(counts[place + 1 : fine].sum() + clear[fine:].sum()), fine - place
        else:
            rest, cells = float(counts[place + 1 :].sum()), len(steps) - place
        doubt = sigma * math.sqrt(cells)
        if rest > REST_DEVIATIONS * doubt or rest + doubt > MOST_REST * total:
            continue
        return step if counts[place] > MIN_DEVIATIONS * sigma else 0.0
    return 0.0


def released_grids(
    column: Binned,
    steps: tuple[float, ...],
    noisy: Array,
    sigma: float,
    edges: Array,
    weights: Array,
    variances: Array,
    step: float = 0.0,
) -> Grids:
    """The grids that the noisy counts support, and the share of values to draw on each.

    Values that stand alone in a cell are known anyway and left out: many zeros say nothing about how the rest
    is rounded. Of numbers in general one in ten is a multiple of 10: the shares are solved for so that those
    drawn on all grids together meet the counts, by least squares without negative shares.

    Args:
        column: Its kind and the grids that its storage fixes.
        steps: Those asked for, of `steps_of`.
        noisy: Noisy counts by the first of them that a value is a multiple of, shape [steps + 1].
        sigma: Standard deviation of their noise.
        edges: Cell edges of the look at the column's values, shape [cells + 1].
        weights: Denoised counts of those cells, shape [cells].
        variances: Of the noise in each cell, shape [cells].
        step: That all values are on, which a cell may hold one multiple of; 0 where there is none.
    """
    unit = column.unit
    alone, unsure = _alone(edges, weights, variances, steps, max(step, unit))
    # What stands alone is taken out, as it says nothing of how the others are rounded.
    counts = np.maximum(noisy - alone, 0.0)
    total = float(counts.sum())
    noise = np.sqrt(sigma**2 + unsure)
    if total <= MIN_TOTAL_DEVIATIONS * float(np.sqrt(np.square(noise).sum())):
        return column.grids
    units = np.array([*steps, unit])
    kept, shares = _keep_evident(counts, units, noise)
    found = [(float(units[k]), float(share)) for k, share in zip(kept, shares, strict=True) if share > 0]
    # Shares of noisy counts may add up to more than 1.
    scale = max(math.fsum(share for _, share in found), 1.0)
    return tuple((step, share / scale) for step, share in found if step > (1.0 if _plain(column) else 0.0))


def all_on(grids: Grids, step: float) -> Grids:
    """The grids without those finer than a step that all values are on, shares adding up to 1."""
    coarser = [(unit, share) for unit, share in grids if unit > step]
    rest = max(1.0 - math.fsum(share for _, share in coarser), 0.0)
    return (*coarser, (step, rest))


def _plain(column: Binned) -> bool:
    """Whether the finest step is that of all whole numbers, which needs no grid."""
    return isinstance(column, Whole) and column.unit <= 1.0


def _alone(
    edges: Array, weights: Array, variances: Array, steps: tuple[float, ...], unit: float
) -> tuple[Array, Array]:
    """Mass of the cells that hold one value only, and its variance, by the first step that it is a multiple
    of."""
    mass, unsure = np.zeros(len(steps) + 1), np.zeros(len(steps) + 1)
    for cell in np.flatnonzero(are_single(edges, unit) & (weights > 0)):
        value = float(edges[cell])
        # The first of the steps is the coarsest, as they come in falling order.
        on = [place for place, step in enumerate(steps) if abs(value / step - round(value / step)) < 1e-9]
        place = on[0] if on else len(steps)
        mass[place] += weights[cell]
        unsure[place] += variances[cell]
    return mass, unsure


def _keep_evident(counts: Array, units: Array, noise: Array) -> tuple[NDArray[np.intp], Array]:
    """Which units are evident, the last one always, and the shares of draws on them, both [kept]."""
    total, kept = float(counts.sum()), np.arange(len(units))
    while True:
        shares = _shares(counts / total, units, kept)
        clear = shares * total / _noise(noise, kept)
        weak = (clear <= MIN_DEVIATIONS) | (shares <= MIN_ROW_SHARE)
        weak[-1] = False  # the storage's own step, or numbers on no grid
        if not weak.any():
            return kept, shares
        # One at a time: the next finer step takes over what is on a step that goes.
        kept = np.delete(kept, np.argmin(np.where(weak, clear, np.inf)))


def _noise(noise: Array, kept: NDArray[np.intp]) -> Array:
    """Noise on the rows of each kept unit: theirs are the cells since the unit kept before, [kept]."""
    variance = np.cumsum(np.square(noise))[kept]
    return np.sqrt(np.diff(variance, prepend=0.0))


def _shares(counts: Array, units: Array, kept: NDArray[np.intp]) -> Array:
    """Shares of draws on the kept units under which values fall on these units as the counts say: [kept].

    A draw on the multiples of u is a multiple of s, where u divides s, one time in s / u.
    """
    from scipy.optimize import nnls  # a tenth of a second, for what a declared schema never asks

    step = units[kept]
    finer = np.minimum(step / np.where(step > 0, step, 1.0)[:, None], 1.0)
    finer[step == 0] = 1.0  # any number at all
    # Cumulated, since a value on a coarse step is on all finer ones as well.
    found: Array = nnls(finer, np.cumsum(counts)[kept])[0]
    return found
