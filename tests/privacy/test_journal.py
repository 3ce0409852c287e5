"""Ledger files that were torn or damaged: a clear error, or what is left of them; never a spend forgotten."""

from __future__ import annotations

import contextlib
import math
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recording import record_event

from margrave.errors import BudgetError, InputError, MargraveError
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.measure.mechanisms.partition import find_texts
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import Event, GaussianEvent, PartitionEvent
from margrave.privacy.ledger.history import Answer, History, Replay
from margrave.privacy.ledger.journal import read_ledger
from margrave.privacy.ledger.ledger import Budget, Ledger
from margrave.privacy.ledger.location import LedgerLocation
from margrave.privacy.unit import Neighbours

FLIPS = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=20)


def ledger(path: Path, resume: bool = False) -> Ledger:
    return Ledger(
        epsilon=1.0,
        delta=1e-9,
        neighbours=Neighbours(),
        accountant=ZCDP(),
        partition_delta=Fraction(1, 10**10),
        keep=LedgerLocation(path).keep({"strategy": "test"}, resume),
    )


def call(book: Ledger, planned: Fraction, count: int = 1, name: str = "x") -> Answer:
    """A call of `count` events at a planned cost each, the answer being how many events came before."""
    events = [GaussianEvent(f"{name} {i}", 1, 1 / (2 * book.price(planned))) for i in range(count)]
    first = float(len(book.events))
    return book.ask(events, lambda: first, lambda truth: Answer((np.array([truth] * count),), (name,)))


def search(book: Ledger, planned: Fraction, delta: Fraction) -> None:
    event = PartitionEvent("city", 1, 1 / (2 * book.price(planned)), 99, book.price_delta(delta))
    book.ask([event], lambda: None, lambda _: Answer((), ()))


def script(book: Ledger, stop: int = 99) -> list[float]:
    """A run with a fixed plan: shares of what there was at the start."""
    whole, found = book.planned, []
    for turn, (share, count) in enumerate([(8, 1), (16, 2), (4, 1), (32, 8), (4, 1)]):
        if turn < stop:
            found += call(book, whole / share, count, f"turn {turn}").arrays[0].tolist()
    return found


def test_a_batch_is_one_write_and_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from margrave.privacy.ledger import journal

    book = ledger(tmp_path / "l")
    syncs: list[int] = []
    monkeypatch.setattr(journal.os, "fsync", syncs.append)
    call(book, book.total / 20, 10)
    assert len(syncs) == 1
    with pytest.raises(BudgetError):
        call(book, book.total / 15, 10)
    assert len(read_ledger(tmp_path / "l")[1]) == len(book.events) == 10


@pytest.mark.parametrize("stop", range(6))
def test_resumed_at_any_call_the_plan_is_carried_out(tmp_path: Path, stop: int) -> None:
    whole = script(ledger(tmp_path / "whole"))
    first = ledger(tmp_path / "l")
    script(first, stop)
    first.release()
    again = ledger(tmp_path / "l", resume=True)
    assert script(again) == whole
    again.close()
    assert again.spent == again.total - again.remaining
    assert read_ledger(tmp_path / "l")[1] == read_ledger(tmp_path / "whole")[1] == again.events


@pytest.mark.parametrize("lost", range(5))
@pytest.mark.parametrize("twice", [False, True])
def test_a_lost_answer_shrinks_what_follows_and_the_total_holds(
    tmp_path: Path, lost: int, twice: bool
) -> None:
    def fail(*_: object) -> Answer:
        raise KeyboardInterrupt

    def lose(book: Ledger, done: int) -> None:
        whole = book.planned
        script(book, done)
        share, count = [(8, 1), (16, 2), (4, 1), (32, 8), (4, 1)][done]
        events = [
            GaussianEvent(f"turn {done} {i}", 1, 1 / (2 * book.price(whole / share))) for i in range(count)
        ]
        with pytest.raises(KeyboardInterrupt):
            book.ask(events, lambda: None, fail)
        book.release()

    lose(ledger(tmp_path / "l"), lost)
    if twice and lost < 4:
        lose(ledger(tmp_path / "l", resume=True), lost)
    again = ledger(tmp_path / "l", resume=True)
    if lost == 4:  # it was all that was left
        with pytest.raises(BudgetError, match="stopped run"):
            script(again)
        return
    script(again)
    assert again.remaining >= 0
    assert again.spent <= again.total
    assert again.spent >= again.total * (1 - Fraction(1, 10**15))
    assert again.planned <= Fraction(1, 10**15)
    costs = [1 / (2 * event.sigma_squared) for event in again.events if isinstance(event, GaussianEvent)]
    assert sum(costs) == again.spent
    third = ledger(tmp_path / "l", resume=True) if again.close() is None else again
    assert script(third)
    assert third.events == again.events


