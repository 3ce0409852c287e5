"""Contingency tables: estimates with standard errors, files out and in, and models fitted to tables alone."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import margrave as mg
from margrave.errors import InputError, MargraveError, SchemaError
from margrave.models.independent import Independent
from margrave.privacy.unit import Neighbours
from margrave.tables.estimates import (
    Estimate,
    estimate_measured,
    estimate_modelled,
    estimate_released,
    estimates,
    long,
)
from margrave.tables.files import read_tables, write_tables

DOMAIN = mg.Domain(("a", "b", "c"), (2, 3, 2))
SCHEMA = mg.Schema(
    (
        mg.Categorical(name="a", values=("no", "missing"), missing=True),
        mg.Integer(name="b", lower=0, upper=9, bins=3, missing=False),
        mg.Boolean(name="c", missing=False),
    )
)
PROMISE = mg.Guarantee(1.0, 1e-9, 0.02, Neighbours(), "zcdp")


def table(clique: tuple[str, ...], sigma: float, rng: np.random.Generator) -> mg.NoisyMarginal:
    return mg.NoisyMarginal(clique, rng.normal(100, 10, DOMAIN.shape(clique)), sigma)


@pytest.fixture(scope="module")
def synthesis() -> mg.Synthesis:
    rng = np.random.default_rng(0)
    rows = pa.table(
        {
            "a": rng.choice(["no", "missing", None], 4000, p=[0.5, 0.3, 0.2]),
            "b": rng.integers(0, 10, 4000),
            "c": rng.random(4000) < 0.3,
        }
    )
    return mg.Synthesizer("mst", epsilon=1.0, schema=SCHEMA).fit(rows)


def test_measured_pools_every_table_that_holds_the_clique() -> None:
    rng = np.random.default_rng(1)
    pair, whole, other = (
        table(("b", "a"), 2.0, rng),
        table(("a", "b", "c"), 3.0, rng),
        table(("c",), 1.0, rng),
    )
    found = estimate_measured(DOMAIN, [pair, whole, other], ("a", "b"))
    assert found is not None
    first, second = pair.values.T, whole.values.sum(axis=2)
    weights = 1 / 4, 1 / 18
    assert np.allclose(found.values, (weights[0] * first + weights[1] * second) / sum(weights))
    assert np.allclose(found.errors, sum(weights) ** -0.5)
    assert estimate_measured(DOMAIN, [pair, other], ("a", "c")) is None


def test_measured_keeps_the_order_of_the_names_and_errors_by_cell() -> None:
    sigma = np.arange(1.0, 7.0).reshape(2, 3)
    one = mg.NoisyMarginal(("a", "b"), np.arange(6.0).reshape(2, 3), sigma)
    found = estimate_measured(DOMAIN, [one], ("b", "a"))
    assert found is not None
    assert np.allclose(found.values, one.values.T)
    assert np.allclose(found.errors, sigma.T)
    summed = estimate_measured(DOMAIN, [one], ("b",))
    assert summed is not None
    assert np.allclose(summed.errors, np.sqrt((sigma**2).sum(axis=0)))


def test_intervals_are_normal_or_student_and_never_below_zero() -> None:
    known = Estimate(("a",), np.array([100.0, 1.0]), np.array([10.0, 10.0]), "measured")
    lower, upper = known.interval(0.95)
    assert np.allclose(upper - known.values, 19.59964)
    assert lower.tolist() == pytest.approx([100 - 19.59964, 0.0])
    few = Estimate(("a",), known.values, known.errors, "model", 5.0)
    assert few.interval(0.95)[1][0] - 100 == pytest.approx(25.70582, rel=1e-5)
    with pytest.raises(InputError, match="level must be"):
        known.interval(1.0)


def test_measured_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng, truth, inside = np.random.default_rng(2), np.full((2, 3), 50.0), 0
    for _ in range(400):
        looks = [
            mg.NoisyMarginal(("a", "b"), truth + s * rng.standard_normal(truth.shape), s) for s in (3.0, 5.0)
        ]
        found = estimate_measured(DOMAIN, looks, ("a", "b"))
        assert found is not None
        lower, upper = found.interval(0.9)
        inside += int(((lower <= truth) & (truth <= upper)).sum())
    assert 0.87 < inside / 2400 < 0.93


def test_bootstrap_intervals_cover_the_truth_where_the_model_is_true() -> None:
    rng = np.random.default_rng(3)
    ways = {"a": np.array([0.3, 0.7]), "b": np.array([0.2, 0.3, 0.5]), "c": np.array([0.6, 0.4])}
    truth, inside = 900 * np.einsum("a,b->ab", ways["a"], ways["b"]), 0
    for _ in range(60):
        looks = [
            mg.NoisyMarginal((n,), 900 * p + 12.0 * rng.standard_normal(len(p)), 12.0)
            for n, p in ways.items()
        ]
        model = Independent().fit(DOMAIN, looks, total=900)
        found = estimate_modelled(
            model, Independent(), looks, [("a", "b")], total=900, replicates=20, rng=rng
        )[0]
        assert found.source == "model"
        lower, upper = found.interval(0.9)
        inside += int(((lower <= truth) & (truth <= upper)).sum())
    assert 0.82 < inside / 360 < 0.97


def test_the_table_of_a_synthesis_has_labels_and_figures(synthesis: mg.Synthesis) -> None:
    found = synthesis.table("c", "a", level=0.99)
    assert found.column_names == ["c", "a", "count", "std_error", "lower", "upper"]
    assert found["a"].to_pylist()[:3] == ["no", "missing", "missing (2)"]
    assert sum(found["count"].to_pylist()) == pytest.approx(4000, rel=0.2)
    whole = synthesis.table("a", "b", "c", replicates=3, rng=0)
    assert whole.num_rows == 18
    assert min(whole["std_error"].to_pylist()) >= 0
    again = synthesis.table("a", "b", "c", replicates=3, rng=0)
    assert again.equals(whole)


def test_the_source_can_be_chosen(synthesis: mg.Synthesis) -> None:
    release, model = synthesis.release, synthesis.model
    assert estimates(release, model, [("a",)])[0].source == "measured"
    assert estimates(release, model, [("a",)], source="model", replicates=2, rng=0)[0].source == "model"
    with pytest.raises(InputError, match="columns must be held by a measured table"):
        estimates(release, model, [("a", "b", "c")], source="measured")
    with pytest.raises(InputError, match="source must be one of"):
        estimates(release, model, [("a",)], source="guess")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="replicates must be"):
        estimates(release, model, [("a", "b", "c")], replicates=1)
    with pytest.raises(SchemaError):
        synthesis.table("nothing")
    with pytest.raises(InputError, match="named once"):
        synthesis.table("a", "a")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".json"])
def test_what_is_written_reads_back(suffix: str, synthesis: mg.Synthesis, tmp_path: Path) -> None:
    path = tmp_path / f"tables{suffix}"
    synthesis.write_tables(path)
    carried = suffix in (".parquet", ".arrow", ".json")
    back = read_tables(path, schema=None if carried else SCHEMA)
    assert back.schema == SCHEMA
    assert back.guarantee == (synthesis.guarantee if carried else None)
    wanted = estimate_released(synthesis.release)
    assert len(back.measurements) == len(wanted)
    for one, two in zip(back.measurements, wanted, strict=True):
        assert one.clique == two.clique
        assert np.allclose(one.values, two.values, rtol=1e-12)
        assert np.allclose(one.sigmas, two.errors, rtol=1e-12)


def test_a_file_without_its_schema_asks_for_one(synthesis: mg.Synthesis, tmp_path: Path) -> None:
    synthesis.write_tables(tmp_path / "t.csv", [("a", "b")])
    with pytest.raises(InputError, match="schema must be given"):
        read_tables(tmp_path / "t.csv")
    with pytest.raises(InputError, match="guarantee must be stated"):
        mg.fit_tables(tmp_path / "t.csv", schema=SCHEMA)


def test_a_foreign_file_needs_labels_counts_and_errors_only(tmp_path: Path) -> None:
    path = tmp_path / "foreign.csv"
    path.write_text("c,count,std_error\nTrue,30,2\nFalse,70.5,2\n")
    found = read_tables(path, schema=SCHEMA)
    assert found.measurements[0].clique == ("c",)
    assert found.measurements[0].values.tolist() == [70.5, 30.0]
    assert found.measurements[0].sigma == 2.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("c,count,std_error\nTrue,30,2\n", "complete"),
        ("c,count,std_error\nTrue,30,2\nTrue,30,2\n", "complete"),
        ("c,count,std_error\nTrue,30,2\nMaybe,30,2\n", "labels of c"),
        ("c,count,std_error\nTrue,30,0\nFalse,30,0\n", "std_error must be"),
        ("c,count,std_error\nTrue,inf,1\nFalse,30,1\n", "finite"),
        ("c,count\nTrue,30\nFalse,30\n", "count and std_error"),
        ("c,count,std_error\nTrue,many,1\nFalse,30,1\n", "whole file"),
        ("", "whole file"),
    ],
)
def test_a_file_with_a_fault_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_tables(tmp_path / "t.csv", schema=SCHEMA)


def test_other_faults_of_files_are_refused(synthesis: mg.Synthesis, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="existing file"):
        read_tables(tmp_path / "none.csv")
    path = tmp_path / "t.json"
    synthesis.write_tables(path)
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"margrave_tables": 99}))
    with pytest.raises(InputError, match="version"):
        read_tables(path)
    document["tables"][0]["labels"][0][0] = "else"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="labels of"):
        read_tables(path)
    with pytest.raises(InputError, match="ending in one of"):
        synthesis.write_tables(tmp_path / "t.xlsx")
    clash = mg.Schema((mg.Boolean(name="count", missing=False),))
    with pytest.raises(InputError, match="column names"):
        long([Estimate(("count",), np.ones(2), np.ones(2), "measured")], clash)


@settings(max_examples=300, deadline=None)
@given(
    noise=st.binary(max_size=400), suffix=st.sampled_from([".csv", ".json", ".parquet", ".arrow", ".csv.gz"])
)
def test_any_bytes_are_read_or_refused(
    noise: bytes, suffix: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("bytes") / f"t{suffix}"
    path.write_bytes(noise)
    with pytest.raises(MargraveError):
        read_tables(path, schema=SCHEMA)


def test_a_model_of_tables_alone_makes_rows_and_is_saved(synthesis: mg.Synthesis, tmp_path: Path) -> None:
    synthesis.write_tables(tmp_path / "t.parquet")
    again = mg.fit_tables(tmp_path / "t.parquet", model="pgm")
    assert again.guarantee == synthesis.guarantee
    assert np.allclose(again.marginal("a"), synthesis.marginal("a"), atol=0.02 * synthesis.rows)
    assert again.sample(50, rng=0).num_rows == 50
    again.save(tmp_path / "t.margrave")
    assert mg.load(tmp_path / "t.margrave").rows == again.rows
    again.report(tmp_path / "t.html")
    assert "<html" in (tmp_path / "t.html").read_text()
    with pytest.raises(InputError, match="tables must be one or more"):
        mg.fit_tables(mg.read_tables(_empty(tmp_path)), guarantee=PROMISE)


def _empty(folder: Path) -> Path:
    write_tables([], SCHEMA, folder / "none.json")
    return folder / "none.json"


def test_parquet_says_the_guarantee_in_its_metadata(synthesis: mg.Synthesis, tmp_path: Path) -> None:
    synthesis.write_tables(tmp_path / "t.parquet")
    note = json.loads(pq.read_schema(tmp_path / "t.parquet").metadata[b"margrave_tables"])
    assert note["guarantee"]["epsilon"] == 1.0
    assert math.isclose(note["guarantee"]["rho"], synthesis.guarantee.rho)
