"""Methods against each other on every public table: errors, a classifier's score, time and memory.

    python bench/runs/compare.py --data FOLDER --methods auto aim mst batched --epsilon 0.2 1 5 --repeats 3

A table is encoded as in tables.py and split by a fixed seed: four fifths are the private table, on the rest
a gradient-boosted classifier (scikit-learn, defaults) trained on as many synthetic rows is tested. Errors
are mean total variations of the synthetic rows against the private table: one-ways, all pairs, a seeded
200 triples. "auto+target" is `auto` told which column will be predicted (TARGETS). delta is 1e-5,
adjacency add/remove, one core, every run in a fresh process; seconds are those of fit plus sample, cpu those
of the process, megabytes its peak. Noise is secure, so repeats differ. Numeric columns are declared ordinal.
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
import pyarrow as pa
from adult import errors

from tables import FILES, coded_schema, load, numeric

RESULTS = Path(__file__).parent.parent / "results"
TARGETS = {
    "adult": "income",
    "bank-full": "y",
    "acs_employment": "employed",
    "census_income_kdd": "income_gt_50k",
    "credit_default": "default.payment.next.month",
    "diamonds": "cut",
    "nycflights13": "origin",
    "openintro_military": "gender",
    "openintro_acs12": "employment",
    "flights-3m": "",
}
TESTED, TRAINED = 50_000, 200_000
"""Most rows that a classifier is tested and trained on."""


def split(name: str, folder: Path) -> tuple[pa.Table, pa.Table, dict[str, int]]:
    """The private table, the rows kept for testing, and the sizes."""
    table, sizes = load(name, folder)
    order = np.random.default_rng(0).permutation(table.num_rows)
    cut = table.num_rows * 4 // 5
    return table.take(order[:cut]), table.take(order[cut:]), sizes


def classified(synthetic: pa.Table, held: pa.Table, target: str) -> dict[str, float]:
    """Accuracy and area under the curve of a classifier trained on the rows, on held-out real ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    others = [name for name in held.column_names if name != target]
    sides = [t.slice(0, most) for t, most in ((synthetic, TRAINED), (held, TESTED))]
    (x, y), (u, v) = [
        (np.stack([t[n].to_numpy() for n in others], axis=1), t[target].to_numpy()) for t in sides
    ]
    if len(np.unique(y)) < 2:
        return {"accuracy": float((v == y[0]).mean()), "auc": 0.5}
    model = HistGradientBoostingClassifier(random_state=0).fit(x, y)
    given = model.predict_proba(u)
    accuracy = float((model.classes_[given.argmax(axis=1)] == v).mean())
    curves = []
    for code in np.unique(v):
        known = np.flatnonzero(model.classes_ == code)
        score = given[:, known[0]] if len(known) else np.zeros(len(v))
        curves.append(roc_auc_score(v == code, score))
    return {"accuracy": accuracy, "auc": float(np.mean(curves))}


def inside(name: str, folder: Path, method: str, epsilon: float) -> dict[str, object]:
    """One run in this process."""
    import margrave as mg

    real, held, sizes = split(name, folder)
    schema = coded_schema(sizes, numeric(name, folder))
    target = TARGETS[name]
    told = {"target": target} if method.endswith("+target") else {}
    start = time.perf_counter()
    fitted = mg.Synthesizer(
        method.removesuffix("+target"), epsilon=epsilon, delta=1e-5, schema=schema, **told
    ).fit(real)
    middle = time.perf_counter()
    rows = fitted.sample(real.num_rows)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    scores = classified(rows, held, target) if target else {}
    return {
        "table": name,
        "method": method,
        "epsilon": epsilon,
        "seconds": seconds,
        "fit": middle - start,
        "cpu": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
        **errors(real, rows, sizes),
        **scores,
    }


def main() -> None:
    """Run the grid and write JSON lines."""
    if sys.argv[1:2] == ["--inside"]:
        name, folder, method, epsilon = sys.argv[2:6]
        print(json.dumps(inside(name, Path(folder), method, float(epsilon))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--methods", nargs="+", default=["auto", "auto+target", "aim", "mst"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds a run may take")
    parser.add_argument("--out", type=Path, default=RESULTS / "compare.jsonl")
    args = parser.parse_args()
    stamp = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
        "day": time.strftime("%Y-%m-%d"),
    }
    for name in args.tables:
        for epsilon in args.epsilon:
            for method in args.methods:
                runs = [_apart(name, args.data, method, epsilon, args.limit) for _ in range(args.repeats)]
                with args.out.open("a") as handle:
                    handle.writelines(json.dumps(run | stamp) + "\n" for run in runs)
                _tell(name, method, epsilon, [run for run in runs if "pairs" in run])


def _apart(name: str, folder: Path, method: str, epsilon: float, limit: float) -> dict[str, object]:
    """One run in a process of its own, on one core; a failure is a result too."""
    threads = {f"{lib}_NUM_THREADS": "1" for lib in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA")}
    command = [sys.executable, __file__, "--inside", name, str(folder), method, str(epsilon)]
    try:
        done = subprocess.run(
            command, env=os.environ | threads, stdout=subprocess.PIPE, timeout=limit, check=True
        )
        return dict(json.loads(done.stdout))
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as failure:
        kind = type(failure).__name__
        return {"table": name, "method": method, "epsilon": epsilon, "failed": kind, "limit": limit}


def _tell(name: str, method: str, epsilon: float, runs: list[dict[str, object]]) -> None:
    words = [f"{name:18} {method:12} eps {epsilon:<4g}"]
    for key, form in (
        ("seconds", ".2f"),
        ("pairs", ".4f"),
        ("triples", ".4f"),
        ("accuracy", ".4f"),
        ("auc", ".4f"),
        ("megabytes", ".0f"),
    ):
        values = [float(run[key]) for run in runs if key in run]  # type: ignore[arg-type]
        if values:
            middle, low, high = statistics.median(values), min(values), max(values)
            words.append(f"{key} {middle:{form}} [{low:{form}}, {high:{form}}]")
    print("  ".join(words) if runs else f"{words[0]}  failed", flush=True)


if __name__ == "__main__":
    main()
