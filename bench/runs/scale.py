"""Time and memory as the work grows: rows, columns, cells of the junction tree, epsilon.

    python bench/runs/scale.py --what rows columns cells epsilon
    python bench/runs/scale.py --what rows --points 1e4 1e5 --names counting auto

rows: rows drawn with replacement from Adult as in adult.py (15 columns, 306 codes; the drawing is seeded);
`counting` counts all 105 pairs of the codes in memory, a method is fitted at epsilon 1 and then asked for
as many rows. columns: the first so many of the sizes of census_income_kdd over and over, 100,000 seeded
rows in which a column is a fixed map of its left neighbour in six rows of ten. cells: a graphical model on
a chain of cliques of attributes with 10 codes, about so many cells together, all pairs within a clique
measured with noise of 30 rows; `fit` is 30 steps at most, `inference` a single one, `pairs` all pairs of
the model, `sample` 10,000 rows. epsilon: Adult itself.

Every point is a process of its own on one thread, which has run once on a tiny table before the clock
starts, so that kernels are loaded. `cpu` and `wall` are seconds of the fit (or the count), `sample_cpu` and
`sample_wall` of the rows; `peak` is the process's largest resident memory in MiB, `table` the table's share
of it. `pairs` of epsilon is the mean total variation over all pairs. delta is 1e-5, adjacency add/remove.
AIM and batched get max_seconds=--soft, which ends them early but complete (`ended_early`); a point that
takes more than --limit processor seconds is killed (`status` is "limit"), one that could need more memory
than is free is left out ("memory"), and one that margrave refuses says why ("refused"). Points are run
--repeats times, but once where the process takes more than --once processor seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import signal
import statistics
import subprocess
import sys
import time
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the parent imports nothing heavy: a child's peak starts at that of its parent
    from collections.abc import Callable, Iterable

    import numpy as np
    import pyarrow as pa

__all__ = ["main"]

RESULTS = Path(__file__).parent.parent / "results" / "scale.jsonl"
METHODS = ("auto", "aim", "batched", "mst")
POINTS: dict[str, tuple[float, ...]] = {
    "rows": (1e4, 1e5, 1e6, 1e7, 1e8),
    "columns": (5, 10, 20, 41, 80, 120, 200),
    "cells": (1e3, 1e4, 1e5, 1e6, 1e7, 3e7, 1e8),
    "epsilon": (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
}
NAMES = {"rows": ("counting", *METHODS), "columns": METHODS, "cells": ("pgm",), "epsilon": METHODS}
MOST_ROWS = 10_000_000
"""Rows beyond which only counting goes on."""
CENSUS = (32, 9, 32, 32, 17, 32, 3, 7, 24, 15, 5, 10, 2, 3, 6, 8, 32, 32, 32, 6, 6, 51, 38, 8, 10, 9, 10)
CENSUS += (3, 4, 7, 5, 43, 43, 43, 5, 3, 3, 3, 32, 2, 2)
ROWS, FOLLOWS, SIGMA, STEPS = 100_000, 0.6, 30.0, 30
A_ROW, CELL_BYTES = 600, 140
"""Bytes that a row of 15 columns in a method, and a cell, may take: what must be free before a point."""


def chain(sizes: Iterable[int], rows: int, seed: int) -> list[np.ndarray]:
    """Codes of columns that each follow their left neighbour by a fixed map in FOLLOWS of the rows."""
    import numpy as np

    rng, columns = np.random.default_rng(seed), []
    for size in sizes:
        weights = rng.permutation(1.0 / np.arange(1, size + 1))
        drawn = np.searchsorted(np.cumsum(weights / weights.sum())[:-1], rng.random(rows), side="right")
        if columns:
            to = rng.integers(0, size, 256)
            drawn = np.where(rng.random(rows) < FOLLOWS, to[columns[-1]], drawn)
        columns.append(drawn.astype(np.uint8))
    return columns


def adult(rows: int | None) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Adult's codes in bytes: all rows, or so many drawn with replacement, a million at a time."""
    import numpy as np
    from adult import adult_codes

    table, sizes = adult_codes()
    codes = {name: table[name].to_numpy().astype(np.uint8) for name in sizes}
    if rows is None:
        return codes, sizes
    rng, columns = np.random.default_rng(0), {name: np.empty(rows, dtype=np.uint8) for name in sizes}
    for first in range(0, rows, 1 << 20):
        drawn = rng.integers(0, table.num_rows, min(1 << 20, rows - first), dtype=np.int32)
        for name, column in columns.items():
            column[first : first + len(drawn)] = codes[name][drawn]
    return columns, sizes


