"""Columns of numbers, cut into bins."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, SchemaError, invalid
from margrave.schema.columns.base import Column
from margrave.schema.columns.repeats import Repeats, check_repeats
from margrave.schema.storage.clock_numbers import is_clock_format
from margrave.schema.storage.date_numbers import is_stamp_format
from margrave.schema.storage.months import names_months
from margrave.schema.storage.spelling import NUMBER_SPELLING
from margrave.schema.storage.text import date_format, number_format

DEFAULT_BINS = 32
"""Most bins that discovery cuts where no number is declared, and how many stand in for them till then."""

ABOVE_ZERO = "above 0"
"""What the least number above 0 is called: the end of a range of which 0 is no part."""

MAX_WHOLE = (1 << 63) - 1
"""Whole numbers are drawn as 64-bit integers."""

MAX_SHARE_OUTSIDE = 0.004
"""Share of the rows that a range found under noise may leave out, half of it at either end; bench/LOG.md,
2026-11-28."""


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and math.isfinite(value)


def check_format(written: object, read: str, name: str) -> None:
    """Find a format to be one in which a column can be written.

    Raises:
        SchemaError: It is none, or the column is of durations.
    """
    if written is None or written == "":
        return
    numbers = {"time": is_clock_format, "moment": is_stamp_format}.get(read)
    if numbers is not None and isinstance(written, str) and numbers(written):
        return
    where, known = f"format of column {name!r}", read in ("number", "date", "moment")
    known = known and not (read == "moment" and isinstance(written, str) and names_months(written))
    if not isinstance(written, str) or not known:
        remedy = "Times of day have '%-H%M' and '%H%M', durations none; months without a day are dates."
        raise SchemaError(invalid(where, "an example of a number, or a date format", remedy, got=written))
    try:
        number_format(written, where) if read == "number" else date_format(written, where)
    except InputError as error:
        raise SchemaError(str(error)) from None


def fade_factors(edges: NDArray[np.float64], reach: tuple[float, ...]) -> NDArray[np.float64]:
    """By what the weights of cells beyond a reach are multiplied: shape [cells].

    A cell c times as far from 0 as the end of the reach has one part in c, as under the law of Pareto of
    index 1, so that each octave adds alike to a mean.

    Args:
        edges: Shape [cells + 1].
        reach: The lower and the upper end, the first where it is below 0 and the second where it is above; or
            none, for no fading.
    """
    factors = np.ones(len(edges) - 1)
    if reach:
        low, high = reach
        above, below = (edges[:-1] >= high) & (high > 0), (edges[1:] <= low) & (low < 0)
        factors[above] = high / edges[1:][above]
        factors[below] = low / edges[:-1][below]
    return factors


BINNINGS = ("adaptive", "uniform", "quantile", "privtree")
"""How discovery cuts bins; all are post-processing of one noisy histogram, see
`margrave.measure.discovery.bins`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binned(Column):
    """A numeric column cut into bins.

    Give bounds (`lower`, `upper`, both inside), with a number of `bins` of equal width or without, or the
    `edges`.

    Args:
        lower: Least value; None if it is not known.
        upper: Greatest value; None if it is not known.
        bins: Number of equal-width bins between the bounds; fewer where an integer range has fewer values.
            Where a bound is not known, the most bins that discovery cuts. None leaves the bins to discovery,
            DEFAULT_BINS at most.
        edges: Increasing bin edges, one more than bins. Bin i holds edges[i] <= x < edges[i + 1]; the last
            bin of a Real also holds its upper edge, or is that of the greatest number alone, which it ends
            right behind. For an Integer the last edge is upper + 1.
        fine: Increasing edges of finer cells that refine the bins, for decoding; None decodes uniformly
            inside a bin.
        weights: Non-negative weight of each fine cell; released or public, never exact private counts.
        noise: Standard deviation of the noise that a weight has, in rows; 0 where weights are public.
        reach: The ends beyond which weights are less than the counts that were expected, the farther out the
            less (`fade_factors`); none where they are these counts everywhere.
        unbounded: Whether rows may lie below the first cell and above the last one, however far: noise told
            where numbers begin and end, and no declaration.
        grids: Rounding that decoding keeps up: pairs of a step and the share of values drawn on whole
            multiples of it, the coarsest first, shares adding up to 1 at most. A step below 1 is one over a
            whole number.
        binning: How discovery cuts the bins, one of `BINNINGS`; of no meaning once there are edges.
        rare: Least share of the rows, in [0, 1), of a bin that discovery makes. Above 0, edges or bounds that
            are given are the finest there may be: discovery looks at those bins once and merges rare
            ones with their neighbours. 0.002 is a common choice for methods that slow down with many bins.
        format: How the column is written in text, as in "$1,234.5" or "%m/%d/%Y", see
            `margrave.schema.storage.spelling`; "" for as usual, None while it is to be found. No meaning for
            other storage.
        provisional: Whether the edges only stand in, DEFAULT_BINS of equal width, until discovery cuts bins
            between the bounds; None, as in all declarations, where that follows from the other parts: bounds
            were given and neither bins nor edges.
    """

    lower: float | None = None
    upper: float | None = None
    bins: int | None = None
    edges: tuple[float, ...] | None = None
    fine: tuple[float, ...] | None = None
    weights: tuple[float, ...] | None = None
    noise: float = 0.0
    reach: tuple[float, ...] = ()
    unbounded: tuple[bool, bool] = (False, False)
    grids: tuple[tuple[float, float], ...] = ()
    binning: str = "adaptive"
    rare: float = 0.0
    format: str | None = ""
    provisional: bool | None = None

    def __post_init__(self) -> None:
        check_format(self.format, self.read, self.name)
        if self.edges is None:
            self._check_bounds()
        bounded = self.edges is None and self.lower is not None and self.upper is not None
        if self.provisional is None:
            object.__setattr__(self, "provisional", bounded and self.bins is None)
        if bounded:
            object.__setattr__(self, "edges", self._equal_width())
            if self._separates_values():
                object.__setattr__(self, "provisional", False)
        if self.edges is not None:
            edges = tuple(self._number(edge) for edge in self.edges)
            object.__setattr__(self, "edges", edges)
            self._check(edges, "edges")
            object.__setattr__(self, "lower", edges[0])
            object.__setattr__(self, "upper", self._last(edges[-1]))
            object.__setattr__(self, "bins", len(edges) - 1)
        if self.fine is not None:
            self._check_fine()
        if not 0.0 <= self.noise < math.inf:
            where = f"noise of column {self.name!r}"
            raise SchemaError(invalid(where, "finite and 0 or more", "Leave it out.", got=self.noise))
        self._check_grids()
        self._check_reach()
        self._check_rare(self.rare)
        if self.binning not in BINNINGS:
            raise SchemaError(
                invalid(
                    f"binning of column {self.name!r}", f"one of {BINNINGS}", "Pick one.", got=self.binning
                )
            )

    @abstractmethod
    def _equal_width(self) -> tuple[float, ...]:
        """Edges of equal-width bins over [lower, upper]."""

    def _separates_values(self) -> bool:
        """Whether bins of equal width hold one value each: nothing is left to find between bounds."""
        return False

    @abstractmethod
    def _number(self, value: float) -> float:
        """An edge in the kind's own number type."""

    def _last(self, edge: float) -> float:
        """The greatest value below (whole numbers) or at (others) the last edge, once there are edges."""
        cells = self.fine or self.edges or ()
        # A last cell that holds one number alone, as discovery adds for a declared one, ends behind it.
        alone = len(cells) > 1 and edge == math.nextafter(cells[-2], math.inf)
        return float(cells[-2]) if alone else edge

    def _check_bounds(self) -> None:
        # One bound alone is checked as well, or discovery would find out what it is not, at a price.
        given = [bound for bound in (self.lower, self.upper) if bound is not None]
        if not all(map(_is_number, given)) or given != sorted(given):
            raise SchemaError(
                invalid(
                    f"bounds of column {self.name!r}", "finite numbers", "Check that lower is below upper."
                )
            )
        if self.bins is not None and (not isinstance(self.bins, int) or self.bins < 1):
            raise SchemaError(
                invalid(f"bins of column {self.name!r}", "a whole number of at least 1", "Try bins=32.")
            )

    def _check(self, edges: Sequence[float], what: str) -> None:
        finite = all(math.isfinite(edge) for edge in edges)
        if len(edges) < 2 or not finite or any(a >= b for a, b in pairwise(edges)):
            raise SchemaError(
                invalid(
                    f"{what} of column {self.name!r}",
                    "finite and increasing, two or more",
                    "Check that lower is below upper.",
                )
            )

    def _check_fine(self) -> None:
        fine = tuple(self._number(edge) for edge in self.fine or ())
        weights = tuple(float(weight) for weight in self.weights or ())
        object.__setattr__(self, "fine", fine)
        object.__setattr__(self, "weights", weights)
        self._check(fine, "fine edges")
        if not set(self.edges or ()) <= set(fine) or fine[0] != self.lower:
            raise SchemaError(
                invalid(
                    f"fine edges of column {self.name!r}",
                    "a refinement of the edges",
                    "Include every bin edge and nothing outside.",
                )
            )
        if len(weights) != len(fine) - 1 or any(not (0 <= weight < math.inf) for weight in weights):
            raise SchemaError(
                invalid(
                    f"weights of column {self.name!r}",
                    "one a fine cell and not negative",
                    "Give one weight for each pair of neighbouring fine edges.",
                )
            )

    @property
    def step(self) -> float:
        """The step that all numbers are whole multiples of, as far as is known; 0 where none is."""
        all_on = self.grids and sum(share for _, share in self.grids) > 1 - 1e-6
        return float(self.grids[-1][0]) if all_on else 0.0

    @property
    def has_months(self) -> bool:
        """Whether its texts have a year and a month alone, so that each date is the first day of one."""
        return names_months(self.format)

    @property
    def unit(self) -> float:
        """The distance of neighbouring numbers, by kind and step; 0 where there is none."""
        return max(self.step, float(isinstance(self, Whole)))

    def _check_reach(self) -> None:
        given = self.reach
        if not isinstance(given, tuple) or not all(map(_is_number, given)) or len(given) not in (0, 2):
            where = f"reach of column {self.name!r}"
            raise SchemaError(invalid(where, "two numbers or none", "Leave it out.", got=given))
        object.__setattr__(self, "reach", tuple(map(float, given)))
        ends = self.unbounded
        if not isinstance(ends, tuple) or len(ends) != 2 or not all(isinstance(end, bool) for end in ends):
            where = f"unbounded of column {self.name!r}"
            raise SchemaError(invalid(where, "two of true and false", "Leave it out.", got=ends))

    def _check_grids(self) -> None:
        """Take the grids as pairs of floats, found to be in order and within 1 in all."""
        try:
            pairs = tuple((float(step), float(share)) for step, share in self.grids)
        except (TypeError, ValueError):
            pairs = ((0.0, 0.0),)
        steps = [step for step, _ in pairs]
        sound = all(0 < step < math.inf for step in steps) and all(a > b for a, b in pairwise(steps))
        whole = [max(step, 1 / step) for step in steps if step > 0]
        sound &= all(math.isclose(number, round(number), rel_tol=1e-9) for number in whole)
        shares = [share for _, share in pairs]
        if not sound or not all(0 <= share <= 1 for share in shares) or sum(shares) > 1 + 1e-9:
            raise SchemaError(
                invalid(
                    f"grids of column {self.name!r}",
                    "pairs of a step, whole or one over a whole number, and a share",
                    "Give the coarsest step first, and shares that add up to 1 at most.",
                )
            )
        object.__setattr__(self, "grids", pairs)

    @property
    def known(self) -> bool:
        """Whether the bins and missingness are known, and no bin is to be merged."""
        return self.edges is not None and self.missing is not None and not self.rare

    @property
    def open(self) -> bool:
        """Whether bins or missingness are to be discovered; bins that only stand in are."""
        return not self.known or bool(self.provisional)

    @property
    def ordered(self) -> int:
        """All bins."""
        return self.present

    @property
    def present(self) -> int:
        """Number of bins."""
        if self.edges is None:
            raise self._unknown()
        return len(self.edges) - 1

    @property
    def edge_array(self) -> NDArray[np.float64]:
        """The bin edges, shape [bins + 1]."""
        if self.edges is None:
            raise self._unknown()
        return np.asarray(self.edges, dtype=np.float64)

    @property
    def labels(self) -> tuple[str, ...]:
        """A label for each code, for reading."""
        if self.edges is None:
            raise self._unknown()
        pairs = pairwise(self.edges)
        shown = [self._label(low, high) for low, high in pairs]
        return (*shown, *(["missing"] if self.missing else []))

    def _label(self, low: float, high: float) -> str:
        return f"{low:g} to {high:g}"

    def spell(self, value: float) -> str:
        """A value for reading, in the kind's own terms."""
        return f"{value:.8g}"

    def spell_step(self, step: float) -> str:
        """A grid's step for reading."""
        return f"{step:.8g}"


