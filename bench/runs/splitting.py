"""The price that split noise chooses for `auto`'s mixture, against the best of a grid in hindsight.

    python bench/runs/splitting.py --data FOLDER --epsilon 0.2 1 5 --repeats 3

For each table, epsilon and repeat `auto` measures once. Mixtures are then fitted to the same measurements
at 1/4, 1/2, 1, 2 and 4 times the rule's price, each with the default settings otherwise, and with the price
left to the rule and to split noise. The error is the mean total variation of the model's pairs against the
real table. `loss` is the chosen model's error over the best one's, `rule` that of the rule alone. delta is
1e-5, adjacency add/remove. No figure here is private: the real table is looked at to judge.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from tables import FILES, coded_schema, load, numeric

RESULTS = Path(__file__).parent.parent / "results"
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)


def truth(table: pa.Table, sizes: dict[str, int]) -> dict[tuple[str, str], np.ndarray]:
    """All pairs of the real table, in proportions."""
    columns = {name: table[name].to_numpy() for name in sizes}
    return {
        (a, b): np.bincount(columns[a] * sizes[b] + columns[b], minlength=sizes[a] * sizes[b])
        / table.num_rows
        for a, b in combinations(sizes, 2)
    }


def error(model: object, real: dict[tuple[str, str], np.ndarray]) -> float:
    """Mean total variation of the model's pairs."""
    tables = model.project_many(list(real))  # type: ignore[attr-defined]
    shares = [table.ravel() / table.sum() for table in tables]
    return float(np.mean([0.5 * np.abs(s - r).sum() for s, r in zip(shares, real.values(), strict=True)]))


def once(table: pa.Table, sizes: dict[str, int], ordered: set[str], epsilon: float) -> dict[str, object]:
    """One set of measurements, every price."""
    import margrave as mg
    from margrave.models.mixture import Mixture

    schema = coded_schema(sizes, ordered)
    fitted = mg.Synthesizer("auto", epsilon=epsilon, delta=1e-5, schema=schema).fit(table)
    domain, release = schema.domain, fitted.release
    from margrave.limits import Effort

    rough = Mixture().fit(domain, release.measurements, effort=Effort(rough=True))
    rule = rough.information
    real = truth(table, sizes)
    found = {f: error(Mixture(information=rule * f).fit(domain, release.measurements), real) for f in FACTORS}
    chosen = fitted.model.information / rule
    own = error(fitted.model, real)
    best = min(*found.values(), own)
    return {
        "rule_price": rule,
        "chosen": chosen,
        "errors": {str(f): e for f, e in found.items()},
        "error": own,
        "loss": own / best - 1.0,
        "rule": found[1.0] / best - 1.0,
        "converged": fitted.model.converged,
    }


def main() -> None:
    """Run the grid and write JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=FILES, default=list(FILES))
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "splitting.jsonl")
    args = parser.parse_args()
    stamp = {"python": platform.python_version(), "numpy": np.__version__, "day": time.strftime("%Y-%m-%d")}
    for name in args.tables:
        table, sizes = load(name, args.data)
        ordered = numeric(name, args.data)
        for epsilon in args.epsilon:
            runs = [once(table, sizes, ordered, epsilon) for _ in range(args.repeats)]
            with args.out.open("a") as handle:
                for run in runs:
                    handle.write(json.dumps({"table": name, "epsilon": epsilon} | run | stamp) + "\n")
            losses, rules = ([float(run[key]) for run in runs] for key in ("loss", "rule"))  # type: ignore[arg-type]
            print(
                f"{name:18} eps {epsilon:<4g} loss {statistics.median(losses):6.2%} "
                f"[{min(losses):.2%}, {max(losses):.2%}]  rule alone {statistics.median(rules):6.2%}  "
                f"chosen {[run['chosen'] for run in runs]}",
                flush=True,
            )


if __name__ == "__main__":
    for library in ("OMP", "OPENBLAS", "NUMBA"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    main()
