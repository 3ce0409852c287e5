"""Attacks whose success is a risk: inference of an attribute, linkage, and membership. **Not private**.

`AttributeInference` asks what an attacker learns of one column of people whose other columns are known,
`Linkability` whether synthetic rows tell which two halves of records belong to one person, and
`MembershipInference` whether these very rows were in the table that the synthetic rows were made from.

`Risk` says how much more often an attack succeeds on the rows of a table than on rows that are not in it,
`Closeness` how far rows of mixed columns are from each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from margrave.evaluation.metrics.efficiency import sample_rows
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

LEVEL = 0.95
"""Confidence of the intervals, as in Giomi et al. 2023."""


def wilson(hits: float, tries: int, level: float = LEVEL) -> tuple[float, float]:
    """The middle of the score interval of a rate, and half its width (Wilson 1927).

    Args:
        hits: Successes; expected ones need not be whole.
        tries: One or more.
        level: Of the interval, in (0, 1).
    """
    z = float(norm.isf((1 - level) / 2))
    middle = (hits + z * z / 2) / (tries + z * z)
    half = z / (tries + z * z) * math.sqrt(hits * (tries - hits) / tries + z * z / 4)
    return middle, half


@dataclass(frozen=True, slots=True)
class Risk:
    """The share of what an attacker could still gain over the control that it gains (Giomi et al. 2023).

    risk = (attack rate - control rate) / (1 - control rate), both rates the middles of their Wilson
    intervals, and its error propagated from theirs, as the package Anonymeter does. What is learned about
    people in general succeeds on the control rows as well, and is no risk.

    Args:
        hits: Successes on rows of the table.
        tries: Attacks on them.
        control_hits: Successes on rows that nothing was made from.
        control_tries: Attacks on those.
        level: Of the interval.
    """

    hits: float
    tries: int
    control_hits: float
    control_tries: int
    level: float = LEVEL

    @property
    def value(self) -> float:
        """The risk, 0 where the control does no worse."""
        return min(max(self._centre, 0.0), 1.0)

    @property
    def interval(self) -> tuple[float, float]:
        """Limits of the confidence interval, within 0 and 1."""
        attack, wide = wilson(self.hits, self.tries, self.level)
        control, control_wide = wilson(self.control_hits, self.control_tries, self.level)
        half = math.hypot(wide / (1 - control), control_wide * (1 - attack) / (1 - control) ** 2)
        low, high = (min(max(self._centre + side * half, 0.0), 1.0) for side in (-1, 1))
        return low, high

    @property
    def _centre(self) -> float:
        attack, _ = wilson(self.hits, self.tries, self.level)
        control, _ = wilson(self.control_hits, self.control_tries, self.level)
        return (attack - control) / (1 - control)

    def parts(self) -> dict[str, float]:
        """Both rates and the interval, for the parts of a score."""
        low, high = self.interval
        return {
            "attack rate": self.hits / self.tries,
            "control rate": self.control_hits / self.control_tries,
            "risk at least": low,
            "risk at most": high,
        }


BLOCK = 1 << 24
"""Distances that are held at a time: 64 MiB in single precision."""
Matrix = NDArray[np.float32]


@final
class Closeness:
    """Gower's distance of rows: the mean over columns of how much two values differ, from 0 to 1.

    Numbers differ by their distance over the range of the synthetic rows, 1 at most, other values by
    0 or 1. A missing number differs from a number by 1 and from another missing one by 0 (Gower 1971).

    Args:
        rows: The rows that distances are taken to.
        numeric: Columns with raw numbers.
        names: All columns that count.
    """

    def __init__(self, rows: Rows, numeric: Sequence[str], names: Sequence[str]) -> None:
        self._rows, self._names, self._numeric = rows, tuple(names), frozenset(numeric)
        self._ranges: dict[str, tuple[float, float]] = {}
        for name in self._names:
            if name in self._numeric:
                known = rows.numbers[name][~np.isnan(rows.numbers[name])]
                low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
                self._ranges[name] = (low, (high - low) or 1.0)

    def blocks(self, asked: Rows) -> Iterator[Matrix]:
        """Distances of some of the asked rows after the others to all rows: each [some, rows]."""
        step = max(1, BLOCK // max(self._rows.size, 1))
        for start in range(0, asked.size, step):
            yield self._distances(asked.take(np.arange(start, min(start + step, asked.size))))

    def nearest(self, asked: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The distance to the nearest row, and which it is (the first of several): both [asked]."""
        found = [(block.min(axis=1), block.argmin(axis=1)) for block in self.blocks(asked)]
        distances, places = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return distances.astype(np.float64), places.astype(np.int64)

    def nearest_rows(self, asked: Rows, near: int) -> NDArray[np.int64]:
        """Which rows are the nearest so many, in no order, any of those equally near: [asked, near]."""
        found = [np.argpartition(block, near - 1, axis=1)[:, :near] for block in self.blocks(asked)]
        return np.concatenate(found).astype(np.int64)

    def _distances(self, asked: Rows) -> Matrix:
        total = np.zeros((asked.size, self._rows.size), dtype=np.float32)
        for name in self._names:
            if name in self._numeric:
                first, second = (self._scale_numbers(side, name) for side in (asked, self._rows))
                apart = np.abs(first[:, None] - second[None, :])
                np.minimum(apart, 1, out=apart)
                # NaN where either is missing: 1 then, or 0 where both are.
                unlike = np.isnan(first)[:, None] != np.isnan(second)[None, :]
                total += np.where(np.isnan(apart), unlike, apart)
            else:
                total += asked.encoded.column(name)[:, None] != self._rows.encoded.column(name)[None, :]
        mean: Matrix = total / np.float32(len(self._names))
        return mean

    def _scale_numbers(self, rows: Rows, name: str) -> Matrix:
        low, width = self._ranges[name]
        scaled: Matrix = ((rows.numbers[name] - low) / width).astype(np.float32)
        return scaled


