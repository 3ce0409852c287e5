"""Distinct texts of a table that is read in batches, and the rows of each. Not private.

The same for owners: which of their rows to keep, and how many each has.

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

from margrave.entropy import fresh_generator

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
        # A power of two, so that parts of parts are again told by one remainder of the hash.
        ways = 1 << max((ways - 1).bit_length(), 1)
        return [Part(ways * self.parts, self.rest + k * self.parts) for k in range(ways)]


@dataclass(frozen=True, slots=True)
class Tally:
    """Texts and how many rows hold each, both of shape [texts]."""

    names: Any
    counts: NDArray[np.int64]


def count_texts(batches: Iterator[Texts]) -> Iterator[Tally]:
    """The rows of each text by batch, missing ones left out."""
    for codes, names in batches:
        yield Tally(names, np.bincount(codes[codes >= 0], minlength=len(names)))


def tally(batches: Iterator[Tally], part: Part, most: int) -> Tally | None:
    """The sums of each text of one part over all batches; None if there are more than `most` texts.

    What it holds at a time is about twice the result, and one batch.
    """
    held = Tally(pa.array([], pa.large_string()), np.empty(0, dtype=np.int64))
    waiting, fresh = [held], 0
    for batch in batches:
        # Texts of a dictionary that no row of the batch holds count for nothing.
        mine = np.flatnonzero(part.has(batch.names) & (batch.counts > 0))
        waiting.append(Tally(batch.names.take(pa.array(mine)), batch.counts[mine]))
        fresh += len(mine)
        # Merged only once as much is waiting as is held, so that each text is merged a few times and not once
        # a batch.
        if fresh > max(len(held.counts), most // 4):
            held = _add_tallies(waiting)
            if len(held.counts) > most:
                return None
            waiting, fresh = [held], 0
    held = _add_tallies(waiting)
    return None if len(held.counts) > most else held


def _add_tallies(parts: list[Tally]) -> Tally:
    coded = pc.dictionary_encode(pa.chunked_array([part.names for part in parts]).combine_chunks())
    codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False))
    counts = np.zeros(len(coded.dictionary), dtype=np.int64)
    np.add.at(counts, codes, np.concatenate([part.counts for part in parts]))
    return Tally(coded.dictionary, counts)


MAX_ROWS_HELD = 1 << 23
"""Rows and owners held at a time, before those of the batch at hand; a row and its owner take 16 bytes and
the owner's name."""

ONES = np.unpackbits(np.arange(256, dtype=np.uint8)).reshape(256, 8).sum(axis=1)
"""Bits set in each byte."""

Batches = Callable[[], Iterator[Texts]]


def kept_rows(
    batches: Batches, rows: int, max_rows: int, most: int = MAX_ROWS_HELD, key: bytes | None = None
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
        held = _find_survivors(batches(), part, max_rows, most, key)
        if held is None:
            # Too many to hold: the batches are read again for either half of the owners.
            todo += part.halves()
            continue
        # Several rows may share a byte, so bits are set one by one.
        np.bitwise_or.at(kept, held >> 3, (1 << (held & 7)).astype(np.uint8))
    return kept


def ones(bits: NDArray[np.uint8]) -> int:
    """How many bits are set."""
    return int(np.bincount(bits, minlength=256) @ ONES)


def _find_survivors(
    batches: Iterator[Texts], part: Part, max_rows: int, most: int, key: bytes | None
) -> NDArray[np.int64] | None:
    """The rows of one part to keep; None if they are too many to hold and of more than one owner."""
    generator = fresh_generator(key)
    none = np.empty(0, dtype=np.int64)
    held = _Held(pa.array([], pa.large_string()), none, none)
    waiting, fresh, first = [held], 0, 0
    for codes, names in batches:
        # Each owner is in one part only, with all of their rows.
        mine = np.flatnonzero(part.has(names)[codes])
        # Drawn for all rows of the batch and not for this part's alone: with a key, a row gets the same bits
        # however often the owners are split.
        bits = generator.integers(0, 1 << 63, len(codes), dtype=np.int64)[mine]
        waiting.append(_Held(names.take(pa.array(codes[mine])), bits, first + mine))
        first, fresh = first + len(codes), fresh + len(mine)
        if fresh > max(len(held.rows), most // 4):
            held, owners = _keep_least(waiting, max_rows)
            # One owner alone cannot be split any further and is held whatever it takes.
            if len(held.rows) > most and owners > 1:
                return None
            waiting, fresh = [held], 0
    return _keep_least(waiting, max_rows)[0].rows


@dataclass(frozen=True, slots=True)
class _Held:
    """Rows with their owners' names and random bits, all of shape [rows held]."""

    names: Any
    bits: NDArray[np.int64]
    rows: NDArray[np.int64]


def _keep_least(parts: list[_Held], max_rows: int) -> tuple[_Held, int]:
    """Of each owner the max_rows rows with the least bits, and how many owners there are."""
    names = pa.chunked_array([part.names for part in parts]).combine_chunks()
    bits = np.concatenate([part.bits for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    coded = pc.dictionary_encode(names)
    codes = np.asarray(coded.indices.to_numpy(zero_copy_only=False))
    # Sorted by owner and then by bits, a row's rank is its distance from where its owner begins.
    order = np.lexsort((bits, codes))
    starts = np.zeros(len(codes), dtype=np.int64)
    ends = np.flatnonzero(np.diff(codes[order])) + 1
    starts[ends] = ends
    rank = np.arange(len(codes)) - np.maximum.accumulate(starts)
    kept = order[rank < max_rows]
    return _Held(names.take(pa.array(kept)), bits[kept], rows[kept]), len(coded.dictionary)


def owner_sizes(batches: Batches, most_rows: int, most: int = MAX_ROWS_HELD) -> NDArray[np.int64]:
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
        held = tally(count_texts(batches()), part, most)
        # Too many owners to hold at once: each half of their names is counted by itself, in a pass of its
        # own.
        if held is None:
            todo += part.halves()
            continue
        # Sizes above the most share the last cell; cell 0 would be owners without rows.
        found += np.bincount(np.minimum(held.counts, most_rows + 1), minlength=most_rows + 2)[1:]
    return found
