"""How often intervals of means and quantiles hold the truth where nothing is declared, on 88 real tables.

    python bench/runs/packaged_means.py [--half look] [--method independent] [--epsilon 0.2 1 5]
        [--repeats 2] [--tables modeldata/lending_club ...] [--doubts]

The tables and their halves are those of `packaged.py`. Of each column of numbers that a raw release holds,
95 % intervals of the mean, the median and the ninth decile of the table are asked for: a line a table with
how many there are and how many hold, and the shares of all at the end. `--doubts` adds the shares of means
that hold by the normal law where the variance of the numbers of bins (`doubts_of`,
margrave/tables/numbers.py) is several times what it is, and how long intervals are then, over what they are,
in the geometric mean. Truths are exact: **not private**. Noise has no seed, so another run differs.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import packaged
import pyarrow as pa
import pyarrow.compute as pc

from margrave import Synthesizer
from margrave.run.synthesis import Synthesis
from margrave.tables.estimates import PooledTables
from margrave.tables.numbers import doubts_of, scores_of
from margrave.tables.quantities import NumberEstimate

TIMES = (0.0, 0.5, 0.75, 1.0, 1.5)
"""How many times the variance of the numbers of bins `--doubts` tries."""
NORMAL = 1.96
"""Standard errors of 95 %."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimate held against the truth.

    Args:
        kind: What was asked for.
        estimate: What came back.
        truth: Of the private table.
        doubted: Part of the squared standard error that is due to the numbers of bins.
    """

    kind: str
    estimate: NumberEstimate
    truth: float
    doubted: float = 0.0

    def holds(self) -> bool:
        """Whether the truth is in the interval, but for rounding."""
        low, high = self.estimate.interval
        slack = 1e-9 * max(abs(low), abs(high)) if math.isfinite(low) and math.isfinite(high) else 0.0
        return low - slack <= self.truth <= high + slack

    def error_with(self, times: float) -> float:
        """The standard error with several times the variance of the numbers of bins."""
        square = self.estimate.standard_error**2 - self.doubted * (1.0 - times)
        return math.sqrt(max(square, 0.0))


def ask(synthesis: Synthesis, table: pa.Table) -> Iterator[Answer]:
    """All answers about the columns of numbers that the release holds."""
    release = synthesis.release
    tables = PooledTables(release.domain, release.measurements)
    for name in table.column_names:
        kind = table.column(name).type
        column = release.schema[name] if name in release.schema.names else None
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or column is None:
            continue
        numbers = scores_of(column)
        if numbers is None:
            continue
        values = np.asarray(pc.drop_null(table.column(name)).to_numpy(), dtype=np.float64)
        values = values[np.isfinite(values)]
        counts = np.maximum(tables.table((name,)), 0.0) * ~np.isnan(numbers)
        doubted = float((counts**2 @ doubts_of(column)) / max(float(counts.sum()), 1.0) ** 2)
        yield Answer("mean", synthesis.mean(name, of="table"), float(values.mean()), doubted)
        for words, q in (("median", 0.5), ("ninth decile", 0.9)):
            yield Answer(words, synthesis.quantile(name, q, of="table"), float(np.quantile(values, q)))


def share_of(answers: list[Answer]) -> str:
    """The share that holds, with its standard error."""
    share = statistics.fmean(one.holds() for one in answers)
    return f"{share:.3f} +- {math.sqrt(share * (1.0 - share) / len(answers)):.3f} of {len(answers)}"


def print_doubts(means: list[Answer]) -> None:
    """Shares of means that hold, and lengths of intervals, by the variance of the numbers of bins."""
    known = [one for one in means if 0.0 < one.estimate.standard_error < math.inf]
    for times in TIMES:
        errors = [one.error_with(times) for one in known]
        held = statistics.fmean(
            abs(one.estimate.value - one.truth) <= NORMAL * error
            for one, error in zip(known, errors, strict=True)
        )
        longer = statistics.geometric_mean(
            max(error / one.estimate.standard_error, 1e-3) for one, error in zip(known, errors, strict=True)
        )
        print(f"  {times:g} times the variance: {held:.3f} of {len(known)} hold, {longer:.2f} times as long")


def main() -> None:
    """Ask, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=("look", "kept"), default="look")
    parser.add_argument("--tables", nargs="+", choices=tuple(packaged.TABLES), metavar="TABLE")
    parser.add_argument("--method", default="independent")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--doubts", action="store_true")
    asked = parser.parse_args()
    found: dict[float, list[Answer]] = defaultdict(list)
    for item in packaged.choose_items(asked.tables, asked.half):
        table = packaged.prepare_item(item, raw=True).train
        for epsilon in asked.epsilon:
            own: list[Answer] = []
            for _ in range(asked.repeats):
                own += ask(
                    Synthesizer(asked.method, epsilon=epsilon, delta=packaged.RAW_DELTA).fit(table), table
                )
            held = sum(one.holds() for one in own)
            print(f"{item} at {epsilon:g}: {held} of {len(own)}", flush=True)
            found[epsilon] += own
    for epsilon, answers in found.items():
        for kind in ("mean", "median", "ninth decile"):
            print(f"at {epsilon:g}, {kind}: {share_of([one for one in answers if one.kind == kind])}")
        if asked.doubts:
            print_doubts([one for one in answers if one.kind == "mean"])


if __name__ == "__main__":
    main()
