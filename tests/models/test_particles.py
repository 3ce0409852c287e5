"""Particles: projection against a linear program, transport against sorting, and the steps together."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

from margrave.errors import InputError, MissingExtraError, SchemaError
from margrave.limits import Deadline, Effort
from margrave.models._base.pooling import Pooled
from margrave.models._torch.device import open_device
from margrave.models.particles import HalfSpace, ThresholdProtection
from margrave.models.particles.embedding import Projection, embed, project, quantise_shares
from margrave.models.particles.fitter import Particles
from margrave.models.particles.transport import Goal, Transport, _Moving, lowest_first, move
from margrave.release import NoisyMarginal
from margrave.schema.columns import Integer
from margrave.schema.constraints.rules import Ordered
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema

pytestmark = pytest.mark.needs_extra("torch")

DOMAIN = Domain(("a", "b", "c"), (6, 4, 3), (6, 4, 0))
ROWS = 600.0
QUICK = Particles(particles=1200, epochs=60, projection_steps=80, projection_directions=40)
PAIRS = list(itertools.combinations(DOMAIN.names, 2))


def device():
    return open_device("torch-cpu")


def joint(seed=0):
    rng = np.random.default_rng(seed)
    a, b, c = np.ix_(np.arange(6) / 5, np.arange(4) / 3, np.arange(3))
    table = np.exp(-6 * (a - b) ** 2) * np.where(c == 1, 2 * a + 0.2, 1.0) * rng.uniform(0.5, 1.5, (6, 4, 3))
    return ROWS * table / table.sum()


def exact(clique, seed=0):
    gone = tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique)
    return joint(seed).sum(axis=gone)


def measured(cliques, sigma, seed=0):
    rng = np.random.default_rng(seed)
    return [NoisyMarginal(c, exact(c) + sigma * rng.normal(size=DOMAIN.shape(c)), sigma) for c in cliques]


def sliced(scores, one, two):
    """The mean over directions of the area between two distribution functions."""
    order = np.argsort(scores, axis=1)
    gaps = np.diff(np.take_along_axis(scores, order, 1), axis=1)
    return float((np.abs((one - two)[order].cumsum(axis=1)[:, :-1]) * gaps).sum(axis=1).mean())


def programme(scores, signed):
    """The least sliced distance of a distribution from a signed table, by linear programming."""
    directions, cells = scores.shape
    order = np.argsort(scores, axis=1)
    gaps = np.diff(np.take_along_axis(scores, order, 1), axis=1) / directions
    above, below, bound = [], [], []
    for d in range(directions):
        for j in range(cells - 1):
            row = np.zeros(cells)
            row[order[d, : j + 1]] = 1.0
            level = signed[order[d, : j + 1]].sum()
            above.append(row)
            below.append(-row)
            bound += [level, -level]
    slack = np.eye(directions * (cells - 1))
    rows = np.empty((2 * len(above), cells + len(above)))
    rows[0::2] = np.hstack([np.array(above), -slack])
    rows[1::2] = np.hstack([np.array(below), -slack])
    cost = np.concatenate([np.zeros(cells), gaps.ravel()])
    total = np.concatenate([np.ones(cells), np.zeros(len(above))])[None, :]
    found = linprog(cost, rows, bound, total, [1.0], bounds=(0, None))
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize("clique", [("a",), ("a", "b"), ("b", "c")], ids="".join)
def test_the_projection_comes_near_to_the_linear_program(clique):
    rng = np.random.default_rng(4)
    signed = exact(clique) / ROWS + 0.05 * rng.normal(size=DOMAIN.shape(clique))
    embedding = embed(DOMAIN, "line", {})
    how = Projection(directions=6, each=6, steps=1500)
    table = Pooled(clique, signed * ROWS, np.ones_like(signed))
    found = project(embedding, [table], ROWS, how, device(), np.random.default_rng(7))[0]
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1.0)
    scores = embedding.scores(clique, embedding.directions(clique, 6, np.random.default_rng(7)))
    least = programme(scores, signed.ravel())
    clipped = np.maximum(signed, 0).ravel()
    value = sliced(scores, found.ravel(), signed.ravel())
    assert value < 1.05 * least + 2e-4
    assert value < sliced(scores, clipped / clipped.sum(), signed.ravel())


def test_a_distribution_is_its_own_projection_and_ruled_out_cells_stay_empty():
    table = exact(("a", "b"))
    sigma = np.ones_like(table)
    sigma[0, 3] = sigma[5, 0] = 0.0
    wanted = np.where(sigma > 0, table, 0.0)
    wanted *= ROWS / wanted.sum()
    embedding = embed(DOMAIN, "line", {})
    rng = np.random.default_rng(0)
    found = project(embedding, [Pooled(("a", "b"), wanted, sigma)], ROWS, Projection(), device(), rng)[0]
    np.testing.assert_allclose(found, wanted / ROWS, atol=5e-3)
    assert (found[sigma == 0] == 0).all()


def test_quantised_cells_are_within_one_of_their_share():
    shares = np.random.default_rng(0).dirichlet(np.full(40, 0.3))
    for particles in (7, 1000, 1001):
        counts = quantise_shares(shares, particles)
        assert counts.sum() == particles
        assert np.abs(counts - particles * shares).max() < 1


def test_the_gradient_is_that_of_the_matched_squares():
    embedding, rng = embed(DOMAIN, "line", {}), np.random.default_rng(0)
    counts = quantise_shares(exact(("a", "b")) / ROWS, 50)
    start = rng.random((50, 3))
    how = Transport(1, 3, 1, 0.1, 0.1, 1.0)

    def value(at):
        drawn = embedding.directions(("a", "b"), 3, np.random.default_rng(9))
        cells = np.repeat(embedding.scores(("a", "b"), drawn), counts, axis=1)
        own = at[:, :1] @ drawn[0] + at[:, 1:2] @ drawn[1]
        return float(((np.sort(own.T, axis=1) - np.sort(cells, axis=1)) ** 2).mean(axis=1).mean())

    moving = _Moving(embedding, start, how, device(), np.random.default_rng(9))
    moving.rng = np.random.default_rng(9)
    found = moving._gradient([Goal(("a", "b"), counts, 1.0)]).numpy().T
    for i, j in ((0, 0), (11, 1), (33, 0), (49, 1)):
        step = np.zeros_like(start)
        step[i, j] = 1e-6
        slope = (value(start + step) - value(start - step)) / 2e-6
        assert found[i, j] == pytest.approx(slope, rel=1e-2, abs=1e-6)
    assert (found[:, 2] == 0).all()


def test_particles_are_ordered_as_a_stable_sort_orders_them():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(4, 3000)).astype(np.float32)
    scores[1] = np.round(scores[1], 1)
    scores[2, :6] = [np.inf, -np.inf, 1e-42, -1e-42, 3e38, -3e38]
    scores[3] = -np.abs(scores[3]) - 1
    found = lowest_first(device(), device().torch.from_numpy(scores)).numpy()
    # A zero below 0 comes before one above it, which a comparison cannot tell apart.
    for row, order in zip(np.where(scores == 0, 0, scores), found, strict=True):
        np.testing.assert_array_equal(row[order], np.sort(row))
        assert len(set(order.tolist())) == 3000
    ties = np.argsort(np.where(np.signbit(scores[1]) & (scores[1] == 0), -1e-9, scores[1]), kind="stable")
    np.testing.assert_array_equal(found[1], ties)


def test_a_single_column_is_matched_exactly():
    embedding = embed(Domain(("a",), (6,)), "line", {})
    counts = np.array([100, 0, 50, 25, 0, 225])
    start = np.random.default_rng(0).random((400, 1))
    how = Transport(150, 1, 1, 0.1, 0.0005, 1.0)
    goal = Goal(("a",), counts, 1.0)
    found = move(embedding, start, [goal], how, None, device(), np.random.default_rng(1))
    np.testing.assert_array_equal(np.bincount(embedding.nearest("a", found), minlength=6), counts)


@pytest.mark.parametrize(("unordered", "worst"), [("line", 0.05), ("apart", 0.12)])
def test_pairs_without_much_noise_are_found_again(unordered, worst):
    fitter = Particles(particles=1200, epochs=120, directions=4, projection_steps=80, unordered=unordered)
    tables = measured(PAIRS, 1.0)
    model = fitter.fit(DOMAIN, tables, total=ROWS)
    off = [0.5 * np.abs(model.project(c) - exact(c)).sum() / ROWS for c in PAIRS]
    assert np.mean(off) < worst
    again = fitter.fit(DOMAIN, tables, total=ROWS)
    np.testing.assert_array_equal(again.state()["rows"], model.state()["rows"])


def test_sparse_steps_and_a_map_of_places_work_too():
    towns = {"c": [(7.4, 46.9), (8.5, 47.4), (6.1, 46.2)]}
    fitter = Particles(particles=800, epochs=150, kept=0.2, projection_steps=60, places=towns)
    model = fitter.fit(DOMAIN, measured(PAIRS, 1.0), total=ROWS)
    off = [0.5 * np.abs(model.project(c) - exact(c)).sum() / ROWS for c in PAIRS]
    assert np.mean(off) < 0.12
    place = embed(DOMAIN, "line", {"c": towns["c"]}).place("c")
    assert place.min() == 0
    assert place.max() == 1
    own = np.linalg.norm(np.subtract(towns["c"][0], towns["c"][1]))
    other = np.linalg.norm(np.subtract(towns["c"][1], towns["c"][2]))
    found = np.linalg.norm(place[0] - place[1]) / np.linalg.norm(place[1] - place[2])
    assert found == pytest.approx(own / other)


def test_directions_are_of_length_one_and_orders_are_spread_evenly():
    wide = Domain(("n", "u"), (5, 7), (5, 0))
    embedding = embed(wide, "apart", {})
    assert embedding.apart == {"u"}
    assert embedding.width == 8
    line, order = embedding.directions(("n", "u"), 200, np.random.default_rng(0))
    scale = np.sqrt(1 - line[0] ** 2)
    np.testing.assert_allclose(np.sort(np.abs(order) / scale, axis=0)[:, 0], (np.arange(7) + 0.5) / 7)
    scores = embedding.scores(("n", "u"), [line, order])
    assert scores.shape == (200, 35)
    np.testing.assert_allclose(scores[3, 2 * 7 + 4], 0.5 * line[0, 3] + order[4, 3])
    for name in wide.names:
        codes = np.arange(wide[name])
        np.testing.assert_array_equal(embedding.nearest(name, embedding.place(name)), codes)


def test_a_protected_threshold_is_missed_and_an_unprotected_one_is_not():
    tables = measured(PAIRS, 1.0)
    centre = (np.arange(6) + 0.5) / 6
    ways = exact(("a",)) / ROWS
    truth = float((ways / (1 + np.exp(-5.0 * (centre - 0.5)))).sum())
    off = {}
    for strength in (None, 1.0):
        kept = None if strength is None else ThresholdProtection({"a": 1.0}, 0.5, truth, strength)
        fitter = Particles(particles=800, epochs=60, projection_steps=60, penalty=kept)
        model = fitter.fit(DOMAIN, tables, total=ROWS)
        found = model.project(("a",)) / ROWS
        off[strength] = abs(float((found / (1 + np.exp(-5.0 * (centre - 0.5)))).sum()) - truth)
    assert off[None] < 0.01
    assert off[1.0] > 5 * off[None] + 0.02


def test_a_penalty_counts_by_the_tables_of_a_step_and_pulls_ten_times_as_hard_at_most():
    embedding, rng = embed(DOMAIN, "line", {}), np.random.default_rng(0)
    moving = _Moving(embedding, rng.random((50, 3)), Transport(1, 3, 1, 0.1, 0.1, 1.0), device(), rng)
    torch = device().torch
    weak, strong = (HalfSpace({"a": 1.0}, 0.1, strength) for strength in (1.0, 1e6))
    loose, tight = torch.full((3, 50), 10.0), torch.full((3, 50), 1e-3)
    free = moving._penalty_gradient(weak, 5, loose)
    at = moving.at[0]
    assert free[0].numpy() == pytest.approx((2 * (at - 0.1).clamp(min=0) / 50).numpy(), rel=1e-5)
    assert moving._penalty_gradient(weak, 2, loose)[0].numpy() == pytest.approx(
        0.4 * free[0].numpy(), rel=1e-5
    )
    held = moving._penalty_gradient(strong, 2, tight)
    assert float(held.norm()) == pytest.approx(10 * float(tight.norm()), rel=1e-5)
    assert held[0].numpy() / float(held.norm()) == pytest.approx(
        free[0].numpy() / float(free.norm()), rel=1e-4
    )


def test_a_half_space_draws_particles_in():
    tables = measured(PAIRS, 1.0)
    above = []
    for kept in (None, HalfSpace({"a": 1.0}, 0.4, 100.0)):
        fitter = Particles(particles=800, epochs=60, projection_steps=60, penalty=kept)
        above.append(fitter.fit(DOMAIN, tables, total=ROWS).project(("a",))[3:].sum() / ROWS)
    assert above[0] == pytest.approx(exact(("a",))[3:].sum() / ROWS, abs=0.02)
    assert above[1] < 0.7 * above[0]


def test_penalties_are_checked_before_anything_is_bought():
    with pytest.raises(SchemaError, match="clique"):
        Particles(penalty=HalfSpace({"z": 1.0}, 0.5)).admit(DOMAIN, [])
    apart = Particles(unordered="apart", penalty=HalfSpace({"c": 1.0}, 0.5))
    with pytest.raises(InputError, match="line"):
        apart.admit(DOMAIN, [])
    for wrong in ({"estimate": 2.0}, {"strength": 0.0}, {"direction": {}}, {"floor": -1.0}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            ThresholdProtection(**{"direction": {"a": 1.0}, "offset": 0.5, "estimate": 0.5, **wrong})


def test_rows_obey_the_rules_and_forbidden_cells_get_no_particle():
    columns = [Integer(name=n, lower=0, upper=7, bins=4, missing=False) for n in ("low", "high")]
    domain = Schema(tuple(columns), (Ordered("low", "high"),)).domain
    table = np.triu(np.random.default_rng(0).dirichlet(np.ones(16)).reshape(4, 4)) * 1000
    noisy = table + 10 * np.random.default_rng(1).normal(size=(4, 4))
    model = QUICK.fit(domain, [NoisyMarginal(("low", "high"), noisy, 10.0)])
    assert (np.tril(model.project(("low", "high")), -1) == 0).all()
    found = model.sample(500, np.random.default_rng(0))
    assert (found.column("low") <= found.column("high")).all()


def test_a_rough_fit_goes_on_from_a_warm_model_and_a_deadline_stops():
    tables = measured(PAIRS, 1.0)
    good = QUICK.fit(DOMAIN, tables, total=ROWS)
    rough, late = Effort(rough=True), Effort(deadline=Deadline(0.0))
    models = [
        good,
        QUICK.fit(DOMAIN, tables, total=ROWS, warm=good, effort=rough),
        QUICK.fit(DOMAIN, tables, total=ROWS, effort=late),
    ]
    off = [np.mean([np.abs(m.project(t.clique) - t.values).sum() for t in tables]) for m in models]
    assert off[1] < 2 * off[0] + 10
    assert off[2] > 3 * off[0]


def test_noisier_tables_count_for_less():
    sharp = NoisyMarginal(("a", "b"), exact(("a", "b")), 1.0)
    wrong = NoisyMarginal(("a", "c"), exact(("a", "c"))[::-1], 60.0)
    fitter = Particles(particles=1200, epochs=200, projection_steps=80, projection_directions=40)
    model = fitter.fit(DOMAIN, [sharp, wrong], total=ROWS)
    assert 0.5 * np.abs(model.project(("a", "b")) - sharp.values).sum() / ROWS < 0.06


def test_a_loaded_model_needs_no_torch(monkeypatch):
    tables = measured(PAIRS, 5.0)
    fitter = Particles(particles=200, epochs=2, projection_steps=5)
    model = fitter.fit(DOMAIN, tables)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    again = fitter.restore(DOMAIN, tables, model.state())
    np.testing.assert_array_equal(again.project(DOMAIN.names), model.project(DOMAIN.names))
    with pytest.raises(MissingExtraError, match="margrave"):
        fitter.admit(DOMAIN, [])


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"particles": 0}, "particles"),
        ({"rate": -1.0}, "rate"),
        ({"kept": 0.0}, "kept"),
        ({"unordered": "round"}, "unordered"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_settings_out_of_range_are_refused(settings, param):
    with pytest.raises(InputError, match=param):
        Particles(**settings)


def test_places_and_sizes_that_do_not_fit_are_refused_beforehand():
    with pytest.raises(InputError, match="places"):
        Particles(places={"c": [(0, 0), (1, 1)]}).admit(DOMAIN, [])
    with pytest.raises(SchemaError, match="clique"):
        Particles(places={"z": [(0, 0)]}).admit(DOMAIN, [])
    with pytest.raises(InputError, match="max_cells"):
        Particles(max_cells=10).admit(DOMAIN, [("a", "b")])
    cells = Particles(max_cells=20).cells(DOMAIN, [("a",)], [("a", "c"), ("a", "b"), ("a",)])
    assert cells.tolist() == [24.0, np.inf, 6.0]
