"""Values found in a column: the dual threshold of `rare`, each arm of which decides where it is higher."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.counts import Counts
from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.measure.mechanisms.gaussian import Gaussian
from margrave.measure.mechanisms.partition import find_texts, leave_out_rest, search_values, threshold
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.accounting.events import PartitionEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit
from margrave.release import NoisyMarginal
from margrave.schema.columns import Categorical, Integer, Listed
from margrave.schema.constraints.rules import Determines
from margrave.schema.encode import encode_column
from margrave.schema.schema import Schema
from seeded_noise import SeededSource
from source_values import list_values

SIGMA = 20
DELTA = Fraction(1, 4)
"""So large that values with a noisy count below 3 sigma are released: at a small one 3 sigma is below the
threshold of the release."""
MIDDLING = tuple(range(20, 120, 2))
"""Rows of fifty values, all of whose noisy counts lie around 3 sigma and 2 % of the rows."""


def _listed(rare: float, rows: float = 0.0, seed: int = 0) -> dict[str, float]:
    """The values released and their noisy counts, from noise that does not depend on `rare`."""
    texts = ["head"] * 1000
    for place, count in enumerate(MIDDLING):
        texts += [f"v{place:02}"] * count
    source, _ = open_source(pa.table({"t": texts}))
    ledger = Ledger(epsilon=5.0, delta=0.5, neighbours=Neighbours(), accountant=ZCDP(), partition_delta=DELTA)
    gaussian = Gaussian(ledger, SeededSource(seed))
    column = Categorical(name="t", rare=rare)
    rho = Fraction(1, 2 * SIGMA**2)
    known, marginal = search_values(column, source, gaussian, ledger, rho, DELTA).list_for(column, rows)
    assert isinstance(known, Listed)
    assert known.values is not None
    assert (marginal.sigmas[: len(known.values)] == SIGMA).all()
    return {str(value): count for value, count in zip(known.values, marginal.values, strict=False)}


def test_what_is_released_here_falls_on_both_sides_of_each_arm() -> None:
    plain = _listed(0.0)
    counts = np.array(sorted(plain.values()))
    assert threshold(1, SIGMA, DELTA) < 3 * SIGMA
    assert (counts < 3 * SIGMA).sum() >= 5
    assert ((counts >= 3 * SIGMA) & (counts < 0.02 * counts.sum())).sum() >= 5
    assert (counts >= 0.02 * counts.sum()).sum() >= 5


@pytest.mark.parametrize("seed", range(3))
def test_a_small_share_leaves_the_noise_to_decide(seed: int) -> None:
    plain, merged = _listed(0.0, seed=seed), _listed(1e-6, seed=seed)
    assert merged == {text: count for text, count in plain.items() if count >= 3 * SIGMA}


@pytest.mark.parametrize("seed", range(3))
def test_a_large_share_decides_where_it_is_above_the_noise(seed: int) -> None:
    plain, merged = _listed(0.0, seed=seed), _listed(0.02, seed=seed)
    bar = 0.02 * sum(plain.values())
    assert bar > 3 * SIGMA
    assert merged == {text: count for text, count in plain.items() if count >= bar}


def test_the_share_is_of_all_rows_where_more_are_known_than_are_listed() -> None:
    plain, merged = _listed(0.0), _listed(0.02, rows=5000.0)
    assert sum(plain.values()) < 5000
    assert merged == {text: count for text, count in plain.items() if count >= 100}


@pytest.mark.parametrize("sigma", [2, 40])
@pytest.mark.parametrize(("k", "cells", "weight"), [(1, 1, 1), (4, 1, 1), (1, 5, 10), (3, 5, 10)])
def test_what_one_owner_alone_holds_passes_with_the_declared_chance(
    k: int, cells: int, weight: int, sigma: int
) -> None:
    """Rows alike hold a cell of k times the weight, others as many cells as rows: each is reckoned with."""
    ledger = Ledger(
        epsilon=1e4,
        delta=0.5,
        neighbours=Neighbours(Unit("id", k)),
        accountant=ZCDP(),
        partition_delta=Fraction(1, 10**6),
    )
    gaussian = Gaussian(ledger, SeededSource(0), (k * weight) ** 2)
    rho, delta = Fraction((k * weight) ** 2, 2 * sigma**2), Fraction(1, 10**7)
    empty = [((), np.zeros(1, dtype=np.int64))]
    find_texts("values", lambda: empty, gaussian, ledger, rho, delta, cells=cells, weight=weight)
    (event,) = ledger.events
    assert isinstance(event, PartitionEvent)
    assert (event.delta, event.sigma_squared) == (delta, sigma**2)

    def bound_chance(bar: int) -> float:
        return k * cells * 0.5 * math.erfc((bar - k * weight - 1) / sigma / math.sqrt(2))

    assert bound_chance(event.threshold) <= float(delta) < bound_chance(event.threshold - 2)


class Parted:
    """A source that gives its values in parts of three, as one does that holds very many."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def value_parts(self, column: str) -> Iterator[tuple[tuple[str, ...], Counts]]:
        texts, held = list_values(self.source, column)
        for start in range(0, len(texts), 3):
            none = held[-1] if start == 0 else 0
            yield texts[start : start + 3], Counts(np.array([*held[:-1][start : start + 3], none]))


