"""What a noisy profile says about a column: its kind where that is open, and whether values are missing.

settle_format, settle_months: in which format its numbers, dates or months are written, by votes of its cells.
ask_for_clock, ask_for_dates: whether whole numbers are times of day, or dates, by votes of their cells.
as_written: how the numbers, censored results and missing values of a text column are written, by votes of its
cells.

**Privacy.** Unit and adjacency: the ledger's. Each look is a histogram over a public list of spellings
(`margrave.schema.storage.spelling.SPELLINGS`): a cell of the table votes for one of them at most, which
depends on that cell alone, so its sensitivity is that of one marginal. Which looks are taken depends on
released counts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.measure.mechanisms.partition import MIN_DEVIATIONS, OTHER
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
from margrave.schema.columns.base import split_words
from margrave.schema.columns.binned import SpeltNumber, Whole
from margrave.schema.columns.identifier import is_code_name
from margrave.schema.profile import PROFILE, TRUTHS
from margrave.schema.storage.censored import MARKS
from margrave.schema.storage.clock_numbers import CLOCK_VOTES, MAX_NOISE, choose_clock_format
from margrave.schema.storage.date_numbers import (
    OCTAVES,
    choose_date_number_format,
    choose_digit_date_format,
    is_stamp_format,
)
from margrave.schema.storage.date_votes import choose_date_format
from margrave.schema.storage.months import MONTH_VOTES
from margrave.schema.storage.numbers import (
    CERTAIN_DEVIATIONS,
    MAX_SLIP_SHARE,
    MAX_TEXT_SHARE,
    choose_number_format,
    find_evident,
)
from margrave.schema.storage.spelling import SPELLINGS, choose_number_spelling, choose_time_spelling
from margrave.schema.storage.text import number_format
from margrave.schema.storage.zones import mark_of

if TYPE_CHECKING:
    from margrave.protocols import Source

FullLook = Callable[[str, Callable[[], NDArray[np.int64]], Fraction, bool], tuple[NDArray[np.float64], float]]
"""What is looked at, the exact counts, rho, and whether every row is in them; the noisy counts and sigma."""

Instant = TypeVar("Instant", Date, Moment, Time)

UNASKED = (("", 0.0),)
"""What stands for the censored results of a column as long as it is not asked which these are."""

PADDED_SHARE = 0.002
"""Least share of the rows with a needless zero in front that makes a column of digits one of codes."""

MISSING, WHOLE, NUMBER, DATE, MOMENT, TIME, TEXT, MARK, PADDED, POINTED, *OTHERS = range(len(PROFILE))
WRITTEN_NUMBER, WRITTEN_DATE, WRITTEN_MOMENT, *TRUE, WRITTEN_MONTH, CENSORED = OTHERS


def settle_kind(column: Column, noisy: NDArray[np.float64], sigma: float) -> Column:
    """The column with what its noisy profile tells. Post-processing of released counts.

    Args:
        column: Of unknown kind, of numbers without bounds, or of unknown missingness.
        noisy: Noisy counts in the order of `PROFILE`, shape [classes].
        sigma: Standard deviation of their noise.

    Raises:
        SchemaError: The column's kind has no profile.
    """
    evident = CERTAIN_DEVIATIONS * sigma
    if isinstance(column, Unknown):
        found = _kind(column, noisy, evident, MIN_DEVIATIONS * sigma)
        codes = isinstance(found, Integer) and not found.spelling and not found.censored
        if codes and noisy[WHOLE] > evident and is_code_name(column.name):
            return Categorical(name=column.name, missing=found.missing, strict=False)
        return found
    if isinstance(column, Binned) and column.format is None:
        # Days of which the digits alone are written; undeclared, they would be numbers.
        bare = column.read == "date" and noisy[WHOLE] > evident and noisy[WHOLE] == noisy.max()
        return dataclasses.replace(column, format="%Y%m%d") if bare else column
    if isinstance(column, Real) and column.edges is None:
        if _has_decimals(noisy, evident) or column.lower is not None or column.upper is not None:
            return column
        return Integer(
            name=column.name, missing=column.missing, bins=column.bins, binning=column.binning, strict=False
        )
    if not isinstance(column, (Binned, Listed)):
        raise SchemaError(invalid(f"column {column.name!r}", "of a known kind", "Declare its kind."))
    missing = bool(noisy[MISSING] > MIN_DEVIATIONS * sigma)
    if isinstance(column, Boolean):
        marked = missing or bool(noisy[MARK] > MIN_DEVIATIONS * sigma)
        return _truths(column, noisy, marked if column.missing is None else column.missing)
    if isinstance(column, Binned):
        # Marks and censored results, and text where numbers are written as usual, are read as missing.
        absent = [MARK, CENSORED] if column.format else [MARK, CENSORED, TEXT]
        missing = missing or bool(noisy[absent].max() > MIN_DEVIATIONS * sigma)
    return dataclasses.replace(column, missing=missing, strict=False)


def may_be_written(column: Column, noisy: NDArray[np.float64], sigma: float) -> str:
    """Which votes a column asks for: "number format", "date format", "month format" or "digit format"; "" for
    none.

    Post-processing of a released profile.

    Args:
        column: As `settle_kind` found it.
        noisy: Noisy counts in the order of `PROFILE`, shape [classes].
        sigma: Standard deviation of their noise.
    """
    evident = CERTAIN_DEVIATIONS * sigma
    # Digits that are codes, as those with zeros in front and those in text of typed storage, may be times of
    # day such as 0517, or dates such as 01032024.
    if isinstance(column, Categorical) and noisy[[PADDED, WHOLE]].max() > evident:
        numbers, others = noisy[[PADDED, WHOLE]], np.delete(noisy, [MISSING, MARK, PADDED, WHOLE])
        asked = are_padded(noisy, sigma) or not is_code_name(column.name)
        return "digit format" if asked and numbers.sum() > len(others) * max(others.max(), evident) else ""
    # In whole numbers that are declared, what looks like decimals may be thousands.
    written = (
        [WRITTEN_NUMBER, NUMBER] if isinstance(column, Whole) and column.format is None else [WRITTEN_NUMBER]
    )
    if isinstance(column, SpeltNumber) and noisy[written].max() > evident:
        return "number format"
    dates = noisy[[DATE, MOMENT, WRITTEN_DATE, WRITTEN_MOMENT]]
    # Where days are written as well, these would be lost if all were read as months.
    if isinstance(column, Date) and noisy[WRITTEN_MONTH] > max(evident, _together(dates, evident)):
        return "month format"
    dated = _together(noisy[[WRITTEN_DATE, WRITTEN_MOMENT]], evident)
    return "date format" if isinstance(column, Date | Moment) and dated > evident else ""


def settle_format(column: Binned, noisy: NDArray[np.float64], sigma: float, told: bool) -> Column:
    """The column with the format that most of its texts fit. Post-processing of released counts.

    Args:
        column: Of numbers, dates or moments. One whose format is None, or that has bins, keeps its declared
            kind.
        noisy: Noisy counts of the classes that vote on formats, shape [votes].
        sigma: Standard deviation of their noise.
        told: Whether numbers were declared: then codes that look like some are taken for them.
    """
    if isinstance(column, Date | Moment):
        return dataclasses.replace(column, format=choose_date_format(noisy, find_evident(sigma, len(noisy))))
    declared = column.format is None or column.edges is not None
    found = choose_number_format(noisy, sigma, declared, declared and isinstance(column, Whole))
    if found is None and told:
        found = choose_number_format(noisy, sigma, True, False)
    if found is None:
        return Categorical(name=column.name, missing=column.missing, strict=False)
    written, decimals = found
    if declared:
        return dataclasses.replace(column, format=written)
    kind = Real if decimals else Integer
    spelling = column.spelling if isinstance(column, Integer) and not decimals else ""
    return kind(
        name=column.name,
        missing=column.missing,
        mark=column.mark,
        spelling=spelling,
        censored=column.censored if isinstance(column, SpeltNumber) else (),
        format=written,
        strict=False,
    )


def are_padded(noisy: NDArray[np.float64], sigma: float) -> bool:
    """Whether a noisy profile tells of digits with zeros in front."""
    return bool(noisy[PADDED] > CERTAIN_DEVIATIONS * sigma)


def settle_digits(column: Categorical, noisy: NDArray[np.float64], sigma: float, padded: bool) -> Column:
    """The column of codes of digits, or one of dates, or of times of day with zeros in front, where they are.

    Post-processing of released counts.

    Args:
        column: Of codes.
        noisy: Noisy counts of the votes on digits, shape [votes].
        sigma: Standard deviation of their noise.
        padded: Whether there are zeros in front.
    """
    clocks, dates = noisy[: len(CLOCK_VOTES)], noisy[len(CLOCK_VOTES) :]
    if found := choose_digit_date_format(dates, clocks, sigma):
        return Date(name=column.name, missing=column.missing, format=found, strict=False)
    # A date is no time of day.
    clocks = clocks + float(dates.sum()) * (np.arange(len(clocks)) == CLOCK_VOTES.index("none"))
    if padded and (found := choose_clock_format(clocks, sigma, True, False)):
        return Time(name=column.name, missing=column.missing, format=found, strict=False)
    return column


CLOCK_WEIGHT, CLOCK_FINE = Fraction(1, 2), 100.0
"""Weight of the look at whether whole numbers are times of day, at most, and the rows over the noise of a
count with which no less noise is bought. It is taken out of the weight of the look at grids. Not measured."""
CLOCK_ENDS, CLOCK_WIDTH = (700.0, 4097.0), 300.0
"""Where the range of numbers ends, at least and at most, and how wide it is at least where that is asked:
ranges end at a power of two, most of the time, and numbers within three hours may be years."""


def price_clock(
    column: Binned,
    ends: tuple[float, float],
    unit: Fraction,
    rows: float,
    sigma: Callable[[Fraction], float],
) -> Fraction:
    """What it costs to ask whether whole numbers are times of day; 0 where they are not or noise hides it.

    Args:
        column: Of numbers.
        ends: The released range of nearly all of them, the upper end left out.
        unit: rho of a look of weight 1.
        rows: A released guess of the row count.
        sigma: Standard deviation of the noise that a cost buys.
    """
    lower, upper = ends
    may_be = lower >= 0 and CLOCK_ENDS[0] <= upper <= CLOCK_ENDS[1] and upper - lower >= CLOCK_WIDTH
    may_be &= not NUMBER_WORDS.intersection(split_words(column.name)[-1:])
    most_noise = MAX_NOISE if isinstance(column, Integer) and may_be else 0.0
    return _price_votes(unit, rows, sigma, most_noise)


def _price_votes(
    unit: Fraction, rows: float, sigma: Callable[[Fraction], float], most_noise: float
) -> Fraction:
    """What votes on whole numbers cost, no more than they need; 0 where noise hides what they say."""
    cost = unit * CLOCK_WEIGHT
    if sigma(cost) > most_noise * rows:
        return Fraction(0)
    needed = min((CLOCK_FINE * sigma(cost) / rows) ** 2, 1.0)
    return cost * Fraction(max(math.ceil(needed * 4096), 1), 4096)


def ask_for_clock(column: Binned, source: Source, look: FullLook, cost: Fraction) -> Time | None:
    """The column of times of day that whole numbers are, as in 517 for 05:17, or None.

    **Privacy.** Proof at the head of this file: CLOCK_VOTES are classes, and a cell is in one at most, by its
    own number. Whether it is asked, and what it costs, follows from a released range and row count.

    Args:
        column: Of whole numbers.
        source: The private table.
        look: Prices, records and adds the noise.
        cost: rho of the look.
    """
    noisy, sigma, pointed = _ask_votes(column, source, look, cost, ("times of day", "clock format"))
    return _as_written_in(Time, column, choose_clock_format(noisy, sigma, False, pointed))


def _ask_votes(
    column: Binned, source: Source, look: FullLook, cost: Fraction, asked: tuple[str, str]
) -> tuple[NDArray[np.float64], float, bool]:
    """The noisy votes of whole numbers on what they stand for, sigma, and whether they have a point.

    asked: What that is, and the word of the votes.
    """
    what, read = asked

    def exact() -> NDArray[np.int64]:
        return source.spellings(column.name, read).reveal()

    noisy, sigma = look(f"{what} of {column.name}", exact, cost, False)
    return noisy, sigma, isinstance(column, SpeltNumber) and bool(column.spelling)


MAX_DATES_NOISE = 0.1
"""Most noise of a count, as a share of the rows, with which it is said that numbers are dates: of others one
in 27 is one. Not measured."""


def price_dates(
    column: Binned,
    ends: tuple[float, float],
    unit: Fraction,
    rows: float,
    sigma: Callable[[Fraction], float],
) -> Fraction:
    """What it costs to ask whether whole numbers are dates; 0 where they are not or noise hides it.

    Args:
        column: Of numbers.
        ends: The powers of two between which nearly all of them are, as released.
        unit: rho of a look of weight 1.
        rows: A released guess of the row count.
        sigma: Standard deviation of the noise that a cost buys.
    """
    may_be = any(low <= ends[0] and ends[1] <= high for low, high in OCTAVES)
    most_noise = MAX_DATES_NOISE if isinstance(column, Integer) and may_be else 0.0
    return _price_votes(unit, rows, sigma, most_noise)


def ask_for_dates(column: Binned, source: Source, look: FullLook, cost: Fraction) -> Date | Moment | None:
    """The column of dates or time stamps that whole numbers are, as in 20240229 for 2024-02-29, or None.

    **Privacy.** As `ask_for_clock`, by DATE_NUMBER_VOTES.

    Args:
        column: Of whole numbers.
        source: The private table.
        look: Prices, records and adds the noise.
        cost: rho of the look.
    """
    noisy, sigma, pointed = _ask_votes(column, source, look, cost, ("dates", "date number"))
    written = choose_date_number_format(noisy, sigma, pointed)
    if is_stamp_format(written):
        return _as_written_in(Moment, column, written)
    return _as_written_in(Date, column, written)


def _as_written_in(kind: type[Instant], column: Binned, written: str) -> Instant | None:
    """A column of dates or times in a format, of which nothing else is known than of the one of numbers; None
    without a format."""
    if not written:
        return None
    return kind(
        name=column.name,
        bins=column.bins,
        binning=column.binning,
        rare=column.rare,
        missing=column.missing,
        mark=column.mark,
        format=written,
        strict=False,
    )


def find_time_spelling(
    column: Binned,
    source: Source,
    look: FullLook,
    unit: Fraction,
    weights: Mapping[str, Fraction],
    votes: dict[str, tuple[NDArray[np.float64], float]],
) -> Binned:
    """A text column of moments or times of day with the spelling that most of its texts have, and the zone.

    **Privacy.** Proof at the head of this file. Whether offsets from UTC are looked at follows from the
    spelling that was released.

    Args:
        column: Others come back as they are, and so do those that are written as numbers.
        source: The private table.
        look: Prices, records and adds the noise.
        unit: rho of a look of weight 1.
        weights: The weight of each sort of look.
        votes: Where votes on offsets are put, by column: `share_zones` then has the zones.
    """
    if not isinstance(column, (Moment, Time)) or column.as_number:
        return column
    name, read = column.name, column.read

    def ask(what: str, asked: str, weight: Fraction) -> tuple[NDArray[np.float64], float]:
        return look(f"{what} of {name}", lambda: source.spellings(name, asked).reveal(), unit * weight, False)

    noisy, sigma = ask("spelling", read, weights["spelling"])
    if isinstance(column, Time):
        spelling = choose_time_spelling(noisy, CERTAIN_DEVIATIONS * sigma)
        return dataclasses.replace(column, spelling=spelling)
    spelling = SPELLINGS[read][int(np.argmax(noisy))]
    mark = mark_of(spelling)
    zone = "UTC" if mark else None
    if "+" in mark and column.zone:
        zone = column.zone
    elif "+" in mark:
        votes[name] = ask("offsets from UTC", "offset", weights["offsets"])
    return dataclasses.replace(column, spelling=spelling, zone=zone)


def settle_months(
    column: Binned, noisy: NDArray[np.float64], sigma: float, profile: NDArray[np.float64], told: bool
) -> Column:
    """The column of months with the format of nearly all its texts, or one of codes where there is none.

    Post-processing of released counts.

    Args:
        column: Of dates.
        noisy: Noisy counts of MONTH_VOTES, shape [votes].
        sigma: Standard deviation of their noise.
        profile: Noisy counts in the order of `PROFILE`.
        told: Whether the column was declared to be of dates, which it then stays.
    """
    best = int(np.argmax(noisy))
    others = np.delete(noisy, best)
    # Numbers are months if all texts are written as 10.2011 is.
    if MONTH_VOTES[best] != "%m.%Y":
        others = np.append(others, profile[NUMBER])
    slips = max(CERTAIN_DEVIATIONS * sigma, MAX_SLIP_SHARE * float(noisy.sum()))
    if _together(others, slips) > slips and not told:
        return Categorical(name=column.name, missing=column.missing, strict=False)
    return dataclasses.replace(column, format=MONTH_VOTES[best])


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
    missing values are missing; but digits with needless zeros in front are codes, which are text. Where noise
    hides all classes, a column is text if more cells seem to be than numbers of any class, and numbers
    otherwise: as text, these would come back as "(other)", which nobody can compute with (bench/LOG.md,
    2026-12-01).
    """
    name, missing = column.name, column.missing
    dates = _together(noisy[[DATE, WRITTEN_DATE]], evident)
    moments = _together(noisy[[MOMENT, WRITTEN_MOMENT]], evident)
    # In a column of moments a date stands for the moment it begins.
    date = dates if moments > evident else 0.0
    later = _count_later_months(noisy, evident)
    numbers = [WHOLE, POINTED, PADDED, WRITTEN_NUMBER] + [NUMBER] * (not later)
    held = {
        "number": _together(noisy[numbers], evident),
        "date": dates - date,
        "moment": moments + date,
        # One class more whose noise adds up would make twice as many columns seem mixed: bench/LOG.md.
        "month": later + float(noisy[WRITTEN_MONTH]) * bool(noisy[WRITTEN_MONTH] > evident),
        "time": float(noisy[TIME]),
        "truth": _together(noisy[TRUE], evident),
    }
    # Noise hides all: see bench/LOG.md.
    if noisy.max() <= evident and noisy[[TEXT, CENSORED]].max() > held["number"]:
        return Categorical(name=name, missing=missing, strict=False)
    if missing is None and _is_empty(noisy, evident) and noisy[TEXT] > noisy[numbers].max():
        return Categorical(name=name, values=(), other=OTHER, missing=True, strict=False)
    main = max(held, key=lambda kind: held[kind])
    if _is_mixed(held, main, noisy, evident):
        return Categorical(name=name, missing=missing, strict=False)
    if main == "number" and noisy[PADDED] > max(evident, PADDED_SHARE * held[main]):
        return Categorical(name=name, missing=missing, strict=False)
    if main == "truth" and held[main] > evident:
        absent = bool(max(noisy[MISSING], noisy[MARK]) > present) if missing is None else missing
        return _truths(Boolean(name=name, strict=False), noisy, absent)
    plain = main == "number" and noisy[WRITTEN_NUMBER] <= evident
    if column.textual and (plain or held[main] <= evident):
        return Categorical(name=name, missing=missing, strict=False)
    mark = MARKS[0] if noisy[MARK] > max(present, float(noisy[MISSING])) else ""  # which one is asked later
    if main != "number" and held[main] > evident:
        if main in ("date", "month"):
            return Date(name=name, missing=missing, mark=mark, strict=False)
        kind = Moment if main == "moment" else Time
        return kind(name=name, missing=missing, mark=mark, strict=False)
    censored = UNASKED if noisy[CENSORED] > evident else ()
    if _has_decimals(noisy, evident):
        return Real(name=name, missing=missing, mark=mark, censored=censored, strict=False)
    pointed = noisy[POINTED] > max(evident, float(noisy[WHOLE]))
    spelling = "0.0" if pointed else ""  # how many decimals there are is asked later
    return Integer(name=name, missing=missing, mark=mark, spelling=spelling, censored=censored, strict=False)


