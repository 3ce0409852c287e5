"""True public facts declared one sort at a time: whether any makes the rows worse than nothing declared.

    python bench/runs/declared.py [--tables hospital choosing/stays-a] [--epsilon 1] [--repeats 1]
        [--facts nothing formats missing bounds values all] [--rows 12000] [--method auto] [--seed 0] [--save]

Each table is written as a text file and released with nothing declared, and then with one sort of fact
declared for every column that it speaks of:

    formats  the kind of each column of numbers, dates and times, and how many decimals its numbers have
    missing  the same kinds, and in which columns values are missing
    bounds   the least and the greatest number, date or time
    values   the values of text
    all      all of these

The facts are read off the rows, so each is true; that makes the figures **not private**. `pairs` is the mean
total variation over all pairs of columns in bins of like many rows, `slope` the slope of rank correlations
(1 is best), `kept` the dependence that is kept. Of the hospital (`hospital.py`) the worst relative distance
of a mean and of a quantile is printed too. With --seed the noise is drawn from a seed; it is the system's
without. Needs margrave[test].
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import platform
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hospital
import pandas as pd
import pyarrow as pa

from margrave import Schema, Synthesizer, Unit
from margrave.benchmark.nursery import find_nursery_table
from margrave.benchmark.prepared import read_schema, scoring_schema
from margrave.engines.frames import read_table
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows
from margrave.evaluation.task import Task
from margrave.files import write_table
from margrave.schema.columns import Binned, Column, Date, Listed, Moment
from margrave.schema.columns.binned import SpeltNumber

RESULTS = Path(__file__).parents[1] / "results" / "declared.jsonl"
FACTS = ("nothing", "formats", "missing", "bounds", "values", "all")
METRICS = {"pairs": "average_tv", "slope": "rank_slope", "kept": "dependence_kept"}
BINS = 20
KEYS = ("visit", "note")
"""Columns of the hospital that are not scored: all different, or free text."""


def make_table(word: str, rows: int) -> tuple[Any, Unit | None]:
    """A table of the nursery or the hospital, and what it protects."""
    if word == "hospital":
        patients = round(rows * hospital.PATIENTS / hospital.VISITS)
        return hospital.make_visits(rows, patients), Unit("patient", hospital.CAP)
    entry = find_nursery_table(word)
    return entry.load(rows), Unit(entry.owner, entry.max_rows) if entry.owner else None


def find_facts(path: Path, names: list[str], full: Schema) -> Schema:
    """The schema of the rows as the text file has them: dates and spelt numbers. **Not private.**"""
    text = pd.read_csv(path, dtype=str, keep_default_na=False)[names]
    spelt: list[Column] = [
        dataclasses.replace(column, spelling=_spell(text[column.name]))
        for column in full.columns
        if isinstance(column, SpeltNumber)
    ]
    # pandas has days as moments, and writes them as dates.
    spelt += [
        Date(
            name=column.name,
            lower=column.spell(column.lower)[:10],
            upper=column.spell(column.upper)[:10],
            missing=column.missing,
            strict=False,
        )
        for column in full.columns
        if isinstance(column, Moment)
        and column.lower is not None
        and column.upper is not None
        and text[column.name].str.fullmatch(r"([0-9]{4}-[0-9]{2}-[0-9]{2})?").all()
    ]
    return full.replace(spelt)


def _spell(text: Any) -> str:
    """The fewest and the most decimals of some numbers, as a spelling says them."""
    decimals = text[text != ""].map(lambda one: len(one.partition(".")[2]))
    least, most = int(decimals.min()), int(decimals.max())
    return f"0.{'0' * least}{'#' * (most - least)}" if most else "0"


def declare(column: Column, fact: str) -> Column | None:
    """What one sort of fact says of a column; None if nothing."""
    name, missing = column.name, column.missing if fact in ("missing", "all") else None
    if isinstance(column, Binned):
        if fact == "values":
            return None
        told: dict[str, Any] = {"missing": missing, "strict": False}
        if fact in ("bounds", "all"):
            told |= {"lower": column.lower, "upper": column.upper}
        if isinstance(column, SpeltNumber) and fact != "bounds":
            told |= {"spelling": column.spelling}
        return type(column)(name=name, **told)
    if fact not in ("values", "all") or not isinstance(column, Listed):
        return None
    return dataclasses.replace(column, missing=missing)


def read_made(path: Path, real: Schema) -> Rows:
    """Synthetic rows of a text file in the codes of the score; a column that was left out is missing."""
    table = read_table(str(path))[0]
    for name in real.names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, pa.string()))
    return Rows.of(table.select(real.names), real)


def run_table(word: str, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A table released once for each sort of fact and repeat."""
    table, unit = make_table(word, asked.rows)
    stored = read_table(table)[0]
    own = [unit.owner] if unit else []
    names = [name for name in stored.column_names if name not in (*own, *KEYS)]
    full = read_schema(stored.select(names), BINS, "quantile")
    scoring = scoring_schema(full)
    real = Rows.of(stored.select(names), scoring)
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "real.csv", Path(folder) / "made.csv"
        if isinstance(table, pd.DataFrame):
            table.to_csv(path, index=False)
        else:
            write_table(stored, path, "")
        facts = find_facts(path, names, full)
        for fact in asked.facts:
            for repeat in range(asked.repeats):
                told = [declare(column, fact) for column in facts.columns]
                schema = Schema(tuple(one for one in told if one is not None)) if fact != "nothing" else None
                seed = None if asked.seed is None else asked.seed + repeat
                start = time.process_time()
                spent = {"epsilon": asked.epsilon, "delta": asked.delta, "not_private_test_seed": seed}
                synthesizer = Synthesizer(asked.method, unit=unit, schema=schema, **spent)
                write_table(synthesizer.fit(path).sample_arrow(rng=repeat), out, "")
                seconds = round(time.process_time() - start, 1)
                task = Task(real, read_made(out, scoring), scoring, seed=0)
                scores = zip(METRICS, score_metrics(task, list(METRICS.values())), strict=True)
                found = {name: round(score.value, 5) for name, score in scores}
                if word == "hospital":
                    found |= score_hospital(out, path)
                yield {"table": word, "facts": fact, "seconds": seconds, **found}


