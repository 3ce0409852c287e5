"""Public rows from elsewhere: another table whose rows are public, such as those of another year or place.

They are no rows of the private table, so nothing about them is paid for, and the promise is that of a run
without them.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from margrave.errors import InputError, invalid
from margrave.models.informed import Informed
from margrave.schema.columns import Relative
from margrave.schema.domain import Domain
from margrave.schema.encode import encode_column
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Fitter, Strategy


def inform_fitter(strategy: Strategy, fitter: Fitter, public_table: Any, public: Sequence[str]) -> Fitter:
    """The fitter, beside which public rows are used unless the strategy makes use of them itself.

    Args:
        strategy: Of the run.
        fitter: Of the run, with its target and limits.
        public_table: The public rows; None for none.
        public: Names of the public columns of the private table.

    Raises:
        InputError: There are public columns as well, or the fitter does not learn from marginals.
    """
    if public_table is None:
        return fitter
    if public:
        remedy = "Take public columns, or public rows from elsewhere."
        raise InputError(invalid("public_table", "left out with public", remedy))
    if "reference" in strategy.options:
        return fitter
    return Informed(fitter=fitter)


def read_public_table(public_table: Any, names: Sequence[str], reading: dict[str, Any]) -> Any:
    """The public rows as an Arrow table, found to be of use before anything is spent; None without any.

    Args:
        public_table: A frame, an Arrow table, or the path of a file.
        names: Of the private table's columns.
        reading: Texts that mean missing, and how text files are written, by name.

    Raises:
        InputError: It cannot be read, has no row, or shares no column with the private table.
    """
    if public_table is None:
        return None
    from margrave.engines.frames import read_table

    table = read_table(public_table, reading["missing"], reading["text"])[0]
    shared = [name for name in table.column_names if name in names]
    if not shared or not table.num_rows:
        constraint = f"a table of rows with some of the columns {list(names)}"
        raise InputError(invalid("public_table", constraint, "Check the names of its columns."))
    return table.select(shared)


def encode_public_table(table: Any, schema: Schema) -> Encoded | None:
    """The public rows as codes of a run's schema; None where no column can be used.

    A value that the schema has no code for counts as the nearest or likeliest one, as in a column that
    absorbs values outside its declaration. Left out are columns that store something else than the
    private table's, and columns that are coded by how they differ from others.

    Args:
        table: The public rows, an Arrow table; None for none.
        schema: Of the private table, known.
    """
    names, sizes, codes = [], [], []
    for column in schema.attributes if table is not None else ():
        if column.name not in table.column_names or isinstance(column, Relative):
            continue
        try:
            own = encode_column(table.column(column.name), dataclasses.replace(column, strict=False))
        except (InputError, pa.ArrowException):
            continue
        names.append(column.name)
        sizes.append(column.size)
        codes.append(own)
    return Encoded(Domain(tuple(names), tuple(sizes)), tuple(codes)) if names else None


def hand_reference(strategy: Strategy, fitter: Fitter, reference: Encoded | None) -> tuple[Strategy, Fitter]:
    """The strategy and the fitter, the one that makes use of public rows with them."""
    if reference is None:
        return strategy, fitter
    if "reference" in strategy.options:
        return strategy.with_options(reference=reference), fitter
    return strategy, fitter.with_options(reference=reference)


def describe_public_table(public_table: Any) -> str:
    """What a plan says of public rows; nothing where there are none."""
    if public_table is None:
        return ""
    return (
        "and the rows of the public table, which enter the fit as far as split noise finds that they help; "
        "none of them may be a row of the private table"
    )


def digest_table(table: Any) -> dict[str, str]:
    """What a resumed run has to agree with about public rows, by name; nothing where there are none."""
    if table is None:
        return {}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return {"public table": hashlib.sha256(sink.getvalue()).hexdigest()[:16]}


def note_public_table(reference: Encoded | None) -> dict[str, str]:
    """What a release says of public rows from elsewhere, by name; nothing where there are none."""
    if reference is None:
        return {}
    return {"public_table": f"{reference.rows} public rows of {', '.join(reference.domain.names)}"}
