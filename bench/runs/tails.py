"""Means and drawn numbers of columns of which nothing is declared: how far off, how often covered.

    python bench/runs/tails.py [--half choosing] [--releases 20] [--epsilon 1 3] [--rows 1000 5000 30000]
        [--kinds normal ages] > after.jsonl
    python bench/runs/tails.py --compare before.jsonl after.jsonl

Made-up columns beside one of two values, `independent`, delta 1e-6. Each line: the root mean square of the
miss of the mean and of the mean of drawn rows, and the mean distance of drawn from real numbers, all in
standard deviations of the column, and the share of 95 % intervals that hold the table's mean. Columns are
drawn by seed 11, noise has no seed. The constants of `measure/discovery/tails.py` and what a range may leave
out were chosen on the choosing half; the reporting half was made afterwards, to report on.

`--compare` prints the geometric means over columns of the second run's misses over those of the first, by
rows and epsilon, and both shares of intervals. Runs of another version of margrave need PYTHONPATH alone.
"""

from __future__ import annotations

import argparse
import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import margrave as mg

Numbers = np.ndarray[Any, Any]
Kinds = dict[str, Callable[[int, np.random.Generator], Numbers]]
CHOOSING: Kinds = {
    "lognormal 1.5": lambda n, r: np.round(np.exp(r.normal(3.0, 1.5, n)), 2),
    "lognormal 0.8": lambda n, r: np.round(np.exp(r.normal(8.0, 0.8, n))),
    "zeros and gamma": lambda n, r: np.where(r.random(n) < 0.49, 0.0, np.round(r.gamma(2.0, 10.0, n), 1)),
    "normal": lambda n, r: np.round(r.normal(50.0, 15.0, n), 1),
    "normal far from 0": lambda n, r: np.round(r.normal(5_000.0, 100.0, n)),
    "two heaps": lambda n, r: np.round(
        np.where(r.random(n) < 0.6, r.normal(100.0, 10.0, n), r.normal(300.0, 40.0, n)), 2
    ),
    "uniform": lambda n, r: np.round(r.uniform(0.0, 1_000.0, n), 1),
    "exponential": lambda n, r: np.round(r.exponential(500.0, n), 2),
    "weibull": lambda n, r: np.round(r.weibull(0.6, n) * 300.0, 2),
    "pareto": lambda n, r: np.round((r.pareto(2.5, n) + 1.0) * 1_000.0),
    "student": lambda n, r: np.round(r.standard_t(3, n) * 1_000.0, 2),
    "beta": lambda n, r: np.round(r.beta(2.0, 5.0, n) * 100.0, 1),
    "poisson": lambda n, r: r.poisson(20.0, n).astype(float),
    "geometric": lambda n, r: r.geometric(0.15, n).astype(float),
    "hours": lambda n, r: np.where(r.random(n) < 0.45, 40.0, np.clip(np.round(r.normal(40, 12, n)), 1, 99)),
    "ages": lambda n, r: np.round(np.clip(r.normal(40.0, 20.0, n), 0.0, 95.0)),
    "heaped": lambda n, r: _heap(np.exp(r.normal(5.0, 0.8, n)), r),
    "capped": lambda n, r: np.minimum(np.round(np.exp(r.normal(6.0, 1.2, n)), 2), 3_000.0),
}
REPORTING: Kinds = {
    "logistic": lambda n, r: np.round(r.logistic(100.0, 20.0, n), 2),
    "laplace": lambda n, r: np.round(r.laplace(0.0, 50.0, n), 1),
    "triangular": lambda n, r: np.round(r.triangular(0.0, 30.0, 100.0, n), 2),
    "inverse gamma": lambda n, r: np.round(1_000.0 / r.gamma(3.0, 1.0, n)),
    "log-logistic": lambda n, r: np.round(np.exp(r.logistic(4.0, 0.4, n)), 2),
    "gumbel": lambda n, r: np.round(r.gumbel(20.0, 5.0, n), 1),
    "chi-square": lambda n, r: np.round(r.chisquare(1.0, n) * 10.0, 3),
    "binomial": lambda n, r: r.binomial(60, 0.3, n).astype(float),
    "negative binomial": lambda n, r: r.negative_binomial(2, 0.05, n).astype(float),
    "zipf": lambda n, r: np.minimum(r.zipf(3.2, n), 100_000).astype(float),
    "percentages": lambda n, r: np.where(r.random(n) < 0.4, 100.0, np.round(r.beta(8.0, 2.0, n) * 100.0, 1)),
    "years": lambda n, r: np.round(2_005.0 - r.gamma(2.0, 12.0, n)),
    "profits": lambda n, r: np.round(np.exp(r.normal(7.0, 1.0, n)) - np.exp(r.normal(6.8, 0.9, n))),
    "prices": lambda n, r: np.ceil(np.exp(r.normal(3.0, 0.9, n))) - 0.01,
    "three heaps": lambda n, r: np.round(r.choice([20.0, 60.0, 200.0], n) + r.normal(0.0, 6.0, n)),
    "log-uniform": lambda n, r: np.round(np.exp(r.uniform(0.0, 8.0, n)), 2),
    "seconds": lambda n, r: np.round(r.exponential(3_600.0, n)),
    "mostly zeros": lambda n, r: np.where(r.random(n) < 0.9, 0.0, np.round(np.exp(r.normal(5.0, 1.0, n)), 2)),
}
HALVES = {"choosing": CHOOSING, "reporting": REPORTING}
SCORES = ("mean", "mean of drawn", "distance")
LEAST = 2e-5
"""Miss below which two are alike."""
PLACES = (np.arange(500) + 0.5) / 500


