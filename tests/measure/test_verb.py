"""A verb from outside the package that fails by what it sees: paid for, one fixed error, and once a run."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.verb import Verb, read_exact
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.book import Book
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.ledger.location import LedgerLocation
from margrave.privacy.unit import Neighbours
from margrave.schema.schema import Schema
from margrave.select import AllPairs

SCHEMA = Schema.from_sizes({"a": 3}).absorb_outside()
ROWS = 7155
"""The count that nobody may learn: none of its digits in a row stand in any message."""


class Told(Verb):
    """How many rows there are, by whatever `tell` makes of the exact number."""

    words, cliques, shape = "rows", (("a",),), ()

    def __init__(self, tell: Callable[[int], Any]) -> None:
        self._tell = tell

    def l2_squared(self, neighbours: Neighbours) -> int:
        return neighbours.unit.max_rows**2

    def exact(self, tables: Any) -> Any:
        return self._tell(int(tables[0].sum()))


class Foul(BaseException):
    """Not even an `Exception`, as `SystemExit` is none."""


def _fail(error: BaseException) -> Any:
    raise error


def _fail_from(rows: int) -> Any:
    try:
        raise ValueError(rows)
    except ValueError as error:
        raise InputError(f"there are {rows}") from error


class Worse:
    """Fails only when it is made an array."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise KeyError(self._rows)


FAILURES: dict[str, Callable[[int], Any]] = {
    "its own error": lambda rows: _fail(KeyError(rows)),
    "an error of the package": _fail_from,
    "no Exception": lambda rows: _fail(Foul(rows)),
    "SystemExit": lambda rows: _fail(SystemExit(rows)),
    "no array": Worse,
    "nothing": lambda rows: None,
    "shape": lambda rows: np.zeros(rows, dtype=np.int64),
    "dtype": lambda rows: np.asarray(rows / 2),
    "ragged": lambda rows: [[1], [rows, 2]],
}


def _ledger() -> Ledger:
    return Ledger(epsilon=5.0, delta=1e-6, neighbours=Neighbours(), accountant=ZCDP())


def _curator(ledger: Ledger) -> Curator:
    curator = Curator(open_source(pa.table({"a": np.arange(ROWS) % 3}))[0], ledger)
    curator.discover(SCHEMA)
    return curator


def _halve(bound: int) -> Verb:
    """Fails where there are more rows than so many."""
    return Told(lambda rows: np.asarray(rows) if rows <= bound else _fail(ValueError(rows)))


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in found:
            found.append(one)
            waiting += [one.__cause__, one.__context__]
    return found


@pytest.mark.parametrize("failure", sorted(FAILURES))
def test_a_failure_is_paid_for_and_says_nothing(failure: str) -> None:
    ledger = _ledger()
    curator = _curator(ledger)
    with pytest.raises(InputError) as refused:
        curator.answer(Told(FAILURES[failure]), ledger.total / 10)
    assert [event.what for event in ledger.events] == ["rows"]
    assert ledger.spent == pytest.approx(ledger.total / 10)
    assert _chain(refused.value) == [refused.value]
    shown = "".join(traceback.format_exception(refused.value))
    said = f"{refused.value!r} {refused.value.args} {shown}"
    assert str(ROWS) not in said
    assert str(ROWS / 2) not in said


def test_all_failures_are_the_same_error() -> None:
    said = set()
    for failure in FAILURES.values():
        with pytest.raises(InputError) as refused:
            read_exact(Told(failure), (), [np.array([1, 2])])
        said.add((type(refused.value), str(refused.value), traceback.extract_tb(refused.tb)[-1].lineno))
    assert len(said) == 1


def test_who_stops_the_process_is_obeyed_without_a_word_of_the_verb() -> None:
    ledger = _ledger()
    curator = _curator(ledger)
    with pytest.raises(KeyboardInterrupt) as stopped:
        curator.answer(Told(lambda rows: _fail(KeyboardInterrupt(rows))), ledger.total / 10)
    assert stopped.value.args == ()
    assert _chain(stopped.value) == [stopped.value]
    assert len(ledger.events) == 1
    with pytest.raises(InputError, match="none has failed"):
        _ = curator.domain


def test_halving_costs_an_event_each_time_and_ends_after_one_failure() -> None:
    """The attack finds no count: its first failure is the last thing that it is told."""
    ledger = _ledger()
    curator = _curator(ledger)
    low, high, asked, told = 0, 1 << 14, 0, 0
    while high - low > 1 and asked < 100:
        middle, asked = (low + high) // 2, asked + 1
        try:
            curator.answer(_halve(middle), ledger.total / 100)
            high = middle
        except InputError:
            low, told = middle, told + 1
            break
        assert len(ledger.events) == asked
    assert (told, len(ledger.events)) == (1, asked)
    assert high - low > 1000
    for bound in (low, high):
        with pytest.raises(InputError, match="none has failed"):
            curator.answer(_halve(bound), ledger.total / 100)
    assert len(ledger.events) == asked


