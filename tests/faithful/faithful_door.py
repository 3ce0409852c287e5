"""A door to a small table, one that writes down what it is asked, and one that has answers but no table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.gaussian import sigma_for
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Adjacency, Neighbours
from margrave.release import NoisyMarginal, NoisyMoments
from margrave.schema.domain import Clique, Domain
from margrave.schema.features import Embedding
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

__all__ = ["Asked", "Recorder", "Replayed", "Watched", "budget", "chain", "counted", "opened"]

Floats = NDArray[np.float64]


def chain(sizes: dict[str, int], rows: int = 1500, loose: float = 0.2, seed: int = 0) -> pa.Table:
    """Columns each of which follows the one before, but for a share of its rows."""
    rng = np.random.default_rng(seed)
    columns: dict[str, NDArray[np.int64]] = {}
    before = rng.integers(0, max(sizes.values()), rows)
    for name, size in sizes.items():
        before = np.where(rng.random(rows) < loose, rng.integers(0, size, rows), before % size)
        columns[name] = before
    return pa.table(columns)


def counted(table: pa.Table, clique: Clique, shape: Sequence[int]) -> Floats:
    """The exact table of a clique."""
    found = np.zeros(tuple(shape))
    np.add.at(found, tuple(table[name].to_numpy() for name in clique), 1)
    return found


def budget(epsilon: float, adjacency: Adjacency = "add_remove", gdp: bool = False) -> Ledger:
    """A ledger of single rows."""
    return Ledger(
        epsilon=epsilon,
        delta=1e-6,
        neighbours=Neighbours(adjacency=adjacency),
        accountant=GDP() if gdp else ZCDP(),
    )


def opened(
    table: pa.Table,
    sizes: dict[str, int],
    epsilon: float = 1.0,
    *,
    adjacency: Adjacency = "add_remove",
    gdp: bool = False,
    seed: int = 1,
    schema: Schema | None = None,
) -> tuple[Curator, Ledger]:
    """The door to a table of known sizes, with noise that repeats itself."""
    ledger = budget(epsilon, adjacency, gdp)
    curator = Curator(open_source(table)[0], ledger, SeededSource(seed))
    curator.discover(Schema.from_sizes(sizes) if schema is None else schema)
    return curator, ledger


@dataclass
class Asked:
    """One question at the door, its answer, and what was left of rho before and after it."""

    verb: str
    question: dict[str, Any]
    answer: Any
    before: Fraction
    after: Fraction
    progress: float
    measurements: tuple[NoisyMarginal, ...]


@dataclass
class Recorder:
    """A curator that keeps all questions with their answers."""

    curator: Curator
    notes: list[Asked] = field(default_factory=list)

    @property
    def domain(self) -> Domain:
        return self.curator.domain

    @property
    def remaining(self) -> Fraction:
        return self.curator.remaining

    @property
    def total(self) -> Fraction:
        return self.curator.total

    @property
    def progress(self) -> float:
        return self.curator.progress

    @property
    def measurements(self) -> tuple[NoisyMarginal, ...]:
        return self.curator.measurements

    @property
    def public_rows(self) -> float | None:
        return self.curator.public_rows

    def sigma(self, rho: Fraction) -> float:
        return self.curator.sigma(rho)

    def _noted(self, verb: str, **question: Any) -> Any:
        before = self.remaining
        answer = getattr(self.curator, verb)(**question)
        self.notes.append(
            Asked(verb, question, answer, before, self.remaining, self.progress, self.measurements)
        )
        return answer

    def measure(self, cliques: Sequence[Clique], rho: Fraction) -> list[NoisyMarginal]:
        return list(self._noted("measure", cliques=list(cliques), rho=rho))

    def choose(
        self,
        cliques: Sequence[Clique],
        expected: Sequence[Floats],
        rho: Fraction,
        *,
        weights: Sequence[int] | None = None,
        penalties: Sequence[float] | None = None,
        rivals: Sequence[Floats | None] | None = None,
    ) -> int:
        return int(
            self._noted(
                "choose",
                cliques=list(cliques),
                expected=[np.array(table) for table in expected],
                rho=rho,
                weights=weights,
                penalties=penalties,
                rivals=rivals,
            )
        )

    def appraise(self, cliques: Sequence[Clique], expected: Sequence[Floats], rho: Fraction) -> Floats:
        tables = [np.array(table) for table in expected]
        return np.array(self._noted("appraise", cliques=list(cliques), expected=tables, rho=rho))

    def correlate(
        self, pairs: Sequence[Clique], scores: Mapping[str, NDArray[np.int64]], rho: Fraction
    ) -> tuple[Floats, float]:
        own = {name: np.array(score) for name, score in scores.items()}
        found: tuple[Floats, float] = self._noted("correlate", pairs=list(pairs), scores=own, rho=rho)
        return found

    def moments(self, embedding: Embedding, rho: Fraction) -> NoisyMoments:
        found: NoisyMoments = self._noted("moments", embedding=embedding, rho=rho)
        return found


class Replayed:
    """A curator without a table: it gives recorded answers, and only to the recorded questions.

    Args:
        recorder: Of the run to repeat; nothing of it is kept but domain, answers and public numbers.
        ledger: A fresh one like the recorded run's, which prices noise and never sees an answer.
    """

    def __init__(self, recorder: Recorder, ledger: Ledger) -> None:
        self.domain, self.total, self.public_rows = recorder.domain, recorder.total, recorder.public_rows
        self._notes, self._ledger = list(recorder.notes), ledger
        self.remaining = recorder.notes[0].before
        self.progress = float(1 - self.remaining / ledger.total)
        self.measurements: tuple[NoisyMarginal, ...] = ()

    @property
    def left(self) -> int:
        """Recorded questions that have not been asked again."""
        return len(self._notes)

    def sigma(self, rho: Fraction) -> float:
        return sigma_for(self._ledger, rho)

    def _answer(self, verb: str, **question: Any) -> Any:
        note = self._notes.pop(0)
        assert note.verb == verb
        for key, asked in question.items():
            wanted = note.question[key]
            if key == "expected":
                assert all(np.array_equal(a, b) for a, b in zip(asked, wanted, strict=True))
            elif key == "rivals" and asked is not None:
                assert all(np.array_equal(a, b) for a, b in zip(asked, wanted, strict=True))  # type: ignore[arg-type]
            elif key == "scores":
                assert asked.keys() == wanted.keys()
                assert all(np.array_equal(asked[name], wanted[name]) for name in wanted)
            elif key == "embedding":
                assert all(np.array_equal(a, b) for a, b in zip(asked.phases, wanted.phases, strict=True))
            else:
                assert asked == wanted, key
        self.remaining, self.progress = note.after, note.progress
        self.measurements = note.measurements
        return note.answer

    def measure(self, cliques: Sequence[Clique], rho: Fraction) -> list[NoisyMarginal]:
        return list(self._answer("measure", cliques=list(cliques), rho=rho))

    def choose(
        self,
        cliques: Sequence[Clique],
        expected: Sequence[Floats],
        rho: Fraction,
        *,
        weights: Sequence[int] | None = None,
        penalties: Sequence[float] | None = None,
        rivals: Sequence[Floats | None] | None = None,
    ) -> int:
        asked = {"cliques": list(cliques), "expected": expected, "rho": rho, "rivals": rivals}
        return int(self._answer("choose", **asked, weights=weights, penalties=penalties))

    def appraise(self, cliques: Sequence[Clique], expected: Sequence[Floats], rho: Fraction) -> Floats:
        return np.array(self._answer("appraise", cliques=list(cliques), expected=expected, rho=rho))

    def correlate(
        self, pairs: Sequence[Clique], scores: Mapping[str, NDArray[np.int64]], rho: Fraction
    ) -> tuple[Floats, float]:
        found: tuple[Floats, float] = self._answer("correlate", pairs=list(pairs), scores=scores, rho=rho)
        return found

    def moments(self, embedding: Embedding, rho: Fraction) -> NoisyMoments:
        found: NoisyMoments = self._answer("moments", embedding=embedding, rho=rho)
        return found


class Watched:
    """A fitter that keeps the measurements it is given and the models it makes.

    Args:
        inner: What fits.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.given: list[tuple[NoisyMarginal, ...]] = []
        self.made: list[Any] = []

    @property
    def name(self) -> str:
        return str(self.inner.name)

    def fit(self, domain: Domain, measurements: Sequence[NoisyMarginal], **options: Any) -> Any:
        self.given.append(tuple(measurements))
        self.made.append(self.inner.fit(domain, measurements, **options))
        return self.made[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)
