"""What every source and engine promises, whatever kind of table it was opened from."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from engine_backends import NOT_HELD, STREAMS, Backends
from engine_cases import CASES, COMMAS, INF, NAN, ODD, brute_codes, brute_counts, make, text
from engine_tables import TABLES, many_rows, schema_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from margrave.engines.counts import Counts
from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.schema.columns import Binned, Boolean, Integer, Real
from margrave.schema.encode import decode
from margrave.schema.queries import READS
from margrave.schema.schema import Schema
from source_values import list_values

SOURCES = ("pandas", "polars", "arrow", "csv", "parquet")

every_source = pytest.mark.parametrize("source", SOURCES)
every_case = pytest.mark.parametrize("case", list(CASES))


@every_source
@every_case
def test_counts_equal_brute_force(source: str, case: str, tmp_path: Path) -> None:
    columns, declared = CASES[case]
    schema = Schema(tuple(declared))
    engine = open_source(make(source, columns, tmp_path), text=COMMAS)[0].bind(schema)
    cliques = [c for order in range(4) for c in itertools.permutations(schema.names, order)]
    cliques = [c for c in cliques if schema.domain.size(c) <= 1_000_000]
    assert engine.domain == schema.domain
    for clique, counts in zip(cliques, engine.count(cliques), strict=True):
        np.testing.assert_array_equal(counts.reveal(), brute_counts(columns, schema, clique), str(clique))


@every_source
@every_case
def test_round_trip(source: str, case: str, tmp_path: Path) -> None:
    columns, declared = CASES[case]
    schema = Schema(tuple(declared))
    data = make(source, columns, tmp_path)
    private, frame = open_source(data, text=COMMAS)
    encoded = private.bind(schema).encoded
    table = decode(encoded, schema, np.random.default_rng(1), frame)
    if source == "pandas":
        assert isinstance(table, pd.DataFrame)
        assert table.dtypes.to_dict() == data.dtypes.to_dict()
    elif source == "polars":
        assert isinstance(table, pl.DataFrame)
        assert table.schema == data.schema
    else:
        assert isinstance(table, pa.Table)
    if source in ("arrow", "parquet"):
        assert [str(kind) for kind in table.schema.types] == list(frame.dtypes.values())
    again, _ = open_source(table)
    assert [column.name for column in again.columns] == list(columns)
    assert len(table) == encoded.rows
    for column, codes in zip(schema.columns, again.bind(schema).encoded.columns, strict=True):
        expected = brute_codes(columns[column.name][1], column)
        assert codes.tolist() == expected, column.name


@every_source
def test_values_survive(source: str, tmp_path: Path) -> None:
    columns = {"t": ("text", ODD), "n": ("int", list(range(len(ODD))))}
    schema = Schema((text("t", sorted(ODD)), Integer(name="n", lower=0, upper=20, bins=99, missing=False)))
    private, frame = open_source(make(source, columns, tmp_path), text=COMMAS)
    table = decode(private.bind(schema).encoded, schema, np.random.default_rng(0), frame)
    assert list(table["t"].to_pylist() if isinstance(table, pa.Table) else table["t"]) == ODD
    assert list(table["n"].to_pylist() if isinstance(table, pa.Table) else table["n"]) == list(
        range(len(ODD))
    )


@every_source
def test_source_answers(source: str, tmp_path: Path) -> None:
    columns = {
        "t": ("text", ["b", "a", "b", None, "12", "1_0"]),
        "r": ("float", [1.0, 2.5, NAN, INF, 2.0**60, -3.0]),
        "b": ("bool", [True, True, None, False, True, True]),
    }
    private, _ = open_source(make(source, columns, tmp_path), text=COMMAS)
    assert private.kinds("t").reveal().tolist()[:7] == [1, 1, 0, 0, 0, 0, 4]
    texts, counts = list_values(private, "t")
    assert dict(zip(texts, counts, strict=False)) == {"b": 2, "a": 1, "12": 1, "1_0": 1}
    nan_is_text = source == "csv"
    assert private.kinds("r").reveal().tolist()[:7] == (
        [0, 0, 2, 0, 0, 0, 1] if nan_is_text else [2, 2, 2, 0, 0, 0, 0]
    )
    assert private.histogram("r", np.array([0.0, 1.0, 2.5])).reveal().tolist() == [1, 3]
    names, counts = list_values(private, "b")
    found = {name.lower(): n for name, n in zip(names, counts, strict=False)}
    assert found == {"true": 4, "false": 1}


@every_source
def test_bounded_keeps_at_most(source: str, tmp_path: Path) -> None:
    owners = [i % 7 for i in range(100)] + [99]
    columns = {"who": ("int", owners), "row": ("int", list(range(101)))}
    private, _ = open_source(make(source, columns, tmp_path), text=COMMAS)
    kept = private.bound_owners("who", 3)
    assert [column.name for column in kept.columns] == ["row"]
    rows = [int(value) for value in list_values(kept, "row")[0]]
    held = [owners[row] for row in rows]
    assert {owner: held.count(owner) for owner in set(held)} == {**dict.fromkeys(range(7), 3), 99: 1}


@every_source
def test_nothing_private_shows(source: str, tmp_path: Path) -> None:
    columns = {"t": ("text", ["CANARY", "x"]), "n": ("int", [987654321, 1])}
    schema = Schema((text("t", ["CANARY", "x"]), Integer(name="n", lower=0, upper=10**9, missing=False)))
    private, frame = open_source(make(source, columns, tmp_path), text=COMMAS)
    engine = private.bind(schema)
    for thing in (private, engine, engine.encoded, engine.count([("t",)])[0], frame, private.columns):
        shown = f"{thing!r} {thing!s}"
        assert "CANARY" not in shown
        assert "987654321" not in shown
    for thing in (private, engine, engine.count([("t",)])[0]):
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)


@every_source
def test_storage_decides_kinds(source: str, tmp_path: Path) -> None:
    columns = {"t": ("text", ["1"]), "i": ("int", [1]), "r": ("float", [1.0]), "b": ("bool", [True])}
    private, frame = open_source(make(source, columns, tmp_path), text=COMMAS)
    kinds = [column.kind for column in private.columns]
    assert kinds == (["unknown"] * 4 if source == "csv" else ["unknown", "integer", "real", "boolean"])
    assert all(column.missing is None for column in private.columns)
    assert not any(column.known for column in private.columns if not isinstance(column, (Boolean, Binned)))
    assert list(frame.dtypes) == list(columns)


SPARK = pytest.param("spark", marks=pytest.mark.slow)
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("ibis-duckdb", "postgres")]
every_engine = pytest.mark.parametrize(
    "engine", [*STREAMS, "ibis-duckdb", "ibis-duckdb queries", "postgres", SPARK]
)
every_table = pytest.mark.parametrize("name", list(TABLES))
EDGES = (np.array([-1e18, -5.0, -0.5, 0.0, 1.0, 1e6, 1e15]), np.array([0.5, 1e300]))
CYCLES = ((1, 7), (1, 146_097), (3_600_000_000, 24), (86_400_000_000, 7))
STEPS = (86_400_000_000.0, 1000.0, 5.0, 1.0, 0.25, 0.01)
ROWS = (1, 2, 3, 8)


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    found = Backends(tmp_path_factory.mktemp("engines"))
    yield found
    found.close()


def pair(backends: Backends, engine: str, table: pa.Table) -> tuple[Any, Any, pa.Table]:
    """The table in memory and by the engine, and its columns that the engine can hold."""
    table = table.select([n for n in table.column_names if n not in NOT_HELD.get(engine, ())])
    text_file = engine == "stream-csv"
    if text_file:
        table = table.select([f.name for f in table.schema if not pa.types.is_duration(f.type)])
    memory, frame = backends.open("memory-csv" if text_file else "memory", table)
    other, described = backends.open(engine, table)
    assert list(described.dtypes) == list(frame.dtypes)
    return memory, other, table


def same(answers: tuple[Any, Any], asked: object) -> None:
    np.testing.assert_array_equal(answers[0].reveal(), answers[1].reveal(), str(asked))


@pytest.mark.parametrize("engine", [*STREAMS, *SLOW, SPARK])
@every_table
@pytest.mark.filterwarnings("ignore")
def test_looks_are_those_of_memory(backends: Backends, engine: str, name: str) -> None:
    memory, other, table = pair(backends, engine, TABLES[name])
    assert [c.kind for c in other.columns] == [c.kind for c in memory.columns]
    for column in table.column_names:
        same((memory.kinds(column), other.kinds(column)), column)
        assert list_values(memory, column) == list_values(other, column), column
        for read in READS:
            for edges in EDGES:
                same(
                    asked_both(memory, other, lambda s, c=column, r=read, e=edges: s.histogram(c, e, r)), read
                )
            same(asked_both(memory, other, lambda s, c=column, r=read: s.grids(c, STEPS, r)), (column, read))
            same(asked_both(memory, other, lambda s, c=column, r=read: s.repeats(c, ROWS, r)), (column, read))
            for tick, ticks in CYCLES:
                asked = asked_both(
                    memory, other, lambda s, c=column, r=read, t=tick, n=ticks: s.places_in_cycle(c, r, t, n)
                )
                same(asked, (column, read, tick))
        for read in ("moment", "time"):
            same((memory.spellings(column, read), other.spellings(column, read)), (column, read))


def asked_both(memory: Any, other: Any, ask: Any) -> tuple[Any, Any]:
    """Both answers; where one refuses the other has to, with the same words."""
    answers: list[Any] = []
    for source in (memory, other):
        try:
            answers.append(ask(source))
        except InputError as error:
            answers.append(str(error))
    if isinstance(answers[0], str):
        assert answers[0] == answers[1]
        return Counts(np.zeros(1)), Counts(np.zeros(1))
    return answers[0], answers[1]


@every_engine
@every_table
@pytest.mark.filterwarnings("ignore")
def test_counts_are_those_of_memory(backends: Backends, engine: str, name: str) -> None:
    memory, other, table = pair(backends, engine, TABLES[name])
    for columns in schema_of(table):
        schema = Schema(tuple(columns))
        cliques = [c for order in range(4) for c in itertools.permutations(schema.names, order)][:120]
        engines = memory.bind(schema), other.bind(schema)
        assert engines[0].domain == engines[1].domain
        for clique, *counts in zip(cliques, *(e.count(cliques) for e in engines), strict=True):
            same((counts[0], counts[1]), clique)


@every_engine
@pytest.mark.filterwarnings("ignore")
def test_owners_are_bounded_alike(backends: Backends, engine: str) -> None:
    memory, other, table = pair(backends, engine, many_rows(300_000 if engine in STREAMS else 20_000))
    for most in (1, 7):
        same((memory.sizes("who", most), other.sizes("who", most)), most)
    sizes = np.unique(table["who"].to_numpy(zero_copy_only=False), return_counts=True)[1]
    for most in (1, 20):
        kept = other.bound_owners("who", most)
        assert [column.name for column in kept.columns] == ["n", "r", "t"]
        assert int(kept.kinds("n").reveal().sum()) == int(np.minimum(sizes, most).sum())
    schema = Schema((Integer(name="n", lower=-50, upper=49, bins=100, missing=False),))
    once = kept.only(["n"])
    same((once.bind(schema).count([("n",)])[0], kept.only(["n"]).bind(schema).count([("n",)])[0]), "again")


@every_engine
@pytest.mark.filterwarnings("ignore")
def test_strict_columns_refuse_alike(backends: Backends, engine: str) -> None:
    table = pa.table({"t": ["CANARY", "x", None], "n": [987654321, 1, 2], "r": [0.5, 2.0, 3.0]})
    memory, other, _ = pair(backends, engine, table)
    for column in (
        text("t", ["x"], missing=True),
        text("t", ["x", "CANARY"]),
        Integer(name="n", lower=0, upper=10, missing=False),
        Integer(name="r", lower=0, upper=10, missing=False),
        Integer(name="t", lower=0, upper=10, missing=True),
        Real(name="n", lower=2, upper=1e9, missing=False),
    ):
        told = []
        for source in (memory, other):
            with pytest.raises(InputError) as error:
                source.only([column.name]).bind(Schema((column,)))
            told.append(str(error.value))
            assert error.value.__context__ is None
        assert told[0] == told[1]
        assert "CANARY" not in told[0]
    for ask in (lambda s: s.bound_owners("t", 1), lambda s: s.sizes("t", 1), lambda s: s.kinds("none")):
        with pytest.raises(InputError):
            ask(other)
    for thing in (other, other.only(["n"])):
        assert "CANARY" not in repr(thing)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(thing)


@pytest.mark.parametrize("engine", ["memory", "stream-parquet", "ibis-duckdb"])
@pytest.mark.filterwarnings("ignore")
def test_owners_that_storage_forms_do_not_tell_apart_are_refused(backends: Backends, engine: str) -> None:
    """As float64 two of these were one owner, who shared a cap; their type alone decides."""
    wide = [Decimal("99999999999999999.998"), Decimal("99999999999999999.999")]
    table = pa.table({"who": pa.array(wide, pa.decimal128(20, 3)), "n": [1, 2]})
    moments = pa.array([1_700_000_000_000_000_001, 1_700_000_000_000_000_002], pa.timestamp("ns"))
    for owners in (table["who"], moments):
        source, _ = backends.open(engine, table.set_column(0, "who", owners))
        for ask in (lambda s: s.sizes("who", 2), lambda s: s.bound_owners("who", 1)):
            with pytest.raises(InputError, match="whole numbers, dates or microseconds"):
                ask(source)


CELLS = {
    "t": st.one_of(
        st.none(), st.sampled_from([*ODD, "1", "1.0", "08:05", "2024-02-29"]), st.text("a'\"é ", max_size=3)
    ),
    "i": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-3, 12)),
    "r": st.one_of(st.none(), st.floats(), st.sampled_from([0.1, -0.5, 0.3, 1.0, 2.5])),
    "d": st.one_of(st.none(), st.integers(-25_000, 40_000)),
}
TYPES = {"t": pa.string(), "i": pa.int64(), "r": pa.float64(), "d": pa.int32()}


@pytest.mark.parametrize("engine", ["stream-parquet", SLOW[0]])
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(rows=st.lists(st.fixed_dictionaries(CELLS), max_size=30))
@pytest.mark.filterwarnings("ignore")
def test_any_table_is_counted_alike(backends: Backends, engine: str, rows: list[dict[str, Any]]) -> None:
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()}
    columns["d"] = columns["d"].cast(pa.date32())
    memory, other, table = pair(backends, engine, pa.table(columns))
    for column in table.column_names:
        same((memory.kinds(column), other.kinds(column)), column)
        assert list_values(memory, column)[0] == list_values(other, column)[0]
        same((memory.grids(column, STEPS), other.grids(column, STEPS)), column)
        same((memory.repeats(column, ROWS), other.repeats(column, ROWS)), column)
        both = (source.places_in_cycle(column, "number", 3, 5) for source in (memory, other))
        same(tuple(both), column)
    for declared in schema_of(table):
        schema = Schema(tuple(declared))
        engines = memory.bind(schema), other.bind(schema)
        asked = list(itertools.combinations(schema.names, 2))
        for clique, *counts in zip(asked, *(e.count(asked) for e in engines), strict=True):
            same((counts[0], counts[1]), clique)
