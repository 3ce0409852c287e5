"""The twin audit over all engines: what a backend counts moves by no more than one unit may, whatever it is.

Backends have notions of their own of which texts are equal. Under a collation that is not binary 'Bern' and
'BERN' may be one value: a neighbour with such a row must neither rename a group nor be counted twice.
"""

from __future__ import annotations

import contextlib
import gc
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from engine_backends import STREAMS, Backends
from twin_runs import audited, fitting
from twin_tables import KINDS, pair
from twins import Opened, Run

from margrave.privacy.unit import Adjacency
from margrave.schema.columns import Categorical, Integer, Real
from margrave.schema.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore")  # those of the backends' own libraries
HERE = ("memory-csv", *STREAMS, "ibis-duckdb")
SOME = ["the same row again", "a new category", "another case", "no value at all", "extreme numbers"]
COLUMNS = ("city", "age", "pay", "day", "sold")
COLLATIONS = ("NOCASE", "NOACCENT", "NOCASE.NOACCENT")
EQUAL = ["another case", "an accent", "a blank more", "a new category"]
"""What a collation may hold for equal to another value, and what not."""
MANY = tuple(f"street {place}" for place in range(60))
"""More declared values than a backend is given one by one."""


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    found = Backends(tmp_path_factory.mktemp("twins"))
    yield found
    found.close()


def _held(
    run: Any, tables: tuple[pa.Table, list[pa.Table]], seed: int = 0, *, refusable: bool = False
) -> list[str]:
    """Findings of a run on a table and its neighbours, each opened anew."""
    first, others = tables
    tape, found = audited(run(first), *map(run, others), seed=seed)
    assert tape.error is None or (refusable and tape.error.startswith("InputError: ")), tape.error
    return found


def _tables(
    adjacency: Adjacency,
    k: int,
    kinds: list[str],
    columns: Sequence[str] = COLUMNS,
    *,
    ahead: bool = False,
) -> tuple[pa.Table, list[pa.Table]]:
    pairs = [pair(kind, columns, adjacency, k, ahead=ahead) for kind in kinds]
    pairs += [pair(kinds[0], columns, adjacency, k, many=True, ahead=ahead)] if k else []
    return pairs[0][0], [second for _, second in pairs]


def _audit(
    backends: Backends, engine: str, adjacency: Adjacency, k: int, whole: bool, kinds: list[str]
) -> list[str]:
    def run(table: pa.Table) -> Run:
        def opened(on_step: Any) -> Any:
            data = Opened(backends.open(engine, table))
            return fitting(data, "mst", COLUMNS, adjacency, k, whole=whole)(on_step)

        return opened

    return _held(run, _tables(adjacency, k, kinds))


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("engine", HERE)
def test_no_engine_moves_further_than_declared(
    backends: Backends, engine: str, adjacency: Adjacency, k: int, whole: bool
) -> None:
    kinds = list(KINDS) if (adjacency, k) == ("add_remove", 0) else SOME
    assert _audit(backends, engine, adjacency, k, whole, kinds) == []


PARTLY = Schema(
    (
        Integer(name="age", lower=0, strict=False),
        Real(name="pay", edges=tuple(range(0, 7000, 1000)), rare=0.1, strict=False),
        Categorical(name="city", rare=0.05),
    )
)
"""One bound of numbers, bins of which the rare ones are merged, and values of which the rare ones are."""


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("engine", ["memory", *HERE])
def test_no_look_at_a_column_moves_further_than_declared(
    backends: Backends, engine: str, adjacency: Adjacency, k: int
) -> None:
    """Moments and times as text, numbers as text, and columns of which something is declared."""
    columns = ("city", "age", "pay", "stamp", "hour", "code")

    def run(table: pa.Table) -> Run:
        def opened(on_step: Any) -> Any:
            data = Opened(backends.open(engine, table))
            more = {"whole": False, "schema": PARTLY}
            return fitting(data, "independent", columns, adjacency, k, **more)(on_step)

        return opened

    kinds = [*SOME, "another spelling", "text that looks like a number"]
    assert _held(run, _tables(adjacency, k, kinds, columns)) == []


SERVED: list[tuple[Adjacency, int, bool]] = [("add_remove", 0, False), ("replace_one", 3, True)]


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "k", "whole"), SERVED)
@pytest.mark.parametrize("engine", ["postgres", "spark"])
def test_no_server_moves_further_than_declared(
    backends: Backends, engine: str, adjacency: Adjacency, k: int, whole: bool
) -> None:
    kinds = SOME if engine == "postgres" else ["another case"]
    assert _audit(backends, engine, adjacency, k, whole, kinds) == []


