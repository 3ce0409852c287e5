"""Relative columns: coded by their difference from another column or their quotient by it, and decoded."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError, SchemaError
from margrave.schema.columns import Date, Duration, Integer, Moment, Real, Relative
from margrave.schema.columns.relative import MOST_TERMS, Comparison, in_turn
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded
from margrave.schema.frame import Frame
from margrave.schema.given import given_values
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY
from margrave.schema.storage.forms import normal

ROWS = 4000
WHOLE: dict[str, Any] = {"missing": False, "strict": False}


def stays(**more: Any) -> Schema:
    """A day, a time stamp on it, a day up to nine days later; and a payment that is a part of a charge."""
    came = Date(name="came", lower="2024-01-01", upper="2024-12-31", bins=12, missing=False)
    left = Date(name="left", lower="2024-01-01", upper="2025-01-31", bins=12, missing=False)
    stamp = Moment(name="stamp", lower="2024-01-01", upper="2025-01-01", missing=False, grids=((60e6, 1.0),))
    paid = Real(name="paid", lower=0, upper=2000, bins=8, missing=False, grids=((0.01, 1.0),))
    days = Integer(name="left", edges=(0, 1, 2, 5, 10), **WHOLE)
    clock = Duration(name="stamp", edges=(0, DAY // 2, DAY), **WHOLE)
    share = Real(name="paid", edges=(0.0, 0.5, 1.0, float(np.nextafter(1.0, 2.0))), **WHOLE)
    plain: dict[str, Any] = {"missing": False}
    return Schema(
        (
            Relative(name="left", base="came", base_read="date", own=left, part=days, **plain | more),
            came,
            Relative(name="stamp", base="came", base_read="date", own=stamp, part=clock, **plain | more),
            Real(name="charge", lower=0, upper=1000, bins=8, missing=False, grids=((0.01, 1.0),)),
            Relative(name="paid", base="charge", how="quotient", own=paid, part=share, **plain | more),
        )
    )


def drawn(schema: Schema, frame: Frame | None = None, seed: int = 0) -> tuple[Encoded, Any]:
    """Codes drawn evenly, and the rows they are decoded to."""
    rng = np.random.default_rng(seed)
    codes = tuple(rng.integers(0, column.size, ROWS).astype(np.uint8) for column in schema.attributes)
    encoded = Encoded(schema.domain, codes)
    return encoded, decode(encoded, schema, rng, frame)


def days_of(values: Any) -> Any:
    return pc.cast(pc.cast(values, pa.date32()), pa.int32()).to_numpy(zero_copy_only=False)


def test_orders_days_and_shares_are_kept() -> None:
    _, table = drawn(stays())
    came, left, stamp = (days_of(table[name]) for name in ("came", "left", "stamp"))
    assert 0 <= (left - came).min() <= (left - came).max() == 9
    assert (stamp == came).all()
    charge, paid = (table[name].to_numpy() for name in ("charge", "paid"))
    assert (paid <= charge).all()
    assert (paid == charge).mean() > 0.25  # the last bin is 1 alone
    assert (np.rint(paid * 100) / 100 == paid).all()
    assert table.schema.field("stamp").type == pa.timestamp("s")
    assert set(pc.second(table["stamp"]).to_pylist()) == {0}


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("narrow", [True, False])
def test_orders_outlast_the_storage(kind: str, narrow: bool) -> None:
    wide = {"pandas": "float64", "polars": "Float64", "arrow": "double"}[kind]
    single = {"pandas": "float32", "polars": "Float32", "arrow": "float"}[kind]
    dtypes = {"charge": single if narrow else wide, "paid": wide if narrow else single}
    if kind == "arrow":
        dtypes = {"charge": "decimal128(10, 1)", "paid": "decimal128(10, 3)"} if narrow else dtypes
    _, table = drawn(stays(), Frame(kind, dtypes))
    # 0.1 in single precision is not 0.1 in double precision, but is read as it.
    arrays = (pa.array(np.asarray(table[name])) for name in ("charge", "paid"))
    charge, paid = (np.asarray(normal(array, "a number")) for array in arrays)
    assert (paid <= charge).all()
    assert (paid < charge).any()


def test_what_is_decoded_is_encoded_again() -> None:
    schema = stays()
    encoded, table = drawn(schema)
    again = open_source(table)[0].bind(schema).encoded
    for name in ("came", "left", "stamp", "charge"):
        assert (again.column(name) == encoded.column(name)).all(), name
    whole = encoded.column("paid") == 2  # cents may carry other shares across an edge
    assert (again.column("paid") == encoded.column("paid"))[whole].all()


def test_rows_that_break_a_relation_have_codes() -> None:
    table = pa.table(
        {
            "left": [dt.date(2024, 1, 1), dt.date(2024, 3, 1), None, dt.date(2024, 5, 5)],
            "came": [dt.date(2024, 2, 1), dt.date(2024, 2, 1), dt.date(2024, 2, 1), None],
            "stamp": pa.array([0, 0, 0, None], pa.timestamp("us")),
            "charge": [0.0, 0.0, -5.0, 10.0],
            "paid": [0.0, 5.0, 10.0, float("nan")],
        }
    )
    loose = stays(missing=True, alone=True)
    loose = loose.replace([dataclasses.replace(loose["came"], missing=True, strict=False)])
    loose = loose.replace([dataclasses.replace(loose["charge"], strict=False)])
    codes = open_source(table)[0].bind(loose).encoded
    assert codes.column("left").tolist() == [0, 3, 5, 4]  # below all, above all, missing, without a base
    assert codes.column("paid").tolist() == [2, 2, 0, 4]  # equal, a part of nothing, below 0, missing


def test_missing_values_and_lost_bases() -> None:
    schema = stays(missing=True, alone=True)
    came = dataclasses.replace(schema["came"], missing=True)
    schema = schema.replace([came])
    encoded, table = drawn(schema)
    column = schema["left"]
    absent = encoded.column("left") == column.missing_code
    assert (np.asarray(table["left"].is_null()) == absent).all()
    lost = np.asarray(table["came"].is_null()) & ~absent
    assert lost.any()
    assert (days_of(table["left"].filter(pa.array(lost))) >= days_of(pa.array([dt.date(2024, 1, 1)]))).all()


def test_a_column_that_follows_is_missing_where_its_base_is() -> None:
    schema = stays(missing=True, follows=True)
    schema = schema.replace([dataclasses.replace(schema["came"], missing=True)])
    _, table = drawn(schema)
    assert table["left"].is_null().equals(table["came"].is_null())
    assert 0 < table["left"].null_count < ROWS
    kept = table.filter(pc.is_valid(table["came"]))
    assert (days_of(kept["left"]) >= days_of(kept["came"])).all()


def test_relations_may_hang_together() -> None:
    schema = stays()
    billed = Date(name="billed", lower="2024-01-01", upper="2025-03-01", missing=False)
    part = Integer(name="billed", edges=(0, 1, 30), **WHOLE)
    last = Relative(name="billed", base="left", base_read="date", own=billed, part=part, missing=False)
    _, table = drawn(Schema((last, *schema.columns)))
    assert (days_of(table["billed"]) >= days_of(table["left"])).all()
    assert table.column_names[0] == "billed"


def test_schema_json_says_which_field_is_missing() -> None:
    entry = {"name": "gap", "kind": "relative"}
    with pytest.raises(SchemaError, match=r"column 'gap' of kind 'relative' must be given with .*own"):
        Schema.from_json({"version": 2, "columns": [entry]})


def test_schema_json_keeps_them() -> None:
    schema = stays(share=(0.99, 0.01))
    again = Schema.from_json(schema.to_json())
    assert again == schema
    assert again["left"].labels == ("came + 0", "came + 1", "came + 2 to 4", "came + 5 to 9")
    assert "found and not promised" in again["paid"].sentence  # type: ignore[attr-defined]
    assert schema.domain.sizes == again.domain.sizes


def test_what_cannot_be_compared_is_refused() -> None:
    left = stays()["left"]
    assert isinstance(left, Relative)
    number = Integer(name="came", lower=0, upper=9, missing=False)
    with pytest.raises(SchemaError, match="base of column 'left'"):
        Schema((left, number))
    with pytest.raises(SchemaError, match="base of column 'left'"):
        Schema((left,))
    with pytest.raises(SchemaError, match="relative to another column"):
        dataclasses.replace(left, base="left")
    came = dataclasses.replace(left, name="came", base="left", own=dataclasses.replace(left.own, name="came"))
    with pytest.raises(SchemaError, match="base of column"):
        Schema((left, came))
    with pytest.raises(SchemaError, match="quotients not whole"):
        dataclasses.replace(left, how="quotient")


def test_given_values_need_their_base() -> None:
    schema = stays()
    came, left = dt.date(2024, 3, 1), dt.date(2024, 3, 4)
    found = given_values(schema, {"left": left, "came": came})
    assert found.codes["left"] == 2
    with pytest.raises(InputError, match="Give 'came' as well"):
        given_values(schema, {"left": left})
    table = pa.table({"left": [left] * ROWS, "came": [came] * ROWS})
    given = given_values(schema, table)
    encoded, _ = drawn(schema)
    columns = {**dict(zip(schema.domain.names, encoded.columns, strict=True)), **given.codes}
    rows = Encoded(schema.domain, tuple(columns[name] for name in schema.domain.names))
    drawn_rows = decode(rows, schema, np.random.default_rng(0), None, given.spread(ROWS))
    assert set(drawn_rows["left"].to_pylist()) == {left}
    assert set(drawn_rows["came"].to_pylist()) == {came}


def bill(**more: Any) -> Schema:
    """A total of three parts, and a number of persons of two kinds."""
    cents: dict[str, Any] = {"lower": 0, "upper": 500, "bins": 6, "missing": False, "grids": ((0.01, 1.0),)}
    people: dict[str, Any] = {"lower": 0, "upper": 9, "bins": 5, "missing": False}
    exact = Real(name="total", edges=(-50.0, 0.0, float(np.nextafter(0.0, 1.0)), 50.0), **WHOLE)
    same = Integer(name="all", edges=(0, 1), **WHOLE)
    plain: dict[str, Any] = {"missing": False}
    return Schema(
        (
            Relative(
                name="total",
                base="net",
                others=("tax", "ship"),
                own=Real(name="total", lower=0, upper=1500, bins=6, missing=False, grids=((0.01, 1.0),)),
                part=exact,
                **plain | more,
            ),
            *[Real(name=name, **cents) for name in ("net", "tax", "ship")],
            Relative(
                name="all",
                base="young",
                others=("old",),
                own=Integer(name="all", lower=0, upper=18, bins=5, missing=False),
                part=same,
                missing=False,
            ),
            *[Integer(name=name, **people) for name in ("young", "old")],
        )
    )


def test_sums_are_kept_and_coded_again() -> None:
    schema = bill()
    encoded, table = drawn(schema)
    total, *parts = (table.column(name).to_numpy() for name in ("total", "net", "tax", "ship"))
    exact = encoded.column("total") == 1
    # The nearest number of cents, as whoever adds by hand would write it.
    assert (total[exact] == np.round(sum(parts), 2)[exact]).all()
    assert 0.2 < exact.mean() < 0.5
    assert (np.abs(total - sum(parts))[~exact] > 0.001).mean() > 0.95
    young, old, both = (table.column(name).to_numpy() for name in ("young", "old", "all"))
    assert (both == young + old).all()
    again = open_source(table)[0].bind(schema).encoded
    np.testing.assert_array_equal(again.column("total")[exact], encoded.column("total")[exact])
    assert Schema.from_json(schema.to_json()) == schema
    assert schema["all"].relation == "all is young + old"  # type: ignore[attr-defined]


def test_a_sum_with_a_missing_part_is_missing_or_drawn_by_itself() -> None:
    cents = pa.array([1.0, None, 2.0, 3.0])
    rows = {"total": [3.5, 3.5, None, 9.0], "net": [1.0, 1.0, 1.0, 1.0], "tax": cents, "ship": [1.5] * 4}
    people = {"all": [2, 2, 2, 2], "young": [1, 1, 1, 1], "old": [1, 1, 1, 1]}
    codes = (
        open_source(pa.table(rows | people))[0].bind(bill(alone=True, missing=True).absorb_outside()).encoded
    )
    assert codes.column("total").tolist() == [1, 3, 4, 2]


def test_sums_of_other_things_are_refused() -> None:
    own = Real(name="a", lower=0, upper=9, bins=3, missing=False)
    part = Real(name="a", edges=(0.0, 1.0), **WHOLE)
    for others in (("b",), ("a",), "xy", tuple("cdefghijk")):
        with pytest.raises(SchemaError, match="relative to another column"):
            Relative(name="a", base="b", others=others, own=own, part=part, missing=False)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="Subtract it"):
        Relative(name="a", base="b", others=("c",), how="quotient", own=own, part=part, missing=False)
    day = Date(name="d", lower="2024-01-01", upper="2024-12-31", bins=3, missing=False)
    with pytest.raises(SchemaError, match="Take numbers only"):
        Comparison.with_terms(own, (day, own))
    mixed = Relative(name="a", base="b", others=("d",), own=own, part=part, missing=False)
    with pytest.raises(SchemaError, match="base of column 'a'"):
        in_turn((mixed, day, Real(name="b", lower=0, upper=9, bins=3, missing=False)))
    with pytest.raises(InputError, match="with 'tax'"):
        given_values(bill(), {"total": 3.0, "net": 1.0, "ship": 1.0})
    found = given_values(bill(), {"total": 3.0, "net": 1.0, "ship": 1.0, "tax": 1.0})
    assert found.codes["total"] == 1


def test_sums_within_rounding_are_exact_and_large_ones_do_not_overflow() -> None:
    comparison = Comparison("difference", joint="sum")
    base = comparison.join_terms([np.array([0.1, 1e300, 1.0]), np.array([0.2, 1e300, 1.0])])
    assert comparison.values(np.array([0.3, 1.0, 2.0 + 1e-9]), base)[[0, 2]].tolist() == [
        0.0,
        2.0 + 1e-9 - 2.0,
    ]
    whole = Comparison("difference", whole=True, joint="sum")
    most = np.array([2**63 - 1, -(2**63)])
    assert np.abs(whole.values(most, whole.join_terms([most] * MOST_TERMS))).max() <= 2**62
