"""The first look: relations are found in the real rows, and each way to lose one is seen and said."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from command_line import call
from margrave.engines.frames import read_table
from margrave.engines.opening import open_here
from margrave.evaluation import Rows, Task, score_metrics
from margrave.evaluation.metrics.findings import FINDING_KINDS, share_kept
from margrave.evaluation.review import held_rows
from margrave.evaluation.rows import observed_schema
from margrave.evaluation.score import Score
from margrave.schema.calendar import Instant, count_units
from margrave.schema.columns import Categorical, Integer
from margrave.schema.encode import encode
from margrave.schema.schema import Schema

ROWS = 1_200


def visits(seed: int, rows: int = ROWS) -> pd.DataFrame:
    """Stays with an order, an equality, columns missing together, a share, codes and spelt decimals."""
    rng = np.random.default_rng(seed)
    came = np.datetime64("2024-01-01") + rng.integers(0, 300, rows)
    charge = np.round(np.exp(rng.normal(7, 1, rows)), 2)
    tested = rng.random(rows) < 0.6
    stay = rng.poisson(3, rows)
    table = pd.DataFrame(
        {
            "came": came.astype(str),
            "left": (came + stay).astype(str),
            "arrived": (came.astype("datetime64[m]") + rng.integers(480, 1080, rows)).astype("datetime64[s]"),
            "charge": [f"{value:.2f}" for value in charge],
            "paid": [f"{value:.2f}" for value in np.floor(80 * charge) / 100],
            "code": [f"{place:05d}" for place in 101 * rng.integers(1, 12, rows)],
            "key": [f"V{place:06d}" for place in rng.permutation(10**6)[:rows]],
            "stay": stay,
            "glucose": np.where(tested, rng.normal(100, 9, rows).round(1), np.nan),
            "insulin": np.where(tested, rng.normal(9, 2, rows).round(1), np.nan),
        }
    )
    table["ward"] = [f"w{int(code) // 101 % 3}" for code in table["code"]]
    table["arrived"] = table["arrived"].astype(str).str.replace(" ", "T")
    return table


def look(synthetic: pd.DataFrame, real: pd.DataFrame | None = None) -> Score:
    """The score of two tables as text files."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("real.csv", "synthetic.csv")]
        for path, table in zip(paths, (visits(0) if real is None else real, synthetic), strict=True):
            table.to_csv(path, index=False)
        sources = [open_here(path, missing=("",)) for path in paths]
        schema = observed_schema(sources[0], sources[1])
        sides = [
            held_rows(source, read_table(path, missing=("",))[0], schema)
            for source, path in zip(sources, paths, strict=True)
        ]
    return score_metrics(Task(sides[0], sides[1], schema), ["first_look"])[0]


def lost(synthetic: pd.DataFrame) -> dict[str, float]:
    return {name: kept for name, kept in look(synthetic).parts.items() if kept < 0.9}


def test_another_draw_of_the_rows_keeps_all_and_every_kind_is_found() -> None:
    score = look(visits(1))
    assert {name.partition(":")[0] for name in score.parts} == set(FINDING_KINDS)
    assert set(score.parts) >= {
        *(
            "times: stay is the days from came to left",
            "order: came <= left",
            "order: paid <= charge",
            "equality: came = arrived (day)",
        ),
        "dependency: ward follows from code",
        *("missing: glucose and insulin together", "rank: charge with paid", "codes: code"),
        *(
            "calendar: hours of arrived",
            "new values: code",
            "spelling: code",
            "spelling: key",
            "spelling: charge",
        ),
    }
    # A key must not come back, so it is no loss that it does not.
    assert not {"codes: key", "new values: key"} & set(score.parts)
    assert score.value > 0.97
    assert look(visits(0)).value == 1.0
    assert not look(visits(0)).words


@pytest.mark.parametrize(
    ("column", "change", "parts", "words"),
    [
        (
            "left",
            np.roll,
            {"order: came <= left", "times: stay is the days from came to left"},
            "came is above left in",
        ),
        (
            "stay",
            np.roll,
            {"times: stay is the days from came to left"},
            "stay is the days from came to left in",
        ),
        ("arrived", np.roll, {"equality: came = arrived (day)"}, "came equals arrived (day) in"),
        ("paid", np.roll, {"order: paid <= charge", "rank: charge with paid"}, "paid is above charge in"),
        ("ward", np.roll, {"dependency: ward follows from code"}, "ward is as code says in"),
        ("insulin", np.roll, {"missing: glucose and insulin together"}, "is missing without the other in"),
        (
            "arrived",
            lambda values, _: [value[:11] + "0" + value[12:] for value in values],
            {"calendar: hours of arrived"},
            "of its rows would have to move for arrived to have the real hours.",
        ),
        (
            "code",
            lambda values, _: [value.lstrip("0") for value in values],
            {"codes: code", "new values: code", "spelling: code"},
            "code is written in a pattern that no real row has in 100.0% of its rows",
        ),
        (
            "charge",
            lambda values, _: [value + "5" for value in values],
            {"spelling: charge"},
            "to other digits",
        ),
    ],
)
def test_what_is_lost_is_seen_and_told(
    column: str, change: Callable[..., Any], parts: set[str], words: str
) -> None:
    table = visits(0)
    table[column] = change(table[column].to_numpy(), 7)
    assert set(lost(table)) >= parts
    score = look(table)
    assert any(words in sentence for sentence in score.words), score.words
    assert score.value < 1.0


