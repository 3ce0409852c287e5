"""Proposals to declare: from names and storage types alone."""

from __future__ import annotations

import json
import re

import pytest

from margrave.cli.schema import propose_declarations
from margrave.schema.columns import Boolean, Column, Date, Integer, Moment, Real, Unknown
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


def _proposed_orders(*columns: Column) -> set[tuple[str, str]]:
    found = [re.search(r"\{\"kind.*\}", line) for line in propose_declarations(columns)]
    rules = [json.loads(one[0]) for one in found if one is not None]
    return {(rule["low"], rule["high"]) for rule in rules}


def test_without_types_a_word_that_is_often_no_date_makes_no_rule() -> None:
    names = ["born", "admission", "admitted", "discharged", "died"]
    assert _proposed_orders(*(Unknown(name=name) for name in names)) == {
        ("born", "admitted"),
        ("admitted", "discharged"),
    }
    dated = [Unknown(name=name) for name in ("birth_date", "death_date", "order_date", "paid_date")]
    assert _proposed_orders(*dated) == {("birth_date", "death_date"), ("order_date", "paid_date")}
    assert _proposed_orders(Date(name="born"), Date(name="died")) == {("born", "died")}


def test_only_columns_of_one_type_make_a_rule() -> None:
    born = Date(name="born")
    assert _proposed_orders(born, Boolean(name="died")) == set()
    assert _proposed_orders(born, Integer(name="died")) == set()
    assert _proposed_orders(born, Moment(name="died")) == set()
    assert _proposed_orders(Unknown(name="admitted", textual=True), Date(name="discharged")) == set()
    assert _proposed_orders(Unknown(name="was_admitted"), Unknown(name="was_discharged")) == set()
    assert _proposed_orders(Integer(name="start"), Real(name="end")) == {("start", "end")}


def test_how_dates_are_written_is_proposed_where_names_say_dates_and_types_do_not() -> None:
    columns = (
        Unknown(name="dob"),
        Unknown(name="entryDate"),
        Date(name="exit_date"),
        Unknown(name="updated"),
    )
    (line,) = propose_declarations(columns)
    assert line.startswith("'dob', 'entryDate' may hold dates")
    assert "%d.%m.%Y" in line
