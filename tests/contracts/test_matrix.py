"""Every selector with every generator on a cut of the shipped table, and the page that says what combines."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import test_strategy_contract as contract
from torch_fitters import NEEDS_TORCH, SMALL, TINY, TRAINED

import margrave as mg
from margrave import select
from margrave.datasets import load_adult
from margrave.errors import InputError
from margrave.models import PMW, Residual, resolve
from margrave.models.auto import Auto
from margrave.models.networks.merf import Merf
from margrave.models.registry import FITTERS
from margrave.models.sliced.fitter import SliceFDiv, SliceWass
from margrave.models.sliced.training import Course
from margrave.privacy.ledger.journal import read_ledger
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain

TORCH = {*TINY, *TRAINED, "merf"}
"""Generators that need PyTorch."""
ROOT = Path(__file__).resolve().parents[2]
SCHEMA = mg.Schema(
    (
        mg.Integer(name="age", lower=17, upper=90, bins=6, missing=False),
        mg.Categorical(name="sex", values=("Female", "Male"), missing=False),
        mg.Integer(name="education-num", lower=1, upper=16, bins=8, missing=False),
        mg.Categorical(name="income", values=("<=50K", ">50K"), missing=False),
    )
)
PUBLIC = tuple(name for name in FITTERS if "public marginals" in resolve(name).learns_from)
"""Generators that keep tables of public rows."""
OWN = {
    "JAM": PUBLIC,
    "VerticalRounds": PUBLIC,
    "MeanEmbedding": ("merf",),
    "SliceTraining": ("slice_fdiv", "slice_wass"),
    "Training": ("diffusion", "gan"),
    "Votes": ("voted_gan",),
}
"""Selectors that go with some generators only."""
BOUND = tuple(TRAINED)
"""Generators that go with the selectors of OWN only."""
QUICK: dict[str, Callable[[], Any]] = {
    **TINY,
    **TRAINED,
    **contract.FITTERS,
    "auto": Auto,
    "merf": lambda: Merf(network=TINY["network"](), features=16),
    "slice_fdiv": lambda: SliceFDiv(course=Course(steps=3, batch=16, slices=2, k=1), noise=4),
    "slice_wass": lambda: SliceWass(course=Course(steps=3, batch=16, slices=2), noise=4),
    "pmw": lambda: PMW(passes=20),
    "residual": lambda: Residual(rounds=20),
}


def _quick(generator: str) -> Any:
    """The generator in a size for small tables, where it has one."""
    return QUICK[generator]() if generator in QUICK else resolve(generator)


def _bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_matrix", ROOT / "bench" / "matrix.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


BENCH = _bench()


@cache
def _said() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = BENCH.matrix()
    return found


def _adult() -> pa.Table:
    table = load_adult().slice(0, 600).select(list(SCHEMA.names))
    return pa.table(
        {
            name: pc.utf8_trim_whitespace(column) if pa.types.is_string(column.type) else column
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )


def _goes(selector: str, generator: str) -> bool:
    """Whether the two are made for each other, or each for any."""
    return generator in OWN.get(selector, FITTERS) and (generator not in BOUND or selector in OWN)


def _pairs() -> list[Any]:
    """All pairs; those outside a thin cover, in which each selector has at least two generators, are slow."""
    cases = []
    for i, selector in enumerate(BENCH.SELECTORS):
        for j, generator in enumerate(FITTERS):
            if not _goes(selector, generator):
                continue
            marks = [] if (i + j) % 5 == 4 or selector in OWN else [pytest.mark.slow]
            if generator in TORCH:
                marks.append(NEEDS_TORCH)
            cases.append(pytest.param(selector, generator, marks=marks, id=f"{selector}-{generator}"))
    return cases


@pytest.mark.parametrize(("selector", "generator"), _pairs())
def test_every_pair_makes_a_release(tmp_path: Path, selector: str, generator: str) -> None:
    found = mg.Synthesizer(
        select=BENCH.made(selector, SCHEMA.names),
        model=_quick(generator),
        epsilon=2.0,
        delta=1e-6,
        adjacency=BENCH.adjacency(selector),
        schema=SCHEMA,
        ledger=tmp_path / "run.jsonl",
    ).fit(_adult())
    promise = found.guarantee
    adjacency = BENCH.adjacency(selector)
    assert (promise.epsilon, promise.delta, promise.neighbours.adjacency) == (2.0, 1e-6, adjacency)
    if selector == "Training":
        assert promise.accounting.startswith("rdp-")
    else:
        assert promise.accounting == ("gdp" if getattr(select, selector).gaussian_only else "zcdp")
    assert found.release.events == read_ledger(tmp_path / "run.jsonl")[1]
    assert 450 < found.rows < 750
    assert set(found.sample(80, rng=1)["sex"].to_pylist()) <= {"Female", "Male"}
    contract._check(found, tmp_path)


def test_the_cover_has_every_selector_twice_and_every_generator() -> None:
    quick = [case.values for case in _pairs() if not any(mark.name == "slow" for mark in case.marks)]
    assert len(quick) <= 3 * len(FITTERS) + 8, "the fast tier has a pair too many: see _pairs of this file"
    for name in BENCH.SELECTORS:
        assert sum(selector == name for selector, _ in quick) >= (1 if name in OWN else 2)
    assert {generator for _, generator in quick} == set(FITTERS)


@NEEDS_TORCH
def test_the_page_says_what_the_code_says() -> None:
    written = (ROOT / "docs" / "methods" / "matrix.md").read_text(encoding="utf-8")
    assert written == BENCH.page(_said()), "run python bench/matrix.py"


@NEEDS_TORCH
def test_what_does_not_go_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    refused = {pair: word for pair, word in _said().items() if word in ("small", "no")}
    assert refused["AllPairs", "pgm"] == "small"
    owned = {pair for pair in _said() if not _goes(*pair)}
    assert {pair for pair, word in refused.items() if word == "no"} == owned
    for number, (selector, generator) in enumerate(refused):
        ledger = tmp_path / f"{number}.jsonl"
        synthesizer = mg.Synthesizer(
            select=BENCH.made(selector),
            model=resolve(generator),
            epsilon=1.0,
            adjacency=BENCH.adjacency(selector),
            schema=mg.Schema.from_sizes(BENCH.WIDE),
            ledger=ledger,
        )
        with pytest.raises(InputError, match="cells" if refused[selector, generator] == "small" else "model"):
            synthesizer.fit(BENCH.wide_table())
        assert not ledger.exists() or read_ledger(ledger)[1] == ()


FROM_MARGINALS = [
    pytest.param(name, marks=[NEEDS_TORCH] if name in TORCH else []) for name in FITTERS if name not in BOUND
]
"""Generators that learn from marginals."""


@pytest.mark.parametrize("generator", FROM_MARGINALS)
def test_which_generators_keep_no_association(generator: str) -> None:
    """What the page calls `ones`: a dependent pair becomes a product."""
    counts = np.array([[450.0, 50.0], [50.0, 450.0]])
    if generator == "merf":
        fitter: Any = Merf(network=SMALL["network"](), features=64)
    else:
        fitter = SMALL[generator]() if generator in SMALL else _quick(generator)
    table = NoisyMarginal(("a", "b"), counts, 1.0)
    # `public_weights` takes one step a table, as its rounds do.
    model = fitter.fit(Domain(("a", "b"), (2, 2)), [table] * (20 if generator == "public_weights" else 1))
    kept = model.project(("a", "b"))
    lift = kept[0, 0] * kept[1, 1] / (kept[0, 1] * kept[1, 0])
    assert (lift < 1.5) == (generator in BENCH.BLIND)
