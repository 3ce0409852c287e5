"""moments: sums over rows of random Fourier features, by label, with Gaussian noise.

Row r has codes x_r and label y_r. A public `Embedding` gives it a phase for each of m frequencies, and so a
vector u_r of 2 m whole numbers: a cos(phase) and a sin(phase), cut towards 0. Released is, for each label c,
sum_r u_r 1[y_r = c] plus noise, divided by a: the mean embedding of DP-MERF (Harder, Adamczewski and Park
2021, section 3) in rows, the division by the number of rows left to post-processing.

**Privacy.** Unit and adjacency: the ledger's, owners capped at k rows (1 where rows are protected). The
embedding, a and the division depend on public things and earlier releases only.
*One row.* Cosines and sines are looked up in a table of TURN whole numbers; B is the largest square sum of a
cosine and its sine in that very table, found by looking at all of them. So ||u_r||^2 <= m B whatever the
row, and B <= a^2 but for what the last bit of a cosine adds.
*Sensitivity.* With the labels' sums side by side a row is a vector v_r with u_r in the part of its label
and 0 elsewhere: ||v_r||^2 <= m B. Under add_remove the sum of at most k such vectors comes or goes: at most
k sqrt(m B) in L2. Under replace_one at most k leave and at most k others enter: at most 2 k sqrt(m B), by
the triangle inequality; two rows of one label with opposite phases reach it. So with l1 the L1
sensitivity of a marginal (k, or 2 k) the squared sensitivity is l1^2 m B. With the one-hot part of DP-MERF's
embedding, which is a set of marginals and bought with `measure`, costs add up to those of the joint release:
under replace_one of 4 for the Fourier part and 2 for the one-hot one, sqrt(6) in all, where the
triangle inequality alone would give sqrt(8).
*Floating point.* None of it touches the rows: phases are added modulo TURN and sums are int64, both exact, so
that a row's vector depends on the row alone and not on where in the table it stands. (Products of
float matrices would not have that: their last bits depend on the rows beside.) Sums of up to 2^33 rows stay
below 2^48.
*Cost.* Noise of variance l1^2 m B / (2 rho), rounded up, costs at most rho as the discrete Gaussian ("zcdp")
or the rounded continuous one ("gdp"): see `Gaussian`. The event is recorded before any noise is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numba import njit
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.measure.mechanisms.gaussian import LARGEST_NOISE, Gaussian
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import BitSource
from margrave.release import NoisyMoments
from margrave.schema.encoded import Encoded
from margrave.schema.features import TURN, Embedding

MAX_DIGITS, MIN_DIGITS = 14, 4
"""Binary digits of a, at most and at least: as many as noise leaves room for. A cosine fits in 16 bits."""
BLOCK = 1 << 16
"""Rows worked on at a time."""


def moments(
    rows: Callable[[], Encoded],
    embedding: Embedding,
    rho: Fraction,
    shape: tuple[int, int],
    ledger: Ledger,
    noise: BitSource,
) -> NoisyMoments:
    """Noisy sums of Fourier features over the rows of each label, in rows.

    **Privacy.** Costs rho for all of them together; proof at the head of this file.

    Args:
        rows: Gives the private rows; not called when a resumed run has the answer already.
        embedding: The features.
        rho: What the answer may cost, above 0.
        shape: Of the answer, [labels, 2 frequencies].
        ledger: Where the spend is recorded.
        noise: Source of random bits.

    Raises:
        InputError: rho is not above 0, or so small that the noise would overflow.
        BudgetError: rho does not fit.
    """
    if rho <= 0:
        raise InputError(invalid("rho", "above 0", "Give every measurement a share."))
    l1, price = ledger.neighbours.marginal_l1, ledger.price(rho)
    # Sines and cosines are whole numbers of 2^-digits from a public table: sums of floats would hang on the
    # order of the rows.
    digits = _digits(l1**2 * embedding.frequencies / (2 * price))
    table = wave(1 << digits)
    gaussian = Gaussian(ledger, noise, l1**2 * embedding.frequencies * _largest(table))
    by = "" if embedding.label is None else f" by {embedding.label}"
    columns = " x ".join(embedding.names)
    what = f"{embedding.frequencies} Fourier features of {columns}{by}, in steps of 2^-{digits} rows"
    (found,), sigma = gaussian.ask([what], rho, lambda: [sum_embedded(rows(), embedding, table)])
    if found.shape != shape:
        raise InputError(invalid("resume", "of the same table and schema", "A stored answer differs."))
    return NoisyMoments(embedding, found / 2.0**digits, sigma / 2.0**digits)


def wave(height: int) -> NDArray[np.int16]:
    """height * cos(2 pi p / TURN), cut towards 0, for each phase p: shape [TURN]."""
    turns = np.arange(TURN) * (2 * math.pi / TURN)
    cut: NDArray[np.int16] = np.trunc(height * np.cos(turns)).astype(np.int16)
    return cut


def _largest(table: NDArray[np.int16]) -> int:
    """B: the largest square sum of a cosine and its sine."""
    # A sine is the cosine a quarter turn before, in the very table that is used.
    cosines = table.astype(np.int64)
    return int((cosines**2 + np.roll(cosines, TURN // 4) ** 2).max())


def _digits(variance: Fraction) -> int:
    """Binary digits of a for which a^2 variance can be drawn, from public numbers alone.

    Raises:
        InputError: There are too few.
    """
    # Noise of a^2 times the variance has to stay within what the sampler draws.
    found = (LARGEST_NOISE - math.ceil(variance).bit_length()) // 2
    if found < MIN_DIGITS:
        raise InputError(invalid("rho", "enough for a variance below 2^58", "Use fewer frequencies."))
    return min(found, MAX_DIGITS)


def sum_embedded(rows: Encoded, embedding: Embedding, table: NDArray[np.int16]) -> NDArray[np.int64]:
    """The exact sums, shape [labels, 2 frequencies]. **Not private.**"""
    starts = np.cumsum([0, *(len(part) for part in embedding.phases)])[:-1]
    phases = np.ascontiguousarray(np.concatenate(embedding.phases))
    labels, width = embedding.shape(rows.domain)
    sums = np.zeros((labels, width), dtype=np.int64)
    columns = [rows.column(name) for name in embedding.names]
    label = None if embedding.label is None else rows.column(embedding.label)
    for first in range(0, rows.rows, BLOCK):
        part = slice(first, first + BLOCK)
        # Each attribute's codes begin where the previous one's end in the table of phases.
        places = np.array(
            # In full width: NumPy 1 adds a small number to codes of one byte in one byte.
            [column[part].astype(np.int64) + start for column, start in zip(columns, starts, strict=True)]
        )
        codes = np.zeros(places.shape[1]) if label is None else label[part]
        _add(np.ascontiguousarray(places.T, dtype=np.int64), codes.astype(np.int64), phases, table, sums)
    return sums


@njit(cache=True, nogil=True)
def _add(places, labels, phases, table, sums):  # type: ignore[no-untyped-def]  # pragma: no cover
    """Add every row's cosines and sines to the sums of its label."""
    count = phases.shape[1]
    total = np.empty(count, dtype=np.uint16)
    quarter = len(table) // 4
    for row in range(len(places)):
        total[:] = 0
        for place in places[row]:
            for f in range(count):
                total[f] += phases[place, f]  # 16 bits are one turn: what overflows is whole turns
        into = sums[labels[row]]
        for f in range(count):
            into[f] += table[total[f]]
            into[count + f] += table[np.uint16(total[f] - quarter)]
