"""DP-MERF against its sheet: how far a row moves the embedding, one release, weights that are followed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
import margrave.measure.curator as door
from margrave.engines.memory import MemorySource
from margrave.measure.mechanisms.moments import sum_embedded, wave
from margrave.models.networks.merf import Merf
from margrave.models.networks.network import Network
from margrave.release import NoisyMarginal, NoisyMoments
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.features import Embedding, fourier
from margrave.select.from_rows import MeanEmbedding

DOMAIN = Domain(("y", "a", "b", "c", "d"), (3, 12, 9, 4, 3), (0, 12, 8, 0, 0))
LISTED = ("c", "d")
DIGITS = 14
WAVE = wave(1 << DIGITS)
TINY = Merf(network=Network(components=30, noise=8, widths=(24,), steps=150, rate=0.02), features=16)
needs_torch = pytest.mark.needs_extra("torch")


def row(codes: list[int]) -> Encoded:
    return Encoded(DOMAIN, tuple(np.array([code], dtype=np.uint8) for code in codes))


def phi(codes: list[int], features: Embedding) -> tuple[np.ndarray, np.ndarray]:
    """One row's part in the sums, in blocks of length 1: [labels, 2 frequencies], [labels, listed codes]."""
    waves = sum_embedded(row(codes), features, WAVE) / (2**DIGITS * math.sqrt(features.frequencies))
    hot = np.zeros((DOMAIN["y"], sum(DOMAIN[name] for name in LISTED)))
    start = 0
    for name in LISTED:
        hot[codes[0], start + codes[DOMAIN.index(name)]] = 1 / math.sqrt(len(LISTED))
        start += DOMAIN[name]
    return waves, hot


def drawn(rng: np.random.Generator) -> list[int]:
    return [int(rng.integers(size)) for size in DOMAIN.sizes]


def test_each_block_of_a_rows_features_has_length_one() -> None:
    features = fourier(DOMAIN, "y", 40, None, np.random.default_rng(0))
    rng = np.random.default_rng(1)
    for _ in range(200):
        waves, hot = phi(drawn(rng), features)
        length = float((waves**2).sum())
        assert 1 - 4 / 2**DIGITS < length <= 1  # cut towards 0, never up
        assert (hot**2).sum() == pytest.approx(1.0)


def test_no_exchange_of_a_row_moves_the_embedding_further_than_root_six() -> None:
    """2 root 2 is the published bound. Alike labels: 4 + 2; unlike ones fall into other columns: 2 + 2."""
    features = fourier(DOMAIN, "y", 3, 0.1, np.random.default_rng(0))
    rng = np.random.default_rng(2)
    furthest = {True: 0.0, False: 0.0}
    for _ in range(4000):
        one, two = drawn(rng), drawn(rng)
        (waves, hot), (waves_2, hot_2) = phi(one, features), phi(two, features)
        squared = float(((waves - waves_2) ** 2).sum() + ((hot - hot_2) ** 2).sum())
        assert squared <= 6 <= 8
        furthest[one[0] == two[0]] = max(furthest[one[0] == two[0]], squared)
    assert furthest[True] > 5.0
    assert 3.9 < furthest[False] <= 4.0


SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=0, upper=99, bins=10, missing=False),
        mg.Real(name="pay", lower=0, upper=1, bins=8, missing=False),
        mg.Categorical(name="sex", values=("F", "M"), missing=False),
        mg.Categorical(name="town", values=("x", "y", "z"), missing=False),
    )
)


def people(rows: int = 400) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "age": rng.integers(0, 100, rows),
            "pay": rng.random(rows),
            "sex": rng.choice(["F", "M"], rows),
            "town": rng.choice(["x", "y", "z"], rows),
        }
    )


@needs_torch
def test_training_again_never_comes_back_to_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """One release; after it every way to the rows is shut, and the generator is trained twice more."""
    synthesis = mg.Synthesizer(
        select=MeanEmbedding(target="sex", frequencies=20), model=TINY, epsilon=2.0, schema=SCHEMA
    ).fit(people())
    spent = synthesis.release.events

    def shut(*_: Any, **__: Any) -> Any:
        raise AssertionError("the table was asked again")

    for owner, name in ((door.Curator, "_recall_counts"), (door.Curator, "moments"), (MemorySource, "bind")):
        monkeypatch.setattr(owner, name, shut)
    model, domain = synthesis.model, synthesis.schema.domain
    again = [
        TINY.fit_moments(domain, synthesis.measurements, model.moments)  # type: ignore[attr-defined]
        for _ in range(2)
    ]
    for other in again:
        np.testing.assert_array_equal(other.project(("sex", "age")), model.project(("sex", "age")))
    assert synthesis.release.events == spent
    assert len(spent) == 3


@needs_torch
@pytest.mark.parametrize("share", [0.2, 0.5])
def test_labels_come_in_the_proportions_that_were_released(share: float) -> None:
    """The released weights are off on purpose; rows follow them and not what the moments hint at."""
    domain = Domain(("y", "a"), (2, 6), (0, 6))
    features = fourier(domain, "y", 12, None, np.random.default_rng(1))
    rows = Encoded(domain, (np.repeat([0, 1], [700, 300]), np.arange(1000) % 6))
    sums = sum_embedded(rows, features, WAVE) / 2**DIGITS
    weights = NoisyMarginal(("y",), np.array([1 - share, share]) * 1000, 2.0)
    model = TINY.fit_moments(domain, [weights], NoisyMoments(features, sums, 300.0))
    found = model.sample(2000, np.random.default_rng(0)).column("y")
    assert np.mean(found) == pytest.approx(share, abs=0.02)
