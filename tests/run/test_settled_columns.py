"""What noise settles of a declared column ends no run: no row can be outside of it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.columns import Boolean, Categorical, Column, Date, Integer, Ordinal, Real
from seeded_noise import SeededSource

ROWS = 3_000
WEEK = ("mon", "tue", "wed")


def _table(missing: int = 0) -> pa.Table:
    rng = np.random.default_rng(0)
    gaps: list[Any] = [None] * missing

    def with_gaps(values: Any) -> list[Any]:
        return [*values.tolist(), *gaps]

    days = rng.integers(0, 4_000, ROWS)
    return pa.table(
        {
            "whole": pa.array(with_gaps(days), pa.int64()),
            "real": pa.array(with_gaps(rng.random(ROWS)), pa.float64()),
            "date": pa.array([*days.astype("datetime64[D]").tolist(), *gaps], pa.date32()),
            "day": pa.array(with_gaps(rng.choice(WEEK, ROWS)), pa.string()),
            "truth": pa.array(with_gaps(rng.random(ROWS) < 0.5), pa.bool_()),
        }
    )


OPEN: dict[str, Column] = {
    "whole numbers, rare bins merged": Integer(name="whole", lower=0, upper=4_918, bins=100, rare=0.002),
    "edges, rare bins merged": Integer(name="whole", edges=(0, 1_000, 2_000, 4_001), rare=0.002),
    "numbers, rare bins merged": Real(name="real", lower=0, upper=2, bins=20, rare=0.002),
    "dates, rare bins merged": Date(name="date", lower="1970-01-01", upper="1990-01-01", bins=30, rare=0.002),
    "bins": Integer(name="whole", lower=0, upper=4_918, bins=10),
    "bounds": Real(name="real", lower=0, upper=2),
    "a kind": Integer(name="whole"),
    "values": Categorical(name="day", values=WEEK),
    "values in order": Ordinal(name="day", values=WEEK),
    "truth values": Boolean(name="truth"),
}


@pytest.mark.parametrize("name", OPEN)
def test_a_missing_row_ends_no_run_that_did_not_declare_that_none_is(name: str) -> None:
    column = OPEN[name]
    found = []
    for missing in (0, 1):
        run = mg.Synthesizer("independent", epsilon=0.5, schema=mg.Schema((column,)), not_private_test_seed=3)
        found.append(run.fit(_table(missing).select([column.name])).release.events)
    assert [event.what for event in found[0]] == [event.what for event in found[1]]


@pytest.mark.parametrize("name", OPEN)
def test_a_column_of_which_anything_was_settled_is_not_strict(name: str) -> None:
    column = OPEN[name]
    source, _ = open_source(_table().select([column.name]))
    ledger = Ledger(
        epsilon=1.0,
        delta=1e-6,
        neighbours=Neighbours(),
        accountant=ZCDP(),
        partition_delta=Fraction(1, 4_000_000),
    )
    schema = Curator(source, ledger, SeededSource(1)).discover(mg.Schema((column,)), Fraction(1, 100))
    assert column.strict
    assert not schema[column.name].strict


def test_a_row_in_a_tail_that_noise_hides_ends_no_run() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 12, 20_000)
    declared = Integer(name="a", lower=0, upper=20, bins=21, rare=0.002, missing=False)
    for seed in range(3):
        for more in (0, 1):
            a = np.append(numbers, [20] * more)
            table = pa.table({"a": a, "b": [f"g{number // 3}" for number in a]})
            run = mg.Synthesizer(
                "independent", epsilon=1.0, schema=mg.Schema((declared,)), not_private_test_seed=seed
            )
            run.fit(table)
