"""Codes that noise hides, merged or not: error and time of one PGM fit to the same measurements.

    python bench/runs/compress.py --data FOLDER --out bench/results/compress.jsonl [--tables adult bank_full]

Numbers of more than 100 values are declared in 100 bins of equal width, all else by value. A method is run
at each epsilon (delta 1e-9); what it measured is then fitted as it is and by `Compressed` with thresholds of
1 and 3 standard deviations. A line a fit: mean total variation of all pairs against the rows, codes, cells of
the junction tree, processor seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from columns import TABLES, _table

from margrave import Schema, Synthesizer, __version__
from margrave.models._grouping import GroupedModel
from margrave.models.compressed import Compressed
from margrave.models.pgm.fitter import PGM
from margrave.schema.columns import Categorical, Column, Integer
from margrave.schema.encode import encode
from tables import DROPPED, FILES, _read

BINS = 100
CODED = ("census_income_kdd",)
"""Tables that `tables.py` knows and `columns.py` does not."""


def raw(name: str, folder: Path) -> pa.Table:
    """The table as its file has it."""
    if name in TABLES:
        return _table(name, folder)
    return _read(folder / FILES[name]).drop_columns(list(DROPPED.get(name, ())))


def declared(table: pa.Table) -> Schema:
    """Bins of equal width for numbers of many values, and the values of all other columns."""
    columns: list[Column] = []
    for name in table.column_names:
        part, missing = table[name], table[name].null_count > 0
        values = sorted({value for value in part.to_pylist() if value is not None}, key=str)
        if not pa.types.is_string(part.type) and len(values) > BINS:
            low, high = int(np.floor(min(values))), int(np.ceil(max(values)))
            columns.append(Integer(name=name, lower=low, upper=high, bins=BINS, missing=missing))
        else:
            columns.append(Categorical(name=name, values=tuple(values), missing=missing))
    return Schema(tuple(columns))


def main() -> None:
    """Write one line a table, method, epsilon, repeat and threshold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tables", nargs="+", choices=(*TABLES, *CODED), default=["adult", "bank_full"])
    parser.add_argument("--methods", nargs="+", default=["mst", "aim"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.2, 1.0, 5.0])
    parser.add_argument("--repeats", type=int, default=1)
    args = parser.parse_args()
    for name in args.tables:
        table = raw(name, args.data)
        schema = declared(table)
        rows = encode(table, schema)
        truth = {}
        for pair in itertools.combinations(schema.domain.names, 2):
            cells = [rows.column(n).astype(np.int64) for n in pair]
            shape = schema.domain.shape(pair)
            flat = np.ravel_multi_index(cells, shape)
            counts = np.bincount(flat, minlength=schema.domain.size(pair))
            truth[pair] = counts.reshape(shape) / rows.rows
        for method, epsilon, repeat in itertools.product(args.methods, args.epsilons, range(args.repeats)):
            made = Synthesizer(method, model="pgm", epsilon=epsilon, delta=1e-9, schema=schema).fit(table)
            for sigmas in (None, 1.0, 3.0):
                head = {"table": name, "method": method, "epsilon": epsilon, "repeat": repeat}
                line = head | {"sigmas": sigmas} | fitted(schema, made.release.measurements, truth, sigmas)
                print(line, flush=True)
                with args.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(line | {"margrave": __version__}) + "\n")


def fitted(schema: Schema, measurements: Any, truth: dict[Any, Any], sigmas: float | None) -> dict[str, Any]:
    """One fit."""
    fitter = PGM() if sigmas is None else Compressed(sigmas=sigmas)
    start = time.process_time()
    model: Any = fitter.fit(schema.domain, measurements)
    seconds = time.process_time() - start
    inner = model.inner if isinstance(model, GroupedModel) else model
    off = [
        0.5 * float(np.abs(found / model.total - truth[pair]).sum())
        for pair, found in zip(truth, model.project_many(list(truth)), strict=True)
    ]
    return {
        "pair": round(float(np.mean(off)), 5),
        "codes": sum(inner.domain.sizes),
        "cells": int(inner.cells),
        "fit_s": round(seconds, 2),
    }


if __name__ == "__main__":
    main()
