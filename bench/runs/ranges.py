"""How much of a column lies outside the range that discovery finds, and what the column found looks like.

    python bench/runs/ranges.py [--out FILE] [--repeats 10] [--rows 1000 30000] [--columns 4 50] [--caps 1 4]

Discovery alone is run on made columns, all of them undeclared, with the share of rho that it has by default.
A table of many columns repeats the kinds below, so that each of its columns is one more trial. A line a kind
and setting:

    outside    share of the rows outside the range found, mean of all trials; `worst` is the largest
    width      width of the range found over that of the rows
    w1         Wasserstein distance between numbers drawn from the column found and the rows, over the
    distance
               of their 5 % and 95 % quantiles
    mean       error of the mean of the numbers drawn, over the same distance; the median of all trials is
    `typical` clamped    mean over the trials of what discovery says about the share outside, where it says
    anything
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.engines.memory import MemorySource
from margrave.measure.discovery.discover import Discovery
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import SecureSource
from margrave.privacy.unit import Neighbours, Unit
from margrave.progress import silent
from margrave.schema.columns import Binned, Relative, Whole
from margrave.schema.columns.relative import take_own
from margrave.schema.draws import real_numbers, whole_numbers

KINDS = ("born", "uniform", "normal", "lognormal", "age")
SHARE = Fraction(1, 3)
"""What discovery may spend by default."""
DRAWN = 4000


def make_column(kind: str, rows: int, rng: np.random.Generator) -> pa.Array:
    """A made column: dates over eighty years, and numbers of four shapes."""
    if kind == "born":
        days = rng.integers(-14_610, 14_610, rows).astype("datetime64[D]")
        return pa.array(days)
    if kind == "age":
        return pa.array(rng.integers(0, 100, rows))
    values = {
        "uniform": lambda: rng.uniform(0.0, 100.0, rows),
        "normal": lambda: rng.normal(170.0, 10.0, rows),
        "lognormal": lambda: rng.lognormal(8.0, 1.0, rows),
    }[kind]()
    return pa.array(values.round(2))


def discover(table: pa.Table, cap: int, epsilon: float) -> Any:
    """The schema that discovery alone finds."""
    unit = Unit() if cap == 1 else Unit("person", cap)
    ledger = Ledger(
        epsilon=epsilon,
        delta=1e-6,
        neighbours=Neighbours(unit),
        accountant=ZCDP(),
        partition_delta=Fraction(0),
    )
    discovery = Discovery(MemorySource(table), Gaussian(ledger, SecureSource()), ledger, silent)
    return discovery.run(None, ledger.total * SHARE)[0]


def compare(
    column: Binned | Relative, exact: NDArray[np.float64], rng: np.random.Generator
) -> dict[str, float]:
    """The scores of one column found; of one that is coded by another, those of its own range and bins."""
    column = take_own(column)
    low, high = float(column.lower), float(column.upper)
    outside = float(((exact < low) | (exact > high)).mean())
    edges, fine = column.edge_array, np.asarray(column.fine, dtype=np.float64)
    owner = np.searchsorted(edges, fine[:-1], side="right") - 1
    mass = np.bincount(owner, weights=np.asarray(column.weights), minlength=column.present) + 1e-12
    bins = rng.choice(column.present, DRAWN, p=mass / mass.sum())
    draw = whole_numbers if isinstance(column, Whole) else real_numbers
    drawn = np.asarray(draw(bins, column, rng), dtype=np.float64)
    span = float(np.quantile(exact, 0.95) - np.quantile(exact, 0.05))
    at = (np.arange(DRAWN) + 0.5) / DRAWN
    apart = float(np.abs(np.quantile(exact, at) - np.quantile(drawn, at)).mean())
    return {
        "outside": outside,
        "width": (high - low) / float(exact.max() - exact.min()),
        "w1": apart / span,
        "mean": abs(float(drawn.mean() - exact.mean())) / span,
        "clamped": float(getattr(column, "clamped", 0.0) or 0.0),
    }


def trial(kinds: list[str], rows: int, columns: int, cap: int, epsilon: float, seed: int) -> dict[str, Any]:
    """The scores of all columns of one table, lists of them by kind."""
    rng = np.random.default_rng(seed)
    made = {kind: make_column(kind, rows, rng) for kind in kinds}
    names = [f"{kinds[place % len(kinds)]}_{place}" for place in range(columns)]
    table = pa.table({name: made[name.rpartition("_")[0]] for name in names})
    schema = discover(table, cap, epsilon)
    found: dict[str, Any] = {kind: [] for kind in kinds}
    for name in names:
        kind = name.rpartition("_")[0]
        values = made[kind].cast(pa.int32()).cast(pa.int64()) if kind == "born" else made[kind]
        found[kind].append(compare(schema[name], np.asarray(values, dtype=np.float64), rng))
    return found


def main() -> None:
    """Write one line a kind and setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 3000, 10_000, 30_000, 100_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[4, 20, 50])
    parser.add_argument("--caps", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS[:4]))
    args = parser.parse_args()
    for rows in args.rows:
        for columns in args.columns:
            for cap in args.caps:
                start = time.process_time()
                repeats = max(-(-args.repeats * len(args.kinds) // columns), 1)
                trials = [
                    trial(args.kinds, rows, columns, cap, args.epsilon, seed) for seed in range(repeats)
                ]
                seconds = time.process_time() - start
                for kind in args.kinds:
                    scores = [score for found in trials for score in found[kind]]
                    line = {"rows": rows, "columns": columns, "cap": cap, "kind": kind, "trials": len(scores)}
                    for word in scores[0]:
                        line[word] = round(statistics.mean(score[word] for score in scores), 4)
                    line["worst"] = round(max(score["outside"] for score in scores), 4)
                    line["typical"] = round(statistics.median(score["mean"] for score in scores), 4)
                    print(line, f"{seconds:.0f} s", flush=True)
                    if args.out:
                        with open(args.out, "a", encoding="utf-8") as out:
                            out.write(json.dumps(line | {"epsilon": args.epsilon}) + "\n")


if __name__ == "__main__":
    main()