def test_after_a_failure_the_curator_refuses_everything() -> None:
    ledger = _ledger()
    curator, rho = _curator(ledger), ledger.total / 100
    curator.measure([("a",)], rho)
    with pytest.raises(InputError, match="verb must be"):
        curator.answer(_halve(1), rho)
    asked: list[Callable[[], Any]] = [
        lambda: curator.measure([("a",)], rho),
        lambda: curator.answer(_halve(ROWS), rho),
        lambda: curator.choose([("a",)], [np.zeros(3)], rho),
        lambda: curator.discover(SCHEMA),
        lambda: curator.domain,
        lambda: curator.public_rows,
        lambda: curator.measurements,
    ]
    for ask in asked:
        with pytest.raises(InputError, match="none has failed"):
            ask()
    assert len(ledger.events) == 2


def test_a_verb_cannot_ask_while_it_holds_exact_tables() -> None:
    """What it asked then could hang on them, unpaid: the curator refuses, and the verb has failed."""
    ledger = _ledger()
    curator = _curator(ledger)
    rho = ledger.total / 100
    nested = Told(lambda rows: curator.measure([("a",)] * (rows % 10), rho)[0].values)
    with pytest.raises(InputError, match="verb must be"):
        curator.answer(nested, rho)
    assert len(ledger.events) == 1


def test_the_shape_is_stated_before_the_tables_are_counted() -> None:
    class Late(Told):
        shape = ()

        def exact(self, tables: Any) -> Any:
            self.shape = (int(tables[0].sum()),)
            return np.zeros(self.shape, dtype=np.int64)

    ledger = _ledger()
    with pytest.raises(InputError, match="of its shape"):
        _curator(ledger).answer(Late(int), ledger.total / 10)
    assert len(ledger.events) == 1


def test_the_verb_is_given_copies() -> None:
    class Greedy(Told):
        def exact(self, tables: Any) -> Any:
            tables[0][:] = 0
            return np.asarray(0)

    ledger = _ledger()
    curator = _curator(ledger)
    curator.answer(Greedy(int), ledger.total / 10)
    (found,) = curator.measure([("a",)], ledger.total / 10)
    assert float(found.values.sum()) == pytest.approx(ROWS, abs=10 * 3 * found.sigma)


def test_in_a_book_a_failure_is_on_record_and_its_run_spent(tmp_path: Path) -> None:
    kept = Book.create(tmp_path / "b.book")
    kept.cap("people", 1.0, 4e-9, Neighbours())

    def opened(resume: bool = False) -> Ledger:
        keep = LedgerLocation(kept, "people", None).keep({"strategy": "test"}, resume)
        return Ledger(epsilon=0.25, delta=1e-9, neighbours=Neighbours(), accountant=ZCDP(), keep=keep)

    ledger = opened()
    curator, rho = _curator(ledger), ledger.total / 10
    with pytest.raises(InputError, match="verb must be"), ledger:
        curator.answer(Told(lambda rows: _fail(KeyError(rows))), rho)
    (run,) = kept.runs()
    assert run.state == "open", "it recorded an event, so that its reservation is not given back"
    (account,) = kept.accounts()
    assert account.spent.together > 0 or account.reserved.together > 0
    (attempt,) = kept.attempts()
    assert "verb must be" in str(attempt)
    assert str(ROWS) not in str(attempt)
    again = opened(resume=True)
    assert [event.what for event in again.events] == ["rows"]
    assert again.spent == pytest.approx(rho)
    with pytest.raises(InputError, match="verb must be"), again:
        _curator(again).answer(Told(lambda rows: _fail(KeyError(rows))), rho)
    assert len(again.events) == 2


def test_a_strategy_that_goes_on_after_a_failure_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(AllPairs):
        def run(self, curator: Any, fitter: Any, on_step: Any, deadline: Any = None) -> Any:
            domain = curator.domain
            measured = curator.measure([(name,) for name in domain.names], curator.remaining / 4)
            with pytest.raises(InputError, match="verb must be"):
                curator.answer(_halve(1), curator.remaining / 4)
            return fitter.fit(domain, measured)

    schema = mg.Schema((mg.Categorical(name="a", values=("x", "y", "z"), missing=False),))
    table = pa.table({"a": np.array(list("xyz"))[np.arange(ROWS) % 3]})
    with pytest.raises(InputError, match="none has failed"):
        mg.Synthesizer(select=Deaf(), model="independent", epsilon=1.0, schema=schema).fit(table)
