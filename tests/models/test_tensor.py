"""Both engines on PyTorch against the compiled kernels; the device's name, limits and absence."""

from __future__ import annotations

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from enumeration import random_layout

from extras import absence
from margrave.errors import InputError, MissingExtraError
from margrave.limits import Deadline, Effort
from margrave.models._base.pooling import pool
from margrave.models._mixture.stacked import Stacked, stack
from margrave.models._torch.device import Device, open_device
from margrave.models.mixture import Mixture
from margrave.models.mixture.descent import descend
from margrave.models.mixture.objective import Objective, Point, point
from margrave.models.mixture.score_moments import find_score_moments
from margrave.models.mixture.tensor import TensorObjective, TensorPoint, descend_tensors
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.inference import Inference
from margrave.models.pgm.tensor import TensorInference
from margrave.models.pgm.tree import Layout
from margrave.release import InferredMarginal, NoisyMarginal, RankProduct
from margrave.schema.domain import Domain

needs_torch = pytest.mark.needs_extra("torch")
DOMAIN = Domain(("a", "b", "c", "d"), (6, 3, 4, 2), (5, 0, 4, 0))
ROWS = 10_000.0


def devices() -> list[str]:
    """The processor, and a GPU where there is one."""
    if absence("torch"):
        return ["torch-cpu"]
    import torch

    return ["torch-cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=devices())
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def measured(sigma: float) -> list[NoisyMarginal]:
    """All one-ways and all pairs but one of a mixture of three products, with noise."""
    rng = np.random.default_rng(4)
    weights, parts = rng.dirichlet(np.ones(3)), [rng.dirichlet(np.full(n, 0.7), size=3) for n in DOMAIN.sizes]
    made = []
    for clique in [c for k in (1, 2) for c in itertools.combinations(range(4), k) if c != (1, 3)]:
        table = weights
        for i in clique:
            table = table[..., None, :] * parts[i].T
        values = ROWS * table.sum(axis=-1) + sigma * rng.standard_normal(table.shape[:-1])
        made.append(NoisyMarginal(tuple(DOMAIN.names[i] for i in clique), values, sigma))
    return made


def stacked(inferred: bool = False) -> Stacked:
    """The measurements, and the pair that is missing inferred to be independent."""
    scores = np.array([-1.0, 1.0, 0.0]), np.array([-1.0, 1.0])
    product = RankProduct(scores, 0.3, 0.02)
    extra = InferredMarginal((DOMAIN.names[1], DOMAIN.names[3]), np.zeros((3, 2)), 40.0, product=product)
    tables = [*measured(60.0), *([extra] if inferred else [])]
    return stack(DOMAIN, pool(DOMAIN, tables, inferred=inferred), ROWS)


def start(precision: type) -> Point:
    rng = np.random.default_rng(2)
    logs = rng.standard_normal((sum(DOMAIN.sizes), 12)).astype(precision)
    return point(logs, rng.standard_normal(12), stacked().starts)


def compiled(precision: type, information: float, smoothness: float, inferred: bool = False) -> Objective:
    """The compiled objective with feasible share in this precision; the kernels take either."""
    tables = stacked(inferred)
    made = Objective(tables, 12, information, smoothness, moments=find_score_moments(tables))
    made.gradient, made._scaled, made._model = (
        # Room to work in that holds nothing yet: whatever lies there need not survive a cast.
        np.empty(part.shape, precision)
        for part in (made.gradient, made._scaled, made._model)
    )
    made._pairs = made._pairs.astype(precision)
    return made


@needs_torch
@pytest.mark.parametrize("penalties", [(0.0, 0.0), (200.0, 0.0), (0.0, 300.0), (200.0, 300.0)])
@pytest.mark.parametrize("inferred", [False, True])
def test_value_and_derivatives_are_those_of_the_kernels(
    device: str, penalties: tuple[float, float], inferred: bool
) -> None:
    at, on = start(np.float64), open_device(device)
    assert on is not None
    ours = compiled(np.float64, *penalties, inferred)
    tables = stacked(inferred)
    theirs = TensorObjective(tables, *penalties, on, find_score_moments(tables), double=True)
    value, by_weight = ours(at)
    there = TensorPoint(*(on.put(p, on.torch.float64) for p in (at.logs, at.weigh, at.shares, at.weights)))
    found, pulls, gradient = theirs(there)
    assert float(found) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(pulls.cpu().numpy(), by_weight, rtol=1e-10)
    np.testing.assert_allclose(gradient.cpu().numpy(), ours.gradient, rtol=1e-10, atol=1e-8)
    ours.centre()
    theirs.centre(gradient)
    np.testing.assert_allclose(gradient.cpu().numpy(), ours.gradient, rtol=1e-9, atol=1e-8)


@needs_torch
@pytest.mark.parametrize("steps", [0, 1, 30, 300])
def test_a_descent_in_double_precision_ends_where_the_kernels_end(device: str, steps: int) -> None:
    here, there, on = start(np.float64), start(np.float64), open_device(device)
    assert on is not None
    ours = descend(compiled(np.float64, 300.0, 100.0), here, steps, 0.1)
    moments = find_score_moments(stacked())
    objective = TensorObjective(stacked(), 300.0, 100.0, on, moments, double=True)
    theirs = descend_tensors(objective, there, steps, 0.1)
    assert theirs.steps == ours.steps == steps
    assert theirs.value == pytest.approx(ours.value, rel=1e-5)
    assert theirs.gap == pytest.approx(ours.gap, rel=1e-3)
    np.testing.assert_allclose(there.shares, here.shares, rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(there.weights, here.weights, rtol=1e-5)
    np.testing.assert_allclose(there.shares.sum(axis=0), len(DOMAIN), rtol=1e-12)


@needs_torch
def test_in_single_precision_both_stay_together_until_rounding_is_what_is_left(device: str) -> None:
    # A step has about the same length however small the gradient is, so rounding sets its direction once the
    # gradient is rounding: the kernels themselves end that far from their own double precision.
    on = open_device(device)
    assert on is not None
    for steps, near in ((30, 1e-5), (300, 1e-3)):
        here, there = start(np.float32), start(np.float32)
        ours = descend(Objective(stacked(), 12, 300.0, 100.0), here, steps, 0.1)
        theirs = descend_tensors(TensorObjective(stacked(), 300.0, 100.0, on), there, steps, 0.1)
        assert there.shares.dtype == there.weights.dtype == np.float32
        assert theirs.value == pytest.approx(ours.value, rel=near)
        pairs = [(p.shares * p.weights) @ p.shares.T for p in (here, there)]
        np.testing.assert_allclose(pairs[1], pairs[0], atol=near)


@needs_torch
def test_a_mixture_fitted_on_a_device_is_the_same_model(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Mixture(components=20, information=300.0).fit(DOMAIN, measured(30.0))
    monkeypatch.delattr("margrave.models.mixture.fitter.descend")  # the kernels' way is closed from here on
    moved = Mixture(components=20, information=300.0, device=device).fit(DOMAIN, measured(30.0))
    assert moved.descent is not None
    assert moved.converged == plain.converged
    for clique in itertools.combinations(DOMAIN.names, 2):
        gap = np.abs(moved.project(clique) - plain.project(clique)).sum() / 2 / plain.total
        assert gap < 1e-3
    late = Effort(deadline=Deadline(0.0))
    assert Mixture(components=5, device=device).fit(DOMAIN, measured(30.0), effort=late).descent.steps == 0


@needs_torch
@pytest.mark.parametrize("seed", range(25))
def test_inference_on_tensors_equals_that_of_the_kernels(device: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layout, on = random_layout(rng, largest=8, cliques=12), open_device(device)
    assert on is not None
    ours, theirs = Inference(layout), TensorInference(layout, on)
    for scale in (1.0, 20.0, 1e5):
        theta = rng.normal(size=layout.starts[-1]) * scale
        assert theirs.run(theta) == pytest.approx(ours.run(theta), rel=1e-12, abs=1e-10)
        np.testing.assert_allclose(theirs.marginals, ours.marginals, atol=1e-10)
        np.testing.assert_allclose(theirs.belief, ours.belief, atol=1e-10)
    assert theirs.log_space_runs == ours.log_space_runs


@needs_torch
def test_what_probability_space_would_lose_is_done_in_log_space(device: str) -> None:
    layout, on = (
        Layout([2, 3, 3, 4, 4], [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)], 1 << 20),
        open_device(device),
    )
    assert on is not None
    ours, theirs = Inference(layout), TensorInference(layout, on)
    for seed in range(10):
        theta = np.random.default_rng(seed).normal(size=layout.starts[-1]) * 1e5
        assert theirs.run(theta) == pytest.approx(ours.run(theta), rel=1e-12)
        np.testing.assert_allclose(theirs.belief, ours.belief, atol=1e-10)
    assert theirs.log_space_runs == ours.log_space_runs > 0


@needs_torch
def test_a_graphical_model_fitted_on_a_device_is_the_same_model(device: str) -> None:
    domain = Domain((*DOMAIN.names, "e"), (*DOMAIN.sizes, 1))
    # The optimum is one point, but the optimiser's way there depends on rounding: both go nearly all of it.
    fitters = [PGM(device=name, tolerance=1e-8, max_iterations=5000) for name in (None, device)]
    plain, moved = (fitter.fit(domain, measured(30.0)) for fitter in fitters)
    assert isinstance(moved._inference, TensorInference)
    assert plain.converged
    assert moved.converged
    for clique in itertools.combinations(domain.names, 3):
        np.testing.assert_allclose(moved.project(clique), plain.project(clique), rtol=1e-5, atol=1e-5)
    again = PGM(device=device).restore(domain, measured(30.0), moved.state())
    np.testing.assert_allclose(again.project(("a", "b")), moved.project(("a", "b")), rtol=1e-10)
    rows = [model.sample(500, np.random.default_rng(1)).columns for model in (again, moved)]
    assert all(np.array_equal(a, b) for a, b in zip(*rows, strict=True))


@needs_torch
def test_the_memory_of_a_device_limits_what_is_fitted_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "memory", property(lambda self: 3200))
    assert PGM(device="torch-cpu").most_cells == 100
    assert PGM(device="torch-cpu", max_cells=50).most_cells == 50
    assert 0 < Mixture(device="torch-cpu", components=1).most_codes < 15
    with pytest.raises(InputError, match="codes"):
        Mixture(device="torch-cpu", components=1).admit(DOMAIN, [])


@pytest.mark.parametrize("fitter", [PGM, Mixture])
@pytest.mark.parametrize("name", ["gpu", "", "cuda:", "cuda:-1", "cpu:0", "torch-cuda"])
def test_an_unknown_device_is_refused(fitter: type, name: str) -> None:
    with pytest.raises(InputError, match="device must be cpu, cuda, cuda:N, mps or torch-cpu"):
        fitter(device=name)


@needs_torch
@pytest.mark.parametrize("name", ["cuda:999", "mps", "cuda"])
def test_a_device_that_is_not_there_is_refused_before_anything_is_measured(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InputError, match="device must be one that torch finds on this machine"):
        Mixture(device=name)


@pytest.mark.parametrize("fitter", [PGM, Mixture])
def test_a_missing_torch_is_answered_with_the_command(fitter: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match=r"Run: pip install 'margrave\[gpu\]'"):
        fitter(device="cuda")
    assert fitter(device="cpu").device == "cpu"


def test_a_graphical_model_refuses_a_device_of_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    single = Device(SimpleNamespace(), SimpleNamespace(type="mps"))
    monkeypatch.setattr("margrave.models.pgm.fitter.open_device", lambda name: single)
    with pytest.raises(InputError, match="device must be one with double precision"):
        PGM(device="mps")
