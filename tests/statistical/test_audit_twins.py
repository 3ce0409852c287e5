"""The twin audit of every method: each question of a run is answered on neighbouring tables as well.

Two runs on tables that differ in one unit get the same noisy answers. They have to ask for the same events
with the same parameters, read nothing else that differs, and return the same release; the exact answers may
differ by what the events declare, and all true losses together have to be within epsilon and delta. See
docs/privacy/audit.md.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from twin_losses import true_events
from twin_runs import COLUMNS, NAMES, SLICED, audited, columns_of, fitting, refused
from twin_tables import KINDS, pair
from twins import Run, record, replay

from margrave import Synthesizer, limits, owner_sizes
from margrave.engines.memory import MemoryEngine
from margrave.models.pgm.fitter import PGM
from margrave.privacy.accounting.events import ExponentialEvent, GaussianEvent, PartitionEvent, read_appraisal
from margrave.privacy.unit import Adjacency
from margrave.schema.schema import Schema
from margrave.select.aim import AIM

CORE = ("independent", "mst", "aim")
BOTH: tuple[Adjacency, ...] = ("add_remove", "replace_one")


def _tables(
    columns: tuple[str, ...], adjacency: Adjacency, k: int, kinds: list[str]
) -> tuple[Any, list[Any]]:
    """One table, and its neighbours of some kinds; of owners, one with many rows of all kinds too."""
    pairs = [pair(kind, columns, adjacency, k) for kind in kinds]
    pairs += [pair(kinds[0], columns, adjacency, k, many=True)] if k else []
    return pairs[0][0], [second for _, second in pairs]


def _audit(method: str, adjacency: Adjacency, k: int, whole: bool, kinds: list[str]) -> list[str]:
    """Findings of a method on a table and on its neighbours, from the one and from the other side."""
    columns = columns_of(method, whole)
    table, others = _tables(columns, adjacency, k, kinds)

    def run(data: Any) -> Run:
        return fitting(data, method, columns, adjacency, k, whole=whole)

    rows = max(table.num_rows for table in (table, *others))
    tape, found = audited(run(table), *map(run, others), rows=rows)
    assert tape.error is None
    assert tape.questions
    odd, back = audited(run(others[-1]), run(table), rows=rows, seed=1)
    assert odd.error is None
    return found + back


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 3)])
@pytest.mark.parametrize("method", CORE)
def test_a_few_methods_lose_no_more_than_they_declare(
    method: str, adjacency: Adjacency, k: int, whole: bool
) -> None:
    kinds = ["the same row again", "a new category", "no value at all"]
    assert _audit(method, adjacency, k, whole, kinds) == []


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("k", [0, 1, 3])
@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("method", NAMES)
def test_no_method_loses_more_than_it_declares(
    method: str, adjacency: Adjacency, k: int, whole: bool
) -> None:
    columns = columns_of(method, whole)
    if not refused(method, adjacency, k):
        assert _audit(method, adjacency, k, whole, list(KINDS)) == []
        return
    tables = pair("a new category", columns, adjacency, k)
    first, second = (fitting(table, method, columns, adjacency, k, whole=whole) for table in tables)
    tape, found = audited(first, second)
    assert found == []
    assert "InputError" in str(tape.error)
    assert tape.questions == []


@pytest.mark.slow
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("k", [0, 1])
@pytest.mark.parametrize("method", [case for case in NAMES if case.values[0] not in SLICED])
def test_an_empty_table_is_like_one_of_one_row(method: str, k: int, whole: bool) -> None:
    columns = columns_of(method, whole)
    tables = pair("the same row again", columns, "add_remove", k, owners=0)
    runs = [fitting(table, method, columns, "add_remove", k, whole=whole) for table in tables]
    for first, second in (runs, runs[::-1]):
        tape, found = audited(first, second, rows=1)
        assert tape.error is None
        assert found == []


def _coins(adjacency: Adjacency, k: int) -> tuple[pa.Table, pa.Table]:
    """Coins whose third says whether two others differ, and a neighbour with one unit more or exchanged."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (3000, 4))
    codes[:, 2] = codes[:, 0] ^ codes[:, 1]
    odd = np.repeat([[0, 1, 0, 1]], max(k, 1), axis=0)
    shared = codes if adjacency == "add_remove" else np.vstack([codes, 1 - odd])
    both = [shared, np.vstack([codes, odd])]
    names = np.arange(3000 + len(odd))
    names[3000:] = 3000
    columns = [{f"x{i}": rows[:, i] for i in range(4)} | {"who": names[: len(rows)]} for rows in both]
    tables = [pa.table(named) for named in columns]
    first, second = tables if k else [table.drop_columns(["who"]) for table in tables]
    return first, second


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 0), ("replace_one", 3)])
def test_a_look_at_triples_loses_no_more_than_it_declares(adjacency: Adjacency, k: int) -> None:
    tables = _coins(adjacency, k)
    names = ["x0", "x1", "x2", "x3"]
    schema = Schema.from_sizes(dict.fromkeys(names, 2))
    runs = [fitting(t, "auto", names, adjacency, k, whole=True, schema=schema) for t in tables]
    for first, second in (runs, runs[::-1]):
        tape, found = audited(first, second)
        assert tape.error is None
        assert found == []
        looks = [read_appraisal(event) for question in tape.questions for event in question.events]
        assert [look.columns for look in looks if look is not None] == [3]


class Ticking(PGM):
    """A fitter whose every fit takes a second of a clock that else stands still.

    Args:
        clock: Seconds.
    """

    def __init__(self, clock: list[float]) -> None:
        super().__init__()
        object.__setattr__(self, "_clock", clock)

    def fit(self, *args: Any, **more: Any) -> Any:
        clock: Any = self.__dict__["_clock"]
        clock[0] += 1.0
        return super().fit(*args, **more)


