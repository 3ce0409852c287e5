"""Shapes: wide and short, narrow and long, columns that know nothing of each other, and curves.

The independent columns are a control: whatever dependence a method makes there is invented.
"""

from __future__ import annotations

import numpy as np

from margrave.benchmark.nursery.table import Columns, Draws, NurseryTable, grade, name_codes, zipf_weights

WIDE = "wide and short"
LONG = "narrow and long"
CONTROL = "independent columns"
CURVES = "curves"


def make_chains(rows: int, draws: Draws, *, width: int, length: int, stay: float) -> Columns:
    """Chains of `length` columns: each repeats the one before with a chance, or is drawn anew."""
    sizes = 2 + draws.below(6, -(-width // length))
    weights = [draws.gamma(1.5, int(size)) for size in sizes]
    columns: Columns = {}
    before = np.zeros(rows, dtype=np.int64)
    for place in range(width):
        chain = place // length
        anew = draws.codes(weights[chain], rows)
        keep = draws.flags(stay if place % length else 0.0, rows)
        before = np.where(keep, before, anew)
        columns[f"w{place + 1:03}"] = name_codes(before, "v", int(sizes[chain]))
    return columns


def make_meters(rows: int, draws: Draws, *, stations: int, curved: bool) -> Columns:
    """Readings of stations by hour and month: temperature, demand and a fault that needs both."""
    base = 3 * draws.normal(stations)
    station = draws.codes(zipf_weights(stations, 0.5), rows)
    hour, month = draws.below(24, rows), 1 + draws.below(12, rows)
    warmth = 11 + base[station] - 9 * np.cos(2 * np.pi * (month - 1) / 12)
    temperature = np.round(warmth - 4 * np.cos(2 * np.pi * (hour - 3) / 24) + 2.5 * draws.normal(rows), 1)
    load = np.abs(temperature - 17) if curved else temperature
    demand = np.round(40 + 1.5 * load + 8 * (hour >= 8) + 5 * draws.normal(rows), 1)
    return {
        "demand": demand,
        "fault": draws.flags(np.where((demand > 65) & (temperature < 5), 0.05, 0.002), rows),
        "hour": hour,
        "month": month,
        "station": name_codes(station, "station", stations),
        "temperature": temperature,
    }


def make_independent(rows: int, draws: Draws, *, width: int) -> Columns:
    """Columns drawn each by itself: codes, flags, whole numbers and floats in turn."""
    sizes = 2 + draws.below(30, width)
    columns: Columns = {}
    for place in range(width):
        name, size = f"i{place + 1:02}", int(sizes[place])
        if place % 4 == 0:
            columns[name] = name_codes(draws.codes(zipf_weights(size), rows), "v", size)
        elif place % 4 == 1:
            columns[name] = draws.flags(1 / size, rows)
        elif place % 4 == 2:
            columns[name] = draws.geometric(1 / size, rows)
        else:
            columns[name] = np.round(np.exp(draws.normal(rows)) * size, 2)
    return columns


def make_curves(rows: int, draws: Draws, *, noise: float) -> Columns:
    """Numbers on curves: a ring, a parabola, a wave, two crossing lines, a checkerboard: no correlation."""
    turns = 2 * np.pi * draws.uniform(rows)
    radius = np.where(draws.flags(0.5, rows), 1.0, 2.0) + noise * draws.normal(rows)
    x, t, u = draws.between(-2, 2, rows), draws.between(0, 12, rows), draws.normal(rows)
    square, offset = draws.below(8, rows), draws.below(4, rows)
    inner = radius < 1.5
    columns: Columns = {
        "board_x": square + draws.uniform(rows),
        "board_y": 2 * offset + square % 2 + draws.uniform(rows),
        "cross_x": u,
        "cross_y": np.where(draws.flags(0.5, rows), u, -u) + noise * draws.normal(rows),
        "parabola_x": x,
        "parabola_y": x**2 + noise * draws.normal(rows),
        "ring_x": radius * np.cos(turns),
        "ring_y": radius * np.sin(turns),
        "wave_t": t,
        "wave_y": np.sin(t) + noise * draws.normal(rows),
    }
    rounded = {name: np.round(values, 3) for name, values in columns.items()}
    return rounded | {"inner": inner, "level": 1 + grade(np.abs(u) + 0.2 * draws.normal(rows), 5)}


SHAPES = (
    NurseryTable(
        *("wide-a", WIDE, "choosing", make_chains, 2_000, 91),
        "150 columns of 2 to 7 codes in chains of five",
        parameters={"width": 150, "length": 5, "stay": 0.7},
    ),
    NurseryTable(
        *("wide-b", WIDE, "reporting", make_chains, 2_000, 92),
        "200 columns of 2 to 7 codes in chains of eight",
        parameters={"width": 200, "length": 8, "stay": 0.6},
    ),
    NurseryTable(
        *("meters-a", LONG, "choosing", make_meters, 400_000, 93),
        "six columns, two of them waves of the month and the hour, and a rare fault",
        parameters={"stations": 20, "curved": False},
        target="fault",
    ),
    NurseryTable(
        *("meters-b", LONG, "reporting", make_meters, 1_000_000, 94),
        "as meters-a, with a demand that rises with cold and with heat",
        parameters={"stations": 50, "curved": True},
        target="fault",
    ),
    NurseryTable(
        *("control-a", CONTROL, "choosing", make_independent, 10_000, 95),
        "20 columns that know nothing of each other",
        parameters={"width": 20},
        cut="quantile",
    ),
    NurseryTable(
        *("control-b", CONTROL, "reporting", make_independent, 30_000, 96),
        "40 columns that know nothing of each other",
        parameters={"width": 40},
        cut="quantile",
    ),
    NurseryTable(
        *("curves-a", CURVES, "reporting", make_curves, 15_000, 97),
        "pairs of numbers on curves without correlation; no table of this family is for choosing",
        parameters={"noise": 0.1},
        target="inner",
    ),
)
