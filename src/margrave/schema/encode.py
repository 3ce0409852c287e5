"""encode and decode: a table of values to compact integer codes under a known schema, and back.

`encode` codes whole tables and what follows it their columns. `decode`, below, gives the names, order and
storage types that went in.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from margrave.errors import InputError, MissingExtraError, SchemaError, invalid
from margrave.schema.columns import (
    Binned,
    Boolean,
    Categorical,
    Column,
    Integer,
    Listed,
    Moment,
    Omitted,
    Scalar,
    Time,
    Whole,
)
from margrave.schema.columns.binned import SpeltNumber
from margrave.schema.columns.identifier import match_shapes, shape_parts
from margrave.schema.columns.key_years import write_year_numbers, write_years
from margrave.schema.columns.relative import Relative, relative_codes, take_own
from margrave.schema.columns.repeats import share_rows
from margrave.schema.constraints.calendar import draw_parts, follow_dates, tell_years
from margrave.schema.constraints.classes import draw_in_classes, follow_numbers
from margrave.schema.constraints.draws import Drawn, agreed_numbers, relative_numbers
from margrave.schema.constraints.flag_counts import follow_flags
from margrave.schema.constraints.orders import keep_orders
from margrave.schema.constraints.references import (
    avoid_self,
    find_references,
    refer_to_numbers,
    refer_to_texts,
)
from margrave.schema.constraints.rules import KeyYear
from margrave.schema.encoded import Codes, Encoded, code_dtype
from margrave.schema.frame import Frame
from margrave.schema.profile import profile
from margrave.schema.queries import places, readings
from margrave.schema.schema import Schema
from margrave.schema.storage import forms
from margrave.schema.storage.arrow import arrow_type, decode_column
from margrave.schema.storage.censored import MARKS
from margrave.schema.storage.spelling import rewrite_column

Indices = NDArray[np.int64]
Settled = tuple[Column, Codes, Any]
"""A column as it is written, its codes, and numbers that were drawn before."""
UNSEEN, MISSING = -2, -1
"""Marks of values that a column does not list, and of missing ones, before they get a code."""


def encode(table: Any, schema: Schema) -> Encoded:
    """A table's rows as codes, the schema's columns in the schema's order; identifiers are not looked at.

    **Not private**: one code a value.

    Args:
        table: A pyarrow.Table with the schema's columns.
        schema: All that is known of them.

    Raises:
        InputError: A column is absent or extra, or holds what its declaration rules out.
        SchemaError: A column is not known yet.
    """
    _same_names(list(table.column_names), schema)
    return Encoded(schema.domain, tuple(encode_from(table, column, schema) for column in schema.attributes))


def encode_from(table: Any, column: Column, schema: Schema) -> Codes:
    """One column's codes, shape [rows].

    Args:
        table: Has the columns that it is coded from (`coded_from`).
        column: A known column.
        schema: Has the columns that it is compared with, which say how their texts are written.
    """
    array = table.column(column.name)
    if isinstance(column, Relative):
        array = in_usual_form(array, column)
        base, *others = (in_usual_form(table.column(name), schema[name]) for name in column.bases)
        return relative_codes(array, base, column, likeliest(column.part), others)
    return encode_column(array, column)


def in_usual_form(array: Any, column: Column) -> Any:
    """An Arrow array of a column, its texts in the usual form of numbers and dates: shape [rows]."""
    column = take_own(column)
    if not isinstance(column, Binned) or not column.format:
        return array
    return rewrite_column(array, column.read, column.format, column.name)


def coded_from(column: Column) -> tuple[str, ...]:
    """Names of the columns of the table that a column's codes depend on: its own, and those of its base."""
    return (column.name, *column.bases) if isinstance(column, Relative) else (column.name,)


def _same_names(names: list[str], schema: Schema) -> None:
    absent = [name for name in schema.names if name not in names]
    extra = [name for name in names if name not in schema.names]
    if absent:
        raise InputError(
            invalid("schema", "made of the table's columns", "Remove or rename the others.", got=absent)
        )
    if extra:
        raise InputError(
            invalid("schema", f"of all columns, but it lacks {extra}", "Declare them, or drop the columns.")
        )


