"""Child: a process and its descendants, held to limits of time and memory, and killed with all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["Child", "Ended", "group_memory"]

How = Literal["exit", "time", "memory", "signal"]
EVERY = 0.1
"""Seconds between two looks at the memory."""
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended.

    Args:
        how: By itself ("exit"), past a limit ("time", "memory"), or by a signal that was not ours.
        code: Its exit code, or the number of the signal.
        wall: Seconds it ran.
        cpu: Processor seconds of it and of all descendants that it waited for.
        peak: Bytes of memory: the most that any one of its processes held at a time, or that all of them
            held at a look, whichever is more.
    """

    how: How
    code: int
    wall: float
    cpu: float
    peak: int


class Child:
    """A process at the head of a group of its own, watched by calls of `poll`.

    Memory is what the group's processes hold in all (resident set; pages that two of them share count
    twice), looked at every tenth of a second: what comes and goes between two looks is not seen. A limit on
    the address space would be met by what is only reserved, which compiled code does in gigabytes.

    Args:
        command: The program and its arguments.
        env: Its environment.
        max_seconds: Most seconds; None for no limit.
        max_bytes: Most memory; None for no limit.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        max_seconds: float | None = None,
        max_bytes: int | None = None,
    ) -> None:
        self._limits = (max_seconds, max_bytes)
        self._began = time.monotonic()
        self._looked, self._peak = 0.0, 0
        quiet = subprocess.DEVNULL  # what a method prints may quote rows
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter
            list(command), env=dict(env), stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
        )

    @property
    def pid(self) -> int:
        """The number of the process and of its group."""
        return self._process.pid

    def poll(self) -> Ended | None:
        """How it ended; None while it runs within its limits. One past a limit is killed first."""
        ended = self._reap(os.WNOHANG)
        if ended is not None:
            return ended
        over = self._over()
        return None if over is None else self.kill(over)

    def kill(self, how: How = "signal") -> Ended:
        """Kill the whole group and wait for the process."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        ended = self._reap(0)
        assert ended is not None  # noqa: S101 - it was waited for
        return Ended(how, ended.code, ended.wall, ended.cpu, ended.peak)

    def _over(self) -> How | None:
        max_seconds, max_bytes = self._limits
        now = time.monotonic()
        if max_seconds is not None and now - self._began > max_seconds:
            return "time"
        if now - self._looked < EVERY:
            return None
        self._looked = now
        held = group_memory(self.pid)
        self._peak = max(self._peak, held)
        return "memory" if max_bytes is not None and held > max_bytes else None

    def _reap(self, flags: int) -> Ended | None:
        pid, status, used = os.wait4(self.pid, flags)
        if pid == 0:
            return None
        wall = time.monotonic() - self._began
        code = os.waitstatus_to_exitcode(status)
        self._process.returncode = code  # so that Popen does not wait for it again
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what it may have left behind
        unit = 1 if sys.platform == "darwin" else 1024
        peak = max(self._peak, used.ru_maxrss * unit)
        return Ended("exit" if code >= 0 else "signal", abs(code), wall, used.ru_utime + used.ru_stime, peak)


def group_memory(group: int) -> int:
    """Bytes of memory that the processes of a group hold in all; 0 when there are none."""
    return _from_proc(group) if (PROC / "self" / "stat").exists() else _from_ps(group)


def _from_proc(group: int) -> int:
    pages = 0
    for entry in os.scandir(PROC):
        if not entry.name.isdigit():
            continue
        try:
            text = (PROC / entry.name / "stat").read_text(encoding="ascii", errors="replace")
        except OSError:
            continue  # it has ended since
        # The name in brackets may hold blanks and brackets: fields are counted from its end.
        fields = text.rpartition(")")[2].split()
        if int(fields[2]) == group:
            pages += int(fields[21])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _from_ps(group: int) -> int:
    done = subprocess.run(["/bin/ps", "-axo", "pgid=,rss="], capture_output=True, text=True, check=False)
    lines = [line.split() for line in done.stdout.splitlines()]
    return 1024 * sum(int(line[1]) for line in lines if len(line) == 2 and line[0] == str(group))
