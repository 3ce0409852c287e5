"""How numbers are written on a page."""

from __future__ import annotations

import math
from fractions import Fraction


def significant(value: float | Fraction, digits: int = 4, *, padded: bool = False) -> str:
    """A number to some significant digits, as in 0.03056, 12.5 or 1e-9; trailing zeros only if padded."""
    value = float(value)
    if not math.isfinite(value):
        return "not defined"
    text = f"{value:#.{digits}g}" if padded else f"{value:.{digits}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        power = int(exponent)
        if 0 <= power < 12:
            return f"{value:,.0f}"
        return f"{mantissa}e{power}"
    return _minus(text)


def format_fixed(value: float, digits: int = 3) -> str:
    """A number to a fixed number of decimals, for columns of numbers."""
    if not math.isfinite(value):
        return "not defined"
    text = f"{value:.{digits}f}"
    return _minus(text.lstrip("-") if float(text) == 0 else text)


def fraction(value: float) -> str:
    """A number from 0 to 1 to two decimals, as short as a picture needs: .07, 1.0."""
    text = f"{value:.2f}"
    return text[1:] if text.startswith("0") else text[:3]


def percent(share: float, digits: int = 1) -> str:
    """A share of 1 as a percentage."""
    if not math.isfinite(share):
        return "not defined"
    return format_fixed(100 * share, digits) + "%"


def count(value: float) -> str:
    """A number of rows or things, rounded, with thin groups of three."""
    if not math.isfinite(value):
        return "not defined"
    return _minus(f"{round(value):,}")


def equals(symbol: str, value: str) -> str:
    """A symbol and its value, never broken across lines."""
    return f"{symbol}\u00a0=\u00a0{value}"


def root(square: Fraction | int) -> str:
    """The square root of an exact number: a whole number where it is one, else as √n."""
    square = Fraction(square)
    if square.denominator == 1 and math.isqrt(square.numerator) ** 2 == square.numerator:
        return str(math.isqrt(square.numerator))
    return f"√{square}"


def _minus(text: str) -> str:
    return text.replace("-", "−") if text.startswith("-") else text
