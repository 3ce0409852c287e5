"""Canary audits of the named methods by name, with their own strategy, settings made small, and generator.

`test_audit.py` audits strategies with a model that is quick to fit. Here are the named methods whose settings
or answers are not among those: rounds of drawn marginals, all pairs alike, Fourier moments. The attacker has
both tables and adds up the log-likelihood ratio of everything Gaussian that a run released, moments included.
With the noise cut to a quarter each audit must find the violation; with the honest noise it must not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from test_audit import STRATEGIES, told_apart
from torch_fitters import NEEDS_TORCH, TINY

import margrave.measure.mechanisms.gaussian as door
from margrave import Integer, Schema, Synthesis, Synthesizer
from margrave.measure.mechanisms.moments import sum_embedded, wave
from margrave.methods import METHODS
from margrave.models.gated import Gated
from margrave.models.networks.merf import Merf
from margrave.models.rowwise.genetic import Genetic
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.residual import Residual
from margrave.privacy.unit import Adjacency
from margrave.schema.encode import encode

SIZES = {"a": 2, "b": 3, "c": 2}
SCHEMA = Schema(
    tuple(
        Integer(name="b", lower=0, upper=2, bins=3, missing=False) if column.name == "b" else column
        for column in Schema.from_sizes(SIZES).columns
    )
)
EPSILON, DELTA, RUNS = 8.0, 1e-5, 160
WAVE = wave(1 << 14)
FITTERS: dict[str, Callable[[], Any]] = TINY | {
    "gated": lambda: Gated(components=4, steps=10),
    "genetic": lambda: Genetic(rows=100, rounds=2),
    "merf": lambda: Merf(network=TINY["network"](), features=8),
    "residual": lambda: Residual(rows=GUM(rows=100, iterations=2)),
}
SMALLER: dict[str, dict[str, Any]] = {
    "aim_grem": {"rounds": 8},
    "dp_merf": {"target": "c", "frequencies": 15},
    "gem": {"rounds": 3},
    "mwem": {"rounds": 3},
    "privpgd": {},
    "rap": {"rounds": 2, "q": 2},
    "rap_pp": {"rounds": 1, "q": 3},
    "jam": {"rounds": 3, "degree": 2},
    "vgem": {"rounds": 3, "degree": 2},
    "vjam": {"rounds": 3, "degree": 2},
    "vpmw": {"rounds": 3, "degree": 2},
}
"""Settings with which a run takes some hundredths of a second; what is spent is the same. A method without
any here is audited with its own."""
BY_STRATEGY = {
    "aim": "aim",
    "auto": "auto",
    "batched": "batched",
    "independent": "independent",
    "mst": "mst",
    "privmrf": "privmrf",
    "privsyn": "privsyn",
    "residual_planner": "residual planner",
}
"""Methods whose strategy is audited in `test_audit.py`, by the name it has there."""
ELSEWHERE = {"conditional_aim", "dpsgd_gan", "pate_gan", "slice_fdiv", "slice_wass", "slicing", "tabddpm"}
"""Methods that answer no marginals alone and are audited where their verb is; and `conditional_aim`, whose
draws and measurements are those of `aim`."""


def _tables(adjacency: Adjacency) -> tuple[pa.Table, pa.Table]:
    """Neighbours: without the canary, which has codes that go with no other row's, and with it."""
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 60)
    base = np.array([a, np.where(rng.random(60) < 0.8, a, 1), rng.integers(0, 2, 60)])
    plain, canary = np.zeros((3, 1), int), np.array([[1], [2], [1]])
    first = base if adjacency == "add_remove" else np.hstack([base, plain])
    sides = (first, np.hstack([base, canary]))
    one, two = (pa.table(dict(zip(SIZES, side, strict=True))) for side in sides)
    return one, two


def _exact(table: pa.Table, clique: tuple[str, ...]) -> NDArray[np.float64]:
    counts = np.zeros([SIZES[name] for name in clique])
    np.add.at(counts, tuple(table[name].to_numpy() for name in clique), table.num_rows if not clique else 1)
    return counts


def _score(made: Synthesis, sides: tuple[pa.Table, pa.Table]) -> float:
    """The log-likelihood ratio of all Gaussian answers of a run, up to a constant."""
    total = 0.0
    for m in made.measurements:
        low, high = (_exact(side, m.clique) for side in sides)
        total += float(((m.values - (low + high) / 2) * (high - low) / m.sigmas**2).sum())
    moments = getattr(made.model, "moments", None)
    if moments is not None:
        low, high = (
            sum_embedded(encode(side, SCHEMA), moments.embedding, WAVE) / (1 << 14) for side in sides
        )
        total += float(((moments.values - (low + high) / 2) * (high - low)).sum()) / moments.sigma**2
    return total


def _public_tables() -> tuple[pa.Table, pa.Table]:
    """Neighbours that differ in the private part of one row: `a` is public."""
    first, second = _tables("replace_one")
    return first.set_column(0, "a", second["a"]), second


def _violated(name: str, adjacency: Adjacency) -> bool:
    public = ["a"] if adjacency == "replace_private" else []
    method, sides = METHODS[name], _public_tables() if public else _tables(adjacency)
    strategy = dataclasses.replace(method.strategy(), **SMALLER.get(name, {}))  # type: ignore[type-var]
    fitter = FITTERS[method.fitter]() if method.fitter in FITTERS else method.fitter
    found = []
    for table in sides:
        for _ in range(RUNS):
            made = Synthesizer(
                name,
                epsilon=EPSILON,
                delta=DELTA,
                adjacency=adjacency,
                public=public,
                schema=SCHEMA,
                select=strategy,
                model=fitter,
            ).fit(table)
            found.append(_score(made, sides))
    return told_apart(np.array(found[:RUNS]), np.array(found[RUNS:]), made.guarantee.rho)


def _quarter_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("discrete_gaussian", "rounded_gaussian"):
        honest = getattr(door, name)

        def cheat(variance: Fraction, size: int, source: Any, honest: Any = honest) -> Any:
            return honest(variance / 16, size, source)

        monkeypatch.setattr(door, name, cheat)


NAMES = [
    pytest.param(name, marks=[NEEDS_TORCH] if METHODS[name].fitter in (*TINY, "merf") else [])
    for name in METHODS
    if name not in ELSEWHERE and name not in BY_STRATEGY
]
"""All others, so that a method is audited as soon as it has its name."""


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", NAMES)
def test_a_named_method_is_no_easier_to_tell_than_it_claims(name: str, adjacency: Adjacency) -> None:
    assert not _violated(name, adjacency)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
@pytest.mark.parametrize("name", NAMES)
def test_a_quarter_of_the_noise_is_found(
    name: str, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    _quarter_the_noise(monkeypatch)
    assert _violated(name, adjacency)


@pytest.mark.slow
@pytest.mark.parametrize("quarter", [False, True])
@pytest.mark.parametrize("name", ["jam", "vjam"])
def test_rounds_with_a_public_column_promise_what_they_say(
    name: str, quarter: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if quarter:
        _quarter_the_noise(monkeypatch)
    assert _violated(name, "replace_private") is quarter


def test_every_named_method_has_an_audit() -> None:
    """Here with the settings of SMALLER or its own, or where this file says."""
    elsewhere = ELSEWHERE | set(BY_STRATEGY)
    assert elsewhere <= set(METHODS)
    assert set(SMALLER) <= set(METHODS) - elsewhere
    for name, strategy in BY_STRATEGY.items():
        assert type(METHODS[name].strategy()) is type(STRATEGIES[strategy])
