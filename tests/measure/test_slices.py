"""slices: exact vectors, the sensitivity it says, recorded first, noisy as it says, in no order."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats

import margrave.measure.mechanisms.slices as door
from margrave.engines.memory import open_source
from margrave.errors import BudgetError, InputError, ReleaseError, SchemaError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.slices import bound_change, build_vectors, count_long
from margrave.privacy.accounting.accountants import GDP, ZCDP, event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.release import NoisySlices
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.features import RowNumbers
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

DOMAIN = Domain(("y", "a", "b"), (3, 5, 2))
RHO = Fraction(1, 2)
KEPT: tuple[Adjacency, ...] = ("zero_out", "replace_one")


def _rows(codes: Any, domain: Domain = DOMAIN) -> Encoded:
    return Encoded(domain, tuple(np.asarray(column, dtype=np.uint8) for column in np.asarray(codes).T))


def _codes(rows: int = 4000) -> Any:
    rng = np.random.default_rng(5)
    a = rng.integers(0, 5, rows)
    return np.stack([(a + rng.integers(0, 2, rows)) % 3, a, rng.integers(0, 2, rows)], axis=1)


def _curator(
    adjacency: Adjacency = "replace_one", gdp: bool = False, codes: Any = None, **more: Any
) -> Curator:
    options = {"epsilon": 20.0, "delta": 1e-5, **more}
    ledger = Ledger(neighbours=Neighbours(Unit(), adjacency), accountant=GDP() if gdp else ZCDP(), **options)
    held = _codes() if codes is None else codes
    table = pa.table(dict(zip(DOMAIN.names, held.T, strict=True)))
    curator = Curator(open_source(table)[0], ledger, SeededSource(1))
    curator.discover(Schema.from_sizes(dict(zip(DOMAIN.names, DOMAIN.sizes, strict=True))))
    return curator


INDICATORS = RowNumbers.indicate_codes(DOMAIN)
SIGNED = RowNumbers(
    ("a", "b"), (np.array([[-1.0, -0.4, 0.0, 0.3, 0.9]]), np.array([[0.5, 0.0], [0.0, -1.0]]))
)
OPPOSITE = RowNumbers(
    ("a", "b"), (np.array([[-1.0, -0.5, 0.0, 0.5, 1.0]]), np.array([[0.7, -0.7]])), constant=False
)
NUMBERS = {
    "indicators": (INDICATORS, None),
    "scaled": (RowNumbers.scale_codes(DOMAIN), None),
    "shortened": (RowNumbers.scale_codes(DOMAIN), 0.8),
    "signed": (SIGNED, None),
    "signed and shortened": (SIGNED, 1.2),
    "opposite and shortened": (OPPOSITE, 0.8),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("adjacency", KEPT)
def test_no_row_moves_further_than_it_says(name: str, adjacency: Adjacency) -> None:
    """Every row of the domain, against every other or against nothing."""
    numbers, longest = NUMBERS[name]
    matrices = numbers.cut(1024)
    cap = None if longest is None else int(longest * 1024)
    rows = _rows(list(product(*(range(size) for size in DOMAIN.sizes))))
    vectors = build_vectors(rows, numbers, matrices, cap)
    if adjacency == "zero_out":
        moved = (vectors**2).sum(axis=1)
    else:
        moved = ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2).ravel()
    bound = bound_change(matrices, cap, Neighbours(Unit(), adjacency))
    assert moved.max() <= bound
    if longest is None:
        assert moved.max() == bound
        assert count_long(rows, numbers, matrices, 10**6) == 0
    else:
        assert 0 < count_long(rows, numbers, matrices, int(longest * 1024)) < rows.rows


def test_rows_of_too_many_codes_to_compare_are_bounded_by_their_lengths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(door, "MAX_CODES", 1)
    rows = _rows(list(product(*(range(size) for size in DOMAIN.sizes))))
    for numbers in (INDICATORS, OPPOSITE):
        matrices = numbers.cut(1024)
        vectors = build_vectors(rows, numbers, matrices, None)
        moved = ((vectors[:, None] - vectors[None]) ** 2).sum(axis=2)
        assert moved.max() == bound_change(matrices, None, Neighbours(Unit(), "replace_one"))


def test_a_shortened_vector_keeps_its_direction_and_is_no_longer_than_allowed() -> None:
    numbers = RowNumbers(("a",), (np.array([[0.3, 0.03, -0.6], [0.4, 0.04, 0.8]]),), constant=False)
    matrices = (np.array([[30, 3, -300], [40, 4, 400]]),)
    rows = _rows([[0], [1], [2]], Domain(("a",), (3,)))
    assert build_vectors(rows, numbers, matrices, 10).tolist() == [[6, 8], [3, 4], [-6, 8]]
    assert count_long(rows, numbers, matrices, 10) == 2


@pytest.mark.parametrize("gdp", [False, True])
@pytest.mark.parametrize(("adjacency", "squared"), [("zero_out", 3), ("replace_one", 6)])
def test_one_event_prices_all_rows(adjacency: Adjacency, squared: int, gdp: bool) -> None:
    curator = _curator(adjacency, gdp)
    found = curator.slices(INDICATORS, RHO)
    (event,) = curator._ledger.events
    assert isinstance(event, GaussianEvent)
    assert (event.l2_squared, event.rounded) == (squared, gdp)
    assert event_rho(event) <= RHO
    assert event_rho(event) > RHO * Fraction(999_999, 1_000_000)
    rounding = 1 / 12 if gdp else 0.0
    assert found.sigma == pytest.approx(math.sqrt(squared / (2 * float(RHO)) + rounding), rel=1e-6)
    assert found.shortened is None


def test_noise_is_of_the_recorded_size_and_rows_are_in_no_order() -> None:
    codes, scaled = _codes(), RowNumbers.scale_codes(DOMAIN)
    ordered = codes[np.lexsort(codes.T)]
    found = _curator(gdp=True, codes=ordered).slices(scaled, Fraction(1))
    exact = ordered / (np.asarray(DOMAIN.sizes) - 1)
    assert found.values.var(axis=0) == pytest.approx(exact.var(axis=0) + found.sigma**2, rel=0.1)
    # In the order of the table this would be 0.2.
    places = np.corrcoef(found.values[:, 1], exact[:, 1])[0, 1]
    assert abs(places) < 4.5 / math.sqrt(len(exact))
    empty = _curator(gdp=True, codes=np.zeros_like(codes)).slices(scaled, RHO)
    noise = empty.values.ravel()
    assert ((noise * 1024) % 1 == 0).all()
    assert scipy.stats.kstest(noise, scipy.stats.norm(scale=empty.sigma).cdf).pvalue > 1e-4
    assert scipy.stats.kstest(noise, scipy.stats.norm(scale=1.1 * empty.sigma).cdf).pvalue < 1e-5
    across = np.corrcoef(empty.values.T)[np.triu_indices(3, 1)]
    assert np.abs(across).max() < 4.5 / math.sqrt(len(codes))


def test_the_number_of_shortened_rows_is_noisy_and_on_the_ledger() -> None:
    curator, scaled = _curator("zero_out"), RowNumbers.scale_codes(DOMAIN)
    found = curator.slices(scaled, RHO, longest=0.8)
    counted, copied = curator._ledger.events
    assert isinstance(counted, GaussianEvent)
    assert isinstance(copied, GaussianEvent)
    assert counted.l2_squared == 1
    assert copied.l2_squared == int(0.8 * 1024) ** 2
    assert event_rho(counted) + event_rho(copied) <= RHO
    assert found.shortened is not None
    assert found.shortened_sigma == pytest.approx(math.sqrt(1 / (2 * float(RHO) / 100)), rel=1e-6)
    long = count_long(_rows(_codes()), scaled, scaled.cut(1024), int(0.8 * 1024))
    assert abs(found.shortened - long) < 5 * found.shortened_sigma
    with pytest.raises(InputError, match="longest"):
        curator.slices(scaled, Fraction(1, 10), longest=0.0)


@pytest.mark.parametrize("unit", [Unit(), Unit("id", 2)])
@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one", "zero_out"])
def test_only_a_public_number_of_single_rows_is_protected(unit: Unit, adjacency: Adjacency) -> None:
    if unit.owner is not None and adjacency == "zero_out":
        with pytest.raises(InputError, match="without owners"):
            Neighbours(unit, adjacency)
        return
    neighbours = Neighbours(unit, adjacency)
    if unit.owner is None and adjacency in KEPT:
        assert bound_change(INDICATORS.cut(1), None, neighbours) > 0
        return
    with pytest.raises(InputError, match=r"slices|every row"):
        bound_change(INDICATORS.cut(1), None, neighbours)


def test_nothing_is_recorded_when_it_is_refused() -> None:
    curator = _curator("add_remove")
    with pytest.raises(InputError, match="adjacency"):
        curator.slices(INDICATORS, RHO)
    with pytest.raises(SchemaError, match="domain's sizes"):
        curator.slices(RowNumbers.indicate_codes(Domain(("y",), (2,))), RHO)
    short = _curator("replace_one", epsilon=0.1)
    with pytest.raises(BudgetError):
        short.slices(INDICATORS, RHO)
    assert not curator._ledger.events
    assert not short._ledger.events


def test_tables_are_unbiased_with_the_noise_that_they_say() -> None:
    """Many releases of one table: the mean of every cell's error, and its spread in the stated unit."""
    codes, features, rng, sigma = _codes(1500), INDICATORS, np.random.default_rng(1), 2.0
    vectors = build_vectors(_rows(codes), features, features.cut(1), None)
    truth = {}
    for names in (("y",), ("a",), ("b",), ("y", "a"), ("y", "b"), ("a", "b")):
        table = np.zeros(DOMAIN.shape(names))
        np.add.at(table, tuple(codes[:, DOMAIN.index(name)] for name in names), 1)
        truth[names] = table
    errors: dict[tuple[str, ...], list[Any]] = {names: [] for names in truth}
    for _ in range(400):
        noisy = NoisySlices(features, vectors + sigma * rng.standard_normal(vectors.shape), sigma)
        for table in noisy.tables():
            errors[table.clique].append((table.values - truth[table.clique]) / table.sigmas)
    assert set(errors) == set(truth)
    for names, found in errors.items():
        stacked = np.array(found)
        assert np.abs(stacked.mean(axis=0)).max() < 5 / math.sqrt(400), names
        np.testing.assert_allclose(stacked.std(axis=0), 1.0, atol=0.2, err_msg=str(names))


