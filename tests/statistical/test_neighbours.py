"""What the door computes before it adds noise moves by at most what the ledger priced, whatever the rows.

Pairs of small random neighbouring tables go through discovery, measurement and choice. The second run is
given the answers of the first, as a proof of composition does, and every exact table and score that was
about to get noise is compared with the sensitivity in the event that paid for it.
"""

from __future__ import annotations

import datetime
import math
import random
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import margrave.engines.memory as memory
import margrave.measure.mechanisms.choose as choosing
from margrave.engines.memory import MemorySource, open_source
from margrave.errors import InputError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.accounting.events import Event, ExponentialEvent, GaussianEvent, PartitionEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours, Unit
from margrave.schema.schema import Schema
from source_values import list_values

PAIRS, FEW_PAIRS = 8, 4
TEXTS = ("x", "y", "1e999", "-1e999", "nan", "inf", "(other)", "1", "1.0", "01", "1e0", "", None)
POOLS: dict[str, tuple[Any, ...]] = {
    "loose": ("7", "7.5", "1e999", "-3", "x", "nan", ".5e3", "1.", "+4", None),
    "text": TEXTS,
    "whole": (0, 1, -1, 90, 1 << 53, (1 << 53) + 1, -(1 << 62), None),
    "real": (0.0, -0.0, 0.5, 3.0, 1e-40, 1e300, math.nan, math.inf, -math.inf, None),
    "truth": (True, False, None),
    "when": ("2024-01-01T10:00Z", "2024-01-01", "1999-05-05 00:00:01.5", "2024-01-01T10:00", None),
    "hour": ("10:00", "10:00:00", "23:59:59.999", "7", None),
    "day": tuple(datetime.date.fromisoformat(f"{year}-02-28") for year in ("0001", 1970, 2024, 2025, 9999)),
    "stamp": (datetime.datetime(2024, 2, 28, 10), datetime.datetime(1600, 1, 1), None),
}
TYPES = {
    "loose": pa.string(),
    "text": pa.string(),
    "whole": pa.int64(),
    "real": pa.float64(),
    "truth": pa.bool_(),
    "when": pa.string(),
    "hour": pa.string(),
    "day": pa.date32(),
    "stamp": pa.timestamp("us"),
}
LOOSE = ("loose", "when", "hour")
Row = dict[str, Any]
Owners = dict[str, list[Row]]
Histogram = dict[Any, float]


@dataclass
class Tape:
    """What a run was about to add noise to, and the answers it was given."""

    held: frozenset[tuple[str, str]] = frozenset()
    replay: list[Any] | None = None
    exact: list[Histogram] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    texts: tuple[tuple[str, str], ...] | None = None

    def noisy(self, table: NDArray[np.int64]) -> NDArray[np.float64]:
        names, self.texts = self.texts, None
        if names is not None and len(table) == len(names) + 1:  # a number of distinct values is one cell
            self.exact.append(dict(zip((*names, None), table.tolist(), strict=True)))
            self.answers.append(None)
            return np.array([1e6 * (name in self.held) for name in names] + [1e6])
        self.exact.append(dict(np.ndenumerate(table)))
        place = len(self.answers)
        self.answers.append(table * 100.0 if self.replay is None else self.replay[place])
        assert self.answers[-1].shape == table.shape
        return np.array(self.answers[-1])

    def choice(self, scores: NDArray[np.float64]) -> int:
        self.exact.append(dict(enumerate(scores.tolist())))
        self.answers.append(None)
        return 0


def _row(rng: random.Random) -> Row:
    return {name: rng.choice(pool) for name, pool in POOLS.items()}


def _pair(rng: random.Random, adjacency: Adjacency, k: int) -> tuple[Owners, Owners]:
    """Two tables that differ in one owner; some owners have more rows than are kept, or equal rows."""
    owners = {f"o{i}": [_row(rng) for _ in range(rng.randint(1, k + 2))] for i in range(6)}
    odd = [_row(rng)] * k if rng.random() < 0.7 else [_row(rng) for _ in range(rng.randint(1, k + 2))]
    other = {**owners, "o2": odd} if adjacency == "replace_one" else dict(owners)
    if adjacency == "replace_one":
        owners["o2"] = [_row(rng)] * k
    else:
        owners["odd"] = odd
    return (owners, other) if rng.random() < 0.5 else (other, owners)


