"""Encoding: the numbers that stand for a column's codes in a regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import narwhals as nw
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.schema.columns import Binned, Column, Listed, Relative
from margrave.schema.encode import coded_from, encode_from
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema
from margrave.tables.estimates import labels_of, release_column
from margrave.tables.means import Averaged
from margrave.tables.numbers import doubts_of, find_label, refuse_numbers, scores_of
from margrave.tables.relative_means import average_relative, find_line

Floats = NDArray[np.float64]
EncodingName = Literal["scores", "levels", "ranks"]
ENCODINGS: tuple[str, ...] = get_args(EncodingName)


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one column enters a regression.

    Args:
        column: Name of the column.
        names: A name for each number, such as "age" or "sex=Male".
        levels: The label of the level that a number marks; "" for numbers on a scale.
        matrix: The numbers of each code: shape [numbers, codes].
        reference: The label of the level that the others are compared with; "" where there is none.
        variances: Of what noise makes of the first number of each code, where codes are bins that were
            discovered: shape [codes]. None where numbers are known.
        binned: The column whose own numbers these are, where its bins were discovered; else None.
        feature: What the numbers are called, where they are a line of the column's.
        slope: Of that line.
        ranked: Whether the first number of each code is its rank, from -1 to 1.
    """

    column: str
    names: tuple[str, ...]
    levels: tuple[str, ...]
    matrix: Floats
    reference: str = ""
    variances: Floats | None = None
    binned: Column | None = None
    feature: str = ""
    slope: float = 1.0
    ranked: bool = False


def list_coded_by(schema: Schema, target: str) -> list[str]:
    """Columns whose codes are differences from a target, or shares of it: it would explain itself by them."""
    return [c.name for c in schema.attributes if isinstance(c, Relative) and target in c.bases]


def encode_feature(
    schema: Schema, name: str, how: str | None, shares: Floats, reference: str | None
) -> Encoding:
    """The encoding of a feature.

    Args:
        schema: Of the release.
        name: The column.
        how: "scores": the numbers of `scores_of`; "ranks": codes evenly from -1 to 1 in their order; both
            add an indicator for each code without a number, such as missing. "levels": an indicator of
            every code but one. None for scores where the column is numeric or ordinal with numbers, ranks
            where it is a date, time or duration, else levels.
        shares: What the model holds of each code, shape [codes]: the likeliest level is the reference.
        reference: Another level to compare with.

    Raises:
        InputError: how is none of these or the column has no numbers, or reference is not one of its levels.
    """
    column = release_column(schema, name, "features")
    if how is not None and how not in ENCODINGS:
        raise InputError(invalid(f"encoding of {name!r}", f"one of {list(ENCODINGS)}", "Pick one.", got=how))
    labels = labels_of(schema, name)
    numbers = scores_of(column)
    if how is None:
        numeric = numbers is not None and column.ordered > 0
        how = "scores" if numeric else "ranks" if isinstance(column, Binned) else "levels"
    if reference is not None and (how != "levels" or reference not in labels):
        remedy = f"Pick one of {list(labels)}." if how == "levels" else "Use encodings='levels' for it."
        raise InputError(invalid(f"reference of {name!r}", "a level of the column", remedy, got=reference))
    if how == "levels":
        base = int(np.argmax(shares)) if reference is None else labels.index(reference)
        return _levels(name, labels, [code for code in range(len(labels)) if code != base], labels[base])
    if how == "ranks":
        return replace(_scale(name, labels, _ranks(column)), ranked=True)
    if numbers is None:
        remedy = "Use 'levels' or 'ranks' for it."
        raise InputError(invalid(f"encoding of {name!r}", "'levels' or 'ranks': it has no numbers", remedy))
    discovered = isinstance(column, Binned) and column.fine is not None
    binned = column if discovered else None
    return replace(_scale(name, labels, numbers), variances=doubts_of(column), binned=binned)


