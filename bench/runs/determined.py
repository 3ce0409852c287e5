"""How far a regression's middles should move along noisy tables: coverage of intervals against their length.

    python bench/runs/determined.py --tables choosing/survey-b choosing/real-marriages [--epsilon 0.3 1 3]
        [--targets 3] [--kind linear] [--releases 1]

For each table of the nursery (docs/nursery.md; of its choosing half, to choose) and each epsilon `auto` makes
releases (delta 1e-6). Each of the first columns that have numbers is regressed on all others by least
squares, or, with --kind logistic, the commonest level of each of the first columns; of the table itself,
whose truth is the fit on its rows. Coefficients that are not finite there are not counted, and regressions
that have such coefficients (a level that separates the target) have lines of their own. A line a rule: how
many of the 95 % intervals hold the truth, how many are longer than a coefficient can be and so called hidden
by noise, the median of their lengths over those of "whole", and the median standard error in ranges of the
target:

    whole       the whole step, with what the error of X'X does to it, as far as a coefficient can be wrong
    bounded F   the same, as far as F times that
    once F      the whole step times its share of what coefficients are wrong by, which is supposed to have F
                times what they can be wrong by (`find_reach`) as standard deviation
    shrunk F    the same, and the error of X'X acts on a step that was shrunk before

No figure here is private: the real table is looked at to judge.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import margrave as mg
from margrave.benchmark.nursery import find_nursery_table
from margrave.benchmark.prepared import read_schema
from margrave.models.auto import Auto
from margrave.regression import Coefficients, linear, logistic
from margrave.regression.inference import (
    find_directions,
    find_reach,
    second_order,
    shrink_step,
    solve_strong,
)
from margrave.regression.likelihood import curvature_at, score_at
from margrave.regression.sums import model_sums
from margrave.schema.encode import encode
from margrave.schema.encoded import Encoded
from margrave.select.all_pairs import AllPairs
from margrave.tables.estimates import labels_of
from margrave.tables.numbers import scores_of

Floats = NDArray[np.float64]
DELTA = 1e-6
FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0)
"""What coefficients are supposed to be wrong by, times what they can be."""
QUANTILE = 1.96
STEPS, FARTHEST = 15, 14.0
"""Newton steps to a table's own logistic coefficients; a change over a column's range that so many steps have
brought there is still growing."""


def find_truth(found: Coefficients, codes: Encoded) -> Floats:
    """The fit on the rows, in the centred design, shape [p]; NaN where it is not finite."""
    design = found.fit.design
    held, labels = design.codes(codes)
    parts = [matrix[:, own].T for matrix, own in zip(design.matrices, held, strict=True)]
    numbers, labels = np.hstack([np.ones((len(labels), 1)), *parts]), labels + design.middle
    if found.fit.family.affine:
        return np.asarray(np.linalg.lstsq(numbers, labels, rcond=1e-10)[0])
    theta = np.zeros(design.size)
    for _ in range(STEPS):
        predictor = numbers @ theta
        bent = (numbers.T * found.fit.family.slope(predictor)) @ numbers + 1e-6 * np.eye(design.size)
        score = numbers.T @ (labels - found.fit.family.mean(predictor)) - 1e-6 * theta
        theta = theta + np.linalg.solve(bent, score)
    return np.where(np.abs(theta) * design.ranges < FARTHEST, theta, np.nan)


def judge(
    found: Coefficients, crossed: Floats, truth: Floats
) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.bool_], Floats]]:
    """For each rule: its name, which intervals hold the truth, which are hidden, and standard errors."""
    design, sums, rows, family = found.fit.design, found.fit.sums, found.fit.rows, found.fit.family
    theta = np.linalg.solve(design.to_raw, found.estimates)
    wanted = design.to_raw @ truth
    line = score_at(theta, design, rows, family)
    hessian = line.beta * crossed + curvature_at(theta, line, design, rows, family)
    inverse = solve_strong(hessian, find_directions(design, crossed, sums))
    residual, noise = sums.residual(line.gamma)
    step, reach = inverse @ (residual - line.remainder), find_reach(design, family)

    def spread(moved: Floats, bound: Floats) -> Floats:
        """Covariance of the step, where what the estimate is wrong by is like this."""
        return inverse @ (noise + second_order(moved, bound, line.beta, sums)) @ inverse.T

    def hold(moved: Floats, covariance: Floats, bound: Floats) -> tuple[NDArray[np.bool_], ...]:
        errors = np.sqrt(np.maximum(np.diag(design.to_raw @ covariance @ design.to_raw.T), 0.0))
        held = np.abs(design.to_raw @ (theta + moved) - wanted) <= QUANTILE * errors
        hidden = errors > bound
        hidden[0] = False
        return held, hidden, errors

    yield "whole", *hold(step, spread(step, reach), reach / QUANTILE)
    for factor in FACTORS:
        bound = factor * reach
        most = bound / np.hypot(1.0, factor * QUANTILE)
        yield f"bounded {factor:g}", *hold(step, spread(step, bound), reach / QUANTILE)
        yield f"once {factor:g}", *hold(*shrink_step(step, spread(step, reach), bound), most)
        first, _ = shrink_step(step, inverse @ noise @ inverse.T, bound)
        yield f"shrunk {factor:g}", *hold(*shrink_step(step, spread(first, bound), bound), most)


def fit(release: mg.Synthesis, target: str, kind: str, schema: mg.Schema, codes: Encoded) -> Coefficients:
    """The regression of a column, or of its commonest level, on all others."""
    if kind == "linear":
        return linear(release, target, source="model", of="table")
    common = int(np.bincount(codes.column(target)).argmax())
    return logistic(release, target, positive=labels_of(schema, target)[common], source="model", of="table")


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", required=True)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--targets", type=int, default=3)
    parser.add_argument("--kind", choices=("linear", "logistic"), default="linear")
    parser.add_argument("--releases", type=int, default=1)
    args = parser.parse_args()
    for word in args.tables:
        entry = find_nursery_table(word)
        raw = entry.load()
        schema = read_schema(raw, 32, entry.cut)
        codes = encode(raw, schema)
        targets = [c.name for c in schema.attributes if c.missing_code is None]
        if args.kind == "linear":
            targets = [name for name in targets if scores_of(schema[name]) is not None]
        for epsilon in args.epsilon:
            tallies: dict[tuple[bool, str], list[Floats]] = defaultdict(list)
            for _ in range(args.releases):
                options = {"epsilon": epsilon, "delta": DELTA, "schema": schema}
                release = mg.Synthesizer(select=AllPairs(), model=Auto(), **options).fit(raw)
                for target in targets[: args.targets]:
                    add_up(tallies, release, fit(release, target, args.kind, schema, codes), codes)
            for (separated, rule), parts in tallies.items():
                held, hidden, errors, first = np.vstack(parts).T
                line = {"table": word, "epsilon": epsilon, "rule": rule, "separated": separated}
                line |= {"coefficients": len(held), "held": int(held.sum()), "hidden": int(hidden.sum())}
                line |= {"length": float(np.median(errors / first)), "error": float(np.median(errors))}
                print(json.dumps(line), flush=True)


def add_up(
    tallies: dict[tuple[bool, str], list[Floats]],
    release: mg.Synthesis,
    found: Coefficients,
    codes: Encoded,
) -> None:
    """Judge a regression by each rule: what holds the truth, what is hidden, and errors."""
    if not found.fit.sums.complete:
        return
    design = found.fit.design
    truth = find_truth(found, codes)
    finite = np.isfinite(truth)
    crossed = model_sums(design, release.model)[1]
    spread = float(np.ptp(design.labels)) or 1.0
    first = np.ones(design.size)
    for rule, held, hidden, errors in judge(found, crossed, np.nan_to_num(truth)):
        scaled = errors / spread
        first = np.maximum(scaled, 1e-12) if rule == "whole" else first
        tallies[not finite.all(), rule].append(np.column_stack([held, hidden, scaled, first])[finite])


if __name__ == "__main__":
    main()
