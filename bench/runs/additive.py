"""Time fitting and drawing a target given all other columns, on Adult's own rows with noise on its pairs.

    python bench/runs/additive.py [--targets income education] [--sigmas 3 30 150] [--repeats 5] [--out FILE]

Data: the Adult training table that ships with margrave, 32 equal-width bins (see adult.py), rows shuffled.
The other columns stand for synthetic ones, so nothing here is private or a quality claim: the question is
time. Processor seconds are medians with least and most; kernels are compiled before. `pairs` is the mean
total variation over the target's pairs between one draw and the rows' own expectations, `independent` the
same for rows that draw their codes independently.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np
from adult import adult_codes

from margrave.models._base.pooling import Pooled
from margrave.models._mixture.additive import Additive, drawn_from, fit_additive, rank_alike
from margrave.schema.domain import Domain

RESULTS = Path(__file__).parent.parent / "results"
Columns = dict[str, np.ndarray]


def shuffled() -> tuple[Domain, Columns]:
    """Adult as codes, its rows in random order."""
    table, sizes = adult_codes()
    order = np.random.default_rng(0).permutation(table.num_rows)
    return Domain.of(sizes), {name: table[name].to_numpy()[order].astype(np.int64) for name in sizes}


def noisy(domain: Domain, columns: Columns, target: str, sigma: float) -> list[Pooled]:
    """The target's table and its pairs, with Gaussian noise."""
    rng, found = np.random.default_rng(1), []
    for name in domain.names:
        clique = domain.canonical({name, target})
        cells = np.ravel_multi_index([columns[v] for v in clique], domain.shape(clique))
        counts = np.bincount(cells, minlength=domain.size(clique)).reshape(domain.shape(clique))
        values = counts + sigma * rng.standard_normal(counts.shape)
        found.append(Pooled(clique, values, np.full(counts.shape, sigma)))
    return found


def distance(codes: np.ndarray, shares: np.ndarray, others: Columns) -> float:
    """Mean total variation over the target's pairs between codes and the rows' expectations."""
    excess = np.eye(shares.shape[1])[codes] - shares
    found = []
    for column in others.values():
        sums = np.zeros((int(column.max()) + 1, shares.shape[1]))
        np.add.at(sums, column, excess)
        found.append(float(np.abs(sums).sum()) / 2 / len(codes))
    return statistics.fmean(found)


def measure(domain: Domain, columns: Columns, target: str, sigma: float, repeats: int) -> dict[str, object]:
    """One line of the result."""
    others = {name: column for name, column in columns.items() if name != target}
    tables, rows = noisy(domain, columns, target, sigma), len(columns[target])
    fits, draws, model = [], [], None
    for turn in range(repeats + 1):
        start = time.process_time()
        model = fit_additive(domain, target, tables, float(rows), others)
        middle = time.process_time()
        shares = model.probabilities(others)
        codes = drawn_from(shares, rank_alike(shares), np.random.default_rng(turn))
        if turn:
            fits.append(middle - start)
            draws.append(time.process_time() - middle)
    assert isinstance(model, Additive)  # noqa: S101
    shares = model.probabilities(others)
    points = np.random.default_rng(2).random(rows)[:, None]
    independent = (points > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1)
    spread = {
        key: {"median": statistics.median(v), "min": min(v), "max": max(v)}
        for key, v in (("fit", fits), ("draw", draws))
    }
    return {
        "run": "additive",
        "target": target,
        "codes": domain[target],
        "rows": rows,
        "sigma": sigma,
        "repeats": repeats,
        "cpu_seconds": spread,
        "iterations": model.iterations,
        "gap": model.gap,
        "converged": model.converged,
        "pairs": distance(codes, shares, others),
        "independent": distance(independent, shares, others),
    }


def main() -> None:
    """Run it all, print it and append it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--targets", nargs="+", default=["income", "education", "native-country"])
    parser.add_argument("--sigmas", nargs="+", type=float, default=[3.0, 30.0, 150.0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "additive.jsonl")
    asked = parser.parse_args()
    stamp = {
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba")},
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "day": time.strftime("%Y-%m-%d"),
    }
    domain, columns = shuffled()
    for target in asked.targets:
        for sigma in asked.sigmas:
            line = measure(domain, columns, target, sigma, asked.repeats)
            with asked.out.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(line | stamp) + "\n")
            print(json.dumps(line))


if __name__ == "__main__":
    main()
