"""Proposals to declare: from names and storage types alone."""

from __future__ import annotations

import json
import re

import pytest

from margrave.cli.schema import propose_declarations
from margrave.schema.columns import Boolean, Column, Date, Integer, Real, Unknown
from margrave.schema.schema import Schema


@pytest.mark.parametrize(
    ("column", "word"),
    [
        (Unknown(name="visit_id"), "identifier"),
        (Integer(name="patientId"), "identifier"),
        (Unknown(name="ZIP"), "categorical"),
        (Integer(name="home zip"), "categorical"),
        (Unknown(name="icd10", textual=True), "categorical"),
        (Unknown(name="nurse_notes"), "omitted"),
        (Unknown(name="E-Mail"), "omitted"),
        (Integer(name="age"), "0 and 120"),
        (Unknown(name="age"), "0 and 120"),
        (Unknown(name="is_open"), "boolean"),
    ],
)
def test_a_name_says_what_to_declare(column: Column, word: str) -> None:
    (line,) = propose_declarations([column])
    assert repr(column.name) in line
    assert word in line


@pytest.mark.parametrize(
    "column",
    [
        Unknown(name="city"),
        Real(name="grid"),
        Real(name="score_id"),
        Integer(name="pages"),
        Unknown(name="age", textual=True),
        Boolean(name="is_open"),
    ],
)
def test_other_names_say_nothing(column: Column) -> None:
    assert propose_declarations([column]) == []


def test_dates_in_order_are_proposed_as_a_rule_that_can_be_declared() -> None:
    names = ["admitted", "discharged", "start_date", "end_date", "end_time", "born"]
    columns = tuple(Date(name=name) for name in names)
    pairs = []
    for line in propose_declarations(columns):
        rule = re.search(r"\{.*\}", line)
        assert rule is not None
        parts = json.loads(rule[0])
        pairs.append((parts["low"], parts["high"]))
        document = Schema(columns).to_json() | {"rules": [parts], "margrave_schema": 2}
        assert Schema.from_json(document).rules
    assert set(pairs) == {("admitted", "discharged"), ("start_date", "end_date"), ("born", "admitted")}
