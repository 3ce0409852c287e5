"""Which rule should say that a release determines a coefficient: coverage against needless refusals.

    python bench/runs/determined.py --tables choosing/survey-b choosing/real-marriages [--epsilon 0.3 1 3]
        [--targets 3]

For each table of the choosing half of the nursery (docs/nursery.md) and each epsilon `auto` makes one release
(delta 1e-6). Each of the first columns that have numbers is regressed on all others by least squares, of the
table itself, whose truth is the fit on its rows. A line a rule: how many coefficients are called determined,
how many of the 95 % intervals of these hold the truth, how many of those that were refused would have, and
the median standard error of all in ranges of the target:

    clear C leak L    directions of X'X within C standard deviations of their noise are left out of the step,
                      and coefficients with more than L of their square along them are refused
    ... wide          the same, with the step's second-order error added to the variance
    ... bounded       the same, with the step in that error bounded by what a coefficient can be wrong by

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
from margrave.regression import Coefficients, linear
from margrave.regression.design import Design
from margrave.regression.inference import Directions, find_directions, find_reach, second_order, solve_strong
from margrave.regression.sums import MeasuredSums, model_sums
from margrave.schema.encode import encode
from margrave.schema.encoded import Encoded
from margrave.select.all_pairs import AllPairs
from margrave.tables.estimates import scores_of

Floats = NDArray[np.float64]
DELTA = 1e-6
CLEARS, LEAKS = (-np.inf, 1.0, 2.0, 4.0), (0.01, 0.1)


def find_truth(found: Coefficients, codes: Encoded) -> Floats:
    """Least squares of the rows, in the centred design, shape [p]."""
    design = found.fit.design
    held, labels = design.codes(codes)
    parts = [matrix[:, own].T for matrix, own in zip(design.matrices, held, strict=True)]
    numbers = np.hstack([np.ones((len(labels), 1)), *parts])
    return np.asarray(np.linalg.lstsq(numbers, labels + design.middle, rcond=1e-10)[0])


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
    design, sums = found.fit.design, found.fit.sums
    theta = np.linalg.solve(design.to_raw, found.estimates)
    wanted = design.to_raw @ truth
    gamma = theta.copy()
    gamma[0] -= design.middle
    residual, noise = sums.residual(gamma)

    def intervals(inverse: Floats, extra: Floats | float = 0.0) -> tuple[NDArray[np.bool_], Floats, Floats]:
        step = inverse @ residual
        spread = inverse @ noise @ inverse
        errors = np.sqrt(np.maximum(np.diag(design.to_raw @ (spread + extra) @ design.to_raw.T), 0.0))
        return np.abs(design.to_raw @ (theta + step) - wanted) <= 1.96 * errors, step, errors

    for clear in CLEARS:
        directions = split(design, crossed, sums, clear)
        inverse = solve_strong(crossed, directions)
        covered, step, narrow = intervals(inverse)
        far = np.full(design.size, np.inf)
        reach = find_reach(design, found.fit.family)
        wider, _, wide = intervals(inverse, inverse @ second_order(step, far, 1.0, sums) @ inverse)
        held, _, bounded = intervals(inverse, inverse @ second_order(step, reach, 1.0, sums) @ inverse)
        for leak in LEAKS:
            rows = design.to_raw * directions.scale
            leaning = ((rows / np.linalg.norm(rows, axis=1, keepdims=True)) @ directions.weak) ** 2
            name, known = f"clear {max(clear, 0.0):g} leak {leak:g}", leaning.sum(axis=1) <= leak
            yield name, known, covered, narrow
            yield f"{name} wide", known, wider, wide
            yield f"{name} bounded", known, held, bounded


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", required=True)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.3, 1.0, 3.0])
    parser.add_argument("--targets", type=int, default=3)
    args = parser.parse_args()
    for word in args.tables:
        entry = find_nursery_table(word)
        raw = entry.load()
        schema = read_schema(raw, 32, entry.cut)
        codes = encode(raw, schema)
        targets = [c.name for c in schema.attributes if scores_of(c) is not None and c.missing_code is None]
        for epsilon in args.epsilon:
            options = {"epsilon": epsilon, "delta": DELTA, "schema": schema}
            release = mg.Synthesizer(select=AllPairs(), model=Auto(), **options).fit(raw)
            tallies: dict[str, list[NDArray[np.bool_]]] = defaultdict(list)
            for target in targets[: args.targets]:
                found = linear(release, target, source="model", of="table")
                if not found.fit.sums.complete:
                    continue
                crossed = model_sums(found.fit.design, release.model)[1]
                reach = float(np.ptp(found.fit.design.labels)) or 1.0
                for rule, known, covered, errors in judge(found, crossed, find_truth(found, codes)):
                    tallies[rule].append(np.column_stack([known, covered, errors / reach]))
            for rule, parts in tallies.items():
                whole = np.vstack(parts)
                known, covered = whole[:, :2].T.astype(bool)
                line = {"table": word, "epsilon": epsilon, "rule": rule, "coefficients": len(known)}
                line |= {"determined": int(known.sum()), "held": int(covered[known].sum())}
                line |= {"refused_held": int(covered[~known].sum()), "error": float(np.median(whole[:, 2]))}
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
