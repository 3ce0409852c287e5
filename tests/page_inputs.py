"""Files and names that pages of the documentation take for granted: a small table, and what is made of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

import margrave as mg
from margrave.select import Fixed

INCOMES = ["high", "low"]
WARDS = ["medicine", "surgery"]


def make_people(rows: int, seed: int) -> pa.Table:
    """People with an age, a sex, an income, a pay, a ward and whether they are ill; all depend on age."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    old = (age - 18) / 72
    return pa.table(
        {
            "age": age,
            "sex": np.where(rng.random(rows) < 0.6, "F", "M"),
            "income": np.where(rng.random(rows) < 0.2 + 0.6 * old, *INCOMES),
            "pay": np.round(20 + 40 * old + rng.normal(0, 3, rows)).astype(np.int64),
            "ill": np.where(rng.random(rows) < 0.1 + 0.5 * old, "yes", "no"),
            "ward": np.where(rng.random(rows) < 0.4, *WARDS),
        }
    )


def write_people() -> None:
    """The tables that pages call people.csv and so on: private, held out, and three synthetic ones."""
    for seed, name in enumerate(("people", "held_out", "synthetic", "mst", "auto")):
        table = make_people(300, seed)
        csv.write_csv(table, f"{name}.csv")
        pq.write_table(table, f"{name}.parquet")


def fit_people() -> mg.Synthesis:
    """The release people.margrave, of every pair and of the triple that a page asks about."""
    listed = {"sex": ("F", "M"), "income": tuple(INCOMES), "ill": ("no", "yes"), "ward": tuple(WARDS)}
    schema = mg.Schema(
        (
            mg.Integer(name="age", lower=18, upper=90, bins=8, missing=False),
            mg.Integer(name="pay", lower=10, upper=70, bins=8, missing=False),
            *(mg.Categorical(name=name, values=values, missing=False) for name, values in listed.items()),
        )
    )
    cliques = [*combinations(schema.names, 2), ("sex", "income", "age")]
    synthesizer = mg.Synthesizer(select=Fixed(cliques), model="mixture", schema=schema, epsilon=8.0)
    synthesis = synthesizer.fit(make_people(300, 0))
    synthesis.save("people.margrave")
    return synthesis


def prepare_tables(names: dict[str, Any]) -> None:
    synthesis = fit_people()
    synthesis.schema.save("schema.json")
    csv.write_csv(make_visits(), "visits.csv")
    names.update(mg=mg, synthesis=synthesis, schema=synthesis.schema, promise=synthesis.guarantee)


def make_visits() -> pa.Table:
    """Visits of patients, four each at most."""
    return make_people(300, 5).append_column("patient", pa.array(np.arange(300) // 3))


def prepare_questions(names: dict[str, Any]) -> None:
    csv.write_csv(make_visits(), "visits.csv")


def prepare_usefulness(names: dict[str, Any]) -> None:
    fit_people().save("visits.margrave")


def prepare_files(names: dict[str, Any]) -> None:
    write_people()
    names.update(table=make_people(300, 7))


def prepare_runs(names: dict[str, Any]) -> None:
    """For the page of metrics: rows of a table and of two synthetic ones."""
    from margrave.evaluation import Rows
    from margrave.schema.schema import Schema

    prepare_files(names)
    schema: Schema = fit_people().schema
    tables = [Rows.of(make_people(300, seed), schema) for seed in range(3)]
    names.update(schema=schema, rows=tables[0], tables=tables[1:], rng=np.random.default_rng(0))


def prepare_regression(names: dict[str, Any]) -> None:
    synthesis = fit_people()
    write_people()
    names.update(synthesis=synthesis, schema=synthesis.schema, frame=make_people(20, 8).to_pandas())


def prepare_public(names: dict[str, Any]) -> None:
    write_people()
    table = make_people(300, 7)
    names.update(frame=table, other_people=make_people(20, 9).select(["age", "sex"]))


def prepare_engines(names: dict[str, Any]) -> None:
    import duckdb

    write_people()
    for year in (2023, 2024):
        folder = Path(f"parts/year={year}.parquet")
        folder.parent.mkdir(exist_ok=True)
        pq.write_table(make_people(200, year), folder)
    with duckdb.connect("people.duckdb") as base:
        base.execute("create table adults as select * from 'people.parquet'")


PREPARATIONS: dict[str, Callable[[dict[str, Any]], None]] = {
    "docs/engines.md": prepare_engines,
    "docs/metrics.md": prepare_runs,
    "docs/privacy/ledger.md": prepare_files,
    "docs/public.md": prepare_public,
    "docs/questions.md": prepare_questions,
    "docs/regression.md": prepare_regression,
    "docs/report.md": prepare_files,
    "docs/tables.md": prepare_tables,
    "docs/usefulness.md": prepare_usefulness,
}
"""What has to be there before a page runs; a page that is not named here needs nothing."""
