"""Quantiles of columns that are coded by others: of their own cells, and by group of what they follow."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from tables_of_codes import APART, FEE, NET, OWN, SEX, counts, numbers, relative, release_of

from margrave.errors import InputError
from margrave.schema.columns import Date, Integer, Real, Relative
from margrave.tables.own_cells import MOST_CELLS, read_alone
from margrave.tables.quantities import estimate_mean, estimate_quantile

WEIGHTS = (40.0, 160.0, 300.0, 250.0, 150.0, 75.0, 25.0, 0.0)
CELLS = dataclasses.replace(
    OWN,
    bins=None,
    lower=None,
    upper=None,
    edges=(0.0, 40.0, 80.0),
    fine=tuple(10.0 * place for place in range(9)),
    weights=WEIGHTS,
    noise=0.01,
)
POWER = relative(others=("fee",), joint="product", powers=(1, -2))


def counted(column: Relative, noise: float = 0.01) -> Relative:
    """The column with cells of its own, as discovery counts them."""
    return dataclasses.replace(column, own=dataclasses.replace(CELLS, noise=noise))


def test_own_cells_answer_whatever_a_column_is_coded_by() -> None:
    """Tables of the bases and the rows that break the relation have no say; nor does the sort of relation."""
    total = relative(others=("fee",))
    columns: tuple[Any, ...] = (NET, FEE)
    for coded in (total, POWER, dataclasses.replace(total, share=(0.7, 0.2))):
        joint = counts((*columns, coded))
        release = release_of((*columns, counted(coded)), joint, [("net",), ("fee",)])
        for q, low, high in ((0.1, 10.0, 20.0), (0.4, 20.0, 30.0), (0.95, 50.0, 60.0)):
            found = estimate_quantile(release, "y", q, of="table")
            assert found.interval == pytest.approx((low, high))
        # 200 rows lie below 20, and 300 from there to 30.
        found = estimate_quantile(release, "y", 0.4, of="table")
        assert found.value == pytest.approx(20.0 + 10.0 * 200.0 / 300.0)


def test_noise_of_the_cells_makes_intervals_longer() -> None:
    columns = (NET, FEE, POWER)
    joint, found = counts(columns), []
    for noise in (0.01, 100.0, 500.0):
        release = release_of((NET, FEE, counted(POWER, noise)), joint, [("net",), ("fee",)])
        low, high = estimate_quantile(release, "y", 0.4, of="table").interval
        found.append(high - low)
    assert found[0] < found[1] < found[2]
    # A count is off by at most as much as it is expected to be: 0 rows are 0 rows.
    alone = read_alone(release, counted(POWER, 20.0))
    assert alone is not None
    assert alone.measurements[0].sigmas[[0, 2, 7]] == pytest.approx([40.0**0.5 * 20.0**0.5, 800.0**0.5, 2e-5])


def test_sampling_is_added_for_the_population() -> None:
    release = release_of((NET, FEE, counted(POWER, 10.0)), counts((NET, FEE, POWER)), [("net",), ("fee",)])
    table, population = (
        estimate_quantile(release, "y", 0.75, of=of).standard_error  # type: ignore[arg-type,union-attr]
        for of in ("table", "population")
    )
    assert population >= table


def test_neighbours_of_few_rows_are_joined_and_heavy_values_are_not() -> None:
    rng, fine = np.random.default_rng(2), np.arange(2001.0)
    weights = rng.exponential(1.0, 2000)
    weights[777] = 500.0
    own = dataclasses.replace(
        CELLS, edges=(0.0, 2000.0), fine=tuple(fine.tolist()), weights=tuple(weights.tolist())
    )
    column = dataclasses.replace(POWER, own=own)
    release = release_of((NET, FEE, column), counts((NET, FEE, column)), [("net",), ("fee",)])
    alone = read_alone(release, column)
    assert alone is not None
    cells = alone.schema["y"]
    assert isinstance(cells, Real)
    assert cells.present <= MOST_CELLS + 2
    assert {777.0, 778.0} <= set(cells.edges or ())
    assert alone.measurements[0].values.sum() == pytest.approx(weights.sum())


def test_means_that_tables_of_others_do_not_tell_follow_from_own_cells() -> None:
    middles = np.arange(5.0, 80.0, 10.0)
    mean = float(np.asarray(WEIGHTS) @ middles / 1000.0)
    columns: tuple[Any, ...] = (NET, FEE, counted(POWER))
    release = release_of(columns, counts(columns), [("net",), ("fee",)])
    assert estimate_mean(release, "y", of="table").value == pytest.approx(mean)
    # What tables of the bases tell goes first.
    columns = (NET, FEE, counted(relative(others=("fee",))))
    joint = counts(columns)
    total = joint.sum(axis=2) * np.add.outer(numbers(NET), numbers(FEE))
    release = release_of(columns, joint, [("net",), ("fee",)])
    assert estimate_mean(release, "y", of="table").value == pytest.approx(total.sum() / joint.sum())
    columns = (SEX, *columns)
    release = release_of(columns, counts(columns), [("sex",), ("net",), ("fee",)])
    with pytest.raises(InputError, match=r"got \['sex', 'net'\]"):
        estimate_mean(release, "y", "sex")


@pytest.mark.parametrize("factor", [0.5, -2.0])
def test_groups_of_a_line_follow_from_its_base(factor: float) -> None:
    columns = (SEX, NET, relative(factor=factor, offset=7.0))
    joint = counts(columns)
    release = release_of(columns, joint, [("sex", "net"), ("y",)])
    base = estimate_quantile(release, "net", 0.25 if factor > 0 else 0.75, "sex", of="table")
    found = estimate_quantile(release, "y", 0.25, "sex", of="table")
    for label in ("F", "M"):
        ends = sorted(7.0 + factor * end for end in base[label].interval)
        assert found[label].interval == pytest.approx(ends)
        assert found[label].value == pytest.approx(7.0 + factor * base[label].value)
    limits = found.difference("M", "F").interval
    assert limits[0] <= found["M"].value - found["F"].value <= limits[1]
    # Without cells of its own a line is answered in all rows as well.
    assert estimate_quantile(release, "y", 0.5, of="table").interval[0] < 7.0 + max(80.0 * factor, 0.0)


def test_rows_that_break_a_line_may_lie_at_either_end() -> None:
    joint = counts((SEX, NET, relative()))
    joint[:] = 0
    joint[:, :, 0] = [[100, 100, 100, 100], [100, 100, 100, 100]]
    ends = []
    for share in ((1.0, 0.0), (0.9, 0.02), (0.7, 0.1)):
        release = release_of((SEX, NET, relative(share=share)), joint, [("sex", "net"), ("y",)])
        found = estimate_quantile(release, "y", 0.4, "sex", of="table")
        ends.append(found["F"].interval)
        low, high = found.difference("M", "F").interval
        assert low <= ends[-1][0] - ends[-1][1] + 1e-9
        assert high >= ends[-1][1] - ends[-1][0] - 1e-9
    # With .12 and .4 of the rows anywhere, .4 of all are from .32 to .45, and from 0 to .67, of the others.
    assert ends == [pytest.approx(one) for one in ((20.0, 40.0), (20.0, 40.0), (-np.inf, 60.0))]


def test_what_no_table_tells_is_refused() -> None:
    columns = (SEX, NET, FEE, counted(relative(others=("fee",))))
    release = release_of(columns, counts(columns), [("sex", "net"), ("sex", "fee"), ("y",)])
    with pytest.raises(InputError, match=r"codes of 'y' are of net \+ fee.*Leave `by` out"):
        estimate_quantile(release, "y", 0.5, "sex")
    columns = (SEX, NET, relative(APART))
    release = release_of(columns, counts(columns), [("sex", "net", "y")])
    with pytest.raises(InputError, match="or a line of one other"):
        estimate_quantile(release, "y")
    columns = (SEX, NET, relative(factor=2.0))
    release = release_of(columns, counts(columns), [("sex",), ("net",), ("y",)])
    with pytest.raises(
        InputError, match=r"got \['sex', 'net'\]\. Codes of 'y' say how it goes with 2 \* net"
    ):
        estimate_quantile(release, "y", 0.5, "sex")
    with pytest.raises(InputError, match="another column"):
        estimate_quantile(release, "y", 0.5, "net")
    own = Date(name="left", lower="2024-01-01", upper="2024-12-31", missing=False)
    days = Integer(name="left", lower=0, upper=2, missing=False)
    left = Relative(name="left", base="came", base_read="date", own=own, part=days, missing=False)
    came = dataclasses.replace(own, name="came")
    dates = release_of((came, left), counts((came, left)), [("came", "left")])
    with pytest.raises(InputError, match="a column of numbers"):
        estimate_quantile(dates, "left")
