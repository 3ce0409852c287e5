"""Where the rows of a noisy histogram are: expected counts under a hidden Markov chain, and their range.

A range that holds only cells which are evident one by one leaves out rows that are evident together, such as
eighty years of birth of which no single year is above the noise. Here each cell is empty, or has some
multiple of the count that was expected of it before the look; neighbouring cells tend to have similar
multiples, so that what many cells say together counts as much as what one of them says alone. Where noise
hides everything, what comes back is what was expected before, and the range stays wide.

Weights by which numbers are drawn are averaged over several such models, finer and coarser, and one of cells
that have nothing to do with their neighbours, by the density of the noisy counts under each
(`average_counts`). Which of them holds may change along the column, as it does where even numbers end or
where many rows and few meet.

Everything here is post-processing of released noisy counts.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.schema.columns.binned import MAX_SHARE_OUTSIDE

Array = NDArray[np.float64]

DEVIATIONS_OUTSIDE = 5.0
"""The most that it may leave out at either end (`MAX_SHARE_OUTSIDE`) in standard deviations of the noise of a
cell, beyond which rows are evident; bench/LOG.md, 2026-11-28."""
HIGHEST_LEVEL, LOWEST_LEVEL = 12, -12
"""Levels: the count of a cell that is not empty has a mean of 2 ** level times the count expected before."""
JUMP, STEP = 0.02, 0.1
"""Chances that the cell after one that holds rows is on any level whatever, and one level higher or lower
(each)."""
LOWEST_ALONE = -4
"""The lowest level of cells that hold rows whatever those beside them do."""
SHARES_HELD = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)
"""Shares of cells that hold rows, averaged over, where cells do so whatever those beside them do."""
NARROW = 0.02
"""Share of the rows of a mean cell below which a cell, such as that of 0 alone, is merged with none."""
LEAST_GROUPS, LEAST_NEAR_GROUPS = 16, 4
"""Groups of cells that there are at least, where cells are merged; between declared bounds that lie near each
other few days or numbers are all there is, and 16 groups of them would have two each (bench/LOG.md)."""
STRETCH = 8
"""Cells of a stretch, for which the same model holds. Not measured."""
SWITCHES = 1.0
"""How often another model begins to hold along a column, about. A fifth and four times as often are alike:
bench/LOG.md, 2026-11-28."""
MOST_SWITCHES = 0.25
"""The greatest chance that another model holds for the next stretch. Not measured."""
LEAVES = 4.0
"""How many stretches of rows a column has about: the chance that one ends with a cell, times the cells."""
MOST_LEAVES = 0.25
"""The most that this chance is."""
DOUBT = 0.1
"""Share of its expected count that a cell keeps in drawing numbers where it is likelier empty than not."""
FAINT_SHARE = 1e-3
"""The same where less than one row would be drawn from there on outwards: a number far out ruins a mean."""
TAIL_SERIES_DEVIATIONS = 30.0
"""Standard deviations beyond which a tail of the normal law is computed by its series."""
LOG_ROOT = 0.5 * math.log(2.0 * math.pi)
"""Logarithm of the root of 2 pi, the norm of the standard normal density."""
FLOOR = 0.05
"""Least count expected of a cell, as a share of the mean over all cells: heavy single values have narrow
cells."""


def expected_counts(
    noisy: Array, sigma: float | Array, prior: Array, *, leave: float, floor: float = FLOOR
) -> tuple[Array, Array]:
    """Posterior mean of each cell's count, never negative, and the chance that it holds rows: both [cells].

    See `_expect` for the model.
    """
    return _expect(noisy, np.broadcast_to(sigma, noisy.shape), prior, leave, floor)[:2]


def share_outside(counts: Array, sigma: float | Array) -> float:
    """Expected share of the rows that a range may leave out, half of it at either end.

    Where noise is small beside the rows, two rows of a thousand are many times what noise makes of a cell,
    and what is cut off is the greatest part of the miss of a mean.

    Args:
        counts: Expected counts, none negative, shape [cells].
        sigma: Standard deviation of the noise in each cell, one for all or shape [cells].
    """
    deviation = float(np.sqrt(np.square(sigma).mean()))
    return min(MAX_SHARE_OUTSIDE, 2.0 * DEVIATIONS_OUTSIDE * deviation / max(float(counts.sum()), 1e-9))


def average_counts(
    noisy: Array, sigma: float | Array, prior: Array, least: int = LEAST_GROUPS
) -> tuple[Array, Array]:
    """As `expected_counts`, averaged over models of different fineness by how likely each makes the counts.

    Cells are merged by 1, 2, 4, ... and rows spread in what is merged as was expected before: then a group's
    rows are told by the best linear mean of its cells, and what the cells say beyond that is noise alone. One
    more model has each cell hold rows or not whatever its neighbours do, as cells of codes and round numbers
    do. Few rows are seen in few groups, and many in all cells, without a choice by hand. Chances are those of
    a stretch of cells (`_choose_models`): one choice for all would have the many cells that are alike decide
    on the few where rows end.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell, one for all or shape [cells].
        prior: Counts expected before the look, in rows, shape [cells].
        least: Groups that there are at least, where cells are merged.
    """
    sigma = np.broadcast_to(np.asarray(sigma, dtype=np.float64), noisy.shape)
    found = [_alone_counts(noisy, sigma, prior)]
    size = 1
    while size == 1 or len(noisy) >= least * size:
        found.append(_grouped_counts(noisy, sigma, prior, size))
        size *= 2
    chances = _choose_models(np.array([evidence for _, _, evidence in found]))
    counts, held = (sum(c * one[part] for c, one in zip(chances, found, strict=True)) for part in (0, 1))
    return np.asarray(counts), np.asarray(held)


def _choose_models(evidence: Array) -> Array:
    """The chance of each model at each cell, shape [models, cells].

    A Markov chain over stretches of cells, in which one model holds after another: forward and backward.

    Args:
        evidence: Logarithm of the density of each cell's noisy count by each model, given those before it:
            shape [models, cells].
    """
    models, cells = evidence.shape
    told = np.add.reduceat(evidence, np.arange(0, cells, STRETCH), axis=1).T
    weights = np.exp(told - told.max(axis=1, keepdims=True))
    switch = min(SWITCHES / len(weights), MOST_SWITCHES)
    forward, backward = np.empty_like(weights), np.ones_like(weights)
    held = np.full(models, 1.0 / models)
    for stretch, weight in enumerate(weights):
        held = ((1.0 - switch) * held + switch / models) * weight
        held /= held.sum()
        forward[stretch] = held
    for stretch in range(len(weights) - 1, 0, -1):
        seen = backward[stretch] * weights[stretch]
        seen = (1.0 - switch) * seen + switch * float(seen.mean())
        backward[stretch - 1] = seen / seen.sum()
    chances = forward * backward
    chances /= chances.sum(axis=1, keepdims=True)
    return np.asarray(np.repeat(chances, STRETCH, axis=0)[:cells].T)


def _grouped_counts(noisy: Array, sigma: Array, prior: Array, size: int) -> tuple[Array, Array, Array]:
    """`_expect` of groups of neighbouring cells, spread over them as expected before, and its evidence: all
    of shape [cells]. A group's evidence is shared out evenly."""
    group = _group_cells(prior, size)
    starts = np.searchsorted(group, np.arange(int(group[-1]) + 1))
    share = np.maximum(prior, max(float(prior.sum()), 1e-9) * 1e-9 / len(prior))
    share = share / np.bincount(group, weights=share)[group]
    # The best linear estimate of a group's rows, by the precision of its cells.
    norm = np.add.reduceat((share / sigma) ** 2, starts)
    best = np.add.reduceat(share * noisy / sigma**2, starts) / norm
    spread = 1.0 / np.sqrt(norm)
    leave = min(LEAVES / len(starts), MOST_LEAVES)
    counts, held, evidence = _expect(best, spread, np.add.reduceat(prior, starts), leave, FLOOR)
    rest = ((noisy - share * best[group]) / sigma) ** 2
    # The density of all noisy counts: that of the best estimates, and what the cells say beyond these.
    whole = (evidence + np.log(spread) + LOG_ROOT) / np.bincount(group)
    told = whole[group] - np.log(sigma) - rest / 2 - LOG_ROOT
    return share * counts[group], held[group], told


