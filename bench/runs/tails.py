"""Means and drawn numbers of columns of which nothing is declared: how far off, how often covered.

    python bench/runs/tails.py [--releases 20] [--epsilon 1 3] [--rows 1000 5000 30000] [--kinds normal ages]

Made-up columns beside one of two values, `independent`, delta 1e-6. Each line: the root mean square of the
miss of the mean and of the mean of drawn rows, and the mean distance of drawn from real numbers, all in
standard deviations of the column, and the share of 95 % intervals that hold the table's mean. Columns are
drawn by seed 11, noise has no seed. The shares of rows that `measure/discovery/tails.py` tries were chosen
on these columns, so that nothing here is a claim about others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import margrave as mg

Numbers = np.ndarray[Any, Any]
KINDS: dict[str, Callable[[int, np.random.Generator], Numbers]] = {
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
PLACES = (np.arange(500) + 0.5) / 500


def _heap(numbers: Numbers, rng: np.random.Generator) -> Numbers:
    """Whole numbers, six of ten on multiples of 10."""
    return np.where(rng.random(len(numbers)) < 0.6, np.round(numbers / 10.0) * 10.0, np.round(numbers))


def measure(kind: str, rows: int, epsilon: float, releases: int) -> dict[str, float]:
    """The misses of one kind of column, in its standard deviations."""
    rng, missed, drawn, apart, held = np.random.default_rng(11), [], [], [], []
    for _ in range(releases):
        x = KINDS[kind](rows, rng)
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


def main() -> None:
    """Print a line for each column, number of rows and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=20)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 5_000, 30_000])
    parser.add_argument("--kinds", nargs="+", choices=tuple(KINDS), default=list(KINDS))
    args = parser.parse_args()
    for rows in args.rows:
        for kind in args.kinds:
            for epsilon in args.epsilon:
                told = {"column": kind, "rows": rows, "epsilon": epsilon, "releases": args.releases}
                print(json.dumps(told | measure(kind, rows, epsilon, args.releases)), flush=True)


if __name__ == "__main__":
    main()
