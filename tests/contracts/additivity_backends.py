"""Many small tables opened by one engine, for the contract of additivity."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from additivity_tables import KINDS, Nasty
from engine_backends import Backends

from margrave.engines.opening import open_source

__all__ = ["PUSHED", "STREAMED", "BigTables", "open_small"]

STREAMED = ("memory", "memory-csv", "stream-csv", "stream-parquet", "stream-arrow", "duckdb-file")

PUSHED = {
    "ibis-duckdb": "",
    "ibis-duckdb default": "nocase",
    "ibis-duckdb columns": "NOCASE.NOACCENT",
    "ibis-duckdb accents": "NOACCENT",
    "postgres": "",
    "postgres case": "und-u-ks-level2",
    "postgres base": "und-u-ks-level1-ka-shifted",
    "spark": "",
    "spark lower": "UTF8_LCASE",
    "spark base": "UNICODE_CI_AI",
}
"""Engines that push down, with the collation of the text."""


def open_small(backends: Backends, engine: str, tables: list[Nasty]) -> Iterator[Any]:
    """A source for each table, each from a file of its own or from a table of one database."""
    if engine != "duckdb-file":
        for table in tables:
            yield backends.open(engine, table.arrow())[0]
        return
    import duckdb

    path = Path(backends.folder) / "small.duckdb"
    with duckdb.connect(str(path)) as connection:
        for place, table in enumerate(tables):
            connection.execute(f"DROP TABLE IF EXISTS t{place}")
            connection.from_arrow(table.arrow()).create(f"t{place}")
    for place in range(len(tables)):
        yield open_source(f"{path}::t{place}")[0]


class BigTables:
    """The small tables of one kind behind each other, with their numbers in a column g, in one backend."""

    def __init__(self, backends: Backends, engine: str, tables: list[Nasty]) -> None:
        self.numbers: dict[str, list[int]] = {kind: [] for kind in KINDS}
        rows: dict[str, list[pa.Table]] = {kind: [] for kind in KINDS}
        for number, table in enumerate(tables):
            self.numbers[table.kind].append(number)
            found = table.arrow()
            numbers = pa.array([number] * len(found), pa.int64())
            rows[table.kind].append(found.append_column("g", numbers))
        self.big: dict[str, Any] = {}
        for kind, parts in rows.items():
            if parts:
                self.big[kind] = backends.open_ibis(engine, pa.concat_tables(parts), PUSHED[engine])

    def source(self, number: int, kind: str) -> Any:
        """One of the small tables, as the rows of the large one that have its number."""
        big = self.big[kind]
        return self._quiet(big.filter(big.g == number).select("t", "x"))

    def whole(self, kind: str) -> Any:
        """All tables of a kind, with their numbers."""
        return self._quiet(self.big[kind])

    @staticmethod
    def _quiet(table: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return open_source(table)[0]
