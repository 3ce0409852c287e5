"""Limits: how much memory and time a run may take, and the clock that a time limit starts."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from decimal import Decimal

from margrave.errors import InputError, invalid

__all__ = ["FULL", "Deadline", "Effort", "Limits", "bytes_of"]


class Deadline:
    """A moment on the monotonic clock, some seconds from when it is made.

    Example:
        >>> Deadline(0.0).passed, Deadline(60.0).passed
        (True, False)
    """

    __slots__ = ("_end",)

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then, below 0 afterwards."""
        return self._end - time.monotonic()

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

    A run that meets its time limit ends early but complete: all of the budget is spent and the guarantee is
    exact. Time then decides what is measured, and it depends on the machine, on earlier releases and a
    little on the table: the time a run takes is a side channel, as for any program that reads private data.
    The memory limit is on the fitted model and what works on it, beside a fixed share for the program. The
    loaded table is not counted, since a limit that knew its size would tell about the rows.

    Args:
        max_memory: Bytes.
        max_seconds: Seconds from the start of the run.

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
        units = {"memory": "{:,.0f} MB for the model", "time": "{:g} s, then it ends early but complete"}
        scale = {"memory": 1e-6, "time": 1.0}
        return {name: units[name].format(value * scale[name]) for name, value in named.items() if value}

    def start(self) -> Deadline | None:
        """The deadline of a run that starts now."""
        return None if self.max_seconds is None else Deadline(self.max_seconds)


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
