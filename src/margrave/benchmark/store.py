"""Store: the folder of a benchmark. **Not private**: it holds exact scores of private rows.

    benchmark.json     what all its cells share, and a fingerprint of each entry
    cells/KEY.json     the outcome of one finished cell; it appears whole or not at all
    results.parquet    all outcomes, one row a cell, sorted by key; it is enough to go on from

A folder holds one benchmark: another seed, delta, share or set of metrics, or an entry that changed, needs
another folder, so that figures which look alike are alike. Entries, epsilons and repeats can be added.

It also has the facts about a run, which are public: versions, the machine, the commit of the code.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from margrave import __version__
from margrave.benchmark.datasets import TableEntry
from margrave.benchmark.grid import Cell, Grid, check_halves
from margrave.benchmark.methods import MethodEntry
from margrave.benchmark.results import read_results, write_results
from margrave.errors import InputError, invalid
from margrave.files import write_text
from margrave.limits import count_cores
from margrave.privacy.ledger.system_files import take_lock

FORMAT = 1


class Store:
    """The folder of a benchmark.

    Args:
        folder: Made if need be.

    Raises:
        InputError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.cells.mkdir(parents=True, exist_ok=True)
        except OSError:
            raise InputError(
                invalid("out", "a folder that can be made", "Pick another.", got=str(folder))
            ) from None

    @property
    def cells(self) -> Path:
        """Where the outcomes lie."""
        return self.folder / "cells"

    @property
    def results(self) -> Path:
        """The outcomes as Parquet."""
        return self.folder / "results.parquet"

    @contextmanager
    def lock_folder(self) -> Iterator[Path]:
        """Nobody else works in the folder; gives a place for files that last no longer.

        Raises:
            InputError: Another run is at work in it.
        """
        with (self.folder / ".lock").open("w", encoding="ascii") as handle:
            try:
                take_lock(handle.fileno())
            except OSError:
                remedy = "Wait for the other run, or pick another folder."
                raise InputError(invalid("out", "a folder no other run works in", remedy)) from None
            work = self.folder / ".work"
            shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
            work.mkdir()
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)

    def declare(self, grid: Grid) -> None:
        """Write down what the grid's cells share, or see that the folder says the same.

        Raises:
            InputError: The folder holds another benchmark.
        """
        path = self.folder / "benchmark.json"
        fresh: dict[str, Any] = {
            "format": FORMAT,
            "settings": grid.settings(),
            "data": {table.name: _describe_entry(table) | _nursery_half(table) for table in grid.tables},
            "methods": {method.name: _describe_entry(method) for method in grid.methods},
        }
        held = self._read_existing(path)
        if held is not None:
            _check_same(held, fresh)
            fresh["data"] = held["data"] | fresh["data"]
            fresh["methods"] = held["methods"] | fresh["methods"]
            check_halves([entry.get("half", "") for entry in fresh["data"].values()], "out")
        text = json.dumps(fresh, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        if held is None or path.read_text(encoding="utf-8") != text:
            write_text(path, text)

    def _read_existing(self, path: Path) -> dict[str, Any] | None:
        if not path.exists():
            return None
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            held = {}
        if not isinstance(held, dict) or held.get("format") != FORMAT:
            raise InputError(
                invalid("out", "a folder of this version", "Pick another.", got=str(self.folder))
            )
        return held

    def outcomes(self) -> dict[str, dict[str, Any]]:
        """Every outcome by key: of the cells' files, and of results.parquet where a file is gone.

        Raises:
            InputError: results.parquet is none, or a file of a cell is torn.
        """
        held = read_results(self.results) if self.results.exists() else []
        found = {str(one["key"]): one for one in held}
        for path in sorted(self.cells.glob("*.json")):
            if not path.name.startswith("."):  # half written by a run that was killed
                one = _read_outcome(path)
                found[str(one["key"])] = one
        return found

    def put(self, cell: Cell, outcome: Mapping[str, Any]) -> None:
        """Keep the outcome of a cell: it appears whole or not at all."""
        text = json.dumps({"key": cell.key, **outcome}, indent=1, sort_keys=True) + "\n"
        write_text(self.cells / f"{cell.key}.json", text)

    def compact(self) -> None:
        """Write all outcomes as Parquet; a file that holds the same is left as it is."""
        write_results(list(self.outcomes().values()), self.results)


def _read_outcome(path: Path) -> dict[str, Any]:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        held = None
    if not isinstance(held, dict) or "key" not in held or "status" not in held:
        raise InputError(invalid(f"cells/{path.name}", "an outcome", "Delete it and run again."))
    return held


def _describe_entry(entry: TableEntry | MethodEntry) -> dict[str, str]:
    """A fingerprint of an entry, and what it is for those who read the results; no path."""
    if isinstance(entry, TableEntry):
        return {"digest": entry.digest, "title": entry.title, "source": entry.source}
    return {"digest": entry.digest, "title": entry.summary, "source": ""}


def _nursery_half(table: TableEntry) -> dict[str, str]:
    """The half of the nursery that a table is in, if it is in one."""
    return {"half": table.half} if table.half else {}


def _check_same(held: Mapping[str, Any], fresh: Mapping[str, Any]) -> None:
    for key, value in fresh["settings"].items():
        if held["settings"].get(key) != value:
            remedy = "Say the same, or pick another --out."
            raise InputError(invalid(key, "that of the folder's benchmark", remedy, got=value))
    for key in ("data", "methods"):
        for name in set(held[key]) & set(fresh[key]):
            if held[key][name]["digest"] != fresh[key][name]["digest"]:
                remedy = "It has changed since: give it another name, or pick another --out."
                raise InputError(invalid(f"{key} {name}", "the one in the folder's benchmark", remedy))


PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "pyarrow",
    "duckdb",
    "scikit-learn",
    "catboost",
    "xgboost",
    "xgboost-cpu",
    "torch",
)
THREADS = (
    *(f"{name}_NUM_THREADS" for name in ("MKL", "NUMBA", "NUMEXPR", "OMP", "OPENBLAS", "RAYON")),
    *("POLARS_MAX_THREADS", "VECLIB_MAXIMUM_THREADS"),
)
"""What of the environment says how many threads libraries take."""


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Python, margrave and what it works with, where it is installed."""
    found = {"python": platform.python_version(), "margrave": __version__}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    commit = _find_commit()
    return found | ({"commit": commit} if commit else {})


@functools.cache
def machine_facts() -> dict[str, Any]:
    """The processor, its cores that we may use, the memory in bytes and the system."""
    return {
        "cpu": _processor_name(),
        "cores": count_cores(),
        "memory": _memory_bytes(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model"):
            return value.strip()
    return _ask_program(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]) or platform.machine()


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _find_commit() -> str:
    """The commit of the code that runs, with + where it was changed since; empty outside its repository."""
    here = Path(__file__).resolve().parents[1]
    git = ["git", "-C", str(here)]
    if not _ask_program([*git, "ls-files", "--error-unmatch", "__init__.py"]):
        return ""  # installed somewhere inside another repository
    head = _ask_program([*git, "rev-parse", "--short=12", "HEAD"])
    changed = _ask_program([*git, "status", "--porcelain", "--", str(here)])
    return head + ("+" if head and changed else "")


def _ask_program(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            list(command), capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
