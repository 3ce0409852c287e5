"""Hard cases: seeded tables that show differences between methods which Adult hides. Made up, no one's data.

Each generator gets a number of rows and a generator of random numbers and returns an Arrow table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAKERS"]

Rng = np.random.Generator
Numbers = NDArray[np.int64]


def _parity(rows: int, rng: Rng) -> pa.Table:
    """Bits whose parities say all there is, each parity wrong in one row of twenty.

    `label` is the parity of a1 and a2, `b4` that of b1, b2 and b3; `idle` means nothing. Every pair of
    columns is independent: only the table of three columns and that of four show anything, so what is
    bought in pairs is blind here.
    """
    bits = {name: rng.integers(0, 2, rows) for name in ("a1", "a2", "b1", "b2", "b3", "idle")}
    for name, members in (("label", ("a1", "a2")), ("b4", ("b1", "b2", "b3"))):
        wrong = rng.random(rows) < 0.05
        bits[name] = (np.sum([bits[member] for member in members], axis=0) + wrong) % 2
    return _table({name: _words(bits[name], ("no", "yes")) for name in sorted(bits)})


def _dense(rows: int, rng: Rng) -> pa.Table:
    """Twelve columns of ten grades that all lean on two hidden traits, and a label: no tree explains them.

    Nearly every pair is dependent, so that none can be left out.
    """
    traits = rng.normal(size=(rows, 2))
    columns: dict[str, object] = {}
    for place in range(12):
        angle = np.pi * place / 12
        score = traits @ np.array([np.cos(angle), np.sin(angle)]) + 0.7 * rng.normal(size=rows)
        columns[f"q{place + 1:02}"] = _graded(score, 10)
    sides = np.abs(traits).sum(axis=1) + 0.3 * rng.normal(size=rows)
    columns["label"] = _words((sides > np.median(sides)).astype(np.int64), ("low", "high"))
    return _table(columns)


def _tails(rows: int, rng: Rng) -> pa.Table:
    """Amounts with heavy tails and many zeros, some a multiple of others, and a label about their sum.

    Equal-width bins put nearly all rows into one bin.
    """
    group = rng.choice(4, rows, p=(0.55, 0.3, 0.1, 0.05))
    income = np.round(np.exp(9.5 + 0.4 * group + rng.normal(scale=0.8, size=rows)), 2)
    wealth = np.round(income * rng.pareto(1.2, rows), 2)
    held = rng.random(rows) < 0.15 + 0.2 * group
    dividend = np.where(held, np.round(wealth * rng.uniform(0.01, 0.05, rows), 2), 0.0)
    children = np.minimum(rng.geometric(0.55, rows) - 1, 9)
    claims = rng.negative_binomial(0.3, 0.02 + 0.01 * group)
    age = np.clip(np.round(rng.gamma(9, 5, rows)), 18, 95).astype(np.int64)
    label = income + dividend > 30_000
    columns: dict[str, object] = {
        "age": age,
        "children": children,
        "claims": claims,
        "dividend": dividend,
        "group": _words(group, ("A", "B", "C", "D")),
        "income": income,
        "label": _words(label.astype(np.int64), ("no", "yes")),
        "wealth": wealth,
    }
    return _table(columns)


def _rare(rows: int, rng: Rng) -> pa.Table:
    """Towns and products, many values of each by Zipf's law: most are held by a handful of rows.

    The town decides the county exactly, the product its maker.
    """
    town, product = _zipf(240, rows, rng), _zipf(180, rows, rng)
    county_of, maker_of = rng.integers(0, 24, 240), rng.integers(0, 40, 180)
    county, maker = county_of[town], maker_of[product]
    liked = rng.normal(size=(24, 6))[county] + rng.normal(size=(40, 6))[maker]
    channel = (liked + rng.gumbel(size=(rows, 6))).argmax(axis=1)
    lean = rng.normal(size=40)[maker] + rng.normal(size=24)[county] + rng.normal(scale=0.5, size=rows)
    return _table(
        {
            "channel": _coded(channel, "channel"),
            "county": _coded(county, "county"),
            "label": _words((lean > 0).astype(np.int64), ("no", "yes")),
            "maker": _coded(maker, "maker"),
            "month": rng.integers(1, 13, rows),
            "product": _coded(product, "product"),
            "town": _coded(town, "town"),
        }
    )


MAKERS: dict[str, Callable[[int, Rng], pa.Table]] = {
    "dense": _dense,
    "parity": _parity,
    "rare": _rare,
    "tails": _tails,
}
"""Generators by name."""


def _words(codes: Numbers, words: tuple[str, ...]) -> NDArray[np.str_]:
    return np.array(words)[codes]


def _coded(codes: Numbers, word: str) -> NDArray[np.str_]:
    return np.char.mod(f"{word} %03d", codes)


def _graded(score: NDArray[np.float64], grades: int) -> Numbers:
    """Grades of like many rows, 1 the least."""
    cuts = np.quantile(score, np.arange(1, grades) / grades)
    return np.asarray(np.searchsorted(cuts, score) + 1, dtype=np.int64)


def _zipf(values: int, rows: int, rng: Rng) -> Numbers:
    weights = 1.0 / np.arange(1, values + 1) ** 1.1
    return np.asarray(rng.choice(values, rows, p=weights / weights.sum()), dtype=np.int64)


def _table(columns: Mapping[str, object]) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: pa.array(values) for name, values in columns.items()})
