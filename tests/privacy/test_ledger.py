from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recording import record_event

from margrave.errors import BudgetError, InputError, UnsupportedEventError
from margrave.privacy.accounting.accountants import GDP, ZCDP, Accountant
from margrave.privacy.accounting.conversions import zcdp_rho
from margrave.privacy.accounting.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    PartitionEvent,
    event_from_json,
    event_to_json,
    fraction_of,
)
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.ledger.ledger import Ledger, check_budget, split
from margrave.privacy.unit import Neighbours, Unit

NEIGHBOURS = Neighbours(Unit("who", 3), "replace_one")
EVENTS: tuple[Event, ...] = (
    GaussianEvent("age", 1, Fraction(10**6, 7)),
    ExponentialEvent("12 candidates", Fraction(1, 30), Fraction(2), 12),
    PartitionEvent("city", 1, Fraction(90_000), 400, Fraction(1, 10**11)),
)


def ledger(
    path: Path | None = None, accountant: Accountant | None = None, partition: Fraction = Fraction(1, 10**10)
) -> Ledger:
    return Ledger(
        epsilon=1.0,
        delta=1e-9,
        neighbours=NEIGHBOURS,
        accountant=accountant or ZCDP(),
        partition_delta=partition,
        path=path,
    )


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 9), st.fractions(1, 10**5)).filter(lambda t: t[1] > 0), max_size=30))
def test_totals_are_exact_for_any_sequence(spends: list[tuple[int, Fraction]]) -> None:
    book, expected = ledger(), Fraction(0)
    for squared, variance in spends:
        event = GaussianEvent("x", squared, variance)
        cost = squared / (2 * variance)
        if expected + cost <= book.total:
            record_event(book, event)
            expected += cost
        else:
            before = (book.spent, book.events)
            with pytest.raises(BudgetError):
                record_event(book, event)
            assert before == (book.spent, book.events)
        assert book.spent == expected
        assert book.spent + book.remaining == book.total
        assert book.remaining >= 0


def test_events_asked_together_cost_what_they_cost_one_by_one() -> None:
    """Runs that differ in names alone are priced at once, anything else by itself."""
    first, second = GaussianEvent("a", 2, Fraction(10**6, 7)), GaussianEvent("b", 2, Fraction(10**6, 7))
    other = GaussianEvent("c", 3, Fraction(10**6, 7))
    asked = [first, second, EVENTS[2], EVENTS[2], other, second, first, EVENTS[1], EVENTS[1]]
    together, apart = ledger(), ledger()
    together.ask(asked, lambda: None, lambda _: Answer(()))
    for event in asked:
        record_event(apart, event)
    assert (together.spent, together.planned, together.planned_delta) == (
        apart.spent,
        apart.planned,
        apart.planned_delta,
    )
    assert together.events == tuple(asked)

    class Cheaper(GaussianEvent):
        pass

    inexact = GaussianEvent("d", 2, float(Fraction(10**6, 8)))  # type: ignore[arg-type]
    exact = GaussianEvent("d", 2, Fraction(10**6, 8))
    for odd in (inexact, Cheaper("e", 2, Fraction(10**6, 8))):
        with pytest.raises((InputError, UnsupportedEventError)):
            together.ask([exact, odd], lambda: None, lambda _: Answer(()))
    assert together.events == tuple(asked)


def test_the_last_fraction_can_be_spent_and_no_more() -> None:
    book = ledger()
    for share in split(book.total, [1, 2, 3, 7, 11, Fraction(1, 3)]):
        record_event(book, GaussianEvent("x", 1, 1 / (2 * share)))
    assert book.remaining == 0
    with pytest.raises(BudgetError, match="rho must be at most"):
        record_event(book, GaussianEvent("x", 1, Fraction(10**40)))


def test_totals_come_from_what_partitions_leave_of_delta() -> None:
    book = ledger()
    assert book.total == ZCDP().total(1.0, Fraction(1e-9) - Fraction(1, 10**10))
    assert float(book.total) == pytest.approx(zcdp_rho(1.0, 9e-10), rel=1e-12)
    assert (book.epsilon, book.delta, book.neighbours) == (1.0, 1e-9, NEIGHBOURS)
    assert book.partition_delta == book.remaining_delta == Fraction(1, 10**10)
    assert book.accountant.name == "zcdp"


def test_partition_deltas_add_up_and_stop() -> None:
    book = ledger()
    event = PartitionEvent("city", 1, Fraction(10**6), 400, Fraction(3, 10**11))
    for _ in range(3):
        record_event(book, event)
    assert book.remaining_delta == Fraction(1, 10**11)
    spent = book.spent
    with pytest.raises(BudgetError, match="delta must be"):
        record_event(book, event)
    assert (len(book.events), book.spent, book.remaining_delta) == (3, spent, Fraction(1, 10**11))


