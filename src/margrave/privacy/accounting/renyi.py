"""Renyi divergences at one order: of Gaussian noise on samples of the rows, and of perturbed objectives.

The first part is the divergence of Gaussian noise on sums over Poisson samples of the rows, and what
(epsilon, delta) allows at an order; the second that of objective perturbation, for losses of one number of a
row, and the ridge that it needs. Each has its theorem here.

**Samples of the rows.** A step takes every row with probability q, by itself, adds up integer vectors of L2
norm s at most, one a row taken, and adds N(0, sigma^2) to every number (rounded to integers afterwards, which
is post-processing).

**Theorem** (Mironov, Talwar and Zhang 2019, Theorems 4 and 5, section 3.3). For tables that differ by one row
that comes or goes, and a whole order a >= 2, both Renyi divergences between the two answers are at most
R(a) = ln A / (a - 1) with

    A = sum over k = 0..a of C(a, k) (1 - q)^(a-k) q^k exp(k (k - 1) s^2 / (2 sigma^2)).

*Proof in short.* Give all rows but the one that differs, x, their coins first; given these the two answers
are Q = N(c, sigma^2 I) and P = (1 - q) N(c, sigma^2 I) + q N(c + v, sigma^2 I), with v what x adds, |v| <=
s. Mixing over the other rows' coins cannot raise the divergence (quasi-convexity). Only the direction of v
matters, so both are one-dimensional, and the divergence grows with |v|. Then E_Q[(P/Q)^a] = E_Q[((1 - q) +
q w)^a] with w = exp((2 |v| z - |v|^2) / (2 sigma^2)), whose k-th moment under Q is exp(k (k - 1) |v|^2 / (2
sigma^2)): the binomial sum. The other direction is smaller: Theorem 5 there. ∎

The proof needs that a row decides by itself what it adds: not where it stands, nor with whom. Random numbers
used for a row may be given out by its place in the sample if they are independent, alike and unknown:
then the law of the sum is that of rows with numbers of their own. It needs add_remove neighbours: where a row
is replaced the two answers are two mixtures, and their divergence is larger.

As binomial probabilities add up to 1, A - 1 is the sum over k >= 2 of the same terms with exp(...) - 1: all
are positive, nothing cancels, and `decimal` rounds every operation correctly.

**Perturbed objectives.** Released is the minimiser theta of J(theta; D) = sum over rows of l(theta'x_r, y_r)
+ (Lambda / 2) ||theta||^2 + b'theta with b ~ N(0, sigma^2 I). Each l is convex and twice continuously
differentiable in s = theta'x, with |l'| <= 1 and l'' <= h, and ||x|| <= R. At most m rows differ between
neighbours D and D', of which at most k are in D alone and at most k in D' alone: m = k under add_remove, 2 k
under replace_one.

**Theorem.** For every order a > 1 the Renyi divergence of theta on D from theta on D' is at most

    k ln(1 + h R^2 / Lambda) + a (m R)^2 / (2 sigma^2) + m ln 2 / (a - 1).

*Proof.* J is strongly convex and smooth, so that theta and b = b(theta; D) = -(sum of l' x + Lambda theta)
are functions of each other, one-to-one and continuously differentiable, and theta has the density p(theta;
D) = phi(b(theta; D)) det H(theta; D), with phi that of b and H >= Lambda I the Hessian of J. Write g for
the sum of l' x over the rows of D alone less that over the rows of D' alone, at theta: b(theta; D') =
b(theta; D) + g, and g is a sum of m terms c_i x_i with |c_i| <= 1 whose directions x_i do not depend on
theta. So

    ln p(theta; D) / p(theta; D') = (||b + g||^2 - ||b||^2) / (2 sigma^2) + ln det H(D) / det H(D')
        <= (sum of |b'x_i|) / sigma^2 + (m R)^2 / (2 sigma^2) + ln det H(D) / det H(D').

H(D) is H of the rows in both, plus at most k matrices l'' xx', each of which multiplies the determinant by
1 + l'' x'H^-1 x <= 1 + h R^2 / Lambda, and H(D') is no smaller than H of the rows in both: the last term is
at most k ln(1 + h R^2 / Lambda). On D the vector b is N(0, sigma^2 I). exp(t |z|) <= exp(t z) + exp(-t z),
so E exp((a - 1) sum |b'x_i| / sigma^2) is at most the sum over 2^m signs of E exp((a - 1) b'(sum of +-x_i)
/ sigma^2) <= exp((a - 1)^2 (m R)^2 / (2 sigma^2)). The divergence is ln E_D[(p(theta; D) / p(theta; D'))^(a
- 1)] / (a - 1); adding up gives the bound, with (a - 1 + 1) = a in the middle term. D and D' may be
exchanged. ∎

For one row that comes or goes this is the bound of Redberg, Koskela and Wang (2023, arXiv 2401.00583), whose
expectation of exp((a - 1) |z|) is bounded by twice that of exp((a - 1) z). The classical constants (Kifer,
Smith and Thakurta 2012, Theorem 2; Ferrando and Sheldon 2025, Algorithm 6) have two to three times the noise.
The minimiser must be exact: what a solver leaves is for whoever releases it
(`measure.mechanisms.regression.perturb`).
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from margrave.errors import InputError, invalid
from margrave.privacy.unit import Neighbours

LARGEST_ORDER = 1024
"""The largest order that is accounted for: each order costs that many terms of 100 digits."""
_DIGITS = 100
"""Decimal digits of the sum; `sampled_divergence` says why they suffice."""
_SAMPLING_GRID = 1 << 160
"""Divergences are rounded up to multiples of 2^-160: exact fractions whose denominators stay small."""
_VARIANCES = 1 << 20
"""Noise variances are multiples of the squared sensitivity over this."""
_ORDERS = (*range(2, 65), *range(66, 129, 2), *range(132, 257, 4))
"""Orders that are tried, farther apart where they are larger: neighbours there need nearly the same noise."""


@lru_cache(maxsize=256)
def sampled_divergence(order: int, rate: Fraction, ratio: Fraction) -> Fraction:
    """R(a) of one step, rounded up; proof at the head of this file.

    Args:
        order: a, a whole number from 2 to LARGEST_ORDER.
        rate: q, above 0 and at most 1.
        ratio: s^2 / sigma^2, at least 0.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> float(sampled_divergence(2, Fraction(1), Fraction(1)))  # no sampling: a s^2 / (2 sigma^2)
        1.0
    """
    whole = isinstance(order, int) and not isinstance(order, bool)
    if not whole or not 2 <= order <= LARGEST_ORDER:
        remedy = "Try 20."
        raise InputError(invalid("order", f"a whole number from 2 to {LARGEST_ORDER}", remedy, got=order))
    if not 0 < rate <= 1:
        raise InputError(invalid("rate", "above 0 and at most 1", "Try Fraction(1, 32).", got=rate))
    if rate == 1 or ratio == 0:
        # Without sampling the sum is the plain Gaussian's, a s^2 / (2 sigma^2), exact.
        return order * ratio / 2
    # Each of some 10 operations a term is off by 10^-99 relatively, exp(x) - 1 by 10^-99 / x. With ratio
    # and rate above 10^-20 the sum is known to 10^-70 relatively; 10^-40 is added, and the last step rounds
    # up.
    context = decimal.Context(prec=_DIGITS, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX)
    take, leave, half = (_decimal(context, part) for part in (rate, 1 - rate, ratio / 2))
    excess = decimal.Decimal(0)
    for k in range(2, order + 1):
        grown = context.subtract(context.exp(context.multiply(half, decimal.Decimal(k * (k - 1)))), 1)
        chance = context.multiply(context.power(take, k), context.power(leave, order - k))
        chance = context.multiply(decimal.Decimal(math.comb(order, k)), chance)
        excess = context.add(excess, context.multiply(chance, grown))
    found = context.divide(context.ln(context.add(excess, 1)), decimal.Decimal(order - 1))
    # Far more than the error bounded above, and far less than anybody will notice.
    upper = Fraction(found) * (1 + Fraction(1, 10**40))
    return Fraction(math.ceil(upper * _SAMPLING_GRID), _SAMPLING_GRID)


def renyi_allowed(order: int, epsilon: float, delta: float) -> float:
    """The largest Renyi divergence R of an order that implies (epsilon, delta)-DP, rounded down.

    R = epsilon + (ln delta + a ln(a / (a-1)) + ln(a-1)) / (a-1), from Canonne, Kamath and Steinke 2020,
    Proposition 12. It may be below 0: then the order allows nothing.

    Example:
        >>> round(renyi_allowed(20, 1.0, 1e-5), 6)
        0.602986
    """
    # The terms of the docstring; log1p keeps digits for large orders, where a / (a - 1) is near 1.
    terms = (math.log(delta), order * math.log1p(1.0 / (order - 1)), math.log(order - 1))
    slack = 2.0**-48 * (epsilon + sum(abs(term) for term in terms) + 1.0)
    return epsilon + sum(terms) / (order - 1) - slack


def check_sampled(neighbours: Neighbours) -> None:
    """Check that a training on samples of rows protects these neighbours.

    Raises:
        InputError: It is not known to.
    """
    if neighbours.adjacency != "add_remove":
        remedy = "Where rows are replaced sampling gains less, and how much is not built in: use add_remove."
        raise InputError(invalid("adjacency", "'add_remove' for a training on samples of rows", remedy))
    if neighbours.unit.max_rows != 1:
        remedy = f"Rows are sampled, not owners: use Unit({neighbours.unit.owner!r}, max_rows=1)."
        raise InputError(invalid("max_rows", "1 for a training on samples of rows", remedy))


def least_variance(price: Fraction, l2_squared: int, cost: Callable[[Fraction], Fraction]) -> Fraction:
    """The least variance, on a grid, that costs at most a price.

    Args:
        price: In rho, above 0.
        l2_squared: Squared sensitivity; the grid is that over 2^20.
        cost: Of a variance; it falls as the variance grows.

    Raises:
        InputError: No variance below 2^20 times l2_squared is enough.
    """
    # Whole multiples of one step keep the variance's denominator small in the ledger.
    step = Fraction(l2_squared, _VARIANCES)
    high: int = 1
    # The price falls as the variance grows, so doubling finds a bracket; the upper end is always one that
    # was found to be cheap enough.
    while cost(high * step) > price:
        high *= 2
        if high > _VARIANCES**2:
            remedy = "Take fewer steps, or a larger share."
            raise InputError(invalid("rho", "enough for noise that can be drawn", remedy))
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cost(middle * step) <= price else (middle, high)
    return high * step


def best_order(epsilon: float, delta: float, rate: Fraction, steps: int, share: Fraction) -> int:
    """The order at which a training needs the least noise, from public numbers; any order would be valid.

    Args:
        epsilon, delta: Promised for the whole run.
        rate: Of the sampling.
        steps: How many.
        share: The part of the run's rho that the training gets.

    Raises:
        InputError: No order allows anything.
    """
    orders = [order for order in _ORDERS if renyi_allowed(order, epsilon, delta) > 0]
    if not orders:
        raise InputError(invalid("epsilon", "large enough for some order", "Raise epsilon or delta."))
    each = [float(share) * renyi_allowed(order, epsilon, delta) / steps for order in orders]
    chosen: int = orders[int(np.argmin(_noise(np.array(orders), float(rate), np.array(each))))]
    return chosen


def _noise(orders: NDArray[np.int64], rate: float, allowed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Noise multipliers at which each order's divergence is what it allows, roughly, [orders]."""
    # Only a guess of which order will do best: the price itself is worked out exactly, by
    # `sampled_divergence`.
    a, k = orders[:, None].astype(float), np.arange(2.0, orders.max() + 1.0)
    # exp and log leave the range of floats at hopeless noise; the comparison below takes infinities as they
    # are.
    with np.errstate(all="ignore"):
        chances = gammaln(a + 1) - gammaln(k + 1) - gammaln(np.maximum(a - k, 0) + 1)
        chances = chances + k * math.log(rate) + (a - k) * math.log1p(-min(rate, 1 - 1e-12))
    # Terms of higher order than an order has do not exist; all orders share one table of terms.
    chances[k > a] = -np.inf
    # Bounds for the logarithm of the noise multiplier, wide enough for a guess.
    low, high = np.full(len(orders), -7.0), np.full(len(orders), 14.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        x = 0.5 * k * (k - 1) * np.exp(-2 * middle)[:, None]
        # ln(e^x - 1), which is x for large x, where expm1 would overflow.
        grown = np.where(x > 30, x, np.log(np.expm1(np.minimum(x, 30))))
        found = np.logaddexp(0.0, logsumexp(chances + grown, axis=1)) / (orders - 1)
        above = found > allowed
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.asarray(np.exp(high))


def _decimal(context: decimal.Context, value: Fraction) -> decimal.Decimal:
    return context.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))


