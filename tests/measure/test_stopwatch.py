"""The stopwatch of a curator stands still in every verb, and goes on outside them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave import limits
from margrave.engines.memory import open_source
from margrave.errors import BudgetError
from margrave.limits import Deadline, Stopwatch, price_question
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.regression.perturb import Objective
from margrave.measure.mechanisms.regression.slopes import Slope
from margrave.measure.mechanisms.verb import Verb
from margrave.privacy.accounting.accountants import ZCDP, Renyi
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.features import Embedding, RowNumbers
from margrave.schema.schema import Schema

SCHEMA = Schema.from_sizes({"a": 3, "b": 2})
RHO = Fraction(1, 1000)
HOUR = 3600 * 10**9


class Clock:
    """Stands where the machine's clock is read, in nanoseconds."""

    now = 0

    def monotonic_ns(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(limits, "time", made)
    return made


class Slow:
    """A table or an engine: whatever is read off it takes an hour, and calling what was read another."""

    def __init__(self, answering: Any, clock: Clock) -> None:
        self._answering, self._clock = answering, clock

    def __getattr__(self, name: str) -> Any:
        self._clock.now += HOUR
        found = getattr(self._answering, name)
        if not callable(found):
            return found

        def answer(*args: Any, **kwargs: Any) -> Any:
            self._clock.now += HOUR
            made = found(*args, **kwargs)
            return Slow(made, self._clock) if name in {"only", "bounded", "bind"} else made

        return answer


class Still:
    """A learner of one weight that learns nothing."""

    shapes = ((1, 1),)
    uniforms = 0

    def start(self) -> Any:
        return np.zeros(1)

    def factors(self, state: Any, codes: Any, uniform: Any) -> Any:
        import torch

        return [(torch.zeros(len(codes), 1, 1, dtype=torch.float64),) * 2]

    def moved(self, state: Any, gradients: Any) -> Any:
        return state

    def finished(self, state: Any) -> Any:
        return (state,)


class Silent:
    """Teachers that say nothing."""

    questions, shown, uniforms = 1, 2, 0

    def start(self) -> Any:
        return np.zeros(1)

    def hire(self, place: int) -> Any:
        return None

    def taught(self, state: Any, teacher: Any, codes: Any, uniform: Any) -> Any:
        return teacher, np.zeros(1)

    def moved(self, state: Any, counts: Any, sigma: float) -> Any:
        return state

    def finished(self, state: Any) -> Any:
        return (state,)


def _curator(clock: Clock, verb: str) -> Curator:
    table = pa.table({"a": [0, 1, 2, 1], "b": [1, 1, 0, 0]})
    neighbours = Neighbours() if verb == "train" else Neighbours(adjacency="replace_one")
    if verb == "read_public":
        neighbours = Neighbours(adjacency="replace_private", public=("a",))
    accountant = Renyi(8) if verb in ("perturb", "train") else ZCDP()
    ledger = Ledger(epsilon=5.0, delta=1e-6, neighbours=neighbours, accountant=accountant)
    curator = Curator(Slow(open_source(table)[0], clock), ledger)  # type: ignore[arg-type]
    if verb != "discover":
        curator.discover(SCHEMA)
    return curator


def _tables() -> list[Any]:
    return [np.ones((3, 2)), np.ones(3)]


def _train(curator: Curator) -> Any:
    return curator.train(Still(), RHO, steps=2, rate=Fraction(1, 2))


def _moments(curator: Curator) -> Any:
    embedding = Embedding(("a",), (np.ones((3, 2), np.uint16),))
    return curator.moments(embedding, RHO)


class Odd(Verb):
    """How many rows have an odd code."""

    words, cliques, shape = "odd rows", (("a", "b"), ("a",)), (1,)

    def l2_squared(self, neighbours: Neighbours) -> int:
        return neighbours.marginal_l1**2

    def exact(self, tables: Any) -> Any:
        return tables[1][1:2]


def _sums(curator: Curator) -> Any:
    return curator.sums(RowNumbers(("a", "b"), (np.ones((1, 3)), np.ones((1, 2)))), RHO)


def _labelled() -> RowNumbers:
    return RowNumbers(("a", "b"), (np.ones((1, 3)), np.array([[0.0, 1.0]])))


def _slope() -> Slope:
    return Slope(_labelled(), "logistic", np.zeros(2), 1.0)


def _scores() -> dict[str, Any]:
    return {"a": np.array([-1, 0, 1]), "b": np.array([-1, 1])}


VERBS: dict[str, Callable[[Curator], Any]] = {
    "answer": lambda curator: curator.answer(Odd(), RHO),
    "appraise": lambda curator: curator.appraise([("a", "b"), ("a",)], _tables(), RHO),
    "choose": lambda curator: curator.choose([("a", "b"), ("a",)], _tables(), RHO),
    "correlate": lambda curator: curator.correlate([("a", "b")], _scores(), RHO),
    "discover": lambda curator: curator.discover(None, RHO),
    "domain": lambda curator: curator.domain,
    "measure": lambda curator: curator.measure([("a",), ("a", "b")], RHO),
    "moments": _moments,
    "perturb": lambda curator: curator.perturb(Objective(_labelled(), Fraction(50)), curator.total),
    "public_rows": lambda curator: curator.public_rows,
    "read_public": lambda curator: curator.read_public(),
    "slices": lambda curator: curator.slices(RowNumbers.indicate_codes(SCHEMA.domain), RHO),
    "slopes": lambda curator: curator.slopes(_slope(), RHO, RHO),
    "statistics": lambda curator: curator.statistics(_labelled(), (RHO, RHO, RHO)),
    "sums": _sums,
    "train": _train,
    "votes": lambda curator: curator.votes(Silent(), RHO, teachers=2, rounds=2),
}
"""Whatever may touch the rows, each done once."""
PRICES = dict.fromkeys(("answer", "appraise", "choose", "measure"), price_question(2, 3 + 3 * 2))
PRICES["correlate"] = price_question(1, 3 * 2)
PRICES |= dict.fromkeys(("statistics", "sums"), price_question(4, 1 + 3 + 2 + 3 * 2))
"""Seconds that a verb counts for, by the number and the size of its tables, however long it takes."""
TRIED = [
    pytest.param(verb, marks=pytest.mark.needs_extra("torch")) if verb == "train" else verb
    for verb in sorted(VERBS)
]
PUBLIC = {"measurements", "progress", "remaining", "set_aside", "sigma", "stopwatch", "total"}
"""What answers from the ledger and from releases alone, and so never asks the table."""


def test_every_public_name_is_known_here() -> None:
    """A verb that is added has to be tried below."""
    names = {name for name in dir(Curator) if not name.startswith("_")}
    assert names == set(VERBS) | PUBLIC


@pytest.mark.parametrize("verb", TRIED)
def test_the_stopwatch_stands_still_in_a_verb(clock: Clock, verb: str) -> None:
    curator = _curator(clock, verb)
    before, then = curator.stopwatch.elapsed, clock.now
    deadline = Deadline(1.0, curator.stopwatch)
    VERBS[verb](curator)
    assert clock.now > then, "the table was not asked, so that nothing was tried"
    price = PRICES.get(verb, 0.0)
    assert curator.stopwatch.elapsed == pytest.approx(before + price, abs=1e-9)
    assert deadline.left == pytest.approx(1.0 - price, abs=1e-9)
    clock.now += 2 * 10**9
    assert curator.stopwatch.elapsed == pytest.approx(before + price + 2.0, abs=1e-9)
    assert deadline.passed


@pytest.mark.parametrize("verb", TRIED)
def test_a_verb_whose_time_is_counted_is_found(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, verb: str
) -> None:
    """The same verb as it would be without `stop_clock`: the test above tells them apart."""
    curator, wrapped = _curator(clock, verb), getattr(Curator, verb)
    if isinstance(wrapped, property):
        assert wrapped.fget is not None
        monkeypatch.setattr(Curator, verb, property(wrapped.fget.__wrapped__))
    else:
        monkeypatch.setattr(Curator, verb, wrapped.__wrapped__)
    before = curator.stopwatch.elapsed
    VERBS[verb](curator)
    assert curator.stopwatch.elapsed > before


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_what_answers_from_releases_never_asks_the_table(clock: Clock, name: str) -> None:
    curator = _curator(clock, name)
    then = clock.now
    found = getattr(curator, name)
    if callable(found):
        found = found(RHO)
    if isinstance(found, AbstractContextManager):
        with found:
            pass
    assert clock.now == then


def test_the_stopwatch_goes_on_after_a_verb_that_failed(clock: Clock) -> None:
    curator = _curator(clock, "measure")
    before = curator.stopwatch.elapsed
    with pytest.raises(BudgetError):
        curator.measure([("a",)], 2 * curator.total)
    assert curator.stopwatch.elapsed == before
    clock.now += 10**9
    assert curator.stopwatch.elapsed == before + 1.0


def test_stops_may_be_nested_and_lose_nothing(clock: Clock) -> None:
    stopwatch = Stopwatch()
    for _ in range(3):
        clock.now += 10**9
        with stopwatch.pause():
            clock.now += HOUR
            with stopwatch.pause():
                clock.now += HOUR
            clock.now += HOUR
    assert stopwatch.elapsed == pytest.approx(3.0)
    assert repr(stopwatch) == "Stopwatch(3)"


def test_not_even_rounding_follows_the_length_of_a_stop(clock: Clock) -> None:
    found = []
    for stop in (1, 10**17 + 1):
        stopwatch = Stopwatch()
        for gap in (333, 1_000_003, 7, 123_456_789):
            clock.now += gap
            with stopwatch.pause():
                clock.now += stop
        clock.now += 5
        found.append(stopwatch.elapsed)
    assert found[0] == found[1]
