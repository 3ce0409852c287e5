"""GEM against its sheet: the split of a round, draws on a frozen network, training that sees answers only."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from faithful_door import Recorder, Replayed, Watched, budget, chain, counted, opened
from scipy.stats import chisquare

from margrave.models.independent import Independent
from margrave.models.networks.network import Network
from margrave.privacy.accounting.events import ExponentialEvent, GaussianEvent
from margrave.progress import silent
from margrave.select.top_q import TopQ

SIZES = {"a": 4, "b": 3, "c": 5}
PAIRS = list(itertools.combinations(SIZES, 2))
TINY = Network(components=20, noise=8, widths=(16,), steps=25, rate=0.03)
needs_torch = pytest.mark.needs_extra("torch")


@pytest.mark.parametrize("alpha", [Fraction(1, 2), Fraction(67, 100)])
def test_a_round_is_split_by_alpha_as_in_the_papers_formula(alpha: Fraction) -> None:
    """epsilon_0 = root(2 rho / (T (alpha^2 + (1 - alpha)^2))).

    A draw has 2 alpha epsilon_0, an answer sigma = 1 / ((1 - alpha) epsilon_0). Whole
    marginals have one cell's sensitivity under add_remove, and root 2 of it when rows are replaced.
    """
    rounds, parts = 10, alpha**2 + (1 - alpha) ** 2
    curator, ledger = opened(chain(SIZES), SIZES, 1.0, adjacency="replace_one")
    TopQ(rounds=rounds, q=1, choosing=alpha**2 / parts).run(curator, Independent(), silent)
    first = math.sqrt(2 * float(ledger.total) / (rounds * float(parts)))
    draws = [event for event in ledger.events if isinstance(event, ExponentialEvent)]
    answers = [event for event in ledger.events if isinstance(event, GaussianEvent)]
    assert len(draws) == len(answers) == rounds
    for draw, answer in zip(draws, answers, strict=True):
        assert float(draw.epsilon) == pytest.approx(2 * float(alpha) * first, rel=1e-6)
        sigma = math.sqrt(2) / (first * (1 - float(alpha)))
        assert math.sqrt(answer.sigma_squared) == pytest.approx(sigma, rel=1e-6)


@needs_torch
def test_draws_on_a_frozen_network_follow_the_softmax_of_its_errors() -> None:
    table, draws = chain(SIZES, 600), 1800
    exact = [counted(table, pair, [SIZES[name] for name in pair]) for pair in PAIRS]
    curator, ledger = opened(table, SIZES, 1e5)
    first = curator.measure([("a",), ("c",)], ledger.total / 1000)
    model = TINY.fit(curator.domain, first, total=600.0)
    expected = model.project_many(PAIRS)
    scores = np.array([np.abs(e - m).sum() for e, m in zip(exact, expected, strict=True)])
    epsilon = Fraction(round(1000 * 4 / float(np.ptp(scores))), 1000)
    found = np.bincount(
        [curator.choose(PAIRS, expected, epsilon**2 / 8) for _ in range(draws)], minlength=len(PAIRS)
    )
    for rate, fits in ((float(epsilon) / 2, True), (float(epsilon), False), (float(epsilon) / 4, False)):
        odds = np.exp(rate * (scores - scores.max()))
        pvalue = chisquare(found, draws * odds / odds.sum()).pvalue
        assert (pvalue > 1e-4) if fits else (pvalue < 1e-6)


@needs_torch
def test_training_follows_from_the_answers_whatever_the_table_was() -> None:
    """The same answers without the table give the same questions and, bit by bit, the same networks."""
    recorder, watched = Recorder(opened(chain(SIZES), SIZES)[0]), Watched(TINY)
    first = TopQ(rounds=3, q=1).run(recorder, watched, silent)
    replayed, again = Replayed(recorder, budget(1.0)), Watched(TINY)
    second = TopQ(rounds=3, q=1).run(replayed, again, silent)
    assert replayed.left == 0
    assert len(watched.made) == len(again.made) == 4
    for one, two in ((first, second), *zip(watched.made, again.made, strict=True)):
        np.testing.assert_array_equal(one.project(("a", "b", "c")), two.project(("a", "b", "c")))