@contextlib.contextmanager
def _collated(folder: Path, table: pa.Table, collation: str) -> Iterator[Any]:
    """A DuckDB table whose text has a collation."""
    import duckdb
    import ibis

    path = str(folder / f"{uuid.uuid4().hex}.duckdb")
    kinds = {"string": f"VARCHAR COLLATE {collation}", "int64": "BIGINT", "double": "DOUBLE"}
    kinds |= {"date32[day]": "DATE", "bool": "BOOLEAN"}
    with duckdb.connect(path) as connection:
        columns = ", ".join(f"{field.name} {kinds[str(field.type)]}" for field in table.schema)
        connection.execute(f"CREATE TABLE t ({columns})")
        connection.register("rows", table)
        connection.execute("INSERT INTO t SELECT * FROM rows")  # in the order of the rows
    connection = ibis.duckdb.connect(path)
    try:
        yield connection.table("t")
    finally:
        # Tables that ibis keeps are dropped while their connection is open, not amid another test.
        gc.collect()
        connection.disconnect()


def _in_duckdb(folder: Path, collation: str, adjacency: Adjacency, k: int, **options: Any) -> Any:
    def run(table: pa.Table) -> Run:
        def opened(on_step: Any) -> Any:
            with _collated(folder, table, collation) as data:
                columns = [name for name in table.column_names if name != "who"]
                method = options.pop("method", "independent")
                return fitting(data, method, columns, adjacency, k, **options)(on_step)

        return opened

    return run


@pytest.mark.slow
@pytest.mark.needs_extra("ibis")
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("k", [0, 3])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("collation", COLLATIONS)
def test_a_collation_neither_names_a_group_nor_counts_a_row_twice(
    tmp_path: Path, collation: str, adjacency: Adjacency, k: int, whole: bool
) -> None:
    """The first row of a group would name it. A table may be refused for its collation, if all are alike."""
    run = _in_duckdb(tmp_path, collation, adjacency, k, whole=whole)
    assert _held(run, _tables(adjacency, k, EQUAL, ahead=True), refusable=True) == []


def _street(more: list[str], adjacency: Adjacency) -> list[pa.Table]:
    """Tables of one column with many values, and neighbours with an odd one."""
    rows = list(MANY * 4)
    before = [] if adjacency == "add_remove" else [MANY[0]]
    return [pa.table({"street": pa.array(rows + odd)}) for odd in (before, *([text] for text in more))]


@pytest.mark.needs_extra("ibis")
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("declares", ["values", "values that a collation holds for equal", "nothing"])
def test_a_look_up_of_values_counts_every_row_once(
    tmp_path: Path, declares: str, adjacency: Adjacency
) -> None:
    equal = [text.upper() for text in MANY] if "equal" in declares else []
    column = Categorical(name="street", values=(*MANY, *equal), other="(other)", missing=True, strict=False)
    schema = None if declares == "nothing" else Schema((column,))
    first, *others = _street(["STREET 7", "Street 59", "elsewhere"], adjacency)
    run = _in_duckdb(tmp_path, "NOCASE", adjacency, 0, whole=False, schema=schema)
    assert _held(run, (first, others), refusable=True) == []


@pytest.mark.slow
@pytest.mark.needs_extra("postgres")
@pytest.mark.parametrize("whole", [True, False])
def test_a_collation_of_postgres_that_is_not_deterministic(backends: Backends, whole: bool) -> None:
    """ICU's second level: case does not count. The columns are text of that collation."""

    def run(table: pa.Table) -> Run:
        def opened(on_step: Any) -> Any:
            connection = _postgres(backends)
            name, kinds = f"c{uuid.uuid4().hex[:12]}", {"string": "text COLLATE nocase"}
            kinds |= {
                "int64": "bigint",
                "double": "double precision",
                "date32[day]": "date",
                "bool": "boolean",
            }
            columns = ", ".join(f'"{field.name}" {kinds[str(field.type)]}' for field in table.schema)
            connection.create_table("plain", table, overwrite=True)
            with connection.begin() as cursor:
                cursor.execute(f"CREATE TABLE {name} ({columns})")
                cursor.execute(f"INSERT INTO {name} SELECT * FROM plain")  # noqa: S608  (names made here)
            data = connection.table(name)
            return fitting(data, "independent", COLUMNS, "add_remove", 0, whole=whole)(on_step)

        return opened

    assert _held(run, _tables("add_remove", 0, EQUAL, ahead=True), refusable=True) == []


def _postgres(backends: Backends) -> Any:
    """The connection to the server that the backends started, with a collation that does not tell case."""
    backends.open("postgres", pa.table({"a": [1]}))
    connection = backends._connections["postgres"]
    text = (
        "CREATE COLLATION IF NOT EXISTS nocase (provider=icu, locale='und-u-ks-level2', deterministic=false)"
    )
    with connection.begin() as cursor:
        cursor.execute(text)
    return connection
