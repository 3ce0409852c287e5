"""Owners by their number of rows: sensitivity, cost, and the cap that is suggested."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.measure.mechanisms.owner_sizes import owner_sizes as ask
from margrave.measure.mechanisms.owner_sizes import size_starts
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import Guarantee
from margrave.run.owner_sizes import OwnerSizes, owner_sizes
from seeded_noise import SeededSource

PROMISE = Guarantee(1.0, 1e-9, 0.1, Neighbours(Unit("id")), "gdp")


def visits(sizes: dict[int, int]) -> pa.Table:
    """So many owners of so many rows each."""
    owners, owner = [], 0
    for rows, count in sizes.items():
        for _ in range(count):
            owners += [owner] * rows
            owner += 1
    return pa.table({"id": owners, "cost": list(range(len(owners)))})


def ledger(adjacency: str = "add_remove", owner: str | None = "id") -> Ledger:
    neighbours = Neighbours(Unit(owner), adjacency)  # type: ignore[arg-type]
    return Ledger(epsilon=2.0, delta=1e-9, neighbours=neighbours, accountant=GDP())


@pytest.mark.parametrize(("adjacency", "squared"), [("add_remove", 1), ("replace_one", 2)])
def test_one_spend_of_the_sensitivity_of_whole_owners(adjacency: str, squared: int) -> None:
    book = ledger(adjacency)
    found = ask(open_source(visits({1: 5, 3: 2, 9: 1}))[0], 4, book, SeededSource(1))
    (event,) = book.events
    assert isinstance(event, GaussianEvent)
    assert event.l2_squared == squared
    assert book.remaining < Fraction(1, 10**6)
    assert found.values.shape == (5,)
    assert found.sigma == pytest.approx(math.sqrt(squared / (2 * float(book.total)) + 1 / 12), rel=1e-6)


@pytest.mark.parametrize(("adjacency", "squared"), [("add_remove", 1), ("replace_one", 2)])
def test_the_exact_histogram_moves_no_further_than_its_sensitivity(adjacency: str, squared: int) -> None:
    base = {1: 4, 2: 3, 7: 2}
    tables = [{**base, n: base.get(n, 0) + 1} for n in (1, 2, 5, 7, 40)]
    if adjacency == "add_remove":
        tables = [*tables, base]
    counts = [open_source(visits(t))[0].sizes("id", 5).reveal() for t in tables]
    reference = counts if adjacency == "replace_one" else [counts[-1]]
    worst = max(int(((a - b) ** 2).sum()) for a in counts for b in reference)
    assert worst == squared


def test_the_histogram_is_about_right(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    found = owner_sizes(visits({1: 300, 2: 100, 10: 40, 30: 20}), "id", epsilon=20.0, most=16, ledger=path)
    wanted = np.zeros(len(found.starts))
    wanted[[0, 1, size_starts(16).index(10), -1]] = 300, 100, 40, 20
    assert np.abs(found.counts - wanted).max() < 6 * found.sigma
    assert found.guarantee.neighbours.unit.owner == "id"
    header, events = read_ledger(path)
    assert header.accounting == "gdp"
    assert len(events) == 1


def test_cells_are_single_at_first_and_then_grow() -> None:
    assert size_starts(1) == (1, 2)
    assert size_starts(12) == (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 13)
    for most in range(1, 200):
        starts = size_starts(most)
        assert starts[-1] == most + 1
        assert all(a < b for a, b in itertools.pairwise(starts))


def test_the_cap_keeps_the_share_of_rows_it_says() -> None:
    found = OwnerSizes(size_starts(4), np.array([50.0, 0, 0, 25.0, 0]), 1.0, PROMISE)
    assert found.kept().tolist() == pytest.approx([75 / 150, 100 / 150, 125 / 150, 1.0])
    assert found.suggested(0.8) == 3
    assert found.suggested() == 4
    assert found.suggested(0.5) == 1
    text = str(found)
    assert "--max-rows 4" in text
    assert "100.0%" in text


def test_a_tail_lost_in_the_noise_is_no_owner() -> None:
    rng = np.random.default_rng(0)
    starts = size_starts(64)
    counts = np.array([1000.0, 400, 100, *[0] * (len(starts) - 3)]) + rng.normal(0, 20, len(starts))
    found = OwnerSizes(starts, counts, 20.0, PROMISE)
    assert found.denoised()[10:].sum() == 0
    assert found.suggested(0.94) == 2


def test_noise_alone_gives_shares_between_0_and_1_that_rise() -> None:
    for seed in range(50):
        noise = np.random.default_rng(seed).normal(0, 5, len(size_starts(9)))
        kept = OwnerSizes(size_starts(9), noise, 5.0, PROMISE).kept()
        assert kept.min() >= 0
        assert kept.max() <= 1 + 1e-12
        assert (np.diff(kept) >= -1e-12).all()


def test_bad_input_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    table = visits({1: 3})
    with pytest.raises(InputError, match="owner must be one of"):
        owner_sizes(table, "who", epsilon=1.0)
    with pytest.raises(InputError, match="most must be"):
        owner_sizes(table, "id", epsilon=1.0, most=0)
    with pytest.raises(InputError, match="epsilon"):
        owner_sizes(table, "id", epsilon=-1.0)
    with pytest.raises(InputError, match="owner must be a column"):
        ask(open_source(table)[0], 4, ledger(owner=None))
    with pytest.raises(InputError, match="keep must be"):
        OwnerSizes(size_starts(2), np.ones(3), 1.0, PROMISE).suggested(0.0)
    holes = pa.table({"id": [1, None, 2], "cost": [1, 2, 3]})
    book = ledger()
    with pytest.raises(InputError, match="owner must be"):
        ask(open_source(holes)[0], 4, book)
    assert book.events == ()