def encode_line(
    schema: Schema, name: str, how: str | None, taken: Sequence[str]
) -> tuple[Encoding, float] | None:
    """The encoding of a feature that is a line of another column's numbers by the codes of that column, and
    the share of the rows whose numbers are others; None if it is none.

    Args:
        schema: Of the release.
        name: The feature.
        how: As of `encode_feature`.
        taken: Columns that the regression has already.
    """
    column = release_column(schema, name, "features")
    if not isinstance(column, Relative) or how not in (None, "scores"):
        return None
    try:
        line, strays = find_line(schema, column), average_relative(schema, column).strays
    except InputError:  # of no numbers, or of others' products
        return None
    if line is None or line[0].names[0] in taken:
        return None
    (base,), (numbers,), slope = line[0].names, line[0].numbers, line[0].weight
    found = _scale(base, labels_of(schema, base), slope * numbers.scores + line[1])
    own = schema[base]
    discovered = isinstance(own, Binned) and own.fine is not None
    return replace(
        found,
        names=(name, *found.names[1:]),
        variances=slope**2 * numbers.doubts,
        binned=own if discovered else None,
        feature=name,
        slope=slope,
    ), strays


def _levels(name: str, labels: Sequence[str], codes: Sequence[int], reference: str) -> Encoding:
    matrix = np.zeros((len(codes), len(labels)))
    matrix[np.arange(len(codes)), codes] = 1.0
    levels = tuple(labels[code] for code in codes)
    return Encoding(name, tuple(f"{name}={level}" for level in levels), levels, matrix, reference)


def _ranks(column: Column) -> Floats:
    """2 c / (m - 1) - 1 for the m codes of values in order (seed paper's scaling), NaN for the others."""
    found: Floats = np.full(column.size, np.nan)
    values = column.present - (isinstance(column, Listed) and column.other_code is not None)
    found[:values] = np.linspace(-1.0, 1.0, values) if values > 1 else 0.0
    return found


def _scale(name: str, labels: Sequence[str], numbers: Floats) -> Encoding:
    """One number, 0 for codes without one, and an indicator of each of these."""
    absent = np.flatnonzero(np.isnan(numbers)).tolist()
    rest = _levels(name, labels, absent, "")
    matrix = np.vstack([np.nan_to_num(numbers)[None, :], rest.matrix])
    return Encoding(name, (name, *rest.names), ("", *rest.levels), matrix)


def encode_target(
    schema: Schema, name: str, kind: str, how: str | None, positive: object
) -> tuple[Floats, str]:
    """The number of each code of the target, NaN where there is none, shape [codes]; and what 1 means.

    Args:
        schema: Of the release.
        name: The target.
        kind: "linear", "logistic" or "poisson".
        how: "scores" or "ranks" for linear; None for scores.
        positive: For logistic: the level that is 1, all others being 0; by default the later of two.

    Raises:
        InputError: The target cannot be used so.
    """
    column = release_column(schema, name, "target")
    labels = labels_of(schema, name)
    if positive is not None:
        level = find_label(column, labels, positive)
        if level is None or kind == "poisson":
            remedy = f"Pick one of {list(labels)}, for a linear or logistic regression."
            raise InputError(invalid("positive", f"a level of {name!r}", remedy, got=positive))
        marks = np.asarray([float(label == level) for label in labels])
        if column.missing_code is not None and labels[column.missing_code] != level:
            marks[column.missing_code] = np.nan
        return marks, level
    if how == "ranks" and kind == "linear":
        return _ranks(column), ""
    if how not in (None, "scores"):
        raise InputError(invalid("encoding of the target", "'scores' or 'ranks'", "Pick one.", got=how))
    if kind == "logistic":
        return _two(column, labels)
    numbers = scores_of(column)
    if numbers is None:
        remedy = "Pick another target, or say which level counts as 1: positive='...'."
        raise refuse_numbers(column, "target", remedy)
    if kind == "poisson" and bool((numbers[~np.isnan(numbers)] < 0).any()):
        raise InputError(invalid("target", "a column of counts, none below 0", "Use linear.", got=name))
    return numbers, ""


