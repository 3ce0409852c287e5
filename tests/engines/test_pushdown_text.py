"""Text that a backend holds for equal: it names no group and counts no row twice."""

from __future__ import annotations

import sqlite3
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from extras import import_extra
from margrave.engines.counts import Counts
from margrave.engines.opening import open_head, open_source
from margrave.errors import InputError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.measure.mechanisms.partition import search_values
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.columns import Categorical, Integer, Real
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

ibis = import_extra("ibis", __name__)

from margrave.engines.ibis import engine as pushdown_engine  # noqa: E402 - it imports ibis
from margrave.engines.ibis import expressions  # noqa: E402 - it imports ibis
from margrave.engines.ibis.source import PushdownSource  # noqa: E402 - it imports ibis
from source_values import list_values  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

SPELT = [f"{a}{b}{c}" for a in "aA" for b in "bB" for c in "cC"]
MANY = (*SPELT, *(f"v{k}" for k in range(52)))
"""More values than are told apart by comparisons, eight of which differ in case only."""
PAIR = Schema(tuple(Categorical(name=n, values=MANY, other="(rest)", missing=False) for n in "xy"))


def collated(columns: dict[str, list[str]], collation: str = "NOCASE") -> Any:
    """A DuckDB table whose text has a collation."""
    connection = duckdb.connect()
    connection.from_arrow(pa.table(columns)).create("plain")
    kinds = ", ".join(f"{name} VARCHAR COLLATE {collation}" for name in columns)
    connection.execute(f"CREATE TABLE t ({kinds})")
    connection.execute("INSERT INTO t SELECT * FROM plain")
    return ibis.duckdb.from_connection(connection).table("t")


def ledger() -> Ledger:
    return Ledger(
        epsilon=5.0,
        delta=1e-6,
        neighbours=Neighbours(),
        accountant=ZCDP(),
        partition_delta=Fraction(1, 10**7),
    )


def released_values(rows: list[str]) -> tuple[object, ...]:
    spent = ledger()
    found = search_values(
        Categorical(name="t"),
        open_source(collated({"t": rows}))[0],
        Gaussian(spent, SeededSource(1)),
        spent,
        Fraction(1, 4),
        Fraction(1, 10**7),
    )
    return found.texts


def test_a_row_names_no_group() -> None:
    """With one more row the release said BERN for a thousand rows of Bern."""
    rows = ["Bern", "Basel"] * 1000
    assert released_values(rows) == ("Basel", "Bern")
    assert released_values(["BERN", *rows]) == ("Basel", "Bern")
    source = open_source(collated({"t": ["BERN", *rows]}))[0]
    texts, counts = list_values(source, "t")
    assert dict(zip(texts, counts, strict=False)) == {"BERN": 1, "Basel": 1000, "Bern": 1000}


def test_a_row_is_not_joined_with_two_codes() -> None:
    """123 rows were counted as 244."""
    values = ("abc", "ABC", *(f"v{k}" for k in range(60)))
    schema = Schema((Categorical(name="t", values=values, other="(rest)", missing=False),))
    source = open_source(collated({"t": ["abc"] * 121 + ["v1", "v2"]}))[0]
    rows, counts = (found.reveal() for found in source.bind(schema).count([(), ("t",)]))
    assert rows == 123
    assert counts[:4].tolist() == [121, 0, 0, 1]


def test_one_row_moves_a_pair_by_one() -> None:
    """It moved 64 cells by one each."""
    base = {"x": ["v1", "v2"], "y": ["v3", "v4"]}
    more = {name: [*column, "aBc"] for name, column in base.items()}
    tables = [
        open_source(collated(columns))[0].bind(PAIR).count([("x", "y")])[0].reveal()
        for columns in (base, more)
    ]
    assert int(((tables[1] - tables[0]) ** 2).sum()) == 1
    assert tables[1][MANY.index("aBc"), MANY.index("aBc")] == 1


