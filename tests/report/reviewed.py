"""A review of three synthetic tables that are good, middling and bad, with every part a page can have."""

from __future__ import annotations

import functools
from unittest import mock

import numpy as np
import pyarrow as pa

import margrave as mg
from margrave.evaluation.review import Review
from margrave.schema.columns import Boolean, Categorical, Integer, Real
from margrave.schema.constraints.rules import Ordered, Within
from margrave.schema.schema import Schema

ROWS = 600
SCHEMA = Schema(
    (
        Integer(name="age", lower=0, upper=99, bins=12, missing=True),
        Real(name="pay", lower=0.0, upper=400.0, bins=10, missing=False),
        Real(name="tax", lower=-20.0, upper=200.0, bins=8, missing=False),
        Categorical(name="job <&>", values=("baker", "cook", "judge", "smith"), other="rest", missing=True),
        Boolean(name="rich", missing=False),
    ),
    rules=(Ordered("tax", "pay"), Within("pay", "job <&>", {"baker": (None, 300)})),
)


def made(seed: int, noise: float, rows: int = ROWS) -> pa.Table:
    """Rows whose columns hang on a hidden one, the less the greater the noise; one pay is moved by it."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(rows)

    def near() -> np.ndarray:
        return np.where(rng.random(rows) < noise, rng.random(rows), hidden)

    pay = 60 + 280 * near() ** (2 + noise)
    jobs = np.array(["baker", "cook", "judge", "smith", "diver"])[np.floor(5 * near()).astype(int)]
    return pa.table(
        {
            "age": pa.array(np.floor(20 + 60 * near()).astype(np.int64), mask=rng.random(rows) < 0.1),
            "pay": pay,
            "tax": 0.3 * near() * 200 + rng.normal(0, 5, rows),
            "job <&>": pa.array(jobs, mask=rng.random(rows) < 0.05),
            "rich": near() > 0.6,
        }
    )


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {
        name: table.column(name).take(pa.array(rng.permutation(len(table)))) for name in table.column_names
    }
    return pa.table(columns)


@functools.cache
def review() -> Review:
    real = made(0, 0.2)
    tables = {"good": made(7, 0.2), "middling <i>": made(2, 0.5), "bad": shuffled(made(3, 0.2), 4)}
    with mock.patch("margrave.evaluation.metrics.pictures.PLOTTED_ROWS", 60):
        return mg.review(real, tables, schema=SCHEMA, target="rich", test=made(5, 0.2, 300))
