"""Moments that say what other columns say, drawn inside their bins and not at the ends of these."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from margrave.schema.columns import Categorical, Moment
from margrave.schema.constraints.rules import DatePart
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BEGIN = 19_450 * DAY
EDGES = tuple(BEGIN + int(day * DAY) + 357_143 for day in (0.0, 2.643, 5.286, 7.929, 10.571, 13.214))
SECOND = 1_000_000


def draw(grids: tuple[tuple[float, float], ...] = ()) -> pa.Table:
    """Rows in bins that end in the middle of days, and on days of the week that are drawn apart."""
    rng = np.random.default_rng(0)
    weights = (1.0,) * (len(EDGES) - 1)
    moment = Moment(name="at", edges=EDGES, weights=weights, missing=False, grids=grids)
    day = Categorical(name="day", values=DAYS, missing=False)
    rule = DatePart("day", "at", "weekday", tuple((name, place) for place, name in enumerate(DAYS)))
    schema = Schema((moment, day), (rule,))
    rows = 20_000
    codes = {"at": rng.integers(0, 5, rows), "day": rng.integers(0, 7, rows)}
    return decode(Encoded(schema.domain, codes, rows), schema, rng=rng)


def test_moments_that_a_weekday_moves_are_not_drawn_at_the_ends_of_bins() -> None:
    drawn = draw(grids=((float(SECOND), 1.0),))
    ticks = np.array(drawn["at"].cast(pa.int64()))
    assert np.unique(ticks, return_counts=True)[1].max() <= 5
    assert (ticks % SECOND == 0).all()
