"""search_values: which texts occur in a column, by a noisy count and a threshold.

**Privacy.** Unit and adjacency: the ledger's; k rows an owner. Think of the histogram over all texts
there are and one cell for missing rows: Gaussian noise on it costs rho (`Gaussian`). Releasing only
cells that both neighbours hold and that pass the threshold is post-processing of it. The true
procedure differs only if a value that one of the two tables lacks (at most k values, k rows in all)
passes, which has probability at most delta by `threshold`. So neighbours are within rho after
events of probability delta: delta-approximate rho-zCDP, and likewise for GDP. Which searches follow, and
with which delta, may depend on earlier answers: the ledger keeps their sum within its share of delta along
every path, so the two procedures differ with at most that probability in all (docs/privacy/accounting.md,
"Searches that are chosen on the way"). Values are returned sorted by name, so their order says nothing about
the rows.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import Gaussian, check_drawable
from margrave.privacy.accounting.events import PartitionEvent
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.release import NoisyMarginal
from margrave.schema.columns import Column, Listed

if TYPE_CHECKING:
    from margrave.protocols import Source

Parts = Iterable[tuple[Sequence[str], NDArray[np.int64]]]
"""Texts and their counts, shape [texts + 1], in parts without a text in common."""


OTHER = "(other)"
"""Label of the code that stands for all values not listed."""

SPREAD, LEAST_MEAN_WEIGHT = 0.15, 0.3
"""How far mean weights of a column's texts differ from each other, about; the least mean reckoned with."""
EVIDENT = 1.0
"""Noise standard deviations from which a value of a public list, not seen otherwise, has a code."""
REST_DEVIATIONS, MOST_REST = 2.0, 0.05
"""Noise standard deviations up to which the values that are not listed count as none, and the most of the
rows that they may then be, with as many deviations. Not measured."""
LEAST_CLEAR = 10.0
"""Noise standard deviations of the rarest listed value up to which others that are rarer yet are likely:
about twice what a value needs to be listed. Not measured."""
MIN_DEVIATIONS = 3.0
"""Noise standard deviations above which a rare kind of value (missing, text) counts as present."""


def count_listed(source: Source, column: str, texts: Sequence[str]) -> NDArray[np.int64]:
    """Rows by listed text, and those without one in the last cell: shape [texts + 1]. **Not private.**"""
    places, result = {text: place for place, text in enumerate(texts)}, np.zeros(len(texts) + 1, np.int64)
    for part, counts in source.value_parts(column):
        held = counts.reveal()
        result[-1] += held[-1]
        # The last cell counts rows without a text; a text that is not listed is in no cell.
        for text, count in zip(part, held[:-1].tolist(), strict=True):
            if text in places:
                result[places[text]] += count
    return result


def threshold(k: int, sigma: float, delta: Fraction, most: int | None = None) -> int:
    """The least noisy count at which a value may be released.

    A value that one owner alone holds counts at most `most`. Both noises satisfy P(Z >= t) <= Q((t - 1) /
    sigma), with Q the normal upper tail: for the discrete Gaussian by Canonne, Kamath and Steinke 2020,
    Proposition 25, for the rounded one since round(X) >= t implies X >= t - 1/2. At most k values can be
    new, so Q((t - 1) / sigma) <= delta / k at t = threshold - most keeps the chance that any passes below
    delta.

    Args:
        k: How many values one owner alone may hold.
        sigma: Standard deviation of the noise.
        delta: The chance that one of them passes, at most.
        most: What one of them counts at most; k, its rows, if left out.
    """
    if not Fraction(1, 10**300) <= delta / k <= Fraction(1, 2):
        raise InputError(invalid("delta", "above 0 to search for unknown values", "Declare the categories."))
    most = k if most is None else most
    # Q's inverse at delta / k, widened by more than its rounding, and rounded up to a whole count.
    return most + 1 + math.ceil(-float(ndtri(float(delta) / k)) * sigma * (1 + 1e-9))


