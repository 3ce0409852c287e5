"""Columns that are a line of others: rounding, draws, words, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from margrave.errors import InputError, SchemaError
from margrave.schema.columns import Integer, Real, Relative
from margrave.schema.columns.relative import Comparison
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.given import Between, given_values
from margrave.schema.schema import Schema

CENTS = ((0.01, 1.0),)
END = float(np.nextafter(0.0, 1.0))


def exact(name: str) -> Real:
    """No difference at all."""
    return Real(name=name, edges=(0.0, END), missing=False, strict=False)


def line(own: Any, *bases: str, factor: float = 1.0, offset: float = 0.0, **more: Any) -> Relative:
    """A column that is a line of others in every row."""
    base, *others = bases
    return Relative(
        name=own.name,
        base=base,
        others=tuple(others),
        own=own,
        part=exact(own.name),
        factor=factor,
        offset=offset,
        missing=False,
        **more,
    )


def invoice() -> Schema:
    """A net, its tax, a level with its year, and the mean of level and points."""
    return Schema(
        (
            Real(name="net", lower=0, upper=1000, bins=8, missing=False, grids=CENTS),
            line(
                Real(name="tax", lower=0, upper=200, bins=4, missing=False, grids=CENTS), "net", factor=0.19
            ),
            Integer(name="level", lower=1, upper=12, bins=12, missing=False),
            line(
                Integer(name="year", lower=2000, upper=2030, bins=5, missing=False),
                "level",
                factor=-1.0,
                offset=2025.0,
            ),
            Integer(name="points", lower=0, upper=20, bins=21, missing=False),
            line(
                Real(name="mean", lower=0, upper=20, bins=4, missing=False, grids=((0.5, 1.0),)),
                "level",
                "points",
                factor=0.5,
            ),
        )
    )


def test_drawn_rows_are_on_the_lines() -> None:
    schema, rows = invoice(), 3_000
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, c.size, rows).astype(code_dtype(c.size)) for c in schema.attributes]
    table = decode(Encoded(schema.domain, tuple(codes)), schema, rng)
    held = {name: table[name].to_numpy() for name in table.column_names}
    cents = np.rint(held["net"] * 100)
    assert (np.abs(held["tax"] * 100 - cents * 0.19) <= 0.5 + 1e-6).all()
    assert (np.rint(held["tax"] * 100) / 100 == held["tax"]).all()
    assert (held["year"] + held["level"] == 2025).all()
    assert (2 * held["mean"] == held["level"] + held["points"]).all()


@pytest.mark.parametrize("value", [0.0, 0.004, -0.004, 0.006, -0.006, 1.0, math.nan])
def test_a_difference_below_half_a_unit_is_none(value: float) -> None:
    comparison = Comparison("difference", joint="sum", unit=0.01, factor=0.19, offset=2.0)
    base = np.asarray([100.0])
    found = comparison.values(np.asarray([21.0 + value]), comparison.join_terms([base]))[0]
    if abs(value) < 0.005:
        assert found == 0.0
    else:
        assert found == pytest.approx(value, nan_ok=True)


def test_a_line_without_a_unit_is_exact_but_for_the_last_digits() -> None:
    comparison = Comparison("difference", joint="sum", factor=1 / 3)
    base = np.asarray([1.0, 7.0, 1e6])
    assert (comparison.values(base / 3, comparison.join_terms([base])) == 0.0).all()
    assert (comparison.values(base / 3 + 1e-6, comparison.join_terms([base])) > 0.0).all()


@pytest.mark.parametrize(
    ("bases", "factor", "offset", "words"),
    [
        (("net",), 0.19, 0.0, "0.19 * net"),
        (("level",), -1.0, 2025.0, "2025 - level"),
        (("level",), 1.0, -5.0, "level - 5"),
        (("level",), -1.0, 0.0, "-level"),
        (("warmth",), 1.8, 32.0, "1.8 * warmth + 32"),
        (("first", "second", "third"), 1 / 3, 0.0, "(first + second + third) / 3"),
        (("gross",), 1 / 1.19, 0.0, "gross / 1.19"),
        (("absent",), -5 / 9, 100.0, "100 - absent / 1.8"),
        (("net",), 0.5, 0.0, "net / 2"),
        (("days",), 12.0, 0.0, "12 * days"),
    ],
)
def test_a_line_is_said_as_one_would(
    bases: tuple[str, ...], factor: float, offset: float, words: str
) -> None:
    own = Real(name="x", lower=0, upper=9, bins=3, missing=False)
    column = line(own, *bases, factor=factor, offset=offset)
    assert column.base_words == words
    assert column.relation == f"x is {words}"


def test_a_product_may_be_on_a_line_too() -> None:
    own = Real(name="x", lower=0, upper=9, bins=3, missing=False)
    column = line(own, "price", "number", factor=0.9, joint="product")
    assert column.base_words == "0.9 * price * number"
    found = column.comparison.join_terms([np.asarray([2.0, 3.0]), np.asarray([5.0, 0.0])])
    np.testing.assert_allclose(found, [9.0, 0.0])


@pytest.mark.parametrize(
    "given",
    [
        {"factor": 0.0},
        {"factor": math.inf},
        {"factor": math.nan},
        {"offset": math.nan},
        {"offset": 1e300},
        {"factor": 1e300},
    ],
)
def test_constants_that_are_none_are_refused(given: dict[str, float]) -> None:
    own = Real(name="x", lower=0, upper=9, bins=3, missing=False)
    with pytest.raises(SchemaError, match="factor and offset"):
        line(own, "net", **given)


def test_lines_are_differences_of_numbers() -> None:
    with pytest.raises(SchemaError):
        Comparison("quotient", factor=2.0)
    with pytest.raises(SchemaError):
        Comparison("difference", whole=True, joint="sum", factor=2.0)
    with pytest.raises(SchemaError):
        Comparison("difference", read="date", base_read="date", joint="sum", factor=2.0)
    number = Real(name="x", lower=0, upper=9, bins=3, missing=False)
    with pytest.raises(SchemaError, match="2 to"):
        Comparison.with_terms(number, (number,))


def test_a_schema_with_lines_comes_back_from_its_file() -> None:
    schema = invoice()
    assert Schema.from_json(schema.to_json()) == schema
    plain = line(Real(name="x", lower=0, upper=9, bins=3, missing=False), "net", "level")
    assert (plain.factor, plain.offset) == (1.0, 0.0)
    assert not plain.comparison.is_line


def test_a_value_says_its_bases_only_where_each_row_has_that() -> None:
    base = Integer(name="level", lower=1, upper=12, bins=12, missing=True)
    own = Integer(name="year", lower=2013, upper=2024, bins=5, missing=False)
    exact_line = line(own, "level", factor=-1.0, offset=2025.0)
    found = given_values(Schema((base, exact_line)), {"year": 2020})
    assert found.codes == {"year": 0, "level": 4}
    # A year may be there without its level: those that have none would never be drawn.
    alone = Schema((base, line(own, "level", factor=-1.0, offset=2025.0, alone=True)))
    with pytest.raises(InputError, match="'level'"):
        given_values(alone, {"year": 2020})


def test_a_range_of_a_column_that_others_say_is_refused_as_one() -> None:
    """Not with a word about the others: with them it would be refused as well."""
    for given in ({"mean": Between(1, 2)}, {"mean": Between(1, 2), "level": 3, "points": 4}):
        with pytest.raises(InputError, match=r"given\['mean'\] must be one value"):
            given_values(invoice(), given)
