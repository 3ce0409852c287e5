"""Nasty tables for the contract of additivity, and what each of their rows counts for by itself."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from margrave.engines.memory import open_source
from margrave.schema.columns import Boolean, Categorical, Column, Date, Integer, Moment, Ordinal, Real
from margrave.schema.schema import Schema

__all__ = ["KINDS", "POOLS", "Nasty", "Reference", "answers", "draw_tables", "schemas"]

FAMILIES = [
    ["Bern", "BERN", "bern", "bErN", "Bern ", "bern\t"],
    ["café", "cafe", "CAFÉ", "cafe\u0301", "CAFE\u0301", "Cafe"],
    ["straße", "strasse", "STRASSE", "stra\u1e9ee"],
    ["\ufb01n", "fin", "FIN", "f\u200bin", "f\u00adin"],
    ["a", "a ", "a  ", " a", "A", "\uff41", "\uff21", "\u00aa", "a\u0308", "ä"],
    ["", " ", "  ", "\t", "\u00a0", "\u200b", "\u3000"],
    ["1", "\uff11", "\u0661", "01", "1.0", "+1", "1e0", "1 ", " 1", "¹"],
    ["abc", "ABC", "Abc", "\uff41\uff42\uff43", "a-b-c", "a b c"],
    ["x", "x\u0001", "X", "x\u0301", "x\\", "x'", 'x"'],
    ["ß", "ss", "SS", "\u1e9e"],
    ["\u0130", "i", "I", "\u0131", "i\u0307"],
    ["🏰", "🏯", "🏰\ufe0f", "👩\u200d👧", "👩👧"],
    ["\u212b", "\u00c5", "A\u030a", "å"],
    ["\u2126", "\u03a9", "\u03c9", "\u03c3", "\u03c2", "\u03a3"],
    ["æ", "ae", "Æ", "AE"],
    ["\ud55c", "\u1112\u1161\u11ab", "\uff8a", "ハ", "は"],
    ["10", "010", "10.0", "1e1", "1E1", " 10"],
    ["2024-02-29", "2024-02-29 ", "2024-2-29", "\uff12024-02-29"],
    ["08:05", "8:05", "08:05:00", "08:05:00.5"],
    ["2024-02-29T08:05Z", "2024-02-29t08:05z", "2024-02-29 08:05:00+01:00", "2024-02-29 08:05"],
    ["NaN", "nan", "NAN", "inf", "INF", "1e999", "1E999", "-0", "0"],
    ["true", "TRUE", "True", "NULL", "null", "\\N"],
    ["\ufffd", "\ufffe", "\U0010ffff", "\u0345", "\u0301"],
]
"""Texts that some collation holds for equal, or that are read alike."""

NUL = ["a\u0000", "a", "\u0000", "", "a\u0000b"]
"""One more family for the engines that can store it."""

LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999_999)
DAYS = [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), dt.date(1969, 12, 31)]
MOMENTS = [
    *(dt.datetime(1, 1, 1), LAST, dt.datetime(1970, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)),
    *(dt.datetime(2024, 3, 31, 2, 30), dt.datetime(2024, 11, 3, 1, 30), dt.datetime(1582, 10, 10, 0, 0, 1)),
]
MONEY = ["0", "1", "-1", "0.001", "-0.001", "0.1", "0.3", "99999999999999.999", "99999999999999.998", "1000"]
REALS = [
    *(0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, -5e-324, 2.3e-308, 1e308, 0.1, 0.3),
    *(0.1 + 0.2, 1 / 3, 2.0**53, 2.0**53 + 2, 2.0**52, 2.0**52 + 1, 2.0**62, 1e15 + 0.5, 0.07, 123456.78),
    *(1.0, -1.0, -0.5, 1.7976931348623157e308, 16_777_217.0),
]
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "real": (pa.float64(), REALS),
    "int": (pa.int64(), [0, 1, -1, 5, -5, 999, 1000, 2**63 - 1, -(2**63), 2**53, 2**53 + 1, -(2**53) - 1]),
    "money": (pa.decimal128(20, 3), [Decimal(text) for text in MONEY]),
    "day": (pa.date32(), [*DAYS, dt.date(2024, 2, 29), dt.date(1582, 10, 4), dt.date(1582, 10, 15)]),
    "moment": (pa.timestamp("us"), MOMENTS),
    "zoned": (pa.timestamp("us", "UTC"), [m.replace(tzinfo=dt.UTC) for m in MOMENTS[1:]]),
    "bool": (pa.bool_(), [True, False]),
}
"""Storage types of the column beside the text, and the values that are drawn for it, missing ones apart."""
POOLS = {**{kind: [None, *values] for kind, (_, values) in KINDS.items()}}
POOLS["text"] = [None, *dict.fromkeys(text for family in [*FAMILIES, NUL] for text in family)]
TYPES = {"text": pa.string(), **{kind: arrow for kind, (arrow, _) in KINDS.items()}}

ALONE = (-7.5, 0.0, 0.1, 1.0, 7.0, 100.0)
STATES_A_CODE = np.unique([*ALONE, *np.nextafter(ALONE, np.inf)])
"""Cells of single numbers, as discovery asks for states, and of what is between them."""
STEPS = (86_400_000_000.0, 1000.0, 5.0, 1.0, 0.25, 0.01)
EDGES = np.array([-1e18, -5.0, -0.5, 0.0, 1.0, 1e6, 1e15])
BEGINNINGS = ("1", "10", "20", "ca", "CA", "a", "A", "\u00df", "s", "x", "Be", "0")
ENDINGS = ("",) * len(BEGINNINGS)
"""Beginnings of texts with codes of their own, some of which collations hold for equal."""
PATTERNS = ("[0-9]{2}", "[A-Z]", "b[a-z]", "[0-9]")
"""Patterns of texts with codes of their own."""


@dataclasses.dataclass(frozen=True)
class Nasty:
    """A small table: a column t of text and a column x of one of KINDS, as Python values."""

    kind: str
    texts: list[Any]
    others: list[Any]

    def arrow(self) -> pa.Table:
        """The table, with the storage types of TYPES."""
        return pa.table(
            {"t": pa.array(self.texts, TYPES["text"]), "x": pa.array(self.others, TYPES[self.kind])}
        )


def draw_tables(number: int, *, nul: bool, seed: int = 11) -> list[Nasty]:
    """Tables in pairs, of which the second has one row more; some are empty, some all missing.

    nul: Whether texts may hold the character U+0000.
    """
    rng = np.random.default_rng(seed)
    found: list[Nasty] = []
    families = [*FAMILIES, NUL] if nul else FAMILIES
    for place in range(number // 2):
        kind = list(KINDS)[place % len(KINDS)]
        mixed = [families[k] for k in rng.integers(0, len(families), rng.integers(1, 4))]
        texts = [None, *(text for family in mixed for text in family)]
        others = POOLS[kind] if place % 17 else [None]
        rows = int(rng.integers(0, 15)) if place % 13 else 0
        drawn = [texts[k] for k in rng.integers(0, len(texts), rows + 1)]
        beside = [others[k] for k in rng.integers(0, len(others), rows + 1)]
        found += [Nasty(kind, drawn[:-1], beside[:-1]), Nasty(kind, drawn, beside)]
    return found


def schemas(kind: str, variant: int) -> Schema:
    """One of four ways to declare a table's columns: by comparison, look-up, or reading of fetched values."""
    few = tuple(text for text in POOLS["text"][1:40:2])
    many = tuple(text for text in POOLS["text"][1:] if "\u0000" not in text)[:90]
    loose: dict[str, Any] = {"strict": False}
    text: Column = [
        Categorical(name="t", values=few, other="(rest)", missing=True, **loose),
        Categorical(
            name="t",
            values=many[::3],
            other="(rest)",
            missing=True,
            prefixes=BEGINNINGS,
            endings=ENDINGS,
            patterns=PATTERNS,
            **loose,
        ),
        Integer(name="t", lower=0, upper=9, bins=10, missing=True, **loose),
        Categorical(name="t", values=many[::-1], missing=False, **loose),
    ][variant]
    return Schema((text, _beside(kind, variant)))


