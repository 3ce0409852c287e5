"""Ages on the day of an export, as rows of a release say them where nothing is declared.

    python bench/runs/ages.py [--rows 2000 8000 30000] [--epsilon 1 3] [--repeats 6] [--without]

A made-up table of three dates, the whole years, months and days from them to one day, and two columns apart
is released by `independent` with nothing declared, delta 1e-9. The day is the end of a year for a third of
the releases, and any for the others. A line a size and epsilon: the share of the synthetic rows in which each
number is the time from its date to the day, mean of all releases; how many columns were told to a day that
they are not told to; and what the look took of rho. With --without the look is not taken. The tables are
seeded; noise is not.
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave import Synthesizer
from margrave.measure.discovery.between import calendar
from margrave.privacy.accounting.events import GaussianEvent
from margrave.schema.calendar import Instant, count_units
from margrave.schema.constraints.rules import Age

Longs = NDArray[np.int64]

TOLD = {"age": ("born", "years"), "months": ("joined", "months"), "days": ("seen", "days")}
"""The numbers, the dates that they are told from, and their units."""


def tell(days: Longs, day: int, unit: str) -> Longs:
    """The whole units from some days to one."""
    until = Instant.of(np.array([day]), clock=False)
    return np.asarray(count_units(Instant.of(days, clock=False), until, unit, np.floor_divide))


def make_table(rows: int, seed: int) -> tuple[pa.Table, int]:
    """The table, and the day."""
    rng = np.random.default_rng(seed)
    day = int(rng.integers(18_000, 20_400))
    if seed % 3 == 0:
        day = int(np.datetime64(f"{2018 + seed % 7}-12-31", "D").astype(np.int64))
    dates = {
        "born": day - rng.integers(18 * 365, 95 * 365, rows),
        "joined": day - rng.exponential(2_000.0, rows).astype(np.int64),
        "seen": day - rng.integers(0, 700, rows),
    }
    numbers = {name: tell(dates[date], day, unit) for name, (date, unit) in TOLD.items()}
    apart = {"other": rng.integers(18, 95, rows), "visits": rng.poisson(20.0, rows)}
    held = {name: days.astype("datetime64[D]") for name, days in dates.items()}
    return pa.table({**held, **numbers, **apart}), day


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", nargs="*", type=int, default=[2_000, 8_000, 30_000])
    parser.add_argument("--epsilon", nargs="*", type=float, default=[1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--without", action="store_true", help="Take no look at fixed days.")
    options = parser.parse_args()
    if options.without:
        calendar.find_fixed_days = lambda numbers, dates: []
    print("| rows | epsilon | years | months | days | false | of rho |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for rows in options.rows:
        for epsilon in options.epsilon:
            found = []
            for seed in range(options.repeats):
                table, day = make_table(rows, seed)
                synthesis = Synthesizer("independent", epsilon=epsilon, delta=1e-9).fit(table)
                made = synthesis.sample_arrow(10_000)
                shares = []
                for name, (date, unit) in TOLD.items():
                    days = made[date].to_numpy().astype("datetime64[D]").astype(np.int64)
                    shares.append(float((tell(days, day, unit) == made[name].to_numpy()).mean()))
                rules = [rule for rule in synthesis.schema.rules if isinstance(rule, Age)]
                false = sum(TOLD.get(rule.number) != (rule.date, rule.unit) for rule in rules)
                events = [one for one in synthesis.release.events if isinstance(one, GaussianEvent)]
                spent = [float(one.l2_squared / one.sigma_squared) for one in events]
                looks = [part for one, part in zip(events, spent, strict=True) if "are told to" in one.what]
                found.append((*shares, false, sum(looks) / sum(spent)))
            mean = np.mean(found, axis=0)
            shown = " | ".join(f"{share:.3f}" for share in mean[:3])
            print(f"| {rows:,} | {epsilon:g} | {shown} | {mean[3]:.1f} | {mean[4]:.2%} |", flush=True)


if __name__ == "__main__":
    main()
