"""What every strategy promises with every model, on tables that are hard to like."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from families import DELEGATING, PUBLIC, add_estimators, add_strategies
from torch_fitters import TINY

import margrave as mg
from margrave.errors import InputError
from margrave.models.independent import Independent
from margrave.models.mixture import Mixture
from margrave.models.pgm.fitter import PGM
from margrave.models.pgm.multiplicative_weights import PMW
from margrave.models.registry import resolve
from margrave.models.rowwise.genetic import Genetic
from margrave.models.rowwise.gum import GUM
from margrave.models.rowwise.residual import Residual
from margrave.schema.columns import Omitted
from margrave.select.aim import AIM
from margrave.select.all_pairs import AllPairs
from margrave.select.batched import Batched
from margrave.select.fixed import AllKWay, Fixed
from margrave.select.mst import MST
from margrave.select.privmrf import PrivMRF
from margrave.select.privsyn import PrivSyn
from margrave.select.residual_planner import ResidualPlanner
from margrave.select.top_q import TopQ

OWN_STRATEGIES: dict[str, Callable[[list[str]], Any]] = {
    "aim": lambda names: AIM(rounds=4 * len(names)),
    "batched": lambda names: Batched(),
    "mst": lambda names: MST(),
    "all one-ways": lambda names: AllKWay(1),
    "all pairs": lambda names: AllKWay(2),
    "every pair twice": lambda names: AllPairs(),
    "privmrf": lambda names: PrivMRF(),
    "privsyn": lambda names: PrivSyn(),
    "residual planner": lambda names: ResidualPlanner(),
    "top q": lambda names: TopQ(rounds=2, q=2),
    "mwem": lambda names: TopQ(rounds=3, q=1),
    "top q with a target": lambda names: TopQ(rounds=2, q=2, target=names[-1]),
    "fixed": lambda names: Fixed([tuple(names[:2]), tuple(names[-1:])]),
}
OWN_FITTERS: dict[str, Callable[[], Any]] = {
    "genetic": lambda: Genetic(rounds=3, max_rows=1000),
    "gum": lambda: GUM(iterations=5, max_rows=2000),
    "residual": lambda: Residual(rounds=20, rows=GUM(iterations=5, max_rows=1000)),
    "pgm": PGM,
    "independent": Independent,
    "mixture": lambda: Mixture(components=12, steps=30),
}

FOR_PUBLIC_COLUMNS = ("ConditionalAIM", "JAM", "PrivatePairs", "VerticalRounds")
"""Tested where columns are public: tests/run/test_public_columns.py, tests/select, tests/faithful."""
STRATEGIES = add_strategies(OWN_STRATEGIES, [*FOR_PUBLIC_COLUMNS, "Slices"])
"""Every strategy of `margrave.select` that buys marginals, but for those above and `Slices`, which takes one
adjacency only: tests/run/test_slicing.py."""
FITTERS = OWN_FITTERS | {
    name: partial(resolve, name)
    for name in add_estimators(
        OWN_FITTERS,
        {
            **DELEGATING,
            **PUBLIC,
            **dict.fromkeys(TINY, "needs PyTorch: test_torch_contract.py"),
            "merf": "needs PyTorch, and what it learns beside tables: test_merf_contract.py",
            "pmw": "for small domains only: apart, below",
        },
    )
    if name not in OWN_FITTERS
}
"""Every estimator of the registry that learns from marginals, but for those named."""

Table = tuple[pa.Table, mg.Schema | None]


def _mixed(rows: int) -> Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "text": pa.array(rng.choice(["x", "it's", 'q"', "a,b", "ü"], rows), pa.string()),
            "whole": pa.array(rng.integers(0, 50, rows), pa.int64()),
            "real": pa.array(rng.normal(0, 1, rows), pa.float64()),
            "truth": pa.array(rng.random(rows) < 0.3, pa.bool_()),
        }
    ), None


def _gaps() -> Table:
    nothing, some = [None, np.nan, np.inf, -np.inf, 1.5], ["x", None, "y"]
    schema = mg.Schema(
        (
            mg.Real(name="real", lower=0, upper=2, bins=4, missing=True),
            mg.Categorical(name="text", values=("x", "y"), missing=True),
            mg.Integer(name="gone", lower=0, upper=3, missing=True),
        )
    )
    columns = {
        "real": pa.array(nothing * 60, pa.float64()),
        "text": pa.array(some * 100, pa.string()),
        "gone": pa.nulls(300, pa.int64()),
    }
    return pa.table(columns), schema


def _wide() -> Table:
    rng = np.random.default_rng(1)
    sizes = {"many": 10_000, "few": 3, "two": 2}
    table = pa.table({name: rng.integers(0, size, 500) for name, size in sizes.items()})
    return table, mg.Schema.from_sizes(sizes)


def _single_codes() -> Table:
    table = pa.table({"one": [0] * 200, "only": [0] * 200, "pair": [0, 1] * 100})
    return table, mg.Schema.from_sizes({"one": 1, "only": 1, "pair": 2})


TABLES: dict[str, Callable[[], Table]] = {
    "no row": lambda: _mixed(0),
    "one row": lambda: _mixed(1),
    "mixed": lambda: _mixed(400),
    "one column": lambda: (pa.table({"a": ["x", "y"] * 150}), None),
    "constant": lambda: (pa.table({"a": ["x"] * 300, "b": [7] * 300, "c": [0.5] * 300}), None),
    "all missing": lambda: (
        pa.table({"a": pa.nulls(300, pa.string()), "b": pa.nulls(300, pa.float64()), "c": [1, 2, 3] * 100}),
        None,
    ),
    "declared gaps": _gaps,
    "many categories": _wide,
    "domains of one": _single_codes,
    "keywords": lambda: (
        pa.table({
            "select": ["a", "b"] * 150,
            "from": [1, 2, 3] * 100,
            "group by": [0, 1] * 150,
            'x"; drop': [1.5] * 300,
        }),
        None,
    ),
}  # fmt: skip


def _run(table: Table, strategy: str, fitter: str, **options: Any) -> mg.Synthesis:
    rows, schema = table
    owner = options["unit"].owner if "unit" in options else None
    names = [name for name in rows.column_names if name != owner]
    return mg.Synthesizer(
        select=STRATEGIES[strategy](names),
        model=PMW(passes=20) if fitter == "pmw" else FITTERS[fitter](),
        schema=schema,
        **{"epsilon": 1.0, "delta": 1e-6, **options},
    ).fit(rows)


def _cost(synthesis: mg.Synthesis) -> tuple[Fraction, Fraction]:
    """What the events cost under the run's accountant, and what it allowed."""
    from margrave.privacy.accounting.accountants import GDP, ZCDP, Renyi
    from margrave.privacy.ledger.ledger import Ledger

    promise = synthesis.guarantee
    kept = promise.accounting
    accountant: Any = (
        Renyi(int(kept[4:])) if kept.startswith("rdp-") else {"zcdp": ZCDP(), "gdp": GDP()}[kept]
    )
    deltas = [getattr(event, "delta", Fraction(0)) for event in synthesis.release.events]
    kept = Fraction(promise.delta) / 4 if any(deltas) else Fraction(0)
    ledger = Ledger(
        epsilon=promise.epsilon,
        delta=promise.delta,
        neighbours=promise.neighbours,
        accountant=accountant,
        partition_delta=kept,
    )
    assert sum(deltas, Fraction(0)) <= kept
    return sum((accountant.cost(event) for event in synthesis.release.events), Fraction(0)), ledger.total


