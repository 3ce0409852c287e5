"""Where the rows of a noisy histogram are: expected counts under a hidden Markov chain, and their range.

A range that holds only cells which are evident one by one leaves out rows that are evident together, such as
eighty years of birth of which no single year is above the noise. Here each cell is empty, or has some
multiple of the count that was expected of it before the look; neighbouring cells tend to have similar
multiples, so that what many cells say together counts as much as what one of them says alone. Where noise
hides everything, what comes back is what was expected before, and the range stays wide.

Everything here is post-processing of released noisy counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["expected_counts", "spread_counts", "trimmed_range", "weigh_cells"]


Array = NDArray[np.float64]

MAX_SHARE_OUTSIDE = 0.004
"""Expected share of the rows that a range may leave out, half of it at either end; bench/LOG.md."""
HIGHEST_LEVEL, LOWEST_LEVEL = 12, -12
"""Levels: the count of a cell that is not empty has a mean of 2 ** level times the count expected before."""
JUMP, STEP = 0.02, 0.1
"""Chances that the cell after one that holds rows is on any level whatever, and one level higher or lower
(each)."""
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
CHANGES = (0.02, 0.1, 0.4)
"""Chances that a stretch of cells of like counts ends with a cell; bench/LOG.md."""
LEVELS = tuple(range(-12, 13, 3))
"""The multiple of a stretch that is not empty has a mean of 2 ** level: the means are averaged over."""
EMPTY_STRETCH = 0.5
"""Chance that a stretch is empty."""
SHARPEST = 1e-5
"""Noise as a share of the greatest count below which double precision does not tell partitions apart."""
CLEAR = 20.0
"""Noise standard deviations of rows from which counts are smoothed: below that, noise hides all but where
rows are, and far cells together would weigh too much; bench/LOG.md."""
MOST_TOGETHER = 128
"""Cells whose partitions are averaged over together: time goes with their square."""
FLOOR = 0.05
"""Least count expected of a cell, as a share of the mean over all cells: heavy single values have narrow
cells."""


def expected_counts(
    noisy: Array, sigma: float, prior: Array, *, leave: float, floor: float = FLOOR
) -> tuple[Array, Array]:
    """Posterior mean of each cell's count, never negative, and the chance that it holds rows: both [cells].

    The model: a Markov chain over the cells in order. Its states are "empty" and the levels LOWEST_LEVEL to
    HIGHEST_LEVEL. On level k the count of cell c is exponential with mean prior[c] * 2**k; the noisy count is
    that plus normal noise. The forward-backward algorithm gives the chances of the states of each cell, given
    all noisy counts.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
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
    likelihood, given = _emissions(noisy[:, None], sigma, means)
    chances = _state_chances(likelihood, enter, leave)
    return (chances[:, 1:] * given).sum(axis=1), 1.0 - chances[:, 0]


def weigh_cells(noisy: Array, sigma: float, prior: Array) -> Array:
    """Weights by which numbers are drawn from the cells of a histogram, 0 beyond its range: shape [cells].

    The range is that of the expected counts, and the weights inside are the smoothed ones; but of a cell that
    is likelier empty than not only a part, so that the range stays wide where noise hides its ends and few
    numbers are drawn there.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        prior: Counts expected before the look, in rows, shape [cells].
    """
    counts, held = expected_counts(noisy, sigma, prior, leave=min(LEAVES / len(noisy), MOST_LEAVES))
    first, last = trimmed_range(counts)
    if last - first > 1 and float(prior.sum()) >= CLEAR * sigma:
        inside = slice(first, last)
        counts, held = counts.copy(), held.copy()
        counts[inside], held[inside] = smoothed_counts(noisy[inside], sigma, prior[inside])
    weights = np.where(held > 0.5, counts, DOUBT * counts)
    weights[:first] = weights[last:] = 0.0
    faint = np.minimum(np.cumsum(weights), np.cumsum(weights[::-1])[::-1]) < 1.0
    weights[faint] *= FAINT_SHARE
    return weights


