"""A contact sheet of synthetic pictures, where the release is of pictures."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.images import LABEL, Pixels
from margrave.report.html import Markup, join, shorten, tag
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

COLUMNS = 10
"""Pictures of a class, at most."""
CLASSES = 20
"""Classes that are drawn."""
DRAWN_PIXELS = 40_000
"""Pixels of the whole sheet, at most, unless one picture a class has more; a page stays far below a
megabyte."""
SHADES = 16
"""Shades of grey that are told apart."""
GAP = 2
ENLARGE = 3
"""Points a side of each pixel."""
LINE = 7
"""Pixels above the pictures of a class, for its name."""

Codes = NDArray[np.int64]


def sheet_section(schema: Schema, synthetic: Encoded | None) -> Markup | None:
    """The first synthetic pictures of each class; None where rows are no pictures, or there are none.

    That rows are pictures is told by the schema: it is that of some `Pixels`, in all its columns.

    Args:
        schema: Of the release.
        synthetic: Synthetic rows under it.
    """
    pixels = Pixels.find(schema)
    if pixels is None or synthetic is None or not synthetic.rows:
        return None
    grey = np.stack([synthetic.column(name) for name in pixels.names], axis=1).astype(np.int64)
    grey = grey.reshape(-1, pixels.height, pixels.width)
    return join(
        tag(
            "p",
            "Synthetic pictures, drawn from the model and not taken from the table. Of each class they are "
            "the first that were drawn: none was picked.",
        ),
        _draw(pixels, grey, synthetic.column(LABEL).astype(np.int64)),
        _tell_left_out(pixels),
    )


def _tell_left_out(pixels: Pixels) -> Markup | None:
    left = len(pixels.labels) - CLASSES
    return tag("p", f"The first {CLASSES} classes are drawn; {left} more are not.") if left > 0 else None


def _draw(pixels: Pixels, grey: Codes, labels: Codes) -> Markup:
    """The picture: a line for each class, its name above it."""
    names = pixels.labels[:CLASSES]
    size = pixels.height * pixels.width
    columns = max(1, min(COLUMNS, DRAWN_PIXELS // (size * len(names))))
    runs: dict[int, list[str]] = {}
    parts, top = [], 0
    for code, name in enumerate(names):
        parts.append(tag("text", shorten(name, 40), x=0, y=top + LINE - 2, font_size=LINE - 2))
        top += LINE
        for place, picture in enumerate(grey[labels == code][:columns]):
            left = place * (pixels.width + GAP)
            parts.append(tag("rect", x=left, y=top, width=pixels.width, height=pixels.height, fill="#000"))
            _add_runs(runs, np.rint(picture * ((SHADES - 1) / (pixels.levels - 1))).astype(int), left, top)
        top += pixels.height + GAP
    for shade, found in sorted(runs.items()):
        tone = "#" + f"{shade * 255 // (SHADES - 1):02x}" * 3
        parts.append(tag("path", d="".join(found), stroke=tone, fill="none"))
    wide = columns * (pixels.width + GAP)
    return tag(
        "svg",
        tag("title", "Contact sheet of synthetic pictures", id="sheet-t"),
        tag("desc", f"At most {columns} pictures of each of {len(names)} classes.", id="sheet-d"),
        join(*parts),
        viewbox=f"0 0 {wide} {top}",
        width=wide * ENLARGE,
        role="img",
        aria_labelledby="sheet-t sheet-d",
        shape_rendering="crispEdges",
    )


def _add_runs(runs: dict[int, list[str]], shades: Codes, left: int, top: int) -> None:
    """Add the strokes of one picture to those of its shades: pixels side by side of one shade are one."""
    for down, line in enumerate(shades):
        starts = np.flatnonzero(np.diff(line, prepend=-1))
        lengths = np.diff(np.append(starts, len(line)))
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            if line[start]:
                runs.setdefault(int(line[start]), []).append(f"M{left + start} {top + down}.5h{length}")
