"""The slicing mechanism's release on people of the American Community Survey, beside what counting gives.

    python bench/runs/slicing.py FOLDER [--releases 3] [--methods slicing auto]
    python bench/runs/slicing.py --page docs/benchmark-001.md

FOLDER holds ACSemployment_train.csv.gz, ACSemployment_test.csv.gz and ACSemployment-domain.json of paper
003's authors: 49,000 and 1,000 people of California, 17 columns of codes. The 94,700 rows of paper 001's
quarter sample are drawn from the former with replacement by seed 0, and released by each method at mu 1.133
and 1.579, one row emptied: the price on a tight frame of the noise for which Theorem 1 of paper 001 says 6.5
and 9.5 at delta 1e-5 with 200 directions of 100 features. Measured for each: `columns`, the mean over the
columns that are categories (all but AGEP) of 1 - total variation, and `pairs`, the same over their pairs, as
TVComplement and ContingencySimilarity of SDMetrics are; `ages`, KSComplement of AGEP; `f1` on the 1,000
people for whether one has work (ESR), of a logistic regression that learnt from indicators of 20,000
synthetic rows; seconds of processor time for fit and rows, after one release of 2,000 rows that is not
counted and compiles what is compiled. Every release is a line of --out, and a second call goes on where the
first was stopped; the page is made of the lines.

`slice_fdiv plain` and `slice_wass plain` train as the paper says, as far as it says it: batches of 128, k of
2 (1), from random weights, 400 steps of a rate of 0.002, where the paper takes some 150,000 steps of 2e-5.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score

import margrave as mg
from margrave.models import SliceFDiv, SliceWass
from margrave.models.sliced.divergence import SlicedDivergence
from margrave.models.sliced.training import Course
from margrave.privacy.accounting.conversions import gdp_epsilon

HERE = Path(__file__).parent
OUT, TEXT = HERE.parent / "results" / "slicing.jsonl", HERE.parent / "data" / "slicing_page.md"
ROWS = 94_700
DELTA = 1e-5
MUS = {1.133: 5.1, 1.579: 8.1}
"""mu of a release, and the epsilon that the paper reports for its sample of a quarter."""
PLAIN = Course(steps=400, batch=128, slices=32, k=2, rate=2e-3, matched=False)
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "slice_fdiv": ("slice_fdiv", {}),
    "slice_wass": ("slice_wass", {}),
    "slice_fdiv plain": (
        "slice_fdiv",
        {"model": SliceFDiv(SlicedDivergence(), PLAIN, from_one_ways=False)},
    ),
    "slice_wass plain": (
        "slice_wass",
        {"model": SliceWass(course=replace(PLAIN, slices=100, k=1), from_one_ways=False)},
    ),
    "slicing": ("slicing", {}),
    "independent": ("independent", {}),
    "auto": ("auto", {}),
}
PAPER = {
    5.1: {
        "SliceFDiv": (0.83, 0.64, 0.77, 0.47),
        "SliceWass": (0.83, 0.62, 0.74, 0.50),
        "DP-SGD": (0.52, 0.25, 0.45, 0.46),
        "PATE": (0.54, 0.30, 0.39, 0.38),
        "MERF": (0.67, 0.34, 0.96, 0.67),
    },
    8.1: {
        "SliceFDiv": (0.83, 0.63, 0.67, 0.52),
        "SliceWass": (0.81, 0.60, 0.75, 0.49),
        "DP-SGD": (0.61, 0.33, 0.52, 0.29),
        "PATE": (0.49, 0.26, 0.47, 0.51),
        "MERF": (0.65, 0.32, 0.95, 0.65),
    },
}
"""TVComplement, ContingencySimilarity, KSComplement and F1 on Employment of the paper's Tables 1 and 3."""
SCORES = ("columns", "pairs", "ages", "f1")
TAUGHT = 20_000


def measure_agreement(
    real: pd.DataFrame, synthetic: pd.DataFrame, sizes: dict[str, int]
) -> tuple[float, float]:
    """Mean agreement of single columns and of pairs, without AGEP."""
    names = [name for name in sizes if name != "AGEP"]

    def table(frame: pd.DataFrame, *columns: str) -> np.ndarray:
        found = np.zeros([sizes[name] for name in columns])
        np.add.at(found, tuple(frame[name].to_numpy() for name in columns), 1.0)
        return found / len(frame)

    def agreement(*columns: str) -> float:
        return 1.0 - 0.5 * float(np.abs(table(real, *columns) - table(synthetic, *columns)).sum())

    singles = [agreement(name) for name in names]
    pairs = [agreement(*pair) for pair in combinations(names, 2)]
    return float(np.mean(singles)), float(np.mean(pairs))


