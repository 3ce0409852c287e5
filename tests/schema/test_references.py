"""Columns whose values are keys of another one: what says so, and that rows keep it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from margrave import Synthesizer
from margrave.schema.columns import Categorical, Column, Identifier, Integer, Relative
from margrave.schema.constraints.references import (
    avoid_self,
    describe_references,
    find_references,
    refer_to_numbers,
    refer_to_texts,
)
from margrave.schema.constraints.rules import Ordered
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema

ROWS = 400
UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def own(name: str, *shapes: str) -> Identifier:
    """A key of each row."""
    return Identifier(name=name, pattern="shape", shapes=shapes)


def back(name: str, shape: str, **more: object) -> Categorical:
    """Texts that come back, of one shape."""
    given = {
        "values": (),
        "patterns": (shape,),
        "others": shape,
        "missing": True,
        "repeats": ((1, 1.0), (9, 0.0)),
        "strict": False,
    }
    return Categorical(name=name, **(given | more))  # type: ignore[arg-type]


def number(name: str, upper: int = 1000, lower: int = 0, **more: object) -> Integer:
    """Whole numbers in four bins, alike many in each."""
    edges = tuple(np.linspace(lower, upper + 1, 5).astype(int).tolist())
    given = {"edges": edges, "fine": edges, "weights": (9.0,) * 4, "missing": False, "strict": False}
    return Integer(name=name, **(given | more))  # type: ignore[arg-type]


def keyed(name: str, upper: int = 1000) -> Integer:
    """Whole numbers, none twice."""
    return number(name, upper, unique=True)


@pytest.mark.parametrize(
    "columns",
    [
        (own("employee_id", "E[1-9][0-9]{3}"), back("manager_id", "E[0-9]{4}")),
        (own("case_id", "C[0-9]{4}", "C[0-9]{5}"), back("infected_by", "C[0-9]{5}")),
        (own("emp", "EMP-[0-9]{4}"), back("approver", "EMP-[1-9][0-9]{3}")),
        (own("employee_id", UUID), back("manager_id", UUID)),
        (own("id", "[1-9][0-9]{4}"), back("parent_id", "[0-9]{5}")),
        (keyed("id"), number("parent_id")),
        (own("id", "[1-9][0-9]{2}", "[1-9][0-9]{3}"), number("parent_id", lower=90, upper=5000)),
        (keyed("employee_id"), number("reports_to")),
        (keyed("customer_id"), number("referred_by")),
        (keyed("categoryId"), number("parentCategoryId")),
        (keyed("case_id"), number("infected_by", unique=True)),  # noise hides that they come back
    ],
)
def test_what_is_written_alike_and_named_so_refers_to_the_key(columns: tuple[Column, Column]) -> None:
    key, of = columns
    for order in (columns, columns[::-1]):
        assert find_references(Schema(order)) == {of.name: key.name}
    assert describe_references(Schema(columns))[0].startswith(f"{of.name} holds keys of {key.name}")


@pytest.mark.parametrize(
    "columns",
    [
        (own("order_id", "O[0-9]{4}"), back("customer_id", "O[0-9]{4}")),  # one letter, and no word
        (own("employee_id", "E[0-9]{4}"), back("manager_id", "M[0-9]{4}")),
        (own("employee_id", "E[0-9]{4}"), back("manager_id", "E[0-9]{6}")),
        (own("employee_id", "E[0-9]{4}"), back("manager", "E[0-9]{4}", values=("Ann", "Bob"))),
        (own("order_id", UUID), back("customer_id", UUID)),
        (own("project_id", UUID), back("manager_id", UUID)),  # no project manages another
        (keyed("id"), number("manager_id")),
        (keyed("order_id"), number("customer_id")),
        (keyed("student_id"), number("parent_id")),
        (keyed("patient_id"), number("referred_by")),
        (keyed("id"), number("parent")),  # a flag, perhaps
        (keyed("id"), number("parent_income")),
        (keyed("order_id"), number("order_item_id")),
        (keyed("id"), number("parent_id", lower=5000, upper=9000)),
        (own("id", "E[0-9]{3}"), number("parent_id")),
        (own("id", "[0-9]{40}"), number("parent_id")),
        (number("id"), number("parent_id")),  # what comes back is no key
        (Identifier(name="id"), number("parent_id")),  # declared, and made anew as such
    ],
)
def test_what_is_not_refers_to_none(columns: tuple[Column, Column]) -> None:
    assert find_references(Schema(columns)) == {}


def test_what_is_declared_stays_as_it_is() -> None:
    key, of = keyed("id"), number("parent_id")
    assert find_references(Schema((key, number("parent_id", strict=True)))) == {}
    assert find_references(Schema((key, of), (Ordered("parent_id", "id"),))) == {}
    assert find_references(Schema((key, of), (Ordered("parent_id", "id", share=(0.99, 0.01)),))) != {}


def test_of_several_keys_the_first_is_taken_and_none_that_refers_itself() -> None:
    columns = (keyed("id"), keyed("previous_id"), keyed("serial"), number("parent_id"))
    assert find_references(Schema(columns)) == {"previous_id": "id", "parent_id": "id"}


def test_numbers_become_the_nearest_keys_below_that_no_other_has() -> None:
    keys = np.array([50, 10, 30, 20, 40])
    chosen = keys[refer_to_numbers(np.array([33, 35, 33, 12, 70, 3]), keys)]
    assert chosen.tolist() == [30, 40, 30, 20, 50, 10]
    # More numbers than keys share some.
    assert keys[refer_to_numbers(np.arange(60), keys)].tolist()[::10] == [10, 10, 20, 30, 40, 50]


def test_equal_texts_become_one_key_and_others_another() -> None:
    texts = ["a", "b", "a", "c"]
    found = refer_to_texts(texts, 9, np.random.default_rng(0))
    assert found[0] == found[2]
    assert len(set(found.tolist())) == 3
    assert set(refer_to_texts(texts, 2, np.random.default_rng(0)).tolist()) <= {0, 1}


def test_no_row_refers_to_itself_where_another_key_is_referred_to() -> None:
    places = np.array([2, 0, 2, 5])
    assert avoid_self(places, np.array([2, 1, 3, 5])).tolist() == [0, 0, 2, 2]
    assert avoid_self(np.array([1, 1]), np.array([0, 1])).tolist() == [1, 1]


SCHEMAS = {
    "text": Schema((own("employee_id", "E[1-9][0-9]{3}"), back("manager_id", "E[0-9]{4}"))),
    "coded": Schema(
        (
            Categorical(
                name="no", values=(), patterns=("EMP1-[0-9]{3}", "EMP2-[0-9]{3}"), missing=True, unique=True
            ),
            back("of", "EMP1-[0-9]{3}", values=("EMP1-007", "EMP2-100"), other="(other)"),
        )
    ),
    "digits": Schema((own("id", "[1-9][0-9]{3}"), number("parent_id", 9000, 1000, missing=True))),
    "number": Schema((keyed("id"), number("parent_id", missing=True, repeats=((1, 1.0), (9, 0.0))))),
}


def draw(schema: Schema) -> Encoded:
    rng = np.random.default_rng(0)
    domain = schema.domain
    return Encoded(domain, tuple(rng.integers(0, size, ROWS).astype(np.uint8) for size in domain.sizes))


def read(table: Any, schema: Schema) -> list[list[object]]:
    """The two columns as lists, None where a value is missing."""
    columns = [table[name] for name in schema.names]
    if isinstance(table, pd.DataFrame):
        return [[None if pd.isna(one) else one for one in column] for column in columns]
    return [column.to_pylist() if isinstance(table, pa.Table) else column.to_list() for column in columns]


@pytest.mark.parametrize("kind", SCHEMAS)
@pytest.mark.parametrize(
    "frame",
    [
        Frame(),
        Frame("pandas", {}),
        Frame("polars", {}),
        Frame("pandas", {"manager_id": "category[object]", "of": "category[object]"}),
        Frame("polars", {"manager_id": "Enum", "of": "Enum"}),
        Frame("arrow", {"of": str(pa.dictionary(pa.int32(), pa.string()))}),
    ],
)
def test_rows_refer_to_keys_of_the_same_rows(
    kind: str, frame: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, rows = SCHEMAS[kind], draw(SCHEMAS[kind])
    keys, values = read(decode(rows, schema, np.random.default_rng(1), frame), schema)
    there = [key for key in keys if key is not None]
    if values and kind == "digits":
        there = [int(str(key)) for key in there]
        keys = [int(str(key)) for key in keys]
    assert len(set(there)) == len(there)
    assert set(values) - {None} <= set(there)
    assert not any(value == key for key, value in zip(keys, values, strict=True) if value is not None)
    monkeypatch.setattr("margrave.schema.encode.find_references", lambda schema: {})
    _, plain = read(decode(rows, schema, np.random.default_rng(1), frame), schema)
    # Missing values stay where they are, and about as many different ones come back about as often.
    assert [value is None for value in values] == [value is None for value in plain]
    if kind != "coded":
        assert len(set(values)) == pytest.approx(len(set(plain)), rel=0.2)
    assert not {value for value in plain if value not in (None, "(other)")} <= set(there)


def test_zeros_that_stand_for_none_stay() -> None:
    schema = Schema(
        (
            number("id", lower=1, unique=True),
            number("parent_id", edges=(0, 1, 500, 1001), fine=None, weights=None),
        )
    )
    of = dataclasses.replace(schema["parent_id"], fine=(0, 1, 500, 1001), weights=(9.0, 9.0, 9.0))  # type: ignore[call-arg]
    schema = schema.replace([of])
    keys, values = read(decode(draw(schema), schema, np.random.default_rng(1)), schema)
    assert 0 in values
    assert 0 not in keys
    assert set(values) - {0} <= set(keys)


def test_given_values_stay() -> None:
    schema = SCHEMAS["number"]
    known = {"parent_id": np.full(ROWS, 77.0)}
    _, values = read(decode(draw(schema), schema, np.random.default_rng(1), None, known), schema)
    assert {value for value in values if value is not None} == {77}


def test_keys_by_which_another_column_is_coded_are_drawn_once_each() -> None:
    part = Integer(name="before", edges=(0, 200), missing=False)
    before = Relative(
        name="before", missing=False, base="id", own=number("before"), part=part, how="difference"
    )
    schema = Schema((keyed("id"), before))
    keys, _ = read(decode(draw(schema), schema, np.random.default_rng(1)), schema)
    assert len(set(keys)) == ROWS


def test_a_release_of_a_raw_table_keeps_them_in_every_sample() -> None:
    rng = np.random.default_rng(0)
    keys = [f"E{1001 + place}" for place in range(3000)]
    managers = rng.choice(keys[:200], 3000)
    table = pa.table(
        {
            "employee_id": keys,
            "age": rng.integers(20, 60, 3000),
            "manager_id": pa.array(managers.tolist(), mask=rng.random(3000) < 0.1),
        }
    )
    synthesis = Synthesizer("independent", epsilon=3, delta=1e-9, not_private_test_seed=0).fit(table)
    assert describe_references(synthesis.schema)
    for rows in (50, 3000):
        drawn = synthesis.sample_arrow(rows, rng=rows).to_pydict()
        known = [one for one in drawn["manager_id"] if one is not None]
        assert 0.8 * rows < len(known) < rows
        shared = [one for one in known if one in set(drawn["employee_id"])]
        assert len(shared) == len(known)
        assert len(set(shared)) < 0.8 * len(shared)
