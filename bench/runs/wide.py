"""Tables of very many columns: what discovery, measuring, fitting, drawing, planning and comparing take.

    python bench/runs/wide.py [--columns 400 1200] [--rows 20000] [--max-seconds 120] [--declared]

Ten columns at a time share a hidden one: whole numbers from 0 to 49, half of them that column's. A line of
JSON for each setting, made in a process of its own on one thread; with --processor the time limit counts
processor seconds, as on a machine that does nothing else. Seconds are processor seconds:

    plan       what the plan foretells: seconds, low and high, and MiB
    open       seconds until discovery begins, `discover` until the strategy begins
    strategy   seconds of measuring and fitting; a time limit counts questions at their public price instead
    draw       seconds to draw as many rows
    memory     largest resident memory, MiB
    silence    longest seconds, by the clock on the wall, between two steps that the run told of
    steps      of the mixture's descent; 0 where the time limit left none, and columns come out independent
    evaluate   seconds of `margrave.evaluate` of the drawn rows; `pairs` is what its scores say of pairs,
               `errors` the mean total variation of columns and of pairs

**Not private**: `evaluate` reads the made table exactly.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

HIDDEN = 10
"""Columns that share a hidden one."""
CODES = 50


def make_table(columns: int, rows: int) -> Any:
    """Whole numbers, half of them those of a column that ten columns share."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(columns)
    made = {}
    for place in range(columns):
        if place % HIDDEN == 0:
            hidden = rng.integers(0, CODES, rows)
        own = rng.integers(0, CODES, rows)
        made[f"c{place}"] = np.where(rng.random(rows) < 0.5, hidden, own)
    return pa.table(made)


def count_processor_time() -> None:
    """Let time limits count processor seconds, as on a machine that does nothing else."""
    import types

    import margrave.limits

    margrave.limits.time = types.SimpleNamespace(monotonic_ns=time.process_time_ns)  # type: ignore[attr-defined]


def run(columns: int, rows: int, limit: float | None, declared: bool, compare: bool) -> dict[str, Any]:
    """One setting: the figures of the head of this file."""
    import margrave as mg

    table = make_table(columns, rows)
    names = table.column_names
    schema = mg.Schema(
        tuple(mg.Integer(name=n, lower=0, upper=CODES - 1, bins=5, missing=False) for n in names)
    )
    begun: dict[str, float] = {}
    told = [time.monotonic()]

    def note(step: Any) -> None:
        told.append(time.monotonic())
        begun.setdefault("discover" if step.stage == "discover" else "other", time.process_time())
        if step.stage in ("measure", "select", "train", "fit"):
            begun.setdefault("strategy", time.process_time())

    synthesizer = mg.Synthesizer(
        epsilon=1.0,
        delta=1e-6,
        max_seconds=limit,
        schema=schema if declared else None,
        on_step=note,
    )
    plan = synthesizer.plan(table, rows=rows)
    found: dict[str, Any] = {
        "columns": columns,
        "rows": rows,
        "declared": declared,
        "max_seconds": limit,
        "plan": {"seconds": plan.seconds, "memory": plan.memory, "limits": dict(plan.limits)},
        "refused": plan.refused,
    }
    if plan.refused:
        return found
    told[:] = [time.monotonic()]
    started = time.process_time()
    synthesis = synthesizer.fit(table)
    fitted = time.process_time()
    left = synthesizer.sampling_seconds
    drawn = synthesis.sample_arrow(rows, rng=0, max_seconds=left, on_step=note)
    ended = time.process_time()
    told.append(time.monotonic())
    strategy = begun["strategy"]
    found |= {
        "open": begun.get("discover", strategy) - started,
        "discover": strategy - begun.get("discover", strategy),
        "strategy": fitted - strategy,
        "draw": ended - fitted,
        "seconds": ended - started,
        "codes": sum(column.size for column in synthesis.schema.attributes),
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "silence": max(after - before for before, after in pairwise(told)),
        "steps": getattr(getattr(synthesis.model, "descent", None), "steps", None),
    }
    if compare:
        compared = mg.evaluate(table, drawn)
        found["evaluate"] = time.process_time() - ended
        found["pairs"] = {score.name: score.note for score in compared.scores if "pairs" in score.note}
        found["overall"] = compared["overall"]
        found["errors"] = {name: compared[name] for name in ("tv_1_mean", "tv_2_mean")}
    return found


def main() -> None:
    """Run every setting in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--columns", type=int, nargs="+", default=[400, 1200])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--max-seconds", type=float, default=None)
    parser.add_argument("--declared", action="store_true", help="five declared bins a column")
    parser.add_argument("--processor", action="store_true", help="the limit counts processor seconds")
    parser.add_argument("--no-evaluate", action="store_true", help="leave the comparison out")
    parser.add_argument("--out", type=Path, help="append the lines here as well")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        if chosen.processor:
            count_processor_time()
        limit, compare = chosen.max_seconds, not chosen.no_evaluate
        line = json.dumps(run(chosen.columns[0], chosen.rows, limit, chosen.declared, compare))
        print(line, flush=True)
        return
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    for columns in chosen.columns:
        command = [sys.executable, __file__, "--one", "--columns", str(columns), "--rows", str(chosen.rows)]
        command += [] if chosen.max_seconds is None else ["--max-seconds", str(chosen.max_seconds)]
        command += ["--declared"] * chosen.declared + ["--no-evaluate"] * chosen.no_evaluate
        command += ["--processor"] * chosen.processor
        done = subprocess.run(
            command, check=True, env=os.environ | threads, stdout=subprocess.PIPE, text=True
        )
        print(done.stdout, end="", flush=True)
        if chosen.out is not None:
            with chosen.out.open("a", encoding="utf-8") as file:
                file.write(done.stdout)


if __name__ == "__main__":
    main()
