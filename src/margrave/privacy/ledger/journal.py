"""Journal: one run's ledger as a file, one JSON line an event, on disk before the event is acted upon.

The first line is the header; each further line is one event. A line counts once it ends in a newline. A
torn last line is one whose write never finished: `Journal.append` did not return, so no noise was drawn
for it, and readers leave it out.

`AnswerFile` keeps the answers of the run beside its ledger, so that it can be resumed. The file begins with
the key of its ledger; then come frames: the index of a call's first event, how many events it has, the
answer's length, a checksum, the answer. A frame that is torn or fails its checksum ends the file: the answers
from there on are lost, their events stay spent. An answer is written right after it is drawn. A killed
process loses none that was written; a power failure may lose those of the last seconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import struct
import time
import weakref
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from margrave.errors import InputError, MargraveError, invalid
from margrave.privacy.accounting.events import Event, event_from_json, event_to_json, fraction_of
from margrave.privacy.ledger.history import (
    DAY,
    FULLY_SPENT,
    LEDGER_VERSION,
    Answer,
    History,
    LedgerHeader,
    answer_from_bytes,
    answer_to_bytes,
    check_facts,
)
from margrave.privacy.ledger.system_files import open_binary, sync_folder, take_lock
from margrave.privacy.unit import Neighbours, Unit

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


class Journal:
    """A ledger file, to which events are appended; a `RunJournal`.

    While it is open no other process can resume it.

    Args:
        path: Where; must not exist, or must be the ledger of a stopped run to be resumed.
        header: Its first line, or what its first line must say.
        resume: Whether to go on with an existing file.

    Raises:
        InputError: The file exists or cannot be written; or, to be resumed, it is missing, damaged, in use
            by another process, or of another run.
    """

    __slots__ = ("__weakref__", "_answers", "_broken", "_free", "_history", "_path")

    def __init__(self, path: Path, header: LedgerHeader, *, resume: bool = False) -> None:
        self._path = path.absolute()
        self._broken = False
        if resume:
            self._free = self._hold(self._path)
            # The file has to be on disk under its name before the first spend, so the folder is
            # synchronised as well.
            try:
                self._history = self._continue(header)
            except BaseException:
                self._free()
                raise
            return
        header = replace(header, key=secrets.token_hex(16))
        first = _lines([header_to_json(header)])
        try:
            _write(self._path, first, os.O_CREAT | os.O_EXCL)
            sync_folder(self._path.parent)
        except FileExistsError:
            remedy = (
                "Move the old ledger away or choose another path; ledgers are never overwritten. "
                "A run that was stopped goes on with --resume; in Python, with resume=True."
            )
            raise InputError(invalid("ledger", "a file that does not exist yet", remedy)) from None
        except OSError as error:
            remedy = f"The system says: {error.strerror}."
            raise InputError(invalid("ledger", "a path that can be written", remedy)) from error
        self._free = self._hold(self._path)
        # Before it was locked another process may have resumed it, spent on it, and closed it.
        if self._path.read_bytes() != first:
            self._free()
            raise InputError(invalid("ledger", "in use by no other process", "Choose another path."))
        self._answers = AnswerFile(self._path, header.key)
        self._history = History(day=header.run.get(DAY, ""))

    @property
    def shared(self) -> bool:
        """Whether it shares caps with other runs: never."""
        return False

    @property
    def history(self) -> History:
        """What was there when it was opened."""
        return self._history

    def append(self, events: Sequence[Event]) -> None:
        """Write events and wait until they are on disk.

        Raises:
            InputError: The file cannot be written. What it holds is then unknown: nothing more is accepted.
        """
        if self._broken:
            raise InputError(
                invalid("ledger", "open and intact", "An earlier write failed: resume the run or start anew.")
            )
        lines = _lines([event_to_json(event) for event in events])
        self._broken = True
        try:
            _write(self._path, lines, 0)
        except OSError as error:
            remedy = f"Nothing was released for this spend. The system says: {error.strerror}."
            raise InputError(invalid("ledger", "a file that can be written", remedy)) from error
        self._broken = False

    def store(self, first: int, count: int, answer: Answer) -> None:
        """Keep an answer; see `AnswerFile`."""
        self._answers.store(first, count, answer)

    def close(self) -> None:
        """The run is over: nothing more is accepted."""
        self._broken = True
        self._free()

    release = close

    def discard(self, refusal: str, opened: bool) -> None:
        """Remove the file of a run that recorded nothing: nobody else reads it, whatever the error was."""
        self._broken = True
        # Looked at and removed while it is locked: once it is free, another process may resume it and spend.
        # Windows removes no open file; there an empty ledger stays, which may be resumed.
        with contextlib.suppress(MargraveError, PermissionError):
            if not read_ledger(self._path)[1]:
                self._path.unlink(missing_ok=True)
        self.close()

    def forget(self) -> None:
        """Remove the file of answers."""
        self._answers.forget()

    def _hold(self, path: Path) -> weakref.finalize[[int], Journal]:
        """Lock the file as long as this object lives or until it is closed."""
        handle = _open_ledger(path, os.O_RDWR)
        try:
            take_lock(handle)
            # The process that held it until now may have removed it: then the lock is on a file without a
            # name, and another file may bear this one by now.
            if not os.path.samestat(os.fstat(handle), path.stat()):
                raise OSError
        except OSError:
            os.close(handle)
            remedy = "Wait until the other process is done, or stop it."
            raise InputError(invalid("ledger", "in use by no other process", remedy)) from None
        return weakref.finalize(self, os.close, handle)

    def _continue(self, asked: LedgerHeader) -> History:
        """What the file and the answers beside it hold, with a torn last line cut off."""
        header, events = read_ledger(self._path)
        check_facts(header, asked)
        if not header.key:
            remedy = "It was written by an older version, which kept no answers: start a new run."
            raise InputError(invalid("ledger", "one that can be resumed", remedy))
        # The torn line goes, so that the next event begins a line of its own; its spend had not been acted
        # upon.
        whole = self._path.read_bytes().rfind(b"\n") + 1
        handle = _open_ledger(self._path, os.O_RDWR)
        try:
            os.ftruncate(handle, whole)
            os.fsync(handle)
        finally:
            os.close(handle)
        self._answers = AnswerFile(self._path, header.key, len(events), resumed=True)
        return History(events, self._answers.answers, header.run.get(DAY, ""))


def read_ledger(path: str | Path) -> tuple[LedgerHeader, tuple[Event, ...]]:
    """The header and the events of a ledger file; a torn last line is left out.

    Raises:
        InputError: The file is missing, damaged before its last line, or of a newer version.
        UnsupportedEventError: It holds an event of a class this version does not know.
    """
    # What follows the last line end is the torn line of a run that was killed, or nothing.
    try:
        lines = Path(path).read_bytes().split(b"\n")[:-1]
    except OSError as error:
        remedy = f"The system says: {error.strerror}."
        raise InputError(invalid("ledger", "a file that can be read", remedy)) from error
    if not lines:
        raise _damaged_error()
    try:
        records = [json.loads(line) for line in lines]
        header = header_from_json(records[0])
        return header, tuple(event_from_json(record) for record in records[1:])
    except MargraveError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError):
        raise _damaged_error() from None


def header_to_json(header: LedgerHeader) -> dict[str, object]:
    """A header as an object of JSON values, from which `header_from_json` builds an equal one."""
    unit = header.neighbours.unit
    return {
        "margrave": "ledger",
        "version": header.version,
        "epsilon": header.epsilon,
        "delta": header.delta,
        "partition_delta": f"{header.partition_delta.numerator}/{header.partition_delta.denominator}",
        "neighbours": {
            "adjacency": header.neighbours.adjacency,
            "owner": unit.owner,
            "max_rows": unit.max_rows,
        }
        | ({"public": list(header.neighbours.public)} if header.neighbours.public else {}),
        "accounting": header.accounting,
        "run": dict(header.run),
        "key": header.key,
    }


def header_from_json(record: Mapping[str, object]) -> LedgerHeader:
    """The header that `header_to_json` wrote, or an older version.

    Raises:
        InputError: It is of a newer version, or damaged; damage may raise ValueError, KeyError or TypeError.
    """
    version = record["version"]
    if record["margrave"] != "ledger" or type(version) is not int:
        raise _damaged_error()
    if version > LEDGER_VERSION:
        raise InputError(invalid("ledger", "of a known version", "Update margrave.", got=version))
    who, run = record["neighbours"], record.get("run", {})
    kept = fraction_of(str(record["partition_delta"]))
    if kept is None or not isinstance(who, dict) or not isinstance(run, dict):
        raise _damaged_error()
    return LedgerHeader(
        epsilon=float(str(record["epsilon"])),
        delta=float(str(record["delta"])),
        partition_delta=kept,
        neighbours=Neighbours(
            Unit(who["owner"], who["max_rows"]), who["adjacency"], tuple(who.get("public", ()))
        ),
        accounting=str(record["accounting"]),
        version=version,
        run={str(name): str(fact) for name, fact in run.items()},
        key=str(record.get("key", "")),
    )


def _lines(records: Sequence[Mapping[str, object]]) -> bytes:
    return b"".join(json.dumps(record, allow_nan=False).encode("ascii") + b"\n" for record in records)


def _write(path: Path, lines: bytes, flags: int) -> None:
    """Append lines to a file and wait until they are on disk; a file that has vanished is noticed.

    A file that is made here (O_EXCL) and cannot be written whole is removed: nothing has been spent on it,
    and what is left of it would be in the way of the next try.
    """
    handle, whole = open_binary(path, os.O_WRONLY | os.O_APPEND | flags), False
    try:
        if os.write(handle, lines) != len(lines):
            raise OSError(0, "the lines were written in part only")
        os.fsync(handle)
        whole = True
    finally:
        os.close(handle)
        if flags & os.O_EXCL and not whole:
            path.unlink(missing_ok=True)


def _open_ledger(path: Path, flags: int) -> int:
    try:
        return open_binary(path, flags)
    except FileNotFoundError as error:
        remedy = (
            "Name the ledger of the run that was stopped. A run that is stopped before it has spent anything "
            "keeps none: start it again without resuming."
        )
        raise InputError(invalid("ledger", "that of a run that was stopped", remedy)) from error
    except OSError as error:
        remedy = f"Name the ledger of the run that was stopped. The system says: {error.strerror}."
        raise InputError(invalid("ledger", "a file that can be written", remedy)) from error


def _damaged_error() -> InputError:
    return InputError(invalid("ledger", "an intact ledger file", FULLY_SPENT))
