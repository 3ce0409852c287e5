"""PrivMRF against its sheet: one budget for all it asks, useful marginals only, a fit within the noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from faithful_door import Recorder, chain, opened

from margrave.models.pgm.fitter import PGM
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.unit import Adjacency
from margrave.progress import silent
from margrave.select.privmrf import PrivMRF
from margrave.select.strategy import released_one_ways

NARROW = {"a": 4, "b": 3, "c": 5, "d": 3, "e": 2}
WIDE = {name: 2 + k % 3 for k, name in enumerate("abcdefghij")}


def ran(
    sizes: dict[str, int], epsilon: float, adjacency: Adjacency = "add_remove"
) -> tuple[Recorder, tuple[GaussianEvent, ...]]:
    recorder = Recorder(opened(chain(sizes, 4000, 0.15), sizes, epsilon, adjacency=adjacency, gdp=True)[0])
    recorder.model = PrivMRF().run(recorder, PGM(), silent)  # type: ignore[attr-defined]
    events = recorder.curator._ledger.events
    assert all(isinstance(event, GaussianEvent) for event in events)
    return recorder, events  # type: ignore[return-value]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("sizes", [NARROW, WIDE], ids=["narrow", "wide"])
def test_everything_together_costs_mu_squared(sizes: dict[str, int], adjacency: Adjacency) -> None:
    """Row count, pair scores, errors and marginals: the sum of S^2 / sigma^2 is the budget's mu^2."""
    recorder, events = ran(sizes, 1.0, adjacency)
    spent = sum((Fraction(e.l2_squared) / e.sigma_squared for e in events), Fraction(0))
    mu_squared = 2 * recorder.curator._ledger.total
    assert spent <= mu_squared
    assert float(spent / mu_squared) == pytest.approx(1.0, abs=1e-6)
    kinds = {event.what.split()[0] for event in events}
    assert kinds == {"marginal", "errors"}


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("sizes", [NARROW, WIDE], ids=["narrow", "wide"])
def test_every_marginal_stands_out_of_the_noise_it_is_bought_with(
    sizes: dict[str, int], epsilon: float
) -> None:
    """cells * theta * sigma * root(2 / pi) <= rows, with the rows that were released, for pairs and more."""
    recorder, _ = ran(sizes, epsilon)
    rows = released_one_ways_of(recorder)
    several = [m for n in recorder.notes if n.verb == "measure" for m in n.answer if len(m.clique) > 1]
    for m in several:
        assert m.values.size * 6.0 * m.sigma * math.sqrt(2 / math.pi) <= rows * (1 + 1e-6), m.clique
    assert several or epsilon < 1


def released_one_ways_of(recorder: Recorder) -> float:
    """The rows as they were known when the marginals were chosen: after the first purchase."""

    class Then:
        domain, public_rows = recorder.domain, recorder.public_rows
        measurements = recorder.notes[0].measurements

    return released_one_ways(Then)[1]  # type: ignore[arg-type]


def test_the_last_fit_is_as_far_from_its_tables_as_their_noise() -> None:
    """The paper stops at 0.7 of the expected loss; the fitter's own rule ends between noise and overfit."""
    recorder, _ = ran(NARROW, 1.0)
    model = recorder.model  # type: ignore[attr-defined]
    loss = sum(
        float((((model.project(m.clique) - m.values) / m.sigmas) ** 2).sum()) for m in recorder.measurements
    )
    cells = sum(m.values.size for m in recorder.measurements)
    assert model.converged
    assert 0.3 * cells < loss < 1.2 * cells
    assert np.isfinite(loss)
