"""Rows that break rules, against a judge written row by row in plain Python."""

from __future__ import annotations

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.evaluation import Rows, Task, score_metrics
from margrave.evaluation.metrics.rows import broken, rule_words
from margrave.evaluation.rows import observed_schema
from margrave.schema.columns import Categorical, Integer
from margrave.schema.constraints.rules import (
    Allowed,
    Determines,
    Forbidden,
    Ordered,
    Rule,
    Sum,
    Within,
)
from margrave.schema.schema import Schema

DAY = datetime.date(2024, 1, 1)
Row = dict[str, Any]


def _table(rows: int = 400, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)

    def gappy(values: list[Any]) -> list[Any]:
        return [None if gone else value for value, gone in zip(values, rng.random(rows) < 0.1, strict=True)]

    low, high = rng.integers(0, 12, (2, rows))
    part, rest = np.round(rng.uniform(0, 9, (2, rows)), 2)
    return pa.table(
        {
            "sex": gappy(rng.choice(["F", "M"], rows).tolist()),
            "town": rng.choice(["n", "s", "w"], rows).tolist(),
            "state": gappy(rng.choice(["X", "Y"], rows).tolist()),
            "low": gappy(low.tolist()),
            "high": gappy(high.tolist()),
            "part": part,
            "rest": rest,
            "total": np.where(rng.random(rows) < 0.7, part + rest, part + rest + 0.01),
            "start": pa.array([DAY + datetime.timedelta(int(d)) for d in rng.integers(0, 20, rows)]),
            "end": pa.array(gappy([DAY + datetime.timedelta(int(d)) for d in rng.integers(5, 25, rows)])),
        }
    )


def _majority(rows: list[Row]) -> dict[str, str]:
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        if row["state"] is not None:
            counts.setdefault(row["town"], Counter())[row["state"]] += 1
    # Ties go to the first in the order of the values.
    return {town: min(held, key=lambda s: (-held[s], s)) for town, held in counts.items()}


def _none(*values: Any) -> bool:
    return any(value is None for value in values)


