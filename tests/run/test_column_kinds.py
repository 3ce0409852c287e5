"""One column of each kind that real tables have, from raw table to rows, with no schema by hand."""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from margrave.files import write_table
from margrave.privacy.ledger import ledger as ledgers
from margrave.run.synthesizer import Synthesizer
from margrave.schema.columns import Identifier, Ordinal
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

ROWS = 4000
RNG = np.random.default_rng(8)
START = dt.datetime(2021, 3, 1)
MINUTES = RNG.integers(0, 60 * 24 * 200, ROWS) // 15 * 15
MOMENTS = [START + dt.timedelta(minutes=int(m)) for m in MINUTES]
AMOUNTS = np.where(RNG.random(ROWS) < 0.6, 0.0, np.exp(RNG.normal(7, 3, ROWS)).round(2))
CODES = [f"{n:05d}" for n in RNG.zipf(1.3, ROWS).clip(1, 3000)]


def holed(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Every eighth value is missing."""
    return pa.array([None if i % 8 == 3 else value for i, value in enumerate(values)], kind)


COLUMNS: dict[str, pa.Array] = {
    "date": holed([moment.date() for moment in MOMENTS], pa.date32()),
    "moment": holed(MOMENTS, pa.timestamp("us")),
    "zoned": holed([m.replace(tzinfo=dt.timezone.utc) for m in MOMENTS], pa.timestamp("ms", "Europe/Rome")),
    "time": holed([moment.time() for moment in MOMENTS], pa.time64("us")),
    "duration": holed([dt.timedelta(minutes=int(m) % 600) for m in MINUTES], pa.duration("us")),
    "amount": holed(AMOUNTS.tolist(), pa.float64()),
    "gaps": holed((RNG.choice([3, 17, 250, 9000], ROWS)).tolist(), pa.int64()),
    "code": holed(CODES, pa.string()),
    "flag": holed((RNG.random(ROWS) < 0.3).tolist(), pa.bool_()),
    "price": holed([Decimal(int(n)) / 4 for n in RNG.integers(0, 400, ROWS)], pa.decimal128(8, 2)),
}
Check = Callable[[list[Any], list[Any]], bool]


def _within(real: list[Any], made: list[Any]) -> bool:
    """Few synthetic values lie far outside the real ones: noisy bounds are wider than the data."""
    low, high = min(real), max(real)
    span = high - low
    return sum(low - span <= value <= high + span for value in made) == len(made)


def _quarters(real: list[Any], made: list[Any]) -> bool:
    on = [value.minute % 15 == 0 and value.second == 0 and value.microsecond == 0 for value in made]
    return _within(real, made) and sum(on) > 0.97 * len(on)


def _zeros(real: list[Any], made: list[Any]) -> bool:
    share = sum(value == 0 for value in made) / len(made)
    middle = np.median([value for value in made if value > 0])
    return 0.5 < share < 0.7 and min(made) >= 0 and 200 < middle < 5000


def _known(real: list[Any], made: list[Any]) -> bool:
    shaped = all(re.fullmatch(r"[0-9]{5}|\(other\)", value) for value in made)
    return shaped and sum(value in set(real) for value in made) > 0.9 * len(made) and len(set(made)) > 5


def _gaps(real: list[Any], made: list[Any]) -> bool:
    return _within(real, made) and 0.9 < sum(value < 500 for value in made) / (0.75 * len(made)) < 1.1


CHECKS: dict[str, Check] = {
    "date": _within,
    "moment": _quarters,
    "zoned": _quarters,
    "time": lambda real, made: sum(value.minute % 15 == 0 for value in made) > 0.97 * len(made),
    "duration": lambda real, made: (
        _within(real, made)
        and sum(value % dt.timedelta(minutes=15) == dt.timedelta(0) for value in made) > 0.95 * len(made)
    ),
    "amount": _zeros,
    "gaps": _gaps,
    "code": _known,
    "flag": lambda real, made: 0.2 < sum(made) / len(made) < 0.4,
    "price": lambda real, made: (
        _within(real, made)
        and sum(value * 4 % 1 == 0 for value in made) > 0.1 * len(made)
        and all(value * 100 % 1 == 0 for value in made)
    ),
}


@pytest.fixture(autouse=True)
def _same_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledgers, "SecureSource", lambda: SeededSource(5))


def made(data: Any, schema: Schema | None = None) -> Any:
    """Synthetic rows, as many as went in about."""
    synthesizer = Synthesizer("independent", epsilon=60.0, schema=schema, missing=("",))
    return synthesizer.fit(data).sample(ROWS, rng=1)


def present(column: Any) -> list[Any]:
    """Values that are not missing; at least one in twenty is missing."""
    values = column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    held = [value for value in values if value is not None and not pd.isna(value)]
    assert 0.05 < 1 - len(held) / len(values) < 0.2
    return held


@pytest.mark.parametrize("name", COLUMNS)
def test_arrow(name: str) -> None:
    table = made(pa.table({name: COLUMNS[name]}))
    assert table.schema.types == [COLUMNS[name].type]
    assert CHECKS[name](COLUMNS[name].drop_null().to_pylist(), present(table[name]))


@pytest.mark.parametrize("name", ["moment", "zoned", "duration", "amount", "gaps", "code", "flag"])
def test_pandas(name: str) -> None:
    frame = pd.DataFrame({name: COLUMNS[name].to_pandas()})
    if name == "flag":
        frame = frame.astype("boolean")
    table = made(frame)
    assert table.dtypes[name] == frame.dtypes[name]
    assert CHECKS[name](COLUMNS[name].drop_null().to_pylist(), present(table[name]))


@pytest.mark.parametrize("name", list(COLUMNS))
def test_polars(name: str) -> None:
    frame = pl.DataFrame({name: COLUMNS[name]})
    table = made(frame)
    assert table.schema == frame.schema
    assert CHECKS[name](COLUMNS[name].drop_null().to_pylist(), present(table[name]))


FORMS = {
    "date": r"\d{4}-\d\d-\d\d",
    "moment": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
    "zoned": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ",
    "time": r"\d\d:\d\d:\d\d",
}
TYPED = {
    "date": pa.date32(),
    "moment": pa.timestamp("s"),
    "zoned": pa.timestamp("s", "UTC"),
    "time": pa.time32("s"),
}


@pytest.mark.parametrize("name", ["date", "moment", "zoned", "time", "amount", "gaps", "price"])
def test_text_files(name: str, tmp_path: Path) -> None:
    raw = [None if value is None else _text(value) for value in COLUMNS[name].to_pylist()]
    path = tmp_path / "table.csv"
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["x", "y"], *([text, "k"] for text in raw)])
    table = made(path)
    values = [pa.array([value.as_py()])[0].as_py() for value in table["x"]]
    if name in TYPED:
        assert table.schema.field("x").type == TYPED[name]
    real = [value for value in COLUMNS[name].to_pylist() if value is not None]
    if name == "price":
        real = [float(value) for value in real]
        assert all(round(value, 2) == value for value in present(table["x"])[:500] if value % 1 == 0)
    else:
        assert CHECKS[name](real, present(pa.array(values)))
    write_table(table, tmp_path / "out.csv")
    with open(tmp_path / "out.csv", encoding="utf-8") as file:
        spelt = {row["x"] for row in csv.DictReader(file)}
    if name in FORMS:
        assert "" in spelt
        assert all(re.fullmatch(FORMS[name], text) for text in spelt if text)


def _text(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return (
            value.astimezone(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ") if value.tzinfo else str(value)
        )
    return str(value)


def test_texts_of_moments_in_typed_storage_keep_their_spelling() -> None:
    texts = holed([moment.isoformat() + "Z" for moment in MOMENTS], pa.large_string())
    table = made(pa.table({"x": texts}))
    assert table.schema.field("x").type == pa.large_string()
    back = [dt.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ") for text in present(table["x"])]
    assert _quarters(MOMENTS, back)
    digits = made(pa.table({"x": holed([str(n % 7) for n in range(ROWS)], pa.string())}))
    assert set(present(digits["x"])) <= {*"0123456", "(other)"}


def test_identifiers_are_new_keys_and_cost_nothing() -> None:
    data = pa.table({"id": [f"person {n}" for n in range(ROWS)], "flag": COLUMNS["flag"]})
    schema = Schema((Identifier(name="id", pattern="text", prefix="S", digits=6),))
    synthesis = Synthesizer("independent", epsilon=60.0, schema=schema).fit(data)
    table = synthesis.sample(50, rng=0)
    assert table["id"].to_pylist() == [f"S{n:06d}" for n in range(1, 51)]
    assert table.column_names == ["id", "flag"]
    assert not any("id" in event.what.split() for event in synthesis.release.events)


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_ordered_categories_are_ordered_if_declared(library: str) -> None:
    values = [None if n % 8 == 3 else ("low", "mid", "high")[n % 3] for n in range(ROWS)]
    order = ["unused", "low", "mid", "high"]
    data: Any = pd.DataFrame({"x": pd.Categorical(values, categories=order, ordered=True)})
    if library == "polars":
        data = pl.DataFrame({"x": pl.Series(values, dtype=pl.Enum(order))})
    if library == "arrow":
        kind = pa.dictionary(pa.int8(), pa.string(), ordered=True)
        data = pa.table({"x": pa.array(data["x"]).cast(kind)})
    declared = Schema((Ordinal(name="x", values=("low", "mid", "high"), missing=True),))
    table = made(data, declared)
    assert set(present(table["x"])) == {"low", "mid", "high"}
    if library == "pandas":
        assert table["x"].cat.ordered
        assert list(table["x"].cat.categories) == ["low", "mid", "high"]
    if library == "arrow":
        assert table.schema.field("x").type.ordered
    found = made(data)
    assert "unused" not in str(found["x"].cat.categories if library == "pandas" else found)


@pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_moments_that_are_all_dates_or_whole_minutes_come_back_as_such(seed: int) -> None:
    """Noise in the cells of finer steps is no share of the rows: days of pandas had times of day."""
    rng, rows, start = np.random.default_rng(7), 4000, pd.Timestamp("2021-03-01")
    some = rng.integers(0, 1440, rows) * rng.choice([0, 1], rows)
    frame = pd.DataFrame(
        {
            "seen": start + pd.to_timedelta(rng.integers(0, 900, rows), unit="D"),
            "sent": start + pd.to_timedelta(rng.integers(0, 10**6, rows), unit="min"),
            "mixed": start + pd.to_timedelta(rng.integers(0, 900, rows) * 1440 + some, unit="min"),
            "group": rng.integers(0, 5, rows),
        }
    )
    made = Synthesizer("independent", epsilon=1.0, not_private_test_seed=seed).fit(frame).sample(500, rng=1)
    assert (made["seen"].dt.floor("D") == made["seen"]).all()
    assert (made["sent"].dt.floor("min") == made["sent"]).all()
    assert 0.4 < (made["mixed"].dt.floor("D") != made["mixed"]).mean() < 0.6
