"""A table of national size: 54 million rows x 60 columns, two of them of 2,000 codes whose pair is kept.

    python bench/runs/national.py make --folder DIR [--rows 54000000] [--seed 0]
    python bench/runs/national.py run --folder DIR [--rows 54000000] [--epsilon 1] [--delta 1e-9]

`make` writes national-ROWS.parquet, row group by row group, so that memory does not grow with the rows. A row
has one of 12 hidden classes; 58 columns of 2 to 24 codes follow it, each its own way. The first diagnosis
follows the class by chapter, 2,000 codes in 20 chapters by Zipf's law; the second is one of 15 that go with
the first, and in a tenth of the rows (`--loose`) any code by Zipf's law, more likely of the first one's
chapter. Those few spread over millions of cells, where 54 million rows differ from their own distribution.

`run` synthesizes the table with everything declared, draws as many rows in parts, and prints one line of
JSON: seconds of fitting and of drawing, the peak memory of the process in MB, and total variations against
the private table: of the widest pair (diagnosis by diagnosis), of single diagnoses, the mean of pairs of a
diagnosis with another column, and the mean of 100 other pairs. With fewer rows and `--noise-of 54000000`
epsilon is raised until the noise beside the rows is that of 54 million: a rehearsal, not a release.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sys
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from margrave import Synthesizer
from margrave.privacy.accounting.conversions import gdp_epsilon, gdp_mu
from margrave.schema.columns import Categorical, Column, Integer
from margrave.schema.schema import Schema

__all__ = ["declare_schema", "main", "make_table"]

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

ROWS, GROUP, PART = 54_000_000, 1 << 20, 1 << 20
"""Rows of the table, of a row group, and of a part that is drawn at once."""
CODES, CHAPTERS, CLASSES, PARTNERS, OTHERS = 2_000, 20, 12, 15, 58
DIAGNOSES = ("diagnosis_1", "diagnosis_2")
BYTES_A_ROW = 60
NAMES = [f"D{code:04}" for code in range(CODES)]


class Plan:
    """What all row groups share: distributions, as cumulative shares in one flat table each.

    Args:
        seed: Of everything.
        loose: Share of the rows whose second diagnosis is any.
    """

    def __init__(self, seed: int, loose: float = 0.1) -> None:
        self.loose = loose
        rng = np.random.default_rng([seed, 0])
        self.sizes = {f"c{i:02}": int(rng.integers(2, 25)) for i in range(OTHERS)}
        self.classes = _cumulative(rng.dirichlet(np.full(CLASSES, 3.0))[None, :])
        self.columns = {
            name: _cumulative(rng.dirichlet(np.full(size, 0.8), CLASSES)) for name, size in self.sizes.items()
        }
        often = (np.arange(CODES) + 3.0) ** -1.05
        self.chapter = rng.integers(0, CHAPTERS, CODES)
        liked = rng.gamma(0.7, size=(CLASSES, CHAPTERS))
        self.first = _cumulative(often * liked[:, self.chapter])
        self.partners = rng.choice(CODES, (CODES, PARTNERS), p=often / often.sum())
        self.partner = _cumulative(rng.dirichlet(np.full(PARTNERS, 0.7), CODES))
        close = 1.0 + 4.0 * np.eye(CHAPTERS) + rng.gamma(1.0, size=(CHAPTERS, CHAPTERS))
        self.second = _cumulative(often * close[:, self.chapter])

    def draw(self, rows: int, rng: np.random.Generator) -> dict[str, Longs]:
        """Codes of all columns."""
        hidden = _draw(self.classes, np.zeros(rows, dtype=np.int64), rng)
        first = _draw(self.first, hidden, rng)
        partner = self.partners[first, _draw(self.partner, first, rng)]
        other = _draw(self.second, self.chapter[first], rng)
        found = {
            DIAGNOSES[0]: first,
            DIAGNOSES[1]: np.where(rng.random(rows) < self.loose, other, partner),
        }
        return found | {name: _draw(table, hidden, rng) for name, table in self.columns.items()}


def _cumulative(shares: Floats) -> Floats:
    return np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)


def _draw(table: Floats, lines: Longs, rng: np.random.Generator) -> Longs:
    """A code for each row, by its line of cumulative shares."""
    flat = (table + np.arange(len(table))[:, None]).ravel()
    found = np.searchsorted(flat, lines + rng.random(len(lines)), side="right")
    return np.minimum(found - lines * table.shape[1], table.shape[1] - 1)


def table_path(folder: Path, rows: int) -> Path:
    """Where the table of so many rows is."""
    return folder / f"national-{rows}.parquet"


def make_table(folder: Path, rows: int, seed: int, loose: float) -> None:
    """Write the table, one row group after another."""
    if shutil.disk_usage(folder).free < 2 * BYTES_A_ROW * rows:
        sys.exit(f"not enough disk for {rows} rows")
    plan = Plan(seed, loose)
    names = pa.array(NAMES)
    writer = None
    for turn, start in enumerate(range(0, rows, GROUP)):
        drawn = plan.draw(min(GROUP, rows - start), np.random.default_rng([seed, 1 + turn]))
        columns: dict[str, Any] = {
            name: pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int16)), names)
            if name in DIAGNOSES
            else pa.array(codes.astype(np.int8))
            for name, codes in drawn.items()
        }
        batch = pa.table(columns)
        writer = writer or pq.ParquetWriter(
            table_path(folder, rows), batch.schema, compression="zstd", compression_level=1
        )
        writer.write_table(batch, row_group_size=GROUP)
    if writer is not None:
        writer.close()


def declare_schema(seed: int) -> Schema:
    """Every column declared."""
    columns: list[Column] = [Categorical(name=name, values=tuple(NAMES), missing=False) for name in DIAGNOSES]
    for name, size in Plan(seed).sizes.items():
        columns.append(Integer(name=name, lower=0, upper=size - 1, missing=False))
    return Schema(tuple(columns))


def compared_pairs(schema: Schema) -> dict[str, list[tuple[str, ...]]]:
    """The tables that are compared, by what they are called in the output."""
    others = [name for name in schema.domain.names if name not in DIAGNOSES]
    rng = np.random.default_rng(0)
    pairs = list(combinations(others, 2))
    return {
        "widest_pair": [DIAGNOSES],
        "diagnoses": [(name,) for name in DIAGNOSES],
        "with_diagnosis": [(a, b) for a in DIAGNOSES for b in others],
        "other_pairs": [pairs[i] for i in sorted(rng.choice(len(pairs), 100, replace=False))],
    }


class Tally:
    """Counts of some tables over rows that come in parts.

    Args:
        schema: Of the rows.
        cliques: The tables.
    """

    def __init__(self, schema: Schema, cliques: list[tuple[str, ...]]) -> None:
        self.domain = schema.domain
        self.tables = {clique: np.zeros(self.domain.size(clique), dtype=np.int64) for clique in cliques}

    def add(self, columns: dict[str, Any]) -> None:
        """Count some rows' codes."""
        for clique, table in self.tables.items():
            cells = np.zeros(len(next(iter(columns.values()))), dtype=np.int64)
            for name in clique:
                cells = cells * self.domain[name] + columns[name]
            table += np.bincount(cells, minlength=len(table))

    def apart(self, other: Tally, clique: tuple[str, ...]) -> float:
        """Total variation of a table between both."""
        one, two = self.tables[clique], other.tables[clique]
        return 0.5 * float(np.abs(one / one.sum() - two / two.sum()).sum())


