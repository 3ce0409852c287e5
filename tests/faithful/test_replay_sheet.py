"""Every strategy with a generator of its own, run again on its answers alone: no other way leads to the rows.

A run writes down all it asks the door and is told. A second run gets these answers from a door without a
table. It has to ask the same questions, to the last bit, report the same progress and end at the same model.
What published implementations do besides (as many synthetic rows as there are private ones, the best iterate
by the true error, a stop at the true error, exact errors in their logs, seeds of the whole process) would
show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from faithful_door import Recorder, Replayed, budget, chain, opened

import margrave as mg
import margrave.select as room
from margrave.models.auto import Auto
from margrave.models.compressed import Compressed
from margrave.models.gated import Gated
from margrave.models.independent import Independent
from margrave.models.mixture import Mixture
from margrave.models.networks.merf import Merf
from margrave.models.networks.network import Network, PublicNetwork
from margrave.models.particles.fitter import Particles
from margrave.models.pgm.fitter import PGM, ConditionalPGM
from margrave.models.pgm.multiplicative_weights import PMW
from margrave.models.public_weights import PublicWeights
from margrave.models.relaxed import Relaxed
from margrave.models.rowwise.genetic import Genetic
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.residual import Residual
from margrave.privacy.unit import Adjacency
from margrave.progress import Step
from margrave.select import (
    AIM,
    JAM,
    MST,
    AllKWay,
    AllPairs,
    Batched,
    ConditionalAIM,
    Fixed,
    MeanEmbedding,
    PrivatePairs,
    PrivMRF,
    PrivSyn,
    ResidualPlanner,
    TopQ,
    VerticalRounds,
)

SIZES = {"a": 3, "b": 4, "c": 3, "d": 2}
ROWS = 700
SCHEMA = mg.Schema(
    tuple(
        mg.Integer(name=name, lower=0, upper=size - 1, bins=size, missing=False)
        for name, size in SIZES.items()
    )
)
QUICK = Network(components=12, noise=4, widths=(8,), steps=8)
LIGHT: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "aim": (lambda: AIM(rounds=10), PGM),
    "all pairs": (AllPairs, lambda: Mixture(components=6, steps=15)),
    "auto": (AllPairs, Auto),
    "batched": (Batched, lambda: Compressed(PGM())),
    "conditional aim": (lambda: ConditionalAIM(degree=2), ConditionalPGM),
    "fixed": (lambda: Fixed([("a", "b"), ("d",)]), Independent),
    "jam": (lambda: JAM(rounds=4, degree=2), ConditionalPGM),
    "mst": (MST, PGM),
    "private gsd": (AllKWay, lambda: Genetic(rows=200, rounds=4)),
    "private pairs": (PrivatePairs, lambda: Gated(components=6, steps=15)),
    "privmrf": (lambda: PrivMRF(theta=0.2), PGM),
    "privsyn": (PrivSyn, lambda: GUM(rows=200, iterations=5)),
    "residual planner": (ResidualPlanner, lambda: Residual(rows=GUM(rows=200, iterations=5))),
    "top q": (lambda: TopQ(rounds=3, q=2), lambda: PMW(passes=8)),
    "vjam": (lambda: VerticalRounds(rounds=4, closed=True, discount=True, ones=True), ConditionalPGM),
    "vpmw": (lambda: VerticalRounds(rounds=4, degree=2), PublicWeights),
}
TORCH: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "dp merf": (lambda: MeanEmbedding(target="d", frequencies=10), lambda: Merf(network=QUICK, features=6)),
    "gem": (lambda: TopQ(rounds=2, q=1), lambda: QUICK),
    "privpgd": (
        AllKWay,
        lambda: Particles(
            particles=200, epochs=2, directions=2, batch=6, projection_steps=5, projection_directions=5
        ),
    ),
    "rap": (lambda: TopQ(rounds=2, q=2), lambda: Relaxed(rows=10, steps=10)),
    "vgem": (
        lambda: VerticalRounds(rounds=2, degree=2),
        lambda: PublicNetwork(components=12, noise=4, widths=(8,), steps=8),
    ),
    "rap++": (lambda: TopQ(rounds=2, q=2), lambda: Relaxed(rows=10, steps=10, blocks="points", thresholds=1)),
}
ONE_ANSWER = {"slice_training", "slices", "training", "votes"}
"""`Training` and `Votes` ask for one answer, a trained network, and are tested where it is trained; `Slices`
and `SliceTraining` ask for one as well, and refuse one of the adjacencies."""


def strategies() -> dict[str, Callable[[], Any]]:
    """The strategies of the library by name."""
    found = [getattr(room, name) for name in room.__all__]
    return {one.name: one for one in found if hasattr(one, "name")}


def plain() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Strategies without a row above, with their own settings."""
    listed = {strategy().name for strategy, _ in (LIGHT | TORCH).values()} | ONE_ANSWER
    return {name: (strategy, PGM) for name, strategy in strategies().items() if name not in listed}


CASES = [
    pytest.param(strategy, fitter, id=name, marks=[pytest.mark.needs_extra("torch")] if name in TORCH else [])
    for name, (strategy, fitter) in (LIGHT | TORCH | plain()).items()
]


@pytest.mark.parametrize(("strategy", "fitter"), CASES)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_a_run_follows_from_its_answers(
    strategy: Callable[[], Any], fitter: Callable[[], Any], adjacency: Adjacency
) -> None:
    gdp = strategy().gaussian_only
    curator, _ = opened(chain(SIZES, ROWS), SIZES, adjacency=adjacency, gdp=gdp, schema=SCHEMA)
    recorder = Recorder(curator)
    assert recorder.public_rows == (None if adjacency == "add_remove" else ROWS)
    steps: list[list[Step]] = [[], []]
    np.random.seed(1)  # noqa: NPY002 - the state of the process must not matter
    first = strategy().run(recorder, fitter(), steps[0].append)
    np.random.seed(2)  # noqa: NPY002
    replayed = Replayed(recorder, budget(1.0, adjacency, gdp))
    second = strategy().run(replayed, fitter(), steps[1].append)
    assert replayed.left == 0
    assert steps[0] == steps[1]
    one, two = first.state(), second.state()
    assert one.keys() == two.keys()
    for key in one:
        np.testing.assert_array_equal(one[key], two[key], err_msg=key)
    assert first.total == second.total
    # The number of rows is that of the answers, or public; with this much noise it is never the exact one.
    assert (first.total == ROWS) == (adjacency == "replace_one")


def test_every_strategy_of_the_library_is_among_them() -> None:
    """With few rounds and a fitter that is done at once where LIGHT or TORCH say so, else with its own."""
    used = {strategy().name for strategy, _ in (LIGHT | TORCH | plain()).values()}
    assert used | ONE_ANSWER == set(strategies())
    assert not used & ONE_ANSWER


def test_a_strategy_that_reads_more_than_answers_is_caught() -> None:
    """The test of the test: a fitter that asks the state of the process for its rows."""

    class Stray(Independent):
        def fit(self, domain: Any, measurements: Any, **options: Any) -> Any:
            options["total"] = float(np.random.random() * 1000)  # noqa: NPY002
            return super().fit(domain, measurements, **options)

    with pytest.raises(AssertionError):
        test_a_run_follows_from_its_answers(lambda: AllKWay(degree=1), Stray, "add_remove")
