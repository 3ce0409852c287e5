"""The generator of rows: its layers against NumPy, its gradient against differences, draws as it says."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.errors import InputError
from margrave.models._torch.device import ready
from margrave.models.sliced.training import LEAK, Dense, RowGenerator

pytestmark = pytest.mark.needs_extra("torch")


def test_layers_are_those_of_a_plain_computation() -> None:
    device = ready(None)
    dense = Dense(device, (3, 5, 2), np.random.default_rng(0))
    inputs = np.random.default_rng(1).standard_normal((4, 3))
    first, last = (weight.detach().double().cpu().numpy() for weight in dense.weights)
    hidden = inputs @ first[:, :-1].T + first[:, -1]
    hidden = np.where(hidden > 0, hidden, LEAK * hidden)
    expected = hidden @ last[:, :-1].T + last[:, -1]
    found = dense(device.put(inputs, device.torch.float32)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError, match="widths"):
        Dense(device, (3,), np.random.default_rng(0))


def test_rows_are_distributions_and_numbers_and_hang_on_their_label() -> None:
    device, rng = ready(None), np.random.default_rng(2)
    generator = RowGenerator(device, 6, (8,), (3, 2), rng, numbers=4, labels=5)
    noise, labels = generator.draw_noise(7, rng), device.put(np.arange(7) % 5, device.torch.int64)
    rows = generator(noise, labels).detach().numpy()
    assert rows.shape == (7, 9)
    np.testing.assert_allclose(rows[:, :3].sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(rows[:, 3:5].sum(axis=1), 1.0, rtol=1e-6)
    assert ((rows[:, 5:] > 0) & (rows[:, 5:] < 1)).all()
    other = generator(noise, (labels + 1) % 5).detach().numpy()
    assert np.abs(other - rows).max() > 1e-3
    with pytest.raises(InputError, match="labels"):
        generator(noise)
    grey = RowGenerator(device, 6, (8,), (), rng, numbers=4)
    assert grey.draw_codes(grey(noise), rng).shape == (7, 4)


def test_equal_seeds_make_equal_networks_and_no_global_generator_is_touched() -> None:
    device = ready(None)
    torch = device.torch
    before = torch.get_rng_state()
    one, two = (RowGenerator(device, 4, (4,), (3,), np.random.default_rng(9)) for _ in range(2))
    one.draw_noise(3, np.random.default_rng(1))
    assert all(torch.equal(a, b) for a, b in zip(one.weights, two.weights, strict=True))
    assert torch.equal(before, torch.get_rng_state())


def test_codes_are_drawn_by_their_probabilities_and_keep_their_gradient() -> None:
    device, rng = ready(None), np.random.default_rng(3)
    torch = device.torch
    generator = RowGenerator(device, 2, (), (3, 2), rng, numbers=1)
    shares = np.tile([0.5, 0.2, 0.3, 0.9, 0.1, 0.25], (20_000, 1))
    given = device.put(shares, torch.float32).requires_grad_(True)
    drawn = generator.draw_codes(given, rng)
    values = drawn.detach().numpy()
    assert set(np.round(values[:, :5], 6).ravel().tolist()) == {0.0, 1.0}
    np.testing.assert_allclose(values.mean(axis=0), shares[0], atol=4.5 * 0.5 / np.sqrt(20_000))
    np.testing.assert_allclose(values[:, 5], 0.25, atol=1e-6)
    weights = device.put(rng.standard_normal(shares.shape), torch.float32)
    (slope,) = torch.autograd.grad((drawn * weights).sum(), [given])
    np.testing.assert_allclose(slope.numpy(), weights.numpy())
