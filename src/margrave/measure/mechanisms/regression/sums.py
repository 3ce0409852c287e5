"""sums: Z'Z, the sums over rows of all products of two numbers of a row, in one release with Gaussian noise.

A public `RowNumbers` gives row r a vector z_r of p whole numbers, in steps of 2^-d. Released is the upper
triangle of G = sum of z_r z_r', diagonal included: X'X, X'y and y'y of a linear regression, all at once.

**Privacy.** Unit and adjacency: the ledger's, owners capped at k rows (1 where rows are protected). The
numbers and d depend on public things only.
*One row.* ||z_r||^2 <= R^2, where R^2 is the sum over attributes of the largest squared norm that the
numbers of one code have, found by looking at every code in the very integers that are summed. No row is
clipped and none is trusted: a row's vector is made of its codes here.
*What is released.* The integers 3 G_ij for i < j and 2 G_ii. For a symmetric matrix D
    9 sum_{i<j} D_ij^2 + 4 sum_i D_ii^2  <=  (9/2) (2 sum_{i<j} D_ij^2 + sum_i D_ii^2)  =  (9/2) ||D||_F^2,
since 4 <= 9/2: each product off the diagonal is counted once, and so the sensitivity is that of ||D||_F
over the square root of 2. A diagonal entry has noise of 3/2 times the standard deviation of the others; at
the square root of 2, which is no ratio of whole numbers, the inequality would be an equality.
*Add_remove.* At most k rows come or go: D = sum of at most k matrices zz', each of Frobenius norm ||z||^2
<= R^2, so ||D||_F^2 <= k^2 R^4, reached by rows alike.
*Replace_one.* At most k rows leave and at most k others enter: D = A - B with A and B sums of at most k
such matrices, and ||D||_F^2 = ||A||_F^2 + ||B||_F^2 - 2 <A, B>. <zz', ww'> = (z'w)^2 >= 0, so <A, B> >= 0
and ||D||_F^2 <= 2 k^2 R^4, reached by orthogonal rows. In both cases ||D||_F^2 <= R^4 times the squared L2
sensitivity of one marginal (`Neighbours.marginal_l2_squared`), and the squared sensitivity of what is
released is at most 9/2 of that, rounded up.
*Floating point.* None: G is a sum of A_j T_jk A_k' over exact tables T_jk of two attributes, all in int64.
With d at most 10 a product is at most 2^20 a row, so that sums of 2^33 rows stay below 2^55.
*Cost.* Noise of variance l2_squared / (2 rho), rounded up, costs at most rho as the discrete Gaussian
("zcdp") or the rounded continuous one ("gdp"): see `Gaussian`. The event is recorded before any noise is
drawn.

AdaSSP (Wang 2018) releases X'X, X'y and an eigenvalue apart, each with noise of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import LARGEST_NOISE, Gaussian
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource
from margrave.release import NoisySums
from margrave.schema.domain import Clique
from margrave.schema.features import RowNumbers

Integers = NDArray[np.int64]

OFF, ON = 3, 2
"""What products off and on the diagonal are multiplied by before noise; ON / OFF is at most 1 / sqrt 2."""
MAX_DIGITS, MIN_DIGITS = 10, 3
"""Binary digits of the numbers, at most and at least: as many as noise leaves room for."""


def needed_cliques(numbers: RowNumbers) -> list[Clique]:
    """The tables that the sums are made of: of all rows, of one attribute and of two."""
    single: list[Clique] = [(name,) for name in numbers.names]
    return [(), *single, *combinations(numbers.names, 2)]


def sums(
    counts: Callable[[Sequence[Clique]], Iterable[NDArray[np.integer]]],
    numbers: RowNumbers,
    rho: Fraction,
    ledger: Ledger,
    noise: BitSource,
) -> NoisySums:
    """Noisy sums over rows of all products of two of a row's numbers, in rows.

    **Privacy.** Costs rho for all of them together; proof at the head of this file.

    Args:
        counts: Gives exact tables of cliques, each of which is looked at once; not called when a resumed run
            has the answer already.
        numbers: Of the codes of attributes; the caller has checked them against the domain.
        rho: What the answer may cost, above 0.
        ledger: Where the spend is recorded.
        noise: Source of random bits.

    Raises:
        InputError: rho is not above 0, or so small that the noise would overflow.
        BudgetError: rho does not fit.
    """
    if rho <= 0:
        raise InputError(invalid("rho", "above 0", "Give every measurement a share."))
    units = ledger.neighbours.marginal_l2_squared
    digits = _digits(numbers, units, ledger.price(rho))
    matrices = numbers.cut(1 << digits)
    gaussian = Gaussian(ledger, noise, _sensitivity(matrices, units))
    upper = np.triu_indices(numbers.size)
    # Symmetric: the entries off the diagonal stand for two, so they are scaled up before noise and down
    # after it.
    factors = np.where(upper[0] == upper[1], ON, OFF)
    columns = " x ".join(numbers.names)
    what = f"products of {numbers.size} numbers of {columns}, in steps of 2^-{digits}"

    def exact() -> list[Integers]:
        return [add_products(counts(needed_cliques(numbers)), numbers, matrices)[upper] * factors]

    (found,), sigma = gaussian.ask([what], rho, exact)
    if found.shape != factors.shape:
        raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
    values = np.zeros((numbers.size, numbers.size))
    values[upper] = found / factors
    values = np.triu(values) + np.triu(values, 1).T
    held = tuple(matrix / 2.0**digits for matrix in matrices[int(numbers.constant) :])
    kept = RowNumbers(numbers.names, held, numbers.constant)
    unit = 4.0**digits
    return NoisySums(kept, values / unit, sigma / OFF / unit, sigma / ON / unit)


def bound_rows(matrices: Sequence[Integers]) -> int:
    """R^2: the largest squared norm of a row's vector, over all codes there are."""
    return sum(int((matrix**2).sum(axis=0).max()) for matrix in matrices)


