"""The columns to release are named, or those to leave out: the others are as if they were not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import margrave as mg
from command_line import call
from margrave.cli.options import split_names
from margrave.errors import InputError, SchemaError
from margrave.schema.constraints.rules import Ordered
from margrave.schema.frame import Selection

NAMES = ["who", "age", "height, cm", "sex", "tags"]
ROWS = 300
TABLE = pa.table(
    [
        pa.array(np.arange(ROWS) // 3),
        pa.array(np.arange(ROWS) % 70),
        pa.array(150 + np.arange(ROWS) % 40),
        pa.array(["F", "M", "F"] * (ROWS // 3)),
        pa.array([[1, 2]] * ROWS),
    ],
    names=NAMES,
)
SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=0, upper=110),
        mg.Integer(name="height, cm", lower=100, upper=250),
        mg.Categorical(name="sex", values=("F", "M")),
    ),
    rules=(Ordered("age", "height, cm"),),
)


def text_table(folder: Path) -> Path:
    path = folder / "t.csv"
    lines = [f"{i // 3},{i % 70},{150 + i % 40},{'FMF'[i % 3]},note {i}" for i in range(ROWS)]
    path.write_text("\n".join(['who,age,"height, cm",sex,tags', *lines]) + "\n")
    return path


def synthesizer(**options: Any) -> mg.Synthesizer:
    return mg.Synthesizer("independent", **{"epsilon": 1.0, **options})


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars", "parquet", "stream", "csv", "csv stream"])
def test_what_is_left_out_is_not_read(kind: str, tmp_path: Path) -> None:
    """A column of lists cannot be released, and does not matter where it is left out."""
    import polars as pl

    pq.write_table(TABLE, tmp_path / "t.parquet")
    csv = text_table(tmp_path)
    data: Any = {"arrow": TABLE, "pandas": TABLE.to_pandas(), "polars": pl.from_arrow(TABLE)}.get(kind)
    if data is None:
        data = csv if kind.startswith("csv") else tmp_path / "t.parquet"
    engine = "stream" if "stream" in kind else "auto"
    for selection in ({"drop": ["tags", "sex"]}, {"columns": ["height, cm", "age"]}):
        run = synthesizer(unit=mg.Unit("who"), engine=engine, **selection)
        assert set(run.plan(data).discovered) == {"age", "height, cm"}
        synthesis = run.fit(data)
        assert synthesis.schema.names == ("age", "height, cm")
        assert list(synthesis.sample_arrow(3).column_names) == ["age", "height, cm"]
        assert set(synthesis.release.dtypes) == {"age", "height, cm"}


def made_in_duckdb(folder: Path) -> Path:
    import duckdb

    place = folder / "t.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.execute("CREATE TABLE t AS SELECT i % 7 AS a, i % 3 AS b, [i] AS l FROM range(90) r(i)")
    return place


def test_columns_of_a_table_in_a_database(tmp_path: Path) -> None:
    assert synthesizer(drop=["l"]).fit(f"{made_in_duckdb(tmp_path)}::t").schema.names == ("a", "b")


@pytest.mark.needs_extra("ibis")
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")
def test_columns_of_a_table_that_its_database_counts(tmp_path: Path) -> None:
    import ibis

    table = ibis.duckdb.connect(made_in_duckdb(tmp_path)).table("t")
    assert synthesizer(drop=["l"]).fit(table).schema.names == ("a", "b")


def test_unknown_names_are_refused_with_those_there_are() -> None:
    for selection in ({"columns": ["age", "size"]}, {"drop": ["size"]}):
        param = next(iter(selection))
        for ask in (synthesizer(**selection).plan, synthesizer(**selection).fit):
            with pytest.raises(InputError, match=rf"{param} must be among \['who'.* got \['size'\]"):
                ask(TABLE)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": "age"}, "a list of names"),
        ({"drop": [1]}, "a list of names"),
        ({"columns": []}, "one name or more"),
        ({"columns": ["age"], "drop": ["sex"]}, "left out with columns"),
        ({"drop": ["who"], "unit": mg.Unit("who")}, "of other columns than the owner's"),
        ({"columns": ["who", "age"], "unit": mg.Unit("who")}, "of other columns than the owner's"),
        ({"method": "auto", "drop": ["sex"], "target": "sex"}, r"target must be about .* got \['sex'\]"),
        ({"method": "auto", "columns": ["age"], "target": "sex"}, r"target must be about .* got \['sex'\]"),
        ({"drop": ["sex"], "select": mg.select.Fixed([("age", "sex")])}, r"select must be .* got \['sex'\]"),
    ],
)
def test_refused_before_a_table_is_opened(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        mg.Synthesizer(**{"method": "independent", "epsilon": 1.0, **options})


def test_a_schema_may_speak_of_what_is_left_out_and_a_rule_may_not(tmp_path: Path) -> None:
    unruled = mg.Schema(SCHEMA.columns)
    unruled.save(tmp_path / "schema.json")
    for schema in (unruled, tmp_path / "schema.json"):
        synthesis = synthesizer(schema=schema, columns=["sex"]).fit(TABLE)
        assert synthesis.schema.names == ("sex",)
    assert Selection(drop=["sex"]).restrict(SCHEMA) == mg.Schema(SCHEMA.columns[:2], SCHEMA.rules)
    assert Selection(columns=["tags"]).restrict(unruled) is None
    for selection in ({"drop": ["age"]}, {"columns": ["sex", "age"]}):
        with pytest.raises(SchemaError, match="rules must be about columns that are released"):
            synthesizer(schema=SCHEMA, **selection)


def test_nothing_left_to_release_is_refused() -> None:
    with pytest.raises(InputError, match="such that a column is left"):
        synthesizer(unit=mg.Unit("who"), drop=NAMES[1:]).plan(TABLE)


def test_a_resumed_run_has_to_leave_out_the_same(tmp_path: Path) -> None:
    ledger = tmp_path / "l.jsonl"
    table = TABLE.drop_columns(["tags"])
    synthesizer(ledger=ledger, drop=["height, cm"]).fit(table)
    with pytest.raises(InputError, match="set of columns"):
        synthesizer(ledger=ledger, drop=["age"]).fit(table, resume=True)


def test_names_are_parted_by_commas_as_in_a_csv_file() -> None:
    assert split_names("drop", ['age, "height, cm"', "sex"]) == ["age", "height, cm", "sex"]
    assert split_names("drop", None) is None
    for text in ("", "a,,b"):
        with pytest.raises(InputError, match="Try --drop age,sex"):
            split_names("drop", [text])


def test_the_command_line_takes_them(tmp_path: Path) -> None:
    table, out = text_table(tmp_path), tmp_path / "out.csv"
    chosen = ["--columns", 'sex,"height, cm"']
    done = call("schema", table, "--owner", "who", *chosen)
    assert [column["name"] for column in json.loads(done.out)["columns"]] == ["height, cm", "sex"]
    planned = call("plan", table, "-e", "1", "--drop", "tags", "--drop", "who,sex", "--json")
    assert set(json.loads(planned.out)["discovered"]) == {"age", "height, cm"}
    asked = ["synthesize", table, "-e", "1", "--method", "independent", "--out", out, "-q"]
    assert call(*asked, *chosen, "--owner", "who").code == 0
    assert out.read_text().splitlines()[0] == '"height, cm",sex'
    refused = call(*asked, "--drop", "size", "--force", "--ledger", tmp_path / "l.jsonl")
    assert (refused.code, "drop must be among" in refused.err) == (2, True)
    assert not (tmp_path / "l.jsonl").exists()
    spec = {
        "data": {"table": "t.csv", "drop": ["who", "tags"]},
        "privacy": {"epsilon": 1},
        "method": {"name": "independent"},
        "outputs": {"rows": "spec.csv"},
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    assert call("release", tmp_path / "spec.json", "-q").code == 0
    assert (tmp_path / "spec.csv").read_text().splitlines()[0] == 'age,"height, cm",sex'
