"""Owners under a cap, in every engine: no one moves a table further than the claim, no canary is found.

For each engine and cap, two tables that differ in one owner of many rows are counted after the cap: no draw
may move a marginal by more than the cap. Then canary audits as in test_audit, with the cap honest, where
nothing may be found, and with the cap left out on purpose, where the violation must be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from engine_backends import Backends
from numpy.typing import NDArray
from test_audit import told_apart

from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.schema import Schema

SIZES = {"a": 2, "b": 3}
SCHEMA = Schema.from_sizes(SIZES)
CLIQUES = [(), ("a",), ("b",), ("a", "b")]
QUICK = ("memory", "stream-parquet", "stream-csv", "duckdb-file", "ibis-duckdb")
SERVERS = ("postgres", "spark")
CAPPED = [(engine, k) for engine in ("memory", "stream-parquet") for k in (1, 5, 50)] + [("ibis-duckdb", 5)]
SERVED = [*(("postgres", k) for k in (1, 5, 50)), ("spark", 5)]
"""Engines and caps of the audits. Where a run takes a second or more there is one cap: what a cap keeps is
tested exactly above, for every engine."""
EPSILON, DELTA = 8.0, 1e-5


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backends]:
    found = Backends(tmp_path_factory.mktemp("backends"))
    yield found
    found.close()


def table(rows_of_one: int, code: tuple[int, int] = (1, 2)) -> pa.Table:
    """Sixty owners of one to three rows, and one more of so many."""
    rng = np.random.default_rng(0)
    owner = np.repeat(np.arange(60), rng.integers(1, 4, 60))
    a, b = rng.integers(0, 2, len(owner)), rng.integers(0, 3, len(owner))
    return pa.table(
        {
            "id": np.append(owner, np.full(rows_of_one, 999)),
            "a": np.append(a, np.full(rows_of_one, code[0])),
            "b": np.append(b, np.full(rows_of_one, code[1])),
        }
    )


def counted(source: Any) -> list[NDArray[np.int64]]:
    return [found.reveal() for found in source.bind(SCHEMA).count(CLIQUES)]


@pytest.mark.parametrize("k", [3, 50])
@pytest.mark.parametrize("engine", QUICK)
def test_one_owner_moves_a_capped_marginal_by_the_cap_at_most(
    engine: str, k: int, backends: Backends
) -> None:
    """All others have at most three rows: both tables keep them whole and differ in the one owner alone."""
    without = counted(backends.open(engine, table(0))[0].bound_owners("id", k))
    source = backends.open(engine, table(4 * k))[0]
    for _ in range(3):
        for low, high in zip(without, counted(source.bound_owners("id", k)), strict=True):
            assert int(np.abs(high - low).sum()) == k


@pytest.mark.parametrize("engine", QUICK)
def test_with_one_row_each_owner_counts_once(engine: str, backends: Backends) -> None:
    total = counted(backends.open(engine, table(200))[0].bound_owners("id", 1))[0]
    assert int(total) == 61


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("engine", SERVERS)
def test_servers_cap_as_well(engine: str, k: int, backends: Backends) -> None:
    source = backends.open(engine, table(4 * k))[0]
    kept = counted(source.bound_owners("id", k))
    sizes = np.bincount(table(4 * k)["id"].to_numpy())
    assert int(kept[0]) == int(np.minimum(sizes, k).sum())


def scores(
    backends: Backends,
    engine: str,
    sides: list[pa.Table],
    adjacency: Adjacency,
    k: int,
    runs: int,
    cap: int,
    epsilon: float = EPSILON,
) -> tuple[list[NDArray[np.float64]], float]:
    """Log-likelihood ratios of runs on two tables whose owners are cut to `cap` but claimed to be at k."""
    opened = [backends.open(engine, side)[0] for side in sides]
    exact = [counted(source.bound_owners("id", k)) for source in opened]
    found: list[list[float]] = [[], []]
    rho = 0.0
    for side, source in enumerate(opened):
        for _ in range(runs):
            ledger = Ledger(
                epsilon=epsilon,
                delta=DELTA,
                neighbours=Neighbours(Unit("id", k), adjacency),
                accountant=GDP(),
            )
            curator = Curator(Capped(source, cap), ledger)
            curator.discover(SCHEMA)
            rho = float(ledger.total)
            curator.measure([("a",), ("b",), ("a", "b")], ledger.remaining / 3)
            evidence = 0.0
            for m in curator.measurements:
                low, high = (exact[s][CLIQUES.index(m.clique)] for s in (0, 1))
                evidence += float(((m.values - (low + high) / 2) * (high - low) / m.sigmas**2).sum())
            found[side].append(evidence)
    return [np.array(part) for part in found], rho


class Capped:
    """A source that keeps `cap` rows of an owner, whatever it is asked for."""

    def __init__(self, source: Any, cap: int) -> None:
        self._source, self._cap = source, cap

    def bound_owners(self, owner: str, _: int) -> Any:
        return self._source.bound_owners(owner, self._cap)


def neighbours(adjacency: Adjacency, rows: int) -> list[pa.Table]:
    """Two tables that differ in one owner of so many rows, and no other owner's rows are ever cut."""
    rng = np.random.default_rng(1)
    base = {"id": np.arange(60), "a": rng.integers(0, 2, 60), "b": rng.integers(0, 3, 60)}

    def joined(code: tuple[int, int] | None) -> pa.Table:
        extra = 0 if code is None else rows
        mine = {"id": 999, "a": 0, "b": 0} if code is None else {"id": 999, "a": code[0], "b": code[1]}
        return pa.table({n: np.append(column, np.full(extra, mine[n])) for n, column in base.items()})

    return [joined((0, 0) if adjacency == "replace_one" else None), joined((1, 2))]


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("engine", "k"), CAPPED)
def test_the_canary_is_not_found_under_the_cap(
    engine: str, adjacency: Adjacency, k: int, backends: Backends
) -> None:
    runs = 1000 if engine == "memory" else 200
    sides, rho = scores(backends, engine, neighbours(adjacency, 4 * k), adjacency, k, runs, cap=k)
    assert not told_apart(sides[0], sides[1], rho)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "k"), CAPPED)
def test_the_canary_is_found_when_the_cap_is_left_out(engine: str, k: int, backends: Backends) -> None:
    sides, rho = scores(backends, engine, neighbours("add_remove", 4 * k), "add_remove", k, 200, cap=10**6)
    assert told_apart(sides[0], sides[1], rho)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "k"), SERVED)
def test_servers_hide_the_canary_under_the_cap_and_show_it_without(
    engine: str, k: int, backends: Backends
) -> None:
    """Few runs, since each is a second: so the epsilon is small, and the owner has sixteen times the cap."""
    sides = neighbours("add_remove", 16 * k)
    few = {"adjacency": "add_remove", "k": k, "runs": 60, "epsilon": 2.0}
    below, rho = scores(backends, engine, sides, cap=k, **few)  # type: ignore[arg-type]
    assert not told_apart(*below, rho)
    without, rho = scores(backends, engine, sides, cap=10**6, **few)  # type: ignore[arg-type]
    assert told_apart(*without, rho)
