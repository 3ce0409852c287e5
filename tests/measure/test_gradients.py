"""train: Poisson samples, norms kept in whole numbers, one row's worth of change, recorded first."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import margrave.measure.mechanisms.gradients as door
from extras import import_extra
from margrave.engines.memory import open_source
from margrave.engines.opening import open_source as open_any
from margrave.errors import BudgetError, InputError
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import GDP, ZCDP, Renyi
from margrave.privacy.accounting.events import SubsampledGaussianEvent
from margrave.privacy.ledger.journal import Journal, LedgerHeader, read_ledger
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.noise import SecureSource
from margrave.privacy.unit import Neighbours, Unit
from margrave.schema.schema import Schema
from seeded_noise import SeededSource

torch = import_extra("torch", __name__)

SIZES = {"a": 5, "b": 3}
DRAWS, OUT, INTO = 3, 4, 6


@dataclasses.dataclass(frozen=True)
class Sums:
    """A learner whose state is all that it was given; a row's factors hang on its codes and numbers."""

    scale: float = 1.0
    shapes: tuple[tuple[int, int], ...] = ((OUT, INTO), (2, 1))
    uniforms: int = DRAWS

    def start(self) -> tuple[NDArray[np.float64], ...]:
        return ()

    def factors(
        self, state: Any, codes: NDArray[np.int64], uniform: NDArray[np.float64]
    ) -> list[tuple[Any, Any]]:
        own = torch.tensor(uniform)[:, :, None]
        code = torch.tensor(codes, dtype=torch.float64)
        left = torch.sin(own * (1 + code[:, :1, None]) * (1 + torch.arange(OUT))) * self.scale
        right = torch.cos(own + code[:, 1:, None] * torch.arange(INTO)) * 2
        return [(left, right), (own.expand(-1, -1, 2), code[:, :1, None].expand(-1, DRAWS, 1))]

    def moved(self, state: Any, gradients: Sequence[NDArray[np.float64]]) -> Any:
        return (*state, np.concatenate([gradient.ravel() for gradient in gradients]))

    def finished(self, state: Any) -> tuple[NDArray[np.float64], ...]:
        return (np.sum(state, axis=0) if state else np.zeros(OUT * INTO + 2),)


def _codes(rows: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, tuple(SIZES.values()), (rows, 2))


def _ledger(order: int = 20, **more: Any) -> Ledger:
    options: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "neighbours": Neighbours()}
    return Ledger(**options | {"accountant": Renyi(order)} | more)


def _curator(ledger: Ledger, rows: int = 500, noise: Any = None) -> Curator:
    table = pa.table(dict(zip(SIZES, _codes(rows).T, strict=True)))
    if ledger.neighbours.unit.owner:
        table = table.append_column("id", pa.array(np.arange(rows)))
    curator = Curator(open_source(table)[0], ledger, SeededSource(1) if noise is None else noise)
    curator.discover(Schema.from_sizes(SIZES))
    return curator


def _train(curator: Curator, learner: Any = None, rho: Fraction | None = None, **more: Any) -> Any:
    settings: dict[str, Any] = {"steps": 5, "rate": Fraction(1, 4)} | more
    return curator.train(learner or Sums(), curator.remaining if rho is None else rho, **settings)


def _uniform(rows: int) -> NDArray[np.float64]:
    return np.random.default_rng(3).random((rows, DRAWS))


def _matrices(found: list[tuple[Any, Any]]) -> NDArray[np.float64]:
    """Each row's gradient, written out in whole steps, [rows, weights]."""
    return np.concatenate(
        [torch.einsum("rko,rki->roi", left, right).flatten(1).numpy() for left, right in found], axis=1
    )


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 7.0, 1e9])
def test_a_clipped_row_is_its_gradient_as_far_as_the_norm_allows(scale: float) -> None:
    learner = Sums(scale)
    factors = learner.factors((), _codes(200), _uniform(200))
    found = _matrices(door.clip_factors(factors))
    assert (found == np.rint(found)).all()
    squares = [sum(int(number) ** 2 for number in row) for row in found]
    assert max(squares) <= door.NORM**2
    true = _matrices(factors)
    if scale < 1e9:  # there factors themselves are cut
        cut = np.minimum(1.0, door.CLIP_MARGIN / np.linalg.norm(true, axis=1))[:, None]
        assert np.abs(found / door.NORM - true * cut).max() < 2e-3
    if scale >= 1.0:
        assert min(squares) > 0.9 * door.NORM**2


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 1e300, 2.0**40])
def test_no_learner_gets_a_row_past_the_norm(number: float) -> None:
    for rights in (number, 1.0, 2.0**5):
        left = torch.full((3, 8, 50), number, dtype=torch.float64)
        right = torch.full((3, 8, 70), rights, dtype=torch.float64)
        left[1] = 1.0
        left[2, ::2] = 0.5
        found = _matrices(door.clip_factors([(left, right), (left, right)]))
        assert max(sum(int(x) ** 2 for x in row) for row in found) <= door.NORM**2


