"""Each look of discovery at tables of odd columns, on many neighbours at once: see `many_tables`.

No look moves further than its event declares, reads beside the ledger, or ends in an error or a warning
because of an odd cell. Which looks a table gets follows from the noise; many tables get each kind.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from many_tables import look_at_many
from odd_tables import draw_tables

from margrave.engines.counts import Counts
from margrave.engines.memory import MemorySource, open_source
from margrave.measure.discovery.numeric import NumericDiscovery
from margrave.measure.mechanisms import partition
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from source_values import list_values

CASES: tuple[tuple[Adjacency, int], ...] = (("add_remove", 0), ("replace_one", 0), ("add_remove", 3))
FEW, MANY = 9, 200
LOOKS = """
profile format values shapes distinct beginnings counts bounds detail atoms grids hours weekdays days spelling
censored marks comparisons lines constants relation times dates public patterns digits first
"""
"""The first word of the looks that so many tables get."""


def _open(table: pa.Table, loose: bool) -> MemorySource:
    """A table whose texts may be of any kind, as those of text files are, or have to stay text."""
    texts = [
        name for name, kind in zip(table.column_names, table.schema.types, strict=True) if kind == "string"
    ]
    return MemorySource(open_source(table)[0]._table, frozenset(texts) if loose else frozenset())


def look_at(seed: int) -> tuple[list[str], list[str]]:
    """The looks at the table of a seed, and what its neighbours show."""
    adjacency, k = CASES[seed % len(CASES)]
    drawn = draw_tables(seed, rows=(120, 30, 1, 0)[seed // 9 % 4], k=max(k, 1))
    sources = [_open(table, seed // 2 % 2 == 0) for table in drawn]
    neighbours = Neighbours(Unit("who", k) if k else Unit(), adjacency)
    return look_at_many(sources, neighbours, (300.0, 30.0, 3.0)[seed // 3 % 3], gdp=seed % 2 == 0, seed=seed)


@pytest.mark.parametrize("seed", range(FEW))
def test_no_look_moves_further_than_it_declares(seed: int) -> None:
    asked, found = look_at(seed)
    assert asked
    assert found == []


@pytest.mark.slow
def test_no_look_at_many_tables_does_either() -> None:
    asked: set[str] = set()
    for seed in range(FEW, MANY):
        names, found = look_at(seed)
        assert found == [], seed
        asked |= {name.split()[0] for name in names}
    assert set(LOOKS.split()) <= asked


def break_profiles(patch: pytest.MonkeyPatch, what: Any) -> None:
    """A fault of the profile of a table that holds some text."""
    true = MemorySource.kinds

    def kinds(self: Any, column: str) -> Any:
        if "1.2.3" in list_values(self, column)[0]:
            return what(true(self, column))
        return true(self, column)

    patch.setattr(MemorySource, "kinds", kinds)


def fail(_: Any) -> Any:
    raise ValueError


def warn(counts: Any) -> Any:
    warnings.warn("an odd cell", RuntimeWarning, stacklevel=2)
    return counts


def end_by_a_cell(patch: pytest.MonkeyPatch) -> None:
    """An error by what one cell holds."""
    break_profiles(patch, fail)


def warn_by_a_cell(patch: pytest.MonkeyPatch) -> None:
    """A warning by what one cell holds."""
    break_profiles(patch, warn)


def move_others(patch: pytest.MonkeyPatch) -> None:
    """One cell moves what other rows count for."""
    break_profiles(patch, lambda counts: Counts(np.roll(counts.reveal(), 1)))


def price_as_one_table(patch: pytest.MonkeyPatch) -> None:
    """All tables of a look for the price of one."""
    patch.setattr(Gaussian, "joint", lambda self, tables: self)


def pass_alone(patch: pytest.MonkeyPatch) -> None:
    """A search of which texts of one row pass."""
    patch.setattr(partition, "threshold", lambda *args: 1)


def read_beside(patch: pytest.MonkeyPatch) -> None:
    """An exact number of rows without a reading, for nothing."""
    true = NumericDiscovery.run

    def run(self: Any) -> Any:
        self.source.kinds(self.column.name)
        return true(self)

    patch.setattr(NumericDiscovery, "run", run)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (end_by_a_cell, "error"),
        (warn_by_a_cell, "error"),
        (move_others, "sensitivity"),
        (price_as_one_table, "sensitivity"),
        (pass_alone, "delta"),
        (read_beside, "read"),
    ],
)
def test_planted_faults_are_found(fault: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert any(one.startswith(kind) for seed in range(FEW) for one in look_at(seed)[1])
