"""Pictures of classes as tables, so that any method makes a release of them, and back; see docs/images.md.

`Pixels` says how grey pictures become the rows of a table, by public numbers alone, and back. `read_images`
and `write_images` keep them in a folder with one folder a class; `draw_sheet` shows many on one page.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.errors import InputError, MissingExtraError, check_counts, invalid
from margrave.files import written_whole
from margrave.schema.columns import Categorical, Column, Integer
from margrave.schema.schema import Schema

__all__ = ["Pixels", "draw_sheet", "read_images", "write_images"]


LABEL = "label"
"""The column of the classes."""
MOST_LEVELS = 256
"""Levels of grey at most: those of one byte a pixel."""
GREY_STEPS = 255 << 16
"""Steps that grey values from 0 to 1 are rounded to before they are added, so that those of one byte over 255
are exact. Below 2^24: sums of 2^31 pixels times MOST_LEVELS stay below 2^63."""


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
        # Sums of floats hang on how the array lies in memory and on how many pictures there are, so that one
        # picture could move the levels of another.
        fine = GREY_STEPS if grey.dtype.kind == "f" else 1
        whole = np.rint(grey.astype(np.float64) * fine).astype(np.int64)
        sums = whole.reshape(len(grey), self.height, high, self.width, wide).sum(axis=(2, 4))
        codes = np.minimum(sums * self.levels // (high * wide * int(most) * fine), self.levels - 1)
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


Grey = NDArray[np.uint8]

GAP = 2
"""Pixels between pictures of a sheet, before it is enlarged."""
WHITE = 255
"""The grey level between the pictures of a sheet."""


def read_images(folder: str | Path) -> tuple[Grey, list[str], tuple[str, ...]]:
    """Grey pictures, [pictures, rows, columns], the class of each, and all classes.

    Classes are the folders inside the folder; one without a picture is a class, too. Their names and the
    size of the pictures are taken as public; which files there are is not.

    Args:
        folder: Of one folder a class, with files that end in .png.

    Raises:
        InputError: There is no such folder, no picture, one that cannot be read, or one of another size.
        MissingExtraError: Pillow is not installed.
    """
    place = Path(folder)
    classes = tuple(sorted(path.name for path in place.iterdir() if path.is_dir())) if place.is_dir() else ()
    if not classes:
        remedy = "Put the .png files of each class into a folder of its name."
        raise InputError(invalid("folder", "one with a folder for each class", remedy, got=str(folder)))
    pillow, found, labels = _pillow(), [], []
    for name in classes:
        for path in sorted((place / name).glob("*.png")):
            found.append(_read_png(pillow, path))
            labels.append(name)
    if any(part is None for part in found) or len({part.shape for part in found if part is not None}) != 1:
        remedy = "Open them in a viewer, and bring them to one size."
        raise InputError(invalid("folder", "one of PNG files that are whole and of one size", remedy))
    return np.stack([part for part in found if part is not None]), labels, classes


def _read_png(pillow: Any, path: Path) -> Grey | None:
    """The picture in grey; None where the file is none. What is wrong with a file may hold private values."""
    try:
        with pillow.open(path) as image:
            return np.asarray(image.convert("L"), dtype=np.uint8)
    except (OSError, SyntaxError, ValueError):
        return None


def _pillow() -> Any:
    try:
        return import_module("PIL.Image")
    except ImportError:
        raise MissingExtraError(
            invalid("pillow", "installed to read pictures", "Run: pip install 'margrave[images]'")
        ) from None


def write_images(folder: str | Path, images: Grey, labels: Sequence[str]) -> None:
    """Write pictures as PNG files into one folder a class, numbered from 0.

    Args:
        folder: New, or empty.
        images: Grey values, [pictures, rows, columns].
        labels: The class of each, a name that a folder may have.

    Raises:
        InputError: The folder holds something, or a class is no name of a folder.
    """
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(invalid("folder", "new or empty", "Name another.", got=str(folder)))
    if any(label in ("", ".", "..") or set(label) & set("/\\:\0") for label in labels):
        raise InputError(invalid("labels", "names that folders may have", "Rename the classes."))
    for label in sorted(set(labels)):
        (place / label).mkdir(parents=True)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        (place / label / f"{number:06d}.png").write_bytes(encode_png(image))


def draw_sheet(
    path: str | Path, images: Grey, labels: Sequence[str], *, columns: int = 10, enlarge: int = 3
) -> None:
    """Write a contact sheet as a PNG file: the first pictures of each class, a line of the sheet each.

    Args:
        path: Of the file.
        images: Grey values, [pictures, rows, columns].
        labels: The class of each; lines are in their sorted order.
        columns: Pictures of a class, at most.
        enlarge: Pixels a side of each pixel.

    Raises:
        InputError: There is no picture, or a number is below 1.
    """
    if columns < 1 or enlarge < 1 or not len(images):
        raise InputError(
            invalid("columns and enlarge", "at least 1, with a picture at least", "Try 10 and 3.")
        )
    high, wide = images.shape[1:]
    lines = []
    for label in sorted(set(labels)):
        chosen = [image for image, own in zip(images, labels, strict=True) if own == label][:columns]
        line = np.full((high + GAP, columns * (wide + GAP)), WHITE, dtype=np.uint8)
        for k, image in enumerate(chosen):
            line[:high, k * (wide + GAP) : k * (wide + GAP) + wide] = image
        lines.append(line)
    sheet = np.concatenate(lines)[:-GAP, :-GAP]
    with written_whole(path) as beside:
        beside.write_bytes(encode_png(np.repeat(np.repeat(sheet, enlarge, 0), enlarge, 1)))


def encode_png(image: Grey) -> bytes:
    """A grey picture as the bytes of a PNG file, 8 bits a pixel (ISO/IEC 15948)."""
    rows, columns = image.shape
    lines = np.zeros((rows, columns + 1), dtype=np.uint8)  # each line begins with its filter, 0 for none
    lines[:, 1:] = image
    header = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
