"""Public columns, end to end: what comes back, what is promised, what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import margrave as mg
from margrave.engines import opening
from margrave.errors import InputError
from margrave.models.gated.blended import BlendedModel
from margrave.privacy.accounting.conversions import gdp_mu
from margrave.privacy.accounting.events import GaussianEvent
from margrave.run.public import attach_columns
from margrave.schema.columns import Relative
from margrave.schema.constraints.rules import Forbidden
from margrave.select.aim import AIM

PUBLIC = ["key", "age", "sex", "when"]
DECLARED = pa.table({"a": np.arange(400) % 4, "b": np.arange(400) % 3})
MST = {
    "epsilon": 5.0,
    "adjacency": "replace_private",
    "public": ["a"],
    "schema": mg.Schema.from_sizes({"a": 4, "b": 3}),
}
FAST = {"epsilon": 5.0, "adjacency": "replace_private", "public": PUBLIC}


def people(rows: int = 400, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    frame = pd.DataFrame(
        {
            "key": [f"person {i}" for i in rng.permutation(4_000)[:rows]],
            "age": age,
            "ill": (rng.random(rows) < np.where(age > 60, 0.7, 0.1)).astype(int),
            "sex": rng.choice(["f", "m"], rows),
            "twin": np.where(age > 50, "old", "young"),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9_000, rows), "s"),
        }
    )
    frame.loc[3, "sex"] = None
    return frame


SCHEMA = mg.Schema(
    (
        mg.Categorical(name="ill", values=(0, 1), missing=False),
        mg.Categorical(name="twin", values=("old", "young"), missing=False),
    )
)


@pytest.fixture(scope="module")
def synthesis():
    return mg.Synthesizer("auto", schema=SCHEMA, **FAST).fit(people())


def test_public_columns_come_back_as_they_are(synthesis) -> None:
    rows, real = synthesis.sample(rng=0), people()
    assert list(rows.columns) == list(real.columns)
    pd.testing.assert_frame_equal(rows[PUBLIC], real[PUBLIC])
    assert (rows["twin"] == real["twin"]).mean() > 0.8
    assert not (rows["ill"] == real["ill"]).all()


def test_missing_text_in_a_public_column_of_objects_is_none() -> None:
    public = pa.table({"sex": pa.array(["f", None, "m"]).dictionary_encode()})
    rows = attach_columns(
        pd.DataFrame({"ill": [0, 1, 0]}), public, "pandas", {"sex": "object", "ill": "int64"}
    )
    assert rows["sex"].dtype == object
    assert rows["sex"].tolist() == ["f", None, "m"]


def test_a_saved_release_draws_the_same_rows(synthesis, tmp_path) -> None:
    synthesis.save(tmp_path / "people.release")
    again = mg.load(tmp_path / "people.release")
    pd.testing.assert_frame_equal(again.sample(rng=1), synthesis.sample(rng=1))
    assert again.guarantee.neighbours.public == tuple(PUBLIC)


def test_the_promise_is_said_in_words_and_prices_are_those_of_a_replacement(synthesis) -> None:
    assert "its private columns replaced (public: key, age, sex, when)" in str(synthesis.guarantee)
    events = synthesis.release.events
    assert all(isinstance(event, GaussianEvent) for event in events)
    # One cell of a marginal loses a row and another gains it: 2 in squares, and 2 in each appraised distance.
    assert {squared_change(event) for event in events} <= {2, 4}
    spent = sum(event.l2_squared / float(event.sigma_squared) for event in events)
    assert math.sqrt(spent) == pytest.approx(gdp_mu(5.0, 1e-9), rel=1e-4)
    asked = [event.what.removeprefix("marginal ") for event in events if event.what.startswith("marginal ")]
    assert all(set(names.split(" x ")) - set(PUBLIC) for names in asked)


def squared_change(event: GaussianEvent) -> float:
    """The squared change of a marginal, or of one distance of those that were appraised together, in rows."""
    appraised = re.fullmatch(
        r"errors of (\d+) marginals of 2 columns, in steps of 2\^-(\d+) rows", event.what
    )
    if appraised is None:
        assert event.what.startswith("marginal ")
        return event.l2_squared
    tables, steps = map(int, appraised.groups())
    return event.l2_squared / (tables * 4**steps)


def test_only_the_public_columns_decide_what_is_known_of_them() -> None:
    """The same public rows with other private values: same schema of them, same codes, same questions."""
    real, other = people(), people()
    other["ill"], other["twin"] = 1 - other["ill"], "old"
    runs = [mg.Synthesizer("auto", schema=SCHEMA, **FAST).fit(frame) for frame in (real, other)]
    first, second = (run.release for run in runs)
    assert first.public == second.public
    assert first.schema == second.schema
    # What is asked after the one-ways follows from what they released.
    one, two = ([event.what for event in release.events] for release in (first, second))
    assert one[:2] == two[:2] == ["marginal ill", "marginal twin"]
    # Those of the gated mixture in a blend.
    for name in ("inner_rows", "inner_row_weights", "inner_places"):
        np.testing.assert_array_equal(first.state[name], second.state[name])


def test_other_rows_may_be_given_and_more_or_fewer_drawn(synthesis) -> None:
    others = people(50, seed=9)[PUBLIC]
    rows = synthesis.sample(given=others, rng=0)
    pd.testing.assert_frame_equal(rows[PUBLIC], others)
    assert len(synthesis.sample(30, rng=0)) == 30
    assert len(synthesis.sample(1000, rng=0)) == 1000
    assert (synthesis.sample(10, given={"sex": "f"}, rng=0)["sex"] == "f").all()
    assert (synthesis.sample(10, given={"ill": 1}, rng=0)["ill"] == 1).all()


@pytest.mark.parametrize("kind", ["arrow", "polars"])
def test_every_kind_of_table_keeps_its_public_columns(kind: str) -> None:
    table = pa.Table.from_pandas(people(), preserve_index=False)
    data = table if kind == "arrow" else pl.from_arrow(table)
    rows = mg.Synthesizer("auto", schema=SCHEMA, **FAST).fit(data).sample(rng=0)
    assert rows.select(PUBLIC).equals(data.select(PUBLIC))


@pytest.mark.parametrize("method", ["conditional_aim", "independent", "mst"])
def test_every_method_is_drawn_given_the_public_rows(method: str) -> None:
    synthesizer = mg.Synthesizer(method, schema=SCHEMA, **FAST)
    rows = synthesizer.fit(people()).sample(rng=0)
    pd.testing.assert_frame_equal(rows[PUBLIC], people()[PUBLIC])


def test_conditional_aim_buys_nothing_that_is_public() -> None:
    synthesis = mg.Synthesizer("conditional_aim", schema=SCHEMA, **FAST).fit(people())
    for table in synthesis.measurements:
        assert set(table.clique) - set(PUBLIC)


def test_no_private_column_returns_the_rows_and_spends_nothing() -> None:
    frame = people()[["age", "sex"]]
    options = {"epsilon": 1.0, "adjacency": "replace_private", "public": ["age", "sex"]}
    for method in ("auto", "conditional_aim"):
        synthesis = mg.Synthesizer(method, **options).fit(frame)
        assert synthesis.release.events == ()
        pd.testing.assert_frame_equal(synthesis.sample(rng=0), frame)


def test_one_private_column_and_public_keys_alone() -> None:
    frame = people()[["key", "twin"]]
    schema = mg.Schema((SCHEMA["twin"],))
    options = {"epsilon": 1.0, "adjacency": "replace_private", "schema": schema}
    rows = mg.Synthesizer("auto", public=["key"], **options).fit(frame).sample(rng=0)
    pd.testing.assert_series_equal(rows["key"], frame["key"])


def test_owners_keep_at_most_their_cap_of_rows() -> None:
    frame = people(300)
    frame["who"] = np.arange(300) // 3
    unit = mg.Unit("who", 2)
    synthesis = mg.Synthesizer("auto", schema=SCHEMA, unit=unit, **FAST).fit(frame)
    rows = synthesis.sample(rng=0)
    assert len(rows) == 200
    assert "who" not in rows
    assert set(rows["key"]) < set(frame["key"])
    # Two rows of an owner: 8 in squares, 4 in each appraised distance.
    assert {squared_change(event) for event in synthesis.release.events} <= {8, 16}


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"adjacency": "add_remove"}, "replace_private"),
        ({"adjacency": "replace_one"}, "replace_private"),
        ({"public": []}, "public"),
        ({"public": ["nobody"]}, "public"),
        ({"drop": ["age"]}, "public"),
    ],
)
def test_what_cannot_be_promised_is_refused(options, word: str) -> None:
    with pytest.raises(InputError, match=word):
        mg.Synthesizer("auto", **{**FAST, **options}).fit(people())


def test_a_table_that_is_not_in_memory_is_refused(tmp_path) -> None:
    people().to_csv(tmp_path / "people.csv", index=False)
    with pytest.raises(InputError, match="memory"):
        mg.Synthesizer("auto", engine="stream", **FAST).fit(tmp_path / "people.csv")


def test_tables_of_which_no_rows_are_held_are_refused_before_a_ledger_is_opened(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a method that asks for no public rows, a refusal at their packing would come after the spend."""
    (tmp_path / "parts").mkdir()
    pq.write_table(DECLARED, tmp_path / "parts" / "0.parquet")
    pq.write_table(DECLARED, tmp_path / "t.parquet")
    for data, engine in ((tmp_path / "t.parquet", "stream"), (tmp_path / "parts", "auto")):
        run = mg.Synthesizer("mst", engine=engine, ledger=tmp_path / "run.jsonl", **MST)
        monkeypatch.setattr(run, "_reserve", None)  # not so much as called
        with pytest.raises(InputError, match="public must be columns of a table that is held in memory"):
            run.fit(data)
        with pytest.raises(InputError, match="public must be columns of a table that is held in memory"):
            run.plan(data)
    assert not (tmp_path / "run.jsonl").exists()


