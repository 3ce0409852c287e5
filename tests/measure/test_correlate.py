"""correlate: sums of products of scores, of the sensitivity it says, recorded first and noisy as it says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from numpy.typing import NDArray

import margrave.measure.mechanisms.correlate as door
from margrave.engines.memory import open_source
from margrave.errors import BudgetError, InputError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.accounting.accountants import GDP, ZCDP, event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

RHO = Fraction(1, 1000)
SIZES = {"a": 2, "b": 3, "c": 4}
SCORES = {"a": np.array([-16, 16]), "b": np.array([-16, 16, 0]), "c": np.array([-16, -5, 7, 16])}
PAIRS = [("a", "b"), ("c", "a"), ("b", "c")]
Table = dict[str, Sequence[int]]


def _ledger(neighbours: Neighbours, gdp: bool = False, epsilon: float = 1.0) -> Ledger:
    return Ledger(epsilon=epsilon, delta=1e-5, neighbours=neighbours, accountant=GDP() if gdp else ZCDP())


def _curator(ledger: Ledger, columns: Table | None = None) -> Curator:
    rows = np.arange(600)
    held = {"a": rows % 2, "b": rows % 3, "c": rows // 2 % 4} if columns is None else columns
    table = pa.table(dict(held))
    if ledger.neighbours.unit.owner:
        table = table.append_column("id", pa.array(np.arange(len(table)) // 2))
    curator = Curator(open_source(table)[0], ledger, SeededSource(1))
    curator.discover(Schema.from_sizes(SIZES))
    return curator


@pytest.mark.parametrize("gdp", [False, True])
@pytest.mark.parametrize(("adjacency", "times"), [("add_remove", 1), ("replace_one", 2)])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_the_event_prices_all_sums_together(adjacency: Adjacency, times: int, k: int, gdp: bool) -> None:
    ledger = _ledger(Neighbours(Unit("id", k) if k else Unit(), adjacency), gdp)
    found, sigma = _curator(ledger).correlate(PAIRS, SCORES, RHO)
    assert found.shape == (3,)
    (event,) = ledger.events
    assert isinstance(event, GaussianEvent)
    assert event.what == "rank products of 3 pairs"
    assert event.rounded is gdp
    assert event.l2_squared == 3 * (times * max(k, 1) * 256) ** 2
    assert RHO * Fraction(999_999, 1_000_000) < event_rho(event) <= RHO
    assert ledger.spent == event_rho(event)
    assert sigma == pytest.approx(math.sqrt(event.sigma_squared) / 256, rel=1e-4)


def test_with_little_noise_the_sums_come_out() -> None:
    curator = _curator(_ledger(Neighbours(), epsilon=1e6))
    found, _ = curator.correlate(PAIRS, SCORES, Fraction(100_000))
    rows = np.arange(600)
    own = {"a": SCORES["a"][rows % 2], "b": SCORES["b"][rows % 3], "c": SCORES["c"][rows // 2 % 4]}
    assert np.abs(found - [(own[a] * own[b]).sum() / 256 for a, b in PAIRS]).max() < 0.1


@pytest.mark.parametrize("gdp", [False, True])
def test_the_noise_is_of_the_recorded_size_and_independent(gdp: bool) -> None:
    ledger = _ledger(Neighbours(), gdp)
    found, sigma = _curator(ledger).correlate([("a", "c")] * 40_000, SCORES, RHO)
    rows = np.arange(600)
    noise = found - (SCORES["a"][rows % 2] * SCORES["c"][rows // 2 % 4]).sum() / 256
    assert sigma == pytest.approx(math.sqrt(40_000 / (2 * float(RHO))), rel=1e-4)
    assert scipy.stats.kstest(noise, scipy.stats.norm(scale=sigma).cdf).pvalue > 1e-4
    assert scipy.stats.kstest(noise / 2, scipy.stats.norm(scale=sigma).cdf).pvalue < 1e-20
    for lag in (1, 2, 3):
        assert abs((noise[lag:] * noise[:-lag]).mean()) < 4.5 * sigma**2 / math.sqrt(40_000)


def _exact(
    ledger: Ledger, columns: Table, patch: pytest.MonkeyPatch, pairs: Sequence[tuple[str, str]] = PAIRS
) -> NDArray[np.int64]:
    """The integers that were about to get noise."""
    found: list[NDArray[np.int64]] = []
    with patch.context() as inside:
        inside.setattr(Gaussian, "noisy", lambda self, table, rho: found.append(table) or table * 1.0)
        _curator(ledger, columns).correlate(pairs, SCORES, RHO)
    return found[0]


@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize(("adjacency", "k"), [("add_remove", 0), ("add_remove", 2), ("replace_one", 0)])
def test_the_bound_is_met_and_half_of_it_is_noticed(
    adjacency: Adjacency, k: int, halved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sums move by the most there is, at once; a sensitivity halved on purpose is passed."""
    if halved:
        honest = door.Gaussian
        monkeypatch.setattr(door, "Gaussian", lambda book, bits, squared: honest(book, bits, squared // 4))
    neighbours = Neighbours(Unit("id", k) if k else Unit(), adjacency)
    base, odd, plain = [(1, 2)] * 6, [(1, 3)] * max(k, 1), [(0, 3)] * max(k, 1)
    first = base + plain if adjacency == "replace_one" else base
    moved: list[NDArray[np.int64]] = []
    events: list[Any] = []
    for rows in (first, base + odd):
        ledger = _ledger(neighbours)
        columns = {"a": [a for a, _ in rows], "b": [0] * len(rows), "c": [c for _, c in rows]}
        moved.append(_exact(ledger, columns, monkeypatch, [("a", "c")] * 4))
        events += ledger.events
    assert events[0] == events[1]
    gap = int(((moved[0] - moved[1]) ** 2).sum())
    assert gap == events[0].l2_squared * (4 if halved else 1)


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one"])
def test_no_neighbour_moves_the_sums_further_than_it_says(
    adjacency: Adjacency, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, reached = np.random.default_rng(3), 0
    for _ in range(60):
        base = {name: rng.integers(0, size, 12) for name, size in SIZES.items()}
        extra = [{name: rng.integers(0, size, 1) for name, size in SIZES.items()} for _ in range(2)]
        near = [{name: np.concatenate([base[name], own[name]]) for name in SIZES} for own in extra]
        if adjacency == "add_remove":
            near[0] = base
        one, two = (_exact(_ledger(Neighbours(Unit(), adjacency)), rows, monkeypatch) for rows in near)
        allowed = len(PAIRS) * (256 * Neighbours(Unit(), adjacency).marginal_l1) ** 2
        assert int(((one - two) ** 2).sum()) <= allowed
        reached += int(((one - two) ** 2).sum()) >= allowed / 2
    assert reached


@pytest.mark.parametrize(
    ("pairs", "scores", "rho"),
    [
        ([], SCORES, RHO),
        ([("a",)], SCORES, RHO),
        ([("a", "b", "c")], SCORES, RHO),
        ([("a", "b")], {"a": SCORES["a"]}, RHO),
        ([("a", "b")], SCORES | {"b": np.array([-16, 16])}, RHO),
        ([("a", "b")], SCORES | {"b": np.array([-16, 17, 0])}, RHO),
        ([("a", "b")], SCORES | {"b": np.array([-1.0, 0.5, 1.0])}, RHO),
        ([("a", "b")], SCORES | {"b": np.array([1, 5, 0], dtype=np.uint8)}, RHO),
        ([("a", "b")], SCORES | {"b": np.array([1, -128, 0], dtype=np.int8)}, RHO),
        ([("a", "b")], SCORES | {"b": np.array([1, -(2**31), 0], dtype=np.int32)}, RHO),
        ([("a", "b")], SCORES | {"b": np.array([1, -(2**63), 0], dtype=np.int64)}, RHO),
        (PAIRS, SCORES, Fraction(0)),
    ],
)
def test_what_is_unsound_is_refused_before_anything_is_spent(pairs: Any, scores: Any, rho: Fraction) -> None:
    ledger = _ledger(Neighbours())
    with pytest.raises(InputError):
        _curator(ledger).correlate(pairs, scores, rho)
    assert ledger.events == ()


def test_more_than_is_left_is_refused_and_nothing_recorded() -> None:
    ledger = _ledger(Neighbours())
    with pytest.raises(BudgetError):
        _curator(ledger).correlate(PAIRS, SCORES, 2 * ledger.total)
    assert ledger.events == ()