def measure_ages(real: pd.DataFrame, synthetic: pd.DataFrame, size: int) -> float:
    """1 less the largest distance of the two distribution functions of AGEP."""
    shares = [np.bincount(t["AGEP"].to_numpy(), minlength=size) / len(t) for t in (real, synthetic)]
    return 1.0 - float(np.abs(np.cumsum(shares[0] - shares[1])).max())


def measure_f1(synthetic: pd.DataFrame, test: pd.DataFrame, sizes: dict[str, int]) -> float:
    """F1 on real rows of a logistic regression of ESR that learnt from synthetic ones; 0 with one class."""

    def indicate(frame: pd.DataFrame) -> np.ndarray:
        names = [name for name in sizes if name != "ESR"]
        return np.concatenate([np.eye(sizes[name])[frame[name].to_numpy()] for name in names], axis=1)

    taught = synthetic.iloc[:TAUGHT]
    if taught["ESR"].nunique() < 2:
        return 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a hundred steps are all that is meant
        learner = LogisticRegression(max_iter=100).fit(indicate(taught), taught["ESR"].to_numpy())
    return float(f1_score(test["ESR"].to_numpy(), learner.predict(indicate(test))))


def release(name: str, mu: float, rows: pd.DataFrame, schema: mg.Schema) -> tuple[pd.DataFrame, float]:
    """Synthetic rows, and processor seconds for fit and rows."""
    method, options = METHODS[name]
    began = time.process_time()
    run = mg.Synthesizer(
        method, epsilon=gdp_epsilon(mu, DELTA), delta=DELTA, adjacency="zero_out", schema=schema, **options
    )
    made = run.fit(rows).sample(rng=0)
    return made, time.process_time() - began


def release_all(folder: Path, methods: list[str], releases: int, out: Path) -> None:
    """Measure what is not stored yet; each release is printed and stored as it is found."""
    sizes = json.loads((folder / "ACSemployment-domain.json").read_text(encoding="utf-8"))
    people, test = (pd.read_csv(folder / f"ACSemployment_{part}.csv.gz") for part in ("train", "test"))
    rows = people.sample(ROWS, replace=True, random_state=0).reset_index(drop=True)
    schema = mg.Schema.from_sizes(sizes)
    out.touch()
    stored = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    warm: set[str] = set()
    for turn in range(releases):
        for mu in MUS:
            for name in methods:
                cell = {"mu": mu, "method": name}
                if sum(cell.items() <= line.items() for line in stored) > turn:
                    continue
                if METHODS[name][0] not in warm:
                    release(name, mu, rows.iloc[:2_000], schema)
                    warm.add(METHODS[name][0])
                made, seconds = release(name, mu, rows, schema)
                singles, pairs = measure_agreement(rows, made, sizes)
                f1 = measure_f1(made, test, sizes)
                found = (singles, pairs, measure_ages(rows, made, sizes["AGEP"]), f1)
                line = cell | {what: round(value, 4) for what, value in zip(SCORES, found, strict=True)}
                line |= {"seconds": round(seconds, 1), "version": mg.__version__}
                stored.append(line)
                with out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(json.dumps(line), flush=True)


def write_page(outcomes: Path) -> str:
    """The page: the paper's two tables for Employment, ours below them, and the text stored for it."""
    found: dict[tuple[float, str], list[dict[str, Any]]] = defaultdict(list)
    for stored in outcomes.read_text(encoding="utf-8").splitlines():
        one = json.loads(stored)
        found[one["mu"], one["method"]].append(one)
    tables = []
    for mu, reported in MUS.items():
        epsilon = gdp_epsilon(mu, DELTA)
        table = "Table 1" if reported == min(MUS.values()) else "Table 3"
        lines = [
            f"## {table}: the paper's epsilon {reported}, mu {mu}, exact epsilon {epsilon:.2f}",
            "",
            "| method | columns | pairs | ages | F1 | seconds of a processor | releases |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        lines += [
            f"| {name}, the paper's | {' | '.join(f'{one:.2f}' for one in scores)} | | |"
            for name, scores in PAPER[reported].items()
        ]
        for name in METHODS:
            runs = found.get((mu, name), [])
            if runs:
                shown = [_span([run[what] for run in runs if what in run], 3) for what in SCORES]
                shown.append(_span([run["seconds"] for run in runs], 0))
                lines.append(f"| `{name}` | {' | '.join(shown)} | {len(runs)} |")
        tables.append("\n".join(lines))
    return TEXT.read_text(encoding="utf-8").replace("(tables)", "\n\n".join(tables))


def _span(values: list[float], digits: int) -> str:
    if not values:
        return ""
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--out", type=Path, default=OUT, help="where outcomes are stored")
    parser.add_argument("--page", type=Path, help="write this page of what is stored, and measure nothing")
    asked = parser.parse_args()
    if asked.page is not None:
        asked.page.write_text(write_page(asked.out), encoding="utf-8")
    else:
        release_all(asked.folder, asked.methods, asked.releases, asked.out)


if __name__ == "__main__":
    main()