def test_a_norm_that_would_wrap_round_in_int64_is_refused() -> None:
    """A sum of 2^16 products of 2^48 each is 2^64, which int64 takes for 0, as if the row were short.

    The draws cancel until they are scaled by a quarter and rounded: then 3 steps are 1, and -2 are none.
    """
    left = torch.full((1, 640, 1024), 3 / 2.0**door.LEFT, dtype=torch.float64)
    left[:, 256:] = -2 / 2.0**door.LEFT
    right = torch.full((1, 640, 1024), 64.0, dtype=torch.float64)
    long = (torch.full((1, 1, 1), 16.0).double(), torch.full((1, 1, 1), 0.25).double())
    with pytest.raises(InputError, match="pairs of draws"):
        door.clip_factors([(left, right), long])


@pytest.mark.parametrize(("draws", "out"), [([91], 1), ([64, 65], 1), ([1], (1 << 17) + 1)])
def test_factors_too_many_or_too_long_for_exact_sums_are_refused(draws: list[int], out: int) -> None:
    def factors(draws: list[int], out: int) -> list[tuple[Any, Any]]:
        shapes = [((2, k, out), (2, k, 3)) for k in draws]
        return [tuple(torch.ones(shape, dtype=torch.float64) for shape in pair) for pair in shapes]  # type: ignore[misc]

    with pytest.raises(InputError, match="pairs of draws"):
        door.clip_factors(factors(draws, out))
    door.clip_factors(factors([90], 1))
    door.clip_factors(factors([64, 64], 1))
    door.clip_factors(factors([1], 1 << 17))


def test_a_row_whose_draws_all_but_cancel_stays_within_the_norm() -> None:
    """Long draws of opposite signs: the sum is short, and rounding is most of what is left."""
    rng = np.random.default_rng(0)
    left = torch.tensor(rng.normal(size=(50, 1, 30))) * 10
    left = torch.cat([left, -left + 1e-4 * torch.tensor(rng.normal(size=(50, 1, 30)))], dim=1)
    right = (torch.tensor(rng.normal(size=(50, 1, 40))) * 20).expand(-1, 2, -1)
    found = _matrices(door.clip_factors([(left, right)]))
    assert max(sum(int(x) ** 2 for x in row) for row in found) <= door.NORM**2


def test_one_row_changes_the_sum_by_itself_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sheet 5: with each row's numbers held, without any one of them the sum lacks that row exactly."""
    monkeypatch.setattr(door, "ROWS", 7)
    codes, uniform, learner = _codes(40), _uniform(40), Sums(3.0)

    class Held:
        def __init__(self, rows: NDArray[np.intp]) -> None:
            self.words_left = (uniform[rows].ravel() * 2.0**53).astype(np.uint64) << np.uint64(11)

        def words(self, n: int) -> NDArray[np.uint64]:
            found, self.words_left = self.words_left[:n], self.words_left[n:]
            return found

    every = np.arange(40)
    whole = door.sum_gradients(learner, (), codes, 1.0, Held(every))
    alone = [door.sum_gradients(learner, (), codes[[row]], 1.0, Held(every[[row]])) for row in every]
    for row in every:
        rest = np.delete(every, row)
        without = door.sum_gradients(learner, (), codes[rest], 1.0, Held(rest))
        np.testing.assert_array_equal(whole - without, alone[row])
        assert sum(int(number) ** 2 for number in alone[row]) <= door.NORM**2


def test_clip_is_the_unit_of_the_norm() -> None:
    wide = door.sum_gradients(Sums(0.5), (), _codes(30), 64.0, SeededSource(2)) * 64
    narrow = door.sum_gradients(Sums(0.5), (), _codes(30), 32.0, SeededSource(2)) * 32
    np.testing.assert_allclose(wide, narrow, atol=30 * DRAWS * 64 * 256)
    assert np.linalg.norm(wide) > 100 * 30 * DRAWS * 256


