"""Rules: public facts that every row of a table obeys, declared with its schema.

    Rule
    ├── Forbidden     combinations of listed values that never occur: structural zeros
    ├── Allowed       the only combinations of listed values that occur
    ├── Determines    one listed column follows from another
    ├── Ordered       low <= high, or low < high, on numbers, dates and moments
    ├── Sum           a total and its parts
    ├── Within        the range of a number depends on a listed column
    ├── Elapsed       a number is the time between two dates or moments
    └── DatePart      a number is the year, the weekday, ... of a date or moment

A rule says nothing about a row in which one of its columns is missing, unless it names None itself. Whether
private rows obey a rule is private, too, and nothing here looks at rows. Rules are declared; those that
discovery found under noise (`margrave.measure.discovery.between`) say so, with the noisy share of the rows
that obey.
"""

from __future__ import annotations

import dataclasses
import datetime
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from margrave.errors import SchemaError, invalid
from margrave.schema.calendar import PARTS, UNITS, Divide, Instant, count_units, take_part
from margrave.schema.columns import Column, Scalar

__all__ = [
    "Allowed",
    "CalendarRule",
    "DatePart",
    "Determines",
    "Elapsed",
    "Forbidden",
    "Ordered",
    "Rule",
    "Sum",
    "Within",
    "check_names",
    "find_open_dependencies",
    "find_ruled",
    "rule_from_json",
]


Value = Scalar | None
"""A listed value; None means missing."""
BOUNDS = (str, int, float, datetime.date, datetime.time)
Bound = Any
"""A number, or for dates and moments whatever their bounds may be written as; None for no bound."""


@dataclass(frozen=True, slots=True)
class Rule(ABC):
    """Base of all rules."""

    kind: ClassVar[str]

    @property
    def about_codes(self) -> bool:
        """Whether models keep to it, so that its columns keep codes of their own."""
        return True

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The columns it speaks of."""

    @property
    def names_missing(self) -> bool:
        """Whether it says something of missing values."""
        return False

    @property
    def words(self) -> str:
        """What it is about, for reading: its kind and its columns."""
        return f"{self.kind} ({', '.join(self.names)})"

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the rule's kind and fields; the share of declared rules is left out."""
        fields = {field.name: _to_lists(getattr(self, field.name)) for field in dataclasses.fields(self)}
        if fields.get("share", ...) is None:
            del fields["share"]
        return {"kind": self.kind, **fields}

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error; None where it was declared."""
        return None

    def _distinct(self) -> None:
        names = self.names
        if len(set(names)) != len(names) or not all(isinstance(name, str) for name in names):
            raise SchemaError(invalid(f"columns of rule {self.kind!r}", "distinct names", "Check them."))


@dataclass(frozen=True, slots=True)
class Combinations(Rule):
    """Base of rules that list combinations of values.

    Args:
        columns: Two or more listed columns; for a single one declare its values.
        combinations: One value for each of them; None means missing.
    """

    columns: tuple[str, ...]
    combinations: tuple[tuple[Value, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns it speaks of."""
        return self.columns

    @property
    def names_missing(self) -> bool:
        """Whether it says something of missing values."""
        return any(value is None for found in self.combinations for value in found)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "combinations", tuple(map(_scalars, self.combinations)))
        self._distinct()
        if len(self.columns) < 2 or any(len(found) != len(self.columns) for found in self.combinations):
            asked = f"of one value for each of two or more columns in rule {self.kind!r}"
            raise SchemaError(invalid("combinations", asked, "Give as many values as columns."))
        _check_values(value for found in self.combinations for value in found)
        if not self.combinations:
            raise SchemaError(invalid("combinations", "one or more", f"Leave the rule {self.kind!r} out."))


@final
@dataclass(frozen=True, slots=True)
class Forbidden(Combinations):
    """Combinations that no row has: structural zeros.

    Args:
        columns: Two or more listed columns; for numbers use `Within` or `Ordered`.
        combinations: One value for each column; None means missing.

    Example:
        >>> Forbidden(("sex", "relation"), [("Male", "Wife"), ("Female", "Husband")]).names
        ('sex', 'relation')
    """

    kind: ClassVar[str] = "forbidden"


