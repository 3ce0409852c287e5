"""A mixed table made up for metrics: numbers with gaps, listed values, a class to predict."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from margrave.evaluation.rows import Rows
from margrave.schema.columns import Boolean, Categorical, Integer, Real
from margrave.schema.schema import Schema

SCHEMA = Schema(
    (
        Integer(name="age", lower=0, upper=99, bins=10, missing=True),
        Real(name="pay", lower=0.0, upper=400.0, bins=8, missing=False),
        Real(name="tax", lower=-20.0, upper=200.0, bins=8, missing=False),
        Categorical(name="job", values=("baker", "cook", "judge", "smith"), other="rest", missing=True),
        Categorical(name="town", values=("north", "south", "west"), missing=False),
        Boolean(name="rich", missing=False),
    )
)


def people(rows: int, seed: int, noise: float = 0.3) -> pa.Table:
    """Rows in which all columns hang on a hidden one, the less the greater the noise."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(rows)

    def near() -> np.ndarray:
        lost = rng.random(rows) < noise
        return np.where(lost, rng.random(rows), hidden)

    age = pa.array(np.floor(20 + 60 * near()).astype(np.int64), mask=rng.random(rows) < 0.1)
    pay = 50 + 300 * near() ** 2
    jobs = np.array(["baker", "cook", "judge", "smith", "diver"])[np.floor(5 * near()).astype(int)]
    towns = np.array(["north", "south", "west"])[np.floor(3 * near()).astype(int)]
    return pa.table(
        {
            "age": age,
            "pay": pay,
            "tax": 0.3 * pay + rng.normal(0, 5, rows),
            "job": pa.array(jobs, mask=rng.random(rows) < 0.05),
            "town": towns,
            "rich": near() > 0.6,
        }
    )


def rows_of(table: pa.Table) -> Rows:
    return Rows.of(table, SCHEMA)


def made(rows: int, seed: int, noise: float = 0.3) -> Rows:
    return rows_of(people(rows, seed, noise))
