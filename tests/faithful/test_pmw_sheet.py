"""MWEM and PMW against their sheet: the closed form of one query, no overflow, and what a run spends."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from faithful_door import chain

import margrave as mg
from margrave.models.pgm.multiplicative_weights import PMW, update_weights
from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.accounting.events import ExponentialEvent, GaussianEvent
from margrave.privacy.unit import Adjacency
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b"), (2, 3))


def test_two_cells_that_complement_each_other_are_one_query_of_the_textbook() -> None:
    """A' = A exp(q (m - q(A)) / 2) / Z for q = [a = 1].

    A one-way of two codes asks q and its complement, whose error is the same with the other sign: with a
    quarter for each the odds of a cell with a = 1 move as they do with a half for q alone.
    """
    weights = np.random.default_rng(0).dirichlet(np.ones(6)).reshape(2, 3)
    asked = 0.81
    q = np.array([0.0, 1.0])[:, None] * np.ones(3)
    now = float((q * weights).sum())
    wanted = weights * np.exp(q * (asked - now) / 2)
    largest = max(now, 1 - now)
    found = update_weights(weights, DOMAIN.names, ("a",), np.array([1 - asked, asked]), 0.25 * largest)
    np.testing.assert_allclose(found, wanted / wanted.sum(), rtol=1e-12)


@pytest.mark.parametrize("size", [1e4, 1e12])
def test_answers_far_off_overflow_nothing_and_lose_no_cell(size: float) -> None:
    """Exponents are taken off their largest; a public implementation needs 128 bits and still gets NaN."""
    wild = np.array([size, -size, 3.0])
    model = PMW(passes=6).fit(DOMAIN, [NoisyMarginal(("b",), wild, 1.0)], total=100.0)
    found = model.project(("a", "b"))
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(100.0)
    assert (found > 0).all()


def test_answers_that_the_start_has_already_leave_it_as_it_is() -> None:
    """The start is public, uniform: no error where that is the truth, as with the table of PMW-pub."""
    even = [
        NoisyMarginal(("a", "b"), np.full((2, 3), 50.0), 1.0),
        NoisyMarginal(("a",), np.full(2, 150.0), 1.0),
    ]
    model = PMW(passes=30).fit(DOMAIN, even)
    np.testing.assert_allclose(model.project(("a", "b")), 50.0, rtol=1e-9)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_mwem_spends_its_rounds_and_nothing_else(adjacency: Adjacency) -> None:
    """Ten rounds, half of each for its draw; the count of rows, where it is not public, is an answer too."""
    sizes = {"a": 3, "b": 4, "c": 2}
    synthesis = mg.Synthesizer(
        "mwem", epsilon=1.0, adjacency=adjacency, schema=mg.Schema.from_sizes(sizes)
    ).fit(chain(sizes, 500))
    events, rho = synthesis.release.events, synthesis.guarantee.rho
    draws = [event for event in events if isinstance(event, ExponentialEvent)]
    answers = [event for event in events if isinstance(event, GaussianEvent)]
    counts = [event for event in answers if event.what == "row count"]
    assert len(draws) == 10
    assert len(answers) == 10 + len(counts)
    assert len(counts) == (adjacency == "add_remove")
    assert [float(event_rho(event)) for event in counts] == pytest.approx([rho / 20] * len(counts), rel=1e-6)
    total = sum((event_rho(event) for event in events), Fraction(0))
    assert float(total) == pytest.approx(rho, rel=1e-5)
    assert float(total) <= rho * (1 + 1e-12)
    # As many rows as the released count says, not as many as there are.
    if counts:
        (count,) = (m for m in synthesis.measurements if not m.clique)
        assert synthesis.rows == round(synthesis.release.total)
        assert abs(synthesis.release.total - 500) > 1e-6 or float(count.values) == 500
