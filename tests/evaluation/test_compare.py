from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from counted import Rows, dependent, encoded

from margrave.errors import InputError
from margrave.evaluation import Comparison, compare
from margrave.evaluation.comparison import SAMPLED_TRIPLES
from margrave.schema.columns import Boolean, Categorical, Integer
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema


def _brute(first: Encoded, second: Encoded, clique: tuple[str, ...]) -> float:
    def shares(rows: Encoded) -> dict[tuple[int, ...], float]:
        found: dict[tuple[int, ...], float] = {}
        for values in zip(*(rows.column(name).tolist() for name in clique), strict=True):
            found[values] = found.get(values, 0.0) + 1 / rows.rows
        return found

    one, two = shares(first), shares(second)
    return sum(abs(one.get(cell, 0) - two.get(cell, 0)) for cell in one.keys() | two.keys()) / 2


def test_scores_agree_with_brute_force() -> None:
    real, other = dependent(300, 0), dependent(200, 1, noise=0.5)
    found = compare(Rows(real), Rows(other))
    for width in (1, 2, 3):
        distances = [_brute(real, other, clique) for clique in combinations(real.domain.names, width)]
        assert found[f"tv_{width}_mean"] == pytest.approx(np.mean(distances))
        assert found[f"tv_{width}_max"] == pytest.approx(max(distances))
    for i, j in combinations(range(5), 2):
        pair = (real.domain.names[i], real.domain.names[j])
        assert found.pairs.tv[i, j] == found.pairs.tv[j, i] == pytest.approx(_brute(real, other, pair))
    errors = np.abs(found.pairs.real - found.pairs.synthetic)[np.triu_indices(5, 1)]
    assert found["association_mean"] == pytest.approx(errors.mean())
    assert found["association_max"] == pytest.approx(errors.max())
    assert found.rows == (300, 200)
    assert [column.tv for column in found.columns] == pytest.approx(
        [_brute(real, other, (name,)) for name in real.domain.names]
    )


def test_a_table_is_at_distance_zero_of_itself() -> None:
    real = Rows(dependent(500, 0))
    found = compare(real, real)
    assert [score.value for score in found.scores] == [0.0] * 8
    twice = Encoded(real.domain, tuple(np.concatenate([c, c]) for c in real.rows.columns))
    assert compare(real, Rows(twice))["tv_3_max"] == pytest.approx(0, abs=1e-15)


def test_the_references_bracket_a_middling_table() -> None:
    real = dependent(4000, 0)
    found = compare(Rows(real), Rows(dependent(4000, 1, noise=0.35)))
    bootstrap, shuffled = found.references["bootstrap"], found.references["shuffled"]
    for name in ("tv_2_mean", "tv_3_mean", "association_mean"):
        assert bootstrap[name] < found[name] < shuffled[name]
    assert shuffled["tv_1_max"] == 0
    assert 0 < bootstrap["tv_1_mean"] < 0.03


def test_the_seed_decides_the_references() -> None:
    real, other = Rows(dependent(300, 0)), Rows(dependent(300, 1))
    assert compare(real, other, seed=3).to_json() == compare(real, other, seed=3).to_json()
    assert compare(real, other, seed=3).references != compare(real, other, seed=4).references


def test_many_triples_are_sampled_and_large_tables_left_out() -> None:
    rng = np.random.default_rng(0)
    domain = Domain(tuple(f"c{place}" for place in range(18)), (2,) * 17 + (50,))
    real, other = (encoded(domain, rng.integers(0, 2, (60, 18))) for _ in range(2))
    found = compare(Rows(real), Rows(other), max_cells=60)
    scopes = {score.name: score.scope for score in found.scores}
    assert scopes["tv_3_mean"] == f"{SAMPLED_TRIPLES} triples"
    assert scopes["tv_2_mean"] == f"{17 * 16 // 2} pairs"
    assert found.skipped == 17
    assert np.isnan(found.pairs.tv[0, 17])
    assert json.loads(json.dumps(found.to_json(), allow_nan=False))["pairs"]["tv"][0][17] is None


def test_labels_and_kinds_come_from_the_schema() -> None:
    schema = Schema(
        (
            Integer(name="n", lower=0, upper=1, missing=True),
            Categorical(name="c", values=("x",), other="rest", missing=True),
            Boolean(name="b", missing=False),
        )
    )
    rows = encoded(schema.domain, np.zeros((4, 3), dtype=np.int64))
    found = compare(Rows(rows), Rows(rows), schema=schema)
    assert [(c.kind, c.labels, c.tail) for c in found.columns] == [
        ("integer", ("0", "1", "missing"), 1),
        ("categorical", ("x", "rest", "missing"), 2),
        ("boolean", ("False", "True"), 0),
    ]


def test_one_column_has_no_pairs() -> None:
    domain = Domain(("a",), (3,))
    rows = Rows(encoded(domain, np.array([[0], [1], [2]])))
    assert [score.name for score in compare(rows, rows).scores] == ["tv_1_mean", "tv_1_max"]


def test_what_cannot_be_compared_is_refused() -> None:
    real = Rows(dependent(10, 0))
    empty = Rows(Encoded(real.domain, tuple(column[:0] for column in real.rows.columns)))
    with pytest.raises(InputError, match="synthetic must be a table with rows"):
        compare(real, empty)
    with pytest.raises(InputError, match="real must be a table with rows"):
        compare(empty, real)
    other = Rows(encoded(Domain(("a",), (2,)), np.zeros((3, 1))))
    with pytest.raises(InputError, match="synthetic must be of the real table's domain"):
        compare(real, other)


def test_it_prints_as_a_table_that_warns() -> None:
    found = compare(Rows(dependent(100, 0)), Rows(dependent(100, 1)))
    assert isinstance(found, Comparison)
    lines = str(found).splitlines()
    assert lines[0].startswith("NOT PRIVATE")
    assert lines[1].split() == ["score", "scope", "synthetic", "bootstrap", "shuffled", "better"]
    assert len(lines) == 3 + 8
    with pytest.raises(KeyError):
        found["nothing"]
