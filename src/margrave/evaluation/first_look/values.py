"""Codes that come back, values that no real row has, and spelling, column by column. **Not private**."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from margrave.evaluation.distance import total_variation
from margrave.evaluation.first_look.finding import Finding
from margrave.evaluation.rows import Rows
from margrave.evaluation.task import Task
from margrave.schema.columns import Binned, Listed, Temporal
from margrave.schema.columns.identifier import shape_of

Counts = NDArray[np.int64]
Numbers = NDArray[np.float64]

MIN_UNIQUE_SHARE = 0.5
"""Share of the real rows with a value that no other real row has, above which a column is a key: its values
must not come back, and only their pattern is looked at."""
MIN_CODE_SHARE = 0.9
"""Least share of real rows whose text looks like a code, for the pattern of a column to be looked at."""
MOST_TEXTS = 10_000
"""Most texts of a table whose patterns are read, the most frequent ones first."""
DECIMALS = 7
"""Numbers are told apart by whether they need 0, 1, ... or as many decimals as that less one, or more."""
CLOCK = (86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000)
"""A day, an hour, a minute and a second in microseconds: the units that times are whole multiples of."""


def find_codes(task: Task) -> list[Finding]:
    """Of each column of listed values: which of them come back, and which are new."""
    found = []
    for column in task.schema.attributes:
        if not isinstance(column, Listed):
            continue
        real, synthetic = (
            _count_codes(rows, column)[: column.present] for rows in (task.real, task.synthetic)
        )
        if not real.sum() or _is_key(real):
            continue
        back = float(real[synthetic > 0].sum()) / float(real.sum())
        words = f"Values of {column.name} that {1 - back:.1%} of the real rows have do not come back."
        found.append(Finding("codes", column.name, back, words))
        new = np.where(real > 0, 0, synthetic)
        share = float(new.sum()) / max(float(synthetic.sum()), 1.0)
        most = f", most often “{column.labels[int(new.argmax())]}”" if share else ""
        words = f"{column.name} has values that no real row has in {share:.1%} of its rows{most}."
        found.append(Finding("new values", column.name, 1.0 - share, words))
    return found


def find_spellings(task: Task) -> list[Finding]:
    """Of each column: how its numbers and times are written, or the patterns of its codes."""
    found = []
    exact = task.real.exact and task.synthetic.exact
    for column in task.schema.attributes:
        if isinstance(column, Listed):
            unlike = _unlike_patterns(task, column)
            what = "in a pattern that no real row has"
        elif exact and isinstance(column, Binned) and column.name in task.numeric:
            unlike = _unlike_numbers(task, column)
            what = "to other digits than the real ones"
        else:
            continue
        if unlike is not None:
            words = f"{column.name} is written {what} in {unlike:.1%} of its rows."
            found.append(Finding("spelling", column.name, 1.0 - unlike, words))
    return found


def _count_codes(rows: Rows, column: Listed) -> Counts:
    return np.bincount(rows.encoded.column(column.name), minlength=column.size)


def _is_key(real: Counts) -> bool:
    return float((real == 1).sum()) > MIN_UNIQUE_SHARE * float(real.sum())


def _unlike_patterns(task: Task, column: Listed) -> float | None:
    """The share of synthetic rows whose code has a pattern that no real one has; None if codes are words."""
    values = column.values or ()
    real, synthetic = (_count_codes(rows, column)[: len(values)] for rows in (task.real, task.synthetic))
    if not real.sum() or not synthetic.sum() or not all(isinstance(value, str) for value in values):
        return None
    frequent = np.argsort(-real, kind="stable")[:MOST_TEXTS]
    shapes = {int(place): shape_of(str(values[place])) for place in frequent if real[place]}
    patterned = sum(int(real[place]) for place, shape in shapes.items() if shape)
    if patterned < MIN_CODE_SHARE * int(real[list(shapes)].sum()):
        return None
    known = set(shapes.values())
    new = [place for place in np.argsort(-synthetic, kind="stable")[:MOST_TEXTS] if not real[place]]
    unlike = sum(int(synthetic[place]) for place in new if shape_of(str(values[place])) not in known)
    return unlike / float(synthetic.sum())


def _unlike_numbers(task: Task, column: Binned) -> float | None:
    """The total variation between how numbers are written in the two tables; by value where not as text."""
    sides = [rows.spelt.get(column.name) for rows in (task.real, task.synthetic)]
    if sides[0] is None or sides[1] is None:
        if column.read == "date":
            return None  # dates that are no text are all written alike
        sides = [_find_fineness(rows.numbers[column.name], column) for rows in (task.real, task.synthetic)]
    first, second = sides
    assert first is not None  # noqa: S101 - replaced above
    assert second is not None  # noqa: S101
    if not first.sum() or not second.sum():
        return None
    return total_variation(first / first.sum(), second / second.sum())


def _find_fineness(numbers: Numbers, column: Binned) -> Counts:
    """Rows by the decimals their number needs, or by the coarsest unit of the clock: shape [DECIMALS]."""
    known = numbers[~np.isnan(numbers)]
    if isinstance(column, Temporal):
        fits = [np.mod(known, unit) == 0 for unit in CLOCK]
    else:
        digits = np.arange(DECIMALS - 1)
        fits = [np.isclose(np.round(known, digit), known, rtol=1e-12, atol=1e-12) for digit in digits]
    first = np.full(known.size, len(fits))
    for place in range(len(fits) - 1, -1, -1):
        first[fits[place]] = place
    return np.bincount(first, minlength=DECIMALS).astype(np.int64)
