"""What `moments=True` is worth to a linear regression of the target.

    python bench/runs/moments.py [--data FOLDER] [--tables adult acsincome choosing/real-wages ...]
        [--epsilon 0.1 1] [--repeats 2] [--share 0.25] [--alone]

A table is one of bench/runs/paper003.py, whose files are in FOLDER, with its encodings, no intercept and the
mean squared error on its test rows; or one of the nursery (docs/nursery.md), with its bins declared, default
encodings, and the mean squared distance between predictions and those of least squares of its rows, over the
variance of the target. A line a run: `both` and `model`, `margrave.regression` with that source from a
release of `auto`; `ssp`, `Regressor` with the whole epsilon; `moments`, `moments_model`, `moments_measured`
from a release of `auto` with moments=True; `rows` and `moments_rows`, the mean total variation of all tables
of two columns between as many synthetic rows of these releases and the table's own. delta 1e-5. --alone
leaves out what no release with moments is needed for. --share overrides the share of rho that moments get.
Noise is fresh in every run. Not private.
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
from margrave.tables.estimates import scores_of

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


def run_once(case: Case, epsilon: float, share: float | None, alone: bool) -> dict[str, float]:
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
    run = mg.Synthesizer("auto", target=target, moments=True, **common)
    if share is not None:
        from fractions import Fraction

        run.moments_share = Fraction(share).limit_denominator(100)
    synthesis = run.fit(raw)
    found = linear(synthesis, target, **options)
    scores["moments"] = judge(found, found.estimates)
    scores["moments_measured"] = judge(found, found.unbiased)
    found = linear(synthesis, target, source="model", **options)
    scores["moments_model"] = judge(found, found.estimates)
    scores["moments_rows"] = compare_rows(synthesis, raw, schema)
    return {name: round(score, 6) for name, score in scores.items()}


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
    args = parser.parse_args()
    for name in args.tables:
        case = open_case(name, args.data)
        for epsilon in args.epsilon:
            for _ in range(args.repeats):
                line = {"table": name, "target": case[2], "epsilon": epsilon}
                scores = run_once(case, epsilon, args.share, args.alone)
                print(json.dumps(line | scores), flush=True)


if __name__ == "__main__":
    main()
