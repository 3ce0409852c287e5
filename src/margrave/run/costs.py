"""What a run takes of time and memory, foretold from public things alone.

Times are processor seconds of one core, as measured by bench/runs/estimates.py and bench/runs/scale.py on
machines of 2024 to 2026. What an adaptive strategy buys is not known before it runs, so where a figure
depends on it, the high end is meant as "up to". Memory is resident, in bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from margrave.limits import price_question
from margrave.models._base.memory import A_CODE, A_SQUARE, CELL_BYTES, PROGRAM
from margrave.models._sampling.rounding import MAX_WORK
from margrave.models.mixture.fitter import Mixture
from margrave.models.mixture.policy import set_policy

if TYPE_CHECKING:
    from margrave.protocols import Fitter, Strategy
    from margrave.select.strategy import Holdings

START = 1.8
"""Seconds to start Python and load the libraries."""
READ, LOOKS = 1.2e-7, (0.03, 2e-7)
"""Seconds to read a cell of the table; to discover a column, and each of its cells."""
COUNTED, NOISE, TABLE = 4e-10, 6e-8, 1e-4
"""Seconds to count a row for a pair, to draw the noise of a cell and to keep a table."""
MIXTURE_DRAWN, INDEPENDENT_DRAWN, DRAWN = (1e-7, 9e-9), (5e-8, 0.0), (5e-8, 6e-9)
"""Seconds to draw a row, by columns and by squared columns, of a mixture, of independent columns and of other
models: rows are balanced over all pairs where there is any dependence."""
PIVOTAL = 1.5e-8
"""Seconds to draw a code for a row where a column is refined, times its squared codes: measured on shares
drawn at random, 5 to 48 codes. Which columns are refined is found by the run, so "up to" alone counts it."""
HALVED = 128
"""Squared codes that a row takes as long as, at most, where halves of the codes are decided first:
likewise, 16 to 48 codes."""
CANDIDATE = 1e-8
"""Seconds, times the squared number of columns, to size the junction tree that one candidate would make."""
CELL_SECONDS = 2.5e-8
"""Seconds to hold one expected cell of a candidate against its count."""
STEPS = 1.9e-10
"""Seconds of a step of a mixture, times components and squared codes."""
STEP_COUNT, PILOTS = 250, 0.7
"""Steps of a mixture's fit, and seconds of the small fits that choose its settings."""
INFERENCE, ROUGH_INFERENCES = 6e-9, 120
"""Seconds of one inference for a cell of a junction tree, and inferences of a rough fit."""
REFERENCE = 32_561
"""Rows of the shipped Adult: `Work.reach` is 1 at epsilon 1 on as many."""
PAIR_FITTED, MOST_BOUGHT = 5e-2, 16
"""Of `batched`: seconds that a bought pair adds to all fits, and bought pairs of each column, both where they
are many. On flags-a and loans-a, of the nursery's choosing half, 52 and 76 seconds went into 860 and 555."""
GROWTH_REACH = 6.0
"""Reach from which what an adaptive strategy buys grows no longer."""
A_CANDIDATE = 40
"""Bytes of each cell of all candidates: expected and counted tables, and what holds them side by side."""
A_MIXTURE_ROW_CELL, A_ROW_CELL = 33, 14
"""Bytes of each cell of the rows while a mixture draws, and another model, the loaded table included."""
MIXTURES = ("auto", "mixture")
"""The fitters that make mixtures, of which a plan knows more than of others."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a run works on, as far as it is public.

    Args:
        sizes: Codes of each column to release, a guess where they are to be discovered.
        rows: How many rows there are; a guess.
        epsilon: Of the whole run.
        mu: Of Gaussian differential privacy, about, for the strategy: sqrt(2 rho).
        unknown: Columns to be discovered.
    """

    sizes: tuple[int, ...]
    rows: int
    epsilon: float
    mu: float
    unknown: int = 0

    @property
    def columns(self) -> int:
        """How many there are."""
        return len(self.sizes)

    @property
    def pairs(self) -> int:
        """Pairs of columns."""
        return self.columns * (self.columns - 1) // 2

    @property
    def signal(self) -> float:
        """Rows over the noise of a count, were all of rho spent on it."""
        return self.rows * self.mu

    @property
    def reach(self) -> float:
        """How far above the noise a run can see, 1 for the shipped Adult at epsilon 1."""
        return self.epsilon * self.rows / REFERENCE


