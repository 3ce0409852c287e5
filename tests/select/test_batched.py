"""Batched: what it spends on what, which pairs it takes, and that it always ends with all of rho spent."""

from __future__ import annotations

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.limits import Deadline
from margrave.measure.curator import Curator
from margrave.models.independent import Independent
from margrave.models.pgm.fitter import PGM
from margrave.privacy.accounting.accountants import GDP, ZCDP, Accountant, event_rho
from margrave.privacy.accounting.events import Event, GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.progress import Step, silent
from margrave.schema.schema import Schema
from margrave.select.batched import Batched
from seeded_noise import SeededSource

SIZES = {"a": 2, "b": 3, "c": 4, "d": 2}


def _chain(rows: int = 4000) -> pa.Table:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 3, rows))
    c = np.where(rng.random(rows) < 0.7, b, rng.integers(0, 4, rows))
    return pa.table({"a": a, "b": b, "c": c, "d": rng.integers(0, 2, rows)})


def _open(epsilon: float, accountant: Accountant | None = None, seed: int = 1) -> tuple[Curator, Ledger]:
    ledger = Ledger(
        epsilon=epsilon,
        delta=1e-6,
        neighbours=Neighbours(),
        accountant=GDP() if accountant is None else accountant,
    )
    curator = Curator(open_source(_chain())[0], ledger, SeededSource(seed))
    curator.discover(Schema.from_sizes(SIZES))
    return curator, ledger


def _turns(events: tuple[Event, ...]) -> list[list[Event]]:
    """One-ways, then each turn: its appraisal and what it measured."""
    found: list[list[Event]] = [[]]
    for event in events:
        if event.what.startswith("errors"):
            found.append([])
        found[-1].append(event)
    return found


@pytest.mark.parametrize("accountant", [GDP(), ZCDP()])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 50.0])
def test_all_of_rho_is_spent_whatever_is_taken(epsilon: float, accountant: Accountant) -> None:
    for seed, fitter in ((1, PGM()), (2, Independent())):
        curator, ledger = _open(epsilon, accountant, seed)
        Batched().run(curator, fitter, silent)
        assert ledger.spent <= ledger.total
        assert float(ledger.remaining / ledger.total) < 1e-6
        assert all(isinstance(event, GaussianEvent) for event in ledger.events)


def test_shares_of_one_ways_looks_and_turns() -> None:
    curator, ledger = _open(20.0)
    Batched(ones=Fraction(1, 4), looks=Fraction(1, 5), rounds=3).run(curator, PGM(), silent)
    ones, *turns = _turns(ledger.events)
    total = ledger.total
    assert float(sum(map(event_rho, ones)) / total) == pytest.approx(1 / 4, rel=1e-6)
    assert len(turns) == 3
    for look, *bought in turns:
        assert float(event_rho(look) / total) == pytest.approx(3 / 4 / 5 / 3, rel=1e-6)
        assert look.what.startswith("errors of 6 marginals")
        assert float(sum(map(event_rho, bought)) / total) == pytest.approx(3 / 4 * 4 / 5 / 3, rel=1e-6)


def test_a_pair_gets_rho_by_its_cells() -> None:
    curator, ledger = _open(20.0)
    Batched(worth=0.0).run(curator, PGM(), silent)
    sizes = {f"marginal {a} x {b}": SIZES[a] * SIZES[b] for a in SIZES for b in SIZES}
    several = 0
    for _, *bought in _turns(ledger.events)[1:]:
        penalties = [float(event_rho(event)) / sizes[event.what] ** (2 / 3) for event in bought]
        assert max(penalties) == pytest.approx(min(penalties), rel=1e-4)
        several += len(bought) > 1
    assert several


class Door:
    """A curator whose appraisals are given, to see what is taken for them."""

    def __init__(self, curator: Curator, errors: dict[tuple[str, ...], float]) -> None:
        self._curator, self._errors = curator, errors

    def appraise(self, cliques: Any, expected: Any, rho: Fraction) -> Any:
        self._curator.appraise(cliques, expected, rho)
        return np.array([self._errors.get(clique, 0.0) for clique in cliques])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._curator, name)


def test_pairs_are_taken_while_their_error_is_worth_the_noise() -> None:
    curator, ledger = _open(1.0)
    strategy = Batched(rounds=1, worth=0.5)
    rho = ledger.total * (1 - strategy.ones) * (1 - strategy.looks)
    # Alone (a, d) with 4 cells has this sigma; beside (b, c) with 12 cells the batch's weight is shared.
    alone = curator.sigma(rho)
    first, second = 12 ** (2 / 3), 4 ** (2 / 3)
    bar = 0.5 * alone * math.sqrt((first + second) / second) * 4
    for share, taken in ((0.99, [("b", "c")]), (1.01, [("b", "c"), ("a", "d")])):
        curator, ledger = _open(1.0)
        door = Door(curator, {("b", "c"): 4000.0, ("a", "d"): share * bar})
        strategy.run(door, PGM(), silent)  # type: ignore[arg-type]
        assert [m.clique for m in curator.measurements if len(m.clique) == 2] == taken


