"""PrivTree bins and rare categories against their sheet: the tree, its ends, and what no table may decide."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from faithful_door import budget

import margrave as mg
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.measure.discovery.bins import cut_by
from margrave.measure.mechanisms.gaussian import Gaussian
from seeded_noise import SeededSource


def tree(weights: np.ndarray, theta: float, decay: float) -> list[int]:
    """Leaves of the paper's tree over 2^k cells: a node of depth h splits if c - h decay > theta."""

    def leaves(start: int, stop: int, depth: int) -> list[int]:
        middle = (start + stop) // 2
        if stop - start == 1 or weights[start:stop].sum() - depth * decay <= theta:
            return [start]
        return [*leaves(start, middle, depth + 1), *leaves(middle, stop, depth + 1)]

    return leaves(0, len(weights), 0)


@pytest.mark.parametrize("seed", range(20))
def test_leaves_are_those_of_the_recursion_with_the_nodes_own_depth(seed: int) -> None:
    """One public implementation takes the number of splits so far for the depth, which starves late nodes."""
    rng = np.random.default_rng(seed)
    weights = rng.pareto(1.0, 64) * 20 + 0.01
    bins, least = 64, float(rng.uniform(0.0, 40.0))
    theta = max(float(weights.sum()) / bins, least)
    found = cut_by("privtree", np.arange(65.0), weights, bins, least)
    assert found.starts.tolist() == tree(weights, theta, least * math.log(2))
    # So no leaf of several cells holds more than its bar and what its depth has taken off.
    masses = np.add.reduceat(found.weights, found.starts)
    for mass, width in zip(masses, np.diff(found.edges), strict=True):
        assert width == 1 or mass <= theta + math.log2(64 / width) * least * math.log(2) + 1e-9


def test_no_mass_makes_no_tree_and_a_spike_ends_at_its_own_cell() -> None:
    assert len(cut_by("privtree", np.arange(65.0), np.zeros(64), 64, 1.0).starts) == 1
    spike = np.full(64, 1e-3)
    spike[37] = 5000.0
    found = cut_by("privtree", np.arange(65.0), spike, 64, 1.0)
    assert {37.0, 38.0} <= set(found.edges)


def test_every_number_is_in_exactly_one_bin_those_outside_in_the_end_ones() -> None:
    column = mg.Real(name="x", lower=0.0, upper=8.0, bins=8, missing=True, strict=False)
    values = [-1e9, -0.5, 0.0, 0.999, 1.0, 7.999, 8.0, 8.5, 1e300, math.inf, -math.inf, math.nan, None]
    curator = Curator(open_source(pa.table({"x": values}))[0], budget(1.0), SeededSource(0))
    schema = curator.discover(mg.Schema((column,)))
    counts = curator._open.count([("x",)])[0].reveal()
    assert counts.sum() == len(values)
    assert schema.domain["x"] >= 8
    assert counts[1:7].sum() == 1  # 1.0 alone: all below and above are at the ends


FIXED = 400.0


def found_schema(table: pa.Table, binning: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, int]:
    """What discovery says of a table when its answers are the same numbers whatever the table holds."""
    asked: list[tuple[int, ...]] = []

    def answer(self: Gaussian, exact: np.ndarray, variance: Any) -> np.ndarray:
        asked.append(exact.shape)
        rng = np.random.default_rng(len(asked))
        return np.abs(rng.normal(FIXED, 100.0, exact.shape)) * (rng.random(exact.shape) < 0.3)

    monkeypatch.setattr(Gaussian, "noisy", answer)
    curator = Curator(open_source(table)[0], budget(1.0), SeededSource(0))
    declared = mg.Schema((mg.Real(name="x", binning=binning, bins=12), mg.Integer(name="k")))
    return curator.discover(declared, budget(1.0).total / 2), len(asked)


@pytest.mark.parametrize(
    "binning",
    [
        "privtree",
        "adaptive",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("quantile", "uniform")),
    ],
)
def test_ranges_and_bins_follow_from_answers_and_never_from_the_rows(
    binning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tables without a value in common, the same answers: the same schema to the last bit.

    A root interval from the least and the largest private value, as one implementation has it, would tell.
    """
    rng = np.random.default_rng(0)
    one = pa.table({"x": rng.normal(0, 1, 300), "k": rng.integers(0, 9, 300)})
    two = pa.table({"x": rng.normal(5e6, 1e3, 50), "k": rng.integers(-9000, -100, 50)})
    first, looks = found_schema(one, binning, monkeypatch)
    second, more = found_schema(two, binning, monkeypatch)
    assert first == second
    assert looks == more > 2


def test_declared_values_are_there_whether_or_not_a_row_has_them() -> None:
    """Noise goes on every public value; to list only what occurs would say that it does."""
    values = tuple(f"v{i}" for i in range(40))
    column = mg.Categorical(name="town", values=values, missing=False)
    schemas, tables = [], []
    for texts in (["v3"] * 50, ["v3"] * 49 + ["v17"]):
        curator = Curator(open_source(pa.table({"town": texts}))[0], budget(0.5), SeededSource(1))
        schemas.append(curator.discover(mg.Schema((column,))))
        tables.append(curator.measure([("town",)], curator.remaining)[0].values)
    assert schemas[0] == schemas[1]
    assert schemas[0].domain["town"] == tables[0].size >= 40
    absent = np.array([i for i in range(40) if i not in (3, 17)])
    assert (tables[0][absent] != 0).mean() > 0.5
