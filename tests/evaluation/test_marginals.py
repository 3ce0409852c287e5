from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from counted import Rows as Slow
from counted import dependent
from people import SCHEMA, made

from margrave.engines.memory import MemoryEngine
from margrave.evaluation.review import score_metrics
from margrave.evaluation.rows import Rows
from margrave.evaluation.task import Task
from margrave.schema.schema import Schema


def _shares(rows: Rows, clique: tuple[str, ...]) -> dict[tuple[int, ...], float]:
    codes = zip(*(rows.encoded.column(name).tolist() for name in clique), strict=True)
    return {cell: count / rows.size for cell, count in Counter(codes).items()}


def _l1(first: Rows, second: Rows, clique: tuple[str, ...]) -> float:
    one, two = _shares(first, clique), _shares(second, clique)
    return sum(abs(one.get(cell, 0) - two.get(cell, 0)) for cell in one.keys() | two.keys())


def _mean(first: Rows, second: Rows, widths: tuple[int, ...], names: tuple[str, ...] = SCHEMA.names) -> float:
    return float(np.mean([_l1(first, second, c) for width in widths for c in combinations(names, width)]))


def test_every_marginal_metric_is_the_brute_force_mean() -> None:
    real, synthetic, held_out = made(150, 0), made(120, 1, 0.6), made(90, 2)
    task = Task(real, synthetic, SCHEMA, held_out=held_out)
    names = ["average_tv", "fidelity_error", "l1_2way", "l1_3way", "l1_4way", "l1_upto3way", "k_marginal"]
    found = {
        score.name: score for score in score_metrics(task, [*names, "k_marginal_3", "contingency_similarity"])
    }
    pairs, triples = _mean(real, synthetic, (2,)), _mean(real, synthetic, (3,))
    assert found["average_tv"].value == pytest.approx(pairs / 2, abs=1e-12)
    assert found["fidelity_error"].value == pytest.approx(_mean(held_out, synthetic, (2,)) / 2, abs=1e-12)
    assert found["l1_2way"].value == pytest.approx(pairs, abs=1e-12)
    assert found["l1_3way"].value == pytest.approx(triples, abs=1e-12)
    assert found["l1_4way"].value == pytest.approx(_mean(real, synthetic, (4,)), abs=1e-12)
    assert found["l1_upto3way"].value == pytest.approx(_mean(real, synthetic, (1, 2, 3)), abs=1e-12)
    assert found["k_marginal"].value == pytest.approx(1000 * (1 - pairs / 2), abs=1e-9)
    assert found["k_marginal_3"].value == pytest.approx(1000 * (1 - triples / 2), abs=1e-9)
    listed = _mean(real, synthetic, (2,), ("job", "town", "rich"))
    assert found["contingency_similarity"].value == pytest.approx(1 - listed / 2, abs=1e-12)
    assert found["average_tv"].parts["pay x job"] == pytest.approx(_l1(real, synthetic, ("pay", "job")) / 2)
    assert found["l1_upto3way"].scope == "41 columns, pairs, triples"


def test_without_held_out_rows_fidelity_is_against_the_real_ones() -> None:
    real, synthetic = made(100, 0), made(100, 1)
    scores = score_metrics(Task(real, synthetic, SCHEMA), ["average_tv", "fidelity_error"])
    assert scores[0].value == scores[1].value


def test_many_cliques_are_drawn_by_the_seed() -> None:
    real, synthetic = made(80, 0), made(80, 1)
    scores = [
        score_metrics(Task(real, synthetic, SCHEMA, seed=seed, max_cliques=5), ["l1_3way"])[0]
        for seed in (0, 0, 1)
    ]
    assert scores[0] == scores[1] != scores[2]
    assert scores[0].scope == "5 triples"
    assert scores[0].note == "5 drawn of 20"
    chosen = [tuple(part.split(" x ")) for part in scores[0].parts]
    assert len(set(chosen)) == 5
    assert scores[0].value == pytest.approx(np.mean([_l1(real, synthetic, c) for c in chosen]))


def test_large_tables_are_left_out_and_said() -> None:
    task = Task(made(50, 0), made(50, 1), SCHEMA, max_cells=40)
    score = score_metrics(task, ["average_tv"])[0]
    sizes = [SCHEMA.domain.size(pair) for pair in combinations(SCHEMA.names, 2)]
    small = sum(size <= 40 for size in sizes)
    assert 0 < small < 15
    assert score.scope == f"{small} pairs"
    assert score.note == f"{15 - small} left out, above 40 cells"


def test_the_pass_over_the_data_is_shared() -> None:
    calls: list[int] = []

    class Watched(Slow):
        def count(self, cliques):  # type: ignore[no-untyped-def]
            calls.append(len(cliques))
            return super().count(cliques)

    codes = dependent(60, 0)
    schema = Schema.from_sizes(dict(zip(codes.domain.names, codes.domain.sizes, strict=True)))
    real = Rows(codes, engine=Watched(codes))
    task = Task(real, Rows(dependent(60, 1)), schema)
    score_metrics(task, ["average_tv", "k_marginal", "l1_2way", "l1_3way", "average_sw1"])
    assert calls == [10 + 10]


def test_an_engine_of_the_house_gives_the_same_scores() -> None:
    real, synthetic = made(100, 0), made(100, 1)
    counted = [Rows(rows.encoded, rows.numbers, MemoryEngine(rows.encoded)) for rows in (real, synthetic)]
    names = ["average_tv", "association_difference", "tv_complement"]
    assert score_metrics(Task(*counted, SCHEMA), names) == score_metrics(Task(real, synthetic, SCHEMA), names)
