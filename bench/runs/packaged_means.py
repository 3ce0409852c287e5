"""How often intervals of means and quantiles hold the truth where nothing is declared, on 88 real tables.

    python bench/runs/packaged_means.py [--half look] [--method independent] [--epsilon 0.2 1 5]
        [--repeats 2] [--tables modeldata/lending_club ...]

The tables and their halves are those of `packaged.py`. Of each column of numbers that a raw release holds,
95 % intervals of the mean, the median and the ninth decile of the table are asked for; those of columns that
are coded by others count apart, where tables tell them. A line a table says how many there are and how many
hold, and the end the shares of all, with those that have no end since noise hides how far out rows lie, and
the median of the others' lengths in standard deviations of their column.
Truths are exact: **not private**. Noise has no seed, so another run differs.
"""

from __future__ import annotations

import argparse
import contextlib
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
from margrave.errors import InputError
from margrave.run.synthesis import Synthesis
from margrave.schema.columns import Relative
from margrave.tables.numbers import scores_of
from margrave.tables.ratios import NumberEstimate


@dataclass(frozen=True, slots=True)
class Answer:
    """An estimate held against the truth.

    Args:
        kind: What was asked for.
        estimate: What came back.
        truth: Of the private table.
        spread: Standard deviation of the column there.
    """

    kind: str
    estimate: NumberEstimate
    truth: float
    spread: float

    def holds(self) -> bool:
        """Whether the truth is in the interval, but for rounding."""
        low, high = self.estimate.interval
        slack = 1e-9 * max(abs(low), abs(high)) if math.isfinite(low) and math.isfinite(high) else 0.0
        return low - slack <= self.truth <= high + slack


def ask(synthesis: Synthesis, table: pa.Table) -> Iterator[Answer]:
    """All answers about the columns of numbers that the release holds."""
    release = synthesis.release
    for name in table.column_names:
        kind = table.column(name).type
        column = release.schema[name] if name in release.schema.names else None
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)) or column is None:
            continue
        relative = isinstance(column, Relative) and scores_of(column.own) is not None
        if scores_of(column) is None and not relative:
            continue
        values = np.asarray(pc.drop_null(table.column(name)).to_numpy(), dtype=np.float64)
        values = values[np.isfinite(values)]
        asked = [("median", 0.5), ("ninth decile", 0.9)]
        refused = (InputError,) if relative else ()
        with contextlib.suppress(*refused):  # no table holds it with what it is coded by
            by = " by others" if relative else ""
            spread = float(values.std())
            yield Answer("mean" + by, synthesis.mean(name, of="table"), float(values.mean()), spread)
            for words, q in asked:
                found = synthesis.quantile(name, q, of="table")
                yield Answer(words + by, found, float(np.quantile(values, q)), spread)


def share_of(answers: list[Answer]) -> str:
    """The share that holds, with its standard error, and the share without an end."""
    share = statistics.fmean(one.holds() for one in answers)
    endless = statistics.fmean(any(map(math.isinf, one.estimate.interval)) for one in answers)
    error = math.sqrt(share * (1.0 - share) / len(answers))
    lengths = [np.ptp(one.estimate.interval) / one.spread for one in answers if one.spread > 0.0]
    length = statistics.median(length for length in lengths if math.isfinite(length))
    return f"{share:.3f} +- {error:.3f} of {len(answers)}, {endless:.3f} without an end, length {length:.3f}"


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
        for kind in dict.fromkeys(one.kind for one in answers):
            print(f"at {epsilon:g}, {kind}: {share_of([one for one in answers if one.kind == kind])}")


if __name__ == "__main__":
    main()
