"""AllPairs: what it buys, in which shares, and that it spends everything."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.errors import InputError, SchemaError
from margrave.limits import Deadline
from margrave.measure.curator import Curator
from margrave.models.auto import Auto
from margrave.models.independent import Independent
from margrave.models.mixture import Mixture
from margrave.privacy.accounting.accountants import GDP
from margrave.privacy.accounting.events import ExponentialEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.progress import silent
from margrave.release import NoisyMarginal
from margrave.schema.domain import Domain
from margrave.schema.schema import Schema
from margrave.select import all_pairs
from margrave.select._screening.pairs import (
    MIN_TARGET_SHARE,
    NOISE_LEFT,
    OneWays,
    choose_pairs,
    estimate_dependence,
    find_affordable,
    foretell_error,
    summarise_one_ways,
)
from margrave.select.all_pairs import AllPairs
from margrave.select.strategy import share_one_ways
from seeded_noise import SeededSource

FEW = Mixture(components=20)


def opened(columns: int = 4, rows: int = 4000) -> tuple[Curator, Ledger]:
    """x0 and x1 are nearly the same, the others independent."""
    rng = np.random.default_rng(0)
    data = {f"x{i}": rng.integers(0, 4, rows) for i in range(columns)}
    if columns > 1:
        data["x1"] = np.where(rng.random(rows) < 0.1, data["x1"], data["x0"])
    source, _ = open_source(pa.table(data))
    ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(Schema.from_sizes(dict.fromkeys(data, 4)))
    return curator, ledger


def precision(curator: Curator) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for m in curator.measurements:
        found[m.clique] += float(m.sigma) ** -2.0
    return found


def test_all_pairs_are_bought_and_everything_is_spent() -> None:
    curator, ledger = opened()
    model = AllPairs().run(curator, FEW, silent)
    found = precision(curator)
    assert sum(len(clique) == 2 for clique in found) == 6
    assert sum(len(clique) == 1 for clique in found) == 4
    assert ledger.remaining >= 0
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total
    assert len(model.weights) == 20


def test_one_ways_get_their_share() -> None:
    curator, _ = opened()
    AllPairs(ones=Fraction(1, 4)).run(curator, FEW, silent)
    found = precision(curator)
    singles = sum(value for clique, value in found.items() if len(clique) == 1)
    assert singles / found.total() == pytest.approx(0.25, rel=0.01)


def test_dependent_pairs_get_more_and_none_less_than_the_look() -> None:
    curator, _ = opened()
    AllPairs(look=Fraction(1, 2)).run(curator, FEW, silent)
    found = precision(curator)
    pairs = {clique: value for clique, value in found.items() if len(clique) == 2}
    rest = [value for clique, value in pairs.items() if clique != ("x0", "x1")]
    assert pairs["x0", "x1"] > 1.5 * max(rest)
    assert min(pairs.values()) > 0.49 * sum(pairs.values()) / 6


def test_dependence_that_the_rough_model_cannot_hold_counts() -> None:
    curator, _ = opened()
    AllPairs(look=Fraction(1, 2)).run(curator, Independent(), silent)
    found = precision(curator)
    pairs = {clique: value for clique, value in found.items() if len(clique) == 2}
    assert pairs["x0", "x1"] > 1.5 * max(value for clique, value in pairs.items() if clique != ("x0", "x1"))


def test_a_whole_look_measures_all_pairs_alike() -> None:
    curator, _ = opened()
    AllPairs(look=Fraction(1)).run(curator, FEW, silent)
    pairs = [value for clique, value in precision(curator).items() if len(clique) == 2]
    assert max(pairs) == pytest.approx(min(pairs))


def test_pairs_with_the_target_get_more() -> None:
    shares = []
    for emphasis in (1.0, 3.0):
        curator, _ = opened()
        AllPairs(target="x3", emphasis=emphasis).run(curator, FEW, silent)
        found = precision(curator)
        shares.append(sum(v for clique, v in found.items() if "x3" in clique and len(clique) == 2))
    assert shares[1] > 1.5 * shares[0]


def test_one_column_gets_everything() -> None:
    curator, ledger = opened(columns=1)
    model = AllPairs().run(curator, Independent(), silent)
    assert [m.clique for m in curator.measurements] == [("x0",)]
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total
    assert model.project(("x0",)).sum() == pytest.approx(model.total)


def test_wrong_settings_are_refused_before_anything_is_bought() -> None:
    with pytest.raises(InputError, match="look"):
        AllPairs(look=Fraction(0))
    with pytest.raises(InputError, match="emphasis"):
        AllPairs(emphasis=0.5)
    curator, ledger = opened()
    with pytest.raises(SchemaError, match="clique"):
        AllPairs(target="nobody").run(curator, FEW, silent)
    with pytest.raises(InputError, match="codes"):
        AllPairs().run(curator, Mixture(max_codes=3), silent)
    assert ledger.spent == 0


def noisy(
    columns: int = 20, rows: int = 1500, codes: int = 12, epsilon: float = 1.0
) -> tuple[Curator, Ledger]:
    """x0 and x1 are nearly the same, the others independent; noise hides nearly all of so many pairs."""
    rng = np.random.default_rng(3)
    data = {f"x{i}": rng.integers(0, codes, rows) for i in range(columns)}
    data["x1"] = np.where(rng.random(rows) < 0.1, data["x1"], data["x0"])
    source, _ = open_source(pa.table(data))
    ledger = Ledger(epsilon=epsilon, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(Schema.from_sizes(dict.fromkeys(data, codes)))
    return curator, ledger


def choices(ledger: Ledger) -> list[ExponentialEvent]:
    return [event for event in ledger.events if isinstance(event, ExponentialEvent)]


def test_where_appraisals_are_blind_a_few_pairs_are_drawn_and_the_dependent_one_is_kept() -> None:
    curator, ledger = noisy(epsilon=0.5)
    model = AllPairs().run(curator, Auto(), silent)
    pairs = {clique for clique in precision(curator) if len(clique) == 2}
    assert 1 <= len(choices(ledger)) == len(pairs) <= 20
    assert ("x0", "x1") in pairs
    table = model.project(("x0", "x1")) / model.total
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    assert 0.5 * float(np.abs(table - product).sum()) > 0.4
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total


def test_where_no_pair_could_stand_above_its_noise_one_ways_get_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"x{i}" for i in range(6)]
    even = OneWays(
        dict.fromkeys(names, np.full(5, 0.2)), dict.fromkeys(names, 0.1), dict.fromkeys(names, 5.0), 1000.0
    )
    pairs = list(itertools.combinations(names, 2))
    assert find_affordable(pairs, even, 90.0) == ([], 0)  # noise of 0.9, and a copy has 0.8
    assert find_affordable(pairs, even, 79.0) == (pairs, 1)
    assert find_affordable(pairs, even, 40.0) == (pairs, 4)
    assert find_affordable(pairs, even, 1.0) == (pairs, 6)
    monkeypatch.setattr(all_pairs, "find_affordable", lambda *_: ([], 0))
    curator, ledger = noisy(epsilon=0.3)
    AllPairs().run(curator, FEW, silent)
    assert {len(clique) for clique in precision(curator)} == {1}
    assert not choices(ledger)
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total


def test_a_target_has_every_other_draw() -> None:
    curator, _ = noisy(codes=4, epsilon=0.3)
    AllPairs(target="x5").run(curator, FEW, silent)
    pairs = [clique for clique in precision(curator) if len(clique) == 2]
    assert sum("x5" in clique for clique in pairs) >= len(pairs) / 2 > 2


def test_the_bound_of_a_pair_holds_and_a_copy_reaches_it() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        table = rng.dirichlet(np.full(12, 0.3)).reshape(3, 4)
        p, q = table.sum(axis=1), table.sum(axis=0)
        ways = OneWays({"a": p, "b": q}, {"a": 0.0, "b": 0.0}, {"a": 3.0, "b": 4.0}, 1e6)
        apart = 0.5 * float(np.abs(table - np.outer(p, q)).sum())
        assert apart <= ways.bound(("a", "b")) + 1e-12
        copy = OneWays({"a": p, "b": p}, {"a": 0.0, "b": 0.0}, {"a": 3.0, "b": 3.0}, 1e6)
        assert copy.bound(("a", "b")) == pytest.approx(0.5 * np.abs(np.diag(p) - np.outer(p, p)).sum())


def test_where_noise_hides_most_pairs_the_dependent_one_is_found_and_kept() -> None:
    """Bought alike, its dependence is lost: that was so before pairs were screened."""
    kept = []
    for hidden in (0.05, float("inf")):
        curator, ledger = noisy()
        model = AllPairs(hidden=hidden).run(curator, Mixture(components=40, refinements=0), silent)
        table = model.project(("x0", "x1")) / model.total
        product = np.outer(table.sum(axis=1), table.sum(axis=0))
        kept.append(0.5 * float(np.abs(table - product).sum()))
        assert ledger.remaining < Fraction(1, 10**6) * ledger.total
    assert kept[0] > 0.4
    assert kept[0] > kept[1] + 0.3


def test_screening_spends_everything_and_what_is_worth_nothing_is_not_bought() -> None:
    """Only one pair depends, so what is left besides goes to the one-ways that all others are made of."""
    curator, _ = noisy()
    AllPairs(screened_ones=Fraction(1, 5), screen=Fraction(1, 10)).run(curator, FEW, silent)
    found = precision(curator)
    singles = sum(value for clique, value in found.items() if len(clique) == 1)
    pairs = {clique for clique in found if len(clique) == 2}
    assert singles / (singles + sum(found[pair] for pair in pairs)) > 0.7
    assert ("x0", "x1") in pairs
    assert len(pairs) < 95
    assert found.total() / (2.0 * float(curator.total)) == pytest.approx(0.9, rel=0.01)


def test_one_ways_get_no_more_than_a_quarter_where_many_pairs_depend() -> None:
    rng = np.random.default_rng(3)
    cause = rng.integers(0, 12, 6000)
    data = {f"x{i}": np.where(rng.random(6000) < 0.1, rng.integers(0, 12, 6000), cause) for i in range(12)}
    source, _ = open_source(pa.table(data))
    ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(Schema.from_sizes(dict.fromkeys(data, 12)))
    AllPairs().run(curator, FEW, silent)
    found = precision(curator)
    singles = sum(value for clique, value in found.items() if len(clique) == 1)
    assert any(event.what.startswith("errors") for event in ledger.events)
    assert singles / (2.0 * float(curator.total)) == pytest.approx(0.25, rel=0.02)


def test_one_ways_of_more_codes_get_more_and_what_was_bought_counts() -> None:
    data = {"a": np.arange(640) % 2, "b": np.arange(640) % 16}
    source, _ = open_source(pa.table(data))
    ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(Schema.from_sizes({"a": 2, "b": 16}))
    curator.measure([("a",), ("b",)], curator.total / 20)
    shares = share_one_ways(curator, {"a": 2.0, "b": 16.0}, curator.total * Fraction(9, 10))
    assert sum(shares.values()) == curator.total * Fraction(9, 10)
    had = float(curator.total) / 20
    assert (float(shares["b",]) + had) / (float(shares["a",]) + had) == pytest.approx(4.0, rel=0.05)
    assert set(share_one_ways(curator, {"a": 2.0, "b": 1600.0}, curator.total / 100)) == {("b",)}
    assert not share_one_ways(curator, {"a": 2.0, "b": 16.0}, Fraction(0))


def test_noise_in_empty_codes_is_not_mass() -> None:
    """One code of 400 holds all rows; cut at 0, the noise of the others would be most of the distribution."""
    source, _ = open_source(pa.table({"a": np.zeros(2000, dtype=int), "b": np.arange(2000) % 2}))
    ledger = Ledger(epsilon=0.1, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(Schema.from_sizes({"a": 400, "b": 2}))
    curator.measure([("a",), ("b",)], curator.total / 4)
    cut = np.maximum(curator.measurements[0].values, 0.0)
    assert cut[0] / cut.sum() < 0.4
    ways = summarise_one_ways(curator)
    assert ways.shares["a"][0] > 0.8
    assert 0.5 * abs(ways.shares["a"][0] - 1.0) < ways.off["a"] < 0.4
    assert ways.codes["a"] < 4.0


def test_foretold_errors_are_those_of_the_formula() -> None:
    shares = {name: np.full(4, 0.25) for name in "abc"}
    ways = OneWays(shares, dict.fromkeys("abc", 0.2), dict.fromkeys("abc", 4.0), 1000.0)
    found = {("a", "b"): 0.3, ("a", "c"): 0.0}
    noise = NOISE_LEFT * 16 * 50.0 / 1000.0 / np.sqrt(2 * np.pi)
    held = 0.3 * noise / np.hypot(0.3, noise)
    wanted = np.mean([np.hypot(held, NOISE_LEFT * np.hypot(0.1, 0.2)), NOISE_LEFT * np.hypot(0.1, 0.3)])
    off = {"a": 0.1, "b": 0.2, "c": 0.3}
    assert foretell_error(found, {("a", "b"): 7.0}, ways, off, 50.0) == pytest.approx(wanted)


def uneven_ways() -> tuple[OneWays, dict[tuple[str, str], float]]:
    """One-ways of 2 to 40 codes, and a dependence for each pair."""
    sizes = {"a": 2, "b": 5, "c": 12, "d": 40}
    shares = {name: np.full(size, 1.0 / size) for name, size in sizes.items()}
    codes = {name: float(size) for name, size in sizes.items()}
    ways = OneWays(shares, dict.fromkeys(sizes, 1e-3), codes, 5000.0)
    pairs = itertools.combinations(sizes, 2)
    return ways, dict(zip(pairs, (0.02, 0.1, 0.01, 0.3, 0.05, 0.4), strict=True))


def test_pairs_are_bought_so_that_the_error_foretold_is_least() -> None:
    ways, found = uneven_ways()
    for sigma in (1.0, 10.0, 40.0):
        weights = choose_pairs(found, ways, sigma, NOISE_LEFT)
        assert sum(weights.values()) == pytest.approx(1.0)

        def foretell(shares: dict[tuple[str, str], float], sigma: float = sigma) -> float:
            return foretell_error(found, shares, ways, dict.fromkeys("abcd", 0.0), sigma)

        least = foretell(weights)
        for one, other in itertools.permutations(found, 2):
            moved = 0.01 * weights.get(one, 0.0)
            if moved:
                rest = weights | {one: weights[one] - moved, other: weights.get(other, 0.0) + moved}
                assert foretell(rest) > least
    assert 1 <= len(weights) < len(found)


def test_pairs_of_a_target_are_bought_however_little_they_depend() -> None:
    ways, found = uneven_ways()
    plain = choose_pairs(found, ways, 40.0, NOISE_LEFT)
    asked = choose_pairs(found, ways, 40.0, NOISE_LEFT, target="a")
    assert [pair for pair in plain if "a" in pair] != [pair for pair in found if "a" in pair]
    assert {pair for pair in found if "a" in pair} <= asked.keys()
    assert sum(asked.values()) == pytest.approx(1.0)
    nothing = choose_pairs(dict.fromkeys(found, 0.0), ways, 40.0, NOISE_LEFT)
    assert sum(nothing.values()) == pytest.approx(1.0)


def test_what_decides_a_target_is_known_best() -> None:
    ways, found = uneven_ways()
    # With hardly any noise no pair waits until it is worth anything, and shares follow R alone.
    asked = choose_pairs(found, ways, 1e-6, NOISE_LEFT, target="a")
    told = {pair: apart for pair, apart in found.items() if "a" in pair}
    mean = sum(told.values()) / len(told)
    strongest = max(told, key=told.__getitem__)
    for pair in told.keys() - {strongest}:
        assert told[pair] < mean * MIN_TARGET_SHARE
        ratio = told[strongest] / mean / MIN_TARGET_SHARE
        assert asked[strongest] / asked[pair] == pytest.approx(ratio, rel=1e-3)
    # Where nothing was found of a target all of its pairs are the same.
    blank = choose_pairs(found | dict.fromkeys(told, 0.0), ways, 1.0, NOISE_LEFT, target="a")
    assert len({round(blank[pair], 9) for pair in told}) == 1


def test_appraisals_that_noise_would_drown_are_not_bought() -> None:
    """On a fifth of the rows the noise of an appraisal is larger than most dependence."""
    appraised = []
    for rows in (300, 1500):
        curator, ledger = noisy(rows=rows)
        AllPairs().run(curator, FEW, silent)
        appraised.append(any(event.what.startswith("errors") for event in ledger.events))
    assert appraised == [False, True]


def test_a_target_keeps_all_its_pairs_where_pairs_are_screened() -> None:
    curator, _ = noisy()
    AllPairs(target="x5").run(curator, FEW, silent)
    assert sum("x5" in clique and len(clique) == 2 for clique in precision(curator)) == 19


def test_chance_is_no_dependence() -> None:
    """Two independent attributes of 24 codes are far from the product of their one-ways in 2,000 rows."""
    rng = np.random.default_rng(5)
    data = {f"x{i}": rng.integers(0, 24, 2000) for i in range(6)}
    data["x1"] = np.where(rng.random(2000) < 0.5, data["x1"], data["x0"])
    source, _ = open_source(pa.table(data))
    ledger = Ledger(epsilon=30.0, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(Schema.from_sizes(dict.fromkeys(data, 24)))
    curator.measure([(name,) for name in data], curator.remaining / 12)
    ways, pairs = summarise_one_ways(curator), list(itertools.combinations(data, 2))
    apart = (
        0.5 * np.abs(np.histogram2d(data["x2"], data["x3"], bins=24)[0] - ways.product(("x2", "x3"))).sum()
    )
    assert apart / 2000 > 0.15
    assert ways.chance(("x2", "x3")) == pytest.approx(apart / 2000, rel=0.1)
    found = estimate_dependence(curator, pairs, ways, curator.remaining / 2)
    assert found["x0", "x1"].distance > 0.35
    assert max(one.distance - 2 * one.uncertainty for pair, one in found.items() if pair != ("x0", "x1")) <= 0


def wide_table(rows: int) -> tuple[Curator, Ledger]:
    """Two columns of 40 codes, the second the first or the next, and a small one."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 40, rows)
    data = {"a": first, "b": (first + rng.integers(0, 2, rows)) % 40, "c": rng.integers(0, 3, rows)}
    source, _ = open_source(pa.table(data))
    ledger = Ledger(epsilon=1.0, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(source, ledger, SeededSource(1))
    curator.discover(Schema.from_sizes({"a": 40, "b": 40, "c": 3}))
    return curator, ledger


def test_a_wide_pair_is_measured_for_its_share() -> None:
    curator, ledger = wide_table(200_000)
    AllPairs(max_clique_cells=1000, wide=Fraction(1, 4)).run(curator, FEW, silent)
    (wide,) = [m for m in curator.measurements if m.clique == ("a", "b")]
    assert wide.sigma == pytest.approx(curator.sigma(ledger.total / 4), rel=1e-6)
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total


@pytest.mark.parametrize(
    "settings", [{"wide": Fraction(0)}, {"max_wide_cells": 1500}, {"max_clique_cells": 1000, "hidden": 1e-6}]
)
def test_a_wide_pair_is_left_out_where_it_costs_too_much(settings: dict[str, Any]) -> None:
    curator, _ = wide_table(200_000)
    AllPairs(**{"max_clique_cells": 1000, "screen": Fraction(1, 10)} | settings).run(curator, FEW, silent)
    assert all(m.clique != ("a", "b") for m in curator.measurements)


def test_a_wide_pair_of_few_rows_is_not_measured() -> None:
    curator, _ = wide_table(2000)
    AllPairs(max_clique_cells=1000).run(curator, FEW, silent)
    assert all(m.clique != ("a", "b") for m in curator.measurements)


class Clock(Deadline):
    """A deadline that stands at so many seconds, whatever a test's machine does meanwhile."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    @property
    def left(self) -> float:
        return self.seconds


@pytest.mark.parametrize(("seconds", "looks"), [(60.0, 2), (1e-3, 1), (-1.0, 1)])
def test_where_two_looks_take_too_long_by_their_price_there_is_one(seconds: float, looks: int) -> None:
    curator, ledger = opened()
    AllPairs(triples=Fraction(0)).run(curator, Independent(), silent, Clock(seconds))
    pairs = Counter(m.clique for m in curator.measurements if len(m.clique) == 2)
    assert len(pairs) == 6
    assert max(pairs.values()) == looks
    found = [value for clique, value in precision(curator).items() if len(clique) == 2]
    if looks == 1:
        assert max(found) == pytest.approx(min(found))
    assert 0 <= ledger.remaining < Fraction(1, 10**6) * ledger.total


@pytest.mark.parametrize("target", [None, "few"])
def test_pairs_of_many_codes_get_more_and_a_target_of_few_no_less(target: str | None) -> None:
    """Of independent attributes nothing but their codes counts."""
    domain = Domain(("few", "some", "many"), (2, 4, 16))
    ways = {
        name: 64_000.0 * np.full(size, 1.0 / size)
        for name, size in zip(domain.names, domain.sizes, strict=True)
    }
    model = Independent().fit(domain, [NoisyMarginal((name,), way, 1.0) for name, way in ways.items()])
    pairs = list(itertools.combinations(domain.names, 2))
    looks = [NoisyMarginal(pair, np.outer(ways[pair[0]], ways[pair[1]]) / 64_000.0, 1.0) for pair in pairs]
    strategy = AllPairs(target=target, emphasis=3.0)
    found = strategy._worth(model, looks, {"few": 2.0, "some": 4.0, "many": 16.0})
    more = [found[pair] / found["some", "many"] for pair in pairs]
    if target is None:
        assert more == pytest.approx(np.sqrt([8 / 64, 32 / 64, 1.0]))
    else:
        mean = (8 + 32 + 64) / 3
        assert more == pytest.approx([3 * np.sqrt(mean / 64), 3 * np.sqrt(mean / 64), 1.0])
