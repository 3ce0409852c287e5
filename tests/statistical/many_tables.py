"""One discovery, and the exact answer of each of its looks on a table and on many of its neighbours.

Discovery runs on one table. Whenever it asks for something, the exact answer is worked out on all other
tables as well, by the very code that the look runs: all of them are behind one `Source`. So each look is held
against what its event declares on all pairs of neighbours at once, with what was released before being the
same for both, as a proof of composition has it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from twin_losses import tail_chance

from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.accounting.events import Event, GaussianEvent, PartitionEvent
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.schema import Schema

__all__ = ["look_at_many"]

PUBLIC = frozenset({"columns", "comparable", "holds_rows", "joins_texts"})
TABLES = frozenset({"only", "read_as"})
MOST_PAIRS = 30
Histogram = dict[str | None, int]


class FailedError(Exception):
    """A look at the table that the run is about has failed."""


class ManyTables:
    """Several tables as one `Source`, of which one answers at a time.

    Args:
        sources: The tables.
        looks: Says which one, and is told what is read where no event pays for it.
    """

    def __init__(self, sources: Sequence[Any], looks: Looks) -> None:
        self.sources, self._looks = list(sources), looks

    def bound_owners(self, owner: str, max_rows: int, *, key: bytes | None = None) -> ManyTables:
        """Itself: the tables come without the owners' column, and with no row to drop."""
        return self

    def bind(self, schema: Any) -> Any:
        """The engine of the first table, once all rows have a code."""
        self._looks.bound = [source.bind(schema) for source in self.sources]
        return self._looks.bound[0]

    def rows(self) -> Any:
        """Of the first table: the door compares it with what the engine counts."""
        return self.sources[0].rows()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.sources[self._looks.place], name)
        if name in TABLES:
            return lambda *args: ManyTables([getattr(one, name)(*args) for one in self.sources], self._looks)
        if name not in PUBLIC and not self._looks.asking:
            self._looks.findings.append(f"read: {name}")
        return found


class Looks:
    """What is asked of many tables.

    Args:
        tables: How many they are.
        adjacency: Whether the first is a neighbour of all others, or these of each other.
    """

    def __init__(self, tables: int, adjacency: str) -> None:
        self.place, self.asking = 0, False
        self.asked: list[str] = []
        self.findings: list[str] = []
        self.bound: list[Any] = []
        first = [(0, other) for other in range(1, tables)]
        chain = [(one, one + 1) for one in range(1, tables - 1)]
        self.pairs = first if adjacency == "add_remove" else [*chain, *((1, k) for k in range(3, tables))]
        self._tables = tables

    def asking_all(self, ask: Callable[..., Answer]) -> Callable[..., Answer]:
        """`Ledger.ask` that looks at all tables, and answers about the first."""

        def asked(ledger: Ledger, events: Sequence[Event], exact: Any, answer: Any) -> Answer:
            truths = [self._look(place, events[0], exact) for place in range(self._tables)]
            for number, event in enumerate(events):
                self.asked.append(event.what)
                parts = [None if one is None else _part(one, number, event) for one in truths]
                self._compare(event, parts)
            first = truths[0]
            if first is None:
                raise FailedError
            searched = isinstance(events[0], PartitionEvent)
            return ask(ledger, events, lambda: iter(first) if searched else first, answer)

        return asked

    def _look(self, place: int, event: Event, exact: Callable[[], Any]) -> list[Any] | None:
        """An exact answer; None where there is an error or a warning, which is a finding."""
        self.place, self.asking = place, True
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return list(exact())
        except Exception as error:
            self.findings.append(f"error: {event.what!r} on table {place}: {type(error).__name__} {error}")
            return None
        finally:
            self.place, self.asking = 0, False

    def _compare(self, event: Event, parts: Sequence[Any]) -> None:
        assert isinstance(event, GaussianEvent | PartitionEvent)
        for one, other in self.pairs:
            first, second = parts[one], parts[other]
            if first is None or second is None:
                continue
            moved = _squared(first, second)
            if moved > event.l2_squared:
                said = f"moves by {moved}, declared is {event.l2_squared}"
                self.findings.append(f"sensitivity: {event.what!r} on tables {one}, {other} {said}")
            if isinstance(event, PartitionEvent) and _passing(first, second, event) > event.delta:
                self.findings.append(f"delta: {event.what!r} on tables {one}, {other}")

    def compare_marginals(self, names: Sequence[str], l2_squared: int) -> None:
        """Hold the marginals of one and two attributes, all or some, against a marginal's sensitivity."""
        pairs = list(combinations(names, 2))[:MOST_PAIRS]
        cliques = [(), *combinations(names, 1), *pairs]
        counted = [[counts.reveal() for counts in engine.count(cliques)] for engine in self.bound]
        for one, other in self.pairs:
            for clique, first, second in zip(cliques, counted[one], counted[other], strict=True):
                if _squared(first, second) > l2_squared:
                    self.findings.append(f"sensitivity: marginal {clique} on tables {one}, {other}")


def _part(truth: Sequence[Any], number: int, event: Event) -> NDArray[np.int64] | Histogram:
    """The exact answer that an event pays for; of a search by text, rows without one under None."""
    if not isinstance(event, PartitionEvent):
        return np.asarray(truth[number])
    found: Histogram = {None: int(truth[0][1][-1])}
    for names, counts in truth:
        assert found.keys().isdisjoint(names)
        assert len(set(names)) == len(names)
        found.update(zip(names, counts.tolist(), strict=False))
    return found


def _squared(one: Any, other: Any) -> int | float:
    """The squared L2 distance of two exact answers; infinite where their shapes differ."""
    if isinstance(one, dict):
        return sum((one.get(key, 0) - other.get(key, 0)) ** 2 for key in one.keys() | other.keys())
    if one.shape != other.shape:
        return math.inf
    return sum(int(gap) ** 2 for gap in (one - other).ravel().tolist() if gap)


def _passing(one: Histogram, other: Histogram, event: PartitionEvent) -> float:
    """The chance, at most, that a text of one table alone passes a search, on the side where it is larger."""
    sides = ((one, other), (other, one))
    return max(
        math.fsum(tail_chance(event, event.threshold - mine[text]) for text in mine.keys() - others.keys())
        for mine, others in sides
    )


def look_at_many(
    sources: Sequence[Any],
    neighbours: Neighbours,
    epsilon: float,
    *,
    gdp: bool = True,
    seed: int = 0,
    declared: Schema | None = None,
) -> tuple[list[str], list[str]]:
    """Discover the first of some tables, and hold each look against its event on all neighbours.

    Args:
        sources: Tables without an owners' column. With "add_remove" the others have one unit more than the
            first; with "replace_one" they have each another one more.
        neighbours: What they are.
        epsilon: Of the run.
        gdp: Whether noise is rounded Gaussian.
        seed: Of the noise.
        declared: What is said about the columns; no column is strict.

    Returns:
        The looks, and findings: "read", "error", "sensitivity" or "delta".
    """
    looks = Looks(len(sources), neighbours.adjacency)
    ledger = Ledger(
        epsilon=epsilon,
        delta=1e-5,
        neighbours=neighbours,
        accountant=GDP() if gdp else ZCDP(),
        partition_delta=Fraction(1, 10**6),
        test_seed=seed,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "ask", looks.asking_all(Ledger.ask))
        many: Any = ManyTables(sources, looks)
        curator = Curator(many, ledger)
        try:
            curator.discover(declared, ledger.total / 2)
        except FailedError:
            return looks.asked, looks.findings
        looks.compare_marginals(curator.domain.names, neighbours.marginal_l2_squared)
    return looks.asked, looks.findings
