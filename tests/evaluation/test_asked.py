"""Metrics by name, through the front door."""

from __future__ import annotations

import dataclasses
import json
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from people import SCHEMA, people
from threadpoolctl import threadpool_info, threadpool_limits

import margrave as mg
from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.evaluation import Score, Task
from margrave.evaluation.metrics.registry import list_metrics
from margrave.evaluation.review import score_request
from margrave.evaluation.rows import observed_schema, widen_schema
from margrave.evaluation.score import Facts
from margrave.report.comparison.page import render_comparison
from margrave.schema.columns import Categorical, Column, Date, Integer, Real
from margrave.schema.schema import Schema

NAMES = ["fidelity_error", "ks_complement", "query_error", "ml_r2"]


def test_metrics_join_the_comparison_with_their_references() -> None:
    found = mg.evaluate(people(300, 0), people(300, 1, 0.7), test=people(200, 2), metrics=NAMES)
    assert [score.name for score in found.scores][-4:] == NAMES
    assert list(found.references) == ["bootstrap", "shuffled", "real rows"]
    assert found.references["real rows"]["ks_complement"] == 1
    assert 0 < found.references["bootstrap"]["fidelity_error"] < found["fidelity_error"]
    assert np.isnan(found["ml_r2"])
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["scores"][-1]["value"] is None
    assert document["scores"][-1]["note"] == "name a target, the column to predict"
    assert "ml_r2" in str(found)
    assert "not defined" in render_comparison(found)


def test_raw_numbers_reach_the_metrics_in_every_kind_of_file(tmp_path: Path) -> None:
    real, synthetic = people(200, 0), people(150, 1)
    expected = mg.evaluate(real, synthetic, metrics=NAMES[1:3])
    pq.write_table(real, tmp_path / "real.parquet")
    synthetic.to_pandas().to_csv(tmp_path / "synthetic.csv", index=False)
    found = mg.evaluate(tmp_path / "real.parquet", tmp_path / "synthetic.csv", metrics=NAMES[1:3])
    assert found["ks_complement"] == expected["ks_complement"]
    assert found["query_error"] == pytest.approx(expected["query_error"])


def test_a_streamed_table_is_scored_by_codes(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for place in range(2):
        pq.write_table(people(100, place), tmp_path / "parts" / f"{place}.parquet")
    found = mg.evaluate(
        tmp_path / "parts", people(100, 5), schema=SCHEMA, metrics=["ks_complement", "average_tv"]
    )
    assert 0 < found["ks_complement"] < 1
    assert found["average_tv"] == pytest.approx(found["tv_2_mean"])


def test_values_that_only_held_out_rows_have_get_codes_of_their_own() -> None:
    real = open_source(pa.table({"a": ["x", "y"], "b": [1, 2], "c": ["u", "v"]}))[0]
    held_out = open_source(pa.table({"a": ["z", None], "b": [None, 9], "c": ["u", "w"]}))[0]
    schema = observed_schema(real, real)
    wide = widen_schema(schema, held_out)
    assert wide["a"].labels == ("x", "y", "z", "missing")
    assert wide["b"].missing
    assert wide["b"].edges == schema["b"].edges
    declared = observed_schema(real, real).replace([])
    assert widen_schema(schema, held_out, declared) == schema
    assert held_out.bind(wide).encoded.column("a").tolist() == [2, 3]


@pytest.mark.parametrize(
    "column",
    [
        Real(name="a", edges=(0.0, 2.5, 10.0)),
        Integer(name="a", lower=0, upper=9, bins=2),
        Date(name="a", edges=(date(2020, 1, 1), date(2021, 1, 1), date(2022, 1, 1))),
        Categorical(name="a", values=("x", "y", "z")),
    ],
    ids=lambda column: column.kind,
)
def test_what_is_declared_but_for_missing_cells_is_compared_as_declared(column: Column) -> None:
    """Before, bins were cut anew, and a kind was taken for that of its storage."""
    cells = {"date": [date(2020, 5, 1), None], "categorical": ["x", None]}.get(column.kind, [3, None])
    source = open_source(pa.table({"a": cells}))[0]
    found = observed_schema(source, source, Schema((column,)))["a"]
    assert found == dataclasses.replace(column, missing=True, strict=False)


@pytest.mark.parametrize(
    ("cells", "written"),
    [
        (["01032024", "28022023", None], "%d%m%Y"),
        (["01032024", "02282023", "NA"], "%m%d%Y"),
        (["01032024", "28022023", "00000000"], None),
        (["0517", "01032024"], None),
        (["01032024"] * 300 + ["20240229"], None),
    ],
)
def test_digits_are_dates_where_all_of_them_are(
    cells: list[str | None], written: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("when,other\n" + "".join(f"{cell or ''},x\n" for cell in cells), encoding="utf-8")
    source = open_source(path)[0]
    found = observed_schema(source, source)["when"]
    assert (found.format if isinstance(found, Date) else None) == written


def test_digits_in_text_of_typed_storage_are_dates_with_the_year_first_as_well() -> None:
    source = open_source(pa.table({"when": ["20240301", "20230228"], "code": ["12345678", "20240301"]}))[0]
    found = observed_schema(source, source)
    assert isinstance(found["when"], Date)
    assert found["when"].format == "%Y%m%d"
    assert isinstance(found["code"], Categorical)


def test_one_name_and_all_names_are_asked_for_by_a_word() -> None:
    """Before, the letters of the word were taken for names."""
    real, synthetic = people(40, 0), people(40, 1)
    assert mg.evaluate(real, synthetic, metrics="average_tv").scores[-1].name == "average_tv"
    everything = mg.review(real, {"near": synthetic}, metrics="all", pictures=False).first
    assert set(list_metrics()) <= {score.name for score in everything.scores}


def test_an_unknown_metric_is_refused() -> None:
    with pytest.raises(InputError, match="metrics must be among"):
        mg.evaluate(people(20, 0), people(20, 1), metrics=["beauty"])


def test_models_are_trained_with_one_thread() -> None:
    """So that a score does not hang on the number of cores, as in reviews."""
    seen = []

    class Threads:
        facts = Facts("threads", "What it is.", reads="rows")

        def run(self, task: Task) -> Score:
            seen.extend(entry["num_threads"] for entry in threadpool_info())
            return self.facts.score(0.0, "none")

    schema = Schema.from_sizes({"a": 2, "b": 2})
    table = open_source(pa.table({"a": [0, 1], "b": [1, 1]}))[0]
    one: list[Any] = [Threads()]
    with threadpool_limits(limits=2):
        score_request(one, {"real": (table, None), "synthetic": (table, None)}, schema)
    assert set(seen) == {1}
