"""How far numbers go: what noise leaves in the future, and where rows are that are no noise."""

from __future__ import annotations

import datetime

import numpy as np
import pyarrow as pa
import pytest

from margrave import Date, Moment, Schema, Synthesizer
from margrave.measure.discovery.reach import is_noise, leave_future, limit_reach
from margrave.measure.discovery.values import Histogram
from margrave.schema.columns import Integer, Time
from margrave.schema.storage.clock import DAY

DATE = datetime.date(2024, 5, 17)
TODAY = (DATE - datetime.date(1970, 1, 1)).days
END = TODAY + 2


def cells(*noisy: float, clock: bool = False, start: int = TODAY - 250) -> Histogram:
    """Cells of 100 days each, the third of which holds today."""
    count = len(noisy)
    unit = DAY if clock else 1
    return Histogram(
        edges=(start + 100.0 * np.arange(count + 1)) * unit,
        noisy=np.array(noisy),
        variances=np.full(count, 100.0),
        weights=np.maximum(noisy, 1.0),
        alone=np.zeros(count, dtype=np.bool_),
        atoms=np.zeros(count, dtype=np.bool_),
    )


@pytest.mark.parametrize("clock", [False, True])
def test_what_noise_leaves_in_the_future_weighs_nothing(clock: bool) -> None:
    column = Moment(name="d") if clock else Date(name="d")
    found = leave_future(cells(900, 800, 400, 15, -5, 12, clock=clock), column, 10.0, DATE)
    # The cell of today ends with tomorrow, and keeps its rows.
    assert found.edges[3] == END * (DAY if clock else 1)
    assert found.weights.tolist() == [900, 800, 400, 0, 0, 0, 0]
    assert found.noisy.tolist() == [900, 800, 400, 0, 15, -5, 12]
    assert found.variances.tolist() == [100, 100, 100, 0, 100, 100, 100]
    assert len(found.alone) == len(found.atoms) == 7


def test_rows_that_are_evident_in_the_future_stay() -> None:
    for ahead in ((600, 500, 2), (0, 60, 0)):
        found = leave_future(cells(900, 800, 400, *ahead), Date(name="d"), 10.0, DATE)
        assert found.weights[4:].tolist() == [max(one, 1.0) for one in ahead]


def test_dates_that_end_before_today_and_declared_ones_are_left_alone() -> None:
    past = cells(5, 6, start=TODAY - 5_000)
    assert leave_future(past, Date(name="d"), 10.0, DATE) is past
    ahead = cells(5, 6, start=TODAY + 5_000)
    assert leave_future(ahead, Date(name="d"), 10.0, DATE) is ahead
    whole = cells(900, 800, 400, 0, 0)
    assert leave_future(whole, Date(name="d", lower="1990-01-01", upper="2100-01-01"), 10.0, DATE) is whole


def test_other_kinds_have_no_future() -> None:
    found = cells(900, 800, 400, 0, 0)
    for column in (Time(name="t"), Integer(name="n")):
        same, _ = limit_reach(found, column, True, DATE)
        assert same is found


def test_a_part_is_noise_where_its_rows_are_few_or_hidden() -> None:
    rows = np.array([5000.0, 3000.0])
    assert is_noise(np.array([12.0, -9.0]), rows, 10.0)
    assert is_noise(np.array([79.0]), rows, 1.0)  # less than a hundredth
    assert not is_noise(np.array([90.0, 90.0]), rows, 10.0)
    # One run stands out though all together is little beside their noise.
    assert not is_noise(np.array([*[0.0] * 50, 47.0, *[0.0] * 50]), rows, 10.0)


@pytest.mark.parametrize("kind", ["date", "moment"])
def test_a_release_of_recent_dates_has_none_in_the_future(kind: str) -> None:
    rng = np.random.default_rng(0)
    days = np.datetime64(datetime.date.today()) - rng.integers(0, 700, 4_000)
    values = days if kind == "date" else days.astype("datetime64[us]") + rng.integers(0, 3 * 10**9, 4_000)
    table = pa.table({"at": values, "x": rng.integers(0, 3, 4_000).astype(str)})
    last = np.datetime64(datetime.date.today()) + np.timedelta64(3, "D")
    shares = []
    for seed in range(4):
        synthesis = Synthesizer("independent", epsilon=0.3, not_private_test_seed=seed).fit(table)
        made = synthesis.sample_arrow(4_000, rng=np.random.default_rng(0))["at"].to_numpy()
        assert not (made.astype("datetime64[D]") >= last).any()
        shares.append(float((made.astype("datetime64[D]") > days.min()).mean()))
    assert np.mean(shares) > 0.8


def test_a_declared_end_in_the_future_is_kept() -> None:
    rng = np.random.default_rng(0)
    days = np.datetime64(datetime.date.today()) - rng.integers(0, 700, 4_000)
    table = pa.table({"due": days})
    upper = (datetime.date.today() + datetime.timedelta(days=3_000)).isoformat()
    schema = Schema((Date(name="due", lower="2000-01-01", upper=upper, strict=False),))
    synthesis = Synthesizer("independent", epsilon=1.0, schema=schema, not_private_test_seed=0).fit(table)
    column = synthesis.schema["due"]
    assert isinstance(column, Date)
    assert column.written(int(column.edge_array[-1]) - 1) == upper
