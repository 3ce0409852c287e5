"""Shadow models tell copies and outliers, and nothing from a table that was made from nothing."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave import Schema
from margrave.auditing import ShadowAttack, shadow_attack
from margrave.auditing.shadow import ShadowFeatures, outliers
from margrave.errors import InputError, MissingExtraError
from margrave.evaluation.attacks import area
from margrave.schema.encode import encode

SCHEMA = Schema.from_sizes({"a": 3, "b": 4, "c": 2})


def _reference(rows: int = 600) -> pa.Table:
    rng = np.random.default_rng(0)
    a = rng.choice(3, rows, p=[0.6, 0.38, 0.02])
    return pa.table({"a": a, "b": np.where(rng.random(rows) < 0.9, a, 3), "c": rng.integers(0, 2, rows)})


def test_copies_are_told_and_rows_from_nowhere_are_not() -> None:
    rng, told = np.random.default_rng(1), []
    target = [{"a": 2, "b": 0, "c": 1}]
    copies = shadow_attack(
        *(lambda table: table, _reference(), SCHEMA),
        rows=60, runs=80, targets=target, on_step=told.append,
    )  # fmt: skip
    assert copies.score.value > 0.95
    assert copies.caught(0.1)[1] > 0.6
    assert copies.members.shape == copies.others.shape == (1, 20)
    assert told[0].startswith("80 runs will take about ")
    assert "area under the curve" in str(copies)
    assert "cannot show" in repr(copies)

    def nowhere(table: Any) -> Any:
        return pa.table({name: rng.integers(0, 2, 60) for name in table.column_names})

    fresh = shadow_attack(nowhere, _reference(), SCHEMA, rows=60, runs=80, targets=target)
    assert abs(fresh.score.value - 0.5) < 3.5 * fresh.score.parts["standard error"]


def test_a_named_method_is_attacked() -> None:
    found = shadow_attack(
        "independent", _reference(), SCHEMA, epsilon=0.5, delta=1e-5, rows=80, runs=16, targets=2
    )
    assert found.what == "independent"
    assert found.members.shape == (2, 4)
    assert found.score.scope == "2 targets, 8 runs to learn from and 8 to test, each"
    assert found.score.private
    assert abs(found.score.value - 0.5) < 3.5 * found.score.parts["standard error"]


def test_what_is_told_is_counted_by_target() -> None:
    members = np.array([[0.9, 0.8, 0.2, 0.7], [0.1, 0.2, 0.3, 0.4]])
    others = np.array([[0.1, 0.3, 0.2, 0.6], [0.1, 0.2, 0.3, 0.4]])
    found = ShadowAttack("a method", members, others, 4, 1.0)
    assert found.areas == (area(members[0], others[0]), 0.5)
    assert found.score.value == pytest.approx(np.mean(found.areas))
    rate, low, high = found.caught(0.25)
    assert (rate, low < rate < high) == (3 / 8, True)
    assert found.score.parts["caught at 1% false alarms"] == 3 / 8


def test_outliers_are_the_rarest_rows() -> None:
    table = pa.table({"a": [0, 0, 0, 2, 1], "b": [0, 0, 0, 3, 0], "c": [0, 0, 0, 1, 0]})
    assert outliers(table, SCHEMA, 2) == [{"a": 2, "b": 3, "c": 1}, {"a": 1, "b": 0, "c": 0}]
    for count in (0, 6):
        with pytest.raises(InputError, match="targets must be"):
            outliers(table, SCHEMA, count)


def test_features_are_what_they_say() -> None:
    codes = encode(_reference(50), SCHEMA)
    table = np.column_stack([codes.column(name) for name in "abc"]).astype(float)
    features = ShadowFeatures(SCHEMA, {"a": 0, "b": 0, "c": 1}, np.random.default_rng(0))
    found = features.of(codes)
    assert found.shape == (9 + 9 + 9 + 3 + 100,)
    np.testing.assert_allclose(found[:9], [*table.mean(0), *np.median(table, axis=0), *table.var(0)])
    np.testing.assert_allclose(found[18:21], np.bincount(codes.column("a"), minlength=3) / 50)
    np.testing.assert_allclose(found[27:30], np.corrcoef(table.T)[np.triu_indices(3, 1)], atol=1e-12)
    whole = ((table == [0, 0, 1]).all(axis=1)).mean()
    assert found[30:].min() == pytest.approx(whole)
    empty = encode(_reference(50).slice(0, 0), SCHEMA)
    assert features.of(empty).tolist() == [0.0] * 130


def test_what_cannot_be_attacked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for options, message in (({"runs": 4}, "runs must be"), ({"rows": 10**6}, "rows must be")):
        with pytest.raises(InputError, match=message):
            shadow_attack("mst", _reference(), SCHEMA, **options)  # type: ignore[arg-type]
    alike = pa.table({"a": [0, 0, 0, 1], "b": [0, 0, 0, 1], "c": [0, 0, 0, 1]})
    with pytest.raises(InputError, match="rows must be at most the rows that are not the target"):
        shadow_attack("mst", alike, SCHEMA, rows=2, targets=[{"a": 0, "b": 0, "c": 0}])
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtraError, match=r"margrave\[eval\]"):
        shadow_attack("mst", _reference(), SCHEMA)


@pytest.mark.slow
def test_the_more_is_spent_the_more_is_told() -> None:
    """A target alone in its cell, at little and at much epsilon."""
    target = [{"a": 2, "b": 0, "c": 1}]
    options: dict[str, Any] = {"rows": 60, "runs": 400, "targets": target, "delta": 1e-5}
    little, much = (
        shadow_attack("mst", _reference(), SCHEMA, epsilon=epsilon, **options).score
        for epsilon in (0.5, 100.0)
    )
    assert abs(little.value - 0.5) < 4 * little.parts["standard error"]
    assert much.value > 0.9
