"""Seasons, weekends, weeks and other parts of a date that rows of a release keep to with nothing declared.

    python bench/runs/date_parts.py [--rows 2000 8000 30000] [--epsilon 1 3] [--repeats 3]
        [--without | --periods]

A made-up text file of sales of ten years is released by `independent` with nothing declared, delta 1e-9: a
date, and in columns whose names or texts say so what it tells: the season of the north and of the south, half
of the year, types of days and a flag of weekends, the week, the day of the year, the decade, a fiscal year
from July. Beside each stands a column of the same kind that has nothing to do with the date. A line a size
and epsilon, means of all releases: the share of the synthetic rows in which each is what the date says; how
many of the columns that have nothing to do with it are told by it. With --without discovery seeks none of
these parts. With --periods the table is one of Arrow instead, and the columns are the month as 2014-03, as
Mar 2014, as its first and as its last day, the Monday of the week, fiscal years as text in four spellings,
and a truth value for weekends. Tables are seeded; noise is not.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as csv
from numpy.typing import NDArray

import margrave.measure.discovery.between.calendar as discovery
from margrave import Synthesizer
from margrave.schema.calendar import NAMED_PARTS
from margrave.schema.constraints.rules import DatePart

SEASONS = np.array(["winter", "spring", "summer", "autumn"])
DAYS = np.array(["weekday", "weekend"])
ALONE = ("fy_april", "academic_year")
"""Columns without another one of the same kind: no more than forty rules are counted together."""


def tell_parts(days: NDArray[np.datetime64]) -> dict[str, NDArray[Any]]:
    """What each day says, by column."""
    months, years = (days.astype(f"datetime64[{unit}]") for unit in "MY")
    month, year = months.astype(int) % 12 + 1, years.astype(int) + 1970
    late = ((days.astype(int) + 3) % 7 >= 5).astype(int)
    season = month % 12 // 3
    thursday = days + 3 - (days.astype(int) + 3) % 7
    return {
        "season": SEASONS[season],
        "season_south": SEASONS[(season + 2) % 4],
        "half": np.array(["H1", "H2"])[(month > 6).astype(int)],
        "day_type": DAYS[late],
        "is_weekend": late,
        "week": (thursday - thursday.astype("datetime64[Y]").astype("datetime64[D]")).astype(int) // 7 + 1,
        "day_of_year": (days - years.astype("datetime64[D]")).astype(int) + 1,
        "decade": year // 10 * 10,
        "fiscal_year": year + (month >= 7),
    }


def tell_periods(days: NDArray[np.datetime64]) -> dict[str, NDArray[Any]]:
    """What each day says of the period that it is in, as text but for the truth values, by column."""
    months = days.astype("datetime64[M]")
    month, year = months.astype(int) % 12 + 1, months.astype(int) // 12 + 1970
    named = pd.Series(months.astype("datetime64[s]")).dt.strftime("%b %Y").to_numpy().astype(str)
    april, july, september = ((year + (month >= first)).tolist() for first in (4, 7, 9))
    weekday = (days.astype(int) + 3) % 7
    return {
        "month": months.astype(str),
        "month_name": named,
        "month_start": months.astype("datetime64[D]").astype(str),
        "month_end": ((months + 1).astype("datetime64[D]") - 1).astype(str),
        "week_start": (days - weekday).astype(str),
        "fy_july": np.array([f"FY{end}" for end in july]),
        "fy_april": np.array([f"FY{end % 100:02}" for end in april]),
        "tax_year": np.array([f"{end - 1}/{end % 100:02}" for end in april]),
        "academic_year": np.array([f"{end - 1}/{end}" for end in september]),
        "is_weekend": weekday >= 5,
    }


def make_table(rows: int, seed: int, periods: bool = False) -> pa.Table:
    """The table."""
    rng = np.random.default_rng(seed)
    days = np.datetime64("2014-01-01") + rng.integers(0, 3_652, rows)
    told = tell_periods(days) if periods else tell_parts(days)
    apart = {f"other_{name}": rng.permutation(values) for name, values in told.items() if name not in ALONE}
    amount = rng.gamma(2.0, 30.0, rows).round(2)
    return pa.table({"sold": days, "amount": amount, **told, **apart})


def score(table: pa.Table, epsilon: float, folder: Path, periods: bool) -> list[float]:
    """The share of rows that keep to each part, and how many other columns the date seems to tell."""
    csv.write_csv(table, folder / "sold.csv")
    data = table if periods else folder / "sold.csv"
    synthesis = Synthesizer("independent", epsilon=epsilon, delta=1e-9).fit(data)
    made = synthesis.sample(10_000) if periods else synthesis.sample_arrow(10_000)
    days = np.array([str(day) for day in made["sold"].to_pylist()], dtype="datetime64[D]")
    told = tell_periods(days) if periods else tell_parts(days)
    shares = [
        np.mean([str(a) == str(b) for a, b in zip(made[name].to_pylist(), values.tolist(), strict=True)])
        if name in made.column_names
        else 0.0
        for name, values in told.items()
    ]
    rules = [rule for rule in synthesis.schema.rules if isinstance(rule, DatePart)]
    return [*map(float, shares), float(sum(rule.number.startswith("other_") for rule in rules))]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", nargs="*", type=int, default=[2_000, 8_000, 30_000])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--without", action="store_true", help="Seek none of these parts.")
    parser.add_argument("--periods", action="store_true", help="The table of periods and fiscal years.")
    options = parser.parse_args()
    if options.without:
        read = discovery.list_names
        discovery.list_named_parts = lambda name: ()
        discovery.list_names = lambda column: (
            None if (found := read(column)) is None or found[0] in NAMED_PARTS else found
        )
    tell = tell_periods if options.periods else tell_parts
    names = list(tell(np.array(["2020-01-01"], dtype="datetime64[D]")))
    print(f"| rows | epsilon | {' | '.join(names)} | false |")
    print(f"|{' --- |' * (len(names) + 3)}")
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.rows:
            for epsilon in options.epsilon:
                lines = [
                    score(make_table(rows, seed, options.periods), epsilon, Path(folder), options.periods)
                    for seed in range(options.repeats)
                ]
                *shares, false = np.mean(lines, axis=0)
                shown = " | ".join(f"{share:.3f}" for share in shares)
                print(f"| {rows:,} | {epsilon:g} | {shown} | {false:.1f} |", flush=True)


if __name__ == "__main__":
    main()
