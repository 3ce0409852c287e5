"""Dates a fixed term apart, and columns that most rows lack: which of two is coded by the other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import margrave as mg
from margrave.measure.discovery.between.edges import TERMS, TERMS_DETAIL, relation_edges
from margrave.measure.discovery.between.links import pair_up
from margrave.measure.discovery.between.trees import choose_links
from margrave.schema.columns import Date, Integer, Relative
from margrave.schema.columns.relative import Comparison

ROWS = 12_000
FIRST = np.datetime64("2019-01-01")


def contracts(seed: int = 0) -> pa.Table:
    """A year's contracts, and a claim in one of eight of them, on some day of that year."""
    rng = np.random.default_rng(seed)
    start = FIRST + rng.integers(0, 1_300, ROWS)
    years = start.astype("datetime64[M]") + 12
    end = years.astype("datetime64[D]") + (start - start.astype("datetime64[M]")).astype(int) - 1
    claim = start + rng.integers(0, 365, ROWS)
    claim[rng.random(ROWS) >= 0.125] = np.datetime64("NaT")
    return pa.table({"start": start, "end": end, "claim": claim, "size": rng.integers(1, 60, ROWS)})


@pytest.mark.parametrize(("epsilon", "least"), [(1.0, 0.9), (3.0, 0.97)])
def test_dates_a_year_apart_come_back_a_year_apart(epsilon: float, least: float) -> None:
    for seed in range(3):
        synthesizer = mg.Synthesizer("independent", epsilon=epsilon, not_private_test_seed=seed)
        made = synthesizer.fit(contracts()).sample_arrow(rng=np.random.default_rng(0))
        days = (made["end"].to_numpy() - made["start"].to_numpy()).astype(int)
        assert np.isin(days, [364, 365]).mean() >= least


@pytest.mark.parametrize(("epsilon", "least"), [(1.0, 5), (3.0, 6)])
def test_a_year_after_a_date_is_told_from_one_after_another_date_shortly_before(
    epsilon: float, least: int
) -> None:
    rng = np.random.default_rng(0)
    applied = FIRST + rng.integers(0, 2_000, ROWS)
    issued = applied + rng.gamma(2.0, 18.0, ROWS).astype(int)
    table = pa.table({"applied": applied, "issued": issued, "expires": issued + 365})
    held = 0
    for seed in range(6):
        synthesizer = mg.Synthesizer("independent", epsilon=epsilon, not_private_test_seed=seed)
        made = synthesizer.fit(table).sample_arrow(rng=np.random.default_rng(0))
        days = (made["expires"].to_numpy() - made["issued"].to_numpy()).astype(int)
        held += bool((days == 365).mean() > 0.95)
    assert held >= least


def test_no_column_is_coded_by_one_that_most_of_its_rows_lack() -> None:
    for seed in range(4):
        synthesizer = mg.Synthesizer("independent", epsilon=3.0, not_private_test_seed=seed)
        schema = synthesizer.fit(contracts()).schema
        coded = {column.name: column for column in schema.columns if isinstance(column, Relative)}
        assert coded
        assert all(column.base != "claim" and not column.alone for column in coded.values())


def test_a_base_that_stands_for_two_columns_is_none_where_they_mostly_lack_it() -> None:
    rng = np.random.default_rng(0)
    amount = np.round(rng.lognormal(6.0, 1.0, ROWS))
    other = np.round(rng.lognormal(6.0, 1.0, ROWS))
    # Both are near the middle one in the few rows that have it, and apart from each other where none does.
    few = rng.random(ROWS) < 0.2
    other[few] = amount[few] + rng.integers(0, 3, few.sum())
    middle = np.where(few, amount + rng.integers(0, 2, ROWS), np.nan)
    table = pa.table({"one": amount, "middle": pa.array(middle, from_pandas=True), "other": other})
    for seed in range(3):
        synthesizer = mg.Synthesizer("independent", epsilon=5.0, not_private_test_seed=seed)
        columns = {column.name: column for column in synthesizer.fit(table).schema.columns}
        assert isinstance(columns["middle"], Relative)
        assert all(getattr(columns[name], "base", "") != "middle" for name in ("one", "other"))


def test_terms_have_cells_of_a_day_where_noise_allows() -> None:
    days = [Date(name=name, lower="2000-01-01", upper="2020-12-31") for name in ("start", "end")]
    comparison = Comparison.between(days[1], days[0])
    ends = (10_957.0, 18_627.0)
    edges = set(relation_edges(comparison, ends, ends, 0, TERMS_DETAIL).tolist())
    assert {float(sign * term + more) for term in TERMS for sign in (-1, 1) for more in (0, 1)} <= edges
    coarse = relation_edges(comparison, ends, ends, 0, TERMS_DETAIL / 2)
    assert {365.0, 366.0} <= set(coarse.tolist())  # those of a year always have
    assert 92.0 not in coarse
    # No term beyond what the ends of both columns leave.
    assert max(relation_edges(comparison, ends, (18_000.0, 18_627.0), 1, 1.0)) <= 627.0


def test_the_base_of_two_columns_that_mostly_lack_it_is_none_of_them() -> None:
    cells = tuple(range(101))
    columns = [Integer(name=n, edges=cells, fine=cells, weights=(1.0,) * 100) for n in ("a", "b", "c")]
    pairs = pair_up(columns, 9)
    for lacking in (0.0, 9_000.0):
        counts = []
        for pair in pairs:
            names = {pair.base.name, pair.column.name}
            equal = np.where(pair.edges[:-1] == 0.0, 1_000.0, 0.0)
            plain = 10_000.0 * pair.chance
            # The rows without "c", which is the column of its pairs.
            told = np.append(equal, [0.0, lacking, 0.0]) if "c" in names else np.append(plain, np.zeros(3))
            counts.append(told)
        links = {link.column: link.base for link in choose_links(pairs, counts, 1.0)}
        assert ("c" in links.values()) == (not lacking)
        assert len(links) == (1 if lacking else 2)