def test_lost_deltas_shrink_too(tmp_path: Path) -> None:
    book = ledger(tmp_path / "l")
    delta = book.planned_delta / 4
    search(book, book.planned / 8, delta)
    os.unlink(tmp_path / "l.answers")
    book.release()
    again = ledger(tmp_path / "l", resume=True)
    assert again.planned_delta == again.partition_delta
    for _ in range(4):
        search(again, again.total / 8, delta)
    assert again.remaining_delta >= 0
    assert again.planned_delta == 0
    assert sum(e.delta for e in again.events if isinstance(e, PartitionEvent)) <= again.partition_delta


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.booleans(), st.fractions(0, 1, max_denominator=1000)), max_size=8))
def test_a_plan_that_fits_always_can_be_paid(steps: list[tuple[bool, Fraction]]) -> None:
    """Whatever is lost on the way: shares of what is planned cost no more than what is left."""
    budget = Budget(Fraction(3, 7))
    for lost, share in steps:
        if budget.exhausted:
            with pytest.raises(BudgetError):
                budget.price(budget.planned, "rho")
            return
        cost = budget.price(budget.planned * share, "rho")
        assert 0 <= cost <= budget.left
        if lost:
            before = budget.planned
            budget.lose(cost)
            assert budget.planned == before
        else:
            budget.spend(cost)
        assert 0 <= budget.left <= budget.total
    if not budget.exhausted:
        assert budget.price(budget.planned, "rho") <= budget.left


def test_another_call_than_the_recorded_one_is_refused(tmp_path: Path) -> None:
    book = ledger(tmp_path / "l")
    script(book, 2)
    book.release()
    for planned, count, name in ((8, 1, "turn 1"), (9, 1, "turn 0"), (16, 2, "turn 0")):
        again = ledger(tmp_path / "l", resume=True)
        with pytest.raises(InputError, match=r"Event 1 of this run is not the recorded one"):
            call(again, again.planned / planned, count, name)
        with pytest.raises(InputError, match="resume must be of the run that was recorded"):
            again.close()
    assert len(read_ledger(tmp_path / "l")[1]) == 3


def test_torn_at_any_byte_no_spend_is_forgotten(tmp_path: Path) -> None:
    path, answers = tmp_path / "l", tmp_path / "l.answers"
    book = ledger(path)
    script(book, 3)
    book.release()
    texts, kept = path.read_bytes(), answers.read_bytes()
    events, start = read_ledger(path)[1], texts.index(b"\n") + 1
    for cut in range(start, len(texts) + 1, 23):
        path.write_bytes(texts[:cut])
        answers.write_bytes(kept[: len(kept) * (cut - start) // (4 * len(texts))])
        whole = texts[:cut].count(b"\n") - 1
        again = ledger(path, resume=True)
        assert again.events == events[:whole]
        assert path.read_bytes() == texts[: texts.rindex(b"\n", 0, cut) + 1]
        with contextlib.suppress(BudgetError, InputError):
            script(again)
        again.release()
        assert again.spent <= again.total
        assert read_ledger(path)[1] == again.events


def test_a_ledger_older_than_its_answers_is_not_resumed(tmp_path: Path) -> None:
    """Put back from a copy, a ledger would spend again what was spent since; the answers beside it tell."""
    path = tmp_path / "l"
    first = ledger(path)
    script(first, 2)
    first.release()
    copy = path.read_bytes()
    again = ledger(path, resume=True)
    script(again, 4)
    again.release()
    for older in (copy, copy.splitlines(keepends=True)[0]):
        path.write_bytes(older)
        with pytest.raises(
            InputError, match=r"as new as the answers beside it\. Do not resume an older copy"
        ):
            ledger(path, resume=True)
        assert path.read_bytes() == older


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FLIPS, FLIPS, st.floats(0.02, 1))
def test_any_damage_is_a_clear_error_or_a_run_within_its_total(
    tmp_path: Path, ledger_flips: list[tuple[float, int]], answer_flips: list[tuple[float, int]], share: float
) -> None:
    path = tmp_path / "l"
    for old in tmp_path.iterdir():
        old.unlink()
    book = ledger(path)
    script(book, 4)
    book.release()
    for file, flips in ((path, ledger_flips), (tmp_path / "l.answers", answer_flips)):
        data = bytearray(file.read_bytes())
        for place, value in flips:
            data[int(place * len(data))] = value
        file.write_bytes(data[: max(math.ceil(share * len(data)), 1)])
    with contextlib.suppress(MargraveError):
        read_ledger(path)
    with contextlib.suppress(MargraveError):
        again = ledger(path, resume=True)
        script(again)
        assert again.spent <= again.total


def test_a_deeply_nested_line_is_damage(tmp_path: Path) -> None:
    ledger(tmp_path / "l")
    with (tmp_path / "l").open("ab") as file:
        file.write(b"[" * 100_000 + b"]" * 100_000 + b"\n")
    with pytest.raises(InputError, match="intact"):
        read_ledger(tmp_path / "l")


def test_a_ledger_without_a_key_cannot_be_resumed(tmp_path: Path) -> None:
    ledger(tmp_path / "l").release()
    text = (tmp_path / "l").read_text(encoding="utf-8")
    start = text.index(', "key"')
    (tmp_path / "l").write_text(text[:start] + "}\n", encoding="utf-8")
    with pytest.raises(InputError, match="kept no answers"):
        ledger(tmp_path / "l", resume=True)


def test_without_a_ledger_there_is_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="start it again without resuming"):
        ledger(tmp_path / "l", resume=True)


