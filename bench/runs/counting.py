"""All pairs of a table of 10 million rows: margrave, DuckDB, Polars and numpy on the same codes in one run.

    python bench/runs/counting.py [--rows 10000000] [--repeats 5] [--peer-repeats 3]
    python bench/runs/counting.py --data census.csv.gz     rows drawn with replacement from a real file

Without --data the table is seeded: 20 columns of 2 to 1,000 codes, each skewed (Zipf, exponent 1.2) around
one of 16 hidden classes, so that columns depend on one another. With it: the first 20 columns of the file
that are not constant, values ranked, and binned at quantiles where there are more than 1,000.

Everybody gets the codes in memory, in the narrowest unsigned type (DuckDB in a table of its own, made before
the clock starts), and one core, to which the process is bound, but for margrave's second row with two
threads. Each peer is tried in several ways on --trial rows, where all its counts are compared with ours, and
the fastest way is timed on all rows. Repeats of all are interleaved. An update is one row counted in one
pair, whatever work that took. The memory limit is the time to read every code once at the rate at which one
core adds up an array far larger than the caches, measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import combinations
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "1"

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from numba import njit

from margrave.engines.counting import count_tables
from margrave.engines.cover import cover_cliques
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded, code_dtype

__all__ = ["main"]

SIZES = (2, 2, 2, 3, 4, 5, 5, 6, 7, 9, 12, 15, 16, 24, 32, 42, 64, 100, 1000, 1000)
MOST_CODES, CLASSES, FINE = 1000, 16, 4096
Pair = tuple[str, str]
Way = Callable[[], object]


def made(rows: int, seed: int) -> Encoded:
    """The seeded table."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, CLASSES + 1)
    columns = [np.empty(rows, dtype=code_dtype(size)) for size in SIZES]
    tables = []
    for size in SIZES:
        zipf = 1.0 / np.arange(1, size + 1) ** 1.2
        quantiles = (np.arange(FINE) + 0.5) / FINE
        ranks = np.minimum(np.searchsorted(np.cumsum(zipf / zipf.sum()), quantiles), size - 1)
        tables.append(np.stack([rng.permutation(size)[ranks] for _ in range(CLASSES)]))
    for first in range(0, rows, 1 << 20):
        part = slice(first, min(first + (1 << 20), rows))
        held = rng.choice(CLASSES, part.stop - first, p=weights / weights.sum())
        for column, table in zip(columns, tables, strict=True):
            column[part] = table[held, rng.integers(0, FINE, len(held))]
    return Encoded(Domain(tuple(f"x{k:02}" for k in range(len(SIZES))), SIZES), tuple(columns))


def bootstrapped(path: Path, header: bool, rows: int, seed: int) -> Encoded:
    """Rows of a file, drawn with replacement."""
    frame = pl.read_csv(path, has_header=header, infer_schema_length=None)
    kept = [c.rank("dense").fill_null(0).to_numpy() for c in frame if c.n_unique() > 1][: len(SIZES)]
    drawn = np.random.default_rng(seed).integers(0, len(frame), rows)
    sizes, columns = [], []
    for ranks in kept:
        if len(np.unique(ranks)) > MOST_CODES:
            edges = np.unique(np.quantile(ranks, np.linspace(0, 1, MOST_CODES + 1)[1:-1]))
            ranks = np.searchsorted(edges, ranks, side="right")
        codes = np.unique(ranks, return_inverse=True)[1]
        sizes.append(int(codes.max()) + 1)
        columns.append(codes.astype(code_dtype(sizes[-1]))[drawn])
    return Encoded(Domain(tuple(f"x{k:02}" for k in range(len(sizes))), tuple(sizes)), tuple(columns))


def head(encoded: Encoded, rows: int) -> Encoded:
    """The first rows."""
    return Encoded(encoded.domain, tuple(column[:rows] for column in encoded.columns))


def duckdb_ways(encoded: Encoded, pairs: Sequence[Pair]) -> dict[str, Way]:
    """DuckDB on a table of its own."""
    base = duckdb.connect(config={"threads": 1})
    arrow = pa.table(dict(zip(encoded.domain.names, encoded.columns, strict=True)))
    base.register("given", arrow)
    base.execute("create table t as select * from given")
    base.unregister("given")
    single = [f"select {a} a, {b} b, count(*) n from t group by {a}, {b}" for a, b in pairs]  # noqa: S608
    packed = [
        f"select {a}::uinteger * {encoded.domain[b]} + {b} p, count(*) n from t group by p"  # noqa: S608
        for a, b in pairs
    ]
    sets = ", ".join(f"({a}, {b})" for a, b in pairs)
    union = " union all ".join(f"select {k} k, * from ({query})" for k, query in enumerate(single))  # noqa: S608
    names = ", ".join(encoded.domain.names)
    grouped = f"select {names}, count(*) n from t group by grouping sets ({sets})"  # noqa: S608
    return {
        "one query a pair": lambda: [base.execute(query).fetchnumpy() for query in single],
        "one query a pair, packed key": lambda: [base.execute(query).fetchnumpy() for query in packed],
        "union all": lambda: base.execute(union).fetchnumpy(),
        "grouping sets": lambda: base.execute(grouped).fetchnumpy(),
    }