def encode_column(array: Any, column: Column) -> Codes:
    """One column's codes, shape [rows]: its values or bins, then `other`, then missing.

    A strict column accepts only what it declares. Another absorbs the rest: a category that is not listed
    becomes `other` if there is one, a number outside the nearest bin, a fraction in a column of whole
    numbers its floor, text that is none of the column's numbers, dates or times missing; and what then has
    no code becomes the likeliest one: the bin with the greatest weight where weights are known, else code 0.

    Args:
        array: A pyarrow.Array or ChunkedArray.
        column: A known column.

    Raises:
        InputError: The column is strict and holds something else. The error never says what.
        SchemaError: The column is not known yet.
    """
    if isinstance(column, Listed):
        codes = _encode_listed(forms.list_values(array, column.name), column)
    elif isinstance(column, Binned):
        codes = _encode_binned(array, column)
    else:
        raise SchemaError(
            invalid(f"column {column.name!r}", "known before it is encoded", "Declare it or discover it.")
        )
    return _settle_codes(codes, column)


def _settle_codes(codes: Indices, column: Column) -> Codes:
    """Give rows that hold no declared value their code, or refuse."""
    lowest = int(codes.min(initial=0))
    # No value is named in these errors: that a row holds it is private.
    if lowest < 0:
        other = column.other_code if isinstance(column, Listed) else None
        fallback = other if other is not None else likeliest(column)
        if column.strict and other is None and bool((codes == UNSEEN).any()):
            raise _refuse_column(
                column, "within its declared values", "Declare every value, or an `other` label."
            )
        codes[codes == UNSEEN] = fallback
        absent = column.missing_code
        if absent is None and column.strict and bool((codes == MISSING).any()):
            raise _refuse_column(column, "without missing values", "Declare missing=True, or fill them in.")
        codes[codes == MISSING] = fallback if absent is None else absent
    return codes.astype(code_dtype(column.size))


def likeliest(column: Column) -> int:
    """The code for what has none: the heaviest bin where weights are known, else 0."""
    if not isinstance(column, Binned) or column.fine is None or column.weights is None:
        return 0
    owner = np.searchsorted(column.edge_array, np.asarray(column.fine[:-1]), side="right") - 1
    return int(np.argmax(np.bincount(owner, weights=np.asarray(column.weights))))


def _refuse_column(column: Column, constraint: str, remedy: str) -> InputError:
    return InputError(invalid(f"column {column.name!r}", constraint, remedy))


def _encode_binned(array: Any, column: Binned) -> Indices:
    edges = _edges(column)
    array = in_usual_form(array, column)
    x, known = readings(array, column.read, column.name)
    if column.strict and _texts(array, column, known):
        example = "$1,234.50" if column.read == "number" else "%d.%m.%Y"
        remedy = (
            'Name the texts that mean missing by --missing, let all texts be missing by "strict": false, say '
            f"how it is written by --format '{column.name}={example}', or declare it as categorical."
        )
        raise _refuse_column(column, f"made of {column.read}s", remedy)
    if isinstance(column, Whole) and x.dtype.kind == "f":
        floor = np.floor(x)
        if column.strict and bool((floor < x).any()):
            raise _refuse_column(column, "made of whole numbers", "Declare it as real.")
        x = floor
    # The last edge of whole numbers is one beyond the largest; that of numbers on a line belongs to the
    # last bin.
    beyond = (x >= edges[-1]) if isinstance(column, Whole) else (x > edges[-1])
    if column.strict and bool(((beyond | (x < edges[0])) & known).any()):
        raise _refuse_column(column, "within its declared bounds", "Widen lower and upper.")
    codes = places(x, edges)
    np.clip(codes, 0, column.present - 1, out=codes)
    codes[~known] = MISSING
    return codes


def _texts(array: Any, column: Binned, known: NDArray[np.bool_]) -> bool:
    """Whether there are cells that are neither missing nor numbers of the column's kind."""
    if bool(known.all()):
        return False
    return bool(len(known) - profile(array, column.name)[0] > known.sum())


def _edges(column: Binned) -> Any:
    """The edges as int64, exact at any size, where they are whole and fit."""
    edges = column.edge_array
    if isinstance(column, Whole) and bool((np.abs(edges) < float(1 << 62)).all()):
        return np.asarray(column.edges, dtype=np.int64)
    return edges


def _encode_listed(values: Any, column: Listed) -> Indices:
    if column.values is None:
        raise SchemaError(invalid(f"column {column.name!r}", "of known values", "Declare or discover them."))
    # Whole numbers from 0 are their own codes, so nothing needs to be looked up.
    if pa.types.is_integer(values.type) and _is_range(column):
        raw = np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False))
        inside = (raw >= 0) & (raw < len(column.values))
        codes = np.where(inside, raw, UNSEEN).astype(np.int64)
        if values.null_count:
            codes[np.asarray(values.is_null().to_numpy(zero_copy_only=False))] = MISSING
        return codes
    # Each distinct text is looked up once, and rows take what was found: most columns have few values and
    # many rows.
    rows, distinct = forms.texts(values)
    lookup = np.append(_match(distinct, values, column), MISSING)
    result: Indices = lookup[rows]
    return result


