"""Rules about what dates tell: `Elapsed`, `Age`, `DatePart` and `KeyYear`."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from margrave.errors import SchemaError, invalid
from margrave.schema.calendar import (
    DAY_UNITS,
    NO_PART,
    PART_WORDS,
    PARTS,
    PERIODS,
    UNITS,
    Divide,
    Instant,
    Longs,
    count_units,
    is_possible,
    take_part,
)
from margrave.schema.constraints.rule import Rule, take_scalars


@dataclass(frozen=True, slots=True)
class CalendarRule(Rule):
    """Base of rules that say how a whole number, or a text for one, follows from dates or moments.

    They hold for values and not for codes: models know nothing of them. What is drawn is made to obey, see
    `margrave.schema.constraints.calendar`.

    Args:
        number: A column of numbers; of `DatePart` with texts, a column of these; of `KeyYear`, of keys.
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
    def pairs(self) -> tuple[tuple[str, int], ...]:
        """The texts of the column and the numbers that they stand for, none where it has numbers."""
        return ()

    @property
    def reads_texts(self) -> bool:
        """Whether the column has texts that stand for numbers, as `read_texts` has them."""
        return bool(self.pairs)

    @property
    def tells_date(self) -> bool:
        """Whether what the dates say is a date itself, in days since 1970-01-01."""
        return False

    def read_texts(self, texts: Iterable[Any]) -> Longs:
        """The number that each text stands for, NO_PART where it stands for none: shape [texts]."""
        known = dict(self.pairs)
        return np.array([known.get(text, NO_PART) for text in texts], dtype=np.int64)

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
        since: A column of dates or moments, or of times of day.
        until: Another; both or none of times of day.
        unit: "years", "months", "weeks" or "days" of the calendar, whatever the hour; "hours", "minutes" or
            "seconds", for which a date is its midnight. What is not whole is rounded down. Between times of
            day, in one of the latter, it is the shorter way round the clock: from -12 hours on and below 12.
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


@dataclass(frozen=True, slots=True)
class DateRule(CalendarRule):
    """Base of rules about one date.

    Args:
        number: As in `CalendarRule`.
        date: A column of dates or moments.
    """

    date: str

    @property
    def dates(self) -> tuple[str, ...]:
        """The date alone."""
        return (self.date,)


@final
@dataclass(frozen=True, slots=True)
class Age(DateRule):
    """A number is the whole units of time from a date or moment to a fixed day, as that of a table's export.

    Args:
        number: A column of numbers.
        date: A column of dates or moments, as of birth.
        day: The fixed day, as in "2025-06-01".
        unit: "years", "months", "weeks" or "days", as in `Elapsed`; negative for dates after the day.
        share: As in `Determines`.

    Raises:
        SchemaError: There is no such unit or day.

    Example:
        >>> Age("age", date="born", day="2025-06-01").words
        'age is the years from born to 2025-06-01'
    """

    kind: ClassVar[str] = "age"
    day: str
    unit: str = "years"
    share: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._distinct()
        if self.unit not in DAY_UNITS:
            raise SchemaError(
                invalid("unit of rule 'age'", f"one of {DAY_UNITS}", "Pick one.", got=self.unit)
            )
        try:
            datetime.date.fromisoformat(self.day)
        except (TypeError, ValueError):
            remedy = 'Write it as in "2025-06-01".'
            raise SchemaError(invalid("day of rule 'age'", "a date", remedy, got=self.day)) from None

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error, where it was found."""
        return self.share

    @property
    def words(self) -> str:
        """What it says, for reading."""
        return f"{self.number} is the {self.unit} from {self.date} to {self.day}"

    def tell_number(self, instants: Sequence[Instant], divide: Divide = np.floor_divide) -> Any:
        """See `CalendarRule.tell_number`."""
        day = datetime.date.fromisoformat(self.day)
        until = Instant((day - datetime.date(1970, 1, 1)).days, 0, day.year, day.month, day.day)
        return count_units(instants[0], until, self.unit, divide)


@final
@dataclass(frozen=True, slots=True)
class DatePart(DateRule):
    """A number, or a text that stands for one, or another date, is a part of a date or moment.

    Args:
        number: A column of numbers; with `texts` one of listed texts or truth values; for the parts that are
            dates one of these, or of moments, which are midnights then.
        date: A column of dates or moments, or of times of day.
        part: "year", "quarter", "month", "day" (of the month), "hour" or "minute" (of a moment or a time of
            day, which has no others), or a weekday: "weekday"
            from Monday 1 to Sunday 7, "weekday_from_0" from Monday 0, "weekday_from_sunday" from Sunday 1
            to Saturday 7, "weekday_from_sunday_0" from Sunday 0; or "year_quarter", 20231 for the first
            quarter of 2023, or "year_month", 202301 for its January; "half" (1 or 2), "season" from winter 1
            in December to autumn 4, "season_from_21" of which each begins on the 21st, "weekend" (1 or 0),
            "day_of_year", "week" of ISO 8601, "decade", or "fiscal_year_april" that is called by the year in
            which it begins, "fiscal_year_july", "fiscal_year_september" and "fiscal_year_october" by the one
            in which they end. Parts that are dates are "month_start" and "month_end", the first and the last
            day of the month, and "week_start", the Monday of the week.
        texts: The number that each text of the column stands for, a mapping or pairs, spelt as in the
            column; a cell with another text is not what the date says. Of several texts for a number the
            first is the one that is written where a date says another than was drawn. None for numbers.
        share: As in `Determines`.

    Raises:
        SchemaError: There is no such part, or texts are no texts, are named twice, or stand for what the
            part cannot be, or for dates.

    Example:
        >>> DatePart("month", date="sold", part="month").words
        'month is the month of sold'
        >>> season = {"winter": 1, "spring": 2, "summer": 3, "autumn": 4}
        >>> DatePart("season", "sold", "quarter", season).read_texts(["summer", "rain"]).tolist()
        [3, -1]
    """

    kind: ClassVar[str] = "date_part"
    part: str
    texts: tuple[tuple[str, int], ...] | Mapping[str, int] | None = None
    share: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._distinct()
        known = PARTS if self.texts else (*PARTS, *PERIODS)
        if self.part not in known:
            raise SchemaError(
                invalid("part of rule 'date_part'", f"one of {known}", "Pick one.", got=self.part)
            )
        if self.texts is None:
            return
        found = self.texts.items() if isinstance(self.texts, Mapping) else self.texts
        pairs = tuple(take_scalars(pair) for pair in found)
        if not pairs or not all(_is_text_of(pair, self.part) for pair in pairs):
            asked = f"a text and a number that a {self.part} can be in each pair"
            raise SchemaError(invalid("texts of rule 'date_part'", asked, 'Write {"January": 1}.'))
        if len(dict(pairs)) != len(pairs):
            raise SchemaError(invalid("texts of rule 'date_part'", "distinct", "Name each text once."))
        object.__setattr__(self, "texts", pairs)

    @property
    def pairs(self) -> tuple[tuple[str, int], ...]:
        """See `CalendarRule.pairs`."""
        return tuple(self.texts or ())  # type: ignore[arg-type]

    @property
    def tells_date(self) -> bool:
        """See `CalendarRule.tells_date`."""
        return self.part in PERIODS

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error, where it was found."""
        return self.share

    @property
    def words(self) -> str:
        """What it says, for reading."""
        part = PART_WORDS.get(self.part, self.part.replace("_", " "))
        return f"{self.number} is the {part} of {self.date}"

    def tell_number(self, instants: Sequence[Instant], divide: Divide = np.floor_divide) -> Any:
        """See `CalendarRule.tell_number`."""
        return take_part(instants[0], self.part, divide)


