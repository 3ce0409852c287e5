"""Shrinkage: how far noisy tables move the model's coefficients.

Models that are fitted under noise have associations too weak, so that what the tables of a feature and the
target say beyond the model (`Comparison.compare`) is worth much; but a part of it is noise. How large a
part is learned from all features together.

The differences of a feature are d = s + e, where the variances v of the noise e are known. Their signal s is
normal around 0 with variances r v, where the ratio r is the feature's own: 0 where the model is right, large
where it misses much. How often which ratio occurs is learned from all features at once, as weights on a grid
of ratios that make the differences most likely (Kiefer and Wolfowitz 1956; Stephens 2017, section 2, whose
grid of variances and whose penalty this is). The expected share of the signal is then the posterior mean of
r / (1 + r). So one number that noise alone could explain moves nothing where no other feature moves, and
moves nearly as a whole where most features do.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from margrave.regression.comparison import Comparison, Sharpened
from margrave.regression.likelihood import Line
from margrave.regression.sums import sum_squares

Floats = NDArray[np.float64]

RATIOS = np.concatenate([[0.0], np.geomspace(0.1, 1e4, 21)])
"""Variances of the signal in those of the noise, near enough to each other for any between them."""
ROUNDS = 200
"""Steps of expectation and maximisation."""
NO_SIGNAL = 10.0
"""Features without any signal that are counted beside the real ones, where signal is unlikely beforehand; the
penalty of Stephens (2017)."""
LEAST_NOISE = 1e-6
"""Variance of moved X'y, in that of the unbiased one, below which nothing is taken for surer."""
MOST_NOISE = 0.5
"""Share of its noise that a table keeps at most where the nearest one without cells below 0 stands for it.
With all features that are sharpened in place of these errors of the choosing half were 3 % larger, with none
those of Adult, where one column determines the target, twice as large (bench/LOG.md, 2026-11-26)."""

DETERMINED = 0.9
"""Share of the target's variance that one feature explains alone from which it determines the target. On
tables of the choosing half the largest is .05 to .81 where sums help (.97 in one release of forty), and .98
to 1 on claims-a, where they do not; not varied (bench/LOG.md, 2026-11-30, late)."""


def move_coefficients(
    compared: Comparison,
    labelled: Floats,
    at: tuple[Line, Floats],
    size: float,
    sharp: Sharpened,
) -> Floats:
    """How far X'y of noisy tables moves the model's coefficients, shape [p].

    X'X of two features moves by the expected signal in what their table says (`estimate_shares`); that of one
    feature by what tables of one column say, if all pairs were measured. Two features that no table holds are
    taken to depend on each other through the target alone, beyond what the model has. Without this what moves
    X'y of two columns that are alike would count twice.
    X'y of each feature follows the moved X'X of pairs first, as if the coefficients were right, so that what
    the model has as one distribution stays one. Then it moves by the expected signal in what tables say
    beyond that, those by cells that hold rows of the model first and what they leave next; or to that of its
    sharpened table, where that is surer (Comparison.sharpen).
    The change c of the coefficients is then the most likely one if H c is observed with the noise of X'y and
    with that of X'X of pairs times the coefficients, that of pairs which sums alone tell among it, and the
    change from one end of a column's range to the other is normal around 0 with standard deviation `size`. So
    combinations of columns of little weight, and levels that few rows have, do not turn noise into large
    coefficients.

    Args:
        compared: What was measured against the model.
        labelled: X'y of the model, shape [p].
        at: Where the model's coefficients stand, and minus the derivative of the score there, shape [p, p].
        size: In units of the linear predictor.
        sharp: What tables that are not below 0 say.
    """
    (line, hessian), design = at, compared.design
    crossed, left = _move_features(compared)
    follows = crossed @ line.gamma, left @ line.gamma**2
    moved, variance = _move_products(compared, sharp, follows)
    linked, unknown = _link_missing(compared, labelled, labelled + moved)
    variance = np.where(variance > 0.0, variance + unknown @ line.gamma**2, 0.0)
    beyond = crossed + linked
    if design.whole and not compared.missing_pairs:
        beyond = beyond + compared.correction()
    free = design.free[variance[design.free] > 0.0]
    scale = 1.0 / design.ranges[free]
    inner = (hessian + line.beta * beyond)[np.ix_(free, free)] * np.outer(scale, scale)
    whitened = inner / (scale**2 * variance[free])
    wanted = whitened @ (scale * (moved - beyond @ line.gamma)[free])
    change = np.zeros(design.size)
    change[free] = scale * np.linalg.solve(whitened @ inner + np.eye(len(free)) / size**2, wanted)
    return change


