"""Rows given ranges and sets of values: allowed codes and numbers, one a row, as the model has them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.columns import Binned, Whole
from margrave.schema.constraints.draws import Storage
from margrave.schema.draws import real_numbers, whole_numbers
from margrave.schema.given import Choice, Given

if TYPE_CHECKING:
    from margrave.protocols import Model

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

PROBES = 4096
"""Numbers drawn in a bin to see how many of them a range allows."""
ROUNDS = 16
"""How often numbers, or rows, that are not allowed are drawn again."""
MAX_DRAWN = 1 << 20
"""Rows drawn in one round, at most."""
MAX_TABLE_CELLS = 1 << 22
"""Cells of the model's table from which rare codes are drawn, at most."""


def draw_choices(
    model: Model, given: Given, rows: int, rng: np.random.Generator, dtypes: Mapping[str, str]
) -> Given:
    """The given values with each range or set replaced by a code, and where it cuts a bin a number, a row.

    Rows are drawn from the model given the other values, and those that are allowed are kept, which is the
    model's distribution under the condition. Where these are too rare, codes are drawn from the model's table
    of the columns concerned, cut to what is allowed.

    Args:
        model: Any model.
        given: With choices, or without, in which case it is returned as it is.
        rows: How many.
        rng: Source of randomness.
        dtypes: Storage types by column name, as in a Frame: numbers are rounded as they will be stored.

    Raises:
        InputError: No row has such values, or they are too rare and of too many columns.
    """
    if not given.choices:
        return given
    choices = dict(given.choices)
    shares = {name: _allowed_shares(choice, rng, dtypes.get(name, "")) for name, choice in choices.items()}
    drawn = _accept_rows(model, given, shares, rows, rng)
    if len(next(iter(drawn.values()))) < rows:
        drawn = _draw_from_table(model, given, shares, rows, rng)
    # Names of choices whose bins are cut by the range; the others need a code alone.
    cut = {name: choice for name, choice in choices.items() if len(choice.partial)}
    numbers = {name: _draw_numbers(one, drawn[name], rng, dtypes.get(name, "")) for name, one in cut.items()}
    if cut and rows and model.domain.rules is not None:
        _redraw_impossible(model, given, cut, drawn, numbers, rng, dtypes)
    codes: dict[str, Any] = {**given.codes, **drawn}
    return dataclasses.replace(given, codes=codes, numbers={**given.numbers, **numbers}, choices={})


def _redraw_impossible(
    model: Model,
    given: Given,
    cut: Mapping[str, Choice],
    drawn: dict[str, Longs],
    numbers: dict[str, Floats],
    rng: np.random.Generator,
    dtypes: Mapping[str, str],
) -> None:
    """Replace rows whose numbers leave the rules no row, in place, by others that leave one.

    Raises:
        InputError: There is none.
    """
    rows = len(next(iter(drawn.values())))
    fixed = {name: np.broadcast_to(code, rows) for name, code in given.codes.items()}
    known = given.spread(rows)
    for left in reversed(range(ROUNDS)):
        wrong = ~_obey(model, {**fixed, **drawn}, rows, {**known, **numbers})
        if not wrong.any():
            return
        if wrong.all() and not left:
            raise InputError(_impossible())
        # Rows that the rules leave no number take codes and fresh numbers of a row that is sound, if there is
        # any. In the last round they take its numbers as well, which are known to go.
        if wrong.all():
            sources = rng.integers(rows, size=rows)
        else:
            sources = rng.choice(np.flatnonzero(~wrong), int(wrong.sum()))
        for codes in drawn.values():
            codes[wrong] = codes[sources]
        for name, choice in cut.items():
            fresh = _draw_numbers(choice, drawn[name][wrong], rng, dtypes.get(name, ""))
            numbers[name][wrong] = fresh if left else numbers[name][sources]


def _allowed_shares(choice: Choice, rng: np.random.Generator, dtype: str) -> Floats:
    """The share of each code's numbers that is allowed, shape [codes]."""
    # Codes that are allowed as a whole have share 1, others 0, and cut bins what is probed.
    shares = choice.codes.astype(np.float64)
    for code in choice.partial:
        inside = int(choice.allows(_in_bin(choice, int(code), PROBES, rng, dtype)).sum())
        # Half a probe where none was inside: a narrow range may be met all the same.
        shares[code] = max(inside, 0.5) / PROBES
    return shares


