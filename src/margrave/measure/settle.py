"""What a noisy profile says about a column: its kind where that is open, and whether values are missing."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.measure.partition import EVIDENT
from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Date,
    Integer,
    Listed,
    Moment,
    Real,
    Time,
    Unknown,
)
from margrave.schema.profile import PROFILE, TRUTHS
from margrave.schema.spelling import MARKS

__all__ = ["settled"]

CERTAIN = 4.0
"""Noise standard deviations from which cells of a class decide on the kind of a column."""
LEAST = 0.02
"""Share of the rows up to which cells of another kind are taken for slips and become missing."""

PADDED_SHARE = 0.002
"""Least share of the rows with a needless zero in front that makes a column of digits one of codes."""

MISSING, WHOLE, NUMBER, DATE, MOMENT, TIME, TEXT, MARK, PADDED, POINTED, *TRUE = range(len(PROFILE))


def settled(column: Column, noisy: NDArray[np.float64], sigma: float) -> Column:
    """The column with what its noisy profile tells. Post-processing of released counts.

    Args:
        column: Of unknown kind, of numbers without bounds, or of unknown missingness.
        noisy: Noisy counts in the order of `PROFILE`, shape [classes].
        sigma: Standard deviation of their noise.

    Raises:
        SchemaError: The column's kind has no profile.
    """
    evident = CERTAIN * sigma
    if isinstance(column, Unknown):
        return _kind(column, noisy, evident, EVIDENT * sigma)
    if isinstance(column, Real) and column.edges is None:
        if noisy[NUMBER] > evident or column.lower is not None or column.upper is not None:
            return column
        return Integer(
            name=column.name,
            missing=column.missing,
            bins=column.bins,
            binning=column.binning,
            strict=False,
        )
    if not isinstance(column, (Binned, Listed)):
        raise SchemaError(invalid(f"column {column.name!r}", "of a known kind", "Declare its kind."))
    missing = bool(noisy[MISSING] > EVIDENT * sigma)
    if isinstance(column, Boolean):
        marked = missing or bool(noisy[MARK] > EVIDENT * sigma)
        return _truths(column, noisy, marked if column.missing is None else column.missing)
    if isinstance(column, Binned):
        missing = missing or bool(noisy[MARK] > EVIDENT * sigma)
    return dataclasses.replace(column, missing=missing, strict=False)


def _truths(column: Boolean, noisy: NDArray[np.float64], missing: bool) -> Boolean:
    """A column of truth values, spelt as most of its texts are, if there are any."""
    votes = noisy[TRUE]
    spelling = (
        TRUTHS[int(np.argmax(votes))] if float(votes.sum()) > float(noisy[WHOLE]) else column.spelling or ""
    )
    return dataclasses.replace(column, missing=missing, spelling=spelling, strict=False)


def _kind(column: Unknown, noisy: NDArray[np.float64], evident: float, present: float) -> Column:
    """The kind that all but a few present cells have, else Categorical.

    A date stands for the moment it begins in a column of moments, and whole numbers are numbers. Marks of
    missing values are missing; but digits with needless zeros in front are codes, which are text.
    """
    slips = max(evident, LEAST * float(noisy.sum()))
    name, missing = column.name, column.missing
    date = float(noisy[DATE]) if noisy[MOMENT] > evident else 0.0
    held = {
        "number": _together(noisy[[WHOLE, NUMBER, POINTED, PADDED]], evident),
        "date": float(noisy[DATE]) - date,
        "moment": float(noisy[MOMENT]) + date,
        "time": float(noisy[TIME]),
        "truth": _together(noisy[TRUE], evident),
    }
    main = max(held, key=lambda kind: held[kind])
    rest = [float(noisy[TEXT]), *(held[kind] for kind in held if kind != main)]
    if max(rest) > slips or sum(rest) > 2 * slips:
        return Categorical(name=name, missing=missing, strict=False)
    if main == "number" and noisy[PADDED] > max(evident, PADDED_SHARE * held[main]):
        return Categorical(name=name, missing=missing, strict=False)
    if main == "truth" and held[main] > evident:
        absent = bool(max(noisy[MISSING], noisy[MARK]) > present) if missing is None else missing
        return _truths(Boolean(name=name, strict=False), noisy, absent)
    if column.textual and (main == "number" or held[main] <= evident):
        return Categorical(name=name, missing=missing, strict=False)
    mark = MARKS[0] if noisy[MARK] > max(present, float(noisy[MISSING])) else ""  # which one is asked later
    if main != "number" and held[main] > evident:
        if main == "date":
            return Date(name=name, missing=missing, mark=mark, strict=False)
        moments = Moment if main == "moment" else Time
        return moments(name=name, missing=missing, mark=mark, strict=False)
    if noisy[NUMBER] > evident:
        return Real(name=name, missing=missing, mark=mark, strict=False)
    pointed = noisy[POINTED] > max(evident, float(noisy[WHOLE]))
    spelling = "0.0" if pointed else ""  # how many decimals there are is asked later
    return Integer(name=name, missing=missing, mark=mark, spelling=spelling, strict=False)


def _together(counts: NDArray[np.float64], evident: float) -> float:
    """Cells of several classes: the sum of the evident ones, so that noise of the others does not add up."""
    clear = counts[counts > evident]
    return float(clear.sum()) if len(clear) else float(counts.max())
