"""statistics, slopes and perturb: exact in whole numbers, of the sensitivity they say, recorded first."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import margrave.measure.mechanisms.regression.slopes as slope_door
import margrave.measure.mechanisms.regression.statistics as statistics_door
from margrave.engines.memory import open_source
from margrave.errors import BudgetError, InputError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.regression.perturb import (
    TOLERANCE,
    Objective,
    _differentiate,
    solve_perturbed,
)
from margrave.measure.mechanisms.regression.slopes import Slope, sum_slopes
from margrave.measure.mechanisms.regression.sums import OFF, ON
from margrave.privacy.accounting.accountants import GDP, ZCDP, Accountant, Renyi, event_rho
from margrave.privacy.accounting.events import GaussianEvent, ObjectiveEvent, SubsampledGaussianEvent
from margrave.privacy.accounting.renyi import choose_objective_order, objective_divergence
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.features import RowNumbers
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

SIZES = {"a": 5, "b": 4, "y": 2}
SCHEMA = Schema.from_sizes(SIZES)
NUMBERS = RowNumbers(("a", "b", "y"), (np.linspace(-1, 1, 5)[None, :], np.eye(4)[1:], np.array([[0.0, 1.0]])))
THETA = np.array([0.3, -0.5, 1.0, 0.0, 2.0])
RHO = Fraction(1, 10)
ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")


def _drawn(rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
    return rng.integers(0, list(SIZES.values()), (rows, 3))


def _encoded(codes: NDArray[np.int64]) -> Encoded:
    return Encoded(
        Domain(tuple(SIZES), tuple(SIZES.values())), tuple(column.astype(np.uint8) for column in codes.T)
    )


def _vectors(codes: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    parts = [matrix.T[codes[:, place]] for place, matrix in enumerate(NUMBERS.numbers[:2])]
    return np.hstack([np.ones((len(codes), 1)), *parts]), codes[:, 2].astype(float)


def _ledger(neighbours: Neighbours | None = None, kept: Accountant | None = None, **more: Any) -> Ledger:
    options = {"epsilon": 2.0, "delta": 1e-5, **more}
    return Ledger(neighbours=neighbours or Neighbours(), accountant=kept or GDP(), **options)


def _curator(ledger: Ledger, rows: int = 400, seed: int = 1) -> Curator:
    codes = _drawn(np.random.default_rng(5), rows)
    held = pa.table(dict(zip(SIZES, codes.T, strict=True)))
    if ledger.neighbours.unit.owner:
        held = held.append_column("id", pa.array(np.arange(rows)))
    curator = Curator(open_source(held)[0], ledger, SeededSource(seed))
    curator.discover(SCHEMA)
    return curator


def test_statistics_are_those_of_the_rows() -> None:
    curator = _curator(_ledger(epsilon=1e9))
    found = curator.statistics(NUMBERS, (Fraction(10) ** 8,) * 3)
    vectors, labels = _vectors(_drawn(np.random.default_rng(5), 400))
    np.testing.assert_allclose(found.crossed, vectors.T @ vectors, atol=0.5)
    np.testing.assert_allclose(found.labelled, vectors.T @ labels, atol=0.5)
    assert found.smallest == pytest.approx(np.linalg.eigvalsh(vectors.T @ vectors)[0], abs=0.5)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_neighbour_moves_the_statistics_further_than_they_say(adjacency: Adjacency) -> None:
    rng, reached = np.random.default_rng(7), np.zeros(3)
    for _ in range(500):
        k = int(rng.integers(1, 4))
        neighbours = Neighbours(Unit("id", k), adjacency)
        shape = [rng.choice([-1.0, 0.0, 1.0], (2, size)) for size in (5, 4)]
        matrices = RowNumbers(("a", "b", "y"), (*shape, np.array([[-1.0, 1.0]]))).cut(64)
        base, mine = _drawn(rng, 12), np.repeat(_drawn(rng, 1), k, axis=0)
        other = np.repeat(_drawn(rng, 1), k if adjacency == "replace_one" else 0, axis=0)
        sums = []
        for rows in (np.vstack([base, mine]), np.vstack([base, other])):
            parts = [matrix.T[rows[:, place]] for place, matrix in enumerate(matrices[1:])]
            z = np.hstack([np.full((len(rows), 1), 64), *parts])
            sums.append(z.T @ z)
        one, two = sums
        upper = np.triu_indices(len(one) - 1)
        moved = [
            (np.linalg.eigvalsh(one[:-1, :-1])[0] - np.linalg.eigvalsh(two[:-1, :-1])[0]) ** 2,
            float(((one - two)[:-1, :-1][upper] ** 2).sum()),
            float(((one - two)[:-1, -1] ** 2).sum()),
        ]
        said = statistics_door._square_sensitivities(matrices, neighbours)
        assert all(part <= most for part, most in zip(moved, said, strict=True))
        reached = np.maximum(reached, np.array(moved) / np.array(said, dtype=float))
    assert reached[1] > 0.4
    assert reached[2] > (0.9 if adjacency == "add_remove" else 0.5)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_gradient_and_the_curvature_are_those_of_the_rows(kind: Literal["linear", "logistic"]) -> None:
    codes = _drawn(np.random.default_rng(5), 3000)
    slope = Slope(NUMBERS, kind, THETA, 100.0)
    cut = NUMBERS.cut(1 << slope_door.DIGITS)
    gradient, curvature = sum_slopes(_encoded(codes), slope, (cut, cut))
    vectors, labels = _vectors(codes)
    score = vectors @ THETA
    mean = score if kind == "linear" else 1 / (1 + np.exp(-score))
    heights = np.ones(len(codes)) if kind == "linear" else mean * (1 - mean)
    np.testing.assert_allclose(gradient / 2.0**16, vectors.T @ (labels - mean), atol=12)
    np.testing.assert_allclose(curvature / 2.0**24, (vectors.T * heights) @ vectors, atol=12)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("clip", [0.25, 1.0, 50.0])
def test_no_row_is_longer_than_the_clip_nor_steeper_than_it_says(
    kind: Literal["linear", "logistic"], clip: float
) -> None:
    rng, longest, steepest = np.random.default_rng(3), 0.0, 0.0
    for _ in range(150):
        theta = rng.normal(0, rng.choice([0.1, 3.0, 1e6]), 5)
        slope = Slope(NUMBERS, kind, theta, clip)
        cut = NUMBERS.cut(1 << slope_door.DIGITS)
        gradient, curvature = sum_slopes(_encoded(_drawn(rng, 1)), slope, (cut, cut))
        squared = int((gradient**2).sum())
        assert squared <= slope.bound**2
        upper = np.triu_indices(5)
        factors = np.where(upper[0] == upper[1], ON, OFF)
        most = slope_door._square_curvature(slope, cut, 1)
        assert int(((curvature[upper] * factors) ** 2).sum()) <= most
        longest = max(longest, squared / slope.bound**2)
        steepest = max(steepest, float(((curvature[upper] * factors) ** 2).sum()) / most)
    if clip < 1.0:
        assert longest > 0.98
    assert steepest > (0.5 if kind == "linear" else 0.3)


def test_a_row_adds_the_same_beside_any_others() -> None:
    rng = np.random.default_rng(9)
    codes, slope = _drawn(rng, 700), Slope(NUMBERS, "logistic", THETA, 1.0)
    cut = NUMBERS.cut(1 << slope_door.DIGITS)
    whole = sum_slopes(_encoded(codes), slope, (cut, cut))
    one_by_one = [sum_slopes(_encoded(codes[place : place + 1]), slope, (cut, cut)) for place in range(700)]
    np.testing.assert_array_equal(whole[0], sum(part[0] for part in one_by_one))
    np.testing.assert_array_equal(whole[1], sum(part[1] for part in one_by_one))


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("k", [0, 2])
def test_the_events_price_what_is_asked(adjacency: Adjacency, k: int) -> None:
    neighbours = Neighbours(Unit("id", k) if k else Unit(), adjacency)
    ledger = _ledger(neighbours, epsilon=6.0)
    curator = _curator(ledger)
    slope = Slope(NUMBERS, "logistic", THETA, 2.0)
    found = curator.slopes(slope, RHO, RHO)
    curator.statistics(NUMBERS, (RHO, RHO / 2, RHO / 4))
    gradient, curvature, *rest = ledger.events
    far, units = neighbours.marginal_l1, neighbours.marginal_l2_squared
    assert isinstance(gradient, GaussianEvent)
    assert isinstance(curvature, GaussianEvent)
    assert gradient.l2_squared == (far * slope.bound) ** 2
    assert found.sigma == pytest.approx(far * 2.0 / math.sqrt(2 * float(RHO)), rel=1e-3)
    wanted = math.sqrt(units) * 3.0 / 4 / math.sqrt(2) / math.sqrt(2 * float(RHO))
    assert found.curvature_sigma == pytest.approx(wanted, rel=1e-2)
    for event, rho in zip([gradient, curvature, *rest], [RHO, RHO, RHO, RHO / 2, RHO / 4], strict=True):
        assert rho * Fraction(999, 1000) < event_rho(event) <= rho


def test_samples_are_priced_at_the_order_of_the_ledger() -> None:
    ledger = _ledger(kept=Renyi(12))
    slope = Slope(NUMBERS, "logistic", THETA, 1.0, Fraction(1, 8))
    for _ in range(3):
        _curator(ledger).slopes(slope, Fraction(1, 100))
    event = ledger.events[0]
    assert isinstance(event, SubsampledGaussianEvent)
    assert (event.steps, event.rate, event.order, event.l2_squared) == (1, Fraction(1, 8), 12, 1 << 32)
    assert sum(event_rho(event) for event in ledger.events) <= Fraction(3, 100)
    with pytest.raises(InputError, match="rate must be 1"):
        _curator(_ledger()).slopes(slope, RHO)
    with pytest.raises(InputError, match="adjacency must be"):
        _curator(_ledger(Neighbours(adjacency="replace_one"), Renyi(12))).slopes(slope, RHO)


def test_the_perturbed_minimum_is_a_minimum() -> None:
    codes = _drawn(np.random.default_rng(2), 2000)
    objective, linear = Objective(NUMBERS, Fraction(7)), np.array([30.0, -20.0, 5.0, 0.0, 60.0])
    theta = solve_perturbed(_encoded(codes), objective, linear)
    vectors, labels = _vectors(codes)
    mean = 1 / (1 + np.exp(-vectors @ theta))
    slope = vectors.T @ (mean - labels) + 7 * theta + linear
    assert np.linalg.norm(slope) <= 2 * TOLERANCE
    none = solve_perturbed(_encoded(codes[:0]), objective, linear)
    np.testing.assert_allclose(none, -linear / 7, atol=1e-6)
    assert Objective(NUMBERS, Fraction(7)).bound() == 3 << 20


def test_the_gradient_is_exact_to_far_less_than_the_tolerance_where_scores_cancel() -> None:
    rng, rows = np.random.default_rng(4), 40_000
    held = (
        np.trunc(rng.uniform(-1, 1, (6, 5)) * 1024) / 1024,
        np.trunc(rng.uniform(-1, 1, (1, 4)) * 1024) / 1024,
    )
    numbers = RowNumbers(("a", "b", "y"), (*held, np.array([[0.0, 1.0]])), constant=False)
    row = np.array([*held[0][:, 3], held[1][0, 1]])
    theta = rng.uniform(-1e9, 1e9, 7)
    theta[6] = (0.4 - math.fsum(row[:6] * theta[:6])) / row[6]
    private, linear = _encoded(np.tile([3, 1, 1], (rows, 1))), np.zeros(7)
    _, found, _ = _differentiate(private, Objective(numbers, Fraction(1, 1 << 20)), linear, theta)
    score = float(sum(Fraction(x) * Fraction(t) for x, t in zip(row.tolist(), theta.tolist(), strict=True)))
    assert abs(score) < 1.0
    slope = rows * row * (1 / (1 + math.exp(-score)) - 1.0)
    np.testing.assert_allclose(found, slope + theta / 2.0**20, atol=TOLERANCE / 2**10, rtol=0)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_perturbation_spends_what_it_says(adjacency: Adjacency, tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    order = choose_objective_order(2.0, 1e-5, (1, 1), 0.2)
    ledger = _ledger(Neighbours(adjacency=adjacency), Renyi(order), path=path)
    found, sigma, spread = _curator(ledger).perturb(Objective(NUMBERS, Fraction(30)), ledger.total)
    first, second = read_ledger(path)[1]
    assert isinstance(first, ObjectiveEvent)
    assert isinstance(second, GaussianEvent)
    m = 2 if adjacency == "replace_one" else 1
    assert (first.changed, first.replaced, first.ratio) == (m, 1, Fraction(3, 4) / 30)
    shift = Fraction(m**2 * 3 << 32) / first.sigma_squared
    price = objective_divergence(order, (m, 1), first.ratio, shift) / order
    assert ledger.total * Fraction(97, 100) < price <= ledger.total * Fraction(63, 64)
    assert ledger.remaining >= 0
    assert spread < sigma / 30 / 30
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("rows", "one", "other"),
    [
        ((1, 1), [(1, 0)], []),
        ((2, 1), [(1, 0)], [(1, 1)]),
        ((2, 1), [(1, 0)], [(-1, 0)]),
        ((3, 3), [(1, 0)] * 3, []),
        ((6, 3), [(1, 0)] * 3, [(1, 1)] * 3),
    ],
)
def test_the_divergence_is_above_that_of_one_number(
    rows: tuple[int, int], one: list[tuple[int, int]], other: list[tuple[int, int]]
) -> None:
    """p = 1: the density of the minimiser is known, and its divergence an integral."""
    sigma, ridge, order = 4.0, 2.0, 6
    grid = np.linspace(-40, 40, 400_001)

    def log_density(table: list[tuple[int, int]]) -> NDArray[np.float64]:
        b, curvature = -ridge * grid, np.full(len(grid), ridge)
        for x, y in [*table, (1, 1)]:
            mean = 1 / (1 + np.exp(-x * grid))
            b, curvature = b - (mean - y) * x, curvature + mean * (1 - mean)
        return np.asarray(-(b**2) / (2 * sigma**2) + np.log(curvature))

    step = grid[1] - grid[0]
    first, second = (found - math.log(np.exp(found).sum() * step) for found in map(log_density, (one, other)))
    bound = objective_divergence(order, rows, Fraction(1, 8), Fraction(rows[0] ** 2, 16))
    for p, q in ((first, second), (second, first)):
        exact = math.log(np.exp(order * p - (order - 1) * q).sum() * step) / (order - 1)
        assert 0.02 < exact <= float(bound)


def test_what_cannot_be_protected_or_paid_is_refused() -> None:
    curator = _curator(_ledger())
    slope, objective = Slope(NUMBERS, "logistic", THETA, 1.0), Objective(NUMBERS, Fraction(1))
    with pytest.raises(BudgetError):
        curator.slopes(slope, Fraction(10**6))
    for rho in (Fraction(0), Fraction(-1)):
        with pytest.raises(InputError, match="rho"):
            curator.slopes(slope, rho)
        with pytest.raises(InputError, match="each of the three"):
            curator.statistics(NUMBERS, (RHO, RHO, rho))
    with pytest.raises(InputError, match="accountant"):
        curator.perturb(objective, RHO)
    erased = _curator(_ledger(Neighbours(adjacency="zero_out"), ZCDP()))
    for ask in (
        lambda: erased.slopes(slope, RHO),
        lambda: erased.statistics(NUMBERS, (RHO,) * 3),
        lambda: erased.perturb(objective, RHO),
    ):
        with pytest.raises(InputError, match="adjacency"):
            ask()
    with pytest.raises(InputError, match="theta"):
        Slope(NUMBERS, "logistic", THETA[:3], 1.0)
    with pytest.raises(InputError, match="ridge"):
        Objective(NUMBERS, Fraction(0))
