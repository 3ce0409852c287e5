"""Canary audit of `train`: do its noisy gradients tell neighbours apart better than they are priced?

The learner keeps every noisy sum and gives a gradient to the canary's row alone, as long as may be: what one
row can move most. The attacker adds up the log-likelihood ratios of all steps, the canary taken with
probability q in each. What it may find out at most is that of the mechanism that is paid for, by simulation:
a sharper curve than (epsilon, delta), which these few runs could not contradict. With the noise halved, with
the clipping left out, or with every row taken instead of a sample, the audit must find the violation.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import beta

import margrave.measure.mechanisms.gradients as door
from extras import import_extra
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import Renyi
from margrave.privacy.accounting.events import SubsampledGaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.schema import Schema

torch = import_extra("torch", __name__)

STEPS, RATE, EPSILON, DELTA, ORDER, PLAIN = 6, Fraction(1, 4), 8.0, 1e-5, 3, 10


@dataclasses.dataclass(frozen=True)
class Keeper:
    """Keeps what it is given; the canary's gradient is as long as the clip, or `times` that."""

    times: float = 1.0
    shapes: tuple[tuple[int, int], ...] = ((1, 1),)
    uniforms: int = 1

    def start(self) -> tuple[float, ...]:
        return ()

    def factors(self, state: Any, codes: NDArray[np.int64], uniform: Any) -> list[tuple[Any, Any]]:
        left = torch.tensor(codes[:, :1, None], dtype=torch.float64) * self.times
        return [(left, torch.ones_like(left))]

    def moved(self, state: Any, gradients: Sequence[NDArray[np.float64]]) -> Any:
        return (*state, float(gradients[0][0, 0]))

    def finished(self, state: Any) -> tuple[NDArray[np.float64], ...]:
        return (np.array([*state, *[0.0] * (STEPS - len(state))]),)


def _ratio(found: NDArray[np.float64], variance: float) -> NDArray[np.float64]:
    """Log-likelihood ratios of runs [runs, steps], with and without the canary: [runs]."""
    gains = np.exp((2 * found - 1) / (2 * variance))
    return np.asarray(np.log1p(float(RATE) * (gains - 1)).sum(axis=1))


def _answers(canary: bool, times: float) -> tuple[NDArray[np.float64], float]:
    """What one run releases, and the variance that it is priced at."""
    codes = np.array([0] * PLAIN + [1] * canary)
    ledger = Ledger(epsilon=EPSILON, delta=DELTA, neighbours=Neighbours(), accountant=Renyi(ORDER))
    curator = Curator(open_source(pa.table({"a": codes}))[0], ledger)
    curator.discover(Schema.from_sizes({"a": 2}))
    (found,) = curator.train(Keeper(times), ledger.total, steps=STEPS, rate=RATE)
    (event,) = ledger.events
    assert isinstance(event, SubsampledGaussianEvent)
    return found, float(event.sigma_squared) / event.l2_squared


@cache
def _priced(variance: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sorted scores of the mechanism that is paid for, without and with the canary."""
    rng, shape = np.random.default_rng(0), (400_000, STEPS)
    noise = rng.normal(0, math.sqrt(variance), (2, *shape))
    noise[1] += rng.random(shape) < float(RATE)
    return np.sort(_ratio(noise[0], variance)), np.sort(_ratio(noise[1], variance))


def _allowed(false_rate: float, variance: float) -> float:
    """The largest true positive rate of the mechanism that is paid for (Neyman and Pearson)."""
    null, alt = _priced(variance)
    return float(1 - np.searchsorted(alt, np.quantile(null, 1 - false_rate)) / len(alt))


def _violated(runs: int, times: float = 1.0) -> bool:
    """Whether scores of half of the runs, at a threshold picked on the others, exceed what is paid for."""
    sides = [[_answers(canary, times) for _ in range(runs)] for canary in (False, True)]
    variance = sides[0][0][1]
    null, alt = (_ratio(np.array([found for found, _ in side]), variance) for side in sides)
    half = runs // 2
    bars = np.quantile(null[:half], np.linspace(0.3, 0.98, 18))
    falses = [min(max(float((null[:half] >= bar).mean()), 2 / half), 1.0) for bar in bars]
    excess = [
        (alt[:half] >= bar).mean() - _allowed(rate, variance) for bar, rate in zip(bars, falses, strict=True)
    ]
    bar, rest = bars[int(np.argmax(excess))], runs - half
    false, true = int((null[half:] >= bar).sum()), int((alt[half:] >= bar).sum())
    high = float(beta.ppf(0.9995, false + 1, rest - false)) if false < rest else 1.0
    low = float(beta.ppf(0.0005, true, rest - true + 1)) if true else 0.0
    return low > _allowed(high, variance)


def _halve_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = door.rounded_gaussian
    monkeypatch.setattr(door, "rounded_gaussian", lambda v, size, source: honest(v / 4, size, source))


def _take_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "sample_places", lambda rows, rate, noise: np.arange(rows))


def _leave_out_the_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    def unclipped(factors: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        return [((left * 2**14).round(), (right * 2**8).round()) for left, right in factors]

    monkeypatch.setattr(door, "clip_factors", unclipped)


def test_an_honest_training_is_not_accused_and_one_without_a_clip_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _violated(120, 8.0)
    _leave_out_the_clip(monkeypatch)
    assert _violated(120, 8.0)


@pytest.mark.slow
@pytest.mark.parametrize("times", [0.9, 1.0, 8.0])
def test_no_violation_of_a_training_is_found(times: float) -> None:
    assert not _violated(1500, times)


@pytest.mark.slow
@pytest.mark.parametrize("cheat", [_halve_the_noise, _take_all])
def test_a_training_with_less_noise_or_no_sampling_is_found(
    cheat: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cheat(monkeypatch)
    assert _violated(1500)
