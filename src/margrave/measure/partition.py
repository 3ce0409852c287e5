"""listed_values: which texts occur in a column, by a noisy count and a threshold.

**Privacy.** Unit and adjacency: the ledger's; k rows an owner. Think of the histogram over all texts
there are and one cell for missing rows: Gaussian noise on it costs rho (`Gaussian`). Releasing only
cells that both neighbours hold and that pass the threshold is post-processing of it. The true
procedure differs only if a value that one of the two tables lacks (at most k values, k rows in all)
passes, which has probability at most delta by `threshold`. So neighbours are within rho after
events of probability delta: delta-approximate rho-zCDP, and likewise for GDP. Values are returned
sorted by name, so their order says nothing about the rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from margrave.errors import InputError, invalid
from margrave.measure.gaussian import Gaussian
from margrave.privacy.events import PartitionEvent
from margrave.privacy.ledger import Ledger
from margrave.release import NoisyMarginal
from margrave.schema.columns import Column, Listed

if TYPE_CHECKING:
    from margrave.protocols import Source

__all__ = ["EVIDENT", "OTHER", "listed_values", "may_be_missing", "rest_of", "threshold"]

OTHER = "(other)"
"""Label of the code that stands for all values not listed."""

EVIDENT = 3.0
"""Noise standard deviations above which a rare kind of value (missing, text) counts as present."""


def threshold(k: int, sigma: float, delta: Fraction) -> int:
    """The least noisy count at which a value may be released.

    A value that one owner alone holds has at most k rows. Both noises satisfy P(Z >= t) <= Q((t - 1) /
    sigma), with Q the normal upper tail: for the discrete Gaussian by Canonne, Kamath and Steinke 2020,
    Proposition 25, for the rounded one since round(X) >= t implies X >= t - 1/2. At most k values can be
    new, so Q((t - 1) / sigma) <= delta / k at t = threshold - k keeps the chance that any passes below
    delta.
    """
    if not Fraction(1, 10**300) <= delta / k <= Fraction(1, 2):
        raise InputError(invalid("delta", "above 0 to search for unknown values", "Declare the categories."))
    return k + 1 + math.ceil(-float(ndtri(float(delta) / k)) * sigma * (1 + 1e-9))


def listed_values(
    column: Listed, source: Source, gaussian: Gaussian, ledger: Ledger, rho: Fraction, delta: Fraction
) -> tuple[Column, NoisyMarginal]:
    """The values of a text column whose noisy count passes the threshold, and those counts.

    **Privacy.** Costs rho and delta; proof at the head of this file.

    The count of `other` is not seen here: it is left wide open, for `rest_of` to fill in.

    Args:
        column: A column with no declared values.
        source: The private table.
        gaussian: The mechanism.
        ledger: Where the spend is recorded.
        rho: What it may cost of rho; `delta`, of delta.
    """
    variance = gaussian.sigma_squared(rho)
    sigma = gaussian.sigma(rho)
    bar = threshold(ledger.neighbours.new_values, math.sqrt(float(variance)), delta)
    ledger.record(
        PartitionEvent(
            f"values of {column.name}", gaussian.l2_squared, variance, bar, delta, gaussian.rounded
        )
    )
    texts, counts = source.values(column.name)
    # Not kinds' first cell: that holds "1e999" too, no number there but a value here. One row, one cell.
    absent = int(source.kinds(column.name).reveal().sum() - counts.reveal().sum())
    noisy = gaussian.noisy(np.append(counts.reveal(), absent), rho)
    kept = sorted((text, value) for text, value in zip(texts, noisy[:-1], strict=True) if value >= bar)
    missing = may_be_missing(column, float(noisy[-1]), sigma)
    known = dataclasses.replace(
        column,
        values=tuple(text for text, _ in kept),
        other=_label({text for text, _ in kept}),
        missing=missing,
        strict=False,
    )
    values = [value for _, value in kept]
    return known, _marginal(known, values, float(noisy[-1]), sigma)


def may_be_missing(column: Column, absent: float, sigma: float) -> bool:
    """Whether values may be missing: as declared, else whether the noisy count of missing rows is evident."""
    return column.missing if column.missing is not None else absent > EVIDENT * sigma


def _label(taken: set[str]) -> str:
    label = OTHER
    while label in taken:
        label = f"({label})"
    return label


def _marginal(column: Listed, values: list[float], absent: float, sigma: float) -> NoisyMarginal:
    """The listed counts as a measurement; `other` is not seen, so it gets a flat guess and a wide sigma."""
    seen = sum(values) + max(absent, 0.0)
    wide = max(seen, sigma)
    cells = [*values, 0.0, *([absent] if column.missing else [])]
    spread = [*([sigma] * len(values)), wide, *([sigma] if column.missing else [])]
    return NoisyMarginal((column.name,), np.asarray(cells), np.asarray(spread))


def rest_of(marginal: NoisyMarginal, column: Column, totals: Sequence[tuple[float, float]]) -> NoisyMarginal:
    """The marginal with the count of `other` filled in: the noisy row count less the listed counts.

    Post-processing of released numbers. The row count is the inverse-variance mean of the totals.

    Args:
        marginal: A released one-way marginal.
        column: Its column.
        totals: Noisy row counts released on the way, with their variances.
    """
    if not isinstance(column, Listed) or column.other_code is None or not totals:
        return marginal
    precision = sum(1.0 / variance for _, variance in totals)
    rows = sum(value / variance for value, variance in totals) / precision
    values, sigma = marginal.values.copy(), marginal.sigmas.copy()
    others = np.arange(len(values)) != column.other_code
    values[column.other_code] = rows - values[others].sum()
    sigma[column.other_code] = math.sqrt(1.0 / precision + float((sigma[others] ** 2).sum()))
    return NoisyMarginal(marginal.clique, values, sigma)