def _group_cells(prior: Array, size: int) -> NDArray[np.int64]:
    """The group of each cell, in order, shape [cells]; a cell much narrower than most has one of its own."""
    narrow = prior < NARROW * float(prior.mean())
    begins = narrow | np.append(True, narrow[:-1])
    run = np.cumsum(begins) - 1
    place = np.arange(len(prior)) - np.flatnonzero(begins)[run]
    return np.asarray(np.cumsum(place % size == 0) - 1)


def _alone_counts(noisy: Array, sigma: Array, prior: Array) -> tuple[Array, Array, Array]:
    """Expected counts where cells hold rows or not whatever those beside them do, the chances that they do,
    and the evidence for it: all of shape [cells]."""
    cells = len(noisy)
    mean = max(float(prior.sum()), 1e-9) / cells * 2.0 ** np.arange(LOWEST_ALONE, HIGHEST_LEVEL + 1)
    likelihood, given = _emissions(noisy[:, None], sigma[:, None], np.tile(mean, (cells, 1)))
    top = likelihood.max(axis=1, keepdims=True)
    weight = np.exp(likelihood - top)
    empty, held = weight[:, 0], weight[:, 1:].mean(axis=1)
    inner = (weight[:, 1:] * given).mean(axis=1)
    told, counts, chance = [], [], []
    for share in SHARES_HELD:
        total = (1.0 - share) * empty + share * held
        told.append(np.log(total) + top[:, 0])
        counts.append(share * inner / total)
        chance.append(share * held / total)
    sums = np.array(told).sum(axis=1)
    odds = np.exp(sums - sums.max())
    odds /= odds.sum()
    return odds @ np.array(counts), odds @ np.array(chance), odds @ np.array(told)


