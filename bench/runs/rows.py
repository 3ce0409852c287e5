"""Rows from a model: seconds, how far counts are from the model's, with mbi's sampler in the same run.

    python bench/runs/rows.py --rows 1000 32561 1000000
    python bench/runs/rows.py --release adult.margrave --rows 1000000 --peer none

The model is what AIM makes of Adult with 32 equal-width bins at epsilon 1 (see adult.py), or that of the
release file given by --release. Three samplers, each with the model's own tables as the reference:

    margrave   Synthesis.model.sample
    plain      independent rows: the model's multinomial, one row after another, given their parents
    mbi        MarkovRandomField.synthetic_data of mbi 2.0.0, fitted to the same measurements by its own
               mirror descent (100 steps), in a process of its own, and compared with its own fitted tables

Figures: seconds and processor seconds of sampling alone, after one small draw that loads the kernels
(mbi: the first draw counts, as its compilation is for one structure and one number of rows); the worst
excess of one cell over all measured tables, in rows; how many cells are off by more than 2; and mean
total variations between the rows and the model over all pairs, and over a seeded 100 triples.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path

import numpy as np
from adult import adult_codes

import margrave
from margrave import Schema, Synthesizer
from margrave.models._sampling.rounding import order_by_group

RESULTS = Path(__file__).parent.parent / "results" / "rows.jsonl"
PEER = """
import json, sys, time
import numpy as np
import mbi
from mbi import estimation

given = np.load(sys.argv[1], allow_pickle=False)
domain = mbi.Domain([str(n) for n in given["names"]], [int(n) for n in given["sizes"]])
cliques = [tuple(str(clique).split(",")) for clique in given["cliques"]]
measured = [
    mbi.LinearMeasurement(given[f"y{k}"].ravel(), c, float(given[f"s{k}"])) for k, c in enumerate(cliques)
]
model = estimation.MirrorDescent().estimate(domain, measured, known_total=float(given["total"]), iters=100)
asked = [tuple(str(clique).split(",")) for clique in given["asked"]]
tables = [np.asarray(model.project(c).datavector(flatten=False)) for c in asked]
rows = int(given["rows"])
started, used = time.perf_counter(), time.process_time()
data = model.synthetic_data(rows)
print(json.dumps([time.perf_counter() - started, time.process_time() - used]))
columns = data.to_dict() if hasattr(data, "to_dict") else {n: data.df[n].to_numpy() for n in domain}
codes = np.stack([np.asarray(columns[n]) for n in domain])
np.savez(sys.argv[2], codes=codes, **{f"t{k}": t for k, t in enumerate(tables)})
"""


def figures(codes: np.ndarray, names: tuple[str, ...], tables: dict, measured: list) -> dict[str, float]:
    """How far rows, shape [columns, rows], are from tables of a model, by clique."""
    rows, worst, wrong, cells, ways = codes.shape[1], 0.0, 0, 0, {2: [], 3: []}
    place = {name: i for i, name in enumerate(names)}
    for clique, table in tables.items():
        expected = table.ravel() * (rows / table.sum())
        indices = np.ravel_multi_index([codes[place[n]].astype(np.int64) for n in clique], table.shape)
        excess = np.abs(np.bincount(indices, minlength=table.size) - expected)
        if len(clique) in ways:
            ways[len(clique)].append(excess.sum() / 2 / rows)
        if clique in measured:
            worst, wrong, cells = (
                max(worst, excess.max()),
                wrong + int((excess > 2).sum()),
                cells + table.size,
            )
    return {
        "worst": float(worst),
        "off_by_2": wrong,
        "measured_cells": cells,
        "pairs": float(np.mean(ways[2])),
        "triples": float(np.mean(ways[3])),
    }


def plain(model: object, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Independent rows of a graphical model, shape [columns, rows], in the domain's order."""
    layout, names = model._inference.layout, model._names
    codes: dict[str, np.ndarray] = {}
    for v in reversed(layout.tree.order):
        parents = [names[u] for u in layout.tree.later[v]]
        table = model.project((*parents, names[v])).reshape(-1, model.domain[names[v]])
        steps = table.cumsum(axis=1) / table.sum(axis=1, keepdims=True).clip(1e-300)
        shape = [model.domain[n] for n in parents]
        keys = (
            np.ravel_multi_index([codes[n] for n in parents], shape)
            if parents
            else np.zeros(rows, dtype=np.int64)
        )
        drawn = np.empty(rows, dtype=np.int64)
        points = rng.random(rows)
        by = order_by_group(keys, len(table))
        for stretch in np.split(by, np.flatnonzero(np.diff(keys[by])) + 1):
            drawn[stretch] = np.searchsorted(steps[keys[stretch[0]]], points[stretch], side="right")
        codes[names[v]] = np.minimum(drawn, table.shape[1] - 1)
    return np.stack([codes[name] for name in model.domain.names])