@final
@dataclass(frozen=True, slots=True)
class Allowed(Combinations):
    """The only combinations that rows have.

    A row in which a column is missing is not judged, unless some combination names None for that column.

    Args:
        columns: Two or more listed columns.
        combinations: One value for each column; None means missing.
    """

    kind: ClassVar[str] = "allowed"


@final
@dataclass(frozen=True, slots=True)
class Determines(Rule):
    """One listed column follows from another.

    Args:
        of: The column that follows.
        by: The column that determines it.
        table: The value of `of` for values of `by`, a mapping or pairs; values of `by` that it does not
            mention leave `of` free, a row in which either is missing is not judged. None when the table is
            not public: a run then buys the noisy counts of the pair first, and models read it off them.
        share: Where discovery found the rule: the noisy share of the rows on the table, and its standard
            error. None where it was declared.

    Example:
        >>> Determines("education_num", "education", {"Bachelors": 13, "HS-grad": 9}).names
        ('education', 'education_num')
    """

    kind: ClassVar[str] = "determines"
    of: str
    by: str
    table: tuple[tuple[Scalar, Value], ...] | Mapping[Scalar, Value] | None = None
    share: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._distinct()
        if self.table is not None:
            found = self.table.items() if isinstance(self.table, Mapping) else self.table
            pairs = tuple(map(_scalars, found))
            _check_values(value for pair in pairs for value in pair)
            if not pairs or any(len(pair) != 2 for pair in pairs) or len(dict(pairs)) != len(pairs):
                remedy = "Name each determining value once."
                raise SchemaError(invalid("table", "one value for each determining value", remedy))
            object.__setattr__(self, "table", pairs)

    @property
    def names_missing(self) -> bool:
        """Whether it says something of missing values."""
        return any(value is None for _, value in self.pairs)

    @property
    def names(self) -> tuple[str, ...]:
        """The determining column and the one that follows."""
        return (self.by, self.of)

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error, where it was found."""
        return self.share

    @property
    def pairs(self) -> tuple[tuple[Scalar, Value], ...]:
        """The table's entries, none where it is not public."""
        return tuple(self.table or ())  # type: ignore[arg-type]