_LN2 = Fraction(6931471805599454, 10**16)
"""ln 2, rounded up."""
_OBJECTIVE_GRID = 1 << 60
"""Divergences are rounded up to multiples of 2^-60: exact fractions whose denominators stay small."""


def objective_divergence(order: int, rows: tuple[int, int], ratio: Fraction, shift: Fraction) -> Fraction:
    """The divergence of an order, rounded up; theorem at the head of this file.

    Args:
        order: a, a whole number from 2 to LARGEST_ORDER.
        rows: m and k: how many rows differ, and how many of them at most are in one table alone.
        ratio: h R^2 / Lambda, above 0.
        shift: (m R)^2 / sigma^2, at least 0.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> float(objective_divergence(2, (1, 1), Fraction(1, 10**12), Fraction(0)))  # ln 2
        0.6931471805609455
    """
    if isinstance(order, bool) or not isinstance(order, int) or not 2 <= order <= LARGEST_ORDER:
        remedy = "Try 20."
        raise InputError(invalid("order", f"a whole number from 2 to {LARGEST_ORDER}", remedy, got=order))
    whole = all(isinstance(number, int) and number >= 1 for number in rows)
    if not whole or not rows[1] <= rows[0] <= 2 * rows[1]:
        raise InputError(invalid("rows", "at least 1, the second at most the first", "Try (1, 1)."))
    # The factor covers the rounding of float and log1p, so that the grid rounds up from above the true value.
    grown = math.log1p(float(ratio)) * (1.0 + 2.0**-45)
    curved = rows[1] * Fraction(math.ceil(Fraction(grown) * _OBJECTIVE_GRID) + 1, _OBJECTIVE_GRID)
    return curved + order * shift / 2 + rows[0] * _LN2 / (order - 1)


def choose_objective_order(epsilon: float, delta: float, rows: tuple[int, int], curved: float) -> int:
    """The order that leaves most for 1 / sigma^2, from public numbers alone; any order would be valid.

    Args:
        epsilon, delta: Promised for the whole run.
        rows: m and k.
        curved: The part of what the order allows that k ln(1 + h R^2 / Lambda) takes, from 0 to 1.

    Raises:
        InputError: No order allows anything.
    """

    def find_rest(order: int) -> float:
        # From the bound's three terms: what is left over a is half of (m R)^2 / sigma^2.
        allowed = (1.0 - curved) * renyi_allowed(order, epsilon, delta)
        return (allowed - rows[0] * float(_LN2) / (order - 1)) / order

    best = max(range(2, LARGEST_ORDER + 1), key=find_rest)
    if find_rest(best) <= 0.0:
        remedy = "Raise epsilon or delta, or lower max_rows."
        raise InputError(invalid("epsilon", "enough for a perturbed objective", remedy))
    return best
