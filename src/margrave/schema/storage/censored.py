"""Texts that stand where a number would: marks of missing values, and results that are censored.

A result is *censored* where it is known only to be below or above what can be measured, as in "<0.5" or
"> 100", or where a word says so, as in "n.d." or "trace". Both lists are public, so that noisy counts of
their texts tell which of them occur. A cell is counted once at most, by its own text alone.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema.storage import forms
from margrave.schema.storage.numbers import AFFIXES
from margrave.schema.storage.text import SPACES, get_group, join_texts

MARKS = (
    *("NA", "N/A", "n/a", "na", "#N/A", "<NA>", "NaN", "nan", "NULL", "Null", "null"),
    *("None", "none", "nil", "Nil", "NIL", "-", "--", "?", ".", "missing"),
)
"""Texts that stand for a missing value in columns of numbers, dates, times and truth values."""

WORDS = """
n.d. n.d nd ND N.D. ND. neg neg. Neg Neg. NEG negative Negative NEGATIVE pos pos. Pos POS positive Positive
trace Trace traces TRACE tr <LOD <LOQ <LLOQ >ULOQ <DL <MDL <RL LOD LOQ BDL bdl BLQ BLOQ BQL ALQ TNTC
n.a. N.A. n.b. k.A. unknown Unknown UNKNOWN unk Unk UNK refused Refused REFUSED DK RF pending Pending TBD
error Error invalid Invalid low Low high High absent Absent ABSENT abs ABS exempt Exempt QNS varies Varies
unbekannt Unbekannt inconnu Inconnu NSP NS/NC desconocido Desconocido sconosciuto Sconosciuto
onbekend Onbekend
"""
PHRASES = (
    *(
        "not detected",
        "Not detected",
        "Not Detected",
        "NOT DETECTED",
        "not detectable",
        "below detection limit",
    ),
    *("< LOD", "< LOQ", "< DL", "not done", "Not done", "not available", "Not available", "not determined"),
    *("too low", "too high", "see comment", "See comment", "see note", "not known", "Not known"),
    *("not recorded", "Not recorded", "not applicable", "Not applicable", "no answer", "No answer"),
    *("don't know", "Don't know", "Don't Know", "DON'T KNOW", "Don’t know", "Don’t Know"),
    *("prefer not to say", "Prefer not to say", "weiß nicht", "Weiß nicht", "keine Angabe", "Keine Angabe"),
    *("k. A.", "ne sait pas", "Ne sait pas", "non renseigné", "Non renseigné", "no sabe", "No sabe"),
)
SIGNS = ("<", ">", "≤", "≥", "<=", ">=")
SIZES = (
    *(*range(100), 125, 365, 999, 9999, 24196),
    *(part * 10**power for power in range(1, 7) for part in range(10, 100)),
)
DECIMALS = (
    *(f"{part / 10**digits:.{digits}f}" for digits in range(1, 5) for part in range(100)),
    *(f"{part / 10**digits:.{digits + 1}f}" for digits in range(4) for part in range(100)),
    *(f"{part}.5" for part in range(10, 100)),
    *("200.5", "2419.6"),
)
NUMBERS = tuple(
    dict.fromkeys(
        (
            *map(str, SIZES),
            *(f"{size:,}".replace(",", mark) for size in SIZES if size > 999 for mark in ",. "),
            *(number.replace(".", mark) for number in DECIMALS for mark in ".,"),
        )
    )
)
"""What may be behind a sign: numbers of two digits that are not 0, and a few more, such as the ends of usual
counts of bacteria, 200.5, 2419.6 and 24196."""
REMARKS = (*WORDS.split(), *PHRASES)
CENSORED = (
    *REMARKS,
    *(f"{sign}{blank}{number}" for sign, blank, number in product(SIGNS, ("", " "), NUMBERS)),
)
"""Texts of censored results, without a unit behind them."""
ABSENT = ""
CENSORED_VOTES = (ABSENT, *CENSORED)
"""The classes of cells without a number: nothing, blanks or a mark first."""
PARTS = rf"^(?P<sign>[<>≤≥]=?)(?P<blank>{SPACES}?)(?P<core>[0-9](?:[0-9., ]*[0-9])?)(?P<behind>[^0-9.,].*)?$"
BEHIND = tuple(dict.fromkeys(behind for before, behind in AFFIXES if not before))


def vote_on_censored(texts: Any) -> NDArray[np.int64]:
    """The class in CENSORED_VOTES of each text that stands for no number, -1 for others: shape [texts].

    A number behind a sign may have a unit.

    Args:
        texts: An Arrow array of text without nulls.
    """
    texts = texts.cast(pa.large_string())
    parts = pc.extract_regex(texts, PARTS)
    blank, behind = (
        pc.replace_substring_regex(get_group(parts, name), f"^{SPACES}", " ") for name in ("blank", "behind")
    )
    compared = join_texts("", get_group(parts, "sign"), blank, get_group(parts, "core"))
    usual = pc.if_else(pc.is_in(behind, value_set=pa.array(BEHIND, behind.type)), compared, texts)
    usual = pc.if_else(pc.is_valid(parts), usual, texts)
    # The words come first, and most columns have no text that begins with a sign.
    known = CENSORED if pc.any(pc.is_valid(parts)).as_py() else REMARKS
    found = pc.fill_null(pc.index_in(usual, value_set=pa.array(known, usual.type)), -1)
    places = np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)
    places = np.where(places >= 0, places + 1, -1)
    marks = pc.is_in(texts, value_set=pa.array(MARKS, texts.type))
    absent = np.asarray(marks.to_numpy(zero_copy_only=False), dtype=np.bool_) | forms.are_blank(texts)
    return np.where(absent, 0, places)
