"""RAP and RAP++ against their sheet: an answer is noised once, and the top q are drawn at their price."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from faithful_door import Recorder, Watched, chain, counted, opened
from scipy.stats import chisquare

from margrave.errors import BudgetError
from margrave.models.independent import Independent
from margrave.models.pgm.fitter import PGM
from margrave.privacy.accounting.events import ExponentialEvent, GaussianEvent
from margrave.privacy.unit import Adjacency
from margrave.progress import silent
from margrave.select.top_q import TopQ

SIZES = {"a": 4, "b": 3, "c": 3, "d": 2}
PAIRS = list(itertools.combinations(SIZES, 2))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_every_round_costs_the_same_and_no_earlier_answer_is_drawn_again(adjacency: Adjacency) -> None:
    """A public implementation noises all past answers anew each round and charges for the new ones only."""
    recorder = Recorder(opened(chain(SIZES), SIZES, 2.0, adjacency=adjacency)[0])
    watched, rounds, q = Watched(PGM()), 5, 2
    TopQ(rounds=rounds, q=q).run(recorder, watched, silent)
    for before, after in itertools.pairwise(watched.given):
        assert [id(m) for m in after[: len(before)]] == [id(m) for m in before]
        assert len(after) == len(before) + q
    events = recorder.curator._ledger.events
    drawn = sum(isinstance(event, GaussianEvent) for event in events)
    assert drawn == len(recorder.measurements) == rounds * q + (adjacency == "add_remove")
    ends = [note.after for note in recorder.notes if note.verb == "measure"]
    if adjacency == "replace_one":
        ends.insert(0, recorder.total)
    costs = [float((one - two) / recorder.total) for one, two in itertools.pairwise(ends)]
    share = 0.95 if adjacency == "add_remove" else 1.0
    assert costs == pytest.approx([share / rounds] * rounds, rel=1e-6)


def test_asking_again_has_to_be_paid_for() -> None:
    curator, ledger = opened(chain(SIZES), SIZES, 2.0)
    TopQ(rounds=3, q=2).run(curator, PGM(), silent)
    spent, count = ledger.spent, len(ledger.events)
    bought = curator.measurements[-1].clique
    for call in (
        lambda: curator.measure([bought], ledger.total / 1000),
        lambda: curator.choose(PAIRS, [np.zeros([SIZES[n] for n in p]) for p in PAIRS], ledger.total / 1000),
    ):
        with pytest.raises(BudgetError):
            call()
    assert (ledger.spent, len(ledger.events)) == (spent, count)


def test_a_marginal_that_is_chosen_again_is_another_answer_with_its_own_noise() -> None:
    recorder = Recorder(opened(chain(SIZES), SIZES, 2.0)[0])
    model = TopQ(rounds=4, q=1, workload=[("a", "b")]).run(recorder, PGM(penalty="squares"), silent)
    again = [m for m in recorder.measurements if m.clique]
    assert len(again) == 4
    assert len({m.values.tobytes() for m in again}) == 4
    weights = np.array([m.sigma**-2 for m in again])
    pooled = (weights[:, None, None] * np.array([m.values for m in again])).sum(axis=0) / weights.sum()
    fitted = model.project(("a", "b"))
    # The mean of the four, cut to counts: nearer to it than one answer's noise over the root of four.
    assert np.abs(fitted - np.maximum(pooled, 0)).mean() < 0.5 * again[0].sigma / 2


class Frozen:
    """A model that says what it is told to."""

    def __init__(self, tables: dict[tuple[str, ...], np.ndarray]) -> None:
        self.tables = tables

    def project_many(self, cliques: list[tuple[str, ...]]) -> list[np.ndarray]:
        return [self.tables[clique] for clique in cliques]


@pytest.mark.parametrize(("adjacency", "moved"), [("add_remove", 1), ("replace_one", 2)])
def test_the_top_two_are_those_of_gumbel_noise_of_the_sheets_scale(adjacency: Adjacency, moved: int) -> None:
    """beta = S root(q / (2 rho)) with the L1 sensitivity S, 2 when rows are replaced and not root 2."""
    table, runs = chain(SIZES, 300), 1800
    ones = [(name,) for name in SIZES]
    errors = dict(zip(ones, (6.0, 4.0, 1.0, 0.0), strict=True))
    exact = {c: counted(table, c, [SIZES[c[0]]]) for c in ones}
    model = Frozen({c: t + np.eye(len(t))[0] * errors[c] for c, t in exact.items()})
    curator, ledger = opened(table, SIZES, 1e5, adjacency=adjacency)
    rho = Fraction(moved**2, 9)  # so that beta = 3
    beta = moved * math.sqrt(2 / (2 * float(rho)))
    found = Counter(
        tuple(TopQ(q=2)._choose_marginals(curator, Independent(), model, ones, 2, rho))  # type: ignore[arg-type]
        for _ in range(runs)
    )
    odds = {c: math.exp(error / beta) for c, error in errors.items()}
    orders = list(itertools.permutations(ones, 2))
    whole = sum(odds.values())
    shares = np.array([odds[x] / whole * odds[y] / (whole - odds[x]) for x, y in orders])
    assert chisquare([found[order] for order in orders], runs * shares).pvalue > 1e-4
    events = [event for event in ledger.events if isinstance(event, ExponentialEvent)]
    assert {event.sensitivity for event in events} == {moved}
    assert float(ledger.spent) == pytest.approx(runs * float(rho), rel=1e-6)