@final
@dataclass(frozen=True, slots=True)
class Ordered(Rule):
    """low <= high, or low < high.

    Args:
        low: A column of numbers, dates, times or moments.
        high: One of the same kind.
        strict: Whether equal values are ruled out, too. Numbers that are not whole then differ by at least
            2^-40 of the columns' largest bound.
        share: As in `Determines`. An order of dates that was found holds for values and not for codes, as
            rules about the calendar do.
    """

    kind: ClassVar[str] = "ordered"
    low: str
    high: str
    strict: bool = False
    share: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._distinct()
        if not isinstance(self.strict, bool):
            raise SchemaError(invalid("strict", "true or false", "Drop the quotes."))

    @property
    def names(self) -> tuple[str, ...]:
        """low and high."""
        return (self.low, self.high)

    @property
    def about_codes(self) -> bool:
        """Whether it was declared."""
        return self.share is None

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error, where it was found."""
        return self.share

    @property
    def words(self) -> str:
        """What it is about, for reading; in whole words where it was found."""
        return (
            f"{self.low} is at most {self.high}" if self.share else f"{self.kind} ({self.low}, {self.high})"
        )


@final
@dataclass(frozen=True, slots=True)
class Sum(Rule):
    """total = the sum of parts.

    Whole numbers and decimals add up exactly; other numbers as far as their storage type can say it, which
    is the parts added up from the first to the last.

    Args:
        total: A column of numbers; or a moment that is a moment plus a duration.
        parts: Two or more columns.
    """

    kind: ClassVar[str] = "sum"
    total: str
    parts: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        self._distinct()
        if len(self.parts) < 2:
            raise SchemaError(invalid("parts", "two or more columns", "Leave the rule 'sum' out."))

    @property
    def names(self) -> tuple[str, ...]:
        """The total and its parts."""
        return (self.total, *self.parts)


@final
@dataclass(frozen=True, slots=True)
class Within(Rule):
    """The range of a number depends on a listed column.

    Args:
        column: A column of numbers, dates, times or moments.
        by: A listed column.
        ranges: For values of `by`, the least and greatest value of `column`, both included and either of
            them None for no bound: a mapping of value to (low, high), or triples. Values that are not
            mentioned leave it free. None as a value means missing.
        share: As in `Determines`.

    Example:
        >>> Within("age", "school", {"primary": (5, 12), "secondary": (11, None)}).names
        ('school', 'age')
    """

    kind: ClassVar[str] = "within"
    column: str
    by: str
    ranges: tuple[tuple[Value, Bound, Bound], ...] | Mapping[Value, tuple[Bound, Bound]]
    share: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._distinct()
        if isinstance(self.ranges, Mapping):
            found = tuple(_scalars((value, *ends)) for value, ends in self.ranges.items())
        else:
            found = tuple(map(_scalars, self.ranges))
        _check_values(entry[0] for entry in found if entry)
        if not found or any(len(entry) != 3 for entry in found):
            raise SchemaError(invalid("ranges", "of a least and a greatest value", "Use None for no bound."))
        bounds = [bound for entry in found for bound in entry[1:]]
        if not all(bound is None or isinstance(bound, BOUNDS) for bound in bounds):
            raise SchemaError(invalid("ranges", "of numbers, or dates and moments", "Use None for no bound."))
        if len({entry[0] for entry in found}) != len(found):
            raise SchemaError(invalid("ranges", "one for each value", "Name each value once."))
        object.__setattr__(self, "ranges", found)

    @property
    def names_missing(self) -> bool:
        """Whether it says something of missing values."""
        return any(value is None for value, _, _ in self.entries)

    @property
    def names(self) -> tuple[str, ...]:
        """The listed column and the number."""
        return (self.by, self.column)

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error, where it was found."""
        return self.share

    @property
    def entries(self) -> tuple[tuple[Value, Bound, Bound], ...]:
        """The ranges, as triples."""
        return tuple(self.ranges)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class CalendarRule(Rule):
    """Base of rules that say how a whole number follows from dates or moments.

    They hold for values and not for codes: models know nothing of them. What is drawn is made to obey, see
    `margrave.schema.constraints.calendar`.

    Args:
        number: A column of numbers.
    """

    number: str

    @property
    def about_codes(self) -> bool:
        """Never."""
        return False

    @property
    @abstractmethod
    def dates(self) -> tuple[str, ...]:
        """The columns of dates or moments that it follows from."""

    @property
    def names(self) -> tuple[str, ...]:
        """The dates and the number."""
        return (*self.dates, self.number)

    @property
    @abstractmethod
    def words(self) -> str:
        """What it says, for reading."""

    @abstractmethod
    def tell_number(self, instants: Sequence[Instant], divide: Divide = np.floor_divide) -> Any:
        """The number that the dates say, shape [rows] or an expression.

        Args:
            instants: Of each of the dates.
            divide: Divides whole numbers by a unit, rounding down.
        """


@final
@dataclass(frozen=True, slots=True)
class Elapsed(CalendarRule):
    """A number is the whole units of time from one date or moment to another.

    Args:
        number: A column of numbers.
        since: A column of dates or moments.
        until: Another.
        unit: "years", "months", "weeks" or "days" of the calendar, whatever the hour; "hours", "minutes" or
            "seconds", for which a date is its midnight. What is not whole is rounded down.
        share: As in `Determines`.

    Example:
        >>> Elapsed("age", since="born", until="admitted", unit="years").words
        'age is the years from born to admitted'
    """

    kind: ClassVar[str] = "elapsed"
    since: str
    until: str
    unit: str = "days"
    share: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._distinct()
        if self.unit not in UNITS:
            raise SchemaError(
                invalid("unit of rule 'elapsed'", f"one of {UNITS}", "Pick one.", got=self.unit)
            )

    @property
    def dates(self) -> tuple[str, ...]:
        """since and until."""
        return (self.since, self.until)

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error, where it was found."""
        return self.share

    @property
    def words(self) -> str:
        """What it says, for reading."""
        return f"{self.number} is the {self.unit} from {self.since} to {self.until}"

    def tell_number(self, instants: Sequence[Instant], divide: Divide = np.floor_divide) -> Any:
        """See `CalendarRule.tell_number`."""
        since, until = instants
        return count_units(since, until, self.unit, divide)


@final
@dataclass(frozen=True, slots=True)
class DatePart(CalendarRule):
    """A number is a part of a date or moment.

    Args:
        number: A column of numbers.
        date: A column of dates or moments.
        part: "year", "quarter", "month", "day" (of the month), "hour" (of a moment), or a weekday: "weekday"
            from Monday 1 to Sunday 7, "weekday_from_0" from Monday 0, "weekday_from_sunday" from Sunday 1
            to Saturday 7, "weekday_from_sunday_0" from Sunday 0.
        share: As in `Determines`.

    Example:
        >>> DatePart("month", date="sold", part="month").words
        'month is the month of sold'
    """

    kind: ClassVar[str] = "date_part"
    date: str
    part: str
    share: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._distinct()
        if self.part not in PARTS:
            raise SchemaError(
                invalid("part of rule 'date_part'", f"one of {PARTS}", "Pick one.", got=self.part)
            )

    @property
    def dates(self) -> tuple[str, ...]:
        """The date alone."""
        return (self.date,)

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error, where it was found."""
        return self.share

    @property
    def words(self) -> str:
        """What it says, for reading."""
        return f"{self.number} is the {self.part.replace('_', ' ')} of {self.date}"

    def tell_number(self, instants: Sequence[Instant], divide: Divide = np.floor_divide) -> Any:
        """See `CalendarRule.tell_number`."""
        return take_part(instants[0], self.part, divide)