def polars_ways(encoded: Encoded, pairs: Sequence[Pair]) -> dict[str, Way]:
    """Polars, lazy and eager, on two keys and on one that packs them."""
    frame = pl.DataFrame(dict(zip(encoded.domain.names, encoded.columns, strict=True)))
    lazy = frame.lazy()

    def packed(a: str, b: str) -> pl.Expr:
        return (pl.col(a).cast(pl.UInt32) * encoded.domain[b] + pl.col(b)).alias("k")

    def packs(engine: str) -> list[pl.DataFrame]:
        return pl.collect_all([lazy.group_by(packed(a, b)).len() for a, b in pairs], engine=engine)

    return {
        "two keys, collect_all": lambda: pl.collect_all([lazy.group_by(a, b).len() for a, b in pairs]),
        "two keys, streaming": lambda: pl.collect_all(
            [lazy.group_by(a, b).len() for a, b in pairs], engine="streaming"
        ),
        "two keys, eager": lambda: [frame.group_by(a, b).len() for a, b in pairs],
        "packed key, collect_all": lambda: packs("auto"),
        "packed key, streaming": lambda: packs("streaming"),
    }


def numpy_ways(encoded: Encoded, pairs: Sequence[Pair]) -> dict[str, Way]:
    """numpy's bincount of the cells' numbers."""

    def counted(a: str, b: str) -> np.ndarray:
        cells = encoded.column(a).astype(np.intp)
        cells *= encoded.domain[b]
        cells += encoded.column(b)
        return np.bincount(cells, minlength=encoded.domain.size((a, b)))

    return {"bincount": lambda: [counted(a, b) for a, b in pairs]}


PEERS: Mapping[str, Callable[[Encoded, Sequence[Pair]], dict[str, Way]]] = {
    "duckdb": duckdb_ways,
    "polars": polars_ways,
    "numpy": numpy_ways,
}


def tables(found: object, encoded: Encoded, pairs: Sequence[Pair]) -> list[np.ndarray]:
    """A peer's answer as a table a pair."""
    made = [np.zeros(encoded.domain.shape(pair), dtype=np.int64) for pair in pairs]
    for k, (a, b) in enumerate(pairs):
        if isinstance(found, dict) and "k" in found:
            mine = found["k"] == k
            made[k][found["a"][mine], found["b"][mine]] = found["n"][mine]
        elif isinstance(found, dict):
            absent = {n: np.ma.getmaskarray(found[n]) for n in encoded.domain.names}
            mine = ~absent[a] & ~absent[b]
            made[k][found[a][mine].data, found[b][mine].data] = found["n"][mine]
        elif isinstance(found[k], np.ndarray):
            made[k][...] = found[k].reshape(made[k].shape)
        elif isinstance(found[k], dict) and "p" in found[k]:
            made[k].reshape(-1)[found[k]["p"]] = found[k]["n"]
        elif isinstance(found[k], dict):
            made[k][found[k]["a"], found[k]["b"]] = found[k]["n"]
        elif "k" in found[k].columns:
            made[k].reshape(-1)[found[k]["k"].to_numpy()] = found[k]["len"].to_numpy()
        else:
            made[k][found[k][a].to_numpy(), found[k][b].to_numpy()] = found[k]["len"].to_numpy()
    return made


def timed(way: Way) -> tuple[float, float]:
    """Seconds on the clock and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    way()
    return time.perf_counter() - wall, time.process_time() - cpu


def chosen(encoded: Encoded, pairs: Sequence[Pair], names: Sequence[str]) -> dict[str, tuple[str, dict]]:
    """Each peer's fastest way on a few rows, and processor seconds of all of them."""
    ours = count_tables(encoded, pairs, threads=1)
    best = {}
    for name in names:
        took = {}
        for way, run in PEERS[name](encoded, pairs).items():
            same = zip(ours, tables(run(), encoded, pairs), strict=True)
            if not all(np.array_equal(a, b) for a, b in same):
                raise SystemExit(f"{name}, {way}: not the same counts")
            took[way] = min(timed(run)[1] for _ in range(2))
            print(f"  trial {name}, {way}: {took[way]:.2f} s", flush=True)
        best[name] = (min(took, key=lambda way: took[way]), took)
    return best


@njit("uint64(uint64[::1])", cache=False, nogil=True)
def added(words):
    """The sum of an array, which the compiler turns into vector additions."""
    total = np.uint64(0)
    for k in range(len(words)):
        total += words[k]
    return total


