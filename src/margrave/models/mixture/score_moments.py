"""Score moments: numbers that say whether two attributes rise together, which a mixture is asked for.

Each code has a score u, and the moment of a pair of attributes is

    r = sum over cells (a, b) of u_a u_b T_ab

of its table T in proportions. What is known of it, t with variance V, is a term of the mixture's objective,

    sum over pairs of weight (r - t)^2 / V.

*Rank moments* of measured pairs. An attribute with ordered codes gives each of them its mid-rank under the
one-way, centred, with variance 1; codes outside of the order have 0. r is the rank correlation (Spearman
1904), up to the noise on the one-ways. A penalty for each nat of dependence draws it towards 0 with
everything else. But it is one number out of hundreds of cells, and noise moves it little: by V = sum of
(u_a u_b)^2 variance_ab. So it is asked for by itself, with MOMENT_WEIGHT, and t = r' max(1 - V / r'^2, 0)
with r' of the noisy table. t is the non-negative garrotte (Breiman 1995): what noise alone would explain
counts as 0. The residuals of single cells hold the same term with weight 1 and without the garrotte.

*Rank products* of pairs, measured by themselves (`margrave.release.RankProduct`): scores are ranks between
-1 and 1. They are measurements as tables are, so they have weight 1, and t is what was measured.

Post-processing of releases throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.compiled import compile_summing
from margrave.models._mixture.stacked import Stacked
from margrave.release import mid_ranks

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

MOMENT_WEIGHT = 10.0
"""How much a rank moment counts beside its cells. 0 (none), 3, 10, 30 and 100 on the choosing half: pairs and
triples are nearest at 10, and dependence and rank correlations kept rise up to 30 (bench/LOG.md)."""
MIN_SPREAD = 1e-3
"""Standard deviation of the mid-ranks below which nearly all rows have one code, and codes have no scores."""
MIN_VARIANCE = 1e-20
"""Of a moment: keeps weights within single precision where there is next to no noise."""


@dataclass(frozen=True, slots=True)
class ScoreMoments:
    """What is asked of a mixture's moments of one kind of scores.

    Args:
        scores: u of each code, shape [codes].
        starts: Where each attribute's codes begin, and their number at the end, shape [attributes + 1].
        targets: t, symmetric, shape [attributes, attributes].
        weights: weight / V, symmetric, 0 where nothing is known of a moment.
    """

    scores: Singles
    starts: Longs
    targets: Singles
    weights: Singles

    def pull(self, gradient: Singles, shares: Singles, weights: Singles) -> float:
        """Add the derivative by the shares, over the components' weights, to `gradient`; return the value.

        As that of pairs, it is the derivative from both sides of each pair.

        Args:
            gradient: Shape [codes, components].
            shares: Q, of the same shape.
            weights: w, shape [components].
        """
        means = sum_scores(shares, self.scores, self.starts)
        miss = (means * weights) @ means.T - self.targets
        pull = self.weights * miss
        add_scores(gradient, self.scores, self.starts, np.float32(2.0) * (pull @ means))
        # Every pair stands twice, hence the half.
        return 0.5 * float((pull * miss).sum(dtype=np.float64))

    def without(self, members: Sequence[int]) -> ScoreMoments:
        """Those but of pairs of two of these attributes."""
        weights = self.weights.copy()
        weights[np.ix_(members, members)] = 0.0
        return replace(self, weights=weights)

    def within(self, members: Sequence[int]) -> ScoreMoments:
        """Those of pairs of two of these attributes, with codes of these alone."""
        parts = [self.scores[self.starts[i] : self.starts[i + 1]] for i in members]
        inside = np.ix_(members, members)
        return ScoreMoments(
            np.concatenate(parts),
            np.cumsum([0, *map(len, parts)]),
            self.targets[inside].copy(),
            self.weights[inside].copy(),
        )

    @property
    def empty(self) -> bool:
        """Whether nothing is asked."""
        return not self.weights.any()


def find_score_moments(stacked: Stacked, weight: float = MOMENT_WEIGHT) -> list[ScoreMoments]:
    """Rank moments and rank products, where there are any; see `find_rank_moments`."""
    found = [find_rank_moments(stacked, weight)]
    if stacked.products is not None:
        known = stacked.products
        found.append(ScoreMoments(known.scores, stacked.starts, known.values, known.weights))
    return [moments for moments in found if not moments.empty]


def find_rank_moments(stacked: Stacked, weight: float = MOMENT_WEIGHT) -> ScoreMoments:
    """The rank moments of all measured pairs of two ordered attributes that no rule ties together.

    Args:
        stacked: The measurements.
        weight: How much a moment counts beside its cells; 0 asks for none.
    """
    scores = np.zeros(stacked.codes)
    for place in range(stacked.attributes):
        start, ordered = int(stacked.starts[place]), int(stacked.ordered[place])
        scores[start : start + ordered] = score_codes(stacked.one_way(place)[:ordered])
    found, variances = _measure_moments(
        stacked.pairs, stacked.apart, scores, stacked.starts, stacked.inferred
    )
    known = variances > 0.0
    variances = np.maximum(variances, MIN_VARIANCE)
    targets = found * np.maximum(1.0 - variances / np.maximum(found**2, MIN_VARIANCE), 0.0)
    weights = np.where(known, weight / variances, 0.0)
    return ScoreMoments(
        scores.astype(np.float32), stacked.starts, targets.astype(np.float32), weights.astype(np.float32)
    )


def score_codes(one_way: Floats) -> Floats:
    """Mid-ranks of ordered codes, centred and scaled to variance 1 under their one-way, shape [codes].

    All 0 where next to all rows have one code.

    Args:
        one_way: Noisy shares of the codes in order; negative ones count as 0.
    """
    shares = np.maximum(np.asarray(one_way, dtype=np.float64), 0.0)
    whole = float(shares.sum())
    if whole <= 0.0:
        return np.zeros(len(shares))
    ranks, shares = mid_ranks(shares), shares / whole
    ranks -= float(shares @ ranks)
    spread = float(np.sqrt(shares @ ranks**2))
    return ranks / spread if spread >= MIN_SPREAD else np.zeros(len(shares))


@compile_summing
def _measure_moments(
    pairs: Singles, weights: Singles, scores: Floats, starts: Longs, unmeasured: NDArray[np.bool_]
) -> tuple[Floats, Floats]:
    """The noisy moments of all pairs, and their variances, symmetric; both 0 where a cell is not measured."""
    count = len(starts) - 1
    found, variances = np.zeros((count, count)), np.zeros((count, count))
    for i in range(count):
        for j in range(i + 1, count):
            if unmeasured[i, j]:
                continue
            moment = variance = 0.0
            whole = True
            for a in range(starts[i], starts[i + 1]):
                for b in range(starts[j], starts[j + 1]):
                    both = scores[a] * scores[b]
                    if both != 0.0:
                        whole = whole and weights[a, b] > 0.0
                        if whole:
                            moment += both * pairs[a, b]
                            variance += both * both / weights[a, b]
            if whole:
                found[i, j] = found[j, i] = moment
                variances[i, j] = variances[j, i] = variance
    return found, variances


@compile_summing
def sum_scores(shares: Singles, scores: Singles, starts: Longs) -> Singles:
    """Each attribute's mean score in each component, shape [attributes, components]."""
    components = shares.shape[1]
    means = np.zeros((len(starts) - 1, components), shares.dtype)
    for i in range(len(starts) - 1):
        for c in range(starts[i], starts[i + 1]):
            if scores[c] != 0.0:
                for k in range(components):
                    means[i, k] += scores[c] * shares[c, k]
    return means


@compile_summing
def add_scores(gradient: Singles, scores: Singles, starts: Longs, pulls: Singles) -> None:
    """Add each attribute's pull, shape [attributes, components], times the score to its codes' lines."""
    components = gradient.shape[1]
    for i in range(len(starts) - 1):
        for c in range(starts[i], starts[i + 1]):
            if scores[c] != 0.0:
                for k in range(components):
                    gradient[c, k] += scores[c] * pulls[i, k]
