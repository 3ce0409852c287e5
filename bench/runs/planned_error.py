"""Whether the error that a plan found its epsilon from is kept: `Synthesizer.plan(error=...)`.

    python bench/runs/planned_error.py [--half reporting] [--tables NAME ...] [--error 0.05 0.1] [--runs 4]
        [--method auto] [--rows 4000]

For each table of the nursery (docs/nursery.md), with its bins and values declared and its true number of rows
as the guess, the plan finds an epsilon; then so many runs are made at it. A line a table and error: the
epsilon; the share of runs in which the mean total variation over all tables of two columns is at most what
was asked, for the noisy tables (what the plan covers) and for those of the model; and the mean of both over
what was asked. delta 1e-6. Noise is fresh in every run. Not private: the real table is looked at to judge.
"""

from __future__ import annotations

import argparse
from itertools import combinations
from typing import Any

import numpy as np

import margrave as mg
from margrave.benchmark.nursery import find_nursery_table, list_nursery_tables
from margrave.benchmark.prepared import read_schema
from margrave.errors import InputError
from margrave.run.synthesis import Synthesis
from margrave.schema.encode import encode
from margrave.tables.estimates import PooledTables

DELTA = 1e-6


def measure_errors(synthesis: Synthesis, codes: Any) -> tuple[float, float]:
    """Mean total variation of all measured pairs of the noisy tables, and of the model's."""
    release = synthesis.release
    tables = PooledTables(release.domain, release.measurements)
    noisy, fitted = [], []
    for a, b in combinations(release.domain.names, 2):
        shape = release.domain.shape((a, b))
        places = np.ravel_multi_index((codes.column(a), codes.column(b)), shape)
        real = np.bincount(places, minlength=shape[0] * shape[1]).reshape(shape)
        fitted.append(0.5 * np.abs(synthesis.model.project((a, b)) - real).sum() / codes.rows)
        if tables.holds((a, b)):
            noisy.append(0.5 * np.abs(tables.table((a, b)) - real).sum() / codes.rows)
    return float(np.mean(noisy)), float(np.mean(fitted))


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=("choosing", "reporting"), default="reporting")
    parser.add_argument("--tables", nargs="+", default=())
    parser.add_argument("--error", type=float, nargs="+", default=[0.05, 0.1])
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--rows", type=int, default=4000)
    args = parser.parse_args()
    words = [table.word for table in list_nursery_tables(args.half)]
    for word in [f"{args.half}/{name}" for name in args.tables] or words:
        entry = find_nursery_table(word)
        raw = entry.load(min(args.rows, entry.rows))
        if entry.owner:
            raw = raw.drop_columns([entry.owner])
        schema = read_schema(raw, 16, entry.cut)
        codes = encode(raw, schema)
        for error in args.error:
            options: dict[str, Any] = {"delta": DELTA, "schema": schema}
            try:
                plan = mg.Synthesizer(args.method, epsilon=1.0, **options).plan(
                    raw, rows=raw.num_rows, error=error
                )
            except InputError:
                print(f"{word} error {error:g}: no epsilon up to the largest suffices", flush=True)
                continue
            run = mg.Synthesizer(args.method, epsilon=plan.epsilon, **options)
            found = np.array([measure_errors(run.fit(raw), codes) for _ in range(args.runs)])
            kept, over = (found <= error).mean(axis=0), found.mean(axis=0) / error
            print(
                f"{word} error {error:g}: epsilon {plan.epsilon:g}, kept {kept[0]:.2f} noisy {kept[1]:.2f} "
                f"model, over asked {over[0]:.3f} noisy {over[1]:.3f} model",
                flush=True,
            )


if __name__ == "__main__":
    main()
