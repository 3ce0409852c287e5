"""A column by itself, as discovery counted it before it coded it by others.

Discovery cuts every column of numbers into cells and counts their rows under noise before it looks at how
columns go together. A column that it then codes by others keeps these cells (`Relative.own`), since values
are rounded and drawn by them. So they are a noisy table of the column itself, whatever it is coded by, in
which the rows that break a relation are counted like all others. The counts are those that discovery expects
given the noisy ones, which are off by less than the noise (`tables.numbers.doubts_of`).

Everything here is post-processing of released numbers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from margrave.release import NoisyMarginal, Release
from margrave.schema.columns import Relative
from margrave.schema.columns.binned import SpeltNumber
from margrave.schema.schema import Schema
from margrave.tables.numbers import MODEL_DOUBT, expected_of

MOST_CELLS = 256
"""Cells that neighbours of few rows are joined to: a share of the rows of which noise hides many times as
much. Not measured."""
LEAST_NOISE = 1e-6
"""Of a cell in which no rows are expected, as a share of the noise that its count had."""


def read_alone(release: Release, column: Relative) -> Release | None:
    """The release with this column alone, as discovery counted it; None if it has not, or not as numbers.

    Its measurement has a cell for each part of the rows, and the noise of such cells. Rows without a value
    are in none.

    Args:
        release: Of the column.
        column: One that is coded by others.
    """
    own = column.own
    if not isinstance(own, SpeltNumber) or own.noise == 0.0 or own.fine is None:
        return None
    starts, ends, counts = expected_of(own)
    total = float(counts.sum())
    if total <= 0.0:
        return None
    # A cell of many rows, such as a single value, is joined to none.
    steps = np.diff(np.floor(np.cumsum(counts) / total * MOST_CELLS), prepend=0.0)
    last = np.append(steps[1:] > 0.0, True) | (steps > 1.0)
    edges = np.append(starts[0], ends[last])
    cells = replace(own, lower=None, upper=None, bins=None, edges=tuple(edges.tolist()), missing=False)
    owner = np.searchsorted(edges, starts, side="right") - 1
    noise = MODEL_DOUBT * np.minimum(counts, own.noise) * own.noise
    sums, squares = np.zeros(len(edges) - 1), np.zeros(len(edges) - 1)
    np.add.at(sums, owner, counts)
    np.add.at(squares, owner, noise)
    # A cell of no rows has no noise, and yet a table has some everywhere.
    sigma = np.sqrt(np.maximum(squares, (LEAST_NOISE * own.noise) ** 2))
    return replace(
        release, schema=Schema((cells,)), measurements=(NoisyMarginal((column.name,), sums, sigma),)
    )
