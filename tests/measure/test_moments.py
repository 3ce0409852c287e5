"""moments: exact in whole numbers, of the sensitivity it says, recorded first, and noisy as it says."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from numpy.typing import NDArray

import margrave.measure.mechanisms.moments as door
from margrave.engines.memory import open_source
from margrave.engines.opening import open_source as open_any
from margrave.errors import BudgetError, InputError, SchemaError
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP, event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.features import Embedding, fourier
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

RHO = Fraction(1, 1000)
DOMAIN = Domain(("y", "a", "b"), (3, 9, 5), (0, 9, 4))
FEATURES = fourier(DOMAIN, "y", 20, None, np.random.default_rng(0))
TABLE = door.wave(1 << 14)
ADJACENCIES: tuple[Adjacency, ...] = ("add_remove", "replace_one")


def _rows(codes: NDArray[np.int64]) -> Encoded:
    return Encoded(DOMAIN, tuple(column.astype(np.uint8) for column in codes.T))


def _drawn(rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
    return rng.integers(0, DOMAIN.sizes, (rows, 3))


def _ledger(neighbours: Neighbours, gdp: bool = False, **more: Any) -> Ledger:
    options = {"epsilon": 1.0, "delta": 1e-5, **more}
    return Ledger(neighbours=neighbours, accountant=GDP() if gdp else ZCDP(), **options)


def _table(rows: int = 600) -> pa.Table:
    codes = _drawn(np.random.default_rng(5), rows)
    return pa.table(dict(zip(DOMAIN.names, codes.T, strict=True)))


def _curator(ledger: Ledger, table: pa.Table | None = None) -> Curator:
    held = _table() if table is None else table
    if ledger.neighbours.unit.owner:
        held = held.append_column("id", pa.array(np.arange(len(held)) // 2))
    curator = Curator(open_source(held)[0], ledger, SeededSource(1))
    curator.discover(Schema.from_sizes(dict(zip(DOMAIN.names, DOMAIN.sizes, strict=True))))
    return curator


def _features(label: str | None = "y", frequencies: int = 20) -> Embedding:
    return fourier(DOMAIN, label, frequencies, None, np.random.default_rng(0))


@pytest.mark.parametrize("label", ["y", None])
def test_the_sums_are_those_of_the_features(label: str | None) -> None:
    codes, features = _drawn(np.random.default_rng(1), 5000), _features(label)
    found = door.sum_embedded(_rows(codes), features, TABLE) / 2**14
    phase = features.phases[0][codes[:, 1]].astype(float) + features.phases[1][codes[:, 2]]
    both = np.concatenate([np.cos(phase * 2 * np.pi / 65536), np.sin(phase * 2 * np.pi / 65536)], axis=1)
    marks = np.eye(3)[codes[:, 0]] if label else np.ones((5000, 1))
    np.testing.assert_allclose(found, marks.T @ both, atol=5000 * 2.0**-14)


def test_a_row_adds_the_same_wherever_it_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = _drawn(np.random.default_rng(2), 300)
    whole = door.sum_embedded(_rows(codes), FEATURES, TABLE)
    alone = sum(door.sum_embedded(_rows(codes[i : i + 1]), FEATURES, TABLE) for i in range(300))
    np.testing.assert_array_equal(whole, alone)
    monkeypatch.setattr(door, "BLOCK", 7)
    np.testing.assert_array_equal(door.sum_embedded(_rows(codes[::-1]), FEATURES, TABLE), whole)
    assert not door.sum_embedded(_rows(codes[:0]), FEATURES, TABLE).any()


@pytest.mark.parametrize("digits", [4, 9, 14])
def test_no_point_lies_outside_its_circle(digits: int) -> None:
    table = door.wave(1 << digits).astype(np.int64)
    sines = np.roll(table, len(table) // 4)
    assert door._largest(door.wave(1 << digits)) == int((table**2 + sines**2).max()) <= 1 << 2 * digits
    np.testing.assert_allclose(
        sines / 2**digits, np.sin(np.arange(65536) * 2 * np.pi / 65536), atol=2.0**-digits
    )


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_no_neighbour_moves_the_sums_further_than_it_says(adjacency: Adjacency) -> None:
    """In exact integers: at most k rows come, go or are exchanged for at most k."""
    rng, reached = np.random.default_rng(7), 0.0
    for _ in range(1500):
        k = int(rng.integers(1, 4))
        features = fourier(DOMAIN, "y", int(rng.integers(1, 5)), 0.3, rng)
        common, mine = _drawn(rng, int(rng.integers(0, 5))), _drawn(rng, int(rng.integers(0, k + 1)))
        other = _drawn(rng, int(rng.integers(0, k + 1)) if adjacency == "replace_one" else 0)
        if rng.random() < 0.5:  # rows alike move sums furthest
            mine, other = (np.repeat(part[:1], k if len(part) else 0, axis=0) for part in (mine, other))
        one, two = (
            door.sum_embedded(_rows(np.concatenate([common, p])), features, TABLE) for p in (mine, other)
        )
        moved = sum(int(step) ** 2 for step in (one - two).ravel())
        l1 = Neighbours(Unit("id", k), adjacency).marginal_l1
        bound = l1**2 * features.frequencies * door._largest(TABLE)
        assert moved <= bound
        reached = max(reached, moved / bound)
    assert reached > 0.95


@pytest.mark.parametrize("gdp", [False, True])
@pytest.mark.parametrize(("adjacency", "times"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_event_prices_all_sums_together(adjacency: Adjacency, times: int, k: int, gdp: bool) -> None:
    ledger = _ledger(Neighbours(Unit("id", k) if k else Unit(), adjacency), gdp)
    found = _curator(ledger).moments(FEATURES, RHO)
    assert found.values.shape == (3, 40)
    (event,) = ledger.events
    assert isinstance(event, GaussianEvent)
    assert event.rounded is gdp
    assert event.l2_squared == (times * max(k, 1)) ** 2 * 20 * door._largest(TABLE)
    assert RHO * Fraction(999_999, 1_000_000) < event_rho(event) <= RHO
    assert ledger.spent == event_rho(event)
    assert found.sigma == pytest.approx(times * max(k, 1) * math.sqrt(20 / (2 * float(RHO))), rel=1e-3)


@pytest.mark.parametrize("gdp", [False, True])
def test_the_noise_is_of_the_recorded_size(gdp: bool) -> None:
    features, codes = _features(frequencies=4000), _drawn(np.random.default_rng(5), 600)
    found = _curator(_ledger(Neighbours(), gdp)).moments(features, RHO)
    noise = (found.values - door.sum_embedded(_rows(codes), features, TABLE) / 2**14).ravel()
    assert ((found.values * 2**14) % 1 == 0).all()
    normal = scipy.stats.norm(scale=math.sqrt(4000 / (2 * float(RHO)))).cdf
    assert scipy.stats.kstest(noise, normal).pvalue > 1e-4
    assert scipy.stats.kstest(noise / 2, normal).pvalue < 1e-20
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 4.5 / math.sqrt(len(noise))


def test_a_file_in_batches_and_a_frame_give_the_same_sums(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(_table(), tmp_path / "t.parquet")
    schema = Schema.from_sizes(dict(zip(DOMAIN.names, DOMAIN.sizes, strict=True)))
    answers = []
    for engine in ("memory", "stream"):
        source, _ = open_any(str(tmp_path / "t.parquet"), engine=engine)
        curator = Curator(source, _ledger(Neighbours(), epsilon=1e9), SeededSource(3))
        curator.discover(schema)
        answers.append(curator.moments(FEATURES, Fraction(10) ** 7).values)
    np.testing.assert_array_equal(*answers)


@pytest.mark.needs_extra("ibis")
def test_engines_without_rows_are_refused_before_anything_is_spent() -> None:
    import ibis

    ledger = _ledger(Neighbours())
    curator = Curator(open_any(ibis.memtable(_table()))[0], ledger)
    curator.discover(Schema.from_sizes(dict(zip(DOMAIN.names, DOMAIN.sizes, strict=True))))
    with pytest.raises(InputError, match="in memory or a file"):
        curator.moments(FEATURES, RHO)
    assert ledger.events == ()


def test_what_cannot_be_paid_or_drawn_is_refused(tmp_path: Path) -> None:
    ledger = _ledger(Neighbours(), path=tmp_path / "l.jsonl")
    curator = _curator(ledger)
    with pytest.raises(BudgetError):
        curator.moments(FEATURES, 2 * ledger.total)
    for rho in (Fraction(0), Fraction(-1), Fraction(1, 1 << 60)):
        with pytest.raises(InputError, match="rho"):
            curator.moments(FEATURES, rho)
    with pytest.raises(SchemaError, match="of the domain's sizes"):
        curator.moments(Embedding(("a",), (np.zeros((4, 3), dtype=np.uint16),)), RHO)
    with pytest.raises(SchemaError):
        curator.moments(Embedding(("a",), (np.zeros((9, 3), dtype=np.uint16),), "z"), RHO)
    assert ledger.events == read_ledger(tmp_path / "l.jsonl")[1] == ()


def test_the_event_is_on_disk_before_noise_is_drawn(tmp_path: Path) -> None:
    path, seen = tmp_path / "l.jsonl", []

    class Watched(SeededSource):
        def words(self, n: int) -> NDArray[np.uint64]:
            seen.append(len(read_ledger(path)[1]))
            return super().words(n)

    curator = _curator(_ledger(Neighbours(), path=path))
    curator._noise = Watched(1)
    curator.moments(FEATURES, RHO)
    assert seen
    assert set(seen) == {1}


def test_little_rho_makes_coarser_steps_and_not_an_overflow() -> None:
    ledger = _ledger(Neighbours(Unit("id", 100), "replace_one"))
    found = _curator(ledger).moments(_features(frequencies=2000), Fraction(1, 1 << 20))
    assert np.isfinite(found.values).all()
    assert "2^-14" not in ledger.events[0].what
    assert found.sigma == pytest.approx(200 * math.sqrt(2000 * 2.0**19), rel=0.02)