@pytest.mark.parametrize("values", [MANY, MANY[:20]])
def test_strict_columns_are_checked_by_bytes(values: tuple[str, ...]) -> None:
    schema = Schema((Categorical(name="x", values=values, missing=False),))
    with pytest.raises(InputError, match="within its declared values"):
        open_source(collated({"x": ["abc", "V1"]}))[0].bind(schema)


def test_owners_are_told_apart_by_bytes() -> None:
    table = collated({"who": ["ann", "ANN", "Ann", "bob"], "t": ["a", "b", "c", "d"]})
    source = open_source(table)[0]
    assert source.sizes("who", 2).reveal().tolist() == [4, 0, 0]
    assert source.bound_owners("who", 1).rows().reveal().tolist() == [4]


def test_rows_that_are_equal_are_drawn_as_often_as_others() -> None:
    """Nine of ten rows are equal: a draw by content alone would keep the tenth half of the time."""
    owners = 600
    columns = {"who": [f"o{k}" for k in range(owners)] * 10, "t": ["same"] * 9 * owners + ["odd"] * owners}
    kept = open_source(collated(columns))[0].bound_owners("who", 1)
    counts = dict(zip(*(list(part) for part in _named(kept)), strict=True))
    assert abs(counts["odd"] - owners / 10) < 5 * np.sqrt(owners * 0.09)


def _named(source: Any) -> tuple[tuple[str, ...], list[int]]:
    texts, counts = list_values(source, "t")
    return texts, counts[:-1]


def test_backends_whose_bytes_are_not_known_have_no_text() -> None:
    text = ibis.table({"t": "string"}, name="t").t
    for backend in ("mssql", "mysql", "oracle", "sqlite"):
        with pytest.raises(InputError, match="byte by byte"):
            expressions.text_bytes(text, backend)


@pytest.mark.parametrize(
    ("backend", "written"),
    [
        ("bigquery", "CAST(`t0`.`t` AS BYTES)"),
        ("databricks", "CAST(`t0`.`t` AS BINARY)"),
        ("duckdb", 'ENCODE("t0"."t")'),
        ("postgres", """CONVERT_TO(CAST("t0"."t" AS VARCHAR), 'UTF8')"""),
        ("pyspark", "CAST(`t0`.`t` AS BINARY)"),
        ("snowflake", """TO_BINARY("t0"."t", 'UTF-8')"""),
        ("trino", 'TO_UTF8("t0"."t")'),
    ],
)
def test_text_is_turned_into_bytes(backend: str, written: str) -> None:
    table = ibis.table({"t": "string"}, name="t")
    query = str(ibis.to_sql(table.select(b=expressions.text_bytes(table.t, backend)), dialect=backend))
    assert written.lower() in " ".join(query.split()).lower()
    expressions.byte_literal(b"a'\xc3", backend)


def test_the_door_refuses_a_join_that_fans_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: each key of a look-up is there twice."""
    source = open_source(collated({"x": ["abc", "v1"], "y": ["v1", "v2"]}))[0]
    lookup = pushdown_engine._make_lookup

    def doubled(place: int, found: Any) -> Any:
        return pa.concat_tables([lookup(place, found)] * 2)

    monkeypatch.setattr(pushdown_engine, "_make_lookup", doubled)
    spent = ledger()
    with pytest.raises(InputError, match="counts each row once") as error:
        Curator(source, spent).discover(PAIR)
    assert not any(letter.isdigit() for letter in str(error.value))
    assert spent.events == ()


class Fans:
    """An engine that counts a row twice in pairs only."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self.domain = engine.domain

    def count(self, cliques: Any) -> list[Counts]:
        found = [counts.reveal() for counts in self._engine.count(cliques)]
        return [
            Counts(table * (2 if len(clique) > 1 else 1))
            for clique, table in zip(cliques, found, strict=True)
        ]


def test_the_door_refuses_a_table_that_holds_more_than_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    bind = PushdownSource.bind
    monkeypatch.setattr(PushdownSource, "bind", lambda self, schema: Fans(bind(self, schema)))
    spent = ledger()
    curator = Curator(open_source(collated({"x": ["abc", "v1"], "y": ["v1", "v2"]}))[0], spent)
    curator.discover(PAIR)
    curator.measure([("x",)], Fraction(1, 100))
    with pytest.raises(InputError, match="left alone while it is counted"):
        curator.measure([("x", "y")], Fraction(1, 100))
    assert len(spent.events) == 1


