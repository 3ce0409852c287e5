"""Given: values that sampled rows must have, for all of them, as ranges and sets, or in a table.

A `Choice` is a range or a set of values of which a sampled row may have any.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.columns import Binned, Column, Listed, Relative, Whole
from margrave.schema.columns.relative import relative_codes, take_own
from margrave.schema.describe import describe_column
from margrave.schema.encode import encode_column, in_usual_form, likeliest
from margrave.schema.encoded import Codes
from margrave.schema.queries import readings
from margrave.schema.schema import Schema

Floats = NDArray[np.float64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Between:
    """A range of values, both ends included, for `given` in `Synthesis.sample`.

    Args:
        lower: Least value: a number, a date or time as in the column's declaration, or a value of an ordinal
            column; None for no bound.
        upper: Greatest value; None for no bound.

    Raises:
        InputError: Both are None.

    Example:
        ``synthesis.sample(1000, given={"age": mg.Between(18, 64)})``
    """

    lower: Any = None
    upper: Any = None

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            remedy = "Leave the column out to allow any value."
            raise InputError(invalid("Between", "a range with at least one end", remedy))

    def __str__(self) -> str:
        lower, upper = ("" if end is None else str(end) for end in (self.lower, self.upper))
        return f"{lower}..{upper}"


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """What values of one column sampled rows may have.

    Args:
        column: The column, known.
        codes: Which codes may occur, if only for some of the numbers in their bin, shape [codes].
        least, most: Ends of the numbers that may occur, included; of the codes in an ordinal column.
        listed: The numbers that may occur, in increasing order; None for all from least to most.
    """

    column: Column
    codes: Truths
    least: float = -math.inf
    most: float = math.inf
    listed: tuple[float, ...] | None = None

    @property
    def partial(self) -> NDArray[np.int64]:
        """The codes of which only some numbers may occur."""
        column = self.column
        if not isinstance(column, Binned):
            return np.zeros(0, dtype=np.int64)
        whole = isinstance(column, Whole)
        edges = column.edge_array
        first, last = edges[:-1], edges[1:] - 1.0 if whole else edges[1:]
        # A code whose numbers are all allowed needs no look at the number that is drawn in it.
        inside = (self.least <= first) & (last <= self.most)
        if self.listed is not None:
            held = np.searchsorted(self.listed, edges)
            inside &= np.diff(held) == last - first + 1.0
        found: NDArray[np.int64] = np.flatnonzero(self.codes[: column.present] & ~inside)
        return found

    def allows(self, numbers: Floats) -> Truths:
        """Whether numbers may occur, in the shape given."""
        found: Truths = (numbers >= self.least) & (numbers <= self.most)
        return found if self.listed is None else found & np.isin(numbers, self.listed)

    def any_number(self, code: int, count: int, rng: np.random.Generator) -> Floats:
        """Numbers in a code's bin that may occur, each as likely as the others, shape [count]."""
        column = self.column
        assert isinstance(column, Binned)  # noqa: S101 - the others have no partial codes
        low, high = (float(edge) for edge in column.edge_array[code : code + 2])
        low, high = max(low, self.least), min(high, self.most)
        if self.listed is not None:
            numbers = np.asarray(self.listed)
            found: Floats = rng.choice(
                numbers[(numbers >= low) & (numbers <= high) & self._in(code, numbers)], count
            )
            return found
        if isinstance(column, Whole):
            last = min(math.floor(high), int(column.edge_array[code + 1]) - 1)
            return rng.integers(math.ceil(low), last, count, endpoint=True).astype(np.float64)
        return low + rng.random(count) * (high - low)

    def _in(self, code: int, numbers: Floats) -> Truths:
        assert isinstance(self.column, Binned)  # noqa: S101
        found: Truths = np.searchsorted(self.column.edge_array, numbers, side="right") - 1 == code
        return found


COLLECTION_TYPES = (list, tuple, set, frozenset, range)
"""Collections of values of which a row may have any."""


@dataclass(frozen=True, slots=True)
class Given:
    """What sampled rows are conditioned on.

    Args:
        rows: How many rows a table of given values has; None for values that hold for all rows.
        codes: By attribute: one code, or one a row.
        numbers: The numbers of binned columns by name, one or one a row, NaN where missing.
        choices: Columns of which any of several values may occur; `margrave.models._base.given.draw_choices`
            turns them into codes and numbers, one a row.
    """

    rows: int | None
    codes: Mapping[str, int | Codes]
    numbers: Mapping[str, NDArray[np.float64]]
    choices: Mapping[str, Choice] = field(default_factory=dict)

    def spread(self, rows: int) -> dict[str, NDArray[np.float64]]:
        """The numbers, one a row."""
        return {name: np.broadcast_to(numbers, rows) for name, numbers in self.numbers.items()}