def _expect(
    noisy: Array, sigma: Array, prior: Array, leave: float, floor: float
) -> tuple[Array, Array, Array]:
    """Expected counts, chances that cells hold rows, and the logarithm of the density of each noisy count
    given those before it: all of shape [cells].

    The model: a Markov chain over the cells in order. Its states are "empty" and the levels LOWEST_LEVEL to
    HIGHEST_LEVEL. On level k the count of cell c is exponential with mean prior[c] * 2**k; the noisy count is
    that plus normal noise. The forward-backward algorithm gives the chances of the states of each cell, given
    all noisy counts.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell, shape [cells].
        prior: Counts expected before the look, in rows, shape [cells]; their sum is the expected number of
            rows. A cell after an empty one is likelier to hold rows where more are expected.
        leave: Chance that the cell after one that holds rows is empty.
        floor: Least count expected of a cell, as a share of the mean over all cells.
    """
    cells = len(noisy)
    total = max(float(prior.sum()), 1e-9)
    enter = np.clip(prior / total, 1.0 / max(cells, 2), 0.5)
    means = np.maximum(prior, total * max(floor, 1e-9) / cells)[:, None] * 2.0 ** np.arange(
        LOWEST_LEVEL, HIGHEST_LEVEL + 1
    )
    likelihood, given = _emissions(noisy[:, None], sigma[:, None], means)
    chances, evidence = _state_chances(likelihood, enter, leave)
    return (chances[:, 1:] * given).sum(axis=1), 1.0 - chances[:, 0], evidence


def keep_near(noisy: Array, sigma: float, prior: Array, leave: float) -> Array:
    """Counts of a few cells: as far from those expected before as noise does not explain, shape [cells].

    Args:
        noisy: Noisy counts of the cells, of which there are four at least.
        sigma: Standard deviation of their noise.
        prior: Counts expected before the look, in rows, shape [cells].
        leave: Chance that the numbers end with a cell that holds some.
    """
    counts = expected_counts(noisy, sigma, prior, leave=leave)[0]
    # What the cells differ by may be noise alone (James and Stein).
    spread = float(((noisy - prior - (noisy - prior).mean()) ** 2).sum())
    told = max(1.0 - (len(noisy) - 3) * sigma**2 / max(spread, 1e-9), 0.0)
    return np.asarray(told * counts + (1.0 - told) * prior)


