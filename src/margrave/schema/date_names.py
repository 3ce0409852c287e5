"""Texts that name a part of a date: weekdays, months, quarters, the last two with a year, seasons and halves.

`read_names` says of the texts of a column which part they name and which number each of them is, and adds the
names that are not among them, spelt likewise. All lists are public.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from margrave.schema.calendar import FISCAL_YEARS, PERIODS
from margrave.schema.columns.base import split_words

WEEKDAYS = {
    "en": "monday mon mo|tuesday tue tu tues|wednesday wed we|thursday thu th thur thurs|friday fri fr"
    "|saturday sat sa|sunday sun su",
    "de": "montag mon mo|dienstag die di|mittwoch mit mi|donnerstag don do|freitag fre fr"
    "|samstag sam sa sonnabend|sonntag son so",
    "fr": "lundi lun|mardi mar|mercredi mer|jeudi jeu|vendredi ven|samedi sam|dimanche dim",
    "es": "lunes lun|martes mar|miércoles mié|jueves jue|viernes vie|sábado sáb|domingo dom",
    "it": "lunedì lun|martedì mar|mercoledì mer|giovedì gio|venerdì ven|sabato sab|domenica dom",
    "pt": "segunda-feira seg segunda|terça-feira ter terça|quarta-feira qua quarta|quinta-feira qui quinta"
    "|sexta-feira sex sexta|sábado sáb|domingo dom",
    "nl": "maandag maa ma|dinsdag din di|woensdag woe wo|donderdag don do|vrijdag vri vr|zaterdag zat za"
    "|zondag zon zo",
}
"""By language: from Monday on each day's names, the full one first and its abbreviations behind it."""
MONTHS = {
    "en": "january jan|february feb|march mar|april apr|may|june jun|july jul|august aug|september sep sept"
    "|october oct|november nov|december dec",
    "de": "januar jan jänner jän|februar feb feber|märz mär mrz|april apr|mai|juni jun|juli jul|august aug"
    "|september sep sept|oktober okt|november nov|dezember dez",
    "fr": "janvier janv jan|février févr fév|mars mar|avril avr|mai|juin jun|juillet juil jul|août aoû"
    "|septembre sept sep|octobre oct|novembre nov|décembre déc",
    "es": "enero ene|febrero feb|marzo mar|abril abr|mayo may|junio jun|julio jul|agosto ago"
    "|septiembre sep sept setiembre set|octubre oct|noviembre nov|diciembre dic",
    "it": "gennaio gen genn|febbraio feb febbr|marzo mar|aprile apr|maggio mag magg|giugno giu|luglio lug"
    "|agosto ago|settembre set sett|ottobre ott|novembre nov|dicembre dic",
    "pt": "janeiro jan|fevereiro fev|março mar|abril abr|maio mai|junho jun|julho jul|agosto ago|setembro set"
    "|outubro out|novembro nov|dezembro dez",
    "nl": "januari jan|februari feb|maart mrt maa|april apr|mei|juni jun|juli jul|augustus aug"
    "|september sep sept|oktober okt|november nov|december dec",
}
"""By language: from January on each month's names, likewise."""
SEASONS = {
    "en": "winter|spring|summer|autumn fall",
    "de": "winter|frühling frühjahr|sommer|herbst",
    "fr": "hiver|printemps|été|automne",
    "es": "invierno|primavera|verano|otoño",
    "it": "inverno|primavera|estate|autunno",
    "pt": "inverno|primavera|verão|outono",
    "nl": "winter|lente voorjaar|zomer|herfst najaar",
}
"""By language: from winter on the names of each season, one beside the other."""
DAY_TYPES = {
    **dict.fromkeys(("weekday", "workday", "working day", "week day", "werktag", "wochentag"), 0),
    **dict.fromkeys(("weekend", "week end", "wochenende", "fin de semana", "fine settimana"), 1),
}
"""What days of the week and of its end are called."""
FLAGS = {
    **dict.fromkeys(("yes", "y", "true", "t", "ja", "j", "oui", "si", "sim"), 1),
    **dict.fromkeys(("no", "n", "false", "f", "nein", "nee", "non", "nao"), 0),
}
"""What says that something is so, or is not."""
FISCAL = ("fiscal_year_april", "fiscal_year_july", "fiscal_year_october")
SPANS = ("fiscal_year_april", "fiscal_year_july", "fiscal_year_september")
"""When years begin that are called fiscal, and those that are called by two years, of tax and of schools.
Those of one list are two months apart or more, so that none is nearly another."""
PART_NAMES = {
    **dict.fromkeys(("season", "saison", "jahreszeit", "estacion", "stagione"), ("season", "season_from_21")),
    **dict.fromkeys(("weekend", "wochenende"), ("weekend",)),
    **dict.fromkeys(("dayofyear", "yearday", "jahrestag", "yday", "doy"), ("day_of_year",)),
    **dict.fromkeys(("week", "weekno", "weekofyear", "isoweek", "woche", "kalenderwoche", "kw"), ("week",)),
    **dict.fromkeys(("half", "halfyear", "semester", "halbjahr", "semestre"), ("half",)),
    **dict.fromkeys(("decade", "jahrzehnt"), ("decade",)),
    **dict.fromkeys(("fiscal", "fy", "fiscalyear"), FISCAL),
    **dict.fromkeys(("academic", "academicyear", "schoolyear", "schuljahr"), ("fiscal_year_september",)),
}
"""Words in the names of columns that say of which parts of a date these may be."""
PERIOD_NAMES = {
    **dict.fromkeys(("month", "monat", "mois", "mes", "mese", "maand", "period", "periode"), PERIODS[:2]),
    **dict.fromkeys(("eom", "bom", "som", "ultimo"), PERIODS[:2]),
    **dict.fromkeys(("week", "wk", "woche", "semaine", "semana", "settimana"), PERIODS[2:]),
}
"""Words in the names of dates that say of which periods of another date these may be the ends."""
HALF_WORDS = "h|hy|hj|s|sem|half|semester|semestre|halbjahr"
QUARTER_WORDS = "q|t|k|qtr|quarter|quartal|kwartaal|trim|trimestre"
MIN_NAMES = 3
"""Fewer different numbers are no column of names: two words may be anything, but of halves of a year and of
types of days there are no more."""
MOST_NAMES = 128
"""Most names of one column, those of ten years of months: engines compare each row with all of them."""

