"""Series of amounts side by side, coded by their differences, with nothing declared or bounds.

    python bench/runs/differences.py [--tables walk mean readings balances] [--ways raw bounds] [--epsilon 1]
        [--repeats 4]

Four tables of 20,000 rows with six numbers that follow one another, an age and a region: a *walk* whose steps
are a share of the first amount, amounts around a *mean* of their own, *readings* around a temperature, and
*balances* of which some are paid in full, some not at all. The seed of the tables is fixed. A line a run: the
mean total variation of all pairs of columns in twentieths of the real rows, the slope of synthetic on real
rank correlations, and the columns that were coded relative to which. Constants of
`margrave.measure.discovery.between.relations` were chosen on these tables. The figures are NOT private.
"""

from __future__ import annotations

import argparse
import itertools

import numpy as np
import pyarrow as pa
from scipy.stats import rankdata

from margrave import Schema, Synthesizer
from margrave.schema.columns import Integer, Real, Relative

ROWS, STEPS, SEED = 20_000, 6, 3
TABLES = ("walk", "mean", "readings", "balances")


def make_table(kind: str) -> pa.Table:
    """One of the tables."""
    rng, columns = np.random.default_rng(SEED), dict[str, np.ndarray]()
    if kind == "walk":
        amount = np.exp(rng.normal(8, 1, ROWS))
        step = 0.15 * amount
        for t in range(STEPS):
            columns[f"amount_{t}"] = np.round(amount).astype(np.int64)
            amount = np.maximum(amount + step * rng.normal(0, 1, ROWS), 0)
    elif kind == "mean":
        mean, z = np.exp(rng.normal(8, 1, ROWS)), rng.normal(0, 1, ROWS)
        for t in range(STEPS):
            columns[f"amount_{t}"] = np.round(mean * np.exp(0.2 * z)).astype(np.int64)
            z = 0.8 * z + 0.6 * rng.normal(0, 1, ROWS)
    elif kind == "readings":
        mean, z = rng.normal(15, 8, ROWS), rng.normal(0, 1, ROWS)
        for t in range(STEPS):
            columns[f"reading_{t}"] = np.round(mean + 2 * z + 2 * np.sin(t), 1)
            z = 0.7 * (z + rng.normal(0, 1, ROWS))
    else:
        balance, habit = np.exp(rng.normal(7.5, 1.2, ROWS)), rng.random(ROWS)
        limit = np.round(np.exp(rng.normal(9.5, 0.6, ROWS)), -3)
        for t in range(STEPS):
            columns[f"balance_{t}"] = np.round(balance).astype(np.int64)
            chance, part = rng.random(ROWS), balance * rng.beta(1, 12, ROWS)
            paid = np.where(chance < 0.7 * habit, balance, np.where(chance < 0.7 * habit + 0.15, 0, part))
            if t < STEPS - 1:
                columns[f"paid_{t}"] = np.round(paid).astype(np.int64)
            spent = np.exp(rng.normal(6, 1.1, ROWS)) * (rng.random(ROWS) < 0.8)
            balance = np.minimum(balance - np.round(paid) + spent, 1.1 * limit)
        columns["limit"] = limit.astype(np.int64)
    columns |= {"age": rng.integers(18, 80, ROWS), "region": rng.integers(0, 6, ROWS)}
    return pa.table(columns)


def declare_bounds(table: pa.Table) -> Schema:
    """The least and the greatest number of each column."""
    columns = []
    for name in table.column_names:
        values = table.column(name).to_numpy()
        kind = Integer if values.dtype.kind == "i" else Real
        columns.append(kind(name=name, lower=values.min().item(), upper=values.max().item(), strict=False))
    return Schema(columns)


def score(real: pa.Table, made: pa.Table) -> tuple[float, float]:
    """The mean total variation of pairs in twentieths, and the slope of rank correlations."""
    sides = [
        {name: np.asarray(table.column(name).to_pandas(), dtype=float) for name in real.column_names}
        for table in (real, made)
    ]
    edges = {name: np.unique(np.quantile(x, np.arange(1, 20) / 20)) for name, x in sides[0].items()}
    codes = [
        {name: np.searchsorted(edges[name], x, side="right") for name, x in side.items()} for side in sides
    ]
    apart = []
    for a, b in itertools.combinations(edges, 2):
        shape = len(edges[a]) + 1, len(edges[b]) + 1
        shares = [
            np.bincount(np.ravel_multi_index((side[a], side[b]), shape), minlength=shape[0] * shape[1])
            / len(side[a])
            for side in codes
        ]
        apart.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    upper = np.triu_indices(len(edges), 1)
    first, second = (np.corrcoef([rankdata(x) for x in side.values()])[upper] for side in sides)
    return float(np.mean(apart)), float((first * second).sum() / (first**2).sum())


def main() -> None:
    """Run all releases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--ways", nargs="+", choices=("raw", "bounds"), default=["raw", "bounds"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=4)
    asked = parser.parse_args()
    for kind, way, _ in itertools.product(asked.tables, asked.ways, range(asked.repeats)):
        table = make_table(kind)
        schema = declare_bounds(table) if way == "bounds" else None
        synthesis = Synthesizer("auto", epsilon=asked.epsilon, delta=1e-9, schema=schema).fit(table)
        pairs, slope = score(table, synthesis.sample_arrow(table.num_rows))
        related = [c for c in synthesis.release.schema.columns if isinstance(c, Relative)]
        words = ", ".join(f"{column.name} by {' + '.join(column.bases)}" for column in related)
        print(f"{kind:9} {way:6} pairs {pairs:.4f} slope {slope:.3f}  {words or 'no relation'}", flush=True)


if __name__ == "__main__":
    main()
