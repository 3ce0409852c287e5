"""Moments that say what other columns say, drawn inside their bins and not at the ends of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from margrave.schema.columns import Categorical, Date, Integer, Moment, Real, Relative
from margrave.schema.constraints.rules import DatePart
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BEGIN = 19_450 * DAY
EDGES = tuple(BEGIN + int(day * DAY) + 357_143 for day in (0.0, 2.643, 5.286, 7.929, 10.571, 13.214))


def draw() -> tuple[Any, pa.Table]:
    """The bins of rows, which end in the middle of days, and the rows; days of the week are drawn apart."""
    rng = np.random.default_rng(0)
    weights = (1.0,) * (len(EDGES) - 1)
    moment = Moment(name="at", edges=EDGES, weights=weights, missing=False)
    day = Categorical(name="day", values=DAYS, missing=False)
    rule = DatePart("day", "at", "weekday", tuple((name, place + 1) for place, name in enumerate(DAYS)))
    schema = Schema((moment, day), (rule,))
    rows = 20_000
    codes = {
        "at": rng.integers(0, 5, rows).astype(np.uint8),
        "day": rng.integers(0, 7, rows).astype(np.uint8),
    }
    return codes["at"], decode(Encoded(schema.domain, tuple(codes.values())), schema, rng=rng)


def test_moments_that_a_weekday_moves_are_not_drawn_at_the_ends_of_bins() -> None:
    bins, drawn = draw()
    ticks = np.array(drawn["at"].cast(pa.int64()))
    at = np.array(drawn["at"]).astype("datetime64[us]").astype(np.int64)
    assert (np.searchsorted(EDGES, at, side="right") - 1 == bins).all()
    assert np.unique(ticks, return_counts=True)[1].max() <= 5
    told = (np.array(drawn["at"]).astype("datetime64[D]").astype(np.int64) + 3) % 7
    assert [DAYS[day] for day in told] == drawn["day"].to_pylist()


def test_what_an_end_cell_leads_out_of_range_is_drawn_from_the_columns_own_cells() -> None:
    rng = np.random.default_rng(0)
    edges, held = (0, 1, 100, 1_000, 400_000), (500.0, 2_000.0, 7_000.0, 500.0)
    own = Integer(name="due", edges=edges, fine=edges, weights=held)
    quotient = Real(name="due", edges=(0.0, 0.5, 1.0, 1.0 + 2**-52, 1024.0), missing=False)
    difference = Integer(name="due", edges=(-8192, 0, 1, 4096, 500_000), missing=False)
    pay = Integer(name="pay", edges=(0, 1, 1_000), weights=(1.0, 9.0), missing=False)
    for how, part in (("quotient", quotient), ("difference", difference)):
        due = Relative(name="due", base="pay", how=how, own=own, part=part, missing=False)
        schema = Schema((pay, due))
        codes = (rng.integers(0, 2, 5_000).astype(np.uint8), np.full(5_000, 3, dtype=np.uint8))
        drawn = decode(Encoded(schema.domain, codes), schema, rng=rng)
        first, last = np.array(drawn["pay"]), np.array(drawn["due"])
        assert (last > first).all()
        assert (last == 399_999).mean() < 0.01
        if how == "quotient":
            assert np.median(last) < 2_000


def test_days_that_an_end_cell_leads_out_of_range_do_not_pile_up_at_its_end() -> None:
    rng = np.random.default_rng(0)
    cells = (18_000, 18_500, 18_990, 19_000)
    own = Date(name="closed", edges=cells, fine=cells, weights=(500.0, 2_000.0, 10.0), missing=False)
    part = Integer(name="closed", edges=(0, 100, 600), missing=False)
    closed = Relative(name="closed", base="seen", base_read="date", own=own, part=part, missing=False)
    seen = Date(name="seen", lower="2019-01-01", upper="2021-12-31", bins=4, missing=False)
    schema = Schema((seen, closed))
    codes = (rng.integers(0, 4, 5_000).astype(np.uint8), np.full(5_000, 1, dtype=np.uint8))
    drawn = decode(Encoded(schema.domain, codes), schema, rng=rng)
    first, last = (np.array(drawn[name].cast(pa.int32())) for name in ("seen", "closed"))
    inside = first < 18_900
    assert (last >= first).all()
    assert (last[inside] == 18_999).mean() < 0.02
    assert (last[inside] <= 18_999).all()