CASES: dict[str, tuple[Rule, Callable[[Row, list[Row]], bool]]] = {
    "forbidden": (
        Forbidden(("sex", "town"), [("F", "n"), ("M", "w"), ("X", "n")]),
        lambda row, _: (row["sex"], row["town"]) in {("F", "n"), ("M", "w")},
    ),
    "forbidden missing": (
        Forbidden(("sex", "town"), [(None, "n")]),
        lambda row, _: row["sex"] is None and row["town"] == "n",
    ),
    "allowed": (
        Allowed(("sex", "town"), [("F", "n"), ("M", "w")]),
        lambda row, _: row["sex"] is not None and (row["sex"], row["town"]) not in {("F", "n"), ("M", "w")},
    ),
    "allowed missing": (
        Allowed(("town", "sex"), [("n", "F"), ("w", None)]),
        lambda row, _: (row["town"], row["sex"]) not in {("n", "F"), ("w", None)},
    ),
    "determines": (
        Determines("state", "town", {"n": "X", "s": "Y", "unseen": "X"}),
        lambda row, _: (
            row["state"] is not None and row["state"] != {"n": "X", "s": "Y"}.get(row["town"], row["state"])
        ),
    ),
    "determines missing": (
        Determines("state", "town", {"n": None, "s": "Y"}),
        lambda row, _: row["town"] in "ns" and row["state"] != {"n": None, "s": "Y"}[row["town"]],
    ),
    "determines an unseen value": (
        Determines("state", "town", {"n": "Z"}),
        lambda row, _: row["state"] is not None and row["town"] == "n",
    ),
    "a dependency without a table": (
        Determines("state", "town"),
        lambda row, rows: row["state"] is not None and row["state"] != _majority(rows)[row["town"]],
    ),
    "ordered": (
        Ordered("low", "high"),
        lambda row, _: not _none(row["low"], row["high"]) and row["low"] > row["high"],
    ),
    "strictly ordered": (
        Ordered("low", "high", strict=True),
        lambda row, _: not _none(row["low"], row["high"]) and row["low"] >= row["high"],
    ),
    "dates": (
        Ordered("start", "end"),
        lambda row, _: row["end"] is not None and row["start"] > row["end"],
    ),
    "sum": (
        Sum("total", ("part", "rest")),
        lambda row, _: abs(row["total"] - row["part"] - row["rest"]) > 1e-9,
    ),
    "within": (
        Within("low", "town", {"n": (2, 9), "s": (None, 5)}),
        lambda row, _: (
            row["low"] is not None
            and ((row["town"] == "n" and not 2 <= row["low"] <= 9) or (row["town"] == "s" and row["low"] > 5))
        ),
    ),
    "within missing": (
        Within("part", "sex", {None: (5, None)}),
        lambda row, _: row["sex"] is None and row["part"] < 5,
    ),
    "dates within": (
        Within("start", "town", {"w": ("2024-01-05", None)}),
        lambda row, _: row["town"] == "w" and row["start"] < datetime.date(2024, 1, 5),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_are_judged_as_one_by_one(case: str) -> None:
    rule, wrong = CASES[case]
    table = _table()
    source = open_source(table)[0]
    schema = observed_schema(source, source)
    rows = table.to_pylist()
    expected = [bool(wrong(row, rows)) for row in rows]
    found = broken(rule, Rows.of(table, schema), schema)
    assert found is not None
    assert found.tolist() == expected
    assert 0 < sum(expected) < len(rows)


def test_the_score_counts_both_tables() -> None:
    real, synthetic = _table(seed=1), _table(300, seed=2)
    sources = [open_source(table)[0] for table in (real, synthetic)]
    schema = observed_schema(*sources)
    chosen = [CASES[name] for name in ("ordered", "within")]
    rules = [rule for rule, _ in chosen]
    task = Task(Rows.of(real, schema), Rows.of(synthetic, schema), schema, rules=rules)
    score = score_metrics(task, ["rules"])[0]
    rows = {"real": real.to_pylist(), "synthetic": synthetic.to_pylist()}
    for place, (rule, wrong) in enumerate(chosen, 1):
        for side, table in rows.items():
            expected = sum(wrong(row, table) for row in table)
            assert score.parts[f"{place}. {rule_words(rule)}: {side} rows"] == expected > 0
    shares = {
        side: np.mean([any(wrong(row, table) for _, wrong in chosen) for row in table])
        for side, table in rows.items()
    }
    assert score.value == pytest.approx(shares["synthetic"])
    assert score.parts["any rule: share of real rows"] == pytest.approx(shares["real"])
    assert score.private


def test_what_cannot_be_judged_is_said() -> None:
    schema = Schema((Integer(name="low", lower=0, upper=9), Integer(name="high", lower=0, upper=9)))
    schema = schema.replace([Integer(name=n, lower=0, upper=9, missing=False) for n in schema.names])
    table = pa.table({"low": [1, 2, 9], "high": [3, 1, 9]})
    exact = Rows.of(table, schema)
    coded = Rows.from_codes(exact.encoded, schema)
    rules = [Ordered("low", "high"), Ordered("low", "absent"), Determines("low", "high")]
    assert [broken(rule, coded, schema) for rule in rules] == [None, None, None]
    score = score_metrics(Task(coded, coded, schema, rules=rules), ["rules"])[0]
    assert math.isnan(score.value)
    assert score.note.count("; ") == 2
    score = score_metrics(Task(exact, exact, schema, rules=rules), ["rules"])[0]
    assert score.value == pytest.approx(1 / 3)
    assert score.scope == "1 rules"
    assert score.note == "not judged: 2. low <= absent; 3. low follows from high"
    assert math.isnan(score_metrics(Task(exact, exact, schema), ["rules"])[0].value)


def test_a_value_pooled_in_other_is_not_held_against_a_row() -> None:
    columns = [
        Categorical(name=n, values=("a", "b"), other="rest", missing=False, strict=False) for n in "xy"
    ]
    schema = Schema(tuple(columns))
    cells = list(itertools.product(["a", "b", "c"], repeat=2))
    rows = Rows.of(pa.table({"x": [x for x, _ in cells], "y": [y for _, y in cells]}), schema)
    pooled = broken(Forbidden(("x", "y"), [("a", "c")]), rows, schema)
    allowed = broken(Allowed(("x", "y"), [("a", "a"), ("a", "c")]), rows, schema)
    assert pooled is not None
    assert not pooled.any()
    assert allowed is not None
    assert [cell for cell, wrong in zip(cells, allowed, strict=True) if not wrong] == [("a", "a"), ("a", "c")]


def test_rules_of_a_text_file_may_name_numbers() -> None:
    schema = Schema(
        (Categorical(name="x", values=("1", "2")), Categorical(name="y", values=("True", "False")))
    )
    schema = schema.replace(
        [Categorical(name=c.name, values=c.values, missing=False) for c in schema.columns]
    )  # type: ignore[attr-defined]
    rows = Rows.of(pa.table({"x": ["1", "2"], "y": ["True", "True"]}), schema)
    found = broken(Forbidden(("x", "y"), [(2, True)]), rows, schema)
    assert found is not None
    assert found.tolist() == [False, True]
