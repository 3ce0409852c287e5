"""Additivity, the contract of every engine: a row falls in one cell, whatever the other rows are.

For each row there is a fixed thing that it counts for: what a table in memory with this row alone answers.
Every answer of every engine on every table has to be the sum of these over the table's rows. So the answer on
a table is the sum of those on its parts, and one row more moves it by that row's own cell only; the tables
come in pairs that differ by one row. The texts are those that collations hold for equal.
"""

from __future__ import annotations

import pkgutil
import secrets
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from additivity_backends import PUSHED, STREAMED, BigTables, open_small
from additivity_tables import Nasty, Reference, answers, draw_tables, schemas
from engine_backends import Backends

from margrave.engines.opening import open_source
from margrave.schema.columns import Integer
from margrave.schema.schema import Schema
from source_values import list_values

pytestmark = pytest.mark.filterwarnings("ignore")

FEW = "margrave.engines.ibis.codings.MAX_CASE_VALUES"
"""Declared values up to which they are compared one by one; by name, since it takes ibis to import."""
MANY, SOME = 1000, 28
NO_NUL = ("memory-csv", "stream-csv", "postgres")
DATABASES = [name for name in PUSHED if not name.startswith("spark")]
SPARKS = [name for name in PUSHED if name.startswith("spark")]


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    found = Backends(tmp_path_factory.mktemp("additivity"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def in_memory() -> Reference:
    return Reference()


def nasty(engine: str, number: int) -> list[Nasty]:
    return draw_tables(number, nul=not engine.startswith(NO_NUL))


def check_answers(
    source: Any, table: Nasty, alone: Reference, columns: str = "tx", loose: bool = False
) -> None:
    """Every answer about the columns is the sum of what their values count for."""
    for column, kind, values in (("t", "text", table.texts), ("x", table.kind, table.others)):
        if column not in columns or not values:
            continue
        found = answers(source, column, "text" if loose else kind)
        for name, expected in alone.expected(kind, values, loose).items():
            np.testing.assert_array_equal(found[name], expected, f"{name} of {values}")


def check_counts(source: Any, table: Nasty, alone: Reference, variant: int) -> None:
    """Every marginal holds each row once, in its own cell."""
    engine = source.bind(schemas(table.kind, variant))
    assert int(source.rows().reveal()[0]) == len(table.texts)
    codes = alone.codes(table, variant)
    cliques = [(), ("t",), ("x",), ("x", "t")]
    for clique, counts in zip(cliques, engine.count(cliques), strict=True):
        expected = np.zeros(engine.domain.shape(clique), dtype=np.int64)
        np.add.at(expected, tuple(np.array(codes[name], dtype=np.int64) for name in clique), 1)
        if not clique:
            expected = np.array(len(table.texts))
        np.testing.assert_array_equal(counts.reveal(), expected, f"{clique} of {table}")


def check_small(backends: Backends, engine: str, number: int, alone: Reference) -> None:
    tables, text_file = nasty(engine, number), engine.endswith("csv")
    if text_file:
        alone = Reference(lambda table: backends.open("memory-csv", table)[0])
    for place, source in enumerate(open_small(backends, engine, tables)):
        check_answers(source, tables[place], alone, loose=text_file)
        check_counts(source, tables[place], alone, place // 2 % 4)


def check_pushed(
    backends: Backends, engine: str, tables: list[Nasty], alone: Reference, every: int = 1
) -> None:
    """Texts of all tables, all else of one pair in `every`; then marginals of all tables of a kind."""
    big = BigTables(backends, engine, tables)
    for place, table in enumerate(tables):
        source, pair = big.source(place, table.kind), place // 2
        full = pair % every == 0
        check_answers(source, table, alone, "tx" if full else "t")
        if full:
            check_counts(source, table, alone, pair // every % 4)
    if every > 1:
        for place, (kind, numbers) in enumerate(big.numbers.items()):
            for variant in (place % 4, (place + 2) % 4):
                check_together(big.whole(kind), [(n, tables[n]) for n in numbers], alone, variant)


@pytest.mark.parametrize("engine", STREAMED)
def test_some_tables_are_counted_row_by_row(backends: Backends, engine: str, in_memory: Reference) -> None:
    check_small(backends, engine, SOME, in_memory)


@pytest.mark.parametrize("engine", [name for name in STREAMED if name.startswith("stream")])
def test_columns_of_more_values_than_are_listed_are_counted_in_parts(
    backends: Backends, engine: str, in_memory: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("margrave.engines.streaming.engine.MOST_VALUES", 2)
    check_small(backends, engine, SOME // 4, in_memory)


WEIGHTS = (10, 7)
"""Of a row that holds one text that is not listed, and two."""


@pytest.mark.parametrize("engine", [name for name in STREAMED if name != "duckdb-file"])
@pytest.mark.parametrize("most", [1 << 22, 2])
def test_texts_of_several_columns_are_weighed_row_by_row(
    backends: Backends, engine: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row adds the weight of all its texts that are not listed to each of them, whatever other rows are."""
    monkeypatch.setattr("margrave.engines.streaming.engine.MOST_VALUES", most)
    tables = nasty(engine, SOME // 4)
    for table, source in zip(tables, open_small(backends, engine, tables), strict=True):
        listed = {"t": frozenset(list_values(source, "t")[0][:2]), "x": frozenset[str]()}
        expected: Counter[tuple[int, str]] = Counter()
        for place in range(len(table.texts)):
            row = Nasty(table.kind, [table.texts[place], "-"], [table.others[place], table.others[place]])
            kind = "memory-csv" if engine.endswith("csv") else "memory"  # a second row keeps the first one
            alone = {name: backends.open(kind, row.arrow().select([name]))[0] for name in "tx"}
            values = {name: list_values(one, name) for name, one in alone.items()}
            texts, counts = values["t"]
            held = {("t", text) for text in texts if text != "-" or counts[texts.index("-")] > 1}
            held |= {("x", text) for text in values["x"][0]}
            fresh = [(name, text) for name, text in held if text not in listed[name]]
            for name, text in fresh:
                expected["tx".index(name), text] += WEIGHTS[len(fresh) - 1]
        found: Counter[tuple[int, str]] = Counter()
        for names, counts in source.unlisted_parts(listed, WEIGHTS):
            assert counts.reveal()[-1] == 0
            for name, sums in zip(names, counts.reveal().tolist(), strict=False):
                place, _, text = name.partition(":")
                assert (int(place), text) not in found
                found[int(place), text] = sums
        assert found == expected


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", STREAMED)
def test_many_tables_are_counted_row_by_row(backends: Backends, engine: str, in_memory: Reference) -> None:
    check_small(backends, engine, MANY, in_memory)


@pytest.mark.parametrize("engine", DATABASES)
def test_some_tables_in_a_database_are_counted_row_by_row(
    backends: Backends, engine: str, in_memory: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FEW, 12)
    check_pushed(backends, engine, nasty(engine, SOME), in_memory)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", DATABASES)
def test_many_tables_in_a_database_are_counted_row_by_row(
    backends: Backends, engine: str, in_memory: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand, and a quarter of them again under each other collation."""
    monkeypatch.setattr(FEW, 12)
    tables = nasty(engine, MANY)
    if " " in engine:
        quarter = DATABASES.index(engine) % 4 * MANY // 4
        tables = tables[quarter : quarter + MANY // 4]
    check_pushed(backends, engine, tables, in_memory, every=25)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("engine", SPARKS)
def test_many_tables_in_spark_are_counted_row_by_row(
    backends: Backends, engine: str, in_memory: Reference
) -> None:
    """A thousand in all: a query takes Spark a quarter of a second."""
    tables = nasty(engine, MANY * 2 // 5 if " " in engine else MANY // 5)
    check_pushed(backends, engine, tables, in_memory, every=40)


def merged_groups(table: Any, value: Any) -> tuple[Any, Any]:
    """What a backend gives that groups text without regard to case and names a group by one of its rows."""
    found = table.select(v=value, k=value.cast("string").lower())
    found = found.group_by("k").agg(v=found.v.arbitrary(), n=found.count()).to_pyarrow()
    return found["v"].combine_chunks(), found["n"].to_numpy()


def name_groups_by_a_row(_: Any) -> Any:
    return staticmethod(merged_groups)


def double_keys(honest: Any) -> Any:
    """A look-up in which each key is there twice, as in a join that holds two keys for equal."""
    return lambda place, found: pa.concat_tables([honest(place, found)] * 2)


@pytest.mark.needs_extra("ibis")
@pytest.mark.parametrize(
    ("place", "fault", "seen"),
    [
        ("ibis.source.PushdownSource._group_values", name_groups_by_a_row, "values of"),
        ("ibis.engine._make_lookup", double_keys, r"\(\) of"),
    ],
)
def test_planted_faults_break_the_contract(
    backends: Backends,
    place: str,
    fault: Any,
    seen: str,
    in_memory: Reference,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group that is named by one of its rows, and a join that counts a row twice."""
    monkeypatch.setattr(FEW, 12)
    tables = nasty("ibis-duckdb", SOME)
    check_pushed(backends, "ibis-duckdb", tables[:2], in_memory)
    whole = f"margrave.engines.{place}"
    monkeypatch.setattr(whole, fault(pkgutil.resolve_name(whole)))
    with pytest.raises(AssertionError, match=seen):
        check_pushed(backends, "ibis-duckdb", tables, in_memory)


@pytest.mark.needs_extra("postgres")
def test_postgres_types_with_several_spellings(backends: Backends) -> None:
    """Numbers without a scale, padded text and enumerations: what a row counts for is its own."""
    table = backends.open_ibis("postgres", pa.table({"t": ["1.0", "1.00", "1", "2.50"]}))
    connection, name = table.get_backend(), table.get_name()
    numbers = "t::numeric AS n, t::char(6) AS c, t::grade AS e, t::varchar COLLATE base AS v"
    with connection.con.cursor() as cursor:
        cursor.execute("CREATE TYPE grade AS ENUM ('1', '2.50', '1.00', '1.0')")
        cursor.execute(
            "CREATE COLLATION base (provider = icu, locale = 'und-u-kn-ks-level1', deterministic = false)"
        )
        cursor.execute(f"CREATE TABLE spelt AS SELECT {numbers} FROM {name}")  # noqa: S608  # names of ours
    connection.con.commit()
    source = open_source(connection.table("spelt"))[0]
    found = {column: list_values(source, column) for column in "ncev"}
    assert found["n"][0] == ("1", "2.5")
    assert found["n"][1][:-1] == [3, 1]
    for column in "cev":
        assert found[column][0] == ("1", "1.0", "1.00", "2.50")
        assert found[column][1][:-1] == [1, 1, 1, 1]


SLOW_SPARKS = [pytest.param(name, marks=pytest.mark.slow) for name in SPARKS]


@pytest.mark.parametrize("engine", [*DATABASES, *SLOW_SPARKS])
def test_what_an_owner_keeps_depends_on_its_own_rows_alone(
    backends: Backends, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the secret key held fixed, so that all that is left to depend on are the rows."""
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * size)
    mine = {"t": ["ann"] * 40, "w": [*range(20), *range(20)], "r": [0.5, 0.1] * 20}
    others = {
        "t": ["ANN" if k % 7 else f"ann{k % 300} " for k in range(2000)],
        "w": [100 + k % 50 for k in range(2000)],
        "r": [k / 7 for k in range(2000)],
    }
    order = np.random.default_rng(1).permutation(2040)
    mixed = {name: np.array([*mine[name], *others[name]])[order] for name in mine}
    alone, among = (kept_by_ann(backends, engine, columns) for columns in (mine, mixed))
    assert sum(alone.values()) == 5
    assert among == alone


def kept_by_ann(backends: Backends, engine: str, columns: dict[str, Any]) -> Counter[str]:
    """The rows that the owner ann keeps of her forty, by w, which is below 100 in her rows only."""
    table = backends.open_ibis(engine, pa.table(columns), PUSHED[engine])
    texts, counts = list_values(open_source(table)[0].bound_owners("t", 5), "w")
    held = zip(texts, counts, strict=False)
    return Counter({text: count for text, count in held if int(text) < 100})


def check_together(source: Any, tables: list[tuple[int, Nasty]], alone: Reference, variant: int) -> None:
    """The marginals of many tables at once, by the number of the table."""
    last = max(number for number, _ in tables)
    number = Integer(name="g", lower=0, upper=last, bins=last + 1, missing=False)
    schema = Schema((*schemas(tables[0][1].kind, variant).columns, number))
    engine = source.bind(schema)
    cliques = [("g",), ("g", "t"), ("g", "x"), ("t", "x", "g")]
    for clique, counts in zip(cliques, engine.count(cliques), strict=True):
        expected = np.zeros(schema.domain.shape(clique), dtype=np.int64)
        for place, table in tables:
            codes = {**alone.codes(table, variant), "g": [place] * len(table.texts)}
            np.add.at(expected, tuple(np.array(codes[name], dtype=np.int64) for name in clique), 1)
        np.testing.assert_array_equal(counts.reveal(), expected, str(clique))
