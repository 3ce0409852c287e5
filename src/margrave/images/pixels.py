"""Pixels: how grey pictures of classes become the rows of a table, by public numbers alone, and back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.schema.columns import Categorical, Column, Integer
from margrave.schema.schema import Schema

LABEL = "label"
"""The column of the classes."""
MOST_LEVELS = 256


@dataclass(frozen=True, slots=True)
class Pixels:
    """Grey pictures as rows: a column of grey levels for each pixel, and one of classes.

    **Privacy.** A picture becomes a row by its own pixels and these numbers, which are public; nothing is
    looked at over pictures, neither the classes, which are declared, nor their brightness. So the rows of a
    table protect the pictures, one each.

    Args:
        height, width: Of the pictures in the table, which larger ones are averaged down to.
        levels: Grey levels from black to white, evenly, 2 to 256.
        labels: Names of the classes; a class that no picture has is one that is drawn by noise.

    Raises:
        InputError: An argument is out of range.

    Example:
        >>> pixels = Pixels(2, 2, levels=4, labels=("dark", "light"))
        >>> table = pixels.tabulate(np.full((1, 4, 4), 255, np.uint8), ["light"])
        >>> table.column_names, table["r0c0"].to_pylist()
        (['r0c0', 'r0c1', 'r1c0', 'r1c1', 'label'], [3])
    """

    height: int
    width: int
    levels: int
    labels: tuple[str, ...]

    def __post_init__(self) -> None:
        check_counts(height=self.height, width=self.width)
        object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))
        if not 2 <= self.levels <= MOST_LEVELS:
            raise InputError(invalid("levels", f"2 to {MOST_LEVELS}", "Try 4.", got=self.levels))
        if not self.labels or len(set(self.labels)) < len(self.labels):
            raise InputError(invalid("labels", "one or more distinct names", "Name each class once."))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of pixels, row by row."""
        return tuple(f"r{i}c{j}" for i in range(self.height) for j in range(self.width))

    @property
    def schema(self) -> Schema:
        """What is public about the table: all of it but the rows."""
        columns: list[Column] = [
            Integer(name=name, missing=False, lower=0, upper=self.levels - 1, bins=self.levels)
            for name in self.names
        ]
        return Schema((*columns, Categorical(name=LABEL, missing=False, values=self.labels)))

    @classmethod
    def find(cls, schema: Schema) -> Pixels | None:
        """The pixels whose schema this is, by equality of all columns; None where it is of something else."""
        *pixels, classes = schema.columns
        last = re.fullmatch(r"r(\d{1,9})c(\d{1,9})", pixels[-1].name) if pixels else None
        if last is None or not isinstance(pixels[-1], Integer) or not isinstance(classes, Categorical):
            return None
        levels, height, width = pixels[-1].bins, int(last[1]) + 1, int(last[2]) + 1
        if not isinstance(levels, int) or not 2 <= levels <= MOST_LEVELS or height * width != len(pixels):
            return None
        if not classes.values:
            return None
        found = cls(height, width, levels, tuple(str(value) for value in classes.values))
        return found if found.schema.columns == schema.columns else None

    def tabulate(self, images: Any, labels: Sequence[Any]) -> pa.Table:
        """The table of pictures: each averaged over blocks, then cut to grey levels.

        Args:
            images: Grey values 0 to 255, or floats from 0 to 1, [pictures, rows, columns]; rows and columns
                are multiples of height and width.
            labels: The class of each, [pictures].

        Raises:
            InputError: The shape is another, a grey value is outside or no number, or a class is not
                declared. Which picture it is is not said.
        """
        grey = np.asarray(images)
        if grey.ndim != 3 or grey.shape[1] % self.height or grey.shape[2] % self.width or 0 in grey.shape[1:]:
            shape = f"[pictures, rows, columns] in multiples of {self.height} and {self.width}"
            raise InputError(invalid("images", shape, "Crop or pad them alike.", got=grey.shape[1:]))
        if len(labels) != len(grey):
            raise InputError(invalid("labels", "as many as images", "Give each picture its class."))
        most = 1.0 if grey.dtype.kind == "f" else 255.0
        if grey.dtype.kind not in "iuf" or not ((grey >= 0) & (grey <= most)).all():
            kept = "whole numbers 0 to 255, or floats 0 to 1, none missing"
            raise InputError(invalid("images", kept, "Scale them by a public number; fill gaps."))
        high, wide = grey.shape[1] // self.height, grey.shape[2] // self.width
        blocks = grey.reshape(len(grey), self.height, high, self.width, wide).astype(np.float64)
        share = blocks.mean(axis=(2, 4)) / most
        codes = np.minimum((share * self.levels).astype(np.int64), self.levels - 1)
        codes = codes.reshape(len(grey), self.height * self.width)
        named = [str(label) for label in labels]
        if not set(named) <= set(self.labels):
            raise InputError(
                invalid("labels", "among those declared", "Declare every class that there may be.")
            )
        columns = {name: pa.array(codes[:, k]) for k, name in enumerate(self.names)}
        return pa.table({**columns, LABEL: pa.array(named, pa.string())})

    def picture(self, table: Any) -> tuple[NDArray[np.uint8], list[str]]:
        """Pictures of a table's rows, grey values 0 to 255, [pictures, height, width], and their classes.

        Args:
            table: Of these columns: an Arrow table, or a frame.

        Raises:
            InputError: A column is missing, or a grey level is no number.
        """
        held = table if isinstance(table, pa.Table) else pa.table({c: list(table[c]) for c in table.columns})
        gone = [name for name in (*self.names, LABEL) if name not in held.column_names]
        if gone:
            raise InputError(
                invalid("table", "of the columns of these pixels", "Use the Pixels it came from.")
            )
        try:
            codes = np.array([held[name].to_numpy() for name in self.names], dtype=np.float64).T
        except ValueError:
            codes = np.full((1, 1), np.nan)
        if not np.isfinite(codes).all():
            remedy = "Draw rows of the method that released them."
            raise InputError(invalid("table", "of grey levels, none missing, in each pixel", remedy))
        grey = np.rint(codes * (255.0 / (self.levels - 1))).clip(0, 255).astype(np.uint8)
        return grey.reshape(-1, self.height, self.width), [str(label) for label in held[LABEL].to_pylist()]
