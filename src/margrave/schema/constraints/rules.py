"""Rules: public facts that every row of a table obeys, declared with its schema.

    Rule
    ├── Forbidden     combinations of listed values that never occur: structural zeros
    ├── Allowed       the only combinations of listed values that occur
    ├── Determines    one listed column follows from another
    ├── Ordered       low <= high, or low < high, on numbers, dates and moments
    ├── Sum           a total and its parts
    ├── Within        the range of a number depends on a listed column
    ├── Elapsed       a number is the time between two dates or moments
    ├── Age           a number is the time from a date or moment to a fixed day
    ├── DatePart      a number or a text is the year, the weekday, ... of a date or moment
    ├── KeyYear       digits of a key are the year of a date or moment
    └── FlagCount     a number is how many of some columns say yes

A rule says nothing about a row in which one of its columns is missing, unless it names None itself. Whether
private rows obey a rule is private, too, and nothing here looks at rows. Rules are declared; those that
discovery found under noise (`margrave.measure.discovery.between`), or a fit in a measured pair, say so, with
the noisy share of the rows that obey.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

from margrave.errors import SchemaError, invalid
from margrave.schema.columns import Column, Identifier, Scalar
from margrave.schema.constraints.calendar_rules import Age, CalendarRule, DatePart, DateRule, Elapsed, KeyYear
from margrave.schema.constraints.rule import BOUNDS, Bound, Rule, Value, check_values, take_scalars

__all__ = [
    "Age",
    "Allowed",
    "CalendarRule",
    "DatePart",
    "DateRule",
    "Determines",
    "Elapsed",
    "FlagCount",
    "Forbidden",
    "KeyYear",
    "Ordered",
    "Rule",
    "Sum",
    "Within",
    "check_names",
    "find_open_dependencies",
    "find_ruled",
    "rule_from_json",
]


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
        object.__setattr__(self, "combinations", tuple(map(take_scalars, self.combinations)))
        self._distinct()
        if len(self.columns) < 2 or any(len(found) != len(self.columns) for found in self.combinations):
            asked = f"of one value for each of two or more columns in rule {self.kind!r}"
            raise SchemaError(invalid("combinations", asked, "Give as many values as columns."))
        check_values(value for found in self.combinations for value in found)
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
        share: Where a fit saw it in a measured pair (`Model.found_rules`), or discovery found it, in older
            releases: the noisy share of the rows on the table, and its standard error. None where it was
            declared.

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
            pairs = tuple(map(take_scalars, found))
            check_values(value for pair in pairs for value in pair)
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
    def words(self) -> str:
        """What it is about, for reading; in whole words where it was found."""
        return f"{self.of} follows from {self.by}" if self.share else f"{self.kind} ({self.by}, {self.of})"

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
        share: Where discovery found the rule: the noisy share of the rows that obey it, and its standard
            error. An order of dates that was found holds for values and not for codes, as rules about the
            calendar do.
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
        share: As in `Determines`, where a measured table shows that `by` has classes of the number; rows are
            then drawn by it, and models know nothing of it.

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
            found = tuple(take_scalars((value, *ends)) for value, ends in self.ranges.items())
        else:
            found = tuple(map(take_scalars, self.ranges))
        check_values(entry[0] for entry in found if entry)
        if not found or any(len(entry) != 3 for entry in found):
            raise SchemaError(invalid("ranges", "of a least and a greatest value", "Use None for no bound."))
        bounds = [bound for entry in found for bound in entry[1:]]
        if not all(bound is None or isinstance(bound, BOUNDS) for bound in bounds):
            raise SchemaError(invalid("ranges", "of numbers, or dates and moments", "Use None for no bound."))
        if len({entry[0] for entry in found}) != len(found):
            raise SchemaError(invalid("ranges", "one for each value", "Name each value once."))
        object.__setattr__(self, "ranges", found)

    @property
    def about_codes(self) -> bool:
        """Whether it was declared."""
        return self.share is None

    @property
    def words(self) -> str:
        """What it is about, for reading."""
        return f"{self.column} is in the range that {self.by} says"

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


@final
@dataclass(frozen=True, slots=True)
class FlagCount(Rule):
    """A number is how many of some columns say yes: symptoms, of fever, cough and so on.

    It holds for values and not for codes: models know nothing of it, and the number follows when rows are
    drawn (`margrave.schema.constraints.flag_counts`). A flag that is missing does not say yes.

    Args:
        number: A column of whole numbers.
        flags: Two or more columns of truth values, texts or numbers.
        counted: Of each of them the value that is counted, as text: "true", "Yes", "1".
        share: As in `Determines`.

    Example:
        >>> FlagCount("symptoms", ("fever", "cough"), ("Yes", "Yes")).words
        'symptoms is how many of fever and cough say yes'
    """

    kind: ClassVar[str] = "flag_count"
    number: str
    flags: tuple[str, ...]
    counted: tuple[str, ...]
    share: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "flags", tuple(self.flags))
        object.__setattr__(self, "counted", tuple(self.counted))
        self._distinct()
        if len(self.flags) < 2 or len(self.counted) != len(self.flags):
            asked = "of two or more columns, with one counted value for each, in rule 'flag_count'"
            raise SchemaError(invalid("flags", asked, "Give as many values as columns."))
        if not all(isinstance(value, str) for value in self.counted):
            remedy = "Write truth values as 'true', numbers as '1'."
            raise SchemaError(invalid("counted values of rule 'flag_count'", "texts", remedy))

    @property
    def about_codes(self) -> bool:
        """Never."""
        return False

    @property
    def names(self) -> tuple[str, ...]:
        """The flags and the number."""
        return (*self.flags, self.number)

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error, where it was found."""
        return self.share

    @property
    def words(self) -> str:
        """What it says, for reading."""
        return f"{self.number} is how many of {', '.join(self.flags[:-1])} and {self.flags[-1]} say yes"


RULE_KINDS: dict[str, type[Rule]] = {
    kind.kind: kind
    for kind in (
        Forbidden,
        Allowed,
        Determines,
        Ordered,
        Sum,
        Within,
        Elapsed,
        Age,
        DatePart,
        KeyYear,
        FlagCount,
    )
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
    found = list(columns)
    for rule in rules:
        if not isinstance(rule, Rule):
            raise SchemaError(invalid("rules", "rules such as Ordered('a', 'b')", "See docs/rules.md."))
        keys = isinstance(rule, KeyYear)
        names = [one.name for one in found if one.attribute or (keys and isinstance(one, Identifier))]
        for name in rule.names:
            if name not in names:
                where = f"columns of rule {rule.kind!r}"
                raise SchemaError(invalid(where, f"some of {names}", "Check the spelling.", got=name))


def _to_tuples(value: Any) -> Any:
    return tuple(_to_tuples(inner) for inner in value) if isinstance(value, list) else value
