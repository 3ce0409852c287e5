"""Shapes: the pattern of signs that a code is written in, such as V[0-9]{7}, and new texts of a shape.

A shape is a regular expression of a small kind: signs that stand for themselves (those with a meaning
behind a backslash) and the classes of `CLASSES`, each perhaps with a number of repeats, as in [A-Z]{2}. All
texts of a shape have the same length.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from margrave.errors import SchemaError, invalid

__all__ = ["CLASSES", "cut_shape", "draw_texts", "shape_of", "shape_parts", "shape_space", "widen_shape"]

CLASSES = {
    "[0-9]": "0123456789",
    "[1-9]": "123456789",
    "[A-Z]": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    "[a-z]": "abcdefghijklmnopqrstuvwxyz",
    "[0-9a-f]": "0123456789abcdef",
    "[0-9A-F]": "0123456789ABCDEF",
}
"""The classes of signs that a shape may have, and the signs of each."""
LONGEST = 48
"""Letters up to which a text is taken for a code."""
LONGEST_HEAD = 8
"""Letters in front of the first digit up to which they are part of the shape as they stand."""
LEAST_HEX = 8
MEANING = set("\\[]{}.^$*+?()|")
PARTS = re.compile(r"(\[[^\]]*\])(?:\{([0-9]{1,2})\})?|\\(.)|([^\\\[\]{}.^$*+?()|])", re.DOTALL)
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
UUID_SHAPE = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
HEX_CLASS = re.compile(r"\[0-9[aA]-[fF]\]")
HEX = {"[0-9a-f]": re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]+"), "[0-9A-F]": None}
HEX["[0-9A-F]"] = re.compile(r"(?=.*[0-9])(?=.*[A-F])[0-9A-F]+")
RUNS = re.compile(r"[0-9]+|[A-Z]+|[a-z]+|.", re.DOTALL)

Signs = tuple[str, ...]
"""What each place of a text may hold: one sign, or all those of a class."""


def shape_of(text: str) -> str:
    """The shape of a text that looks like a code; "" for any other text.

    A code has a digit, only printable ASCII signs, at most LONGEST of them, and no blank beside letters. What
    stands in front of its first digit is kept as it is, up to LONGEST_HEAD letters; whether a zero leads the
    first run of digits is kept, too. The shape of a text depends on that text alone.

    Example:
        >>> shape_of("V0000123"), shape_of("E11.9"), shape_of("a note")
        ('V0[0-9]{6}', 'E[1-9][0-9]\\\\.[0-9]', '')
    """
    if len(text) > LONGEST or not (text.isascii() and text.isprintable()):
        return ""
    first = next((place for place, sign in enumerate(text) if sign.isdigit()), None)
    if first is None or (" " in text and any(sign.isalpha() for sign in text)):
        return ""
    if UUID.fullmatch(text):
        return UUID_SHAPE
    for name, pattern in HEX.items():
        if len(text) >= LEAST_HEX and pattern is not None and pattern.fullmatch(text):
            return f"{name}{{{len(text)}}}"
    kept = first if first <= LONGEST_HEAD else 0
    head = "".join(_literal(sign) for sign in text[:kept])
    number = RUNS.match(text, first)
    lead = "" if number is None or number.end() - first == 1 else "0" if text[first] == "0" else "[1-9]"
    runs = [_run_shape(run) for run in RUNS.findall(text[first + bool(lead) :])]
    return head + "".join(_run_shape(run) for run in RUNS.findall(text[kept:first])) + lead + "".join(runs)


def _literal(sign: str) -> str:
    return f"\\{sign}" if sign in MEANING else sign


def _run_shape(run: str) -> str:
    for name in ("[0-9]", "[A-Z]", "[a-z]"):
        if run[0] in CLASSES[name]:
            return _repeated(name, len(run))
    return "".join(_literal(sign) for sign in run)


def _repeated(name: str, times: int) -> str:
    return name if times == 1 else f"{name}{{{times}}}"


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
        remedy = "Write it as in 'V[0-9]{7}' or '[A-Z]{2}-[0-9]{4}'."
        raise SchemaError(invalid("shape", f"made of signs and the classes {list(CLASSES)}", remedy))
    return tuple(found)


def shape_space(shape: str) -> int:
    """How many texts there are of the shape."""
    total = 1
    for signs in shape_parts(shape):
        total *= len(signs)
    return total


def cut_shape(shape: str, start: int) -> str:
    """The shape of what stands behind the first `start` letters; "" where nothing does."""
    names = {signs: name for name, signs in CLASSES.items()}
    return _compact([names.get(signs) or _literal(signs) for signs in shape_parts(shape)[start:]])


@lru_cache(maxsize=4096)
def widen_shape(shape: str) -> str:
    """The shape with all letters and digits that stand for themselves as classes.

    Example:
        >>> widen_shape("V0[0-9]{6}")
        '[A-Z][0-9]{7}'
    """
    if HEX_CLASS.search(shape):
        return shape
    return _compact([_class_of(signs) for signs in shape_parts(shape)])


def _class_of(signs: str) -> str:
    """The class that all signs of a place belong to; the sign itself where it belongs to none."""
    return next((name for name in ("[0-9]", "[A-Z]", "[a-z]") if signs[0] in CLASSES[name]), _literal(signs))


def _compact(parts: Sequence[str]) -> str:
    """Parts of a shape as one text, repeats of a class as a number."""
    runs = [(part, len(list(same))) for part, same in groupby(parts)]
    return "".join(_repeated(part, times) if part in CLASSES else part * times for part, times in runs)


def draw_texts(shape: str, rows: int, rng: np.random.Generator) -> list[str]:
    """Texts of a shape, drawn evenly, with repeats.

    Args:
        shape: As `shape_parts` reads it.
        rows: How many.
        rng: Draws them.
    """
    columns = [_drawn_signs(signs, rows, rng) for signs in shape_parts(shape)]
    return ["".join(signs) for signs in zip(*columns, strict=True)]


def _drawn_signs(signs: str, rows: int, rng: np.random.Generator) -> Sequence[str] | NDArray[np.str_]:
    if len(signs) == 1:
        return [signs] * rows
    return np.array(list(signs))[rng.integers(0, len(signs), rows)]
