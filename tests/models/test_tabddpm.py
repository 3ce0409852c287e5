"""The diffusion: both processes by enumeration, gradients in whole numbers, rows of a denoiser that knows."""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest

from extras import import_extra
from margrave.errors import InputError, ReleaseError
from margrave.measure.mechanisms.gradients import NORM, clip_factors
from margrave.models._torch import exact
from margrave.models._torch.exact import MAX_LAYER_WIDTH
from margrave.models._torch.trained import MAX_SCORE, code_domain
from margrave.models.diffusion import denoiser
from margrave.models.diffusion.denoiser import (
    cosine,
    draw_codes,
    offsets,
    one_hot,
    prior,
    spoken,
    time_features,
)
from margrave.models.diffusion.fitter import Diffusion, DiffusionModel
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.select.mst import MST

torch = import_extra("torch", __name__)

DOMAIN = Domain(("y", "n", "c", "m", "one", "w"), (2, 7, 4, 5, 1, 700), (0, 5, 0, 5, 0, 0))
RNG = np.random.default_rng(0)
WAYS = {name: RNG.dirichlet(np.ones(size)) for name, size in zip(DOMAIN.names, DOMAIN.sizes, strict=True)}
SMALL = Diffusion(widths=(24, 16), times=20, draws=3)


def _codes(rows, seed=1):
    return np.random.default_rng(seed).integers(0, DOMAIN.sizes, (rows, len(DOMAIN)))


def _learner(fitter=SMALL, target="y", scale=0.3):
    """A learner, and weights of which none is 0."""
    learner = fitter.learner(DOMAIN, target, WAYS, 100.0)
    rng, state = np.random.default_rng(5), learner.start()
    moved = [w + scale * rng.normal(size=w.shape) / np.sqrt(w.shape[1]) for w in state.weights]
    return learner, state, type(state)(tuple(moved), state.means, state.squares, state.average)


def _uniform(learner, rows, seed=2):
    return np.random.default_rng(seed).random((rows, learner.uniforms))


def test_one_step_after_another_is_the_closed_form():
    """Sheet 1: K = 3, T = 10."""
    schedule, size = cosine(10), 3
    kernel, kept = np.eye(size), 1.0
    for t, beta in enumerate(schedule.betas):
        kernel = ((1 - beta) * np.eye(size) + beta / size) @ kernel
        kept *= 1 - beta
        closed = schedule.kept[t] * np.eye(size) + (1 - schedule.kept[t]) / size
        np.testing.assert_allclose(kernel, closed, rtol=1e-12)
    assert schedule.kept[-1] < 0.01
    mean, variance = 1.0, 0.0
    for t, beta in enumerate(schedule.betas):
        mean, variance = mean * np.sqrt(1 - beta), variance * (1 - beta) + beta
        np.testing.assert_allclose([mean**2, variance], [schedule.kept[t], 1 - schedule.kept[t]], rtol=1e-9)


def test_the_way_back_is_bayes_rule():
    """Sheet 2, by enumeration for categories and by the joint normal for numbers."""
    schedule, size = cosine(10), 3
    for t in range(10):
        step = (1 - schedule.betas[t]) * np.eye(size) + schedule.betas[t] / size
        first = schedule.before[t] * np.eye(size) + (1 - schedule.before[t]) / size
        for start, now in itertools.product(range(size), range(size)):
            joint = first[start] * step[:, now]
            found = schedule.posterior(t, np.array([now]), np.eye(size)[[start]])
            np.testing.assert_allclose(found[0], joint / joint.sum(), atol=1e-12)
        weight, stay, variance = schedule.back(t)
        b, a = schedule.before[t], 1 - schedule.betas[t]
        gain = np.sqrt(a) * (1 - b) / (a * (1 - b) + schedule.betas[t])
        assert stay == pytest.approx(gain)
        assert weight == pytest.approx(np.sqrt(b) * (1 - gain * np.sqrt(a)))
        assert variance == pytest.approx((1 - b) * (1 - gain * np.sqrt(a)))


def test_the_divergence_is_nothing_for_the_truth_alone():
    """Sheet 3."""
    schedule, rng = cosine(10), np.random.default_rng(0)
    truth, now = np.eye(4)[rng.integers(0, 4, 50)], rng.integers(0, 4, 50)
    for t in range(10):
        own = schedule.posterior(t, now, truth)
        wrong = schedule.posterior(t, now, rng.dirichlet(np.ones(4), 50))
        with np.errstate(all="ignore"):
            terms = own * np.log(own / wrong)
        assert np.nansum(terms, axis=1).min() > 0
        np.testing.assert_allclose(own, schedule.posterior(t, now, truth * (1 - 1e-13) + 2.5e-14), atol=1e-9)


