"""A date that is coded by a moment stays its day where the moment moves for a number."""

from __future__ import annotations

import numpy as np

from margrave.schema.columns import Date, Integer, Moment, Relative
from margrave.schema.constraints.rules import DatePart, Elapsed
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema
from margrave.schema.storage.clock import DAY

ROWS, FIRST, LAST = 400, 19_000, 19_100


def test_days_move_with_moments_over_midnight_alone() -> None:
    edges = (FIRST * DAY, LAST * DAY)
    called, came = (Moment(name=name, edges=edges, missing=False) for name in ("called", "came"))
    own = Date(name="day", edges=(FIRST - 1, LAST + 1), missing=False)
    part = Integer(name="day", edges=(0, 1), missing=False)
    day = Relative(name="day", base="called", base_read="moment", own=own, part=part, missing=False)
    waited = Integer(name="waited", edges=(0, 3_600), missing=False)
    hour = Integer(name="hour", edges=(0, 24), missing=False)
    # What came says the hour, so that the call moves.
    rules = (Elapsed("waited", "called", "came", "seconds"), DatePart("hour", "came", "hour"))
    schema = Schema((called, came, day, waited, hour), rules)
    codes = tuple(np.zeros(ROWS, np.uint8) for _ in schema.columns)
    made = decode(Encoded(schema.domain, codes), schema, np.random.default_rng(0)).to_pydict()
    waits = [came - called for called, came in zip(made["called"], made["came"], strict=True)]
    # Two moments of a hundred days are an hour apart by the move alone.
    assert np.mean([0 <= wait.total_seconds() <= 3_600 for wait in waits]) > 0.4
    assert [moment.date() for moment in made["called"]] == made["day"]
