from __future__ import annotations

import itertools
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from extras import import_extra
from margrave.engines.memory import open_source as in_memory
from margrave.engines.opening import open_head, open_here, open_source
from margrave.errors import InputError, SchemaError
from margrave.schema.columns import Categorical, Date, Integer, Ordinal, Real
from margrave.schema.schema import Schema

ibis = import_extra("ibis", __name__)

from margrave.engines.ibis import engine as pushdown_engine  # noqa: E402 - they import ibis
from margrave.engines.ibis import source as pushdown  # noqa: E402 - they import ibis
from margrave.engines.ibis.engine import PushdownEngine  # noqa: E402
from source_values import list_values  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

ROWS = 3000
RNG = np.random.default_rng(2)
TABLE = pa.table(
    {
        "code": pa.array([f"k'{k}" for k in RNG.zipf(1.4, ROWS) % 400]),
        "n": pa.array(RNG.integers(0, 300, ROWS), mask=RNG.random(ROWS) < 0.1),
        "r": RNG.normal(size=ROWS),
        "few": pa.array([f"{k}" for k in RNG.integers(0, 60, ROWS)]),
    }
)
SCHEMA = Schema(
    (
        Categorical(name="code", values=tuple(f"k'{k}" for k in range(200)), other="rest", missing=False),
        Ordinal(name="n", values=(*range(1, 250), "x"), other="rest", missing=True),
        Real(name="r", lower=-2, upper=2, bins=8, missing=False, strict=False),
        Categorical(name="few", values=tuple(f"{k}" for k in range(48)), other="rest", missing=False),
    )
)


@pytest.fixture
def table() -> Any:
    connection = ibis.duckdb.connect()
    return connection.create_table("t", TABLE)


def cliques() -> list[tuple[str, ...]]:
    return [c for order in range(4) for c in itertools.combinations(SCHEMA.names, order)]


