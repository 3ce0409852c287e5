"""votes: one row moves one teacher, counts move by one a question, the spend is recorded first."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import margrave.measure.mechanisms.votes as door
from margrave.engines.memory import open_source
from margrave.errors import BudgetError, InputError
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.journal import Journal, LedgerHeader, read_ledger
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import SecureSource
from margrave.privacy.unit import Neighbours, Unit
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

SIZES = {"a": 5, "b": 3}


@dataclasses.dataclass(frozen=True)
class Sayings:
    """Teachers that remember the mean of codes they were shown, and say whether it is more than 0, 1/2, ...

    The public side keeps all counts, one row a round.
    """

    questions: int = 4
    shown: int = 6
    uniforms: int = 2
    rounds: int = 3

    def start(self) -> Any:
        return ()

    def hire(self, place: int) -> Any:
        return (0.0, 0)

    def taught(
        self, state: Any, teacher: Any, codes: NDArray[np.int64], uniform: NDArray[np.float64]
    ) -> tuple[Any, NDArray[np.float64]]:
        assert codes.shape == (self.shown, 2)
        assert uniform.shape == (self.uniforms,)
        total, count = teacher[0] + float(codes.sum()), teacher[1] + codes.size
        return (total, count), total / count - 0.5 * np.arange(self.questions)

    def moved(self, state: Any, counts: NDArray[np.float64], sigma: float) -> Any:
        return (*state, counts)

    def finished(self, state: Any) -> tuple[NDArray[np.float64], ...]:
        return (np.array(state) if state else np.zeros((self.rounds, self.questions)),)


def _codes(rows: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, tuple(SIZES.values()), (rows, 2))


def _ledger(**more: Any) -> Ledger:
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "neighbours": Neighbours()}
    return Ledger(**options | {"accountant": ZCDP()} | more)


def _curator(ledger: Ledger, codes: NDArray[np.int64] | None = None, noise: Any = None) -> Curator:
    codes = _codes(300) if codes is None else codes
    table = pa.table(dict(zip(SIZES, codes.T, strict=True)))
    if ledger.neighbours.unit.owner:
        table = table.append_column("id", pa.array(np.arange(len(codes))))
    curator = Curator(open_source(table)[0], ledger, SeededSource(1) if noise is None else noise)
    curator.discover(Schema.from_sizes(SIZES))
    return curator


def _ask(curator: Curator, ensemble: Any = None, **more: Any) -> NDArray[np.float64]:
    settings: dict[str, Any] = {"teachers": 7, "rounds": 3} | more
    (found,) = curator.votes(ensemble or Sayings(rounds=settings["rounds"]), curator.remaining, **settings)
    return found


@pytest.mark.parametrize("teachers", [1, 2, 7, 1000])
def test_every_row_has_one_teacher(teachers: int) -> None:
    codes = np.arange(600).reshape(300, 2)
    parts = door.assign_teachers(codes, teachers, SeededSource(2))
    assert len(parts) == teachers
    assert sorted(np.concatenate(parts)[:, 0].tolist()) == codes[:, 0].tolist()


def test_teachers_are_drawn_alike_whatever_the_row() -> None:
    counts = np.zeros((2, 5))
    for seed in range(40):
        parts = door.assign_teachers(np.repeat([[0, 0], [1, 1]], 50, axis=0), 5, SeededSource(seed))
        counts += [[(part[:, 0] == kind).sum() for part in parts] for kind in (0, 1)]
    assert np.abs(counts - 400).max() < 5 * np.sqrt(400 * 0.8)


class Replayed:
    """Hands out the same words for the same request, in order: the coupling of the proof."""

    def __init__(self, kept: list[NDArray[np.uint64]]) -> None:
        self._kept = iter(kept)

    def words(self, count: int) -> NDArray[np.uint64]:
        found = next(self._kept)
        assert len(found) == count
        return found


def _exact_counts(codes: NDArray[np.int64], words: list[NDArray[np.uint64]], teachers: int) -> list[Any]:
    noise, ensemble = Replayed(words), Sayings()
    parts = door.assign_teachers(codes, teachers, noise)  # type: ignore[arg-type]
    members = [ensemble.hire(k) for k in range(teachers)]
    return [door.count_votes(ensemble, (), members, parts, noise) for _ in range(3)]  # type: ignore[arg-type]


@pytest.mark.parametrize("adjacency", ["add_remove", "replace_one", "zero_out"])
@pytest.mark.parametrize("rows", [1, 4, 30])
def test_no_neighbour_moves_a_count_by_more_than_is_charged(adjacency: str, rows: int) -> None:
    """By brute force over all rows that one may come, go or become, under the coupling of the proof."""
    teachers, reached = 3, 0
    bound = door.bound_votes(teachers, Neighbours(adjacency=adjacency))  # type: ignore[arg-type]
    for seed in range(3):
        source = SeededSource(seed)
        codes, asked = _codes(rows, seed), Sayings()
        own = source.words(rows)
        rest = [source.words(asked.shown + asked.uniforms) for _ in range(3 * teachers)]
        found = _exact_counts(codes, [own, *rest], teachers)
        others = []
        for place in range(rows):
            if adjacency == "replace_one":
                for code in np.ndindex(5, 3):
                    changed = codes.copy()
                    changed[place] = code
                    others.append((changed, own))
            else:
                others.append((np.delete(codes, place, axis=0), np.delete(own, place)))
        for changed, words in others:
            moved = np.abs(np.array(_exact_counts(changed, [words, *rest], teachers)) - found)
            reached = max(reached, int(moved.max()))
    assert reached == bound == 1


def test_an_owner_of_many_rows_moves_as_many_teachers() -> None:
    """With owners of 4 rows 4 counts can move, and no more than there are teachers."""
    unit = Unit("id", 4)
    for adjacency in ("add_remove", "replace_one"):
        assert door.bound_votes(7, Neighbours(unit, adjacency)) == 4  # type: ignore[arg-type]
    assert door.bound_votes(3, Neighbours(unit)) == 3
    codes, asked, source = np.zeros((12, 2), np.int64), Sayings(), SeededSource(5)
    own = np.array([(2 * k + 1) * 2**63 // 12 for k in range(12)], dtype=np.uint64)  # a teacher for every row
    rest = [source.words(asked.shown + asked.uniforms) for _ in range(3 * 12)]
    changed = codes.copy()
    changed[:4] = 4
    moved = np.array(_exact_counts(changed, [own, *rest], 12)) - _exact_counts(codes, [own, *rest], 12)
    assert moved.max() == 4


def test_the_whole_ballot_is_one_event_of_its_squared_sensitivity() -> None:
    ledger = _ledger()
    found = _ask(_curator(ledger))
    (event,) = ledger.events
    assert isinstance(event, GaussianEvent)
    assert event.l2_squared == 3 * 4 * 1
    assert ledger.remaining < ledger.total / 10**6
    assert found.shape == (3, 4)
    assert event.what == "votes of 7 teachers on 3 x 4 questions"


def test_owners_of_several_rows_are_priced_by_the_square_of_their_teachers() -> None:
    ledger = _ledger(neighbours=Neighbours(Unit("id", 4)))
    _ask(_curator(ledger))
    (event,) = ledger.events
    assert isinstance(event, GaussianEvent)
    assert event.l2_squared == 3 * 4 * 4**2


@pytest.mark.parametrize("accountant", [ZCDP(), GDP()])
def test_noise_is_as_wide_as_the_event_says(accountant: Any) -> None:
    """Counts without noise are within 0 and 7; what is released spreads by sigma."""
    ledger = _ledger(accountant=accountant)
    found = _ask(_curator(ledger, noise=SecureSource()), rounds=200)
    (event,) = ledger.events
    assert isinstance(event, GaussianEvent)
    spread, sigma = found.std(axis=0), float(event.sigma_squared) ** 0.5
    assert sigma > 50
    assert np.abs(spread / sigma - 1).max() < 5 / np.sqrt(2 * 200)


def test_the_spend_is_on_disk_before_a_teacher_sees_a_row(tmp_path: Path) -> None:
    path, seen = tmp_path / "l.jsonl", []

    class Looks(Sayings):
        def taught(self, state: Any, teacher: Any, codes: Any, uniform: Any) -> Any:
            seen.append(len(read_ledger(path)[1]))
            return Sayings.taught(self, state, teacher, codes, uniform)

    _ask(_curator(_ledger(path=path)), Looks())
    assert seen == [1] * 21


def test_teachers_without_a_row_say_no() -> None:
    ensemble, parts = Sayings(), [np.zeros((0, 2), np.int64)] * 5
    found = door.count_votes(ensemble, (), [None] * 5, parts, SeededSource(0))
    assert (found == 0).all()


def test_what_is_no_number_says_no() -> None:
    class Odd(Sayings):
        def taught(self, state: Any, teacher: Any, codes: Any, uniform: Any) -> Any:
            return teacher, np.array([np.nan, np.inf, -np.inf, 1e300])

    parts = [np.ones((3, 2), np.int64)] * 5
    found = door.count_votes(Odd(), (), [None] * 5, parts, SeededSource(0))
    assert found.tolist() == [0, 5, 0, 5]


def test_a_teacher_that_leaves_a_question_out_is_refused() -> None:
    class Short(Sayings):
        def taught(self, state: Any, teacher: Any, codes: Any, uniform: Any) -> Any:
            return teacher, np.ones(1)

    with pytest.raises(InputError, match="every question once"):
        _ask(_curator(_ledger()), Short())


def test_a_ballot_that_does_not_fit_or_asks_nothing_is_refused() -> None:
    curator = _curator(_ledger())
    with pytest.raises(BudgetError):
        curator.votes(Sayings(), 2 * curator.remaining, teachers=2, rounds=3)
    with pytest.raises(InputError, match="rho"):
        curator.votes(Sayings(), Fraction(0), teachers=2, rounds=3)
    for more in ({"teachers": 0}, {"rounds": 0}, {"teachers": 1 << 21}):
        with pytest.raises(InputError, match=r"teachers|rounds"):
            _ask(curator, **more)
    with pytest.raises(InputError, match="questions"):
        _ask(curator, Sayings(questions=0))


def test_a_stored_answer_costs_nothing_and_looks_at_no_row(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"

    class Blind(Sayings):
        def taught(self, state: Any, teacher: Any, codes: Any, uniform: Any) -> Any:
            raise AssertionError("a row was looked at")

    def keep(resume: bool) -> Any:
        return lambda header, rho: Journal(path, header, resume=resume)

    first = _ledger(keep=keep(False))
    found = _ask(_curator(first))
    first.release()
    second = _ledger(keep=keep(True))
    again = _ask(_curator(second, noise=SeededSource(9)), Blind())
    np.testing.assert_array_equal(found, again)
    assert second.events == first.events
    assert second.spent == first.spent
    assert isinstance(read_ledger(path)[0], LedgerHeader)
    second.release()
    with pytest.raises(InputError, match="resume"):
        _ask(_curator(_ledger(keep=keep(True))), teachers=8)


def test_an_empty_table_is_answered_with_noise_alone() -> None:
    found = _ask(_curator(_ledger(), np.zeros((0, 2), np.int64)))
    assert np.isfinite(found).all()
