"""The slicing mechanism's release on people of the American Community Survey, beside what counting gives.

    python bench/runs/slicing.py FOLDER [--releases 3]

FOLDER holds ACSemployment_train.csv.gz and ACSemployment-domain.json of paper 003's authors: 49,000 people of
California, 17 columns of codes. The 94,700 rows of paper 001's quarter sample are drawn from them with
replacement by seed 0, and released by `slicing`, `independent` and `auto` at mu 1.133 and 1.579, one row
emptied: the price on a tight frame of the noise for which Theorem 1 of paper 001 says 6.5 and 9.5 at delta
1e-5 with 200 directions of 100 features. Printed for each: the mean over the columns that are categories (all
but AGEP) of 1 - total variation, the same over their pairs, as TVComplement and ContingencySimilarity of
SDMetrics are, and seconds of processor time for fit and rows.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

import margrave as mg
from margrave.privacy.accounting.conversions import gdp_epsilon

ROWS = 94_700
DELTA = 1e-5
MUS = (1.133, 1.579)
METHODS = ("slicing", "independent", "auto")


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


def main() -> None:
    """Print a line a budget, method and release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--releases", type=int, default=3)
    asked = parser.parse_args()
    sizes = json.loads((asked.folder / "ACSemployment-domain.json").read_text(encoding="utf-8"))
    people = pd.read_csv(asked.folder / "ACSemployment_train.csv.gz")
    rows = people.sample(ROWS, replace=True, random_state=0).reset_index(drop=True)
    schema = mg.Schema.from_sizes(sizes)
    for mu in MUS:
        epsilon = gdp_epsilon(mu, DELTA)
        for method in METHODS:
            for _ in range(asked.releases):
                began = time.process_time()
                run = mg.Synthesizer(
                    method, epsilon=epsilon, delta=DELTA, adjacency="zero_out", schema=schema
                )
                made = run.fit(rows).sample()
                seconds = time.process_time() - began
                singles, pairs = measure_agreement(rows, made, sizes)
                print(
                    f"mu {mu}  epsilon {epsilon:.2f}  {method:12}  columns {singles:.4f}  pairs {pairs:.4f}  "
                    f"{seconds:.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
