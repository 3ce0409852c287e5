"""JAM against its sheet: the sensitivity of its draws, what it takes from public rows, and what it spends."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from faithful_door import Recorder, Watched, chain, counted, opened

from margrave.errors import InputError
from margrave.models.pgm.fitter import ConditionalPGM
from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.accounting.events import ExponentialEvent
from margrave.release import KnownMarginal
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.select import JAM

SIZES = {"a": 3, "b": 4, "c": 2, "d": 3}
TABLE = chain(SIZES, 1200)


def rows_of(table: pa.Table, *names: str) -> Encoded:
    names = names or tuple(SIZES)
    domain = Domain(names, tuple(SIZES[name] for name in names))
    return Encoded(domain, tuple(table[name].to_numpy().astype(np.uint8) for name in names))


def run(strategy: JAM, epsilon: float = 1.0, seed: int = 1) -> tuple[Recorder, Watched, Any]:
    recorder = Recorder(opened(TABLE, SIZES, epsilon, adjacency="replace_one", seed=seed)[0])
    watched = Watched(ConditionalPGM())
    model = strategy.run(recorder, watched, lambda step: None)  # type: ignore[arg-type]
    return recorder, watched, model


def test_the_witness_moves_the_score_by_four() -> None:
    """M(D) = (5, 5) and (6, 4), the model's table (0, 10), the public one (10, 0): 0 and 4."""
    model, public = np.array([0.0, 10.0]), np.array([10.0, 0.0])

    def score(counts: tuple[int, int]) -> float:
        return float(np.abs(np.array(counts) - model).sum() - np.abs(np.array(counts) - public).sum())

    assert score((6, 4)) - score((5, 5)) == 4.0
    table = pa.table({"x": [0] * 5 + [1] * 5})
    for adjacency, sensitivity in (("replace_one", 4), ("add_remove", 2)):
        curator, ledger = opened(table, {"x": 2}, adjacency=adjacency)  # type: ignore[arg-type]
        curator.choose([("x",), ("x",)], [model, model], ledger.total / 10, rivals=[None, public])
        (event,) = ledger.events
        assert isinstance(event, ExponentialEvent)
        assert event.sensitivity == sensitivity
        curator.choose([("x",)], [model], ledger.total / 10, rivals=[None])
        assert ledger.events[-1].sensitivity == sensitivity / 2  # type: ignore[union-attr]


def test_draws_follow_the_softmax_of_differences_of_distances() -> None:
    """The exponential mechanism at the sensitivity of a difference, by its frequencies."""
    table, draws = pa.table({"x": [0] * 7 + [1] * 3}), 1500
    model, public = np.array([0.0, 10.0]), np.array([9.5, 0.5])
    curator, ledger = opened(table, {"x": 2}, 60.0, adjacency="replace_one")
    rho = ledger.total / (2 * draws)
    found = np.zeros(2)
    for _ in range(draws):
        found[
            curator.choose([("x",), ("x",)], [model] * 2, rho, rivals=[None, public], penalties=[12.0, 0])
        ] += 1
    epsilon = math.sqrt(8 * float(rho))
    scores = np.array([14.0 - 12.0, 14.0 - 5.0])
    wanted = np.exp(epsilon * scores / (2 * 4))
    wanted /= wanted.sum()
    assert found[0] / draws == pytest.approx(wanted[0], abs=4 * math.sqrt(wanted[0] * wanted[1] / draws))


@pytest.mark.parametrize(
    "wrong", [lambda: [np.zeros(3)], lambda: [np.zeros(2)] * 2, lambda: [np.array([np.nan, 1.0])]]
)
def test_rivals_of_another_shape_are_refused_and_nothing_is_spent(wrong: Callable[[], Any]) -> None:
    curator, ledger = opened(pa.table({"x": [0, 1]}), {"x": 2})
    with pytest.raises(InputError):
        curator.choose([("x",)], [np.zeros(2)], ledger.total / 10, rivals=wrong())
    assert ledger.events == ()


def test_public_rows_of_the_same_distribution_are_mostly_taken() -> None:
    """Where draws are all that is paid for, rho (1 - prod (1 - choosing / (T - t))) is spent in T rounds."""
    taken = 0
    for seed in range(4):
        strategy = JAM(rounds=8, degree=3, reference=rows_of(TABLE))
        recorder, watched, _ = run(strategy, 0.3, seed)
        public = [table for table in watched.given[-1] if isinstance(table, KnownMarginal)]
        measured = [note for note in recorder.notes if note.verb == "measure"]
        assert len(public) + len(measured) == 8
        if not measured:
            left = 4 / 5 * math.prod(1 - 0.2 / (8 - turn) for turn in range(7))
            assert float(recorder.remaining / recorder.total) == pytest.approx(left, rel=1e-6)
        for table in public:
            shape = [SIZES[name] for name in table.clique]
            np.testing.assert_allclose(table.values, counted(TABLE, table.clique, shape), rtol=1e-12)
        taken += len(public)
    assert taken >= 0.7 * 32


def test_public_rows_that_are_wrong_are_left_alone() -> None:
    wrong = rows_of(pa.table({name: np.full(50, size - 1) for name, size in SIZES.items()}))
    recorder, watched, model = run(JAM(rounds=8, degree=2, reference=wrong), 5.0)
    assert not any(isinstance(table, KnownMarginal) for table in watched.given[-1])
    assert recorder.remaining < Fraction(1, 10**6)
    clique = ("a", "b")
    off = np.abs(model.project(clique) - counted(TABLE, clique, (3, 4))).sum() / 1200
    assert off < 0.3


def test_public_rows_of_some_columns_compete_for_those_alone_and_are_scaled() -> None:
    half = TABLE.slice(0, 600)
    strategy = JAM(rounds=5, degree=2, reference=rows_of(half, "a", "b"))
    recorder, _, _ = run(strategy)
    for note in (note for note in recorder.notes if note.verb == "choose"):
        for clique, rival in zip(note.question["cliques"], note.question["rivals"], strict=True):
            if rival is not None:
                assert set(clique) <= {"a", "b"}
                exact = counted(half, clique, [SIZES[name] for name in clique])
                np.testing.assert_allclose(rival, 2 * exact)
        assert sum(rival is not None for rival in note.question["rivals"]) == 3


def test_it_never_spends_more_than_its_total() -> None:
    for epsilon in (0.2, 2.0):
        curator, ledger = opened(TABLE, SIZES, epsilon, adjacency="add_remove")
        JAM(rounds=6, degree=2, reference=rows_of(TABLE)).run(curator, ConditionalPGM(), lambda step: None)
        assert sum(event_rho(event) for event in ledger.events) <= ledger.total