@dataclass(frozen=True, slots=True)
class Costs:
    """What a run is expected to take.

    Args:
        low: Processor seconds of a run that ends soon, from the start of the program to the last row.
        high: Of one that goes on for long.
        fixed: Of `low` and `high`, seconds that a time limit does not count: the start, reading, discovery,
            counting.
        least: Seconds after these that no time limit can cut short.
        model: Bytes that the program needs with what it fits, the table and the drawn rows left out.
        rows: Bytes that the table and the drawn rows add, about.
    """

    low: float
    high: float
    fixed: float
    least: float
    model: float
    rows: float


def expect_costs(strategy: Strategy, fitter: Fitter, work: Work) -> Costs:
    """What a strategy with a fitter takes, as far as public things tell."""
    from margrave.select.from_rows import COPY_BYTES

    held, wide = strategy.expect_holdings(work.sizes, work.signal), float(work.columns) ** 2
    fixed = START + work.rows * (READ * work.columns + COUNTED * work.pairs)
    fixed += work.unknown * (LOOKS[0] + LOOKS[1] * work.rows)
    low, high, least = TIMES.get(strategy.name, _usual_time)(strategy, fitter, work, held)
    measuring = NOISE * held.cells + TABLE * held.tables
    by_column, by_pair = _drawing_seconds(fitter)
    drawing = work.rows * (by_column * work.columns + by_pair * wide)
    return Costs(
        low=0.8 * fixed + 0.5 * measuring + low + 0.4 * drawing,
        high=2.0 * fixed + 2.0 * measuring + high + 2.0 * drawing,
        fixed=2.0 * fixed,
        # Questions count at their public price.
        least=price_question(held.tables, held.cells) * held.hurried + least,
        model=PROGRAM + _model_bytes(fitter, work, held),
        rows=float(A_MIXTURE_ROW_CELL if fitter.name in MIXTURES else A_ROW_CELL) * work.rows * work.columns
        + COPY_BYTES * work.rows * held.row_numbers,
    )


Times = tuple[float, float, float]
"""Low, high and least processor seconds of selection and fits."""


def _drawing_seconds(fitter: Fitter) -> tuple[float, float]:
    if fitter.name in MIXTURES:
        return MIXTURE_DRAWN
    return INDEPENDENT_DRAWN if fitter.name == "independent" else DRAWN


def _usual_time(strategy: Any, fitter: Any, work: Work, held: Holdings) -> Times:
    pace, power = strategy.pace
    reach = min(work.reach, GROWTH_REACH)
    middle = work.columns**2 * (pace * reach**power + fitter.fit_seconds)
    if fitter.name == "independent":
        middle = 1e-5 * sum(work.sizes)
    return 0.3 * middle, 4.0 * middle, 0.05 * middle


def _all_pairs_time(strategy: Any, fitter: Any, work: Work, held: Holdings) -> Times:
    if fitter.name not in MIXTURES:
        return _usual_time(strategy, fitter, work, held)
    codes = _grouped_codes(fitter, work.sizes)
    components = set_policy(codes, work.signal).components
    descent = STEPS * STEP_COUNT * components * float(codes) ** 2
    # What is cut short by a time limit: everything but the tables side by side and one step.
    least = 4e-8 * float(codes) ** 2 + 2e-5 * work.pairs
    largest = _largest_group(fitter)
    at_once = max(MAX_WORK / max(work.rows, 1.0), HALVED)
    refined = PIVOTAL * work.rows * sum(min(float(min(size, largest)) ** 2, at_once) for size in work.sizes)
    return 0.4 * PILOTS + 0.5 * descent, 3.0 * (PILOTS + descent) + refined, least


