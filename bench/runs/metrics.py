"""All metrics on Bank, split and binned as by Chen et al. 2025: reference rows and methods side by side.

    python bench/runs/metrics.py --data FOLDER --methods independent auto --epsilon 1 --repeats 1

A fifth of bank-full is held out by the seed. Numbers are cut into 100 equal bins over their range, as for
that paper's fidelity error; a method sees the other four fifths without a schema and discovers it within
epsilon (delta 1e-5). "real rows" is the paper's "Ground Truth": F1 0.76, query error 0.001, fidelity error
0.03 there (tables 2 and 14). A bootstrap and a shuffle of the private table are scored, too.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import margrave as mg
from margrave.engines.frames import read_table
from margrave.evaluation import METRICS, Rows, Task, score_metrics, score_references, split, summarise
from margrave.schema.columns import Categorical, Integer
from margrave.schema.schema import Schema
from tables import FILES, _read

RESULTS = Path(__file__).parent.parent / "results" / "metrics.jsonl"


def bank_schema(table: Any) -> Schema:
    """Its columns with the values they hold: numbers in 100 equal bins, text by value."""
    columns: list[Any] = []
    for name in table.column_names:
        values = table[name].to_pylist()
        if isinstance(values[0], str):
            columns.append(
                Categorical(name=name, values=tuple(sorted(set(values))), other="(other)", missing=True)
            )
        else:
            low, high = min(values), max(values)
            columns.append(Integer(name=name, lower=low, upper=high, bins=100, missing=True, strict=False))
    return Schema(tuple(columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--methods", nargs="+", default=["independent", "auto"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--metrics", nargs="+", default=list(METRICS))
    options = parser.parse_args()
    table = read_table(_read(Path(options.data) / FILES["bank-full"]))[0]
    schema = bank_schema(table)
    rows = Rows.of(table, schema)
    train, test = split(rows, 0.2, np.random.default_rng(0))
    order = np.random.default_rng(0).permutation(rows.size)
    private = table.take(np.sort(order[round(rows.size * 0.2) :]))
    found: dict[str, list[Any]] = {}
    for repeat in range(options.repeats):
        for method in options.methods:
            start = time.perf_counter()
            synthesis = mg.Synthesizer(method, epsilon=options.epsilon, delta=1e-5).fit(private)
            made = read_table(synthesis.sample(train.size, rng=repeat))[0].select(schema.names)
            task = Task(train, Rows.of(made, schema), schema, held_out=test, target="y", seed=repeat)
            scores = score_metrics(task, options.metrics)
            found.setdefault(method, []).append(scores)
            print(method, repeat, f"{time.perf_counter() - start:.1f} s", flush=True)
    references = score_references(task, options.metrics)
    means = {name: {one.name: one.mean for one in summarise(runs)} for name, runs in found.items()}
    lines = references | means
    with RESULTS.open("a", encoding="utf-8") as file:
        facts = {"data": "bank-full", "epsilon": options.epsilon, "repeats": options.repeats}
        file.write(json.dumps(facts | {"scores": lines}).replace("NaN", "null") + "\n")
    print("| Metric | " + " | ".join(lines) + " |")
    print("|---" * (len(lines) + 1) + "|")
    for name in options.metrics:
        values = [scores.get(name, float("nan")) for scores in lines.values()]
        cells = ["" if np.isnan(value) else f"{value:.4f}" for value in values]
        print(f"| `{name}` | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
