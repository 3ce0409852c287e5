"""Each look of discovery at odd columns of which something is declared, on many neighbours at once.

As `test_looks_on_neighbours`, where nothing is declared: bounds that rows break, formats that they have not,
kinds that they are not, all of them without an error, since no column is strict.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from many_tables import look_at_many
from odd_tables import draw_tables

from margrave.engines.memory import MemorySource, open_source
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.columns import Boolean, Categorical, Column, Date, Integer, Moment, Real, Time
from margrave.schema.schema import Schema

CASES: tuple[tuple[Adjacency, int], ...] = (("add_remove", 0), ("replace_one", 0), ("add_remove", 3))
FEW, MANY = 6, 150
Declare = Callable[[str], Column]
NUMBERS: tuple[Declare, ...] = (
    lambda name: Integer(name=name, lower=0),
    lambda name: Integer(name=name, upper=10, missing=False, bins=3),
    lambda name: Integer(name=name, lower=-5, upper=2400, rare=0.05),
    lambda name: Integer(name=name, edges=(0, 10, 100, 1000, 10**6), rare=0.1),
    lambda name: Real(name=name),
    lambda name: Real(name=name, upper=99.5, missing=True),
    lambda name: Real(name=name, lower=-3.5, upper=1e6),
)
LISTED: tuple[Declare, ...] = (
    lambda name: Categorical(name=name, rare=0.05),
    lambda name: Categorical(name=name, values=("1", "2", "a", "France"), other="(other)"),
    lambda name: Categorical(name=name, values=(0, 1, 2, 3), missing=True),
)
DATES: tuple[Declare, ...] = (
    lambda name: Date(name=name, lower="2012-01-01"),
    lambda name: Date(name=name, lower="2012-01-01", upper="2012-05-05"),
    lambda name: Moment(name=name, lower="2020-01-01T00:00", upper="2021-01-01T00:00"),
)
TIMES: tuple[Declare, ...] = (
    lambda name: Time(name=name),
    lambda name: Time(name=name, lower="06:00", upper="18:00"),
)
WRITTEN: tuple[Declare, ...] = (
    lambda name: Date(name=name, format="%d.%m.%Y"),
    lambda name: Date(name=name, format="%Y%m%d"),
    lambda name: Date(name=name, format="%m.%Y"),
    lambda name: Time(name=name, format="%H%M"),
    lambda name: Real(name=name, format="$1,234.50"),
    lambda name: Real(name=name, format="5.5 mg/l"),
    lambda name: Boolean(name=name),
)


def _choose(kind: Any) -> tuple[Declare, ...]:
    """What may be said of a column, however wrongly, by its storage type."""
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return (*NUMBERS, *LISTED, *DATES, *TIMES, *WRITTEN)
    if pa.types.is_dictionary(kind) or pa.types.is_boolean(kind) or pa.types.is_duration(kind):
        return LISTED
    if pa.types.is_temporal(kind):
        return (*LISTED, *(TIMES if pa.types.is_time(kind) else DATES))
    return (*NUMBERS, *LISTED)


def look_at(seed: int) -> tuple[list[str], list[str]]:
    """The looks at the table of a seed with declarations, and what its neighbours show."""
    rng = random.Random(seed)
    adjacency, k = CASES[seed % len(CASES)]
    drawn = draw_tables(seed, rows=rng.choice((120, 120, 30, 1, 0)), others=8, k=max(k, 1))
    texts = [field.name for field in drawn[0].schema if field.type == pa.string()]
    loose = frozenset(texts if rng.random() < 0.6 else ())
    told = [rng.choice(_choose(one.type))(one.name) for one in drawn[0].schema if rng.random() < 0.7]
    sources = [MemorySource(open_source(table)[0]._table, loose) for table in drawn]
    neighbours = Neighbours(Unit("who", k) if k else Unit(), adjacency)
    declared = Schema(tuple(told)).absorb_outside() if told else None
    epsilon = rng.choice((300.0, 30.0, 3.0))
    return look_at_many(sources, neighbours, epsilon, gdp=seed % 2 == 0, seed=seed, declared=declared)


@pytest.mark.parametrize("seed", range(FEW))
def test_no_declared_look_moves_further_than_it_declares(seed: int) -> None:
    asked, found = look_at(seed)
    assert asked
    assert found == []


@pytest.mark.slow
def test_no_declared_look_at_many_tables_does_either() -> None:
    for seed in range(FEW, MANY):
        assert look_at(seed)[1] == [], seed
