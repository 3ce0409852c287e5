"""Numbers that count flags: what the rule refuses, what is counted in rows, and numbers that follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import SchemaError
from margrave.evaluation.metrics.rows import broken, rule_words
from margrave.evaluation.rows import Rows
from margrave.schema.columns import Boolean, Categorical, Column, Date, Integer, Relative
from margrave.schema.constraints.rules import FlagCount, Ordered, rule_from_json
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

ROWS = 400
FEVER = Categorical(name="fever", values=("No", "Yes"), missing=True)
COUGH = Boolean(name="cough", missing=False)
CROSS = Categorical(name="cross", values=("X",), missing=True)
COLD = Integer(name="cold", edges=(0, 1, 2), missing=True)
NUMBER = Integer(name="number", edges=(0, 2, 5), missing=True)
COLUMNS: tuple[Column, ...] = (FEVER, COUGH, CROSS, COLD, NUMBER)
RULE = FlagCount("number", ("fever", "cough", "cross", "cold"), ("Yes", "true", "X", "1"))


def draw(rules: tuple[Any, ...] = (RULE,), columns: tuple[Column, ...] = COLUMNS, **options: Any) -> pa.Table:
    schema = Schema(columns, rules)
    rng = np.random.default_rng(0)
    codes = tuple(rng.integers(0, size, ROWS).astype(np.uint8) for size in schema.domain.sizes)
    return decode(Encoded(schema.domain, codes), schema, np.random.default_rng(1), **options)


def say(made: pa.Table) -> list[int]:
    """How many flags say yes in each row."""
    cells = [made[name].to_pylist() for name in RULE.flags]
    return [
        sum(str(cell).lower() == yes.lower() for cell, yes in zip(row, RULE.counted, strict=True))
        for row in zip(*cells, strict=True)
    ]


def test_numbers_follow_flags_and_missing_ones_stay() -> None:
    made, plain = draw(), draw(())
    for number, before, said in zip(
        made["number"].to_pylist(), plain["number"].to_pylist(), say(made), strict=True
    ):
        assert (number is None) == (before is None)
        assert number in (None, said)
    assert set(made["number"].to_pylist()) == {None, 0, 1, 2, 3, 4}
    for name in ("fever", "cough", "cross"):
        assert made[name].to_pylist() == plain[name].to_pylist()


def test_counts_beyond_the_range_leave_the_number() -> None:
    short = Integer(name="number", edges=(1, 2, 4), missing=False)
    made = draw(columns=(*COLUMNS[:-1], short))
    pairs = list(zip(made["number"].to_pylist(), say(made), strict=True))
    assert all(number == said for number, said in pairs if 1 <= said <= 3)
    assert {said for number, said in pairs if number != said} == {0, 4}
    assert {number for number, _ in pairs} == {1, 2, 3}


def test_numbers_that_are_given_stay() -> None:
    given = np.full(ROWS, np.nan)
    given[:50] = 4.0
    made, plain = (draw(rules, known={"number": given}) for rules in ((RULE,), ()))
    assert made["number"].to_pylist() == plain["number"].to_pylist()
    assert set(made["number"].to_pylist()[:50]) == {4, None}


def test_numbers_that_others_hang_on_stay() -> None:
    own, part = (Integer(name="other", edges=edges, missing=False) for edges in ((0, 5, 9), (0, 1, 3)))
    later = Relative(name="other", base="number", own=own, part=part, missing=False)
    columns = (*COLUMNS, later)
    assert draw(columns=columns)["number"].to_pylist() == draw((), columns)["number"].to_pylist()
    # A rule about codes holds for the number as it was drawn.
    ordered = Ordered("cold", "number")
    assert draw((RULE, ordered))["number"].to_pylist() == draw((ordered,))["number"].to_pylist()


@pytest.mark.parametrize(
    ("flags", "counted"),
    [
        (("fever",), ("Yes",)),
        (("fever", "cough"), ("Yes",)),
        (("fever", "cough"), ("Yes", 1)),
        (("number", "cough"), ("1", "true")),
    ],
)
def test_rules_that_count_nothing_are_refused(flags: Any, counted: Any) -> None:
    with pytest.raises(SchemaError):
        FlagCount("number", flags, counted)


@pytest.mark.parametrize(
    ("columns", "rule"),
    [
        ((FEVER, COUGH, NUMBER), FlagCount("number", ("fever", "cough"), ("Ja", "true"))),
        ((FEVER, COUGH, NUMBER), FlagCount("fever", ("number", "cough"), ("1", "true"))),
        ((FEVER, Date(name="day"), NUMBER), FlagCount("number", ("fever", "day"), ("Yes", "1"))),
    ],
)
def test_columns_of_other_kinds_are_refused(columns: Any, rule: FlagCount) -> None:
    with pytest.raises(SchemaError, match="flag_count"):
        Schema(columns, (rule,))


def test_rules_come_back_from_a_file() -> None:
    assert rule_from_json(RULE.to_json()) == RULE
    schema = Schema(COLUMNS, (RULE,))
    assert Schema.from_json(schema.to_json()) == schema
    assert rule_words(RULE) == "number is how many of fever, cough, cross and cold say yes"


def test_rows_are_counted_by_themselves() -> None:
    table = pa.table(
        {
            "fever": ["Yes", "No", None, "yes", "Yes"],
            "cough": [True, False, True, None, True],
            "cross": ["X", None, "", "X", "X"],
            "cold": [1.0, 0.0, None, 2.0, 1.0],
            "number": [4, 0, 1, 1, None],
        }
    )
    counts = open_source(table)[0].agreements([RULE], {})[0].reveal()
    assert counts.tolist() == [4, 0, 1]
    alone = [open_source(table.slice(row, 1))[0].agreements([RULE], {})[0].reveal() for row in range(5)]
    assert np.sum(alone, axis=0).tolist() == [4, 0, 1]
    wrong = table.set_column(4, "number", pa.array([3, 0, 1, 2, 4]))
    assert open_source(wrong)[0].agreements([RULE], {})[0].reveal().tolist() == [3, 2, 0]


def test_evaluation_sees_rows_that_miscount() -> None:
    schema = Schema(COLUMNS, (RULE,))
    for rules, any_wrong in (((RULE,), False), ((), True)):
        made = draw(rules)
        wrong = broken(RULE, Rows.of(made, schema), schema)
        assert wrong is not None
        assert bool(wrong.any()) == any_wrong