@dataclasses.dataclass(frozen=True, slots=True)
class FoundTexts:
    """The released texts of a column, sorted, and their noisy counts.

    Args:
        texts: The texts.
        values: Their counts, and behind them that of the rows without a text: shape [texts + 1].
        variances: Of the noise of each: shape [texts + 1].
    """

    texts: tuple[str, ...]
    values: NDArray[np.float64]
    variances: NDArray[np.float64]

    def list_for(self, column: Listed, rows: float) -> tuple[Listed, NoisyMarginal]:
        """The column with these values, but for those that are rare, and their counts as a measurement.

        The count of `other` is not seen here: it is left wide open, for `rest_of` to fill in.

        Args:
            column: A column with no declared values.
            rows: A released guess of the row count, for the column's `rare`; the texts are as many at least.
        """
        sigmas, (*counts, absent) = np.sqrt(self.variances), self.values.tolist()
        # The rows are at least as many as the counts that were released say.
        least = column.rare * max(rows, float(self.values.sum()))
        # The dual threshold: three deviations of the noise and `least` rows.
        kept = [
            place
            for place, count in enumerate(counts)
            if least <= 0 or count >= max(3 * float(sigmas[place]), least)
        ]
        texts = tuple(self.texts[place] for place in kept)
        missing = may_be_missing(column, absent, float(sigmas[-1]))
        known = dataclasses.replace(
            column, values=texts, other=_label(set(texts)), missing=missing, strict=False
        )
        return known, _marginal(known, [counts[place] for place in kept], absent, sigmas[[*kept, -1]])

    def merge(
        self,
        texts: tuple[str, ...],
        noisy: NDArray[np.float64],
        sigma: float,
        weighed: Mapping[str, tuple[float, float]],
    ) -> FoundTexts:
        """Released counts of a column's texts, from all looks at it. Post-processing.

        Looks at the same count are weighed by their precision. A text that the search of all columns found
        has a sum of weights of at most 1 a row: over the mean weight of all such texts of the column it is a
        count with less noise than the closer look's, but for how far the texts' own mean weights differ
        (SPREAD). A text of a public list that has not been seen otherwise stays if its count is evident.

        Args:
            texts: All texts of the column, sorted.
            noisy: Their counts in the last look, and behind them that of rows without a text: [texts + 1].
            sigma: Standard deviation of their noise.
            weighed: Texts that the search of all columns found: noisy sum of weights, and its noise.
        """
        # The last value of the counts is that of rows without a text and has no name.
        before = dict(zip(self.texts, zip(self.values, self.variances, strict=False), strict=False))
        counted = dict(zip(texts, noisy.tolist(), strict=False))
        summed = sum(weight for weight, _ in weighed.values())
        mean = summed / max(sum(counted[text] for text in weighed), 1.0) if summed > 0 else 1.0
        # Noise may make the mean larger than any weight or nearly nothing.
        mean = min(max(mean, LEAST_MEAN_WEIGHT), 1.0)
        kept, values, variances = [], [], []
        for text in texts:
            looks = [(counted[text], sigma**2)]
            if text in before:
                looks.append(before[text])
            elif text in weighed:
                weight, noise = weighed[text]
                looks.append((weight / mean, (noise / mean) ** 2 + (SPREAD * weight / mean) ** 2))
            elif counted[text] < EVIDENT * sigma:
                continue
            value, variance = _weigh_looks(looks)
            kept.append(text)
            values.append(value)
            variances.append(variance)
        value, variance = _weigh_looks([(noisy[-1], sigma**2), (self.values[-1], self.variances[-1])])
        return FoundTexts(tuple(kept), np.array([*values, value]), np.array([*variances, variance]))


