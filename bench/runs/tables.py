"""Public tables as integer codes, one rule for all: `load(name, folder)`; run it to see their shapes.

    python bench/runs/tables.py --data FOLDER

The rule of the papers: a column of numbers or times with more than 32 distinct values goes to 32
equal-width bins over [min, max], everything else to its sorted distinct values; "?" is a category, and a
missing value (null, NaN, empty) is one more code, the last. A text column with more than 256 distinct
values has its sorted values cut into 64 runs of about equal length (only nycflights13's tailnum and
time_hour). Left out: instance_weight of census_income_kdd (41 columns stay), ID of credit_default (24 stay).
The folder holds the public files under the names in FILES; Adult comes with margrave.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from margrave import Categorical, Ordinal, Schema

BINS = 32
MOST_TEXTS, RUNS = 256, 64
FILES = {
    "adult": "",
    "bank-full": "bank-full.csv.gz",
    "acs_employment": "acs_employment_ma_2015_2018.parquet",
    "census_income_kdd": "census_income_kdd_train.csv.gz",
    "credit_default": "uci_credit_default.csv.gz",
    "diamonds": "diamonds.parquet",
    "nycflights13": "nycflights13.parquet",
    "flights-3m": "flights-3m.parquet",
    "openintro_military": "openintro_military.parquet",
    "openintro_acs12": "openintro_acs12.parquet",
}
DROPPED = {"census_income_kdd": ("instance_weight",), "credit_default": ("ID",)}


def load(name: str, folder: Path | str) -> tuple[pa.Table, dict[str, int]]:
    """A table of int64 codes, and the sizes of its columns."""
    if name == "adult":
        from adult import adult_codes

        return adult_codes()
    raw = _read(Path(folder) / FILES[name])
    columns, sizes = {}, {}
    for column in raw.column_names:
        if column not in DROPPED.get(name, ()):
            columns[column], sizes[column] = codes_of(raw[column])
    return pa.table(columns), sizes


def numeric(name: str, folder: Path | str) -> set[str]:
    """Columns of numbers or times, whose codes stand in order."""
    if name == "adult":
        from adult import BINNED

        return {*BINNED, "education-num"}
    raw = _read(Path(folder) / FILES[name])
    return {column for column in raw.column_names if _is_numeric(raw[column].type)}


def coded_schema(sizes: dict[str, int], ordered: set[str]) -> Schema:
    """A table of codes as margrave is told of it: sizes public, nothing missing, numbers in order."""
    return Schema(
        tuple(
            (Ordinal if name in ordered else Categorical)(name=name, values=tuple(range(size)), missing=False)
            for name, size in sizes.items()
        )
    )


def codes_of(column: pa.ChunkedArray) -> tuple[np.ndarray, int]:
    """Codes of one raw column, shape [rows], and how many there are."""
    column = column.combine_chunks()
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    numbers = _is_numeric(column.type)
    held = np.asarray(pc.invert(_missing(column)))
    present = column.filter(pa.array(held))
    values = present.to_numpy(zero_copy_only=False) if numbers else present.cast(pa.string())
    found, size = _numbers(values) if numbers else _texts(values)
    codes = np.full(len(column), size, dtype=np.int64)
    codes[held] = found
    return codes, size + int(not held.all())


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_timestamp(kind))


def _missing(column: pa.Array) -> pa.Array:
    missing = pc.is_null(column, nan_is_null=pa.types.is_floating(column.type))
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        missing = pc.or_(missing, pc.fill_null(pc.equal(column, ""), False))
    return missing


def _numbers(values: np.ndarray) -> tuple[np.ndarray, int]:
    distinct, codes = np.unique(values, return_inverse=True)
    if len(distinct) <= BINS:
        return codes, len(distinct)
    edges = np.linspace(distinct[0], distinct[-1], BINS + 1)
    return np.clip(np.searchsorted(edges, values, side="right") - 1, 0, BINS - 1), BINS


def _texts(values: pa.Array) -> tuple[np.ndarray, int]:
    encoded = values.dictionary_encode()
    texts = np.asarray(encoded.dictionary.to_pylist(), dtype=object)
    rank = np.empty(len(texts), dtype=np.int64)
    rank[np.argsort(texts)] = np.arange(len(texts))
    codes = rank[np.asarray(encoded.indices)]
    if len(texts) <= MOST_TEXTS:
        return codes, len(texts)
    return codes * RUNS // len(texts), RUNS


def _read(path: Path) -> pa.Table:
    """A Parquet file, or a comma-separated one with spaces trimmed and columns of numbers found."""
    if path.suffix == ".parquet":
        return pq.read_table(path)
    names = path.parent / path.name.replace("_train.csv.gz", "_columns.json")
    header = json.loads(names.read_text()) if names.suffix == ".json" else None
    with gzip.open(path) as handle:
        first = handle.readline().decode().strip().split(",")
    columns = header or [word.strip('"') for word in first]
    with gzip.open(path) as handle:
        table = csv.read_csv(
            handle,
            csv.ReadOptions(column_names=columns, skip_rows=0 if header else 1),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=False
            ),
        )
    return pa.table({name: _typed(pc.utf8_trim_whitespace(table[name])) for name in columns})


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        return column


def main() -> None:
    """Print rows, columns and sizes of every table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--names", nargs="+", choices=FILES, default=list(FILES))
    args = parser.parse_args()
    for name in args.names:
        table, sizes = load(name, args.data)
        print(f"{name}: {table.num_rows} x {table.num_columns}  {sizes}", flush=True)


if __name__ == "__main__":
    main()
