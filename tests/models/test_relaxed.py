"""Relaxed rows: the sheet's invariants, against tables written out and projections solved another way."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from margrave.errors import InputError, MissingExtraError
from margrave.limits import Deadline, Effort
from margrave.models._base.pooling import pool
from margrave.models._mixture.model import MixtureModel
from margrave.models._products.misfit import Misfit
from margrave.models._products.products import simplices, softmaxes
from margrave.models._torch.device import open_device
from margrave.models.relaxed import Points, Relaxed, Thresholds, thresholds
from margrave.release import NoisyMarginal
from margrave.schema.columns import Integer
from margrave.schema.constraints.rules import Ordered
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema

pytestmark = pytest.mark.needs_extra("torch")

DOMAIN = Domain(("a", "b", "c"), (4, 3, 6), (0, 0, 5))
ROWS = 500
CLIQUES = [("a",), ("a", "b"), ("b", "c"), ("a", "b", "c")]


def device():
    return open_device("torch-cpu")


def table_of(codes, clique):
    at = [DOMAIN.index(name) for name in clique]
    cells = np.ravel_multi_index([codes[i] for i in at], DOMAIN.shape(clique))
    return np.bincount(cells, minlength=DOMAIN.size(clique)).reshape(DOMAIN.shape(clique)).astype(float)


def people(seed=0):
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, ROWS)
    return [first, (first + rng.integers(0, 2, ROWS)) % 3, np.minimum(first + rng.integers(0, 3, ROWS), 5)]


def hot(codes):
    return np.concatenate(
        [np.arange(size)[:, None] == own for size, own in zip(DOMAIN.sizes, codes, strict=True)]
    ).astype(float)


def misfit_of(tables, rows=ROWS):
    return Misfit(DOMAIN, pool(DOMAIN, tables), rows, device())


def value_of(misfit, shares):
    return float(misfit(misfit.device.put(shares, misfit.device.torch.float32)))


def test_rows_that_are_one_hot_answer_exactly():
    codes = people()
    exact = [NoisyMarginal(c, table_of(codes, c), 2.0) for c in CLIQUES]
    assert value_of(misfit_of(exact), hot(codes)) < 1e-6


def test_the_misfit_is_the_mean_squared_residual_over_its_variance():
    rng = np.random.default_rng(1)
    shares = np.concatenate([rng.dirichlet(np.ones(size), 7).T for size in DOMAIN.sizes])
    blocks = np.split(shares, np.cumsum(DOMAIN.sizes)[:-1])
    noisy, total, cells = [], 0.0, 0
    for clique in CLIQUES:
        shape = DOMAIN.shape(clique)
        measured = NoisyMarginal(clique, rng.normal(50, 20, shape), rng.uniform(3, 9, shape))
        model = np.zeros(shape)
        for r in range(7):
            joint = np.ones(())
            for name in clique:
                joint = joint[..., None] * blocks[DOMAIN.index(name)][:, r]
            model += joint / 7
        total += float((((ROWS * model - measured.values) / measured.sigmas) ** 2).sum())
        cells += model.size
        noisy.append(measured)
    assert value_of(misfit_of(noisy), shares) == pytest.approx(total / cells, rel=1e-4)


def test_sparsemax_is_the_euclidean_projection_onto_distributions():
    rng = np.random.default_rng(2)
    points = rng.normal(0, 1.5, (sum(DOMAIN.sizes), 5))
    on = device()
    found = simplices(on, on.put(points, on.torch.float64), DOMAIN.sizes).numpy()
    start = 0
    for size in DOMAIN.sizes:
        for r in range(5):
            point, own = points[start : start + size, r], found[start : start + size, r]
            assert own.min() >= 0
            assert own.sum() == pytest.approx(1.0)
            solved = minimize(
                lambda x, p=point: ((x - p) ** 2).sum(),
                np.full(size, 1 / size),
                bounds=[(0, 1)] * size,
                constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
                options={"ftol": 1e-12},
            ).x
            np.testing.assert_allclose(own, solved, atol=1e-5)
        start += size


def test_softmax_blocks_are_distributions():
    on = device()
    logits = on.put(np.random.default_rng(0).normal(0, 30, (13, 4)), on.torch.float32)
    parts = np.split(softmaxes(on, logits, DOMAIN.sizes).numpy(), np.cumsum(DOMAIN.sizes)[:-1])
    for part in parts:
        np.testing.assert_allclose(part.sum(axis=0), 1.0, rtol=1e-5)


def test_bins_of_points_become_exact_and_keep_gradients():
    on = device()
    points, rng = Points(DOMAIN, on), np.random.default_rng(3)
    ways = np.concatenate([rng.dirichlet(np.full(size, 2.0)) for size in DOMAIN.sizes])
    numbers, gates = points.start(ways, 50, rng)
    assert numbers.shape == (1, 50)
    bins = np.floor(numbers.numpy()[0] * 5)
    held = np.arange(5)[:, None] == bins[None, :]
    gaps = []
    for steepness in (1.0, 8.0, 128.0, 1e5):
        shares = points.shares(numbers, gates, steepness)[7:].numpy()
        np.testing.assert_allclose(shares.sum(0), 1.0, rtol=1e-4)
        gaps.append(float(np.abs(shares[:5] - held * (1.0 - shares[5])).max()))
    assert gaps[0] > gaps[1] > gaps[2] >= gaps[3]
    assert gaps[0] > 0.1
    assert gaps[-1] < 1e-4
    moved = numbers.clone().requires_grad_()
    (points.shares(moved, gates, 128.0) ** 2).sum().backward()
    assert on.torch.isfinite(moved.grad).all()


def test_rows_of_points_start_as_each_attribute_is_by_itself():
    on = device()
    points, rng = Points(DOMAIN, on), np.random.default_rng(3)
    ways = np.concatenate([rng.dirichlet(np.full(size, 2.0)) for size in DOMAIN.sizes])
    found = points.shares(*points.start(ways, 4000, rng), 1e5).mean(1).numpy()
    number, ordered = ways[7:12] / ways[7:12].sum(), found[7:12] / found[7:12].sum()
    np.testing.assert_allclose(ordered, number, atol=0.03)
    assert all(np.corrcoef(found[a:b], ways[a:b])[0, 1] > 0.9 for a, b in ((0, 4), (4, 7)))


def test_a_threshold_is_the_sum_of_the_cells_above_it():
    codes = people()
    exact = [NoisyMarginal(c, table_of(codes, c), 3.0) for c in (("b", "c"), ("c",), ("a", "b"))]
    asked = thresholds(DOMAIN, pool(DOMAIN, exact), ROWS, 4, np.random.default_rng(0))
    assert len(asked) == 8
    for one in asked:
        centre = (codes[2] + 0.5) / 5
        above = (codes[2] < 5) & (one.direction[0] * centre > one.offset)
        wanted = np.bincount(codes[1][above], minlength=3) / ROWS if one.others else above.mean()
        np.testing.assert_allclose(one.values, wanted, atol=1e-12)
        cells = int((one.direction[0] * (np.arange(5) + 0.5) / 5 > one.offset).sum())
        assert 1 <= cells <= 4
        np.testing.assert_allclose(1 / one.weights, cells * 9.0 / ROWS**2)


def test_thresholds_of_points_become_exact_as_sigmoids_grow_steep():
    codes, on = people(), device()
    exact = [NoisyMarginal(c, table_of(codes, c), 3.0) for c in (("b", "c"), ("c",))]
    asked = thresholds(DOMAIN, pool(DOMAIN, exact), ROWS, 5, np.random.default_rng(0))
    points = Points(DOMAIN, on)
    also = Thresholds(points, asked, DOMAIN)
    numbers = on.put((np.minimum(codes[2], 4)[None, :] + 0.5) / 5, on.torch.float32)
    gates = np.full((points.gates, ROWS), -40.0)
    gates[codes[0], np.arange(ROWS)] = 40.0
    gates[4 + codes[1], np.arange(ROWS)] = 40.0
    gates[7 + (codes[2] == 5), np.arange(ROWS)] = 40.0
    held = on.put(gates, on.torch.float32)
    off = [float(also(numbers, held, points.shares(numbers, held, t), t)) for t in (1.0, 10.0, 1000.0)]
    assert off[0] > off[1] > off[2]
    assert off[2] < 1e-2


@pytest.mark.parametrize(
    "fitter",
    [
        Relaxed(rows=60, steps=400, floor=0.0),
        Relaxed(rows=60, steps=800, blocks="sparsemax", rate=0.01, floor=0.0),
        Relaxed(rows=200, steps=900, blocks="points", thresholds=1, floor=0.0),
    ],
    ids=["softmax", "sparsemax", "points"],
)
def test_pairs_without_noise_are_found_again(fitter):
    codes = people()
    pairs = list(itertools.combinations(DOMAIN.names, 2))
    model = fitter.fit(DOMAIN, [NoisyMarginal(c, table_of(codes, c), 5.0) for c in pairs], total=ROWS)
    off = [0.5 * np.abs(model.project(c) - table_of(codes, c)).sum() / ROWS for c in pairs]
    assert np.mean(off) < 0.02
    one = fitter.fit(DOMAIN, [NoisyMarginal(c, table_of(codes, c), 5.0) for c in pairs], total=ROWS)
    np.testing.assert_array_equal(one.project(("a", "c")), model.project(("a", "c")))


@pytest.mark.parametrize("blocks", ["softmax", "sparsemax", "points"])
def test_a_fit_comes_as_near_as_the_noise_and_no_nearer(blocks):
    codes, rng = people(), np.random.default_rng(0)
    pairs = list(itertools.combinations(DOMAIN.names, 2))
    noisy = [NoisyMarginal(c, table_of(codes, c) + rng.normal(0, 6, DOMAIN.shape(c)), 6.0) for c in pairs]
    model, closer = (
        Relaxed(rows=200, blocks=blocks, rate=0.02, floor=floor).fit(DOMAIN, noisy, total=ROWS)
        for floor in (1.0, 0.0)
    )
    off = [
        np.concatenate([((m.project(t.clique) - t.values) / t.sigma).ravel() ** 2 for t in noisy]).mean()
        for m in (model, closer)
    ]
    assert 0.8 < off[0] < 1.01
    assert off[1] < off[0] - 0.05


def test_the_gradient_of_panels_is_that_of_the_square_of_all_codes():
    rng, on = np.random.default_rng(4), device()
    torch = on.torch
    names = tuple("abcdefgh")
    domain = Domain(names, (5, 3, 40, 2, 4, 30, 6, 3))
    pairs = [("a", "b"), ("a", "d"), ("a", "h"), ("b", "e"), ("c", "g"), ("d", "e"), ("f", "h"), ("g", "h")]
    noisy = [NoisyMarginal(c, rng.normal(20, 9, domain.shape(c)), rng.uniform(2, 7)) for c in pairs]
    tables = pool(domain, noisy)
    shares = np.concatenate([rng.dirichlet(np.ones(size), 9).T for size in domain.sizes])
    at = on.put(shares, torch.float32).requires_grad_()
    value = Misfit(domain, tables, 300.0, on)(at)
    (3.0 * value).backward()
    other = on.put(shares, torch.float64).requires_grad_()
    starts, plain, cells = np.concatenate([[0], np.cumsum(domain.sizes)]), 0.0, 0
    for t in tables:
        one, two = (other[starts[i] : starts[i + 1]] for i in map(domain.index, t.clique))
        off = (300.0 * one @ two.T / 9 - on.put(t.values, torch.float64)) / on.put(t.sigma, torch.float64)
        plain, cells = plain + (off**2).sum(), cells + t.values.size
    (3.0 * plain / cells).backward()
    assert float(value.detach()) == pytest.approx(float(plain.detach()) / cells, rel=1e-5)
    np.testing.assert_allclose(at.grad.numpy(), other.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_a_triple_says_more_than_its_pairs():
    rng = np.random.default_rng(0)
    odd = Domain(("x", "y", "z"), (2, 2, 2))
    table = np.zeros((2, 2, 2))
    for x, y in itertools.product(range(2), range(2)):
        table[x, y, (x + y) % 2] = 250.0
    noisy = NoisyMarginal(("x", "y", "z"), table + rng.normal(0, 2, table.shape), 2.0)
    model = Relaxed(rows=40, steps=600).fit(odd, [noisy])
    assert 0.5 * np.abs(model.project(("x", "y", "z")) - table).sum() < 40


def test_a_rough_fit_goes_on_from_a_warm_model_and_a_deadline_stops():
    codes = people()
    tables = [NoisyMarginal(c, table_of(codes, c), 0.5) for c in itertools.combinations(DOMAIN.names, 2)]
    fitter = Relaxed(rows=60, steps=300)
    good = fitter.fit(DOMAIN, tables, total=ROWS)
    warm = fitter.fit(DOMAIN, tables, total=ROWS, warm=good, effort=Effort(rough=True))
    cold = fitter.fit(DOMAIN, tables, total=ROWS, effort=Effort(rough=True))
    late = fitter.fit(DOMAIN, tables, total=ROWS, effort=Effort(deadline=Deadline(0.0)))
    off = [
        np.mean([np.abs(m.project(t.clique) - t.values).sum() for t in tables])
        for m in (good, warm, cold, late)
    ]
    assert off[1] < 1.5 * off[0] + 2
    assert off[1] < off[2] < off[3]


def test_a_loaded_model_needs_no_torch(monkeypatch):
    codes = people()
    tables = [NoisyMarginal(("a", "b"), table_of(codes, ("a", "b")), 5.0)]
    fitter = Relaxed(rows=20, steps=20)
    model = fitter.fit(DOMAIN, tables)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    again = fitter.restore(DOMAIN, tables, model.state())
    np.testing.assert_array_equal(again.project(DOMAIN.names), model.project(DOMAIN.names))
    assert again.sample(10, np.random.default_rng(0), {"a": 1}).rows == 10
    with pytest.raises(MissingExtraError, match="margrave"):
        fitter.admit(DOMAIN, [])


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"rows": 0}, "rows"),
        ({"blocks": "hard"}, "blocks"),
        ({"rate": 0.0}, "rate"),
        ({"tolerance": 1.0}, "tolerance"),
        ({"thresholds": 2}, "thresholds"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_settings_out_of_range_are_refused(settings, param):
    with pytest.raises(InputError, match=param):
        Relaxed(**settings)


def test_what_is_too_large_is_refused_beforehand():
    wide = Domain(("a", "b", "c"), (500, 500, 500))
    with pytest.raises(InputError, match="max_codes"):
        Relaxed(max_codes=1000).admit(wide, [])
    with pytest.raises(InputError, match="max_cells"):
        Relaxed().admit(wide, [("a", "b", "c")])
    cells = Relaxed().cells(wide, [("a",)], [("a", "b"), ("a", "b", "c")])
    assert cells.tolist() == [250_500.0, np.inf]


def test_under_rules_the_misfit_is_that_of_the_mixture_that_rows_become():
    columns = [Integer(name=n, lower=0, upper=7, bins=4, missing=False) for n in ("low", "high", "free")]
    domain = Schema(tuple(columns), (Ordered("low", "high"),)).domain
    rng = np.random.default_rng(3)
    shares = np.concatenate([rng.dirichlet(np.ones(4), 9).T for _ in range(3)])
    model = MixtureModel(domain, 1000.0, np.full(9, 1 / 9), shares, 0.0, None)
    cliques = [("low",), ("free", "high"), ("low", "high"), ("high", "free", "low")]
    exact = [NoisyMarginal(c, model.project(c), 2.0) for c in cliques]
    assert float(np.tril(model.project(("low", "high")), -1).sum()) == 0.0
    assert value_of(Misfit(domain, pool(domain, exact), 1000.0, device()), shares) < 1e-6
    wrong = [NoisyMarginal(("low", "high"), np.full((4, 4), 62.5), 2.0)]
    found = value_of(Misfit(domain, pool(domain, wrong), 1000.0, device()), shares)
    assert found == pytest.approx((((model.project(("low", "high")) - 62.5) / 2.0) ** 2).mean(), rel=1e-4)
