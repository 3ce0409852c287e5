"""How often intervals of regressions, counts, means, shares and quantiles from a release hold the truth.

    python bench/runs/regression_coverage.py [--releases 400] [--rows 4000] [--epsilon 0.1 1 2] [--seed 0]
        [--kinds linear logistic poisson quantities] [--sums 0.05]

A made population of five columns of few codes, of which every truth is known exactly. Each release has
fresh rows, noisy tables of all pairs under Gaussian noise for (epsilon, 1e-5) with add/remove adjacency, and
the graphical model. A line an epsilon and kind of regression: the share of 95 % intervals that hold the
truth, over coefficients and releases; the share of releases in which the coefficient of sex is called
significant, which is 0 in the population's logistic regression and within .02 of it in the linear one; the
share of exact confidence sets that hold the truth; and how many coefficients the releases did not determine.
"naive" is the share in which sex is called significant by an ordinary logistic regression of as many
synthetic rows, which takes them for real ones. "quantities" are a line each: counts are all cells of age by
ward, means those of pay, shares those of ill, quantiles the median and the 9th decile of pay, all of all rows
and by sex, and differences are those of men and women. With `--sums` this share of rho buys sums of products
of the columns of numbers, with the regression's target among them, as a run that is told a target does.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np
from numpy.typing import NDArray

import margrave as mg
from margrave.models.independent import Independent
from margrave.models.pgm.fitter import PGM
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.unit import Neighbours
from margrave.regression import linear, logistic, poisson
from margrave.regression.number_sums import centre_numbers, find_numbers
from margrave.release import Guarantee, NoisyMarginal, NoisySums, Release
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
    """Coefficients of a fit on cells by Newton steps, Poisson ones of pay: [intercept, age, b, c, sex]."""
    age, ward, sex, pay, ill = (part.ravel() for part in np.indices(cells.shape))
    numbers = np.column_stack([np.ones(age.size), age, ward == 1, ward == 2, sex]).astype(float)
    weights, theta = cells.ravel(), np.zeros(5)
    for _ in range(30):
        s = numbers @ theta
        mean = s if kind == "linear" else 1 / (1 + np.exp(-s)) if kind == "logistic" else np.exp(s)
        slope = {"linear": np.ones_like(s), "logistic": mean * (1 - mean), "poisson": mean}[kind]
        label = ill if kind == "logistic" else pay
        hessian = (numbers.T * (weights * slope)) @ numbers
        theta = theta + np.linalg.solve(hessian, numbers.T @ (weights * (label - mean)))
    return np.asarray(theta)


def release_of(
    counts: Floats,
    epsilon: float,
    rng: np.random.Generator,
    fitter: PGM | Independent | None = None,
    share: float = 0.0,
) -> Synthesis:
    """All pairs with Gaussian noise for (epsilon, DELTA), and a model, the graphical one by default.

    A share of rho is left for `add_sums`.
    """
    names = SCHEMA.names
    pairs = list(combinations(range(len(names)), 2))
    mu = float((2 * GDP().total(epsilon, Fraction(DELTA))) ** 0.5)
    sigma = (len(pairs) / (1.0 - share)) ** 0.5 / mu
    measurements = []
    for j, k in pairs:
        table = counts.sum(axis=tuple(axis for axis in range(len(names)) if axis not in (j, k)))
        noisy = table + sigma * rng.standard_normal(table.shape)
        measurements.append(NoisyMarginal((names[j], names[k]), noisy, sigma))
    fitter = fitter or PGM()
    model = fitter.fit(SCHEMA.domain, measurements)
    guarantee = Guarantee(epsilon, DELTA, mu**2 / 2, Neighbours(), "gdp")
    release = Release(
        SCHEMA, tuple(measurements), guarantee, (), "pairs", fitter.name, model.state(), model.total
    )
    return Synthesis(release, model)


def add_sums(
    synthesis: Synthesis, counts: Floats, target: str, share: float, rng: np.random.Generator
) -> Synthesis:
    """The release with sums of products, the target's among them, that a share of its rho has bought.

    The noise is that of `margrave.measure.mechanisms.regression.sums`, but for whole steps.
    """
    numbers = centre_numbers(find_numbers(SCHEMA, target), synthesis.model)
    places = [SCHEMA.names.index(name) for name in numbers.names]
    own = [matrix[0] for matrix in numbers.numbers]
    sums = np.zeros((len(places),) * 2)
    for j, k in combinations_with_replacement(range(len(places)), 2):
        table = counts.sum(axis=tuple(axis for axis in range(5) if axis not in (places[j], places[k])))
        if j == k:
            sums[j, j] = table @ own[j] ** 2
        else:
            sums[j, k] = sums[k, j] = own[j] @ (table if places[j] < places[k] else table.T) @ own[k]
    squared = sum(float((one**2).max()) for one in own)
    sigma = squared / (2.0 * (share * synthesis.release.guarantee.rho) ** 0.5)
    noise = np.triu(sigma * rng.standard_normal(sums.shape), 1)
    noise += noise.T + np.diag(1.5 * sigma * rng.standard_normal(len(sums)))
    bought = NoisySums(numbers, sums + noise, sigma, 1.5 * sigma)
    return Synthesis(replace(synthesis.release, sums=bought), synthesis.model)


@dataclass
class Tally:
    """What was covered so far."""

    covered: list[float] = field(default_factory=list)
    significant: list[float] = field(default_factory=list)
    exact: list[float] = field(default_factory=list)
    naive: list[float] = field(default_factory=list)
    lost: int = 0

    def add(self, found: Any, truth: Floats) -> None:
        known = found.identified
        inside = (found.lower <= truth) & (truth <= found.upper)
        self.covered += inside[known].tolist()
        self.lost += int((~known).sum())
        if known[4]:
            self.significant.append(float(found.lower[4] > 0 or found.upper[4] < 0))
        self.exact.append(float(found.p_value(truth) >= 0.05))


KINDS = {"linear": (linear, "pay"), "logistic": (logistic, "ill"), "poisson": (poisson, "pay")}


def measure_coverage(
    releases: int,
    rows: int,
    epsilon: float,
    rng: np.random.Generator,
    kinds: Sequence[str] = tuple(KINDS),
    share: float = 0.0,
) -> dict[tuple[str, str], Tally]:
    """Tallies by kind of regression or quantity, and by what intervals are for; `add_sums` gets a share."""
    cells, tallies = population(), dict[tuple[str, str], Tally]()
    fitter = Independent() if set(kinds) == {"quantities"} else None  # no model is looked at
    for _ in range(releases):
        counts = rng.multinomial(rows, cells.ravel()).reshape(cells.shape).astype(float)
        synthesis = release_of(counts, epsilon, rng, fitter, share)
        targets = {KINDS[kind][1] for kind in kinds if kind in KINDS} if share else set()
        summed = {target: add_sums(synthesis, counts, target, share, rng) for target in sorted(targets)}
        for of in ("table", "population"):
            truth = counts if of == "table" else cells
            options: Any = {"features": FEATURES, "of": of, "reference": {"ward": "a", "sex": "False"}}
            for kind in (kind for kind in kinds if kind in KINDS):
                call, target = KINDS[kind]
                found = call(summed.get(target, synthesis), target, rng=rng, **options)
                tallies.setdefault((kind, of), Tally()).add(found, true_coefficients(truth, kind))
            if "quantities" in kinds:
                for name, held in check_quantities(synthesis, truth, of):
                    tallies.setdefault((name, of), Tally()).covered += held
        if "logistic" in kinds:
            naive = find_naive(synthesis, rows, rng)
            tallies["logistic", "population"].naive.append(naive)
    return tallies


def find_naive(synthesis: Synthesis, rows: int, rng: np.random.Generator) -> float:
    """Whether an ordinary logistic regression of synthetic rows calls sex significant: 1 or 0."""
    drawn = synthesis.model.sample(rows, rng)
    age, ward, sex, ill = (drawn.column(name).astype(float) for name in ("age", "ward", "sex", "ill"))
    numbers, theta = np.column_stack([np.ones(rows), age, ward == 1, ward == 2, sex]), np.zeros(5)
    hessian = np.eye(5)
    for _ in range(20):
        mean = 1 / (1 + np.exp(-numbers @ theta))
        hessian = (numbers.T * (mean * (1 - mean))) @ numbers + 1e-9 * np.eye(5)
        theta = theta + np.linalg.solve(hessian, numbers.T @ (ill - mean))
    return float(abs(theta[4]) > 1.96 * np.linalg.inv(hessian)[4, 4] ** 0.5)


def check_quantities(synthesis: Synthesis, truth: Floats, of: Any) -> Iterator[tuple[str, list[float]]]:
    """Whether intervals of counts, means, shares, quantiles and differences hold the truth, by name."""
    if of == "table":
        table = synthesis.table("age", "ward", source="measured")
        cells = truth.sum(axis=(2, 3, 4)).ravel()
        lower, upper = (table.column(name).to_numpy() for name in ("lower", "upper"))
        yield "count", ((lower <= cells) & (cells <= upper)).astype(float).tolist()
    pay, ill = truth.sum(axis=(0, 1, 4)), truth.sum(axis=(0, 1, 3))  # by sex
    mean = [float(row @ np.arange(8) / row.sum()) for row in (pay.sum(axis=0), *pay)]
    share = [float(row[1] / row.sum()) for row in (ill.sum(axis=0), *ill)]
    whole, groups = synthesis.mean("pay", of=of), synthesis.mean("pay", by="sex", of=of)
    yield from _check("mean", mean, whole, groups)
    whole, groups = synthesis.share("ill", True, of=of), synthesis.share("ill", True, by="sex", of=of)
    yield from _check("share", share, whole, groups)
    for name, q in (("median", 0.5), ("9th decile", 0.9)):
        places = [float((row.cumsum() < q * row.sum()).sum()) for row in (pay.sum(axis=0), *pay)]
        whole, groups = synthesis.quantile("pay", q, of=of), synthesis.quantile("pay", q, by="sex", of=of)
        yield from _check(name, places, whole, groups)


def _check(name: str, truth: Sequence[float], whole: Any, groups: Any) -> Iterator[tuple[str, list[float]]]:
    estimates = [whole, groups["False"], groups["True"], groups.difference("True", "False")]
    true = [*truth, truth[2] - truth[1]]
    limits = [one.interval for one in estimates]
    held = [float(low - 1e-9 <= t <= high + 1e-9) for t, (low, high) in zip(true, limits, strict=True)]
    yield name, held[:3]
    yield f"difference of {name}s", held[3:]


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--releases", type=int, default=400)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.1, 1.0, 2.0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=[*KINDS, "quantities"], default=[*KINDS, "quantities"])
    parser.add_argument("--sums", type=float, default=0.0)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    for epsilon in asked.epsilon:
        tallies = measure_coverage(asked.releases, asked.rows, epsilon, rng, asked.kinds, asked.sums)
        for (kind, of), tally in tallies.items():
            said = f"epsilon {epsilon:g} {kind:25} {of:10} covered {np.mean(tally.covered):.3f}"
            if of == "population" and tally.significant:
                said += f", null significant {np.mean(tally.significant):.3f}"
            if tally.naive:
                said += f", naive {np.mean(tally.naive):.3f}"
            if tally.exact:
                said += f", exact set {np.mean(tally.exact):.3f}, not identified {tally.lost}"
            print(said, flush=True)


if __name__ == "__main__":
    main()
