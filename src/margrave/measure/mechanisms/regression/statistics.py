"""statistics: X'X, X'y and the smallest eigenvalue of X'X, in three releases with Gaussian noise.

A public `RowNumbers` gives row r a vector (x_r, y_r) of whole numbers in steps of 2^-d, y its last number.
These are the three releases that AdaSSP is made of (Wang 2018, Algorithm 2; Ferrando and Sheldon 2025,
Algorithm 5). One release of all products (`sums` beside this file) has less noise at the same cost; this is
for comparison with what is published.

**Privacy.** Unit and adjacency: the ledger's, rows or owners capped at k rows, add_remove or replace_one;
all else is refused before anything is spent. The numbers depend on public things only.
*One row.* ||x_r||^2 <= B and y_r^2 <= Y, the largest over all codes, found in the very integers that are
summed: B is a sum over attributes, as in `sums`. No row is trusted.
*Neighbours.* X'X moves by A - C, and X'y by a - c, where A and a are sums over the at most k rows that enter
and C and c over the at most k that leave: none enter, or none leave, under add_remove.
*X'X.* Released is its upper triangle with the diagonal, as it stands. A sum over a triangle is at most one
over the whole matrix, and ||A - C||_F^2 <= ||A||_F^2 + ||C||_F^2, since <A, C> >= 0 for sums of matrices
xx'. So the squared sensitivity is at most B^2 times that of one marginal, which is k^2, or 2 k^2 under
replace_one.
*X'y.* ||a - c|| <= ||a|| + ||c||, each at most k sqrt(B Y): the L1 sensitivity of one marginal, times
sqrt(B Y).
*Smallest eigenvalue.* A and C are positive semidefinite of norm at most k B, so by Weyl's inequality the
eigenvalue moves by at most k B under both adjacencies: up by A, down by C, and no further than either alone.
*Floating point.* Sums are exact in int64, as in `sums`. The eigenvalue is LAPACK's, in float64: it is within
2^-40 ||X'X|| of an exact one for matrices of up to 4,096 numbers, whose backward error is a small multiple of
2^-53 p ||X'X||. ||X'X|| <= n B, so for n <= 2^33 rows the two errors of two neighbours together are at most
B / 64, and B / 64 + 1 is added to the sensitivity; the 1 is for rounding down to whole steps.
*Cost.* Each release has noise of variance l2_squared / (2 rho) of its own rho, rounded up: see `Gaussian`.
The three are recorded one after the other, each before its noise is drawn, and their costs add up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import LARGEST_NOISE, Gaussian
from margrave.measure.mechanisms.regression.sums import (
    MAX_DIGITS,
    MIN_DIGITS,
    add_products,
    bound_rows,
    needed_cliques,
)
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource
from margrave.privacy.unit import Neighbours
from margrave.release import NoisyStatistics
from margrave.schema.domain import Clique
from margrave.schema.features import RowNumbers

Integers = NDArray[np.int64]
MOST_NUMBERS = 4096
"""Numbers of a row, for the proof of the eigenvalue's rounding."""
ROUNDING = 64
"""The eigenvalue's rounding moves it by B over this at most, between neighbours."""


def check_exchanged(neighbours: Neighbours) -> None:
    """Check that neighbours differ by whole rows that come, go or are exchanged.

    Raises:
        InputError: They do not.
    """
    if neighbours.adjacency not in ("add_remove", "replace_one"):
        remedy = "Use one of these, or Regressor('ssp')."
        raise InputError(invalid("adjacency", "'add_remove' or 'replace_one' for this method", remedy))


def bound_parts(matrices: Sequence[Integers]) -> tuple[int, int]:
    """B and Y: the largest ||x||^2 and the largest y^2 over all codes."""
    return bound_rows(matrices[:-1]), int((matrices[-1] ** 2).max())