def _heap(numbers: Numbers, rng: np.random.Generator) -> Numbers:
    """Whole numbers, six of ten on multiples of 10."""
    return np.where(rng.random(len(numbers)) < 0.6, np.round(numbers / 10.0) * 10.0, np.round(numbers))


def measure(kind: str, rows: int, epsilon: float, releases: int) -> dict[str, float]:
    """The misses of one kind of column, in its standard deviations."""
    rng, missed, drawn, apart, held = np.random.default_rng(11), [], [], [], []
    for _ in range(releases):
        x = (CHOOSING | REPORTING)[kind](rows, rng)
        whole = bool((x == np.round(x)).all())
        cells = pa.array(x.astype(np.int64) if whole else x)
        table = pa.table({"x": cells, "g": rng.choice(["x", "y"], rows)})
        release = mg.Synthesizer("independent", epsilon=epsilon, delta=1e-6).fit(table)
        mean = release.mean("x", of="table")
        found = release.sample(rows).column("x").drop_null().to_numpy().astype(float)
        size = float(x.std())
        missed.append((mean.value - x.mean()) / size)
        drawn.append((found.mean() - x.mean()) / size)
        apart.append(float(np.abs(np.quantile(found, PLACES) - np.quantile(x, PLACES)).mean()) / size)
        held.append(mean.interval[0] <= x.mean() <= mean.interval[1])
    return {
        "mean": round(float(np.sqrt(np.square(missed).mean())), 4),
        "mean of drawn": round(float(np.sqrt(np.square(drawn).mean())), 4),
        "distance": round(float(np.mean(apart)), 4),
        "covered": round(float(np.mean(held)), 3),
    }


def compare(before: Path, after: Path) -> None:
    """Print how much nearer one run is than another."""
    key = operator.itemgetter("column", "rows", "epsilon")
    first, second = (
        {key(line): line for line in map(json.loads, path.read_text().splitlines())}
        for path in (before, after)
    )
    for rows, epsilon in sorted({name[1:] for name in first.keys() & second.keys()}):
        both = [
            (first[name], second[name]) for name in first if name[1:] == (rows, epsilon) and name in second
        ]
        line: dict[str, Any] = {"rows": rows, "epsilon": epsilon, "columns": len(both)}
        for score in SCORES:
            ratios = [(b[score] + LEAST) / (a[score] + LEAST) for a, b in both]
            line[score] = round(float(np.exp(np.log(ratios).mean())), 2)
        line["covered"] = [round(float(np.mean([pair[k]["covered"] for pair in both])), 2) for k in (0, 1)]
        line["further"] = sorted(
            a["column"] for a, b in both if b["mean"] + LEAST > 1.3 * (a["mean"] + LEAST)
        )
        print(json.dumps(line))


def main() -> None:
    """Print a line for each column, number of rows and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 5_000, 30_000])
    parser.add_argument("--half", choices=tuple(HALVES), default="choosing")
    parser.add_argument("--kinds", nargs="+", choices=(*CHOOSING, *REPORTING))
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    args = parser.parse_args()
    if args.compare:
        compare(*args.compare)
        return
    for rows in args.rows:
        for kind in args.kinds or HALVES[args.half]:
            for epsilon in args.epsilon:
                told = {"column": kind, "rows": rows, "epsilon": epsilon, "releases": args.releases}
                print(json.dumps(told | measure(kind, rows, epsilon, args.releases)), flush=True)


if __name__ == "__main__":
    main()