@final
@dataclass(frozen=True, slots=True)
class AttributeInference:
    """How much better a column is guessed for members than for people not in the table. **Not private**.

    The attacker knows all columns of a real row but one, looks up the nearest synthetic row and guesses its
    code. What is learned about people in general shows for held-out rows as well and is no leak: the score
    is the share of right guesses for members minus that for held-out rows, as in Anonymeter (Giomi et al.
    2023). The parts give the 95 % interval of its risk too; see `risk.Risk`.

    What it can show: that synthetic rows say more of their own people than of others. What it cannot show:
    that nobody is exposed, or that a better attacker learns no more.

    Args:
        facts: What the metric says about itself.
        column: The one to guess; the task's target by default.
        most: Members and held-out rows that are tried, each.
        rows: Synthetic rows that are searched.
    """

    facts: Facts
    column: str | None = None
    most: int = 1000
    rows: int = 50_000

    def run(self, task: Task) -> Score:
        """The difference; the parts give both shares and the standard error."""
        secret = self.column or task.target
        if secret is None:
            return self.facts.undefined_score("no secret", "name a target, or the column to guess")
        if task.held_out is None:
            return self.facts.undefined_score(f"guess {secret}", "hold out real rows")
        if len(task.names) < 2:
            return self.facts.undefined_score(f"guess {secret}", "there is no other column to know")
        task.schema.domain.index(secret)
        rng = task.rng("rows to attack")
        # Rows that were learned from and rows of the same kind that were not: what both give away is no
        # secret of the first.
        members, others = (sample_rows(side, rng, self.most)[0] for side in (task.real, task.held_out))
        searched = sample_rows(task.synthetic, rng, self.rows)[0]
        shares = [self._right(task, side, searched, secret) for side in (members, others)]
        sizes = (members.size, others.size)
        spread = sum(share * (1 - share) / size for share, size in zip(shares, sizes, strict=True))
        low, high = Risk(shares[0] * sizes[0], sizes[0], shares[1] * sizes[1], sizes[1]).interval
        parts = {
            "right for members": shares[0],
            "right for others": shares[1],
            "standard error": math.sqrt(spread),
            "risk at least": low,
            "risk at most": high,
        }
        scope = f"guess {secret}, {sizes[0]} members, {sizes[1]} others"
        return self.facts.score(shares[0] - shares[1], scope, parts=parts)

    @staticmethod
    def _right(task: Task, asked: Rows, searched: Rows, secret: str) -> float:
        names = [name for name in task.names if name != secret]
        near = Closeness(searched, [name for name in task.numeric if name != secret], names)
        guess = searched.encoded.column(secret)[near.nearest(asked)[1]]
        return float(np.mean(guess == asked.encoded.column(secret)))