@final
@dataclass(frozen=True, slots=True)
class KeyYear(CalendarRule):
    """Digits of a key are the year of a date or moment, as in 2023-00417, V19/1234 or 0417/2023.

    Args:
        number: A column of keys: an `Identifier` of shapes, a `Categorical` with patterns, or a unique
            `Integer`, whose digits are meant.
        date: A column of dates or moments.
        place: Where the first of these digits stands in the text, from 0 on; negative from the end, where
            the last sign is -1.
        digits: 4 for a whole year, 2 for its last two digits.
        share: As in `Determines`.

    Raises:
        SchemaError: The digits are not 4 or 2, or reach beyond the end of the text.

    Example:
        >>> case = KeyYear("case_number", date="opened", place=0)
        >>> case.read_texts(["2023-00417", "unknown"]).tolist()
        [2023, -1]
    """

    kind: ClassVar[str] = "key_year"
    date: str
    place: int
    digits: int = 4
    share: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._distinct()
        if self.digits not in (2, 4):
            raise SchemaError(
                invalid("digits of rule 'key_year'", "2 or 4", "Count those of the year.", got=self.digits)
            )
        if type(self.place) is not int or -self.digits < self.place < 0:
            asked = "a whole number, and such that all digits stand in the text"
            raise SchemaError(invalid("place of rule 'key_year'", asked, "Count from 0.", got=self.place))

    @property
    def dates(self) -> tuple[str, ...]:
        """The date alone."""
        return (self.date,)

    @property
    def reads_texts(self) -> bool:
        """Always."""
        return True

    @property
    def found(self) -> tuple[float, float] | None:
        """The noisy share of the rows that obey it, and its standard error, where it was found."""
        return self.share

    @property
    def words(self) -> str:
        """What it says, for reading."""
        return f"the year in {self.number} is that of {self.date}"

    def read_texts(self, texts: Iterable[Any]) -> Longs:
        """The number that the digits of each text are, NO_PART where there are none: shape [texts]."""
        # Many texts have few years among them.
        known: dict[str, int] = {}
        return np.array([self._read_text(str(text), known) for text in texts], dtype=np.int64)

    def _read_text(self, text: str, known: dict[str, int]) -> int:
        found = text[self.place :][: self.digits]
        if found not in known:
            whole = len(found) == self.digits and found.isascii() and found.isdigit()
            known[found] = int(found) if whole else NO_PART
        return known[found]

    def tell_number(self, instants: Sequence[Instant], divide: Divide = np.floor_divide) -> Any:
        """See `CalendarRule.tell_number`."""
        year = instants[0].year
        return year if self.digits == 4 else year - 100 * divide(year, 100)


def _is_text_of(pair: Sequence[Any], part: str) -> bool:
    """Whether a pair is a text and a number that a part of a date can be."""
    if len(pair) != 2 or not isinstance(pair[0], str) or isinstance(pair[1], bool):
        return False
    return isinstance(pair[1], int) and is_possible(part, pair[1])
