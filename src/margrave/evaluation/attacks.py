"""Privacy attacks on synthetic rows. **Not private**: they need the real rows to say who was right.

An attack that succeeds shows a leak. One that fails shows that this attack failed, on these rows: it bounds
nothing, and is no substitute for a guarantee.

`Risk` says how much more often an attack succeeds on the rows of a table than on rows that are not in it,
`Closeness` how far rows of mixed columns are from each other. The attacks follow: `AttributeInference` asks
what an attacker learns of one column of people whose other columns are known, `Linkability` whether synthetic
rows tell which two halves of records belong to one person, `MembershipInference` whether these very rows were
in the table that the synthetic rows were made from, and `SinglingOut` whether a description of one synthetic
row, a predicate that no other synthetic row meets, describes just one person of the table as well.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import curve_fit
from scipy.stats import hypergeom, norm

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
        right = [share * size for share, size in zip(shares, sizes, strict=True)]
        low, high = Risk(right[0], sizes[0], right[1], sizes[1]).interval
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
        same: NDArray[np.bool_] = first[:, :, None] == second[:, None, :]
        return np.asarray(same.any(axis=(1, 2)))


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
    spread = value * (1 - value)
    spread += (members - 1) * (first - value**2)
    spread += (others - 1) * (second - value**2)
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


BATCH = 500
"""Predicates that are tried together: one pass over the rows judges all of a batch."""
SIZES = 10
"""Numbers of rows, evenly apart, to which the curve of lone predicates is fitted."""
Ask = tuple[str, Literal["is", "at most", "at least", "missing"], float]


@final
@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunction of questions, each about one column. **Not private** if made from real rows.

    Args:
        asks: Column, kind of question, and value: a code, or a number in a column of raw numbers.
    """

    asks: tuple[Ask, ...]

    def holds(self, rows: Rows, numeric: frozenset[str]) -> NDArray[np.bool_]:
        """For which rows it holds: shape [rows]."""
        answer = np.ones(rows.size, dtype=np.bool_)
        for name, kind, value in self.asks:
            column = rows.numbers[name] if name in numeric else rows.encoded.column(name)
            if kind == "is":
                answer &= column == value
            elif kind == "missing":
                answer &= np.isnan(column)
            else:
                answer &= column <= value if kind == "at most" else column >= value
        return answer


def matches(predicates: Sequence[Predicate], rows: Rows, numeric: frozenset[str]) -> NDArray[np.int64]:
    """How many rows each predicate holds for: shape [predicates]. **Not private** if the rows are real."""
    found = (int(one.holds(rows, numeric).sum()) for one in predicates)
    return np.fromiter(found, dtype=np.int64, count=len(predicates))


def of_columns(
    rows: Rows, numeric: frozenset[str], names: Sequence[str], most: int, rng: np.random.Generator
) -> list[Predicate]:
    """Univariate predicates that hold for one row: lone values, lone gaps, and extremes of numbers.

    The univariate predicates of Giomi et al. 2023. At most so many, drawn at random.
    """
    found: dict[Predicate, None] = {}
    for name in names:
        values = rows.numbers[name] if name in numeric else rows.encoded.column(name).astype(np.float64)
        gaps = np.isnan(values)
        # A value, an end or a gap that just one synthetic row has is a description of one person, if it
        # holds in the real table.
        known, times = np.unique(values[~gaps], return_counts=True)
        asks: list[Ask] = [(name, "is", float(value)) for value in known[times == 1]]
        if name in numeric:
            asks += [(name, "missing", 0.0)] if gaps.sum() == 1 else []
            asks += [(name, "at most", float(known[0]))] if known.size and times[0] == 1 else []
            asks += [(name, "at least", float(known[-1]))] if known.size and times[-1] == 1 else []
        found |= dict.fromkeys(Predicate((ask,)) for ask in asks)
    kept = list(found)
    order = rng.permutation(len(kept))[:most]
    return [kept[place] for place in order]


