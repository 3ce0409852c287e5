"""Columns that are a product of two others: rounding, codes, draws, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.engines.memory import open_source
from margrave.errors import SchemaError
from margrave.schema.columns import Integer, Real, Relative
from margrave.schema.columns.relative import MOST_TERMS, Comparison
from margrave.schema.constraints.draws import _round_product
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.schema import Schema

CENTS = ((0.01, 1.0),)
EXACT = Real(
    name="amount", edges=(-9.0, 0.0, float(np.nextafter(0.0, 1.0)), 9.0), missing=False, strict=False
)


def order(**more: Any) -> Schema:
    """An amount that is a price times a number."""
    own = Real(name="amount", lower=0, upper=1000, bins=5, missing=False, grids=CENTS)
    usual: dict[str, Any] = {
        "base": "count",
        "others": ("price",),
        "own": own,
        "part": EXACT,
        "missing": False,
    }
    return Schema(
        (
            Integer(name="count", lower=0, upper=9, bins=10, missing=False),
            Real(name="price", lower=0, upper=100, bins=8, missing=False, grids=CENTS),
            Relative(name="amount", joint="product", **usual | more),
        )
    )


def test_products_are_kept_to_the_cent_and_coded_again() -> None:
    schema, rows = order(), 4_000
    rng = np.random.default_rng(0)
    codes = [
        rng.integers(0, column.size, rows).astype(code_dtype(column.size)) for column in schema.attributes
    ]
    table = decode(Encoded(schema.domain, tuple(codes)), schema, rng)
    count, price, amount = (table[name].to_numpy() for name in ("count", "price", "amount"))
    exact = codes[2] == 1
    # In whole cents there is no half.
    cents = np.rint(price * 100).astype(np.int64) * count
    assert (np.rint(amount * 100).astype(np.int64) == cents)[exact].all()
    assert (amount == np.round(amount, 2)).all()
    assert (np.abs(amount - price * count)[~exact] > 0.004).mean() > 0.9
    again = open_source(table)[0].bind(schema).encoded
    np.testing.assert_array_equal(again.column("amount")[exact], codes[2][exact])
    assert Schema.from_json(schema.to_json()) == schema
    assert schema["amount"].relation.startswith("amount is count * price plus")  # type: ignore[attr-defined]


def test_a_rounded_product_counts_as_exact_and_others_do_not() -> None:
    table = pa.table(
        {
            "count": [3, 3, 3, 3, 7, 2],
            "price": [0.335, 0.335, 0.335, 0.335, 1.1, None],
            "amount": [1.0, 1.01, 1.02, 0.99, 7.7, 4.0],
        }
    )
    schema = order(alone=True).absorb_outside()
    codes = open_source(table)[0].bind(schema).encoded.column("amount")
    # 3 x .335 is 1.005: a half is rounded either way.
    assert codes.tolist() == [1, 1, 2, 0, 1, 3]


@pytest.mark.parametrize(
    ("factor", "whole", "words"),
    [
        (0.01, 0.0, "amount is count * price / 100"),
        (1.0, 1.0, "amount is count * (1 - price)"),
        (0.01, 100.0, "amount is count * (100 - price) / 100"),
        (0.01, -100.0, "amount is count * (100 + price) / 100"),
        (1 / 1200, 0.0, "amount is count * price / 1200"),
    ],
)
def test_products_with_a_factor_and_of_what_a_share_leaves(factor: float, whole: float, words: str) -> None:
    exact = Real(name="amount", edges=(0.0, float(np.nextafter(0.0, 1.0))), missing=False, strict=False)
    schema, rows = order(part=exact, factor=factor, share_of=whole), 2_000
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, c.size, rows).astype(code_dtype(c.size)) for c in schema.attributes]
    table = decode(Encoded(schema.domain, tuple(codes)), schema, rng)
    count, price, amount = (table[name].to_numpy() for name in ("count", "price", "amount"))
    rest = whole - price if whole > 0 else price - whole
    assert (np.abs(amount - count * rest * factor) <= 0.005 + 1e-9).all()
    assert (amount == np.round(amount, 2)).all()
    column = schema["amount"]
    assert isinstance(column, Relative)
    assert column.relation == words
    assert Schema.from_json(schema.to_json()) == schema
    held = open_source(table)[0].bind(schema.absorb_outside()).encoded.column("amount")
    assert (held == 0).all()


@pytest.mark.parametrize(
    ("powers", "factor", "words"),
    [
        ((1, -1), 1.0, "amount is price / count"),
        ((1, -2), 10_000.0, "amount is 10000 * price / count^2"),
        ((1, -1), 1 / 60, "amount is price / count / 60"),
        ((1, 2), 1.0, "amount is price * count^2"),
    ],
)
def test_quotients_and_squares_are_kept_to_the_last_digit(
    powers: tuple[int, ...], factor: float, words: str
) -> None:
    exact = Real(name="amount", edges=(0.0, float(np.nextafter(0.0, 1.0))), missing=False, strict=False)
    turned = {"base": "price", "others": ("count",), "follows": True, "missing": True}
    schema, rows = order(part=exact, factor=factor, powers=powers, **turned), 2_000
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, c.size, rows).astype(code_dtype(c.size)) for c in schema.attributes]
    table = decode(Encoded(schema.domain, tuple(codes)), schema, rng)
    count, price, amount = (
        table[name].to_numpy(zero_copy_only=False) for name in ("count", "price", "amount")
    )
    if powers[1] < 0:  # nothing is divided by 0
        assert (count == 0).any()
        np.testing.assert_array_equal(np.isnan(amount), count == 0)
    there = ~np.isnan(amount)
    exact_numbers = price[there] * factor * count[there].astype(float) ** powers[1]
    assert (np.abs(amount[there] - exact_numbers) <= 0.005 + 1e-6).all()
    column = schema["amount"]
    assert isinstance(column, Relative)
    assert column.relation == f"{words}, and missing where that is"
    assert Schema.from_json(schema.to_json()) == schema
    held = open_source(table)[0].bind(schema.absorb_outside()).encoded.column("amount")
    np.testing.assert_array_equal(held, np.where(there, 0, 1))


def test_a_square_of_one_column_and_a_quotient_without_steps() -> None:
    square = Comparison("difference", joint="product", unit=0.1, powers=(2,))
    found = square.values(np.array([12.3, 12.5]), square.join_terms([np.array([3.5, 3.5])]))
    assert found.tolist() == [0.0, 0.25]
    exact = Real(name="amount", edges=(0.0, float(np.nextafter(0.0, 1.0))), missing=False, strict=False)
    own = Real(name="amount", lower=0, upper=1000, bins=5, missing=False)
    schema = order(part=exact, own=own, powers=(1, -1), base="price", others=("count",))
    codes = [
        np.full(3, code, dtype=code_dtype(c.size))
        for code, c in zip((3, 5, 0), schema.attributes, strict=True)
    ]
    made = decode(Encoded(schema.domain, tuple(codes)), schema, np.random.default_rng(0))
    assert made["amount"].to_pylist() == (made["price"].to_numpy() / 3.0).tolist()


def test_a_row_with_a_divisor_of_0_has_no_base_and_counts_once() -> None:
    table = pa.table(
        {"count": [0, 0, 2, 2, 2], "price": [3.0, 0.0, 3.0, 3.0, None], "amount": [1.0, None, 1.5, None, 1.0]}
    )
    edges = np.array([-9.0, 0.0, float(np.nextafter(0.0, 1.0)), 9.0])
    comparison = Comparison("difference", joint="product", unit=0.01, powers=(1, -1))
    counts = open_source(table)[0].differences("amount", "price", comparison, edges, ["count"]).reveal()
    # Below, exact, above; no base in two rows, no amount in one, neither in one.
    assert counts.tolist() == [0, 1, 0, 2, 1, 1]


@pytest.mark.parametrize(
    ("joint", "powers"),
    [
        ("sum", (1, -2)),
        ("sum", (-1, 1)),
        ("", (1, -1)),
        ("product", (-1, 1)),
        ("product", (1, 0)),
        ("product", (1, -4)),
        ("product", (1, -1.0)),
    ],
)
def test_powers_are_whole_and_those_of_a_sum_are_signs(joint: str, powers: tuple[int, ...]) -> None:
    with pytest.raises(SchemaError, match="powers"):
        Comparison("difference", joint=joint, powers=powers)
    with pytest.raises(SchemaError, match="relative to another column"):
        order(powers=(1, -1, 1))


def test_shares_are_of_products_only() -> None:
    for wrong in ({"joint": "sum"}, {"joint": "product", "share_of": float("nan")}):
        with pytest.raises(SchemaError, match="share_of"):
            Comparison("difference", **{"share_of": 100.0} | wrong)  # type: ignore[arg-type]


@given(st.integers(-(10**9), 10**9), st.integers(1, 4))
def test_halves_are_rounded_up_as_by_hand(number: int, digits: int) -> None:
    unit = 10.0**-digits
    halves = (2 * number + 1) / 2 * unit
    found = float(_round_product(np.array([halves]), unit)[0])
    assert round(found * 10**digits) == (number + 1 if number >= 0 else number)


def test_products_do_not_overflow() -> None:
    comparison = Comparison("difference", joint="product", unit=0.01)
    most = np.array([1.7e308, -1.7e308, 2.0])
    found = comparison.values(most, comparison.join_terms([most] * MOST_TERMS))
    assert np.isfinite(found).all()
    whole = np.array([2**63 - 1, -(2**63), 0])
    assert np.isfinite(comparison.values(whole, comparison.join_terms([whole] * 2))).all()


def test_what_is_no_product_is_refused() -> None:
    with pytest.raises(SchemaError, match="joint"):
        Comparison("difference", joint="quotient")
    with pytest.raises(SchemaError, match="real numbers"):
        Comparison("difference", whole=True, joint="product")
    with pytest.raises(SchemaError, match="Subtract it"):
        Comparison("quotient", joint="product")
    with pytest.raises(SchemaError, match="joint"):
        Relative(
            name="amount", base="count", others=("price",), joint="mean",
            own=Real(name="amount", lower=0, upper=9, missing=False), part=EXACT, missing=False,
        )  # fmt: skip


def test_halves_that_floats_have_a_little_low_are_rounded_up() -> None:
    assert _round_product(np.array([2.675, 1.005, -1.005, 8.0]), 0.01).tolist() == [2.68, 1.01, -1.01, 8.0]
