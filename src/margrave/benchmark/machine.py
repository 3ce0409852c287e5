"""Facts about a run: versions, the machine, the commit of the code. Public."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from margrave import __version__

__all__ = ["THREADS", "machine_facts", "versions"]

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
    commit = _commit()
    return found | ({"commit": commit} if commit else {})


@functools.cache
def machine_facts() -> dict[str, Any]:
    """The processor, its cores that we may use, the memory in bytes and the system."""
    return {
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model"):
            return value.strip()
    return _said(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]) or platform.machine()


def _memory() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _commit() -> str:
    """The commit of the code that runs, with + where it was changed since; empty outside its repository."""
    here = Path(__file__).resolve().parents[1]
    git = ["git", "-C", str(here)]
    if not _said([*git, "ls-files", "--error-unmatch", "__init__.py"]):
        return ""  # installed somewhere inside another repository
    head = _said([*git, "rev-parse", "--short=12", "HEAD"])
    changed = _said([*git, "status", "--porcelain", "--", str(here)])
    return head + ("+" if head and changed else "")


def _said(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            list(command), capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
