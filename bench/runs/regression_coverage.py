"""How often intervals of regressions, means, shares and quantiles from a release hold the truth.

    python bench/runs/regression_coverage.py [--releases 400] [--rows 4000] [--epsilon 0.1 1 2] [--seed 0]

A made population of five columns of few codes, of which every truth is known exactly. Each release has
fresh rows, noisy tables of all pairs under Gaussian noise for (epsilon, 1e-5) with add/remove adjacency, and
the graphical model. A line an epsilon and kind of answer: the share of 95 % intervals that hold the truth,
over coefficients and releases; the share of releases in which the coefficient of sex is called significant,
which is 0 in the population's logistic regression and within .02 of it in the linear one; the share of exact
confidence sets that hold the truth; and how many coefficients the releases did not determine.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

import margrave as mg
from margrave.models.pgm.fitter import PGM
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.unit import Neighbours
from margrave.regression import linear, logistic
from margrave.release import Guarantee, NoisyMarginal, Release
from margrave.run.synthesis import Synthesis

Floats = NDArray[np.float64]
SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=0, upper=5, bins=6, missing=False),
        mg.Categorical(name="ward", values=("a", "b", "c"), missing=False),
        mg.Boolean(name="sex", missing=False),
        mg.Integer(name="pay", lower=0, upper=7, bins=8, missing=False),
        mg.Boolean(name="ill", missing=False),
    )
)
FEATURES = ("age", "ward", "sex")
DELTA = 1e-5


def population() -> Floats:
    """Probabilities of all cells: pay and ill depend on age and ward; sex is not in either equation."""
    age, ward, sex, pay = np.meshgrid(np.arange(6), np.arange(3), np.arange(2), np.arange(8), indexing="ij")
    features = np.exp(-0.15 * (age - 2.5) ** 2 - 0.3 * ward * (age > 2)) * np.where(
        sex == 1, 1 + 0.15 * age, 1.0
    )
    mean = 1.5 + 0.6 * age + 0.8 * (ward == 1)
    density = np.exp(-0.5 * ((pay - mean) / 1.5) ** 2)
    joint = features * density / density.sum(axis=3, keepdims=True)
    chance = 1 / (1 + np.exp(2.0 - 0.5 * age - 0.9 * (ward == 2)))
    cells = np.stack([joint * (1 - chance), joint * chance], axis=4)
    return np.asarray(cells / cells.sum())


def true_coefficients(cells: Floats, kind: str) -> Floats:
    """Coefficients of the least squares or logistic fit on cells, by Newton steps: [intercept, age, b, c,
    sex]."""
    age, ward, sex, pay, ill = (part.ravel() for part in np.indices(cells.shape))
    numbers = np.column_stack([np.ones(age.size), age, ward == 1, ward == 2, sex]).astype(float)
    weights, theta = cells.ravel(), np.zeros(5)
    for _ in range(30):
        s = numbers @ theta
        mean = s if kind == "linear" else 1 / (1 + np.exp(-s))
        slope = np.ones_like(s) if kind == "linear" else mean * (1 - mean)
        label = pay if kind == "linear" else ill
        hessian = (numbers.T * (weights * slope)) @ numbers
        theta = theta + np.linalg.solve(hessian, numbers.T @ (weights * (label - mean)))
    return np.asarray(theta)


def release_of(counts: Floats, epsilon: float, rng: np.random.Generator) -> Synthesis:
    """All pairs with Gaussian noise for (epsilon, DELTA), and the graphical model fitted to them."""
    names = SCHEMA.names
    pairs = list(combinations(range(len(names)), 2))
    mu = float((2 * GDP().total(epsilon, Fraction(DELTA))) ** 0.5)
    sigma = len(pairs) ** 0.5 / mu
    measurements = []
    for j, k in pairs:
        table = counts.sum(axis=tuple(axis for axis in range(len(names)) if axis not in (j, k)))
        noisy = table + sigma * rng.standard_normal(table.shape)
        measurements.append(NoisyMarginal((names[j], names[k]), noisy, sigma))
    fitter = PGM()
    model = fitter.fit(SCHEMA.domain, measurements)
    guarantee = Guarantee(epsilon, DELTA, mu**2 / 2, Neighbours(), "gdp")
    release = Release(
        SCHEMA, tuple(measurements), guarantee, (), "pairs", fitter.name, model.state(), model.total
    )
    return Synthesis(release, model)


@dataclass
class Tally:
    """What was covered so far."""

    covered: list[float] = field(default_factory=list)
    significant: list[float] = field(default_factory=list)
    exact: list[float] = field(default_factory=list)
    lost: int = 0

    def add(self, found: Any, truth: Floats) -> None:
        known = found.identified
        inside = (found.lower <= truth) & (truth <= found.upper)
        self.covered += inside[known].tolist()
        self.lost += int((~known).sum())
        if known[4]:
            self.significant.append(float(found.lower[4] > 0 or found.upper[4] < 0))
        self.exact.append(float(found.p_value(truth) >= 0.05))


def measure_coverage(
    releases: int, rows: int, epsilon: float, rng: np.random.Generator
) -> dict[tuple[str, str], Tally]:
    """Tallies by kind of regression and by what intervals are for."""
    cells = population()
    tallies = {(kind, of): Tally() for kind in ("linear", "logistic") for of in ("table", "population")}
    for _ in range(releases):
        counts = rng.multinomial(rows, cells.ravel()).reshape(cells.shape).astype(float)
        synthesis = release_of(counts, epsilon, rng)
        for (kind, of), tally in tallies.items():
            call, target = (linear, "pay") if kind == "linear" else (logistic, "ill")
            options: Any = {"features": FEATURES, "of": of, "reference": {"ward": "a", "sex": "False"}}
            found = call(synthesis, target, rng=rng, **options)
            tally.add(found, true_coefficients(counts if of == "table" else cells, kind))
    return tallies


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--releases", type=int, default=400)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 2.0])
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    for epsilon in asked.epsilon:
        tallies = measure_coverage(asked.releases, asked.rows, epsilon, rng)
        for (kind, of), tally in tallies.items():
            null = f", null significant {np.mean(tally.significant):.3f}" if of == "population" else ""
            print(
                f"epsilon {epsilon:g} {kind:8} {of:10} covered {np.mean(tally.covered):.3f}{null}, exact set "
                f"{np.mean(tally.exact):.3f}, not determined {tally.lost}",
                flush=True,
            )


if __name__ == "__main__":
    main()
