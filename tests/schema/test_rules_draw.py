"""Numbers drawn under rules: exact in every storage, and inside their bins."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from margrave.errors import SchemaError
from margrave.schema.columns import Categorical, Date, Duration, Integer, Moment, Real
from margrave.schema.constraints.rules import Ordered, Sum, Within
from margrave.schema.encode import decode, encode
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.frame import Frame
from margrave.schema.schema import Schema
from margrave.schema.storage.forms import normal

ROWS = 4000


def rows_of(schema, rows=ROWS, seed=0):
    """Codes drawn evenly among the cells that the rules allow."""
    domain, rng = schema.domain, np.random.default_rng(seed)
    codes = [rng.integers(0, size, 60 * rows) for size in domain.sizes]
    good = np.flatnonzero(domain.rules.possible(dict(zip(domain.names, codes, strict=True)), 60 * rows))
    assert len(good) >= rows
    kept = good[:rows]
    return Encoded(
        domain, tuple(c[kept].astype(code_dtype(s)) for c, s in zip(codes, domain.sizes, strict=True))
    )


def integers(*names, missing=False):
    return [Integer(name=name, lower=0, upper=40, bins=9, missing=missing) for name in names]


def test_whole_numbers_obey_every_kind_of_rule_at_once_and_stay_in_their_bins():
    columns = (
        *integers("a", "b", missing=True),
        Integer(name="t", lower=0, upper=80, bins=12, missing=True),
        *integers("c"),
        Categorical(name="k", values=("x", "y"), missing=False),
    )
    rules = (Sum("t", ("a", "b")), Ordered("a", "c"), Ordered("b", "t"), Within("c", "k", {"x": (11, 29)}))
    schema = Schema(columns, rules)
    encoded = rows_of(schema)
    table = decode(encoded, schema, np.random.default_rng(1))
    again = encode(table, schema)
    assert all((x == y).all() for x, y in zip(encoded.columns, again.columns, strict=True))
    frame = table.to_pandas()
    full = frame[["a", "b", "t"]].notna().all(axis=1)
    assert 0.2 < full.mean() < 1
    assert (frame.a + frame.b == frame.t)[full].all()
    assert (frame.a <= frame.c)[frame.a.notna()].all()
    assert (frame.b <= frame.t)[frame.b.notna() & frame.t.notna()].all()
    assert frame.c.between(11, 29)[frame.k == "x"].all()


def test_dates_and_moments_are_in_order_and_a_moment_is_another_plus_a_duration():
    columns = (
        Date(name="born", lower="1950-01-01", upper="2020-12-31", bins=6, missing=False),
        Date(name="died", lower="1950-01-01", upper="2025-12-31", bins=7, missing=True),
        Moment(name="start", lower="2024-01-01T00:00", upper="2024-01-02T00:00", bins=5, missing=False),
        Moment(name="stop", lower="2024-01-01T00:00", upper="2024-01-03T00:00", bins=6, missing=False),
        Duration(name="took", lower=0, upper=24 * 3600 * 10**6, bins=6, missing=False),
    )
    rules = (Ordered("born", "died", strict=True), Sum("stop", ("start", "took")))
    schema = Schema(columns, rules)
    encoded = rows_of(schema, 3000)
    types = {"start": "timestamp[s]", "stop": "timestamp[ms]", "took": "duration[s]"}
    frame = decode(encoded, schema, np.random.default_rng(1), Frame("arrow", types))
    assert frame.schema.field("start").type == pa.timestamp("s")
    rows = frame.to_pylist()
    assert all(row["died"] is None or row["born"] < row["died"] for row in rows)
    assert all(row["start"] + row["took"] == row["stop"] for row in rows)
    assert any(row["died"] is None for row in rows)


@pytest.mark.parametrize("storage", ["double", "float", "decimal128(9, 2)", "int32"])
def test_real_numbers_add_up_and_are_in_order_in_any_storage(storage):
    columns = (
        Real(name="a", lower=0, upper=9, bins=4, missing=False),
        Real(name="b", lower=0, upper=9, bins=4, missing=False),
        Real(name="t", lower=0, upper=18, bins=5, missing=False),
    )
    schema = Schema(columns, (Sum("t", ("a", "b")), Ordered("a", "b")))
    table = decode(
        rows_of(schema), schema, np.random.default_rng(2), Frame("arrow", dict.fromkeys("abt", storage))
    )
    rows = table.to_pylist()
    if storage.startswith("decimal"):
        assert isinstance(rows[0]["a"], Decimal)
    if storage == "float":
        # Numbers are read, and added, as the decimals that they stand for.
        a, b, t = (np.asarray(normal(table[name], name)) for name in "abt")
        assert np.array_equal((a + b).astype(np.float32), t.astype(np.float32))
    else:
        assert all(row["a"] + row["b"] == row["t"] for row in rows)
    assert all(row["a"] <= row["b"] for row in rows)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_other_libraries_get_the_same_numbers(kind):
    schema = Schema(
        (*integers("a", "b"), *integers("c", missing=True)), (Ordered("a", "b"), Ordered("b", "c"))
    )
    dtypes = {
        "pandas": {"a": "int8", "b": "float64", "c": "Int64"},
        "polars": {"a": "Int8", "b": "Float64", "c": "Int64"},
    }
    encoded = rows_of(schema)
    arrow = decode(encoded, schema, np.random.default_rng(3)).to_pandas()
    found = decode(encoded, schema, np.random.default_rng(3), Frame(kind, dtypes[kind]))
    frame = found if kind == "pandas" else found.to_pandas()
    for name in "abc":
        np.testing.assert_array_equal(
            frame[name].astype("float64").to_numpy(), arrow[name].astype("float64").to_numpy()
        )
    assert (frame.a <= frame.b).all()


def test_inside_one_bin_the_two_numbers_are_even_over_the_triangle():
    one = [Integer(name=name, lower=0, upper=3, bins=1, missing=False) for name in "ab"]
    schema = Schema((*one,), (Ordered("a", "b"),))
    encoded = Encoded(schema.domain, (np.zeros(20_000, np.uint8), np.zeros(20_000, np.uint8)))
    frame = decode(encoded, schema, np.random.default_rng(4)).to_pandas()
    counts = pd.crosstab(frame.a, frame.b).to_numpy()
    assert (counts[np.tril_indices(4, -1)] == 0).all()
    inside = counts[np.triu_indices(4)]
    assert inside.min() > 1500  # 2,000 each when the pairs are conditioned, not sorted one by one
    assert inside.max() < 2500


def test_numbers_that_are_known_are_kept_and_the_others_follow():
    schema = Schema((*integers("a", "b"),), (Ordered("a", "b"),))
    encoded = Encoded(schema.domain, (np.full(500, 4, np.uint8), np.full(500, 4, np.uint8)))
    low, high = schema["b"].edges[4:6]
    known = {"b": np.where(np.arange(500) % 2, low, np.nan)}
    frame = decode(encoded, schema, np.random.default_rng(5), None, known).to_pandas()
    assert (frame.b[1::2] == low).all()
    assert (frame.a[1::2] == low).all()
    assert frame.b[::2].max() == high - 1
    with pytest.raises(SchemaError, match="rules"):
        decode(encoded, schema, np.random.default_rng(5), None, {"b": np.full(500, -3.0)})


def test_without_rules_known_numbers_change_nothing_else():
    schema = Schema((*integers("a", "b"),))
    encoded = Encoded(schema.domain, (np.arange(9, dtype=np.uint8), np.arange(9, dtype=np.uint8)))
    known = {"a": np.full(9, 7.0)}
    frame = decode(encoded, schema, np.random.default_rng(6), None, known).to_pandas()
    assert frame.a.tolist() == [7] * 9
    assert encode(pa.table({"a": frame.a, "b": frame.b}), schema).column("b").tolist() == list(range(9))


def test_whole_totals_of_numbers_on_a_line_are_whole():
    """Of 300 made groups of rules with both kinds of numbers, 45 % once had rows that ended in an error."""
    columns = (
        Real(name="a", edges=(0, 2.5, 7, 20), missing=False),
        Real(name="b", edges=(0, 3.25, 9), missing=False),
        Integer(name="t", edges=(0, 5, 11, 29), missing=False),
    )
    schema = Schema(columns, (Sum("t", ("a", "b")), Ordered("b", "t", strict=True)))
    encoded = rows_of(schema, 500)
    table = decode(encoded, schema, np.random.default_rng(0)).to_pydict()
    a, b, t = (np.array(table[name]) for name in "abt")
    assert np.abs(a + b - t).max() < 1e-12
    assert t.dtype.kind == "i"
    assert (b < t).all()
    assert (a % 1 > 0).any()


def doubling(f_edges):
    """s = c + d, t = c + s and t = d + f, so f = 2 c is even, which no interval of one number says."""
    columns = (
        *(Real(name=name, edges=(0, 100), missing=False) for name in "st"),
        *integers("c", "d"),
        Integer(name="f", edges=f_edges, missing=False),
    )
    return Schema(columns, (Sum("s", ("c", "d")), Sum("t", ("c", "s")), Sum("t", ("d", "f"))))


def test_sums_that_share_columns_hold_where_bins_leave_no_whole_numbers():
    schema = doubling((10, 11, 12, 13, 40))
    odd, even = {"s": 0, "t": 0, "c": 1, "d": 2, "f": 1}, {"s": 0, "t": 0, "c": 1, "d": 2, "f": 2}
    assert schema.code_rules.possible({name: np.array([code]) for name, code in odd.items()}, 1)[0]
    for rows in ([odd], [odd, even], [odd, even, odd]):
        columns = tuple(np.array([row[name] for row in rows], dtype=np.uint8) for name in schema.domain.names)
        table = decode(Encoded(schema.domain, columns), schema, np.random.default_rng(0)).to_pydict()
        s, t, c, d, f = (np.array(table[name]) for name in "stcdf")
        assert (c + d == s).all()
        assert (c + s == t).all()
        assert (d + f == t).all()
        if len(rows) > 1:  # a row without numbers of its own takes those of another
            assert (f == 12).all()


def test_sums_that_no_whole_numbers_obey_are_refused():
    with pytest.raises(SchemaError, match="some row obeys them all"):
        doubling((11, 12))


@pytest.mark.parametrize("kinds", [(Integer,), (Real,), (Integer, Real)])
def test_rows_that_the_rules_allow_always_get_numbers(kinds):
    """Made groups of two to four rules over four to seven columns, many of them entangled."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        names = [f"x{place}" for place in range(int(rng.integers(4, 8)))]
        columns = []
        for name in names:
            low, width = int(rng.integers(0, 4)), int(rng.integers(3, 40))
            inner = np.unique(rng.integers(low + 1, low + width, size=int(rng.integers(1, 6)))).tolist()
            kind = kinds[int(rng.integers(len(kinds)))]
            columns.append(
                kind(name=name, edges=(low, *inner, low + width), missing=bool(rng.random() < 0.2))
            )
        rules = []
        for _ in range(int(rng.integers(2, 5))):
            one, two, three = rng.choice(names, size=3, replace=False).tolist()
            strict = bool(rng.random() < 0.3)
            rules.append(Sum(one, (two, three)) if rng.random() < 0.75 else Ordered(one, two, strict=strict))
        try:
            schema = Schema(tuple(columns), tuple(rules))
        except SchemaError:
            continue
        codes = [rng.integers(0, size, 400) for size in schema.domain.sizes]
        allowed = schema.code_rules.possible(dict(zip(names, codes, strict=True)), 400)
        rows = Encoded(schema.domain, tuple(own[allowed].astype(np.uint8) for own in codes))
        table = decode(rows, schema, rng).to_pydict()
        assert all(holds(rule, table) for rule in rules)


def holds(rule, table):
    numbers = {name: np.array(table[name], dtype=np.float64) for name in rule.names}
    with np.errstate(invalid="ignore"):  # missing is NaN, and no rule speaks of it
        if isinstance(rule, Ordered):
            low, high = numbers[rule.low], numbers[rule.high]
            return not ((low >= high) if rule.strict else (low > high)).any()
        return not (np.abs(numbers[rule.total] - sum(numbers[part] for part in rule.parts)) > 1e-9).any()
