"""Processor seconds of a regression with intervals from a kept release.

    python bench/runs/regression_time.py --data FOLDER --releases KEPT [--tables adult acsemployment ...]
        [--tables choosing/real-wages ...] [--epsilon 1] [--repeats 9] [--out FILE] [--coefficients FILE]

A table is one of bench/runs/paper003.py, whose files are in FOLDER, with its encodings and an intercept; or
one of the nursery (docs/nursery.md), with numbers in 32 bins and default encodings. One release of `auto`
each, told the target, delta 1e-5, is kept in KEPT under the names of paper003.py and taken from there.
A JSON line a table and kind of regression: the number of coefficients, and the least, the median and the
largest processor seconds of all calls but the first, whose caches are cold. Logistic regressions of a target
of numbers are of the level that comes last. --coefficients keeps estimates and standard errors, or prints by
how much they differ from those of an earlier run there, relative to the larger of each and its error.
Run it with OPENBLAS_NUM_THREADS=1 for one core.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import paper003
from numpy.typing import NDArray

import margrave as mg
from margrave.benchmark.nursery import find_nursery_table
from margrave.benchmark.prepared import read_schema
from margrave.regression import linear, logistic
from margrave.regression.coefficients import Coefficients
from margrave.tables.estimates import labels_of
from margrave.tables.numbers import scores_of

Floats = NDArray[np.float64]
Case = tuple[mg.Schema, str, Any, dict[str, Any]]
DELTA = 1e-5
KINDS = {"linear": linear, "logistic": logistic}


def open_case(name: str, kind: str, data: Path) -> Case | None:
    """The schema, the target, the rows and the options; None where a table has no such regression."""
    if "/" not in name:
        target = paper003.TARGETS.get((name, kind))
        if target is None:
            return None
        options = paper003.options_of(name, target)
        if kind == "logistic":
            options["encodings"].pop(target)
        return paper003.schema_of(name), target, paper003.read(data, name, "train"), options
    entry = find_nursery_table(name)
    raw = entry.load()
    raw = raw.drop_columns([entry.owner]) if entry.owner else raw
    schema = read_schema(raw, 32, entry.cut)
    if kind == "linear":
        numeric = [c.name for c in schema.attributes if scores_of(c) is not None and c.missing_code is None]
        target = entry.target if entry.target in numeric else numeric[0]
        return schema, target, raw, {}
    target = entry.target or schema.attributes[0].name
    return schema, target, raw, {"positive": labels_of(schema, target)[schema[target].present - 1]}


def release_of(path: Path, case: Case, epsilon: float) -> Any:
    """A release, fresh or as it was kept."""
    schema, target, rows, _ = case
    if not path.exists():
        if rows.num_rows > 50_000:
            rows = rows.take(np.random.default_rng(0).permutation(rows.num_rows)[:50_000])
        run = mg.Synthesizer("auto", epsilon=epsilon, delta=DELTA, schema=schema, target=target)
        run.fit(rows).save(path)
    return mg.load(path)


def time_calls(call: Any, repeats: int) -> tuple[Coefficients, list[float]]:
    """The last result, and the seconds of each call after the first."""
    found, seconds = call(), []
    for _ in range(repeats):
        start = time.process_time()
        found = call()
        seconds.append(time.process_time() - start)
    return found, seconds


def compare(kept: Path, key: str, found: Coefficients) -> dict[str, float]:
    """How far a result is from that of an earlier run; it is kept where there was none."""
    known = json.loads(kept.read_text()) if kept.exists() else {}
    now = {"estimates": found.estimates, "middles": found.middles, "errors": found.standard_errors}
    if key not in known:
        known[key] = {name: values.tolist() for name, values in now.items()}
        kept.write_text(json.dumps(known))
        return {}
    off = {}
    for name, values in now.items():
        before = np.asarray(known[key][name], dtype=np.float64)
        finite = np.isfinite(before) & np.isfinite(values)
        if not (np.isfinite(before) == np.isfinite(values)).all():
            raise SystemExit(f"{key}: other coefficients are determined than before")
        size = np.fmax(np.abs(before[finite]), np.asarray(known[key]["errors"])[finite])
        off[name] = float((np.abs(values - before)[finite] / size).max(initial=0.0))
    return off


def main() -> None:
    """Print a line a table and kind."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--releases", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", default=["adult", "acsemployment", "acsmobility", "acsincome"])
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--coefficients", type=Path)
    args = parser.parse_args()
    for name in args.tables:
        for kind, fit in KINDS.items():
            case = open_case(name, kind, args.data)
            if case is None:
                continue
            place = f"{name.replace('/', '-')}-{kind}-auto-{args.epsilon:g}-0.margrave"
            release = release_of(args.releases / place, case, args.epsilon)
            call = lambda: fit(release, case[1], **case[3])  # noqa: B023, E731
            found, seconds = time_calls(call, args.repeats)
            line: dict[str, Any] = {"table": name, "kind": kind, "epsilon": args.epsilon}
            line |= {"coefficients": len(found.names), "least": round(min(seconds), 3)}
            line |= {"median": round(float(np.median(seconds)), 3), "largest": round(max(seconds), 3)}
            if args.coefficients is not None:
                line |= compare(args.coefficients, f"{name} {kind}", found)
            print(json.dumps(line), flush=True)
            if args.out is not None:
                with args.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