def count_table(path: Path, schema: Schema, cliques: list[tuple[str, ...]]) -> Tally:
    """Exact counts of the private table. **Not private.**"""
    tally = Tally(schema, cliques)
    for batch in pq.ParquetFile(path).iter_batches(GROUP):
        columns = {name: batch.column(name) for name in batch.schema.names}
        tally.add(
            {
                name: (column.indices if name in DIAGNOSES else column).to_numpy(zero_copy_only=False)
                for name, column in columns.items()
            }
        )
    return tally


def run(folder: Path, rows: int, epsilon: float, delta: float, seed: int) -> dict[str, Any]:
    """Fit, draw and compare."""
    path, schema = table_path(folder, rows), declare_schema(seed)
    start = time.perf_counter()
    synthesis = Synthesizer("auto", epsilon=epsilon, delta=delta, schema=schema, engine="stream").fit(path)
    fitted = time.perf_counter()
    groups = compared_pairs(schema)
    cliques = [clique for found in groups.values() for clique in found]
    made, rng = Tally(schema, cliques), np.random.default_rng(seed)
    for first in range(0, rows, PART):
        part = synthesis.encoded(min(PART, rows - first), rng=rng)
        made.add({name: part.column(name) for name in schema.domain.names})
    drawn = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    real = count_table(path, schema, cliques)
    wide = [m for m in synthesis.release.measurements if set(m.clique) == set(DIAGNOSES)]
    found: dict[str, Any] = {
        "rows": rows,
        "columns": len(schema.domain),
        "epsilon": epsilon,
        "delta": delta,
        "sigma_of_the_widest_pair": [round(float(m.sigmas.mean()), 2) for m in wide],
        "fit_seconds": round(fitted - start),
        "draw_seconds": round(drawn - fitted),
        "peak_megabytes": round(peak),
    }
    return found | {
        what: round(float(np.mean([real.apart(made, clique) for clique in some])), 5)
        for what, some in groups.items()
    }


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("step", choices=["make", "run"])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--noise-of", type=int, help="rows whose noise is rehearsed with fewer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loose", type=float, default=0.1)
    given = parser.parse_args()
    if given.step == "make":
        given.folder.mkdir(parents=True, exist_ok=True)
        make_table(given.folder, given.rows, given.seed, given.loose)
    else:
        if given.noise_of is not None:
            mu = gdp_mu(given.epsilon, given.delta) * given.noise_of / given.rows
            given.epsilon = gdp_epsilon(mu, given.delta)
        print(json.dumps(run(given.folder, given.rows, given.epsilon, given.delta, given.seed)))


if __name__ == "__main__":
    main()