def statistics(
    counts: Callable[[Sequence[Clique]], Sequence[Integers]],
    numbers: RowNumbers,
    rhos: tuple[Fraction, Fraction, Fraction],
    ledger: Ledger,
    noise: BitSource,
) -> NoisyStatistics:
    """X'X, X'y and the smallest eigenvalue of X'X with noise, in rows; y is a row's last number.

    **Privacy.** Costs the sum of the three rhos; proof at the head of this file.

    Args:
        counts: Gives exact tables of cliques; not called when a resumed run has the answers already.
        numbers: Of the codes of attributes, the last of which has one number: y.
        rhos: What the eigenvalue, X'X and X'y may cost, each above 0.
        ledger: Where the spends are recorded.
        noise: Source of random bits.

    Raises:
        InputError: A rho is not above 0, or the ledger's neighbours are others.
        BudgetError: A rho does not fit.
    """
    check_exchanged(ledger.neighbours)
    last = len(numbers.numbers[-1])
    if last != 1 or not 2 <= numbers.size <= MOST_NUMBERS or any(rho <= 0 for rho in rhos):
        remedy = "Use fewer columns, and give each of the three releases a share."
        raise InputError(invalid("numbers", f"at most {MOST_NUMBERS}, the last attribute's one", remedy))
    digits = _choose_digits(numbers, rhos, ledger)
    matrices = numbers.cut(1 << digits)
    squared = _square_sensitivities(matrices, ledger.neighbours)
    p, unit = numbers.size - 1, 4.0**digits
    upper = np.triu_indices(p)
    steps = f"of {p} numbers of {' x '.join(numbers.names)}, in steps of 2^-{digits}"
    names = [f"smallest eigenvalue of the products {steps}", f"products {steps}"]
    names.append(f"target's products {steps}")

    def exact(part: int) -> list[Integers]:
        found = add_products(counts(needed_cliques(numbers)), numbers, matrices)
        if part == 0:
            least = np.linalg.eigvalsh(found[:p, :p].astype(np.float64))[0]
            return [np.array([math.floor(least)], dtype=np.int64)]
        return [found[:p, :p][upper] if part == 1 else found[:p, p]]

    found, sigmas = [], []
    for part, (name, rho, sensitivity) in enumerate(zip(names, rhos, squared, strict=True)):
        gaussian = Gaussian(ledger, noise, sensitivity)
        (answer,), sigma = gaussian.ask([name], rho, functools.partial(exact, part))
        found.append(answer / unit)
        sigmas.append(sigma / unit)
    if [answer.shape for answer in found] != [(1,), upper[0].shape, (p,)]:
        raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
    crossed = np.zeros((p, p))
    crossed[upper] = found[1]
    crossed = np.triu(crossed) + np.triu(crossed, 1).T
    kept = tuple(matrix / 2.0**digits for matrix in matrices[int(numbers.constant) :])
    summed = RowNumbers(numbers.names, kept, numbers.constant)
    return NoisyStatistics(summed, float(found[0][0]), crossed, found[2], (sigmas[0], sigmas[1], sigmas[2]))


def _square_sensitivities(matrices: Sequence[Integers], neighbours: Neighbours) -> tuple[int, int, int]:
    """Squared L2 sensitivities of the eigenvalue, of X'X and of X'y, in steps."""
    rows, target = bound_parts(matrices)
    # Rounding of the eigenvalue adds B / 64, rounded up, and 1 for its whole steps.
    eigenvalue = neighbours.unit.max_rows * rows + -(-rows // ROUNDING) + 1
    crossed = rows**2 * neighbours.marginal_l2_squared
    return eigenvalue**2, crossed, max(neighbours.marginal_l1**2 * rows * target, 1)


def _choose_digits(numbers: RowNumbers, rhos: Sequence[Fraction], ledger: Ledger) -> int:
    """The most binary digits for which all noise can be drawn, from public numbers alone.

    Raises:
        InputError: There are too few.
    """
    # The finest steps whose noise the sampler can draw.
    for digits in range(MAX_DIGITS, MIN_DIGITS - 1, -1):
        squared = _square_sensitivities(numbers.cut(1 << digits), ledger.neighbours)
        variances = [most / (2 * ledger.price(rho)) for most, rho in zip(squared, rhos, strict=True)]
        if all(math.ceil(variance).bit_length() < LARGEST_NOISE for variance in variances):
            return digits
    remedy = "Use fewer columns, or a larger epsilon."
    raise InputError(invalid("rho", "enough for noise that can be drawn", remedy))
