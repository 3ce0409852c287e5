"""The front doors in Python: what goes in comes out in kind, under one exact guarantee."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError, ReleaseError, SchemaError
from margrave.privacy.ledger.journal import read_ledger

ROWS = 3000


def _frame(rows: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    sex = rng.choice(["F", "M"], rows)
    age = rng.integers(18, 80, rows)
    income = np.where(sex == "F", 20.0, 30.0) * age + rng.normal(0, 50, rows)
    frame = pd.DataFrame({"select": sex, "age": age, "income": income, "member": rng.random(rows) < 0.4})
    frame.loc[rng.random(rows) < 0.3, "income"] = np.nan
    return frame


@pytest.fixture(scope="module")
def synthesis() -> mg.Synthesis:
    return mg.Synthesizer("mst", epsilon=3.0, delta=1e-6).fit(_frame())


def test_pandas_comes_back_with_names_order_types_and_gaps(synthesis: mg.Synthesis) -> None:
    table = synthesis.sample(rng=1)
    real = _frame()
    assert list(table.columns) == list(real.columns)
    assert (table.dtypes == real.dtypes).all()
    assert abs(len(table) - ROWS) < 300
    assert table["income"].isna().mean() == pytest.approx(0.3, abs=0.05)
    assert set(table["select"]) <= {"F", "M", "(other)"}
    assert synthesis.sample(7).shape == (7, 4)
    assert synthesis.sample(0).shape == (0, 4)


def test_polars_and_arrow_come_back_in_kind() -> None:
    frame = _frame()
    for table in (pl.from_pandas(frame), pa.Table.from_pandas(frame, preserve_index=False)):
        found: Any = mg.synthesize(table, epsilon=3.0, method="independent", rng=0)
        assert type(found) is type(table)
        assert found.schema == table.schema


def test_the_guarantee_is_what_was_asked_for(synthesis: mg.Synthesis) -> None:
    promise = synthesis.guarantee
    assert (promise.epsilon, promise.delta) == (3.0, 1e-6)
    assert promise.accounting == "zcdp"
    assert "differential privacy with epsilon = 3 and delta = 1e-06 for one row, added or removed" in str(
        promise
    )


def test_a_given_value_is_exact_and_the_rest_follows(synthesis: mg.Synthesis) -> None:
    women = synthesis.sample(2000, given={"select": "F", "age": 40}, rng=0)
    assert set(women["select"]) == {"F"}
    assert set(women["age"]) == {40}
    gone = synthesis.sample(50, given={"income": None}, rng=0)
    assert gone["income"].isna().all()
    exact = synthesis.sample(50, given={"income": 812.25}, rng=0)
    assert set(exact["income"]) == {812.25}
    with pytest.raises(InputError, match=r"given\['select'\] must be a value of the column"):
        synthesis.sample(5, given={"select": "X"})
    with pytest.raises(SchemaError, match="column must be one of"):
        synthesis.sample(5, given={"nothing": 1})
    with pytest.raises(InputError, match="rows must be a whole number"):
        synthesis.sample(-1)


def test_saved_and_loaded_it_is_the_same_model(synthesis: mg.Synthesis, tmp_path: Path) -> None:
    path = tmp_path / "people.margrave"
    synthesis.save(path)
    again = mg.load(path)
    assert again.guarantee == synthesis.guarantee
    assert again.schema == synthesis.schema
    assert again.release.events == synthesis.release.events
    for m, n in zip(again.measurements, synthesis.measurements, strict=True):
        assert m.clique == n.clique
        assert (m.values == n.values).all()
    assert again.marginal("select", "age") == pytest.approx(synthesis.marginal("select", "age"))
    pd.testing.assert_frame_equal(again.sample(500, rng=5), synthesis.sample(500, rng=5))


def test_damaged_newer_and_missing_files_are_refused(synthesis: mg.Synthesis, tmp_path: Path) -> None:
    path = tmp_path / "people.margrave"
    synthesis.save(path)
    whole = path.read_bytes()
    for broken in (whole[: len(whole) // 2], b"", b"nonsense", whole[:200] + b"\0\0\0\0" + whole[204:]):
        path.write_bytes(broken)
        with pytest.raises(ReleaseError, match="release file must be"):
            mg.load(path)
    with pytest.raises(ReleaseError, match="path must be an existing release file"):
        mg.load(tmp_path / "nothing.margrave")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("release.json", json.dumps({"margrave_release": 99}))
    with pytest.raises(ReleaseError, match="of version 2 or older, got 99"):
        mg.load(path)


def test_a_failed_save_leaves_the_old_file(
    synthesis: mg.Synthesis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import margrave.archive as archive

    path = tmp_path / "people.margrave"
    synthesis.save(path)
    before = path.read_bytes()
    calls = []

    def fail(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        raise OSError("disk full")

    monkeypatch.setattr(archive.zipfile.ZipFile, "writestr", fail)
    with pytest.raises(OSError, match="disk full"):
        synthesis.save(path)
    assert calls
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["people.margrave"]


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "1", True, None])
def test_bad_epsilons(epsilon: Any) -> None:
    with pytest.raises(InputError, match="epsilon must be"):
        mg.Synthesizer(epsilon=epsilon)


@pytest.mark.parametrize("delta", [0, 1, -0.1, float("nan"), "x"])
def test_bad_deltas(delta: Any) -> None:
    with pytest.raises(InputError, match="delta must be"):
        mg.Synthesizer(epsilon=1.0, delta=delta)


def test_other_bad_arguments_name_the_parameter() -> None:
    with pytest.raises(InputError, match="method must be one of"):
        mg.Synthesizer("magic", epsilon=1.0)
    with pytest.raises(InputError, match="adjacency must be"):
        mg.Synthesizer(epsilon=1.0, adjacency="both")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="max_rows must be"):
        mg.Unit("id", 0)
    with pytest.raises(InputError, match="discovery must be"):
        mg.Synthesizer(epsilon=1.0, discovery=1.5)
    with pytest.raises(InputError, match="discovery must be"):
        mg.Synthesizer(epsilon=1.0, discovery=None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="schema must be a readable file"):
        mg.Synthesizer(epsilon=1.0, schema="/nowhere/schema.json")
    with pytest.raises(InputError, match="owner"):
        mg.Synthesizer(epsilon=1.0, unit="nobody").fit(_frame(50))


def test_the_ledger_file_lists_every_spend(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    found = mg.Synthesizer("mst", epsilon=1.0, ledger=path).fit(_frame())
    header, events = read_ledger(path)
    assert header.epsilon == 1.0
    assert events == found.release.events
    with pytest.raises(InputError, match="ledger"):
        mg.Synthesizer("mst", epsilon=1.0, ledger=path).fit(_frame())


def test_owners_are_protected_and_their_column_stays_behind() -> None:
    frame = _frame().assign(person=np.arange(ROWS) // 4)
    found = mg.Synthesizer("independent", epsilon=3.0, unit=mg.Unit("person", 2)).fit(frame)
    assert "person" not in found.schema.names
    assert abs(found.rows - ROWS // 2) < 300
    assert "at most 2 row(s)" in str(found.guarantee)


def test_all_gaussian_methods_are_priced_by_gdp() -> None:
    found = mg.Synthesizer("independent", epsilon=1.0, delta=1e-5, schema=_schema()).fit(_frame())
    assert found.guarantee.accounting == "gdp"
    assert found.guarantee.rho == pytest.approx(0.268051**2 / 2, rel=1e-4)


def _schema() -> mg.Schema:
    return mg.Schema(
        (
            mg.Categorical(name="select", values=("F", "M"), missing=False),
            mg.Integer(name="age", lower=0, upper=100, bins=32, missing=False),
            mg.Real(name="income", lower=0, upper=3000, bins=32, missing=True),
            mg.Boolean(name="member", missing=False),
        )
    )


def test_a_value_outside_a_declared_schema_is_an_error_that_keeps_the_secret() -> None:
    frame = _frame()
    frame.loc[5, "select"] = "Canary"
    with pytest.raises(InputError, match="select") as caught:
        mg.Synthesizer(epsilon=1.0, schema=_schema()).fit(frame)
    assert "Canary" not in str(caught.value)


def test_plan_spends_nothing_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    plan = mg.Synthesizer(epsilon=1.0, schema=None, ledger=path).plan(_frame(), rows=5000)
    assert not path.exists()
    assert set(plan.discovered) == {"select", "age", "income", "member"}
    assert sum(plan.shares.values()) == pytest.approx(1.0)
    assert plan.sigma["pair"] > 0
    assert 0 < plan.error["one-way marginal"] < plan.error["pair"] <= 1
    text = str(plan)
    assert "nothing" in text
    assert "epsilon" not in text.lower() or "1" in text
    declared = mg.Synthesizer(epsilon=1.0, schema=_schema()).plan(_frame())
    assert declared.discovered == {}
    assert "discover" not in declared.shares


def test_evaluate_brackets_good_and_bad_rows(synthesis: mg.Synthesis) -> None:
    real = _frame()
    good = mg.evaluate(real, synthesis.sample(rng=0))
    bad = mg.evaluate(real, real.apply(lambda c: c.sample(frac=1, random_state=len(c.name)).to_numpy()))
    assert good["tv_2_mean"] < 0.2
    assert good["tv_1_mean"] < 0.1
    assert bad["tv_1_mean"] == pytest.approx(0, abs=1e-9)
    assert bad["tv_2_mean"] > good["tv_1_mean"]


def test_report_is_one_file_and_names_the_guarantee(synthesis: mg.Synthesis, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    synthesis.report(path)
    page = path.read_text(encoding="utf-8")
    assert "<html" in page
    assert not re.search(r"(src|href)=.?https?:", page)
    with pytest.raises(InputError, match="report must be a file in a writable folder"):
        synthesis.report(tmp_path / "no" / "report.html")


@pytest.mark.needs_extra("torch", "ibis")
@pytest.mark.parametrize("name", ["dp_merf", "dpsgd_gan", "pate_gan", "tabddpm"])
def test_a_table_that_is_counted_where_it_lies_is_refused_before_a_ledger_is_made(
    name: str, tmp_path: Path
) -> None:
    import ibis

    table = ibis.memtable(pa.Table.from_pandas(_frame(50), preserve_index=False))
    synthesizer = mg.Synthesizer(name, epsilon=1.0, delta=1e-6, ledger=tmp_path / "l.jsonl")
    for call in (synthesizer.fit, synthesizer.plan):
        with pytest.raises(InputError, match="in memory or a file"):
            call(table)
    assert list(tmp_path.iterdir()) == []


def test_a_release_that_unpacks_to_any_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "people.margrave"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("release.json", json.dumps({"margrave_release": 1}))
        archive.writestr("arrays/total.npy", b"")
        archive.filelist[1].file_size = 1 << 40  # what the file says of the part, which is read as it says
    with pytest.raises(ReleaseError, match="path must be a release file that unpacks to at most"):
        mg.load(path)
