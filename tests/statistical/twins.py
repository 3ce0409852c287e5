"""A run on one table held against the same run on a neighbouring one: the grey-box twin audit.

`record` runs margrave on a table and writes down, for each call of `Ledger.ask`, the events, the exact
answer, what was drawn and what was released; and, beside it, whatever of the table was read outside such a
call. `replay` runs margrave on a neighbouring table and gives it the answers that the first run released, as
a proof of adaptive composition does. Everything that the second run then does has to be what the first did.
The exact answers are what the verbs of the door would release if every draw of noise were zero, so nothing
but the samplers, the ledger's `ask` and the protocols `Source`, `Engine`, `Learner` and `Ensemble` has to be
known here.
"""

from __future__ import annotations

import contextlib
import hashlib
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from twin_watchers import WatchedEnsemble, WatchedLearner, WatchedTable

import margrave.privacy.noise as noise
from margrave import entropy
from margrave.engines import opening
from margrave.engines.counts import Counts
from margrave.measure.curator import Curator
from margrave.privacy.accounting.events import Event, PartitionEvent
from margrave.privacy.ledger.history import Answer
from margrave.privacy.ledger.ledger import Ledger
from margrave.progress import Step

__all__ = ["Draw", "Opened", "Question", "Tape", "record", "replay"]

OFFSET = 1 << 40
"""Stands for the noise of a search for values while its exact answer is taken, so that every value passes."""
GAUSSIANS = ("discrete_gaussian", "rounded_gaussian")
Sampler = Callable[..., Any]
Run = Callable[[Callable[[Step], None]], Any]
"""Runs margrave with a listener for its steps, and returns what is released."""


class DivergedError(Exception):
    """The second run asks for something else than the first."""


@dataclass(frozen=True)
class Opened:
    """A table that was opened beforehand, to be passed where margrave opens one.

    Args:
        parts: The source and the frame that `open_source` gave.
    """

    parts: tuple[Any, Any]


@dataclass
class Draw:
    """One use of a sampler: its name, its parameters, and what it gave.

    Args:
        sampler: Name of the function.
        parameters: All its arguments but scores, sizes and the source of bits.
        scores: Of an exponential mechanism; else empty.
        values: What was drawn.
    """

    sampler: str
    parameters: tuple[Fraction, ...]
    scores: NDArray[np.float64]
    values: NDArray[np.float64]


@dataclass
class Question:
    """One call of `Ledger.ask`.

    Args:
        events: What it was recorded as.
        exact: The answer without noise, with every value of a search for values OFFSET above its count.
        drawn: What was drawn for the release; empty in a replay.
        zeros: The uses of samplers while the exact answer was taken.
        sums: Exact sums of clipped gradients, a list of weight matrices for each step of a training, or exact
            votes of each round.
        taken: Rows whose gradients were asked for, by step.
        path: Noisy sums that the training or the rounds went along.
        released: What the run was given.
    """

    events: tuple[Event, ...]
    exact: Answer | None = None
    drawn: list[Draw] = field(default_factory=list)
    zeros: list[Draw] = field(default_factory=list)
    sums: list[list[NDArray[np.float64]]] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    path: list[list[NDArray[np.float64]]] = field(default_factory=list)
    released: Answer | None = None


@dataclass
class Tape:
    """What one run did.

    Args:
        questions: Its calls of `Ledger.ask`.
        reads: What was read of the table outside of these calls: after how many of them, what was called with
            which arguments, and what came back, in short.
        steps: What it said about its progress.
        stray: Samplers used where no event had been recorded.
        error: How it ended, if not with a release.
        released: What it returned.
        ledger: Where its spends are.
    """

    questions: list[Question] = field(default_factory=list)
    reads: list[tuple[int, str, str, str]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)
    error: str | None = None
    released: Any = None
    ledger: Ledger | None = None


