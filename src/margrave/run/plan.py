"""Plan: what a run would do, said before anything is spent."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from margrave.html_card import html_card

MOST_NAMES, NAMES_SHOWN = 30, 3
"""Columns alike that a line of a printed plan names all; of more, so many are named."""


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
        sigma: Standard deviation of the noise, in rows, by what is measured; of tables that follow from noisy
            copies of rows it is for as many rows as `rows` says.
        error: Mean total variation that the noise alone adds to a measured table, by what is measured;
            empty when no row count was given.
        seconds: Expected time on one core, a low figure and "up to"; a time limit bounds the post-processing
            in it alone.
        memory: Expected peak memory, in MiB.
        limits: What the run was told to keep to, in words, by limit.
        public: What of the table is taken as public, in words.
        rows: How many rows time and memory are foretold for, and where the number comes from, in words.
        refused: Why a run would be refused before anything is spent; empty if it would start.
        warnings: What a run says before anything is spent: that it takes very long, or that its time limit
            leaves the model no step.
        epsilon: What the run would promise, as a number.
        need: What epsilon was found from, what that covers and what not; empty where it was given.
        odds: What somebody who attacks the release may find out at most, in words.
        copies: Of a method that releases a noisy copy of every row: `numbers` of a copy, indicators of codes,
            `sigma` of the noise in each of them, and `mu` of all copies together. Empty for other methods.
        otherwise: How rho is split where released tables decide so, and when that is; "" if they do not.
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
    warnings: tuple[str, ...] = ()
    epsilon: float = math.nan
    need: str = ""
    odds: str = ""
    copies: Mapping[str, float] = field(default_factory=dict)
    otherwise: str = ""

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
        lines = [f"method      {self.method}"]
        lines += [f"epsilon     {self.need}"] if self.need else []
        lines += [f"guarantee   {self.guarantee}"]
        lines += [f"odds        {self.odds}"] if self.odds else []
        lines += [f"public      {self.public}"]
        lines += [f"declared    {_fold_names(self.declared) or 'nothing'}"]
        lines += [f"discovered  {names}: {looks}" for names, looks in _fold(self.discovered)]
        lines += [f"rho share   {stage}: {share:.1%}" for stage, share in self.shares.items()]
        lines += [f"rho share   {self.otherwise}"] if self.otherwise else []
        if self.copies:
            copy = "noisy copy of every row: {numbers:,.0f} numbers, 0 or 1, each with sigma = {sigma:.2f}"
            lines += [f"noise       {copy.format(**self.copies)} (mu = {self.copies['mu']:.2f})"]
        lines += [
            f"noise       {what}: sigma = {value:.1f} rows a cell" for what, value in self.sigma.items()
        ]
        lines += [
            f"error       {what}: total variation {v:.4f} by noise alone, before the fit smooths it"
            for what, v in self.error.items()
        ]
        lines += [f"rows        {self.rows}"] if self.rows else []
        lines += [f"time        {say_span(self.seconds[0])} or more, up to {say_span(self.seconds[1])}"]
        lines += [f"memory      about {self.memory:,.0f} MiB"]
        lines += [f"limit       {name}: {words}" for name, words in self.limits.items()]
        lines += [f"REFUSED     {self.refused}"] if self.refused else []
        lines += [f"WARNING     {warning}" for warning in self.warnings]
        return "\n".join([*lines, "spent       nothing"])


def _fold(discovered: Mapping[str, str]) -> list[tuple[str, str]]:
    """Names of the columns of which the same is discovered, and what; in the order of the first of them."""
    groups: dict[str, list[str]] = {}
    for name, looks in discovered.items():
        groups.setdefault(looks, []).append(name)
    return [(_fold_names(names), looks) for looks, names in groups.items()]


def _fold_names(names: Sequence[str]) -> str:
    """Names in a line; of very many the first few."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_SHOWN])} and {len(names) - NAMES_SHOWN:,} more"


def say_span(seconds: float) -> str:
    """A time in two digits: seconds, minutes, hours or days."""
    for unit, length in (("days", 172_800.0), ("h", 7_200.0), ("min", 120.0)):
        if seconds >= length:
            whole = {"days": 86_400.0, "h": 3_600.0, "min": 60.0}[unit]
            return f"{seconds / whole:.0f} {unit}"
    return f"{seconds:.0f} s"
