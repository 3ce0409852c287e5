"""Lines between columns that discovery finds where nothing is declared: .19 * net, 2025 - level, a mean.

    python bench/runs/lines.py [--rows 2000 8000 30000] [--epsilon 1 3] [--repeats 3] [--seed 0]

A made-up table of ten lines and eight columns that have nothing to do with each other is released by
`independent` with nothing declared, delta 1e-9. A line a size and epsilon: how many of the ten lines each
release's schema holds in the mean, the share of synthetic rows on the ten lines (to the rounding of both
columns) with them and, as the same command says with --without, without the look; how many columns were coded
by a line that is none; and what the looks took of rho. The table is seeded; noise is not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave import Synthesizer
from margrave.measure.discovery.between import relations
from margrave.privacy.accounting.events import GaussianEvent
from margrave.schema.columns import Relative

Array = NDArray[np.float64]

LINES: dict[str, tuple[tuple[str, ...], Callable[..., Array], float]] = {
    "tax": (("net",), lambda net: net * 0.19, 0.01),
    "gross": (("amount",), lambda amount: amount * 1.0725, 0.01),
    "fahrenheit": (("celsius",), lambda celsius: celsius * 1.8 + 32, 0.1),
    "inches": (("centimetres",), lambda height: height / 2.54, 0.1),
    "miles": (("kilometres",), lambda way: way * 0.621371, 0.1),
    "born": (("age",), lambda age: 2023 - age, 1.0),
    "entered": (("level",), lambda level: 2025 - level, 1.0),
    "yearly": (("monthly",), lambda monthly: monthly * 12, 1.0),
    "attendance": (("absent",), lambda absent: 100 - absent / 1.8, 0.1),
    "mean": (("first", "second", "third"), lambda *marks: sum(marks) / 3, 0.1),
}
"""Columns that are a line of others: of which, how, and what they are rounded to."""
FINE = {"net": 0.01, "amount": 0.01, "celsius": 0.1, "kilometres": 0.1}
"""What the columns are rounded to that are no whole numbers and have a line."""


def make_table(rows: int, seed: int) -> pa.Table:
    """The ten lines, what they are lines of, and columns apart."""
    rng = np.random.default_rng(seed)
    held: dict[str, Any] = {
        "net": np.round(rng.lognormal(4.0, 0.8, rows), 2),
        "amount": np.round(rng.lognormal(6.0, 0.6, rows), 2),
        "celsius": np.round(rng.normal(11.0, 8.0, rows), 1),
        "centimetres": rng.normal(170.0, 10.0, rows).astype(np.int64),
        "kilometres": np.round(rng.lognormal(3.0, 1.0, rows), 1),
        "age": rng.integers(18, 95, rows),
        "level": rng.integers(1, 13, rows),
        "monthly": rng.integers(1_500, 9_000, rows),
        "absent": rng.negative_binomial(1, 0.1, rows),
        "first": rng.integers(0, 101, rows),
        "second": rng.integers(0, 101, rows),
        "third": rng.integers(0, 101, rows),
    }
    for name, (bases, make, unit) in LINES.items():
        found = np.round(np.round(make(*(held[base] for base in bases)) / unit) * unit, 2)
        held[name] = found.astype(np.int64) if unit == 1.0 else found
    # A mean is looked for among the columns that it stands beside.
    marks = ("first", "second", "third", "mean")
    held = {name: values for name, values in held.items() if name not in marks} | {n: held[n] for n in marks}
    apart = {
        "score": np.round(rng.normal(50.0, 9.0, rows), 1),
        "pulse": rng.normal(72.0, 12.0, rows).astype(np.int64),
        "items": rng.geometric(0.3, rows),
        "weight": np.round(rng.normal(80.0, 15.0, rows), 1),
        "price": np.round(rng.lognormal(3.0, 1.0, rows), 2),
        "floor": rng.integers(0, 12, rows),
        "year": rng.integers(1990, 2024, rows),
        "near": np.round(held["monthly"] * 0.3 + rng.normal(0.0, 60.0, rows)),
    }
    return pa.table(held | apart)


def share_on_lines(made: pa.Table) -> float:
    """Share of the rows on a line, to the rounding of both columns, mean of the ten lines."""
    rows = {name: np.asarray(made[name].to_pylist(), dtype=np.float64) for name in made.column_names}
    shares = []
    for name, (bases, make, unit) in LINES.items():
        values = [rows[base] for base in bases]
        # Half a unit of the column, and what half a unit of its base moves it by.
        step = abs(float(make(*(1.0 for _ in bases)) - make(*(0.0 for _ in bases))))
        fine = (
            0.01 if bases[0] in ("net", "amount") else 0.1 if bases[0] in ("celsius", "kilometres") else 0.0
        )
        slack = 0.5 * unit + 0.5 * step * fine + 1e-6
        shares.append(float((np.abs(rows[name] - make(*values)) <= slack).mean()))
    return float(np.mean(shares))


def true_pair(column: Relative) -> bool:
    """Whether a column and what it is coded by are one of the ten lines, either way round."""
    sets = [{name, *bases} for name, (bases, _, _) in LINES.items()]
    return {column.name, *column.bases} in sets


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", nargs="*", type=int, default=[2_000, 8_000, 30_000])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", action="store_true", help="Take no look at lines and means.")
    options = parser.parse_args()
    if options.without:
        relations.MOST_LINES = relations.MOST_SUM_SCANS = 0
        relations.find_means = lambda columns, fixed=(): []
    print("| rows | epsilon | lines found | rows on lines | false lines | of rho |")
    print("| --- | --- | --- | --- | --- | --- |")
    for rows in options.rows:
        table = make_table(rows, options.seed)
        for epsilon in options.epsilon:
            found = []
            for _ in range(options.repeats):
                synthesis = Synthesizer("independent", epsilon=epsilon, delta=1e-9).fit(table)
                coded = [c for c in synthesis.schema.columns if isinstance(c, Relative)]
                lines = [c for c in coded if c.comparison.is_line]
                true = sum(map(true_pair, lines))
                gaussian = [e for e in synthesis.release.events if isinstance(e, GaussianEvent)]
                looks = [e for e in gaussian if e.what.startswith(("lines", "constants"))]
                spent = [float(e.l2_squared / e.sigma_squared) for e in (*looks, *gaussian)]
                made = synthesis.sample_arrow(10_000)
                part = sum(spent[: len(looks)]) / sum(spent[len(looks) :])
                found.append((true, share_on_lines(made), len(lines) - true, part))
            mean = np.mean(found, axis=0)
            cells = f"{mean[0]:.1f} | {mean[1]:.3f} | {mean[2]:.1f} | {mean[3]:.2%}"
            print(f"| {rows:,} | {epsilon:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