HALF = re.compile(rf"(?:{HALF_WORDS})\s*[12]|[12][.ºª°]?\s*(?:{HALF_WORDS})")
QUARTER = re.compile(rf"(?:{QUARTER_WORDS})\s*[1-4]|[1-4][.ºª°]?\s*(?:{QUARTER_WORDS})")
YEAR_FIRST = re.compile(r"([1-9]\d{3})([\s/._-]*)(.+)")
FISCAL_TEXT = re.compile(
    r"(?P<before>(?:fy|f\.y\.|gj|ay|sy)?[\s-]*'?)(?P<year>\d{4}|\d{2})"
    r"(?:(?P<sign>\s?[/–-]\s?)(?P<end>\d{4}|\d{2}))?",
    re.IGNORECASE,
)
"""A fiscal year with a word or sign before it, as in FY2024, or by the years in which it begins and ends."""
YEAR_LAST = re.compile(r"(.*[^\s/._'-])([\s/._'-]*)([1-9]\d{3})")


def normalize_name(text: str) -> str:
    """A text without case, accents, a point behind it, or blanks around it, by which names are compared."""
    plain = unicodedata.normalize("NFKD", text.strip().casefold())
    return "".join(sign for sign in plain if not unicodedata.combining(sign)).rstrip(".")


@dataclass(frozen=True, slots=True)
class NameList:
    """The names of one part of a date in one language.

    Args:
        part: "weekday" from Monday 1, "month", or "season" from winter 1.
        names: Of each number from 1 on: the full name first, and its abbreviations behind it.
        numbers: The number of each name as `normalize_name` has it.
    """

    part: str
    names: tuple[tuple[str, ...], ...]
    numbers: Mapping[str, int]

    @classmethod
    def of(cls, part: str, words: str) -> NameList:
        """That of names parted by blanks, and of numbers parted by bars."""
        names = tuple(tuple(entry.split()) for entry in words.split("|"))
        found = {normalize_name(name): number for number, own in enumerate(names, 1) for name in own}
        return cls(part, names, found)


NAME_LISTS = tuple(
    NameList.of(part, words)
    for part, languages in (("weekday", WEEKDAYS), ("month", MONTHS), ("season", SEASONS))
    for words in languages.values()
)


def list_named_parts(name: str) -> tuple[str, ...]:
    """The parts of a date that a column may be by its name, none by most: of "is_weekend" a weekend.

    Args:
        name: Of a column, which is public.
    """
    return _find_in_name(name, PART_NAMES)


def list_period_parts(name: str) -> tuple[str, ...]:
    """The periods of which a date may be an end by its name, none by most: of "invoice_month" a month.

    Args:
        name: Of a column, which is public.
    """
    return _find_in_name(name, PERIOD_NAMES)


