"""Orders of numbers: found where next to no row breaks them and many would by chance, and kept by rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from margrave import Synthesizer
from margrave.measure.discovery.between.orders import drop_implied
from margrave.schema.columns import Date, Integer, Real, Relative
from margrave.schema.constraints.orders import describe_found, draw_between, keep_orders
from margrave.schema.constraints.rules import Ordered
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema


def weather(rows: int, wrong: float = 0.0) -> pa.Table:
    """A temperature, and a dew point below it that depends on it little; in a share of the rows above it."""
    rng = np.random.default_rng(0)
    dew, warm = np.sort(rng.uniform(0.0, 40.0, (2, rows)).round(1), axis=0)
    swapped = rng.random(rows) < wrong
    dew, warm = np.where(swapped, warm, dew), np.where(swapped, dew, warm)
    code = rng.integers(0, 1000, rows)
    return pa.table({"warm": warm, "dew": dew, "code": code, "x": rng.integers(0, 3, rows).astype(str)})


def found_in(table: pa.Table) -> tuple[list[Ordered], pa.Table]:
    synthesis = Synthesizer("independent", epsilon=2.0, not_private_test_seed=0).fit(table)
    orders = [rule for rule in synthesis.schema.rules if isinstance(rule, Ordered)]
    assert not any(isinstance(column, Relative) for column in synthesis.schema.columns)
    return orders, synthesis.sample_arrow(5_000, rng=0)


def test_no_dew_point_is_above_the_temperature() -> None:
    (rule,), made = found_in(weather(12_000))
    assert (rule.low, rule.high) == ("dew", "warm")
    warm, dew = (np.asarray(made[name]) for name in ("warm", "dew"))
    assert (dew <= warm).all()
    assert np.allclose(dew * 10, np.rint(dew * 10))
    assert dew.mean() > 8.0


@pytest.mark.parametrize("wrong", [0.05, 0.3])
def test_an_order_that_rows_break_is_none(wrong: float) -> None:
    orders, made = found_in(weather(12_000, wrong))
    assert orders == []
    assert (np.asarray(made["dew"]) > np.asarray(made["warm"])).any()


def test_numbers_that_would_be_in_order_by_chance_have_no_rule() -> None:
    rng = np.random.default_rng(1)
    small, large = rng.uniform(0.0, 10.0, 12_000), rng.uniform(9.0, 300.0, 12_000)
    assert (small > large).mean() > 0.0001
    assert found_in(pa.table({"small": small, "large": large}))[0] == []


def test_orders_that_others_imply_are_not_said() -> None:
    columns = {name: Real(name=name, edges=(0.0, 1.0), missing=name == "d") for name in "abcd"}
    share = (0.99, 0.01)
    chain = [Ordered(*names, share=share) for names in ("ab", "bc", "ac", "ad", "db")]
    # What may be missing implies nothing of rows in which it is.
    assert [order.names for order in drop_implied(chain, columns)] == [
        ("a", "b"),
        ("b", "c"),
        ("a", "d"),
        ("d", "b"),
    ]
    dates = {name: Date(name=name, edges=(0, 9), missing=False) for name in "abc"}
    assert len(drop_implied(chain[:3], dates)) == 3


def test_what_is_at_most_one_column_is_said_in_one_sentence() -> None:
    share = (0.99, 0.01)
    orders = [
        Ordered("a", "c", share=(0.97, 0.02)),
        Ordered("b", "c", share=share),
        Ordered("a", "d", share=share),
    ]
    declared = Ordered("x", "y")
    assert describe_found([declared, *orders]) == [
        "a and b are at most c, each in 97.0% (± 2.0%) of the rows or more, found and not promised",
        "a is at most d in 99.0% (± 1.0%) of the rows, found and not promised",
    ]


COLUMN = Real(name="a", edges=(0.0, 10.0, 20.0, 30.0), missing=False)


def test_numbers_are_drawn_in_their_own_bin_or_the_nearest_one() -> None:
    rng, rows = np.random.default_rng(2), 400
    numbers, none = np.full(rows, 25.0), np.full(rows, -np.inf)
    own = draw_between(COLUMN, np.full(rows, 2), numbers, none, np.full(rows, 24.0), rng)
    assert (own >= 20.0).all()
    assert (own <= 24.0).all()
    nearest = draw_between(COLUMN, np.full(rows, 2), numbers, none, np.full(rows, 13.0), rng)
    assert (nearest >= 10.0).all()
    assert (nearest <= 13.0).all()
    up = draw_between(COLUMN, np.full(rows, 0), numbers, np.full(rows, 11.0), np.full(rows, np.inf), rng)
    assert (up >= 11.0).all()
    assert (up <= 20.0).all()


def test_a_number_is_the_end_itself_where_its_bin_hardly_reaches_it_and_stays_where_none_is_in_range() -> (
    None
):
    rng, rows = np.random.default_rng(3), 200
    none, narrow = np.full(rows, -np.inf), np.full(rows, 20.0 + 1e-7)
    drawn = draw_between(COLUMN, np.full(rows, 2), np.full(rows, 25.0), none, narrow, rng)
    assert (drawn <= narrow).all()
    assert (drawn == narrow).any()
    below = draw_between(COLUMN, np.full(rows, 0), np.full(rows, 5.0), none, np.full(rows, -1.0), rng)
    assert (below == 5.0).all()
    whole = Integer(name="a", edges=(0, 10, 20), missing=False)
    halves = draw_between(whole, np.full(rows, 1), np.full(rows, 15), none, np.full(rows, 10.5), rng)
    assert set(halves.tolist()) == {10}
    assert halves.dtype.kind == "i"


def _rows(schema: Schema, **codes: list[int]) -> Encoded:
    arrays = tuple(np.array(codes[name], dtype=np.uint8) for name in schema.domain.names)
    return Encoded(schema.domain, arrays)


def test_a_chain_is_kept_and_given_and_missing_numbers_stay() -> None:
    edges = (0.0, 10.0, 20.0, 30.0)
    columns = [Real(name=name, edges=edges, missing=name == "b") for name in "abc"]
    rules = (Ordered("a", "b", share=(0.99, 0.01)), Ordered("b", "c", share=(0.99, 0.01)))
    schema = Schema(tuple(columns), rules)
    encoded = _rows(schema, a=[2] * 300, b=[1] * 250 + [3] * 50, c=[0] * 300)
    found = keep_orders(encoded, schema, np.random.default_rng(4), {}, {}, {})
    a, b, c = (found[name].numbers for name in "abc")
    there = ~found["b"].absent
    assert there.sum() == 250
    assert (a[there] <= b[there]).all()
    assert (b[there] <= c[there]).all()
    given = {"a": np.full(300, 25.0)}
    found = keep_orders(encoded, schema, np.random.default_rng(5), {}, given, given)
    assert (found["a"].numbers == 25.0).all()
    assert (found["b"].numbers[there] >= 25.0).all()


def test_columns_of_rules_that_were_declared_stay() -> None:
    columns = [Real(name=name, edges=(0.0, 10.0, 20.0, 30.0), missing=False) for name in "abx"]
    schema = Schema(tuple(columns), (Ordered("x", "a"), Ordered("a", "b", share=(0.99, 0.01))))
    encoded = _rows(schema, a=[2] * 200, b=[0] * 200, x=[0] * 200)
    numbers = {"a": np.full(200, 25.0), "b": np.full(200, 5.0), "x": np.full(200, 1.0)}
    found = keep_orders(encoded, schema, np.random.default_rng(6), {}, numbers, {})
    assert (found["a"].numbers == 25.0).all()
    assert (found["b"].numbers >= 25.0).all()
