"""Rules and tables of given rows through the front doors, in Python and on the command line."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import margrave as mg
from command_line import call
from margrave.errors import InputError, SchemaError
from margrave.schema.columns import Categorical, Date, Integer, Real
from margrave.schema.constraints.rules import Determines, Forbidden, Ordered, Sum, Within
from margrave.schema.schema import Schema

COLUMNS = (
    Categorical(name="region", values=("north", "south"), missing=False),
    Categorical(name="town", values=("a", "b", "c"), missing=True),
    Date(name="from", lower="2020-01-01", upper="2021-12-31", bins=8, missing=False),
    Date(name="to", lower="2020-01-01", upper="2023-12-31", bins=8, missing=True),
    Integer(name="own", lower=0, upper=20, bins=6, missing=False),
    Integer(name="rent", lower=0, upper=20, bins=6, missing=False),
    Integer(name="total", lower=0, upper=40, bins=8, missing=False),
    Real(name="share", lower=0, upper=1, bins=5, missing=False),
)
RULES = (
    Determines("region", "town", {"a": "north", "b": "north", "c": "south"}),
    Ordered("from", "to"),
    Sum("total", ("own", "rent")),
    Within("share", "region", {"north": (0.0, 0.5)}),
    Forbidden(("town", "region"), [(None, "south")]),
)
SCHEMA = Schema(COLUMNS, RULES)


def _frame(rows: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    town = rng.choice(np.array(["a", "b", "c", None], dtype=object), rows)
    begin = rng.integers(0, 730, rows)
    epoch = datetime.date(2020, 1, 1)
    own, rent = rng.integers(0, 21, rows), rng.integers(0, 21, rows)
    return pd.DataFrame(
        {
            "region": np.where(town == "c", "south", "north"),
            "town": town,
            "from": [epoch + datetime.timedelta(days=int(d)) for d in begin],
            "to": [
                None if gap > 500 else epoch + datetime.timedelta(days=int(d + gap))
                for d, gap in zip(begin, rng.integers(0, 700, rows), strict=True)
            ],
            "own": own,
            "rent": rent,
            "total": own + rent,
            "share": rng.random(rows) * np.where(town == "c", 1.0, 0.5),
        }
    )


def _obeys(frame: pd.DataFrame) -> bool:
    told = frame.town.map({"a": "north", "b": "north", "c": "south"})
    ended = frame.to.notna()
    return bool(
        (told == frame.region)[frame.town.notna()].all()
        and (frame["from"][ended] <= frame.to[ended]).all()
        and (frame.own + frame.rent == frame.total).all()
        and (frame.share <= 0.5)[frame.region == "north"].all()
        and not ((frame.region == "south") & frame.town.isna()).any()
    )


@pytest.fixture(scope="module", params=["independent", "mst", "auto"])
def synthesis(request: Any) -> mg.Synthesis:
    return mg.Synthesizer(request.param, epsilon=3.0, delta=1e-6, schema=SCHEMA).fit(_frame())


def test_sampled_rows_obey_and_so_do_those_of_the_loaded_release(
    synthesis: mg.Synthesis, tmp_path: Path
) -> None:
    assert _obeys(_frame())
    assert _obeys(synthesis.sample(20_000, rng=0))
    synthesis.save(tmp_path / "r.margrave")
    again = mg.load(tmp_path / "r.margrave")
    assert again.schema.rules == RULES
    assert _obeys(again.sample(2000, rng=1))
    pd.testing.assert_frame_equal(again.sample(50, rng=2), synthesis.sample(50, rng=2))


def test_a_table_of_given_rows_comes_back_as_it_is_with_rules_kept(synthesis: mg.Synthesis) -> None:
    given = _frame(700)[["town", "to", "total"]].sample(600, random_state=1)
    found = synthesis.sample(given=given, rng=0)
    pd.testing.assert_frame_equal(
        found[["town", "to", "total"]], given.reset_index(drop=True), check_dtype=False
    )
    assert _obeys(found)
    assert found["from"].nunique() > 50
    whole = _frame(300)
    pd.testing.assert_frame_equal(synthesis.sample(given=whole, rng=0), whole, check_dtype=False)


def test_any_kind_of_table_may_be_given(synthesis: mg.Synthesis) -> None:
    frame = _frame(40)[["own", "share"]]
    tables = (
        pl.from_pandas(frame),
        pa.Table.from_pandas(frame, preserve_index=False),
        frame.set_index("share"),
    )
    for table in tables:
        found = synthesis.sample(given=table, rng=3)
        assert found.own.tolist() == frame.own.tolist()
    assert synthesis.sample(given=tables[0], rng=3).share.tolist() == frame.share.tolist()
    assert synthesis.sample(given=frame[["own"]].head(0)).shape == (0, 8)


def test_one_value_for_all_rows_obeys_too(synthesis: mg.Synthesis) -> None:
    found = synthesis.sample(300, given={"to": datetime.date(2020, 1, 3), "rent": 7}, rng=0)
    assert _obeys(found)
    assert set(found["from"]) <= {datetime.date(2020, 1, day) for day in (1, 2, 3)}
    assert set(found.rent) == {7}
    missing = synthesis.sample(50, given={"town": None}, rng=0)
    assert set(missing.region) == {"north"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"town": "c", "region": "north"}, "rules"),
        ({"own": 5, "total": 4}, "rules"),
        ({"from": "2021-05-01", "to": "2021-04-30"}, "rules"),
        (pd.DataFrame({"own": [1, 9], "total": [3, 8]}), "rules"),
        (pd.DataFrame({"town": ["a", "zebra"]}), "town"),
        (pd.DataFrame({"own": [1, None]}), "own"),
        (pd.DataFrame({"own": [1, 400]}), "own"),
        (42, "data|given|table"),
    ],
)
def test_given_values_that_no_row_has_are_refused(synthesis: mg.Synthesis, given: Any, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        synthesis.sample(None if isinstance(given, pd.DataFrame) else 5, given=given)
    assert "zebra" not in str(caught.value)
    assert "400" not in str(caught.value)


def test_rows_must_be_those_of_the_table(synthesis: mg.Synthesis) -> None:
    with pytest.raises(InputError, match="rows"):
        synthesis.sample(3, given=pd.DataFrame({"own": [1, 2]}))
    with pytest.raises(SchemaError):
        synthesis.sample(given=pd.DataFrame({"nothing": [1, 2]}))


def test_rows_that_break_a_rule_are_released_like_any_other() -> None:
    """Whether private rows obey is private: no error, no warning, and nothing in the release says so."""
    frame = _frame()
    frame.loc[:99, "total"] = 1
    frame.loc[:99, "region"] = "south"
    found = mg.Synthesizer("independent", epsilon=3.0, delta=1e-6, schema=SCHEMA).fit(frame)
    assert _obeys(found.sample(500, rng=0))


def test_the_command_line_takes_a_schema_with_rules_and_a_table_of_given_rows(tmp_path: Path) -> None:
    _frame().to_csv(tmp_path / "t.csv", index=False)
    SCHEMA.save(tmp_path / "schema.json")
    out, release = tmp_path / "o.csv", tmp_path / "r.margrave"
    options = (
        "--epsilon",
        3,
        "--method",
        "independent",
        "--schema",
        tmp_path / "schema.json",
        "--release",
        release,
    )
    assert call("synthesize", tmp_path / "t.csv", "--out", out, *options).code == 0
    given = _frame(30)[["town", "total"]]
    given.to_csv(tmp_path / "given.csv", index=False)
    more = tmp_path / "more.csv"
    done = call("sample", release, "--out", more, "--given-table", tmp_path / "given.csv", "--seed", 1)
    assert (done.code, done.err) == (0, "")
    found = pd.read_csv(more)
    assert found.total.tolist() == given.total.tolist()
    assert found.town.fillna("-").tolist() == given.town.fillna("-").tolist()
    assert _obeys(found)
    again = tmp_path / "again.csv"
    both = call(
        "sample", release, "--out", again, "--given-table", tmp_path / "given.csv", "--given", "own=3"
    )
    assert both.code == 2
    assert "--given-table" in both.err
