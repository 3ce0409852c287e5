"""Estimators on the same released tables: ours, plain least squares, split noise's choice, and mbi's.

    python bench/runs/estimation.py --data FOLDER --epsilon 0.2 1 5 --repeats 3
    python bench/runs/estimation.py --data FOLDER --repeats 1 --peers mirror --peer-cells 20000

For each table, epsilon and repeat MST and AIM (all columns, codes as in tables.py) release their tables once,
and every estimator is fitted to those. `pairs` is the mean total variation of the model's pairs, all of
them, from the real table; `measured` that of the released ones. Estimators:

    ours          PGM() as it is: noise aware, strength 0.1, one-ways pooled
    grid          PGM(strength) at 0.03, 0.05, 0.2, 0.4 and 0.8; `loss` is ours over the best of all
    split         PGM at a third, one or three times 0.1, as split noise prefers
    squares-0.1   PGM(penalty="squares"), strength 0.1: least squares by 1 / sigma^2, hardly any entropy
    squares-1     the same with strength 1
    mirror, lbfgs mbi's MirrorDescent and LBFGS in double precision, --steps steps; it tests no convergence

Ours stop after --limit seconds and say whether they converged (! where not: judge nothing by it); least
squares starts from our model. Trees of more than --peer-cells cells are not given to mbi, which compiles
for each structure; its seconds hold that. cpu is processor time. Bought at delta 1e-5, add/remove; noise is
secure, so repeats differ. Nothing here is private: the real table is looked at to judge.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from margrave import Schema, Synthesizer
from margrave.limits import Deadline, Effort
from margrave.models._base.pooling import compare, halves, pool
from margrave.models.pgm.fitter import PGM
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from tables import FILES, load

RESULTS = Path(__file__).parent.parent / "results" / "estimation.jsonl"
TABLES = ("adult", "bank-full", "acs_employment", "credit_default", "diamonds")
GRID = (0.8, 0.4, 0.2, 0.05, 0.03)
RULE, FACTORS = 0.1, (3.0, 1.0, 1 / 3)
Pairs = dict[tuple[str, str], np.ndarray]


def errors(tables: Sequence[np.ndarray], real: Pairs, released: set[tuple[str, ...]]) -> dict[str, float]:
    """Mean total variation over all pairs, and over those that were released."""
    found = {
        pair: float(0.5 * np.abs(table.ravel() / table.sum() - exact).sum())
        for (pair, exact), table in zip(real.items(), tables, strict=True)
    }
    seen = [error for pair, error in found.items() if pair in released]
    return {"pairs": float(np.mean(list(found.values()))), "measured": float(np.mean(seen or [np.nan]))}


def ours(
    fitter: PGM, domain: Domain, noisy: list[NoisyMarginal], limit: float, warm: object = None
) -> tuple[object, dict]:
    """One fit; the model and how it went."""
    started, used = time.perf_counter(), time.process_time()
    model = fitter.fit(domain, noisy, warm=warm, effort=Effort(deadline=Deadline(limit)))
    went = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    return model, went | {"converged": model.converged, "evaluations": model.evaluations, "gap": model.gap}


def truth(table: pa.Table, sizes: dict[str, int]) -> dict[tuple[str, str], np.ndarray]:
    """All pairs of the real table, in proportions."""
    columns = {name: table[name].to_numpy() for name in sizes}
    return {
        (a, b): np.bincount(columns[a] * sizes[b] + columns[b], minlength=sizes[a] * sizes[b])
        / table.num_rows
        for a, b in combinations(sizes, 2)
    }


def by_split(domain: Domain, noisy: list[NoisyMarginal], rows: float, limit: float) -> float:
    """The strength that split noise prefers."""
    fitted, judged = halves(pool(domain, noisy), np.random.default_rng(0))
    half = [NoisyMarginal(table.clique, table.values, table.sigma) for table in fitted]
    expected, warm = [], None
    for factor in FACTORS:
        fitter, effort = PGM(strength=RULE * factor), Effort(rough=True, deadline=Deadline(limit))
        warm = fitter.fit(domain, half, total=rows, warm=warm, effort=effort)
        expected.append(warm.project_many([table.clique for table in judged]))
    gains = [compare(one, expected[1], judged, rows)[0] for one in expected]
    return RULE * FACTORS[int(np.argmin(gains))]


def peer(
    name: str, domain: Domain, noisy: list[NoisyMarginal], rows: float, pairs: list, steps: int
) -> tuple:
    """All pairs by one of mbi's estimators, and how it went."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi
    from mbi import estimation

    kind = {"mirror": estimation.MirrorDescent, "lbfgs": estimation.LBFGS}[name]
    theirs = mbi.Domain(list(domain.names), list(domain.sizes))
    given = [mbi.LinearMeasurement(m.values.ravel(), m.clique, float(np.mean(m.sigma))) for m in noisy]
    started, used = time.perf_counter(), time.process_time()
    found = kind().estimate(theirs, given, known_total=rows, iters=steps)
    went = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used, "steps": steps}
    return [np.asarray(found.project(pair).datavector(flatten=False)) for pair in pairs], went


