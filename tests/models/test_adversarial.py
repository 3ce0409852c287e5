"""Adversarial generators: gradients by another way, rows and parts on their own, made rows, votes, saved
models."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from extras import import_extra
from margrave.errors import InputError, ReleaseError
from margrave.measure.mechanisms.gradients import NORM, clip_factors
from margrave.models._torch.trained import code_domain
from margrave.models.adversarial import GradientGan, VotedGan
from margrave.models.adversarial.networks import AdversaryState, Weights, build_vectors
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

torch = import_extra("torch", __name__)

DOMAIN = Domain(("n", "c", "y"), (6, 3, 2), (6, 0, 0))
WAYS = {"n": np.array([5.0, 1, 1, 1, 1, 1]), "c": np.array([1.0, 2, 3]), "y": np.array([3.0, 1.0])}
SMALL: dict[str, Any] = {"widths": (8,), "judging": (6, 5), "latent": 4, "batch": 8}


def _codes(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, DOMAIN.sizes, (rows, 3))


def _learner(**more: Any) -> Any:
    return GradientGan(**SMALL, **more).learner(DOMAIN, "y", WAYS, 50.0)


def _trained(learner: Any, seed: int = 1) -> Any:
    """A state in which no layer is 0."""
    state = learner.start()
    rng = np.random.default_rng(seed)
    layers = [layer + 0.5 * rng.standard_normal(layer.shape) for layer in state.judge.layers]
    return dataclasses.replace(state, judge=Weights.begin(layers))


def test_factors_are_the_gradient_of_the_cross_entropy() -> None:
    """By automatic differentiation in ordinary arithmetic."""
    learner, codes = _learner(), _codes(40)
    state, uniform = _trained(learner), np.random.default_rng(2).random((40, learner.uniforms))
    layers = [torch.tensor(layer, requires_grad=True) for layer in state.judge.layers]
    rows = torch.tensor(build_vectors(learner.coding, codes, uniform))
    for k, layer in enumerate(layers):
        rows = rows @ layer[:, :-1].T + layer[:, -1]
        rows = rows.clamp(min=0) if k + 1 < len(layers) else rows
    wanted = torch.autograd.grad(torch.nn.functional.softplus(-rows).sum(), layers)
    found = learner.factors(state, codes, uniform)
    for (left, right), slope in zip(found, wanted, strict=True):
        mine = torch.einsum("rko,rki->oi", left, right)
        assert float((mine - slope).abs().max()) < 0.02 * float(slope.abs().max()) + 0.02


def test_a_row_has_the_same_factors_alone_and_in_company() -> None:
    learner, codes = _learner(), _codes(60)
    state, uniform = _trained(learner), np.random.default_rng(2).random((60, learner.uniforms))
    whole = learner.factors(state, codes, uniform)
    for row in (0, 17, 59):
        alone = learner.factors(state, codes[[row]], uniform[[row]])
        for (left, right), (one, other) in zip(whole, alone, strict=True):
            assert torch.equal(left[[row]], one)
            assert torch.equal(right[[row]], other)
    assert all(float(part.abs().max()) <= NORM for pair in clip_factors(whole) for part in pair)


def test_made_rows_weigh_no_more_than_the_clip() -> None:
    learner = _learner(scale=100.0)
    state = _trained(learner)
    mean = learner._average_made(state, np.random.default_rng(0))
    assert sum(float((part**2).sum()) for part in mean) <= 1.0 + 1e-9


def test_an_untrained_generator_draws_the_released_one_ways() -> None:
    learner = _learner()
    columns = learner.generator.draw_codes(learner.start().average, 20_000, np.random.default_rng(0))
    for name, column in zip(DOMAIN.names, columns, strict=True):
        if name == "n":
            continue  # scores of an untrained network are only about normal
        share = np.bincount(column, minlength=DOMAIN[name]) / len(column)
        assert np.abs(share - WAYS[name] / WAYS[name].sum()).max() < 0.02


def test_a_training_without_noise_learns_what_goes_with_what() -> None:
    """The label follows from a category; independent columns have it right in half of the rows."""
    rng = np.random.default_rng(0)
    domain = Domain(("c", "d"), (2, 2), (0, 0))
    codes = np.repeat(rng.integers(0, 2, (400, 1)), 2, axis=1)
    ways = {"c": np.ones(2), "d": np.ones(2)}
    gan = GradientGan(widths=(16,), judging=(16,), latent=4, batch=64, rates=(1e-2, 5e-3), turns=1)
    learner = gan.learner(domain, None, ways, 400.0)
    state = learner.start()
    for _ in range(250):
        factors = learner.factors(state, codes, np.zeros((400, 0)))
        sums = [torch.einsum("rko,rki->oi", left, right).numpy() for left, right in factors]
        state = learner.moved(state, sums)
    first, second = learner.generator.draw_codes(learner.finished(state), 2000, np.random.default_rng(1))
    assert (first == second).mean() > 0.8
    assert 0.2 < first.mean() < 0.8


def _teachers(**more: Any) -> Any:
    gan = VotedGan(**SMALL, questions=10, **more)
    return gan.ensemble(DOMAIN, "y", WAYS, 3)


def test_a_teacher_is_the_same_bits_whenever_it_is_taught_the_same() -> None:
    ensemble, codes = _teachers(lessons=3), _codes(24)
    state, uniform = ensemble.start(), np.random.default_rng(0).random(ensemble.uniforms)
    one, said = ensemble.taught(state, ensemble.hire(1), codes, uniform)
    ensemble.taught(state, ensemble.hire(2), _codes(24, 5), uniform)
    two, again = ensemble.taught(state, ensemble.hire(1), codes, uniform)
    assert said.shape == (10,)
    np.testing.assert_array_equal(said, again)
    for left, right in zip(one.layers, two.layers, strict=True):
        np.testing.assert_array_equal(left, right)
    assert any((a != b).any() for a, b in zip(one.layers, ensemble.hire(1).layers, strict=True))


def _arrays(state: AdversaryState) -> list[np.ndarray]:
    held = (state.made, state.asked, state.answered, state.answers)
    return [*held, *state.average, *state.student.layers, *state.maker.layers]


def test_student_and_generator_see_counts_alone() -> None:
    """Sheet 4: the public side after a round follows from the state before it and the released counts."""
    ensemble = _teachers()
    state, counts = ensemble.start(), np.linspace(-5, 5, 10)
    one, two = ensemble.moved(state, counts, 3.0), ensemble.moved(state, counts, 3.0)
    for a, b in zip(_arrays(one), _arrays(two), strict=True):
        np.testing.assert_array_equal(a, b)
    assert one.answered.shape == (10, ensemble.generator.width)
    np.testing.assert_allclose(one.answers, counts / 3)


def test_answers_are_kept_for_so_many_rounds_as_asked() -> None:
    ensemble = _teachers(memory=2)
    state = ensemble.start()
    for _ in range(5):
        state = ensemble.moved(state, np.zeros(10), 1.0)
    assert state.answered.shape == (20, ensemble.generator.width)
    assert state.step == 5


@pytest.mark.parametrize("fitter", [GradientGan(**SMALL), VotedGan(**SMALL)])
def test_a_model_comes_back_from_its_state(fitter: Any) -> None:
    coding = code_domain(DOMAIN, "y", WAYS)
    learner = _learner() if isinstance(fitter, GradientGan) else _teachers()
    assert learner.coding.values == coding.values
    found = [NoisyMarginal((name,), WAYS[name], 1.0) for name in DOMAIN.names]
    made = fitter.finished(learner, learner.start().average, found, 200.0)
    back = fitter.restore(DOMAIN, found, made.state())
    one, two = (model.sample(50, np.random.default_rng(0)) for model in (made, back))
    for name in DOMAIN.names:
        np.testing.assert_array_equal(one.column(name), two.column(name))
    with pytest.raises(ReleaseError, match="network's weights"):
        fitter.restore(DOMAIN, found, {k: v for k, v in made.state().items() if "generator" not in k})


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (GradientGan, {"batch": 1000}),
        (GradientGan, {"widths": ()}),
        (GradientGan, {"rates": (0.0, 1.0)}),
        (GradientGan, {"turns": 0}),
        (GradientGan, {"average": 1.0}),
        (VotedGan, {"questions": 5000}),
        (VotedGan, {"turns": (1, 0)}),
        (VotedGan, {"rates": (1.0, 1.0)}),
        (VotedGan, {"judging": (0,)}),
    ],
)
def test_settings_out_of_range_are_refused(kind: Any, more: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        kind(**more)


def test_rows_of_too_many_codes_are_refused() -> None:
    domain = Domain(tuple(f"a{k}" for k in range(20)), (500,) * 20, (0,) * 20)
    ways = {name: np.ones(500) for name in domain.names}
    with pytest.raises(InputError, match="inputs a layer"):
        GradientGan().learner(domain, None, ways, 1.0)
