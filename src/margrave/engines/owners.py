"""Owners' rows in a table that is read in batches: which to keep, and how many each has. Not private.

Both are exact. Where the owners are too many for memory they are split in two by a hash of their names and
the batches are read again for each half, and so on: nothing is written to disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.engines.tallies import Part, Texts, tally
from margrave.entropy import fresh_generator

__all__ = ["MOST", "kept_rows", "ones", "owner_sizes"]

MOST = 1 << 23
"""Rows and owners held at a time, before those of the batch at hand; a row and its owner take 16 bytes and
the owner's name."""

ONES = np.unpackbits(np.arange(256, dtype=np.uint8)).reshape(256, 8).sum(axis=1)
"""Bits set in each byte."""

Batches = Callable[[], Iterator[Texts]]


def kept_rows(
    batches: Batches, rows: int, max_rows: int, most: int = MOST, key: bytes | None = None
) -> NDArray[np.uint8]:
    """Which rows to keep: of each owner at most max_rows, every choice equally likely. **Not private.**

    Every row draws 64 random bits from a generator seeded by the system's, and each owner keeps the rows with
    the least, so a batch can drop at once what cannot be kept any more.

    Args:
        batches: Reads the owners, none missing, always in the same order.
        rows: In all.
        max_rows: At least 1.
        most: Rows held at a time.
        key: As for `margrave.entropy.fresh_generator`.

    Returns:
        One bit a row, packed with the lowest first.
    """
    kept = np.zeros((rows + 7) // 8, dtype=np.uint8)
    todo = [Part()]
    while todo:
        part = todo.pop()
        held = _survivors(batches(), part, max_rows, most, key)
        if held is None:
            todo += part.halves()
            continue
        np.bitwise_or.at(kept, held >> 3, (1 << (held & 7)).astype(np.uint8))
    return kept


def ones(bits: NDArray[np.uint8]) -> int:
    """How many bits are set."""
    return int(np.bincount(bits, minlength=256) @ ONES)


def _survivors(
    batches: Iterator[Texts], part: Part, max_rows: int, most: int, key: bytes | None
) -> NDArray[np.int64] | None:
    """The rows of one part to keep; None if they are too many to hold and of more than one owner."""
    generator = fresh_generator(key)
    none = np.empty(0, dtype=np.int64)
    held = _Held(pa.array([], pa.large_string()), none, none)
    waiting, fresh, first = [held], 0, 0
    for codes, names in batches:
        mine = np.flatnonzero(part.has(names)[codes])
        bits = generator.integers(0, 1 << 63, len(codes), dtype=np.int64)[mine]
        waiting.append(_Held(names.take(pa.array(codes[mine])), bits, first + mine))
        first, fresh = first + len(codes), fresh + len(mine)
        if fresh > max(len(held.rows), most // 4):
            held, owners = _least(waiting, max_rows)
            if len(held.rows) > most and owners > 1:
                return None
            waiting, fresh = [held], 0
    return _least(waiting, max_rows)[0].rows


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows with their owners' names and random bits, all of shape [rows held]."""

    names: Any
    bits: NDArray[np.int64]
    rows: NDArray[np.int64]


def _least(parts: list[_Held], max_rows: int) -> tuple[_Held, int]:
    """Of each owner the max_rows rows with the least bits, and how many owners there are."""
    names = pa.chunked_array([part.names for part in parts]).combine_chunks()
    bits = np.concatenate([part.bits for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    coded = pc.dictionary_encode(names)
    codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False))
    order = np.lexsort((bits, codes))
    starts = np.zeros(len(codes), dtype=np.int64)
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    starts[ends] = ends
    rank = np.arange(len(codes)) - np.maximum.accumulate(starts)
    kept = order[rank < max_rows]
    return _Held(names.take(pa.array(kept)), bits[kept], rows[kept]), len(coded.dictionary)


def owner_sizes(batches: Batches, most_rows: int, most: int = MOST) -> NDArray[np.int64]:
    """Owners by how many rows they have, 1 to most_rows, and more: shape [most_rows + 1]. **Not private.**

    Args:
        batches: Reads the owners, none missing.
        most_rows: At least 1.
        most: Owners held at a time.
    """
    found = np.zeros(most_rows + 1, dtype=np.int64)
    todo = [Part()]
    while todo:
        part = todo.pop()
        held = tally(batches(), part, most)
        if held is None:
            todo += part.halves()
            continue
        found += np.bincount(np.minimum(held.counts, most_rows + 1), minlength=most_rows + 2)[1:]
    return found
