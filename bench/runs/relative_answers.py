"""Quantiles, means and coefficients of columns that discovery codes by others: how often covered, how long.

    python bench/runs/relative_answers.py [--tables bills broken bodies] [--epsilon .5 1 3] [--releases 4]
                                          [--rows 4000 20000] [--keep FOLDER]

Made-up tables, nothing declared, `auto`, delta 1e-9. `bills`: paid is .4 to 1 times charge, total is net +
fee, tax is .19 times net, born is 2023 less age, amount is quantity times price; `broken`: the same, but 5 %
of the taxes are 0, 6 % of the totals have a rebate, 4 % of the births lie up to 29 years before, and 1 % paid
half again; `bodies`: a body mass index, a speed, degrees in Fahrenheit. Of each release the mean, the median
by sex and the quantiles .1, .25, .5, .75, .9 of every column of numbers, and for each of them as target the
coefficients of a linear regression on the sex and on another column, and that of it in a regression of the
other column on it and the sex. The truth is that of the private table.
A line for each table, epsilon, sort of column and answer: how many were asked for and answered, the share of
95 % intervals that hold the truth, and their median length in standard deviations of the column (of both, for
coefficients). Tables are drawn by seeds, noise has none; with --keep releases are kept in a folder, and read
from there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import margrave as mg
from margrave.errors import InputError
from margrave.regression import linear
from margrave.schema.columns import Relative

TABLES = ("bills", "broken", "bodies")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
DELTA = 1e-9
FEATURES = {"bills": ("sex", "visits"), "broken": ("sex", "visits"), "bodies": ("sex", "age")}
Floats = np.ndarray[Any, np.dtype[np.float64]]
Outcomes = dict[tuple[str, str], list[tuple[bool, float] | None]]


def draw_bills(rows: int, rng: np.random.Generator, *, broken: bool) -> dict[str, Any]:
    """Columns of bills, shape [rows] each."""
    visits = rng.poisson(3.0, rows) + 1
    man = rng.random(rows) < 0.5
    age = np.clip(np.round(rng.normal(45.0 + 3.0 * man, 15.0)), 18, 90)
    charge = np.round(np.exp(rng.normal(5.0 + 0.1 * visits, 0.6)), 2)
    share = np.round(rng.uniform(0.4, 1.0, rows), 3)
    net = np.round(rng.gamma(3.0, 20.0 + 3.0 * visits), 2)
    fee = np.round(rng.gamma(4.0, 4.0, rows), 2)
    quantity, price = rng.integers(1, 9, rows), rng.choice([4.5, 7.0, 9.9, 15.0, 22.0, 30.0], rows)
    total, tax, born, paid = net + fee, 0.19 * net, 2023 - age, charge * share
    if broken:
        tax = np.where(rng.random(rows) < 0.05, 0.0, tax)
        total = total * np.where(rng.random(rows) < 0.06, 0.7, 1.0)
        born = born - np.where(rng.random(rows) < 0.04, rng.integers(1, 30, rows), 0)
        paid = np.where(rng.random(rows) < 0.01, 1.5 * charge, paid)
    numbers = {
        "visits": visits,
        "age": age.astype(np.int64),
        "born": born.astype(np.int64),
        "charge": charge,
        "paid": np.round(paid, 2),
        "net": net,
        "fee": fee,
        "total": np.round(total, 2),
        "tax": np.round(tax, 2),
        "quantity": quantity,
        "price": price,
        "amount": np.round(quantity * price, 2),
    }
    return {"sex": np.where(man, "M", "F"), **numbers}


def draw_bodies(rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Columns of bodies and trips, shape [rows] each."""
    man = rng.random(rows) < 0.5
    age = rng.integers(18, 80, rows)
    height = np.round(rng.normal(1.64 + 0.12 * man, 0.07), 2)
    weight = np.round(np.clip(rng.normal(24.0 + 0.05 * age, 4.0), 15, 50) * height**2, 1)
    hours = np.round(rng.gamma(4.0, 0.6, rows) + 0.2, 1)
    distance = np.round(hours * rng.normal(52.0 - 0.2 * age, 9.0).clip(8, 90), 0)
    celsius = np.round(rng.normal(12.0, 8.0, rows), 1)
    pieces = rng.integers(2, 12, rows)
    numbers = {
        "age": age,
        "height": height,
        "weight": weight,
        "index": np.round(weight / height**2, 1),
        "hours": hours,
        "distance": distance.astype(np.int64),
        "speed": np.round(distance / hours, 1),
        "celsius": celsius,
        "fahrenheit": np.round(1.8 * celsius + 32.0, 1),
        "pieces": pieces,
    }
    return {"sex": np.where(man, "M", "F"), **numbers}


