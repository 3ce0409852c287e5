"""Columns that are coded by how they differ from another column of the same row.

The difference from a base column, or the quotient by it, takes the place of the column's own bins: a stay
ends three days after it began, a payment is 0.8 of the charge. The base may be the sum of several columns, as
a total is its parts, or their product, as an amount is a price times a number, or a quotient, as a speed is
a distance over a time; and a constant times one of these with another constant added, as a tax is 0.19 times
the net. What looks at rows here (`relative_codes` and `count_relation`) is as private as the engines that
call it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.columns.base import Column
from margrave.schema.columns.binned import Binned, Integer, Real, Whole
from margrave.schema.columns.temporal import Date, Duration, Moment, Temporal
from margrave.schema.encoded import Codes, code_dtype
from margrave.schema.queries import places, readings
from margrave.schema.storage import clock
from margrave.schema.storage.clock import DAY

Numbers = NDArray[np.int64] | NDArray[np.float64]
Truths = NDArray[np.bool_]

LIMIT = 1 << 61
"""Whole numbers are held within this size before they are subtracted, so that no difference overflows."""
MAX_COMPARED, MIN_COMPARED = 2.0**300, 2.0**-300
"""Other numbers are held within MAX_COMPARED, and count as 0 below MIN_COMPARED, before they are subtracted
or divided."""
ABSENT_CELLS = 3
"""Cells for rows without a difference: the base is missing, the column is, both are."""
HOW = ("difference", "quotient")
ROUNDING = 2.0**-40
"""Differences from a sum or product count as 0 up to this share of its size: floats round in each step."""
MOST_TERMS = 8
"""Most columns that a base is made of; whole numbers are held within LIMIT / MOST_TERMS before."""
MOST_POWERS = 4
"""Most factors and divisors of a product in which some columns have powers."""
MAX_FACTOR = 2.0**125
"""Factors are held within MAX_FACTOR, and count as 0 below one over it."""
NO_LINE = 1.0, 0.0
"""The factor and the offset that change nothing."""
JOINTS = ("", "sum", "product")
"""How a base is made of columns: it is one of them, their sum, or their product."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a column is compared with its base, row by row. Public.

    Args:
        how: "difference" (column - base) or "quotient" (column / base; 1 where both are equal).
        read: As what the column is read, one of `schema.queries.READS`.
        base_read: As what the base is read. A date and a moment are compared in the column's unit: a moment
            is the day it lies in, a date the moment it begins.
        whole: Whether both are taken as whole numbers, fractions rounded down.
        joint: How the base is made of columns, one of `JOINTS`; differences within ROUNDING are 0 where it is
            made of several.
        unit: What products and lines are rounded to: differences from one up to half of it are 0, too.
        factor: What the column, sum or product is multiplied by, not 0.
        offset: What is added to that. With a factor but 1 or an offset but 0 the base is a *line* of it.
        share_of: The whole that the last column of a product is a share of, 1 or 100 say, taken off as
            a discount is; below 0 one that it is added to, as a tax is; 0 where it is no share.
        powers: The whole power of each column of a product, the first above 0: (1, -2) for a weight over a
            height squared; () where all are 1. A row in which a divisor is 0 has no base: it is missing. Of a
            sum the sign of each column, (1, -1) for a price less a discount.
    """

    how: str
    read: str = "number"
    base_read: str = "number"
    whole: bool = False
    joint: str = ""
    unit: float = 0.0
    factor: float = 1.0
    offset: float = 0.0
    share_of: float = 0.0
    powers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        within = 1.0 / MAX_FACTOR <= abs(self.factor) <= MAX_FACTOR and abs(self.offset) <= MAX_FACTOR
        if not within:
            most = f"finite, not 0 and within {MAX_FACTOR:.3g}"
            raise SchemaError(
                invalid("factor and offset", most, "Check them.", got=(self.factor, self.offset))
            )
        if self.is_line and (self.whole or not self.joint):
            raise SchemaError(invalid("joint", "a sum or product of real numbers for a line", "Name one."))
        if self.joint not in JOINTS:
            raise SchemaError(invalid("joint", f"one of {JOINTS}", "Pick one.", got=self.joint))
        if self.joint and (self.how, self.read, self.base_read) != ("difference", "number", "number"):
            asked = f"'difference' of numbers from a {self.joint}"
            raise SchemaError(invalid("how", asked, "Subtract it.", got=self.how))
        self._check_product()
        if self.how not in HOW or (self.whole and self.how == "quotient"):
            raise SchemaError(invalid("how", f"one of {HOW}, quotients not whole", "Pick one.", got=self.how))

    def _check_product(self) -> None:
        if self.joint == "product" and self.whole:
            raise SchemaError(invalid("whole", "false for products", "Multiply real numbers."))
        if self.share_of and (self.joint != "product" or not abs(self.share_of) <= MAX_FACTOR):
            limit = f"within {MAX_FACTOR:.3g}, and 0 but for products"
            raise SchemaError(invalid("share_of", limit, "Leave it out.", got=self.share_of))
        if not self.powers:
            return
        powers = self.powers if isinstance(self.powers, tuple) else (0,)
        most = {"product": MOST_POWERS, "sum": 1}.get(self.joint, 0)
        whole = all(type(power) is int and 1 <= abs(power) <= most for power in powers)
        if not whole or powers[0] < 0 or sum(map(abs, powers)) > max(MOST_POWERS, MOST_TERMS * (most == 1)):
            limit = f"whole numbers but 0, the first above 0, {MOST_POWERS} in all, or signs of a sum"
            raise SchemaError(invalid("powers", limit, "Leave them out.", got=self.powers))

    @classmethod
    def between(cls, column: Binned, base: Binned, how: str = "difference") -> Comparison:
        """The comparison of two columns of one family.

        Raises:
            SchemaError: They are not both numbers, both dates or moments, both times, or both durations.
        """
        days = isinstance(column, Date | Moment) and isinstance(base, Date | Moment)
        plain = not isinstance(column, Temporal) and not isinstance(base, Temporal)
        if not (days or plain or column.kind == base.kind) or (how == "quotient" and not plain):
            remedy = "Compare numbers with numbers, and dates with dates or moments."
            raise SchemaError(invalid("columns", "of one family", remedy, got=[column.name, base.name]))
        whole = how == "difference" and isinstance(column, Whole) and isinstance(base, Whole)
        return cls(how, column.read, base.read, whole)

    @classmethod
    def with_terms(
        cls,
        column: Binned,
        terms: Sequence[Binned],
        joint: str = "sum",
        line: tuple[float, float] = NO_LINE,
        share_of: float = 0.0,
        powers: tuple[int, ...] = (),
    ) -> Comparison:
        """The difference of a number from the sum or product of others, or from a line of it.

        Args:
            column: Of numbers.
            terms: What the base is made of; one alone only for a line or a power.
            joint: "sum" or "product".
            line: The factor and the offset; (1, 0) for no line.
            share_of: The whole that the last term is a share of; 0 for none.
            powers: Of the terms of a product, or signs of those of a sum; () for all 1.

        Raises:
            SchemaError: They are not all numbers, or more than MOST_TERMS.
        """
        least = 2 if line == NO_LINE and not powers else 1
        numbers = not any(isinstance(one, Temporal) for one in (column, *terms))
        if not numbers or not least <= len(terms) <= MOST_TERMS:
            remedy = "Take numbers only."
            raise SchemaError(invalid("terms", f"{least} to {MOST_TERMS} numbers", remedy, got=len(terms)))
        rounded = joint == "product" or least == 1
        whole = not rounded and all(isinstance(one, Whole) for one in (column, *terms))
        unit = column.unit if rounded else 0.0
        return cls("difference", column.read, "number", whole, joint, unit, *line, share_of, powers)

    @property
    def is_line(self) -> bool:
        """Whether the base is multiplied by a constant, or one is added to it."""
        return (self.factor, self.offset) != NO_LINE

    def values(self, values: Numbers, base: Numbers) -> Any:
        """The differences or quotients of numbers that are not missing, shape [rows].

        Args:
            values: Readings of the column, shape [rows].
            base: Readings of the base, shape [rows].
        """
        base = self.base_in_unit(base)
        if self.whole:
            return _whole(values) - _whole(base)
        left, right = _plain(values), _plain(base)
        if self.how == "difference":
            found = left - right
            slack = ROUNDING * (np.abs(left) + np.abs(right)) + self.slack
            return np.asarray(np.where(np.abs(found) <= slack, 0.0, found) if self.joint else found)
        zero = right == 0.0
        divided = left / np.where(zero, 1.0, right)
        beyond = np.where(left > 0.0, MAX_COMPARED, -MAX_COMPARED)
        return np.asarray(np.where(left == right, 1.0, np.where(zero, beyond, divided)))

    @property
    def slack(self) -> float:
        """What rounded products and lines may be off by: half a unit, and a little for floats."""
        return self.unit * (0.5 + 2.0**-20)

    def join_terms(self, terms: Sequence[Numbers]) -> Any:
        """The sum or product of the readings of columns in their order, or a line of it: shape [rows].

        NaN where a divisor is 0, and nowhere else.
        """
        if self.whole:
            most = LIMIT // MOST_TERMS
            return sum_in_turn([np.clip(_whole(term), -most, most) for term in terms], self.powers)
        if self.joint == "product":
            *held, last = (_limit_factors(term) for term in terms)
            found = multiply_in_turn([*held, apply_share(self.share_of, last)], self.powers, _void_zeros)
        else:
            found = sum_in_turn([_plain(term) for term in terms], self.powers)
        return found * self.factor + self.offset if self.is_line else found

    def base_in_unit(self, base: Numbers) -> Any:
        """Readings of the base in the column's unit: the day of a moment, the moment a date begins."""
        if (self.base_read, self.read) == ("moment", "date"):
            return np.asarray(base // DAY)
        if (self.base_read, self.read) == ("date", "moment"):
            return np.asarray(np.clip(base, -(clock.MAX_TICKS // DAY), clock.MAX_TICKS // DAY) * DAY)
        return base


def sum_in_turn(terms: Sequence[Any], signs: tuple[int, ...] = ()) -> Any:
    """The sum of one or more terms, added from the first on: floats add up to the same on every engine.

    Args:
        terms: Arrays of numbers, or expressions of a backend.
        signs: Of each, the first above 0; () for all 1.
    """
    found = terms[0]
    for term, sign in zip(terms[1:], signs[1:] or (1,) * len(terms[1:]), strict=True):
        found = found + term if sign > 0 else found - term
    return found


def multiply_in_turn(terms: Sequence[Any], powers: tuple[int, ...], void_zeros: Callable[[Any], Any]) -> Any:
    """The product of terms with whole powers, multiplied and divided from the first on, as `sum_in_turn`.

    Args:
        terms: One or more arrays of numbers, or expressions of a backend.
        powers: Of each, the first above 0; () for all 1.
        void_zeros: Makes of a divisor one in which 0 is no number.
    """
    found = None
    for term, power in zip(terms, powers or (1,) * len(terms), strict=True):
        held = void_zeros(term) if power < 0 else term
        for _ in range(abs(power)):
            found = held if found is None else found * held if power > 0 else found / held
    return found


def _void_zeros(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(values == 0.0, np.nan, values)


def apply_share(whole: float, share: Any) -> Any:
    """What is left of a whole without a share of it; of one below 0, what it is with it: 1 - .15, 1 + .19.

    Args:
        whole: As `Comparison.share_of`; 0 leaves the share alone.
        share: An array of numbers, or an expression of a backend.
    """
    if not whole:
        return share
    return whole - share if whole > 0.0 else share - whole


def _limit_factors(values: Numbers) -> NDArray[np.float64]:
    """Numbers of which MOST_TERMS can be multiplied, and no product of them overflows or vanishes."""
    held = np.clip(values.astype(np.float64), -MAX_FACTOR, MAX_FACTOR)
    return np.where(np.abs(held) < 1.0 / MAX_FACTOR, 0.0, held)


def _whole(values: Numbers) -> Any:
    """Whole numbers within LIMIT; fractions are rounded down."""
    if values.dtype.kind == "f":
        return np.clip(np.floor(values), -float(LIMIT), float(LIMIT))
    return np.clip(values, -LIMIT, LIMIT)


def _plain(values: Numbers) -> NDArray[np.float64]:
    """Numbers whose differences and quotients neither overflow nor vanish."""
    held = np.clip(values.astype(np.float64), -MAX_COMPARED, MAX_COMPARED)
    return np.where(np.abs(held) < MIN_COMPARED, 0.0, held)


def count_relation(
    array: Any, base: Any, comparison: Comparison, edges: NDArray[np.float64], others: Sequence[Any] = ()
) -> NDArray[np.int64]:
    """Rows by the half-open interval that their difference or quotient lies in, outside ones in the end ones.

    Each row is in exactly one cell, which depends on that row alone. **Not private.**

    Args:
        array: The column, an Arrow array.
        base: The base, of the same length.
        comparison: How they are compared.
        edges: Increasing, two or more.
        others: Further columns that the base is made of, likewise; it is missing where one of them is.

    Returns:
        Of shape [edges - 1 + ABSENT_CELLS]: the last cells are rows in which the base alone is missing, the
        column alone, and both.
    """
    values, known, base_known = _compare_values(array, (base, *others), comparison)
    cells = len(edges) - 1
    found = np.clip(places(values, edges), 0, cells - 1)
    found[known & ~base_known] = cells
    found[~known & base_known] = cells + 1
    found[~known & ~base_known] = cells + 2
    return np.bincount(found, minlength=cells + ABSENT_CELLS).astype(np.int64)


def _compare_values(
    array: Any, bases: Sequence[Any], comparison: Comparison
) -> tuple[Numbers, Truths, Truths]:
    """The comparison, anything where a side is missing, and which cells of either side have a reading."""
    values, known = readings(array, comparison.read)
    terms = [readings(base, comparison.base_read) for base in bases]
    base_known: Truths = np.logical_and.reduce([there for _, there in terms])
    held = [np.where(base_known, numbers, numbers.dtype.type(0)) for numbers, _ in terms]
    base = comparison.join_terms(held) if comparison.joint else held[0]
    if comparison.powers:
        base_known = base_known & ~np.isnan(base)
        base = np.where(base_known, base, 0.0)
    found = comparison.values(np.where(known & base_known, values, values.dtype.type(0)), base)
    return found, known, base_known


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Relative(Column):
    """A column coded by its difference from another column of the row, or its quotient by it.

    Codes run: the bins of `part`; then, with `alone`, rows that have a value but no base; then missing.
    Decoding draws a difference from the bin and adds it to the base's number.

    Args:
        base: Name of the column it is compared with.
        others: Names of further columns: it is compared with the sum of all, or the product.
        joint: "sum" or "product" of the base and the others.
        factor: What that, or the base alone, is multiplied by.
        offset: What is added then.
        share_of: The whole that the last of several columns multiplied is a share of, as in `Comparison`.
        powers: The powers of the columns multiplied, as in `Comparison`.
        how: "difference" or "quotient".
        base_read: As what the base is read, one of `schema.queries.READS`.
        own: The column by itself: its kind, spelling, rounding and range. Values are written as it says, and
            drawn from it where the row has no base.
        part: The bins of the difference or quotient; `missing` says nothing there.
        alone: Whether rows with a value and no base have a code.
        follows: Whether the column is missing exactly where its base is; decoding then makes it so.
        within: Whether no value is drawn outside the range of `own`, which was declared.
        share: The noisy share of the rows with both values whose difference or quotient is within the bins,
            and its standard error; None where the relation was declared.

    Example:
        >>> own = Date(name="left", lower="2024-01-01", upper="2024-12-31", missing=False)
        >>> part = Integer(name="left", lower=0, upper=2, missing=False)
        >>> Relative(name="left", base="came", base_read="date", own=own, part=part, missing=False).labels
        ('came + 0', 'came + 1', 'came + 2')
    """

    kind: ClassVar[str] = "relative"
    base: str
    own: Binned
    part: Binned
    how: str = "difference"
    base_read: str = "number"
    alone: bool = False
    follows: bool = False
    within: bool = False
    share: tuple[float, float] | None = None
    others: tuple[str, ...] = ()
    joint: str = "sum"
    factor: float = 1.0
    offset: float = 0.0
    share_of: float = 0.0
    powers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        names = {self.name, *self.bases}
        distinct = isinstance(self.others, tuple) and len(names) == 1 + len(self.bases) <= 1 + MOST_TERMS
        distinct = distinct and (not self.powers or len(self.powers) == len(self.bases))
        if self.name != self.own.name or not distinct or self.own.edges is None:
            what = f"column {self.name!r}"
            raise SchemaError(invalid(what, "relative to another column, with bins", "Name the base."))
        if self.part.edges is None or self.missing is None:
            raise SchemaError(invalid(f"part of column {self.name!r}", "known", "Give its bins."))
        self.comparison  # noqa: B018 - refuses what cannot be compared

    @property
    def comparison(self) -> Comparison:
        """How it is compared with its base."""
        line = self.factor, self.offset
        joined = self.others or self.powers or line != NO_LINE
        whole, joint = isinstance(self.part, Whole), self.joint if joined else ""
        unit = self.own.unit if joint == "product" or line != NO_LINE else 0.0
        read = self.own.read, self.base_read
        return Comparison(self.how, *read, whole, joint, unit, *line, self.share_of, self.powers)

    @property
    def bases(self) -> tuple[str, ...]:
        """Names of the columns that its base is made of: one, or several."""
        return (self.base, *self.others)

    @property
    def base_words(self) -> str:
        """The base for reading, such as "net + tax" or "0.19 * net"."""
        *others, last = self.bases
        if self.share_of:
            last = f"({abs(self.share_of):.10g} {'-' if self.share_of > 0.0 else '+'} {last})"
        words = say_terms([*others, last], self.joint, self.powers)
        return _say_line(self, words) if self.comparison.is_line else words

    @property
    def known(self) -> bool:
        """Always."""
        return True

    @property
    def present(self) -> int:
        """Number of bins, and one more for rows without a base where that has a code."""
        return self.part.present + self.alone

    @property
    def ordered(self) -> int:
        """The bins."""
        return self.part.present

    @property
    def alone_code(self) -> int | None:
        """The code of rows with a value and no base; None if there is none."""
        return self.part.present if self.alone else None

    @property
    def labels(self) -> tuple[str, ...]:
        """A label for each code, for reading."""
        bins = self.part.labels[: self.part.present]
        sign = "+" if self.how == "difference" else "x"
        shown = [f"{self.base_words} {sign} {label}" for label in bins]
        return (
            *shown,
            *([f"{self.base_words} is missing"] if self.alone else []),
            *(["missing"] if self.missing else []),
        )

    @property
    def relation(self) -> str:
        """What the relation says, for reading."""
        low, high = self.part.edge_array[[0, -1]]
        exact = 1.0 if isinstance(self.part, Whole) else float(np.nextafter(0.0, 1.0))
        if self.how == "difference" and (low, high) == (0.0, exact):
            same = "the day of " if (self.base_read, self.own.read) == ("moment", "date") else ""
            text = f"{self.name} is {same}{self.base_words}"
        elif self.how == "quotient":
            text = f"{self.name} is {low:.3g} to {high:.3g} times {self.base}"
        else:
            last = high - 1 if isinstance(self.part, Whole) else high
            unit = " days" if self.own.read == "date" else ""
            # The least number above 0 ends a bin of 0 alone.
            ends = [self.part.spell(0.0 if abs(end) < MIN_COMPARED else end) for end in (low, last)]
            text = f"{self.name} is {self.base_words} plus {' to '.join(dict.fromkeys(ends))}{unit}"
        if self.follows:
            text += ", and missing where that is"
        return text

    @property
    def sentence(self) -> str:
        """The relation, in which noisy share of the rows, and that this is not promised."""
        if self.share is None:
            return self.relation
        share, error = self.share
        return f"{self.relation}: in {share:.1%} (± {error:.1%}) of the rows, found and not promised"

    @property
    def keeps_order(self) -> bool:
        """Whether no value drawn lies below its base."""
        return self.how == "difference" and self.part.edge_array[0] >= 0.0

    @property
    def stays_below(self) -> bool:
        """Whether no value drawn lies above a base that is not negative."""
        if self.how == "difference":
            return bool(self.part.edge_array[-1] <= (1.0 if isinstance(self.part, Whole) else 0.0))
        return bool(self.part.edge_array[-1] <= np.nextafter(1.0, 2.0))

    @classmethod
    def part_kind(cls, comparison: Comparison) -> type[Binned]:
        """The column kind that holds the bins of a comparison."""
        if not comparison.whole:
            return Real
        return Integer if comparison.read in ("number", "date") else Duration


def say_terms(names: Sequence[str], joint: str, powers: tuple[int, ...]) -> str:
    """What columns make together: "net + tax", "price - rebate", "price * count", "weight / height^2"."""
    said = ""
    for name, power in zip(names, powers or (1,) * len(names), strict=True):
        sign = (" + ", " * ", " - ", " / ")[(joint == "product") + 2 * (power < 0)]
        said += (sign if said else "") + (name if abs(power) == 1 else f"{name}^{abs(power)}")
    return said


def _say_line(column: Relative, words: str) -> str:
    """What a line says: "0.19 * net", "2025 - level", "(first + second) / 2", "1.8 * warmth + 32"."""
    factor, offset = column.factor, column.offset
    held = f"({words})" if column.others and column.joint == "sum" and abs(factor) != 1.0 else words
    size = abs(factor)
    turned = f"{1.0 / size:.6g}"
    # A third, or one over 1.19, has no end as a decimal; a tenth has.
    if size == 1.0:
        said = held
    elif math.isclose(float(turned) * size, 1.0, rel_tol=1e-12) and len(turned) < len(f"{size:.10g}"):
        said = f"{held} / {turned}"
    else:
        said = f"{size:.10g} * {held}"
    if factor < 0.0:
        return f"{offset:.10g} - {said}" if offset else f"-{said}"
    sign = "+" if offset > 0 else "-"
    return f"{said} {sign} {abs(offset):.10g}" if offset else said


def take_own(column: Column) -> Column:
    """A column by itself, without what it is relative to."""
    return column.own if isinstance(column, Relative) else column


def in_turn(columns: Iterable[Column]) -> list[Binned | Relative]:
    """Relative columns and the columns they are relative to, each behind its base.

    Raises:
        SchemaError: A base is no column of numbers, dates or times, is of another reading, or is relative to
            the column itself.
    """
    known = {column.name: column for column in columns}
    found: dict[str, Binned | Relative] = {}

    def visit(column: Column, below: frozenset[str]) -> None:
        if column.name in found:
            return
        if isinstance(column, Relative):
            for name in column.bases:
                base = known.get(name)
                own = None if base is None else take_own(base)
                fits = isinstance(own, Binned) and own.read == column.base_read and name not in below
                if base is None or not fits:
                    what = f"base of column {column.name!r}"
                    raise SchemaError(invalid(what, "another column of such numbers", "Check it."))
                visit(base, below | {column.name})
            found[column.name] = column
        elif isinstance(column, Binned):
            found[column.name] = column

    for column in known.values():
        if isinstance(column, Relative):
            visit(column, frozenset({column.name}))
    return list(found.values())


def relative_codes(
    array: Any, base: Any, column: Relative, likeliest: int, others: Sequence[Any] = ()
) -> Codes:
    """The codes of a relative column, shape [rows]. Whatever a row holds, it has a code.

    Args:
        array: The column, an Arrow array.
        base: Its base.
        column: The coding.
        likeliest: The code for what has none of its own.
        others: The further columns that the base is made of, in the order of `Relative.others`.
    """
    values, known, base_known = _compare_values(array, (base, *others), column.comparison)
    codes = np.clip(places(values, _edges(column.part)), 0, column.part.present - 1).astype(np.int64)
    codes[known & ~base_known] = likeliest if column.alone_code is None else column.alone_code
    codes[~known] = likeliest if column.missing_code is None else column.missing_code
    return codes.astype(code_dtype(column.size))


def _edges(part: Binned) -> Any:
    """The edges as int64 where they are whole."""
    return np.asarray(part.edges, dtype=np.int64) if isinstance(part, Whole) else part.edge_array
