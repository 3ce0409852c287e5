"""Canary audit of `votes`: do noisy counts tell neighbours apart better than they are priced?

Teachers say yes to every question if they were ever shown the canary, so that it moves each count by one:
what one row can move most. The attacker adds up all released counts, which is the log-likelihood ratio. With
the noise cut to a quarter, with every teacher given all rows, or with rows dealt to teachers anew in every
round (both as in published implementations), the audit must find the violation; with the honest verb it must
not.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from test_audit import told_apart

import margrave.measure.mechanisms.gaussian as noises
import margrave.measure.mechanisms.votes as door
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours
from margrave.schema.schema import Schema

EPSILON, DELTA, TEACHERS, ROUNDS = 8.0, 1e-5, 5, 3
RUNS, RUNS_OF_FAULTS = 300, 1200
"""More where a fault is planted: that of rows dealt anew moves the sum by less than twice what is honest."""


@dataclasses.dataclass(frozen=True)
class Alarmed:
    """Teachers that say yes for ever once they were shown the canary; all counts are kept."""

    questions: int = 4
    shown: int = 60
    uniforms: int = 0

    def start(self) -> Any:
        return ()

    def hire(self, place: int) -> bool:
        return False

    def taught(
        self, state: Any, teacher: bool, codes: NDArray[np.int64], uniform: NDArray[np.float64]
    ) -> tuple[bool, NDArray[np.float64]]:
        seen = teacher or bool((codes == 1).any())
        return seen, np.full(self.questions, 1.0 if seen else -1.0)

    def moved(self, state: Any, counts: NDArray[np.float64], sigma: float) -> Any:
        return (*state, counts)

    def finished(self, state: Any) -> tuple[NDArray[np.float64], ...]:
        return (np.array(state) if state else np.zeros((ROUNDS, self.questions)),)


def _scores(canary: bool, adjacency: Adjacency, accountant: Any, runs: int) -> tuple[list[float], float]:
    """Sums of all counts of some runs, and what a run was priced at."""
    found, rho = [], 0.0
    for _ in range(runs):
        plain = [0] * 6 + [0] * (adjacency != "add_remove" and not canary)
        ledger = Ledger(
            epsilon=EPSILON, delta=DELTA, neighbours=Neighbours(adjacency=adjacency), accountant=accountant
        )
        curator = Curator(open_source(pa.table({"a": np.array(plain + [1] * canary)}))[0], ledger)
        curator.discover(Schema.from_sizes({"a": 2}))
        (counts,) = curator.votes(Alarmed(), ledger.total, teachers=TEACHERS, rounds=ROUNDS)
        found.append(float(counts.sum()))
        rho = float(ledger.total)
    return found, rho


def _violated(adjacency: Adjacency, accountant: Any, runs: int) -> bool:
    (null, rho), (alt, _) = (_scores(canary, adjacency, accountant, runs) for canary in (False, True))
    return told_apart(np.array(null), np.array(alt), rho)


@pytest.mark.slow
@pytest.mark.parametrize("accountant", [ZCDP(), GDP()], ids=["zcdp", "gdp"])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one", "zero_out"])
def test_honest_votes_are_not_told_apart(adjacency: Adjacency, accountant: Any) -> None:
    assert not _violated(adjacency, accountant, RUNS)


def _quarter_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("discrete_gaussian", "rounded_gaussian"):
        honest = getattr(noises, name)

        def cheat(variance: Fraction, size: int, source: Any, honest: Any = honest) -> Any:
            return honest(variance / 16, size, source)

        monkeypatch.setattr(noises, name, cheat)


def _show_all_rows_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "assign_teachers", lambda codes, teachers, noise: [codes] * teachers)


def _deal_rows_anew_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = door.count_votes

    def cheat(ensemble: Any, state: Any, members: Any, parts: Any, noise: Any) -> Any:
        dealt = door.assign_teachers(np.concatenate(parts), TEACHERS, noise)
        return honest(ensemble, state, members, dealt, noise)

    monkeypatch.setattr(door, "count_votes", cheat)


FAULTS = [_quarter_the_noise, _show_all_rows_to_all, _deal_rows_anew_in_every_round]


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    assert _violated("add_remove", ZCDP(), RUNS_OF_FAULTS)
