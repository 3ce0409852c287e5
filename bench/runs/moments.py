"""What sums of products beside tables are worth to a linear regression of the target.

    python bench/runs/moments.py [--data FOLDER] [--tables adult acsincome choosing/real-wages ...]
        [--epsilon 0.1 1] [--repeats 2] [--share 0.25] [--out bench/results/moments.jsonl]
    python bench/runs/moments.py --summary bench/results/moments.jsonl

A table is one of bench/runs/paper003.py, whose files are in FOLDER, of which at most 50,000 training rows are
used, with its encodings, no intercept and the mean squared error on its test rows; or one of the nursery
(docs/nursery.md), with its bins declared, default encodings, and the mean squared distance between
predictions and those of least squares of its rows, over the variance of the target. A line a run, of releases
of `auto` that are told the target: `tables` with moments=False, `both` with what is bought by default,
`moments` with moments=True or the share of --share; `ssp`, `Regressor` with the whole epsilon; and
`tables_rows`, `both_rows`, `moments_rows`, the mean total variation of all tables of two columns between as
many synthetic rows of these releases and the table's own. delta 1e-5. --summary tells, by table and epsilon,
medians, the ratio of the medians of `both` and of `moments` to the less of those of `tables` and `ssp`, and
the range of the latter ratio that holds .9 of 2,000 bootstrap samples of the runs. Noise is fresh in every
run. Not private.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import paper003
from numpy.typing import NDArray

import margrave as mg
from margrave.benchmark.nursery import find_nursery_table
from margrave.benchmark.prepared import read_schema
from margrave.regression import linear
from margrave.regression.coefficients import Coefficients
from margrave.run.regressor import Regressor
from margrave.schema.encode import encode
from margrave.tables.numbers import scores_of

Floats = NDArray[np.float64]
Case = tuple[Any, mg.Schema, str, dict[str, Any], Callable[[Any, Floats], float]]
DELTA = 1e-5
MOST_ROWS = 50_000
WAYS = ("tables", "both", "moments")


def predict(found: Any, codes: Any, estimates: Floats) -> Floats:
    """The linear predictor of encoded rows."""
    encodings = found.fit.design.encodings if isinstance(found, Coefficients) else found.encodings
    parts = [e.matrix.T[codes.column(e.column)] for e in encodings]
    ones = [np.ones((codes.rows, 1))] if found.names[0] == "(intercept)" else []
    return np.asarray(np.hstack([*ones, *parts]) @ estimates)


def open_case(name: str, data: Path | None) -> Case:
    """The rows, the schema, the target, options of the regression, and the score of a fit."""
    if "/" not in name and data is not None:
        target = paper003.TARGETS[name, "linear"]
        schema, size = paper003.schema_of(name), paper003.SIZES[name][target]
        test = encode(paper003.read(data, name, "test"), schema)
        options = {"intercept": False, **paper003.options_of(name, target)}

        def judge(found: Any, estimates: Floats) -> float:
            return paper003.score("linear", predict(found, test, estimates), test, target, size)

        rows = paper003.read(data, name, "train")
        if rows.num_rows > MOST_ROWS:
            rows = rows.take(np.random.default_rng(0).permutation(rows.num_rows)[:MOST_ROWS])
        return rows, schema, target, options, judge
    entry = find_nursery_table(name)
    raw = entry.load()
    if entry.owner:
        raw = raw.drop_columns([entry.owner])
    schema = read_schema(raw, 32, entry.cut)
    codes = encode(raw, schema)
    numeric = [c for c in schema.attributes if scores_of(c) is not None and c.missing_code is None]
    target = entry.target if entry.target in [c.name for c in numeric] else numeric[0].name
    label = np.asarray(scores_of(schema[target]))[codes.column(target)]

    def distance(found: Any, estimates: Floats) -> float:
        encodings = found.fit.design.encodings if isinstance(found, Coefficients) else found.encodings
        rows = np.hstack([np.ones((codes.rows, 1)), *(e.matrix.T[codes.column(e.column)] for e in encodings)])
        truth = rows @ np.linalg.lstsq(rows, label, rcond=1e-10)[0]
        return float(np.mean((predict(found, codes, estimates) - truth) ** 2) / label.var())

    return raw, schema, target, {}, distance


def compare_rows(synthesis: Any, raw: Any, schema: mg.Schema) -> float:
    """The mean total variation of tables of two columns between synthetic rows and the table's."""
    real, drawn = encode(raw, schema), encode(synthesis.sample(raw.num_rows), schema)
    apart = []
    for a, b in combinations(real.domain.names, 2):
        cells = real.domain[a] * real.domain[b]
        tables = [
            np.bincount(rows.column(a) * real.domain[b] + rows.column(b), minlength=cells) / rows.rows
            for rows in (real, drawn)
        ]
        apart.append(0.5 * np.abs(tables[0] - tables[1]).sum())
    return float(np.mean(apart))


def run_once(case: Case, epsilon: float, share: float | None) -> dict[str, Any]:
    """The scores of one release each."""
    raw, schema, target, options, judge = case
    common: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "schema": schema}
    scores = {}
    for way, moments in zip(WAYS, (False, None, True if share is None else share), strict=True):
        synthesis = mg.Synthesizer("auto", target=target, moments=moments, **common).fit(raw)
        found = linear(synthesis, target, **options)
        scores[way] = judge(found, found.estimates)
        scores[f"{way}_rows"] = compare_rows(synthesis, raw, schema)
    single = Regressor(target=target, **common, **options).fit(raw)
    scores["ssp"] = judge(single, single.estimates)
    return {"share": share} | {name: round(score, 6) for name, score in scores.items()}


def summarise(path: Path) -> None:
    """Print the medians of stored lines, and how far sums are from the better of tables and ssp."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    keys = dict.fromkeys((line["table"], line["epsilon"], line["share"]) for line in lines)
    rng = np.random.default_rng(0)
    for table, epsilon, share in keys:
        own = [
            one for one in lines if (one["table"], one["epsilon"], one["share"]) == (table, epsilon, share)
        ]
        scores = np.array([[one[name] for name in ("tables", "ssp", "both", "moments")] for one in own])
        drawn = np.median(scores[rng.integers(0, len(scores), (2000, len(scores)))], axis=1)
        low, high = np.quantile(drawn[:, 3] / drawn[:, :2].min(axis=1), [0.05, 0.95])
        tables, ssp, both, moments = np.median(scores, axis=0)
        best = min(tables, ssp)
        rows = [np.median([one[f"{way}_rows"] for one in own]) for way in WAYS]
        print(
            f"{table} {epsilon:g} share {share}: {len(scores)} runs, tables {tables:.4g}, ssp {ssp:.4g}, "
            f"both {both:.4g}, moments {moments:.4g}, ratios {both / best:.2f} and {moments / best:.2f} "
            f"({low:.2f} to {high:.2f}), rows {', '.join(f'{apart:.4f}' for apart in rows)}"
        )


def main() -> None:
    """Print a line a run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+", default=["adult", "acsincome"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--share", type=float)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--summary", type=Path)
    args = parser.parse_args()
    if args.summary is not None:
        summarise(args.summary)
        return
    for name in args.tables:
        case = open_case(name, args.data)
        for epsilon in args.epsilon:
            for _ in range(args.repeats):
                line = {"table": name, "target": case[2], "epsilon": epsilon}
                scores = run_once(case, epsilon, args.share)
                print(json.dumps(line | scores), flush=True)
                if args.out is not None:
                    with args.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line | scores) + "\n")


if __name__ == "__main__":
    main()
