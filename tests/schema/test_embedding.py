"""Random Fourier features in whole numbers: unit length, the Gaussian kernel, and refusals."""

from __future__ import annotations

import numpy as np
import pytest

from margrave.errors import SchemaError
from margrave.schema.domain import Domain
from margrave.schema.features import TURN, Embedding, fourier, numbers

DOMAIN = Domain(("y", "a", "b", "c"), (2, 11, 5, 7), (0, 11, 4, 2))


def points(embedding: Embedding, codes: list[int]) -> np.ndarray:
    """z(x) of one row, shape [frequencies], of length 1."""
    phase = sum(table[code].astype(int) for table, code in zip(embedding.phases, codes, strict=True)) % TURN
    return np.exp(2j * np.pi * phase / TURN) / np.sqrt(embedding.frequencies)


def test_numbers_are_the_attributes_in_order_without_the_label() -> None:
    assert numbers(DOMAIN) == ("a", "b")
    assert numbers(DOMAIN, "a") == ("b",)


def test_products_of_features_are_the_gaussian_kernel() -> None:
    embedding = fourier(DOMAIN, "y", 40_000, 0.4, np.random.default_rng(0))
    one = points(embedding, [0, 0])
    assert np.vdot(one, one).real == pytest.approx(1.0, abs=1e-12)
    for a, b in ((1, 0), (5, 1), (10, 3)):
        near = np.vdot(one, points(embedding, [a, b])).real
        wanted = np.exp(-((a / 10) ** 2 + (b / 3) ** 2) / (2 * 0.4**2))
        assert near == pytest.approx(wanted, abs=5 / np.sqrt(2 * 40_000))


def test_a_code_outside_the_order_is_far_from_all_others() -> None:
    embedding = fourier(DOMAIN, None, 20_000, None, np.random.default_rng(0))
    for b in range(4):
        assert abs(np.vdot(points(embedding, [3, 4]), points(embedding, [3, b]))) < 5 / np.sqrt(20_000)


def test_frequencies_follow_from_the_generator_alone() -> None:
    one, two = (fourier(DOMAIN, "y", 30, None, np.random.default_rng(7)) for _ in range(2))
    for left, right in zip(one.phases, two.phases, strict=True):
        np.testing.assert_array_equal(left, right)
    assert one.shape(DOMAIN) == (2, 60)
    assert fourier(DOMAIN, None, 30, None, np.random.default_rng(7)).shape(DOMAIN) == (1, 60)


def test_what_does_not_fit_is_refused() -> None:
    table = np.zeros((3, 4), dtype=np.uint16)
    for names, phases, label in (
        ((), (), None),
        (("a",), (table, table), None),
        (("a", "a"), (table, table), None),
        (("a",), (table.astype(np.int64),), None),
        (("a",), (table[:, :0],), None),
        (("a", "b"), (table, table[:, :2]), None),
        (("a",), (table,), "a"),
    ):
        with pytest.raises(SchemaError, match="embedding"):
            Embedding(names, phases, label)
    with pytest.raises(SchemaError, match="of the domain's sizes"):
        Embedding(("a",), (table,)).shape(DOMAIN)
