"""SinglingOut: does a description of one synthetic row describe just one person of the table?

A description is a predicate that singles out one synthetic row. The attack counts how often such predicates
single out one real row as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import curve_fit
from scipy.stats import hypergeom

from margrave.evaluation.attacks.risk import Risk
from margrave.evaluation.metrics.efficiency import sample_rows
from margrave.evaluation.rows import Rows
from margrave.evaluation.score import Facts, Score
from margrave.evaluation.task import Task

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