def _sensitivity(matrices: Sequence[Integers], units: int) -> int:
    """Squared L2 sensitivity of what is released, where one marginal's is `units`."""
    # (9/2) R^4, as the head of this file proves.
    return math.ceil(Fraction(OFF**2, 2) * bound_rows(matrices) ** 2 * units)


def _digits(numbers: RowNumbers, units: int, price: Fraction) -> int:
    """The most binary digits for which the noise can be drawn, from public numbers alone.

    Raises:
        InputError: There are too few.
    """
    for digits in range(MAX_DIGITS, MIN_DIGITS - 1, -1):
        variance = _sensitivity(numbers.cut(1 << digits), units) / (2 * price)
        if math.ceil(variance).bit_length() < LARGEST_NOISE:
            return digits
    raise InputError(
        invalid("rho", "enough for a variance below 2^58", "Use fewer columns, or a larger epsilon.")
    )


def add_products(
    tables: Iterable[NDArray[np.integer]], numbers: RowNumbers, matrices: Sequence[Integers]
) -> Integers:
    """G from exact tables of `needed_cliques`, in steps of the matrices: shape [p, p]. **Not private.**"""
    found = np.zeros((numbers.size, numbers.size), dtype=np.int64)
    first = int(numbers.constant)
    starts = np.cumsum([first, *(len(matrix) for matrix in matrices[first:])])
    places = [slice(start, end) for start, end in pairwise(starts)]
    # One table at a time: of very many columns all together would not fit.
    own, each = matrices[first:], (table.astype(np.int64, copy=False) for table in tables)
    height, rows = int(matrices[0][0, 0]), int(next(each).sum())
    # With a constant the first row of the products are plain sums, and its corner is the number of rows.
    if numbers.constant:
        found[0, 0] = height**2 * rows
    for matrix, place in zip(own, places, strict=True):
        table = next(each)
        if numbers.constant:
            found[0, place] = found[place, 0] = height * (matrix @ table)
        # Off the diagonal of codes of one attribute nothing stands: a row has one code there.
        found[place, place] = (matrix * table) @ matrix.T
    for (j, k), table in zip(combinations(range(len(own)), 2), each, strict=True):
        found[places[j], places[k]] = own[j] @ table @ own[k].T
        found[places[k], places[j]] = found[places[j], places[k]].T
    return found
