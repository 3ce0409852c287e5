"""What split noise chooses for `auto`, prices, nests and class of the model, against the best in hindsight.

    python bench/runs/splitting.py --data FOLDER --epsilon 0.2 1 5 --repeats 3

For each table, epsilon and repeat `auto` measures once. Fitted to the same measurements are then mixtures at
1/2, 1 and 2 times the rule's price, with nests and without, and with nests whose shares of atoms pay three
times as much, and, where a small junction tree holds nearly all dependence, the graphical model, each with
the default settings otherwise. The error is the mean total
variation of the model's pairs against the real table. `loss` is the chosen model's error over the best one's,
`rule` that of a plain mixture at the rule's price. delta is 1e-5, adjacency add/remove. No figure here is
private: the real table is looked at to judge.
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

from tables import FILES, coded_schema, load, numeric

RESULTS = Path(__file__).parent.parent / "results"
FACTORS = (0.5, 1.0, 2.0)


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
    kinds = {"nests": (True, 1.0), "outer": (True, 3.0), "plain": (False, 1.0)}
    found = {
        f"{kind} {f}": error(
            Mixture(information=rule * f, nests=nests, outer=outer).fit(domain, release.measurements), real
        )
        for f in FACTORS
        for kind, (nests, outer) in kinds.items()
    }
    tree = graphical(domain, release.measurements, rough)
    if tree is not None:
        found["trees"] = error(tree, real)
    own = error(fitted.model, real)
    best = min(*found.values(), own)
    return {
        "rule_price": rule,
        "chosen": described(fitted.model, rule),
        "errors": found,
        "error": own,
        "loss": own / best - 1.0,
        "rule": found["plain 1.0"] / best - 1.0,
        "converged": fitted.model.converged,
    }


def described(model: object, rule: float) -> str:
    """What `auto` took, in the words of the candidates."""
    from margrave.models.auto import Trees

    if isinstance(model, Trees):
        return "trees"
    return f"{'nests' if model.nests else 'plain'} {model.information / rule:.2g}"  # type: ignore[attr-defined]


def graphical(domain: object, measurements: Sequence[object], rough: object) -> object | None:
    """The graphical model that `auto` would try, or None."""
    from margrave.models.auto import Auto
    from margrave.models.mixture.nesting import dependences
    from margrave.models.pgm.fitter import PGM
    from margrave.models.pooled import pool

    tables = pool(domain, measurements)
    tied = dependences(domain, rough.pairs(rough.weights), tables, rough.total)
    kept = Auto().kept(domain, tables, tied)
    if not kept:
        return None
    those = [m for m in measurements if len(m.clique) == 1 or m.clique in kept]
    return PGM().fit(domain, those)


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