def test_the_size_of_a_file_decides_nothing_about_public_columns(
    tmp_path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(DECLARED, tmp_path / "t.parquet")
    for least in (opening.MIN_STREAMED_BYTES, 1):
        monkeypatch.setattr(opening, "MIN_STREAMED_BYTES", least)
        rows = mg.Synthesizer("mst", **MST).fit(tmp_path / "t.parquet").sample()
        assert rows.column("a").equals(DECLARED.column("a"))


def test_a_strategy_of_ones_own_is_told_nothing_and_still_works() -> None:
    synthesis = mg.Synthesizer("aim", select=AIM(rounds=4), schema=SCHEMA, **FAST).fit(people())
    pd.testing.assert_frame_equal(synthesis.sample(rng=0)[PUBLIC], people()[PUBLIC])


def payments(rows: int = 4_000, seed: int = 3) -> pd.DataFrame:
    """A public number with three private ones that follow it: later, and the parts of which it is the sum."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(0, 500, rows), rng.integers(0, 700, rows)
    billed = first + second
    return pd.DataFrame(
        {"billed": billed, "paid": billed + rng.integers(0, 4, rows), "first": first, "second": second}
    )


def with_weights(frame: pd.DataFrame, name: str) -> mg.Integer:
    """A column as discovery leaves it, with its fine bins and their weights."""
    column = mg.Synthesizer("independent", epsilon=20.0).fit(frame[[name]]).release.schema[name]
    assert isinstance(column, mg.Integer)
    assert column.weights
    return column


def test_a_public_column_is_the_base_of_private_ones_and_never_relative() -> None:
    frame = payments()
    schema = mg.Schema((with_weights(frame, "billed"),))
    options = {"epsilon": 20.0, "adjacency": "replace_private", "public": ["billed"], "schema": schema}
    synthesis = mg.Synthesizer("auto", **options).fit(frame)
    found = {c.name: c.bases for c in synthesis.release.schema.columns if isinstance(c, Relative)}
    assert "billed" not in found
    assert found["paid"] == ("billed",)
    assert (synthesis.sample(rng=0)["billed"] == frame["billed"]).all()


EDGES = (0, 300, 600, 900, 1_301)


def relative(name: str, base: str) -> Relative:
    own = mg.Integer(name=name, lower=0, upper=1_300, edges=EDGES, missing=False)
    part = mg.Integer(name=name, lower=0, upper=3, edges=(0, 1, 2, 3, 4), missing=False)
    return Relative(name=name, base=base, own=own, part=part, missing=False)


def test_a_public_column_that_is_declared_relative_to_a_private_one_is_refused(tmp_path) -> None:
    billed = mg.Integer(name="billed", lower=0, upper=1_300, edges=EDGES, missing=False)
    schema = mg.Schema((billed, relative("paid", "billed")))
    options = {"epsilon": 5.0, "adjacency": "replace_private", "schema": schema}
    frame, ledger = payments(300)[["billed", "paid"]], tmp_path / "ledger.jsonl"
    with pytest.raises(InputError, match="relative to public columns alone"):
        mg.Synthesizer("auto", public=["paid"], ledger=ledger, **options)
    assert not ledger.exists()
    rows = mg.Synthesizer("auto", public=["billed"], **options).fit(frame).sample(rng=0)
    assert (rows["billed"] == frame["billed"]).all()


@pytest.mark.parametrize("adjacency", ["replace_private", "zero_out", "replace_one"])
def test_files_whose_cells_decide_how_many_rows_there_are_are_refused(adjacency, tmp_path) -> None:
    public = ["age"] if adjacency == "replace_private" else []
    run = mg.Synthesizer("independent", epsilon=1.0, adjacency=adjacency, public=public)
    (tmp_path / "people.xlsx").write_bytes(b"no sheet: nothing of it is read")
    for name in ("people.xlsx", "people.xlsx::Sheet2"):
        with pytest.raises(InputError, match="Excel file does not: save it as Parquet, or as CSV"):
            run.fit(str(tmp_path / name))
        with pytest.raises(InputError, match="Excel file does not"):
            run.plan(str(tmp_path / name))
    (tmp_path / "one.csv").write_text("age\n1\n\n2\n")
    run = mg.Synthesizer(
        "independent", epsilon=1.0, adjacency=adjacency, public=public, text=mg.TextFormat(separator=",")
    )
    with pytest.raises(InputError, match="text file of one column does not"):
        run.fit(tmp_path / "one.csv")


@pytest.mark.parametrize("cell", ["", "x"])
def test_a_private_cell_of_a_text_file_decides_about_no_row(cell, tmp_path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("where,ill\n" + "a,x\nb,y\n" * 100 + f",{cell}\n")
    options = {"epsilon": 1.0, "adjacency": "replace_private", "public": ["where"]}
    assert mg.Synthesizer("auto", **options).fit(path).sample(rng=0).num_rows == 201


@pytest.mark.parametrize("public", [("sex",), ("age", "sex", "when", "key")])
def test_a_rule_between_a_public_and_a_private_column_holds_in_every_row(public: tuple[str, ...]) -> None:
    """Of some public rows one private code is allowed alone, whichever model `auto` takes."""
    frame = people()
    frame["sex"] = frame["sex"].fillna("f")
    frame.loc[frame["sex"] == "m", "twin"] = "young"
    schema = mg.Schema(
        (*SCHEMA.columns, mg.Categorical(name="sex", values=("f", "m"), missing=False)),
        rules=(Forbidden(("sex", "twin"), [("m", "old")]),),
    )
    asked = FAST | {"public": list(public)}
    made = mg.Synthesizer("auto", schema=schema, **asked).fit(frame)
    others = pd.DataFrame({"sex": ["m", "f"] * 60})
    for rows in (made.sample(rng=0), made.sample(90, rng=1), made.sample(given=others, rng=2)):
        assert not ((rows["sex"] == "m") & (rows["twin"] == "old")).any()
        assert (rows.loc[rows["sex"] == "f", "twin"] == "old").any()
    assert (rows["sex"] == others["sex"]).all()


AREAS = {"area": 6, "income": 5, "job": 4, "sick": 2, "note": 3}
TOLD = {
    "epsilon": 5.0, "adjacency": "replace_private", "public": ["area"], "schema": mg.Schema.from_sizes(AREAS),
}  # fmt: skip


def residents(rows: int = 6_000) -> pd.DataFrame:
    """One public column; whether somebody is sick follows from it and from a private one."""
    rng = np.random.default_rng(4)
    area = rng.integers(0, 6, rows)
    income = np.minimum(rng.poisson(0.5 + 0.5 * area), 4)
    job = (income + rng.integers(0, 2, rows)) % 4
    odds = 0.9 * (area - 2.5) + 1.6 * (job - 1.5)
    sick = (rng.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return pd.DataFrame(
        {"area": area, "income": income, "job": job, "sick": sick, "note": rng.integers(0, 3, rows)}
    )


@pytest.mark.parametrize("method", ["auto", "gated"])
def test_a_private_target_is_drawn_given_public_and_private_columns(method: str, tmp_path) -> None:
    frame = residents()
    made = mg.Synthesizer(method, target="sick", **TOLD).fit(frame)
    parts = [made.model.gated, made.model.other] if isinstance(made.model, BlendedModel) else [made.model]
    assert [part.refinements.names[-1] for part in parts] == ["sick"] * len(parts)
    rows = made.sample(rng=0)
    assert (rows["area"] == frame["area"]).all()
    found = [one.groupby(["area", "job"])["sick"].agg(["mean", "size"]) for one in (frame, rows)]
    real, drawn = found[0].align(found[1], join="inner")
    often = np.minimum(real["size"], drawn["size"]) > 100
    assert often.sum() > 15
    assert (real["mean"] - drawn["mean"])[often].abs().mean() < 0.05
    made.save(tmp_path / "residents.release")
    again = mg.load(tmp_path / "residents.release")
    pd.testing.assert_frame_equal(again.sample(rng=1), made.sample(rng=1))


def test_a_target_may_be_public_and_a_target_that_is_not_there_is_refused() -> None:
    frame = residents(500)
    rows = mg.Synthesizer("auto", target="area", **TOLD).fit(frame).sample(rng=0)
    assert (rows["area"] == frame["area"]).all()
    with pytest.raises(InputError):
        mg.Synthesizer("auto", target="nobody", **TOLD).fit(frame)


def test_people_with_equal_public_parts_keep_their_places_and_their_counts() -> None:
    """Whole groups share all that is public: their rows come back in order, and their private counts."""
    frame = residents().sort_values("area", kind="stable", ignore_index=True)
    made = mg.Synthesizer("auto", **TOLD).fit(frame)
    rows = made.sample(rng=0)
    assert (rows["area"] == frame["area"]).all()
    tables = [pd.crosstab(one["area"], one["job"]).to_numpy() for one in (frame, rows)]
    assert np.abs(tables[0] - tables[1]).sum() < 0.1 * len(frame)
    # Rows of one area have different private parts all the same.
    assert rows.groupby("area")[["income", "job", "sick", "note"]].nunique().min().min() > 1


def test_values_that_no_public_row_had_are_drawn_for(synthesis) -> None:
    others = people(9)[PUBLIC].head(2).assign(key=["nobody", "somebody"], age=[200, 19], sex=["x", None])
    rows = synthesis.sample(given=others, rng=0)
    assert len(rows) == 2
    assert rows["age"].tolist() == [200, 19]
    assert rows["ill"].isin([0, 1]).all()


def test_one_private_column_beside_public_attributes() -> None:
    frame = people(2_000)[["age", "sex", "twin"]]
    schema = mg.Schema((SCHEMA["twin"],))
    options = {"epsilon": 5.0, "adjacency": "replace_private", "schema": schema}
    made = mg.Synthesizer("auto", public=["age", "sex"], **options).fit(frame)
    assert {name for table in made.measurements for name in table.clique} == {"age", "sex", "twin"}
    rows = made.sample(rng=0)
    assert (rows["twin"] == frame["twin"]).mean() > 0.95
