"""Training against noisy copies: what slices are, that a generator comes to the released law, hard cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from margrave.errors import InputError, ReleaseError
from margrave.limits import Deadline, Effort
from margrave.models._torch.device import ready
from margrave.models.sliced.divergence import DIVERGENCES, SlicedDivergence, SlicedWasserstein
from margrave.models.sliced.fitter import SliceFDiv, SliceWass
from margrave.models.sliced.training import (
    LEAST_ROWS,
    Course,
    NoisyRows,
    RowGenerator,
    draw_rows,
    match_moments,
    train_generator,
)
from margrave.release import NoisySlices
from margrave.schema.domain import Domain
from margrave.schema.features import RowNumbers

pytestmark = pytest.mark.needs_extra("torch")

DOMAIN = Domain(("a", "b", "c"), (3, 4, 2))
QUICK = Course(steps=30, batch=64, slices=4, k=2, rate=2e-3)
EITHER: list[Any] = [SliceFDiv, SliceWass]


def _codes(rows: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    a = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    return np.stack([a, (a + rng.integers(0, 2, rows)) % 4, (a > 0) ^ (rng.random(rows) < 0.1)], axis=1)


def _slices(codes: Any, sigma: float, seed: int = 1) -> NoisySlices:
    vectors = np.concatenate([np.eye(n)[codes[:, j].astype(int)] for j, n in enumerate(DOMAIN.sizes)], axis=1)
    noise = np.random.default_rng(seed).standard_normal(vectors.shape)
    return NoisySlices(RowNumbers.indicate_codes(DOMAIN), vectors + sigma * noise, sigma)


def test_a_slice_is_a_set_of_orthonormal_directions_with_nothing_along_known_sums() -> None:
    device, rng = ready(None), np.random.default_rng(0)
    held = _slices(_codes(50), 1.0)
    real = NoisyRows(device, held.values, 1.0, DOMAIN.sizes)
    directions, rows = real.draw_slices(np.array([3, 8, 1]), 5, 2, rng)
    assert directions.shape == (5, 9, 2)
    products = (directions.transpose(1, 2) @ directions).numpy()
    np.testing.assert_allclose(products, np.tile(np.eye(2), (5, 1, 1)), atol=1e-6)
    for part in np.split(directions.numpy(), np.cumsum(DOMAIN.sizes)[:-1], axis=1):
        np.testing.assert_allclose(part.sum(axis=1), 0.0, atol=1e-6)
    np.testing.assert_allclose(rows.numpy(), held.values[[3, 8, 1]] @ directions.numpy(), atol=1e-5)


@pytest.mark.parametrize("width", [1, 3])
def test_a_matched_batch_has_the_mean_and_the_covariance_of_all_rows_on_every_slice(width: int) -> None:
    device, rng, held = ready(None), np.random.default_rng(0), _slices(_codes(5000), 0.7)
    real = NoisyRows(device, held.values, 0.7, DOMAIN.sizes)
    directions, rows = real.draw_slices(rng.integers(0, 5000, 60), 4, width, rng)
    moved = real.match_rows(directions, rows).numpy().astype(float)
    for way, batch in zip(directions.numpy().astype(float), moved, strict=True):
        whole = held.values @ way
        np.testing.assert_allclose(batch.mean(axis=0), whole.mean(axis=0), atol=1e-4)
        expected = np.cov(whole.T, bias=True)
        np.testing.assert_allclose(np.cov(batch.T, bias=True), expected, atol=2e-3 * np.abs(expected).max())
    # The batch itself is far from both, or there would be nothing to show.
    assert np.abs(rows.numpy().mean(axis=1) - (held.values @ directions.numpy()).mean(axis=1)).max() > 0.1


def test_batches_too_small_for_a_covariance_and_rows_all_alike_are_matched_without_an_error() -> None:
    device = ready(None)
    torch = device.torch
    few = torch.ones((2, 2 * LEAST_ROWS - 1, 2))
    spread, mean = torch.eye(2).expand(2, -1, -1), torch.zeros((2, 2))
    assert match_moments(device, few, mean, spread, 1.0) is few
    # Copies under noise far below a whole step are whole numbers, all alike.
    alike = match_moments(device, torch.ones((2, 2 * LEAST_ROWS, 2)), mean, 0.0 * spread, 0.01)
    np.testing.assert_array_equal(alike.numpy(), 0.0)


@pytest.mark.parametrize(
    "loss", [pytest.param(SlicedDivergence(), marks=[pytest.mark.slow]), SlicedWasserstein()]
)
def test_a_generator_of_numbers_comes_to_mean_and_covariance(loss: Any) -> None:
    """Two numbers in [0, 1] that rise together, with little noise."""
    rng, device = np.random.default_rng(2), ready(None)
    base = rng.uniform(0.3, 0.8, 3000)
    exact = np.stack([base, 0.5 * base + rng.uniform(0.0, 0.1, 3000)], axis=1)
    real = NoisyRows(device, exact + 0.05 * rng.standard_normal(exact.shape), 0.05)
    generator = RowGenerator(device, 4, (32,), (), rng, numbers=2)
    losses = train_generator(generator, real, loss, Course(steps=300, batch=128, slices=8, k=1, rate=1e-2))
    made = generator(generator.draw_noise(4000, rng)).detach().numpy()
    np.testing.assert_allclose(made.mean(axis=0), exact.mean(axis=0), atol=0.03)
    np.testing.assert_allclose(made.std(axis=0), exact.std(axis=0), atol=0.04)
    assert np.corrcoef(made.T)[0, 1] > 0.8
    assert np.mean(losses[-20:]) < np.mean(losses[:5])


def test_labels_go_to_the_generator_and_as_indicators_into_the_rows() -> None:
    device, rng = ready(None), np.random.default_rng(5)
    generator = RowGenerator(device, 3, (4,), (2,), rng, numbers=1, labels=3)
    rows = draw_rows(generator, 200, rng, np.array([0.5, 0.5, 0.0])).detach().numpy()
    assert rows.shape == (200, 3 + 2 + 1)
    np.testing.assert_array_equal(rows[:, :3].sum(axis=1), 1.0)
    assert rows[:, 2].sum() == 0 < rows[:, 0].sum() < 200
    given = np.arange(200) % 3
    told = draw_rows(generator, 200, np.random.default_rng(6), np.full(3, 1 / 3), given).detach().numpy()
    np.testing.assert_array_equal(told[:, :3].argmax(axis=1), given)
    noise = generator.draw_noise(200, np.random.default_rng(6))
    expected = generator(noise, device.put(given, device.torch.int64)).detach().numpy()
    np.testing.assert_allclose(told[:, 5], expected[:, 2], atol=1e-6)
    for classes in (None, np.full(2, 0.5)):
        with pytest.raises(InputError, match="classes must be as many"):
            draw_rows(generator, 4, rng, classes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", EITHER)
def test_dependence_is_learnt_that_the_start_has_not(kind: Any) -> None:
    codes = _codes(6000)
    course = Course(steps=400, batch=256, slices=16, k=2, rate=5e-3)
    held = _slices(codes, 0.5)
    model = kind(course=course).fit_slices(DOMAIN, held.tables(), held)
    table = np.zeros((3, 4))
    np.add.at(table, (codes[:, 0].astype(int), codes[:, 1].astype(int)), 1.0)
    product = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    apart = np.abs(model.project(("a", "b")) - table).sum()
    assert apart < 0.5 * np.abs(product - table).sum()


@pytest.mark.parametrize("kind", EITHER)
def test_training_twice_gives_one_model_and_leaves_the_release_as_it_was(kind: Any) -> None:
    held = _slices(_codes(200), 2.0)
    before, fitter = held.values.copy(), kind(course=QUICK, components=50)
    one, two = (fitter.fit_slices(DOMAIN, held.tables(), held) for _ in range(2))
    np.testing.assert_array_equal(one.project(("a", "b")), two.project(("a", "b")))
    np.testing.assert_array_equal(before, held.values)
    assert one.total == 200
    assert one.project(("a",)).sum() == pytest.approx(200)
    again = fitter.restore(DOMAIN, held.tables(), one.state())
    np.testing.assert_allclose(again.project(("a", "b")), one.project(("a", "b")))
    np.testing.assert_array_equal(again.slices.values, held.values)
    assert again.slices.sigma == held.sigma


@pytest.mark.parametrize("kind", EITHER)
def test_few_rows_many_directions_and_an_empty_class(kind: Any) -> None:
    few = _slices(_codes(5), 1.0)
    assert kind(course=QUICK, components=9).fit_slices(DOMAIN, few.tables(), few).total == 5
    none = _slices(np.zeros((40, 3)), 0.3)
    model = kind(course=QUICK, components=9).fit_slices(DOMAIN, none.tables(), none)
    assert np.isfinite(model.project(("a", "b", "c"))).all()
    for rows in (0, 1):
        lone = _slices(_codes(rows), 1.0)
        with pytest.raises(InputError, match="rows"):
            kind(course=QUICK).fit_slices(DOMAIN, few.tables(), lone)


def test_more_directions_than_features_are_refused_where_slices_have_several() -> None:
    held = _slices(_codes(30), 1.0)
    wide = Course(steps=2, batch=8, slices=2, k=7)
    with pytest.raises(InputError, match="k must be at most the 6 features"):
        SliceFDiv(course=wide).fit_slices(DOMAIN, held.tables(), held)
    SliceWass(course=wide, components=5).fit_slices(DOMAIN, held.tables(), held)


def test_time_that_is_over_ends_the_training_at_the_start() -> None:
    held = _slices(_codes(300), 1.0)
    over = Effort(deadline=Deadline(-1.0))
    model = SliceFDiv(course=QUICK, components=50).fit_slices(DOMAIN, held.tables(), held, effort=over)
    assert model.project(("c",)).sum() == pytest.approx(300)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_every_divergence_trains(name: str) -> None:
    held = _slices(_codes(200), 1.0)
    fitter = SliceFDiv(loss=SlicedDivergence(name), course=QUICK, components=20)
    assert np.isfinite(fitter.fit_slices(DOMAIN, held.tables(), held).project(("a", "c"))).all()


@pytest.mark.parametrize("kind", EITHER)
@pytest.mark.parametrize(
    ("options", "match"),
    [({"components": 0}, "components"), ({"noise": 0}, "noise"), ({"widths": (0,)}, "widths")],
)
def test_settings_out_of_range_are_refused(kind: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        kind(**options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"steps": 0}, "steps"),
        ({"batch": 1}, "batch"),
        ({"slices": 0}, "slices"),
        ({"k": 0}, "k must"),
        ({"rate": 0.0}, "rate"),
        ({"average": 1.0}, "average"),
    ],
)
def test_courses_out_of_range_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        Course(**options)


def test_a_damaged_state_and_other_numbers_are_refused() -> None:
    held, fitter = _slices(_codes(60), 1.0), SliceFDiv(course=QUICK, components=9)
    state = fitter.fit_slices(DOMAIN, held.tables(), held).state()
    for broken in ({"slices_sigma": np.asarray(0.0)}, {"slices_values": np.zeros((3, 2))}):
        with pytest.raises(ReleaseError, match="state"):
            fitter.restore(DOMAIN, held.tables(), state | broken)
    scaled = NoisySlices(RowNumbers.scale_codes(DOMAIN), np.zeros((9, 3)), 1.0)
    with pytest.raises(InputError, match="slices"):
        fitter.fit_slices(DOMAIN, held.tables(), scaled)
