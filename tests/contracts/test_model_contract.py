"""What every fitter and its models must do, whatever the measurements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from torch_fitters import NEEDS_TORCH, SMALL

from margrave.errors import InputError, SchemaError
from margrave.models.informed import InformedModel
from margrave.models.networks.merf import Merf
from margrave.models.registry import FITTERS, resolve
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

DOMAIN = Domain(("a", "b", "one", "c", "d"), (3, 4, 1, 2, 5))

CASES = {
    "nothing": [],
    "total only": [()],
    "one-ways": [("a",), ("b",), ("one",), ("c",), ("d",)],
    "missing variables": [("a",)],
    "tree": [("a", "b"), ("b", "c"), ("b", "d")],
    "cyclic": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")],
    "permuted duplicates": [("a", "b"), ("b", "a"), ("a", "b"), ("b",)],
    "nested": [("a",), ("a", "b"), ("a", "b", "c"), ("c", "a"), ()],
    "size one": [("one",), ("one", "a"), ("a", "one", "b"), ("a", "b")],
    "disconnected": [("a", "b"), ("c", "d")],
    "everything": [("d", "c", "one", "b", "a")],
}


def measured(cliques, *, noise=3.0, seed=0):
    rng = np.random.default_rng(seed)
    joint = 400 * rng.dirichlet(np.full(120, 0.5)).reshape(DOMAIN.sizes)
    made = []
    for k, clique in enumerate(cliques):
        gone = tuple(i for i, n in enumerate(DOMAIN.names) if n not in clique)
        axes = [DOMAIN.canonical(clique).index(n) for n in clique]
        exact = joint.sum(axis=gone).transpose(axes)
        sigma = noise if k % 2 else np.full(exact.shape, noise)
        made.append(NoisyMarginal(clique, exact + rng.normal(size=exact.shape) * noise, sigma))
    return made


TORCH = (*SMALL, "merf")
NAMES = [name for name in FITTERS if "marginals" in resolve(name).learns_from]


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[NEEDS_TORCH] if name in TORCH else []) for name in NAMES],
)
def fitter(request):
    if request.param == "merf":
        return Merf(SMALL["network"](), features=16)
    return SMALL[request.param]() if request.param in SMALL else resolve(request.param)


@pytest.fixture(scope="module", params=CASES)
def measurements(request):
    return measured(CASES[request.param])


@pytest.fixture(scope="module")
def model(fitter, measurements):
    """Fitted once for all that is asked of it, which changes nothing about it."""
    return fitter.fit(DOMAIN, measurements)


def test_projections_are_consistent_and_sum_to_the_total(model):
    assert model.domain == DOMAIN
    assert model.total >= 1
    # Marginals with a refined attribute are means over reference rows; all others are exact.
    inner = model.inner if isinstance(model, InformedModel) else model
    close = 1e-8 if getattr(inner, "refinements", None) is None else 0.005
    full = model.project(DOMAIN.names)
    for width in range(6):
        for clique in itertools.combinations(DOMAIN.names, width):
            asked = clique[::-1]
            found = model.project(asked)
            assert found.shape == DOMAIN.shape(asked)
            assert (found >= 0).all()
            assert found.sum() == pytest.approx(model.total)
            gone = tuple(i for i, n in enumerate(DOMAIN.names) if n not in clique)
            np.testing.assert_allclose(found, full.sum(axis=gone).T, rtol=0, atol=close * model.total)


def test_many_projections_equal_one_by_one(model):
    cliques = [*itertools.permutations(DOMAIN.names, 2), ("d", "a", "one"), (), ("c",)]
    for clique, found in zip(cliques, model.project_many(cliques), strict=True):
        np.testing.assert_allclose(found, model.project(clique), atol=1e-9 * model.total)
    assert model.project_many([]) == []


def test_unmeasured_attributes_are_uniform(model, measurements):
    seen = {name for m in measurements for name in m.clique}
    for name in set(DOMAIN.names) - seen:
        np.testing.assert_allclose(model.project((name,)), model.total / DOMAIN[name])


FEW = ("nothing", "tree", "cyclic", "nested")
SOME = pytest.mark.parametrize(
    "measurements",
    [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in CASES],
    indirect=True,
)
"""For what takes a fit of its own: by default on a few of the tables that differ most."""


@SOME
def test_state_restores_the_same_model_without_the_total(fitter, measurements):
    model = fitter.fit(DOMAIN, measurements, total=250.0)
    again = fitter.restore(DOMAIN, measurements, model.state())
    assert again.total == model.total == 250.0
    np.testing.assert_array_equal(again.project(DOMAIN.names), model.project(DOMAIN.names))
    assert {k: v.tolist() for k, v in again.state().items()} == {
        k: v.tolist() for k, v in model.state().items()
    }
    one, two = (m.sample(50, np.random.default_rng(1)) for m in (model, again))
    assert all((a == b).all() for a, b in zip(one.columns, two.columns, strict=True))


@SOME
def test_a_warm_start_changes_nothing_but_the_way_there(fitter, measurements, model):
    earlier = fitter.fit(DOMAIN, measurements[:1])
    warm = fitter.fit(DOMAIN, measurements, warm=earlier)
    # Where nothing says how many rows there are, the total is 1.
    close = 0.2 * min(model.total / 400, 1)
    np.testing.assert_allclose(warm.project(DOMAIN.names), model.project(DOMAIN.names), atol=close)


def test_rows_lie_in_the_domain_and_obey_what_is_given(model):
    for rows, given in ((0, None), (1, {}), (40, {"one": 0}), (40, {"a": 2, "d": 4}), (25, None)):
        encoded = model.sample(rows, np.random.default_rng(0), given)
        assert encoded.rows == rows
        for name, column in zip(DOMAIN.names, encoded.columns, strict=True):
            assert (column < DOMAIN[name]).all()
            assert (column == (given or {}).get(name, column)).all()


def test_cells_are_positive_and_one_a_candidate(fitter, measurements):
    cliques = [m.clique for m in measurements]
    candidates = list(itertools.combinations(DOMAIN.names, 2))
    cells = fitter.cells(DOMAIN, cliques, candidates)
    assert cells.shape == (len(candidates),)
    assert (cells > 0).all()
    assert fitter.cells(DOMAIN, cliques, []).shape == (0,)


def test_sharp_measurements_are_followed(fitter):
    sharp = measured([("a",), ("d",)], noise=1e-3)
    # vPMW takes one step a table, and its answer is the mean of all steps.
    model = fitter.fit(DOMAIN, sharp * 2000 if fitter.name == "public_weights" else sharp)
    for m in sharp:
        np.testing.assert_allclose(model.project(m.clique), m.values, atol=0.5)


@pytest.mark.parametrize("domain", [Domain(("x",), (4,)), Domain(("x",), (1,)), Domain(("x", "y"), (1, 1))])
def test_tiny_domains_work(fitter, domain):
    noisy = [NoisyMarginal(("x",), np.full(domain["x"], 10.0), 1.0)]
    model = fitter.fit(domain, noisy)
    assert model.project(domain.names).sum() == pytest.approx(10 * domain["x"])
    assert model.sample(7, np.random.default_rng(0)).rows == 7


def test_wild_noise_still_gives_a_distribution(fitter):
    rng = np.random.default_rng(3)
    wild = [NoisyMarginal(c, rng.normal(size=DOMAIN.shape(c)) * 1e6, 1e6) for c in CASES["cyclic"]]
    model = fitter.fit(DOMAIN, wild)
    full = model.project(DOMAIN.names)
    assert np.isfinite(full).all()
    assert full.sum() == pytest.approx(model.total)


@pytest.mark.parametrize("total", [0.0, -3.0, float("nan"), float("inf")])
def test_an_impossible_total_is_refused(fitter, total):
    with pytest.raises(InputError, match="total"):
        fitter.fit(DOMAIN, [], total=total)


def test_tables_that_do_not_fit_are_refused(fitter):
    for clique, values, error in (
        (("a",), np.zeros(4), InputError),
        (("a", "a"), np.zeros((3, 3)), InputError),
        (("z",), np.zeros(2), SchemaError),
        (("a",), np.array([1.0, np.nan, 2.0]), InputError),
    ):
        with pytest.raises(error):
            fitter.fit(DOMAIN, [NoisyMarginal(clique, values, 1.0)])
    model = fitter.fit(DOMAIN, [])
    with pytest.raises(SchemaError):
        model.project(("z",))
    with pytest.raises(InputError):
        model.project(("a", "a"))
