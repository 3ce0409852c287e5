"""Distinct texts of a table that is read in batches, and the rows of each. Not private."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

__all__ = ["MOST_VALUES", "Part", "Tally", "Texts", "tally"]

MOST_VALUES = 1 << 22
"""Most distinct values of a column that are listed at a time: what listing holds in memory grows with them. A
column of more is listed in parts, and nobody is told: an error here would be a sharp fact about the rows."""

Texts = tuple[NDArray[np.int32], Any]
"""A batch: a code for each row, -1 where the value is missing, and the texts that the codes stand for."""


@dataclass(frozen=True, slots=True)
class Part:
    """The texts whose hash leaves `rest` when divided by `parts`."""

    parts: int = 1
    rest: int = 0

    def has(self, names: Any) -> NDArray[np.bool_]:
        """Which names are in this part. Python keeps the hash of a text the same until the process ends."""
        if self.parts == 1:
            return np.ones(len(names), dtype=np.bool_)
        hashes = np.fromiter((hash(name) for name in names.to_pylist()), dtype=np.int64, count=len(names))
        inside: NDArray[np.bool_] = hashes % self.parts == self.rest
        return inside

    def halves(self) -> list[Part]:
        """The two parts that make up this one."""
        return self.split(2)

    def split(self, ways: int) -> list[Part]:
        """The parts that make up this one: the power of two that is at least `ways` of them, 2 at least."""
        ways = 1 << max((ways - 1).bit_length(), 1)
        return [Part(ways * self.parts, self.rest + k * self.parts) for k in range(ways)]


@dataclass(frozen=True, slots=True)
class Tally:
    """Texts and how many rows hold each, both of shape [texts]."""

    names: Any
    counts: NDArray[np.int64]


def tally(batches: Iterator[Texts], part: Part, most: int) -> Tally | None:
    """The rows of each text of one part, missing ones left out; None if there are more than `most` texts.

    What it holds at a time is about twice the result, and one batch.
    """
    held = Tally(pa.array([], pa.large_string()), np.empty(0, dtype=np.int64))
    waiting, fresh = [held], 0
    for codes, names in batches:
        counts = np.bincount(codes[codes >= 0], minlength=len(names))
        mine = np.flatnonzero(part.has(names) & (counts > 0))
        waiting.append(Tally(names.take(pa.array(mine)), counts[mine]))
        fresh += len(mine)
        if fresh > max(len(held.counts), most // 4):
            held = _added(waiting)
            if len(held.counts) > most:
                return None
            waiting, fresh = [held], 0
    held = _added(waiting)
    return None if len(held.counts) > most else held


def _added(parts: list[Tally]) -> Tally:
    coded = pc.dictionary_encode(pa.chunked_array([part.names for part in parts]).combine_chunks())
    codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False))
    counts = np.zeros(len(coded.dictionary), dtype=np.int64)
    np.add.at(counts, codes, np.concatenate([part.counts for part in parts]))
    return Tally(coded.dictionary, counts)