@dataclass(frozen=True, kw_only=True)
class Whole(Binned):
    """Whole numbers of some unit: integers, and days or microseconds (`temporal`)."""

    # Not slots=True, which on Python 3.10 repeats inherited slots, so that no class could inherit from this
    # one and SpeltNumber.
    __slots__ = ()

    def _equal_width(self) -> tuple[float, ...]:
        assert self.lower is not None  # noqa: S101
        assert self.upper is not None  # noqa: S101
        low, high = math.ceil(self.lower), math.floor(self.upper) + 1
        bins = self.bins or DEFAULT_BINS
        cuts = [low + (high - low) * i // bins for i in range(bins + 1)]
        return tuple(dict.fromkeys(cuts))

    def _separates_values(self) -> bool:
        return self.edges is not None and self.edges[-1] - self.edges[0] == len(self.edges) - 1

    def _number(self, value: float) -> float:
        if not math.isfinite(value) or value != int(value):
            raise SchemaError(
                invalid(f"edges of column {self.name!r}", "whole numbers", "Declare it as Real instead.")
            )
        if not -MAX_WHOLE <= value <= MAX_WHOLE:
            remedy = "Declare it as Real instead."
            raise SchemaError(invalid(f"edges of column {self.name!r}", "at most 2^63 in size", remedy))
        return int(value)

    def _last(self, edge: float) -> float:
        return edge - 1

    def _label(self, low: float, high: float) -> str:
        first, last = self.spell(low), self.spell(high - 1)
        return first if high - low == 1 else f"{first} to {last}"

    def spell(self, value: float) -> str:
        """A value for reading, in the kind's own terms."""
        return f"{int(value):d}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeltNumber(Binned):
    """Numbers, neither dates nor times: they have a mean, and text files may write them in several ways.

    Args:
        spelling: How they do, see `margrave.schema.storage.spelling`.
        censored: Texts that stand for results beyond what is measured, such as "<0.5", and the share of the
            missing cells that text files write so; the others are written as `mark` says.

    Raises:
        SchemaError: As `Binned`, the spelling is none of numbers, or the shares of censored results are none.
    """

    spelling: str = ""
    censored: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        Binned.__post_init__(self)
        if not isinstance(self.spelling, str) or not NUMBER_SPELLING.fullmatch(self.spelling):
            where = f"spelling of column {self.name!r}"
            raise SchemaError(
                invalid(where, "'', '0', '0.*' or as in '0.00', '0.##'", "Pick one.", got=self.spelling)
            )
        self._check_censored()

    @property
    def zero_code(self) -> int | None:
        """The bin that holds 0 alone: no other number lies on its step, or it ends right behind 0."""
        for code, (low, high) in enumerate(pairwise(self.edges or ())):
            if low == 0:
                return code if high <= max(self.unit, math.nextafter(0.0, 1.0)) * (1 + 1e-9) else None
        return None

    def _check_censored(self) -> None:
        """Take the censored results as pairs of a text and a share, found to be within 1 in all."""
        try:
            pairs = tuple((text, float(share)) for text, share in self.censored)
        except (TypeError, ValueError):
            pairs = (("", -1.0),)
        sound = all(isinstance(text, str) and 0.0 <= share <= 1.0 for text, share in pairs)
        if not sound or sum(share for _, share in pairs) > 1.0 + 1e-9:
            where, constraint = f"censored of column {self.name!r}", "pairs of a text and a share, 1 in all"
            raise SchemaError(invalid(where, constraint, "Try (('<0.5', 0.8),).", got=self.censored))
        object.__setattr__(self, "censored", pairs)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Integer(Whole, SpeltNumber):
    """A column of whole numbers: ages, counts, years, amounts in whole units.

    Say what is public about the column; every part that is left out is discovered, within the epsilon of the
    run. What is declared must not have been read off the private rows.

    Args:
        name: Name of the column.
        lower: The least value that may occur; left out, it is discovered.
        upper: The greatest value that may occur; left out, it is discovered.
        bins: Into how many bins of equal width the range is cut, one a value where there are fewer values.
            Rows are counted by bin; inside a bin values are drawn evenly. Left out, the bins are discovered,
            and values are drawn as finely as they were seen; up to 32 values need no bins.
        edges: The bins themselves instead of `lower`, `upper` and `bins`: increasing whole numbers, of which
            the last is one more than the greatest value.
        missing: True if values may be missing, False if none ever is; left out, it is discovered.
        strict: Whether a value outside the bounds ends the run with an error (the default) or counts in the
            nearest bin (False).
        binning: How discovery cuts the bins where there are none yet: "adaptive", "uniform", "quantile" or
            "privtree".
        rare: Above 0, bins that hold less than this share of the rows are merged; see docs/guide-tables.md.
        fine, weights, noise, grids: What a release knows of values inside bins; left out in declarations.
        provisional: Set by itself where bounds are given and bins are not; left out.
        spelling: How numbers are written in text files: "0" without decimals, "0.00" with two, "0.##" with at
            most two, "0.0#" with one or two, "0.*" as short as they are and whole ones without a point, and
            "" as their type is. With declared bins none is found.
        censored: Texts of results beyond what is measured, as in (("<0.5", 0.8), (">100", 0.1)), with their
            shares of the missing cells; left out, they are discovered if nothing of the column is declared.
        format: An example of a number where texts are not written as usual, as in "$1,234.5", "1.234,5" or
            "12%"; left out, it is found, but not between strict bounds.
        unique: Whether no number is drawn twice, as for keys; found where nothing else is declared.
        repeats: In how many rows keys are, see `margrave.schema.columns.repeats`; left out in declarations.

    Raises:
        SchemaError: The parts do not fit together.

    Example:
        >>> Integer(name="age", lower=0, upper=110, bins=22, missing=False).labels[0]
        '0 to 4'
        >>> Integer(name="age", lower=0, upper=110).open  # bins inside the bounds are discovered
        True
        >>> Integer(name="children", edges=(0, 1, 2, 3, 21), missing=True).labels
        ('0', '1', '2', '3 to 20', 'missing')
        >>> Integer(name="income").known  # bounds, bins and missing values are discovered
        False
    """

    kind: ClassVar[str] = "integer"
    unique: bool = False
    repeats: Repeats = ()

    def __post_init__(self) -> None:
        SpeltNumber.__post_init__(self)
        object.__setattr__(self, "repeats", check_repeats(self.name, self.repeats))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Real(SpeltNumber):
    """A column of numbers on a line: weights, prices, measurements.

    Say what is public about the column; every part that is left out is discovered, within the epsilon of the
    run. What is declared must not have been read off the private rows.

    Args:
        name: Name of the column.
        lower: The least value that may occur; left out, it is discovered.
        upper: The greatest value that may occur; left out, it is discovered.
        bins: Into how many bins of equal width the range is cut. Rows are counted by bin; inside a bin values
            are drawn evenly. Left out, the bins are discovered, and values are drawn as finely as they were
            seen.
        edges: The bins themselves instead of `lower`, `upper` and `bins`, in increasing order.
        missing: True if values may be missing, False if none ever is; left out, it is discovered.
        strict: Whether a value outside the bounds ends the run with an error (the default) or counts in the
            nearest bin (False).
        binning: How discovery cuts the bins where there are none yet: "adaptive", "uniform", "quantile" or
            "privtree".
        rare: Above 0, bins that hold less than this share of the rows are merged; see docs/guide-tables.md.
        fine, weights, noise, grids: What a release knows of values inside bins; left out in declarations.
        provisional: Set by itself where bounds are given and bins are not; left out.
        spelling: How numbers are written in text files: "0" without decimals, "0.00" with two, "0.##" with at
            most two, "0.0#" with one or two, "0.*" as short as they are and whole ones without a point, and
            "" as their type is. With declared bins none is found.
        censored: Texts of results beyond what is measured, as in (("<0.5", 0.8), (">100", 0.1)), with their
            shares of the missing cells; left out, they are discovered if nothing of the column is declared.
        format: An example of a number where texts are not written as usual, as in "$1,234.5", "1.234,5" or
            "12%"; left out, it is found, but not between strict bounds.

    Raises:
        SchemaError: The parts do not fit together.

    Example:
        >>> Real(name="share", lower=0, upper=1, bins=4, missing=False).labels
        ('0 to 0.25', '0.25 to 0.5', '0.5 to 0.75', '0.75 to 1')
        >>> Real(name="charge", lower=0, strict=False).known  # the upper bound is discovered
        False
    """

    kind: ClassVar[str] = "real"

    def _equal_width(self) -> tuple[float, ...]:
        assert self.lower is not None  # noqa: S101
        assert self.upper is not None  # noqa: S101
        bins = self.bins or DEFAULT_BINS
        return tuple(np.linspace(float(self.lower), float(self.upper), bins + 1).tolist())

    def _number(self, value: float) -> float:
        return float(value)

    def _label(self, low: float, high: float) -> str:
        if high == math.nextafter(low, math.inf):
            return f"{low:g}"  # a number alone, such as 0 in an amount that often is
        return f"{ABOVE_ZERO} to {high:g}" if low == math.nextafter(0.0, 1.0) else f"{low:g} to {high:g}"

    def spell(self, value: float) -> str:
        """A value for reading; the least number above 0 in words."""
        return ABOVE_ZERO if value == math.nextafter(0.0, 1.0) else Binned.spell(self, value)
