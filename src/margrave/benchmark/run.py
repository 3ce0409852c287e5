"""run_grid: every cell of a grid that is not done yet, in processes of their own. **Not private.**

`Child` is a process with its descendants, held to limits of time and memory, and killed with all of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from margrave.benchmark.grid import Cell, Grid
from margrave.benchmark.methods import environment
from margrave.benchmark.results import THREADS, Store, machine_facts, versions
from margrave.errors import InputError, MargraveError, invalid

How = Literal["exit", "time", "memory", "signal"]
POLL_SECONDS = 0.1
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
        if now - self._looked < POLL_SECONDS:
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


FAILURES = ("error", "time", "memory", "killed")
"""How a cell can fail: by an error of its own, past a limit, or by a signal from outside."""
PAUSE = 0.02
"""Seconds between two looks at the running cells."""

OnCell = Callable[[Cell, Mapping[str, Any], int, int], None]
"""Told of a cell, its outcome, how many are done and how many there are to do."""


def _silent(cell: Cell, outcome: Mapping[str, Any], done: int, todo: int) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class _Running:
    cell: Cell
    child: Child
    folder: Path


def run_grid(
    grid: Grid,
    out: Path,
    *,
    workers: int = 1,
    retry: Sequence[str] = (),
    environments: Path | None = None,
    on_cell: OnCell = _silent,
) -> tuple[int, int]:
    """Run the cells that the folder has no outcome of, and write results.parquet.

    Killed at any moment, the same call goes on: a finished cell is not run again.

    Args:
        grid: What to run.
        out: The folder of the benchmark.
        workers: Cells at a time. With more than one they share the machine, and their seconds tell little.
        retry: Run cells anew that ended in one of these ways, see `FAILURES`; "failed" is all of them.
        environments: Where peers are installed; `out`/.environments by default.
        on_cell: Told of each cell that ends.

    Returns:
        How many cells were run, and how many of all the grid's cells have failed.

    Raises:
        InputError: The folder cannot be used, or the system has no groups of processes to hold to limits.
    """
    if not hasattr(os, "killpg"):
        remedy = "Every cell runs in a group of processes with limits, which Windows does not have."
        raise InputError(invalid("bench", "run on Linux or macOS", remedy))
    store = Store(out)
    # Two runs in one folder would do the same cells twice, and overwrite each other's.
    with store.lock_folder() as work:
        store.declare(grid)
        states, todo = _list_due(grid, store, retry)
        pythons = _make_environments(todo, environments or out / ".environments")
        try:
            for done, (cell, outcome) in enumerate(_run_cells(todo, grid, pythons, work, workers), start=1):
                store.put(cell, outcome)
                states[cell.key] = str(outcome["status"])
                on_cell(cell, outcome, done, len(todo))
        finally:
            store.compact()
    return len(todo), sum(state in FAILURES for state in states.values())


def _list_due(grid: Grid, store: Store, retry: Sequence[str]) -> tuple[dict[str, str | None], list[Cell]]:
    """How each cell ended, None where it did not run yet, and the cells to run."""
    again = set(FAILURES) if "failed" in retry else set(retry)
    cells = {cell.key: cell for cell in grid.cells()}
    held = store.outcomes()
    states = {key: str(held[key]["status"]) if key in held else None for key in cells}
    return states, [cells[key] for key, state in states.items() if state is None or state in again]


def _make_environments(cells: Sequence[Cell], folder: Path) -> dict[str, Path | str]:
    """The interpreter of each peer among the cells, or why there is none: outside every limit and clock."""
    found: dict[str, Path | str] = {}
    for method in {cell.method.name: cell.method for cell in cells}.values():
        if method.kind == "peer":
            try:
                found[method.name] = environment(method, folder)
            except (MargraveError, OSError) as error:
                known = isinstance(error, MargraveError)
                found[method.name] = str(error) if known else f"its environment: {type(error).__name__}"
    return found


def _run_cells(
    todo: Sequence[Cell], grid: Grid, pythons: Mapping[str, Path | str], work: Path, workers: int
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Cells as they end, at most so many at a time; all are killed when the caller stops."""
    if workers < 1:
        raise InputError(invalid("workers", "at least 1", "Try 1.", got=workers))
    # From the end, as a list gives up its last element at once: cells come in the order of the grid.
    waiting, running = list(reversed(todo)), list[_Running]()
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                cell = waiting.pop()
                python = pythons.get(cell.method.name)
                if isinstance(python, str):
                    ended = {"status": "error", "stage": "environment", "reason": python}
                    yield cell, _describe_cell(cell, grid, workers) | ended
                    continue
                running.append(_start(cell, grid, python, work))
            time.sleep(PAUSE)
            for one in list(running):
                ended_so = one.child.poll()
                if ended_so is not None:
                    running.remove(one)
                    outcome = _describe_cell(one.cell, grid, workers) | _describe_outcome(
                        one.folder, ended_so, grid
                    )
                    shutil.rmtree(one.folder, ignore_errors=True)
                    yield one.cell, outcome
    finally:
        for one in running:
            one.child.kill()


