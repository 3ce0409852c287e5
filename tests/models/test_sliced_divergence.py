"""Sliced divergences: against numerical integration, plain NumPy, SciPy and finite differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from margrave.errors import InputError
from margrave.models._torch.device import ready
from margrave.models.sliced.divergence import DIVERGENCES, MIN_RATIO, SlicedDivergence, SlicedWasserstein

pytestmark = pytest.mark.needs_extra("torch")

Floats = np.ndarray[Any, np.dtype[np.float64]]


def _put(array: Any) -> Any:
    device = ready(None)
    return device.put(np.asarray(array, dtype=np.float64), device.torch.float64)


def _ratios(real: Floats, made: Floats, width: float, tau: float) -> Floats:
    """r = ((K + tau I)^-1 K' 1 n / n')+ in plain NumPy, for one slice of [rows, k]."""

    def kernel(one: Floats, other: Floats) -> Floats:
        apart = np.linalg.norm(one[:, None] - other[None], axis=2)
        return np.asarray(np.exp(-(apart**2) / (2.0 * scale**2)))

    far = np.linalg.norm(real[:, None] - real[None], axis=2)[np.triu_indices(len(real), 1)]
    # Of an even number of distances the lower of the two in the middle.
    scale = width * float(np.sort(far)[(len(far) - 1) // 2])
    solved = np.linalg.solve(kernel(real, real) + tau * np.eye(len(real)), kernel(real, made).sum(axis=1))
    return np.asarray(np.maximum(solved * len(real) / len(made), MIN_RATIO))


F = {
    "kl": lambda r: r * np.log(r) - r + 1.0,
    "chi_square": lambda r: (r - 1.0) ** 2,
    "jensen_shannon": lambda r: 0.5 * r * np.log(2 * r / (r + 1)) + 0.5 * np.log(2 / (r + 1)),
    "total_variation": lambda r: 0.5 * np.abs(r - 1.0),
}


@pytest.mark.parametrize("name", DIVERGENCES)
def test_each_divergence_is_its_integral(name: str) -> None:
    """E_Q[f(dP/dQ)] by its integral, against the divergence of two Gaussians by its definition."""
    p, q = scipy.stats.norm(0.5, 1.0), scipy.stats.norm(0.0, 1.1)

    def middle(x: float) -> float:
        return 0.5 * float(p.pdf(x) + q.pdf(x))

    integrands = {
        "kl": lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)),
        "chi_square": lambda x: (p.pdf(x) - q.pdf(x)) ** 2 / q.pdf(x),
        "jensen_shannon": lambda x: (
            0.5 * p.pdf(x) * math.log(p.pdf(x) / middle(x)) + 0.5 * q.pdf(x) * math.log(q.pdf(x) / middle(x))
        ),
        "total_variation": lambda x: 0.5 * abs(p.pdf(x) - q.pdf(x)),
    }
    expected = scipy.integrate.quad(integrands[name], -9, 9, limit=200)[0]
    points = np.linspace(-9, 9, 200_001)
    ratios = _put(p.pdf(points) / q.pdf(points))
    values = DIVERGENCES[name](ready(None).torch, ratios).numpy()
    assert np.trapezoid(values * q.pdf(points), points) == pytest.approx(expected, rel=1e-6)
    assert float(DIVERGENCES[name](ready(None).torch, _put([1.0]))[0]) == 0.0
    assert (values >= 0).all()


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize(("k", "made_rows"), [(1, 60), (2, 60), (3, 35)])
def test_the_estimate_is_that_of_a_plain_computation(name: str, k: int, made_rows: int) -> None:
    rng, device = np.random.default_rng(k), ready(None)
    real, made = rng.standard_normal((4, 60, k)), 1.2 * rng.standard_normal((4, made_rows, k)) + 0.3
    asked = SlicedDivergence(name, widths=(0.7, 2.0), tau=0.05)
    found = asked.measure(device, asked.prepare(device, _put(real)), _put(made))
    ratios = np.mean(
        [[_ratios(real[s], made[s], width, 0.05) for s in range(4)] for width in (0.7, 2.0)], axis=0
    )
    assert float(found) == pytest.approx(float(F[name](ratios).mean()), rel=1e-7)


def test_the_ratio_is_near_one_for_equal_laws_and_a_shift_is_found() -> None:
    """Kullback-Leibler of a shift of a half is 1/8; at 400 rows the estimate has a bias of its own."""
    rng, device = np.random.default_rng(0), ready(None)
    asked = SlicedDivergence("kl", widths=(0.7,), tau=0.01)
    reference = asked.prepare(device, _put(rng.standard_normal((8, 400, 1))))
    same = asked.estimate_ratios(device, reference, _put(rng.standard_normal((8, 400, 1)))).numpy()
    assert same.mean() == pytest.approx(1.0, abs=0.03)
    equal = float(asked.measure(device, reference, _put(rng.standard_normal((8, 400, 1)))))
    moved = float(asked.measure(device, reference, _put(rng.standard_normal((8, 400, 1)) + 0.5)))
    assert 0.0 <= equal < 0.04
    assert 0.09 < moved < 0.22


@pytest.mark.parametrize("name", DIVERGENCES)
def test_the_gradient_is_that_of_differences(name: str) -> None:
    rng, device = np.random.default_rng(5), ready(None)
    torch = device.torch
    asked = SlicedDivergence(name, tau=0.05)
    reference = asked.prepare(device, _put(rng.standard_normal((2, 20, 2))))
    made, way = rng.standard_normal((2, 15, 2)) + 0.2, rng.standard_normal((2, 15, 2))

    def loss(step: float) -> float:
        return float(asked.measure(device, reference, _put(made + step * way)))

    at = _put(made).requires_grad_(True)
    (slope,) = torch.autograd.grad(asked.measure(device, reference, at), [at])
    differences = (loss(1e-5) - loss(-1e-5)) / 2e-5
    assert float((slope.numpy() * way).sum()) == pytest.approx(differences, rel=1e-4)
    assert not reference.factors.requires_grad


def test_what_is_inverted_is_the_real_side() -> None:
    """Made rows that are all alike leave a finite loss and a gradient; the order of rows is no matter."""
    rng, device = np.random.default_rng(6), ready(None)
    torch = device.torch
    real, made = rng.standard_normal((3, 50, 2)), rng.standard_normal((3, 50, 2)) + 0.4
    for name in DIVERGENCES:
        asked = SlicedDivergence(name)
        reference = asked.prepare(device, _put(real))
        collapsed = _put(np.full((3, 50, 2), 0.1)).requires_grad_(True)
        loss = asked.measure(device, reference, collapsed)
        (slope,) = torch.autograd.grad(loss, [collapsed])
        assert np.isfinite(float(loss.detach()))
        assert torch.isfinite(slope).all()
        assert float(slope.abs().max()) > 0
        far = asked.measure(device, reference, _put(np.full((3, 50, 2), 1e3)))
        assert np.isfinite(float(far))
    asked = SlicedDivergence()
    one = float(asked.measure(device, asked.prepare(device, _put(real)), _put(made)))
    mixed = float(asked.measure(device, asked.prepare(device, _put(real[:, ::-1])), _put(made[:, ::-1])))
    swapped = float(asked.measure(device, asked.prepare(device, _put(made)), _put(real)))
    assert mixed == pytest.approx(one, rel=1e-9)
    assert abs(swapped - one) > 1e-3


def test_real_rows_that_are_all_alike_have_a_finite_loss() -> None:
    device = ready(None)
    asked = SlicedDivergence()
    reference = asked.prepare(device, _put(np.zeros((2, 30, 1))))
    assert np.isfinite(float(asked.measure(device, reference, _put(np.ones((2, 30, 1))))))


@pytest.mark.parametrize("power", [1, 2, 3])
def test_sliced_wasserstein_is_that_of_sorted_numbers(power: int) -> None:
    rng, device = np.random.default_rng(7), ready(None)
    torch = device.torch
    real, made = rng.standard_normal((5, 40, 1)), rng.standard_normal((5, 40, 1)) * 1.5
    asked = SlicedWasserstein(power)
    at = _put(made).requires_grad_(True)
    found = asked.measure(device, asked.prepare(device, _put(real)), at)
    sorted_ = np.abs(np.sort(real, axis=1) - np.sort(made, axis=1)) ** power
    assert float(found.detach()) == pytest.approx(float(sorted_.mean() ** (1 / power)), rel=1e-9)
    (slope,) = torch.autograd.grad(found, [at])
    way = rng.standard_normal(made.shape)

    def loss(step: float) -> float:
        return float(asked.measure(device, asked.prepare(device, _put(real)), _put(made + step * way)))

    assert float((slope.numpy() * way).sum()) == pytest.approx((loss(1e-6) - loss(-1e-6)) / 2e-6, rel=1e-4)


def test_sliced_wasserstein_is_the_distance_of_scipy_and_finite_for_equal_rows() -> None:
    rng, device = np.random.default_rng(8), ready(None)
    real, made = rng.standard_normal((4, 50, 1)), rng.standard_normal((4, 50, 1)) + 1
    asked = SlicedWasserstein(1)
    found = float(asked.measure(device, asked.prepare(device, _put(real)), _put(made)))
    expected = [scipy.stats.wasserstein_distance(r[:, 0], m[:, 0]) for r, m in zip(real, made, strict=True)]
    assert found == pytest.approx(np.mean(expected), rel=1e-9)
    two, at = SlicedWasserstein(2), _put(real).requires_grad_(True)
    loss = two.measure(device, two.prepare(device, _put(real)), at)
    (slope,) = device.torch.autograd.grad(loss, [at])
    assert float(loss.detach()) < 1e-10
    assert device.torch.isfinite(slope).all()
    # By hand: |1 - 0|^2, |2 - 1|^2, |6 - 3|^2, |7 - 4|^2, |9 - 5|^2 over 5.
    one, other = np.array([[3.0, 0, 4, 1, 5]]), np.array([[6.0, 2, 9, 7, 1]])
    hand = two.measure(device, two.prepare(device, _put(one[..., None])), _put(other[..., None]))
    assert float(hand) == pytest.approx(math.sqrt(36 / 5))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: SlicedDivergence("hellinger"), "function"),
        (lambda: SlicedDivergence(widths=()), "widths"),
        (lambda: SlicedDivergence(widths=(0.0,)), "widths"),
        (lambda: SlicedDivergence(tau=0.0), "tau"),
        (lambda: SlicedWasserstein(0), "power"),
        (lambda: SlicedWasserstein().prepare(ready(None), _put(np.zeros((1, 3, 2)))), "k must"),
    ],
)
def test_settings_out_of_range_are_refused(make: Any, match: str) -> None:
    with pytest.raises(InputError, match=match):
        make()


def test_samples_of_two_sizes_are_refused_where_numbers_are_joined() -> None:
    device, asked = ready(None), SlicedWasserstein()
    reference = asked.prepare(device, _put(np.zeros((1, 3, 1))))
    with pytest.raises(InputError, match="made"):
        asked.measure(device, reference, _put(np.zeros((1, 4, 1))))
