"""Numbers that a release tells, and ratios of linear functions of its tables, with intervals.

The noise of released tables is Gaussian with a known covariance. So the interval of a ratio of two linear
functions of them is that of a ratio of normal variables (Fieller 1954), exact for the private table whatever
the noise. The interval of a difference of two groups' quantiles holds all differences of pairs of bins that
the counts do not contradict together, see `margrave.tables.quantities`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from margrave.errors import InputError, invalid

Floats = NDArray[np.float64]
Of = Literal["population", "table"]


@dataclass(frozen=True, slots=True)
class NumberEstimate:
    """A number that a release tells, with its uncertainty.

    Args:
        value: The estimate, unbiased but for being kept inside the column's range.
        standard_error: Of value; infinite where the noise hides how many rows there are, or how far out some
            of them are. Where an interval is longer on one side it is the root mean square of both sides'.
        interval: Lower and upper confidence limit.
        level: Of the interval.
    """

    value: float
    standard_error: float
    interval: tuple[float, float]
    level: float = 0.95

    def __str__(self) -> str:
        lower, upper = self.interval
        return f"{self.value:.6g} ({100 * self.level:g} % interval {lower:.6g} to {upper:.6g})"


@dataclass(frozen=True, slots=True)
class QuantileBins:
    """How far counts contradict that a quantile is in a bin.

    Args:
        least, greatest: The bins' ranges in order, shape [bins].
        against: t^2 of the head of `margrave.tables.quantities`, shape [bins]; 0 in one bin at least.
    """

    least: Floats
    greatest: Floats
    against: Floats

    def find_differences(self, other: QuantileBins, level: float) -> tuple[float, float]:
        """Limits of this quantile less another group's; see the head of `margrave.tables.quantities`.

        Args:
            other: Of a group that shares no row with this one.
            level: Probability, at least, that the limits hold the difference.
        """
        most = -2.0 * math.log1p(-level)
        mine, theirs = np.nonzero(self.against[:, None] + other.against[None, :] <= most)
        lower = (self.least[mine] - other.greatest[theirs]).min()
        return float(lower), float((self.greatest[mine] - other.least[theirs]).max())


@dataclass(frozen=True, slots=True, repr=False)
class GroupEstimates(Mapping[str, NumberEstimate]):
    """An estimate for each level of a column, and their differences.

    Args:
        groups: By the level's label.
        covariance: Of the estimates, in the order of groups, infinite for one whose rows noise hides; None
            for quantiles.
        span: The largest difference there can be.
        bins: Of quantiles, in the order of groups.
    """

    groups: Mapping[str, NumberEstimate]
    covariance: Floats | None = field(default=None)
    span: float = math.inf
    bins: tuple[QuantileBins, ...] = ()

    def __getitem__(self, label: object) -> NumberEstimate:
        """The estimate of a group, by its label, or by a number or truth value whose text that is.

        Raises:
            InputError: There is no such group.
        """
        return self.groups[self._find(label)]

    def _find(self, label: object) -> str:
        text = str(label)
        if isinstance(label, bool):
            text = next((own for own in self.groups if own.casefold() == text.casefold()), text)
        if text not in self.groups:
            remedy = "Check the spelling."
            raise InputError(invalid("group", f"one of {list(self.groups)}", remedy, got=label))
        return text

    def __contains__(self, label: object) -> bool:
        """Whether there is such a group."""
        return self.get(label) is not None

    def get(self, label: object, default: Any = None) -> Any:
        """The estimate of a group, and what is given instead where there is none."""
        try:
            return self[label]
        except InputError:
            return default

    def __iter__(self) -> Iterator[str]:
        """Labels of the groups."""
        return iter(self.groups)

    def __len__(self) -> int:
        """How many groups there are."""
        return len(self.groups)

    def difference(self, first: object, second: object) -> NumberEstimate:
        """The first group's number less the second's.

        The interval is normal for means and shares; for quantiles it is made of whole bins, and holds the
        difference at least as often as its level says (proved at the head of `margrave.tables.quantities`).

        Raises:
            InputError: There is no such group.
        """
        one, other = self[first], self[second]
        a, b = (list(self.groups).index(self._find(label)) for label in (first, second))
        if self.covariance is None:
            if a == b:
                return NumberEstimate(0.0, 0.0, (0.0, 0.0), one.level)
            limits = self.bins[a].find_differences(self.bins[b], one.level)
            value = min(max(one.value - other.value, limits[0]), limits[1])
            error = math.hypot(one.standard_error, other.standard_error)
            return NumberEstimate(value, error, limits, one.level)
        covariance = self.covariance
        known = math.isfinite(covariance[a, a]) and math.isfinite(covariance[b, b])
        square = float(covariance[a, a] + covariance[b, b] - 2.0 * covariance[a, b]) if known else math.inf
        error = math.sqrt(max(square, 0.0))
        value, wide = one.value - other.value, normal_quantile(one.level) * error
        limits = (max(value - wide, -self.span), min(value + wide, self.span))
        return NumberEstimate(value, error, limits, one.level)

    def __repr__(self) -> str:
        return "\n".join(f"{label}: {estimate}" for label, estimate in self.groups.items())


def normal_quantile(level: float) -> float:
    """Standard deviations to either side within which a normal variable lies with a probability."""
    return float(ndtri(0.5 + level / 2.0))


def check_question(of: str, level: float) -> None:
    """Find what is asked of and the level to be such.

    Raises:
        InputError: One is not.
    """
    if of not in get_args(Of):
        raise InputError(invalid("of", f"one of {list(get_args(Of))}", "Pick one.", got=of))
    if not isinstance(level, float) or not 0.0 < level < 1.0:
        raise InputError(invalid("level", "above 0 and below 1", "Try level=0.95.", got=level))


def find_limits(
    sums: Floats, noise: Floats, place: int, count: int, level: float
) -> tuple[float, float, float, float]:
    """A ratio N / D, its standard error and its limits: all x with (N - x D)^2 at most z^2 times its
    variance."""
    n, d = float(sums[place]), float(sums[count + place])
    v, c, w = noise[place, place], noise[place, count + place], noise[count + place, count + place]
    square = normal_quantile(level) ** 2
    first, second, third = d * d - square * w, n * d - square * c, n * n - square * v
    if first <= 0.0 or d <= 0.0:
        return (n / d if d > 0.0 else 0.0), math.inf, -math.inf, math.inf
    ratio = n / d
    error = math.sqrt(max(float(v - 2.0 * ratio * c + ratio * ratio * w), 0.0)) / d
    root = math.sqrt(max(float(second * second - first * third), 0.0))
    return ratio, error, float((second - root) / first), float((second + root) / first)


def find_covariance(sums: Floats, noise: Floats, count: int) -> Floats:
    """Covariance of ratios to first order: shape [groups, groups]."""
    d = np.where(sums[count:] > 0.0, sums[count:], np.inf)
    slope = np.hstack([np.diag(1.0 / d), np.diag(-sums[:count] / d**2)])
    return np.asarray(slope @ noise @ slope.T)
