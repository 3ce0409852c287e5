"""Relations that noise makes up: columns that are equal in half of the rows are not equal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from margrave import Synthesizer
from margrave.measure.discovery.between.links import Pair
from margrave.measure.discovery.between.relations import MIN_KEPT, _tells_less
from margrave.measure.discovery.between.trees import pool_kept
from margrave.measure.discovery.bins import Cut
from margrave.schema.columns import Integer, Relative
from margrave.schema.columns.relative import Comparison

EDGES = np.array([-20.0, -2.0, 0.0, 1.0, 3.0, 20.0])


def hours(equal: float, rows: int = 2000) -> pd.DataFrame:
    """Hours of two weeks, the same in so many rows and in those in which they are by chance."""
    rng = np.random.default_rng(0)
    first = rng.choice([20, 30, 35, 38, 40, 45], rows, p=[0.1, 0.1, 0.1, 0.1, 0.5, 0.1])
    return pd.DataFrame({"a": first, "b": np.where(rng.random(rows) < equal, first, rng.permutation(first))})


def find_relations(data: pd.DataFrame, seed: int) -> list[str]:
    """What discovery finds of an epsilon of 1, for reading."""
    fitted = Synthesizer("independent", epsilon=1, delta=1e-9, not_private_test_seed=seed).fit(data)
    return [one.relation for one in fitted.schema.columns if isinstance(one, Relative)]


@pytest.mark.parametrize("seed", range(4))
def test_columns_that_are_equal_in_half_of_the_rows_are_not_taken_for_equal(seed: int) -> None:
    """Of these four seeds all were, in the closer look alone: .58 of the rows are equal."""
    assert find_relations(hours(0.4), seed) == []


def test_equal_columns_are_found_in_the_same_noise() -> None:
    found = [find_relations(hours(1.0), seed) for seed in range(4)]
    assert sum(bool(one) for one in found) >= 3
    assert all("is" in one for names in found for one in names)


def relation(low: float, high: float, turned: bool = False) -> tuple[Relative, Pair]:
    """A relation with bins from low to high and a share of 1 with an error of .2, and its pair."""
    own = [Integer(name=name, edges=(0.0, 21.0), weights=(1.0,), missing=False) for name in "ab"]
    part = Integer(name="b", edges=(low, high), missing=False)
    found = Relative(
        name="b", base="a", base_read="number", own=own[1], part=part, missing=False, share=(1.0, 0.2)
    )
    return found, Pair(*(own[::-1] if turned else own), EDGES, np.full(5, 0.2))


@pytest.mark.parametrize(
    ("ends", "turned", "cells", "share"),
    [
        ((0.0, 1.0), False, (100.0, 150.0, 500.0, 150.0, 100.0), 0.5),  # equal, in half
        ((0.0, 9.0), False, (100.0, 100.0, 500.0, 300.0, 0.0), 0.8),  # at least
        ((0.0, 9.0), True, (0.0, 300.0, 500.0, 100.0, 100.0), 0.8),
        ((-9.0, 1.0), False, (100.0, 100.0, 500.0, 300.0, 0.0), 0.7),  # at most
        ((-9.0, 1.0), False, (0.0, 0.0, 500.0, 50.0, 0.0), 10 / 11),
    ],
)
def test_the_first_look_says_what_the_closer_one_hides(
    ends: tuple[float, float], turned: bool, cells: tuple[float, ...], share: float
) -> None:
    found, pair = relation(*ends, turned=turned)
    pooled = pool_kept(found, [pair], [np.array([*cells, 0.0, 0.0, 0.0])], 1e-3)
    assert pooled is not None
    assert pooled[0] == pytest.approx(share, abs=1e-3)
    assert (pooled[0] >= MIN_KEPT) == (share > 0.9)


def test_two_looks_that_are_as_sure_count_half_each_and_one_that_says_nothing_does_not() -> None:
    found, pair = relation(0.0, 1.0)
    counts = np.array([100.0, 150.0, 500.0, 150.0, 100.0, 0.0, 0.0, 0.0])
    pooled = pool_kept(found, [pair], [counts], 0.2 * 1000.0 / np.sqrt(5 * 0.5**2))
    assert pooled == (pytest.approx(0.75), pytest.approx(0.2 / np.sqrt(2.0)))
    assert pool_kept(relation(-9.0, 9.0)[0], [pair], [counts], 1.0) is None  # leaves out no side
    assert pool_kept(found, [], [], 1.0) is None


@pytest.mark.parametrize(("low", "high", "less"), [(-2, 3, True), (0, 3, False), (-2, 1, False)])
def test_differences_on_both_sides_tell_a_column_of_few_values_less(low: int, high: int, less: bool) -> None:
    """Its own bins tell its values apart, and what is on one side of the base alone is an order as well."""
    own = np.arange(6.0)
    column = Integer(name="b", edges=tuple(own), fine=tuple(own), weights=(10.0,) * 5, missing=False)
    edges = np.arange(low, high + 1.0)
    pieces = Cut(edges, edges, np.full(len(edges) - 1, 10.0), np.arange(len(edges) - 1))
    assert _tells_less(column, Comparison("difference", whole=True), pieces) == less
