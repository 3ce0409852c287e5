"""PrivatePairs: which pairs with a private column it buys, and that it spends everything."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError
from margrave.measure.curator import Curator
from margrave.models.gated import Gated
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours, Unit
from margrave.progress import silent
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema
from margrave.select._screening.pairs import OneWays
from margrave.select.private_pairs import PrivatePairs, weigh_dependent_pairs
from seeded_noise import SeededSource

SIZES = {"a": 6, "b": 6, "x": 6, "y": 6, "z": 6}
PUBLIC = ("a", "b")


def open_rows(epsilon: float, rows: int = 4000) -> tuple[Curator, Ledger, Encoded]:
    """x is nearly a, all other columns are independent; a and b are public."""
    rng = np.random.default_rng(0)
    data = {name: rng.integers(0, size, rows) for name, size in SIZES.items()}
    data["x"] = np.where(rng.random(rows) < 0.1, data["x"], data["a"])
    return open_table(data, epsilon)


def open_table(data: dict[str, np.ndarray], epsilon: float) -> tuple[Curator, Ledger, Encoded]:
    """A curator of these columns, its ledger, and the public ones."""
    source, _ = open_source(pa.table(data))
    neighbours = Neighbours(Unit(), "replace_private", PUBLIC)
    ledger = Ledger(epsilon=epsilon, delta=1e-6, neighbours=neighbours, accountant=GDP())
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(Schema.from_sizes(SIZES))
    columns = tuple(data[name].astype(np.uint8) for name in PUBLIC)
    return curator, ledger, Encoded(Domain(PUBLIC, (6, 6)), columns)


def buy(curator: Curator, given: Encoded | None, **settings: Any) -> set[tuple[str, ...]]:
    """The pairs that a run buys."""
    strategy = PrivatePairs(public=PUBLIC, given=given, **settings)
    strategy.run(curator, Gated(given=given, components=5, steps=10), silent)
    return {m.clique for m in curator.measurements if len(m.clique) == 2}


def test_where_noise_hides_most_pairs_dependent_ones_alone_are_bought() -> None:
    curator, ledger, given = open_rows(0.5)
    pairs = buy(curator, given, hidden=0.01)
    assert ("a", "x") in pairs
    assert len(pairs) < 5
    assert not any(set(pair) <= set(PUBLIC) for pair in pairs)
    assert ledger.remaining == pytest.approx(0, abs=1e-6)


def test_pairs_that_are_not_bought_are_near_the_product_of_their_one_ways() -> None:
    curator, _, given = open_rows(0.5)
    strategy = PrivatePairs(public=PUBLIC, given=given, hidden=0.01)
    model = strategy.run(curator, Gated(given=given, components=10, steps=60), silent)
    measured = {m.clique for m in curator.measurements}
    assert ("b", "z") not in measured
    table = model.project(("b", "z")) / model.total
    assert 0.5 * np.abs(table - np.outer(table.sum(axis=1), table.sum(axis=0))).sum() < 0.02


def test_where_noise_is_small_or_there_are_no_rows_every_private_pair_is_bought() -> None:
    for epsilon, hidden, told in ((5.0, 0.05, True), (0.5, math.inf, True), (0.5, 0.01, False)):
        curator, ledger, given = open_rows(epsilon)
        assert len(buy(curator, given if told else None, hidden=hidden)) == 9
        assert ledger.remaining == pytest.approx(0, abs=1e-6)


def test_public_one_ways_are_never_bought() -> None:
    curator, _, given = open_rows(0.5)
    buy(curator, given, hidden=0.01)
    assert not {m.clique for m in curator.measurements} & {("a",), ("b",)}


@pytest.mark.parametrize(
    "settings",
    [{"hidden": 0.0}, {"worth": -1.0}, {"screen": Fraction(0)}, {"screened_ones": Fraction(19, 20)}],
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        PrivatePairs(**settings)


def test_of_what_a_public_column_fixes_no_other_pair_is_bought() -> None:
    rng = np.random.default_rng(0)
    data = {name: rng.integers(0, size, 4000) for name, size in SIZES.items()}
    data["x"] = data["a"].copy()
    # Both depend on a, so that pairs of x with them do as well.
    data["y"] = np.where(rng.random(4000) < 0.4, data["y"], data["a"])
    data["b"] = np.where(rng.random(4000) < 0.4, data["b"], data["a"])
    curator, ledger, given = open_table(data, 0.5)
    pairs = buy(curator, given, hidden=0.01)
    assert ("a", "x") in pairs
    assert ("a", "y") in pairs
    assert [pair for pair in pairs if "x" in pair] == [("a", "x")]
    assert ledger.remaining == pytest.approx(0, abs=1e-6)


def test_pairs_of_what_fixes_an_attribute_count_for_that_one_too() -> None:
    rng = np.random.default_rng(0)
    data = {name: rng.integers(0, size, 4000) for name, size in SIZES.items()}
    # x and y say the same; b and z depend on it and on each other alike.
    data["y"] = data["x"].copy()
    data["b"], data["z"] = (np.where(rng.random(4000) < 0.4, data[name], data["x"]) for name in "bz")
    curator, _, given = open_table(data, 1.0)
    buy(curator, given, hidden=0.001)
    noise = {m.clique: float(m.sigmas.mean()) for m in curator.measurements if len(m.clique) == 2}
    fixing = "x" if ("b", "x") in noise else "y"
    fixed = {"x": "y", "y": "x"}[fixing]
    assert [pair for pair in noise if fixed in pair] == [("x", "y")]
    # Twice the weight is half the variance, for as much dependence.
    assert noise["b", fixing] ** 2 < 0.7 * noise["b", "z"] ** 2


def test_a_pair_counts_for_all_that_follow_from_it() -> None:
    shares = {name: np.full(4, 0.25) for name in "abc"}
    ways = OneWays(shares, dict.fromkeys("abc", 0.1), dict.fromkeys("abc", 4.0), 1000.0)
    found = {("a", "b"): 0.25, ("a", "c"): 0.25, ("b", "c"): 0.25}
    weights = weigh_dependent_pairs(found, ways, 5.0, 0.3, followers={"a": 1, "b": 2})
    assert weights == pytest.approx({("a", "b"): 3.0, ("a", "c"): 1.0, ("b", "c"): 1.5})