def once(
    domain: Domain, noisy: list[NoisyMarginal], real: Pairs, arguments: argparse.Namespace
) -> dict[str, dict]:
    """Every estimator on one release."""
    released, limit = {m.clique for m in noisy}, arguments.limit
    found: dict[str, dict] = {}
    model, went = ours(PGM(), domain, noisy, limit)
    rows, cells = model.total, model.cells
    found["ours"] = went | errors(model.project_many(list(real)), real, released) | {"cells": cells}

    def add(name: str, fitter: PGM, warm: object = None) -> None:
        model, went = ours(fitter, domain, noisy, limit, warm)
        found[name] = went | errors(model.project_many(list(real)), real, released)

    for strength in GRID:
        add(f"grid-{strength}", PGM(strength=strength))
    strength = by_split(domain, noisy, rows, limit)
    add("split", PGM(strength=strength))
    found["split"]["strength"] = strength
    for strength in (0.1, 1.0):
        add(f"squares-{strength:g}", PGM(strength=strength, penalty="squares", max_iterations=20_000), model)
    for name in arguments.peers if cells <= arguments.peer_cells else ():
        tables, went = peer(name, domain, noisy, rows, list(real), arguments.steps)
        found[name] = went | errors(tables, real, released)
    return found


def tell(words: str, runs: list[dict[str, dict]]) -> None:
    """One line a release: each estimator's error over ours, median over repeats."""
    best = [min(run[k]["pairs"] for k in run if k == "ours" or k.startswith("grid")) for run in runs]
    names = [k for k in runs[0] if k != "ours" and not k.startswith("grid")]
    middle = statistics.median(run["ours"]["pairs"] for run in runs)
    losses = [run["ours"]["pairs"] / b - 1 for run, b in zip(runs, best, strict=True)]
    others = "  ".join(f"{k} {_ratio(runs, k)}" for k in names if all(k in run for run in runs))
    print(f"{words:32} pairs {middle:.4f}  loss {statistics.median(losses):.1%}  {others}", flush=True)


def _ratio(runs: list[dict[str, dict]], name: str) -> str:
    """An estimator's pair error over ours, the median of runs; marked where one did not converge."""
    ratios = [run[name]["pairs"] / run["ours"]["pairs"] for run in runs]
    mark = "" if all(run[name].get("converged", True) for run in runs) else "!"
    return f"{statistics.median(ratios) - 1:+.1%}{mark}"


def main() -> None:
    """Run the grid and write JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(TABLES))
    parser.add_argument("--methods", nargs="+", choices=("mst", "aim"), default=["mst", "aim"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=30.0, help="seconds that one of our fits may take")
    parser.add_argument("--peers", nargs="*", choices=("mirror", "lbfgs"), default=["mirror", "lbfgs"])
    parser.add_argument("--peer-cells", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=1000, help="of mbi's estimators")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    stamp = {"python": platform.python_version(), "numpy": np.__version__, "cores": os.cpu_count()}
    stamp |= {"machine": platform.machine(), "day": time.strftime("%Y-%m-%d"), "limit": arguments.limit}
    for name in arguments.tables:
        table, sizes = load(name, arguments.data)
        domain, real = Domain(tuple(sizes), tuple(sizes.values())), truth(table, sizes)
        for epsilon in arguments.epsilon:
            for method in arguments.methods:
                runs = []
                for _ in range(arguments.repeats):
                    door = Synthesizer(method, epsilon=epsilon, delta=1e-5, schema=Schema.from_sizes(sizes))
                    runs.append(once(domain, list(door.fit(table).release.measurements), real, arguments))
                    line = {"table": name, "method": method, "epsilon": epsilon, "estimators": runs[-1]}
                    with arguments.out.open("a") as handle:
                        handle.write(json.dumps(line | stamp) + "\n")
                tell(f"{name} {method} eps {epsilon:g}", runs)


if __name__ == "__main__":
    for library in ("OMP", "OPENBLAS", "NUMBA"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    main()