def test_given_the_other_columns_one_step_back_is_that_of_the_true_joint():
    """What the network says makes the reverse step exact; P(x_0 | x_t) itself would count x_t twice."""
    schedule, joint = cosine(8), np.random.default_rng(1).dirichlet(np.ones(6)).reshape(2, 3)
    for t in range(8):
        kernels = [schedule.kept[t] * np.eye(k) + (1 - schedule.kept[t]) / k for k in (2, 3)]
        before = schedule.before[t] * np.eye(3) + (1 - schedule.before[t]) / 3
        step = (1 - schedule.betas[t]) * np.eye(3) + schedule.betas[t] / 3
        for other, now in itertools.product(range(2), range(3)):
            given = (
                kernels[0][:, other] @ joint
            )  # x_0 of the second column, given the first one's noised value
            true = (given @ before) * step[:, now]
            found = schedule.posterior(t, np.array([now]), (given / given.sum())[None])
            np.testing.assert_allclose(found[0], true / true.sum(), rtol=1e-9)
            twice = given * kernels[1][:, now]
            wrong = schedule.posterior(t, np.array([now]), (twice / twice.sum())[None])
            assert t == 7 or np.abs(wrong[0] - true / true.sum()).max() > 1e-6


def test_codes_become_scores_and_values_and_come_back():
    coding, codes = code_domain(DOMAIN, "y", WAYS), _codes(5000)
    assert [number.place for number in coding.numbers] == [1, 3]
    assert [(c.place, c.size) for c in coding.categories] == [(1, 3), (2, 4), (5, 3), (5, 256)]
    uniform = np.random.default_rng(3).random((5000, 2))
    pairs = [n.scores(codes[:, n.place], uniform[:, k]) for k, n in enumerate(coding.numbers)]
    scores, known = ([pair[k] for pair in pairs] for k in range(2))
    np.testing.assert_array_equal(known[0], codes[:, 1] < 5)
    assert known[1].all()
    assert np.abs(scores).max() <= MAX_SCORE
    values = np.array([c.values[codes[:, c.place]] for c in coding.categories]).T
    found = coding.columns(codes[:, 0], np.array(scores).T, values)
    np.testing.assert_array_equal(np.array(found).T, codes)


def test_scores_are_normal_where_the_one_way_is_right():
    from scipy.stats import kstest

    coding, rng = code_domain(DOMAIN, None, WAYS), np.random.default_rng(4)
    drawn_codes = rng.choice(5, 4000, p=WAYS["m"])
    scores, _ = coding.numbers[1].scores(drawn_codes, rng.random(4000))
    assert kstest(scores, "norm").pvalue > 1e-4


def test_a_network_of_zeros_draws_independent_columns_with_the_released_shares():
    learner, state, _ = _learner(Diffusion(widths=(8,), times=40))
    said = spoken(learner.coding, learner.schedule, learner.device, learner.finished(state))
    rows = draw_codes(learner.coding, learner.schedule, said, 6000, np.random.default_rng(0))
    for name, column, size in zip(DOMAIN.names, rows, DOMAIN.sizes, strict=True):
        if size < 100:
            shares = np.bincount(column, minlength=size) / 6000
            assert np.abs(shares - WAYS[name]).max() < 0.03
    np.testing.assert_allclose(np.bincount(rows[0]) / 6000, WAYS["y"], atol=1 / 6000)
    pair = np.histogram2d(rows[2], rows[3], bins=(4, 5), range=((0, 4), (0, 5)))[0] / 6000
    assert np.abs(pair - np.outer(pair.sum(1), pair.sum(0))).max() < 0.015


def test_a_denoiser_that_knows_draws_the_one_row_there_is():
    """Sheet 4: a point mass."""
    coding, schedule = code_domain(DOMAIN, None, WAYS), cosine(20)
    row = np.array([[1, 3, 2, 0, 0, 601]])
    numbers = len(coding.numbers)
    start = np.array([n.scores(row[:, n.place], np.array([0.5]))[0][0] for n in coding.numbers])
    true = np.array([[c.values[row[0, c.place]] for c in coding.categories]])

    def said(t, scores, values, label):
        kept = schedule.kept[t]
        noise = (scores - np.sqrt(kept) * start) / np.sqrt(1 - kept)
        out = np.zeros((len(scores), numbers + coding.values))
        out[:, :numbers] = np.sqrt(kept) * noise - np.sqrt(1 - kept) * start
        out[:, numbers:] = 60 * one_hot(coding, true) - prior(coding)
        return out

    found = np.array(draw_codes(coding, schedule, said, 50, np.random.default_rng(0))).T
    np.testing.assert_array_equal(found, np.broadcast_to(row, found.shape))


