"""Many at once: a cap is never passed, whoever is killed in between."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path

import pytest
from booking import book, opened, spend

from margrave.errors import BudgetError
from margrave.privacy.accounting.composition import fits
from margrave.privacy.ledger.book import Book

# Runs that are alike and open stand beside each other here.
pytestmark = pytest.mark.filterwarnings("ignore::margrave.errors.PlanWarning")


def test_threads_with_their_own_connections_cannot_overspend(tmp_path: Path) -> None:
    kept = book(tmp_path, 0.2)
    done: list[int] = []
    ready = threading.Barrier(8)

    def race() -> None:
        mine, count = Book(kept.path), 0
        ready.wait()
        with contextlib.suppress(BudgetError):
            while True:
                spend(opened(mine, 0.1), Fraction(1))
                count += 1
        done.append(count)
        mine.close()

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 8
    assert sum(done) == len(kept.runs()) == 3  # by rho; two by the sum of epsilons
    assert all(run.events == 1 for run in kept.runs())


RACER = """
import os, sys
from fractions import Fraction
from pathlib import Path
sys.path.insert(0, {tests!r})
from margrave.errors import BudgetError
from margrave.privacy.ledger.book import Book
from booking import opened, spend
print("ready", flush=True)
sys.stdin.readline()
book, done = Book(Path({path!r})), 0
for turn in range({turns}):
    try:
        ledger = opened(book, 0.05, analyst=str(os.getpid()))
    except BudgetError:
        break
    done += 1
    spend(ledger, Fraction(1))
    if turn % 2:
        ledger.close()
print(done, flush=True)
"""


def racers(path: Path, count: int, turns: int) -> list[subprocess.Popen[str]]:
    code = RACER.format(tests=str(Path(__file__).parent), path=str(path), turns=turns)
    return [
        subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(count)
    ]


def start(processes: list[subprocess.Popen[str]]) -> None:
    """Let all go at once."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


@pytest.mark.slow
def test_processes_that_race_cannot_overspend(tmp_path: Path) -> None:
    kept = book(tmp_path, 0.5)
    processes = racers(kept.path, 8, 60)
    start(processes)
    done = [int(process.communicate(timeout=900)[0]) for process in processes]
    assert all(process.returncode == 0 for process in processes)
    runs = kept.runs()
    assert len(runs) == sum(done)
    account = kept.accounts()[0]
    assert fits([run.charge for run in runs if run.charge], 0.5, 4e-9)
    assert account.reserved.together <= 0.5
    assert account.reserved.rho_left < 1.01 * max(run.rho for run in runs)
    assert sorted({seq for run in runs for seq, _ in enumerate(kept.events(run.run))}) == [0]


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="this machine has no POSIX signals")
def test_killed_in_the_middle_nothing_is_given_back(tmp_path: Path) -> None:
    kept = book(tmp_path, 0.2)
    processes = racers(kept.path, 8, 40)
    start(processes)
    while not kept.runs():
        pass
    for process in processes[:4]:
        process.send_signal(signal.SIGKILL)
    for process in processes:
        process.communicate(timeout=900)
    runs = kept.runs()
    assert fits([run.charge for run in runs if run.charge], 0.2, 4e-9)
    for run in runs:
        assert run.state == "open" or run.events == 1
        assert run.charge is not None
        assert run.state == "closed" or run.charge.rho == run.rho
    with pytest.raises(BudgetError):
        opened(kept, 0.05)
    assert Book(kept.path).runs() == runs


FORKED = """
import os, sys
from fractions import Fraction
from pathlib import Path
sys.path.insert(0, {tests!r})
from margrave.errors import InputError
from margrave.privacy.ledger.book import Book
from booking import opened, spend
book = Book(Path({path!r}))
wait, go = os.pipe()
if os.fork() == 0:
    os.read(wait, 1)
    tries = [lambda: spend(opened(book, 0.25), Fraction(1)), book.runs]
    refused = 0
    for attempt in tries:
        try:
            attempt()
        except InputError as error:
            refused += "process" in str(error)
    print("refused", refused, flush=True)
    book.close()
    os._exit(0)
book.close()
again = Book(Path({path!r}))
spend(opened(again, 0.25), Fraction(1))
os.write(go, b"x")
os.wait()
print("runs", len(again.runs()), [run.events for run in again.runs()], flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without forks")
def test_a_fork_cannot_spend_through_the_book_of_its_parent(tmp_path: Path) -> None:
    kept = book(tmp_path)
    kept.close()
    code = FORKED.format(tests=str(Path(__file__).parent), path=str(kept.path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == ["refused 2", "runs 1 [1]"]
    assert [run.events for run in Book(kept.path).runs()] == [1]
