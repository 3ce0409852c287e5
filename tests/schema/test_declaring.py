"""Declaring: help that teaches, a schema that can be read, and rules that are refused before a spend."""

from __future__ import annotations

import doctest
import importlib
import pydoc
from pathlib import Path

import pandas as pd
import pytest

import margrave as mg
from margrave.errors import SchemaError
from margrave.privacy.ledger.journal import read_ledger
from margrave.schema.constraints.rules import Determines, Forbidden, Ordered, Rule, Within

AGE = mg.Integer(name="age", lower=0, upper=110, missing=False)
SEX = mg.Categorical(name="sex", values=("F", "M"), missing=False)


@pytest.mark.parametrize(
    "kind", [mg.Integer, mg.Real, mg.Categorical, mg.Ordinal, mg.Boolean, mg.Date, mg.Moment]
)
def test_help_of_a_column_kind_says_what_to_give_it(kind: type) -> None:
    text = pydoc.plain(pydoc.render_doc(kind))
    head = text.partition("Method resolution order")[0]
    for word in ("Args:", "name:", "missing:", "strict:", "Example:"):
        assert word in head, word
    if kind in (mg.Integer, mg.Real, mg.Date, mg.Moment):
        assert "lower:" in head


@pytest.mark.parametrize(
    "module", ["columns.binned", "columns.listed", "columns.temporal", "columns.identifier", "schema"]
)
def test_examples_in_the_help_are_right(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"margrave.schema.{module}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_a_schema_prints_a_line_a_column() -> None:
    schema = mg.Schema(
        (AGE, SEX, mg.Date(name="born"), mg.Unknown(name="remark"), mg.Identifier(name="id")),
        (Forbidden(("sex", "remark"), [("M", "x")]),),
    )
    assert repr(schema).splitlines() == [
        "Schema of 5 columns, 3 with parts to be discovered",
        "  age     integer, 0 to 110, bins to be discovered",
        "  sex     categorical, F, M",
        "  born    date, range and bins to be discovered, missing values to be discovered",
        "  remark  kind, values and missing values to be discovered",
        "  id      identifier, new keys",
        "  rules: forbidden (sex, remark)",
    ]
    assert str(schema) == repr(schema)
    long = mg.Categorical(name="zip", values=tuple(map(str, range(100))), other="(other)", missing=True)
    assert "100 values and (other), may be missing" in repr(mg.Schema((long,)))


@pytest.mark.parametrize(
    ("rule", "match"),
    [
        (Forbidden(("age", "born"), [(1, 2)]), "listed values"),
        (Forbidden(("sex", "town"), [("X", "a")]), "one that the column lists"),
        (Determines("age", "town"), "listed values"),
        (Determines("town", "sex", {"X": "a"}), "one that the column lists"),
        (Ordered("age", "born"), "of one kind"),
        (Ordered("sex", "age"), "numbers, dates or moments"),
        (Within("born", "town", {"a": ("soon", None)}), "ISO form"),
        (Within("age", "born", {"a": (1, None)}), "listed values"),
        (Within("age", "sex", {"X": (1, None)}), "one that the column lists"),
    ],
)
def test_a_rule_that_cannot_hold_is_refused_though_other_columns_are_open(rule: Rule, match: str) -> None:
    columns = (AGE, SEX, mg.Date(name="born"), mg.Categorical(name="town"))
    with pytest.raises(SchemaError, match=match):
        mg.Schema(columns, (rule,))


def test_rules_of_known_columns_that_contradict_each_other_are_refused_at_once() -> None:
    low, high = (
        mg.Integer(name=name, lower=at, upper=at + 9, missing=False)
        for name, at in (("low", 50), ("high", 0))
    )
    with pytest.raises(SchemaError, match="contradict"):
        mg.Schema(
            (low, high, SEX, mg.Categorical(name="town")), (Ordered("low", "high"), Determines("town", "sex"))
        )


def test_a_rule_about_a_column_of_unknown_kind_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    pd.DataFrame({"sex": ["F", "M"] * 50, "ward": ["1", "2"] * 50}).to_csv(table, index=False)
    schema = mg.Schema((SEX, mg.Unknown(name="ward")), (Forbidden(("sex", "ward"), [("M", "1")]),))
    synthesizer = mg.Synthesizer("independent", epsilon=1.0, schema=schema, ledger=tmp_path / "ledger.jsonl")
    for ask in (synthesizer.fit, synthesizer.plan):
        with pytest.raises(SchemaError, match="declared kind, which \\['ward'\\] have not"):
            ask(table)
    assert not (tmp_path / "ledger.jsonl").exists()
    known = mg.Schema((SEX, mg.Categorical(name="ward")), schema.rules)
    mg.Synthesizer("independent", epsilon=1.0, schema=known, ledger=tmp_path / "ledger.jsonl").fit(table)
    assert read_ledger(tmp_path / "ledger.jsonl")[1]