NUMBER_WORDS = frozenset(("code", "id", "no", "nr", "num", "number"))
"""Last words of the names of columns whose whole numbers are no times of day, whatever their digits are."""


def _has_decimals(noisy: NDArray[np.float64], evident: float) -> bool:
    """Whether numbers are not all whole; where noise hides both, whether more seem not to be."""
    decimals, whole = float(noisy[NUMBER]), float(noisy[[WHOLE, POINTED]].max())
    return decimals > (whole if whole <= evident else evident)


def _count_later_months(noisy: NDArray[np.float64], evident: float) -> float:
    """Numbers that are months beside 01.2011 to 09.2011, as 10.2011 is; 0 where there are more of them."""
    held = float(noisy[NUMBER])
    return held if evident < held <= noisy[WRITTEN_MONTH] else 0.0


def _is_empty(noisy: NDArray[np.float64], evident: float) -> bool:
    """Whether nearly all cells are missing and no class of the others is evident."""
    hidden = bool(np.delete(noisy, MISSING).max() <= evident < noisy[MISSING])
    return hidden and bool(noisy[MISSING] >= (1 - MAX_SLIP_SHARE) * noisy.sum())


def _is_mixed(held: Mapping[str, float], main: str, noisy: NDArray[np.float64], evident: float) -> bool:
    """Whether cells of other kinds than the main one are too many to be slips."""
    # Slips are either within the noise or a small share of the rows.
    slips = max(evident, MAX_SLIP_SHARE * float(noisy.sum()))
    text, censored = float(noisy[TEXT]), float(noisy[CENSORED])
    if main == "number" and noisy[NUMBER] > evident and text <= MAX_TEXT_SHARE * held[main]:
        text = 0.0
    # Beside as many numbers these are results as well, as those of a laboratory; else they are categories.
    if censored > evident and (main != "number" or censored > held[main]):
        text += censored
    rest = [text, *(held[kind] for kind in held if kind != main)]
    # Cells of other kinds are slips only if none of them is many, nor all together.
    return max(rest) > slips or sum(rest) > 2 * slips