def _is_range(column: Listed) -> bool:
    """Whether the values are the whole numbers 0, 1, 2, ..., so that a value is its own code."""
    values = column.values or ()
    return all(type(value) is int and value == code for code, value in enumerate(values))


def _match(distinct: Any, values: Any, column: Listed) -> Indices:
    """The code of each distinct text, UNSEEN where the column does not list it.

    Equal spelling first; then equal numbers, so that "1.0" in a file is a declared 1; then truth values
    whatever their case, among which blank texts are missing, and the marks of missing values are unless the
    column is strict; then the beginnings and the patterns that have a code.
    """
    labels = column.values or ()
    codes = _find(distinct, [forms.spell_value(label) for label in labels])
    numeric: list[Scalar | None] = [label if not isinstance(label, str) else None for label in labels]
    if not forms.is_text(values):
        numeric = list(labels)
    # Storage may spell a number otherwise than the schema does, 1.0 for 1, so what is left is compared as
    # numbers.
    if (codes < 0).any() and any(label is not None for label in numeric):
        canonical = _canonical(distinct, pa.types.is_boolean(values.type))
        _fill(codes, _find(canonical, [forms.number_spelling(label) for label in numeric]))
    # Spreadsheets write TRUE where others write True or true.
    truths = [str(label).lower() if isinstance(label, bool) else None for label in labels]
    if (codes < 0).any() and any(truths):
        _fill(codes, _find(pc.utf8_lower(distinct), truths))
        absent = forms.are_blank(distinct)
        if not column.strict:
            absent |= _find(distinct, list(MARKS)) >= 0
        codes[absent & (codes < 0)] = MISSING
    if (codes < 0).any() and column.stems:
        _fill_by_beginning(codes, distinct, column)
    if (codes < 0).any() and column.patterns:
        _fill_by_pattern(codes, distinct, column)
    return codes


def _fill_by_beginning(codes: Indices, distinct: Any, column: Listed) -> None:
    """Give texts that are not listed the code of the longest beginning that they have."""
    first = len(column.values or ())
    for length in sorted({len(stem) for stem in column.stems}, reverse=True):
        keys = [stem if len(stem) == length else None for stem in column.stems]
        found = _find(pc.utf8_slice_codeunits(distinct, 0, length), list(keys))
        _fill(codes, np.where(found >= 0, found + first, found))


def _fill_by_pattern(codes: Indices, distinct: Any, column: Listed) -> None:
    """Give texts that are not listed and have no beginning the code of the first pattern that they are of."""
    first = len(column.values or ()) + len(column.stems)
    lengths = np.asarray(pc.fill_null(pc.utf8_length(distinct), 0))
    for length in sorted({len(shape_parts(shape)) for shape in column.patterns}):
        rows = np.flatnonzero((codes == UNSEEN) & (lengths == length))
        places = match_shapes(distinct.take(pa.array(rows)).to_pylist(), column.patterns)
        codes[rows] = np.where(places >= 0, places + first, UNSEEN)


def _find(distinct: Any, keys: list[str | None]) -> Indices:
    found = pc.index_in(distinct, value_set=pa.array(keys, pa.large_string()), skip_nulls=True)
    return np.asarray(pc.fill_null(found, UNSEEN).to_numpy(zero_copy_only=False)).astype(np.int64)


def _fill(codes: Indices, more: Indices) -> None:
    np.copyto(codes, more, where=codes < 0)


def _canonical(distinct: Any, truths: bool) -> Any:
    """The canonical spelling of texts that are numbers (or, of a truth column, truths), null for the rest."""
    values, _ = forms.parse(distinct)
    if truths:
        values = np.asarray(pc.equal(distinct, "true").to_numpy(zero_copy_only=False), dtype=np.float64)
    return pc.if_else(pa.array(~np.isnan(values)), forms.number_texts(pa.array(values)), None)


SPELT_KINDS = (Boolean, Moment, SpeltNumber, Time)
"""Kinds of columns that have a spelling."""


