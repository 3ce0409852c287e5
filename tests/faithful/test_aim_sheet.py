"""AIM against its sheet: what it asks the exponential mechanism, when it quadruples, what it may choose."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from faithful_door import Recorder, Watched, chain, counted, opened
from scipy.stats import chisquare

from margrave.models.independent import Independent
from margrave.models.pgm.fitter import PGM
from margrave.privacy.unit import Adjacency
from margrave.progress import silent
from margrave.select.aim import AIM

SIZES = {"a": 2, "b": 3, "c": 4, "d": 2}
PAIRS = list(combinations(SIZES, 2))


@pytest.mark.parametrize(("adjacency", "factor"), [("add_remove", 1), ("replace_one", 2)])
def test_scores_are_weighted_errors_less_the_noise_that_measuring_would_add(
    adjacency: Adjacency, factor: int
) -> None:
    """q_r = w_r (‖M_r - model‖_1 - sqrt(2/pi) sigma n_r), sigma being that of the adjacency in force."""
    curator, _ = opened(chain(SIZES), SIZES, 2.0, adjacency=adjacency)
    recorder = Recorder(curator)
    AIM(rounds=16).run(recorder, Independent(), silent)
    first = next(note for note in recorder.notes if note.verb == "choose")
    step = curator.total / 16
    sigma = math.sqrt(factor / (2 * 0.9 * float(step)))
    for clique, weight, penalty in zip(
        *(first.question[key] for key in ("cliques", "weights", "penalties")), strict=True
    ):
        # All pairs are the workload: |r ∩ s| adds up to 3 for every attribute of r.
        assert weight == 3 * len(clique)
        cells = math.prod(SIZES[name] for name in clique)
        assert penalty == pytest.approx(math.sqrt(2 / math.pi) * sigma * cells, rel=1e-6)
    assert first.question["rho"] == step / 10


def test_a_round_costs_four_times_as_much_after_one_that_moved_the_model_less_than_noise() -> None:
    recorder, watched = Recorder(opened(chain(SIZES), SIZES, 3.0)[0]), Watched(PGM())
    AIM(rounds=64).run(recorder, watched, silent)
    rounds = list(zip(recorder.notes[1::2], recorder.notes[2::2], strict=True))
    assert len(rounds) == len(watched.made) - 1
    cost, grown, kept = float(recorder.total / 64), 0, 0
    for (choice, bought), model in zip(rounds[:-1], watched.made[1:], strict=False):
        assert float(choice.before - bought.after) == pytest.approx(cost, rel=1e-6)
        table, sigma = choice.question["expected"][choice.answer], bought.answer[0].sigma
        moved = float(np.abs(model.project(bought.question["cliques"][0]) - table).sum())
        calm = moved <= math.sqrt(2 / math.pi) * sigma * table.size
        cost, grown, kept = cost * (4 if calm else 1), grown + calm, kept + (not calm)
    assert grown
    assert kept


def test_only_cliques_within_the_grown_limit_or_in_the_model_may_be_chosen() -> None:
    most, fitter = 60, PGM()
    recorder = Recorder(opened(chain(SIZES, 4000), SIZES, 8.0)[0])
    AIM(max_cells=most, rounds=40).run(recorder, fitter, silent)
    measured: list[tuple[str, ...]] = [(name,) for name in SIZES]
    seen, refused, late = set(), 0, []
    for note in recorder.notes:
        if note.verb == "measure" and len(note.question["cliques"]) == 1:
            measured.append(note.question["cliques"][0])
        if note.verb != "choose":
            continue
        limit = most * float(1 - note.before / recorder.total)
        held = {part for m in measured for k in (1, 2) for part in combinations(m, k)}
        allowed = set(note.question["cliques"])
        for pair in PAIRS:
            (cells,) = fitter.cells(recorder.domain, measured, [pair])
            fits = pair in held or cells <= limit
            assert (pair in allowed) == fits, (pair, cells, limit)
            refused += not fits
        seen |= allowed
        late.append(len(allowed))
    assert refused
    assert len(seen) > len(SIZES)
    assert late[-1] > late[0]


def test_the_workloads_error_goes_to_nothing_as_rho_grows() -> None:
    table = chain(SIZES, 4000)
    errors = []
    for epsilon in (1.0, 100.0, 1e5):
        exact = PGM(strength=1e-9, tolerance=1e-9)  # else the fit's own tolerance is what is left
        model = AIM(rounds=24).run(opened(table, SIZES, epsilon)[0], exact, silent)
        apart = [
            np.abs(model.project(pair) - counted(table, pair, [SIZES[n] for n in pair])).sum() / 8000
            for pair in PAIRS
        ]
        errors.append(float(np.mean(apart)))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-6


@pytest.mark.parametrize(("adjacency", "sensitivity"), [("add_remove", 1), ("replace_one", 2)])
def test_draws_follow_the_softmax_of_the_weighted_scores(adjacency: Adjacency, sensitivity: int) -> None:
    """exp(epsilon q / (2 S)) with S the largest kept weight, on a model that stands still.

    The same counts must not fit permute-and-flip, which is no epsilon^2/8-zCDP mechanism, nor half the
    sensitivity: a mechanism is told by its distribution.
    """
    table = chain(SIZES, 400)
    cliques = [("a", "b"), ("c",), ("b", "d"), ("c", "d")]
    weights, draws = [3, 1, 4, 2], 4500
    curator, ledger = opened(table, SIZES, 1e6, adjacency=adjacency)
    shapes = [[SIZES[name] for name in clique] for clique in cliques]
    exact = [counted(table, clique, shape) for clique, shape in zip(cliques, shapes, strict=True)]
    expected = [t.copy() for t in exact]
    for k, off in enumerate((1.0, 3.0, 0.5, 2.25)):
        expected[k].flat[0] += off
    penalties = [0.25, 0.5, 0.0, 0.75]
    # q = 2.25, 2.5, 2, 3: far enough apart to tell, near enough that all are drawn.
    scores = np.array([3 * 0.75, 2.5, 4 * 0.5, 2 * 1.5])
    epsilon = Fraction(8 * sensitivity)
    found = np.zeros(4)
    for _ in range(draws):
        found[curator.choose(cliques, expected, epsilon**2 / 8, weights=weights, penalties=penalties)] += 1

    def softmax(rate: float) -> np.ndarray:
        odds = np.exp(rate * (scores - scores.max()))
        return odds / odds.sum()

    rate = float(epsilon) / (2 * 4 * sensitivity)
    assert chisquare(found, draws * softmax(rate)).pvalue > 1e-4
    assert chisquare(found, draws * softmax(2 * rate)).pvalue < 1e-6
    assert chisquare(found, draws * permute_and_flip(scores, rate)).pvalue < 1e-4
    assert float(ledger.spent) == pytest.approx(draws * float(epsilon) ** 2 / 8, rel=1e-6)


def permute_and_flip(scores: np.ndarray, rate: float) -> np.ndarray:
    """Its distribution, summed over orders: they are flipped in turn, heads with exp(rate (q - max))."""
    from itertools import permutations

    heads, found = np.exp(rate * (scores - scores.max())), np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for k in order:
            found[k] += left * heads[k] / len(orders)
            left *= 1 - heads[k]
    return found