def test_turns_that_take_nothing_leave_their_rho_to_the_last() -> None:
    curator, ledger = _open(1.0)
    door = Door(curator, {})
    Batched(rounds=4).run(door, PGM(), silent)  # type: ignore[arg-type]
    ones, *turns = _turns(ledger.events)
    assert [len(turn) for turn in turns] == [1, 1, 1, 5]
    # The last one measures what is there, the one-ways, once more.
    assert {event.what for event in turns[-1][1:]} == {event.what for event in ones}
    assert float(ledger.remaining / ledger.total) < 1e-6


def test_the_tree_stays_under_its_limit() -> None:
    curator, _ = _open(50.0)
    Batched(max_cells=15).run(curator, PGM(), silent)
    domain, taken = curator.domain, {m.clique for m in curator.measurements}
    assert 1 <= sum(len(clique) == 2 for clique in taken) <= 2
    assert PGM().cells(domain, sorted(taken), [()])[0] <= 15
    curator, ledger = _open(50.0)
    Batched(max_cells=1).run(curator, PGM(), silent)
    assert {len(m.clique) for m in curator.measurements} == {1}
    assert float(ledger.remaining / ledger.total) < 1e-6


def test_dependent_pairs_are_found_and_fitted() -> None:
    curator, _ = _open(10.0)
    model = Batched().run(curator, PGM(), silent)
    assert {("a", "b"), ("b", "c")} <= {m.clique for m in curator.measurements}
    table = _chain()
    for pair in (("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")):
        truth = np.zeros((SIZES[pair[0]], SIZES[pair[1]]))
        np.add.at(truth, tuple(table[name].to_numpy() for name in pair), 1)
        assert np.abs(model.project(pair) / model.total - truth / 4000).sum() / 2 < 0.02


def test_one_ways_that_discovery_left_are_not_bought_again() -> None:
    ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    source = open_source(pa.table({"x": np.arange(900) % 7, "y": np.arange(900) % 3}))[0]
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(None, ledger.total / 2)
    before = len(ledger.events)
    Batched(ones=Fraction(1, 100)).run(curator, PGM(), silent)
    assert ledger.events[before].what.startswith("errors of 1 marginals")


def test_a_deadline_ends_it_early_but_complete() -> None:
    curator, ledger = _open(1.0)
    steps: list[Step] = []
    model = Batched().run(curator, PGM(), steps.append, Deadline(-1.0))
    assert "time is nearly up" in steps[-1].message
    assert steps[-1].round == 1
    assert float(ledger.remaining / ledger.total) < 1e-6
    assert np.isfinite(model.project(("a", "b"))).all()


def test_a_choice_takes_half_of_the_time_left_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0]
    monkeypatch.setattr("margrave.limits.time", SimpleNamespace(monotonic_ns=lambda: clock[0]))
    sizes = PGM.cells

    def slow(*args: Any) -> Any:
        clock[0] += 10 * 10**9
        return sizes(*args)

    monkeypatch.setattr(PGM, "cells", slow)
    found = {}
    for seconds in (1e9, 35.0):
        curator, ledger = _open(100.0)
        steps: list[Step] = []
        Batched(rounds=1).run(curator, PGM(), steps.append, Deadline(seconds))
        found[seconds] = steps[-1].message
        assert float(ledger.remaining / ledger.total) < 1e-6
    # All sizes at once take 10 s and the first pair's 10 more: then less than half of 35 is left.
    assert found[35.0].startswith("1 pairs")
    assert not found[1e9].startswith(("0", "1 "))


def test_progress_tells_turns_and_spend() -> None:
    steps: list[Step] = []
    curator, _ = _open(1.0)
    Batched().run(curator, PGM(), steps.append)
    assert [step.round for step in steps] == [0, 1, 2, 3, 4, 5]
    assert [step.spent for step in steps] == sorted(step.spent for step in steps)
    assert steps[-1].spent == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    "bad", [{"ones": 0}, {"ones": 1}, {"looks": 2}, {"rounds": 0}, {"worth": -1.0}, {"worth": math.nan}]
)
def test_bad_arguments_are_named(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(bad))):
        Batched(**bad)