def _find_in_name(name: str, parts: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What the words of a column's name, up to three of them in a row, stand for."""
    words = split_words(name)
    joined = [*words, *("".join(pair) for pair in pairwise(words)), "".join(words)]
    joined += ["".join(words[place : place + 3]) for place in range(len(words))]
    return tuple(dict.fromkeys(part for word in joined for part in parts.get(word, ())))


def read_flags(values: Collection[Any]) -> dict[str, int] | None:
    """1 for the text that says yes and 0 for the one that says no; None where values are no such two."""
    keys = {text: normalize_name(text) for text in values if isinstance(text, str)}
    found = {text: FLAGS[key] for text, key in keys.items() if key in FLAGS}
    return found if len(found) == len(values) == len(set(found.values())) == 2 else None


def turn_seasons(texts: Mapping[str, int]) -> dict[str, int]:
    """The seasons of the south, by the number that they have in the north."""
    return {text: (number + 1) % 4 + 1 for text, number in texts.items()}


def list_fiscal_parts(texts: Mapping[str, int]) -> list[tuple[str, dict[str, int]]]:
    """The parts of a date that texts of fiscal years may be, and the number that each text is then.

    Args:
        texts: The year in which each fiscal year ends; where texts name one year alone it may be called so by
            the year in which it begins, in April, or be one of the calendar.
    """
    spans = any(len(re.findall(r"\d+", text)) > 1 for text in texts)
    found = [
        (part, {text: end - 1 + FISCAL_YEARS[part][1] for text, end in texts.items()})
        for part in (SPANS if spans else FISCAL)
    ]
    if spans:
        return found
    return [*found, ("fiscal_year_april", dict(texts)), ("year", dict(texts))]


def read_names(values: Collection[Any]) -> tuple[str, dict[str, int]] | None:
    """Which part of a date some values name, and which number each name is; None where they are no names.

    Args:
        values: Different ones: all of a column. Where one is no text, they are no names.

    Returns:
        The part, one of `margrave.schema.calendar.PARTS`, and the number of each text, with names that are
        not among them behind, spelt as these are: MOST_NAMES at most. None as well if they stand for fewer
        than MIN_NAMES numbers.
    """
    texts = [value for value in values if isinstance(value, str)]
    able = len(texts) == len(values) <= MOST_NAMES
    found = (_read_plain(texts) or _read_fiscal(texts) or _read_with_year(texts)) if able else None
    if found is None:
        return None
    part, names = found
    few = part in ("half", "weekend", *FISCAL_YEARS)
    if len({names[text] for text in texts}) < (2 if few else MIN_NAMES):
        return None
    return part, names if len(names) <= MOST_NAMES else {text: names[text] for text in texts}


def _read_plain(texts: Collection[str]) -> tuple[str, dict[str, int]] | None:
    """Names without a year; None where they are none."""
    if not texts:
        return None
    if all(QUARTER.fullmatch(normalize_name(text)) for text in texts):
        return "quarter", _fill_digits(texts, re.compile("[1-4]"), range(1, 5), "{}")
    keys = {text: normalize_name(text) for text in texts}
    if all(HALF.fullmatch(key) for key in keys.values()):
        return "half", _fill_digits(texts, re.compile("[12]"), range(1, 3), "{}")
    days = {text: key.replace("-", " ").replace("_", " ") for text, key in keys.items()}
    if all(key in DAY_TYPES for key in days.values()):
        return "weekend", {text: DAY_TYPES[key] for text, key in days.items()}
    for one in NAME_LISTS:
        if all(key in one.numbers for key in keys.values()):
            found = {text: one.numbers[key] for text, key in keys.items()}
            return one.part, found | _fill_list(one, texts, set(found.values()))
    return None


def _read_fiscal(texts: Collection[str]) -> tuple[str, dict[str, int]] | None:
    """Fiscal years by the year in which they end, as one from July; None where texts are none."""
    matches = {text: FISCAL_TEXT.fullmatch(text.strip()) for text in texts}
    found = {text: _read_fiscal_year(match) for text, match in matches.items() if match is not None}
    if not found or len(found) < len(texts) or None in found.values():
        return None
    years = {text: year for text, year in found.items() if year is not None}
    (before, sign, wide, end_wide), _ = Counter(map(_form_of, matches.values())).most_common(1)[0]
    for year in range(min(years.values()), max(years.values()) + 1):
        if year not in years.values():
            first = year - 1 if sign else year
            text = before + (f"{first}" if wide else f"{first % 100:02}")
            years[text + sign + ((f"{year}" if end_wide else f"{year % 100:02}") if sign else "")] = year
    return "fiscal_year_july", years


def _form_of(match: re.Match[str] | None) -> tuple[str, str, bool, bool]:
    """How a fiscal year is written: what is before it and between its years, and which have four digits."""
    assert match is not None  # noqa: S101 - all were matched before
    return match["before"], match["sign"] or "", len(match["year"]) == 4, len(match["end"] or "") == 4


def _read_fiscal_year(match: re.Match[str]) -> int | None:
    """The year in which a fiscal year ends; None for two years that do not follow, or for a plain number."""
    begin, end = int(match["year"]), match["end"]
    begin = begin if len(match["year"]) == 4 else 2000 + begin
    if end is not None:
        follows = (begin + 1) % 100 == int(end) if len(end) == 2 else begin + 1 == int(end)
        return begin + 1 if follows else None
    return begin if match["before"].strip(" -'") else None


def _read_with_year(texts: Collection[str]) -> tuple[str, dict[str, int]] | None:
    """Quarters and months with a year in front or behind; None where they are none."""
    for pattern, first in ((YEAR_FIRST, True), (YEAR_LAST, False)):
        matches = [pattern.fullmatch(text.strip()) for text in texts]
        if not matches or not all(matches):
            continue
        split = [one.groups() if first else one.groups()[::-1] for one in matches if one is not None]
        rests = {rest for _, _, rest in split}
        inner = _read_plain(rests) or _read_months(rests)
        if inner is None or inner[0] not in ("quarter", "month"):
            continue
        part, numbers = inner
        scale: int = 10 if part == "quarter" else 100
        found = {
            text: int(year) * scale + numbers[rest]
            for text, (year, _, rest) in zip(texts, split, strict=True)
        }
        held = set(found.values())
        between = Counter(sign for _, sign, _ in split).most_common(1)[0][0]
        years = sorted(int(year) for year, _, _ in split)
        spelt = {number: rest for rest, number in reversed(numbers.items())}
        for year in range(years[0], years[-1] + 1):
            for number, rest in sorted(spelt.items()):
                if year * scale + number not in held:
                    text = f"{year}{between}{rest}" if first else f"{rest}{between}{year}"
                    found[text] = year * scale + number
        return ("year_quarter" if part == "quarter" else "year_month"), found
    return None


def _read_months(rests: Collection[str]) -> tuple[str, dict[str, int]] | None:
    """Months of two digits; None where they are none."""
    if not all(re.fullmatch("0[1-9]|1[0-2]", rest) for rest in rests):
        return None
    return "month", _fill_digits(rests, re.compile(r"\d\d"), range(1, 13), "{:02}")


def _fill_digits(
    texts: Collection[str], digits: re.Pattern[str], numbers: Iterable[int], form: str
) -> dict[str, int]:
    """The number in each text, and texts of those that are missing with it in its place in the commonest."""
    found, forms = {}, Counter[tuple[str, str]]()
    for text in texts:
        match = digits.search(text)
        assert match is not None  # noqa: S101 - all were matched before
        found[text] = int(match[0])
        forms[text[: match.start()], text[match.end() :]] += 1
    (before, behind), _ = forms.most_common(1)[0]
    held = set(found.values())
    return found | {before + form.format(n) + behind: n for n in numbers if n not in held}


def _fill_list(one: NameList, texts: Collection[str], held: Collection[int]) -> dict[str, int]:
    """The names of numbers that no text stands for, spelt as most texts are."""
    spell = _choose_spelling(texts)
    place = _choose_length(one, texts)
    return {
        spell(names[min(place, len(names) - 1)], place > 0): number
        for number, names in enumerate(one.names, 1)
        if number not in held
    }


def _choose_length(one: NameList, texts: Collection[str]) -> int:
    """The place of most texts among the names of their number: 0 for full names."""
    places = Counter[int]()
    # Beside abbreviations with a point, names that are short by nature stand without one.
    for text in [text for text in texts if text.strip().endswith(".")] or texts:
        key = normalize_name(text)
        own = [normalize_name(name) for name in one.names[one.numbers[key] - 1]]
        # A month whose name is short has no abbreviation, so that it says nothing.
        if len(own) > 1:
            places[own.index(key)] += 1
    return places.most_common(1)[0][0] if places else 0


def _choose_spelling(texts: Collection[str]) -> Callable[[str, bool], str]:
    """How a name is spelt as most texts are: its case, and a point behind what is cut short."""
    stripped = [text.strip() for text in texts]
    case = _choose_case(stripped)
    pointed = any(text.endswith(".") for text in stripped)

    def spell(name: str, short: bool) -> str:
        return case(name) + ("." if pointed and short else "")

    return spell


def _choose_case(texts: Sequence[str]) -> Callable[[str], str]:
    """Capitals, small letters, or a capital in front."""
    if all(text == text.upper() for text in texts):
        return str.upper
    if all(text == text.lower() for text in texts):
        return str.lower
    return lambda name: name[:1].upper() + name[1:]
