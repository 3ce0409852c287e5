"""slices: every row's vector with Gaussian noise, in random order, from which all noisy projections follow.

A public `RowNumbers` gives row i a vector x_i of p whole numbers, in steps of 2^-d. Released are the rows of
X + V in an order drawn at random, V independent Gaussian noise: a noisy copy of every row. It is the slicing
mechanism of Greenewald, Yu, Wang and Xu (NeurIPS 2024, arXiv 2410.19941) on a tight frame: with
U U' = (m'/p) I the projections X U + W, W of variance s^2, determine (X U + W) U' p / m' = X + V with V of
variance s^2 p / m'; and from X + V projections of the same law are made by adding noise outside the range of
U'. So one release serves any number of directions, widths and trainings.

**Privacy.** For tables of a public number n of rows: adjacency "zero_out" (one row's vector becomes 0) or
"replace_one" (one row becomes another), single rows. Under add_remove the number of noisy rows would tell
neighbours apart, so it is refused; so are owners, whose number of rows would show in the same way.
*Sensitivity.* Two neighbouring tables differ in one row, whose vector changes by at most D in length: the
longest vector under zero_out, the largest distance of two rows' vectors under replace_one. D^2 is found by
looking at every code of every attribute in the very integers that are released (`bound_length`,
`bound_distance`). All other rows stay, so X moves by at most D in L2.
*Order.* It is drawn without looking at rows. Noise is independent and alike in all places, so the result has
the law that it would have if the noisy rows were permuted afterwards, which is post-processing.
*Rows that are too long*, where a longest length is given, are shortened by a map of that row alone, and the
bounds are then those of vectors of this length. How many there are is a count, which moves by at most 1: it
is released with noise for a hundredth of rho.
*Cost.* Noise of variance D^2 / (2 rho'), rounded up, costs at most rho' as the discrete Gaussian ("zcdp") or
the rounded continuous one ("gdp"): see `Gaussian`. The event is recorded before any noise is drawn. Under
"gdp" the price is mu = D / sigma, which `margrave.privacy.accounting.projections` compares with the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import Gaussian, check_drawable
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource
from margrave.privacy.unit import Neighbours
from margrave.release import NoisySlices
from margrave.schema.encoded import Encoded
from margrave.schema.features import RowNumbers

Integers = NDArray[np.int64]

COUNT_SHARE = Fraction(1, 100)
"""Share of rho for the number of rows that were shortened."""
DIGITS = 10
"""Binary digits of numbers that are not whole; squares of millions of them still add up in 64 bits."""
MAX_CODES = 2000
"""Codes of an attribute up to which the distance of each two is looked at; more are bounded by length."""


def slices(
    rows: Callable[[], Encoded],
    numbers: RowNumbers,
    rho: Fraction,
    ledger: Ledger,
    noise: BitSource,
    longest: float | None = None,
) -> NoisySlices:
    """A noisy copy of every row's vector, in random order.

    **Privacy.** Costs rho for all of them together; proof at the head of this file.

    Args:
        rows: Gives the private rows; not called when a resumed run has the answer already.
        numbers: What a row's vector is; the caller has checked them against the domain.
        rho: What the answer may cost, above 0.
        ledger: Where the spend is recorded; its neighbours set the sensitivity.
        noise: Source of random bits.
        longest: Length to which longer vectors are shortened; None for what the numbers allow.

    Raises:
        InputError: rho is not above 0, the length is not, or the unit and the adjacency are not ones that
            this can protect.
        BudgetError: rho does not fit.
    """
    if rho <= 0:
        raise InputError(invalid("rho", "above 0", "Give every measurement a share."))
    # Indicators of codes are whole already and need no finer steps.
    whole = all((matrix == np.trunc(matrix)).all() for matrix in numbers.numbers)
    height = 1 if whole else 1 << DIGITS
    matrices = numbers.cut(height)
    cap = None if longest is None else _cap(longest, height)
    squared = bound_change(matrices, cap, ledger.neighbours)
    shortened, spread = None, None
    if cap is not None:
        share = rho * COUNT_SHARE
        what = f"rows whose vector is longer than {longest:g}"
        counter = Gaussian(ledger, noise, 1)
        (count,), spread = counter.ask(
            [what], share, lambda: [np.array([count_long(rows(), numbers, matrices, cap)])]
        )
        # What the count costs comes out of the same share, so that both together cost rho.
        shortened, rho = float(count[0]), rho - share
    gaussian = Gaussian(ledger, noise, squared)
    variance = check_drawable(gaussian.sigma_squared(rho))
    what = f"noisy copies of all rows, {numbers.size} numbers of {len(numbers.names)} columns"
    event = GaussianEvent(what, squared, variance, gaussian.rounded)

    def draw(vectors: Integers) -> Answer:
        # A uniform word a row; that two are equal has a probability below n^2 / 2^64.
        order = np.argsort(noise.words(len(vectors)), kind="stable")
        return Answer((gaussian.noisy(vectors[order], variance),))

    answer = ledger.ask([event], lambda: build_vectors(rows(), numbers, matrices, cap), draw)
    (found,) = answer.arrays
    if found.ndim != 2 or found.shape[1] != numbers.size:
        raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
    held = tuple(matrix / height for matrix in matrices[int(numbers.constant) :])
    kept = RowNumbers(numbers.names, held, numbers.constant)
    return NoisySlices(kept, found / height, gaussian.deviation(variance) / height, shortened, spread)


def bound_change(matrices: Sequence[Integers], cap: int | None, neighbours: Neighbours) -> int:
    """The square of the largest change of the rows' vectors between neighbours, in whole numbers.

    Raises:
        InputError: Neighbouring tables may differ in their number of rows, or in several rows.
    """
    if neighbours.unit.owner is not None:
        remedy = "Keep one row of each owner first, and leave the owner's column out."
        raise InputError(invalid("owner", "left out where every row is released with noise", remedy))
    # A row that is emptied moves a vector by its own length; one that is replaced by the distance of two.
    if neighbours.adjacency == "zero_out":
        return bound_length(matrices, cap)
    if neighbours.adjacency == "replace_one":
        return bound_distance(matrices, cap)
    remedy = "Every row is released with noise, so their number shows: it has to be public, as under these."
    kept = "'zero_out' or 'replace_one' for slices"
    raise InputError(invalid("adjacency", kept, remedy, got=neighbours.adjacency))


def bound_length(matrices: Sequence[Integers], cap: int | None) -> int:
    """The largest square of a vector's length, whatever the row, and 1 where all vectors are 0."""
    found = max(sum(int((matrix**2).sum(axis=0).max()) for matrix in matrices), 1)
    return found if cap is None else min(found, cap**2)


