"""MST, fixed and all k-way strategies: the tree, the costs, the edges of the domain."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.measure.curator import Curator
from margrave.models.independent import Independent
from margrave.models.pgm.fitter import PGM
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.accounting.events import ExponentialEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.progress import silent
from margrave.schema.domain import Clique, Domain
from margrave.schema.schema import Schema
from margrave.select.fixed import AllKWay, Fixed
from margrave.select.mst import MST
from seeded_noise import SeededSource


def _open(table: pa.Table, epsilon: float = 1.0, seed: int = 1, gdp: bool = False) -> tuple[Curator, Ledger]:
    source, _ = open_source(table)
    ledger = Ledger(epsilon=epsilon, delta=1e-6, neighbours=Neighbours(), accountant=GDP() if gdp else ZCDP())
    curator = Curator(source, ledger, SeededSource(seed))
    sizes = {name: int(np.max(table[name].to_numpy(), initial=0)) + 1 for name in table.column_names}
    curator.discover(Schema.from_sizes(sizes))
    return curator, ledger


def _linked(rows: int = 5000) -> pa.Table:
    rng = np.random.default_rng(0)
    x1 = rng.integers(0, 2, rows)
    x3 = np.where(rng.random(rows) < 0.1, 1 - x1, x1)
    return pa.table({"x1": x1, "x2": x1, "x3": x3, "x4": rng.integers(0, 2, rows)})


def _components(names: list[str], edges: list[Clique]) -> int:
    group = {name: {name} for name in names}
    for a, b in edges:
        merged = group[a] | group[b]
        for name in merged:
            group[name] = merged
    return len({id(members) for members in group.values()})


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("edges", [(), (("x1", "x4"),), (("x4", "x1"), ("x2", "x3"))])
def test_the_edges_form_a_spanning_tree(seed: int, edges: tuple[Clique, ...]) -> None:
    curator, ledger = _open(_linked(), seed=seed)
    MST(edges=edges).run(curator, Independent(), silent)
    pairs = [m.clique for m in curator.measurements if len(m.clique) == 2]
    assert len(pairs) == 3
    assert _components(["x1", "x2", "x3", "x4"], pairs) == 1
    assert sum(isinstance(e, ExponentialEvent) for e in ledger.events) == 3 - len(edges)
    assert float(ledger.remaining / ledger.total) < 1e-6


def test_thirds_of_the_budget() -> None:
    curator, ledger = _open(_linked())
    MST().run(curator, Independent(), silent)
    kinds = ("marginal x", "choice", "marginal")
    ones = [e for e in ledger.events if e.what.startswith("marginal") and " x " not in e.what]
    choices = [e for e in ledger.events if isinstance(e, ExponentialEvent)]
    cost = ledger.accountant.cost
    third = ledger.total / 3
    for group in (ones, choices):
        spent = sum((cost(event) for event in group), Fraction(0))
        assert third * Fraction(999, 1000) < spent <= third, kinds


def test_strong_links_are_always_chosen_and_reproduced() -> None:
    table = _linked()
    curator, _ = _open(table, epsilon=2000.0)
    model = MST().run(curator, PGM(strength=1e-6), silent)
    pairs = {m.clique for m in curator.measurements if len(m.clique) == 2}
    assert ("x1", "x2") in pairs
    assert pairs & {("x1", "x3"), ("x2", "x3")}
    truth = np.zeros((2, 2))
    np.add.at(truth, (table["x1"].to_numpy(), table["x2"].to_numpy()), 1)
    assert np.abs(model.project(("x1", "x2")) - truth).max() < 0.01 * 5000


@pytest.mark.parametrize("strategy", [MST(), AllKWay(degree=1), AllKWay(degree=2), Fixed([("x",)])])
def test_one_column_is_enough(strategy: MST | AllKWay | Fixed) -> None:
    table = pa.table({"x": np.arange(90) % 3})
    curator, ledger = _open(table, epsilon=10.0)
    model = strategy.run(curator, PGM(), silent)
    assert model.project(("x",)).shape == (3,)
    assert float(ledger.remaining / ledger.total) < 1e-6


def test_all_pairs_are_measured_once_with_one_scale() -> None:
    curator, ledger = _open(_linked(), gdp=True)
    AllKWay().run(curator, PGM(), silent)
    pairs = [m for m in curator.measurements if len(m.clique) == 2]
    assert len(pairs) == 6
    assert len({float(m.sigmas.mean()) for m in pairs}) == 1
    assert float(ledger.remaining / ledger.total) < 1e-6


def test_fixed_measures_what_was_named_and_says_what_is_wrong() -> None:
    curator, _ = _open(_linked(), gdp=True)
    Fixed([("x3", "x1"), ("x1", "x3"), ("x4",)]).run(curator, Independent(), silent)
    cliques = [m.clique for m in curator.measurements]
    assert cliques.count(("x1", "x3")) == 1
    assert cliques.count(("x4",)) == 1
    curator, ledger = _open(_linked())
    with pytest.raises(InputError, match="cliques must be one or more"):
        Fixed([]).run(curator, Independent(), silent)
    with pytest.raises(InputError, match="clique"):
        Fixed([("nothing",)]).run(curator, Independent(), silent)
    assert ledger.spent == 0
    with pytest.raises(InputError, match="degree"):
        AllKWay(degree=0)


def test_marginals_too_large_for_the_model_are_refused_before_they_are_bought() -> None:
    table = pa.table({name: np.arange(40) % 40 for name in "abcdefgh"})
    curator, ledger = _open(table, gdp=True)
    with pytest.raises(InputError, match="max_cells must be at least"):
        AllKWay().run(curator, PGM(), silent)
    assert ledger.spent == 0
    AllKWay().run(curator, Independent(), silent)


def test_a_fitters_limit_keeps_large_pairs_out_of_the_tree() -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 12, 2000)
    table = pa.table({"a": a, "b": (a + rng.integers(0, 2, 2000)) % 12, "c": a % 3, "d": a % 2})
    sizes = []
    for fitter in (PGM(), PGM(max_cells=100)):
        curator, ledger = _open(table, epsilon=20.0)
        model = MST().run(curator, fitter, silent)
        assert float(ledger.remaining / ledger.total) < 1e-6
        sizes.append(model.cells)  # type: ignore[attr-defined]
    assert sizes[1] <= 100 < sizes[0]


def test_a_wide_table_is_not_held_against_the_limit_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    # The three columns of 60 would make a table of 216,000 cells together, but no spanning tree holds it.
    rng, asked = np.random.default_rng(0), []
    table = pa.table(
        {name: rng.permutation(np.arange(600) % 60) for name in "abc"} | {"d": np.arange(600) % 2}
    )
    cells = PGM.cells

    def counted(self: PGM, domain: Domain, cliques: list[Clique], candidates: list[Clique]) -> object:
        asked.append(len(candidates))
        return cells(self, domain, cliques, candidates)

    monkeypatch.setattr(PGM, "cells", counted)
    curator, _ = _open(table)
    model = MST().run(curator, PGM(max_cells=10_000), silent)
    assert model.cells <= 10_000  # type: ignore[attr-defined]
    assert sum(asked) == 1