def weigh_cells(noisy: Array, sigma: float | Array, prior: Array, near: bool = False) -> Array:
    """Weights by which numbers are drawn from the cells of a histogram, 0 beyond its range: shape [cells].

    The expected counts; but of a cell that is likelier empty than not only a part, so that the range stays
    wide where noise hides its ends and few numbers are drawn there.
    Between bounds that lie near each other no number is so far out that it ruins a mean. There nothing is cut
    off, and a count is weighed by the chance that the cell holds rows: rows that are cut off are missing from
    the means of end bins, and means of 50,000 rows at epsilon 3 are nearer by a third to two thirds without
    it (bench/LOG.md, 2026-11-28).

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell, one for all or shape [cells].
        prior: Counts expected before the look, in rows, shape [cells].
        near: Whether the cells lie between declared bounds that are near (`numeric.is_narrow`).
    """
    least = LEAST_NEAR_GROUPS if near else LEAST_GROUPS
    counts, held = average_counts(noisy, sigma, prior, least)
    if near:
        return held * counts
    first, last = trimmed_range(counts, share_outside(counts, sigma))
    weights = np.where(held > 0.5, counts, DOUBT * counts)
    weights[:first] = weights[last:] = 0.0
    faint = np.minimum(np.cumsum(weights), np.cumsum(weights[::-1])[::-1]) < 1.0
    weights[faint] *= FAINT_SHARE
    return weights


def _emissions(noisy: Array, sigma: Array, means: Array) -> tuple[Array, Array]:
    """Log likelihood of each state, [cells, 1 + levels], and the mean count given each level, [cells,
    levels].

    An exponential count plus normal noise has an exponentially modified normal law; given the noisy count y,
    the count is normal around y - sigma^2 / mean, cut off below 0.
    """
    from scipy.special import log_ndtr  # a tenth of a second, for what a declared schema never asks

    z, ratio = noisy / sigma, sigma / means
    depth = ratio - z
    # Far in the tail the terms are huge and cancel each other: there the series of Mills' ratio is exact
    # enough.
    far = np.maximum(depth, TAIL_SERIES_DEVIATIONS)
    near = np.minimum(depth, TAIL_SERIES_DEVIATIONS)
    tail = np.where(
        depth > TAIL_SERIES_DEVIATIONS,
        -np.log(far) - 1.0 / far**2,
        0.5 * near**2 + log_ndtr(-near) + LOG_ROOT,
    )
    empty = -0.5 * z**2 - LOG_ROOT - np.log(sigma)
    hazard = np.exp(-0.5 * near**2 - LOG_ROOT - log_ndtr(-near))
    given = sigma * np.where(depth > TAIL_SERIES_DEVIATIONS, 1.0 / far - 2.0 / far**3, hazard - near)
    return np.hstack([empty, empty - np.log(means / sigma) + tail]), np.maximum(given, 0.0)


def _state_chances(likelihood: Array, enter: Array, leave: float) -> tuple[Array, Array]:
    """Chances of the states of each cell given all noisy counts, shape as `likelihood`: forward and backward.
    And the logarithm of how likely each count is given those before it, shape [cells]."""
    common = _common_levels()
    inner = _level_changes(common) * (1.0 - leave)
    top = likelihood.max(axis=1, keepdims=True)
    weights = np.exp(likelihood - top)
    forward, totals = _go_forward(weights, enter, inner, common)
    found = forward * _go_backward(weights, enter, inner, common, leave)
    return np.asarray(found / found.sum(axis=1, keepdims=True)), top[:, 0] + np.log(totals)


