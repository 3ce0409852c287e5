"""Where noisy copies of rows pay: numbers that no table of counts holds, against methods that count.

    python bench/runs/noisy_copies.py [--file mnist10k.npz] [--cases wide embedding] [--epsilons 1 5 30]
    python bench/runs/noisy_copies.py --page docs/benchmark-001-numbers.md

`wide` is factors-d of the reporting nursery: the first 40 of its 76 numbers, which ten hidden factors tie
together, 20,000 rows, declared to be within -40 and 40. `embedding` is 8,000 digits of the file, 28 x 28
pixels projected on 16 directions drawn by seed 0, orthonormal and each without its mean, declared to be
within -2 and 2. Every method gets the same numbers at the same epsilon, delta 1e-5:

* `copies, normal`: `mg.slicing.release`, and a normal law with the mean and the covariance of its moments.
* `copies, wasserstein`: the same release, a generator trained by the sliced Wasserstein distance.
* `products, normal`: no copies. The sums of products of two numbers of a row, asked directly, with normal
  noise of the size that this costs, drawn here and not at the door: what one can do who knows beforehand that
  moments are wanted.
* `auto`, `privpgd`, `dp_merf`, `independent`: the numbers in 16 bins of equal width.

One row under zero_out (products and copies) or add_remove. For the former rows are shortened to a length that
is declared, `LONGEST`. Measured against the real rows: `covariance`, the Frobenius distance of the two
covariances over the norm of what the real one has beside its diagonal; `directions`, the mean over 200 random
directions of the Wasserstein distance of the rows' projections, in standard deviations of the real ones; and
processor seconds. Noise is not seeded; each run is a line of --out, and a second call goes on where the first
was stopped.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

import margrave as mg
from margrave.benchmark.nursery import load_nursery_table
from margrave.privacy.accounting.conversions import gdp_mu
from margrave.schema.columns import Real
from margrave.schema.schema import Schema

HERE = Path(__file__).parent
OUT, TEXT = HERE.parent / "results" / "noisy_copies.jsonl", HERE.parent / "data" / "noisy_copies_page.md"
DELTA = 1e-5
BINS, DIRECTIONS, DRAWN = 16, 200, 20_000
BOUNDS = {"wide": 40.0, "embedding": 2.0}
"""Every number is moved within minus and plus this: four deviations of numbers said to have one of 10, and
of a picture of half the greatest length on a random direction."""
LONGEST = 0.375
"""Longest row, in units of the bound times the root of the number of features: one and a half times
as long as one whose numbers are all a deviation away from 0."""

Floats = np.ndarray[Any, np.dtype[np.float64]]
Made = tuple[Floats, float]


def load_wide() -> Floats:
    """Numbers on ten factors, [rows, 40]."""
    table = load_nursery_table("reporting/factors-d", 20_000)
    return np.stack([table[name].to_numpy() for name in table.column_names[:40]], axis=1).astype(float)


def load_embedding(file: Path) -> Floats:
    """Digits on 16 directions that know nothing of them, [rows, 16]."""
    with np.load(file) as held:
        pictures = held["x"].reshape(len(held["x"]), -1)[:8_000] / 255.0
    drawn = np.random.default_rng(0).standard_normal((pictures.shape[1], 16))
    return np.asarray(pictures @ np.linalg.qr(drawn - drawn.mean(axis=0))[0])


def draw_normal(mean: Floats, second: Floats, edge: float, bound: float, rows: int) -> Floats:
    """Rows of a normal law with a mean and noisy second moments, moved into the bounds.

    Eigenvalues of the covariance that noise alone may have, those below `edge`, are replaced by their mean.
    """
    values, axes = np.linalg.eigh(second - np.outer(mean, mean))
    low = values < edge
    if low.any():
        values[low] = max(float(values[low].mean()), 0.0)
    root = axes * np.sqrt(values)
    drawn = np.random.default_rng(0).standard_normal((rows, len(mean))) @ root.T
    return np.clip(mean + drawn, -bound, bound)


def longest(numbers: Floats, bound: float) -> float:
    """The declared longest row: of the number of features and the bound alone."""
    return LONGEST * bound * math.sqrt(numbers.shape[1])


def release_copies(epsilon: float, numbers: Floats, bound: float) -> mg.slicing.SliceRelease:
    """Noisy copies of all rows."""
    cut = longest(numbers, bound)
    return mg.slicing.release(numbers, epsilon=epsilon, delta=DELTA, lower=-bound, upper=bound, longest=cut)


def fit_normal(epsilon: float, numbers: Floats, bound: float) -> Floats:
    """Rows of a normal law with the moments of noisy copies."""
    release = release_copies(epsilon, numbers, bound)
    share = numbers.shape[1] / len(numbers)
    edge = release.sigma**2 * (2.0 * math.sqrt(share) + share)  # of Marchenko and Pastur, less sigma^2
    return draw_normal(*release.moments(), edge, bound, DRAWN)


def train_generator(epsilon: float, numbers: Floats, bound: float) -> Floats:
    """Rows of a generator trained against noisy copies."""
    release = release_copies(epsilon, numbers, bound)
    generator = mg.slicing.make_generator(release)
    course = mg.slicing.Course(steps=300, batch=512, slices=50, k=1, rate=2e-3)
    mg.slicing.train(release, generator, loss="wasserstein", course=course)
    return mg.slicing.sample(release, generator, DRAWN)


def ask_products(epsilon: float, numbers: Floats, bound: float) -> Floats:
    """Rows of a normal law with the moments of noisy sums of products, one Gaussian answer.

    A row x of length at most c becomes z = (c, x). Emptying it moves z z' by (0, c x'; c x, x x') at most, of
    Frobenius norm sqrt(2 c^2 |x|^2 + |x|^4) <= sqrt(3) c^2. A symmetric matrix is given in full by its
    diagonal and sqrt(2) times what is above, whose Euclidean norm is that norm; independent noise of
    deviation s = sqrt(3) c^2 / mu in these has s in the diagonal and s / sqrt(2) beside it: that of
    (N + N') / 2, all numbers of N independent and of s.
    """
    cut, mu = longest(numbers, bound), gdp_mu(epsilon, DELTA)
    kept = numbers * np.minimum(1.0, cut / np.linalg.norm(numbers, axis=1))[:, None]
    z = np.column_stack([np.full(len(kept), cut), kept])  # a constant as long as the rest may be
    sigma = math.sqrt(3.0) * cut**2 / mu
    noise = sigma * np.random.default_rng().standard_normal((z.shape[1], z.shape[1]))
    products = (z.T @ z + (noise + noise.T) / 2.0) / len(z)
    edge = sigma * math.sqrt(2.0 * numbers.shape[1]) / len(z)  # of Wigner
    return draw_normal(products[0, 1:] / cut, products[1:, 1:], edge, bound, DRAWN)


def release_counts(method: str) -> Callable[[float, Floats, float], Floats]:
    """Rows of a method that counts, numbers in bins."""

    def made(epsilon: float, numbers: Floats, bound: float) -> Floats:
        names = [f"x{place}" for place in range(numbers.shape[1])]
        columns = [Real(name=name, missing=False, lower=-bound, upper=bound, bins=BINS) for name in names]
        synthesizer = mg.Synthesizer(method, epsilon=epsilon, delta=DELTA, schema=Schema(tuple(columns)))
        fitted = synthesizer.fit(pd.DataFrame(np.clip(numbers, -bound, bound), columns=names))
        return np.asarray(fitted.sample(DRAWN, rng=0)[names].to_numpy(dtype=float))

    return made


METHODS: dict[str, Callable[[float, Floats, float], Floats]] = {
    "copies, normal": fit_normal,
    "copies, wasserstein": train_generator,
    "products, normal": ask_products,
    "auto": release_counts("auto"),
    "privpgd": release_counts("privpgd"),
    "dp_merf": release_counts("dp_merf"),
    "independent": release_counts("independent"),
}


def compare(real: Floats, made: Floats) -> dict[str, float]:
    """How far made rows are from real ones."""
    one, other = np.cov(real.T), np.cov(made.T)
    beside = one - np.diag(np.diag(one))
    directions = np.random.default_rng(1).standard_normal((real.shape[1], DIRECTIONS))
    directions /= np.linalg.norm(directions, axis=0)
    apart = [
        scipy.stats.wasserstein_distance(real @ way, made @ way) / float(np.std(real @ way))
        for way in directions.T
    ]
    distance = float(np.linalg.norm(one - other) / np.linalg.norm(beside))
    return {"covariance": distance, "directions": float(np.mean(apart))}


def measure(asked: argparse.Namespace) -> None:
    """Measure what is not stored yet."""
    asked.out.touch()
    stored = [json.loads(line) for line in asked.out.read_text(encoding="utf-8").splitlines()]
    for case in asked.cases:
        numbers, bound = (load_wide() if case == "wide" else load_embedding(asked.file)), BOUNDS[case]
        for run in range(asked.runs):
            for method in asked.methods:
                for epsilon in asked.epsilons:
                    cell = {"case": case, "method": method, "epsilon": epsilon}
                    if sum(cell.items() <= line.items() for line in stored) > run:
                        continue
                    start = time.process_time()
                    made = METHODS[method](epsilon, numbers, bound)
                    found = {"seconds": time.process_time() - start} | compare(numbers, made)
                    line = cell | {what: round(value, 4) for what, value in found.items()}
                    stored.append(line | {"version": mg.__version__})
                    with asked.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(stored[-1]) + "\n")
                    print(json.dumps(stored[-1]), flush=True)


def write_page(outcomes: Path) -> str:
    """The page: its text, with a table of what is stored in the place of `(table: CASE)`."""
    cells: dict[tuple[str, str, float], list[dict[str, Any]]] = defaultdict(list)
    for stored in outcomes.read_text(encoding="utf-8").splitlines():
        one = json.loads(stored)
        cells[one["case"], one["method"], one["epsilon"]].append(one)
    page = TEXT.read_text(encoding="utf-8")
    for case in BOUNDS:
        epsilons = sorted({epsilon for name, _, epsilon in cells if name == case})
        lines = [
            f"| method | {' | '.join(f'epsilon {epsilon:g}' for epsilon in epsilons)} | processor seconds |",
            "| --- |" + " --- |" * (len(epsilons) + 1),
        ]
        for method in METHODS:
            runs = [cells.get((case, method, epsilon), []) for epsilon in epsilons]
            seconds = [one["seconds"] for cell in runs for one in cell]
            if seconds:
                own = " | ".join(map(_show_cell, runs))
                lines.append(f"| `{method}` | {own} | {min(seconds):.0f} to {max(seconds):.0f} |")
        page = page.replace(f"(table: {case})", "\n".join(lines))
    return page


def _show_cell(runs: list[dict[str, Any]]) -> str:
    """Covariance and directions, means of the runs, with the range of the first of several."""
    if not runs:
        return ""
    one, other = ([run[what] for run in runs] for what in ("covariance", "directions"))
    spread = f" ({min(one):.2f} to {max(one):.2f})" if len(runs) > 1 else ""
    return f"{np.mean(one):.2f} / {np.mean(other):.3f}{spread}"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--file", type=Path, help="mnist10k.npz, for the embedding")
    parser.add_argument("--cases", nargs="+", default=list(BOUNDS), choices=list(BOUNDS))
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 5.0, 30.0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT, help="where outcomes are stored")
    parser.add_argument("--page", type=Path, help="write this page of what is stored, and measure nothing")
    asked = parser.parse_args()
    if asked.page is not None:
        asked.page.write_text(write_page(asked.out), encoding="utf-8")
    else:
        measure(asked)


if __name__ == "__main__":
    main()