@pytest.mark.parametrize("target", ["y", None])
def test_a_row_has_the_same_factors_wherever_it_stands_bit_for_bit(target):
    fitter = Diffusion(widths=(57, 33), times=20, draws=3)
    learner, _, state = _learner(fitter, target, 2.0)
    codes, uniform = _codes(67), _uniform(learner, 67)
    whole = learner.factors(state, codes, uniform)
    order = np.random.default_rng(0).permutation(67)
    for rows in ([0], [66], order[:5], order[:16], order[:33], order):
        part = learner.factors(state, codes[rows], uniform[rows])
        for pair, mine in zip(whole, part, strict=True):
            for factor, own in zip(pair, mine, strict=True):
                assert torch.equal(factor[torch.tensor(np.array(rows))], own)
        for (left, _), (full, _) in zip(clip_factors(part), clip_factors(whole), strict=True):
            assert torch.equal(full[torch.tensor(np.array(rows))], left)
    matrices = [torch.einsum("rko,rki->roi", *pair).flatten(1) for pair in clip_factors(whole)]
    squares = [sum(int(x) ** 2 for x in row) for row in torch.cat(matrices, dim=1).numpy()]
    assert 0.5 * NORM**2 < max(squares) <= NORM**2  # sheet 5


def _loss(learner, weights, codes, uniform):
    """The loss as the page has it, in ordinary arithmetic, summed over rows."""
    coding, schedule = learner.coding, learner.schedule
    scores, _, known, times, now, first = learner._add_noise(codes, uniform)
    numbers, kept = len(coding.numbers), schedule.kept[times][..., None]
    made = [scores, one_hot(coding, now), time_features(schedule)[times]]
    made.append(np.eye(coding.labels)[np.broadcast_to(codes[:, :1], times.shape)])
    x = torch.tensor(np.concatenate(made, axis=-1))
    for weight in weights[:-1]:
        x = torch.relu(torch.cat([x, torch.ones_like(x[..., :1])], -1) @ weight.T)
    out = torch.cat([x, torch.ones_like(x[..., :1])], -1) @ weights[-1].T
    # e and v from the noised scores: x_t = sqrt(kept) x_0 + sqrt(1 - kept) e
    start = np.zeros_like(scores)
    own = uniform.reshape(len(codes), learner.draws, -1)
    for k, number in enumerate(coding.numbers):
        mine = np.broadcast_to(codes[:, number.place, None], times.shape)
        start[..., k] = number.scores(mine, own[..., 1 + k])[0]
    noise = (scores - np.sqrt(kept) * start) / np.sqrt(1 - kept)
    predicted = torch.tensor(np.sqrt(kept)) * out[..., :numbers] + torch.tensor(np.sqrt(1 - kept) * scores)
    loss = ((torch.tensor(noise) - predicted) ** 2 * torch.tensor(known)).sum() / numbers
    logits = out[..., numbers:] + torch.tensor(offsets(coding, schedule, times, now))
    begin = 0
    for k, category in enumerate(coding.categories):
        logs = torch.log_softmax(logits[..., begin : begin + category.size], -1)
        truth = torch.tensor(first[..., k])[..., None]
        loss = loss - logs.gather(-1, truth).sum() / len(coding.categories)
        begin += category.size
    return loss / learner.draws


def _fine(monkeypatch):
    """Steps so fine that rounding is next to nothing."""
    monkeypatch.setattr(denoiser, "INPUT", 2.0**24)
    monkeypatch.setattr(exact, "INPUT", 2.0**24)
    monkeypatch.setattr(exact, "WEIGHT", 2.0**30)
    monkeypatch.setattr(denoiser, "LOGIT", 1024)
    table = np.rint(np.exp(-np.arange(denoiser.DEEPEST * 1024 + 1) / 1024) * 2.0**30)
    monkeypatch.setattr(denoiser, "SOFTMAX", table)


@pytest.mark.parametrize("fine", [False, True])
def test_factors_are_the_gradient_of_the_loss(monkeypatch, fine):
    """By automatic differentiation of the loss in ordinary arithmetic; closer where the steps are finer."""
    if fine:
        _fine(monkeypatch)
    learner, _, state = _learner()
    codes, uniform = _codes(400), _uniform(learner, 400)
    weights = [torch.tensor(w, requires_grad=True) for w in state.weights]
    _loss(learner, weights, codes, uniform).backward()
    found = [
        torch.einsum("rko,rki->oi", left, right) for left, right in learner.factors(state, codes, uniform)
    ]
    for own, weight in zip(found, weights, strict=True):
        error = (own - weight.grad).norm() / weight.grad.norm()
        assert error < (1e-4 if fine else 0.06)


