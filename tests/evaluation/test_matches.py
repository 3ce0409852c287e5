from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from counted import encoded
from people import SCHEMA, made

from margrave.errors import SchemaError
from margrave.evaluation.metrics.rows import ApparentMatch, row_ids
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows, shuffled_rows
from margrave.evaluation.score import Facts
from margrave.evaluation.task import Task
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema


def _tuples(rows: Rows, names: tuple[str, ...] = SCHEMA.names) -> list[tuple[int, ...]]:
    return list(zip(*(rows.encoded.column(name).tolist() for name in names), strict=True))


def test_unique_rows_that_reappear() -> None:
    real, held_out = made(200, 0), made(150, 3)
    synthetic = Rows(
        encoded(SCHEMA.domain, np.array(_tuples(made(100, 1)) + _tuples(real)[:40] + _tuples(real)[:40]))
    )
    score = score_metrics(Task(real, synthetic, SCHEMA, held_out=held_out), ["unique_exact_match"])[0]
    seen = set(_tuples(synthetic))
    for side, found in ((real, score.value), (held_out, score.parts["held-out rows matched"])):
        alone = [row for row, count in Counter(_tuples(side)).items() if count == 1]
        assert found == pytest.approx(sum(row in seen for row in alone) / len(alone))
    unique = sum(count == 1 for count in Counter(_tuples(real)).values())
    assert score.parts["unique real rows"] == pytest.approx(unique / 200)
    assert score.scope == f"{unique} unique real rows"


def test_no_row_is_unique() -> None:
    rows = made(20, 0)
    twice = rows.take(np.repeat(np.arange(20), 2))
    score = score_metrics(Task(twice, rows, SCHEMA), ["unique_exact_match"])[0]
    assert np.isnan(score.value)
    assert score.note == "no real row is unique"


def test_apparent_matches_are_those_of_brute_force() -> None:
    real, synthetic = made(120, 0), made(120, 1)
    quasi, rest = ("age", "job", "town"), ("pay", "tax", "rich")
    found = ApparentMatch(Facts("match", ""), quasi).run(Task(real, synthetic, SCHEMA))
    keys = [_tuples(side, quasi) for side in (real, synthetic)]
    matched = [
        (keys[0].index(key), keys[1].index(key))
        for key in set(keys[0])
        if keys[0].count(key) == keys[1].count(key) == 1
    ]
    assert matched
    assert found.value == pytest.approx(len(matched) / 120)
    values = [_tuples(side, rest) for side in (real, synthetic)]
    agreed = [np.mean(np.equal(values[0][one], values[1][two])) for one, two in matched]
    assert found.parts["mean agreement in the rest"] == pytest.approx(np.mean(agreed))
    assert found.parts["matches that agree in all"] == pytest.approx(np.mean(np.array(agreed) == 1))


def test_copies_match_and_shuffled_rows_hardly() -> None:
    real = made(300, 0)
    shuffled = shuffled_rows(real, np.random.default_rng(0))
    names = ["apparent_match", "unique_exact_match"]
    copied, mixed = (score_metrics(Task(real, table, SCHEMA), names) for table in (real, shuffled))
    assert copied[1].value == 1
    assert copied[0].parts["matches that agree in all"] == 1
    assert mixed[1].value < 0.2
    assert mixed[0].value < copied[0].value


def test_an_unknown_column_is_refused_and_one_column_is_not_enough() -> None:
    with pytest.raises(SchemaError, match="clique must be made of"):
        ApparentMatch(Facts("match", ""), ("nobody",)).run(Task(made(9, 0), made(9, 1), SCHEMA))
    rows = Rows(encoded(Domain(("a",), (2,)), np.array([[0], [1]])))
    score = score_metrics(Task(rows, rows, Schema.from_sizes({"a": 2})), ["apparent_match"])[0]
    assert score.note == "there is one column only"


def test_ids_do_not_overflow() -> None:
    domain = Domain(tuple(f"c{place}" for place in range(40)), (100_000,) * 40)
    table = np.random.default_rng(0).integers(0, 100_000, (5, 40))
    first = Rows(encoded(domain, table))
    second = Rows(encoded(domain, table[[4, 0]]))
    ids = row_ids([first, second], domain.names)
    assert len(set(ids[0])) == 5
    assert ids[1].tolist() == ids[0][[4, 0]].tolist()
