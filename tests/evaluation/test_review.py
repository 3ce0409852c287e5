"""Several synthetic tables against one real table, through the front door."""

from __future__ import annotations

import json
import math
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from people import SCHEMA, people

import margrave as mg
from margrave.errors import InputError, MissingExtraError
from margrave.evaluation import METRICS
from margrave.evaluation.review import Review, default_metrics
from margrave.report import render_comparison
from margrave.schema.constraints.rules import Ordered
from margrave.schema.schema import Schema

SINGLE = {name for name, one in METRICS.items() if one.facts.single_columns} | {"tv_1_mean", "tv_1_max"}
LOST = "is no better than after a shuffle: if it looks at each column alone, its facts say `single_columns`"
DISCLOSURE = {name for name, one in METRICS.items() if one.facts.discloses}


@pytest.fixture(scope="module")
def found() -> Review:
    real, tables = people(500, 0, 0.2), {"near": people(500, 1, 0.2), "far": people(400, 2, 0.9)}
    ruled = Schema(SCHEMA.columns, (Ordered("tax", "pay"),))
    return mg.review(real, tables, schema=ruled, pictures=False)


def test_every_score_has_both_brackets_in_order(found: Review) -> None:
    """Real against real is better than shuffled columns, wherever there is something to lose."""
    best, worst = (found.first.references[name] for name in ("bootstrap", "shuffled"))
    judged = 0
    for score in found.first.scores:
        assert score.name in best, score.name
        assert score.name in worst, score.name
        sign = 1 if score.better == "higher" else -1
        if score.name in SINGLE:
            assert sign * (worst[score.name] - best[score.name]) >= 0, score.name
        elif score.name in DISCLOSURE:
            assert best[score.name] > worst[score.name], score.name
        else:
            assert sign * (best[score.name] - worst[score.name]) > 0, f"{score.name} {LOST}"
            judged += 1
    assert judged > 18


def test_tables_are_ranked_as_they_should(found: Review) -> None:
    near, far = found.comparisons.values()
    for score in near.scores:
        if score.name in SINGLE | DISCLOSURE or math.isnan(score.value):
            continue
        sign = 1 if score.better == "higher" else -1
        assert sign * (score.value - far[score.name]) >= 0, score.name


def test_all_tables_share_one_schema_and_the_references(found: Review) -> None:
    near, far = found.comparisons.values()
    assert near.references == far.references
    assert [score.name for score in near.scores] == [score.name for score in far.scores]
    for one, other in zip(near.columns, far.columns, strict=True):
        assert one.labels == other.labels
        assert (one.real == other.real).all()
    assert near.rows == (500, 500)
    assert far.rows == (500, 400)


def test_scores_are_those_of_evaluate_for_one_table() -> None:
    real, synthetic = people(300, 0), people(200, 1, 0.5)
    names = ["average_tv", "ks_complement", "query_error", "k_marginal_3"]
    alone = mg.evaluate(real, synthetic, metrics=names)
    found = mg.review(real, {"a": synthetic}, pictures=False).first
    for name in (*names, "tv_1_max", "tv_2_mean", "association_mean"):
        assert found[name] == alone[name]
        assert found.references["bootstrap"][name] == alone.references["bootstrap"][name]


def test_json_holds_all_tables_and_nothing_that_is_no_number(found: Review) -> None:
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["warning"].startswith("NOT PRIVATE")
    assert list(document["tables"]) == ["near", "far"]
    assert document["tables"]["far"]["rows"] == {"real": 500, "synthetic": 400}
    assert set(document["references"]) == {"bootstrap", "shuffled"}
    lines = str(found).splitlines()
    assert lines[0].startswith("NOT PRIVATE")
    assert lines[1].split() == ["score", "near", "far", "bootstrap", "shuffled", "better"]
    assert len(lines) == 3 + len(found.first.scores)


def test_columns_that_a_table_lacks_are_left_out_and_said() -> None:
    real = people(200, 0)
    found = mg.review(real, {"a": people(200, 1).drop(["job"]), "b": people(99, 2)}, pictures=False)
    assert "job" not in [column.name for column in found.first.columns]
    assert found.notes == ("Left out, because not every table has them: job.",)
    with pytest.raises(InputError, match="columns of table a must be among"):
        mg.review(real.drop(["job"]), {"a": people(200, 1)}, pictures=False)
    with pytest.raises(InputError, match="columns of test must be all of"):
        mg.review(real, {"a": people(99, 1)}, test=people(99, 2).drop(["job"]), pictures=False)
    with pytest.raises(InputError, match="target must be one of"):
        mg.review(real, {"a": people(99, 1)}, target="nobody")


@pytest.mark.parametrize("name", ["real", "bootstrap", "shuffled", "real rows"])
def test_names_of_references_are_taken(name: str) -> None:
    with pytest.raises(InputError, match="tables must be one or more"):
        mg.review(people(20, 0), {name: people(20, 1)})
    with pytest.raises(InputError, match="tables must be one or more"):
        mg.review(people(20, 0), {})


def test_names_of_persons_are_left_out() -> None:
    texts = pa.array([f"person {place}" for place in range(1100)])
    real = people(1100, 0).append_column("who", texts)
    other = people(1100, 1).append_column("who", texts)
    found = mg.review(real, {"a": other}, pictures=False)
    assert "who" not in [column.name for column in found.first.columns]
    assert "as names of persons do: who" in found.notes[0]


def test_without_scikit_learn_all_else_is_scored_and_said() -> None:
    real, synthetic = people(120, 0), people(120, 1)
    missing = MissingExtraError("Install it with: pip install 'margrave[eval]'")

    def absent(name: str) -> None:
        raise missing

    homes = ("metrics.pictures", "metrics.efficiency")
    patches = [mock.patch(f"margrave.evaluation.{home}.part", absent) for home in homes]
    for patch in patches:
        patch.start()
    try:
        found = mg.review(real, {"a": synthetic}, target="rich")
        with pytest.raises(MissingExtraError):
            mg.review(real, {"a": synthetic}, metrics=["propensity_cart"], pictures=False)
    finally:
        for patch in patches:
            patch.stop()
    scores = {score.name: score for score in found.first.scores}
    assert "pip install" in scores["propensity_cart"].note
    assert scores["average_tv"].value > 0
    page = render_comparison(found)
    assert page.count("pip install") >= 3
    assert "principal components" in page


def test_streamed_and_held_files_may_be_mixed(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for place in range(2):
        pq.write_table(people(100, place), tmp_path / "parts" / f"{place}.parquet")
    found = mg.review(tmp_path / "parts", {"a": people(150, 5)}, schema=SCHEMA, pictures=False)
    assert 0 < found.first["tv_2_mean"] < 1
    assert found.first.rows == (200, 150)


def test_defaults_are_all_but_the_four_models() -> None:
    everything = default_metrics(target=True, held_out=True, rules=True)
    assert set(METRICS) - set(everything) == {"ml_accuracy", "ml_auc", "ml_f1", "ml_r2", "ml_rmse"}
    few = default_metrics(target=False, held_out=False, rules=False)
    assert set(few) == {name for name in everything if not METRICS[name].facts.needs}


@pytest.mark.slow
def test_the_number_of_threads_is_no_matter() -> None:
    real, tables = people(60, 0), {"a": people(60, 1)}
    first, again = (mg.review(real, tables, target="rich", seed=3) for _ in range(2))
    assert first.to_json() == again.to_json()
    assert not isinstance(first.scatter, str)
    assert not isinstance(again.scatter, str)
    assert np.array_equal(first.scatter.points["a"], again.scatter.points["a"])
