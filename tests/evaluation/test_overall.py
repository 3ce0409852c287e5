"""The overall number: its parts, its references, what it tells apart, and how a comparison is printed."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.benchmark.nursery import load_nursery_table
from margrave.errors import MissingExtraError
from margrave.evaluation import learners
from margrave.evaluation.comparison import Comparison
from margrave.evaluation.review import SCORED, add_overall, split_overall
from margrave.report.comparison.verdict import aspects

ROWS = 1500


def _chained(rows: int = ROWS, seed: int = 0) -> pa.Table:
    """Numbers and codes, each made of the one before it."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=rows)
    second = first + 0.5 * rng.normal(size=rows)
    third = (second + 0.5 * rng.normal(size=rows) > 0).astype(np.int64)
    return pa.table({"<a>": first, "b": second, "c": third})


def _mixed(table: pa.Table, kept: float, seed: int = 1) -> pa.Table:
    """The table with a share of its rows as they are and the others' columns shuffled."""
    rng = np.random.default_rng(seed)
    columns, cut = {}, round(kept * table.num_rows)
    for name in table.column_names:
        order = np.concatenate([np.arange(cut), cut + rng.permutation(table.num_rows - cut)])
        columns[name] = table.column(name).take(pa.array(order))
    return pa.table(columns)


def test_the_number_is_the_mean_of_its_parts() -> None:
    values = {"tv_1_mean": 0.2, "dependence_kept": 0.5, "dependence_invented": 0.1, "rank_slope": 1.3}
    parts = split_overall(values)
    assert parts == pytest.approx({"columns": 0.8, "dependence": 0.4, "rank correlations": 0.7})
    assert split_overall({"tv_1_mean": 0.2, "dependence_kept": math.nan}) == {"columns": 0.8}
    worst = {"tv_1_mean": 1.0, "dependence_kept": 0.0, "dependence_invented": 0.4, "rank_slope": -3.0}
    assert set(split_overall(worst).values()) == {0.0}
    assert split_overall({}) == {}


def test_it_grows_with_what_is_kept() -> None:
    real = _chained()
    found = [mg.evaluate(real, _mixed(real, kept)) for kept in (0.0, 0.3, 0.7, 1.0)]
    overall = [one["overall"] for one in found]
    assert overall == sorted(overall)
    assert min(np.diff(overall)) > 0.1
    assert overall[-1] == pytest.approx(1.0, abs=0.02)
    assert overall[0] == pytest.approx(1 / 3, abs=0.05)
    assert [_kept(one) for one in found] == [f"{one['dependence_kept']:.0%}" for one in found]
    for one in found:
        score = one.scores[0]
        assert score.name == "overall"
        assert score.value == pytest.approx(np.mean(list(score.parts.values())))
        assert set(SCORED) <= {score.name for score in one.scores}
        assert one.references["bootstrap"]["overall"] > 0.9
        assert one.references["shuffled"]["overall"] < 0.45


def test_columns_that_do_not_depend_leave_one_part() -> None:
    rng = np.random.default_rng(0)
    real = pa.table({name: rng.integers(0, 4, ROWS).astype(str) for name in "ab"})
    score = mg.evaluate(real, _mixed(real, 0.0)).scores[0]
    assert set(score.parts) == {"columns"}
    assert score.value == pytest.approx(1.0)
    assert score.scope == "mean of columns"


def test_a_metric_that_is_asked_for_as_well_is_scored_once() -> None:
    real = _chained(300)
    found = mg.evaluate(real, real, metrics=["rank_slope", "average_tv"])
    names = [score.name for score in found.scores]
    assert len(set(names)) == len(names)
    assert "average_tv" in names
    assert add_overall(found).scores[0].value == found["overall"]


def test_whatever_is_printed_is_marked_as_not_private() -> None:
    real = _chained(300)
    found = mg.evaluate(real, _mixed(real, 0.5))
    page = found._repr_html_()
    for text in (repr(found), str(found), f"{found}", f"{found!r}"):
        assert text.startswith("NOT PRIVATE")
        assert "overall" in text
        assert "columns 1.00, dependence 0." in text
    assert page.startswith("<div><p><strong>NOT PRIVATE")
    assert page.count("<tr") == 1 + len(found.scores)
    assert "dependence" in page
    reviewed = mg.review(real, {"one": real}, pictures=False)
    assert repr(reviewed).startswith("NOT PRIVATE")
    assert reviewed.first["overall"] == pytest.approx(1.0)
    json.dumps(found.to_json(), allow_nan=False)


def test_names_are_escaped_in_a_notebook() -> None:
    real = _chained(300)
    found = mg.evaluate(real, real, target="<a>") if learners_there() else mg.evaluate(real, real)
    assert "<a>" not in found._repr_html_()


def learners_there() -> bool:
    try:
        learners.part("ensemble")
    except MissingExtraError:
        return False
    return True


def _without(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return original(name)

    from importlib import import_module as original

    for module in ("learners",):
        monkeypatch.setattr(f"margrave.evaluation.{module}.import_module", absent)


def test_a_target_without_scikit_learn_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch)
    real = _chained(300)
    with pytest.raises(MissingExtraError, match=r"pip install 'margrave\[eval\]'"):
        mg.evaluate(real, real, target="c")
    found = mg.review(real, {"one": real}, target="c")
    (note,) = [note for note in found.notes if "pip install 'margrave[eval]'" in note]
    assert note.startswith("Left out: how well 'c' is predicted. ")
    assert not mg.review(real, {"one": real}).notes


@pytest.mark.slow
def test_the_loans_tell_methods_apart() -> None:
    """By Cramér's V both methods kept nothing of the dependence."""
    table = load_nursery_table("choosing/loans-a")
    tables = {
        name: mg.Synthesizer(name, epsilon=1.0).fit(table).sample(rng=0) for name in ("independent", "mst")
    }
    found = mg.review(table, tables, pictures=False).comparisons
    none, some = found["independent"], found["mst"]
    assert none["dependence_kept"] < 0.05  # numbers that nearly copy others are coded by them
    assert some["dependence_kept"] > 0.1
    assert some["rank_slope"] > 0.1 > abs(none["rank_slope"])
    assert some["overall"] > none["overall"] + 0.05
    assert _kept(none) in ("0%", "1%", "2%", "3%", "4%")
    assert _kept(some) not in ("0%", "–")


def _kept(found: Comparison) -> str:
    """What a reader is shown of the dependence."""
    return next(one.value for one in aspects(found, None) if one.key == "dependence")