def bound_distance(matrices: Sequence[Integers], cap: int | None) -> int:
    """The largest square of the distance of two rows' vectors, or a bound on it.

    Attribute by attribute two codes are so far apart at most, which is exact where nothing is shortened.
    Vectors without a negative number are at most sqrt(2) lengths apart, since ||x - y||^2 = ||x||^2 + ||y||^2
    - 2 x'y, and others at most 2. Where no two rows can differ it is 1, so that there is noise to record.
    """
    signed = any(int(matrix.min()) < 0 for matrix in matrices)
    by_length = (4 if signed else 2) * bound_length(matrices, cap)
    if cap is not None:
        return max(by_length, 1)
    return max(min(by_length, sum(_bound_codes(matrix) for matrix in matrices)), 1)


def _bound_codes(matrix: Integers) -> int:
    """The largest square of the distance of two codes' numbers, or for very many codes a bound on it."""
    squares = (matrix**2).sum(axis=0)
    if matrix.shape[1] > MAX_CODES:
        return (4 if int(matrix.min()) < 0 else 2) * int(squares.max())
    # ||x - y||^2 of every two codes at once.
    return int((squares[:, None] + squares[None, :] - 2 * (matrix.T @ matrix)).max())


def build_vectors(
    rows: Encoded, numbers: RowNumbers, matrices: Sequence[Integers], cap: int | None
) -> Integers:
    """The vector of each row in the table's order, shape [rows, numbers]. **Not private.**

    A longer vector than `cap` is multiplied by cap / length in whole numbers, cut towards 0; it depends on
    that row alone.
    """
    found = np.empty((rows.rows, numbers.size), dtype=np.int64)
    start = int(numbers.constant)
    if numbers.constant:
        found[:, 0] = matrices[0][0, 0]
    for name, matrix in zip(numbers.names, matrices[start:], strict=True):
        found[:, start : start + len(matrix)] = matrix.T[rows.column(name)]
        start += len(matrix)
    if cap is not None:
        _shorten(found, cap)
    return found


def count_long(rows: Encoded, numbers: RowNumbers, matrices: Sequence[Integers], cap: int) -> int:
    """How many rows have a longer vector than `cap`. **Not private.**"""
    first = int(numbers.constant)
    squares = np.full(rows.rows, int(matrices[0][0, 0]) ** 2 if first else 0, dtype=np.int64)
    for name, matrix in zip(numbers.names, matrices[first:], strict=True):
        squares += (matrix**2).sum(axis=0)[rows.column(name)]
    return int((squares > cap**2).sum())


def _shorten(vectors: Integers, cap: int) -> None:
    squares = (vectors**2).sum(axis=1)
    for place in np.flatnonzero(squares > cap**2):
        # The length rounded up in whole numbers, so that the shortened vector is no longer than the cap.
        length = math.isqrt(int(squares[place]) - 1) + 1
        vector = vectors[place]
        # Cut towards 0, so that rounding can only shorten a row.
        vectors[place] = np.sign(vector) * (np.abs(vector) * cap // length)


def _cap(longest: float, height: int) -> int:
    """The longest length in steps of 1 / height, rounded down.

    Raises:
        InputError: It is less than one step.
    """
    if not (math.isfinite(longest) and longest * height >= 1):
        remedy = "Leave it out for what the numbers allow."
        raise InputError(
            invalid("longest", f"a finite number of at least {1 / height:g}", remedy, got=longest)
        )
    return int(longest * height)
