"""AIM: the weights, the costs and the annealing of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.limits import Deadline
from margrave.measure.curator import Curator
from margrave.models.independent import Independent
from margrave.models.pgm.fitter import PGM
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import ExponentialEvent, GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.progress import Step, silent
from margrave.schema.domain import Clique, Domain
from margrave.schema.schema import Schema
from margrave.select.aim import AIM, workload_weights
from seeded_noise import SeededSource

SIZES = {"a": 2, "b": 3, "c": 4, "d": 2}


def _chain(rows: int = 4000, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 3, rows))
    c = np.where(rng.random(rows) < 0.7, b, rng.integers(0, 4, rows))
    return pa.table({"a": a, "b": b, "c": c, "d": rng.integers(0, 2, rows)})


def _open(epsilon: float, seed: int = 1) -> tuple[Curator, Ledger]:
    source, _ = open_source(_chain())
    ledger = Ledger(epsilon=epsilon, delta=1e-6, neighbours=Neighbours(), accountant=ZCDP())
    curator = Curator(source, ledger, SeededSource(seed))
    curator.discover(Schema.from_sizes(SIZES))
    return curator, ledger


def test_weights_count_shared_attributes() -> None:
    domain = Domain.of({"A": 2, "B": 2, "C": 2})
    weights = workload_weights(domain, {("A", "B"): 1, ("B", "C"): 1})
    assert weights == {("A",): 1, ("B",): 2, ("C",): 1, ("A", "B"): 3, ("B", "C"): 3}
    with pytest.raises(InputError, match="workload"):
        workload_weights(domain, {("A",): -1})
    with pytest.raises(InputError, match="workload"):
        workload_weights(domain, {("A",): 0})


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_total_is_met_for_any_annealing_path(epsilon: float, seed: int) -> None:
    curator, ledger = _open(epsilon, seed)
    AIM(rounds=12).run(curator, Independent(), silent)
    assert ledger.spent <= ledger.total
    assert float(ledger.remaining / ledger.total) < 1e-6


def test_the_first_round_costs_its_share() -> None:
    curator, ledger = _open(1.0)
    AIM().run(curator, Independent(), silent)
    first = ledger.events[4:6]
    assert isinstance(first[0], ExponentialEvent)
    assert isinstance(first[1], GaussianEvent)
    cost = first[0].epsilon ** 2 / 8 + Fraction(first[1].l2_squared) / (2 * first[1].sigma_squared)
    share = ledger.total / (16 * len(SIZES))
    assert share * Fraction(999, 1000) < cost <= share
    one_way = ledger.events[0]
    assert isinstance(one_way, GaussianEvent)
    assert one_way.l2_squared / (2 * one_way.sigma_squared) <= share * Fraction(9, 10)


def test_dependent_pairs_are_found_and_fitted() -> None:
    curator, _ = _open(10.0)
    model = AIM().run(curator, PGM(), silent)
    chosen = {m.clique for m in curator.measurements}
    assert {("a", "b"), ("b", "c")} <= chosen
    table = _chain()
    for pair in (("a", "b"), ("b", "c"), ("a", "c"), ("a", "d")):
        truth = np.zeros((SIZES[pair[0]], SIZES[pair[1]]))
        np.add.at(truth, tuple(table[name].to_numpy() for name in pair), 1)
        assert np.abs(model.project(pair) / model.total - truth / 4000).sum() / 2 < 0.02


def test_a_tiny_tree_limit_leaves_only_what_the_model_holds() -> None:
    curator, _ = _open(5.0)
    AIM(max_cells=1).run(curator, PGM(), silent)
    assert {len(m.clique) for m in curator.measurements} == {1}


def test_the_workload_decides_the_candidates() -> None:
    curator, _ = _open(1.0)
    workload: dict[Clique, int] = {("a", "d"): 1}
    AIM(workload=workload).run(curator, Independent(), silent)
    assert {m.clique for m in curator.measurements} <= {(n,) for n in SIZES} | {("a", "d")}


def test_replace_one_changes_both_scales() -> None:
    scales = []
    for adjacency in ("add_remove", "replace_one"):
        source, _ = open_source(_chain())
        ledger = Ledger(
            epsilon=1.0,
            delta=1e-6,
            neighbours=Neighbours(adjacency=adjacency),
            accountant=ZCDP(),  # type: ignore[arg-type]
        )
        curator = Curator(source, ledger, SeededSource(1))
        curator.discover(Schema.from_sizes(SIZES))
        AIM().run(curator, Independent(), silent)
        gauss = next(e for e in ledger.events if isinstance(e, GaussianEvent))
        choice = next(e for e in ledger.events if isinstance(e, ExponentialEvent))
        scales.append((float(gauss.sigma_squared), choice.sensitivity))
    assert scales[1][0] == pytest.approx(2 * scales[0][0], rel=1e-5)
    assert scales[1][1] == 2 * scales[0][1]


def test_progress_tells_rounds_and_spend() -> None:
    steps: list[Step] = []
    curator, _ = _open(1.0)
    AIM(rounds=8).run(curator, Independent(), steps.append)
    spent: Sequence[float] = [step.spent for step in steps]
    assert spent == sorted(spent)
    assert steps[-1].round >= 2
    assert steps[-1].spent == pytest.approx(1.0, abs=1e-6)


def test_a_deadline_makes_the_next_round_the_last_and_spends_everything() -> None:
    for given, own in ((Deadline(0.0), None), (None, 1e-9), (Deadline(1e6), 1e-9), (Deadline(0.0), 1e6)):
        steps: list[Step] = []
        curator, ledger = _open(5.0)
        model = AIM(max_seconds=own).run(curator, PGM(), steps.append, given)
        rounds = [step for step in steps if step.stage == "select"]
        assert len(rounds) == 1
        assert "last round" in rounds[0].message
        assert float(ledger.remaining / ledger.total) < 1e-6
        assert sum(isinstance(event, ExponentialEvent) for event in ledger.events) == 1
        assert model.project(("a", "d")).sum() == pytest.approx(model.total)


def test_time_to_spare_changes_nothing() -> None:
    chosen = []
    for deadline in (None, Deadline(1e9)):
        curator, _ = _open(5.0)
        AIM(rounds=12).run(curator, PGM(), silent, deadline)
        chosen.append([(m.clique, m.values.tolist()) for m in curator.measurements])
    assert chosen[0] == chosen[1]


def test_the_fitters_own_limit_holds_too() -> None:
    held = []
    for most in (15, 1000):
        curator, _ = _open(5.0)
        model = AIM().run(curator, PGM(max_cells=most), silent)
        held.append(model.cells)  # type: ignore[attr-defined]
    assert held[0] <= 15 < held[1]
