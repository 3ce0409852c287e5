"""Means, quantiles and coefficients of columns whose bins were discovered: how far off, how often covered.

    python bench/runs/bin_numbers.py [--releases 40] [--epsilon 1 3] [--rows 5000] [--tables pay] [--out FILE]

Which number a row of a bin has is not told once rows are counted by bin, so answers rest on what a release
knows of the cells inside. Made-up tables of --rows rows: a log-normal column, one of 49 % zeros and a gamma
beyond, a normal one with 30 % missing values (nothing declared, `independent`); and with bounds declared
(`auto`) pay by age and sex, log-normal pay up to 200,000 by age, years of service and sex (`skewed`), and a
normal y by two normal columns that go together by .8 and a group, all from 0 to 1,000 (`wide`). Each
line: the mean of estimate over truth, and the share of 95 % intervals that hold it; the truth is that of
the private table. Tables are drawn by seed 5, noise has none. Shares of 40
have a standard error of .03 to .08.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import margrave as mg
from margrave.regression import linear

KINDS = ("lognormal", "zeros", "missing", "pay", "skewed", "wide")
QUANTILES = (0.5, 0.9, 0.99, 0.999)


def _whole(name: str, lower: int, upper: int) -> mg.Integer:
    return mg.Integer(name=name, lower=lower, upper=upper, missing=False)


SEX = mg.Categorical(name="sex", values=("F", "M"), missing=False)
SCHEMAS = {
    "pay": mg.Schema((_whole("age", 18, 79), SEX, _whole("pay", 0, 99))),
    "skewed": mg.Schema(
        (_whole("age", 18, 79), _whole("service", 0, 61), SEX, _whole("pay", 0, 200_000)),
    ),
    "wide": mg.Schema((_whole("a", 0, 1_000), _whole("b", 0, 1_000), SEX, _whole("pay", 0, 1_000))),
}
Found = dict[str, list[tuple[float, bool]]]


def draw_column(kind: str, rows: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A column of a kind, NaN where a value is missing: shape [rows]."""
    if kind == "lognormal":
        return np.round(np.exp(rng.normal(3.0, 1.5, rows)), 2)
    if kind == "zeros":
        return np.where(rng.random(rows) < 0.49, 0.0, np.round(rng.gamma(2.0, 10.0, rows), 1))
    return np.where(rng.random(rows) < 0.3, np.nan, np.round(rng.normal(50.0, 15.0, rows), 1))


def note(found: Found, what: str, estimate: float, interval: tuple[float, float], truth: float) -> None:
    """Add one estimate over its truth, and whether the interval holds it."""
    found[what].append((estimate / truth, interval[0] <= truth <= interval[1]))


def answer_column(kind: str, rows: int, epsilon: float, releases: int) -> Found:
    """Means and quantiles of a column of which nothing is declared."""
    rng, found = np.random.default_rng(5), defaultdict[str, list[tuple[float, bool]]](list)
    for _ in range(releases):
        x = draw_column(kind, rows, rng)
        held = np.sort(x[~np.isnan(x)])
        table = pa.table({"x": pa.array(x, from_pandas=True), "g": rng.choice(["x", "y"], rows)})
        release = mg.Synthesizer("independent", epsilon=epsilon, delta=1e-6).fit(table)
        mean = release.mean("x", of="table")
        note(found, "mean", mean.value, mean.interval, float(held.mean()))
        for q in QUANTILES:
            one = release.quantile("x", q, of="table")
            truth = float(np.quantile(held, q, method="inverted_cdf"))
            if truth:
                note(found, f"quantile {q:g}", one.value, one.interval, truth)
    return found


def draw_pay(kind: str, rows: int, rng: np.random.Generator) -> dict[str, np.ndarray[Any, Any]]:
    """Pay and what it goes with, by name: shape [rows] each; sex is 1 for M."""
    if kind == "pay":
        age, man = rng.integers(18, 80, rows), rng.random(rows) < 0.5
        pay = np.clip(np.round(20 + 0.3 * age + 5 * man + rng.normal(0, 8, rows)), 0, 99)
        return {"age": age, "sex": man, "pay": pay}
    if kind == "skewed":
        man, age = rng.random(rows) < 0.5, rng.integers(18, 80, rows)
        service = np.round((age - 18) * rng.beta(2, 3, rows))
        log = 7 + 0.01 * age + 0.02 * service + 0.2 * man + rng.normal(0, 0.6, rows)
        return {"age": age, "service": service, "sex": man, "pay": np.round(np.exp(log)).clip(0, 200_000)}
    first = rng.normal(0, 1, rows)
    second = 0.8 * first + 0.6 * rng.normal(0, 1, rows)
    man = rng.random(rows) < 1 / (1 + np.exp(-second))
    a, b = (np.clip(np.round(500 + 100 * x), 0, 1_000) for x in (first, second))
    pay = np.clip(np.round(300 + 0.5 * a - 0.3 * b + 40 * man + rng.normal(0, 60, rows)), 0, 1_000)
    return {"a": a, "b": b, "sex": man, "pay": pay}


def answer_pay(kind: str, rows: int, epsilon: float, releases: int) -> Found:
    """The mean of pay, the difference of two groups, and coefficients, with bounds declared."""
    rng, found = np.random.default_rng(5), defaultdict[str, list[tuple[float, bool]]](list)
    for _ in range(releases):
        columns = draw_pay(kind, rows, rng)
        pay, man = columns["pay"], columns["sex"].astype(bool)
        cells = {name: x.astype(np.int64) for name, x in columns.items() if name != "sex"}
        table = pa.table(cells | {"sex": np.where(man, "M", "F")})
        release = mg.Synthesizer("auto", epsilon=epsilon, delta=1e-6, schema=SCHEMAS[kind]).fit(table)
        mean = release.mean("pay", of="table")
        note(found, "mean", mean.value, mean.interval, float(pay.mean()))
        apart = release.mean("pay", by="sex", of="table").difference("M", "F")
        note(found, "difference", apart.value, apart.interval, float(pay[man].mean() - pay[~man].mean()))
        features = [name for name in columns if name != "pay"]
        design = np.column_stack([np.ones(rows), *(columns[name] for name in features)])
        truth = np.linalg.lstsq(design, pay, rcond=None)[0]
        fitted = linear(release, "pay", reference={"sex": "F"}, of="table")
        names = ["sex=M" if name == "sex" else name for name in features]
        for place, name in enumerate(names, start=1):
            if not np.isnan(fitted.lower[place]):
                interval = float(fitted.lower[place]), float(fitted.upper[place])
                note(found, name, float(fitted.estimates[place]), interval, float(truth[place]))
    return found


def main() -> None:
    """Print a line for each table and answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--releases", type=int, default=40)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.0])
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--tables", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--out", type=Path, help="append the outcomes to this file, one line of JSON each")
    args = parser.parse_args()
    for kind in args.tables:
        for epsilon in args.epsilon:
            start = time.perf_counter()
            ask = answer_pay if kind in SCHEMAS else answer_column
            for what, pairs in ask(kind, args.rows, epsilon, args.releases).items():
                ratio, held = np.mean(np.asarray(pairs, dtype=float), axis=0)
                line = {
                    "table": kind,
                    "rows": args.rows,
                    "epsilon": epsilon,
                    "answer": what,
                    "releases": len(pairs),
                }
                line |= {"over truth": round(float(ratio), 3), "covered": round(float(held), 3)}
                print(json.dumps(line), flush=True)
                if args.out is not None:
                    with args.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
            print(f"# {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
