"""Columns of dates of one table are written alike where they do not evidently say otherwise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from margrave import Synthesizer
from margrave.schema.columns import Date
from margrave.schema.storage.date_votes import choose_date_format, share_date_formats
from margrave.schema.storage.spelling import spellings

FULL = ["28/03/2013", "03/07/2013", "13/12/1999"]
FIRSTS = ["01/02/2013", "01/11/2013"]


@pytest.mark.parametrize(
    ("columns", "formats"),
    [
        # Days that are first ones do not say which number is the month.
        ([FULL, FIRSTS], ["%d/%m/%Y", "%d/%m/%Y"]),
        ([["03/28/2013", "12/07/2013"], ["01/02/2013"]], ["%m/%d/%Y", "%m/%d/%Y"]),
        # What is evident stays.
        ([FULL, ["03/28/2013", "07/31/2013"]], ["%d/%m/%Y", "%m/%d/%Y"]),
        ([FULL, ["03.07.2013"]], ["%d/%m/%Y", "%d.%m.%Y"]),
        ([FULL, ["28-Mar-2013"]], ["%d/%m/%Y", "%d-%b-%Y"]),
        ([FULL, ["2013/07/03"]], ["%d/%m/%Y", "%Y/%m/%d"]),
        # How times end is each column's own.
        ([FULL, ["01/02/2013 05:11:00 PM"]], ["%d/%m/%Y", "%d/%m/%Y %p"]),
        # A column without evident dates is written as the others are.
        ([FULL, []], ["%d/%m/%Y", "%d/%m/%Y"]),
        ([["28MAR2013", "03JUL2013"], []], ["%d%^b%Y", "%d%^b%Y"]),
    ],
)
def test_columns_follow_the_others_unless_they_say_otherwise(
    columns: list[list[str]], formats: list[str]
) -> None:
    texts = [pa.array(own * (300 // max(len(own), 1)), pa.string()) for own in columns]
    votes = [spellings(own, "date format").astype(np.float64) for own in texts]
    found = [choose_date_format(own, 10.0) for own in votes]
    assert share_date_formats(found, votes, [10.0] * len(votes), 14.0) == formats


def test_dates_of_hiring_are_read_as_dates_of_birth_are(tmp_path: Path) -> None:
    """Before, the month came first in seven of eight such releases."""
    rng = np.random.default_rng(0)
    born = pd.Timestamp("1960-01-01") + pd.to_timedelta(rng.integers(0, 15_000, 5_000), unit="D")
    days, months = rng.choice([1, 15], 5_000, p=[0.8, 0.2]), rng.integers(1, 13, 5_000)
    years = rng.integers(1990, 2024, 5_000)
    hired = [f"{day:02}/{month:02}/{year}" for day, month, year in zip(days, months, years, strict=True)]
    table = pd.DataFrame(
        {"born": born.strftime("%d/%m/%Y"), "hired": hired, "grade": rng.integers(1, 9, 5_000)}
    )
    for place in range(12):
        table[f"flag_{place}"] = rng.choice(["Y", "N"], 5_000)
    table.to_csv(tmp_path / "staff.csv", index=False)
    for seed in range(2):
        synthesizer = Synthesizer("independent", epsilon=1, delta=1e-9, not_private_test_seed=seed)
        columns = synthesizer.fit(tmp_path / "staff.csv").schema.columns[:2]
        own = [getattr(column, "own", column) for column in columns]
        assert [column.format for column in own if isinstance(column, Date)] == ["%d/%m/%Y"] * 2