def test_samples_are_poisson() -> None:
    taken = [door.sample_places(1001, Fraction(1, 8), SecureSource()) for _ in range(2000)]
    marks = np.zeros((2000, 1001))
    for step, places in enumerate(taken):
        marks[step, places] = 1.0
    spread = math.sqrt(7 / 64)
    assert abs(marks.mean() - 1 / 8) < 4.5 * spread / math.sqrt(marks.size)
    assert abs(marks.mean(axis=0) - 1 / 8).max() < 5.5 * spread / math.sqrt(2000)
    assert marks.sum(axis=1).var() == pytest.approx(1001 * 7 / 64, rel=0.15)
    pairs = np.corrcoef(marks[:, :50].T)[np.triu_indices(50, 1)]
    assert np.abs(pairs).max() < 5 / math.sqrt(2000)
    assert len(door.sample_places(10, Fraction(1), SecureSource())) == 10
    assert len(door.sample_places(0, Fraction(1), SecureSource())) == 0


def test_the_noise_is_that_of_the_event() -> None:
    ledger = _ledger(epsilon=4.0)
    found = _train(_curator(ledger, noise=SecureSource()), Sums(0.0, shapes=((OUT, INTO), (2, 1))), steps=50)
    (event,) = ledger.events
    assert isinstance(event, SubsampledGaussianEvent)
    assert (event.steps, event.rate, event.l2_squared, event.order) == (50, Fraction(1, 4), 1 << 44, 20)
    noise = found[0][: OUT * INTO] / math.sqrt(50)  # of a matrix whose rows have no gradient
    sigma = math.sqrt(event.sigma_squared / event.l2_squared)
    assert np.sqrt((noise**2).mean()) == pytest.approx(sigma, rel=4.5 / math.sqrt(2 * OUT * INTO))
    assert ledger.spent > ledger.total * Fraction(999, 1000)


def test_every_step_takes_a_sample_and_draws_noise_as_the_event_says(monkeypatch: pytest.MonkeyPatch) -> None:
    samples: list[tuple[int, Fraction]] = []
    draws: list[tuple[Fraction, int]] = []
    shown: list[NDArray[np.int64]] = []

    def take(rows: int, rate: Fraction, _: Any) -> NDArray[np.int64]:
        samples.append((rows, rate))
        return np.array([3, 5, 400 + len(samples)])

    def spread(variance: Fraction, size: int, _: Any) -> NDArray[np.int64]:
        draws.append((variance, size))
        return np.zeros(size, dtype=np.int64)

    class Seeing(Sums):
        def factors(self, state: Any, codes: NDArray[np.int64], uniform: NDArray[np.float64]) -> Any:
            shown.append(codes)
            return super().factors(state, codes, uniform)

    monkeypatch.setattr(door, "sample_places", take)
    monkeypatch.setattr(door, "rounded_gaussian", spread)
    ledger = _ledger()
    _train(_curator(ledger), Seeing())
    (event,) = ledger.events
    assert isinstance(event, SubsampledGaussianEvent)
    assert samples == [(500, event.rate)] * event.steps
    assert draws == [(event.sigma_squared, OUT * INTO + 2)] * event.steps
    for step, codes in enumerate(shown, start=1):
        np.testing.assert_array_equal(codes, _codes(500)[[3, 5, 400 + step]])


def test_the_sum_is_that_of_the_rows_taken() -> None:
    """With hardly any noise, all rows taken: every row's gradient, clipped, once a step."""
    ledger = _ledger(2, epsilon=1e9)
    curator = _curator(ledger)
    (found,) = _train(curator, rho=Fraction(10) ** 7, steps=3, rate=Fraction(1))
    mean = np.zeros(OUT * INTO + 2)
    for seed in range(20):
        mean += door.sum_gradients(Sums(), (), _codes(500), 1.0, SeededSource(100 + seed)) / door.NORM / 20
    assert np.abs(found / 3 - mean).max() < 0.05 * 500


def test_a_row_has_the_same_factors_in_a_file_in_batches(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(zip(SIZES, _codes(500).T, strict=True))), tmp_path / "t.parquet")
    answers = []
    for engine in ("memory", "stream"):
        source, _ = open_any(str(tmp_path / "t.parquet"), engine=engine)
        curator = Curator(source, _ledger(), SeededSource(3))
        curator.discover(Schema.from_sizes(SIZES))
        answers.append(_train(curator)[0])
    np.testing.assert_array_equal(*answers)