@pytest.mark.oracle("opacus")
@pytest.mark.slow  # half a minute of imports
def test_rows_have_the_gradients_that_opacus_finds(monkeypatch):
    _fine(monkeypatch)
    grad_sample = importlib.import_module("opacus.grad_sample")
    learner, _, state = _learner()
    codes, uniform = _codes(20), _uniform(learner, 20)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(
                torch.nn.Linear(w.shape[1], w.shape[0], bias=False).double() for w in state.weights
            )

        def forward(self, x):
            for k, layer in enumerate(self.layers):
                x = torch.cat([x, torch.ones_like(x[..., :1])], -1)
                x = torch.relu(layer(x)) if k + 1 < len(self.layers) else layer(x)
            return x

    net = Net()
    for layer, weight in zip(net.layers, state.weights, strict=True):
        layer.weight.data = torch.tensor(weight)
    sampled = grad_sample.GradSampleModule(net, batch_first=True, loss_reduction="sum")
    scores, velocity, known, times, now, first = learner._add_noise(codes, uniform)
    given = torch.tensor(learner._input(scores, now, times, codes[:, 0]), requires_grad=True)
    out = sampled(given)
    out.backward(learner._loss_gradient(out.detach(), velocity, known, times, now, first))
    for layer, (left, right) in zip(net.layers, learner.factors(state, codes, uniform), strict=True):
        own = torch.einsum("rko,rki->roi", left, right)
        assert ((own - layer.weight.grad_sample).norm() / own.norm()) < 1e-4


def test_training_without_noise_lowers_the_loss():
    learner, state, _ = _learner(Diffusion(widths=(32,), times=20, draws=4, rate=0.01))
    codes = _codes(300)
    codes[:, 2] = np.minimum(codes[:, 1], 3)
    test = _uniform(learner, 300, 9)
    before = float(_loss(learner, [torch.tensor(w) for w in state.weights], codes, test))
    for step in range(80):
        sums = [
            torch.einsum("rko,rki->oi", *pair).numpy() / 3
            for pair in learner.factors(state, codes, _uniform(learner, 300, 100 + step))
        ]
        state = learner.moved(state, sums)
    after = float(_loss(learner, [torch.tensor(w) for w in learner.finished(state)], codes, test))
    assert after < 0.9 * before


def test_what_is_out_of_range_is_refused():
    for more in (
        {"times": 0}, {"draws": 0}, {"draws": 33}, {"widths": ()}, {"widths": (0,)}, {"rate": 0.0},
        {"draws": 32, "widths": (8,) * 8}, {"average": 1.0}, {"most_rows": 0},
    ):  # fmt: skip
        with pytest.raises(InputError):
            Diffusion(**more)
    with pytest.raises(InputError, match="inputs a layer"):
        Diffusion(widths=(MAX_LAYER_WIDTH + 1,)).learner(DOMAIN, "y", WAYS, 1.0)
    with pytest.raises(InputError, match="device"):
        Diffusion(device="abacus").prepare()


def test_it_does_not_learn_from_marginals_and_says_so():
    tables = [NoisyMarginal(("c",), np.array([10.0, 20.0, 30.0, 40.0]), 1.0)]
    with pytest.raises(InputError, match="marginals"):
        SMALL.fit(DOMAIN, tables)
    with pytest.raises(InputError, match="marginals"):
        MST().check_fitter(SMALL)
    with pytest.raises(ReleaseError, match="weights"):
        SMALL.restore(DOMAIN, tables, {})


def test_a_saved_model_has_its_rows_and_weights():
    learner, state, moved = _learner()
    model = SMALL.finished(learner, learner.finished(state), [], 250.4)
    assert model.project(()).sum() == pytest.approx(250.4)
    again = SMALL.restore(DOMAIN, [], model.state())
    for one, other in zip(model.weights, again.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    rng = [np.random.default_rng(0) for _ in range(2)]
    pairs = zip(model.sample(50, rng[0]).columns, again.sample(50, rng[1]).columns, strict=True)
    assert all((one == other).all() for one, other in pairs)
    same = SMALL.finished(learner, learner.finished(state), [], 250.4)
    np.testing.assert_array_equal(same.project(("n", "c")), model.project(("n", "c")))
    assert (model.sample(30, rng[0], {"y": 1}).column("y") == 1).all()
    assert moved.weights[0].shape == state.weights[0].shape
    for change in (
        {"denoiser_1": np.zeros((3, 3))},
        {"denoiser_0": np.full((24, 9), np.nan)},
        {"denoiser_9": 0},
    ):
        with pytest.raises(ReleaseError):
            DiffusionModel.read_weights(model.state() | change)