def given_values(schema: Schema, given: Any) -> Given:
    """The codes and numbers of given values.

    Args:
        schema: The columns, all known.
        given: A mapping of column names to values, None for a missing one, to sets or lists of values, or to
            ranges (`Between`); or an Arrow table with some of the columns; or None.

    Raises:
        SchemaError: There is no such column.
        InputError: It is an identifier, or a value is none that the column can have.
    """
    if given is None or isinstance(given, Mapping):
        return _alike(schema, _give_bases(schema, given or {}))
    table = given
    codes: dict[str, int | Codes] = {}
    numbers = {}
    for name in table.column_names:
        column = _column(schema, name)
        array = table.column(name)
        names = _bases(column, table.column_names) if isinstance(column, Relative) else ()
        bases = [in_usual_form(table.column(one), schema[one]) for one in names]
        # The error of the encoding may quote a value of a table of many rows, so it is said again without,
        # outside of the `except`.
        try:
            codes[name] = _code_values(array, column, bases)
            if isinstance(column, Binned | Relative):
                numbers[name] = _numbers(array, column)
            continue
        except (InputError, pa.ArrowException, TypeError):
            pass
        asked = f"values of the column in {name!r}"
        raise InputError(invalid("given", asked, f"Look at schema[{name!r}]."))
    return Given(table.num_rows, codes, numbers)


def _give_bases(schema: Schema, given: Mapping[str, Any]) -> dict[str, Any]:
    """The same values, with those that an exact line says of its base: of 12 * monthly, a twelfth."""
    found = dict(given)
    for name, value in given.items():
        # A base may be on a line itself; of several steps each is found from the one before.
        column = _column(schema, name)
        if value is None and isinstance(column, Relative) and column.follows and not column.others:
            found.setdefault(column.base, None)
        while isinstance(column, Relative) and column.base not in found and _is_one_line(column):
            base = schema[column.base]
            turned = _turn_value(column, take_own(base), value)
            if turned is None:
                break
            found[column.base] = turned
            if isinstance(value, Between):
                found.pop(column.name, None)
            column, value = base, turned
    return found


def _is_one_line(column: Relative) -> bool:
    """Whether one other column says each value: in every row, and by a factor and an offset alone."""
    exact = column.part.present == 1 and column.part.edge_array[0] == 0.0
    plain = not column.others and not column.powers
    return exact and plain and not column.alone and column.comparison.is_line


def _turn_value(column: Relative, base: Column, value: Any) -> Any:
    """The value of the base at which the line has a value, or the range of a range; None if there is none."""
    if isinstance(value, Between):
        ends = [None if end is None else _turn_value(column, base, end) for end in (value.lower, value.upper)]
        return Between(*(ends if column.factor > 0.0 else ends[::-1]))
    if isinstance(value, COLLECTION_TYPES) or value is None:
        return None
    try:
        number = float(_numbers(pa.array([value]), column)[0])
    except (InputError, pa.ArrowException, TypeError):
        return None
    if not math.isfinite(number):
        return None
    turned = (number - column.offset) / column.factor
    if isinstance(base, Whole):
        return round(turned)
    step = base.unit if isinstance(base, Binned) else 0.0
    return round(round(turned / step) * step, 12) if step else turned


def _alike(schema: Schema, given: Mapping[str, Any]) -> Given:
    codes: dict[str, int | Codes] = {}
    numbers = {}
    choices = {}
    for name, value in given.items():
        column = _column(schema, name)
        one = not isinstance(value, (Between, *COLLECTION_TYPES))
        if value is None and isinstance(column, Relative) and column.missing_code is not None:
            # What is missing differs from nothing: its code is known without a base.
            codes[name], numbers[name] = column.missing_code, np.asarray(np.nan)
            continue
        if not one:
            choices[name] = _choice(name, value, column)
            continue
        names: tuple[str, ...] = ()
        if isinstance(column, Relative) and _is_value(column.own, value):
            names = _bases(column, list(given))
        try:
            array = pa.array([value])
            bases = [in_usual_form(pa.array([given[one]]), schema[one]) for one in names]
            codes[name] = int(_code_values(array, column, bases)[0])
            if isinstance(column, Binned | Relative):
                numbers[name] = _numbers(array, column)[:1].reshape(())
            continue
        except (InputError, pa.ArrowException, TypeError):
            pass
        remedy = f"Look at schema[{name!r}]."
        raise InputError(invalid(f"given[{name!r}]", "a value of the column", remedy, got=value))
    return Given(None, codes, numbers, choices)


def _is_value(column: Binned, value: Any) -> bool:
    """Whether a column may have a value, or none."""
    try:
        encode_column(pa.array([value]), dataclasses.replace(column, strict=True, missing=True))
    except (InputError, pa.ArrowException, TypeError):
        return False
    return True