def test_second_moments_are_unbiased() -> None:
    codes, features, rng = _codes(800), RowNumbers.scale_codes(DOMAIN), np.random.default_rng(2)
    vectors = build_vectors(_rows(codes), features, features.cut(1024), None) / 1024
    found = [
        NoisySlices(features, vectors + 3.0 * rng.standard_normal(vectors.shape), 3.0).second_moments()
        for _ in range(400)
    ]
    spread = np.std(found, axis=0) / math.sqrt(400)
    assert (np.abs(np.mean(found, axis=0) - vectors.T @ vectors / 800) < 5 * spread).all()


def test_an_attribute_of_one_code_and_a_lone_attribute() -> None:
    domain = Domain(("one", "x"), (1, 4))
    features = RowNumbers.indicate_codes(domain)
    rows = _rows(np.stack([np.zeros(50), np.arange(50) % 4], axis=1).astype(int), domain)
    noisy = NoisySlices(features, build_vectors(rows, features, features.cut(1), None) + 0.5, 0.5)
    single, other, pair = noisy.tables()
    assert single.values.tolist() == [50.0]
    np.testing.assert_allclose(pair.values.sum(axis=1), [50.0])
    np.testing.assert_allclose(pair.values[0], other.values)
    lone = RowNumbers.indicate_codes(Domain(("x",), (4,)))
    assert [table.clique for table in NoisySlices(lone, np.eye(4), 1.0).tables()] == [("x",)]
    with pytest.raises(ReleaseError, match="second_moments"):
        NoisySlices(RowNumbers.scale_codes(domain), np.zeros((3, 2)), 1.0).tables()
