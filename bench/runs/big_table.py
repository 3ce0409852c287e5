"""A table of 100 million rows x 20 columns of Parquet: all pairs in 4 GB, against DuckDB's own, then AIM.

    python bench/runs/big_table.py [--rows 100000000] [--folder DIR] [--data FLIGHTS] [--steps count,aim]

The table is made once: rows of flights-3m (5 columns) beside rows of Adult (15), both drawn with replacement
in runs of 1,000, so that columns of each depend on one another and rows close by are alike, as in a real
file. Each step is a process of its own, over the same file, one after the other. Memory is sampled every
50 ms: `anonymous` is what the process holds itself, `file` pages of files that the system can drop.
DuckDB groups by the columns as they are stored, but for dates and numbers, which it cuts into the same bins
of equal width by one expression; it counts the pairs one by one, and all in one query with GROUPING SETS.
`pushdown_duckdb` and `pushdown_spark` are margrave's own push-down, over the same file (Spark's memory is
that of its own process and not sampled).
One line of JSON a step goes to bench/results/big_table.jsonl.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from margrave.datasets import load_adult
from margrave.schema.columns import Categorical, Column, Integer, Moment
from margrave.schema.schema import Schema

__all__ = ["main", "make", "schema_for"]

FLIGHTS = Path("data/flights-3m.parquet")
GROUP = 1 << 20
RUN = 1_000
"""Rows that stay together when rows are drawn."""
BINS = {"delay": (-1200, 1800, 60), "distance": (0, 5000, 50), "fnlwgt": (0, 1_500_000, 50)}
BINS |= {"age": (0, 100, 50), "education-num": (0, 20, 20), "capital-gain": (0, 100_000, 50)}
BINS |= {"capital-loss": (0, 5_000, 50), "hours-per-week": (0, 100, 50)}
DAYS = ("2001-01-01", "2001-07-02")
BYTES_A_ROW = 12


def make(rows: int, path: Path, flights: Path, seed: int = 0) -> None:
    """Write the table, in row groups of GROUP rows."""
    if shutil.disk_usage(path.parent).free < 2 * BYTES_A_ROW * rows:
        sys.exit(f"not enough disk for {rows} rows")
    rng = np.random.default_rng(seed)
    tables = [pq.read_table(flights).replace_schema_metadata(None), load_adult()]
    tables = [
        pa.table(
            {n: t[n].cast(pa.string()).dictionary_encode() if _text(t[n]) else t[n] for n in t.column_names}
        )
        for t in tables
    ]
    writer = None
    for first in range(0, rows, GROUP):
        length = min(GROUP, rows - first)
        drawn = [t.take(pa.array(_runs(len(t), length, rng))) for t in tables]
        columns = {name: t[name] for t in drawn for name in t.column_names}
        batch = pa.table(columns).unify_dictionaries()
        writer = writer or pq.ParquetWriter(path, batch.schema, compression="zstd", compression_level=1)
        writer.write_table(batch, row_group_size=GROUP)
    if writer is not None:
        writer.close()


def _text(column: Any) -> bool:
    return bool(pa.types.is_string(column.type) or pa.types.is_large_string(column.type))


def _runs(length: int, rows: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    starts = rng.integers(0, length - RUN, -(-rows // RUN))
    return (starts[:, None] + np.arange(RUN)).reshape(-1)[:rows]


def schema_for(flights: Path) -> Schema:
    """Every column declared, so that only counting is measured."""
    columns: list[Column] = []
    for table in (pq.read_table(flights), load_adult()):
        for name in table.column_names:
            column = table[name]
            missing = bool(column.null_count)
            if name in BINS:
                low, high, bins = BINS[name]
                more = {"lower": low, "upper": high - 1, "bins": bins, "missing": missing, "strict": False}
                columns.append(Integer(name=name, **more))
            elif _text(column):
                values = tuple(sorted(column.drop_null().unique().to_pylist()))
                columns.append(Categorical(name=name, values=values, missing=missing))
            else:
                days = [np.datetime64(day, "D") for day in DAYS]
                edges = [int(day.astype("datetime64[us]").astype(int)) for day in np.arange(*days)]
                columns.append(Moment(name=name, edges=tuple(edges), missing=missing, strict=False))
    return Schema(tuple(columns))


class Memory:
    """Samples what the process holds, in MiB."""

    def __init__(self) -> None:
        self.anonymous = self.file = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            self.anonymous = max(self.anonymous, int(lines["RssAnon"].split()[0]) / 1024)
            self.file = max(self.file, int(lines["RssFile"].split()[0]) / 1024)

    def stop(self) -> dict[str, float]:
        """The most of each, and of both as the system saw it."""
        self._stop.set()
        self._thread.join()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"anonymous": round(self.anonymous), "file": round(self.file), "peak": round(peak)}


def _count(path: Path, schema: Schema) -> dict[str, object]:
    """Encode, then all pairs."""
    from margrave.engines.opening import open_source

    source, _ = open_source(path, engine="stream")
    start = time.perf_counter()
    engine = source.bind(schema)
    encoded = time.perf_counter()
    pairs = list(itertools.combinations(schema.domain.names, 2))
    counts = engine.count(pairs)
    done = time.perf_counter()
    again = engine.count([("sex", "race")])[0]
    return {
        "encode_seconds": round(encoded - start, 2),
        "count_seconds": round(done - encoded, 2),
        "seconds": round(done - start, 2),
        "tables": len(counts),
        "check": [int(cell) for cell in again.reveal().reshape(-1)],
    }


def _duckdb(path: Path, schema: Schema, at_once: bool) -> dict[str, object]:
    """The same tables by DuckDB's group-bys on the file."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET memory_limit = '3500MB'")
    parts = {column.name: _expression(column) for column in schema.columns}
    source = f"read_parquet('{path}')"
    pairs = list(itertools.combinations(parts, 2))
    start = time.perf_counter()
    cells = 0
    if at_once:
        inner = ", ".join(f"{text} AS c{k}" for k, text in enumerate(parts.values()))
        place = {name: f"c{k}" for k, name in enumerate(parts)}
        sets = ", ".join(f"({place[a]}, {place[b]})" for a, b in pairs)
        names = ", ".join(place.values())
        query = f"SELECT {names}, count(*) FROM (SELECT {inner} FROM {source}) "  # noqa: S608
        query += f"GROUP BY GROUPING SETS ({sets})"
        cells = len(connection.execute(query).fetchall())
    else:
        for a, b in pairs:
            query = f"SELECT {parts[a]} AS a, {parts[b]} AS b, count(*) FROM {source} GROUP BY 1, 2"  # noqa: S608
            cells += len(connection.execute(query).fetchall())
    seconds = time.perf_counter() - start
    query = f"SELECT sex, race, count(*) FROM {source} GROUP BY 1, 2 ORDER BY 1, 2"  # noqa: S608
    check = [row[2] for row in connection.execute(query).fetchall()]
    return {"seconds": round(seconds, 2), "tables": len(pairs), "cells": cells, "check": sorted(check)}


