"""How one method stands against the best of others: which settings are marked, and what the page says."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from bench_cases import outcome

from margrave.benchmark.page import Standing, find_standings, write_standing
from margrave.benchmark.results import Findings, write_results
from margrave.errors import InputError


def runs(
    method: str, scores: Sequence[dict[str, float]], data: str = "t", **more: Any
) -> list[dict[str, Any]]:
    return [outcome(data, method, 1.0, repeat, scores=one, **more) for repeat, one in enumerate(scores)]


def stand(auto: dict[str, Sequence[float]], aim: dict[str, Sequence[float]], **more: Any) -> Standing:
    sides = []
    for method, scores in (("auto", auto), ("aim", aim)):
        rows = [dict(zip(scores, values, strict=True)) for values in zip(*scores.values(), strict=True)]
        sides += runs(method, rows)
    found = find_standings(Findings(sides), "auto", ["aim"], **more)
    assert len(found) == 1
    return found[0]


def test_an_error_is_worse_beyond_the_tolerance_and_the_spread() -> None:
    assert stand({"average_tv": [0.05, 0.05]}, {"average_tv": [0.04, 0.04]}).verdict == "worse"
    assert stand({"average_tv": [0.05, 0.05]}, {"average_tv": [0.04, 0.04]}, tolerance=0.3).verdict == ""
    assert stand({"average_tv": [0.02, 0.08]}, {"average_tv": [0.04, 0.04]}).verdict == "worse?"
    assert stand({"average_tv": [0.0401]}, {"average_tv": [0.04]}).verdict == ""
    assert stand({"average_tv": [0.0002]}, {"average_tv": [0.0001]}).verdict == ""
    assert stand({"average_tv": [0.03]}, {"average_tv": [0.04]}).ratio == pytest.approx(0.75)


def test_a_score_is_held_by_its_distance_from_that_of_equal_tables() -> None:
    worse = stand({"rank_slope": [0.5, 0.5]}, {"rank_slope": [0.9, 0.9]})
    assert worse.verdict == "worse"
    assert worse.ratio == pytest.approx(5.0)
    steep = stand({"rank_slope": [1.3, 1.3]}, {"rank_slope": [0.9, 0.9]})
    assert steep.verdict == "worse"
    assert stand({"ml_auc": [0.945]}, {"ml_auc": [0.95]}).verdict == ""
    assert stand({"ml_auc": [0.93]}, {"ml_auc": [0.95]}).verdict == "worse"
    assert stand({"dependence_kept": [0.9]}, {"dependence_kept": [0.2]}).verdict == ""


def test_the_best_rival_is_that_of_the_setting_and_failures_are_marked() -> None:
    sides = [
        *runs("auto", [{"average_tv": 0.1}], "one"),
        *runs("aim", [{"average_tv": 0.2}], "one"),
        *runs("mst", [{"average_tv": 0.05}], "one"),
        *runs("auto", [{}], "two", status="time", reason="over 1 s", stage="synthesize"),
        *runs("aim", [{"average_tv": 0.2}], "two"),
        *runs("mst", [{"average_tv": 0.3}], "two"),
    ]
    first, second = find_standings(Findings(sides), "auto", ["aim", "batched", "mst"])
    assert (first.rival, first.best, first.verdict) == ("mst", 0.05, "worse")
    assert str(first) == "0.100 / 0.0500 (mst, 2.00) **worse**"
    assert (second.rival, second.verdict) == ("aim", "failed")
    assert math.isnan(second.value)
    with pytest.raises(InputError, match="method and rivals must be methods of the folder"):
        find_standings(Findings(sides), "auto", ["batched"])
    with pytest.raises(InputError, match="method and rivals"):
        find_standings(Findings(sides), "privsyn", ["aim"])


def test_the_page_names_the_half_and_where_the_method_is_worse(tmp_path: Path) -> None:
    sides = [*runs("auto", [{"average_tv": 0.1}]), *runs("aim", [{"average_tv": 0.05}])]
    write_results(sides, tmp_path / "results.parquet")
    told = {"data": {"t": {"half": "reporting"}}}
    (tmp_path / "benchmark.json").write_text(json.dumps(told), encoding="utf-8")
    write_standing(tmp_path, tmp_path / "page.md")
    page = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert "nothing may be chosen by them" in page
    assert "- t, epsilon 1, `average_tv`: 0.100 / 0.0500 (aim, 2.00) **worse**" in page
    assert "| average_tv | 1 | 1 | 0 | 0 | 2.00 | 2.00 |" in page
