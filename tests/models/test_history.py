from __future__ import annotations

import numpy as np
import pytest

from margrave.models.pgm.estimate import MEMORY, History, ahead, bent, dot, fill_gradient, largest


def inverse_hessian(pairs, curvature):
    """The L-BFGS matrix written out: Nocedal and Wright, 7.16, from the scaled diagonal."""
    s, y = pairs[-1]
    matrix = np.diag((s @ y) / (y @ (y / curvature)) / curvature)
    for s, y in pairs:
        rho = 1.0 / (s @ y)
        left = np.eye(len(s)) - rho * np.outer(s, y)
        matrix = left @ matrix @ left.T + rho * np.outer(s, s)
    return matrix


@pytest.mark.parametrize("steps", [1, 2, 5, MEMORY, MEMORY + 7])
def test_the_direction_is_that_of_the_matrix_written_out(steps):
    rng = np.random.default_rng(steps)
    n = 40
    history, pairs = History(n), []
    hessian = np.diag(rng.uniform(0.5, 2.0, n)) + 0.1 * np.ones((n, n))
    for _ in range(steps):
        step, before, length = rng.normal(size=n), rng.normal(size=n), rng.uniform(0.5, 2.0)
        after = before + length * hessian @ step
        history.add(length, step, after, before)
        pairs.append((length * step, after - before))
    gradient, curvature = rng.normal(size=n), rng.uniform(0.5, 2.0, n)
    expected = -inverse_hessian(pairs[-MEMORY:], curvature) @ gradient
    np.testing.assert_allclose(history.direction(gradient, curvature), expected, rtol=1e-4, atol=1e-5)


def test_without_a_history_the_direction_is_the_scaled_gradient():
    gradient, curvature = np.array([1.0, -2.0]), np.array([2.0, 0.5])
    np.testing.assert_array_equal(History(2).direction(gradient, curvature), [-0.5, 4.0])


def test_steps_without_curvature_are_left_out():
    history, step = History(2), np.array([1.0, 0.0])
    for after in ([0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]):
        history.add(1.0, step, np.array(after), np.zeros(2))
    assert history.count == 0
    history.add(1.0, step, np.array([1.0, 0.0]), np.zeros(2))
    assert history.count == 1


def test_vector_kernels_say_what_numpy_says():
    rng = np.random.default_rng(0)
    theta, target, mu, step = rng.normal(size=(4, 101))
    ridge, gradient = rng.uniform(0.1, 1.0, 101), np.empty(101)
    value = fill_gradient(theta, target, ridge, mu, gradient)
    assert value == pytest.approx(0.5 * (ridge * theta**2).sum() - theta @ target)
    np.testing.assert_allclose(gradient, mu - target + ridge * theta, atol=1e-14)
    diagonal = mu * (1.02 - mu) + ridge + np.maximum(-gradient, 0.0) / 10.0
    np.testing.assert_allclose(bent(mu, ridge, gradient, 10.0), diagonal, atol=1e-14)
    np.testing.assert_allclose(ahead(theta, 0.3, step), theta + 0.3 * step, atol=1e-14)
    assert dot(theta, step) == pytest.approx(theta @ step)
    ends = np.array([0, 40, 41, 101])
    norms = np.add.reduceat(np.abs(gradient), ends[:-1])
    assert largest(gradient, ends) == pytest.approx(norms.max())
    assert largest(np.zeros(0), np.array([0])) == 0.0
