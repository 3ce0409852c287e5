"""How numbers are written in text: what stands beside the digits, how these are grouped, and what cells vote.

AFFIXES is a public list of currencies, percent signs and units. Left out are words that change with their
number (1 day, 2 days), and single capitals right behind the digits other than those that multiply, since
flats and seats are numbered so as well. A cell votes for one class of NUMBER_VOTES at most, which depends on
that cell alone; counts of these classes choose the format.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.schema.storage.text import SPACES, get_group, join_texts

Places = NDArray[np.int64]
Truths = NDArray[np.bool_]

SIGNS = """
$ € £ ¥ ₹ ₽ ₩ ₪ ₺ ₫ ₴ ₦ ฿ ₱ R$ US$ A$ AU$ C$ CA$ NZ$ HK$ S$ MX$ zł Kč kr kr. Ft lei
Rs Rs. Rp RM Fr. SFr. Euro euro
"""
CODES = """
EUR USD CHF GBP JPY CNY INR AUD CAD NZD SGD HKD SEK NOK DKK ISK PLN CZK HUF RON BGN TRY RUB UAH ILS ZAR BRL
MXN ARS CLP COP PEN KRW IDR MYR THB PHP VND TWD AED SAR EGP KES NGN PKR
"""
"""Signs of currencies, and the codes of ISO 4217 of those that much is paid in."""
BRACKETED = ("$", "€", "£", "¥")
"""Currencies that are written in brackets in place of a minus."""
UNITS = """
kg Kg KG g mg µg μg ug mcg ng pg lb lbs oz t km m cm mm µm μm um nm mi ft yd in
m² m2 km² km2 cm² cm2 mm² mm2 ha sqm sqft ft² ft2 m³ m3 cm³ cm3 ccm l ml mL cl dl dL µl µL hl gal
s sec secs ms µs ns min mins h hr hrs d y yr yrs yo °C °F ° ℃ ℉
mmHg cmH2O hPa kPa MPa Pa bar mbar psi Wh kWh MWh GWh kW MW GW kWp cal kcal kJ MJ hp PS VA kVA
mV kV mA Ah mAh Ω kΩ Hz kHz MHz GHz dB dBm lx lm Nm kN
kB KB MB GB TB KiB MiB GiB TiB kbps Mbps Gbps Mbit/s MB/s
km/h kmh kph mph m/s kn rpm bpm /min fps dpi px pt MP
mol/l mol/L mmol/l mmol/L µmol/l µmol/L umol/L nmol/l nmol/L pmol/L
g/l g/L g/dl g/dL mg/l mg/L mg/dl mg/dL µg/l µg/L ug/L ng/ml ng/mL pg/ml pg/mL
IU IU/l IU/L IU/ml IU/mL U/l U/L mU/L mIU/L mEq/L mOsm/kg mg/kg µg/kg
ml/min mL/min ml/h mL/h mm/h l/min m³/h fL /µl /µL
kg/m² kg/m2 kg/m³ kg/ha t/ha g/km mpg kWh/m² W/m² µg/m³
ppm ppb ‰ bps pcs x ct €/m² €/h €/kg €/kWh ct/kWh $/h
"""
"""Units, which stand behind a number, with a blank between or without."""
SPACED_UNITS = ("A", "B", "C", "F", "J", "K", "L", "N", "V", "W", "sq ft", "sq m", "mm Hg")
"""Units, such as those of one letter, that are taken for such behind a blank alone."""
MULTIPLIERS = tuple(
    (before, f"{blank}{behind}")
    for before, blank, behind in (
        *product(("", *BRACKETED), ("", " "), ("k", "M", "bn", "mn", "Mio", "Mio.", "Mrd", "Mrd.")),
        *product(("", "$", "€", "£"), ("",), ("K",)),
        *product(("$", "€", "£"), ("",), ("m", "B")),
        *product(("",), ("", " "), ("k€", "T€", "M€", "Mio €", "Mio. €", "Mrd €", "Mrd. €")),
    )
)
"""Affixes without which a number means another amount, so that it has to have them."""

CURRENCIES = (
    *((f"{one}{blank}", "") for one, blank in product((SIGNS + CODES).split(), ("", " "))),
    *(("", f"{blank}{one}") for one, blank in product((SIGNS + CODES).split(), ("", " "))),
)
MEASURES = (
    *(("", f"{blank}{unit}") for unit, blank in product(UNITS.split(), ("", " "))),
    *(("", f" {unit}") for unit in SPACED_UNITS),
    *MULTIPLIERS,
)
COMMON = (
    *(("", ""), ("$", ""), ("€", ""), ("£", ""), ("¥", "")),
    *(("EUR ", ""), ("USD ", ""), ("CHF ", "")),
    *(("", "%"), ("", " %"), ("", "€"), ("", " €"), ("", " EUR"), ("", " USD"), ("", " CHF"), ("", "-")),
    *(("(", ")"), ("($", ")"), ("(€", ")"), ("(£", ")")),
)
"""The affixes that are so frequent that a column may have them by less evidence than the others."""
AFFIXES = tuple(
    dict.fromkeys(
        (
            *COMMON,
            *CURRENCIES,
            *((f"({one}{blank}", ")") for one, blank in product(BRACKETED, ("", " "))),
            *MEASURES,
        )
    )
)
"""What stands before and behind a number, nothing first: a currency, a percent sign, a unit, a minus where it
is written last, or brackets in place of one."""

GROUP = "[1-9][0-9]{0,2}"
CORES = {
    "whole": "[0-9]+",
    "point3": rf"{GROUP}\.[0-9]{{3}}",
    "point": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "comma3": rf"{GROUP},[0-9]{{3}}",
    "comma": "[0-9]*,[0-9]+",
    "commas": rf"{GROUP}(?:,[0-9]{{3}}){{2,}}",
    "points": rf"{GROUP}(?:\.[0-9]{{3}}){{2,}}",
    "commas point": rf"{GROUP}(?:,[0-9]{{3}})+\.[0-9]+",
    "points comma": rf"{GROUP}(?:\.[0-9]{{3}})+,[0-9]+",
    "blanks": rf"{GROUP}(?:{SPACES}[0-9]{{3}})+",
    "blanks comma": rf"{GROUP}(?:{SPACES}[0-9]{{3}})+,[0-9]+",
    "apostrophes": f"{GROUP}(?:['\u2019][0-9]{{3}})+",
    "apostrophes point": f"{GROUP}(?:['\u2019][0-9]{{3}})+[.][0-9]+",
}
"""How the digits of a number are grouped: the first pattern that fits. One mark before three digits may part
thousands or decimals."""
PLAIN_CORES = ("whole", "point3", "point")
STYLES: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {
    (".", ""): (("whole",), ("point", "point3")),
    (".", ","): (("whole", "comma3", "commas"), ("point", "point3", "commas point")),
    (",", ""): (("whole",), ("comma", "comma3")),
    (",", "."): (("whole", "point3", "points"), ("comma", "comma3", "points comma")),
    (",", " "): (("whole", "blanks"), ("comma", "comma3", "blanks comma")),
    (".", "'"): (("whole", "apostrophes"), ("point", "point3", "apostrophes point")),
}
"""By decimal and thousands mark the classes of digits that can be whole numbers, and those with decimals. The
first of several styles that fit as many cells is chosen, so "12,345" alone is a number of thousands."""
CERTAIN_DEVIATIONS = 4.0
"""Noise standard deviations from which cells of a class, or of a spelling, occur for certain."""
MAX_SLIP_SHARE = 0.02
"""Share of the rows up to which cells of another kind are taken for slips and become missing."""
MAX_TEXT_SHARE = 0.25
"""Share of the numbers up to which texts are missing in a column that has numbers with decimals for certain,
as results of a laboratory have: as codes these would be cut to their first digits (bench/LOG.md, 2026-11-28).
Where it should end was not measured."""
NUMBER_VOTES = tuple(product(AFFIXES, CORES))
"""The classes of numbers: what stands beside the digits, and how these are grouped."""
SIGNS_BEFORE = sorted({before.strip("( ") for before, _ in AFFIXES} - {""}, key=len, reverse=True)
NUMBER_PARTS = (
    rf"^(?P<open>\(?)[+-]?(?:(?P<before>{'|'.join(map(re.escape, SIGNS_BEFORE))})(?P<gap>{SPACES}?))? ?[+-]?"
    "(?P<core>[0-9.,](?:[0-9.,'\u2019 \u00a0\u202f]*[0-9.])?)"
    rf"(?P<behind>{SPACES}?[^-+(),.0-9\s][^()]*|-)?(?P<close>\)?)$"
)
"""What is behind a number is looked up in AFFIXES, and only begins as one of these does."""
LETTER = "[A-Za-z\u00b5\u03bc]"
SERIAL = f"{LETTER}0[0-9]|^[+-]?0[0-9]+(?:[.,][0-9]*)?{LETTER}"
"""Digits with a needless zero in front that touch letters: a code, such as 0423T, and no number."""


def find_evident(sigma: float, classes: int, deviations: float = CERTAIN_DEVIATIONS) -> float:
    """Noisy rows from which one of several classes occurs for certain.

    For c deviations of noise a single class has a chance of exp(-c^2 / 2) / 2 at most; with the logarithm all
    have it together.
    """
    return sigma * math.sqrt(deviations**2 + 2.0 * math.log(classes))


def vote_on_numbers(texts: Any) -> Places:
    """The class in NUMBER_VOTES of each text that is a number in some format, -1 for others: shape [texts].

    Args:
        texts: An Arrow array of text without nulls.
    """
    parts = pc.extract_regex(texts.cast(pa.large_string()), NUMBER_PARTS)
    sound = _truths(pc.is_valid(parts))
    core = get_group(parts, "core")
    cores = np.full(len(texts), -1, dtype=np.int64)
    for place, pattern in reversed(list(enumerate(CORES.values()))):
        cores[_truths(pc.match_substring_regex(core, f"^(?:{pattern})$"))] = place
    gap = pc.replace_substring_regex(get_group(parts, "gap"), SPACES, " ")
    before = join_texts("", get_group(parts, "before"), gap)
    behind = pc.replace_substring_regex(get_group(parts, "behind"), f"^{SPACES}", " ")
    open_, close = get_group(parts, "open"), get_group(parts, "close")
    bare = _affix_places(before, behind)
    bracketed = _affix_places(join_texts("", open_, before), join_texts("", behind, close))
    # Brackets beside a sign of which there is no class with brackets say nothing more than the sign.
    affixes = np.where(bracketed >= 0, bracketed, bare)
    sound &= (cores >= 0) & (affixes >= 0) & _truths(pc.equal(pc.equal(open_, "("), pc.equal(close, ")")))
    # Digits alone with a hyphen behind are codes as often as numbers, and a number has one sign.
    last = affixes == AFFIXES.index(("", "-"))
    leading = _truths(pc.match_substring_regex(texts, r"^\(?[+-]"))
    signs = np.stack([leading, last, _truths(pc.equal(open_, "("))]).sum(axis=0)
    sound &= (~last | (cores > 0)) & (signs <= 1)
    sound &= ~_truths(pc.match_substring_regex(texts, SERIAL))
    return np.where(sound, affixes * len(CORES) + cores, -1)


def _affix_places(before: Any, behind: Any) -> Places:
    """The place in AFFIXES of what stands beside each number, -1 for anything else: shape [numbers]."""
    known = pa.array([f"{one}|{other}" for one, other in AFFIXES], pa.large_string())
    found = pc.fill_null(pc.index_in(join_texts("|", before, behind), value_set=known), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.int64)


def are_written_numbers(texts: Any) -> Truths:
    """Which texts, none of them a plain number, are numbers in some format: shape [texts]."""
    places = vote_on_numbers(texts)
    plain = np.array([not any(affix) and core in PLAIN_CORES for affix, core in NUMBER_VOTES])
    return np.asarray((places >= 0) & ~plain[places])


def choose_number_format(
    votes: NDArray[np.float64], sigma: float, numbers: bool = False, whole: bool = False
) -> tuple[str, bool] | None:
    """The format that most numbers fit, "" for plain ones, and whether they have decimals; else None.

    None means that blanks between digits are all that makes them numbers, as in codes such as "123 456"; or
    that too many have another unit, or none behind which they mean the same. This is post-processing of
    released counts.

    Args:
        votes: Noisy counts of NUMBER_VOTES, shape [votes].
        sigma: Standard deviation of their noise; 0 for exact counts.
        numbers: Whether the column is declared to be of numbers, so that blanks part thousands.
        whole: Whether it is declared to be of whole numbers, so that any mark that may does.
    """
    counts = votes.reshape(len(AFFIXES), len(CORES))
    # Noise alone gives one column in so many a percent sign, half as often a common affix as another one.
    common, least = (find_evident(sigma, 2 * len(known) * len(CORES)) for known in (COMMON, AFFIXES))
    table = np.where(counts > common, counts, 0.0)
    table[len(COMMON) :] = np.where(counts > least, counts, 0.0)[len(COMMON) :]
    before, behind = _choose_affix(table.sum(axis=1))
    # Once it is known what stands beside the numbers, few classes are left for noise to be in.
    sign = _sign_of((before, behind))
    own = [place for place, affix in enumerate(AFFIXES) if _sign_of(affix) in (sign, ("", ""))]
    table[own] = np.where(counts[own] > find_evident(sigma, len(own) * len(CORES)), counts[own], 0.0)
    affixes = table.sum(axis=1)
    before, behind = _choose_affix(affixes)
    cores = dict(zip(CORES, table.sum(axis=0).tolist(), strict=True))
    if (
        not numbers
        and not (before or behind)
        and cores["blanks"]
        and not (cores["blanks comma"] or cores["comma"])
    ):
        return None
    scores = [
        sum(cores[core] for core in (*thousands, *part)) + whole * sum(cores[core] for core in thousands)
        for thousands, part in STYLES.values()
    ]
    decimal, thousands = list(STYLES)[int(np.argmax(scores))]
    has_decimals = any(cores[core] for core in STYLES[decimal, thousands][1])
    if not numbers and _has_mixed_units(affixes, (before, behind), has_decimals):
        return None
    if (decimal, thousands, before, behind) == (".", "", "", ""):
        return "", has_decimals
    return f"{before}1{thousands}234{decimal}5{behind}", has_decimals


def _choose_affix(counts: NDArray[np.float64]) -> tuple[str, str]:
    """The commonest sign beside the numbers, in brackets if any are so, with a blank between if most are so;
    none only where no sign is evident, since cells may lack it.

    Args:
        counts: Of the classes in AFFIXES, 0 where none is evident.
    """
    if not counts[1:].any():
        return AFFIXES[0]
    signs: Counter[tuple[str, str]] = Counter()
    for affix, count in zip(AFFIXES[1:], counts[1:].tolist(), strict=True):
        signs[_sign_of(affix)] += count
    # Brackets alone are no sign where there is another.
    best = max(signs, key=lambda sign: (signs[sign] > 0, any(sign), signs[sign]))
    alike = [place for place, affix in enumerate(AFFIXES) if place and _sign_of(affix) == best]
    # Numbers above 0 have no brackets, and may be most.
    wrapped = [place for place in alike if AFFIXES[place][0][:1] == "(" and counts[place]]
    return AFFIXES[max(wrapped or alike, key=lambda place: counts[place])]


def _sign_of(affix: tuple[str, str]) -> tuple[str, str]:
    """What an affix says, however blanks and brackets part it from the number."""
    return affix[0].strip("( "), affix[1].strip(") ")


def _has_mixed_units(counts: NDArray[np.float64], chosen: tuple[str, str], decimals: bool) -> bool:
    """Whether more numbers have another unit than the chosen one than there may be texts among numbers.

    Args:
        counts: Of the classes in AFFIXES, 0 where none is evident.
        chosen: One of these.
        decimals: Whether the numbers have some.
    """
    sign, held = _sign_of(chosen), dict(zip(AFFIXES, counts.tolist(), strict=True))
    own = sum(count for affix, count in held.items() if _sign_of(affix) in (sign, ("", "")))
    other = sum(held[affix] for affix in MEASURES if _sign_of(affix) != sign)
    if chosen in MULTIPLIERS:
        own, other = own - held[AFFIXES[0]], other + held[AFFIXES[0]]
    return bool(other > (MAX_TEXT_SHARE if decimals else MAX_SLIP_SHARE) * own)


def _truths(array: Any) -> Truths:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.bool_)
