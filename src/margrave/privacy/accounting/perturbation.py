"""The Renyi divergence of objective perturbation for losses of one number of a row, and the ridge it needs.

Released is the minimiser theta of J(theta; D) = sum over rows of l(theta'x_r, y_r) + (Lambda / 2)
||theta||^2 + b'theta with b ~ N(0, sigma^2 I). Each l is convex and twice continuously differentiable in s
= theta'x, with |l'| <= 1 and l'' <= h, and ||x|| <= R. At most m rows differ between neighbours D and D',
of which at most k are in D alone and at most k in D' alone: m = k under add_remove, 2 k under replace_one.

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
Smith and Thakurta 2012, Theorem 2; Ferrando and Sheldon 2025, Algorithm 6) have two to three times the
noise. The
minimiser must be exact: what a solver leaves is for whoever releases it (`measure.mechanisms.perturb`).
"""

from __future__ import annotations

import math
from fractions import Fraction

from margrave.errors import InputError, invalid
from margrave.privacy.accounting.subsampling import LARGEST_ORDER, renyi_allowed

_LN2 = Fraction(6931471805599454, 10**16)
"""ln 2, rounded up."""
_GRID = 1 << 60
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
    grown = math.log1p(float(ratio)) * (1.0 + 2.0**-45)
    curved = rows[1] * Fraction(math.ceil(Fraction(grown) * _GRID) + 1, _GRID)
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
        allowed = (1.0 - curved) * renyi_allowed(order, epsilon, delta)
        return (allowed - rows[0] * float(_LN2) / (order - 1)) / order

    best = max(range(2, LARGEST_ORDER + 1), key=find_rest)
    if find_rest(best) <= 0.0:
        remedy = "Raise epsilon or delta, or lower max_rows."
        raise InputError(invalid("epsilon", "enough for a perturbed objective", remedy))
    return best