@pytest.mark.needs_extra("ibis")
def test_what_is_not_protected_is_refused_before_anything_is_spent() -> None:
    import ibis

    for more in (
        {"neighbours": Neighbours(Unit(), "replace_one")},
        {"neighbours": Neighbours(Unit("id", 2))},
        {"accountant": ZCDP()},
        {"accountant": GDP()},
    ):
        ledger = _ledger(**more)
        with pytest.raises(InputError, match=r"add_remove|max_rows|accountant"):
            _train(_curator(ledger))
        assert ledger.events == ()
    ledger = _ledger()
    curator = Curator(open_any(ibis.memtable(pa.table({"a": [1], "b": [1]})))[0], ledger)
    curator.discover(Schema.from_sizes(SIZES))
    with pytest.raises(InputError, match="in memory or a file"):
        _train(curator)
    assert ledger.events == ()


def test_owners_of_one_row_are_protected() -> None:
    ledger = _ledger(neighbours=Neighbours(Unit("id", 1)))
    _train(_curator(ledger))
    assert len(ledger.events) == 1


def test_what_cannot_be_paid_or_is_out_of_range_is_refused() -> None:
    ledger = _ledger()
    curator = _curator(ledger)
    with pytest.raises(BudgetError):
        _train(curator, rho=2 * ledger.total)
    bad = ({"rho": Fraction(0)}, {"steps": 0}, {"rate": Fraction(1, 3)}, {"rate": Fraction(2)}, {"clip": 0.0})
    for more in bad:
        with pytest.raises(InputError):
            _train(curator, **more)
    assert ledger.events == ()


def test_the_event_is_on_disk_before_a_bit_is_drawn(tmp_path: Path) -> None:
    path, seen = tmp_path / "l.jsonl", []

    class Watched(SeededSource):
        def words(self, n: int) -> NDArray[np.uint64]:
            seen.append(len(read_ledger(path)[1]))
            return super().words(n)

    _train(_curator(_ledger(path=path), noise=Watched(1)))
    assert set(seen) == {1}


def test_nothing_but_its_length_ends_a_training() -> None:
    """What is told of each step may answer what it likes."""
    seen: list[int] = []

    def stop(step: int) -> bool:
        seen.append(step)
        return True

    told = _train(_curator(_ledger()), steps=7, on_gradient=stop)
    np.testing.assert_array_equal(told, _train(_curator(_ledger()), steps=7))
    assert seen == list(range(7))


def test_a_stored_answer_costs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"

    def keep(resume: bool) -> Any:
        return lambda header, rho: Journal(path, header, resume=resume)

    first = _ledger(keep=keep(False))
    (found,) = _train(_curator(first), steps=20)
    first.release()
    second = _ledger(keep=keep(True))
    (again,) = _train(_curator(second, noise=SeededSource(9)), steps=20)
    np.testing.assert_array_equal(found, again)
    assert second.events == first.events
    assert second.spent == first.spent
    assert isinstance(read_ledger(path)[0], LedgerHeader)
    second.release()
    with pytest.raises(InputError, match="resume"):
        _train(_curator(_ledger(keep=keep(True))), steps=19)


@pytest.mark.parametrize(
    "fault", ["more rows", "fewer rows", "another width", "single", "one matrix", "flat"]
)
def test_a_learner_that_gives_more_than_a_gradient_a_row_is_refused(fault: str) -> None:
    class Wrong(Sums):
        def factors(self, state: Any, codes: Any, uniform: Any) -> list[tuple[Any, Any]]:
            found = super().factors(state, codes, uniform)
            left, right = found[0]
            wrong = {
                "more rows": (left.repeat(100, 1, 1), right.repeat(100, 1, 1)),
                "fewer rows": (left[:1], right[:1]),
                "another width": (left[:, :, :2], right),
                "single": (left.float(), right),
                "one matrix": (left, right),
                "flat": (left[:, 0], right[:, 0]),
            }
            return [wrong[fault]] if fault == "one matrix" else [wrong[fault], found[1]]

    codes = _codes(20)
    door.sum_gradients(Sums(), (), codes, 1.0, SeededSource(1))
    with pytest.raises(InputError, match="factors are float64"):
        door.sum_gradients(Wrong(), (), codes, 1.0, SeededSource(1))


def test_noise_that_cannot_be_drawn_is_refused_before_it_is_recorded() -> None:
    ledger = _ledger()
    with pytest.raises(InputError, match="noise that can be drawn"):
        _train(_curator(ledger), rho=ledger.remaining / 2**15)
    assert not ledger.events