def test_other_shares_are_computed_by_hand() -> None:
    real = pd.DataFrame({"a": np.arange(100), "b": np.arange(100) + 1})
    synthetic = real.copy()
    synthetic.loc[:19, "b"] = -1
    score = look(synthetic, real)
    by_chance = sum(a > b for a in range(100) for b in range(1, 101)) / 10_000
    assert score.parts["order: a <= b"] == pytest.approx(1 - 0.2 / by_chance)
    assert "a is above b in 20.0% of its rows, 0.0% of the real ones." in score.words
    assert share_kept(0.2, 0.1, 0.0) == pytest.approx(0.5)
    assert share_kept(0.9, 0.1, 0.5) == 0.0


def test_columns_that_have_nothing_to_do_with_each_other_show_nothing() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({name: rng.random(3_000) for name in "abcdef"})
    assert {name.partition(":")[0] for name in look(table, table).parts} == {"spelling"}
    # Neither do ranges that do not meet: an order that follows from them is no relation.
    table["f"] += 2
    assert not [name for name in look(table, table).parts if name.startswith("order")]


def test_few_rows_that_break_an_order_do_not_hide_it() -> None:
    rng = np.random.default_rng(0)
    first = rng.random(2_000)
    real = pd.DataFrame({"a": first, "b": first + rng.random(2_000) / 4})
    real.loc[:9, "b"] = -1.0
    assert "order: a <= b" in look(real, real).parts
    real.loc[:99, "b"] = -1.0
    assert "order: a <= b" not in look(real, real).parts


def test_the_command_and_the_page_tell_it_and_warn(tmp_path: Path) -> None:
    folder = tmp_path
    table = visits(0, 150)[["came", "left"]]
    table.to_csv(folder / "real.csv", index=False)
    table["left"] = np.roll(table["left"], 7)
    table.to_csv(folder / "made.csv", index=False)
    done = call("evaluate", folder / "real.csv", folder / "made.csv", "--report", folder / "page.html")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("NOT PRIVATE")
    assert "came is above left in" in done.out
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert page.index("NOT PRIVATE") < page.index("First look: relations kept")
    assert "came is above left in" in page


def test_rows_known_by_bins_only_say_what_is_left_out() -> None:
    schema = Schema(
        (
            Integer(name="a", lower=0, upper=9, missing=False),
            Categorical(name="b", values=("x", "y"), missing=False),
        )
    )
    table = pa.table({"a": [1, 2, 3], "b": pa.array(["x", "y", "x"]).dictionary_encode()})
    rows = Rows.from_codes(encode(table, schema), schema)
    score = score_metrics(Task(rows, rows, schema), ["first_look"])[0]
    assert "known by their bins only" in score.note
    assert {name.partition(":")[0] for name in score.parts} == {"codes", "new values"}


def test_few_rows_have_no_hours_that_a_person_would_see() -> None:
    """Forty hours drawn evenly are .3 in total variation from even ones."""
    rng = np.random.default_rng(0)
    moments = np.datetime64("2024-01-01T00:00:00") + rng.integers(0, 10**7, 40)
    few = pd.DataFrame({"at": moments.astype(str), "who": list("ab") * 20})
    assert not any(part.startswith("calendar") for part in look(few, few).parts)


def test_more_rows_that_agree_are_no_loss_and_what_is_so_by_chance_is_none() -> None:
    real, made = visits(0), visits(1)
    real.loc[:49, "stay"] += 1  # 2.5 % of the rows say something else
    found = look(made, real).parts
    assert found["times: stay is the days from came to left"] == 1.0
    for table in (real, made):
        table["left"] = table["came"]
        table["stay"] = 0
    assert not [name for name in look(made, real).parts if name.startswith("times")]


@pytest.mark.parametrize(("unit", "length"), [("years", 365.2425), ("months", 30.436875), ("days", 1.0)])
def test_ages_on_a_fixed_day_are_told_by_the_date(unit: str, length: float) -> None:
    rng = np.random.default_rng(0)
    day = 19_904  # 2024-06-30
    born = day - rng.integers(0, int(60 * length), 4_000)
    until = Instant.of(np.array([day]), clock=False)
    age = count_units(Instant.of(born, clock=False), until, unit, np.floor_divide)
    real = pd.DataFrame({"born": born.astype("datetime64[D]").astype("datetime64[s]"), "age": age})
    name = f"times: age is the {unit} from born to 2024-06-30"
    assert look(real, real).parts[name] == 1.0
    apart = real.assign(age=rng.permutation(age))
    assert look(apart, real).parts[name] < 0.1
    assert not [one for one in look(real, apart).parts if one.startswith("times")]


def test_names_of_a_weekday_or_a_month_are_told_by_the_date() -> None:
    real, made = visits(0), visits(1)
    for table in (real, made):
        came = pd.to_datetime(table["came"])
        table["weekday"], table["month"] = came.dt.strftime("%A"), came.dt.strftime("%b").str.lower()
        table["note"] = came.dt.strftime("%B %d")  # no list has these
    kept = look(made, real).parts
    assert kept["times: weekday is the weekday of came"] == 1.0
    assert kept["times: month is the month of came"] == 1.0
    made["weekday"] = np.roll(made["weekday"], 1)
    made.loc[:599, "month"] = "a month"
    score = look(made, real)
    assert score.parts["times: weekday is the weekday of came"] < 0.1
    assert 0.4 < score.parts["times: month is the month of came"] < 0.5
    assert any(words.startswith("weekday is the weekday of came in 1") for words in score.words)
    # Names that are so of no date are no finding.
    real["weekday"] = np.roll(real["weekday"], 1)
    assert not [name for name in look(made, real).parts if name.startswith("times: weekday")]
