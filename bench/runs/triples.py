"""What it is worth that rows are balanced towards tables of three attributes: one release drawn both ways.

    python bench/runs/triples.py [--tables carData/Arrests ...] [--methods auto batched mst]
        [--epsilon 1 5] [--repeats 2] [--out FILE.jsonl]

Each release of a table of `packaged.py` (its half `look`, everything declared, delta 1e-6, four fifths of the
rows) is drawn `--repeats` times without and with. Printed are mean total variations from the real rows of all
pairs and of a seeded 150 triples without, what they are with it over that, and processor seconds of drawing
without and what is added. Figures are exact functions of the tables: **not private**.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from packaged import SEED, choose_items, prepare_item

from margrave import Synthesizer
from margrave.benchmark.prepared import Prepared, stream
from margrave.models._sampling import triples
from margrave.schema.encoded import Encoded

DELTA, TRIPLES, MOST_CELLS = 1e-6, 150, 300_000
"""Triples that errors are taken over, and cells of one at most, so that a table fits into memory."""
Table = np.ndarray[Any, Any]
Clique = tuple[str, ...]


def count(rows: Encoded, clique: Clique) -> Table:
    """The rows' table of some attributes, in proportions."""
    shape = rows.domain.shape(clique)
    cells = np.ravel_multi_index([rows.column(name).astype(np.int64) for name in clique], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))) / rows.rows


def choose_cliques(rows: Encoded) -> list[Clique]:
    """All pairs, and a seeded part of the triples."""
    names = rows.domain.names
    able = [c for c in combinations(names, 3) if np.prod(rows.domain.shape(c)) <= MOST_CELLS]
    order = np.random.default_rng(SEED).permutation(len(able))[:TRIPLES]
    return [*combinations(names, 2), *(able[place] for place in order)]


def measure(
    fitted: Any, prepared: Prepared, real: dict[Clique, Table], work: float, repeats: int
) -> dict[str, float]:
    """Mean errors of pairs and triples, and the processor seconds of drawing."""
    usual, found = triples.MOST_WORK, []
    triples.MOST_WORK = work  # type: ignore[assignment]
    try:
        for repeat in range(-1, repeats):
            rng = stream(SEED, "triples", prepared.entry.name, repeat)
            start = time.process_time()
            made = fitted.sample_arrow(prepared.train_rows.size, rng=rng)
            seconds = time.process_time() - start
            if repeat < 0:  # the first one loads kernels
                continue
            rows = prepared.rows_of(made).encoded
            off = {
                clique: 0.5 * float(np.abs(table - count(rows, clique)).sum())
                for clique, table in real.items()
            }
            pairs, threes = ([off[clique] for clique in off if len(clique) == width] for width in (2, 3))
            found.append(
                {"pairs": statistics.fmean(pairs), "triples": statistics.fmean(threes), "seconds": seconds}
            )
    finally:
        triples.MOST_WORK = usual
    return {name: statistics.fmean(one[name] for one in found) for name in found[0]}


def run_all(asked: argparse.Namespace) -> Iterable[dict[str, Any]]:
    """All outcomes, one after another."""
    for item in choose_items(asked.tables, "look"):
        prepared = prepare_item(item, False)
        encoded = prepared.train_rows.encoded
        real = {clique: count(encoded, clique) for clique in choose_cliques(encoded)}
        for method in asked.methods:
            for epsilon in asked.epsilon:
                made = Synthesizer(method, epsilon=epsilon, delta=DELTA, schema=prepared.public)
                fitted = made.fit(prepared.train)
                without = measure(fitted, prepared, real, 0.0, asked.repeats)
                held = measure(fitted, prepared, real, triples.MOST_WORK, asked.repeats)
                yield {
                    "table": item,
                    "rows": encoded.rows,
                    "columns": len(encoded.domain),
                    "method": method,
                    "epsilon": epsilon,
                    "pairs": round(without["pairs"], 5),
                    "triples": round(without["triples"], 5),
                    "pairs_ratio": round(held["pairs"] / without["pairs"], 4),
                    "triples_ratio": round(held["triples"] / without["triples"], 4),
                    "seconds": round(without["seconds"], 3),
                    "more_seconds": round(held["seconds"] - without["seconds"], 3),
                }


def main() -> None:
    """Run what is asked for, a line an outcome, and the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--methods", nargs="+", default=["auto"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 5.0])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    ratios: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for outcome in run_all(asked):
        line = json.dumps(outcome)
        print(line, flush=True)
        if asked.out:
            with asked.out.open("a") as file:
                file.write(line + "\n")
        ratios.setdefault((outcome["method"], outcome["epsilon"]), []).append(outcome)
    for (method, epsilon), some in ratios.items():
        pairs, threes = (
            statistics.geometric_mean(one[name] for one in some) for name in ("pairs_ratio", "triples_ratio")
        )
        more = statistics.fmean(one["more_seconds"] for one in some)
        print(
            f"{method} at {epsilon:g}, {len(some)} tables, geometric means: triples {threes:.4f},"
            f" pairs {pairs:.4f}; {more:.2f} more seconds in the mean"
        )


if __name__ == "__main__":
    main()