@pytest.mark.parametrize("change", ["none", "sets", "small queries", "one set a query"])
def test_counts_by_any_plan(table: Any, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    if change != "none":
        monkeypatch.setattr(pushdown_engine, "SETS", frozenset({"duckdb"}))
    if change == "small queries":
        monkeypatch.setattr(pushdown_engine, "CELLS", 100)
    elif change == "one set a query":
        monkeypatch.setattr(pushdown_engine, "MOST_SETS", 1)
        monkeypatch.setattr(pushdown_engine, "MAX_SHARED_CELLS", 1)
    asked = [c for c in cliques() if SCHEMA.domain.size(c) < 1 << 20]
    engines = [open_source(data)[0].bind(SCHEMA) for data in (TABLE, table)]
    for clique, one, other in zip(asked, *(engine.count(asked) for engine in engines), strict=True):
        np.testing.assert_array_equal(one.reveal(), other.reveal(), str(clique))


def test_one_query_answers_many_pairs(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_source(table)[0].bind(SCHEMA)
    queries: list[object] = []
    group = PushdownEngine._group
    monkeypatch.setattr(
        PushdownEngine, "_group", lambda self, tables: queries.append(tables) or group(self, tables)
    )
    engine.count([("n",), ("r",), ("code",), ("n", "r"), ("r", "code"), ()])
    assert len(queries) == 1


def test_what_cannot_be_asked(table: Any) -> None:
    source, _ = open_source(table)
    engine = source.bind(SCHEMA)
    with pytest.raises(SchemaError, match="distinct names"):
        engine.count([("n", "n")])
    with pytest.raises(SchemaError, match="known before"):
        source.only(["n"]).bind(Schema((Integer(name="n"),)))
    with pytest.raises(InputError, match="in memory or in files"):
        open_here(table)
    with pytest.raises(InputError, match="left out"):
        open_source(table, engine="memory")
    assert repr(engine) == "PushdownEngine(['code', 'n', 'r', 'few'])"


def test_distinct_values_are_listed_in_parts(table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    source = open_source(table)[0]
    whole = list_values(source, "code")
    monkeypatch.setattr(pushdown, "MOST_VALUES", 10)
    parts = [(texts, counts.reveal().tolist()) for texts, counts in source.value_parts("code")]
    assert len(parts) > 1
    assert sorted(text for texts, _ in parts for text in texts) == list(whole[0])
    found = {text: rows for texts, counts in parts for text, rows in zip(texts, counts, strict=False)}
    listed = [*(found[text] for text in whole[0]), parts[0][1][-1]]
    np.testing.assert_array_equal(listed, whole[1])


def test_backends_errors_are_not_passed_on() -> None:
    connection = ibis.duckdb.connect()
    connection.create_table("t", pa.table({"t": ["CANARY"], "n": [1]}))
    broken = connection.table("t").mutate(m=lambda t: t.t.cast("int64"))
    with pytest.raises(InputError, match="its backend can count") as error:
        open_source(broken)[0].kinds("m")
    assert "CANARY" not in str(error.value)
    assert error.value.__context__ is None


def test_columns_without_a_kind_are_refused() -> None:
    connection = (
        ibis.from_connection(duckdb.connect()) if hasattr(ibis, "from_connection") else ibis.duckdb.connect()
    )
    lists = connection.create_table("l", pa.table({"l": pa.array([[1], [2]])}))
    with pytest.raises(InputError, match="column 'l'"):
        open_source(lists)
    spans = connection.create_table("d", pa.table({"d": pa.array([1], pa.duration("us")), "n": [1]}))
    with pytest.raises(InputError, match="column 'd'"):  # before anything is spent
        open_head(spans)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_no_moment_ends_a_run(unit: str) -> None:
    """However far it is: an error by one cell would tell of it, and lose what was spent by then."""
    far = [(1 << 63) - 2, 2 - (1 << 63), 1 << 62, 10**16, -(10**16), 10**15]
    ticks = [*far, 0, 1_600_000_000, None]
    connection = ibis.duckdb.connect()
    moments = pa.array(ticks, pa.int64()).view(pa.timestamp(unit))
    source = open_source(connection.create_table("m", pa.table({"m": moments})))[0]
    missing, held = source.kinds("m").reveal()[:2].tolist()
    assert missing + held + source.kinds("m").reveal()[2] == len(ticks)
    assert missing == 1 + sum(abs(tick) * {"s": 10**6, "ms": 1000}.get(unit, 1) >= 1 << 63 for tick in far)
    cells = source.histogram("m", np.array([-1e19, 0.0, 1.0, 1e19]), absent=True).reveal()
    assert cells.sum() == len(ticks)
    assert cells[1] == 1
    # Read as dates, which is worked out in the backend: by its codes, and in looks as if it were far away.
    dates = Schema((Date(name="m", lower="2020-01-01", upper="2021-01-01", missing=True, strict=False),))
    (coded,) = source.bind(dates).count([("m",)])
    assert (coded.reveal().sum(), coded.reveal()[-1]) == (len(ticks), missing)
    source._in_process = False
    assert source.histogram("m", np.array([-1e19, 0.0, 1e19]), "date").reveal().sum() == len(ticks) - missing
    source._in_process = True
    alone = [ticks[-2:], ticks[-3:-2]]
    for place, part in enumerate(alone):
        few = pa.table({"m": pa.array(part, pa.int64()).view(pa.timestamp(unit))})
        pushed, here = (open_source(one)[0] for one in (connection.create_table(f"f{place}", few), few))
        assert list_values(pushed, "m")[0] == list_values(here, "m")[0]


def test_the_choice_of_owners_rows_stays(table: Any) -> None:
    kept = open_source(table)[0].bound_owners("code", 1)
    first, second = (list_values(kept, "r")[0] for _ in range(2))
    assert first == second
    assert len(first) == len(list_values(in_memory(TABLE)[0], "code")[0])
    other = list_values(open_source(table)[0].bound_owners("code", 1), "r")[0]
    assert other != first
