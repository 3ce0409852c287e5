"""propose_declarations: what a user may want to declare, from names and storage types of columns alone.

Both are public, so a proposal tells nothing about the rows, and it may be wrong. What is declared has
to be public knowledge; it then costs nothing, where discovery would have to pay for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from margrave.schema.columns import Column, Integer, Real, Temporal, Unknown

__all__ = ["propose_declarations"]

KEYS = {"id", "key", "uuid", "guid", "nr", "no", "num", "number", "visit", "record"}
POSTCODES = {"zip", "zipcode", "postcode", "postal", "plz", "postleitzahl"}
LISTS = {
    "icd",
    "icd9",
    "icd10",
    "diagnosis",
    "naics",
    "sic",
    "nace",
    "isco",
    "soc",
    "atc",
    "cpt",
    "drg",
    "country",
}
TEXTS = {
    "note",
    "notes",
    "comment",
    "comments",
    "description",
    "remark",
    "remarks",
    "text",
    "message",
    "address",
}
NAMES = {"name", "firstname", "lastname", "surname", "email", "mail", "phone", "mobile", "telephone"}
BOUNDS = {
    "age": "0 and 120",
    "month": "1 and 12",
    "weekday": "1 and 7",
    "hour": "0 and 23",
    "percent": "0 and 100",
    "percentage": "0 and 100",
    "pct": "0 and 100",
    "latitude": "-90 and 90",
    "longitude": "-180 and 180",
}
ORDERS = (
    (
        {"born", "birth", "birthday", "birthdate", "dob"},
        {"died", "death", "admitted", "hired", "opened", "diagnosed"},
    ),
    ({"admitted", "admission"}, {"discharged", "discharge"}),
    ({"start", "started", "begin", "from"}, {"end", "ended", "finish", "finished", "to", "until"}),
    ({"opened", "open"}, {"closed", "close"}),
    ({"arrival", "arrived"}, {"departure", "departed"}),
    ({"ordered", "order"}, {"shipped", "delivered", "paid"}),
    ({"created", "issued"}, {"updated", "modified", "expires", "expired"}),
    ({"min", "minimum", "least", "low"}, {"max", "maximum", "most", "high"}),
)
"""Words of columns of which the first is usually not above the second."""
FLAGS = {"is", "has", "was"}
WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def propose_declarations(columns: Sequence[Column]) -> list[str]:
    """Sentences that propose declarations, one a column or pair of columns at most.

    Args:
        columns: As the storage has them.

    Example:
        >>> propose_declarations([Unknown(name="visit_note")])
        ["'visit_note' may be free text: declare it as omitted, and it costs nothing"]
    """
    words = {column.name: _words(column.name) for column in columns}
    found = [line for column in columns if (line := _proposal(column, words[column.name]))]
    return found + _orders(columns, words)


def _words(name: str) -> tuple[str, ...]:
    """The words that a name is made of, in lower case: "birthDate" and "birth_date" have two."""
    return tuple(word.lower() for word in WORDS.findall(name))


def _proposal(column: Column, words: tuple[str, ...]) -> str:
    said = set(words)
    open_text = isinstance(column, Unknown)
    number = isinstance(column, Integer | Real) or (isinstance(column, Unknown) and not column.textual)
    if open_text and said & NAMES:
        return f"{column.name!r} may tell persons apart: declare it as identifier or omitted, at no cost"
    if open_text and said & TEXTS:
        return f"{column.name!r} may be free text: declare it as omitted, and it costs nothing"
    if words and words[-1] in KEYS and not isinstance(column, Real | Temporal):
        return (
            f"{column.name!r} may be a key: declare it as identifier if no two rows share a value; "
            "if it says whose row it is, name it with --owner"
        )
    if said & POSTCODES or (open_text and said & LISTS):
        return (
            f"{column.name!r} may hold codes of a published list: declare it as categorical with its values"
        )
    bounds = next((ends for word, ends in BOUNDS.items() if word in said), None)
    if number and bounds is not None:
        return f"{column.name!r} may have public bounds: declare lower and upper, such as {bounds}"
    if open_text and words and words[0] in FLAGS:
        return f"{column.name!r} may hold truth values: declare it as boolean"
    return ""


def _orders(columns: Sequence[Column], words: dict[str, tuple[str, ...]]) -> list[str]:
    """Pairs of dates or numbers whose names say that one is never above the other."""
    names = [column.name for column in columns if isinstance(column, Temporal | Integer | Real | Unknown)]
    found = []
    for low in names:
        for high in names:
            for before, after in ORDERS:
                below, above = set(words[low]), set(words[high])
                if below & before and above & after and below - before == above - after:
                    found.append(
                        f"{low!r} may never be after {high!r}: if that is so for every row, declare the rule "
                        f'{{"kind": "ordered", "low": "{low}", "high": "{high}"}}'
                    )
    return found
