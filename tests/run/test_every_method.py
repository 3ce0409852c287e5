"""All named methods: the plan, a release within its guarantee, its ledger, and a run that is resumed."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from torch_fitters import NEEDS_TORCH, TINY, TRAINED

import margrave as mg
from command_line import call, usual_adjacency
from margrave import select
from margrave.errors import InputError
from margrave.methods import METHODS
from margrave.models.networks.merf import Merf
from margrave.models.registry import FITTERS, resolve
from margrave.privacy.accounting.accountants import event_rho
from margrave.privacy.ledger.journal import read_ledger
from margrave.run import costs
from margrave.schema.constraints.rules import Determines
from margrave.select.aim import AIM
from margrave.select.batched import Batched
from margrave.select.fixed import AllKWay, Fixed
from margrave.select.from_rows import MeanEmbedding, Training, Votes
from margrave.select.mst import MST
from margrave.select.privsyn import PrivSyn
from margrave.select.public_rounds import JAM, VerticalRounds
from margrave.select.top_q import TopQ
from stopping import Killed, killing, repeatable, same, total_of

SCHEMA = mg.Schema(
    (
        mg.Categorical(name="colour", values=("blue", "green", "red"), missing=False),
        mg.Integer(name="size", lower=0, upper=5, missing=False),
        mg.Real(name="weight", lower=0, upper=2, bins=4, missing=False),
        mg.Boolean(name="sold", missing=False),
    )
)
SLICED = ("slice_fdiv", "slice_wass", "slicing")
"""Methods that release every row with noise, whose number is public."""
QUICK = TINY | TRAINED | {"merf": lambda: Merf(network=TINY["network"](), features=16)}
"""Those that need PyTorch, in sizes for small tables."""
NAMES = [pytest.param(name, marks=[NEEDS_TORCH] if METHODS[name].fitter in QUICK else []) for name in METHODS]
__all__ = ["repeatable"]


@cache
def _table(rows: int = 300) -> pa.Table:
    rng = np.random.default_rng(3)
    colour = rng.choice(["blue", "green", "red"], rows)
    size = rng.integers(0, 4, rows) + 2 * (colour == "red")
    return pa.table(
        {
            "colour": colour,
            "size": size,
            "weight": np.round(rng.random(rows) + (size > 2) * 0.9, 3),
            "sold": rng.random(rows) < 0.3,
        }
    )


def _synthesizer(name: str, **more: Any) -> mg.Synthesizer:
    """The method as it is asked for by name, with fewer rounds and rough models where it takes seconds."""
    parts: dict[str, Any] = {}
    strategy, fitter = METHODS[name].strategy(), METHODS[name].fitter
    if isinstance(strategy, AIM | TopQ):
        parts["select"] = dataclasses.replace(strategy, rounds=12 if name.startswith("aim") else 3)
    if isinstance(strategy, JAM | VerticalRounds):
        parts["select"] = dataclasses.replace(strategy, rounds=3)
    if isinstance(strategy, MeanEmbedding):
        parts["select"] = dataclasses.replace(strategy, frequencies=20)
    if isinstance(strategy, Training):
        parts["select"] = dataclasses.replace(strategy, steps=4)
    if isinstance(strategy, Votes):
        parts["select"] = dataclasses.replace(strategy, rounds=3)
    if fitter in QUICK:
        parts["model"] = QUICK[fitter]()
    more = {"adjacency": usual_adjacency(name), "schema": SCHEMA, "epsilon": 1.5} | more
    return mg.Synthesizer(name, delta=1e-6, **parts, **more)


@pytest.mark.parametrize("name", METHODS)
def test_the_plan_is_said_for_every_method_with_its_own_settings(name: str) -> None:
    run = mg.Synthesizer(name, epsilon=1.5, delta=1e-6, schema=SCHEMA, adjacency=usual_adjacency(name))
    plan = run.plan(_table(), rows=300)
    assert plan.method == name
    assert sum(plan.shares.values()) == pytest.approx(1.0)
    assert plan.sigma
    assert bool(plan.copies) == (name in SLICED)
    assert all(sigma > 0 for sigma in plan.sigma.values())
    assert all(0 < error <= 1 for error in plan.error.values())
    assert 0 < plan.seconds[0] < plan.seconds[1]
    assert plan.memory > 100
    assert str(plan).endswith("nothing")


def test_every_strategy_and_fitter_has_its_own_times_in_the_plan() -> None:
    """None is planned by a default that was meant for another: those that the default was measured for are
    named here."""
    kinds = [getattr(select, kind) for kind in select.__all__ if kind != "Strategy"]
    usual = {
        kind.name
        for kind in kinds
        if not any("pace" in vars(base) for base in kind.__mro__[: kind.__mro__.index(select.Strategy)])
    }
    known = {"all_kway", "fixed", "mean_embedding", "private_pairs"}
    assert usual - set(costs.TIMES) == known, "`pace` has to be measured; docs/extending.md says how"
    assert set(costs.TIMES) <= {kind.name for kind in kinds}
    free = {name for name in FITTERS if resolve(name).fit_seconds == 0.0}
    known = {"compressed", "conditional_pgm", "independent", "pgm", *costs.MIXTURES}
    assert free <= known, (
        f"{free - known}: `fit_seconds` must be above 0; docs/extending.md says how to measure it"
    )


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("columns", [1, 2, 15])
def test_shares_are_shares(name: str, columns: int) -> None:
    strategy = METHODS[name].strategy()
    for counted in (False, True):
        assert sum(strategy.split_rho(counted).values()) == 1
    assert all(0 < share <= 1 for share in strategy.share_marginal(columns).values())


# Rules come before what a method buys, by one path for all: by default a third of them, the rest when slow.
@pytest.mark.parametrize(
    "name",
    [
        one if place % 3 == 0 else pytest.param(*one.values, marks=[*one.marks, pytest.mark.slow])
        for place, one in enumerate(NAMES)
    ],
)
def test_a_dependency_declared_without_its_table_is_bought_first_and_obeyed(name: str) -> None:
    rows = 600
    ware = np.random.default_rng(4).integers(0, 6, rows)
    table = _table(rows).append_column("ware", pa.array([f"w{one}" for one in ware]))
    table = table.append_column("kind", pa.array([f"k{one // 2}" for one in ware]))
    wares = mg.Categorical(name="ware", values=tuple(f"w{one}" for one in range(6)), missing=False)
    kinds = mg.Categorical(name="kind", values=("k0", "k1", "k2"), missing=False)
    rule = Determines("kind", "ware")
    schema = mg.Schema((*SCHEMA.columns, wares, kinds), (rule,))
    run = _synthesizer(name, schema=schema, epsilon=20.0)
    plan, made = run.plan(table), run.fit(table)
    assert plan.shares["declared dependencies"] == pytest.approx(0.05)
    bought = made.release.events[0]
    assert bought.what == "marginal ware x kind"
    assert float(event_rho(bought)) == pytest.approx(0.05 * made.guarantee.rho, rel=1e-3)
    assert made.release.rules_not_read == ()
    drawn = made.sample_arrow(400, rng=0)
    found = set(zip(drawn["ware"].to_pylist(), drawn["kind"].to_pylist(), strict=True))
    if name not in SLICED:  # whose noisy copies of rows outweigh the pair
        assert found <= {(f"w{one}", f"k{one // 2}") for one in range(6)}
    assert len(found) == len({one for one, _ in found})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_the_plan_says_what_the_run_spends(tmp_path: Path, name: str, adjacency: str) -> None:
    path = tmp_path / "run.jsonl"
    synthesizer = _synthesizer(name, ledger=path, adjacency=adjacency)
    if name in SLICED and adjacency == "add_remove":
        for call_it in (synthesizer.plan, synthesizer.fit):
            with pytest.raises(InputError, match="zero_out"):
                call_it(_table())
        return
    if name in ("dpsgd_gan", "tabddpm") and adjacency == "replace_one":
        for call_it in (synthesizer.plan, synthesizer.fit):
            with pytest.raises(InputError, match="add_remove"):
                call_it(_table())
        return
    plan, found = synthesizer.plan(_table()), synthesizer.fit(_table())
    assert not set(plan.discovered)
    assert plan.rho == pytest.approx(found.guarantee.rho)
    assert found.guarantee.epsilon == 1.5
    assert found.guarantee.delta == 1e-6
    assert found.guarantee.neighbours.adjacency == adjacency
    events = read_ledger(path)[1]
    assert found.release.events == events
    rho = Fraction(found.guarantee.rho)
    assert Fraction(999, 1000) * rho <= total_of(events) <= rho * (1 + Fraction(1, 10**12))
    assert found.rows == 300 if adjacency == "replace_one" else 200 < found.rows < 400
    assert found.sample(300, rng=0).num_rows == 300
    found.save(tmp_path / "r.margrave")
    assert mg.load(tmp_path / "r.margrave").sample(20, rng=1).equals(found.sample(20, rng=1))


EXACT = [
    ("auto", "one-way marginal", 1),
    ("aim", "one-way marginal", 1),
    ("mst", "one-way marginal", 1),
    ("mst", "pair", 2),
    ("privsyn", "one-way marginal", 1),
    ("privmrf", "one-way marginal", 1),
    ("mwem", "pair", 2),
    ("private_gsd", "one-way marginal", 1),
    ("private_gsd", "pair", 2),
    ("independent", "one-way marginal", 1),
    pytest.param("tabddpm", "one-way marginal", 1, marks=NEEDS_TORCH),
]
"""Where the split does not hang on what the strategy finds."""


@pytest.mark.parametrize(("name", "what", "width"), EXACT)
def test_the_noise_of_the_plan_is_that_of_the_run(name: str, what: str, width: int) -> None:
    synthesizer = _synthesizer(name, adjacency="add_remove" if name == "tabddpm" else "replace_one")
    plan, found = synthesizer.plan(_table()), synthesizer.fit(_table())
    sigmas = [float(m.sigmas.max()) for m in found.release.measurements if len(m.clique) == width]
    assert sigmas[0] == pytest.approx(plan.sigma[what], rel=1e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.usefixtures("repeatable")
def test_a_run_killed_after_its_first_answers_is_resumed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    whole = _synthesizer(name, ledger=tmp_path / "whole.jsonl").fit(_table())
    with pytest.raises(Killed), killing(monkeypatch, 0, "stored"):
        _synthesizer(name, ledger=tmp_path / "run.jsonl").fit(_table())
    before = read_ledger(tmp_path / "run.jsonl")[1]
    found = _synthesizer(name, ledger=tmp_path / "run.jsonl").fit(_table(), resume=True)
    assert len(before) > 0
    assert found.release.events[: len(before)] == before
    same(whole, found)


@pytest.mark.parametrize("name", METHODS)
def test_the_command_plans_every_method(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\nx,1\ny,2\n")
    adjacency = usual_adjacency(name)
    done = call("plan", path, "--method", name, "-e", 1, "--adjacency", adjacency)
    assert done.code == 0
    assert f"method      {name}\n" in done.out
    assert "spent       nothing" in done.out


STATED: dict[str, tuple[Any, dict[str, int | None]]] = {
    "all_kway": (AllKWay(2), {"one-way marginals": 1, "measure": 2}),
    "batched": (Batched(rounds=2), {"one-way marginals": 1, "pairs": 2, "appraise": None}),
    "fixed": (Fixed([("colour", "size")]), {"one-way marginals": 1, "measure": 2}),
    "mst": (MST(), {"one-way marginals": 1, "pairs": 2, "choose": None}),
    "privsyn": (PrivSyn(), {"one-way marginals": 1, "pairs and merged pairs": 2, "appraise": None}),
}
"""Strategies whose stages can be told by their events: marginals of one or more columns, other questions."""


@pytest.mark.parametrize("name", STATED)
def test_a_run_spends_as_its_strategy_states_in_the_plan(name: str) -> None:
    """What `split_rho` says of each stage is what the ledger of a run holds of it."""
    strategy, stages = STATED[name]
    made = mg.Synthesizer(select=strategy, model="independent", epsilon=1.0, schema=SCHEMA).fit(_table())
    spent = dict.fromkeys(stages, 0.0)
    for event in made.release.events:
        width = event.what.count(" x ") + 1 if event.what.startswith("marginal ") else None
        stage = next(
            stage for stage, wide in stages.items() if wide == width or (wide == 2 and (width or 0) > 2)
        )
        spent[stage] += float(event_rho(event))
    total = sum(spent.values())
    stated = {stage: float(share) for stage, share in strategy.split_rho(False).items()}
    assert {stage: part / total for stage, part in spent.items()} == pytest.approx(stated, abs=1e-3)
