"""TopQ: q different marginals a round, all of rho, and the peeling that one-shot Gumbel noise amounts to."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError
from margrave.models.pgm.multiplicative_weights import PMW
from margrave.privacy.accounting.events import ExponentialEvent, GaussianEvent
from margrave.select.strategy import PAIR
from margrave.select.top_q import TopQ

SIZES = {"a": 4, "b": 4, "c": 3, "d": 3}


def people(rows=2000):
    rng = np.random.default_rng(0)
    a, c = rng.integers(0, 4, rows), rng.integers(0, 3, rows)
    return pa.table({"a": a, "b": (a + (rng.random(rows) < 0.1)) % 4, "c": c, "d": (c + a // 2) % 3})


def run(strategy, epsilon=3.0, model="pgm", **options):
    schema = mg.Schema.from_sizes(SIZES)
    return mg.Synthesizer(select=strategy, model=model, epsilon=epsilon, schema=schema, **options).fit(
        people()
    )


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize(("rounds", "q"), [(4, 1), (3, 2), (1, 6), (2, 50)])
def test_each_round_draws_q_different_marginals_and_all_of_rho_is_spent(rounds, q, adjacency):
    synthesis = run(TopQ(rounds=rounds, q=q, choosing=Fraction(1, 2)), adjacency=adjacency)
    events, wanted = synthesis.release.events, min(q, 6)
    draws = [event for event in events if isinstance(event, ExponentialEvent)]
    assert len(draws) == rounds * wanted
    bought = [m.clique for m in synthesis.measurements if m.clique]
    for k in range(rounds):
        own = bought[k * wanted : (k + 1) * wanted]
        assert len(set(own)) == wanted
    assert (len(synthesis.measurements) - len(bought)) == (adjacency == "add_remove")
    spent = sum((Fraction(e.epsilon) ** 2 / 8 for e in draws), Fraction(0))
    spent += sum(
        (Fraction(e.l2_squared) / (2 * e.sigma_squared) for e in events if isinstance(e, GaussianEvent)),
        Fraction(0),
    )
    assert float(spent) == pytest.approx(synthesis.guarantee.rho, rel=1e-5)
    assert float(spent) <= synthesis.guarantee.rho * (1 + 1e-12)
    half = float(sum(Fraction(e.epsilon) ** 2 / 8 for e in draws)) / synthesis.guarantee.rho
    assert half == pytest.approx(0.5 if adjacency == "replace_one" else 0.475, rel=1e-3)


@pytest.mark.parametrize(("rounds", "q"), [(6, 1), (3, 2), (4, 1)])
def test_a_marginal_is_asked_for_once_while_others_are_left(rounds, q):
    bought = [m.clique for m in run(TopQ(rounds=rounds, q=q), epsilon=0.1).measurements if m.clique]
    assert len(set(bought)) == len(bought) == rounds * q
    more = [m.clique for m in run(TopQ(rounds=8, q=1), epsilon=0.1).measurements if m.clique]
    assert len(set(more[:6])) == 6
    assert len(more) == 8


def test_with_again_the_worst_fitted_is_asked_for_as_often_as_it_is_worst():
    distinct = []
    for _ in range(6):  # blind draws meet all six pairs once in nine runs
        found = run(TopQ(rounds=8, q=1, again=True), epsilon=0.02).measurements
        bought = [m.clique for m in found if m.clique]
        assert len(bought) == 8
        distinct.append(len(set(bought)))
    assert min(distinct) < 6


@pytest.mark.parametrize(("rounds", "each"), [(1, 5), (2, 3), (3, 2), (10, 1)])
def test_three_quarters_of_the_workload_are_drawn_where_q_is_not_given(rounds, each):
    synthesis = run(TopQ(rounds=rounds))
    draws = [event for event in synthesis.release.events if isinstance(event, ExponentialEvent)]
    assert len(draws) == rounds * each


def test_without_a_number_there_are_five_rounds_an_attribute_or_three_quarters_of_the_workload():
    strategy = TopQ(rounds=None, q=1)
    assert [strategy.turns(17, 136), strategy.turns(10, 45), strategy.turns(1, 1)] == [85, 34, 1]
    assert strategy.count_drawn(17, 136) == 1
    assert TopQ(rounds=None).count_drawn(17, 136) == 2
    bought = [m.clique for m in run(strategy, epsilon=0.1).measurements if m.clique]
    assert len(set(bought)) == len(bought) == 5


def test_what_is_fitted_worst_is_chosen_first():
    bought = [m.clique for m in run(TopQ(rounds=3, q=1), epsilon=50.0).measurements if m.clique]
    assert bought[0] == ("a", "b")
    assert bought[1] in {("a", "d"), ("c", "d"), ("b", "d")}


def test_peeling_is_one_shot_gumbel_noise():
    """Largest two of scores with Gumbel noise of scale 2 S / epsilon, against two exponential draws."""
    scores, epsilon = np.array([3.0, 2.0, 0.5, 0.0]), 1.3
    rng, draws = np.random.default_rng(0), 200_000
    noisy = scores + rng.gumbel(scale=2 / epsilon, size=(draws, 4))
    found = Counter(map(tuple, np.argsort(-noisy, axis=1)[:, :2].tolist()))
    weights = np.exp(epsilon * scores / 2)
    for first, second in itertools.permutations(range(4), 2):
        share = weights[first] / weights.sum() * weights[second] / (weights.sum() - weights[first])
        assert found[first, second] / draws == pytest.approx(share, abs=4 * math.sqrt(share / draws))


def test_mwem_runs_by_name_and_refuses_a_domain_that_is_too_large_before_it_spends():
    synthesis = mg.Synthesizer("mwem", epsilon=5.0, schema=mg.Schema.from_sizes(SIZES)).fit(people())
    table = people()
    counts = np.zeros((4, 4))
    np.add.at(counts, (table["a"].to_numpy(), table["b"].to_numpy()), 1)
    assert np.abs(synthesis.marginal("a", "b") - counts).sum() / 4000 < 0.1
    synthesizer = mg.Synthesizer(
        "mwem", epsilon=1.0, schema=mg.Schema.from_sizes(SIZES), model=PMW(max_cells=8)
    )
    with pytest.raises(InputError, match="workload"):
        synthesizer.fit(people())
    assert synthesizer._ledger is not None
    assert not synthesizer._ledger.events


def test_a_workload_of_ones_own_is_kept_to():
    own = [("d", "a"), ("b", "c", "a")]
    bought = {m.clique for m in run(TopQ(rounds=3, q=1, workload=own)).measurements if m.clique}
    assert bought <= {("a", "d"), ("a", "b", "c")}
    for wrong in ({"rounds": 0}, {"q": 0}, {"degree": 0}, {"choosing": 1}, {"count": 0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            TopQ(**wrong)
    with pytest.raises(InputError, match="workload"):
        run(TopQ(workload=[]))


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("again", [False, True])
def test_the_targets_pairs_come_first_for_half_of_rho(adjacency, again):
    target = next(iter(SIZES))
    strategy = TopQ(rounds=3, q=1, target=target, again=again)
    synthesis = run(strategy, adjacency=adjacency)
    bought = [m.clique for m in synthesis.measurements if m.clique]
    assert {frozenset(clique) for clique in bought[:3]} == {
        frozenset((target, name)) for name in SIZES if name != target
    }
    assert len(bought) == 3 + 3
    if not again:
        assert not any(target in clique for clique in bought[3:])
    measured = [e for e in synthesis.release.events if isinstance(e, GaussianEvent)]
    first = measured[1:4] if adjacency == "add_remove" else measured[:3]
    costs = [Fraction(e.l2_squared) / (2 * e.sigma_squared) for e in first]
    part = float(sum(costs)) / synthesis.guarantee.rho
    assert part == pytest.approx(0.475 if adjacency == "add_remove" else 0.5, rel=1e-3)


def test_a_method_by_rounds_takes_a_target_by_name_and_refuses_one_that_is_no_attribute():
    schema = mg.Schema.from_sizes(SIZES)
    target = next(iter(SIZES))
    made = mg.Synthesizer("mwem", epsilon=1.0, schema=schema, target=target).fit(people())
    assert sum(target in m.clique for m in made.release.measurements) >= 3
    with pytest.raises(InputError, match="target must be one of"):
        mg.Synthesizer("mwem", epsilon=1.0, schema=schema, target="nobody").fit(people())
    with pytest.raises(InputError, match="told must be"):
        TopQ(target=target, told=Fraction(1))


def test_a_plan_with_a_target_says_what_a_pair_gets():
    strategy = TopQ(rounds=None, q=1, target="a")
    made = run(strategy, adjacency="replace_one")
    drawn = [e for e in made.release.events if isinstance(e, GaussianEvent)][3:]
    said = float(strategy.share_marginal(len(SIZES))[PAIR])
    for event in drawn:
        cost = float(Fraction(event.l2_squared) / (2 * event.sigma_squared))
        assert cost / made.guarantee.rho == pytest.approx(said, rel=1e-3)


def test_where_no_other_pair_fits_the_targets_are_drawn_again():
    sizes = {"a": 4, "b": 4, "c": 3}
    made = mg.Synthesizer(
        select=TopQ(rounds=2, q=1, target="a"),
        model=PMW(max_cells=16),
        epsilon=3.0,
        schema=mg.Schema.from_sizes(sizes),
    ).fit(people().select(list(sizes)))
    assert [m.clique for m in made.measurements if m.clique] == [("a", "b")] * 3
    spent = [e for e in made.release.events if isinstance(e, GaussianEvent | ExponentialEvent)]
    assert len(spent) == 1 + 3 + 2
