"""Discovery: kinds, bounds, categories and missing values, within its share and without leaks."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError, SchemaError
from margrave.measure.curator import Curator
from margrave.measure.discovery.discover import searches_values
from margrave.measure.mechanisms.partition import OTHER, threshold
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import GaussianEvent, PartitionEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit
from margrave.run.synthesizer import Synthesizer
from margrave.schema.columns import Categorical, Integer, Listed, Real, Time
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

ROWS = 20_000


def _csv(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(17, 91, ROWS),
            "gain": np.where(rng.random(ROWS) < 0.9, 0, rng.integers(1000, 50_000, ROWS)),
            "height": rng.normal(1.7, 0.1, ROWS).round(3),
            "city": rng.choice(["Aachen", "Bonn", "Celle"], ROWS, p=[0.6, 0.3, 0.1]),
            "note": "",
        }
    )
    frame.loc[0, "city"] = "Canaryville"
    frame.loc[: ROWS // 5, "note"] = "seen"
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    return path


def _discover(
    path: object, declared: Schema | None = None, epsilon: float = 1.0, seed: int = 1
) -> tuple[Schema, Ledger, Curator]:
    source, _ = open_source(path)
    ledger = Ledger(
        epsilon=epsilon,
        delta=1e-6,
        neighbours=Neighbours(),
        accountant=ZCDP(),
        partition_delta=Fraction(1, 4_000_000),
    )
    curator = Curator(source, ledger, SeededSource(seed))
    schema = curator.discover(declared, ledger.total / 4)
    return schema, ledger, curator


def test_kinds_bounds_and_values_are_found(tmp_path: Path) -> None:
    schema, ledger, curator = _discover(_csv(tmp_path))
    age, height, city = schema["age"], schema["height"], schema["city"]
    assert isinstance(age, Integer)
    assert age.edges is not None
    assert 10 <= age.edges[0] <= 20
    assert 84 <= age.edges[-1] <= 100
    assert isinstance(schema["gain"], Integer)
    assert {0, 1} <= set(schema["gain"].edges or ())
    assert isinstance(height, Real)
    assert isinstance(city, Categorical)
    assert set(city.values or ()) == {"Aachen", "Bonn", "Celle"}
    assert city.other == OTHER
    assert schema["note"].missing is True
    assert not age.missing
    assert not city.missing
    assert ledger.spent <= ledger.total / 4
    assert {m.clique[0] for m in curator.measurements} == set(schema.names)


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 40), marks=pytest.mark.slow)])
def test_a_value_of_one_row_is_never_released(seeds: range, tmp_path: Path) -> None:
    path = _csv(tmp_path)
    for seed in seeds:
        schema, _, _ = _discover(path, seed=seed)
        assert "Canaryville" not in repr(schema)


def test_the_first_marginals_are_unbiased_measurements(tmp_path: Path) -> None:
    _, _, curator = _discover(_csv(tmp_path))
    by_name = {m.clique[0]: m for m in curator.measurements}
    city = by_name["city"]
    truth = np.array([0.6, 0.3, 0.1, 0.0]) * ROWS
    assert (np.abs(city.values - truth) < 6 * city.sigmas + 400).all()
    for marginal in curator.measurements:
        spread = math.sqrt(float((marginal.sigmas**2).sum()))
        assert abs(marginal.values.sum() - ROWS) < 6 * spread


def test_a_kind_that_dates_cannot_be_read_as_is_refused_before_anything_is_spent() -> None:
    moments = pa.array([0, 86_400_000_000], pa.timestamp("us"))
    source, _ = open_source(pa.table({"place": ["Bonn", "Celle"], "came": moments}))
    promise = {"epsilon": 3.0, "delta": 1e-6, "partition_delta": Fraction(1, 4_000_000)}
    ledger = Ledger(**promise, neighbours=Neighbours(), accountant=ZCDP())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="stored as what it is declared, a time"):
        Curator(source, ledger).discover(Schema((Time(name="came", strict=False),)), ledger.total / 4)
    assert ledger.events == ()


def test_what_is_declared_costs_nothing(tmp_path: Path) -> None:
    declared = Schema(
        (
            Integer(name="age", lower=17, upper=90, bins=32, missing=False),
            Integer(name="gain", lower=0, upper=50_000, bins=32, missing=False),
            Real(name="height", lower=1.0, upper=2.5, bins=32, missing=False),
            Categorical(name="city", values=("Aachen", "Bonn"), other="elsewhere", missing=False),
            Categorical(name="note", values=("seen",), missing=True),
        )
    )
    schema, ledger, _ = _discover(_csv(tmp_path), declared)
    assert ledger.events == ()
    assert schema == declared
    half = Schema(declared.columns[:2])
    _, ledger, _ = _discover(_csv(tmp_path), half)
    assert not any("age" in event.what or "gain" in event.what for event in ledger.events)


def test_every_look_is_an_event_of_its_own(tmp_path: Path) -> None:
    _, ledger, _ = _discover(_csv(tmp_path), seed=2)
    # How many looks there are at details, single values and lines hangs on the noise.
    varying = ("atoms", "detail", "lines", "constants")
    always = [event for event in ledger.events if not event.what.startswith(varying)]
    kinds = [type(event) for event in always]
    assert kinds.count(PartitionEvent) == 2
    # Decimals of height; columns compared; how many different numbers gain has.
    assert kinds.count(GaussianEvent) == 5 + 3 + 2 + 1 + 1 + 1 + 1
    what = [event.what for event in ledger.events]
    assert all(2 <= what.count(f"detail of {name}") <= 3 for name in ("age", "gain", "height"))
    assert [w for w in what if "grids" in w] == ["grids of gain", "grids of height"]
    assert what.count("bounds of height") == 2  # all of it between two powers of two: seen more closely
    deltas = [e.delta for e in ledger.events if isinstance(e, PartitionEvent)]
    assert deltas[0] == Fraction(1, 4_000_000) / 4  # half of a column's share; the rest for looks not needed
    assert sum(deltas) <= Fraction(1, 4_000_000)


def test_frames_keep_their_types_and_floats_of_whole_numbers_become_integers() -> None:
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "whole": rng.integers(0, 50, ROWS).astype(float),
            "flag": rng.random(ROWS) < 0.3,
            "text": rng.choice(["x", "y"], ROWS),
        }
    )
    schema, _, _ = _discover(table)
    assert isinstance(schema["whole"], Integer)
    assert schema["flag"].kind == "boolean"
    assert isinstance(schema["text"], Listed)
    assert schema["text"].values == ("x", "y")


def test_an_empty_table_is_discovered_without_failing() -> None:
    table = pa.table({"n": pa.array([], pa.int64()), "t": pa.array([], pa.string())})
    schema, _, curator = _discover(table)
    assert schema.known
    assert len(curator.measurements) == 2


def test_discovery_without_rho_says_what_to_do(tmp_path: Path) -> None:
    source, _ = open_source(_csv(tmp_path))
    ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=ZCDP())
    with pytest.raises(InputError, match="Declare them all"):
        Curator(source, ledger).discover()


def test_a_schema_about_another_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="schema must be about the table's columns"):
        _discover(_csv(tmp_path), Schema.from_sizes({"weight": 3}))


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("sigma", [3.0, 50.0, 1000.0])
def test_the_threshold_bounds_the_chance_of_a_lone_value(k: int, sigma: float) -> None:
    delta = Fraction(1, 10**7)
    bar = threshold(k, sigma, delta)
    tail = 0.5 * math.erfc((bar - k - 1) / sigma / math.sqrt(2))
    assert k * tail <= float(delta)
    assert k * 0.5 * math.erfc((bar - k - 3) / sigma / math.sqrt(2)) > float(delta)


def test_only_open_text_needs_a_share_of_delta() -> None:
    assert not searches_values(Schema.from_sizes({"a": 3}))
    assert not searches_values(Schema((Integer(name="n"), Real(name="x"))))
    assert searches_values(Schema((Categorical(name="c"),)))


def test_a_unit_with_many_rows_raises_the_threshold() -> None:
    table = pa.table({"t": ["x"] * 500 + ["y"] * 500, "id": list(range(1000))})
    bars = []
    for k in (1, 4):
        source, _ = open_source(table)
        ledger = Ledger(
            epsilon=5.0,
            delta=1e-6,
            neighbours=Neighbours(Unit("id", k)),
            accountant=ZCDP(),
            partition_delta=Fraction(1, 4_000_000),
        )
        Curator(source, ledger, SeededSource(2)).discover(None, ledger.total / 2)
        bars += [event.threshold for event in ledger.events if isinstance(event, PartitionEvent)]
    assert bars[1] > 3 * bars[0]


def test_rare_values_join_the_rest_if_asked() -> None:
    table = pa.table({"t": ["x"] * 10_000 + ["y"] * 9_000 + ["z"] * 1_000})
    plain, _, curator = _discover(table, epsilon=5.0)
    assert plain["t"].values == ("x", "y", "z")
    assert curator.measurements[0].values.sum() == pytest.approx(20_000, rel=0.05)
    merged, _, curator = _discover(table, Schema((Categorical(name="t", rare=0.1),)), epsilon=5.0)
    assert merged["t"].values == ("x", "y")
    assert merged["t"].other == OTHER


@pytest.mark.parametrize("binning", ["uniform", "quantile", "privtree"])
def test_bins_are_cut_as_asked_at_the_same_price(binning: str) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({"n": rng.exponential(100, ROWS).astype(np.int64)})
    schema, ledger, curator = _discover(table, Schema((Integer(name="n", binning=binning, bins=16),)))
    plain, same, _ = _discover(table, Schema((Integer(name="n", bins=16),)))
    assert [event.what for event in ledger.events] == [event.what for event in same.events]
    assert ledger.spent == same.spent
    assert 4 <= schema["n"].size <= 16
    assert schema["n"].edges != plain["n"].edges
    assert abs(curator.measurements[0].values.sum() - ROWS) < 2000


def test_rare_bins_within_declared_bounds_are_merged_in_one_look() -> None:
    rng = np.random.default_rng(0)
    numbers = np.append(rng.integers(0, 50, ROWS), rng.integers(50, 1000, 400))
    bound = Integer(name="n", lower=0, upper=999, bins=100, rare=0.002)
    schema, ledger, curator = _discover(pa.table({"n": numbers}), Schema((bound,)))
    column, (known,) = schema["n"], curator.measurements
    assert [event.what for event in ledger.events] == ["detail of n"]
    assert ledger.spent <= ledger.total / 4
    assert (column.lower, column.upper, column.known, column.missing) == (0, 999, True, False)
    assert column.edges[:5] == (0, 10, 20, 30, 40)
    assert 6 < column.size < 16
    assert column.fine == Integer(name="n", lower=0, upper=999, bins=100).edges
    counts = curator._open.count([("n",)])[0].reveal()
    assert counts.sum() == len(numbers)
    assert counts[1:].min() > 0.5 * 0.002 * ROWS
    assert (np.abs(known.values - counts) < 5 * known.sigmas).all()
    assert known.sigmas[-1] > known.sigmas[0]
    drawn = sum(column.weights[20:])
    assert abs(drawn - (numbers >= 200).sum()) < 300  # the noise of all these cells is of 220 rows


def test_declared_bins_are_kept_apart_where_none_is_rare_and_shapes_as_declared() -> None:
    table = pa.table({"x": [0.5] * 5_000 + [1.5] * 5_000 + [None] * 5_000})
    column = Real(name="x", edges=(0, 1, 2), fine=(0, 0.25, 1, 2), weights=(1, 3, 1), rare=0.01)
    schema, ledger, curator = _discover(table, Schema((column,)), epsilon=5.0)
    assert len(ledger.events) == 1
    assert schema["x"] == dataclasses.replace(column, missing=True, rare=0.0, strict=False)
    assert np.abs(curator.measurements[0].values - 5_000).max() < 200


def test_strict_bounds_are_checked_before_anything_is_spent() -> None:
    column = Integer(name="n", lower=0, upper=9, missing=False, rare=0.1)
    synthesizer = Synthesizer("independent", epsilon=1.0, schema=Schema((column,)))
    with pytest.raises(InputError, match="within its declared bounds"):
        synthesizer.fit(pa.table({"n": [1] * 99 + [10]}))
    assert synthesizer._ledger is None
    loose = dataclasses.replace(column, strict=False)
    fitted = Synthesizer("independent", epsilon=9.0, schema=Schema((loose,))).fit(
        pa.table({"n": [1] * 99 + [10]})
    )
    assert fitted.release.guarantee.epsilon == 9.0
    assert 1 <= fitted.release.schema["n"].size < 10


def test_one_declared_bound_is_kept() -> None:
    table = pa.table({"n": np.random.default_rng(0).integers(20, 60, ROWS)})
    schema, _, _ = _discover(table, Schema((Integer(name="n", upper=200),)))
    assert schema["n"].upper <= 200
    assert schema["n"].lower > 0


def test_placeholders_at_the_end_of_time_do_not_blur_the_dates() -> None:
    rng = np.random.default_rng(0)
    days = rng.integers(18_262, 18_993, ROWS).astype("datetime64[D]")
    days[: ROWS // 5] = np.datetime64("9999-12-31")
    schema, _, _ = _discover(pa.table({"d": days}), epsilon=5.0)
    column = schema["d"]
    assert column.kind == "date"
    assert column.labels[-1].endswith("9999-12-31")
    inside = [edge for edge in column.edges if edge < 20_000]
    assert len(inside) > 15
    assert max(np.diff(inside)) < 120
