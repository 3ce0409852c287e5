"""Looks between declared bounds: what is declared stays and costs nothing, the bins inside are found."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.files import write_table
from margrave.measure.curator import Curator
from margrave.measure.discovery.discover import needs, open_part
from margrave.measure.discovery.ranges import is_narrow
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.run.synthesizer import Synthesizer
from margrave.schema.columns import Binned, Boolean, Categorical, Column, Date, Integer, Moment, Real
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

ROWS = 20_000


def _rows(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 700, ROWS).astype("timedelta64[D]")
    return pd.DataFrame(
        {
            "age": np.clip(rng.normal(50, 18, ROWS).astype(int), 0, 110),
            "charge": np.round(np.exp(rng.normal(8, 1, ROWS)), 2),
            "year": rng.integers(1950, 2020, ROWS),
            "code": np.where(rng.random(ROWS) < 0.15, 999, rng.integers(0, 60, ROWS)),
            "seen": np.datetime64("2021-01-01") + days,
        }
    )


BOUNDS: tuple[Binned, ...] = (
    Integer(name="age", lower=0, upper=110, missing=False),
    Real(name="charge", lower=0, upper=500_000, missing=False),
    Integer(name="year", lower=0, upper=9999, missing=False),
    Integer(name="code", lower=0, upper=9999, missing=False),
    Moment(name="seen", lower="2021-01-01", upper="2022-12-31T23:59:59", missing=False),
)


def _discover(declared: Schema, rho: Fraction | None = None, seed: int = 1) -> tuple[Schema, Ledger]:
    source, _ = open_source(_rows())
    ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=ZCDP())
    curator = Curator(source, ledger, SeededSource(seed))
    return curator.discover(declared, ledger.total / 3 if rho is None else rho), ledger


def _quantile(column: Column, part: float) -> float:
    """A quantile of what a discovered column is drawn from."""
    assert isinstance(column, Binned)
    assert column.fine is not None
    running = np.cumsum(column.weights or ())
    return float(np.interp(part * running[-1], np.append(0.0, running), column.fine))


def test_bins_inside_declared_bounds_are_found() -> None:
    schema, ledger = _discover(Schema(BOUNDS))
    rows = _rows()
    assert not schema.open
    assert ledger.spent <= ledger.total / 3
    for declared in BOUNDS:
        column = schema[declared.name]
        assert isinstance(column, Binned)
        assert (column.lower, column.upper) == (declared.lower, declared.upper)
        assert column.provisional is False
    for name, near in (("age", 2.0), ("charge", 250.0), ("year", 3.0)):
        assert abs(_quantile(schema[name], 0.5) - float(rows[name].median())) < near
    assert _quantile(schema["age"], 0.99) > 82.0
    # The largest of a thousand rows are about as many as the noise, so that one draw of it may be far off.
    charge = Schema((next(column for column in BOUNDS if column.name == "charge"),))
    ends = [_quantile(_discover(charge, ledger.total / 15, seed)[0]["charge"], 0.999) for seed in range(5)]
    assert 30_000.0 < float(np.median(ends)) < 120_000.0
    assert not [event.what for event in ledger.events if event.what in ("bounds of age", "bounds of seen")]
    assert {"spread of age", "spread of seen", "bounds of charge"} <= {event.what for event in ledger.events}


def test_values_come_back_as_they_came() -> None:
    rows = _rows()
    release = Synthesizer("independent", epsilon=3.0, schema=Schema(BOUNDS)).fit(rows)
    made = release.sample(ROWS, rng=0)
    assert abs(float((made["code"] == 999).mean()) - float((rows["code"] == 999).mean())) < 0.02
    # A cell that noise does not tell from an empty one may have a row or two: 5 of 24 releases have.
    assert made["code"].between(990, 998).sum() <= 4
    assert float((np.round(made["charge"], 2) == made["charge"]).mean()) > 0.95
    assert (made["seen"].dt.normalize() == made["seen"]).mean() > 0.95
    assert made["charge"].between(0, 500_000).all()


def test_a_declared_number_of_bins_is_kept_and_costs_nothing() -> None:
    column = Integer(name="age", lower=0, upper=110, bins=5, missing=False)
    source, _ = open_source(_rows()[["age"]])
    ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=ZCDP())
    schema = Curator(source, ledger, SeededSource(1)).discover(Schema((column,)), ledger.total / 3)
    assert schema["age"] == column
    assert ledger.events == ()
    assert not column.open
    assert needs(column) == frozenset()


def test_without_rho_equal_bins_stand_in() -> None:
    schema, ledger = _discover(Schema(BOUNDS), Fraction(0))
    assert ledger.events == ()
    assert schema["age"].size == 32
    rows = _rows()[["age", "code"]]
    run = Synthesizer("independent", epsilon=1.0, discovery=0, schema=Schema((BOUNDS[0], BOUNDS[3])))
    assert "bins of equal width" in str(run.plan(rows))
    assert not [event for event in run.fit(rows).release.events if "detail" in event.what]
    with pytest.raises(InputError, match="above 0 when columns are not fully declared"):
        Synthesizer("independent", epsilon=1.0, discovery=0).fit(rows)


def test_the_plan_says_what_bounds_leave_open() -> None:
    run = Synthesizer("independent", epsilon=1.0, schema=Schema(BOUNDS))
    line = "age: where rows are between the bounds, bins, single values, round numbers, between the declared"
    assert line in str(run.plan(_rows()))
    assert "discover: 3" in str(run.plan(_rows()))


@pytest.mark.parametrize(
    ("column", "part"),
    [
        (Integer(name="a"), 1.0),
        (Integer(name="a", lower=0, upper=9, bins=3, missing=False), 0.0),
        (Integer(name="a", lower=0, upper=9, bins=3), 4 / 43),
        (Boolean(name="a"), 4 / 43),
        (Integer(name="a", lower=0, upper=99, missing=False), 1.0),
        (Date(name="a", edges=(0, 30, 60), rare=0.1, missing=False), (28 / 43) ** (2 / 3)),
    ],
)
def test_the_share_for_discovery_follows_what_is_open(column: Column, part: float) -> None:
    assert float(open_part([column], 1)) == pytest.approx(part, abs=1e-6)


def test_what_little_is_open_gets_more_than_in_proportion() -> None:
    known = Integer(name="b", lower=0, upper=9, bins=3, missing=False)
    assert float(open_part([Integer(name="a"), *[known] * 7], 8)) == pytest.approx(0.25, abs=1e-6)
    assert float(open_part([Boolean(name="c"), *[known] * 7], 8)) == pytest.approx(4 / 43 / 8)
    assert float(open_part([Integer(name="a"), Boolean(name="c")], 2)) < 1.0
    assert open_part([], 0) == 0


def test_bounds_close_together_need_no_look_at_powers_of_two() -> None:
    assert is_narrow(Integer(name="a", lower=0, upper=299))
    assert not is_narrow(Integer(name="a", lower=0, upper=300))
    assert not is_narrow(Integer(name="a", lower=0))
    assert not is_narrow(Integer(name="a", lower=0, upper=10, bins=5))
    assert not is_narrow(Real(name="a", lower=0, upper=1))
    assert is_narrow(Date(name="a", lower="2021-01-01", upper="2023-12-31"))
    assert not is_narrow(Date(name="a", lower="1900-01-01", upper="2023-12-31"))


@pytest.mark.parametrize("column", BOUNDS)
def test_bounds_without_bins_are_kept_by_files(column: Binned) -> None:
    entry: Any = Schema((column,)).to_json()["columns"][0]
    assert not {"edges", "bins", "provisional"} & set(entry)
    assert Schema.from_json(Schema((column,)).to_json()) == Schema((column,))
    with pytest.raises(InputError, match="made of"):
        Schema.from_json({"columns": [{**entry, "provisional": False}]})


def test_a_difference_is_kept_within_declared_bounds() -> None:
    rng = np.random.default_rng(0)
    charged = np.round(np.exp(rng.normal(8, 1, ROWS)), 2)
    paid = np.minimum(np.round(charged * rng.uniform(0.75, 0.9, ROWS), 2), 5000.0)
    table = pa.table({"charged": charged, "paid": paid})
    bounds = Real(name="paid", lower=0, upper=5000, missing=False)
    made = Synthesizer("independent", epsilon=5.0, schema=Schema((bounds,))).fit(table).sample(ROWS, rng=0)
    assert max(made["paid"].to_pylist()) <= 5000.0


def test_declared_truths_and_values_come_back_as_they_were_written(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truths = rng.random(ROWS) < 0.3
    frame = pd.DataFrame({"smoker": np.where(truths, "True", "False"), "sex": rng.choice(["F", "m"], ROWS)})
    frame.to_csv(tmp_path / "people.csv", index=False)
    schema = Schema(
        (
            Boolean(name="smoker", missing=False),
            Categorical(name="sex", values=("F", "m"), missing=False),
        )
    )
    release = Synthesizer("independent", epsilon=1.0, schema=schema).fit(tmp_path / "people.csv")
    assert [event.what for event in release.release.events if "profile" in event.what] == [
        "profile of smoker"
    ]
    assert release.release.schema["smoker"] == Boolean(
        name="smoker", missing=False, spelling="True", strict=False
    )
    write_table(release.sample_arrow(rng=0), tmp_path / "out.csv", "")
    made = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert set(made["smoker"]) == {"True", "False"}
    assert set(made["sex"]) == {"F", "m"}
    frame["smoker"] = truths
    silent = Synthesizer("independent", epsilon=1.0, schema=schema).fit(frame)
    assert not [event for event in silent.release.events if "profile" in event.what]
