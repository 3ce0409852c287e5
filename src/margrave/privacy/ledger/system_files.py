"""What files of the ledger ask of the operating system: bytes as they are, a lock, a name on disk.

POSIX systems and Windows differ in all three: Windows turns line ends into two characters in files that are
not opened as binary, locks ranges of bytes instead of files, and cannot open a folder.
"""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]
try:
    import msvcrt
except ImportError:
    msvcrt = None  # type: ignore[assignment]


LOCKED_BYTE = 0x7FFFFFF0
"""Where Windows locks a byte: beyond the end of any ledger, since a locked byte cannot be written."""


def open_binary(path: str | Path, flags: int, mode: int = 0o600) -> int:
    """A file descriptor that reads and writes bytes as they are.

    Args:
        path: The file.
        flags: As for `os.open`.
        mode: The permissions of a new file.

    Raises:
        OSError: It cannot be opened.
    """
    return os.open(path, flags | getattr(os, "O_BINARY", 0), mode)


def take_lock(handle: int) -> None:
    """Lock an open file for this process alone, until the descriptor is closed.

    Args:
        handle: A file descriptor, open for writing.

    Raises:
        OSError: Another process has it.
    """
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    elif msvcrt is not None:  # type: ignore[unreachable]
        os.lseek(handle, LOCKED_BYTE, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    # A system with neither keeps two processes that resume one run apart by nothing.


def sync_folder(folder: Path) -> None:
    """Wait until a new file's name is on disk, where the system can."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