def peer(release: object, total: float, rows: int, asked: list) -> tuple[list[float], np.ndarray, dict]:
    """mbi's rows: seconds and processor seconds, codes, and its model's tables."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "in.npz"), Path(folder, "out.npz")
        noisy = release.measurements
        arrays = {f"y{k}": m.values for k, m in enumerate(noisy)}
        arrays |= {f"s{k}": np.max(m.sigma) for k, m in enumerate(noisy)}
        domain = release.domain
        arrays |= {
            "names": np.array(domain.names),
            "sizes": np.array(domain.sizes),
            "cliques": np.array([",".join(m.clique) for m in noisy]),
            "asked": np.array([",".join(c) for c in asked]),
            "total": total,
            "rows": rows,
        }
        np.savez(given, **arrays)
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        command = [sys.executable, "-c", PEER, str(given), str(found)]
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        held = np.load(found)
        return json.loads(ran.stdout), held["codes"], {c: held[f"t{k}"] for k, c in enumerate(asked)}


def ours(model: object, rows: int, repeats: int) -> tuple[list[tuple[float, float]], np.ndarray]:
    """Seconds and processor seconds of each draw, and the last one's codes."""
    model.sample(100, np.random.default_rng(0))
    times = []
    for seed in range(repeats):
        started, used = time.perf_counter(), time.process_time()
        encoded = model.sample(rows, np.random.default_rng(seed))
        times.append((time.perf_counter() - started, time.process_time() - used))
    return times, np.stack(encoded.columns)


def opened(path: Path | None) -> object:
    """The release to sample from."""
    if path is not None:
        return margrave.load(path)
    real, sizes = adult_codes()
    return Synthesizer("aim", epsilon=1.0, delta=1e-5, schema=Schema.from_sizes(sizes)).fit(real)


def lines(synthesis: object, arguments: argparse.Namespace) -> list[dict]:
    """All figures."""
    model, domain = synthesis.model, synthesis.model.domain
    triples = list(combinations(domain.names, 3))
    chosen = np.random.default_rng(0).choice(len(triples), min(100, len(triples)), replace=False)
    measured = list(dict.fromkeys(m.clique for m in synthesis.release.measurements))
    asked = list(dict.fromkeys([*measured, *combinations(domain.names, 2), *(triples[k] for k in chosen)]))
    tables = dict(zip(asked, model.project_many(asked), strict=True))
    made = []
    for rows in arguments.rows:
        times, codes = ours(model, rows, arguments.repeats)
        seconds, cpu = zip(*times, strict=True)
        line = {"who": "margrave", "rows": rows, "seconds": statistics.median(seconds)}
        line |= {"least": min(seconds), "most": max(seconds), "cpu": statistics.median(cpu)}
        made.append(line | figures(codes, domain.names, tables, measured))
        rng = np.random.default_rng(0)
        made.append(
            {"who": "plain", "rows": rows} | figures(plain(model, rows, rng), domain.names, tables, measured)
        )
    if arguments.peer == "mbi":
        rows = max(arguments.rows)
        (seconds_, cpu_), codes, theirs = peer(synthesis.release, model.total, rows, asked)
        line = {"who": "mbi 2.0.0", "rows": rows, "seconds": seconds_, "cpu": cpu_}
        made.append(line | figures(codes, domain.names, theirs, measured))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--release", type=Path, help="a release file of a PGM; AIM on Adult by default")
    parser.add_argument("--rows", type=int, nargs="+", default=[1000, 32_561, 1_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer", choices=("mbi", "none"), default="mbi")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    synthesis = opened(arguments.release)
    stamp = {
        "data": arguments.release.name if arguments.release else "Adult, 32 bins, AIM, epsilon 1",
        "margrave": margrave.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "day": time.strftime("%Y-%m-%d"),
    }
    with arguments.out.open("a", encoding="utf-8") as out:
        for line in lines(synthesis, arguments):
            out.write(json.dumps(line | stamp) + "\n")
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