def _start(cell: Cell, grid: Grid, python: Path | None, work: Path) -> _Running:
    folder = work / cell.key
    folder.mkdir()
    request = {
        "table": cell.table.to_json(),
        "method": cell.method.to_json(),
        "epsilon": cell.epsilon,
        "repeat": cell.repeat,
        "python": None if python is None else str(python.absolute()),
        **grid.settings(),
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    command = [sys.executable, "-m", "margrave.benchmark.cell", str(folder.absolute()), str(os.getpid())]
    # One thread each: cells that run side by side would otherwise slow each other down, and seconds could
    # not be compared.
    env = os.environ | dict.fromkeys(THREADS, "1")
    return _Running(cell, Child(command, env, grid.limits.max_seconds, grid.limits.max_memory), folder)


def _describe_cell(cell: Cell, grid: Grid, workers: int) -> dict[str, Any]:
    """What is known of a cell before it runs."""
    return {
        "data": cell.table.name,
        "method": cell.method.name,
        "kind": cell.method.kind,
        "epsilon": cell.epsilon,
        "repeat": cell.repeat,
        "delta": grid.delta,
        "share": grid.share,
        "seed": grid.seed,
        "workers": workers,
        "max_seconds": grid.limits.max_seconds,
        "max_bytes": grid.limits.max_memory,
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
        "versions": versions(),
        "machine": machine_facts(),
    }


def _describe_outcome(folder: Path, ended: Ended, grid: Grid) -> dict[str, Any]:
    """What a cell left behind and how it ended, as one outcome."""
    measured = {"wall_seconds": ended.wall, "cpu_seconds": ended.cpu, "peak_bytes": ended.peak}
    try:
        stage = (folder / "stage").read_text(encoding="ascii")
    except OSError:
        stage = "start"
    left = folder / "outcome.json"
    if ended.how == "exit" and ended.code == 0 and left.exists():
        return measured | _check_answer(json.loads(left.read_text(encoding="utf-8")), stage)
    # Why it ended is told from how the process ended: what a cell printed may quote the table, and is not
    # kept.
    reasons = {
        "time": f"over {grid.limits.max_seconds or 0:g} s",
        "memory": f"over {(grid.limits.max_memory or 0) / 1e6:,.0f} MB",
        "signal": f"ended by signal {ended.code}",
        "exit": f"ended with exit code {ended.code}",
    }
    status = {"signal": "killed", "exit": "error"}.get(ended.how, ended.how)
    return measured | {"status": status, "stage": stage, "reason": reasons[ended.how]}


def _check_answer(said: Mapping[str, Any], stage: str) -> dict[str, Any]:
    if said["status"] != "done":
        return {"status": said["status"], "stage": stage, "reason": said["reason"]}
    return {
        "status": "done",
        "scores": said["scores"],
        "notes": said["notes"],
        **{f"{name}_seconds": value for name, value in said["seconds"].items()},
        **{f"{name}_rows": value for name, value in said["rows"].items()},
        "columns": said["columns"],
        "synthesis_peak_bytes": said["peak"],
        "synthesis_cpu_seconds": said["cpu"],
        **({"versions": versions() | said["versions"]} if said["versions"] else {}),
    }
