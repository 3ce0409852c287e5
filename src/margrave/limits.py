"""Limits: how much memory, time and cores a run may take, and the stopwatch that a time limit is read from.

The linear algebra library is kept to one thread, because more make our many small products slower, not
faster. A BLAS thread that waits for another spins. On a machine with other work the products of a mixture
took 13 times as long with two threads as with one (bench/LOG.md), and a machine with many cores would start
them all.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path

from threadpoolctl import ThreadpoolController

from margrave.errors import InputError, invalid

GROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where Linux says how much memory a container may take."""


A_QUESTION, A_TABLE, CELL_SECONDS = 1e-3, 4e-5, 6e-8
"""Seconds for a record on disk, for each table and for each of their cells, counting left out: on 200 and 400
columns of `bench/runs/wide.py` a table takes 2.2e-5 to 5.1e-5 (bench/LOG.md, 2026-11-24)."""


class Stopwatch:
    """Counts the seconds that pass while it runs; it runs from when it is made, except inside `pause`.

    A curator keeps one and stops it in each of its verbs, so that what it counts is time spent on
    released numbers only, however long the private table took to answer. It counts whole nanoseconds: a
    difference of floats would be rounded differently after a long stop than after a short one.

    Example:
        >>> stopwatch = Stopwatch()
        >>> with stopwatch.pause():
        ...     before = stopwatch.elapsed
        ...     before == stopwatch.elapsed
        True
    """

    __slots__ = ("_counted", "_started", "_stops")

    def __init__(self) -> None:
        self._counted = 0  # nanoseconds before the last start
        self._stops = 0  # how many `with` blocks it stands still in
        self._started = time.monotonic_ns()

    @property
    def elapsed(self) -> float:
        """Seconds counted so far."""
        return self._nanoseconds() * 1e-9

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Stand still in a `with` block, which may hold others."""
        self._counted = self._nanoseconds()
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            self._started = time.monotonic_ns()

    def add(self, seconds: float) -> None:
        """Count some seconds at once: a public price for what it stood still for."""
        self._counted += round(seconds * 1e9)

    def _nanoseconds(self) -> int:
        return self._counted + (0 if self._stops else time.monotonic_ns() - self._started)

    def __repr__(self) -> str:
        return f"Stopwatch({self.elapsed:.3g})"


def price_question(tables: float, cells: float) -> float:
    """Seconds that a question to the private table counts for on a stopwatch that stands still meanwhile.

    What writing it down, drawing its noise and holding expected tables against counts take, about. It follows
    from the number of tables and of their cells, which are public, and from nothing that was measured.
    """
    return A_QUESTION + A_TABLE * tables + CELL_SECONDS * cells


class Deadline:
    """A reading of a stopwatch that has not come yet, or has.

    Args:
        seconds: How many more the stopwatch has to count until then.
        stopwatch: The curator's, for whoever asks a curator; by default one that never stops.

    Example:
        >>> Deadline(0.0).passed, Deadline(60.0).passed
        (True, False)
    """

    __slots__ = ("_end", "_stopwatch")

    def __init__(self, seconds: float, stopwatch: Stopwatch | None = None) -> None:
        self._stopwatch = Stopwatch() if stopwatch is None else stopwatch
        self._end = self._stopwatch.elapsed + seconds

    @property
    def left(self) -> float:
        """Seconds until then, below 0 afterwards; the same as long as the stopwatch stands still."""
        return self._end - self._stopwatch.elapsed

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.left <= 0.0

    def __repr__(self) -> str:
        return f"Deadline({self.left:.3g})"


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard one fit should try.

    Args:
        rough: Only as precise as the next choice of an adaptive strategy needs.
        deadline: When to stop and return the best so far.
    """

    rough: bool = False
    deadline: Deadline | None = None

    @property
    def over(self) -> bool:
        """Whether the deadline has passed; never without one."""
        return self.deadline is not None and self.deadline.passed


FULL = Effort()
"""To the fitter's own tolerance, however long it takes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may take.

    The time limit is on post-processing alone: selection and fits, which work on released numbers. It starts
    with the strategy, and stands still while the private table is asked (`Curator`), but for a fixed price of
    each question, which follows from the number and the size of its tables alone (`price_question`); reading,
    discovery and counting come on top. A run that meets it ends early but complete: all of rho is spent.
    What is asked then follows from earlier releases and from how long the machine worked on those. The
    guarantee rests on the second telling nothing more about the rows, which no program can promise
    altogether: docs/privacy/limits.md says what remains.
    The memory limit is on the fitted model and what works on it, beside a fixed share for the program. The
    loaded table is not counted, since a limit that knew its size would tell about the rows.

    Args:
        max_memory: Bytes.
        max_seconds: Seconds of post-processing, from the start of the strategy.

    Raises:
        InputError: A limit is not above 0.
    """

    max_memory: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.max_memory is not None and not self.max_memory > 0:
            raise InputError(invalid("max_memory", "above 0", "Give bytes.", got=self.max_memory))
        seconds = self.max_seconds
        if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
            raise InputError(
                invalid("max_seconds", "a finite number above 0", "Leave it out for no limit.", got=seconds)
            )

    def words(self) -> dict[str, str]:
        """The limits there are, by name."""
        named = {"memory": self.max_memory, "time": self.max_seconds}
        time_words = (
            "{:g} s of post-processing, then it ends early but complete; reading and counting are extra"
        )
        units = {"memory": "{:,.0f} MB for the model", "time": time_words}
        scale = {"memory": 1e-6, "time": 1.0}
        return {name: units[name].format(value * scale[name]) for name, value in named.items() if value}

    def start(self, stopwatch: Stopwatch) -> Deadline | None:
        """The deadline of a strategy that starts now, on the stopwatch of the curator it asks."""
        return None if self.max_seconds is None else Deadline(self.max_seconds, stopwatch)


def bytes_of(text: str) -> int:
    """A number of bytes from words like 800MB or 4GiB: kB, MB, GB, TB are powers of 1000, KiB to TiB of 1024.

    Raises:
        InputError: It is nothing of the kind, or not above 0.

    Example:
        >>> bytes_of("4GB"), bytes_of("1.5 GiB"), bytes_of("2048")
        (4000000000, 1610612736, 2048)
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgt])(i?)b?|b)?", text.strip(), re.IGNORECASE)
    size = 0
    if found is not None:
        power = "kmgt".index(found[2].lower()) + 1 if found[2] else 0
        size = int(Decimal(found[1]) * (1024 if found[3] else 1000) ** power)
    if size < 1:
        raise InputError(invalid("max_memory", "a size like 800MB or 4GB", "Give one.", got=text))
    return size


def machine_memory() -> int | None:
    """Bytes of memory that this machine, or the container that the program runs in, has; None if unknown.

    What is free of it at the moment is left out: that may follow from how large a table has been loaded.
    """
    found = []
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # A container may have less than the machine; where neither says, there is no limit to tell.
    for name in GROUP_LIMITS:
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        found += [int(text)] if text.isdigit() else []
    return min((size for size in found if size > 0), default=None)


def count_cores() -> int:
    """Processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _libraries() -> ThreadpoolController:
    """The libraries loaded so far, found once: looking for them takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let BLAS use one thread inside the block, and what it used before afterwards."""
    with _libraries().limit(limits=1, user_api="blas"):
        yield