def _check(synthesis: mg.Synthesis, folder: Path) -> None:
    spent, total = _cost(synthesis)
    assert spent <= total
    assert float(spent) >= 0.999 * synthesis.guarantee.rho
    assert float(spent) <= synthesis.guarantee.rho * (1 + 1e-12)
    assert np.isfinite(synthesis.model.total)
    assert synthesis.model.total >= 0
    drawn = synthesis.encoded(100, rng=0)
    assert drawn.domain == synthesis.schema.domain
    for codes, size in zip(drawn.columns, drawn.domain.sizes, strict=True):
        assert len(codes) == 100
        assert int(codes.max()) < size
    columns = [column.name for column in synthesis.schema.columns if not isinstance(column, Omitted)]
    assert synthesis.sample(100, rng=0).column_names == columns
    assert len(synthesis.sample(rng=0)) == synthesis.rows
    for name in synthesis.schema.domain.names:
        table = synthesis.marginal(name)
        assert np.isfinite(table).all()
        assert table.sum() == pytest.approx(synthesis.model.total, rel=1e-6, abs=1e-6)
    synthesis.save(folder / "r.margrave")
    again = mg.load(folder / "r.margrave")
    assert again.release.events == synthesis.release.events
    assert again.sample(50, rng=4).equals(synthesis.sample(50, rng=4))


