"""Estimated against measured: what `plan` says of time and memory, and what runs take.

    python bench/runs/estimates.py
    python bench/runs/estimates.py --tables adult choosing/wide-a --methods aim --epsilon 0.2 5 --limit 600
    python bench/runs/estimates.py --show bench/results/estimates.jsonl

Tables are the shipped Adult and made-up ones of the choosing half of the nursery, with their values declared
and numbers in 32 bins, or nothing declared with `+raw`. Each run is a process of its own on one thread: it
plans with the number of rows as a guess, fits, draws as many rows and writes nothing. `cpu` is the processor
time of the whole process, the start of the program included, since that is what other work on the machine
stretches least; `peak` its largest resident memory in MiB, the table included. A run that takes more than
--limit seconds of processor time is ended and told as "more than". A result is within a factor of 3 where
the measured figure is at least a third of the low estimate and at most three times the high one. `pace` is
the processor time of the fit over the square of the number of columns, as strategies state theirs. The first
run after an installation compiles kernels, for half a minute: run one table before.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "results" / "estimates.jsonl"
TABLES = (
    "adult",
    "choosing/survey-b",
    "choosing/orders-a",
    "choosing/diagnoses-a",
    "choosing/flags-a",
    "choosing/loans-a",
    "choosing/copula-a",
    "choosing/factors-a",
    "choosing/wide-a",
    "choosing/meters-a",
)
METHODS = ("auto", "mst", "aim", "batched", "independent")
FACTOR = 3.0


def inside(word: str, method: str, epsilon: float, limit: int) -> None:
    """One run in this process, told as JSON lines: the plan before anything else."""
    import margrave
    from margrave.benchmark.datasets import load_table, table_entry
    from margrave.benchmark.prepared import read_schema
    from margrave.engines.frames import read_table

    if limit:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        signal.signal(signal.SIGXCPU, lambda *_: os._exit(3))
    entry = table_entry(word, Path())
    table = load_table(entry)
    if entry.owner:
        table = table.drop_columns([entry.owner])
    schema = read_schema(read_table(table)[0], entry.bins, entry.cut) if entry.domain == "public" else None
    steps: list[tuple[float, str, str]] = []
    synthesizer = margrave.Synthesizer(
        method,
        epsilon=epsilon,
        schema=schema,
        on_step=lambda step: step.waiting or steps.append((time.process_time(), step.stage, step.message)),
    )
    plan = synthesizer.plan(table, rows=table.num_rows)
    codes = [] if schema is None else [column.size for column in schema.attributes]
    known = {"seconds": plan.seconds, "memory": plan.memory, "rows": table.num_rows}
    known |= {"columns": table.num_columns, "codes": sum(codes), "squares": sum(size**2 for size in codes)}
    print(json.dumps(known), flush=True)
    started = time.process_time()
    synthesis = synthesizer.fit(table)
    fitted = time.process_time()
    synthesis.sample_arrow(rng=0)
    done = {"cpu": time.process_time(), "fit": fitted - started, "sample": time.process_time() - fitted}
    done["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    done["rounds"] = sum(stage == "select" for _, stage, _ in steps)
    done["stages"] = [[round(at - started, 3), stage] for at, stage, _ in steps][:: max(1, len(steps) // 20)]
    done["tables"] = len(synthesis.measurements)
    print(json.dumps(done), flush=True)


def run(word: str, method: str, epsilon: float, limit: int) -> dict[str, Any]:
    """A run in a process of its own; without measured figures where it was ended."""
    threads = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA")}
    words = [sys.executable, __file__, "--inside", word, method, str(epsilon), str(limit)]
    done = subprocess.run(words, env=os.environ | threads, stdout=subprocess.PIPE, text=True, check=False)
    record: dict[str, Any] = {"table": word, "method": method, "epsilon": epsilon, "status": done.returncode}
    for line in done.stdout.splitlines():
        record |= json.loads(line)
    # A kernel that runs long hears of the limit only when it is killed for it.
    return record | ({"limit": limit} if done.returncode in (3, -signal.SIGKILL) else {})


def tell(record: dict[str, Any]) -> str:
    """One line of a result."""
    if "seconds" not in record:
        return f"{record['table']:24} {record['method']:12} {record['epsilon']:<5g} failed"
    low, high = record["seconds"]
    known = "cpu" in record
    took = f"{record['cpu']:8.1f}" if known else f"> {record.get('limit', 0):6d}"
    peak = f"{record['peak']:7.0f}" if known else "      -"
    # What a strategy says of itself as `pace`, with what the fits took in it.
    pace = f"{record['fit'] / record['columns'] ** 2:.1e}" if known else "-"
    return (
        f"{record['table']:24} {record['method']:12} {record['epsilon']:<5g} {low:8.1f} to {high:8.1f} s, "
        f"took {took} s; {record['memory']:7.0f} MiB, took {peak}; pace {pace}  {judge(record)}"
    )


def judge(record: dict[str, Any]) -> str:
    """Which of the estimates are off by more than FACTOR."""
    if "cpu" not in record:
        return "" if record.get("limit", 0) <= FACTOR * record["seconds"][1] else "TIME"
    low, high = record["seconds"]
    off = [] if low / FACTOR <= record["cpu"] <= FACTOR * high else ["TIME"]
    off += [] if 1 / FACTOR <= record["memory"] / record["peak"] <= FACTOR else ["MEMORY"]
    return " ".join(off)


def main() -> None:
    """Run a grid, or print results that were stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0])
    parser.add_argument("--limit", type=int, default=300, help="processor seconds of a run")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--show", type=Path)
    parser.add_argument("--inside", nargs=4)
    arguments = parser.parse_args()
    if arguments.inside:
        word, method, epsilon, limit = arguments.inside
        inside(word, method, float(epsilon), int(limit))
        return
    if arguments.show:
        for line in arguments.show.read_text(encoding="utf-8").splitlines():
            print(tell(json.loads(line)))
        return
    machine = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    with arguments.out.open("a", encoding="utf-8") as out:
        for method in arguments.methods:
            for word in arguments.tables:
                for epsilon in arguments.epsilon:
                    record = run(word, method, epsilon, arguments.limit)
                    out.write(json.dumps(record | machine) + "\n")
                    out.flush()
                    print(tell(record), flush=True)


if __name__ == "__main__":
    main()
