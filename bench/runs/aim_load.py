"""AIM, or `auto`, under load: wide, long and sharp tables, time, memory and error; what AIM's limits cost.

    python bench/runs/aim_load.py --data FOLDER --repeats 5
    python bench/runs/aim_load.py --data FOLDER --method auto --cases census_income_kdd:1:2
    python bench/runs/aim_load.py --data FOLDER --cases adult:5:2 --max-cells 1e6 2e6 5e6 1e7 --repeats 3
    python bench/runs/aim_load.py --data FOLDER --cases adult:5:2 --max-seconds 1 2 5 10 --repeats 3

A case is TABLE:EPSILON:DEGREE; the tables and their codes are those of tables.py, all rows, the workload all
cliques of that degree (`auto`: pairs, and codes of numbers are declared to stand in order), delta 1e-5,
adjacency add/remove. Every run is a process of its own on one thread. Errors are
mean total variations of the synthetic rows against the real ones: all one-ways, all pairs, a seeded 200 of
the triples. `seconds` is fit plus sample, imports left out; `cpu` the processor time of the whole process,
which other work on the machine stretches least; `peak` its largest resident memory in MiB, the loaded table
included, next to what `plan` says when it is told the rows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from adult import errors

from tables import coded_schema, load, numeric

RESULTS = Path(__file__).parent.parent / "results"
CASES = (
    "adult:0.2:2",
    "adult:1:2",
    "adult:5:2",
    "adult:1:3",
    "census_income_kdd:1:2",
    "acs_employment:5:2",
)


def inside(method: str, case: str, data: str, limits: dict[str, float | None]) -> None:
    """One run in this process, told as one JSON line."""
    import margrave
    import margrave.models.auto
    from margrave.select.aim import AIM

    name, epsilon, degree = case.split(":")
    table, sizes = load(name, data)
    cells, memory, seconds = (limits[k] for k in ("cells", "memory", "seconds"))
    aim = method == "aim"
    strategy = AIM(degree=int(degree), **({} if cells is None else {"max_cells": int(cells)}))
    steps: list[str] = []
    synthesizer = margrave.Synthesizer(
        method,
        epsilon=float(epsilon),
        delta=1e-5,
        schema=margrave.Schema.from_sizes(sizes) if aim else coded_schema(sizes, numeric(name, data)),
        select=strategy if aim else None,
        max_memory=None if memory is None else int(memory),
        max_seconds=seconds,
        on_step=lambda step: steps.append(f"{step.stage} {step.message}"),
    )
    planned = synthesizer.plan(table, rows=table.num_rows)
    start, used = time.perf_counter(), time.process_time()
    synthesis = synthesizer.fit(table)
    fitted = time.perf_counter()
    rows = synthesis.sample_arrow(rng=0)
    done = time.perf_counter()
    record = {
        "fit": fitted - start,
        "sample": done - fitted,
        "seconds": done - start,
        "fit_and_sample_cpu": time.process_time() - used,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "planned_memory": planned.memory,
        "planned_seconds": planned.seconds,
        "rounds": sum(step.startswith("select") for step in steps),
        "ended_early": any("time is nearly up" in step for step in steps),
        "tree_cells": synthesis.model.cells if aim else None,
        "converged": synthesis.model.converged,
        "rows": table.num_rows,
        "columns": table.num_columns,
    }
    print(json.dumps(record | errors(table, rows, sizes)))


def one(method: str, case: str, data: Path, limits: dict[str, float | None]) -> dict[str, object]:
    """Run a case in a process of its own."""
    threads = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA")}
    words = [sys.executable, __file__, "--inside", method, case, str(data), json.dumps(limits)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(words, check=True, env=os.environ | threads, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return {"method": method, "case": case, "cpu": cpu, "limits": limits} | json.loads(
        done.stdout.splitlines()[-1]
    )


def tell(case: str, limits: dict[str, float | None], runs: list[dict[str, object]]) -> None:
    """One line: medians with least and most of the times, means of the errors."""

    def values(key: str) -> list[float]:
        return [float(run[key]) for run in runs]  # type: ignore[arg-type]

    given = " ".join(f"{key}={value:g}" for key, value in limits.items() if value is not None)
    timed = "".join(
        f"  {key} {statistics.median(values(key)):.2f} [{min(values(key)):.2f}, {max(values(key)):.2f}]"
        for key in ("seconds", "fit_and_sample_cpu")
    )
    kept = "".join(
        f"  {key} {statistics.median(values(key)):.0f}"
        for key in ("rounds", "tree_cells", "peak")
        if runs[0][key]
    )
    apart = "".join(
        f"  {key} {statistics.mean(values(key)):.4f} [{min(values(key)):.4f}, {max(values(key)):.4f}]"
        for key in ("ones", "pairs", "triples")
    )
    print(f"{runs[0]['method']} {case} {given}{timed}{kept}{apart}", flush=True)


def main() -> None:
    """Run the grid and write JSON lines."""
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:5], json.loads(sys.argv[5]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    parser.add_argument("--method", choices=("aim", "auto"), default="aim")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--max-cells", nargs="+", type=float, default=[None])
    parser.add_argument("--max-seconds", nargs="+", type=float, default=[None])
    parser.add_argument("--max-memory", nargs="+", type=float, default=[None])
    parser.add_argument("--out", type=Path, default=RESULTS / "aim_load.jsonl")
    args = parser.parse_args()
    stamp = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "day": time.strftime("%Y-%m-%d"),
    }
    for case in args.cases:
        for cells in args.max_cells:
            for seconds in args.max_seconds:
                for memory in args.max_memory:
                    limits = {"cells": cells, "seconds": seconds, "memory": memory}
                    runs = [one(args.method, case, args.data, limits) | stamp for _ in range(args.repeats)]
                    with args.out.open("a") as handle:
                        handle.writelines(json.dumps(run) + "\n" for run in runs)
                    tell(case, limits, runs)


if __name__ == "__main__":
    main()