def draw_table(kind: str, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """The columns of a made-up table."""
    return draw_bodies(rows, rng) if kind == "bodies" else draw_bills(rows, rng, broken=kind == "broken")


def make_release(kind: str, rows: int, epsilon: float, place: int, keep: Path | None) -> Any:
    """The columns, and a release of them.

    Args:
        kind, rows: Of the table.
        epsilon: Of the release.
        place: Which of several; the table's seed.
        keep: Where releases are kept.
    """
    columns = draw_table(kind, rows, np.random.default_rng([place, rows]))
    path = None if keep is None else keep / f"{kind}-{rows}-{epsilon:g}-{place}.margrave"
    if path is not None and path.exists():
        return columns, mg.load(path)
    release = mg.Synthesizer("auto", epsilon=epsilon, delta=DELTA).fit(pa.table(columns))
    if path is not None:
        release.save(path)
    return columns, release


def note(found: Outcomes, sort: str, answer: str, ask: Any, truth: float, spread: float) -> None:
    """Add one outcome: whether the interval holds the truth and how long it is; None if it is refused."""
    try:
        low, high = ask()
    except InputError:
        found[sort, answer].append(None)
        return
    slack = 1e-9 * (1.0 + abs(truth))  # limits are numbers of bins, which floats round
    found[sort, answer].append((bool(low - slack <= truth <= high + slack), float(high - low) / spread))


def ask_coefficients(found: Outcomes, release: Any, kind: str, name: str, sort: str, columns: Any) -> None:
    """Add the coefficients of a regression of a column on two others, in standard deviations of both."""
    features = [one for one in FEATURES[kind] if one != name]
    numbers = [columns[one] == "M" if one == "sex" else columns[one] for one in features]
    design = np.column_stack([np.ones(len(columns["sex"])), *(one.astype(float) for one in numbers)])
    truth = np.linalg.lstsq(design, columns[name].astype(float), rcond=None)[0]
    try:
        fitted = linear(release, name, features=features, reference={"sex": "F"}, of="table")
    except InputError:
        for _ in features:
            found[sort, "coefficient"].append(None)
        return
    for place, one in enumerate(features, start=1):
        label = "sex=M" if one == "sex" else one
        if label not in fitted.names or np.isnan(fitted.lower[fitted.names.index(label)]):
            found[sort, "coefficient"].append(None)
            continue
        at = fitted.names.index(label)
        spread = float(columns[name].std() / design[:, place].std())
        low, high = float(fitted.lower[at]), float(fitted.upper[at])
        note(found, sort, "coefficient", lambda low=low, high=high: (low, high), float(truth[place]), spread)


def ask_slope(found: Outcomes, release: Any, kind: str, name: str, sort: str, columns: Any) -> None:
    """Add the coefficient of a column in a regression of another on it and the sex, in deviations of both."""
    other = FEATURES[kind][1]
    design = np.column_stack([np.ones(len(columns["sex"])), columns[name], columns["sex"] == "M"])
    truth = np.linalg.lstsq(design.astype(float), columns[other].astype(float), rcond=None)[0]
    try:
        fitted = linear(release, other, features=[name, "sex"], of="table")
    except InputError:
        found[sort, "slope on it"].append(None)
        return
    if name not in fitted.names or np.isnan(fitted.lower[fitted.names.index(name)]):
        found[sort, "slope on it"].append(None)
        return
    at, spread = fitted.names.index(name), float(columns[other].std() / columns[name].std())
    interval = float(fitted.lower[at]), float(fitted.upper[at])
    note(found, sort, "slope on it", lambda: interval, float(truth[1]), spread)


def ask_release(found: Outcomes, kind: str, columns: dict[str, Any], release: Any) -> None:
    """Add all that is asked of one release."""
    for name in release.schema.names:
        values = columns[name]
        if name == "sex":
            continue
        column, spread = release.schema[name], float(values.std())
        sort = f"relative, {column.how}" if isinstance(column, Relative) else "plain"
        ordered = np.sort(values)
        for q in QUANTILES:
            truth = float(ordered[max(int(np.ceil(q * len(ordered))) - 1, 0)])
            answer = f"quantile {q:g}"
            note(
                found,
                sort,
                answer,
                lambda n=name, q=q: release.quantile(n, q, of="table").interval,
                truth,
                spread,
            )
        mean = float(values.mean())
        note(found, sort, "mean", lambda n=name: release.mean(n, of="table").interval, mean, spread)
        for sex in ("F", "M"):
            truth = float(np.quantile(values[columns["sex"] == sex], 0.5, method="inverted_cdf"))
            ask = lambda n=name, s=sex: release.quantile(n, 0.5, "sex", of="table")[s].interval  # noqa: E731
            note(found, sort, "median by sex", ask, truth, spread)
        ask_coefficients(found, release, kind, name, sort, columns)
        if name != FEATURES[kind][1]:
            ask_slope(found, release, kind, name, sort, columns)


def say_lines(found: Outcomes, head: dict[str, Any]) -> list[str]:
    """A line of JSON for each sort of column and answer."""
    lines = []
    for (sort, answer), outcomes in sorted(found.items()):
        held = [one for one in outcomes if one is not None]
        line = head | {"column": sort, "answer": answer, "asked": len(outcomes), "answered": len(held)}
        if held:
            ends = [length for _, length in held]
            line |= {"covered": round(float(np.mean([hit for hit, _ in held])), 3)}
            line |= {"length": round(float(np.median(ends)), 3), "endless": int(np.isinf(ends).sum())}
        lines.append(json.dumps(line))
    return lines


def main() -> None:
    """Print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=TABLES)
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.5, 1.0, 3.0])
    parser.add_argument("--rows", nargs="+", type=int, default=[4_000, 20_000])
    parser.add_argument("--releases", type=int, default=4)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    every: dict[float, Outcomes] = {epsilon: defaultdict(list) for epsilon in options.epsilon}
    for kind in options.tables:
        for epsilon in options.epsilon:
            start, found = time.perf_counter(), defaultdict[tuple[str, str], list[Any]](list)
            for rows in options.rows:
                for place in range(options.releases):
                    ask_release(found, kind, *make_release(kind, rows, epsilon, place, options.keep))
            for key, outcomes in found.items():
                every[epsilon][key] += outcomes
            print("\n".join(say_lines(found, {"table": kind, "epsilon": epsilon})), flush=True)
            print(f"# {time.perf_counter() - start:.0f} s", flush=True)
    for epsilon, found in every.items():
        print("\n".join(say_lines(found, {"table": "all", "epsilon": epsilon})))


if __name__ == "__main__":
    main()
