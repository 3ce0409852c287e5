"""Audit of replace_private: two tables that differ in one private cell, and what a run tells of them."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import beta, norm

from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.accounting.conversions import gdp_epsilon
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit
from margrave.schema.schema import Schema

EPSILON, DELTA, RUNS, SURE = 6.0, 1e-5, 16_000, 0.95
PRIVATE = Neighbours(Unit(), "replace_private", ("a",))
SCHEMA = Schema.from_sizes({"a": 2, "x": 3})
ROWS = ([0, 0, 1, 1, 1], [0, 1, 2, 0, 0]), ([0, 0, 1, 1, 1], [1, 1, 2, 0, 0])


def statistics(neighbours: Neighbours, clique: tuple[str, ...], world: int) -> np.ndarray:
    """The likelihood ratio's statistic of many runs on one of the two tables: all of rho on one marginal."""
    source = open_source(pa.table(dict(zip(("a", "x"), ROWS[world], strict=True))))[0]
    truth = [np.zeros(SCHEMA.domain.shape(clique)) for _ in ROWS]
    for table, columns in zip(truth, ROWS, strict=True):
        held = dict(zip(("a", "x"), columns, strict=True))
        np.add.at(table, tuple(np.array(held[name]) for name in clique), 1)
    direction = truth[1] - truth[0]
    found = np.empty(RUNS)
    for run in range(RUNS):
        ledger = Ledger(epsilon=EPSILON, delta=DELTA, neighbours=neighbours, accountant=GDP())
        curator = Curator(source, ledger)
        curator.discover(SCHEMA)
        found[run] = (curator.measure([clique], ledger.total)[0].values * direction).sum()
    middle = float((0.5 * (truth[0] + truth[1]) * direction).sum())
    return found - middle


def bound(neighbours: Neighbours, clique: tuple[str, ...] = ("a", "x")) -> float:
    """A lower bound on epsilon at DELTA, by the error rates of the tables' likelihood ratio test.

    The statistic is a whole number, and the cut lies between two of them: with ties broken at random a test
    is worse than the curve through both its neighbours, and the bound falls by a twentieth.
    """
    null, other = (statistics(neighbours, clique, world) for world in (0, 1))
    errors = int((null > 0.5).sum()), int((other <= 0.5).sum())
    upper = [float(beta.ppf(1 - (1 - SURE) / 2, wrong + 1, RUNS - wrong)) for wrong in errors]
    mu = float(norm.ppf(1 - upper[0]) - norm.ppf(upper[1]))
    return gdp_epsilon(mu, DELTA) if mu > 0 else 0.0


@pytest.mark.slow
def test_the_bound_is_near_epsilon_and_not_above() -> None:
    found = bound(PRIVATE)
    assert 0.9 * EPSILON <= found <= EPSILON * 1.02


@pytest.mark.slow
def test_charging_sensitivity_one_promises_less_than_it_says() -> None:
    assert bound(Neighbours()) > 1.2 * EPSILON


@pytest.mark.slow
def test_a_marginal_of_public_columns_tells_nothing() -> None:
    assert bound(PRIVATE, ("a",)) == 0.0


def test_the_noise_is_that_of_a_replacement() -> None:
    sigmas = []
    for neighbours in (PRIVATE, Neighbours()):
        source = open_source(pa.table({"a": [0, 1], "x": [0, 1]}))[0]
        curator = Curator(source, Ledger(epsilon=1.0, delta=1e-5, neighbours=neighbours, accountant=GDP()))
        curator.discover(SCHEMA)
        sigmas.append(curator.sigma(curator.remaining))
    assert sigmas[0] / sigmas[1] == pytest.approx(math.sqrt(2), rel=5e-3)