def peak() -> float:
    """Largest resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def clocked(work: Callable[[], Any], prefix: str = "") -> tuple[Any, dict[str, float]]:
    """What a piece of work gives, its processor seconds and its seconds on the clock."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = work()
    took = {f"{prefix}cpu": time.process_time() - cpu, f"{prefix}wall": time.perf_counter() - wall}
    return found, took


def repeated(work: Callable[[], object], prefix: str = "") -> dict[str, float]:
    """Medians of five batches that each take about a fifth of a second, after one run that is not counted."""
    work()
    _, first = clocked(work)
    batch = max(1, min(10_000, round(0.2 / max(first["wall"], 1e-6))))
    times = [clocked(lambda: [work() for _ in range(batch)], prefix)[1] for _ in range(5)]
    return {key: statistics.median(each[key] for each in times) / batch for key in times[0]}


def counting(rows: int) -> dict[str, object]:
    """All pairs of so many rows, straight through the counting engine."""
    from margrave.engines.counting import count_tables
    from margrave.schema.domain import Domain
    from margrave.schema.encoded import Encoded

    columns, sizes = adult(rows)
    encoded = Encoded(Domain.of(sizes), tuple(columns.values()))
    pairs = list(combinations(sizes, 2))
    before = peak()
    took = repeated(lambda: count_tables(encoded, pairs, threads=1))
    updates = len(pairs) * rows / took["cpu"]
    held = rows * len(sizes) / 2**20
    return {**took, "updates_a_cpu_second": updates, "table": held, "before": before, "peak": peak()}


def release(name: str, codes: dict[str, np.ndarray], sizes: dict[str, int], epsilon: float, soft: float):
    """Fit a method to codes and draw as many rows: the figures, the table and the rows."""
    import pyarrow as pa

    import margrave as mg

    table, steps = pa.table(codes), []
    limit = {"max_seconds": soft} if name in {"aim", "batched"} else {}

    def fitted(real: pa.Table, among: list[str], **more: Any) -> Any:
        schema = mg.Schema.from_sizes({column: sizes[column] for column in among})
        return mg.Synthesizer(name, epsilon=epsilon, delta=1e-5, schema=schema, **more).fit(real)

    few = list(sizes)[:4]
    fitted(table.select(few).slice(0, 500), few).sample_arrow(500, rng=0)
    before = peak()
    synthesis, took = clocked(
        lambda: fitted(
            table, list(sizes), on_step=lambda step: steps.append(f"{step.stage} {step.message}"), **limit
        )
    )
    after = peak()
    rows, drawn = clocked(lambda: synthesis.sample_arrow(table.num_rows, rng=0), "sample_")
    model = synthesis.model
    figures = {
        **took,
        **drawn,
        "before": before,
        "fit_peak": after,
        "peak": peak(),
        "table": table.nbytes / 2**20,
        "measured": len(synthesis.release.measurements),
        "rounds": sum(step.startswith("select") for step in steps),
        "ended_early": any("time is nearly up" in step for step in steps),
        "converged": bool(getattr(model, "converged", True)),
        "cells": getattr(model, "cells", None),
    }
    return figures, table, rows


def cells(target: float) -> dict[str, object]:
    """A graphical model on a chain of cliques with about so many cells."""
    import numpy as np

    from margrave.models.pgm.fitter import PGM
    from margrave.release import NoisyMarginal
    from margrave.schema.domain import Domain

    width = max(round(np.log10(target)) - 1, 2)
    wide = width + max(round(target / 10**width), 1) - 1
    codes, names = chain((10,) * wide, ROWS, 0), tuple(f"x{v}" for v in range(wide))
    domain, rng, noisy = Domain(names, (10,) * wide), np.random.default_rng(1), []
    for a, b in combinations(range(wide), 2):
        if b - a < width:
            counts = np.bincount(codes[a].astype(np.int64) * 10 + codes[b], minlength=100).reshape(10, 10)
            noisy.append(NoisyMarginal((names[a], names[b]), counts + rng.normal(0, SIGMA, (10, 10)), SIGMA))
    del codes
    PGM(max_iterations=2).fit(domain, noisy[:2], total=ROWS).sample(100, rng)
    before = peak()
    fitter = PGM(max_iterations=STEPS, max_cells=(1 << 31) - 1)
    model, took = clocked(lambda: fitter.fit(domain, noisy, total=ROWS))
    fit_peak = peak()
    one = repeated(lambda: model._inference.run(model._solution.theta), "inference_")
    pairs = repeated(lambda: model.project_many(list(combinations(names, 2))), "pairs_")
    _, drawn = clocked(lambda: model.sample(10_000, rng), "sample_")
    told = {"cells": model.cells, "steps": model.iterations, "evaluations": model.evaluations}
    memory = {"before": before, "fit_peak": fit_peak, "peak": peak()}
    return {**told, **took, **one, **pairs, **drawn, **memory, "gap": model.gap, "columns": wide}


