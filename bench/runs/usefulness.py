"""The verdict on twenty releases, ten good and ten useless, beside what a comparison with the real rows says.

    python bench/runs/usefulness.py                    # all twenty, as the table of docs/usefulness.md
    python bench/runs/usefulness.py adult keys         # some of them

Adult, the made-up hospital and the choosing half of the nursery stand for good releases. The useless ones are
what goes wrong in a first hour: too few rows, too many columns, keys, text, units in the cells, declarations
that do not fit, an epsilon or a cap that leaves nothing. **Not private**: it shows errors.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import margrave as mg
from margrave.benchmark.nursery import find_nursery_table
from margrave.run.synthesis import Synthesis

PATIENTS = mg.Unit("patient", max_rows=4)
ROWS = 8000
COMPARED = 60
"""Columns that are compared with the real ones, the first of them."""


@dataclass(frozen=True)
class Case:
    """A release to be judged.

    Args:
        good: Whether it is one of the good ones.
        epsilon: What is spent.
        table: Makes the real table.
        options: Of the synthesizer.
        method: Of the synthesizer.
    """

    good: bool
    epsilon: float
    table: Callable[[], pa.Table]
    options: Callable[[], dict[str, Any]] = dict
    method: str = "auto"

    def fit(self) -> tuple[Synthesis, pa.Table]:
        """The release, and the real table without the column of owners."""
        table, options = self.table(), self.options()
        synthesis = mg.Synthesizer(self.method, epsilon=self.epsilon, **options).fit(table)
        owner = getattr(options.get("unit"), "owner", None)
        return synthesis, table if owner is None else table.drop_columns([owner])


def draw_keys() -> pa.Table:
    """Three columns of keys, hardly one of them twice."""
    rng = np.random.default_rng(1)
    names = ("id", "session", "device")
    return pa.table(
        {name: [f"{name}-{key:010x}" for key in rng.integers(0, 1 << 40, 5000)] for name in names}
    )


def draw_wide() -> pa.Table:
    """1,200 questions put to 500 people."""
    rng = np.random.default_rng(2)
    return pa.table({f"q{place}": rng.choice(["a", "b", "c"], 500) for place in range(1200)})


def draw_units() -> pa.Table:
    """Measurements with their units in the cells, which are not the same in all rows."""
    rng = np.random.default_rng(3)
    units = {"length": ["cm", "in"], "width": ["cm", "in"], "weight": ["kg", "lb"], "height": ["m", "ft"]}
    return pa.table(
        {
            name: [
                f"{size:.3f} {unit}"
                for size, unit in zip(rng.normal(100, 30, ROWS), rng.choice(two, ROWS), strict=True)
            ]
            for name, two in units.items()
        }
    )


def draw_notes() -> pa.Table:
    """Free text."""
    rng = np.random.default_rng(4)
    words = [
        "pain",
        "left",
        "arm",
        "since",
        "monday",
        "no",
        "fever",
        "took",
        "aspirin",
        "cough",
        "night",
        "worse",
    ]
    return pa.table(
        {name: [" ".join(rng.choice(words, 9)) for _ in range(ROWS)] for name in ("note", "reply")}
    )


def draw_answers() -> pa.Table:
    """Three columns of few values."""
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "sex": rng.choice(["male", "female"], ROWS),
            "size": rng.choice(["small", "medium", "large"], ROWS),
            "answer": rng.choice(["yes", "no"], ROWS),
        }
    )


def declare_other_spellings() -> dict[str, Any]:
    """A schema that spells the answers otherwise than the table."""
    spelt = {"sex": ("M", "F"), "size": ("S", "M", "L"), "answer": ("Y", "N")}
    columns = tuple(mg.Categorical(name=name, values=values, missing=False) for name, values in spelt.items())
    return {"schema": mg.Schema(columns), "outside": "absorb"}


def draw_months() -> pa.Table:
    """An age in months, pay in a year, hours in a year."""
    rng = np.random.default_rng(6)
    ends = {"age": (200, 1100), "pay": (20_000, 90_000), "hours": (1000, 2400)}
    return pa.table({name: rng.integers(*pair, ROWS) for name, pair in ends.items()})


def declare_other_units() -> dict[str, Any]:
    """Bounds for years, months and weeks."""
    ends = {"age": 110, "pay": 5000, "hours": 100}
    columns = tuple(mg.Integer(name=name, lower=0, upper=end, missing=False) for name, end in ends.items())
    return {"schema": mg.Schema(columns), "outside": "absorb"}


def nursery(name: str, epsilon: float) -> Case:
    """A table of the choosing half."""
    entry = find_nursery_table(f"choosing/{name}")
    unit = mg.Unit(entry.owner, entry.max_rows) if entry.owner else None
    return Case(True, epsilon, entry.load, lambda: {"unit": unit})


def hospital(rows: int, epsilon: float, unit: mg.Unit | None, good: bool = False) -> Case:
    """The made-up hospital."""
    return Case(good, epsilon, lambda: mg.datasets.make_hospital(rows), lambda: {"unit": unit})


CASES: dict[str, Case] = {
    "hospital": hospital(30_000, 1.0, PATIENTS, good=True),
    "adult": Case(True, 1.0, mg.datasets.load_adult),
    "survey-a": nursery("survey-a", 1.0),
    "structural-a": nursery("structural-a", 1.0),
    "meters-a": nursery("meters-a", 1.0),
    "regions-a": nursery("regions-a", 2.0),
    "gaps-a": nursery("gaps-a", 2.0),
    "stays-a": nursery("stays-a", 3.0),
    "visits-a": nursery("visits-a", 3.0),
    "survey-b": nursery("survey-b", 5.0),
    "forty rows": hospital(40, 1.0, None),
    "few patients": hospital(300, 1.0, PATIENTS),
    "tiny epsilon": hospital(5000, 0.01, PATIENTS),
    "huge cap": hospital(5000, 1.0, mg.Unit("patient", max_rows=500)),
    # With 719,400 pairs a run takes far longer than a test may.
    "1,200 columns": Case(False, 0.5, draw_wide, method="independent"),
    "keys": Case(False, 1.0, draw_keys),
    "free text": Case(False, 1.0, draw_notes),
    "units in cells": Case(False, 1.0, draw_units),
    "other spellings": Case(False, 1.0, draw_answers, declare_other_spellings),
    "other units": Case(False, 1.0, draw_months, declare_other_units),
}


def describe_case(name: str) -> str:
    """A line of the table: the verdict, what it rests on, and the error that only the real rows show."""
    synthesis, real = CASES[name].fit()
    use = synthesis.usefulness()
    rows = synthesis.sample_arrow(max(synthesis.rows, 100), rng=0)
    names = real.column_names[:COMPARED]
    found = mg.evaluate(real.select(names), rows.select(names))
    scores = {score.name: score.value for score in found.scores}
    kept = len(use.found) - len(use.lost)
    cells = (
        name,
        f"{real.num_rows:,} x {real.num_columns:,}",
        f"{CASES[name].epsilon:g}",
        use.word,
        f"{len(use.usable):,} of {len(use.columns):,}",
        f"{kept} of {len(use.found)}",
        f"{scores['tv_1_mean']:.3f}",
        f"{scores['tv_2_mean']:.3f}" if "tv_2_mean" in scores else "–",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    print("| release | rows x columns | epsilon | verdict | columns | pairs kept | tv, columns | tv, pairs |")
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:] or CASES:
        print(describe_case(name), flush=True)


if __name__ == "__main__":
    main()
