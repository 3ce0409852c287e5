"""Which rule should say that a release determines a coefficient: coverage against needless refusals.

    python bench/runs/determined.py --tables choosing/survey-b choosing/real-marriages [--epsilon 0.3 1 3]
        [--targets 3] [--kind linear]

For each table of the choosing half of the nursery (docs/nursery.md) and each epsilon `auto` makes one release
(delta 1e-6). Each of the first columns that have numbers is regressed on all others by least squares, or,
with --kind logistic, the commonest level of each of the first columns; of the table itself, whose truth is
the fit on its rows. Coefficients that are not finite there are not counted. A line a rule: how many
coefficients are called determined, how many of the 95 % intervals of these hold the truth, how many of those
that were refused would have, and the median standard error of all in ranges of the target:

    clear C leak L    directions of X'X within C standard deviations of their noise are left out of the step,
                      and coefficients with more than L of their square along them are refused
    ... wide          the same, with the step's second-order error added to the variance
    ... bounded F     the same, with the step in that error bounded by F times what a coefficient can be wrong
                      by as `find_reach` has it

Clear 0 leaves out exact dependence alone.

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
from margrave.regression.design import Design
from margrave.regression.inference import Directions, find_directions, find_reach, second_order, solve_strong
from margrave.regression.likelihood import curvature_at, score_at
from margrave.regression.sums import MeasuredSums, model_sums
from margrave.schema.encode import encode
from margrave.schema.encoded import Encoded
from margrave.select.all_pairs import AllPairs
from margrave.tables.estimates import labels_of
from margrave.tables.numbers import scores_of

Floats = NDArray[np.float64]
DELTA = 1e-6
CLEARS, LEAKS = (-np.inf, 1.0, 2.0, 4.0), (0.01, 0.1)
FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Bounds that are compared, times that of `find_reach`."""
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


def split(design: Design, crossed: Floats, sums: MeasuredSums, clear: float) -> Directions:
    """Directions along which X'X of model and tables is more than `clear` deviations of the tables' noise."""
    exact = find_directions(design, crossed, sums)
    inner = exact.strong.T @ (crossed * np.outer(exact.scale, exact.scale)) @ exact.strong
    values, turned = np.linalg.eigh(inner)
    vectors = exact.strong @ turned
    measured, errors = sums.quadratic(exact.scale[:, None] * vectors)
    weak = np.minimum(values, measured) <= clear * errors
    return Directions(exact.scale, vectors[:, ~weak], np.hstack([exact.weak, vectors[:, weak]]))


def judge(
    found: Coefficients, crossed: Floats, truth: Floats
) -> Iterator[tuple[str, NDArray[np.bool_], NDArray[np.bool_], Floats]]:
    """For each rule: its name, what it calls determined, which intervals hold the truth, standard errors."""
    design, sums, rows, family = found.fit.design, found.fit.sums, found.fit.rows, found.fit.family
    theta = np.linalg.solve(design.to_raw, found.estimates)
    wanted = design.to_raw @ truth
    line = score_at(theta, design, rows, family)
    hessian = line.beta * crossed + curvature_at(theta, line, design, rows, family)
    residual, noise = sums.residual(line.gamma)
    residual = residual - line.remainder

    def intervals(inverse: Floats, extra: Floats | float = 0.0) -> tuple[NDArray[np.bool_], Floats, Floats]:
        step = inverse @ residual
        spread = inverse @ noise @ inverse
        errors = np.sqrt(np.maximum(np.diag(design.to_raw @ (spread + extra) @ design.to_raw.T), 0.0))
        return np.abs(design.to_raw @ (theta + step) - wanted) <= 1.96 * errors, step, errors

    def widened(inverse: Floats, step: Floats, reach: Floats) -> tuple[NDArray[np.bool_], Floats]:
        covered, _, errors = intervals(
            inverse, inverse @ second_order(step, reach, line.beta, sums) @ inverse
        )
        return covered, errors

    for clear in CLEARS:
        directions = split(design, crossed, sums, clear)
        inverse = solve_strong(hessian, directions)
        covered, step, narrow = intervals(inverse)
        reach = find_reach(design, family)
        bounds = {" wide": np.full(design.size, np.inf)} | {f" bounded {f:g}": f * reach for f in FACTORS}
        beyond = {name: widened(inverse, step, bound) for name, bound in bounds.items()}
        for leak in LEAKS:
            scaled = design.to_raw * directions.scale
            leaning = ((scaled / np.linalg.norm(scaled, axis=1, keepdims=True)) @ directions.weak) ** 2
            name, known = f"clear {max(clear, 0.0):g} leak {leak:g}", leaning.sum(axis=1) <= leak
            yield name, known, covered, narrow
            for rule, (held, errors) in beyond.items():
                yield f"{name}{rule}", known, held, errors


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
            options = {"epsilon": epsilon, "delta": DELTA, "schema": schema}
            release = mg.Synthesizer(select=AllPairs(), model=Auto(), **options).fit(raw)
            tallies: dict[str, list[NDArray[np.bool_]]] = defaultdict(list)
            for target in targets[: args.targets]:
                found = fit(release, target, args.kind, schema, codes)
                if not found.fit.sums.complete:
                    continue
                crossed = model_sums(found.fit.design, release.model)[1]
                reach = float(np.ptp(found.fit.design.labels)) or 1.0
                truth = find_truth(found, codes)
                finite = np.isfinite(found.fit.design.to_raw @ np.nan_to_num(truth)) & np.isfinite(truth)
                for rule, known, covered, errors in judge(found, crossed, np.nan_to_num(truth)):
                    tallies[rule].append(np.column_stack([known, covered, errors / reach])[finite])
            for rule, parts in tallies.items():
                whole = np.vstack(parts)
                known, covered = whole[:, :2].T.astype(bool)
                line = {"table": word, "epsilon": epsilon, "rule": rule, "coefficients": len(known)}
                line |= {"determined": int(known.sum()), "held": int(covered[known].sum())}
                line |= {"refused_held": int(covered[~known].sum()), "error": float(np.median(whole[:, 2]))}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
