"""The graphical model's engine by itself: inference, fit, projection and sampling, mbi in the same run.

    python bench/runs/inference.py
    python bench/runs/inference.py --table codes.csv --peer none
    python bench/runs/inference.py --trees 1e3 1e4 1e5 1e6 1e7 1e8 --threads 1 2
    python bench/runs/inference.py --potentials 1e5 1e6

Data: 32,561 rows over a domain of Adult's sizes, drawn from a seeded random tree, or the integer-coded
CSV given by --table (a header, then codes from 0). Measured: all one-ways and 18 seeded pairs, Gaussian
noise of standard deviation 30. Times are the best of --repeats after one run to load kernels, in processor
seconds of one thread, which other work on the machine stretches little, but for mbi,
whose compilation for a new structure is what a fit costs; mbi runs in a process of its own.
--trees times one inference alone, on chains of ten cliques of attributes with 10 codes that have about so
many cells together, all their pairs measured; `used` is what a fit of five steps, all pairs and 10,000 rows
then add to the process's largest resident memory, in bytes a cell. With --threads, `cpu` and `wall` are the
least processor and wall seconds of one inference for each number of threads, taken in turns, with the load of
the machine: on a busy one, threads gain in `wall` only what is free.
--potentials takes 40 steps of the optimiser at most on four triples of about so many cells together:
processor seconds, and how many of them are inference; the rest is the optimiser's vector work.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from margrave.models import PGM
from margrave.models.pgm.estimate import Dual, minimise
from margrave.models.pgm.inference import Inference
from margrave.models.pgm.tree import Layout
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

RESULTS = Path(__file__).parent.parent / "results" / "inference.jsonl"
SIZES = (32, 9, 32, 16, 16, 7, 15, 6, 5, 2, 32, 32, 32, 42, 2)
SIGMA = 30.0
PEER = """
import json, sys, time
import numpy as np
import mbi
from mbi import estimation

given = np.load(sys.argv[1], allow_pickle=False)
domain = mbi.Domain([str(n) for n in given["names"]], [int(n) for n in given["sizes"]])
cliques = [tuple(str(clique).split(",")) for clique in given["cliques"]]
sigma = float(given["sigma"])
measured = [mbi.LinearMeasurement(given[f"y{k}"].ravel(), c, sigma) for k, c in enumerate(cliques)]
started = time.perf_counter()
found = estimation.MirrorDescent().estimate(
    domain, measured, known_total=float(given["total"]), iters=int(given["iters"])
)
tables = [np.asarray(found.project(c).datavector(flatten=False)) for c in cliques]
print(json.dumps(time.perf_counter() - started))
np.savez(sys.argv[2], *tables)
"""


def random_tree(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Codes of a random tree model over SIZES, shape [rows, attributes]."""
    columns = [rng.choice(SIZES[0], size=rows, p=rng.dirichlet(np.full(SIZES[0], 0.5)))]
    for v, size in enumerate(SIZES[1:], start=1):
        parent = int(rng.integers(v))
        steps = rng.dirichlet(np.full(size, 0.3), size=SIZES[parent]).cumsum(axis=1)
        codes = (steps[columns[parent]] < rng.random(rows)[:, None]).sum(axis=1)
        columns.append(np.minimum(codes, size - 1))
    return np.stack(columns, axis=1)


def table(path: str | None, rng: np.random.Generator) -> tuple[Domain, np.ndarray]:
    """The domain and the codes."""
    if path is None:
        return Domain(tuple(f"x{v}" for v in range(len(SIZES))), SIZES), random_tree(32_561, rng)
    with open(path, encoding="utf-8") as lines:
        names = tuple(lines.readline().strip().split(","))
        codes = np.loadtxt(lines, delimiter=",", dtype=np.int64)
    return Domain(names, tuple(int(n) + 1 for n in codes.max(axis=0))), codes


def measured(domain: Domain, codes: np.ndarray, rng: np.random.Generator) -> list[NoisyMarginal]:
    """All one-ways and 18 pairs, with noise."""
    pairs = list(combinations(domain.names, 2))
    chosen = [pairs[k] for k in sorted(rng.choice(len(pairs), size=min(18, len(pairs)), replace=False))]
    made = []
    for clique in [*((name,) for name in domain.names), *chosen]:
        columns = [codes[:, domain.index(name)] for name in clique]
        cells = np.ravel_multi_index(columns, domain.shape(clique))
        counts = np.bincount(cells, minlength=domain.size(clique)).reshape(domain.shape(clique))
        made.append(NoisyMarginal(clique, counts + rng.normal(size=counts.shape) * SIGMA, SIGMA))
    return made