def memory_rate(repeats: int = 7) -> dict[str, float]:
    """Bytes that one core reads a processor second, and that it reads and writes in copying: the most."""
    source = np.ones(1 << 26, dtype=np.uint64)
    target = np.empty_like(source)
    reads = [source.nbytes / timed(lambda: added(source))[1] for _ in range(repeats)]
    copies = [2 * source.nbytes / timed(lambda: np.copyto(target, source))[1] for _ in range(repeats)]
    return {"read": max(reads), "copy": max(copies)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def shown(values: Mapping[str, float]) -> str:
    """A spread as text."""
    return f"{values['median']:.3g} [{values['min']:.3g}, {values['max']:.3g}]"


def processor() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def raced(
    encoded: Encoded, pairs: Sequence[Pair], best: dict[str, tuple[str, dict]], asked: argparse.Namespace
) -> dict[str, list[tuple[float, float]]]:
    """Times of everybody on all rows, interleaved; only margrave's two threads may use two cores."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    runs: dict[str, tuple[int, Way]] = {
        "margrave": (asked.repeats, lambda: count_tables(encoded, pairs, threads=1)),
        "margrave, 2 threads": (asked.repeats, lambda: count_tables(encoded, pairs, threads=2)),
    }
    for name, (way, _) in best.items():
        runs[name] = (asked.peer_repeats, PEERS[name](encoded, pairs)[way])
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    runs["margrave"][1]()
    for turn in range(max(asked.repeats, asked.peer_repeats)):
        for name, (repeats, run) in runs.items():
            if turn < repeats:
                if cores:
                    os.sched_setaffinity(0, cores if "2" in name else {min(cores)})
                found[name].append(timed(run))
                print(f"  {name}: {found[name][-1][0]:.3f} s, cpu {found[name][-1][1]:.3f}", flush=True)
    if cores:
        os.sched_setaffinity(0, cores)
    return found


def main() -> None:
    """Run the comparison, print it and append it to the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--trial", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer-repeats", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--header", action="store_true", help="the first line of --data holds names")
    parser.add_argument("--out", type=Path, default=Path("bench/results/counting.jsonl"))
    asked = parser.parse_args()
    encoded = (
        bootstrapped(asked.data, asked.header, asked.rows, asked.seed)
        if asked.data
        else made(asked.rows, asked.seed)
    )
    pairs: list[Pair] = list(combinations(encoded.domain.names, 2))
    best = chosen(head(encoded, asked.trial), pairs, asked.peers)
    found = raced(encoded, pairs, best, asked)
    report(encoded, pairs, best, found, asked)


def report(
    encoded: Encoded,
    pairs: Sequence[Pair],
    best: dict[str, tuple[str, dict]],
    found: dict[str, list[tuple[float, float]]],
    asked: argparse.Namespace,
) -> None:
    """Print the figures and append them to the results."""
    memory, nbytes = memory_rate(), sum(column.nbytes for column in encoded.columns)
    index = encoded.domain.index
    plan = cover_cliques([(index(a), index(b)) for a, b in pairs], encoded.domain.sizes, encoded.rows)
    setting = {
        "data": asked.data.name.split(".")[0] if asked.data else f"seeded {asked.seed}",
        "rows": encoded.rows,
        "sizes": encoded.domain.sizes,
        "pairs": len(pairs),
        "tables_counted": len(plan.tables),
        "bytes_of_codes": nbytes,
        "memory_bytes_a_second": memory,
        "when": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "numba", "duckdb", "polars")},
    }
    ours = spread([cpu for _, cpu in found["margrave"]])
    limit = nbytes / memory["read"]
    print(
        f"{setting['data']}: {len(pairs)} pairs from {len(plan.tables)} tables; reading alone {limit:.4f} s"
    )
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with asked.out.open("a", encoding="utf-8") as file:
        for name, times in found.items():
            wall, cpu = spread([time for time, _ in times]), spread([time for _, time in times])
            line = {
                "run": "counting",
                "who": name,
                "repeats": len(times),
                "seconds": wall,
                "cpu_seconds": cpu,
                "updates_a_cpu_second": len(pairs) * encoded.rows / cpu["median"],
                "updates_a_second": len(pairs) * encoded.rows / wall["median"],
                "cpu_ratio_to_margrave": {
                    "median": cpu["median"] / ours["median"],
                    "min": cpu["min"] / ours["max"],
                    "max": cpu["max"] / ours["min"],
                },
                "times_the_memory_limit": cpu["median"] / limit,
                "way": best[name][0] if name in best else None,
                "trial_cpu_seconds": best[name][1] if name in best else None,
                **setting,
            }
            file.write(json.dumps(line) + "\n")
            ratio = line["cpu_ratio_to_margrave"]
            print(
                f"{name:20} {wall['median']:8.3f} s, cpu {shown(cpu)}"
                f"  {line['updates_a_cpu_second']:.3g}/cpu s  x{shown(ratio)}"
                f"  {line['times_the_memory_limit']:.0f} times the memory limit"
            )


if __name__ == "__main__":
    main()