def decode(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    frame: Frame | None = None,
    known: Mapping[str, NDArray[np.float64]] | None = None,
    given: Collection[str] = (),
) -> Any:
    """The rows that codes stand for, as the kind of table that went in.

    A listed value decodes to itself, `other` to its label (null where the storage type cannot hold the
    label), missing to null. A bin decodes to a number drawn in it: first a fine cell by weight, where
    the column knows them, then evenly inside, on one of the column's grids where it has some. Identifiers
    get new keys, and omitted columns are left out.

    Args:
        encoded: The rows, under the schema's domain.
        schema: The schema they were encoded or fitted with.
        rng: Draws the numbers inside the bins.
        frame: Library, storage types and order of the columns; an Arrow table with the types that the
            column kinds suggest when None.
        known: Numbers by column that are not to be drawn, NaN where they are, each of shape [rows].
        given: Names of listed columns whose codes stay, whatever a date says.

    Returns:
        A pandas or polars DataFrame, or a pyarrow.Table.

    Raises:
        SchemaError: The codes belong to another domain, or break the schema's rules.
        MissingExtraError: The library of the table that went in is not installed.

    Example:
        >>> schema = Schema.from_sizes({"a": 2})
        >>> rows = Encoded(schema.domain, (np.array([1, 0], dtype=np.uint8),))
        >>> decode(rows, schema, np.random.default_rng(0)).to_pydict()
        {'a': [1, 0]}
    """
    if encoded.domain != schema.domain:
        raise SchemaError(invalid("encoded", "under the schema's domain", "Decode with the schema it has."))
    library, frame = _library((frame or Frame()).kind), frame or Frame()
    table = _table(encoded, schema, rng, frame, known or {}, given)
    return _arrow_table(table, schema) if frame.kind == "arrow" else library.DataFrame(table)


def _arrow_table(table: Mapping[str, Any], schema: Schema) -> Any:
    fields = [_field(schema[name], values.type) for name, values in table.items()]
    return pa.table(list(table.values()), schema=pa.schema(fields))


def _field(column: Column, kind: Any) -> Any:
    """The Arrow field of a column; its metadata say how values are written in text files."""
    column = take_own(column)
    plain = "true" if isinstance(column, Boolean) else ""
    spelling = (column.spelling or "") if isinstance(column, SPELT_KINDS) else ""
    told = {"spelling": spelling} if spelling != plain else {}
    told |= {"missing": column.mark} if column.mark else {}
    if isinstance(column, SpeltNumber) and column.censored:
        told["censored"] = json.dumps(column.censored)
    return pa.field(column.name, kind, metadata=told or None)


def _table(
    encoded: Encoded,
    schema: Schema,
    rng: np.random.Generator,
    frame: Frame,
    known: Mapping[str, NDArray[np.float64]],
    given: Collection[str],
) -> dict[str, Any]:
    """Columns in the frame's order; drawn in the schema's, so that the frame's order changes no value."""
    numbers = agreed_numbers(encoded, schema, frame.dtypes, rng, known)
    numbers |= draw_in_classes(encoded, schema, rng, numbers, known)
    numbers |= draw_parts(encoded, schema, rng, numbers, known, given)
    linked = relative_numbers(encoded, schema, frame.dtypes, rng, numbers, known)
    changed, texts = follow_dates(encoded, schema, rng, numbers, linked, known, given)
    linked |= changed
    linked |= keep_orders(encoded, schema, rng, linked, numbers, known)
    texts |= follow_numbers(encoded, schema, numbers, linked, texts, given)
    linked |= follow_flags(encoded, schema, rng, numbers, linked, texts, known)
    settled = {
        column.name: _settle_column(column, encoded, numbers, linked, texts)
        for column in schema.columns
        if not isinstance(column, Omitted)
    }
    for rule, years in tell_years(schema, linked):
        if rule.number not in {*given, *known}:
            settled[rule.number] = _write_years(*settled[rule.number], rule, years, rng)
    referred = _draw_references(settled, find_references(schema), rng, {*known, *given})
    table = {
        name: _values(codes, column, rng, frame, referred.get(name, drawn))
        for name, (column, codes, drawn) in settled.items()
    }
    # The frame's columns in its own order, and then those that it did not have.
    names = [name for name in frame.dtypes if name in table]
    names += [name for name in table if name not in frame.dtypes]
    return {name: table[name] for name in names}


