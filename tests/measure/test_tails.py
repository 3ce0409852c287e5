"""Tails of amounts: sums and means survive what single cells lose in noise."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.measure.discovery.bins import cut
from margrave.measure.discovery.values import Histogram, fit_tail, refine_tail, weigh_tail
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.columns import Binned
from margrave.schema.draws import real_numbers
from seeded_noise import SeededSource


def _seen(values: np.ndarray, sigma: float, seed: int = 0, whole: bool = False) -> Histogram:
    """A detail look at amounts, sixteen cells an octave, as it is weighed without a law."""
    edges = np.concatenate([[0.0], 2.0 ** np.arange(4.0, 20.0, 1.0 / 16)])
    edges = np.unique(np.ceil(edges)) if whole else edges
    exact = np.histogram(values, edges)[0]
    noisy = exact + np.random.default_rng(seed).normal(0.0, sigma, len(exact))
    none = np.zeros(len(exact), dtype=np.bool_)
    return Histogram(edges, noisy, np.full(len(exact), sigma**2), np.maximum(noisy - sigma, 0.0), none)


def _mean(edges: np.ndarray, weights: np.ndarray) -> float:
    return float((weights * (edges[1:] + edges[:-1]) / 2).sum() / weights.sum())


def test_a_heavy_tail_is_told_by_all_of_its_cells() -> None:
    values = 1000.0 * (np.random.default_rng(1).pareto(2.0, 50_000) + 1.0)
    shapes, with_law, without = [], [], []
    for seed in range(10):
        found = _seen(values, 40.0, seed)
        tail = fit_tail(found, 50_000)
        assert tail is not None
        shapes.append(float(tail.chances @ tail.shapes))
        weighed = weigh_tail(found, tail)
        assert weighed.weights.sum() == pytest.approx(found.weights.sum())
        with_law.append(_mean(weighed.edges, weighed.weights) / values.mean())
        without.append(_mean(found.edges, found.weights) / values.mean())
    assert np.mean(shapes) == pytest.approx(0.5, abs=0.15)
    assert np.abs(np.array(with_law) - 1.0).mean() < 0.06
    assert np.abs(np.array(with_law) - 1.0).mean() < 0.5 * np.abs(np.array(without) - 1.0).mean()


def test_short_tails_and_noise_get_no_law() -> None:
    rng = np.random.default_rng(2)
    assert fit_tail(_seen(rng.uniform(100.0, 1000.0, 50_000), 40.0), 50_000) is None
    assert fit_tail(_seen(rng.normal(5000.0, 100.0, 50_000), 40.0), 50_000) is None
    assert fit_tail(_seen(rng.pareto(2.0, 20) * 1000.0, 400.0), 20) is None
    two = np.concatenate([rng.exponential(100.0, 50_000), rng.normal(100_000.0, 1000.0, 3000)])
    assert fit_tail(_seen(two, 40.0), 53_000) is None  # a second heap is no tail


def test_no_law_begins_behind_a_cell_of_zero_alone() -> None:
    """Its scale would be the smallest float there is, and all amounts would become zeros."""
    rng = np.random.default_rng(2)
    values = np.where(rng.random(12_000) < 0.905, 0.0, 300.0 * rng.pareto(1.2, 12_000))
    edges = np.concatenate([[0.0, 5e-324], 2.0 ** np.arange(5.0, 18.0, 0.25)])
    exact = np.histogram(values, edges)[0]
    alone = np.arange(len(exact)) == 0
    for _ in range(20):
        noisy = exact + rng.normal(0.0, 60.0, len(exact))
        weights = np.where(alone, noisy, exact)
        found = Histogram(edges, noisy, np.full(len(exact), 60.0**2), weights, alone)
        tail = fit_tail(found, 12_000)
        weighed = found if tail is None else weigh_tail(found, tail)
        assert np.isfinite(weighed.weights).all()
        assert weighed.weights[1:].sum() == pytest.approx(weights[1:].sum())


@pytest.mark.parametrize("whole", [False, True])
def test_the_last_bin_ends_where_less_than_a_row_is_expected(whole: bool) -> None:
    values = 1000.0 * (np.random.default_rng(1).pareto(2.0, 50_000) + 1.0)
    found = _seen(values, 40.0, whole=whole)
    tail = fit_tail(found, 50_000)
    assert tail is not None
    assert 0.1 < tail.end / values.max() < 10
    bins = cut(found.edges, weigh_tail(found, tail).weights, 32, 200.0)
    edges, fine, weights = refine_tail(bins, tail, whole)
    assert set(edges) <= set(fine)
    assert (np.diff(fine) > 0).all()
    assert (weights >= 0).all()
    assert len(weights) == len(fine) - 1
    assert edges[-1] >= tail.end
    in_tail = fine[:-1] >= tail.edge
    density = weights[in_tail] / np.diff(fine)[in_tail]
    assert (np.diff(density) <= 1e-6 * density[0]).all()
    assert weights[fine[:-1] >= tail.end].sum() == 0.0


def test_whole_numbers_stay_exact_however_long_the_tail() -> None:
    found = _seen(1000.0 * (np.random.default_rng(1).pareto(2.0, 50_000) + 1.0), 40.0, whole=True)
    tail = fit_tail(found, 50_000)
    assert tail is not None
    bins = cut(found.edges, weigh_tail(found, tail).weights, 32, 200.0)
    edges, fine, _ = refine_tail(bins, dataclasses.replace(tail, end=2.0**80), True)
    assert edges[-1] == fine[-1] == 2.0**53


def test_the_sum_of_amounts_comes_out_of_discovery() -> None:
    rng = np.random.default_rng(5)
    heavy = np.where(rng.random(40_000) < 0.01, rng.pareto(1.5, 40_000) + 1.0, 1.0)
    values = (rng.lognormal(8.2, 1.1, 40_000) * heavy).round(2)
    ratios = []
    for seed in range(6):
        columns = {f"x{place}": rng.permutation(values) for place in range(3)}
        source, _ = open_source(pa.table(columns))
        ledger = Ledger(
            epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=ZCDP(), partition_delta=Fraction(0)
        )
        schema = Curator(source, ledger, SeededSource(seed)).discover(None, ledger.total / 3)
        for column in schema.columns:
            assert isinstance(column, Binned)
            fine, weights = np.asarray(column.fine), np.asarray(column.weights)
            owner = np.searchsorted(column.edge_array, fine[:-1], side="right") - 1
            mass = np.bincount(owner, weights=weights)
            bins = rng.choice(len(mass), 20_000, p=mass / mass.sum())
            ratios.append(real_numbers(bins, column, rng).mean() / values.mean())
    assert abs(np.median(ratios) - 1.0) < 0.08


@pytest.mark.parametrize("floats", [1, 2, 3, 4, 7])
def test_cells_a_few_floats_wide_are_parted_no_finer(floats: int) -> None:
    """Edges of equal cells and of growing ones may differ by their last digits alone."""
    values = 1000.0 * (np.random.default_rng(1).pareto(2.0, 50_000) + 1.0)
    found = _seen(values, 40.0)
    cell = int(np.searchsorted(found.edges, 20_000.0))
    near = float(found.edges[cell])
    for _ in range(floats):
        near = float(np.nextafter(near, np.inf))
    place = cell + 1
    found = Histogram(
        np.insert(found.edges, place, near),
        np.insert(found.noisy, place - 1, 0.0),
        np.insert(found.variances, place - 1, 40.0**2),
        np.insert(found.weights, place - 1, 1.0),
        np.insert(found.alone, place - 1, False),
    )
    tail = fit_tail(found, 50_000)
    assert tail is not None
    assert tail.edge < near
    weighed = weigh_tail(found, tail)
    edges, fine, weights = refine_tail(cut(weighed.edges, weighed.weights, 16, 100.0), tail, whole=False)
    assert (np.diff(fine) > 0).all()
    assert np.isin(edges, fine).all()
    assert weights.sum() == pytest.approx(weighed.weights.sum(), rel=1e-3)
    assert len(weights) == len(fine) - 1