def _beside(kind: str, variant: int) -> Column:
    more: dict[str, Any] = {"name": "x", "missing": variant % 2 == 0, "strict": False}
    if kind == "bool":
        return Boolean(name="x", missing=True)
    if kind == "day":
        return Date(lower="1900-01-01", upper="2030-12-31", bins=9, **more)
    if kind in ("moment", "zoned"):
        return Moment(lower="1960-01-01", upper="2030-12-31", bins=8, **more)
    if variant % 2:
        return Ordinal(values=(0, 1, -1, 0.3, 1000, 2**53), other="(rest)", **more)
    if kind == "int":
        return Integer(lower=-10, upper=2**40, bins=9, **more)
    return Real(edges=(-5.0, -0.5, 0.0, 0.1, 0.3, 1.0, 1e6, 1e300), **more)


def answers(source: Any, column: str, kind: str) -> dict[str, Any]:
    """What a source says about a column: an array for each question, and a Counter of its values."""
    found: dict[str, Any] = {"kinds": source.kinds(column).reveal()}
    found["values"] = Counter()
    for part, rows in source.value_parts(column):
        assert not found["values"].keys() & {*part}
        found["values"].update(dict(zip((*part, None), rows.reveal().tolist(), strict=True)))
    reads = ("number", "date", "moment", "time") if kind == "text" else ("number",)
    for read in reads:
        found[f"histogram {read}"] = source.histogram(column, EDGES, read, absent=True).reveal()
        found[f"atoms {read}"] = source.histogram(column, STATES_A_CODE, read, absent=True).reveal()
        found[f"grids {read}"] = source.grids(column, STEPS, read).reveal()
        found[f"cycle {read}"] = source.places_in_cycle(column, read, 2, 7).reveal()
    if kind == "text":
        found["spellings"] = source.spellings(column, "moment").reveal()
        found["times"] = source.spellings(column, "time").reveal()
        found["decimals"] = source.spellings(column, "number").reveal()
        found["marks"] = source.spellings(column, "mark").reveal()
        found["censored"] = source.spellings(column, "censored").reveal()
    return found