def best(repeats: int, work: Callable[[], object]) -> float:
    """The shortest of several times of a piece of work after one not counted, in processor seconds."""
    work()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def peer(
    domain: Domain, noisy: list[NoisyMarginal], total: float, iters: int
) -> tuple[float, list[np.ndarray]]:
    """mbi's mirror descent on the same measurements: seconds of one fit, and the fitted marginals."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "in.npz"), Path(folder, "out.npz")
        arrays = {f"y{k}": m.values for k, m in enumerate(noisy)}
        cliques = np.array([",".join(m.clique) for m in noisy])
        np.savez(
            given,
            names=np.array(domain.names),
            sizes=np.array(domain.sizes),
            cliques=cliques,
            sigma=SIGMA,
            total=total,
            iters=iters,
            **arrays,
        )
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", PEER, str(given), str(found)]
        ran = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        tables = np.load(found)
        return float(ran.stdout), [tables[f"arr_{k}"] for k in range(len(noisy))]


def run(domain: Domain, codes: np.ndarray, noisy: list[NoisyMarginal], arguments: argparse.Namespace) -> dict:
    """All figures of one run."""
    fitter = PGM()
    pairs, triples = (list(combinations(domain.names, width)) for width in (2, 3))
    model = fitter.fit(domain, noisy)
    earlier = fitter.fit(domain, noisy[:-1])
    theta = model._solution.theta
    rng = np.random.default_rng(1)
    cliques = [m.clique for m in noisy]

    def error(tables: list[np.ndarray]) -> float:
        exact = measured_exactly(domain, codes, cliques)
        return float(np.mean([np.abs(t / t.sum() - e).sum() / 2 for t, e in zip(tables, exact, strict=True)]))

    figures = {
        "cells": model.cells,
        "potentials": len(theta),
        "inference": best(arguments.repeats * 20, lambda: model._inference.run(theta)),
        "cold_fit": best(arguments.repeats, lambda: fitter.fit(domain, noisy)),
        "cold_evaluations": model.evaluations,
        "warm_fit": best(arguments.repeats, lambda: fitter.fit(domain, noisy, warm=earlier)),
        "warm_evaluations": fitter.fit(domain, noisy, warm=earlier).evaluations,
        "all_pairs": best(arguments.repeats, lambda: model.project_many(pairs)),
        "all_triples": best(arguments.repeats, lambda: model.project_many(triples)),
        "candidate_cells": best(arguments.repeats, lambda: fitter.cells(domain, cliques, pairs)),
        "sample_32561": best(arguments.repeats, lambda: model.sample(32_561, rng)),
        "sample_1m": best(1, lambda: model.sample(1_000_000, rng)),
        "error": error([model.project(c) for c in cliques]),
    }
    if arguments.peer == "mbi":
        for iters in (100, 1000):
            seconds, tables = peer(domain, noisy, model.total, iters)
            figures |= {f"mbi_fit_{iters}": seconds, f"mbi_error_{iters}": error(tables)}
    return figures


def measured_exactly(domain: Domain, codes: np.ndarray, cliques: list[tuple[str, ...]]) -> list[np.ndarray]:
    """The true marginals, as probabilities."""
    exact = []
    for clique in cliques:
        cells = np.ravel_multi_index([codes[:, domain.index(name)] for name in clique], domain.shape(clique))
        counts = np.bincount(cells, minlength=domain.size(clique))
        exact.append(counts.reshape(domain.shape(clique)) / len(codes))
    return exact


def turns(inference: Inference, theta: np.ndarray, threads: list[int], repeats: int) -> dict[str, object]:
    """Least processor and wall seconds of an inference by threads; every turn must give the same bits."""
    least = {count: [np.inf, np.inf] for count in threads}
    found = set()
    for _ in range(repeats):
        for count in threads:
            inference.threads = count
            wall, used = time.perf_counter(), time.process_time()
            log_z = inference.run(theta)
            times = (time.process_time() - used, time.perf_counter() - wall)
            least[count] = [min(a, b) for a, b in zip(least[count], times, strict=True)]
            found.add((log_z, inference.marginals.tobytes()))
    if len(found) > 1:
        raise RuntimeError("the number of threads changed the result")
    cpu, wall_by = ({str(count): both[i] for count, both in least.items()} for i in (0, 1))
    return {"cpu": cpu, "wall": wall_by, "load": os.getloadavg()[0]}


def potentials(targets: list[float], repeats: int) -> list[dict[str, float]]:
    """Time of optimisations with many potentials, in processor seconds, and of the inferences in them."""
    found = []
    for target in sorted(targets):
        size = max(round((target / 4) ** (1 / 3)), 2)
        layout = Layout((size,) * 9, [(v, v + 1, v + 2) for v in range(0, 8, 2)], 1 << 30)
        rng, cells = np.random.default_rng(0), layout.starts[-1]
        shares = (rng.gamma(0.3, 1.0, cells) + rng.normal(size=cells)) / 1e5
        dual = Dual(Inference(layout), shares, np.full(cells, 1.5e-6))
        work = partial(minimise, dual, np.zeros(cells), 40, 1e-9)
        solution = work()
        before = dual.evaluations
        seconds = best(repeats, work)
        evaluations = (dual.evaluations - before) // (repeats + 1)
        one = best(repeats, partial(dual.inference.run, solution.theta))
        line = {"potentials": cells, "cells": layout.node_starts[-1], "evaluations": evaluations}
        found.append(line | {"optimisation": seconds, "inferences": one * evaluations})
        print(json.dumps(found[-1]), flush=True)
    return found


def trees(targets: list[float], repeats: int, threads: list[int]) -> list[dict[str, object]]:
    """Time and memory of junction trees of several sizes, smallest first."""
    found: list[dict[str, object]] = []
    for target in sorted(targets):
        width = max(round(np.log10(target)) - 1, 2)
        domain = Domain(tuple(f"x{v}" for v in range(width + 9)), (10,) * (width + 9))
        near = [(a, b) for a, b in combinations(range(len(domain)), 2) if b - a < width]
        rng = np.random.default_rng(0)
        noisy = [
            NoisyMarginal((f"x{a}", f"x{b}"), rng.gamma(1.0, 50.0, size=(10, 10)), SIGMA) for a, b in near
        ]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        model = PGM(max_iterations=5, max_cells=1 << 30).fit(domain, noisy, total=5000.0)
        theta = model._solution.theta
        model._inference.threads = 1
        seconds = best(repeats, partial(model._inference.run, theta))
        model.project_many(list(combinations(domain.names, 2)))
        model.sample(10_000, rng)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        line = {"cells": model.cells, "inference": seconds, "nanoseconds_a_cell": 1e9 * seconds / model.cells}
        line |= {"used": (after - before) / model.cells, "peak": after}
        found.append(line | turns(model._inference, theta, threads, 3 * repeats))
        print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", help="integer-coded CSV; a seeded random tree by default")
    parser.add_argument("--peer", choices=("mbi", "none"), default="mbi")
    parser.add_argument("--trees", nargs="+", type=float, help="only time inference at these sizes")
    parser.add_argument("--potentials", nargs="+", type=float, help="only time fits of so many potentials")
    parser.add_argument("--threads", nargs="+", type=int, default=[1], help="threads to compare on --trees")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    if arguments.trees:
        found = trees(arguments.trees, arguments.repeats, arguments.threads)
        keep({"data": "chains", "trees": found})
        return
    if arguments.potentials:
        keep({"data": "triples", "potentials": potentials(arguments.potentials, arguments.repeats)})
        return
    domain, codes = table(arguments.table, rng)
    figures = run(domain, codes, measured(domain, codes, rng), arguments)
    line = {"data": Path(arguments.table).name if arguments.table else "random tree", **figures}
    keep(line)
    print(json.dumps(line, indent=2))


def keep(line: dict[str, object]) -> None:
    """Stamp a result and append it to the file."""
    line |= {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.processor()}
    line |= {"cores": os.cpu_count(), "day": time.strftime("%Y-%m-%d")}
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
