"""Numbers that dates tell, as the first look of `evaluate` finds them among exact columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from margrave import evaluate
from margrave.evaluation.metrics.told_times import _find_day
from margrave.schema.calendar import FIRST_DAY, LAST_DAY


def test_the_day_that_most_ranges_hold_lies_in_the_calendar() -> None:
    """Counts of days, taken for ages, led beyond the year 9999, and `evaluate` ended in an error."""
    assert _find_day(np.array([3_000_000, 3_000_000]), np.array([3_000_364, 3_000_200])) == (LAST_DAY, 2)
    assert _find_day(np.array([-900_000]), np.array([-899_700])) == (FIRST_DAY, 1)
    assert _find_day(np.array([18_000, 18_200]), np.array([18_364, 18_564])) == (18_261, 2)  # 2019-12-31


@pytest.mark.filterwarnings("ignore::margrave.errors.NotPrivateWarning")
def test_tables_with_large_numbers_beside_dates_are_compared() -> None:
    rng = np.random.default_rng(0)
    days = pd.Series(pd.Timestamp("2010-01-01") + pd.to_timedelta(rng.integers(0, 2_500, 500), "D"))
    table = pd.DataFrame(
        {"day": days.dt.date, "excel": (days - pd.Timestamp("1899-12-30")).dt.days, "code": 8_000_000}
    )
    assert evaluate(table, table.sample(frac=1.0, random_state=0)) is not None