def test_parts_are_searched_as_the_whole_is() -> None:
    """The same values pass from the same counts, and the rows without one are counted once."""
    texts = (
        ["a"] * 900 + ["b"] * 700 + ["c"] * 800 + ["d"] * 600 + [f"x{k}" for k in range(40)] + [None] * 500
    )
    source, _ = open_source(pa.table({"t": pa.array(texts)}))
    found = []
    for asked in (source, Parted(source)):
        ledger = Ledger(
            epsilon=5.0, delta=0.5, neighbours=Neighbours(), accountant=ZCDP(), partition_delta=DELTA
        )
        gaussian = Gaussian(ledger, SeededSource(1))
        asked_column, delta = Categorical(name="t"), Fraction(1, 10**9)
        texts = search_values(asked_column, asked, gaussian, ledger, Fraction(1, 2 * SIGMA**2), delta)
        column, marginal = texts.list_for(asked_column, 0.0)
        assert isinstance(column, Listed)
        assert (column.values, column.missing) == (("a", "b", "c", "d"), True)
        assert len(ledger.events) == 1
        found.append(marginal.values[[0, 1, 2, 3, 5]])
    exact = np.array([900, 700, 800, 600, 500])
    for values in found:
        assert np.abs(values - exact).max() < 6 * SIGMA


@pytest.mark.parametrize(
    ("rest", "sigma", "kept"),
    [(20.0, 20.0, False), (-40.0, 20.0, False), (50.0, 20.0, True), (0.0, 40.0, True)],
)
def test_other_values_have_no_code_where_noise_may_be_all_of_them(
    rest: float, sigma: float, kept: bool
) -> None:
    column = Categorical(name="x", values=("F", "M"), other="(other)", missing=True, strict=False)
    marginal = NoisyMarginal(("x",), np.array([600.0, 700.0, rest, 50.0]), np.array([9.0, 9.0, sigma, 9.0]))
    found, known = leave_out_rest(marginal, column)
    assert (known.other is not None) == kept
    assert len(found.values) == len(found.sigmas) == known.size == 3 + kept
    assert found.values[-1] == 50.0
    codes = encode_column(pa.array(["M", "X", None]), known).tolist()
    assert codes == ([1, 2, 3] if kept else [1, 0, 2])


def test_other_values_keep_their_code_where_they_are_told_apart_or_nothing_is_listed() -> None:
    marginal = NoisyMarginal(("x",), np.array([700.0, 5.0]), np.array([9.0, 9.0]))
    shaped = Categorical(
        name="x", values=("12345",), other="(other)", others="[0-9]{5}", missing=False, strict=False
    )
    assert leave_out_rest(marginal, shaped)[1] is shaped
    strict = Categorical(name="x", values=("a",), other="(other)", missing=False)
    assert leave_out_rest(marginal, strict)[1] is strict
    few = NoisyMarginal(("x",), np.array([15.0, 700.0]), np.array([9.0, 9.0]))
    empty = Categorical(name="x", values=(), other="(other)", missing=True, strict=False)
    found, known = leave_out_rest(few, empty)
    assert (known.labels, found.values.tolist()) == (("missing",), [700.0])
    assert encode_column(pa.array(["M", None]), known).tolist() == [0, 0]
    alone = Categorical(name="x", values=(), other="(other)", missing=False, strict=False)
    assert leave_out_rest(NoisyMarginal(("x",), np.array([5.0]), 9.0), alone)[1] is alone


def test_where_values_are_hardly_listed_there_may_be_others() -> None:
    column = Categorical(name="x", values=("a", "b"), other="(other)", missing=False, strict=False)
    for least, kept in ((80.0, True), (100.0, False)):
        marginal = NoisyMarginal(("x",), np.array([5_000.0, least, 0.0]), np.array([9.0, 9.0, 20.0]))
        assert (leave_out_rest(marginal, column)[1].other is not None) == kept


def test_columns_that_rules_speak_of_keep_the_code_of_other_values() -> None:
    rng = np.random.default_rng(0)
    ward = rng.choice(["a", "b"], 6_000)
    houses = [{"a": "x", "b": "y"}[one] for one in ward.tolist()]
    table = pa.table({"ward": ward, "house": houses, "age": rng.integers(0, 99, 6_000)})
    columns = (Categorical(name="ward"), Categorical(name="house"), Integer(name="age"))
    for rules, kept in (((), False), ((Determines("ward", "house"),), True)):
        source, _ = open_source(table)
        ledger = Ledger(
            epsilon=20.0,
            delta=1e-6,
            neighbours=Neighbours(),
            accountant=ZCDP(),
            partition_delta=Fraction(1, 10**7),
        )
        schema = Curator(source, ledger, SeededSource(0)).discover(Schema(columns, rules), ledger.total / 3)
        column = schema["ward"]
        assert isinstance(column, Listed)
        assert column.values == ("a", "b")
        assert (column.other is not None) == kept