def _together(counts: NDArray[np.float64], evident: float) -> float:
    """Cells of several classes: the sum of the evident ones, so that noise of the others does not add up."""
    # Noise of empty classes is positive half of the time, and would add up.
    clear = counts[counts > evident]
    return float(clear.sum()) if len(clear) else float(counts.max())


Look = Callable[[str, Callable[[], NDArray[np.int64]], Fraction], tuple[NDArray[np.float64], float]]
"""What is looked at, the exact counts, rho; the noisy counts and sigma."""


def votes_on_numbers(column: Binned) -> bool:
    """Whether it is asked how the numbers of a text column are written; not where that is declared."""
    if isinstance(column, Whole):
        return isinstance(column, SpeltNumber) and not column.provisional and bool(column.spelling)
    return isinstance(column, SpeltNumber) and not (column.provisional and column.spelling)


def as_written(
    column: Binned,
    source: Source,
    look: Look,
    unit: Fraction,
    weights: dict[str, Fraction],
    looks: frozenset[str],
) -> Binned:
    """The column with the spelling of its numbers, its censored results and the mark of its missing values.

    **Privacy.** Proof at the head of this file.

    Args:
        column: Of text; a known column of numbers, dates or times.
        source: The private table.
        look: Prices, records and adds the noise.
        unit: rho of a look of weight 1.
        weights: The weight of each sort of look.
        looks: Those to be taken: of "spelling", "censored" and "marks", what is not declared.
    """
    name = column.name
    if isinstance(column, SpeltNumber) and "spelling" in looks:
        noisy, sigma = look(
            f"spelling of {name}",
            lambda: source.spellings(name, "number").reveal(),
            unit * weights["spelling"],
        )
        column = dataclasses.replace(column, spelling=choose_number_spelling(noisy, sigma))
    if isinstance(column, SpeltNumber) and "censored" in looks:
        noisy, sigma = look(
            f"censored results of {name}",
            lambda: source.spellings(name, "censored").reveal(),
            unit * weights["censored"],
        )
        column = dataclasses.replace(column, censored=_share_out(column, noisy, sigma))
    if "marks" in looks:
        noisy, _ = look(
            f"marks of {name}", lambda: source.spellings(name, "mark").reveal(), unit * weights["marks"]
        )
        column = dataclasses.replace(column, mark=SPELLINGS["mark"][int(np.argmax(noisy))])
    return column


def _share_out(
    column: SpeltNumber, votes: NDArray[np.float64], sigma: float
) -> tuple[tuple[str, float], ...]:
    """The censored results that evidently occur, and their shares of the cells without a number.

    Args:
        column: Of which the format, if there is one, says what stands beside numbers.
        votes: Noisy counts of CENSORED_VOTES, shape [votes].
        sigma: Standard deviation of their noise.
    """
    # That some occur for certain is known from the profile.
    clear = np.where(votes > find_evident(sigma, len(votes), MIN_DEVIATIONS), votes, 0.0)
    # Missing cells are one class that is always looked at.
    clear[0] = float(votes[0]) if votes[0] > CERTAIN_DEVIATIONS * sigma else 0.0
    total = float(clear.sum())
    unit = number_format(column.format, "format").suffix if column.format else ""
    return tuple(
        (text + unit if text[-1].isdigit() else text, float(clear[place]) / total)
        for place, text in enumerate(SPELLINGS["censored"])
        if place and clear[place]
    )