def _move_products(
    compared: Comparison, sharp: Sharpened, follows: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """How far X'y moves, shape [p], and the variances of its noise, 0 where nothing was measured, [p].

    Where one feature determines the target, by its nearest table, sums of products are left out: what numbers
    explain beyond that is next to nothing, and sums would hold their coefficients where the model has them
    (bench/LOG.md, 2026-11-30, evening and late).

    Args:
        compared, sharp: As of `move_coefficients`.
        follows: How far X'y moves with X'X alone, and the variances of what is left unknown of that: shape
            [p] each.
    """
    (expected, left), design = follows, compared.design
    found = compared.compare()
    plain = found.weighted_noise + found.rest_noise + 2.0 * found.shared_noise
    groups = [slice(0, 1), *map(design.places, range(len(design.names)))]
    sure = np.zeros(design.size, dtype=np.bool_)
    for own in groups:
        noise = float(sharp.variances[own].sum())
        sure[own] = sharp.beyond[own].any() and noise <= MOST_NOISE * float(plain[own].sum())
    if not sure.any() and sharp.explained < DETERMINED:
        compared.add_sums(found)
        plain = found.weighted_noise + found.rest_noise + 2.0 * found.shared_noise
    unsettled = ~sure & (found.weighted_noise > 0.0)
    off = found.weighted - expected
    shares = estimate_shares(off, np.where(unsettled, found.weighted_noise + left, 0.0), groups)
    rest = estimate_shares(found.rest, np.where(sure, 0.0, found.rest_noise), groups, NO_SIGNAL)
    moved = np.where(sure, sharp.moved, expected + shares * off + rest * found.rest)
    variance = found.weighted_noise + rest**2 * found.rest_noise + 2.0 * rest * found.shared_noise
    variance = np.where(found.weighted_noise > 0.0, variance, plain)
    variance = np.where(sure, np.minimum(sharp.variances, plain), variance)
    variance = np.maximum(variance, LEAST_NOISE * plain)
    return moved, np.where(variance > 0.0, variance + left, 0.0)


def _move_features(compared: Comparison) -> tuple[Floats, Floats]:
    """How far X'X of pairs of features moves, by the expected signal in what tables say, and the variances of
    what that leaves unknown: of shape [p, p] both, 0 where no table holds the pair.

    A normal signal of which a share is expected has that share of the noise's variance left.
    """
    found, left = np.zeros((2, compared.design.size, compared.design.size))
    blocks = compared.compare_features()
    if not blocks:
        return found, left
    ends = np.cumsum([0, *(block.off.size for block in blocks)])
    groups = [slice(start, end) for start, end in pairwise(ends.tolist())]
    off, noise = (
        np.concatenate([part.ravel() for part in parts])
        for parts in ([block.off for block in blocks], [block.noise for block in blocks])
    )
    shares = estimate_shares(off, noise, groups)
    for whole, parts in ((found, shares * off), (left, shares * noise)):
        for block, own in zip(blocks, groups, strict=True):
            whole[block.rows, block.columns] = parts[own].reshape(block.off.shape)
            whole[block.columns, block.rows] = whole[block.rows, block.columns].T
    return found, left


def _link_missing(compared: Comparison, before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """What moving X'y adds to X'X of pairs of features that no table holds, and the variances of what that
    leaves unknown: of shape [p, p] both.

    Two columns that depend on each other through the target alone have the product of their X'y over the sum
    of the target's squares. Where a sum tells X'X of such a pair, it moves on by the expected signal in what
    the sum says beyond that. Then the whole variance of the sum's noise is left unknown: a share of it, as
    `_move_features` has, is that of a share known exactly, and hundreds of pairs each moved a little by noise
    make X'X nearly singular, so that X'y must not be followed as if X'X were known (bench/LOG.md, 2026-11-30,
    late). Of a pair without a sum 0 is said to be unknown.

    Args:
        compared: As of `move_coefficients`.
        before, after: X'y of the model, and as it is moved: shape [p] each.
    """
    design = compared.design
    found, left = np.zeros((2, design.size, design.size))
    squares = sum_squares(design, compared.model)
    features = {name: design.places(j) for j, name in enumerate(design.names)}
    for one, two in compared.missing_pairs:
        if squares > 0.0 and one in features and two in features:
            a, b = features[one], features[two]
            found[a, b] = (np.outer(after[a], after[b]) - np.outer(before[a], before[b])) / squares
            found[b, a] = found[a, b].T
    sums = compared.sums_alone()
    off = np.array([product.off - found[product.places] for product in sums])
    noise = np.array([product.noise for product in sums])
    shares = estimate_shares(off, noise, [slice(k, k + 1) for k in range(len(sums))])
    for product, moved in zip(sums, shares * off, strict=True):
        found[product.places] += moved
        found[product.places[::-1]] = found[product.places]
        left[product.places] = left[product.places[::-1]] = product.noise
    return found, left


def estimate_shares(off: Floats, noise: Floats, groups: Sequence[slice], prior: float = 0.0) -> Floats:
    """The expected share of signal in differences, one share a group: shape [p].

    Args:
        off: Differences, shape [p].
        noise: Variances of their noise, shape [p]; where it is 0 nothing is known and the share is 0.
        groups: Places of the differences that have a ratio in common.
        prior: How many groups without a signal are counted beside these.
    """
    shares = np.zeros(len(off))
    places = [np.arange(group.start, group.stop)[noise[group] > 0.0] for group in groups]
    places = [own for own in places if len(own)]
    if not places:
        return shares
    squares = np.array([float((off[own] ** 2 / noise[own]).sum()) for own in places])
    sizes = np.array([len(own) for own in places])
    heights = -0.5 * (sizes[:, None] * np.log1p(RATIOS) + squares[:, None] / (1.0 + RATIOS))
    likelihood = np.exp(heights - heights.max(axis=1, keepdims=True))
    weights = np.full(len(RATIOS), 1.0 / len(RATIOS))
    for _ in range(ROUNDS):
        held = _weigh(likelihood, weights).sum(axis=0)
        held[0] += prior
        weights = held / held.sum()
    found = _weigh(likelihood, weights) @ (RATIOS / (1.0 + RATIOS))
    for own, share in zip(places, found, strict=True):
        shares[own] = share
    return shares


def _weigh(likelihood: Floats, weights: Floats) -> Floats:
    """The probability of each ratio given each group's differences, shape [groups, ratios]."""
    found = likelihood * weights
    return np.asarray(found / found.sum(axis=1, keepdims=True))
