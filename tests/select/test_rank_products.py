"""Rank products: what is asked of which attributes, what it costs, and what rows owe to them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from margrave.engines.memory import open_source
from margrave.measure.curator import Curator
from margrave.models.independent import Independent
from margrave.models.mixture import Mixture
from margrave.privacy.accounting.accountants import GDP, event_rho
from margrave.privacy.accounting.events import GaussianEvent
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.progress import silent
from margrave.release import InferredMarginal, NoisyMarginal, RankProduct
from margrave.schema.columns import Integer
from margrave.schema.schema import Schema
from margrave.select import all_pairs
from margrave.select._screening import pairs as screening
from margrave.select._screening.pairs import score_ranks
from margrave.select.all_pairs import AllPairs
from seeded_noise import SeededSource

FEW = Mixture(components=20)


def rising(
    rows: int = 4000, columns: int = 12, epsilon: float = 1.0, rare: float = 0.0, seed: int = 1
) -> tuple[Curator, Ledger]:
    """All attributes rise together, and noise hides most of so many fine pairs; `rare` of the rows, those
    that are highest but for noise, have another code of a last attribute; one before it is mostly 0."""
    rng = np.random.default_rng(3)
    hidden = rng.standard_normal(rows)
    data = {}
    for i in range(columns):
        number = 0.8 * hidden + 0.6 * rng.standard_normal(rows)
        data[f"x{i}"] = np.searchsorted(np.quantile(number, np.arange(1, 24) / 24), number)
    schema = Schema(tuple(Integer(name=n, lower=0, upper=23, bins=24, missing=False) for n in data))
    if rare:
        number = 0.8 * hidden + 0.6 * rng.standard_normal(rows)
        data["rare"] = (number > np.quantile(number, 1.0 - rare)).astype(np.int64)
        data["still"] = np.where(rng.random(rows) < 0.02, data["x0"], 0)
        ends = {"still": 23, "rare": 1}
        added = [Integer(name=n, lower=0, upper=end, bins=end + 1, missing=False) for n, end in ends.items()]
        schema = Schema((*schema.columns, *added))
    ledger = Ledger(epsilon=epsilon, delta=1e-6, neighbours=Neighbours(), accountant=GDP())
    curator = Curator(open_source(pa.table(data))[0], ledger, SeededSource(seed))
    curator.discover(schema)
    return curator, ledger


def product_events(ledger: Ledger) -> list[GaussianEvent]:
    return [e for e in ledger.events if isinstance(e, GaussianEvent) and e.what.startswith("rank products")]


def watch_fits(monkeypatch: pytest.MonkeyPatch) -> list[NoisyMarginal]:
    """What the last fit of a mixture was given; the model is a product."""
    given: list[NoisyMarginal] = []

    def fit(self: Any, domain: Any, measurements: Any, **options: Any) -> Any:
        given[:] = measurements
        return Independent().fit(domain, [m for m in measurements if len(m.clique) == 1], **options)

    monkeypatch.setattr(Mixture, "fit", fit)
    return given


def test_screened_pairs_have_rank_products_and_the_fit_gets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    curator, ledger = rising()
    asked = watch_fits(monkeypatch)
    AllPairs().run(curator, FEW, silent)
    (event,) = product_events(ledger)
    assert event.what == "rank products of 66 pairs"
    assert float(event_rho(event) / ledger.total) == pytest.approx(1 / 20, rel=1e-3)
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total
    found = [t.product for t in asked if isinstance(t, InferredMarginal) and t.product is not None]
    assert len(found) == 66
    bought = {table.clique for table in asked if not isinstance(table, InferredMarginal)}
    assert any(len(clique) == 2 for clique in bought)
    # Pairs are alike, so that their answers differ by noise alone.
    assert np.std([one.value for one in found]) == pytest.approx(found[0].sigma, rel=0.35)


def test_without_tables_the_rows_rise_together_by_their_rank_products() -> None:
    """Rank correlations of a mixture where next to no pair can be bought, with them and without."""
    slopes = []
    for products in (Fraction(0), Fraction(1, 20)):
        curator, _ = rising()
        mixture = Mixture(components=60, refinements=0, latent_blocks=False)
        rows = (
            AllPairs(products=products).run(curator, mixture, silent).sample(4000, np.random.default_rng(0))
        )
        codes = np.stack([rows.column(name) for name in curator.domain.names])
        slopes.append(float(np.corrcoef(codes)[np.triu_indices(12, 1)].mean()))
    assert slopes[0] < 0.45
    assert slopes[1] > slopes[0] + 0.1


@pytest.mark.parametrize(
    "settings", [{"products": Fraction(0)}, {"hidden": float("inf")}, {"blind": 1e-6}], ids=str
)
def test_nothing_is_spent_on_rank_products_that_nobody_wants(settings: dict[str, Any]) -> None:
    curator, ledger = rising()
    AllPairs(**settings).run(curator, FEW, silent)
    assert not product_events(ledger)


@pytest.mark.parametrize(("goal", "share"), [(1.0, 1 / 20), (1e-3, 1 / 8)])
def test_more_is_spent_on_rank_products_where_noise_is_large(
    goal: float, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screening, "PRODUCT_NOISE", goal)
    curator, ledger = rising()
    AllPairs().run(curator, FEW, silent)
    (event,) = product_events(ledger)
    assert float(event_rho(event) / ledger.total) == pytest.approx(share, rel=1e-3)


def test_what_is_spent_on_rank_products_is_what_their_noise_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = []
    for goal in (1.0, 0.028):
        monkeypatch.setattr(screening, "PRODUCT_NOISE", goal)
        curator, ledger = rising()
        AllPairs().run(curator, FEW, silent)
        (event,) = product_events(ledger)
        noise.append(float(event.sigma_squared) ** 0.5 / 256 / 4000.0)
    assert noise[0] > 0.03
    assert noise[1] == pytest.approx(0.028, rel=0.05)


def test_rank_products_that_noise_would_drown_are_not_bought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screening, "MAX_PRODUCT_NOISE", 1e-3)
    curator, ledger = rising()
    AllPairs().run(curator, FEW, silent)
    assert not product_events(ledger)
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total


def test_what_a_rare_code_goes_with_is_asked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    curator, ledger = rising(8000, rare=0.03)
    given = watch_fits(monkeypatch)
    AllPairs().run(curator, FEW, silent)
    wide, rare = product_events(ledger)
    assert (wide.what, rare.what) == ("rank products of 66 pairs", "rank products of 12 pairs")
    assert float(event_rho(wide) / ledger.total) == pytest.approx(1 / 20, rel=1e-3)
    assert float(event_rho(rare) / ledger.total) == pytest.approx(1 / 40, rel=1e-3)
    known = [t.clique for t in given if isinstance(t, InferredMarginal) and t.product is not None]
    assert len(known) == 66 + 12
    assert not any("still" in clique for clique in known)
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total


@pytest.mark.parametrize(("rows", "asked"), [(8000, 2), (2000, 1)])
def test_a_rare_code_that_noise_would_hide_is_not_asked_about(rows: int, asked: int) -> None:
    curator, ledger = rising(rows, rare=0.03)
    AllPairs(blind=1.0).run(curator, FEW, silent)
    assert len(product_events(ledger)) == asked


@pytest.mark.parametrize(
    ("far", "bought"),
    [
        ([2.9] * 12, []),
        ([2.9, -3.1, 3.2, *[0.0] * 9], [1, 2]),
        ([3.1, 9, -8, 7, -6, 5, 4, 3.5, -3.6, 0, 0, 0], [1, 2, 3, 4, 5]),
    ],
)
def test_tables_of_a_rare_code_are_those_of_the_clearest_rank_products(
    far: list[float], bought: list[int]
) -> None:
    curator, ledger = rising(8000, rare=0.03)
    curator.measure([(name,) for name in curator.domain.names], ledger.total / 40)
    ways = screening.summarise_one_ways(curator)
    before, scores = len(ledger.events), {}
    for name, shares in ways.shares.items():
        scores[name] = score_ranks(shares, len(shares)) / screening.SCORE_STEPS

    def product(one: str, two: str, deviations: float) -> RankProduct:
        mean = (ways.shares[one] @ scores[one]) * (ways.shares[two] @ scores[two])
        return RankProduct((scores[one], scores[two]), float(mean) + 0.01 * deviations, 0.01)

    products = {(f"x{i}", "rare"): product(f"x{i}", "rare", own) for i, own in enumerate(far)}
    products["x0", "x1"] = product("x0", "x1", 50.0)
    screening.measure_rare_tables(curator, products, ways, ledger.total / 40)
    found = ledger.events[before:]
    assert {event.what for event in found} == {f"marginal x{i} x rare" for i in bought}
    assert float(sum(map(event_rho, found)) / ledger.total) == pytest.approx(len(found) and 1 / 40, rel=1e-3)


@pytest.mark.parametrize(("rows", "tables"), [(8000, 5), (2000, 0)])
def test_screening_buys_the_tables_of_a_rare_code(
    rows: int, tables: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator, ledger = rising(rows, rare=0.03)
    bought: list[int] = []
    buy = screening.measure_rare_tables

    def watch(door: Curator, *args: Any) -> None:
        before = len(door.measurements)
        buy(door, *args)
        bought.append(len(door.measurements) - before)

    monkeypatch.setattr(all_pairs, "measure_rare_tables", watch)
    AllPairs(blind=1.0).run(curator, FEW, silent)
    assert bought == [tables]
    assert ledger.remaining < Fraction(1, 10**6) * ledger.total


@pytest.mark.parametrize("seeds", [(1,), pytest.param((2, 3, 4), marks=pytest.mark.slow)])
def test_rows_with_a_rare_code_are_where_they_should_be(
    seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mean rank of all other attributes in rows that have it, with its rank products and tables and without;
    .83 in the table. An attribute of two codes would be refined by itself."""
    ranks: dict[float, list[float]] = {math.inf: [], 4.0: []}
    for (least, found), seed in itertools.product(ranks.items(), seeds):
        monkeypatch.setattr(screening, "MIN_RARE_SIGNAL", least)
        curator, _ = rising(20_000, rare=0.03, seed=seed)
        rows = (
            AllPairs().run(curator, Mixture(components=60), silent).sample(20_000, np.random.default_rng(0))
        )
        codes = np.stack([rows.column(f"x{i}") for i in range(12)])
        found.append(float(codes[:, rows.column("rare") == 1].mean()) / 23.0)
    without, asked = (float(np.mean(found)) for found in ranks.values())
    assert without < 0.7
    assert asked > without + 0.1