@final
@dataclass(frozen=True, slots=True)
class Linkability:
    """How much more often two halves of a member's record are linked than those of others. **Not private**.

    The attacker has two lists, each with some columns of the same people, and links two records if their
    nearest synthetic rows, by the columns of each list, have one in common (Giomi et al. 2023).

    What it can show: that synthetic rows tie a member's columns together more than the world does. What it
    cannot show: that no other pair of lists can be linked.

    Args:
        facts: What the metric says about itself.
        lists: The columns of both lists; every other column by default.
        near: Nearest rows that are looked at, for each record.
        most: Members and held-out rows that are tried, each.
        rows: Synthetic rows that are searched.
    """

    facts: Facts
    lists: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    near: int = 10
    most: int = 500
    rows: int = 50_000

    def run(self, task: Task) -> Score:
        """The risk; the parts give both rates and its 95 % confidence interval."""
        if task.held_out is None:
            return self.facts.undefined_score("no held-out rows", "hold out real rows")
        if len(task.names) < 2:
            return self.facts.undefined_score("one column", "there are no two lists of columns")
        lists = self.lists or (task.names[::2], task.names[1::2])
        for name in (*lists[0], *lists[1]):
            task.schema.domain.index(name)
        rng = task.rng("records to link")
        members, others = (sample_rows(side, rng, self.most)[0] for side in (task.real, task.held_out))
        searched = sample_rows(task.synthetic, rng, self.rows)[0]
        # One list sees the rows in another order, so that of rows equally near not the same are taken.
        order = rng.permutation(searched.size)
        hits = [int(self._link_rows(task, side, searched, lists, order).sum()) for side in (members, others)]
        risk = Risk(hits[0], members.size, hits[1], others.size)
        scope = f"{members.size} members, {others.size} others, {len(lists[0])} and {len(lists[1])} columns"
        return self.facts.score(risk.value, scope, parts=risk.parts())

    def _link_rows(
        self,
        task: Task,
        asked: Rows,
        searched: Rows,
        lists: tuple[tuple[str, ...], tuple[str, ...]],
        order: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """Whether both lists lead to a common synthetic row: shape [asked]."""
        near = min(self.near, searched.size)
        numeric = [[name for name in task.numeric if name in names] for names in lists]
        first = Closeness(searched, numeric[0], lists[0]).nearest_rows(asked, near)
        second = order[Closeness(searched.take(order), numeric[1], lists[1]).nearest_rows(asked, near)]
        linked: NDArray[np.bool_] = (first[:, :, None] == second[:, None, :]).any(axis=(1, 2))
        return linked


Guesses = NDArray[np.float64]
FLOOR = 1e-3
"""Added to distances, so that a copy is not infinitely dense."""


def area(members: Guesses, others: Guesses) -> float:
    """Chance that a member is guessed higher than another row, ties counting half."""
    order = np.sort(others)
    below = np.searchsorted(order, members, side="left")
    upto = np.searchsorted(order, members, side="right")
    return float((below + upto).mean() / 2 / others.size)


def area_error(value: float, members: int, others: int) -> float:
    """Standard error of an area under the curve (Hanley and McNeil 1982)."""
    first, second = value / (2 - value), 2 * value**2 / (1 + value)
    spread = value * (1 - value) + (members - 1) * (first - value**2) + (others - 1) * (second - value**2)
    return math.sqrt(max(spread, 0.0) / (members * others))


def caught(members: Guesses, others: Guesses, false: float = 0.01) -> float:
    """Share of members guessed higher than all but a share `false` of the other rows."""
    return float((members > np.quantile(others, 1 - false, method="higher")).mean())


@final
@dataclass(frozen=True, slots=True)
class MembershipInference:
    """Area under the curve of an attacker who tells members from other rows. **Not private**.

    Members are drawn from the real rows, others from the held-out ones, so both follow one distribution and
    0.5 is guessing. "nearest" guesses by the distance to the nearest synthetic row. "density" guesses by the
    ratio of the density of the synthetic rows to that of reference rows the attacker has (half of the
    held-out ones), the idea of DOMIAS (van Breugel et al. 2023) with densities by nearest neighbours.

    What it can show: that rows leak, if the area is above 0.5 by more than chance. What it cannot show: that
    none do. It looks at average rows, and an outlier may be exposed all the same; the part "caught" says how
    many members are told at 1 % false alarms. A bound on epsilon takes many runs of the method.

    Args:
        facts: What the metric says about itself.
        attack: "nearest" or "density".
        most: Members and others that are tried, each.
        rows: Synthetic and reference rows that are searched, each.
    """

    facts: Facts
    attack: Literal["nearest", "density"] = "nearest"
    most: int = 1000
    rows: int = 50_000

    def run(self, task: Task) -> Score:
        """The area; the parts give its standard error and the members caught."""
        if task.held_out is None or task.held_out.size < 4:
            return self.facts.undefined_score("no held-out rows", "hold out four real rows or more")
        rng = task.rng("rows to attack")
        order = rng.permutation(task.held_out.size)
        half = task.held_out.size // 2
        reference, fresh = task.held_out.take(order[:half]), task.held_out.take(order[half:])
        members, others = (sample_rows(side, rng, self.most)[0] for side in (task.real, fresh))
        searched = sample_rows(task.synthetic, rng, self.rows)[0]
        known = sample_rows(reference, rng, self.rows)[0]
        told, untold = (self._guesses(task, side, searched, known) for side in (members, others))
        value = area(told, untold)
        parts = {
            "standard error": area_error(value, told.size, untold.size),
            "caught at 1 % false alarms": caught(told, untold),
        }
        return self.facts.score(value, f"{told.size} members, {untold.size} others", parts=parts)

    def _guesses(self, task: Task, asked: Rows, synthetic: Rows, reference: Rows) -> Guesses:
        """The higher, the surer that a row is a member: shape [asked]."""
        near = Closeness(synthetic, task.numeric, task.names)
        if self.attack == "nearest":
            return -near.nearest(asked)[0]
        usual = Closeness(reference, task.numeric, task.names)
        # A density estimated by the nearest row falls with a power of its distance, the same for both.
        return np.log((usual.nearest(asked)[0] + FLOOR) / (near.nearest(asked)[0] + FLOOR))
