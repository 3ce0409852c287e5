"""Comparisons of two columns, and codes made of them: a row counts for one cell, alike in every engine."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from date_cases import DAYS, ENGINES, MOMENTS
from engine_backends import NOT_HELD, Backends

from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.schema.columns import Date, Integer, Moment, Real, Relative
from margrave.schema.columns.relative import ABSENT_CELLS, MAX_COMPARED, Comparison
from margrave.schema.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore")

LONGS = [0, 1, -1, 7, 1000, 2**53 + 1, 2**61 + 5, -(2**61) - 5, 2**63 - 1, -(2**63), None]
REALS = [0.0, -0.0, 0.1, 0.3, 1 / 3, -2.5, 1e-310, 5e-324, 1e300, -1e300, 1.7976931348623157e308, None]
ODD = [float("nan"), float("inf"), float("-inf"), 3.0, 2.0**53 + 2]
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "long": (pa.int64(), LONGS),
    "small": (pa.int16(), [0, 1, -1, 7, None]),
    "real": (pa.float64(), [*REALS, *ODD]),
    "single": (pa.float32(), [0.0, 0.1, -3.5, None]),
    "money": (pa.decimal128(20, 3), [Decimal("0.1"), Decimal("99999999999999999.999"), Decimal(-7), None]),
    "day": (pa.date32(), DAYS),
    "moment": (pa.timestamp("us"), MOMENTS),
}
NUMBERS, WHOLE, TIMES = ("long", "small", "real", "single", "money"), ("long", "small"), ("day", "moment")
EDGES = np.array([-1e18, -86_400e6, -1000.0, -1.0, 0.0, 1.0, 2.0, 31.0, 86_400e6, 1e18])
PARTS = np.array(
    [-MAX_COMPARED, -1.0, 0.0, np.nextafter(0.0, 1.0), 0.5, 1.0, np.nextafter(1.0, 2.0), 2.0, MAX_COMPARED]
)


def make_table(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    drawn = {
        name: [values[k] for k in rng.integers(0, len(values), rows)] for name, (_, values) in KINDS.items()
    }
    return pa.table({name: pa.array(values, KINDS[name][0]) for name, values in drawn.items()})


def comparisons() -> list[tuple[str, str, Comparison]]:
    found = []
    for column, base in itertools.permutations(NUMBERS, 2):
        whole = column in WHOLE and base in WHOLE
        found.append((column, base, Comparison("difference", whole=whole)))
        found.append((column, base, Comparison("quotient")))
    found += [("real", "long", Comparison("difference", whole=True))]  # whole numbers found in a float column
    found += [
        (one, other, Comparison("difference", one.replace("day", "date"), other.replace("day", "date"), True))
        for one, other in itertools.permutations(TIMES, 2)
    ]
    return found


SUMS: list[tuple[str, str, tuple[str, ...], Comparison]] = [
    (column, base, others, Comparison("difference", whole=whole, joint="sum"))
    for column, base, others, whole in (
        ("real", "long", ("small",), True),
        ("long", "small", ("real",), True),
        ("real", "single", ("money",), False),
        ("money", "real", ("long", "small", "single"), False),
        ("small", "long", ("real", "money"), False),
    )
]
SUMS += [
    (column, base, others, Comparison("difference", joint="product", unit=unit))
    for column, base, others, unit in (
        ("real", "small", ("single",), 0.0),
        ("money", "real", ("long",), 0.001),
        ("long", "small", ("real", "money"), 1.0),
    )
]
SUMS += [
    (column, base, others, Comparison("difference", joint=joint, unit=unit, factor=factor, offset=offset))
    for column, base, others, joint, unit, factor, offset in (
        ("real", "small", (), "sum", 0.01, 0.19, 0.0),
        ("small", "long", (), "sum", 1.0, -1.0, 3.0),
        ("money", "real", ("long", "single"), "sum", 0.5, 1 / 3, 0.0),
        ("long", "money", ("small",), "product", 1.0, -1.8, 32.0),
    )
]
SUMS += [
    (
        column,
        base,
        others,
        Comparison("difference", joint="product", unit=0.01, factor=factor, share_of=whole),
    )
    for column, base, others, factor, whole in (
        ("real", "small", ("single",), 1.0, 1.0),
        ("money", "real", ("long", "small"), 0.01, 100.0),
        ("small", "long", ("real",), 0.01, -100.0),
    )
]
SUMS += [
    (
        column,
        base,
        others,
        Comparison("difference", joint="product", unit=unit, factor=factor, powers=powers),
    )
    for column, base, others, unit, factor, powers in (
        ("real", "small", ("single",), 0.01, 1.0, (1, -1)),
        ("money", "real", ("long",), 0.001, 10_000.0, (1, -2)),
        ("small", "long", ("real", "money"), 1.0, 1 / 60, (1, -1, 1)),
        ("real", "small", (), 0.0, 1.0, (2,)),
    )
]
SUMS += [
    (column, base, others, Comparison("difference", whole=whole, joint="sum", powers=powers))
    for column, base, others, whole, powers in (
        ("real", "long", ("small",), True, (1, -1)),
        ("money", "real", ("small", "single"), False, (1, -1, -1)),
    )
]
"""A column, the columns whose sum, product or line it is compared with, and how."""


def edges_of(comparison: Comparison) -> Any:
    return PARTS if comparison.how == "quotient" else EDGES


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    found = Backends(tmp_path_factory.mktemp("comparisons"))
    yield found
    found.close()


def test_each_row_counts_once_whatever_the_others_are() -> None:
    table = make_table(80, 0)
    whole, alone = open_source(table)[0], [open_source(table.slice(i, 1))[0] for i in range(80)]
    for column, base, comparison in comparisons():
        edges = edges_of(comparison)
        answers = [source.differences(column, base, comparison, edges).reveal() for source in alone]
        assert all(answer.sum() == 1 and answer.min() == 0 for answer in answers)
        found = whole.differences(column, base, comparison, edges).reveal()
        assert found.shape == (len(edges) - 1 + ABSENT_CELLS,)
        np.testing.assert_array_equal(found, np.sum(answers, axis=0), f"{column} {base} {comparison}")
    for column, base, others, comparison in SUMS:
        asked = (column, base, comparison, EDGES, others)
        answers = [source.differences(*asked).reveal() for source in alone]
        assert all(answer.sum() == 1 and answer.min() == 0 for answer in answers)
        np.testing.assert_array_equal(whole.differences(*asked).reveal(), np.sum(answers, axis=0))


@pytest.mark.parametrize("engine", ENGINES)
def test_comparisons_are_those_of_memory(backends: Backends, engine: str) -> None:
    table = make_table(400, 1)
    table = table.select([name for name in table.column_names if name not in NOT_HELD.get(engine, ())])
    memory = backends.open("memory-csv" if engine == "stream-csv" else "memory", table)[0]
    other = backends.open(engine, table)[0]
    assert other.comparable == frozenset(table.column_names)
    for column, base, others, comparison in SUMS:
        if {column, base, *others} <= set(table.column_names):
            asked = (column, base, comparison, EDGES, others)
            answers = [source.differences(*asked).reveal() for source in (memory, other)]
            np.testing.assert_array_equal(answers[0], answers[1], f"{column} {base} {others}")
    for column, base, comparison in comparisons():
        answers = [
            s.differences(column, base, comparison, edges_of(comparison)).reveal() for s in (memory, other)
        ]
        np.testing.assert_array_equal(answers[0], answers[1], f"{column} {base} {comparison}")


def relative_schema(missing: bool, alone: bool) -> Schema:
    """Every column of the table by itself, or relative to another."""
    loose: dict[str, Any] = {"strict": False, "missing": True}
    long = Integer(name="long", lower=-1000, upper=1000, bins=7, **loose)
    money = Real(name="money", lower=-10, upper=10, bins=4, **loose)
    single = Real(name="single", lower=-10, upper=10, bins=4, **loose)
    small = Integer(name="small", lower=-5, upper=10, bins=4, **loose)
    day = Date(name="day", lower="1960-01-01", upper="2030-01-01", bins=9, **loose)
    moment = Moment(name="moment", lower="1960-01-01", upper="2030-01-01", bins=9, **loose)
    more: dict[str, Any] = {"strict": False, "missing": missing, "alone": alone}
    whole = {"missing": False, "strict": False}
    edges, ends = tuple(EDGES.tolist()), tuple(PARTS.tolist())
    far = tuple(int(edge) for edge in EDGES)
    return Schema(
        (
            long,
            Relative(
                name="small", base="long", own=small, part=Integer(name="small", edges=far, **whole), **more
            ),
            Relative(
                name="real",
                base="long",
                others=("small",),
                joint="product",
                powers=(1, -2),
                own=Real(name="real", lower=-5, upper=5, bins=6, **loose),
                part=Real(name="real", edges=edges, **whole),
                **more,
            ),
            Relative(
                name="single",
                base="real",
                factor=-0.5,
                offset=2.0,
                own=single,
                part=Real(name="single", edges=edges, **whole),
                **more,
            ),
            Relative(
                name="money",
                base="single",
                how="quotient",
                own=money,
                part=Real(name="money", edges=ends, **whole),
                **more,
            ),
            day,
            Relative(
                name="moment",
                base="day",
                base_read="date",
                own=moment,
                part=Integer(name="moment", edges=far, **whole),
                **more,
            ),
        )
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("missing", "alone"), [(True, True), (False, False)])
def test_codes_are_those_of_memory(backends: Backends, engine: str, missing: bool, alone: bool) -> None:
    table = make_table(300, 2)
    held = [name for name in table.column_names if name not in NOT_HELD.get(engine, ())]
    table, schema = table.select(held), relative_schema(missing, alone)
    memory = backends.open("memory-csv" if engine == "stream-csv" else "memory", table)[0]
    engines = [source.bind(schema) for source in (memory, backends.open(engine, table)[0])]
    asked = [(), *itertools.combinations(schema.names, 2)]
    for clique, *counts in zip(asked, *(found.count(asked) for found in engines), strict=True):
        np.testing.assert_array_equal(counts[0].reveal(), counts[1].reveal(), str(clique))
        assert counts[1].reveal().sum() == 300


@pytest.mark.parametrize(("engine", "able"), [("duckdb-file", {"a", "b"}), ("ibis-duckdb", {"b"})])
def test_what_can_be_compared_follows_from_storage(backends: Backends, engine: str, able: set[str]) -> None:
    table = pa.table({"a": ["2024-01-01", "CANARY"], "b": [1, 2]})
    source = backends.open(engine, table)[0]
    assert source.comparable == able
    if "a" not in able:
        with pytest.raises(InputError, match="not text") as error:
            source.differences("a", "b", Comparison("difference"), EDGES)
        assert "CANARY" not in str(error.value)
