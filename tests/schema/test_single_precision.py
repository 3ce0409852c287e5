"""Numbers of half and single precision, which stand for decimals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pytest

from margrave import Schema, Synthesizer
from margrave.engines.memory import open_source
from margrave.files import write_table
from margrave.schema.columns import Categorical, Real
from margrave.schema.encode import encode
from margrave.schema.storage.forms import MOST_PLACES, normal, read_narrow

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("places", range(MOST_PLACES + 1))
def test_decimals_are_read_as_such(places: int) -> None:
    decimals = np.round(RNG.uniform(-100, 100, 5000), places)
    if places > 4:
        decimals /= 10  # single precision has seven digits
        decimals = np.round(decimals, places)
    assert np.array_equal(read_narrow(decimals.astype(np.float32)), decimals)


def test_what_is_no_short_decimal_stays() -> None:
    singles = np.array([1 / 3, 1e-9, 2**23 - 0.5, 123_456_789.0, 3.4e38, -0.0, np.inf, np.nan], np.float32)
    read = read_narrow(singles)
    assert np.array_equal(read.astype(np.float32), singles, equal_nan=True)
    exact = singles.astype(np.float64)
    assert np.array_equal(read, exact, equal_nan=True)


def test_every_single_is_read_as_itself() -> None:
    """The type that a number is stored in gets it back unchanged."""
    singles = RNG.integers(0, 2**32, 100_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    singles = singles[np.isfinite(singles)]
    assert np.array_equal(read_narrow(singles).astype(np.float32), singles)
    halves = np.arange(2**16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    halves = halves[np.isfinite(halves)]
    assert np.array_equal(read_narrow(halves).astype(np.float16), halves)


def test_declared_values_and_bounds_hold_of_decimals() -> None:
    table = pa.table({"dose": pa.array([0.1, 0.5, 0.1], pa.float32()), "temp": [36.6, 36.7, 36.5]})
    table = table.set_column(1, "temp", table["temp"].cast(pa.float32()))
    columns = (
        Categorical(name="dose", values=(0.1, 0.5), missing=False),
        Real(name="temp", edges=(36.5, 36.6, 36.7), missing=False),
    )
    codes = encode(table, Schema(columns))
    assert codes.column("dose").tolist() == [0, 1, 0]
    assert codes.column("temp").tolist() == [1, 1, 0]


@pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
@pytest.mark.parametrize("kind", ["arrow", "pandas"])
def test_tenths_come_back_as_tenths(kind: str, tmp_path: Path) -> None:
    tenths = (360 + RNG.poisson(8, 4000)) / 10
    table = pa.table({"temp": pa.array(tenths, pa.float32()), "group": RNG.integers(0, 3, 4000)})
    data = table if kind == "arrow" else table.to_pandas()
    made = Synthesizer("independent", epsilon=2.0, not_private_test_seed=1).fit(data).sample(500)
    drawn = made["temp"].to_numpy()
    assert drawn.dtype == np.float32
    assert np.array_equal(drawn, (np.rint(drawn.astype(np.float64) * 10) / 10).astype(np.float32))
    if isinstance(made, pd.DataFrame):
        made = pa.Table.from_pandas(made)
    write_table(made, tmp_path / "rows.csv")
    assert all(len(str(text)) <= 4 for text in pc.read_csv(tmp_path / "rows.csv")["temp"].to_pylist())


@pytest.mark.needs_extra("ibis")
@pytest.mark.filterwarnings("ignore")
def test_backends_read_the_same() -> None:
    import ibis

    from margrave.engines.ibis.expressions import store_column

    wide = RNG.integers(0, 2**32, 20_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    odd = np.array([2_097_152.25, 0.05, -0.25, -2.5, -0.0, np.nan, np.inf, 3.4e38, 1e-45], np.float32)
    short = [np.round(RNG.normal(0, 300, 3000), places).astype(np.float32) for places in range(7)]
    numbers = pa.array(np.concatenate([wide, odd, *short]))
    table = pa.table({"row": np.arange(len(numbers)), "x": numbers})
    held = ibis.duckdb.connect().create_table("held", table)
    value = store_column(held, "x", pa.float32(), "duckdb", False).value
    read = held.select(row=held.row, value=value).order_by("row").to_pyarrow()["value"]
    assert read.combine_chunks().equals(normal(numbers, "x"))
    assert open_source(table)[0].kinds("x").reveal().sum() == len(numbers)
