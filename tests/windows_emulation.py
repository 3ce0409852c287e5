"""A Python that lacks what Windows lacks and minds what Windows minds, for a process of its own.

Run as `python windows_emulation.py ARGUMENTS`: it takes away modules and functions, puts stricter ones in
place, and then is `margrave ARGUMENTS`. What it emulates:

- there is no fcntl, resource, pwd, grp or termios, and the os module has no calls about groups of processes;
- `os.open` without O_BINARY gives a descriptor that turns line ends into two characters;
- `os.fsync` refuses a descriptor that cannot be written, and a folder cannot be opened;
- a file that is open cannot be replaced, renamed or removed;
- a lock is one on a byte, by msvcrt, which nobody else can write while it is held.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import importlib.abc
import os
import sys
import types
from pathlib import Path
from typing import Any

MISSING = ("fcntl", "resource", "pwd", "grp", "termios")
GONE = (
    "killpg",
    "getpgrp",
    "setsid",
    "fork",
    "wait4",
    "sched_getaffinity",
    "geteuid",
    "getuid",
    "O_DIRECTORY",
)
O_BINARY = 1 << 28
OURS = str(Path(__file__).parents[1] / "src" / "margrave")

real_open, real_write, real_fsync = os.open, os.write, os.fsync
translated: set[int] = set()


class Absent(importlib.abc.MetaPathFinder):
    """Finds nothing, and says so, for modules that Windows does not have."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def open_as_text(path: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
    if os.path.isdir(path) and str(sys._getframe(1).f_code.co_filename).startswith(OURS):
        raise PermissionError(errno.EACCES, "a folder cannot be opened", str(path))
    handle = real_open(path, flags & ~O_BINARY, mode, **more)
    translated.discard(handle)
    if not flags & O_BINARY:
        translated.add(handle)
    return handle


def write_as_text(handle: int, data: Any) -> int:
    if handle in translated and str(sys._getframe(1).f_code.co_filename).startswith(OURS):
        real_write(handle, bytes(data).replace(b"\n", b"\r\n"))
        return len(data)
    return real_write(handle, data)


def sync_what_can_be_written(handle: Any) -> None:
    descriptor = handle if isinstance(handle, int) else handle.fileno()
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "Bad file descriptor")
    real_fsync(descriptor)


def is_open(path: Any) -> bool:
    """Whether this process has a file open."""
    wanted = os.path.realpath(path)
    return any(os.path.realpath(entry) == wanted for entry in Path("/proc/self/fd").iterdir())


def closed_only(function: Any) -> Any:
    def checked(*paths: Any, **more: Any) -> Any:
        for path in paths:
            if is_open(path):
                raise PermissionError(errno.EACCES, "it is being used by another process", str(path))
        return function(*paths, **more)

    return checked


def locking(handle: int, mode: int, count: int) -> None:
    at = os.lseek(handle, 0, os.SEEK_CUR)
    if at < os.fstat(handle).st_size:
        raise AssertionError("a locked byte inside the file could not be written any more")
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def emulate() -> None:
    """Make this process one on Windows, as far as the docstring above says."""
    for name in MISSING:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Absent())
    for name in GONE:
        if hasattr(os, name):
            delattr(os, name)
    msvcrt: Any = types.ModuleType("msvcrt")
    msvcrt.locking, msvcrt.LK_NBLCK = locking, 2
    sys.modules["msvcrt"] = msvcrt
    module: Any = os
    module.O_BINARY = O_BINARY
    module.open, module.write, module.fsync = open_as_text, write_as_text, sync_what_can_be_written
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(module, name, closed_only(getattr(os, name)))


if __name__ == "__main__":
    import subprocess  # noqa: F401 - it imports the modules that it needs while they are there

    emulate()
    builtins.__dict__.setdefault("WindowsError", OSError)
    from margrave.cli.app import main

    main()
