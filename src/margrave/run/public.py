"""What is public in a run: columns of the table itself, and rows from elsewhere.

*Public columns*: what is known of them, who is told of them, and how they come back in the rows. All of it
starts from a `PublicPart`, which the curator hands out (`Curator.read_public`).

*Public rows from elsewhere* are another table, such as that of another year or place. They are no rows of the
private table, so nothing about them is paid for, and the promise is that of a run without them.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from margrave.errors import InputError, ReleaseError, invalid
from margrave.methods import Method, method
from margrave.models.informed import Informed
from margrave.schema.columns import Categorical, Omitted, Relative
from margrave.schema.domain import Domain
from margrave.schema.encode import encode_column
from margrave.schema.encoded import Codes, Encoded
from margrave.schema.frame import TEXT_FILE, Frame
from margrave.schema.given import Given, given_values
from margrave.schema.schema import Schema
from margrave.schema.storage import forms
from margrave.schema.storage.arrow import arrow_type, restore_column

if TYPE_CHECKING:
    from margrave.measure.public import PublicPart
    from margrave.protocols import Fitter, Strategy
    from margrave.release import Release
    from margrave.schema.columns import Column


MAX_VALUES = 256
"""Most values of a public text column that are codes of their own; the others share one. They come back in
the rows as they are: only what a private column can follow from is coarser."""


FEW_VALUES = 20
"""Values from which a public text column in which most rows have one of their own only tells rows apart."""


def choose_recipe(name: str, public: Sequence[str]) -> Method:
    """The method of a name; `auto` with public columns buys what `gated` buys and has a fitter of its own."""
    if name == "auto" and public:
        return dataclasses.replace(method("gated"), name="auto", fitter="public_auto")
    return method(name)


def condition_strategy(strategy: Strategy, public: Sequence[str]) -> Strategy:
    """The strategy, told which columns are public if it makes use of that."""
    if public and "public" in strategy.options:
        return strategy.with_options(public=tuple(public))
    return strategy


def condition_rows(strategy: Strategy, part: PublicPart | None, schema: Schema) -> Strategy:
    """The strategy, given the public rows if it makes use of them."""
    if part is not None and "given" in strategy.options:
        return strategy.with_options(given=part.encode(schema))
    return strategy


def condition_fitter(fitter: Fitter, part: PublicPart | None, schema: Schema) -> Fitter:
    """The fitter, given the public rows if it makes use of them."""
    if part is not None and "given" in fitter.options:
        return fitter.with_options(given=part.encode(schema))
    return fitter


def check_columns(public: Sequence[str], names: Sequence[str]) -> None:
    """Refuse public columns that the table does not have.

    Raises:
        InputError: There is one.
    """
    unknown = [name for name in public if name not in names]
    if unknown:
        raise InputError(invalid("public", f"among {list(names)}", "Check the spelling.", got=unknown))


def describe_saving(names: Sequence[str], public: Sequence[str]) -> str:
    """What a plan says of public columns: that their rows are told, and how many pairs need no noise."""
    if not public:
        return ""
    pairs = len(names) * (len(names) - 1) // 2
    known = len(public) * (len(public) - 1) // 2
    return (
        f"and the rows of {', '.join(public)}, exactly and in order: {known} of {pairs} pairs of columns are "
        f"known, and the other {pairs - known} share the budget"
    )


def complete_schema(part: PublicPart | None, declared: Schema | None) -> Schema | None:
    """What is declared, with public columns read off the public rows where nothing is declared of them.

    Numbers are cut into bins of like mass, text has its most frequent values, and text in which most rows
    have a value of their own is no attribute: it comes back in the rows, and no private column follows from
    it.

    Raises:
        InputError: The table is not held in memory.
    """
    if part is None:
        return declared
    from margrave.evaluation.rows import observed_schema

    public = set(part.names)
    mine = [] if declared is None else [column for column in declared.columns if column.name in public]
    known = Schema(tuple(mine)) if mine else None
    found = observed_schema(part.source, (), known)
    columns: list[Column] = []
    for column in found.columns:
        if column.name in {one.name for one in mine} or not isinstance(column, Categorical):
            columns.append(column)
        else:
            columns.append(_merge_rare(column, part))
    rest = () if declared is None else tuple(c for c in declared.columns if c.name not in public)
    return Schema((*columns, *rest), () if declared is None else declared.rules)


def _merge_rare(column: Categorical, part: PublicPart) -> Column:
    """A text column with its most frequent values where it has many; left out if it tells rows apart."""
    values = part.read_values().column(column.name).value_counts().to_pylist()
    counts = {str(one["values"]): one["counts"] for one in values if one["values"] is not None}
    if len(counts) > FEW_VALUES and 2 * len(counts) > sum(counts.values()):
        return Omitted(name=column.name)
    if column.values is None or len(column.values) <= MAX_VALUES:
        return column
    kept = sorted(counts, key=lambda text: (-counts[text], text))[: MAX_VALUES - 1]
    return dataclasses.replace(column, values=tuple(sorted(kept)), other="(other)", strict=False)


def pack_table(part: PublicPart | None) -> bytes:
    """The public columns as they are, for a release: an Arrow IPC stream, empty where there are none."""
    if part is None:
        return b""
    # A buffer of Arrow would double as it grows and be copied at its end: of a million rows that is more
    # memory than a fit takes.
    table, sink = part.read_values(), io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def unpack_table(release: Release) -> Any:
    """The public columns of a release, an Arrow table; None where it has none.

    Raises:
        ReleaseError: They are damaged.
    """
    if not release.public:
        return None
    try:
        table = pa.ipc.open_stream(release.public).read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError):
        raise ReleaseError(invalid("public", "an Arrow table", "The release is damaged.")) from None
    return forms.copy_values(table)  # of releases made before columns were packed by their values alone


def pick_rows(table: Any, rows: int, rng: np.random.Generator) -> Any:
    """The public rows as they are, if that many are asked for; else some, each about as often as any."""
    there = table.num_rows
    if rows == there:
        return table
    if rows and not there:
        raise InputError(invalid("rows", "0, as there is no public row", "Give rows to draw for."))
    turns = [rng.permutation(there) for _ in range(-(-rows // there))] if there else []
    places = np.concatenate([np.zeros(0, np.int64), *turns])[:rows]
    return table.take(pa.array(places.astype(np.int64)))


def give_public(table: Any, schema: Schema) -> Given:
    """Public rows as given values: codes, and the numbers of binned columns, which others may be relative to.

    A value outside a column's declaration is absorbed by its codes, and its number is then not used.
    """
    codes: dict[str, Codes] = {}
    numbers: dict[str, Any] = {}
    for name in modelled_names(table.column_names, schema):
        try:
            found = given_values(schema, table.select([name]))
            codes[name] = np.asarray(found.codes[name])
            numbers |= found.numbers
        except InputError:
            codes[name] = encode_column(table.column(name), dataclasses.replace(schema[name], strict=False))
    return Given(table.num_rows, codes, numbers)


def modelled_names(names: Sequence[str], schema: Schema) -> list[str]:
    """The columns among some that models see: not those that only come back as they are."""
    return [name for name in names if name in schema.names and not isinstance(schema[name], Omitted)]


def attach_columns(
    rows: Any, public: Any, kind: str, dtypes: Mapping[str, str], stored: str | None = None
) -> Any:
    """The drawn rows with the public columns put in as they are, value for value.

    Args:
        rows: A pandas or polars frame or an Arrow table, with the private columns.
        public: An Arrow table of as many rows.
        kind: "pandas", "polars" or "arrow": what `rows` is.
        dtypes: The storage type of each column, in the table's order.
        stored: The library whose types these are; that of `rows` when None.
    """
    drawn = list(rows.schema.names) if kind == "arrow" else list(rows.columns)
    names = [*dtypes, *(name for name in drawn if name not in dtypes)]
    names = [name for name in names if name in drawn or name in public.column_names]
    kept = {
        name: restore_values(public.column(name), kind, dtypes.get(name, ""), stored or kind)
        for name in names
        if name in public.column_names
    }
    if kind == "arrow":
        arrays = [kept[name] if name in kept else rows.column(name) for name in names]
        fields = [
            pa.field(name, array.type) if name in kept else rows.schema.field(name)
            for name, array in zip(names, arrays, strict=True)
        ]
        return pa.table(arrays, schema=pa.schema(fields, metadata=rows.schema.metadata))
    library = importlib.import_module(kind)
    return library.DataFrame({name: kept[name] if name in kept else rows[name] for name in names})


def restore_values(values: Any, kind: str, dtype: str, stored: str) -> Any:
    """A public column, from the storage form that the release keeps, in the storage type that it came in.

    Args:
        values: An Arrow column.
        kind: "pandas", "polars" or "arrow": of what table it will be a part.
        dtype: The storage type that it came in, as text; text of a text file stays text.
        stored: The library whose type this is. In an Arrow table a type of pandas or polars is the Arrow type
            that it is made from, a category the type of its values.
    """
    values = forms.one_chunk(values)
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if kind != "arrow":
        storage: Any = importlib.import_module(f"margrave.schema.storage.{kind}")
        return storage.restore_series(values, dtype)
    if dtype in ("", TEXT_FILE):
        return values
    if stored == "arrow":
        return restore_column(values, arrow_type(dtype))
    storage = importlib.import_module(f"margrave.schema.storage.{stored}")
    wanted = storage.arrow_kind(dtype)
    return values if wanted is None else restore_column(values, wanted)


def check_types(frame: Frame, public: Sequence[str]) -> None:
    """Refuse public columns whose rows could not be handed out in the end, by their storage types alone.

    An empty column of each type is handed out in every way that a release will be asked for.

    Args:
        frame: Library and storage types of a table that has these columns.
        public: Names of the public columns.

    Raises:
        InputError: There is one.
    """
    for name in public:
        dtype = frame.dtypes[name]
        try:
            values = _empty_form(name, dtype, frame.kind)
            for kind in dict.fromkeys((frame.kind, "arrow")):
                restore_values(values, kind, dtype, frame.kind)
            continue
        except (ImportError, MemoryError):
            raise
        except Exception:  # noqa: S110  whatever a library says of a type that it cannot make
            pass
        constraint = "of columns whose storage type can be handed out again"
        remedy = f"Cast {name!r} to text, numbers, dates or times, or leave it out."
        raise InputError(invalid("public", constraint, remedy, got=dtype))


def _empty_form(name: str, dtype: str, stored: str) -> Any:
    """An empty column in the form that a release keeps of a storage type."""
    kind = None
    if stored != "arrow":
        kind = importlib.import_module(f"margrave.schema.storage.{stored}").arrow_kind(dtype)
    elif dtype != TEXT_FILE:
        kind = arrow_type(dtype)
    if kind is None or pa.types.is_dictionary(kind) or dtype.startswith("category["):
        return pa.array([], pa.large_string())
    return forms.keep_column(pa.array([], kind), name)


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


def digest_public_table(table: Any) -> dict[str, str]:
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
