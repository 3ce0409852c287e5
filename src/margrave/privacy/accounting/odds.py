"""What an attacker can find out at most: the trade-off between false alarms and finds that a promise allows.

Somebody tests from a release which of two neighbouring tables was used: whether a person is in it, say. A
test raises an alarm. Its false alarm rate is how often it does so where the person is not in the table, its
power how often where they are. A promise bounds the power at each rate of false alarms, and by Bayes' rule
how likely an alarm is to be right.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from margrave.errors import InputError, invalid

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
