"""ResidualPlanner and GReM against their sheet: a residual's price by brute force, and the best split."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from margrave.models.rowwise.residual import residual, subsets
from margrave.privacy.unit import Neighbours
from margrave.schema.domain import Domain
from margrave.select.residual_planner import planner_bound

NAMES, SIZES = ("a", "b", "c"), (2, 3, 4)
DOMAIN = Domain(NAMES, SIZES)
RECORDS = list(itertools.product(*(range(size) for size in SIZES)))
PARTS = list(subsets(NAMES))


def moved(change: np.ndarray, part: tuple[str, ...]) -> float:
    """Squared length of what a change of the counts does to the residual over a part.

    The residual is an orthogonal projection, so its noise is sigma^2 times itself and lengths are plain ones.
    """
    return float((residual(change, NAMES, part) ** 2).sum())


def unit(record: tuple[int, ...]) -> np.ndarray:
    table = np.zeros(SIZES)
    table[record] = 1.0
    return table


@pytest.mark.parametrize("part", PARTS, ids="".join)
def test_a_row_moves_a_residual_by_the_product_of_its_sizes_less_one(part: tuple[str, ...]) -> None:
    """p_T = prod over T of (n - 1) / n, for every record there is: under add_remove all cost alike."""
    price = math.prod((DOMAIN[name] - 1) / DOMAIN[name] for name in part)
    assert [moved(unit(record), part) for record in RECORDS] == pytest.approx([price] * len(RECORDS))


@pytest.mark.parametrize("part", PARTS, ids="".join)
def test_an_exchange_moves_it_by_twice_that_without_the_smallest_factor(
    part: tuple[str, ...],
) -> None:
    """The worst of all pairs of records; the total does not move at all."""
    worst = max(moved(unit(x) - unit(y), part) for x, y in itertools.combinations(RECORDS, 2))
    if not part:
        assert worst == 0.0
        return
    least = min(part, key=lambda name: DOMAIN[name])
    price = 2 * math.prod((DOMAIN[name] - 1) / DOMAIN[name] for name in part if name != least)
    assert worst == pytest.approx(price)


@pytest.mark.parametrize(("adjacency", "pairs"), [("add_remove", None), ("replace_one", 2)])
def test_whole_marginals_move_by_what_the_door_charges(adjacency: str, pairs: int | None) -> None:
    """What is bought here: 1 and 2 in squared L2, whatever the clique, by brute force over records."""
    neighbours = Neighbours(adjacency=adjacency)  # type: ignore[arg-type]
    changes = [unit(x) for x in RECORDS]
    if pairs:
        changes = [unit(x) - unit(y) for x, y in itertools.combinations(RECORDS, pairs)]
    for part in PARTS[1:]:
        gone = tuple(axis for axis, name in enumerate(NAMES) if name not in part)
        tables = [change.sum(axis=gone) for change in changes]
        assert max((t**2).sum() for t in tables) == neighbours.marginal_l2_squared
        assert max(np.abs(t).sum() for t in tables) == neighbours.marginal_l1


@pytest.mark.parametrize(
    "workload",
    [{("a", "b"): 1.0, ("b", "c"): 3.0}, {("a", "b", "c"): 0.5, ("c",): 1.0}],
    ids=["pairs", "triple"],
)
def test_the_closed_form_allocation_is_the_best_there_is(workload: dict[tuple[str, ...], float]) -> None:
    """sigma_T^2 = root(p / v) sum(root(v p)) / c: v sigma^2 goes with p / sigma^2; nothing else is better.

    The variances are summed cell by cell from the definition: noise of sigma_T^2 on each residual.
    """
    parts = sorted({part for clique in workload for part in subsets(clique)}, key=len)
    value, price = np.zeros(len(parts)), np.ones(len(parts))
    for k, part in enumerate(parts):
        price[k] = moved(unit((0, 0, 0)), part)
        for clique, weight in workload.items():
            if set(part) <= set(clique):
                # A residual's noise is white noise projected; a table spreads it over its other cells.
                others = math.prod(DOMAIN[name] for name in clique if name not in part)
                white = np.eye(DOMAIN.size(part)).reshape(-1, *DOMAIN.shape(part))
                rank = sum(float((residual(own, part, part) ** 2).sum()) for own in white) if part else 1.0
                value[k] += weight * rank / others
    root = np.sqrt(value * price)
    best = np.sqrt(price / value) * root.sum()
    assert (price / best).sum() == pytest.approx(1.0)
    assert (value * best).sum() == pytest.approx(root.sum() ** 2)
    np.testing.assert_allclose(value * best / (price / best), (value * best).sum())
    assert planner_bound(DOMAIN, workload) == pytest.approx(root.sum() ** 2)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = best * rng.uniform(0.5, 2.0, len(parts))
        other *= (price / other).sum()
        assert (value * other).sum() >= root.sum() ** 2 * (1 - 1e-12)
