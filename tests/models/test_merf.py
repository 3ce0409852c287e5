"""Merf: exact embeddings of mixtures, the sheet's invariants, releases that hold all that was released."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.errors import InputError, ReleaseError
from margrave.limits import Deadline, Effort
from margrave.measure.mechanisms.moments import sum_embedded, wave
from margrave.models._torch.device import open_device
from margrave.models.networks.merf import Merf, MerfModel, Waves, remembered_moments
from margrave.models.networks.network import Network
from margrave.release import NoisyMarginal, NoisyMoments
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.features import fourier
from margrave.select.aim import AIM
from margrave.select.from_rows import MeanEmbedding

pytestmark = pytest.mark.needs_extra("torch")

DOMAIN = Domain(("y", "a", "b", "c"), (2, 8, 6, 3), (0, 8, 5, 0))
ROWS = 3000
SMALL = Merf(Network(components=80, noise=8, widths=(48,), steps=300, rate=0.02), features=64)


def rows_drawn():
    """Numbers that rise together under one label and against each other under the other one."""
    rng = np.random.default_rng(0)
    y = (rng.random(ROWS) < 0.3).astype(int)
    a = rng.integers(0, 8, ROWS)
    b = np.clip(np.where(y == 1, a, 7 - a) * 4 // 7 + rng.integers(0, 2, ROWS), 0, 4)
    b[rng.random(ROWS) < 0.02] = 5
    c = np.where(rng.random(ROWS) < 0.8, y, 2)
    return Encoded(DOMAIN, tuple(column.astype(np.uint8) for column in (y, a, b, c)))


def exact(clique, rows=None):
    held, table = rows_drawn() if rows is None else rows, np.zeros(DOMAIN.shape(clique))
    np.add.at(table, tuple(held.column(name) for name in clique), 1)
    return table


def released(label="y", frequencies=200, sigma=3.0):
    features = fourier(DOMAIN, label, frequencies, 0.15, np.random.default_rng(1))
    rng, sums = np.random.default_rng(2), sum_embedded(rows_drawn(), features, wave(1 << 14)) / 2**14
    tables = [
        NoisyMarginal(clique, exact(clique) + sigma * rng.normal(size=DOMAIN.shape(clique)), sigma)
        for clique in (("y",), ("y", "c"))
    ]
    return tables, NoisyMoments(features, sums + sigma * rng.normal(size=sums.shape), sigma)


def one_hot(rows):
    """Rows as products that are certain, shape [codes, rows]."""
    return np.concatenate(
        [np.eye(size)[column].T for size, column in zip(DOMAIN.sizes, rows.columns, strict=True)]
    )


@pytest.mark.parametrize("label", ["y", None])
def test_the_loss_of_the_true_rows_is_nothing(label):
    rows, on = rows_drawn(), open_device("torch-cpu")
    features = fourier(DOMAIN, label, 30, None, np.random.default_rng(1))
    sums = sum_embedded(rows, features, wave(1 << 14)) / 2**14
    waves = Waves(DOMAIN, NoisyMoments(features, sums, 1.0), ROWS, on)
    shares, every = on.put(one_hot(rows), on.torch.float32), slice(0, 30)
    assert (
        float(waves.value_and_slope(shares, every)[0]) / waves.count < 0.2
    )  # sums are cut to steps, and float32
    wrong = on.put(
        one_hot(Encoded(DOMAIN, (rows.columns[0], rows.columns[1][::-1], *rows.columns[2:]))),
        on.torch.float32,
    )
    assert float(waves.value_and_slope(wrong, every)[0]) / waves.count > 50


def test_the_embedding_of_a_mixture_is_that_of_the_rows_it_draws():
    tables, moments = released()
    model = SMALL.fit_moments(DOMAIN, tables, moments)
    on, inner = open_device("torch-cpu"), model.inner
    waves = Waves(DOMAIN, moments, ROWS, on)
    means = waves.means(on.put(inner.shares, on.torch.float32), slice(0, 200)).numpy()
    drawn = model.sample(100_000, np.random.default_rng(0))
    sums = sum_embedded(drawn, moments.embedding, wave(1 << 14)) / 2**14 / 100_000
    np.testing.assert_allclose(sums.reshape(2, 2, 200).transpose(1, 2, 0), means, atol=5 / np.sqrt(100_000))


def test_some_features_estimate_the_misfit_of_all():
    on = open_device("torch-cpu")
    waves = Waves(DOMAIN, released()[1], ROWS, on)
    shares = on.put(np.concatenate([np.full((s, 4), 1 / s) for s in DOMAIN.sizes]), on.torch.float32)
    whole = float(waves.value_and_slope(shares, slice(0, 200))[0])
    parts = [float(waves.value_and_slope(shares, slice(k, k + 50))[0]) for k in range(0, 200, 50)]
    assert np.mean(parts) == pytest.approx(whole, rel=1e-4)


@pytest.mark.parametrize("label", ["y", None])
def test_the_derivative_of_the_misfit_is_its_slope(label):
    on, rng = open_device("torch-cpu"), np.random.default_rng(3)
    waves = Waves(DOMAIN, released(label)[1], ROWS, on)
    shares = np.concatenate([rng.dirichlet(np.ones(size), 5).T for size in DOMAIN.sizes])
    at, way = (on.put(x, on.torch.float32) for x in (shares, rng.standard_normal(shares.shape)))
    slope = float((waves.value_and_slope(at, slice(20, 60))[1] * way).sum())
    ahead, behind = (
        float(waves.value_and_slope(at + step * way, slice(20, 60))[0]) for step in (0.002, -0.002)
    )
    assert (ahead - behind) / 0.004 == pytest.approx(slope, rel=5e-3)


def test_dependence_of_numbers_by_label_is_found_and_weights_are_followed():
    tables, moments = released()
    model = SMALL.fit_moments(DOMAIN, tables, moments)
    assert model.total == pytest.approx(ROWS, rel=0.05)
    for clique, most in ((("y",), 0.02), (("y", "c"), 0.04), (("y", "a", "b"), 0.2)):
        apart = 0.5 * np.abs(model.project(clique) / model.total - exact(clique) / ROWS).sum()
        assert apart < most, clique
    signs = []
    for label in (0, 1):
        rows = model.sample(4000, np.random.default_rng(0), {"y": label})
        assert (rows.column("y") == label).all()
        seen = rows.column("b") < 5
        signs.append(np.corrcoef(rows.column("a")[seen], rows.column("b")[seen])[0, 1])
    assert signs[0] < -0.5
    assert signs[1] > 0.5
    alone = SMALL.fit_moments(DOMAIN, tables, dataclasses.replace(moments, sigma=1e9))
    far = 0.5 * np.abs(alone.project(("y", "a", "b")) / alone.total - exact(("y", "a", "b")) / ROWS).sum()
    assert far > 0.4  # it is the moments that tell


def test_a_fit_depends_on_its_seed_alone_and_ends_at_the_deadline():
    tables, moments = released(frequencies=20)
    quick = Merf(Network(components=8, noise=4, widths=(8,), steps=6), features=5)
    one, two = (quick.fit_moments(DOMAIN, tables, moments).project(("a", "b")) for _ in range(2))
    np.testing.assert_array_equal(one, two)
    late = quick.fit_moments(DOMAIN, tables, moments, effort=Effort(deadline=Deadline(0.0)))
    assert (late.project(("a", "b")) != one).any()


def test_large_attributes_are_grouped_and_come_back_whole():
    tables, moments = released(frequencies=60)
    grouping = dataclasses.replace(SMALL, network=dataclasses.replace(SMALL.network, largest=4, steps=120))
    model = grouping.fit_moments(DOMAIN, tables, moments)
    assert model.domain.sizes == DOMAIN.sizes
    assert model.project(("a", "b")).shape == (8, 6)
    assert int(model.sample(500, np.random.default_rng(0)).column("a").max()) == 7
    back = grouping.restore(DOMAIN, tables, model.state())
    np.testing.assert_allclose(back.project(("y", "a")), model.project(("y", "a")), rtol=1e-9)


def test_without_moments_it_is_a_network_and_goes_with_any_strategy():
    tables, _ = released()
    own, other = SMALL.fit_moments(DOMAIN, tables, None), SMALL.network.fit(DOMAIN, tables)
    np.testing.assert_array_equal(own.project(("y", "c")), other.project(("y", "c")))
    table = pa.table({"a": [0, 1] * 60, "b": [0, 1, 1] * 40})
    tiny = Merf(Network(components=4, noise=2, widths=(4,), steps=3))
    schema = mg.Schema.from_sizes({"a": 2, "b": 2})
    found = mg.Synthesizer(select=AIM(rounds=2), model=tiny, epsilon=1.0, schema=schema).fit(table)
    assert found.sample(5).num_rows == 5


def _synthesis(adjacency="add_remove"):
    rows = rows_drawn()
    table = pa.table(dict(zip(DOMAIN.names, rows.columns, strict=True)))
    schema = mg.Schema(
        (
            mg.Categorical(name="y", values=("0", "1"), missing=False),
            mg.Integer(name="a", lower=0, upper=7, missing=False),
            mg.Integer(name="b", lower=0, upper=5, missing=False),
            mg.Categorical(name="c", values=("0", "1", "2"), missing=False),
        )
    )
    table = table.set_column(0, "y", table["y"].cast(pa.string())).set_column(
        3, "c", table["c"].cast(pa.string())
    )
    quick = Merf(Network(components=10, noise=4, widths=(8,), steps=10), features=8)
    strategy = MeanEmbedding(target="y", frequencies=12)
    return mg.Synthesizer(select=strategy, model=quick, epsilon=1.0, schema=schema, adjacency=adjacency).fit(
        table
    )


def test_a_release_holds_all_that_was_released_and_is_used_without_pytorch(tmp_path):
    found = _synthesis()
    found.save(tmp_path / "r.margrave")
    again = mg.load(tmp_path / "r.margrave")
    assert isinstance(again.model, MerfModel)
    np.testing.assert_array_equal(again.model.moments.values, found.model.moments.values)
    assert again.model.moments.sigma == found.model.moments.sigma
    for one, two in zip(
        again.model.moments.embedding.phases, found.model.moments.embedding.phases, strict=True
    ):
        np.testing.assert_array_equal(one, two)
    assert again.sample(50, rng=1).equals(found.sample(50, rng=1))
    retrained = SMALL.fit_moments(again.schema.domain, again.measurements, again.model.moments)
    assert retrained.sample(5, np.random.default_rng(0)).rows == 5
    code = (
        "import sys; sys.modules['torch'] = None; import margrave as mg; "
        f"print(mg.load({str(tmp_path / 'r.margrave')!r}).sample(7, rng=0).num_rows)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "7"


def test_public_rows_are_the_models_total():
    assert _synthesis("replace_one").rows == ROWS


@pytest.mark.parametrize(
    "harm",
    [
        {"moments_sigma": np.asarray(0.0)},
        {"moments_label": np.asarray(9.0)},
        {"moments_columns": np.array([1.0, 99.0])},
        {"moments_columns": np.array([1.0])},
        {"moments_phases": np.full((14, 12), -1.0)},
        {"moments_phases": np.zeros(3)},
        {"moments_values": np.full((2, 24), np.nan)},
        {"moments_values": np.zeros((2, 5))},
        {"moments_sigma": None},
    ],
)
def test_damaged_moments_are_refused(harm):
    tables, moments = released(frequencies=12)
    model = Merf(Network(components=4, noise=2, widths=(4,), steps=2), features=4)
    state = model.fit_moments(DOMAIN, tables, moments).state() | harm
    with pytest.raises(ReleaseError, match="moments"):
        remembered_moments(DOMAIN, {key: value for key, value in state.items() if value is not None})


def test_arguments_out_of_range_are_refused():
    with pytest.raises(InputError, match="features"):
        Merf(features=0)