def _accept_rows(
    model: Model, given: Given, shares: Mapping[str, Floats], rows: int, rng: np.random.Generator
) -> dict[str, Longs]:
    """Codes of rows that are allowed, fewer than `rows` where these are rare."""
    exact: Any = dict(given.codes) or None
    found: dict[str, list[Longs]] = {name: [] for name in shares}
    have, rate = 0, 1.0
    for _ in range(ROUNDS if rows else 0):
        # As many as should suffice by the rate so far, and a tenth more.
        many = min(int((rows - have) / rate * 1.1) + 64, MAX_DRAWN)
        sample = model.sample(many, rng, exact)
        # A row is kept with the share of its bins that the ranges allow, so that numbers fall evenly into
        # them.
        chance = np.ones(many)
        for name, share in shares.items():
            chance *= share[sample.column(name)]
        kept = np.flatnonzero(rng.random(many) < chance)[: rows - have]
        for name, parts in found.items():
            parts.append(sample.column(name)[kept].astype(np.int64))
        have += len(kept)
        rate = max(len(kept) / many, 1.0 / many)
        # Beyond this the table is the cheaper way, if it is small enough.
        if have == rows or (rows - have) / rate > MAX_DRAWN * ROUNDS:
            break
    empty = np.zeros(0, dtype=np.int64)
    return {name: np.concatenate([empty, *parts]) for name, parts in found.items()}


def _draw_from_table(
    model: Model, given: Given, shares: Mapping[str, Floats], rows: int, rng: np.random.Generator
) -> dict[str, Longs]:
    """Codes from the model's table of the columns concerned, cut to what is allowed.

    Raises:
        InputError: The table is too large, or the rules leave none of its cells.
    """
    names = tuple(shares)
    exact = {name: int(np.asarray(code)) for name, code in given.codes.items()}
    clique = names + tuple(exact)
    if math.prod(model.domain.shape(clique)) > MAX_TABLE_CELLS:
        remedy = "Widen the ranges, or give fewer of them."
        raise InputError(invalid("given", "ranges and sets that some of the model's rows have", remedy))
    # The given columns are the last axes: reading them at their codes leaves the table of the others.
    last: Any = (Ellipsis, *exact.values())
    # Noise may leave negative cells in a model's table.
    table = np.maximum(model.project(clique)[last], 0.0)
    allowed = np.ones(table.shape)
    for axis, name in enumerate(names):
        allowed = allowed * shares[name].reshape([-1 if i == axis else 1 for i in range(len(names))])
    cells = np.flatnonzero(allowed)
    codes = dict(zip(names, np.unravel_index(cells, table.shape), strict=True))
    weights = (table * allowed).ravel()[cells]
    if model.domain.rules is not None:
        fixed = {name: np.full(len(cells), code) for name, code in exact.items()}
        # Under rules a cell of no weight may be the only one left.
        weights = np.where(_obey(model, {**codes, **fixed}, len(cells)), np.maximum(weights, 1e-300), 0.0)
    elif not weights.any():
        weights = allowed.ravel()[cells]
    if not weights.any():
        raise InputError(_impossible())
    drawn = rng.choice(len(cells), size=rows, p=weights / weights.sum())
    return {name: code[drawn].astype(np.int64) for name, code in codes.items()}


def _obey(
    model: Model, columns: Mapping[str, Any], rows: int, numbers: Mapping[str, Floats] | None = None
) -> NDArray[np.bool_]:
    rules = model.domain.rules
    assert rules is not None  # noqa: S101 - asked for under rules only
    known = {name: values for name, values in (numbers or {}).items() if name in rules.names}
    named = {name: codes for name, codes in columns.items() if name in rules.names}
    return rules.possible(named, rows, known)


def _impossible() -> str:
    return invalid("given", "values that some row has under the schema's rules", "Widen the ranges.")


def _draw_numbers(choice: Choice, codes: Longs, rng: np.random.Generator, dtype: str) -> Floats:
    """Allowed numbers of the rows whose bin is allowed in part, NaN for the others, shape [rows]."""
    numbers = np.full(len(codes), np.nan)
    for code in choice.partial:
        left = np.flatnonzero(codes == code)
        for _ in range(ROUNDS):
            if not len(left):
                break
            drawn = _in_bin(choice, int(code), len(left), rng, dtype)
            good = choice.allows(drawn)
            numbers[left[good]] = drawn[good]
            left = left[~good]
        # A range too narrow to be met by chance is drawn from directly.
        numbers[left] = choice.any_number(int(code), len(left), rng)
    return numbers


def _in_bin(choice: Choice, code: int, count: int, rng: np.random.Generator, dtype: str) -> Floats:
    """Numbers of one bin, as the release draws and stores them, shape [count]."""
    column = choice.column
    assert isinstance(column, Binned)  # noqa: S101 - only these have codes that are allowed in part
    bins = np.full(count, code, dtype=np.int64)
    drawn = whole_numbers(bins, column, rng) if isinstance(column, Whole) else real_numbers(bins, column, rng)
    return Storage.of(column, dtype).round_values(np.asarray(drawn, dtype=np.float64))
