"""Decimals of discovered numbers: whether zeros at the end are written is decided by evident counts."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.schema.storage.spelling import SHORTEST, SPELLINGS, choose_number_spelling

PLACES = len(SPELLINGS["number"])


def count_decimals(shares: dict[int, float], rows: int) -> np.ndarray:
    counts = np.zeros(PLACES)
    for digits, share in shares.items():
        counts[digits] = share * rows
    return counts


WRITTEN, LEFT = {2: 1.0}, {2: 0.9, 1: 0.09, 0: 0.01}
"""Amounts in cents, with zeros at the end and without."""


@pytest.mark.parametrize(("rows", "sigma"), [(1000, 30.0), (4000, 60.0), (4000, 150.0), (20_000, 100.0)])
@pytest.mark.parametrize("shares", [WRITTEN, LEFT])
def test_noise_of_decimals_that_do_not_occur_decides_nothing(
    rows: int, sigma: float, shares: dict[int, float]
) -> None:
    rng = np.random.default_rng(7)
    counts = count_decimals(shares, rows)
    found = [choose_number_spelling(counts + rng.normal(0.0, sigma, PLACES), sigma) for _ in range(400)]
    fixed = np.mean([spelling == "0.00" for spelling in found])
    right = fixed if shares is WRITTEN else 1.0 - fixed
    assert right >= 0.88  # a share of all noisy counts is right in .65 and .68 of the hardest


@pytest.mark.parametrize(
    ("shares", "spelling"),
    [
        (WRITTEN, "0.00"),
        ({1: 1.0}, "0.0"),
        ({2: 0.9, 1: 0.1}, "0.0#"),
        ({1: 0.9, 0: 0.1}, "0.#"),
        ({3: 0.9, 2: 0.09, 1: 0.01}, "0.0##"),
        ({0: 1.0}, "0"),
        ({0: 0.9, 2: 0.05, 3: 0.05}, "0.###"),
        ({PLACES - 1: 1.0}, ""),
        ({PLACES - 1: 0.9, 0: 0.1}, SHORTEST),
    ],
)
def test_the_spelling_without_noise(shares: dict[int, float], spelling: str) -> None:
    assert choose_number_spelling(count_decimals(shares, 1000), 1.0) == spelling


def test_whole_numbers_beside_rare_decimals_keep_these() -> None:
    """A tenth of the numbers have decimals, of which none is evident: they are not all written whole."""
    rare = {0: 0.9} | dict.fromkeys(range(1, 6), 0.02)
    assert choose_number_spelling(count_decimals(rare, 1000), 20.0) == ""


def test_whole_numbers_that_are_not_evident_are_written_without_a_point() -> None:
    """A ninth of the tenths are whole, which noise of 40 rows hides, but which are more than a twentieth."""
    assert choose_number_spelling(count_decimals({1: 0.9, 0: 0.1}, 1000), 40.0) == "0.#"