def test_a_ledger_over_its_total_is_damaged(tmp_path: Path) -> None:
    book = ledger(tmp_path / "l")
    call(book, book.total / 2)
    book.release()
    line = (tmp_path / "l").read_text(encoding="utf-8").splitlines()[1]
    with (tmp_path / "l").open("a", encoding="utf-8") as file:
        file.write((line + "\n") * 2)
    with pytest.raises(InputError, match="within its own promise"):
        ledger(tmp_path / "l", resume=True)


def test_replay_goes_call_by_call() -> None:
    events: tuple[Event, ...] = tuple(GaussianEvent(str(i), 1, Fraction(10)) for i in range(6))
    replay = Replay(History(events, {1: (2, Answer(())), 4: (1, Answer((), ("b",)))}))
    assert replay.lost() == events[:1]
    assert replay.lost() == ()
    replay.take(events[1:3])
    assert (replay.lost(), replay.done) == (events[3:4], False)
    assert replay.take(events[4:5]).texts == ("b",)
    assert (replay.lost(), replay.done) == (events[5:], True)


def test_names_of_places() -> None:
    for name in ("a.book", "b.DB", "c.sqlite", "d.sqlite3"):
        assert LedgerLocation(name, "people").in_book
        with pytest.raises(InputError, match="dataset must be given with a book"):
            LedgerLocation(name)
    for name in ("a.jsonl", "book", "a.db.jsonl"):
        assert not LedgerLocation(name).in_book
        with pytest.raises(InputError, match="left out without a book"):
            LedgerLocation(name, analyst="ann")
    assert LedgerLocation().keep({}) is None


def test_a_ledger_that_was_resumed_before_it_was_locked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from margrave.privacy.ledger import journal

    synced = journal.sync_folder

    def interrupt(folder: Path) -> None:
        monkeypatch.setattr(journal, "sync_folder", synced)
        other = ledger(tmp_path / "l", resume=True)
        call(other, other.total)
        other.release()

    monkeypatch.setattr(journal, "sync_folder", interrupt)
    with pytest.raises(InputError, match="no other process"):
        ledger(tmp_path / "l")
    assert len(read_ledger(tmp_path / "l")[1]) == 1


def test_a_ledger_is_not_removed_under_a_process_that_resumes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from margrave.privacy.ledger import journal

    first = ledger(tmp_path / "l")
    read, refused = journal.read_ledger, []

    def interrupt(path: Path) -> object:
        found = read(path)
        monkeypatch.setattr(journal, "read_ledger", read)
        with pytest.raises(InputError, match="no other process") as caught:
            ledger(tmp_path / "l", resume=True)
        refused.append(caught)
        return found

    monkeypatch.setattr(journal, "read_ledger", interrupt)
    first.discard("no reason")
    assert refused
    assert not (tmp_path / "l").exists()


def test_a_ledger_that_was_removed_before_it_was_locked_is_not_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from margrave.privacy.ledger import journal

    ledger(tmp_path / "l").release()
    lock = journal.take_lock

    def interrupt(handle: int) -> None:
        (tmp_path / "l").unlink()
        monkeypatch.setattr(journal, "take_lock", lock)
        ledger(tmp_path / "l").release()
        lock(handle)

    monkeypatch.setattr(journal, "take_lock", interrupt)
    with pytest.raises(InputError, match="no other process"):
        ledger(tmp_path / "l", resume=True)


def test_the_noise_of_a_stored_search_is_that_it_was_drawn_with(tmp_path: Path) -> None:
    def find(book: Ledger) -> tuple[Answer, float]:
        parts = [(["a", "b"], np.array([500, 400, 3]))]
        gaussian = Gaussian(book, book.choose_noise())
        delta = Fraction(1, 2 * 10**10)
        return find_texts("values of x", lambda: parts, gaussian, book, book.planned / 4, delta)

    first = ledger(tmp_path / "l")
    found, sigma = find(first)
    record_event(first, GaussianEvent("lost", 1, 1 / (2 * first.remaining)))
    first.release()
    again, same = find(ledger(tmp_path / "l", resume=True))
    assert same == sigma
    np.testing.assert_array_equal(again.arrays[0], found.arrays[0])