def _weigh_looks(looks: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean of values by their precision, and its variance."""
    precision = math.fsum(1.0 / variance for _, variance in looks)
    return math.fsum(value / variance for value, variance in looks) / precision, 1.0 / precision


def search_values(
    column: Listed, source: Source, gaussian: Gaussian, ledger: Ledger, rho: Fraction, delta: Fraction
) -> FoundTexts:
    """The values of a text column whose noisy count passes the threshold, and those counts.

    **Privacy.** Costs rho and delta; proof at the head of this file.

    Args:
        column: A column with no declared values.
        source: The private table.
        gaussian: The mechanism.
        ledger: Where the spend is recorded.
        rho: What it may cost of rho; `delta`, of delta.
    """
    what = f"values of {column.name}"
    found, sigma = find_texts(what, lambda: _exact(source, column.name), gaussian, ledger, rho, delta)
    return FoundTexts(found.texts, found.arrays[0], np.full(len(found.arrays[0]), sigma**2))


def find_texts(
    what: str,
    exact: Callable[[], Parts],
    gaussian: Gaussian,
    ledger: Ledger,
    rho: Fraction,
    delta: Fraction,
    *,
    cells: int = 1,
    weight: int = 1,
) -> tuple[Answer, float]:
    """The texts whose noisy count passes the threshold, by name, and the standard deviation of the noise.

    **Privacy.** Costs rho and delta; proof at the head of this file, for any exact answer in which each row
    is in `cells` cells at most, adds `weight` to each at most, and does so by that row and by released things
    alone. With more than one cell or another weight than 1 the caller has to prove the mechanism's
    sensitivity. An owner's k rows alone hold k * cells cells at most, of k * weight each. Each cell gets
    noise of its own, so that it makes no difference how the cells are parted.

    Args:
        what: The search, in public words.
        exact: The texts and their counts, shape [texts + 1], in parts without a text in common, one part at
            least. The last count is that of a public cell, all of it in the first part.
        gaussian: The mechanism.
        ledger: Where the spend is recorded.
        rho: What it may cost of rho; `delta`, of delta.
        cells: In how many cells a row is at most.
        weight: What it adds to each of them at most.
    """
    variance, k = check_drawable(gaussian.sigma_squared(rho)), ledger.neighbours.new_values
    delta = ledger.price_delta(delta)
    bar = threshold(k * cells, math.sqrt(float(variance)), delta, k * weight)
    event = PartitionEvent(what, gaussian.l2_squared, variance, bar, delta, gaussian.rounded)
    found = ledger.ask([event], exact, lambda parts: _passing_values(parts, gaussian, variance, bar))
    # Of the variance that was used: a resumed run may pay less for what comes after its answers.
    return found, gaussian.deviation(variance)


def _exact(source: Source, name: str) -> Parts:
    """All values of a column, and how many rows hold each and none of them, in parts. **Not private.**

    The first part is read at once, so that what keeps a table from being read is found before the spend.
    """
    # Parts are read as they are needed, so that not all texts and counts are held at once.
    parts = ((texts, counts.reveal()) for texts, counts in source.value_parts(name))
    return itertools.chain([next(parts)], parts)


def _passing_values(parts: Parts, gaussian: Gaussian, variance: Fraction, bar: int) -> Answer:
    """The values whose noisy count passes, by name, and the noisy count of rows without one.

    What does not pass is private still: it must not be part of the answer.
    """
    kept: list[tuple[str, float]] = []
    public: list[float] = []
    for texts, counts in parts:
        # Only the first part has the public cell, which is released whatever its noisy count is.
        noisy = gaussian.noisy(counts[: len(texts) + (not public)], variance)
        kept += [
            (texts[place], float(noisy[place]))
            for place in np.flatnonzero(noisy[: len(texts)] >= bar).tolist()
        ]
        public = public or [float(noisy[-1])]
    # Sorted by text, so that the order says nothing of how the table was read.
    kept.sort()
    return Answer((np.array([*(value for _, value in kept), *public]),), tuple(text for text, _ in kept))


def rows_of(totals: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The inverse-variance mean of noisy row counts, and its variance; (0, infinity) for none.

    Args:
        totals: Noisy row counts released on the way, with their variances.
    """
    precision = math.fsum(1.0 / variance for _, variance in totals)
    if precision == 0.0:
        return 0.0, math.inf
    return math.fsum(value / variance for value, variance in totals) / precision, 1.0 / precision


def may_be_missing(column: Column, absent: float, sigma: float) -> bool:
    """Whether values may be missing: as declared, else whether the noisy count of missing rows is evident."""
    return column.missing if column.missing is not None else absent > MIN_DEVIATIONS * sigma


def _label(taken: set[str]) -> str:
    label = OTHER
    while label in taken:
        label = f"({label})"
    return label


def _marginal(
    column: Listed, values: list[float], absent: float, sigmas: NDArray[np.float64]
) -> NoisyMarginal:
    """The listed counts as a measurement; `other` is not seen, so it gets a flat guess and a wide sigma."""
    # Nothing is known of `other` yet: as many rows as all that was listed, give or take, until `rest_of`
    # knows.
    seen = sum(values) + max(absent, 0.0)
    wide = max(seen, float(sigmas[-1]))
    cells = [*values, 0.0, *([absent] if column.missing else [])]
    spread = [*sigmas[:-1], wide, *(sigmas[-1:] if column.missing else [])]
    return NoisyMarginal((column.name,), np.asarray(cells), np.asarray(spread))


def rest_of(marginal: NoisyMarginal, column: Column, totals: Sequence[tuple[float, float]]) -> NoisyMarginal:
    """The marginal with the count of `other` filled in: the noisy row count less the listed counts.

    Post-processing of released numbers. The row count is the inverse-variance mean of the totals.

    Args:
        marginal: A released one-way marginal.
        column: Its column.
        totals: Noisy row counts released on the way, with their variances.
    """
    if not isinstance(column, Listed) or column.other_code is None or not totals:
        return marginal
    rows, variance = rows_of(totals)
    values, sigma = marginal.values.copy(), marginal.sigmas.copy()
    others = np.arange(len(values)) != column.other_code
    values[column.other_code] = rows - values[others].sum()
    # Noise of all listed counts adds to that of the row count.
    sigma[column.other_code] = math.sqrt(variance + float((sigma[others] ** 2).sum()))
    return NoisyMarginal(marginal.clique, values, sigma)


def leave_out_rest(marginal: NoisyMarginal, column: Listed) -> tuple[NoisyMarginal, Listed]:
    """The marginal and the column without a code for values that are not listed, where noise may be all.

    Else rows would be drawn with "(other)" in a column of two values, in as many as there is noise. A row
    that does hold another value gets the first code, or is missing where that is the only one; so it is done
    where all listed values are far from what it takes to be listed. Of a column that nearly always is
    missing, and of which no value is known, the others are missing too. Post-processing of released numbers.

    Args:
        marginal: A released one-way marginal, of `rest_of`.
        column: Its column; it comes back as it is where other values are evident or may be many, where they
            have a shape, and where it would have no code at all.
    """
    code = column.other_code
    if code is None or column.other_shape or column.strict or not (code or column.missing):
        return marginal, column
    rest, spread = float(marginal.values[code]), REST_DEVIATIONS * float(marginal.sigmas[code])
    rows = float(np.maximum(marginal.values, 0.0).sum())
    likely = bool(code) and (
        rest > spread or float((marginal.values / marginal.sigmas)[:code].min()) < LEAST_CLEAR
    )
    if likely or max(rest, 0.0) + spread > MOST_REST * rows:
        return marginal, column
    values, sigmas = np.delete(marginal.values, code), np.delete(marginal.sigmas, code)
    return NoisyMarginal(marginal.clique, values, sigmas), dataclasses.replace(column, other=None)
