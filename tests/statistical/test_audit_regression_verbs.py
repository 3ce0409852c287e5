"""Audits of `statistics`, `slopes` and `perturb`: canaries that move them furthest.

The canary's row has its numbers at their ends; under replace_one it takes the place of a row that pulls the
other way. The attacker scores what one run releases. Honest noise must pass, and noise of a quarter of the
variance, or a bound that forgets an attribute, must be found.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from test_audit import halve_the_noise, told_apart

import margrave.measure.mechanisms.regression.perturb as perturb_door
import margrave.measure.mechanisms.regression.statistics as statistics_door
from margrave.auditing.bounds import Rates
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.regression.perturb import Objective
from margrave.measure.mechanisms.regression.slopes import Slope
from margrave.privacy.accounting.accountants import GDP, Accountant, Renyi
from margrave.privacy.accounting.renyi import choose_objective_order
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours
from margrave.schema.features import RowNumbers
from margrave.schema.schema import Schema

pytestmark = pytest.mark.slow

NUMBERS = RowNumbers(("a", "b", "y"), (np.array([[1.0, -1.0]] * 2), np.eye(2)[1:], np.array([[0.0, 1.0]])))
SIZES = {"a": 2, "b": 2, "y": 2}
PLAIN = 20
EPSILON, DELTA = 4.0, 1e-3


def _curator(adjacency: Adjacency, canary: bool, kept: Accountant) -> Curator:
    """Twenty plain rows, and the canary or, under replace_one, the row that it takes the place of."""
    rows = [[0, 0, 0], [1, 1, 1]] * (PLAIN // 2)
    if canary:
        rows = [*rows, [0, 1, 1]]
    elif adjacency == "replace_one":
        rows = [*rows, [0, 1, 0]]
    table = pa.table(dict(zip(SIZES, np.array(rows).T, strict=True)))
    ledger = Ledger(epsilon=EPSILON, delta=DELTA, neighbours=Neighbours(adjacency=adjacency), accountant=kept)
    curator = Curator(open_source(table)[0], ledger)
    curator.discover(Schema.from_sizes(SIZES))
    return curator


def _ask_slopes(curator: Curator) -> NDArray[np.float64]:
    slope = Slope(NUMBERS, "logistic", np.zeros(4), 1.0)  # the canary's gradient is just as long
    return curator.slopes(slope, curator.total).gradient


def _ask_statistics(curator: Curator) -> NDArray[np.float64]:
    little = curator.total / 100
    signed = RowNumbers(NUMBERS.names, (*NUMBERS.numbers[:2], np.array([[-1.0, 1.0]])))
    return curator.statistics(signed, (little, little, curator.total - 2 * little)).labelled


def _ask_perturb(curator: Curator) -> NDArray[np.float64]:
    return curator.perturb(Objective(NUMBERS, Fraction(20)), curator.total)[0]


ASKED = {"slopes": _ask_slopes, "statistics": _ask_statistics}
CANARY = np.array([1.0, 1.0, 1.0, 1.0])


def _scores(
    ask: Any, adjacency: Adjacency, kept: Accountant, runs: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    sides = [
        np.array([float(ask(_curator(adjacency, canary, kept)) @ CANARY) for _ in range(runs)])
        for canary in (False, True)
    ]
    return sides[0], sides[1], float(_curator(adjacency, False, kept).total)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("verb", sorted(ASKED))
def test_no_violation_is_found(verb: str, adjacency: Adjacency) -> None:
    assert not told_apart(*_scores(ASKED[verb], adjacency, GDP(), 2000))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("verb", sorted(ASKED))
def test_half_the_noise_is_found(verb: str, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch) -> None:
    halve_the_noise(monkeypatch)
    assert told_apart(*_scores(ASKED[verb], adjacency, GDP(), 2000))


def test_a_bound_that_forgets_all_attributes_but_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = statistics_door.bound_rows
    monkeypatch.setattr(statistics_door, "bound_rows", lambda matrices: honest(matrices[:1]))
    assert told_apart(*_scores(_ask_statistics, "add_remove", GDP(), 2000))


def _find_epsilon(adjacency: Adjacency, runs: int) -> float:
    """A lower bound on epsilon at 99 % confidence, of a bar that the first half of the runs chose."""
    rows = (2, 1) if adjacency == "replace_one" else (1, 1)
    order = choose_objective_order(EPSILON, DELTA, rows, 0.2)
    null, alt, _ = _scores(_ask_perturb, adjacency, Renyi(order), runs)
    half, best = runs // 2, (-1.0, 0.0)
    rest = runs - half
    for bar in np.quantile(np.concatenate([null[:half], alt[:half]]), np.linspace(0.02, 0.98, 49)):
        tried = Rates(int((null[:half] >= bar).sum()), half, int((alt[:half] >= bar).sum()), half, 0.9)
        best = max(best, (tried.epsilon(DELTA), float(bar)))
    bar = best[1]
    return Rates(int((null[half:] >= bar).sum()), rest, int((alt[half:] >= bar).sum()), rest, 0.99).epsilon(
        DELTA
    )


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_objective_perturbation_keeps_its_promise(
    adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _find_epsilon(adjacency, 1500) <= EPSILON
    honest = perturb_door.rounded_gaussian
    monkeypatch.setattr(
        perturb_door, "rounded_gaussian", lambda variance, size, bits: honest(variance / 64, size, bits)
    )
    # With 1,500 runs one audit in nine misses it, by drawing the 5,000 runs that it was tried with again.
    assert _find_epsilon(adjacency, 3000) > EPSILON
