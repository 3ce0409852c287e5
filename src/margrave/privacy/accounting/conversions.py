"""Conversions between zCDP's rho, GDP's mu and (epsilon, delta), each rounded to the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

import scipy.special

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
    centre = epsilon / mu
    if centre > 1e150:
        return -1e299
    u, v = centre - 0.5 * mu, centre + 0.5 * mu
    if u < -35.0:
        return 0.0
    root = math.sqrt(0.5)
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
        if low < 1e-290:
            return 0.0
    while high == low or safe(high):
        low, high = high, 2.0 * high
    return _bisect(safe, bad=high, good=low)


def _bisect(safe: Callable[[float], bool], bad: float, good: float) -> float:
    """The good end of a bracket shrunk to neighbouring floats: it has passed `safe` itself."""
    for _ in range(1200):
        middle = 0.5 * (bad + good)
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
    return min(math.exp(log_delta) * (1.0 + 4.0 * _ULP) + 5e-324, 1.0)


def _log(delta: float) -> float:
    """ln delta, rounded down."""
    if isinstance(delta, bool) or not 0.0 < delta < 1.0:
        remedy = "Gaussian noise has no pure epsilon: try delta=1e-9." if delta == 0 else "Try delta=1e-9."
        raise InputError(invalid("delta", "above 0 and below 1", remedy, got=delta))
    value = math.log(delta)
    return value - 4.0 * _ULP * (1.0 + abs(value))


def _amount(name: str, value: float) -> float:
    """The value as a float, once checked."""
    if isinstance(value, bool) or not (math.isfinite(value) and value >= 0.0):
        raise InputError(invalid(name, "a finite number of at least 0", "Try 1.0.", got=value))
    return float(value)
