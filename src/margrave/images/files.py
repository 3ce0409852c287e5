"""Files of pictures: a folder with one folder a class, and a contact sheet on one page."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, MissingExtraError, invalid
from margrave.files import written_whole

Grey = NDArray[np.uint8]

GAP = 2
"""Pixels between pictures of a sheet, before it is enlarged."""
WHITE = 255


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
