"""Classes of numbers, as age groups, that rows of a release keep to where nothing is declared.

    python bench/runs/classes.py [--rows 2000 8000 30000] [--epsilon 1 3] [--repeats 4] [--without]

A made-up table is released by `auto` with nothing declared, delta 1e-9: a year of birth with its age group,
a body-mass index with its class, an amount with a size that is told by a letter; and beside each of them the
class of what is near the number, and one that has nothing to do with it. A line a size and epsilon: the share
of the synthetic rows whose class is that of their number, mean of all releases; how many columns were taken
for classes that are none. With --without no classes are looked for. Tables are seeded; noise is not.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import margrave.tables.classes as found
from margrave import Synthesizer
from margrave.schema.constraints.rules import Within

CLASSES: dict[str, tuple[str, Sequence[float], Sequence[str]]] = {
    "age_group": (
        "born",
        (1960, 1970, 1980, 1990, 2000),
        ("65+", "55-64", "45-54", "35-44", "25-34", "18-24"),
    ),
    "weight": ("mass", (18.5, 25.0, 30.0), ("under", "normal", "over", "obese")),
    "size": ("amount", (50.0, 100.0, 500.0, 2_000.0), ("XS", "S", "M", "L", "XL")),
}
"""Columns of classes, the number that says them, where each but the first begins, and their names."""


def classify(numbers: NDArray[Any], name: str) -> NDArray[Any]:
    """The class of each number."""
    _, starts, names = CLASSES[name]
    return np.array(names)[np.searchsorted(starts, numbers, side="right")]


def make_table(rows: int, seed: int) -> pa.Table:
    """The table."""
    rng = np.random.default_rng(seed)
    numbers = {
        "born": rng.integers(1_935, 2_007, rows),
        "mass": np.round(rng.normal(26.0, 4.5, rows), 1),
        "amount": np.round(rng.lognormal(5.0, 1.2, rows), 2),
    }
    held: dict[str, Any] = dict(numbers)
    for name, (number, _, names) in CLASSES.items():
        held[name] = classify(numbers[number], name)
        near = numbers[number] + rng.normal(0.0, 0.4 * np.std(numbers[number]), rows)
        held[f"{name}_near"] = classify(near, name)
        held[f"{name}_apart"] = rng.choice(names, rows)
    return pa.table(held)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", nargs="*", type=int, default=[2_000, 8_000, 30_000])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--without", action="store_true", help="Look for no classes.")
    options = parser.parse_args()
    if options.without:
        found.add_classes = lambda schema, measurements, left_alone=(): schema
    print(f"| rows | epsilon | {' | '.join(CLASSES)} | false |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rows in options.rows:
        for epsilon in options.epsilon:
            shares = []
            for seed in range(options.repeats):
                synthesis = Synthesizer("auto", epsilon=epsilon, delta=1e-9).fit(make_table(rows, seed))
                made = synthesis.sample_arrow(10_000)
                rules = [rule for rule in synthesis.schema.rules if isinstance(rule, Within)]
                kept = [
                    float(
                        (classify(made[number].to_numpy(), name) == np.array(made[name].to_pylist())).mean()
                    )
                    for name, (number, _, _) in CLASSES.items()
                ]
                shares.append((*kept, sum(CLASSES.get(rule.by, ("",))[0] != rule.column for rule in rules)))
            mean = np.mean(shares, axis=0)
            shown = " | ".join(f"{share:.3f}" for share in mean[:-1])
            print(f"| {rows:,} | {epsilon:g} | {shown} | {mean[-1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
