"""Plan: what a run would do, said before anything is spent."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from margrave.html_card import html_card

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A dry run: nothing was spent, and no value of a row says anything here.

    Args:
        method: Name of the method.
        guarantee: What the release would promise, in words.
        rho: Total rho of the accountant.
        declared: Columns that cost nothing to know.
        discovered: What would be discovered, by column: the looks, in words.
        shares: How rho is split, by stage, as shares of 1.
        sigma: Standard deviation of the noise, in rows, by what is measured.
        error: Mean total variation that the noise alone adds to a measured table, by what is measured;
            empty when no row count was given.
        seconds: Expected time on one core, a low figure and "up to"; a time limit bounds the post-processing
            in it alone.
        memory: Expected peak memory, in MiB.
        limits: What the run was told to keep to, in words, by limit.
        public: What of the table is taken as public, in words.
        rows: How many rows time and memory are foretold for, and where the number comes from, in words.
        refused: Why a run would be refused before anything is spent; empty if it would start.
    """

    method: str
    guarantee: str
    rho: float
    declared: tuple[str, ...]
    discovered: Mapping[str, str]
    shares: Mapping[str, float]
    sigma: Mapping[str, float]
    error: Mapping[str, float]
    seconds: tuple[float, float]
    memory: float
    limits: Mapping[str, str] = field(default_factory=dict)
    public: str = "column names, their order and their storage types"
    rows: str = ""
    refused: str = ""

    def add_warning(self, warning: str) -> Plan:
        """The same plan with a warning about what is taken as public, where there is one."""
        return dataclasses.replace(self, public=f"{self.public} ({warning})") if warning else self

    def _repr_html_(self) -> str:
        """What a notebook shows: the lines of the plan as a table."""
        lines = [line.partition("  ") for line in str(self).splitlines()]
        facts = [(name.strip(), words.strip()) for name, _, words in lines]
        return html_card("Plan: nothing was spent", facts)

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        lines = [f"method      {self.method}", f"guarantee   {self.guarantee}"]
        lines += [f"public      {self.public}"]
        lines += [f"declared    {', '.join(self.declared) or 'nothing'}"]
        lines += [f"discovered  {name}: {looks}" for name, looks in self.discovered.items()]
        lines += [f"rho share   {stage}: {share:.1%}" for stage, share in self.shares.items()]
        lines += [
            f"noise       {what}: sigma = {value:.1f} rows a cell" for what, value in self.sigma.items()
        ]
        lines += [
            f"error       {what}: total variation {v:.4f} by noise alone, before the fit smooths it"
            for what, v in self.error.items()
        ]
        lines += [f"rows        {self.rows}"] if self.rows else []
        lines += [f"time        {_span(self.seconds[0])} or more, up to {_span(self.seconds[1])}"]
        lines += [f"memory      about {self.memory:,.0f} MiB"]
        lines += [f"limit       {name}: {words}" for name, words in self.limits.items()]
        lines += [f"REFUSED     {self.refused}"] if self.refused else []
        return "\n".join([*lines, "spent       nothing"])


def noise_error(cells: int, sigma: float, rows: float) -> float:
    """Total variation that noise alone adds to a table: cells * sigma * sqrt(2/pi) / (2 rows), at most 1."""
    return min(cells * sigma * math.sqrt(2 / math.pi) / (2 * rows), 1.0)


def _span(seconds: float) -> str:
    """A time in two digits: seconds, minutes, hours or days."""
    for unit, length in (("days", 172_800.0), ("h", 7_200.0), ("min", 120.0)):
        if seconds >= length:
            whole = {"days": 86_400.0, "h": 3_600.0, "min": 60.0}[unit]
            return f"{seconds / whole:.0f} {unit}"
    return f"{seconds:.0f} s"
