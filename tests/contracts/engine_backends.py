"""The engines of the contract: files, DuckDB, and servers that are started here and stopped again."""

from __future__ import annotations

import contextlib
import gc
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from engine_cases import COMMAS

from extras import postgres_folder
from margrave.engines.opening import open_source
from margrave.schema.frame import Frame

__all__ = ["NOT_HELD", "STREAMS", "Backends"]

STREAMS = ("stream-csv", "stream-parquet", "stream-arrow", "duckdb-file")

NOT_HELD = {
    "duckdb-file": {"length"},
    "ibis-duckdb": {"length"},
    "ibis-duckdb queries": {"length"},
    "postgres": {"length", "ns", "s", "ms"},
    "spark": {"length", "ns", "clock"},
}
"""Columns of the tables whose type a backend has not, or stores as another."""


class Backends:
    """Opens a table by any engine; servers start with the first table that needs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self._connections: dict[str, Any] = {}
        self._made = 0

    @property
    def folder(self) -> Path:
        """Where files are made."""
        return self._folder

    def close(self) -> None:
        """Stop what was started."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()  # tables that ibis caches are dropped while their connections are open
            self._connections.clear()
            self._stack.close()
            gc.collect()

    def open(self, engine: str, table: pa.Table) -> tuple[Any, Frame]:
        """The table, opened by one of the engines; the one that "queries" as if it were far away."""
        if engine == "ibis-duckdb queries":
            source, frame = self.open("ibis-duckdb", table)
            source._in_process = False
            return source, frame
        self._made += 1
        path = self._folder / f"t{self._made}.{engine.rpartition('-')[2]}"
        if engine == "memory":
            return open_source(table)
        if engine in ("memory-csv", "stream-csv"):
            pa.csv.write_csv(table, path)
        elif engine == "stream-parquet":
            pq.write_table(table, path, row_group_size=200_000)
        elif engine == "stream-arrow":
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=100_000)
        elif engine == "duckdb-file":
            return open_source(f"{_database(path.with_suffix('.duckdb'), table)}::t")
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return open_source(self._ibis(engine, table, path))
        return open_source(path, text=COMMAS, engine="memory" if engine == "memory-csv" else "stream")

    def open_ibis(self, engine: str, table: pa.Table, collation: str = "") -> Any:
        """The table in the backend that the engine's first word names, its column t in a collation.

        "ibis-duckdb default" makes the collation that of all text of the connection.
        """
        self._made += 1
        backend = engine.split()[0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = self._ibis(backend, table, self._folder / f"t{self._made}.{backend}")
            if not collation:
                return found
            return _collated(found, engine, collation)

    def _ibis(self, engine: str, table: pa.Table, path: Path) -> Any:
        import ibis

        if engine == "ibis-duckdb":
            connection = ibis.duckdb.connect(_database(path.with_suffix(".duckdb"), table))
            self._stack.callback(connection.disconnect)
            return connection.table("t")
        if engine == "postgres":
            if engine not in self._connections:
                port = self._stack.enter_context(_postgres())
                self._connections[engine] = ibis.postgres.connect(
                    host="127.0.0.1", port=port, user="margrave", database="postgres"
                )
                self._stack.callback(self._connections[engine].disconnect)
            return self._connections[engine].create_table(f"t{self._made}", table)
        if engine not in self._connections:
            self._connections[engine] = self._stack.enter_context(_spark())
        connection = ibis.pyspark.connect(self._connections[engine])
        pq.write_table(table, path, coerce_timestamps="us", allow_truncated_timestamps=True)
        self._connections[engine].read.parquet(str(path)).createOrReplaceTempView(f"t{self._made}")
        return connection.table(f"t{self._made}")


def _collated(table: Any, engine: str, collation: str) -> Any:
    connection, name = table.get_backend(), table.get_name()
    if engine == "ibis-duckdb default":
        connection.raw_sql(f"SET default_collation = '{collation}'")
        return table
    if engine.startswith("ibis-duckdb"):
        connection.raw_sql(f"ALTER TABLE {name} ALTER t TYPE VARCHAR COLLATE {collation}")
    elif engine.startswith("postgres"):
        made = f'CREATE COLLATION IF NOT EXISTS "{collation}" '
        with connection.con.cursor() as cursor:
            cursor.execute(f"{made} (provider = icu, locale = '{collation}', deterministic = false)")
            cursor.execute(f'ALTER TABLE {name} ALTER t TYPE text COLLATE "{collation}"')
        connection.con.commit()
    else:
        from pyspark.sql import functions

        view = f"{name}c"
        frame = connection._session.table(name)
        frame.withColumn("t", functions.collate("t", collation)).createOrReplaceTempView(view)
        return connection.table(view)
    return connection.table(name)


def _database(path: Path, table: pa.Table) -> str:
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.register("rows", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM rows")
    return str(path)


@contextlib.contextmanager
def _spark() -> Iterator[Any]:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.log.level": "ERROR",
    }
    builder = SparkSession.builder.master("local[2]").appName("margrave")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@contextlib.contextmanager
def _postgres() -> Iterator[int]:
    """A server on a free port, in a folder of its own; it refuses to run as root."""
    programs = postgres_folder()
    assert programs is not None, "the marker needs_extra skips tests that need a server"
    folder = tempfile.mkdtemp(prefix="margrave-postgres-")
    become: list[str] = []
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            user = pwd.getpwnam("nobody")
        os.chown(folder, user.pw_uid, user.pw_gid)
        become = ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--clear-groups"]
    data = f"{folder}/data"
    options = ["-A", "trust", "-U", "margrave", "-N", "-E", "UTF8", "--locale", "C.UTF-8"]
    init = [*become, str(programs / "initdb"), "-D", data, *options]
    subprocess.run(init, check=True, capture_output=True, cwd=folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*become, str(programs / "postgres"), "-D", data, "-p", str(port), "-k", folder, "-F"]
    server = subprocess.Popen(
        [*command, "-h", "127.0.0.1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder
    )
    try:
        _wait(port)
        yield port
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=300)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(port: int) -> None:
    for _ in range(1500):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            time.sleep(0.5)
            return
        time.sleep(0.2)
    pytest.fail("the PostgreSQL server did not start")
