"""Noisy counts of an attribute's codes, as they probably are.

Noise of standard deviation s moves the counts of n codes by n s sqrt(2 / pi) together, however few rows there
are, while what is true of a column is mostly simple: stretches of ordered codes hold about as many rows each,
or neighbours differ by little, and of codes without an order most are rare. A level here is c times an
exponential number of mean 1, with c one of `LEVELS` times the mean count.

**Ordered codes.** Two kinds of guesses are averaged, each by how likely it makes the noisy counts y:

- *Stretches*. After each code a new stretch begins with probability p, one of `CHANGES`. Each stretch has one
  level, of any c alike. The mean of the levels given y is an average over all ways to cut the codes into
  stretches, which a recursion over where they end adds up exactly (as in Barry and Hartigan 1992, with levels
  not below 0).
- *Walks*. Each code differs from the one before by a normal number of standard deviation q times the mean
  count, q one of `STEPS`; a Kalman filter and smoother have the mean of the path.

**Codes without an order**, or of an order too long for this, have a level each. How often each c is meant is
learned from all codes of the attribute together (empirical Bayes, by expectation maximisation).

Where noise is small both end at y; where it hides everything all codes are alike. So a count is moved only as
far as its noise lets it, and a peak that stands out stays.

**Privacy.** Post-processing: released counts come in, and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.release import project_simplex

Floats = NDArray[np.float64]

CHANGES = np.array([0.02, 0.06, 0.15, 0.35, 0.6, 0.85, 0.97])
LEVELS = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
STEPS = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
"""Grids wide enough that no end of them is likely; hardly varied (bench/LOG.md)."""
MIN_CODES, MAX_ORDERED = 3, 256
"""Codes from which on others say anything of one, and ordered codes up to which neighbours are asked: the
work grows by the square."""
PASSES, DOUBT = 30, 0.5
"""Rounds in which it is learned how often each level is meant, and codes that say each is meant alike. Not
varied."""
FIRST_SPREAD = 3.0
"""Standard deviation of a walk's first count over the mean count: about nothing is known of it. Not
varied."""
HALF_LOG = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class Smoothed:
    """Counts as they probably are.

    Args:
        values: In rows, shape [codes].
        variances: Of what is still unknown of each, shape [codes].
    """

    values: Floats
    variances: Floats


def smooth_counts(values: Floats, variances: Floats, ordered: int, rows: float) -> Smoothed:
    """The best guess of an attribute's counts.

    Args:
        values: Noisy counts, shape [codes].
        variances: Of their noise, shape [codes]; nothing is guessed where one of them is 0.
        ordered: How many of the leading codes stand in order. Of an attribute with some the others, such as
            missing values, stay as they are.
        rows: That all counts add up to, about.

    Example:
        >>> noisy = np.array([90.0, 130.0, 70.0, 110.0, 95.0, 105.0, 900.0])
        >>> smooth_counts(noisy, np.full(7, 30.0**2), 7, 1500.0).values.round().tolist()
        [99.0, 101.0, 99.0, 100.0, 100.0, 100.0, 901.0]
    """
    count = ordered or len(values)
    if count < MIN_CODES or variances.min() <= 0.0:
        return Smoothed(values, variances)
    # What these codes hold together: their own sum, and what the others leave of all rows.
    own, left = float(values[:count].sum()), rows - float(values[count:].sum())
    spread, rest = float(variances[:count].sum()), float(variances[count:].sum())
    total = (own * rest + left * spread) / (spread + rest)
    if total < 1.0:
        return Smoothed(values, variances)
    counts, mean = values[:count], total / count
    if ordered and ordered <= MAX_ORDERED:
        weights = 1.0 / variances[:count]
        found, unknown = _average_guesses(counts, weights, mean, CHANGES, LEVELS, STEPS)
    else:
        found, unknown = _learn_levels(counts, np.sqrt(variances[:count]), LEVELS * mean)
    nearest = total * project_simplex(found / total, np.ones(count))
    # Of large counts with hardly any noise rounding leaves more than the noise.
    unknown = np.minimum(unknown, variances[:count])
    return Smoothed(np.concatenate([nearest, values[count:]]), np.concatenate([unknown, variances[count:]]))


@njit(cache=True, nogil=True, error_model="numpy")
def _learn_levels(values: Floats, spread: Floats, levels: Floats) -> tuple[Floats, Floats]:
    """The mean and the variance of the counts of codes without an order, given noisy ones; see the module.

    Args:
        values: Noisy counts, shape [codes].
        spread: Standard deviations of their noise, shape [codes].
        levels: Means of levels, in rows.
    """
    codes, kinds = len(values), len(levels)
    # How likely each level makes each count, the likeliest of a code's being 1.
    likely, first, second = np.empty((codes, kinds)), np.empty((codes, kinds)), np.empty((codes, kinds))
    for i in range(codes):
        for k in range(kinds):
            mass, middle, width = _weigh_level(values[i], spread[i], levels[k])
            likely[i, k] = mass
            first[i, k] = spread[i] * middle
            second[i, k] = spread[i] ** 2 * (middle * middle + width)
        likely[i] = np.exp(likely[i] - likely[i].max())
    shares = np.full(kinds, 1.0 / kinds)
    for _ in range(PASSES):
        meant = np.full(kinds, DOUBT / kinds)
        for i in range(codes):
            own = shares * likely[i]
            meant += own / own.sum()
        shares = meant / meant.sum()
    found, squares = np.zeros(codes), np.zeros(codes)
    for i in range(codes):
        own = shares * likely[i]
        own /= own.sum()
        found[i], squares[i] = (own * first[i]).sum(), (own * second[i]).sum()
    return found, np.maximum(squares - found * found, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _average_guesses(
    values: Floats, weights: Floats, mean: float, changes: Floats, levels: Floats, steps: Floats
) -> tuple[Floats, Floats]:
    """The mean and the variance of the counts of ordered codes, given noisy ones; see the module.

    Args:
        values: Noisy counts, shape [codes].
        weights: 1 / variance of their noise, shape [codes].
        mean: The mean count.
        changes: Probabilities that a stretch ends.
        levels: Means of levels, over the mean count.
        steps: Standard deviations of steps, over the mean count.
    """
    codes, guesses = len(values), len(changes) + len(steps)
    likely = np.empty(guesses)
    first, second = np.empty((guesses, codes)), np.empty((guesses, codes))
    stretches = _weigh_stretches(values, weights, levels * mean)
    for k in range(guesses):
        if k < len(changes):
            likely[k] = _average_cuts(stretches, changes[k], first[k], second[k]) - math.log(len(changes))
        else:
            step = steps[k - len(changes)] * mean
            likely[k] = _follow_walk(values, weights, mean, step, first[k], second[k]) - math.log(len(steps))
    whole = _add_logs(likely)
    found, squares = np.zeros(codes), np.zeros(codes)
    for k in range(guesses):
        share = math.exp(likely[k] - whole)
        found += share * first[k]
        squares += share * second[k]
    return found, np.maximum(squares - found * found, 0.0)


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh_stretches(values: Floats, weights: Floats, levels: Floats) -> Floats:
    """Of each stretch the log of how likely it makes its counts, and the mean of its level and of its square.

    Likelihoods are over the density of noisy counts that are the true ones, so that their logs stay small for
    every guess that is near. Shape [3, codes, codes]; a stretch is [first code, last code].
    """
    codes, kinds = len(values), len(levels)
    found = np.zeros((3, codes, codes))
    logs, means, squares = np.empty(kinds), np.empty(kinds), np.empty(kinds)
    for begin in range(codes):
        precision, mean, squared = 0.0, 0.0, 0.0
        for end in range(begin, codes):
            # The mean of the stretch, and the squares about it, one code after the other.
            step, before = values[end] - mean, precision
            precision += weights[end]
            mean += step * weights[end] / precision
            squared += step * step * weights[end] * before / precision
            variance = 1.0 / precision
            spread = math.sqrt(variance)
            for k in range(kinds):
                mass, middle, width = _weigh_level(mean, spread, levels[k])
                logs[k] = mass - 0.5 * squared
                means[k] = spread * middle
                squares[k] = variance * (middle * middle + width)
            whole = _add_logs(logs)
            found[0, begin, end] = whole - math.log(kinds)
            for k in range(kinds):
                share = math.exp(logs[k] - whole)
                found[1, begin, end] += share * means[k]
                found[2, begin, end] += share * squares[k]
    return found


@njit(cache=True, nogil=True, error_model="numpy")
def _average_cuts(stretches: Floats, change: float, first: Floats, second: Floats) -> float:
    """The log of how likely the counts are if a stretch ends with this probability.

    Args:
        stretches: As from `_weigh_stretches`.
        change: Probability that a stretch ends behind a code.
        first: Takes the mean of each code's level over all cuts, shape [codes].
        second: Takes the mean of its square.
    """
    codes = len(first)
    stay, go = math.log1p(-change), math.log(change)
    # The log of how likely each stretch is with the end behind it, which the last code needs none of.
    logs = np.full((codes, codes), -np.inf)
    for begin in range(codes):
        for end in range(begin, codes):
            last = go if end < codes - 1 else 0.0
            logs[begin, end] = stretches[0, begin, end] + (end - begin) * stay + last
    # Of all cuts of the codes before one, and of those from it on.
    before, behind = np.zeros(codes + 1), np.zeros(codes + 1)
    for end in range(codes):
        before[end + 1] = _add_logs(before[: end + 1] + logs[: end + 1, end])
    for begin in range(codes - 1, -1, -1):
        behind[begin] = _add_logs(logs[begin, begin:] + behind[begin + 1 :])
    # A stretch gives its level to all of its codes: what begins and ends is added up along the codes.
    starts = np.zeros((2, codes + 1))
    for begin in range(codes):
        for end in range(begin, codes):
            share = math.exp(before[begin] + logs[begin, end] + behind[end + 1] - before[codes])
            for k in range(2):
                part = share * stretches[1 + k, begin, end]
                starts[k, begin] += part
                starts[k, end + 1] -= part
    first[:] = np.cumsum(starts[0, :codes])
    second[:] = np.cumsum(starts[1, :codes])
    return float(before[codes])


@njit(cache=True, nogil=True, error_model="numpy")
def _follow_walk(
    values: Floats, weights: Floats, mean: float, step: float, first: Floats, second: Floats
) -> float:
    """The log of how likely the counts are if each differs from the one before by a normal step.

    Args:
        values: Noisy counts, shape [codes].
        weights: 1 / variance of their noise, shape [codes].
        mean: The mean count.
        step: Standard deviation of a step, in rows.
        first: Takes the mean of each count, shape [codes].
        second: Takes the mean of its square.
    """
    codes = len(values)
    middle, variance, likely = mean, (FIRST_SPREAD * mean) ** 2, 0.0
    for i in range(codes):
        noise = 1.0 / weights[i]
        whole, off = variance + noise, values[i] - middle
        # As for stretches, over the density of noisy counts that are the true ones.
        likely += 0.5 * (math.log(noise / whole) - off * off / whole)
        middle += variance / whole * off
        variance *= noise / whole
        first[i], second[i] = middle, variance
        variance += step * step
    # Back from the last code, what comes behind is told to those before.
    for i in range(codes - 2, -1, -1):
        ahead = second[i] + step * step
        gain = second[i] / ahead
        first[i] += gain * (first[i + 1] - first[i])
        second[i] += gain * gain * (second[i + 1] - ahead)
    second += first * first
    return likely


@njit(cache=True, nogil=True, error_model="numpy")
def _weigh_level(value: float, spread: float, level: float) -> tuple[float, float, float]:
    """How likely an exponential count of this mean makes a noisy one, and what it is then.

    The exponential density times the normal one is a normal one of mean value - spread^2 / level, cut at 0.

    Args:
        value: The noisy count.
        spread: Standard deviation of its noise.
        level: The mean count.

    Returns:
        The log of the likelihood over the density of a noisy count that is the true one, and the mean and
        variance of the count given the noisy one, in standard deviations of the noise.
    """
    u = value / spread - spread / level
    if u > -30.0:
        chance = math.log(0.5 * math.erfc(-u / math.sqrt(2.0)))
        ratio = math.exp(-0.5 * u * u - HALF_LOG - chance)
        log = chance + HALF_LOG + math.log(spread / level) - value / level + 0.5 * (spread / level) ** 2
        return log, u + ratio, max(1.0 - ratio * (u + ratio), 0.0)
    # Far below 0 by asymptotic series of Mills' ratio, since all of the above would cancel.
    t = 1.0 / (u * u)
    log = math.log(-1.0 / u * (1.0 - t + 3.0 * t * t - 15.0 * t**3)) + math.log(spread / level)
    return log - 0.5 * (value / spread) ** 2, -1.0 / u * (1.0 - 2.0 * t + 10.0 * t * t), t * (1.0 - 6.0 * t)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_logs(logs: Floats) -> float:
    """The log of the sum of the exponentials."""
    most = logs.max()
    return float(most + math.log(np.exp(logs - most).sum()))