def _choice(name: str, value: Any, column: Column) -> Choice:
    """The codes and numbers that a range or a collection of values allows.

    Raises:
        InputError: It allows no value of the column, its ends are reversed, or the column has no order or no
            such values.
    """
    ranged = isinstance(value, Between)
    asked = f"given[{name!r}]"
    if isinstance(column, Relative):
        remedy = f"It is modelled by how it differs from {column.base_words!r}: give one value of all."
        raise InputError(invalid(asked, "one value", remedy))
    if ranged and not isinstance(column, Binned) and not column.ordered:
        remedy = "Give a set of values: this column has no order."
        raise InputError(invalid(asked, "a value or a set of values", remedy, got=str(value)))
    if not ranged and isinstance(column, Binned) and not isinstance(column, Whole):
        raise InputError(invalid(asked, "a range, as its bins are not of whole numbers", "Use Between."))
    # Arrow's own messages would not name the argument, so they are replaced below by one that does.
    found = None
    with contextlib.suppress(InputError, pa.ArrowException, TypeError):
        found = _range(value, column) if ranged else _collection(list(value), column)
    if found is None or math.isnan(found.least) or math.isnan(found.most):
        got = str(value) if ranged else list(value)
        raise InputError(invalid(asked, "values of the column", f"Look at schema[{name!r}].", got=got))
    if ranged and found.least > found.most:
        remedy = f"It is reversed: say {Between(value.upper, value.lower)}."
        raise InputError(
            invalid(asked, "a range from its lower end to its upper one", remedy, got=str(value))
        )
    if not found.codes.any():
        got = str(value) if ranged else list(value)
        remedy = f"Widen it; the column is {describe_column(column)}."
        raise InputError(invalid(asked, "a range or set that holds a value of the column", remedy, got=got))
    return found


def _range(value: Between, column: Column) -> Choice:
    """What a range allows; of listed values in order least and most are codes. Its ends may be reversed."""
    codes = np.zeros(column.size, dtype=np.bool_)
    if isinstance(column, Listed):
        first, last = (
            none if end is None else int(_code_values(pa.array([end]), column)[0])
            for end, none in ((value.lower, 0), (value.upper, column.ordered - 1))
        )
        codes[first : last + 1] = True
        return Choice(column, codes, first, last)
    assert isinstance(column, Binned)  # noqa: S101 - others are refused before
    least, most = (
        none if end is None else float(_numbers(pa.array([end]), column)[0])
        for end, none in ((value.lower, -np.inf), (value.upper, np.inf))
    )
    edges = column.edge_array
    last_in = edges[1:] - 1.0 if isinstance(column, Whole) else edges[1:]
    codes[: column.present] = (last_in >= least) & (edges[:-1] <= most)
    if isinstance(column, Whole):
        codes[: column.present] &= np.maximum(edges[:-1], np.ceil(least)) <= np.minimum(
            last_in, np.floor(most)
        )
    return Choice(column, codes, least, most)


def _collection(values: list[Any], column: Column) -> Choice:
    codes = np.zeros(column.size, dtype=np.bool_)
    if values:
        codes[_code_values(pa.array(values), column)] = True
    if not isinstance(column, Binned):
        return Choice(column, codes)
    numbers = _numbers(pa.array([value for value in values if value is not None]), column)
    return Choice(column, codes, listed=tuple(sorted({*numbers.tolist()} - {np.nan})))


def _column(schema: Schema, name: str) -> Column:
    """The column of a name.

    Raises:
        SchemaError: There is none.
        InputError: It is an identifier.
    """
    column = schema[name]
    if not column.attribute:
        remedy = "Identifiers are made anew."
        raise InputError(invalid("given", "about columns that are modelled", remedy, got=name))
    return column


def _bases(column: Relative, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that a column is relative to, found among the given ones.

    Raises:
        InputError: One is not given: without it, nothing says which difference the value is.
    """
    for base in column.bases:
        if base not in names:
            remedy = f"Give {base!r} as well: {column.name!r} is modelled by how it differs from that."
            raise InputError(invalid("given", f"with {base!r}", remedy, got=list(names)))
    return column.bases


def _code_values(array: Any, column: Column, bases: Sequence[Any] = ()) -> Codes:
    """Codes of given values; a value of no code of its own is refused. A relative column needs its bases'."""
    if isinstance(column, Relative):
        if column.missing_code is None and pc.sum(pc.is_null(array, nan_is_null=True)).as_py():
            raise InputError(invalid("given", "without missing values", "Leave the column out."))
        encode_column(array, dataclasses.replace(column.own, strict=True, missing=True))
        array = in_usual_form(array, column)
        return relative_codes(array, bases[0], column, likeliest(column.part), bases[1:])
    codes = encode_column(array, dataclasses.replace(column, strict=True))
    if column.missing_code is None and pc.sum(pc.is_null(array, nan_is_null=True)).as_py():
        raise InputError(invalid("given", "without missing values", "Leave the column out."))
    if isinstance(column, Listed) and column.other_code is not None:
        rest = np.flatnonzero((codes >= len(column.values or ())) & (codes <= column.other_code))
        if len(rest) and not all(value == column.other for value in array.take(pa.array(rest)).to_pylist()):
            raise InputError(invalid("given", "a listed value", "Use the label of the others."))
    return codes


def _numbers(array: Any, column: Binned | Relative) -> NDArray[np.float64]:
    read = column.own.read if isinstance(column, Relative) else column.read
    values, known = readings(in_usual_form(array, column), read, column.name)
    return np.where(known, np.asarray(values, dtype=np.float64), np.nan)