def _source(owners: Owners, unit: Unit) -> MemorySource:
    """Without an owner column each owner's first row is a row of its own."""
    rows = [(name, row) for name, rows in owners.items() for row in (rows if unit.owner else rows[:1])]
    columns = {name: pa.array([row[name] for _, row in rows], kind) for name, kind in TYPES.items()}
    if unit.owner:
        columns["id"] = pa.array([name for name, _ in rows])
    table = open_source(pa.table(columns))[0]._table
    return MemorySource(table, frozenset(LOOSE))


def _first_rows(codes: NDArray[np.int32], max_rows: int, _: bytes | None = None) -> NDArray[np.int64]:
    """Each owner's first rows: the draws of the other owners coupled to be the same in both runs."""
    seen: dict[int, int] = {}
    kept = []
    for place, code in enumerate(codes.tolist()):
        seen[code] = seen.get(code, 0) + 1
        if seen[code] <= max_rows:
            kept.append(place)
    return np.array(kept, dtype=np.int64)


def _texts(source: MemorySource, unit: Unit) -> set[tuple[str, str]]:
    bounded = source.bound_owners(unit.owner, unit.max_rows) if unit.owner else source
    return {(name, text) for name in ("text", *LOOSE) for text in list_values(bounded, name)[0]}


def _listen(tape: Tape, patch: pytest.MonkeyPatch) -> None:
    """Put the tape where noise would be added."""
    inner = MemorySource.value_parts

    def value_parts(self: MemorySource, column: str) -> Any:
        for found in inner(self, column):
            tape.texts = tuple((column, text) for text in found[0])
            yield found

    patch.setattr(MemorySource, "value_parts", value_parts)
    patch.setattr(Gaussian, "noisy", lambda self, table, rho: tape.noisy(table))
    patch.setattr(choosing, "exponential", lambda scores, *rest: tape.choice(scores))


def _run(
    source: MemorySource, neighbours: Neighbours, tape: Tape, patch: Any, gdp: bool
) -> tuple[Event, ...]:
    ledger = Ledger(
        epsilon=1.0,
        delta=1e-5,
        neighbours=neighbours,
        accountant=GDP() if gdp else ZCDP(),
        partition_delta=Fraction(1, 10**6),
    )
    with patch.context() as inside:
        _listen(tape, inside)
        curator = Curator(source, ledger)
        domain = curator.discover(None, ledger.total / 2).domain
        cliques = [*combinations(domain.names, 1), *combinations(domain.names, 2), ()]
        share = ledger.remaining / (2 * len(cliques) + 3)
        curator.measure(cliques, share)
        expected = [np.full(domain.shape(c), 0.3 + len(c)) for c in cliques]
        curator.appraise(cliques, expected, share)
        curator.appraise(cliques, [np.full(domain.shape(c), 1e6) for c in cliques], share)
        pairs = [clique for clique in cliques if len(clique) == 2]
        scores = {
            n: np.where(np.arange(size) % 2 == 0, 16, -16)
            for n, size in zip(domain.names, domain.sizes, strict=True)
        }
        curator.correlate(pairs, scores, share)
        weights, penalties = list(range(len(cliques))), [0.7] * len(cliques)
        curator.choose(cliques, expected, share)
        curator.choose(cliques, expected, share, weights=weights, penalties=penalties)
    return ledger.events


def _moved(event: Event, first: Histogram, second: Histogram) -> tuple[float, float]:
    """How far the exact answers are apart, and how far the event says that they can be."""
    gaps = [first.get(key, 0.0) - second.get(key, 0.0) for key in first.keys() | second.keys()]
    if isinstance(event, ExponentialEvent):
        return max(map(abs, gaps)), float(event.sensitivity)
    assert isinstance(event, GaussianEvent | PartitionEvent)
    return math.fsum(gap * gap for gap in gaps), float(event.l2_squared)


FAST = ((True, 3, "add_remove"), (True, 0, "replace_one"))
"""Owners of several rows, and rows: the cases in between are theirs with other numbers."""
CASES = [
    pytest.param(*case, PAIRS, marks=pytest.mark.slow)
    for case in product((False, True), (0, 1, 3), ("add_remove", "replace_one"))
]


