"""What `moments=True` is worth to a linear regression of the target.

    python bench/runs/moments.py [--data FOLDER] [--tables adult acsincome choosing/real-wages ...]
        [--epsilon 0.1 1] [--repeats 2] [--share 0.25] [--alone] [--out bench/results/moments.jsonl]
    python bench/runs/moments.py --summary bench/results/moments.jsonl

A table is one of bench/runs/paper003.py, whose files are in FOLDER, with its encodings, no intercept and the
mean squared error on its test rows; or one of the nursery (docs/nursery.md), with its bins declared, default
encodings, and the mean squared distance between predictions and those of least squares of its rows, over the
variance of the target. A line a run: `both` and `model`, `margrave.regression` with that source from a
release of `auto`; `ssp`, `Regressor` with the whole epsilon; `moments`, `moments_model`, `moments_measured`
from a release of `auto` with moments=True; `rows` and `moments_rows`, the mean total variation of all tables
of two columns between as many synthetic rows of these releases and the table's own; `bought`, what the rest
of rho went into where the run decided. delta 1e-5. --alone leaves out what no release with moments is needed
for. --share is a fixed share of rho for moments. --summary tells, by table and epsilon, medians, the ratio of
the median of `moments` to the less of those of `both` and `ssp`, and the range of that ratio that holds .9 of
2,000 bootstrap samples of the runs. Noise is fresh in every run. Not private.
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

        return paper003.read(data, name, "train"), schema, target, options, judge
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


def run_once(case: Case, epsilon: float, share: float | None, alone: bool) -> dict[str, Any]:
    """The scores of one release each."""
    raw, schema, target, options, judge = case
    common: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA, "schema": schema}
    scores = {}
    if not alone:
        synthesis = mg.Synthesizer("auto", target=target, **common).fit(raw)
        for source in ("both", "model"):
            found = linear(synthesis, target, source=source, **options)
            scores[source] = judge(found, found.estimates)
        scores["rows"] = compare_rows(synthesis, raw, schema)
        single = Regressor(target=target, **common, **options).fit(raw)
        scores["ssp"] = judge(single, single.estimates)
    moments: Any = True if share is None else share
    run = mg.Synthesizer("auto", target=target, moments=moments, **common)
    synthesis = run.fit(raw)
    found = linear(synthesis, target, **options)
    scores["moments"] = judge(found, found.estimates)
    scores["moments_measured"] = judge(found, found.unbiased)
    found = linear(synthesis, target, source="model", **options)
    scores["moments_model"] = judge(found, found.estimates)
    scores["moments_rows"] = compare_rows(synthesis, raw, schema)
    halves = "by halves" in synthesis.release.notes.get("moments", "")
    bought = "tables" if synthesis.release.sums is None else "halves" if halves else "moments"
    return {"share": share, "bought": bought} | {name: round(score, 6) for name, score in scores.items()}


def summarise(path: Path) -> None:
    """Print the medians of stored lines, and how far moments are from the better of the two."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    keys = dict.fromkeys((line["table"], line["epsilon"], line["share"]) for line in lines if "both" in line)
    rng = np.random.default_rng(0)
    for table, epsilon, share in keys:
        own = [
            one for one in lines if (one["table"], one["epsilon"], one["share"]) == (table, epsilon, share)
        ]
        scores = np.array(
            [[one[name] for name in ("both", "ssp", "moments")] for one in own if "both" in one]
        )
        drawn = np.median(scores[rng.integers(0, len(scores), (2000, len(scores)))], axis=1)
        low, high = np.quantile(drawn[:, 2] / drawn[:, :2].min(axis=1), [0.05, 0.95])
        both, ssp, moments = np.median(scores, axis=0)
        bought = [one["bought"] for one in own]
        print(
            f"{table} {epsilon:g} share {share}: {len(scores)} runs, both {both:.4g}, ssp {ssp:.4g}, moments "
            f"{moments:.4g}, ratio {moments / min(both, ssp):.2f} ({low:.2f} to {high:.2f}), "
            f"bought {', '.join(sorted(bought))}"
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
    parser.add_argument("--alone", action="store_true")
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
                scores = run_once(case, epsilon, args.share, args.alone)
                print(json.dumps(line | scores), flush=True)
                if args.out is not None:
                    with args.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line | scores) + "\n")


if __name__ == "__main__":
    main()