CASES = [
    pytest.param(
        table,
        strategy,
        fitter,
        # A sixth is run by default: every pair of two of the three is in it.
        marks=[] if (t + s + f) % 6 == 4 else [pytest.mark.slow],
        id=f"{table}-{strategy}-{fitter}",
    )
    for t, table in enumerate(TABLES)
    for s, strategy in enumerate(STRATEGIES)
    for f, fitter in enumerate(FITTERS)
]


@pytest.mark.parametrize(("table", "strategy", "fitter"), CASES)
def test_it_runs_spends_all_and_can_be_used(tmp_path: Path, table: str, strategy: str, fitter: str) -> None:
    _check(_run(TABLES[table](), strategy, fitter), tmp_path)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weights_on_all_cells_serve_every_strategy_on_small_domains(tmp_path: Path, strategy: str) -> None:
    for table in ("declared gaps", "domains of one"):
        _check(_run(TABLES[table](), strategy, "pmw"), tmp_path)


ENDS = [
    pytest.param(strategy, epsilon, marks=pytest.mark.slow if (strategy, epsilon) == ("aim", 100.0) else ())
    for strategy in STRATEGIES
    for epsilon in (1e-3, 100.0)
]


@pytest.mark.parametrize(("strategy", "epsilon"), ENDS)
def test_at_the_ends_of_epsilon(tmp_path: Path, strategy: str, epsilon: float) -> None:
    for table in ("mixed", "one row", "declared gaps"):
        _check(_run(TABLES[table](), strategy, "pgm", epsilon=epsilon), tmp_path)


UNITS: list[tuple[int | None, str]] = [
    (max_rows, adjacency) for max_rows in (None, 1, 3) for adjacency in ("add_remove", "replace_one")
]
PROMISES = [
    pytest.param(strategy, *promise, marks=() if (place + turn) % 3 == 0 else pytest.mark.slow)
    for place, strategy in enumerate(STRATEGIES)
    for turn, promise in enumerate(UNITS)
]
"""The fast tier tries two of the six with each strategy, and each of the six with four strategies or more."""


@pytest.mark.parametrize(("strategy", "max_rows", "adjacency"), PROMISES)
def test_units_and_adjacencies(tmp_path: Path, strategy: str, max_rows: int | None, adjacency: str) -> None:
    for rows in (0, 1, 400):
        table, _ = _mixed(rows)
        options: dict[str, Any] = {"adjacency": adjacency}
        if max_rows is not None:
            table = table.append_column("who", pa.array(np.arange(rows) // 5, pa.int64()))
            options["unit"] = mg.Unit("who", max_rows)
        found = _run((table, None), strategy, "pgm", **options)
        assert "who" not in found.schema.names
        if max_rows is None and adjacency == "replace_one":
            assert found.rows == max(rows, 1)
        _check(found, tmp_path)


def test_all_pairs_of_a_large_domain_are_refused_by_the_graphical_model(tmp_path: Path) -> None:
    sizes = {f"c{i}": 40 for i in range(12)}
    rng = np.random.default_rng(2)
    table = pa.table({name: rng.integers(0, size, 300) for name, size in sizes.items()})
    with pytest.raises(InputError, match=r"max_cells|cells"):
        _run((table, mg.Schema.from_sizes(sizes)), "all pairs", "pgm")
    _check(_run((table, mg.Schema.from_sizes(sizes)), "all pairs", "independent"), tmp_path)