def test_unknown_events_leave_no_trace(tmp_path: Path) -> None:
    class Odd(GaussianEvent):
        """Not a class whose cost is known."""

    path = tmp_path / "ledger.jsonl"
    book = ledger(path)
    for event in (Odd("x", 1, Fraction(1000)), Event("x")):
        with pytest.raises(UnsupportedEventError):
            record_event(book, event)
    gdp = ledger(accountant=GDP())
    with pytest.raises(UnsupportedEventError):
        record_event(gdp, EVENTS[0])
    assert book.spent == gdp.spent == 0
    assert book.events == gdp.events == read_ledger(path)[1] == ()


def test_refused_spends_leave_no_trace_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    book = ledger(path)
    with pytest.raises(BudgetError):
        record_event(book, GaussianEvent("x", 1, Fraction(1)))
    assert read_ledger(path)[1] == ()
    record_event(book, EVENTS[0])
    assert read_ledger(path)[1] == EVENTS[:1]


def test_the_file_says_everything(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    book = ledger(path)
    for event in EVENTS:
        record_event(book, event)
        assert read_ledger(path)[1] == book.events
    header, events = read_ledger(path)
    assert events == EVENTS
    assert (header.epsilon, header.delta, header.partition_delta) == (1.0, 1e-9, Fraction(1, 10**10))
    assert (header.neighbours, header.accounting, header.version) == (NEIGHBOURS, "zcdp", 1)
    assert [type(json.loads(line)) for line in path.read_text().splitlines()] == [dict] * (1 + len(EVENTS))


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    book = ledger(path)
    for event in EVENTS:
        record_event(book, event)
    whole = path.read_bytes()
    last = len(whole) - len(whole.splitlines(keepends=True)[-1])
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert read_ledger(path)[1] == EVENTS[:-1]
    path.write_bytes(whole[:10])
    with pytest.raises(InputError, match="intact"):
        read_ledger(path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"gaussian"', '"gauss', 1),
        lambda text: text.replace("1000000/7", "1/0", 1),
        lambda text: text.replace('"l2_squared": 1', '"l2_squared": "1"', 1),
        lambda text: text.replace('"l2_squared": 1, ', "", 1),
        lambda text: text.replace('"ledger"', '"novel"', 1),
        lambda text: text.replace('"version": 1', '"version": 2', 1),
        lambda text: text.replace('"version": 1', '"version": null', 1),
        lambda text: text.replace('{"adjacency": "replace_one", "owner": "who", "max_rows": 3}', "[]", 1),
        lambda text: "[]\n" + text,
        lambda text: "",
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, damage: object) -> None:
    path = tmp_path / "ledger.jsonl"
    book = ledger(path)
    for event in EVENTS:
        record_event(book, event)
    before = path.read_text()
    after = damage(before)  # type: ignore[operator]
    assert before != after
    path.write_text(after)
    with pytest.raises(InputError):
        read_ledger(path)


def test_a_file_of_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    record_event(ledger(path), EVENTS[0])
    path.write_text(path.read_text().replace('"gaussian"', '"quantum"'))
    with pytest.raises(UnsupportedEventError, match="version"):
        read_ledger(path)
    with pytest.raises(InputError, match="can be read"):
        read_ledger(tmp_path / "nowhere")


def test_an_existing_file_is_never_touched(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text("precious")
    with pytest.raises(InputError, match="never overwritten"):
        ledger(path)
    assert path.read_text() == "precious"
    with pytest.raises(InputError, match="can be written"):
        ledger(tmp_path / "no" / "folder.jsonl")


@pytest.mark.parametrize("broken", ["fsync", "write"])
def test_a_new_file_that_a_full_disk_cut_short_is_not_in_the_way_of_the_next_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(f"margrave.privacy.ledger.journal.os.{broken}", fail)
        with pytest.raises(InputError, match="No space left on device"):
            ledger(tmp_path / "ledger.jsonl")
    assert list(tmp_path.iterdir()) == []
    record_event(ledger(tmp_path / "ledger.jsonl"), EVENTS[0])


@pytest.mark.parametrize("broken", ["fsync", "write", "open"])
def test_a_failing_disk_fails_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    book = ledger(tmp_path / "ledger.jsonl")
    record_event(book, EVENTS[0])

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, broken, fail)
        with pytest.raises(InputError, match="No space left"):
            record_event(book, EVENTS[1])
    assert book.events == EVENTS[:1]
    with pytest.raises(InputError, match="intact"):
        record_event(book, EVENTS[1])
    assert read_ledger(tmp_path / "ledger.jsonl")[1][:1] == EVENTS[:1]


def test_a_short_write_fails_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.jsonl"
    book, write = ledger(path), os.write
    monkeypatch.setattr(os, "write", lambda handle, line: write(handle, line[:-3]))
    with pytest.raises(InputError, match="in part only"):
        record_event(book, EVENTS[0])
    assert read_ledger(path)[1] == book.events == ()


def test_a_vanished_file_fails_closed(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    book = ledger(path)
    path.unlink()
    with pytest.raises(InputError):
        record_event(book, EVENTS[0])
    assert not path.exists()


RECORDER = """
import sys
from fractions import Fraction
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
book = Ledger(epsilon=1.0, delta=1e-9, neighbours=Neighbours(), accountant=ZCDP(), path=sys.argv[1])
for turn in range(10**6):
    book.ask([GaussianEvent(f"turn {turn}", 1, Fraction(10**9))], lambda: None, lambda _: Answer(()))
    print(turn, flush=True)  # the moment a noisy answer would leave
"""


@pytest.mark.parametrize("turns", [1, 7, 40])
def test_a_killed_run_never_under_reports(tmp_path: Path, turns: int) -> None:
    path = tmp_path / "ledger.jsonl"
    command = [sys.executable, "-c", RECORDER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acted = [child.stdout.readline() for _ in range(turns)]
        os.kill(child.pid, signal.SIGKILL)
        acted += [line for line in child.stdout if line.endswith("\n")]
        child.wait()
    assert child.returncode == -signal.SIGKILL
    written = [event.what for event in read_ledger(path)[1]]
    assert written[: len(acted)] == [f"turn {int(line)}" for line in acted]
    assert len(acted) <= len(written) <= len(acted) + 1


def test_threads_cannot_overspend() -> None:
    book = ledger()
    event = GaussianEvent("x", 1, 50 / (2 * book.total))
    refused = []

    def spend() -> None:
        for _ in range(20):
            try:
                record_event(book, event)
            except BudgetError:
                refused.append(1)

    threads = [threading.Thread(target=spend) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(book.events), len(refused), book.remaining) == (50, 50, 0)


def test_a_ledger_cannot_be_copied() -> None:
    for twice in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="spent twice"):
            twice(ledger())


def test_a_forked_process_cannot_spend(monkeypatch: pytest.MonkeyPatch) -> None:
    book = ledger()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(BudgetError, match="process"):
        record_event(book, EVENTS[0])


@pytest.mark.parametrize("event", EVENTS)
def test_events_survive_json(event: Event) -> None:
    assert event_from_json(json.loads(json.dumps(event_to_json(event)))) == event


def test_unknown_events_have_no_json() -> None:
    with pytest.raises(UnsupportedEventError):
        event_to_json(Event("x"))
    with pytest.raises(InputError):
        event_from_json({**event_to_json(EVENTS[0]), "more": 1})


@pytest.mark.parametrize("epsilon", [0, 0.0, -1.0, float("nan"), float("inf"), True, "1", None, 1j])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(InputError, match="epsilon must be a finite number above 0"):
        check_budget(epsilon, 1e-9)


@pytest.mark.parametrize("delta", [0, 1, -1e-9, 1.0, float("nan"), True, "1e-9", None])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match="delta must be a number above 0 and below 1"):
        check_budget(1.0, delta)


@pytest.mark.parametrize("partition", [Fraction(-1, 10**12), Fraction(1e-9), Fraction(1)])
def test_an_impossible_partition_delta_is_refused(partition: Fraction) -> None:
    with pytest.raises(InputError, match="partition_delta must be"):
        ledger(partition=partition)


@given(
    st.fractions(0, 10**6),
    st.lists(st.one_of(st.integers(0, 99), st.fractions(0, 99)), min_size=1).filter(lambda x: sum(x) > 0),
)
def test_split_loses_nothing(total: Fraction, shares: list[int | Fraction]) -> None:
    parts = split(total, shares)
    assert sum(parts) == total
    assert all(part * sum(shares) == total * share for part, share in zip(parts, shares, strict=True))


@pytest.mark.parametrize("shares", [[], [0, 0], [1, -1], [0.5, 0.5], [True]])
def test_impossible_shares_are_refused(shares: list[int]) -> None:
    with pytest.raises(InputError, match="shares must be"):
        split(Fraction(1), shares)


@pytest.mark.parametrize(
    "text", ["4e999999999", "1/0", "0x10", "1_0", " 1", "1.5", "", "1/", "1/-2", "9" * 5000]
)
def test_fractions_are_read_as_they_are_written_and_no_other_way(text: str) -> None:
    assert fraction_of(text) is None
    record = {"event": "gaussian", "what": "a", "l2_squared": 1, "sigma_squared": text, "rounded": False}
    with pytest.raises(InputError, match="event"):
        event_from_json(record)


def test_fractions_are_read_exactly() -> None:
    assert fraction_of("-12/8") == Fraction(-3, 2)
    assert fraction_of("7") == 7


def test_events_of_one_call_cost_their_sum_and_are_taken_all_or_none() -> None:
    book = ledger()
    third = GaussianEvent("a", 1, 1 / (2 * book.total / 3))
    book.ask([third, third], lambda: None, lambda _: Answer(()))
    assert book.spent == 2 * book.total / 3
    with pytest.raises(BudgetError):
        book.ask([third, third], lambda: None, lambda _: Answer(()))
    assert book.events == (third, third)
    book.ask([third], lambda: None, lambda _: Answer(()))
    assert book.remaining == 0