def smoothed_counts(noisy: Array, sigma: float, prior: Array) -> tuple[Array, Array]:
    """Posterior mean of each cell's count, and the chance that it holds rows, where stretches are alike.

    The model: the cells in order are parted into stretches at random, a new one beginning at each cell with
    a chance that is one of CHANGES, by how likely they make the noisy counts. In a stretch the count of
    each cell is one multiple of what was expected before the look: 0 with chance EMPTY_STRETCH, else
    exponential with a mean of 2 ** level, averaged over LEVELS. So neighbours that noise cannot tell apart
    share what they say, and a cell that stands out keeps its own count. All partitions are averaged over, by
    sums over first and last cells; of more than MOST_TOGETHER cells each so many have partitions of their
    own.

    Source: the product partition model of Barry and Hartigan 1993 (A Bayesian analysis for change point
    problems), with another prior for the level of a stretch.

    Args:
        noisy: Noisy counts, shape [cells].
        sigma: Standard deviation of the noise in each cell.
        prior: Counts expected before the look, shape [cells].
    """
    cells = len(noisy)
    means = np.maximum(prior, max(float(prior.sum()), 1e-9) * FLOOR / cells)
    sigma = max(sigma, SHARPEST * float(np.abs(noisy).max()))
    blocks = np.array_split(np.arange(cells), math.ceil(cells / MOST_TOGETHER))
    parts = [_smoothed_block(noisy[block], sigma, means[block]) for block in blocks]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _smoothed_block(noisy: Array, sigma: float, means: Array) -> tuple[Array, Array]:
    """As `smoothed_counts`, of so few cells that all first and last cells of a stretch are held at once."""
    cells = len(noisy)
    likelihood, multiple, held = _stretches(noisy, sigma, means)
    length = np.arange(cells + 1)[None, :] - np.arange(cells + 1)[:, None]
    changes = np.asarray(CHANGES)[:, None, None]
    joint = likelihood + np.log(changes) + np.maximum(length - 1, 0) * np.log1p(-changes)
    forward = np.full((len(CHANGES), cells + 1), -np.inf)
    backward = forward.copy()
    forward[:, 0] = backward[:, cells] = 0.0
    for end in range(1, cells + 1):
        forward[:, end] = _log_sum(forward[:, :end] + joint[:, :end, end])
    for start in range(cells - 1, -1, -1):
        backward[:, start] = _log_sum(joint[:, start, start + 1 :] + backward[:, start + 1 :])
    chances = np.exp(forward[:, :, None] + joint + backward[:, None, :] - forward[:, cells].max())
    # By first cell and the one after the last; normed, since CHANGES are averaged over as well.
    chances = chances.sum(axis=0) / np.exp(forward[:, cells] - forward[:, cells].max()).sum()

    def over_cells(values: Array | float) -> Array:
        weighted = chances * values
        return np.asarray(np.maximum(np.cumsum(weighted.sum(axis=1) - weighted.sum(axis=0))[:cells], 0.0))

    covered = np.maximum(over_cells(1.0), 1e-9)  # 1 but for rounding
    return over_cells(multiple) * means / covered, np.minimum(over_cells(held) / covered, 1.0)


