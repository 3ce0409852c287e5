"""Conversions between zCDP's rho, GDP's mu and (epsilon, delta), and what they mean for an attacker.

Each conversion is rounded to the safe side.

At the end stands what an attacker can find out at most: the trade-off between false alarms and finds that a
promise allows. Somebody tests from a release which of two neighbouring tables was used: whether a person is
in it, say. A test raises an alarm. Its false alarm rate is how often it does so where the person is not in
the table, its power how often where they are. A promise bounds the power at each rate of false alarms, and by
Bayes' rule how likely an alarm is to be right.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.special
from scipy.special import ndtr, ndtri

from margrave.errors import InputError, invalid

_ULP = 2.0**-52
"""The distance of 1 from the next float: rounding errors are counted in it."""
_STEPS = 200
"""Bisections, at most. Each search ends sooner, when no float is left between its ends."""


def zcdp_delta(rho: float, epsilon: float) -> float:
    """The smallest delta for which rho-zCDP is known to imply (epsilon, delta)-DP, in [0, 1].

    delta = inf over a > 1 of exp((a-1)(a rho - epsilon) + a ln(1 - 1/a)) / (a-1); Canonne, Kamath and
    Steinke 2020, Proposition 12 with Corollary 13. Rounded up.

    Raises:
        InputError: rho or epsilon is negative or not finite.

    Example:
        >>> round(zcdp_delta(0.030557, 1.0), 7)
        1e-05
    """
    return _up(_zcdp_log_delta(_amount("rho", rho), _amount("epsilon", epsilon)))


def zcdp_epsilon(rho: float, delta: float) -> float:
    """An epsilon, nearly the smallest, for which rho-zCDP implies (epsilon, delta)-DP.

    Raises:
        InputError: rho is negative or not finite, or delta is not between 0 and 1.
    """
    rho, log_delta = _amount("rho", rho), _log(delta)
    return _smallest(lambda epsilon: _zcdp_log_delta(rho, epsilon) <= log_delta)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """A rho, nearly the largest, for which rho-zCDP implies (epsilon, delta)-DP.

    Raises:
        InputError: epsilon is negative or not finite, or delta is not between 0 and 1.

    Example:
        >>> round(zcdp_rho(1.0, 1e-5), 6)
        0.030557
    """
    epsilon, log_delta = _amount("epsilon", epsilon), _log(delta)
    return _largest(lambda rho: _zcdp_log_delta(rho, epsilon) <= log_delta)


def gdp_delta(mu: float, epsilon: float) -> float:
    """The smallest delta for which mu-GDP implies (epsilon, delta)-DP, in [0, 1]; rounded up.

    delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu); Dong, Roth and Su 2022,
    Corollary 2.13, after Balle and Wang 2018, Theorem 8.

    Raises:
        InputError: mu or epsilon is negative or not finite.
    """
    return _up(_gdp_log_delta(_amount("mu", mu), _amount("epsilon", epsilon)))


def gdp_epsilon(mu: float, delta: float) -> float:
    """An epsilon, nearly the smallest, for which mu-GDP implies (epsilon, delta)-DP.

    Raises:
        InputError: mu is negative or not finite, or delta is not between 0 and 1.
    """
    mu, log_delta = _amount("mu", mu), _log(delta)
    return _smallest(lambda epsilon: _gdp_log_delta(mu, epsilon) <= log_delta)


def gdp_mu(epsilon: float, delta: float) -> float:
    """A mu, nearly the largest, for which mu-GDP implies (epsilon, delta)-DP.

    Raises:
        InputError: epsilon is negative or not finite, or delta is not between 0 and 1.

    Example:
        >>> round(gdp_mu(1.0, 1e-5), 6)
        0.268051
    """
    epsilon, log_delta = _amount("epsilon", epsilon), _log(delta)
    return _largest(lambda mu: _gdp_log_delta(mu, epsilon) <= log_delta)


def _zcdp_log_delta(rho: float, epsilon: float) -> float:
    """An upper bound on ln delta: any order a bounds it, and the rounding of its three terms is added.

    The exponent is convex in t = a - 1 > 0, with derivative (2t + 1) rho - epsilon - ln(1 + 1/t), which
    increases from -infinity; its root is found by bisection on ln t.
    """
    if rho == 0.0:
        return -math.inf
    # Bounds of ln t between which the derivative of the exponent changes sign.
    low, high = -700.0, math.log(epsilon + 1.0) - math.log(rho) + 2.0
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        t = math.exp(middle)
        if (2.0 * t + 1.0) * rho - epsilon - math.log1p(1.0 / t) > 0.0:
            high = middle
        else:
            low = middle
    # Any order gives a valid bound, so the upper end serves whether or not the search has converged.
    t = math.exp(high)
    # a ln(1 - 1/a) - ln(a - 1) = -(ln(1 + t) + t ln(1 + 1/t)), both terms positive
    entropy = math.log1p(t) + t * math.log1p(1.0 / t)
    slack = 4.0 * _ULP * (t * ((t + 1.0) * rho + epsilon) + entropy)
    return min(t * ((t + 1.0) * rho - epsilon) - entropy + slack, 0.0)


def _gdp_log_delta(mu: float, epsilon: float) -> float:
    """An upper bound on ln delta.

    With u, v = epsilon/mu -+ mu/2 and M Mills' ratio (1 - Phi)/phi, exp(epsilon) phi(v) = phi(u), so that
    delta = phi(u) (M(u) - M(v)): nothing underflows, and the cancellation has a bounded absolute error.
    """
    if mu == 0.0:
        return -math.inf
    # Beyond 1e150 its square would overflow below, and delta is as good as 0.
    centre = epsilon / mu
    if centre > 1e150:
        return -1e299
    u, v = centre - 0.5 * mu, centre + 0.5 * mu
    # Mills' ratio would overflow; delta is so near 1 there that 1 is returned.
    if u < -35.0:
        return 0.0
    root = math.sqrt(0.5)
    # erfcx(x) is exp(x^2) erfc(x), so Mills' ratio at u is sqrt(pi / 2) erfcx(u / sqrt 2).
    first = math.sqrt(0.5 * math.pi) * float(scipy.special.erfcx(u * root))
    second = math.sqrt(0.5 * math.pi) * float(scipy.special.erfcx(v * root))
    # erfcx is good to a few units in the last place; u and v are off by (centre + mu) units at most, and
    # |M'| <= M (1 + |u|) for u < 0 and <= M / (1 + u) within a factor 2 for u >= 0
    shift = (centre + mu) * (1.0 + max(-u, 0.0)) / (1.0 + max(u, 0.0))
    difference = first - second + 32.0 * _ULP * first * (1.0 + shift)
    slack = 8.0 * _ULP * (1.0 + (centre + mu) * (abs(u) + 1.0))
    return min(-0.5 * u * u - 0.5 * math.log(2.0 * math.pi) + math.log(difference) + slack, 0.0)


def _smallest(safe: Callable[[float], bool]) -> float:
    """A number x >= 0 with safe(x), within rounding of the least; safe is monotone and true for large x."""
    if safe(0.0):
        return 0.0
    # Doubled until safe; the last unsafe number is the other end of the bracket.
    low, high = 0.0, 1.0
    while not safe(high):
        low, high = high, 2.0 * high
        if math.isinf(high):
            return high
    return _bisect(safe, bad=low, good=high)


def _largest(safe: Callable[[float], bool]) -> float:
    """A number x > 0 with safe(x), within rounding of the largest; safe is monotone and true for small x."""
    low, high = 1.0, 1.0
    while not safe(low):
        low, high = 0.5 * low, low
        # Nothing down to 1e-290 is safe, so nothing is allowed.
        if low < 1e-290:
            return 0.0
    while high == low or safe(high):
        low, high = high, 2.0 * high
    return _bisect(safe, bad=high, good=low)


def _bisect(safe: Callable[[float], bool], bad: float, good: float) -> float:
    """The good end of a bracket shrunk to neighbouring floats: it has passed `safe` itself."""
    for _ in range(1200):
        middle = 0.5 * (bad + good)
        # No float lies between the ends any more.
        if middle in (bad, good):
            break
        if safe(middle):
            good = middle
        else:
            bad = middle
    return good


def _up(log_delta: float) -> float:
    """exp, rounded up and at most 1."""
    if log_delta == -math.inf:
        return 0.0
    # Four units in the last place cover exp's rounding, and the smallest float covers underflow to 0.
    return min(math.exp(log_delta) * (1.0 + 4.0 * _ULP) + 5e-324, 1.0)


def _log(delta: float) -> float:
    """ln delta, rounded down."""
    if isinstance(delta, bool) or not 0.0 < delta < 1.0:
        remedy = "Gaussian noise has no pure epsilon: try delta=1e-9." if delta == 0 else "Try delta=1e-9."
        raise InputError(invalid("delta", "above 0 and below 1", remedy, got=delta))
    value = math.log(delta)
    # Rounded down, since what is compared with it must not exceed it.
    return value - 4.0 * _ULP * (1.0 + abs(value))


def _amount(name: str, value: float) -> float:
    """The value as a float, once checked."""
    if isinstance(value, bool) or not (math.isfinite(value) and value >= 0.0):
        raise InputError(invalid(name, "a finite number of at least 0", "Try 1.0.", got=value))
    return float(value)


ORDERS = 1.0 + np.geomspace(1e-3, 1e4, 400)
"""Orders at which Renyi divergences are compared: with any set of orders the bound holds."""
STEPS = 60
"""Bisections: the interval is then smaller than the rounding of its ends. The upper end is returned."""


def bound_power(accounting: str, rho: float, false_alarm: float, slack: float = 0.0) -> float:
    """The largest power of a test of a false alarm rate, for runs of cost rho under an accountant.

    "gdp": Phi(Phi^-1(false_alarm) + mu) with mu^2 = 2 rho, which the Gaussian mechanism reaches (Dong, Roth
    and Su 2022, equation 6). "zcdp": the Renyi divergence of order a of what a test says, which is one of
    two answers, is at most a rho for every a (data processing; van Erven and Harremoes 2014, Theorem 9):
    the largest power for which that holds in both directions. "rdp-a": the same at the order a alone.

    Args:
        accounting: Name of the accountant.
        rho: What the run may cost, at least 0.
        false_alarm: Above 0 and below 1.
        slack: Delta of partition events. Either table's answer is within it, in total variation, of one that
            costs rho: it is added to the rate of false alarms and to the power.

    Returns:
        At least the false alarm rate, at most 1.

    Raises:
        InputError: The rate is out of range, or there is no such accountant.

    Example:
        >>> round(bound_power("gdp", 0.5, 0.05), 4)
        0.2595
    """
    if not 0.0 < false_alarm < 1.0:
        raise InputError(invalid("false_alarm", "above 0 and below 1", "Try 0.05.", got=false_alarm))
    # With a partition the answer is only near one that costs rho: an attacker may win by as much on either
    # side.
    rate = min(false_alarm + slack, 1.0)
    if rate >= 1.0:
        return 1.0
    if accounting == "gdp":
        found = float(ndtr(ndtri(rate) + math.sqrt(2.0 * rho)))
    elif accounting == "zcdp":
        found = _bound_by_orders(ORDERS, rho, rate)
    elif accounting.startswith("rdp-") and accounting.removeprefix("rdp-").isdecimal():
        found = _bound_by_orders(np.asarray([float(accounting.removeprefix("rdp-"))]), rho, rate)
    else:
        raise InputError(invalid("accounting", "'gdp', 'zcdp' or 'rdp-' and an order", "Check the release."))
    return min(max(found, rate) + slack, 1.0)


def bound_belief(prior: float, power: float, false_alarm: float) -> float:
    """How likely an alarm is to be right, by Bayes' rule.

    Args:
        prior: How likely it was held before, between 0 and 1.
        power, false_alarm: Of the test that raised the alarm.

    Example:
        >>> round(bound_belief(0.01, 0.1, 0.01), 3)
        0.092
    """
    right = prior * power
    return right / (right + (1.0 - prior) * false_alarm)


def _bound_by_orders(orders: np.ndarray[tuple[int], np.dtype[np.float64]], rho: float, rate: float) -> float:
    """The largest power, from the rate upwards, that no order's divergence forbids; rounded up."""
    # The divergence bounds both kinds of error under either table, so each order forbids a power by four
    # inequalities; limits are raised by what rounding could hide.
    limits = orders * (orders - 1.0) * rho * (1.0 + 1e-12) + 1e-12

    def allow(power: float) -> bool:
        for first, second in ((power, rate), (rate, power)):
            # The two terms of exp((a - 1) D_a) for a test's two answers: alarm and no alarm, under either
            # table.
            alarm = orders * math.log(first) + (1.0 - orders) * math.log(second)
            quiet = orders * math.log1p(-first) + (1.0 - orders) * math.log1p(-second)
            if (np.logaddexp(alarm, quiet) > limits).any():
                return False
        return True

    # The upper end is returned, so that a search that ends early errs on the safe side.
    low, high = rate, 1.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if middle >= 1.0:
            break
        low, high = (middle, high) if allow(middle) else (low, middle)
    return high