def _pushdown(path: Path, schema: Schema, backend: str) -> dict[str, object]:
    """The same tables by margrave through Ibis: DuckDB over the file, or Spark on this machine's cores."""
    import ibis

    from margrave.engines.opening import open_source

    if backend == "duckdb":
        connection = ibis.duckdb.connect()
        table = connection.read_parquet(path)
    else:
        from pyspark.sql import SparkSession

        cores = str(os.cpu_count())
        builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.memory", "6g").config("spark.sql.shuffle.partitions", cores)
        session = builder.config("spark.log.level", "ERROR").getOrCreate()
        session.read.parquet(str(path)).createOrReplaceTempView("people")
        table = ibis.pyspark.connect(session).table("people")
    source, _ = open_source(table)
    start = time.perf_counter()
    engine = source.bind(schema)
    bound = time.perf_counter()
    pairs = list(itertools.combinations(schema.domain.names, 2))
    engine.count(pairs)
    done = time.perf_counter()
    check = engine.count([("sex", "race")])[0].reveal().reshape(-1)
    return {
        "bind_seconds": round(bound - start, 2),
        "count_seconds": round(done - bound, 2),
        "seconds": round(done - start, 2),
        "tables": len(pairs),
        "check": [int(cell) for cell in check],
    }


def _expression(column: Column) -> str:
    if isinstance(column, Moment):
        return f"date_diff('day', DATE '{DAYS[0]}', \"{column.name}\"::DATE)"
    if isinstance(column, Integer):
        low, high, bins = BINS[column.name]
        return f'("{column.name}" - {low}) * {bins} // {high - low}'
    return f'"{column.name}"'


def _aim(path: Path, schema: Schema, seconds: float) -> dict[str, object]:
    """From the file to a hundred thousand rows."""
    import margrave as mg

    start = time.perf_counter()
    synthesizer = mg.Synthesizer("aim", epsilon=1.0, schema=schema, engine="stream", max_seconds=seconds)
    synthesis = synthesizer.fit(path)
    fitted = time.perf_counter()
    rows = synthesis.sample(100_000)
    return {
        "fit_seconds": round(fitted - start, 2),
        "seconds": round(time.perf_counter() - start, 2),
        "measured": len(synthesis.release.measurements),
        "sampled": len(rows),
    }


def _step(name: str, path: Path, schema: Schema, seconds: float) -> dict[str, object]:
    steps: dict[str, Callable[[], dict[str, object]]] = {
        "count": lambda: _count(path, schema),
        "duckdb": lambda: _duckdb(path, schema, False),
        "duckdb_sets": lambda: _duckdb(path, schema, True),
        "pushdown_duckdb": lambda: _pushdown(path, schema, "duckdb"),
        "pushdown_spark": lambda: _pushdown(path, schema, "spark"),
        "aim": lambda: _aim(path, schema, seconds),
    }
    memory = Memory()
    return {**steps[name](), **memory.stop()}


def main() -> None:
    """Make the table where it is not there yet, then run each step in a process of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path, default=Path("big-table"))
    parser.add_argument("--data", type=Path, default=FLIGHTS, help="flights-3m.parquet")
    parser.add_argument("--steps", default="count,duckdb,duckdb_sets,aim")
    parser.add_argument("--aim-seconds", type=float, default=1800.0)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "results" / "big_table.jsonl")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    path = asked.folder / f"flights-adult-{asked.rows}.parquet"
    if asked.one:
        print(json.dumps(_step(asked.one, path, schema_for(asked.data), asked.aim_seconds)))
        return
    asked.folder.mkdir(parents=True, exist_ok=True)
    if not path.is_file():
        make(asked.rows, path.with_suffix(".part"), asked.data)
        path.with_suffix(".part").rename(path)
    for step in asked.steps.split(","):
        done = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--one", step], capture_output=True, text=True
        )
        found = (
            json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {"error": done.returncode}
        )
        line = {
            "what": step,
            "rows": asked.rows,
            "columns": 20,
            "file_mb": round(path.stat().st_size / 1e6),
            **found,
            "cores": os.cpu_count(),
            "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "versions": {name: version(name) for name in ("margrave", "duckdb", "pyarrow", "numpy")},
            "python": platform.python_version(),
        }
        print(json.dumps(line))
        with open(asked.out, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