def _grouped_codes(fitter: Any, sizes: Sequence[int]) -> int:
    """Codes that a mixture models, those of large columns in groups."""
    largest = _largest_group(fitter)
    return sum(min(size, largest) for size in sizes)


def _largest_group(fitter: Any) -> int:
    return int(fitter.largest) if fitter.name == "mixture" else Mixture().largest


def _aim_time(strategy: Any, fitter: Any, work: Work, held: Holdings) -> Times:
    """Rounds, each of which sizes and scores all candidates and fits a tree that grows to its limit."""
    columns = work.columns
    candidates = math.comb(columns, strategy.degree) if columns > 1 else 1
    scan = candidates * CANDIDATE * columns**2 + CELL_SECONDS * held.candidates
    inference = fitter.fit_seconds
    if fitter.name == "pgm":
        inference = INFERENCE * ROUGH_INFERENCES * held.tree
    most = strategy.expect_rounds(work.sizes, work.signal)
    # The limit of the tree grows with what is spent, so that it has a third of its cells on average.
    high = most * (2.0 * (5e-3 + scan) + inference / 3.0)
    return 0.2 * min(most, columns) * (5e-3 + scan), high, 2.0 * scan


def _batched_time(strategy: Any, fitter: Any, work: Work, held: Holdings) -> Times:
    """Rounds, each of which sizes and scores all candidates; steps of a fit go over all bought pairs."""
    wide = work.columns**2
    scan = work.pairs * CANDIDATE * wide + CELL_SECONDS * held.candidates
    middle = 0.1 + 1e-3 * wide + strategy.rounds * scan
    fitted = PAIR_FITTED * min(work.pairs, MOST_BOUGHT * work.columns)
    return 0.2 * middle, 4.0 * middle + fitted, 2.0 * scan


def _mst_time(strategy: Any, fitter: Any, work: Work, held: Holdings) -> Times:
    """A draw among all pairs that may still join the tree, for each column but one."""
    draws = 0.05 + work.columns * (4e-6 * work.pairs + CELL_SECONDS * held.candidates)
    fit = 2e-3 * work.columns + 1e-6 * sum(work.sizes) + fitter.fit_seconds * work.columns**2
    return 0.4 * draws + 0.2 * fit, 2.0 * draws + 5.0 * fit, draws


def _training_time(strategy: Any, fitter: Any, work: Work, held: Holdings) -> Times:
    middle = fitter.fit_seconds * work.columns**2
    return 0.3 * middle, 4.0 * middle, 0.3 * middle


TIMES: dict[str, Callable[[Any, Any, Work, Holdings], Times]] = {
    "aim": _aim_time,
    "all_pairs": _all_pairs_time,
    "batched": _batched_time,
    "mst": _mst_time,
    "training": _training_time,
    "votes": _training_time,
}
"""By the name of a strategy; the default goes by its `pace` and the fitter's `fit_seconds`."""


def _model_bytes(fitter: Any, work: Work, held: Holdings) -> float:
    """What candidates, measurements and models take, the program left out."""
    if fitter.name in MIXTURES:
        codes = float(_grouped_codes(fitter, work.sizes))
        return 2 * 8.0 * held.candidates + A_SQUARE * codes**2 + 8.0 * A_CODE * codes
    if held.candidates <= sum(work.sizes):  # one-ways alone
        return 100.0 * sum(work.sizes) * math.sqrt(work.columns)
    tree = 0.0 if fitter.small else CELL_BYTES * min(held.tree, _cell_limit(fitter))
    return A_CANDIDATE * held.candidates + tree


def _cell_limit(fitter: Any) -> float:
    return float(fitter.most_cells) if fitter.name == "pgm" else math.inf