@njit(cache=True, nogil=True, error_model="numpy")
def _go_forward(weights: Array, enter: Array, inner: Array, common: Array) -> tuple[Array, Array]:
    """Chances of the states of each cell given the counts up to it, shape [cells, states], and how likely
    each count is given those before it, over the scale of its weights: shape [cells].

    Args:
        weights: How likely each cell's count is by state, the first of which is empty: [cells, states].
        enter: Chance that the cell after an empty one holds rows, shape [cells].
        inner: Chances of the next level by that of a cell, which may also be left: [levels, levels].
        common: Chances of the levels of the first cell that holds rows, shape [levels].
    """
    cells, states = weights.shape
    forward, totals = np.empty((cells, states)), np.empty(cells)
    before = np.zeros(states)
    before[0] = 1.0
    for cell in range(cells):
        # The chances before the cell is looked at, then after.
        now = forward[cell]
        for level in range(1, states):
            now[level] = before[0] * enter[cell] * common[level - 1]
        for one in range(1, states):
            for level in range(1, states):
                now[level] += before[one] * inner[one - 1, level - 1]
        now[0] = 1.0 - now[1:].sum()
        total = 0.0
        for state in range(states):
            now[state] *= weights[cell, state]
            total += now[state]
        now /= total
        totals[cell] = total
        before = now
    return forward, totals


@njit(cache=True, nogil=True, error_model="numpy")
def _go_backward(weights: Array, enter: Array, inner: Array, common: Array, leave: float) -> Array:
    """How likely the counts after each cell are by its state, of sum 1: shape [cells, states].

    Args:
        weights, enter, inner, common: As of `_go_forward`.
        leave: Chance that the cell after one that holds rows is empty.
    """
    cells, states = weights.shape
    backward = np.ones((cells, states))
    for cell in range(cells - 1, 0, -1):
        seen, now = backward[cell] * weights[cell], backward[cell - 1]
        entered = 0.0
        for level in range(1, states):
            entered += common[level - 1] * seen[level]
            now[level] = leave * seen[0]
            for other in range(1, states):
                now[level] += inner[level - 1, other - 1] * seen[other]
        now[0] = enter[cell] * entered + (1.0 - enter[cell]) * seen[0]
        now /= now.sum()
    return backward


def _common_levels() -> Array:
    """How likely each level is where nothing is known: a quarter as likely for each level above 0, less
    below."""
    level = np.arange(LOWEST_LEVEL, HIGHEST_LEVEL + 1.0)
    chances = 2.0 ** np.where(level > 0, -2.0 * level, 0.25 * level)
    return np.asarray(chances / chances.sum())


def _level_changes(common: Array) -> Array:
    """Chances of the next cell's level by that of a cell, neither being empty: shape [levels, levels]."""
    ratio = common[1:] / common[:-1]
    changes = np.tile(JUMP * common, (len(common), 1))
    changes += STEP * (np.diag(np.minimum(ratio, 1.0), k=1) + np.diag(np.minimum(1.0 / ratio, 1.0), k=-1))
    changes += np.diag(1.0 - changes.sum(axis=1))
    return changes


def trimmed_range(counts: Array, share: float) -> tuple[int, int]:
    """The cells [first, last) left when at most half of a share of the counts is cut off at either end.

    Args:
        counts: Expected counts, none negative, shape [cells].
        share: Of their sum, what may be outside.
    """
    total = float(counts.sum())
    if total <= 0.0:
        return 0, len(counts)
    running = np.cumsum(counts) / total
    first = int(np.searchsorted(running, share / 2, side="right"))
    last = int(np.searchsorted(running, 1.0 - share / 2, side="left")) + 1
    return min(first, len(counts) - 1), min(max(last, first + 1), len(counts))


def spread_counts(edges: Array, counts: Array, finer: Array) -> Array:
    """Counts of other cells over the same numbers, each old cell's count spread evenly over its width.

    What lies beyond the new cells joins the end ones.

    Args:
        edges: Edges of the old cells, shape [cells + 1].
        counts: Their counts, shape [cells].
        finer: Edges of the new cells, shape [new cells + 1].
    """
    running = np.append(0.0, np.cumsum(counts))
    at = np.interp(finer, edges, running)
    at[0], at[-1] = 0.0, running[-1]
    return np.diff(at)
