"""The exponential mechanism, drawn exactly."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.privacy.noise.sampling import Cumulated, LazyUniform, exp_bounds, invert
from margrave.privacy.noise.source import BitSource


def exponential(
    scores: NDArray[np.float64], epsilon: Fraction, sensitivity: Fraction, source: BitSource
) -> int:
    """An index i with probability exactly proportional to exp(epsilon * scores[i] / (2 * sensitivity)).

    McSherry and Talwar 2007. Scores are taken as the exact binary fractions they are. One uniform
    is inverted through the cumulated weights in floating point; where it falls within the proven error
    of a boundary, exact arithmetic with more random bits decides.

    Args:
        scores: Finite numbers, shape [candidates].
        epsilon: At least 0.
        sensitivity: Of the scores, above 0.
        source: Where random bits come from.

    Returns:
        The index drawn.

    Raises:
        InputError: There is no score, one is not finite, or epsilon or sensitivity is out of range.

    Example:
        >>> from margrave.privacy.noise.source import SecureSource
        >>> exponential(np.array([0.0, 1e6]), Fraction(1), Fraction(1), SecureSource())
        1
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or not len(scores) or not np.isfinite(scores).all():
        raise InputError(invalid("scores", "one or more finite numbers", "Leave the others out."))
    rate = _positive("epsilon", epsilon, zero=True) / (2 * _positive("sensitivity", sensitivity))
    return _draw(scores, rate, source, 1.0)


def _draw(scores: NDArray[np.float64], rate: Fraction, source: BitSource, widen: float) -> int:
    """The index, with the error bound multiplied by `widen`: more than 1 sends draws down the exact path.

    Error of the partial sums, in units of the total W. The gap s_max - s_i and its product with the rate
    are off by 2^-51 relative, exp by 2^-50 (4 ulp): a weight w = exp(-x) by w (x 2^-51 + 2^-50) <= 2^-49
    and n of them, W being at least 1, by n 2^-49. Adding n numbers one by one costs n 2^-53. The
    uniform is cut to 53 bits. Both sides together stay below (n + 4) 2^-47.
    """
    word = int(source.words(1)[0])
    uniform = LazyUniform(word, 64, source)
    # A rate beyond the range of floats becomes infinite, which sends the draw down the exact path below.
    speed = float(rate) if rate < 2**1000 else np.inf
    # In floating point first: the index is certain wherever the draw is further from both neighbours' sums
    # than all rounding together. Doubtful draws go on with more bits of the same uniform number, so that no
    # draw is thrown away or made twice.
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        gaps = (scores.max() - scores) * speed
        normal = np.isfinite(gaps).all() and (speed > 2.0**-1000 or rate == 0)
    # Gaps that overflowed or a rate too small to be represented go the exact way at once.
    if normal:
        sums = np.cumsum(np.exp(-gaps))
        target = (word >> 11) * 2.0**-53 * sums[-1]
        # Bounds of docs/privacy/noise.md, scaled to the sum of the weights.
        error = (len(scores) + 4) * 2.0**-47 * sums[-1] * widen
        index = int(np.searchsorted(sums, target, side="right"))
        inside = index < len(sums) and sums[index] - target > error
        if inside and (index == 0 or target - sums[index - 1] > error):
            return index
    return invert(uniform, lambda bits: _cumulate_weights(scores, rate, bits))


def _cumulate_weights(scores: NDArray[np.float64], rate: Fraction, bits: int) -> Cumulated:
    """Bounds on the partial sums of the weights, in units of 2^-bits."""
    exact = [Fraction(float(score)) for score in scores]
    top = max(exact)
    bounds = [exp_bounds((top - score) * rate, bits) for score in exact]
    low = list(accumulate(bound[0] for bound in bounds))
    high = list(accumulate(bound[1] for bound in bounds))
    return Cumulated(low, high, low[-1], high[-1])


def _positive(name: str, value: Fraction, *, zero: bool = False) -> Fraction:
    """The value as a fraction, once checked."""
    exact = isinstance(value, int | Fraction) and not isinstance(value, bool)
    if not exact or value < 0 or (value == 0 and not zero):
        bound = "at least 0" if zero else "above 0"
        raise InputError(invalid(name, f"an int or Fraction {bound}", "Wrap it in Fraction.", got=value))
    return Fraction(value)