def _timed(data: Any, counting: float, patch: pytest.MonkeyPatch) -> Run:
    """A run with a time limit, in which each count of the table takes some seconds."""

    def run(on_step: Any) -> Any:
        clock, count = [0.0], MemoryEngine.count

        def slow(engine: MemoryEngine, cliques: Any) -> Any:
            clock[0] += counting
            return count(engine, cliques)

        with patch.context() as inside:
            inside.setattr(MemoryEngine, "count", slow)
            now = {"monotonic": lambda: clock[0], "monotonic_ns": lambda: int(clock[0] * 1e9)}
            inside.setattr(limits, "time", SimpleNamespace(**now))
            model = Ticking(clock)
            more = {"select": AIM(rounds=60), "model": model, "max_seconds": 18.5}
            return fitting(data, "aim", COLUMNS, "add_remove", 0, whole=True, **more)(on_step)

    return run


def test_a_time_limit_does_not_tell_how_long_counting_took(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = pair("a very long text", COLUMNS)
    tape, found = audited(_timed(first, 0.001, monkeypatch), _timed(second, 5.0, monkeypatch))
    assert tape.error is None
    assert len(tape.questions) < 13  # the limit ends the run early: without it there are 13
    assert found == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("method", ["aim", "mst", "privmrf", "privsyn", "batched"])
def test_other_answers_lead_to_other_questions_that_are_paid_for_as_well(
    method: str, adjacency: Adjacency, seed: int
) -> None:
    """With little noise the strategies see what depends on what, and go other ways than with much of it."""
    epsilon = 0.5 * 4.0**seed
    tables = _tables(COLUMNS, adjacency, 0, ["the same row again", "extreme numbers", "a new category"])
    runs = [
        fitting(table, method, COLUMNS, adjacency, 0, whole=seed % 2 == 0, epsilon=epsilon)
        for table in (tables[0], *tables[1])
    ]
    tape, found = audited(*runs, seed=seed)
    assert tape.error is None
    assert found == []


@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("replace_one", 3)])
def test_looks_at_single_values_lose_no_more_than_they_declare(adjacency: Adjacency, k: int) -> None:
    """The pay of most rows is a multiple of 1000, which stands out, so that the looks at atoms are asked
    for."""
    table, others = _tables(
        ("pay",), adjacency, k, ["the same row again", "extreme numbers", "no value at all"]
    )
    runs = [
        fitting(data, "independent", ("pay",), adjacency, k, whole=False, epsilon=150.0)
        for data in (table, *others)
    ]
    tape, found = audited(*runs, rows=max(data.num_rows for data in (table, *others)))
    assert tape.error is None
    names = [event.what for question in tape.questions for event in question.events]
    assert "atoms of pay" in names
    assert found == []


@pytest.mark.parametrize("adjacency", BOTH)
def test_owner_sizes_lose_no_more_than_they_declare(adjacency: Adjacency) -> None:
    def run(data: Any) -> Run:
        return lambda _: owner_sizes(data, "who", epsilon=1.0, adjacency=adjacency, most=8)

    kinds = ["the same row again", "a new category"]
    table, others = _tables(("city",), adjacency, 3, kinds)
    tape, found = audited(run(table), *map(run, others))
    assert tape.error is None
    assert found == []


def test_a_plan_reads_nothing_that_differs() -> None:
    def run(data: Any) -> Run:
        return lambda _: str(Synthesizer("mst", epsilon=1.0, unit="who").plan(data))

    first, second = (run(table) for table in pair("no value at all", COLUMNS, k=1))
    tape, found = audited(first, second)
    assert found == []
    assert tape.questions == []
    assert {read[1] for read in tape.reads} <= {"open_source", "only"}


REACHED: dict[str, tuple[str, Adjacency, int, type, int]] = {
    "rows that come or go": ("independent", "add_remove", 0, GaussianEvent, 1),
    "rows that are exchanged": ("independent", "replace_one", 0, GaussianEvent, 2),
    "owners that come or go": ("independent", "add_remove", 3, GaussianEvent, 9),
    "owners that are exchanged": ("independent", "replace_one", 3, GaussianEvent, 18),
    "values that come or go": ("independent", "add_remove", 3, PartitionEvent, 9),
    "a choice": ("aim", "add_remove", 1, ExponentialEvent, 1),
}


@pytest.mark.parametrize("name", REACHED)
def test_declared_bounds_are_reached(name: str) -> None:
    """So a declaration that is too small by the least step would be a finding."""
    method, adjacency, k, kind, most = REACHED[name]
    tables = pair("a new category", COLUMNS, adjacency, k)
    first, second = (
        fitting(table, method, COLUMNS, adjacency, k, whole=kind is not PartitionEvent) for table in tables
    )
    tape = record(first)
    again = replay(second, tape)
    assert tape.error is again.error is None
    true = [e for pair in zip(tape.questions, again.questions, strict=True) for e in true_events(*pair)]
    declared = [event for question in tape.questions for event in question.events]
    found = [(a, b) for a, b in zip(true, declared, strict=True) if isinstance(b, kind)]
    if kind is ExponentialEvent:
        assert max(float(a.epsilon / b.epsilon) for a, b in found) > 0.4  # type: ignore[attr-defined]
        return
    assert {b.l2_squared for _, b in found} == {most}  # type: ignore[attr-defined]
    assert max(a.l2_squared for a, _ in found) == most  # type: ignore[attr-defined]