def compose_target(schema: Schema, name: str) -> Averaged | None:
    """What a target of numbers is made of, where its codes say how it goes with others; None for others.

    Raises:
        InputError: It is no sum of other columns' numbers in all rows.
    """
    column = release_column(schema, name, "target")
    if not isinstance(column, Relative):
        return None
    made = average_relative(schema, column)
    single = bool(made.products) and all(len(one.names) == 1 for one in made.products)
    whole = made.rows.all() and all(held.present.all() for one in made.products for held in one.numbers)
    if single and whole:
        return made
    if single:
        what = "never missing, nor what it is coded by"
    else:
        what = "a sum, difference or line of others, since tables of two columns tell no product's"
    what += f"; codes of {name!r} say how it goes with {column.base_words}"
    remedy = "Declare its bins, bins=32 say, and make another release."
    raise InputError(invalid("target", what, remedy, got=name))


def _two(column: Column, labels: Sequence[str]) -> tuple[Floats, str]:
    """The later of two levels against the other; missing values are left out."""
    marks: Floats = np.full(column.size, np.nan)
    if column.present != 2:
        remedy = f"Say which level counts as 1: positive=..., one of {list(labels)}."
        raise InputError(invalid("target", "a column of two levels", remedy, got=column.name))
    marks[:2] = 0.0, 1.0
    return marks, labels[1]


def chosen_encodings(encodings: str | Mapping[str, str] | None, names: Sequence[str]) -> dict[str, str]:
    """The encoding that a caller asked for, by column; columns left to their default are left out.

    Raises:
        InputError: A column is not among names.
    """
    if encodings is None:
        return {}
    if isinstance(encodings, str):
        return dict.fromkeys(names, encodings)
    unknown = sorted(set(encodings) - set(names))
    if unknown:
        remedy = "Check the spelling."
        raise InputError(invalid("encodings", f"of columns among {list(names)}", remedy, got=unknown))
    return dict(encodings)


def encode_rows(rows: Any, schema: Schema, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """The codes of rows by column; values outside a declaration are absorbed as a lenient schema does.

    Args:
        rows: A pandas or polars data frame, an Arrow table, a mapping of columns, or `Encoded`.
        schema: Of the columns.
        names: The columns that are needed.

    Raises:
        InputError: A column is not there, or it is no table.
    """
    if isinstance(rows, Encoded):
        return {name: rows.column(name) for name in names}
    table = _as_arrow(rows)
    lenient = schema.absorb_outside()
    needed = [needed for name in names for needed in coded_from(lenient[name])]
    absent = sorted(set(needed) - set(table.column_names))
    if absent:
        raise InputError(invalid("rows", f"a table that has the columns {absent}", "Add them."))
    return {name: encode_from(table, lenient[name], lenient) for name in names}


def _as_arrow(rows: Any) -> pa.Table:
    """A table of any kind as an Arrow table."""
    if isinstance(rows, pa.Table):
        return rows
    try:
        if isinstance(rows, Mapping):
            return pa.table({name: _as_column(column) for name, column in rows.items()})
        return nw.from_native(rows, eager_only=True).to_arrow()
    except (TypeError, ValueError, pa.ArrowException):
        remedy = "Pass a data frame, an Arrow table or a mapping of columns."
        raise InputError(invalid("rows", "a table with the features' columns", remedy)) from None


def _as_column(column: Any) -> Any:
    """One column of a mapping; NumPy's dates in a list are read as an array of them is."""
    if isinstance(column, Sequence) and any(isinstance(value, np.datetime64) for value in column):
        return np.asarray(column, dtype="datetime64")
    return column


def count_rows(rows: Any) -> int:
    """How many rows a table has, of which no column is needed."""
    return rows.rows if isinstance(rows, Encoded) else _as_arrow(rows).num_rows