@pytest.mark.parametrize(
    ("shares", "ordered", "codes"),
    [
        ([0.97, 0.03], 0, (0, 1)),
        ([0.02, 0.98], 2, (0, 1)),
        ([0.5, 0.01, 0.49], 0, (0, 2)),
        ([50.0, 1.0, 49.0], 0, (0, 2)),
        ([0.5, 0.06, 0.44], 0, None),
        ([0.5, 0.5, 0.0], 3, None),
        ([1.0], 0, None),
    ],
)
def test_an_attribute_of_two_codes_has_no_others_to_speak_of(
    shares: list[float], ordered: int, codes: tuple[int, int] | None
) -> None:
    assert screening.find_two_codes(np.array(shares), ordered) == codes


@pytest.mark.parametrize(
    ("shares", "ordered", "scores"),
    [
        ([0.25, 0.25, 0.25, 0.25], 4, [-16, -8, 8, 16]),
        ([0.5, 0.25, 0.25], 3, [-16, 8, 16]),
        ([0.5, 0.5, 0.5, 0.7], 3, [-16, 0, 16, 0]),
        ([0.4, 0.4, 0.2], 0, [0, 0, 0]),
        ([0.5, 0.02, 0.48], 0, [-16, 0, 16]),
        ([0.2, 0.8], 0, [-16, 16]),
        ([1.0], 1, [0]),
        ([-3.0, 1.0, 0.0], 3, [-16, 0, 16]),
    ],
)
def test_scores_are_mid_ranks_cut_at_the_quartiles(
    shares: list[float], ordered: int, scores: list[int]
) -> None:
    np.testing.assert_array_equal(score_ranks(np.array(shares), ordered), scores)
