"""Rows that keep the orders between numbers that discovery found: a dew point is at most the temperature.

Models know nothing of such orders, as a found one holds for values and not for codes. In rows that break one
the number of a column is drawn anew: in its own bin where that has numbers in order, else in the nearest bin
that has, so that it stays as near to what the model said as the order allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.schema.columns import Binned, Date, Integer, Moment, Relative, Whole
from margrave.schema.columns.relative import take_own
from margrave.schema.constraints.draws import Drawn, in_bins
from margrave.schema.constraints.rules import CalendarRule, Ordered, Rule, find_ruled
from margrave.schema.describe import describe_rule
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

Floats = NDArray[np.float64]

DRAWS = 8
"""How often a number is drawn anew before it takes the bound itself."""


def keep_orders(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    drawn: Mapping[str, Drawn],
    numbers: Mapping[str, NDArray[Any]],
    given: Mapping[str, Floats],
) -> dict[str, Drawn]:
    """The numbers of the columns that found orders speak of, by name.

    Args:
        encoded: The rows.
        schema: Their schema.
        rng: Source of randomness.
        drawn: Columns that are drawn and where they are missing.
        numbers: Numbers of columns that were drawn before.
        given: Columns some of whose numbers are given: they stay.
    """
    orders = list_orders(schema, of_numbers=True)
    fixed = find_ruled(schema.rules) | set(given)
    fixed |= {base for column in schema.columns if isinstance(column, Relative) for base in column.bases}
    fixed |= {name for rule in schema.rules if isinstance(rule, CalendarRule) for name in rule.names}
    moving = choose_moving(orders, lambda name: name not in fixed and _has_bins(schema, name))
    names = dict.fromkeys(name for own in moving.values() for rule in own for name in rule.names)
    found = {
        name: drawn[name] if name in drawn else _draw(encoded, schema, rng, numbers, name) for name in names
    }
    # A column may be held to one that moves after it, so all move twice.
    for name, own in [*moving.items()] * 2:
        found[name] = _move(encoded, schema, rng, found, name, own)
    return found


def list_orders(schema: Schema, of_numbers: bool) -> list[Ordered]:
    """The orders that were found: those between dates or moments, or all others."""
    found = [rule for rule in schema.rules if isinstance(rule, Ordered) and rule.found is not None]
    return [one for one in found if isinstance(take_own(schema[one.low]), Date | Moment) != of_numbers]


def choose_moving(orders: Sequence[Ordered], may_move: Callable[[str], bool]) -> dict[str, list[Ordered]]:
    """The columns that are drawn anew where an order is broken, and the orders that each is held to.

    Args:
        orders: Of which each holds the first of its columns that may move; none where neither may.
        may_move: Whether a column may.
    """
    moving: dict[str, list[Ordered]] = {}
    for rule in orders:
        free = [name for name in rule.names if may_move(name)]
        if free:
            moving.setdefault(free[0], []).append(rule)
    return moving


def find_ends(
    name: str, orders: Sequence[Ordered], read: Callable[[str], Drawn], rows: int, far: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Least and greatest numbers that orders leave a column, both of shape [rows] and of the type of `far`.

    Where they contradict each other, as they may until another column has moved, the greatest is `far`.

    Args:
        name: The column.
        orders: What it is held to.
        read: The numbers of any other column.
        rows: How many rows there are.
        far: A number that is further out than all.
    """
    low, high = np.full(rows, -far), np.full(rows, far)
    for rule in orders:
        other = read(rule.low if name == rule.high else rule.high)
        numbers = other.numbers.astype(low.dtype)
        if name == rule.high:
            low = np.where(other.absent, low, np.maximum(low, numbers))
        else:
            high = np.where(other.absent, high, np.minimum(high, numbers))
    return low, np.where(low > high, far, high)


def describe_found(rules: Sequence[Rule]) -> list[str]:
    """The rules that were found, in words; what is at most one and the same column in one sentence."""
    below: dict[str, list[Ordered]] = {}
    for rule in rules:
        if isinstance(rule, Ordered) and rule.found is not None:
            below.setdefault(rule.high, []).append(rule)
    said = list[str]()
    for rule in rules:
        if rule.found is None:
            continue
        group = below[rule.high] if isinstance(rule, Ordered) else []
        if len(group) < 2:
            said.append(describe_rule(rule))
        elif rule is group[0]:
            share, error = min(one.found for one in group if one.found is not None)
            *names, last = [one.low for one in group]
            said.append(
                f"{', '.join(names)} and {last} are at most {rule.high}, each in {share:.1%} (± {error:.1%}) "
                "of the rows or more, found and not promised"
            )
    return said


def _has_bins(schema: Schema, name: str) -> bool:
    """Whether a column has bins of its own, in which numbers may be drawn as often as one likes."""
    column = schema[name]
    return isinstance(column, Binned) and not (isinstance(column, Integer) and column.unique)


def _draw(
    encoded: Encoded, schema: Schema, rng: np.random.Generator, numbers: Mapping[str, NDArray[Any]], name: str
) -> Drawn:
    column, codes = schema[name], encoded.column(name)
    assert isinstance(column, Binned)  # noqa: S101 - all others are drawn by what they are relative to
    made = numbers[name] if name in numbers else in_bins(codes, column, rng)
    return Drawn(np.array(made), codes >= column.present)


def _move(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    found: Mapping[str, Drawn],
    name: str,
    own: Sequence[Ordered],
) -> Drawn:
    """A column between all that it is to be above and below; above, where these contradict each other."""
    column, absent = schema[name], found[name].absent
    assert isinstance(column, Binned)  # noqa: S101 - see `_has_bins`
    low, high = find_ends(name, own, found.__getitem__, len(absent), np.inf)
    made = found[name].numbers.copy()
    rows = np.flatnonzero(~absent & ((made < low) | (made > high)))
    if len(rows):
        codes = np.minimum(encoded.column(name)[rows], column.present - 1).astype(np.int64)
        made[rows] = draw_between(column, codes, made[rows], low[rows], high[rows], rng)
    return Drawn(made, absent)


def draw_between(
    column: Binned, bins: NDArray[np.int64], numbers: Any, low: Floats, high: Floats, rng: np.random.Generator
) -> NDArray[Any]:
    """A number of a column between two ends, both included, in each of some rows: shape [rows].

    Args:
        column: It has bins.
        bins: The bin that each row is in, shape [rows].
        numbers: What rows keep where the column has no number between the ends, shape [rows].
        low: Least numbers, shape [rows].
        high: Greatest numbers, shape [rows].
        rng: Source of randomness.
    """
    edges = column.edge_array
    ends = np.searchsorted(edges, low, side="right") - 1, np.searchsorted(edges, high, side="right") - 1
    last = column.present - 1
    nearest = np.clip(np.minimum(np.maximum(bins, ends[0]), np.maximum(ends[1], ends[0])), 0, last)
    made = in_bins(nearest, column, rng)
    for _ in range(DRAWS):
        wrong = np.flatnonzero((made < low) | (made > high))
        made[wrong] = in_bins(nearest[wrong], column, rng)
    # Where a bin hardly reaches over the end, the number is the end itself.
    whole = isinstance(column, Whole)
    least, most = (np.ceil(low), np.floor(high)) if whole else (low, high)
    bound = np.where(made < low, least, np.where(made > high, most, made))
    inside = (bound >= edges[0]) & (bound <= edges[-1] - whole) & (bound >= low) & (bound <= high)
    return np.asarray(np.where(inside, bound, numbers)).astype(np.asarray(numbers).dtype)