@pytest.mark.parametrize(("gdp", "k", "adjacency", "pairs"), [*((*case, FEW_PAIRS) for case in FAST), *CASES])
def test_nothing_moves_further_than_the_ledger_says(
    adjacency: Adjacency, k: int, gdp: bool, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_bounded_rows", _first_rows)
    unit = Unit("id", k) if k else Unit()
    neighbours = Neighbours(unit, adjacency)
    rng = random.Random(f"{adjacency} {k} {gdp}")
    reached: dict[str, float] = {}
    seen: set[str] = set()
    for _ in range(pairs):
        first, second = (_source(owners, unit) for owners in _pair(rng, adjacency, max(k, 1)))
        held = frozenset(_texts(first, unit) & _texts(second, unit))
        one = Tape(held)
        events = _run(first, neighbours, one, monkeypatch, gdp)
        two = Tape(held, one.answers)
        assert _run(second, neighbours, two, monkeypatch, gdp) == events
        for event, a, b in zip(events, one.exact, two.exact, strict=True):
            moved, allowed = _moved(event, a, b)
            assert moved <= allowed, event.what
            kind = "Appraisal" if event.what.startswith("errors") else type(event).__name__
            reached[kind] = max(reached.get(kind, 0.0), moved / allowed)
            if isinstance(event, PartitionEvent):
                assert len(a.keys() - b.keys()) <= neighbours.new_values
            seen.add(event.what.split(" of ")[0])
    assert {"profile", "bounds", "detail", "grids", "spelling", "values", "rank products"} <= seen
    # The bounds are met, so the test would notice one that is too small.
    assert reached["GaussianEvent"] == reached["PartitionEvent"] == 1.0
    assert reached["ExponentialEvent"] > 0.7
    # An exchange moves all scores by their most only where it is built to: tests/measure/test_appraise.py.
    assert reached["Appraisal"] == 1.0 if adjacency == "add_remove" else reached["Appraisal"] > 0.0


def test_a_text_that_overflows_is_one_cell_not_two() -> None:
    with_row, without = (open_source(pa.table({"t": [*rest, "a"]}))[0] for rest in (["1e999"], []))
    tables = []
    for source in (with_row, without):
        tape = Tape(frozenset({("t", "a")}))
        with pytest.MonkeyPatch.context() as patch:
            *_, event = _discovered(source, tape, patch)
        tables.append(tape.exact[-1])
    assert isinstance(event, PartitionEvent)
    moved, allowed = _moved(event, *tables)
    assert moved == allowed == 1.0


def _discovered(source: MemorySource, tape: Tape, patch: pytest.MonkeyPatch) -> tuple[Event, ...]:
    _listen(tape, patch)
    kept = Fraction(1, 10**6)
    ledger = Ledger(epsilon=1.0, delta=1e-5, neighbours=Neighbours(), accountant=ZCDP(), partition_delta=kept)
    Curator(source, ledger).discover(None, ledger.total)
    return ledger.events


def test_expected_tables_of_another_shape_are_refused_before_anything_is_spent() -> None:
    """Broadcast against a larger table each row would count in many cells."""
    source, _ = open_source(pa.table({"a": [0, 1, 2]}))
    ledger = Ledger(epsilon=1.0, delta=1e-5, neighbours=Neighbours(), accountant=ZCDP())
    curator = Curator(source, ledger)
    curator.discover(Schema.from_sizes({"a": 3}))
    with pytest.raises(InputError):
        curator.choose([("a",)], [np.zeros((5, 3))], Fraction(1, 1000))
    assert ledger.spent == 0


@pytest.mark.parametrize("penalty", [0.3, 1e11 + 0.3, 2e12 + 1 / 3])
def test_scores_keep_their_sensitivity_in_floating_point(
    penalty: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[float] = []
    monkeypatch.setattr(choosing, "exponential", lambda scores, *rest: found.append(float(scores[0])) or 0)
    rng = np.random.default_rng(0)
    for _ in range(300):
        model, table = [rng.random(7) * 50], rng.integers(0, 50, 7)
        more = table + np.eye(7, dtype=np.int64)[rng.integers(7)]
        found.clear()
        for counts in (table, more):
            ledger = Ledger(epsilon=1.0, delta=1e-5, neighbours=Neighbours(), accountant=ZCDP())
            choosing.choose(
                lambda counts=counts: [counts],
                model,
                ledger.total,
                [13],
                [penalty],
                1,
                ledger,
                None,  # type: ignore[misc, arg-type]
            )
        assert abs(found[0] - found[1]) <= 13
