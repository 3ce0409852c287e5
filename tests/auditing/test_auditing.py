"""Audits find mechanisms that are broken on purpose, and leave correct ones alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest

import margrave.measure.mechanisms.gaussian as door
from margrave import Schema
from margrave.auditing import audit, audit_in_one_run, generated, worlds_of
from margrave.auditing.canary import _Game, best_detector, runner, together
from margrave.auditing.shadow import shadow_attack
from margrave.auditing.world import Evidence
from margrave.errors import InputError
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.columns import Categorical, Integer
from margrave.schema.encoded import Encoded
from margrave.select import AllKWay

MIXED = Schema(
    (
        Integer(name="age", lower=0, upper=99, bins=10, missing=True),
        Categorical(name="town", values=("north", "south", "west"), missing=False),
    )
)


def _cut_the_noise(monkeypatch: pytest.MonkeyPatch, by: int = 2) -> None:
    for name in ("discrete_gaussian", "rounded_gaussian"):
        honest = getattr(door, name)

        def cheat(variance: Any, size: int, source: Any, honest: Any = honest) -> Any:
            return honest(variance / by**2, size, source)

        monkeypatch.setattr(door, name, cheat)


def test_halved_noise_is_found_and_full_noise_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    world, claim = generated(), {"epsilon": 8.0, "delta": 1e-5}
    honest = audit("independent", world=world, runs=200, confidence=0.99, **claim)  # type: ignore[arg-type]
    assert not honest.violated
    assert honest.epsilon <= 8
    assert honest.claim.accounting == "gdp"
    assert "no violation found" in str(honest)
    assert "cannot show" in repr(honest)
    _cut_the_noise(monkeypatch)
    broken = audit("independent", world=world, runs=600, **claim)  # type: ignore[arg-type]
    assert broken.violated
    assert broken.mu > np.sqrt(2 * broken.claim.rho) > honest.mu
    assert str(broken).startswith("audit of independent: VIOLATED")
    assert json.loads(json.dumps(broken.to_json()))["violated"] is True


def test_a_parts_method_with_owners_is_audited() -> None:
    world = generated(max_rows=3, rows=40)
    assert world.present.num_rows == 43
    assert world.present["canary owner"].to_pylist()[-4:] == [39, 40, 40, 40]
    seen: list[tuple[int, int]] = []
    found = audit(
        *("independent",),
        epsilon=2.0,
        runs=20,
        world=world,
        select=AllKWay(degree=2),
        on_run=lambda done, runs: seen.append((done, runs)),
    )
    assert found.what == "the given method"
    assert seen[-1] == (20, 20)
    assert not found.violated
    assert "with at most 3 row(s)" in str(found)


def test_any_callable_is_audited_by_its_rows() -> None:
    world, rng = generated(rows=50), np.random.default_rng(0)
    copies = audit(lambda table: table, epsilon=1.0, runs=200, world=world)
    assert copies.violated
    assert 1.5 < copies.epsilon == pytest.approx(copies.most)
    assert not copies.claim.accounting

    def fresh(table: Any) -> Any:
        return pa.table({name: rng.integers(0, 2, 50) for name in table.column_names})

    assert not audit(fresh, epsilon=0.1, runs=200, world=world).violated
    coded = audit(lambda table: world.codes(table is world.present), epsilon=1.0, runs=200, world=world)
    assert coded.epsilon == copies.epsilon
    with pytest.raises(InputError, match="run must be to return a Synthesis"):
        audit(lambda table: "rows", epsilon=1.0, world=world)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_one_run_finds_copies_and_not_noise(adjacency: Adjacency) -> None:
    world, rng = (
        generated(sizes={"a": 50, "b": 50, "c": 50}, rows=300, adjacency=adjacency),
        np.random.default_rng(0),
    )
    for runs in (1, 3):
        copies = audit_in_one_run(lambda table: table, epsilon=2.0, canaries=100, runs=runs, world=world)
        assert copies.violated
        assert copies.right > 0.95 * copies.guesses
        assert copies.canaries == 100 * max(runs - 1, 1)
        assert str(copies).endswith("the proof is in the accounting")

        def fresh(table: Any) -> Any:
            return pa.table({name: rng.integers(0, 50, 300) for name in table.column_names})

        assert audit_in_one_run(fresh, epsilon=1.0, canaries=100, runs=runs, world=world).epsilon < 0.5
    noisy = audit_in_one_run("independent", epsilon=8.0, delta=1e-5, canaries=100, world=world)
    assert noisy.statistic == "released cells"
    assert not noisy.violated
    assert json.loads(json.dumps(noisy.to_json()))["guesses"] == noisy.guesses == 50


def test_a_row_that_differs_in_every_of_many_columns_is_not_alike() -> None:
    world, rng = generated(sizes={f"c{place}": 2 for place in range(256)}, rows=4), np.random.default_rng(0)
    game = _Game(world, 10, rng)
    opposite = tuple(1 - game.canaries.column(name)[:1] for name in world.schema.domain.names)
    scores = game.scores(Encoded(world.schema.domain, opposite), rng)
    assert scores["rows alike"][0] == scores["rows near"][0] == 0


def test_a_world_of_a_table_holds_a_rare_canary() -> None:
    table = pa.table(
        {"age": pa.array([5, 7, 95, None], pa.int64()), "town": ["north", "north", "south", "north"]}
    )
    world = worlds_of(table, MIXED)
    assert world.without.equals(table)
    assert world.present.num_rows == 5
    assert world.present["town"][4].as_py() == "west"
    assert 80 <= world.present["age"][4].as_py() < 90
    assert world.codes(True).column("age")[4] == world.canary["age"] == 8
    swapped = worlds_of(table, MIXED, adjacency="replace_one", canary={"age": 0, "town": 1})
    assert swapped.without.num_rows == swapped.present.num_rows == 5
    assert swapped.without["town"][4].as_py() == "north"
    assert swapped.present["town"][4].as_py() == "south"
    assert "north" not in repr(swapped)
    found = audit("independent", epsilon=1.0, runs=8, world=world)
    assert not found.violated


def test_evidence_is_the_likelihood_ratio_of_what_was_released() -> None:
    world = generated(rows=40)
    made = runner("independent", 4.0, 1e-5, world, None, None)(world.present)
    evidence = Evidence(world, np.random.default_rng(0))
    values = dict(zip(evidence.names(made), evidence.of(made), strict=True))
    total = 0.0
    for noisy in made.measurements:
        sides = []
        for present in (False, True):
            rows = world.codes(present)
            table = np.zeros(noisy.values.shape)
            for row in zip(*(rows.column(name) for name in noisy.clique), strict=True):
                table[row] += 1
            sides.append(-((noisy.values - table) ** 2 / (2 * noisy.sigmas**2)).sum())
        total += sides[1] - sides[0]
    assert values["released cells"] == pytest.approx(total)
    assert values["total"] == made.model.total
    same = Encoded(world.schema.domain, tuple(np.full(3, code, np.uint8) for code in world.canary.values()))
    assert evidence.of(same).tolist() == [3, 3, 0, 4]
    assert evidence.names(same) == ("total", "rows alike", "rows near", "values")


def test_the_best_detector_is_the_one_that_tells() -> None:
    rng = np.random.default_rng(0)
    without, present = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    present[:, 1] -= 4
    test = best_detector(("x", "y", "z"), without, present, 0.95, lambda rates: rates.mu)
    assert test.name in ("low y", "all together")
    assert test.rates(without, present, 0.95).mu > 2
    weights = together(without, present)
    assert abs(weights[1]) > 10 * max(abs(weights[0]), abs(weights[2]))
    nothing = np.zeros((20, 2))
    assert (
        best_detector(("x", "y"), nothing, nothing, 0.95, lambda rates: rates.mu)
        .rates(nothing, nothing, 0.95)
        .mu
        == 0
    )


def test_what_cannot_be_audited_is_refused() -> None:
    for options, message in (
        ({"runs": 7}, "runs must be"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"world": generated(rows=10), "epsilon": 0.0}, "epsilon must be"),
    ):
        with pytest.raises(InputError, match=message):
            audit("mst", **({"epsilon": 1.0} | options))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="canaries must be"):
        audit_in_one_run("mst", epsilon=1.0, canaries=3)
    with pytest.raises(InputError, match="world must be"):
        audit_in_one_run("mst", epsilon=1.0, world=generated(max_rows=2))
    with pytest.raises(InputError, match="rows must be"):
        generated(rows=1)
    with pytest.raises(InputError, match="canary must be"):
        worlds_of(pa.table({"age": [1], "town": ["west"]}), MIXED, canary={"age": 0, "town": 7})
    with pytest.raises(InputError, match="table must be"):
        worlds_of(pa.table({"age": pa.array([], pa.int64()), "town": pa.array([], pa.string())}), MIXED)


@pytest.mark.parametrize("adjacency", sorted(set(get_args(Adjacency)) - {"add_remove", "replace_one"}))
def test_a_canary_is_added_or_replaces_and_nothing_else(adjacency: Adjacency) -> None:
    """Under zero_out an exchanged row would be two steps away, and public columns have no canary."""
    world, table = generated(rows=10), pa.table({"age": [1, 30], "town": ["west", "east"]})
    public = ("a",) if adjacency == "replace_private" else ()
    tries: tuple[Callable[[], object], ...] = (
        lambda: generated(adjacency=adjacency),
        lambda: worlds_of(table, MIXED, adjacency=adjacency),
        lambda: shadow_attack("mst", table, MIXED, rows=1, adjacency=adjacency),
        lambda: dataclasses.replace(world, neighbours=Neighbours(Unit(), adjacency, public)),
    )
    for attempt in tries:
        with pytest.raises(InputError, match=r"adjacency must be one of \['add_remove', 'replace_one'\]"):
            attempt()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "by"), [("independent", 2), ("mst", 4)])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_audit_of_methods_is_right(
    method: str, by: int, adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A third of mst's rho is not Gaussian, and zCDP allows more than its Gaussian answers tell."""
    world, claim = generated(adjacency=adjacency), {"epsilon": 8.0, "delta": 1e-5}
    assert not audit(method, world=world, runs=800, confidence=0.99, **claim).violated  # type: ignore[arg-type]
    _cut_the_noise(monkeypatch, by)
    assert audit(method, world=world, runs=800, confidence=0.99, **claim).violated  # type: ignore[arg-type]
