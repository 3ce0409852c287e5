from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from counted import Rows as Slow
from counted import dependent
from people import SCHEMA, made, people, rows_of

from margrave.errors import InputError
from margrave.evaluation.rows import Rows
from margrave.schema.columns import Date, Integer, Real
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema


def test_raw_numbers_are_kept_and_the_rest_is_coded() -> None:
    table = people(50, 0)
    rows = rows_of(table)
    assert set(rows.numbers) == {"age", "pay", "tax"}
    ages = table.column("age").to_pylist()
    assert [None if np.isnan(value) else int(value) for value in rows.numbers["age"]] == ages
    assert rows.numbers["pay"].tolist() == table.column("pay").to_pylist()
    jobs = [SCHEMA["job"].labels[code] for code in rows.encoded.column("job")]
    assert jobs == [
        {None: "missing", "diver": "rest"}.get(job, job) for job in table.column("job").to_pylist()
    ]


def test_dates_are_numbers_of_days() -> None:
    schema = Schema((Date(name="day", lower="2020-01-01", upper="2020-12-31", missing=True),))
    rows = Rows.of(pa.table({"day": pa.array([18262, None, 18300], pa.date32())}), schema)
    np.testing.assert_array_equal(rows.numbers["day"], [18262, np.nan, 18300])


def test_codes_alone_stand_for_the_middle_of_their_bin() -> None:
    schema = Schema(
        (
            Integer(name="n", edges=(0, 2, 10), missing=True),
            Real(name="x", edges=(0.0, 1.0, 4.0), missing=False),
        )
    )
    codes = Encoded(schema.domain, (np.array([0, 1, 2], np.uint8), np.array([1, 0, 0], np.uint8)))
    rows = Rows.from_codes(codes, schema)
    np.testing.assert_array_equal(rows.numbers["n"], [0.5, 5.5, np.nan])
    np.testing.assert_array_equal(rows.numbers["x"], [2.5, 0.5, 0.5])
    with pytest.raises(InputError, match="encoded must be under the schema's domain"):
        Rows.from_codes(codes, SCHEMA)


def test_counting_here_and_by_an_engine_agree() -> None:
    codes = dependent(200, 0)
    cliques = [("a",), ("c", "a"), ("e", "b", "d")]
    mine, engine = Rows(codes).count(cliques), Rows(codes, engine=Slow(codes)).count(cliques)
    for first, second in zip(mine, engine, strict=True):
        np.testing.assert_array_equal(first, second)


def test_taking_and_permuting_keep_rows_and_columns_together() -> None:
    rows = made(30, 0)
    some = rows.take(np.array([3, 3, 1]))
    assert some.size == 3
    assert some.numbers["pay"].tolist() == rows.numbers["pay"][[3, 3, 1]].tolist()
    assert some.encoded.column("town").tolist() == rows.encoded.column("town")[[3, 3, 1]].tolist()
    order = {name: np.arange(30) for name in SCHEMA.names} | {"pay": np.arange(30)[::-1]}
    turned = rows.permute_columns(order)
    assert turned.numbers["pay"].tolist() == rows.numbers["pay"][::-1].tolist()
    assert turned.encoded.column("pay").tolist() == rows.encoded.column("pay")[::-1].tolist()
    assert turned.encoded.column("job").tolist() == rows.encoded.column("job").tolist()


def test_numbers_of_another_length_are_refused_and_nothing_is_shown() -> None:
    rows = made(10, 0)
    with pytest.raises(InputError, match="numbers must be one a row"):
        Rows(rows.encoded, {"pay": np.zeros(9)})
    assert repr(rows) == "Rows(['age', 'pay', 'tax', 'job', 'town', 'rich'])"
