"""The generator network: GEM's sheet, against torch's own layers and against rows drawn."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from margrave.errors import InputError, MissingExtraError
from margrave.limits import Deadline, Effort
from margrave.models._products.products import Generator
from margrave.models._torch.device import open_device
from margrave.models.networks.network import Network
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

pytestmark = pytest.mark.needs_extra("torch")

DOMAIN = Domain(("a", "b", "c"), (4, 3, 6), (0, 0, 5))
PAIRS = list(itertools.combinations(DOMAIN.names, 2))
QUICK = Network(components=60, noise=16, widths=(32, 32), steps=300, rate=0.01)
ROWS = 600.0


def joint():
    rng = np.random.default_rng(0)
    parts = [rng.dirichlet(np.full(size, 0.5), size=3) for size in DOMAIN.sizes]
    return ROWS * sum(
        w * np.einsum("a,b,c->abc", *(p[k] for p in parts)) for k, w in enumerate((0.5, 0.3, 0.2))
    )


def exact(clique):
    return joint().sum(axis=tuple(i for i, name in enumerate(DOMAIN.names) if name not in clique))


def measured(sigma):
    rng = np.random.default_rng(1)
    return [NoisyMarginal(c, exact(c) + sigma * rng.normal(size=DOMAIN.shape(c)), sigma) for c in PAIRS]


def apart(model):
    return float(np.mean([0.5 * np.abs(model.project(c) - exact(c)).sum() / ROWS for c in PAIRS]))


def test_the_network_is_made_of_torchs_layers():
    on = open_device("torch-cpu")
    torch, rng = on.torch, np.random.default_rng(0)
    made = Generator(on, 5, (7, 4), DOMAIN.sizes, rng)
    noise = on.put(rng.standard_normal((9, 5)), torch.float32)
    weights = made.start + 0.1 * on.put(rng.standard_normal(len(made.start)), torch.float32)
    asked = weights.clone().requires_grad_()
    parts, at = made.parts(asked), noise
    for k, wide in ((0, 7), (3, 4)):
        offset = on.put(rng.standard_normal(wide), torch.float32)  # the normalisation takes it out again
        linear = torch.nn.functional.linear(at, parts[k], offset)
        norm = torch.nn.functional.batch_norm(linear, None, None, *parts[k + 1 : k + 3], training=True)
        at = torch.cat([torch.relu(norm), at], 1)
    logits = torch.nn.functional.linear(at, parts[6], parts[7])
    wanted = torch.cat([torch.softmax(part, 1) for part in torch.split(logits, list(DOMAIN.sizes), 1)], 1)
    found = made(made.parts(weights), noise)
    np.testing.assert_allclose(found.shares.numpy(), wanted.detach().numpy().T, atol=1e-6)
    slope = on.put(rng.standard_normal(found.shares.shape), torch.float32)
    (wanted.T * slope).sum().backward()
    into = torch.full_like(weights, np.nan)
    made.gradient(made.parts(weights), found, slope, made.parts(into))
    np.testing.assert_allclose(into.numpy(), asked.grad.numpy(), atol=1e-5)


def test_one_pair_without_noise_is_found_again():
    table = NoisyMarginal(("a", "c"), exact(("a", "c")), 1.0)
    model = dataclasses.replace(QUICK, floor=0.0).fit(DOMAIN, [table], total=ROWS)
    assert 0.5 * np.abs(model.project(("a", "c")) - table.values).sum() / ROWS < 1e-2


def test_answers_are_those_of_the_rows_it_draws():
    model = QUICK.fit(DOMAIN, measured(3.0), total=ROWS)
    assert apart(model) < 0.03
    rows = 40_000
    found = model.sample(rows, np.random.default_rng(0))
    for clique in PAIRS:
        counts = np.zeros(DOMAIN.shape(clique))
        np.add.at(counts, tuple(found.column(name) for name in clique), 1)
        expected = model.project(clique) / ROWS
        assert np.abs(counts / rows - expected).max() < 5 * np.sqrt(expected.max() / rows)


def test_a_fit_depends_on_its_seed_alone_and_starts_and_ends_where_it_should():
    tables = measured(3.0)
    one, two = (QUICK.fit(DOMAIN, tables, total=ROWS) for _ in range(2))
    np.testing.assert_array_equal(one.project(("a", "b")), two.project(("a", "b")))
    rough, late = Effort(rough=True), Effort(deadline=Deadline(0.0))
    warm = QUICK.fit(DOMAIN, tables, total=ROWS, warm=one, effort=rough)
    cold = QUICK.fit(DOMAIN, tables, total=ROWS, effort=rough)
    none = QUICK.fit(DOMAIN, tables, total=ROWS, effort=late)
    assert apart(warm) < 1.5 * apart(one) + 0.01
    assert apart(one) < apart(cold) < 0.8 * apart(none)
    assert len(warm.weights) == len(one.weights) == 8
    assert any((a != b).any() for a, b in zip(warm.weights, cold.weights, strict=True))


def test_a_fit_comes_as_near_as_the_noise_and_no_nearer():
    tables = measured(9.0)
    off = []
    for floor in (1.0, 0.0):
        model = dataclasses.replace(QUICK, floor=floor).fit(DOMAIN, tables, total=ROWS)
        left = [((model.project(t.clique) - t.values) / t.sigma).ravel() for t in tables]
        off.append(float((np.concatenate(left) ** 2).mean()))
    assert 0.8 < off[0] < 1.01
    assert off[1] < off[0] - 0.05


@pytest.mark.parametrize("settings", [{"resample": True}, {"average": 0.0}, {"widths": ()}])
def test_other_ways_to_train_come_near_as_well(settings):
    fitter = Network(
        **{"components": 60, "noise": 16, "widths": (32,), "steps": 300, "rate": 0.01, **settings}
    )
    assert apart(fitter.fit(DOMAIN, measured(3.0), total=ROWS)) < 0.1


def test_averaged_weights_are_means_of_the_second_half():
    tables = measured(3.0)
    short = {"components": 30, "noise": 8, "widths": (8,), "steps": 10}
    last = Network(**short, average=0.0).fit(DOMAIN, tables).weights
    mean = Network(**short, average=0.9).fit(DOMAIN, tables).weights
    assert [w.shape for w in last] == [w.shape for w in mean]
    assert max(float(np.abs(a - b).max()) for a, b in zip(last, mean, strict=True)) > 0


def test_a_loaded_model_needs_no_torch(monkeypatch):
    tables = measured(3.0)
    fitter = Network(components=10, noise=4, widths=(8,), steps=3)
    model = fitter.fit(DOMAIN, tables)
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    again = fitter.restore(DOMAIN, tables, model.state())
    np.testing.assert_array_equal(again.project(DOMAIN.names), model.project(DOMAIN.names))
    with pytest.raises(MissingExtraError, match="margrave"):
        fitter.admit(DOMAIN, [])


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        ({"components": 1}, "components"),
        ({"widths": (4, 0)}, "widths"),
        ({"rate": 0.0}, "rate"),
        ({"average": 1.0}, "average"),
        ({"steps": 0}, "steps"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_settings_out_of_range_are_refused(settings, param):
    with pytest.raises(InputError, match=param):
        Network(**settings)


@pytest.mark.parametrize("seed", [0, 1])
def test_a_loss_that_leaps_in_the_last_steps_does_no_harm(seed):
    domain, shares = Domain(("a", "d"), (3, 4)), ([0.24, 0.49, 0.27], [0.4, 0.3, 0.2, 0.1])
    sharp = [
        NoisyMarginal((n,), 400.0 * np.array(s), 1e-3) for n, s in zip(domain.names, shares, strict=True)
    ]
    model = Network(seed=seed).fit(domain, sharp)
    for measured in sharp:
        np.testing.assert_allclose(model.project(measured.clique), measured.values, atol=0.5)