def of_rows(
    rows: Rows,
    numeric: frozenset[str],
    names: Sequence[str],
    width: int,
    most: int,
    rng: np.random.Generator,
) -> list[Predicate]:
    """Multivariate predicates that hold for one row: random columns of random rows.

    The multivariate predicates of Giomi et al. 2023: a listed value is asked for itself, a number for being
    as far from the median or farther. After 20 tries for each that is wanted no more are looked for.
    """
    medians = {name: _find_median(rows.numbers[name]) for name in names if name in numeric}
    found: dict[Predicate, None] = {}
    for _ in range(max(1, 20 * most // BATCH)):
        batch = list(_draw_predicates(rows, medians, names, min(width, len(names)), rng))
        alone_in = matches(batch, rows, numeric) == 1
        found |= dict.fromkeys(one for one, lone in zip(batch, alone_in, strict=True) if lone)
        if len(found) >= most:
            break
    return list(found)[:most]


def _draw_predicates(
    rows: Rows, medians: dict[str, float], names: Sequence[str], width: int, rng: np.random.Generator
) -> Iterator[Predicate]:
    for row in rng.integers(0, rows.size, BATCH):
        asks: list[Ask] = []
        for place in np.sort(rng.choice(len(names), width, replace=False)):
            name = names[place]
            if name not in medians:
                asks.append((name, "is", float(rows.encoded.column(name)[row])))
                continue
            value = float(rows.numbers[name][row])
            above: Literal["at least", "at most"] = "at least" if value > medians[name] else "at most"
            asks.append((name, "missing", 0.0) if np.isnan(value) else (name, above, value))
        yield Predicate(tuple(asks))


def _find_median(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else 0.0


def alone(held: NDArray[np.int64], rows: int, wanted: int) -> float:
    """How many predicates would hold for just one of so many rows, by what they hold for in another number.

    Where there are rows enough it is the mean over all draws of that many of them, exactly. Where there are
    too few, the curve of a random predicate, norm * integral of n w (1 - w)^(n - 1) over weights w from 0 to
    some greatest weight (Cohen and Nissim 2020; Giomi et al. 2023), is fitted to these means
    for fewer rows and followed to the number wanted.

    Args:
        held: Rows that each predicate holds for, shape [predicates].
        rows: Rows they were asked of.
        wanted: Rows to answer for.
    """
    if wanted <= rows:
        return _expect_singles(held, rows, wanted)
    sizes = np.unique(np.linspace(max(1, rows // SIZES), rows, SIZES).round())
    means = np.array([_expect_singles(held, rows, int(size)) for size in sizes])
    here = float(means[-1])
    if here == 0 or len(sizes) < 3:
        return here
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Begin at predicates as rare as one row, scaled so that the curve passes through what was
            # counted.
            start = (1 / rows, here / float(_integrate_curve(np.array(float(rows)), 1 / rows, 1.0)))
            (weight, scale), _ = curve_fit(_integrate_curve, sizes, means, p0=start, bounds=(0, (1, np.inf)))
    except RuntimeError:
        return here
    # The fitted curve only says by what factor the count changes; never more than there are predicates.
    now = float(_integrate_curve(np.array(float(rows)), weight, scale))
    there = float(_integrate_curve(np.array(float(wanted)), weight, scale))
    return min(here * there / now, float(len(held))) if now > 0 else here


def _expect_singles(held: NDArray[np.int64], rows: int, wanted: int) -> float:
    """The mean number of predicates that hold for just one of some rows, over all draws of so many."""
    return float(np.sum(hypergeom.pmf(1, rows, held, wanted)))


def _integrate_curve(size: NDArray[np.float64], /, weight: float, scale: float) -> NDArray[np.float64]:
    """scale * integral from 0 to weight of n w (1 - w)^(n - 1), by parts."""
    value: NDArray[np.float64] = scale * (1 - (size * weight + 1) * (1 - weight) ** size) / (size + 1)
    return value


@final
@dataclass(frozen=True, slots=True)
class SinglingOut:
    """How much more often predicates single out a member than a row not in the table. **Not private**.

    Predicates that hold for just one synthetic row are asked of the real rows; one that holds for just one of
    them has singled a person out. As some would by chance, the same predicates are asked of the held-out
    rows, brought to as many rows as the real table has; see `alone` (Giomi et al. 2023).

    What it can show: that synthetic rows describe single members, such as copied outliers. What it cannot
    show: that no better description does. With few held-out rows the control is an extrapolation.

    Args:
        facts: What the metric says about itself.
        width: Columns of a predicate; 1 is the univariate attack of lone values and extremes.
        most: Predicates that are tried.
        rows: Synthetic rows they are made from.
    """

    facts: Facts
    width: int = 3
    most: int = 500
    rows: int = 50_000

    def run(self, task: Task) -> Score:
        """The risk; the parts give both rates and its 95 % confidence interval."""
        if task.held_out is None:
            return self.facts.undefined_score("no held-out rows", "hold out real rows")
        rng, numeric = task.rng("predicates"), frozenset(task.numeric)
        searched = sample_rows(task.synthetic, rng, self.rows)[0]
        if self.width == 1:
            asked = of_columns(searched, numeric, task.names, self.most, rng)
        else:
            asked = of_rows(searched, numeric, task.names, self.width, self.most, rng)
        scope = f"{len(asked)} predicates"
        if not asked:
            return self.facts.undefined_score(scope, "no predicate holds for just one synthetic row")
        hits = int((matches(asked, task.real, numeric) == 1).sum())
        held = matches(asked, task.held_out, numeric)
        control = alone(held, task.held_out.size, task.real.size)
        risk = Risk(hits, len(asked), control, len(asked))
        # A description singles out more easily in a smaller table, so the control is brought to the same
        # number of rows.
        note = "" if task.held_out.size >= task.real.size else "control scaled up from fewer held-out rows"
        return self.facts.score(risk.value, scope, parts=risk.parts(), note=note)
