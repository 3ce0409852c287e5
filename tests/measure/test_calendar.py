"""Cells of the looks at dates: they cover all years, and refine the stretches that hold anything."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from margrave.measure.discovery.ranges import day_edges, span_edges, spans, year_edges, year_prior
from margrave.schema.columns.binned import MAX_SHARE_OUTSIDE


def day(text: str) -> float:
    return float(np.datetime64(text, "D").astype(int))


def test_years_cover_all_dates() -> None:
    edges = year_edges()
    assert (np.diff(edges) > 0).all()
    assert edges[0] == day("0001-01-01")
    assert edges[-1] == day("9999-12-31") + 1
    assert {day(f"{year}-01-01") for year in (1600, 1969, 1970, 2024, 2500, 9999)} <= set(edges)


def test_stretches_leave_long_gaps_out() -> None:
    edges = year_edges()
    counts = np.histogram(np.full(10_000, day("2013-06-01")), edges)[0].astype(float)
    assert spans(edges, counts, MAX_SHARE_OUTSIDE) == [(day("2013-01-01"), day("2014-01-01"))]
    counts += np.histogram(np.full(5_000, day("9999-12-31")), edges)[0]
    first, last = spans(edges, counts, MAX_SHARE_OUTSIDE)
    assert first == (day("2013-01-01"), day("2014-01-01"))
    assert last[1] == edges[-1]
    counts += np.histogram(np.full(2_000, day("2003-06-01")), edges)[0]
    assert spans(edges, counts, MAX_SHARE_OUTSIDE)[0] == (day("2003-01-01"), day("2014-01-01"))


def test_where_nothing_is_known_dates_are_of_our_time() -> None:
    share = year_prior()
    assert share.sum() == pytest.approx(1.0)
    edges = year_edges()
    recent = (edges[:-1] >= day("1900-01-01")) & (edges[1:] <= day("2051-01-01"))
    assert share[recent].sum() > 0.8
    (low, high), *_ = spans(edges, 1000.0 * share, MAX_SHARE_OUTSIDE)
    assert low < day("1900-01-01")
    assert high > day("2050-01-01")


@pytest.mark.parametrize(
    ("years", "step"),
    [(1, 1), (3, 1), (10, 7), (40, 28), (150, 89), (600, 365)],
)
def test_long_stretches_get_longer_cells(years: int, step: int) -> None:
    low, high = day("1900-01-01"), day(f"{1900 + years}-01-01")
    edges = span_edges([(low, high)], False)
    assert edges[0] == low
    assert edges[-1] == high
    assert step <= np.median(np.diff(edges)) <= step + 3
    assert len(edges) <= 1101


def test_months_begin_on_the_first() -> None:
    edges = span_edges([(day("1980-01-15"), day("2020-02-03"))], False)
    firsts = {str(np.datetime64(int(edge), "D"))[-2:] for edge in edges[1:-1]}
    assert firsts == {"01"}


@given(
    st.integers(-10_000, 30_000),
    st.integers(1, 60_000),
    st.booleans(),
    st.floats(0.01, 1.0),
)
def test_cells_increase_and_cover(low: int, days: int, clock: bool, detail: float) -> None:
    edges = span_edges([(float(low), float(low + days))], clock, detail)
    assert (np.diff(edges) > 0).all()
    assert edges[0] == low
    assert edges[-1] == low + days
    assert len(edges) <= 1102
    micro = np.rint(edges * 86_400_000_000).astype(np.int64)
    assert (micro % 1_000_000 == 0).all()


def test_days_follow_years_where_they_are_few() -> None:
    assert day_edges([(0.0, 2000.0)]) is None
    edges = day_edges([(0.0, 10.0), (100.0, 103.0)])
    assert edges is not None
    assert edges.tolist() == [*range(11), *range(100, 104)]
    minutes = span_edges([(0.0, 0.5)], True)
    assert np.diff(minutes)[0] == pytest.approx(60 / 86_400)