def test_one_scan_gives_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer of a source is one query, so a table that changes in between is never subtracted."""
    connection = ibis.duckdb.connect()
    table = connection.create_table("t", pa.table({"t": ["1", "x", None], "r": [0.5, 2.0**60, None]}))
    source = open_source(table)[0]
    asked: list[object] = []
    for module in ("ibis.source", "ibis.engine"):
        name = f"margrave.engines.{module}.fetch_rows"
        monkeypatch.setattr(name, _recorded(asked))
    for ask in (
        lambda: source.histogram("r", np.array([0.0, 1.0]), absent=True),
        lambda: source.grids("r", (10.0, 1.0)),
        lambda: list_values(source, "r"),
        lambda: source.kinds("r"),
        lambda: list_values(source, "t"),
    ):
        asked.clear()
        ask()
        assert len(asked) == 1


def _recorded(asked: list[object]) -> Any:
    from margrave.engines.ibis.engine import fetch_rows

    def record(expression: Any) -> Any:
        asked.append(expression)
        return fetch_rows(expression)

    return record


def test_numbers_that_are_spelt_in_two_ways_are_one() -> None:
    """Zero and minus zero, joined with more keys than are compared."""
    floats = [0.0, -0.0, *(k + 0.5 for k in range(60))]
    table = ibis.duckdb.connect().create_table("t", pa.table({"x": floats}))
    schema = Schema((Categorical(name="x", values=(0, 0.5, 1.5), other="(rest)", missing=False),))
    counts = open_source(table)[0].bind(schema).count([("x",)])[0].reveal()
    assert counts.tolist() == [2, 1, 1, 58]


def test_text_that_is_no_number_is_read_row_by_row() -> None:
    schema = Schema((Integer(name="t", lower=0, upper=9, missing=True, strict=False),))
    texts = ["1e1", "1E1", "7", "７", *(f"x{k}" for k in range(60))]
    source = open_source(collated({"t": texts}))[0]
    alone = [
        open_source(pa.table({"t": [text]}))[0].bind(schema).count([("t",)])[0].reveal() for text in texts
    ]
    np.testing.assert_array_equal(source.bind(schema).count([("t",)])[0].reveal(), np.sum(alone, axis=0))


def test_texts_are_read_in_a_format_as_in_memory() -> None:
    cells = ["$1,234.50", "$7.00", None, "unpaid", "$1,234.50", "12"]
    stored = pa.table({"paid": cells})
    column = Real(name="paid", format="$1,234.5", lower=0, upper=2000, bins=4, missing=True, strict=False)
    source, _ = open_source(ibis.duckdb.connect().create_table("t", stored))
    alone, _ = open_source(stored)
    edges = np.array([0.0, 10.0, 1000.0, 2000.0])
    for one in (source, alone):
        read = one.read_as([column])
        assert read.histogram("paid", edges, absent=True).reveal().tolist() == [1, 1, 2, 2]
        assert one.histogram("paid", edges, absent=True).reveal().tolist() == [0, 1, 0, 5]
        (counts,) = one.bind(Schema((column,))).count([("paid",)])
        assert counts.reveal().tolist() == [2, 0, 2, 0, 2]


def test_a_backend_whose_columns_have_no_types_is_refused(tmp_path: Path) -> None:
    """A cell of SQLite may be a text in a column of whole numbers, and end a look at all others."""
    with sqlite3.connect(tmp_path / "t.sqlite") as file:
        file.execute("create table t (n integer)")
    table = ibis.sqlite.connect(tmp_path / "t.sqlite").table("t")
    with pytest.raises(InputError, match="columns have types; cells of sqlite"):
        open_source(table)
    with pytest.raises(InputError, match="columns have types; cells of sqlite"):
        open_head(table)