def _settle_column(
    column: Column,
    encoded: Encoded,
    numbers: Mapping[str, Any],
    linked: Mapping[str, Drawn],
    texts: Mapping[str, Codes],
) -> Settled:
    """What is written of a column: as which one, its codes, and numbers that were drawn; None for none."""
    rows = np.zeros(encoded.rows, dtype=np.uint8)
    codes = encoded.column(column.name) if column.attribute else rows
    codes = texts.get(column.name, codes)
    drawn = numbers.get(column.name)
    if column.name in linked:
        drawn = linked[column.name].numbers
    # What was modelled is the difference to another column; the number itself stands now, so it is
    # written like any column of its own kind.
    if isinstance(column, Relative):
        absent = linked[column.name].absent
        column = dataclasses.replace(column.own, missing=column.missing)
        codes = np.where(absent, column.present, 0).astype(np.uint32)
    return column, codes, drawn


def _write_years(
    column: Column, codes: Codes, drawn: Any, rule: KeyYear, years: Indices, rng: np.random.Generator
) -> Settled:
    """What is written of a column of keys, with the years of dates in them."""
    if not isinstance(column, Integer):
        return *write_years(column, codes, years, rule.place, rule.digits, rng), drawn
    numbers = decode_column(codes, column, rng, pa.int64(), drawn)
    rows = np.flatnonzero(np.asarray(numbers.is_valid()))
    found = np.array(numbers.fill_null(0))
    found[rows] = write_year_numbers(found[rows], years[rows], rule.place, rule.digits)
    return column, codes, found


def _draw_references(
    settled: Mapping[str, Settled],
    references: Mapping[str, str],
    rng: np.random.Generator,
    fixed: Collection[str],
) -> dict[str, Any]:
    """Values of keys, and of columns that refer to them: numbers, or Arrow arrays of text.

    Args:
        settled: What is written of each column.
        references: The columns that refer to a key, and that one (`find_references`).
        rng: Draws them.
        fixed: Names of columns some of whose values are given: neither they nor their keys change.
    """
    found = dict[str, Any]()
    for of, key in references.items():
        if of in fixed or key in fixed:
            continue
        column, codes, drawn = settled[of]
        own, own_codes, own_drawn = settled[key]
        numeric, own_numeric = (isinstance(one, Integer) for one in (column, own))
        kind, own_kind = (pa.int64() if one else pa.large_string() for one in (numeric, own_numeric))
        keys = decode_column(own_codes, own, rng, own_kind, found.get(key, own_drawn))
        found[key] = np.asarray(keys.fill_null(0)) if own_numeric else keys
        keys, values = keys.cast(kind), decode_column(codes, column, rng, kind, drawn)
        refers = np.asarray(values.is_valid())
        if column.zero_code is not None:  # no key is 0 where that stands for none
            refers &= np.asarray(pc.fill_null(pc.not_equal(values, 0), False))
        rows, there = np.flatnonzero(refers), np.flatnonzero(np.asarray(keys.is_valid()))
        if not len(rows) or not len(there):
            continue
        if numeric:
            places = refer_to_numbers(np.asarray(values.take(rows)), np.asarray(keys.take(there)))
        else:
            places = refer_to_texts(_part_others(values.take(rows), column, rng), len(there), rng)
        own_places = np.full(len(values), -1)
        own_places[there] = np.arange(len(there))
        chosen = there[avoid_self(places, own_places[rows])]
        made = pc.replace_with_mask(values, pa.array(refers), keys.take(chosen))
        found[of] = np.asarray(made.fill_null(0)) if numeric else made
    return found


def _part_others(values: Any, column: Column, rng: np.random.Generator) -> list[str]:
    """Texts, those that are not listed parted into different ones as keys of the column come back."""
    texts: list[str] = values.to_pylist()
    if isinstance(column, Categorical) and column.other is not None:
        rows = [row for row, text in enumerate(texts) if text == column.other]
        for row, owner in zip(rows, share_rows(len(rows), column.repeats, rng).tolist(), strict=True):
            texts[row] = f"{column.other} {owner}"
    return texts


def _library(kind: str) -> Any:
    if kind == "arrow":
        return pa
    try:
        return importlib.import_module(kind)
    except ImportError:
        raise MissingExtraError(
            invalid(kind, "installed to make its tables", f"Run: pip install 'margrave[{kind}]'")
        ) from None


def _values(codes: Codes, column: Column, rng: np.random.Generator, frame: Frame, drawn: Any) -> Any:
    dtype = frame.dtypes.get(column.name)
    if frame.kind == "arrow":
        return decode_column(codes, column, rng, arrow_type(dtype), drawn)
    module = importlib.import_module(f"margrave.schema.storage.{frame.kind}")
    return module.series(codes, column, rng, dtype, drawn)