RULE_KINDS: dict[str, type[Rule]] = {
    kind.kind: kind for kind in (Forbidden, Allowed, Determines, Ordered, Sum, Within, Elapsed, DatePart)
}


def find_ruled(rules: Iterable[Rule]) -> frozenset[str]:
    """Names of the columns that rules about codes speak of."""
    return frozenset(name for rule in rules if rule.about_codes for name in rule.names)


def rule_from_json(entry: Any) -> Rule:
    """The rule of a JSON object.

    Raises:
        SchemaError: It is not a rule.
    """
    kind = RULE_KINDS.get(str(entry.get("kind"))) if isinstance(entry, dict) else None
    if kind is None:
        raise SchemaError(invalid("rules", f"objects with a 'kind' of {sorted(RULE_KINDS)}", "Pick one."))
    known = {field.name for field in dataclasses.fields(kind)}
    extra = sorted(set(entry) - known - {"kind"})
    if extra:
        raise SchemaError(
            invalid(f"rule {kind.kind!r}", f"made of {sorted(known)}", "Remove the rest.", got=extra)
        )
    try:
        return kind(**{key: _to_tuples(value) for key, value in entry.items() if key != "kind"})
    except (TypeError, ValueError) as error:
        if isinstance(error, SchemaError):
            raise
        remedy = "See docs/rules.md for the fields of each kind."
        raise SchemaError(invalid(f"rule {kind.kind!r}", "of the right types", remedy)) from None


def find_open_dependencies(rules: Iterable[Rule], public: Collection[str] = ()) -> tuple[Determines, ...]:
    """Dependencies whose table is not declared, so that it has to be read off noisy counts of the pair.

    Args:
        rules: Of a schema.
        public: Columns whose values are given: between two of them nothing is drawn or has to be read.
    """
    return tuple(
        rule
        for rule in rules
        if isinstance(rule, Determines) and rule.table is None and not set(rule.names) <= set(public)
    )


def check_names(rules: Iterable[Rule], columns: Iterable[Column]) -> None:
    """Refuse rules about columns that there are not.

    Raises:
        SchemaError: A rule names an unknown column, or something else stands in for a rule.
    """
    names = [column.name for column in columns if column.attribute]
    for rule in rules:
        if not isinstance(rule, Rule):
            raise SchemaError(invalid("rules", "rules such as Ordered('a', 'b')", "See docs/rules.md."))
        for name in rule.names:
            if name not in names:
                where = f"columns of rule {rule.kind!r}"
                raise SchemaError(invalid(where, f"some of {names}", "Check the spelling.", got=name))


def _scalars(values: Iterable[Any]) -> tuple[Any, ...]:
    """Values of Python, as schema.json can hold them."""
    return tuple(value.item() if isinstance(value, np.generic) else value for value in values)


def _check_values(values: Iterable[Any]) -> None:
    if not all(value is None or isinstance(value, str | int | float) for value in values):
        raise SchemaError(invalid("values of rules", "texts, numbers, truth values or null", "Check them."))


def _to_lists(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_to_lists(inner) for inner in value]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _to_tuples(value: Any) -> Any:
    return tuple(_to_tuples(inner) for inner in value) if isinstance(value, list) else value