def record(run: Run, seed: int = 0) -> Tape:
    """Run margrave and write down what it does.

    Args:
        run: Opens the table by `margrave.engines.opening.open_source` and runs to the end.
        seed: Of all random bits of the operating system.
    """
    return _listened(run, seed, None)


def replay(run: Run, first: Tape, seed: int = 0) -> Tape:
    """Run margrave on a neighbouring table with a recorded run's answers, and write down what it does."""
    return _listened(run, seed, first)


def _listened(run: Run, seed: int, first: Tape | None) -> Tape:
    tape = Tape()
    with pytest.MonkeyPatch.context() as patch:
        door = Door(tape, first, seed)
        door.attach(patch)
        try:
            tape.released = run(door.say)
        except DivergedError as error:
            tape.error = f"another question: {error}"
        except Exception as error:
            tape.error = f"{type(error).__name__}: {error}"
    return tape


class Door:
    """Stands at the door of one run.

    Args:
        tape: What is written down.
        first: The run whose answers are to be given.
        seed: Of the bits.
    """

    def __init__(self, tape: Tape, first: Tape | None, seed: int) -> None:
        self.tape, self.first, self.seed = tape, first, seed
        self.stage = "outside"  # "looking" at the rows, "drawing" a release, "measuring" the exact answer
        self.calls, self.sampler = 0, 0

    def attach(self, patch: pytest.MonkeyPatch) -> None:
        """Take the places of the samplers, the bits, `ask`, `reveal`, `open_source`, `train` and `votes`.

        The total number of rows may be looked at outside an event: the door compares what the source and the
        engine say it is. That nothing follows from it but for a refusal is seen in the replay.
        """
        for name in (*GAUSSIANS, "exponential"):
            honest = getattr(noise, name)
            _replace(patch, honest, self._sampler(name, honest))
        patch.setattr(entropy, "system_bytes", self._bytes)
        reveal, door = Counts.reveal, self

        def revealed(counts: Counts) -> Any:
            found = reveal(counts)
            door.read("reveal", (), "a total" if found.size == 1 else found)
            return found

        patch.setattr(Counts, "reveal", revealed)
        patch.setattr(Ledger, "ask", self._asking(Ledger.ask))
        patch.setattr(Curator, "train", self._watching(Curator.train, WatchedLearner))
        patch.setattr(Curator, "votes", self._watching(Curator.votes, WatchedEnsemble))
        opened = opening.open_source

        def watched(data: Any, *args: Any, **more: Any) -> Any:
            source, frame = data.parts if isinstance(data, Opened) else opened(data, *args, **more)
            door.read("open_source", (), repr(frame))
            return WatchedTable(source, door), frame

        patch.setattr(opening, "open_source", watched)

    def say(self, step: Step) -> None:
        """Listen to a step; a training goes through its steps once more where the exact sums are taken."""
        if step.waiting:
            return  # told again because the machine was slow
        if self.stage != "measuring" or self.first is not None:
            self.tape.steps.append(step)

    def read(self, what: str, args: Any, found: Any) -> None:
        """Note a look at the table that no event pays for."""
        if self.stage == "outside":
            self.tape.reads.append((len(self.tape.questions), what, _brief(args), _brief(found)))

    @contextlib.contextmanager
    def at(self, stage: str, sampler: int = 0) -> Iterator[None]:
        """The same random bits for each evaluation of an answer, and bits of its own for each draw of noise.

        So a training takes the same samples of the rows whether its noise is drawn or left out.
        """
        before = self.stage, self.calls, self.sampler
        self.stage, self.calls, self.sampler = stage, 0, sampler
        try:
            yield
        finally:
            self.stage, self.calls, self.sampler = before

    def _bytes(self, size: int) -> bytes:
        """Bytes that hang on the question and on the number of the call: longer calls begin alike."""
        place = [self.seed, len(self.tape.questions), self.calls, self.sampler, self.stage == "outside"]
        self.calls += 1
        return np.random.Generator(np.random.PCG64(place)).bytes(size)

    def _sampler(self, name: str, honest: Sampler) -> Sampler:
        def sampled(*args: Any, **more: Any) -> Any:
            if self.stage not in ("drawing", "measuring"):
                self.tape.stray.append(name)
                return honest(*args, **more)
            question = self.tape.questions[-1]
            scores = np.array(args[0]) if name == "exponential" else np.zeros(0)
            parameters = args[1:3] if name == "exponential" else args[:1]
            if self.stage == "drawing":
                with self.at("drawing", len(question.drawn) + 1):
                    values = honest(*args, **more)
                question.drawn.append(Draw(name, parameters, scores, np.array(values)))
                return values
            searches = any(isinstance(event, PartitionEvent) for event in question.events)
            values = 0 if name == "exponential" else np.full(args[1], OFFSET * searches, dtype=np.int64)
            question.zeros.append(Draw(name, parameters, scores, np.array(values)))
            return values

        return sampled

    def _asking(self, ask: Callable[..., Answer]) -> Callable[..., Answer]:
        def asked(ledger: Ledger, events: Any, exact: Any, answer: Any, *args: Any, **more: Any) -> Answer:
            tape, place = self.tape, len(self.tape.questions)
            tape.ledger = ledger
            question = Question(tuple(events))
            given, before = self._given(place, question), len(ledger.events)

            def looked() -> Any:
                with self.at("looking"):
                    found = exact()
                    # A search for values reads its parts one by one; here they are needed twice.
                    return list(found) if isinstance(found, Iterator) else found

            def answered(truth: Any) -> Answer:
                if ledger.events[before:] != question.events:
                    tape.stray.append("an answer before its events are recorded")
                if given is None:
                    with self.at("drawing"):
                        question.released = answer(truth)
                else:
                    question.released, question.path = given.released, given.path
                with self.at("measuring"):
                    question.exact = answer(truth)
                assert question.released is not None
                return question.released

            tape.questions.append(question)
            return ask(ledger, events, looked, answered, *args, **more)

        return asked

    def _given(self, place: int, question: Question) -> Question | None:
        """The question of the first run that has this place; it has to be the same."""
        if self.first is None:
            return None
        known = self.first.questions
        if place >= len(known):
            raise DivergedError(f"{len(known)} questions in the first run, now {question.events}")
        if known[place].events != question.events:
            raise DivergedError(f"number {place}: {known[place].events}, now {question.events}")
        return known[place]

    def _watching(self, verb: Callable[..., Any], stand_in: Callable[..., Any]) -> Callable[..., Any]:
        """A verb that is given a stand-in of what goes along its noisy sums, round by round."""

        def called(curator: Curator, learner: Any, *args: Any, **more: Any) -> Any:
            return verb(curator, stand_in(learner, self), *args, **more)

        return called


def _replace(patch: pytest.MonkeyPatch, honest: Any, other: Any) -> None:
    """Put another function in all places of margrave where one is known by name."""
    for name, module in sys.modules.copy().items():
        if name.split(".")[0] == "margrave" and not name.startswith("margrave.privacy.noise."):
            for attribute, value in vars(module).copy().items():
                if value is honest:
                    patch.setattr(module, attribute, other)


def _brief(found: Any) -> str:
    """Something in few letters that are equal for equal things."""
    if isinstance(found, Counts):
        return f"counts of shape {found.shape}"
    if isinstance(found, np.ndarray):
        head = repr((found.shape, found.dtype.str)).encode()
        return hashlib.sha256(head + found.tobytes()).hexdigest()[:16]
    if isinstance(found, list | tuple):
        return f"({', '.join(_brief(part) for part in found)})"
    if isinstance(found, dict):
        return _brief(list(found.items()))
    if isinstance(found, Generator):
        return "a generator"
    text = repr(found)
    return text if len(text) < 200 else hashlib.sha256(text.encode()).hexdigest()[:16]
