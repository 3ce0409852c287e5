"""Which formats of numbers and dates discovery finds in a made-up file of which nothing is declared.

    python bench/runs/formats.py [--dates | --stamps] [--rows 500 2000 20000] [--epsilon 0.2 1 3]
        [--repeats 5] [--out FILE]

The table has eleven columns of text, each in one format, beside one of three labels and one of codes that
look like numbers ("123 456"). With `--dates` it has instead ten of dates that name the month, are numbers, as
statistics packages write them, or are digits with the year last, beside numbers and codes of eight digits.
With `--stamps` it has time stamps as numbers of 12 and 14 digits beside plain numbers of 8, 12 and 14, and
moments with an offset from UTC, whose time zone is what has to be found. Discovery alone is run, with the
third of rho that it has by default. A line a setting:

    found      share of the columns that became numbers or dates in the format they are written in
    wrong      share that became numbers or dates in another format, by column
    text       share that stayed text, by column
    codes      share of the runs in which the codes, or numbers, took no format

The rows come from seed 5; noise has no seed, so another run differs.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from margrave.engines.memory import MemorySource
from margrave.measure.curator import Curator
from margrave.privacy.accounting.accountants import ZCDP
from margrave.privacy.ledger.ledger import Ledger
from margrave.privacy.unit import Neighbours
from margrave.schema.columns import Binned, Moment
from margrave.schema.columns.relative import take_own
from margrave.schema.storage import forms

SHARE = Fraction(1, 3)
"""What discovery may spend by default."""
FORMATS = {
    "us": "%m/%d/%Y",
    "german": "%d.%m.%Y",
    "short": "%-m/%-d/%y",
    "seen": "%m/%d/%Y %p",
    "dollars": "$1,234.5",
    "euros": "1.234,5 €",
    "comma": "1234,5",
    "percent": "1234.5%",
    "people": "1,234.5",
    "swiss": "1'234.5",
    "slashed": "%Y/%m/%d",
}


DATE_FORMATS = {
    "sas": "%d%^b%Y",
    "stata": "%d%#b%Y",
    "oracle": "%d-%^b-%y",
    "excel": "%-d-%b-%y",
    "letter": "%B %-d, %Y",
    "clock": "%d%^b%Y:%H",
    "digits": "%Y%m%d",
    "pointed": "%Y%m%d.0",
    "datasus": "%d%m%Y",
    "american": "%m%d%Y",
}


def make_dates(rows: int, seed: int = 5) -> dict[str, list[str]]:
    """The cells of the other made-up table, by column."""
    rng = np.random.default_rng(seed)
    days = [datetime.date(2010, 1, 1) + datetime.timedelta(int(n)) for n in rng.integers(0, 4000, rows)]
    seconds = rng.integers(0, 86_400, rows).tolist()
    clocks = [f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}" for second in seconds]
    return {
        "sas": [day.strftime("%d%b%Y").upper() for day in days],
        "stata": [day.strftime("%d%b%Y").lower() for day in days],
        "oracle": [day.strftime("%d-%b-%y").upper() for day in days],
        "excel": [f"{day.day}-{day:%b-%y}" for day in days],
        "letter": [f"{day:%B} {day.day}, {day.year}" for day in days],
        "clock": [f"{day:%d%b%Y}:{clock}".upper() for day, clock in zip(days, clocks, strict=True)],
        "digits": [day.strftime("%Y%m%d") for day in days],
        "pointed": [day.strftime("%Y%m%d.0") for day in days],
        "datasus": [day.strftime("%d%m%Y") for day in days],
        "american": [day.strftime("%m%d%Y") for day in days],
        "part": [str(n) for n in rng.integers(18_000_000, 22_000_000, rows).tolist()],
        "account": [f"{n:08d}" for n in rng.integers(0, 10**8, rows).tolist()],
        "group": [f"g{second % 3}" for second in seconds],
    }


STAMP_FORMATS = {
    "seconds": "%Y%m%d%H%M%S",
    "minutes": "%Y%m%d%H%M",
    "floats": "%Y%m%d%H%M%S.0",
    "fixed": "+02:00",
    "berlin": "Europe/Berlin",
    "york": "America/New_York",
    "short": "-05:00",
    "zulu": "UTC",
}
"""The format of each column, or the zone of its moments."""
PLAIN = ("part", "account", "part_7", "part_12", "part_14", "row_12", "row_14")
"""Columns that are to take no format."""


def make_stamps(rows: int, seed: int = 5) -> dict[str, list[str]]:
    """The cells of the table of time stamps, by column."""
    rng = np.random.default_rng(seed)
    start, seconds = pd.Timestamp("2013-01-01"), rng.integers(0, 2 * 365 * 86_400, (8, rows))
    when = [pd.Series(start + pd.to_timedelta(own, "s")) for own in seconds]
    berlin, york = (
        when[place].dt.tz_localize("UTC").dt.tz_convert(zone)
        for place, zone in ((4, "Europe/Berlin"), (5, "America/New_York"))
    )
    written = {
        "seconds": when[0].dt.strftime("%Y%m%d%H%M%S"),
        "minutes": when[1].dt.strftime("%Y%m%d%H%M"),
        "floats": when[2].dt.strftime("%Y%m%d%H%M%S.0"),
        "fixed": when[3].dt.strftime("%Y-%m-%dT%H:%M:%S+02:00"),
        "berlin": berlin.map(lambda one: one.isoformat()),
        "york": york.dt.strftime("%Y-%m-%d %H:%M:%S%z"),
        "short": when[6].dt.strftime("%Y-%m-%d %H:%M:%S-05"),
        "zulu": when[7].dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    plain = {
        "part": rng.integers(18_000_000, 22_000_000, rows),
        "part_7": rng.integers(1_800_000, 2_200_000, rows),
        "part_12": rng.integers(180 * 10**9, 220 * 10**9, rows),
        "part_14": rng.integers(18 * 10**12, 22 * 10**12, rows),
        "row_12": 201_303 * 10**6 + rng.permutation(rows),
        "row_14": 20_130_328 * 10**6 + rng.permutation(rows),
    }
    cells = {name: column.tolist() for name, column in written.items()}
    return cells | {name: list(map(str, numbers.tolist())) for name, numbers in plain.items()}


def make_table(rows: int, seed: int = 5) -> dict[str, list[str]]:
    """The cells of the made-up table, by column."""
    rng = np.random.default_rng(seed)
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(int(n)) for n in rng.integers(0, 900, rows)]
    amounts = np.round(np.exp(rng.normal(7.2, 0.9, rows)), 2).tolist()
    people = np.round(np.exp(rng.normal(8.0, 1.5, rows))).astype(int).tolist()
    hours, shares = rng.integers(0, 24, rows).tolist(), rng.integers(0, 101, rows).tolist()
    german = str.maketrans(",.", ".,")
    return {
        "us": [day.strftime("%m/%d/%Y") for day in days],
        "german": [day.strftime("%d.%m.%Y") for day in days],
        "short": [f"{day.month}/{day.day}/{day:%y}" for day in days],
        "seen": [
            f"{day:%m/%d/%Y} {(hour + 11) % 12 + 1:02d}:30 {'PM' if hour > 11 else 'AM'}"
            for day, hour in zip(days, hours, strict=True)
        ],
        "dollars": [f"${value:,.2f}" for value in amounts],
        "euros": [f"{value:,.2f} €".translate(german) for value in amounts],
        "comma": [f"{value:.1f}".replace(".", ",") for value in amounts],
        "percent": [f"{share}%" for share in shares],
        "people": [f"{count:,}" for count in people],
        "swiss": [f"{value:,.2f}".replace(",", "'") for value in amounts],
        "slashed": [day.strftime("%Y/%m/%d") for day in days],
        "part": [f"{n // 1000} {n % 1000:03d}" for n in rng.integers(100_000, 999_999, rows).tolist()],
        "group": [f"g{share % 3}" for share in shares],
    }


def find_formats(cells: dict[str, list[str]], epsilon: float) -> dict[str, str | None]:
    """The format that discovery finds for each column, or the zone; None where it stays text."""
    table = pa.table({name: forms.normal(pa.array(texts), name) for name, texts in cells.items()})
    ledger = Ledger(
        epsilon=epsilon,
        delta=1e-6,
        neighbours=Neighbours(),
        accountant=ZCDP(),
        partition_delta=Fraction(1, 4_000_000),
    )
    source = MemorySource(table, frozenset(cells))
    schema = Curator(source, ledger).discover(None, ledger.total * SHARE)
    columns = {one.name: take_own(one) for one in schema.columns}
    zones = {name: one.zone for name, one in columns.items() if isinstance(one, Moment)}
    found = {name: one.format if isinstance(one, Binned) else None for name, one in columns.items()}
    return {name: zones.get(name) or written for name, written in found.items()}


def judge(rows: int, epsilon: float, repeats: int, kind: str) -> dict[str, Any]:
    """What was found in a number of runs, as a line of the outcome."""
    make, formats = TABLES[kind]
    cells = make(rows)
    runs = [find_formats(cells, epsilon) for _ in range(repeats)]
    found = [statistics.mean(run[name] == written for name, written in formats.items()) for run in runs]
    texts = Counter(name for run in runs for name in formats if not run[name])
    wrong = Counter(name for run in runs for name in formats if run[name] and run[name] != formats[name])
    return {
        "rows": rows,
        "epsilon": epsilon,
        "repeats": repeats,
        "found": round(statistics.mean(found), 3),
        "least": round(min(found), 3),
        "wrong": dict(wrong),
        "text": dict(texts),
        "codes": statistics.mean(not run[name] for run in runs for name in PLAIN if name in cells),
    }


TABLES: dict[str, tuple[Callable[[int], dict[str, list[str]]], dict[str, str]]] = {
    "formats": (make_table, FORMATS),
    "dates": (make_dates, DATE_FORMATS),
    "stamps": (make_stamps, STAMP_FORMATS),
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    kinds = parser.add_mutually_exclusive_group()
    for kind in ("dates", "stamps"):
        kinds.add_argument(
            f"--{kind}", dest="kind", action="store_const", const=kind, help=f"the table of {kind}"
        )
    parser.set_defaults(kind="formats")
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 2000, 20000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1.0, 3.0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="append the lines to this file")
    args = parser.parse_args()
    for rows in args.rows:
        for epsilon in args.epsilon:
            line = json.dumps(judge(rows, epsilon, args.repeats, args.kind))
            print(line, flush=True)
            if args.out is not None:
                with open(args.out, "a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
