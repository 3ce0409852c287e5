"""Stopping runs on purpose: at each step, between a spend and its answer or right after the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest

import margrave as mg
from margrave.privacy.ledger import ledger as ledgers
from margrave.privacy.ledger.book_run import BookRun
from margrave.privacy.ledger.journal import Journal
from margrave.privacy.ledger.ledger import Ledger
from seeded_noise import SeededSource

__all__ = ["Killed", "frame", "killing", "repeatable", "same", "total_of"]


class Killed(BaseException):
    """Stands for kill -9."""


def frame(rows: int = 400) -> pd.DataFrame:
    """A table with a text column, whole numbers and numbers, some missing."""
    rng = np.random.default_rng(0)
    kind = rng.choice(["x", "y", "z"], rows)
    return pd.DataFrame(
        {"a": kind, "b": rng.integers(0, 5, rows) + (kind == "x"), "c": np.where(kind == "y", 1.5, 0.5)}
    )


@pytest.fixture
def repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that depends only on how many events are recorded before it is drawn."""
    source = SeededSource(0)
    true = Ledger.ask

    def ask(self: Ledger, *args: Any) -> Any:
        source._rng = np.random.Generator(np.random.PCG64([len(self.events)]))
        return true(self, *args)

    monkeypatch.setattr(Ledger, "ask", ask)
    monkeypatch.setattr(ledgers, "SecureSource", lambda: source)


@contextmanager
def killing(monkeypatch: pytest.MonkeyPatch, step: int, when: str) -> Iterator[list[int]]:
    """Die at a call of the journal: "before" it is written, "lost" once it is, "stored" with its answer.

    Yields a list that holds how many calls there were.
    """
    calls = [0]

    def fail(name: str, early: bool) -> Callable[..., Any]:
        trues = {cls: getattr(cls, name) for cls in (Journal, BookRun)}

        def patched(self: Any, *args: Any) -> Any:
            calls[0] += 1
            if calls[0] > step and early:
                raise Killed
            found = trues[type(self)](self, *args)
            if calls[0] > step:
                raise Killed
            return found

        return patched

    with monkeypatch.context() as patch:
        name = "store" if when == "stored" else "append"
        patched = fail(name, early=when == "before")
        for cls in (Journal, BookRun):
            patch.setattr(cls, name, patched)
            patch.setattr(
                cls, "discard", lambda self, refusal, opened: self.release()
            )  # a killed process tidies nothing
        yield calls


def same(first: mg.Synthesis, second: mg.Synthesis) -> None:
    """Assert that two releases are equal in all that was released, and in the model."""
    a, b = first.release, second.release
    assert (a.events, a.schema, a.guarantee, a.total) == (b.events, b.schema, b.guarantee, b.total)
    assert [m.clique for m in a.measurements] == [m.clique for m in b.measurements]
    for one, other in zip(a.measurements, b.measurements, strict=True):
        np.testing.assert_array_equal(one.values, other.values)
        np.testing.assert_array_equal(one.sigmas, other.sigmas)
    assert set(a.state) == set(b.state)
    for name in a.state:
        np.testing.assert_array_equal(a.state[name], b.state[name])


def total_of(events: Sequence[Any]) -> Any:
    """The rho of events, exact."""
    from fractions import Fraction

    from margrave.privacy.accounting.accountants import event_rho

    return sum((event_rho(event) for event in events), Fraction(0))
