"""How bins are cut, how many there are and what discovery may spend: error of a whole run on the raw table.

    python bench/runs/binning.py --data FOLDER --out bench/results/binning.jsonl [--plans few]

Each run discovers a typed table with the stated options and fits a method at the stated epsilon, delta 1e-9.
Rows drawn from it are held against the real rows under one coding that is the same for all runs: each column
of numbers in at most 20 bins of like mass of the real column, all other columns by value. A line a run:

    one_way, pair    mean total variation of all one-ways and of all pairs
    w1               mean over columns of numbers of the Wasserstein distance of present values, over the
                     distance of the real 5 % and 95 % quantiles
    auc              of boosted trees that learn the target from the sampled rows, on the real ones
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from columns import _table, distance, values_of

from margrave import Schema, Synthesizer, __version__
from margrave.engines.memory import open_source
from margrave.evaluation.learners import score_classifier
from margrave.evaluation.rows import observed_schema
from margrave.schema.columns import Binned

PLANS: list[dict[str, Any]] = [
    {"binning": "adaptive", "bins": 32, "share": 1 / 3},
    *({"binning": kind, "bins": 32, "share": 1 / 3} for kind in ("uniform", "quantile", "privtree")),
    *({"binning": "adaptive", "bins": bins, "share": 1 / 3} for bins in (16, 64)),
    *({"binning": "adaptive", "bins": 32, "share": share} for share in (0.1, 0.2, 0.5)),
    {"binning": "adaptive", "bins": 32, "share": 1 / 3, "rare": 0.002},
]
FEW = [plan for plan in PLANS if plan["bins"] == 32 and "rare" not in plan]
TARGETS = {"adult": "income", "credit_default": "default payment next month", "bank_full": "y"}
TARGETS |= {"acs12": "disability", "diamonds": "cut"}
TABLES = tuple(TARGETS)


def main() -> None:
    """Write one line a table, plan and repeat."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=["mst"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--plans", choices=("all", "few"), default="all")
    args = parser.parse_args()
    for name in args.tables:
        real = _table(name, args.data)
        for method in args.methods:
            for epsilon in args.epsilons:
                for plan in PLANS if args.plans == "all" else FEW:
                    for repeat in range(args.repeats):
                        line = {"table": name, "method": method, "epsilon": epsilon, **plan, "repeat": repeat}
                        line |= run(real, method, epsilon, plan, TARGETS[name]) | {"margrave": __version__}
                        print(line, flush=True)
                        with open(args.out, "a", encoding="utf-8") as out:
                            out.write(json.dumps(line) + "\n")


def run(real: pa.Table, method: str, epsilon: float, plan: dict[str, Any], target: str) -> dict[str, float]:
    """Fit once and compare."""
    source, _ = open_source(real)
    columns = []
    for column in source.columns:
        if isinstance(column, Binned):
            column = dataclasses.replace(column, binning=plan["binning"], bins=plan["bins"])
        columns.append(column)
    if "rare" in plan:
        from margrave.schema.columns import Categorical

        texts = [column for column in columns if not isinstance(column, Binned)]
        columns = [c for c in columns if isinstance(c, Binned)]
        columns += [Categorical(name=column.name, rare=plan["rare"]) for column in texts]
    start = time.process_time()
    synthesizer = Synthesizer(method, epsilon=epsilon, schema=Schema(tuple(columns)), discovery=plan["share"])
    made = synthesizer.fit(real).sample(real.num_rows, rng=0)
    seconds = time.process_time() - start
    return {**compared(real, made, target), "cpu": round(seconds, 2)}


def compared(real: pa.Table, made: pa.Table, target: str) -> dict[str, float]:
    """Errors of one-ways, pairs and numbers, and what is learned of the target, under one coding."""
    sources = [open_source(table)[0] for table in (real, made)]
    schema = observed_schema(sources[0], sources[1])
    rows = [source.bind(schema).encoded for source in sources]
    found = {}
    for order, word in ((1, "one_way"), (2, "pair")):
        errors = []
        for names in combinations(schema.domain.names, order):
            shape = schema.domain.shape(names)
            shares = []
            for encoded in rows:
                flat = np.ravel_multi_index([encoded.column(name) for name in names], shape)
                shares.append(np.bincount(flat, minlength=int(np.prod(shape))) / encoded.rows)
            errors.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
        found[word] = round(statistics.mean(errors), 5)
    numbers = [name for name in real.column_names if pa.types.is_floating(real[name].type)]
    numbers += [name for name in real.column_names if pa.types.is_integer(real[name].type)]
    pairs = [(values_of(real[name])[0], values_of(made[name])[0]) for name in numbers]
    found["w1"] = round(statistics.mean(distance(a, b) if len(b) else 1.0 for a, b in pairs), 5)
    scores = score_classifier(rows[1], rows[0], target, schema=schema)
    return found | {score.name: round(score.value, 4) for score in scores if score.name == "auc"}


if __name__ == "__main__":
    main()