@dataclasses.dataclass
class Reference:
    """What each value counts for when its row is the only one of a table in memory.

    Args:
        open_row: Opens a table of one row, in memory; for text files it is written and read first.
    """

    open_row: Callable[[pa.Table], Any] = lambda table: open_source(table)[0]

    def __post_init__(self) -> None:
        self._answers: dict[tuple[str, str], dict[str, Any]] = {}
        self._codes: dict[tuple[str, str, int, str], int] = {}

    def _row(self, kind: str, value: Any) -> Any:
        other = kind if kind != "text" else "int"
        row = Nasty(other, [value if kind == "text" else "-"], [value if kind != "text" else 7])
        return self.open_row(row.arrow())

    def expected(self, kind: str, values: list[Any], loose: bool = False) -> dict[str, Any]:
        """The sum over a column's values of what each counts for."""
        column = "t" if kind == "text" else "x"
        total: dict[str, Any] = {}
        for value in values:
            key = (kind, repr(value))
            if key not in self._answers:
                self._answers[key] = answers(self._row(kind, value), column, "text" if loose else kind)
            for name, found in self._answers[key].items():
                total[name] = total[name] + found if name in total else found
        return total

    def codes(self, table: Nasty, variant: int) -> dict[str, list[int]]:
        """The code of each row's cells under `schemas`."""
        schema = schemas(table.kind, variant)
        found = {}
        for name, kind, values in (("t", "text", table.texts), ("x", table.kind, table.others)):
            column = Schema((schema[name],))
            for value in values:
                key = (kind, table.kind, variant, repr(value))
                if key not in self._codes:
                    engine = self._row(kind, value).only([name]).bind(column)
                    self._codes[key] = int(engine.encoded.columns[0][0])
            found[name] = [self._codes[kind, table.kind, variant, repr(value)] for value in values]
        return found
