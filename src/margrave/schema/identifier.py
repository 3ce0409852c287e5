"""Free identifiers: unique keys that carry no information of their own."""

from __future__ import annotations

import math
import uuid
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from margrave.errors import SchemaError, invalid
from margrave.schema.column import CodelessColumn
from margrave.schema.shapes import draw_texts, shape_parts, shape_space

__all__ = ["PATTERNS", "Identifier", "keys"]

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
        shapes: What the texts of the pattern "shape" look like, each as `margrave.schema.shapes` reads it.
        shares: How often each shape is drawn, in proportion; all alike by default.

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
        texts = pa.array(_shaped_keys(column, rows, rng), pa.large_string())
    elif column.pattern == "text":
        digits = pc.utf8_lpad(numbers.cast(pa.large_string()), column.digits, "0")
        blank = pa.scalar("", pa.large_string())
        texts = pc.binary_join_element_wise(pa.scalar(column.prefix, pa.large_string()), digits, blank)
    else:
        raw = [uuid.UUID(bytes=rng.bytes(16), version=4) for _ in range(rows)]
        texts = pa.array([str(key) for key in raw], pa.large_string())
    return texts if kind is None else texts.cast(kind)


def _shaped_keys(column: Identifier, rows: int, rng: np.random.Generator) -> list[str]:
    """Distinct texts of the column's shapes, shape [rows]; longer ones where a shape has too few texts."""
    shares = np.array(column.shares)
    chosen = rng.choice(len(shares), rows, p=shares / shares.sum())
    result, taken = [""] * rows, set[str]()
    for place, shape in enumerate(column.shapes):
        waiting = np.flatnonzero(chosen == place).tolist()
        while 2 * len(waiting) > shape_space(shape):
            shape += "[0-9]"
        while waiting:
            left = []
            for row, text in zip(waiting, draw_texts(shape, len(waiting), rng), strict=True):
                if text in taken:
                    left.append(row)
                else:
                    result[row] = text
                    taken.add(text)
            if len(left) == len(waiting):  # another shape has taken these texts
                shape += "[0-9]"
            waiting = left
    return result
