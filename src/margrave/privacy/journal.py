"""Journal: the ledger's file, one JSON line an event, on disk before the event is acted upon.

The first line is the header; each further line is one event. A line counts once it ends in a newline. A
torn last line is one whose write never finished: `Journal.append` did not return, so no noise was drawn
for it, and readers leave it out.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from margrave.errors import InputError, MargraveError, invalid
from margrave.privacy.event_json import event_from_json, event_to_json
from margrave.privacy.events import Event
from margrave.privacy.unit import Neighbours, Unit

__all__ = ["LEDGER_VERSION", "Journal", "LedgerHeader", "read_ledger"]

LEDGER_VERSION = 1


@dataclass(frozen=True, slots=True)
class LedgerHeader:
    """What a run promised, as its ledger file says first.

    Args:
        epsilon: Promised for the whole run.
        delta: Promised for the whole run.
        partition_delta: The part of delta kept for partition events.
        neighbours: Whom the promise protects.
        accounting: "zcdp" or "gdp".
        version: Version of the file's format.
    """

    epsilon: float
    delta: float
    partition_delta: Fraction
    neighbours: Neighbours
    accounting: str
    version: int = LEDGER_VERSION


class Journal:
    """A new ledger file, to which events are appended.

    Args:
        path: Where; must not exist.
        header: Its first line.

    Raises:
        InputError: The file exists or cannot be written.
    """

    __slots__ = ("_broken", "_path")

    def __init__(self, path: Path, header: LedgerHeader) -> None:
        self._path = path.absolute()
        self._broken = False
        try:
            _write(self._path, _line(_header_to_json(header)), os.O_CREAT | os.O_EXCL)
            _sync_folder(self._path.parent)
        except FileExistsError:
            remedy = "Move the old ledger away or choose another path; ledgers are never overwritten."
            raise InputError(invalid("ledger", "a file that does not exist yet", remedy)) from None
        except OSError as error:
            remedy = f"The system says: {error.strerror}."
            raise InputError(invalid("ledger", "a path that can be written", remedy)) from error

    def append(self, event: Event) -> None:
        """Write an event and wait until it is on disk.

        Raises:
            InputError: The file cannot be written. What it holds is then unknown: nothing more is accepted.
        """
        if self._broken:
            raise InputError(invalid("ledger", "intact", "An earlier write failed: start a new run."))
        line = _line(event_to_json(event))
        self._broken = True
        try:
            _write(self._path, line, 0)
        except OSError as error:
            remedy = f"Nothing was released for this spend. The system says: {error.strerror}."
            raise InputError(invalid("ledger", "a file that can be written", remedy)) from error
        self._broken = False


def read_ledger(path: str | Path) -> tuple[LedgerHeader, tuple[Event, ...]]:
    """The header and the events of a ledger file; a torn last line is left out.

    Raises:
        InputError: The file is missing, damaged before its last line, or of a newer version.
        UnsupportedEventError: It holds an event of a class this version does not know.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")[:-1]
    except OSError as error:
        remedy = f"The system says: {error.strerror}."
        raise InputError(invalid("ledger", "a file that can be read", remedy)) from error
    if not lines:
        raise _damaged()
    try:
        records = [json.loads(line) for line in lines]
        header = _header_from_json(records[0])
        return header, tuple(event_from_json(record) for record in records[1:])
    except MargraveError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        raise _damaged() from None


def _line(record: Mapping[str, object]) -> bytes:
    return json.dumps(record, allow_nan=False).encode("ascii") + b"\n"


def _write(path: Path, line: bytes, flags: int) -> None:
    """Append a line to a file and wait until it is on disk; a file that has vanished is noticed."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | flags, 0o600)
    try:
        if os.write(handle, line) != len(line):
            raise OSError(0, "the line was written in part only")
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Wait until a new file's name is on disk, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _header_to_json(header: LedgerHeader) -> dict[str, object]:
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
        },
        "accounting": header.accounting,
    }


def _header_from_json(record: dict[str, object]) -> LedgerHeader:
    """The header of a ledger file."""
    version = record["version"]
    if record["margrave"] != "ledger" or type(version) is not int:
        raise _damaged()
    if version > LEDGER_VERSION:
        raise InputError(invalid("ledger", "of a known version", "Update margrave.", got=version))
    who = record["neighbours"]
    if not isinstance(who, dict):
        raise _damaged()
    return LedgerHeader(
        epsilon=float(str(record["epsilon"])),
        delta=float(str(record["delta"])),
        partition_delta=Fraction(str(record["partition_delta"])),
        neighbours=Neighbours(Unit(who["owner"], who["max_rows"]), who["adjacency"]),
        accounting=str(record["accounting"]),
        version=version,
    )


def _damaged() -> InputError:
    return InputError(invalid("ledger", "an intact ledger file", "Restore it from a copy."))
