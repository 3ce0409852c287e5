"""AnswerFile: the answers of one run, beside its ledger of JSON lines, so that the run can be resumed.

The file begins with the key of its ledger; then come frames: the index of a call's first event, how many
events it has, the answer's length, a checksum, the answer. A frame that is torn or fails its checksum ends
the file: the answers from there on are lost, their events stay spent. An answer is written right after it is
drawn. A killed process loses none that was written; a power failure may lose those of the last seconds.
"""

from __future__ import annotations

import os
import struct
import time
import zlib
from pathlib import Path

from margrave.errors import InputError, invalid
from margrave.privacy.answers import Answer, answer_from_bytes, answer_to_bytes
from margrave.privacy.history import FULLY_SPENT
from margrave.privacy.system_files import open_binary

__all__ = ["SUFFIX", "AnswerFile"]

SUFFIX = ".answers"
"""Appended to the ledger's name."""
SECONDS = 2.0
"""About how much work a power failure may lose: each lost answer costs budget, each sync a millisecond."""
_FRAME = struct.Struct("<IIQI")


class AnswerFile:
    """The answers of one run.

    Args:
        ledger: Path of the ledger.
        key: The ledger's.
        events: How many events the ledger holds; answers to others are refused.
        resumed: Whether the ledger was there before, so that the file may be, too.

    Raises:
        InputError: The file belongs to another ledger, or to a later state of this one, or cannot be read.
    """

    __slots__ = ("_key", "_length", "_path", "_synced", "answers")

    def __init__(self, ledger: Path, key: str, events: int = 0, *, resumed: bool = False) -> None:
        self._path = ledger.with_name(ledger.name + SUFFIX)
        self._key = key.encode("ascii") + b"\n"
        self._synced = time.monotonic()
        self.answers: dict[int, tuple[int, Answer]] = {}
        self._length = self._read(events) if resumed else 0

    def store(self, first: int, count: int, answer: Answer) -> None:
        """Append an answer.

        Raises:
            InputError: The file cannot be written.
        """
        data = answer_to_bytes(answer)
        frame = _FRAME.pack(first, count, len(data), _check(first, count, data)) + data
        try:
            handle = open_binary(self._path, os.O_WRONLY | os.O_CREAT)
            try:
                self._write(handle, frame if self._length else self._key + frame)
            finally:
                os.close(handle)
        except OSError as error:
            remedy = f"The answer is spent but not kept. The system says: {error.strerror}."
            raise InputError(invalid("ledger", "in a folder that can be written", remedy)) from error

    def _write(self, handle: int, data: bytes) -> None:
        os.ftruncate(handle, self._length)  # a frame that was torn when an earlier process was killed
        os.lseek(handle, self._length, os.SEEK_SET)
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        self._length += len(data)
        if time.monotonic() - self._synced > SECONDS:
            os.fsync(handle)
            self._synced = time.monotonic()

    def forget(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)

    def _read(self, events: int) -> int:
        """Read all whole frames; returns the length of the file up to the last one's end."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return 0
        except OSError as error:
            remedy = f"The system says: {error.strerror}."
            raise InputError(invalid("ledger", "beside answers that can be read", remedy)) from error
        if not data.startswith(self._key):
            if self._key.startswith(data):
                return 0  # torn before its first answer
            remedy = "Move the file away; the answers are bought again from what is left."
            raise InputError(invalid("ledger", "beside its own answers", remedy))
        end = at = len(self._key)
        least = 0
        while at + _FRAME.size <= len(data):
            first, count, length, check = _FRAME.unpack_from(data, at)
            at += _FRAME.size + length
            body = data[at - length : at]
            sound = len(body) == length and _check(first, count, body) == check
            if sound and first + count > events:
                # An answer is drawn after its events are on disk: a ledger without them is not the newest.
                raise InputError(invalid("ledger", "as new as the answers beside it", FULLY_SPENT))
            if not sound or not least <= first < first + count:
                break
            self.answers[first] = (count, answer_from_bytes(body))
            least, end = first + count, at
        return end


def _check(first: int, count: int, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(struct.pack("<II", first, count)))
