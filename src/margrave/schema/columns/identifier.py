"""Free identifiers: unique keys that carry no information of their own.

A shape is the pattern of signs that a code is written in, such as V[0-9]{7}; new keys are texts of it. It
is a regular expression of a small kind: signs that stand for themselves (those with a meaning
behind a backslash) and the classes of `CLASSES`, each perhaps with a number of repeats, as in [A-Z]{2}. All
texts of a shape have the same length.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, product, takewhile
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid
from margrave.schema.columns.base import CodelessColumn, split_words

if TYPE_CHECKING:
    from margrave.schema.columns.listed import Categorical

CLASSES = {
    "[0-9]": "0123456789",
    "[1-9]": "123456789",
    "[A-Z]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[a-z]": "abcdefghijklmnopqrstuvwxyz",
    "[0-9a-f]": "0123456789abcdef",
    "[0-9A-F]": "0123456789ABCDEF",
    "[0-9A-Z]": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[0-9a-z]": "0123456789abcdefghijklmnopqrstuvwxyz",
    "[0-9A-Za-z]": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    **{f"[0-{last}]": "0123456789"[: last + 1] for last in range(1, 9)},
}
"""The classes of signs that a shape may have, and the signs of each."""
MAX_CODE_LETTERS = 48
"""Letters up to which a text is taken for a code."""
LONGEST_HEAD = 8
"""Letters in front of the first digit up to which they are part of the shape as they stand."""
MOST_TRIES = 30
"""Draws of keys in turn, none of them new, from which longer ones are drawn. At most half of the texts of a
shape are keys, so that this happens by chance once in a billion times."""
MOST_NAMED = 4
"""Shapes that are named where a column of keys is described; of more it is said how many."""
LEAST_HEX = 8
"""Hexadecimal digits from which a text is taken for a hash or key and not for a word. Not measured."""
MAX_CODE_DIGITS, LEAST_NUMBER = 4, 3
"""Digits up to which a first run of them is a code, as a year is, where a number stands behind it; and digits
from which one behind it is such a number. Not measured."""
MEANING = set("\\[]{}.^$*+?()|")
PARTS = re.compile(r"(\[[^\]]*\])(?:\{([0-9]{1,2})\})?|\\(.)|([^\\\[\]{}.^$*+?()|])", re.DOTALL)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
UUID_SHAPE = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
MIXED_CLASS = re.compile(r"\[0-9[aA]-[fFzZ](?:a-z)?\]")
"""Classes of digits and letters together, of hashes and of keys in which any sign may be at any place."""
HEX = {"[0-9a-f]": re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]+"), "[0-9A-F]": None}
HEX["[0-9A-F]"] = re.compile(r"(?=.*[0-9])(?=.*[A-F])[0-9A-F]+")
NUMBERED = re.compile(r"[A-Fa-f]{1,3}[0-9]+")
"""A few letters and a number behind them, F24000317, are a code even where all letters are hexadecimal
digits: of random ones, 8 long, 1 in 36 is so."""
WORDS = re.compile(r"[a-z]|[A-Z]{4}")
"""What texts with blanks have that are no codes; AB 12 34 56 C, B-MW 4821 and SW1 2AB have none of it. Not
measured."""
RUNS = re.compile(r"[0-9]+|[A-Z]+|[a-z]+|.", re.DOTALL)

CODE_WORDS = frozenset(
    (
        *("id", "zip", "zipcode", "postcode", "plz", "postleitzahl", "codepostal", "postnr", "postnummer"),
        *("fips", "geoid", "insee", "naics", "sic", "nace", "isco", "icd", "cpt", "hcpcs", "ndc", "npi"),
        *("siren", "siret", "ean", "gtin", "isbn"),
    )
)
"""Last words of the names of columns whose whole numbers are codes: neither order nor size says anything."""
CODE_NAMES = frozenset(
    (
        *(("postal", "code"), ("zip", "code"), ("post", "code"), ("code", "postal")),
        *(("codigo", "postal"), ("digo", "postal"), ("codice", "postale"), ("kod", "pocztowy")),
    )
)
"""Last two words of such names; letters with accents part words."""

Signs = tuple[str, ...]
"""What each place of a text may hold: one sign, or all those of a class."""


def is_code_name(name: str) -> bool:
    """Whether a column's name, which is public, says that its whole numbers are codes, as "LocID" does.

    Digits behind it may name a version or a level: "zip5", "isco_08".
    """
    words = split_words(name)
    words = words[:-1] if len(words) > 1 and words[-1].isdigit() else words
    return bool(words) and (words[-1] in CODE_WORDS or words[-2:] in CODE_NAMES)


def shape_of(text: str) -> str:
    """The shape of a text that looks like a code; "" for any other text.

    A code has a digit, only printable ASCII signs, at most MAX_CODE_LETTERS of them, and no blank beside
    small letters or four capitals in a row. What stands in front of its first digit is kept as it is, up to
    LONGEST_HEAD letters; whether a zero leads the first run of digits is kept, too. The shape of a text
    depends on that text alone.

    Example:
        >>> shape_of("V0000123"), shape_of("E11.9"), shape_of("a note")
        ('V0[0-9]{6}', 'E[1-9][0-9]\\\\.[0-9]', '')
    """
    if len(text) > MAX_CODE_LETTERS or not (text.isascii() and text.isprintable()):
        return ""
    first = next((place for place, sign in enumerate(text) if sign.isdigit()), None)
    if first is None or (" " in text and WORDS.search(text)):
        return ""
    if UUID.fullmatch(text):
        return UUID_SHAPE
    for name, pattern in HEX.items():
        if (
            len(text) >= LEAST_HEX
            and not NUMBERED.fullmatch(text)
            and pattern is not None
            and pattern.fullmatch(text)
        ):
            return f"{name}{{{len(text)}}}"
    kept = first if first <= LONGEST_HEAD else 0
    head = "".join(_literal(sign) for sign in text[:kept])
    number = RUNS.match(text, first)
    lead = "" if number is None or number.end() - first == 1 else "0" if text[first] == "0" else "[1-9]"
    runs = [_run_shape(run) for run in RUNS.findall(text[first + bool(lead) :])]
    return head + "".join(_run_shape(run) for run in RUNS.findall(text[kept:first])) + lead + "".join(runs)


def keep_letters(text: str) -> str:
    """The shape of a code that keeps all of its letters and marks, and of each run of digits whether a zero
    leads it; that of `shape_of` for hashes, "" for texts that are no codes.

    Of a number behind a code (`code_places`) no zero is told: the code would be torn by it.

    Example:
        >>> keep_letters("u0123@example.com"), keep_letters("120/80"), keep_letters("S-08-0123")
        ('u0[0-9]{3}@example\\\\.com', '[1-9][0-9]{2}/[1-9][0-9]', 'S-0[0-9]-[0-9]{4}')
    """
    shape = shape_of(text)
    if not shape or MIXED_CLASS.search(shape):
        return shape
    parts: list[str] = []
    coded, last = bool(code_places(widen_shape(shape))), False
    for run in RUNS.findall(text):
        digits = run[0] in CLASSES["[0-9]"]
        lead = [] if len(run) == 1 or not digits or last else ["0" if run[0] == "0" else "[1-9]"]
        last |= coded and digits
        rest = run[len(lead) :]
        parts += lead + (["[0-9]"] * len(rest) if digits else [_literal(sign) for sign in rest])
    return _compact(parts)


def mix_signs(text: str) -> str:
    """The shape of a code by its marks and the number of letters or digits between them, whichever these are.

    "" for texts that are no codes (`shape_of`). Of letters the class has those sizes that the text has.

    Example:
        >>> mix_signs("1HGCM82633A004352"), mix_signs("K7Q-2XA"), mix_signs("a note")
        ('[0-9A-Z]{17}', '[0-9A-Z]{3}-[0-9A-Z]{3}', '')
    """
    if not shape_of(text):
        return ""
    sizes = [name for name in ("[A-Z]", "[a-z]") if set(text) & set(CLASSES[name])]
    sign = "[0-9" + "".join(name[1:-1] for name in sizes) + "]"
    return _compact([sign if one.isalnum() else _literal(one) for one in text])


def _literal(sign: str) -> str:
    return f"\\{sign}" if sign in MEANING else sign


def _run_shape(run: str) -> str:
    for name in ("[0-9]", "[A-Z]", "[a-z]"):
        if run[0] in CLASSES[name]:
            return _repeat_sign(name, len(run))
    return "".join(_literal(sign) for sign in run)


def _repeat_sign(name: str, times: int) -> str:
    return name if times == 1 else f"{name}{{{times}}}"


def find_rest_shape(shapes: Mapping[str, float], column: Categorical, counts: NDArray[np.float64]) -> str:
    """The shape that texts with none of the released beginnings are drawn of, "" where codes have letters.

    It is that of most texts which the beginnings leave, where all shapes are digits alone. Digits behind a
    beginning are drawn, so nothing is gained by leaving out those behind the others: a column of numbers
    would hold text in these rows, or nothing.

    Args:
        shapes: Released shapes and their rows.
        column: With released beginnings.
        counts: The rows of its values and beginnings, in the order of their codes: shape [codes].
    """
    digits = all(signs == CLASSES["[0-9]"] for shape in shapes for signs in shape_parts(shape))
    if not digits or not column.prefixes:
        return ""
    left = {len(shape_parts(shape)): rows for shape, rows in shapes.items()}
    held = counts[len(column.values or ()) :].tolist()
    for prefix, ending, rows in zip(column.prefixes, column.endings, held, strict=False):
        length = len(prefix) + len(shape_parts(ending))
        left[length] = left.get(length, 0.0) - rows
    length = max(left, key=lambda length: left[length])
    # A number begins with 0 only where a beginning says so.
    return "[0-9]" if length == 1 else "[1-9]" + _repeat_sign("[0-9]", length - 1)


@lru_cache(maxsize=4096)
def shape_parts(shape: str) -> Signs:
    """What each place of a text of the shape may hold.

    Raises:
        SchemaError: It is no shape.
    """
    found: list[str] = []
    end = 0
    for match in PARTS.finditer(shape):
        name, times, escaped, plain = match.groups()
        if match.start() != end or (name is not None and name not in CLASSES):
            break
        end = match.end()
        found += [CLASSES[name]] * int(times or 1) if name is not None else [escaped or plain]
    if end != len(shape) or not found:
        remedy = (
            r"Write it as in 'V[0-9]{7}' or '[A-Z]{2}-[0-9]{4}', and a point or another sign with a meaning "
            r"of its own as in '[0-9]{2}\.[0-9]{2}'."
        )
        raise SchemaError(invalid("shape", f"made of signs and the classes {list(CLASSES)}", remedy))
    return tuple(found)


def shape_space(shape: str) -> int:
    """How many texts there are of the shape."""
    total = 1
    for signs in shape_parts(shape):
        total *= len(signs)
    return total


def match_shapes(texts: Sequence[str], shapes: Sequence[str]) -> NDArray[np.int64]:
    """The place of the first shape that each text is of, -1 where it is of none: shape [texts].

    Args:
        texts: All of one length.
        shapes: As `shape_parts` reads them; those of another length fit no text.

    Example:
        >>> match_shapes(["120/80", "98/60x"], ["1[0-9]{2}/[0-9]{2}"]).tolist()
        [0, -1]
    """
    found = np.full(len(texts), -1, dtype=np.int64)
    length = len(texts[0]) if texts else 0
    if not length:
        return found
    # Each text as its code points.
    signs = np.array(texts, dtype=f"U{length}").view(np.uint32).reshape(len(texts), length)
    for place, shape in enumerate(shapes):
        parts, rows = shape_parts(shape), np.flatnonzero(found < 0)
        if len(parts) != length:
            continue
        for at, allowed in enumerate(parts):
            rows = rows[np.isin(signs[rows, at], [ord(sign) for sign in allowed])]
        found[rows] = place
    return found


def cut_shape(shape: str, start: int) -> str:
    """The shape of what stands behind the first `start` letters; "" where nothing does."""
    names = {signs: name for name, signs in CLASSES.items()}
    return _compact([names.get(signs) or _literal(signs) for signs in shape_parts(shape)[start:]])


def digit_runs(shape: str) -> list[tuple[int, ...]]:
    """The runs of places that may hold one digit or another, in order.

    Hexadecimal keys have none: their signs are drawn evenly by those who make them.

    Example:
        >>> digit_runs(r"\\+[1-9][0-9] [0-9]{3}"), digit_runs("V0[0-9]")
        ([(1, 2), (4, 5, 6)], [(2,)])
    """
    if MIXED_CLASS.search(shape):
        return []
    digits = [signs in (CLASSES["[0-9]"], CLASSES["[1-9]"]) for signs in shape_parts(shape)]
    runs = groupby(range(len(digits)), lambda place: digits[place])
    return [tuple(places) for drawn, places in runs if drawn]


def code_places(shape: str) -> tuple[int, ...]:
    """The digits of a shape's code, which stands in front of a number; none where there is no such code.

    A code is a first run of at most MAX_CODE_DIGITS digits with one of at least LEAST_NUMBER behind it.

    Example:
        >>> code_places("S-[0-9]{2}-[0-9]{4}"), code_places("1[0-9]{2}/[0-9]{2}"), code_places("V[0-9]{7}")
        ((2, 3), (), ())
    """
    runs = digit_runs(widen_shape(shape))
    if not runs or len(runs[0]) > MAX_CODE_DIGITS or max(map(len, runs[1:]), default=0) < LEAST_NUMBER:
        return ()
    drawn = {place for run in digit_runs(shape) for place in run}
    return tuple(place for place in runs[0] if place in drawn)


def has_letters(shape: str) -> bool:
    """Whether letters are drawn for texts of a shape, and no hexadecimal digits."""
    return any(len(signs) > 1 and signs.isalpha() for signs in shape_parts(shape))


def fix_signs(shape: str, places: Sequence[int], signs: Sequence[str]) -> str:
    """The shape with signs, or classes, in place of what it has at some places, as many as there are signs.

    Example:
        >>> fix_signs(r"\\+[1-9][0-9] [0-9]{7}", (1, 2), "49")
        '\\\\+49 [0-9]{7}'
    """
    names = {signs: name for name, signs in CLASSES.items()}
    parts = [names.get(one) or _literal(one) for one in shape_parts(shape)]
    for place, sign in zip(places, signs, strict=False):
        parts[place] = sign if sign in CLASSES else _literal(sign)
    return _compact(parts)


@lru_cache(maxsize=4096)
def read_beginning(shape: str) -> str:
    """What all texts of a shape begin with, up to its last sign that is no digit; "" where that is nothing.

    Digits behind that sign are those of a number, of which the shape may tell the first ones.

    Example:
        >>> read_beginning("POL-2021-[0-9]{6}"), read_beginning("V00[0-9]{5}"), read_beginning("[0-9a-f]{32}")
        ('POL-2021-', 'V', '')
    """
    fixed = takewhile(lambda signs: len(signs) == 1, shape_parts(shape))
    return "".join(fixed).rstrip(CLASSES["[0-9]"])


@lru_cache(maxsize=4096)
def widen_shape(shape: str) -> str:
    """The shape with all letters and digits that stand for themselves as classes.

    Example:
        >>> widen_shape("V0[0-9]{6}")
        '[A-Z][0-9]{7}'
    """
    if MIXED_CLASS.search(shape):
        return shape
    return _compact([_class_of(signs) for signs in shape_parts(shape)])


def _class_of(signs: str) -> str:
    """The class that all signs of a place belong to; the sign itself where it belongs to none."""
    return next((name for name in ("[0-9]", "[A-Z]", "[a-z]") if signs[0] in CLASSES[name]), _literal(signs))


def _compact(parts: Sequence[str]) -> str:
    """Parts of a shape as one text, repeats of a class as a number."""
    runs = [(part, len(list(same))) for part, same in groupby(parts)]
    return "".join(_repeat_sign(part, times) if part in CLASSES else part * times for part, times in runs)


def draw_texts(shape: str, rows: int, rng: np.random.Generator) -> list[str]:
    """Texts of a shape, drawn evenly, with repeats.

    Args:
        shape: As `shape_parts` reads it.
        rows: How many.
        rng: Draws them.
    """
    columns = [_drawn_signs(signs, rows, rng) for signs in shape_parts(shape)]
    return ["".join(signs) for signs in zip(*columns, strict=True)]


def lengthen_shape(shape: str) -> str:
    """The shape with one more digit behind the last sign that is drawn, at the end where none is.

    Example:
        >>> lengthen_shape("V0[0-9]{3}"), lengthen_shape("BA-[0-9]{2}/2024")
        ('V0[0-9]{4}', 'BA-[0-9]{3}/2024')
    """
    parts = shape_parts(shape)
    end = max((place for place, signs in enumerate(parts, 1) if len(signs) > 1), default=len(parts))
    names = {signs: name for name, signs in CLASSES.items()}
    written = [names.get(signs) or _literal(signs) for signs in parts]
    return _compact([*written[:end], "[0-9]", *written[end:]])


def _shuffle_texts(shape: str, rng: np.random.Generator) -> list[str]:
    """All texts of a shape, in random order."""
    texts = ["".join(signs) for signs in product(*shape_parts(shape))]
    return [texts[place] for place in rng.permutation(len(texts)).tolist()]


def _drawn_signs(signs: str, rows: int, rng: np.random.Generator) -> Sequence[str] | NDArray[np.str_]:
    if len(signs) == 1:
        return [signs] * rows
    return np.array(list(signs))[rng.integers(0, len(signs), rows)]


PATTERNS = ("number", "text", "uuid", "shape")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Identifier(CodelessColumn):
    """Unique keys: names, serial numbers, account numbers. No attribute of any model, made anew.

    Use it for columns whose values tell rows apart and mean nothing else. The cells of a declared one are not
    looked at, so it costs nothing; a column whose values repeat, such as the key of another table, loses its
    meaning by it.

    Args:
        pattern: What the new keys look like: "number" (start, start + 1, ...), "text" (the prefix and the
            number, filled with zeros on the left), "uuid" (random) or "shape" (random texts of `shapes`).
        start: The first number.
        prefix: What a text starts with.
        digits: Least number of digits in a text.
        shapes: What the texts of the pattern "shape" look like, each as `margrave.schema.columns.identifier`
        reads it. shares: How often each shape is drawn, in proportion; all alike by default.

    A random key may be that of a real row by chance: nothing but its shape is known when it is drawn.

    Example:
        >>> column = Identifier(name="id", pattern="text", prefix="P", digits=4)
        >>> keys(column, 2, np.random.default_rng()).to_pylist()
        ['P0001', 'P0002']
    """

    kind: ClassVar[str] = "identifier"
    pattern: str = "number"
    start: int = 1
    prefix: str = ""
    digits: int = 0
    shapes: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self._check_shapes()
        if self.pattern not in PATTERNS:
            raise SchemaError(
                invalid(
                    f"pattern of column {self.name!r}", f"one of {PATTERNS}", "Pick one.", got=self.pattern
                )
            )
        numbers = all(type(part) is int for part in (self.start, self.digits))
        if not numbers or not 0 <= self.digits <= 99 or not isinstance(self.prefix, str):
            raise SchemaError(
                invalid(
                    f"column {self.name!r}", "of whole start and digits, and a text as prefix", "Check them."
                )
            )

    def _check_shapes(self) -> None:
        where, texts = f"shapes of column {self.name!r}", all(isinstance(one, str) for one in self.shapes)
        if (self.pattern == "shape") != bool(self.shapes) or not texts:
            raise SchemaError(invalid(where, "given with the pattern 'shape' only", "Name one or more."))
        for shape in self.shapes:
            shape_parts(shape)
        if not self.shares:
            object.__setattr__(self, "shares", (1.0,) * len(self.shapes))
        sound = all(type(share) in (int, float) and 0 < share < math.inf for share in self.shares)
        if len(self.shares) != len(self.shapes) or not sound:
            raise SchemaError(invalid(where, "as many as their shares, above 0", "Leave the shares out."))


def name_shapes(column: Identifier) -> tuple[tuple[str, ...], int]:
    """The most frequent shapes of a column, at most MOST_NAMED, and how many more there are."""
    # Sorting keeps the order of shapes that are alike frequent.
    ranked = sorted(zip(column.shares, column.shapes, strict=True), key=lambda one: -one[0])
    named = tuple(shape for _, shape in ranked[:MOST_NAMED])
    return named, len(ranked) - len(named)


def keys(column: Identifier, rows: int, rng: np.random.Generator, kind: Any = None) -> Any:
    """New keys as an Arrow array, shape [rows]; distinct as far as the storage type can tell them apart.

    Args:
        column: What they look like.
        rows: How many.
        rng: Draws random ones.
        kind: The Arrow type wanted; the one that the pattern suggests when None. A type that cannot hold the
            pattern, such as whole numbers for UUIDs, gets plain numbers from `start`.
    """
    numbers = pa.array(np.arange(column.start, column.start + rows, dtype=np.int64))
    textual = kind is None or pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if kind is not None and getattr(pa.types, "is_string_view", bool)(kind):
        textual = True
    if column.pattern == "number" or not textual:
        return numbers if kind is None else numbers.cast(kind, safe=False)
    if column.pattern == "shape":
        shares = np.array(column.shares)
        chosen = rng.choice(len(shares), rows, p=shares / shares.sum())
        texts = pa.array(draw_distinct(column.shapes, chosen, rng), pa.large_string())
    elif column.pattern == "text":
        digits = pc.utf8_lpad(numbers.cast(pa.large_string()), column.digits, "0")
        blank = pa.scalar("", pa.large_string())
        texts = pc.binary_join_element_wise(pa.scalar(column.prefix, pa.large_string()), digits, blank)
    else:
        raw = [uuid.UUID(bytes=rng.bytes(16), version=4) for _ in range(rows)]
        texts = pa.array([str(key) for key in raw], pa.large_string())
    return texts if kind is None else texts.cast(kind)


def draw_distinct(
    shapes: Sequence[str], chosen: NDArray[np.int64], rng: np.random.Generator, taken: Collection[Any] = ()
) -> list[str]:
    """Texts none of which is drawn twice; longer ones for those that a shape has too few texts for.

    Args:
        shapes: As `shape_parts` reads them.
        chosen: The place of each text's shape among them, shape [rows].
        rng: Draws them.
        taken: Texts that are not drawn.
    """
    result, used, fruitless = [""] * len(chosen), set(taken), 0
    for place, shape in enumerate(shapes):
        waiting = np.flatnonzero(chosen == place).tolist()
        while 2 * len(waiting) > shape_space(shape):
            # Keys that are dense, as numbers from 1001 to 6000 are, keep their width while any is left.
            for text in _shuffle_texts(shape, rng):
                if waiting and text not in used:
                    result[waiting.pop()] = text
                    used.add(text)
            shape = lengthen_shape(shape)
        while waiting:
            left = []
            for row, text in zip(waiting, draw_texts(shape, len(waiting), rng), strict=True):
                if text in used:
                    left.append(row)
                else:
                    result[row] = text
                    used.add(text)
            # A few may be taken by chance; where all are again and again, another shape has taken them.
            fruitless = fruitless + 1 if len(left) == len(waiting) else 0
            if fruitless == MOST_TRIES:
                shape, fruitless = lengthen_shape(shape), 0
            waiting = left
    return result
