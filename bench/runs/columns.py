"""Values of single columns after discovery: distance, zeros, missing values and round numbers kept.

    python bench/runs/columns.py --data FOLDER --out bench/results/columns.jsonl

Each table is discovered with the third of rho that a run gives to it at the stated epsilon and delta 1e-9,
and rows are drawn from the independent model of the noisy counts of bins that discovery leaves behind. A line
a column and seed:

    w1        Wasserstein distance of present values, over the distance of the real 5 % and 95 % quantiles
    log_w1    the same of sign(x) log(1 + |x|), over its own: heavy tails at every order of magnitude
    zeros, missing        shares in the real and the synthetic column
    grids     for each step, shares of present values other than 0 on its multiples, real and synthetic
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from margrave import __version__
from margrave.datasets import load_adult
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.models.independent import Independent
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.encode import decode

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
from seeded_noise import SeededSource

DELTA = Fraction(1, 10**9)
TABLES: dict[str, tuple[str, dict[str, tuple[float, ...]]]] = {
    "adult": ("", {"capital-gain": (100.0,), "hours-per-week": (5.0, 10.0), "fnlwgt": (10.0,)}),
    "credit_default": (
        "uci_credit_default.csv.gz",
        {"BILL_AMT1": (100.0,), "PAY_AMT1": (100.0, 1000.0), "LIMIT_BAL": (10_000.0,)},
    ),
    "nycflights13": (
        "nycflights13.parquet",
        {"dep_delay": (5.0,), "distance": (5.0,), "sched_dep_time": (5.0, 100.0), "time_hour": (3.6e9,)},
    ),
    "acs12": ("openintro_acs12.parquet", {"income": (100.0, 1000.0), "hrs_work": (5.0,)}),
    "bank_full": ("bank-full.csv.gz", {"balance": (10.0,), "duration": (10.0,)}),
    "diamonds": ("diamonds.parquet", {"carat": (), "price": ()}),
}


def main() -> None:
    """Write one line a column, epsilon and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 5.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--note", default="")
    args = parser.parse_args()
    for name in args.tables:
        real = _table(name, args.data)
        for epsilon in args.epsilons:
            for seed in range(args.seeds):
                _run(name, real, epsilon, seed, args)


def _run(name: str, real: Any, epsilon: float, seed: int, args: argparse.Namespace) -> None:
    start = time.process_time()
    synthetic = drawn(real, epsilon, seed)
    seconds = round(time.process_time() - start, 2)
    head = {"table": name, "epsilon": epsilon, "seed": seed, "cpu": seconds, "margrave": __version__}
    with open(args.out, "a", encoding="utf-8") as out:
        for column, steps in TABLES[name][1].items():
            found = compared(values_of(real[column]), values_of(synthetic[column]), steps)
            line = {**head, "column": column, **found, **({"note": args.note} if args.note else {})}
            out.write(json.dumps(line) + "\n")
            print(line, flush=True)


def drawn(real: Any, epsilon: float, seed: int) -> Any:
    """Rows from the one-way marginals that discovery leaves behind, each column by itself."""
    source, frame = open_source(real)
    ledger = Ledger(
        epsilon=epsilon,
        delta=float(DELTA),
        neighbours=Neighbours(),
        accountant=ZCDP(),
        partition_delta=DELTA / 4,
    )
    curator = Curator(source, ledger, SeededSource(seed))
    schema = curator.discover(None, ledger.total / 3)
    rng = np.random.default_rng(seed)
    model = Independent().fit(schema.domain, curator.measurements)
    table = decode(model.sample(len(real), rng), schema, rng, frame)
    return {name: table[name] for name in table.column_names}


def values_of(column: Any) -> tuple[np.ndarray, float]:
    """Present values as numbers, and the share of missing ones; moments in text become microseconds."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = np.array(column.drop_null().to_pylist(), dtype=str)
        try:
            numbers = np.char.rstrip(texts, "Z").astype("datetime64[us]").astype(np.int64)
        except ValueError:
            numbers = np.array([])
        return numbers.astype(np.float64), column.null_count / len(column)
    numbers = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    held = np.isfinite(numbers)
    return numbers[held], 1.0 - float(held.mean())


def compared(
    real: tuple[np.ndarray, float], synthetic: tuple[np.ndarray, float], steps: tuple[float, ...]
) -> dict[str, Any]:
    """The figures of one column."""
    a, b = real[0], synthetic[0]
    if not len(b):
        return {"w1": None, "missing": [real[1], synthetic[1]]}
    shares = {
        f"{step:g}": [round(float((x[x != 0] % step == 0).mean()), 4) for x in (a, b) if (x != 0).any()]
        for step in steps
    }
    return {
        "w1": round(distance(a, b), 5),
        "log_w1": round(distance(_logs(a), _logs(b)), 5),
        "zeros": [round(float((x == 0).mean()), 4) for x in (a, b)],
        "missing": [round(real[1], 4), round(synthetic[1], 4)],
        "grids": shares,
        "range": [[float(x.min()), float(x.max())] for x in (a, b)],
    }


def _logs(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.log1p(np.abs(values))


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Wasserstein-1 of two samples over the distance of the first one's 5 % and 95 % quantiles."""
    part = (np.arange(4000) + 0.5) / 4000
    first, second = np.quantile(a, part), np.quantile(b, part)
    spread = float(np.quantile(a, 0.95) - np.quantile(a, 0.05)) or float(np.ptp(a)) or 1.0
    return float(np.abs(first - second).mean()) / spread


def _table(name: str, folder: Path) -> Any:
    """The raw table, text files with numbers where all cells are."""
    if name == "adult":
        return _typed(load_adult())
    path = folder / TABLES[name][0]
    if path.suffix == ".parquet":
        return pq.read_table(path)
    from margrave.engines.files import read_file

    return _typed(read_file(path)[0])


def _typed(table: Any) -> Any:
    columns = {}
    for column in table.column_names:
        values = table[column].combine_chunks()
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        try:
            columns[column] = values.cast(pa.float64()).cast(pa.int64())
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            columns[column] = values
    return pa.table(columns)


if __name__ == "__main__":
    main()
