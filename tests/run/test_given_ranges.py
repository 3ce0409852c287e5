"""Rows given ranges and sets of values: they hold exactly, and as often as in the model."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import margrave as mg
from command_line import call
from margrave.errors import InputError, SchemaError

COLUMNS = (
    mg.Categorical(name="ward", values=("surgery", "medicine", "psychiatry"), missing=True),
    mg.Ordinal(name="severity", values=("minor", "moderate", "major"), missing=False),
    mg.Integer(name="age", lower=0, upper=99, bins=10, missing=True),
    mg.Real(name="charge", lower=0, upper=100, bins=4, missing=False),
    mg.Date(name="admitted", lower="2020-01-01", upper="2021-12-31", bins=8, missing=False),
    mg.Date(name="discharged", lower="2020-01-01", upper="2021-12-31", bins=8, missing=False),
)
SCHEMA = mg.Schema(COLUMNS, (mg.rules.Ordered("admitted", "discharged"),))


def make_visits(rows: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    epoch = datetime.date(2020, 1, 1)
    begin = rng.integers(0, 700, rows)
    old = rng.random(rows) < 0.3
    age = np.where(old, rng.integers(70, 100, rows), rng.integers(0, 70, rows)).astype(object)
    age[rng.random(rows) < 0.1] = None
    ward = np.where(old, "medicine", rng.choice(["surgery", "psychiatry"], rows)).astype(object)
    ward[rng.random(rows) < 0.1] = None
    return pd.DataFrame(
        {
            "ward": ward,
            "severity": rng.choice(["minor", "moderate", "major"], rows, p=[0.6, 0.3, 0.1]),
            "age": pd.array(age, dtype="Int64"),
            "charge": np.round(rng.random(rows) * 100, 2),
            "admitted": [epoch + datetime.timedelta(days=int(day)) for day in begin],
            "discharged": [
                epoch + datetime.timedelta(days=int(min(day + stay, 730)))
                for day, stay in zip(begin, rng.integers(0, 30, rows), strict=True)
            ],
        }
    )


@pytest.fixture(scope="module", params=["mst", "auto"])
def synthesis(request: Any) -> mg.Synthesis:
    return mg.Synthesizer(request.param, epsilon=20.0, delta=1e-6, schema=SCHEMA).fit(make_visits())


def days(series: pd.Series[Any]) -> Any:
    return pd.to_datetime(series)


def test_ranges_and_sets_hold_in_every_row_and_rules_with_them(synthesis: mg.Synthesis) -> None:
    given = {
        "ward": {"medicine", None},
        "severity": mg.Between("moderate", None),
        "age": mg.Between(33, 87),
        "charge": mg.Between(None, 37.5),
        "admitted": mg.Between(datetime.date(2020, 2, 3), "2020-11-30"),
    }
    found = synthesis.sample(2000, given=given, rng=1)
    assert len(found) == 2000
    assert set(found.ward.dropna()) == {"medicine"}
    assert found.ward.isna().any()
    assert set(found.severity) == {"moderate", "major"}
    assert (found.age.min(), found.age.max()) == (33, 87)
    assert 30 < found.charge.max() <= 37.5
    assert days(found.admitted).min() >= pd.Timestamp("2020-02-03")
    assert days(found.admitted).max() <= pd.Timestamp("2020-11-30")
    assert (days(found.admitted) <= days(found.discharged)).all()


def test_rows_in_a_range_are_spread_as_those_of_the_model(synthesis: mg.Synthesis) -> None:
    """What is left of many free rows in the range is the same distribution, cut bins included."""
    free = synthesis.sample(60_000, rng=2)
    kept = free[
        (free.age >= 65).fillna(False)
        & (free.age <= 84).fillna(False)
        & free.severity.isin(["minor", "major"])
    ]
    given = {"age": mg.Between(65, 84), "severity": ["minor", "major"]}
    found = synthesis.sample(8000, given=given, rng=3)
    for name in ("ward", "severity"):
        left = kept[name].fillna("none").value_counts(normalize=True)
        right = found[name].fillna("none").value_counts(normalize=True)
        assert abs(left.sub(right, fill_value=0.0)).sum() / 2 < 0.03
    left, right = kept.age.value_counts(normalize=True), found.age.value_counts(normalize=True)
    assert abs(left.sub(right, fill_value=0.0)).sum() / 2 < 0.06


def test_a_set_of_whole_numbers_and_a_range_of_python(synthesis: mg.Synthesis) -> None:
    found = synthesis.sample(600, given={"age": {40, 41, 77}}, rng=4)
    assert set(found.age) == {40, 41, 77}
    found = synthesis.sample(600, given={"age": range(18, 21), "ward": "surgery"}, rng=5)
    assert set(found.age) == {18, 19, 20}
    assert set(found.ward) == {"surgery"}
    assert synthesis.sample(600, given={"age": [None]}, rng=6).age.isna().all()
    assert len(synthesis.sample(0, given={"age": mg.Between(1, 2)})) == 0


def test_what_is_rare_is_drawn_from_the_model_s_table(synthesis: mg.Synthesis) -> None:
    given = {"age": mg.Between(98, 98), "charge": mg.Between(99.99, 100), "severity": {"major"}}
    found = synthesis.sample(50, given=given, rng=7)
    assert set(found.age) == {98}
    assert found.charge.between(99.99, 100).all()
    assert set(found.severity) == {"major"}


@pytest.mark.parametrize(
    "given",
    [
        {"charge": {1.0, 2.0}},
        {"ward": mg.Between("a", "b")},
        {"age": mg.Between(200, 300)},
        {"age": mg.Between(40, 30)},
        {"ward": {"oncology"}},
        {"ward": []},
        {"severity": mg.Between("major", "minor")},
        {"age": mg.Between("old", None)},
    ],
)
def test_what_no_row_can_have_is_refused(synthesis: mg.Synthesis, given: Any) -> None:
    with pytest.raises(InputError, match="given"):
        synthesis.sample(10, given=given)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("age", mg.Between(50, 30), "lower end to its upper one, got '50..30'. It is reversed: say 30..50."),
        ("severity", mg.Between("major", "minor"), "It is reversed: say minor..major."),
        ("admitted", mg.Between("2020-06-15", "2020-01-01"), "It is reversed: say 2020-01-01..2020-06-15."),
        ("age", mg.Between(200, 300), "Widen it; the column is integer, 0 to "),
        ("ward", mg.Between("a", "b"), "Give a set of values: this column has no order."),
        ("age", mg.Between("old", None), "values of the column, got 'old..'"),
    ],
)
def test_a_refused_range_says_what_is_wrong_with_it(
    synthesis: mg.Synthesis, name: str, given: Any, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        synthesis.sample(10, given={name: given})
    assert str(caught.value).startswith(f"given[{name!r}] must be ")
    assert said in str(caught.value)


def test_a_range_needs_an_end_and_a_column() -> None:
    with pytest.raises(InputError, match="at least one end"):
        mg.Between()
    synthesis = mg.Synthesizer("independent", epsilon=1.0, schema=SCHEMA).fit(make_visits(200))
    with pytest.raises(SchemaError):
        synthesis.sample(10, given={"nothing": mg.Between(1, 2)})


def test_ranges_and_sets_on_the_command_line(tmp_path: Path) -> None:
    synthesis = mg.Synthesizer("independent", epsilon=20.0, schema=SCHEMA).fit(make_visits(1000))
    synthesis.save(tmp_path / "r.margrave")
    words = ["--given", "age=30..39", "--given", "ward=surgery", "--given", "ward=medicine"]
    words += ["--given", "severity=moderate..", "--given", "admitted=..2020-06-15", "--rows", 300]
    out = tmp_path / "rows.csv"
    done = call("sample", tmp_path / "r.margrave", "--out", out, *words)
    assert (done.code, done.err) == (0, "")
    found = pd.read_csv(out)
    assert found.age.between(30, 39).all()
    assert set(found.ward) == {"surgery", "medicine"}
    assert set(found.severity) == {"moderate", "major"}
    assert found.admitted.max() <= "2020-06-15"
    both = call(
        "sample",
        tmp_path / "r.margrave",
        "--out",
        tmp_path / "b.csv",
        "--given",
        "age=1..2",
        "--given",
        "age=3",
    )
    assert (both.code, "one range or several values" in both.err) == (2, True)
    reversed_ends = call(
        "sample", tmp_path / "r.margrave", "--out", tmp_path / "b.csv", "--given", "age=50..30"
    )
    assert (reversed_ends.code, "It is reversed: say 30..50." in reversed_ends.err) == (2, True)