def score_hospital(made: Path, real: Path) -> dict[str, Any]:
    """The column whose mean, and whose quantiles, are farthest off, relative to the real ones."""
    synthetic, truth = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (made, real))
    synthetic = synthetic.reindex(columns=truth.columns, fill_value="")  # a column may have been left out
    found, wanted = hospital.score_rows(synthetic, truth), hospital.score_rows(truth, truth)
    worst: dict[str, tuple[float, str]] = {}
    for column in hospital.MEASURED:
        for name in (f"mean_{column}", *(f"{column}_{part:.0%}" for part in hospital.QUANTILES)):
            sort = "mean" if name.startswith("mean") else "quantile"
            scale = max(abs(wanted[name]), 1.0)
            far = abs(found[name] - wanted[name]) / scale
            worst[sort] = max(worst.get(sort, (0.0, "")), (round(far, 3), name))
    return {f"worst {sort}": list(one) for sort, one in worst.items()}


def main() -> None:
    """Run, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", nargs="+", default=["hospital", "choosing/stays-a"])
    parser.add_argument("--facts", nargs="+", choices=FACTS, default=list(FACTS))
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-9)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--seed", type=int, help="of the noise of the first repeat")
    parser.add_argument("--save", action="store_true", help=f"append the outcomes to {RESULTS.name}")
    asked = parser.parse_args()
    options = {name: getattr(asked, name) for name in ("epsilon", "delta", "method", "rows", "seed")}
    for word in asked.tables:
        for found in run_table(word, asked):
            print(" | ".join(f"{key} {value}" for key, value in found.items()), flush=True)
            if asked.save:
                kept = found | options | {"machine": platform.machine(), "python": platform.python_version()}
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(kept) + "\n")


if __name__ == "__main__":
    main()