def inside(what: str, name: str, x: float, soft: float) -> dict[str, object]:
    """One point in this process."""
    if what == "cells":
        return cells(x)
    if name == "counting":
        return counting(int(x))
    if what == "columns":
        sizes = {f"x{v:03}": CENSUS[v % len(CENSUS)] for v in range(int(x))}
        codes = dict(zip(sizes, chain(sizes.values(), ROWS, 0), strict=True))
        return release(name, codes, sizes, 1.0, soft)[0] | {"codes": sum(sizes.values())}
    codes, sizes = adult(int(x) if what == "rows" else None)
    figures, real, rows = release(name, codes, sizes, x if what == "epsilon" else 1.0, soft)
    if what == "epsilon":
        from adult import errors

        figures |= errors(real, rows, sizes)
    return figures


def told(what: str, name: str, x: float, soft: float) -> dict[str, object]:
    """One point in this process, a refusal included."""
    from margrave.errors import MargraveError

    try:
        return {"status": "done", **inside(what, name, x, soft)}
    except MargraveError as refusal:
        return {"status": "refused", "why": str(refusal), "peak": peak()}
    except MemoryError:
        return {"status": "memory", "peak": peak()}


def short(what: str, x: float) -> bool:
    """Whether less memory is free than the point could need."""
    info = Path("/proc/meminfo")
    if not info.exists():
        return False
    words = dict(line.split(":") for line in info.read_text(encoding="utf-8").splitlines())
    free = int(words["MemAvailable"].split()[0]) * 1024
    need = {"cells": CELL_BYTES * x, "rows": A_ROW * x if x <= MOST_ROWS else 30 * x}.get(what, 0)
    return free < need + 2**30


def apart(what: str, name: str, x: float, args: argparse.Namespace) -> dict[str, object]:
    """One point in a process of its own on one thread; a failure or a limit is a result."""
    point = {"what": what, "name": name, "x": x}
    if short(what, x):
        return point | {"status": "memory", "why": "not enough was free to begin"}
    threads = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA")}
    words = [sys.executable, __file__, "--inside", what, name, str(x), str(args.soft), str(args.limit)]
    start = time.perf_counter()
    child = subprocess.Popen(words, env=os.environ | threads, stdout=subprocess.PIPE, text=True)
    _, ended, used = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(ended)  # wait4 has taken what Popen would wait for
    output = child.communicate()[0]
    whole = {"process_cpu": used.ru_utime + used.ru_stime, "process_wall": wall}
    if child.returncode:
        late = child.returncode == -signal.SIGXCPU
        status = {"status": "limit" if late else "failed", "code": child.returncode, "limit": args.limit}
        return point | status | whole | {"peak": used.ru_maxrss / 1024}
    return point | json.loads(output.splitlines()[-1]) | whole


def tell(found: dict[str, object]) -> None:
    """One line on the screen."""
    keys = ("cpu", "wall", "sample_cpu", "inference_cpu", "peak", "pairs", "measured", "ended_early", "why")
    words = [f"{key} {found[key]:.4g}" if isinstance(found[key], float) else f"{key} {found[key]}"
             for key in keys if key in found]  # fmt: skip
    print(f"{found['what']:8}{found['name']:9}{found['x']:<9g}{found['status']:8}", *words, flush=True)


def main(words: list[str] | None = None) -> None:
    """Run the points and append JSON lines."""
    if words is None and sys.argv[1:2] == ["--inside"]:
        what, name, x, soft, limit = sys.argv[2:7]
        # The processor's time and not the clock's, so that other work on the machine decides nothing.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        print(json.dumps(told(what, name, float(x), float(soft))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--what", nargs="+", choices=list(POINTS), default=list(POINTS))
    parser.add_argument("--names", nargs="+", choices=("counting", *METHODS, "pgm"))
    parser.add_argument("--points", nargs="+", type=float, help="instead of those of the curve")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--once", type=float, default=10.0, help="processor seconds above which a point is run once"
    )
    parser.add_argument("--soft", type=float, default=60.0, help="max_seconds of aim and batched")
    parser.add_argument("--limit", type=int, default=600, help="processor seconds at which a point is killed")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args(words)
    stamp = {
        "run": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "numba", "pyarrow")},
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "day": time.strftime("%Y-%m-%d"),
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    for what in args.what:
        for x in args.points or POINTS[what]:
            for name in NAMES[what]:
                if name not in (args.names or NAMES[what]) or (x > MOST_ROWS and name in METHODS):
                    continue
                for _ in range(args.repeats):
                    found = apart(what, name, x, args)
                    with args.out.open("a", encoding="utf-8") as out:
                        out.write(json.dumps(found | stamp) + "\n")
                    tell(found)
                    if found.get("process_cpu", 0.0) > args.once:
                        break


if __name__ == "__main__":
    main()