def _stretches(noisy: Array, sigma: float, means: Array) -> tuple[Array, Array, Array]:
    """Of every stretch [first, end): log likelihood, mean multiple and chance not to be empty.

    With precision A = sum of means^2 / sigma^2 and B = sum of means * noisy / sigma^2 the likelihood of a
    multiple x is exp(B x - A x^2 / 2), up to what is the same for all stretches together. Each has shape
    [cells + 1, cells + 1]; where there is no stretch the likelihood is 0.
    """
    from scipy.special import log_ndtr  # a tenth of a second, for what a declared schema never asks

    cells = len(noisy)
    first, end = np.triu_indices(cells + 1, k=1)
    precision = np.append(0.0, np.cumsum(means**2)) / sigma**2
    seen = np.append(0.0, np.cumsum(means * noisy)) / sigma**2
    root = np.sqrt(np.maximum(precision[end] - precision[first], 1e-300))
    levels = np.asarray(LEVELS, dtype=np.float64)
    chances = 2.0 ** np.where(levels > 0, -0.5 * levels, 0.25 * levels)
    chances *= (1.0 - EMPTY_STRETCH) / chances.sum()
    logs, given = [np.full(len(first), math.log(EMPTY_STRETCH))], [np.zeros(len(first))]
    for level, chance in zip(levels, chances, strict=True):
        z = (seen[end] - seen[first] - 2.0**-level) / root
        depth = np.maximum(-z, TAIL_SERIES_DEVIATIONS)
        tail = np.where(
            z < -TAIL_SERIES_DEVIATIONS,
            -np.log(depth) - 1.0 / depth**2,
            0.5 * z**2 + log_ndtr(np.maximum(z, -TAIL_SERIES_DEVIATIONS)) + LOG_ROOT,
        )
        logs.append(math.log(chance) - level * math.log(2.0) - np.log(root) + tail)
        mean = np.where(
            z < -TAIL_SERIES_DEVIATIONS, 1.0 / depth - 2.0 / depth**3, z + np.exp(-np.minimum(tail, 700.0))
        )
        given.append(np.maximum(mean, 0.0) / root)
    stacked = np.stack(logs)
    total = _log_sum(stacked.T)
    shares = np.exp(stacked - total)
    found = np.full((3, cells + 1, cells + 1), 0.0)
    found[0] = -np.inf
    found[:, first, end] = total, (shares * np.stack(given)).sum(axis=0), 1.0 - shares[0]
    return found[0], found[1], found[2]


def _log_sum(values: Array) -> Array:
    """The logarithm of the sum of exponentials over the last axis, which holds a finite number."""
    most = values.max(axis=-1)
    return np.asarray(most + np.log(np.exp(values - most[..., None]).sum(axis=-1)))


def _emissions(noisy: Array, sigma: float, means: Array) -> tuple[Array, Array]:
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
    empty = -0.5 * z**2 - LOG_ROOT - math.log(sigma)
    hazard = np.exp(-0.5 * near**2 - LOG_ROOT - log_ndtr(-near))
    given = sigma * np.where(depth > TAIL_SERIES_DEVIATIONS, 1.0 / far - 2.0 / far**3, hazard - near)
    return np.hstack([empty, empty - np.log(means / sigma) + tail]), np.maximum(given, 0.0)


def _state_chances(likelihood: Array, enter: Array, leave: float) -> Array:
    """Chances of the states of each cell given all noisy counts: forward and backward, shape as
    `likelihood`."""
    common = _common_levels()
    inner = _level_changes(common) * (1.0 - leave)
    weights = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    forward, backward = np.empty_like(weights), np.ones_like(weights)
    empty, held = 1.0, np.zeros(len(common))
    for cell, weight in enumerate(weights):
        # The chances before the cell is looked at, then after.
        held = held @ inner + empty * enter[cell] * common
        empty = 1.0 - float(held.sum())
        held, empty = held * weight[1:], empty * weight[0]
        total = empty + float(held.sum())
        held, empty = held / total, empty / total
        forward[cell, 0], forward[cell, 1:] = empty, held
    for cell in range(len(weights) - 1, 0, -1):
        seen = backward[cell] * weights[cell]
        filled, none = seen[1:], float(seen[0])
        backward[cell - 1, 1:] = inner @ filled + leave * none
        backward[cell - 1, 0] = enter[cell] * float(common @ filled) + (1.0 - enter[cell]) * none
        backward[cell - 1] /= backward[cell - 1].sum()
    found = forward * backward
    return np.asarray(found / found.sum(axis=1, keepdims=True))


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


def trimmed_range(counts: Array, share: float = MAX_SHARE_OUTSIDE) -> tuple[int, int]:
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
