"""PushdownEngine: marginals counted where the table is, many in one scan. Not private.

`draw_rows` says which rows of each owner a backend keeps, whatever the rows of other owners are.

Write a row's content for the storage forms of its columns, all that any later answer depends on. Rows
with the same owner and the same content are numbered 0, 1, ... by the backend, in any order. Each row
draws SHA-256 of (key, owner, content), where the key is 256 secret random bits of this call, or if its
number is not 0 of that digest and the number; each owner keeps the rows with the least draws.

**Proof that the draw is made for each owner apart.** Fix the key. Rows with the same owner and content
cannot be told apart by any answer, so whichever of them gets which number, the same contents have the
same draws: the contents that an owner keeps are a function of the key and of that owner's own contents.
Other owners' rows, the order of the rows, and how the backend splits them into partitions have no part in
it. So for every key, the kept tables of two neighbours differ in the rows of one owner, at most max_rows
in each, and the sensitivities hold for every key, hence for a random one. Where a backend may write two
floats as one text, rows are numbered in the order of the floats themselves, which again are the owner's
own. The proof takes different contents to have different digests: for any table of up to 2^64 rows,
SHA-256 taken as a random function breaks that with a chance below 2^-128.

A hash is used for its spread only: that the rows of an owner are equally likely to be kept is what makes
the release useful, not what makes it private. A backend that computes a part of its answer again draws
the same rows.

What an ibis expression gives, and nothing of what its backend says about it. Not private.
"""

from __future__ import annotations

import math
import secrets
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, final

import ibis
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.engines.counts import Counts, PrivateRows
from margrave.engines.cover import check_clique, merge_cliques
from margrave.engines.ibis.codings import Coding
from margrave.engines.ibis.expressions import Stored, text_bytes
from margrave.engines.memory import MAX_CELLS
from margrave.engines.streaming.batches import read_guarded
from margrave.errors import InputError, invalid
from margrave.schema.domain import Clique, Domain
from margrave.schema.encoded import code_dtype

SPELLS_FLOATS = frozenset({"databricks", "duckdb", "pyspark"})
"""Backends that write different float64 as different texts; PostgreSQL may be set to round them."""


def draw_rows(
    table: Any, owner: Stored, columns: Mapping[str, Stored], max_rows: int, key: bytes | None = None
) -> Any:
    """The table with at most max_rows rows of each owner, drawn at random, and without the owner column.

    See the head of this file for the draw and the proof that it is made for each owner apart.

    Args:
        table: An ibis.Table.
        owner: The storage form of the owner column, no value missing.
        columns: The storage forms of the columns to keep, by name.
        max_rows: At least 1.
        key: The 256 bits; from the system where it is None, as in every private run.
    """
    backend = table.get_backend().name
    digits = secrets.token_hex(32) if key is None else key.hex()
    written = [ibis.literal(digits), *(_write_text(column, backend) for column in (owner, *columns.values()))]
    floats = {f"f{i}": c.value for i, c in enumerate(columns.values()) if c.form == "float"}
    # Where different floats have different texts, rows of equal text are equal, and need no order.
    floats = {} if backend in SPELLS_FLOATS else floats
    kept = {f"c{i}": table[name] for i, name in enumerate(columns)}
    rows = table.select(o=owner.value, d=_digest(_join_texts(written), backend), **floats, **kept)
    # Rows of one owner with equal content are numbered, and all but the first draw anew by their number: see
    # the proof at the head of this file.
    number = ibis.row_number().over(
        group_by=[rows.o, rows.d], order_by=[rows.d, *(rows[name] for name in floats)]
    )
    rows = rows.mutate(j=number.cast("int64"))
    again = _digest(_join_texts([_hexadecimal(rows.d, backend), rows.j.cast("string")]), backend)
    rows = rows.mutate(u=ibis.ifelse(rows.j == 0, rows.d, again))
    # Each owner keeps the rows of the least draws.
    rank = ibis.row_number().over(group_by=rows.o, order_by=[rows.u, rows.d, rows.j])
    rows = rows.mutate(r=rank).filter(lambda t: t.r < max_rows)
    return rows.select(**{name: rows[f"c{i}"] for i, name in enumerate(columns)})


def _write_text(column: Stored, backend: str) -> Any:
    """A value as text without commas, null as "null"."""
    value = column.value
    text = _hexadecimal(value, backend) if column.form == "text" else value.cast("string")
    return ibis.coalesce(text, ibis.literal("null"))


def _join_texts(texts: Sequence[Any]) -> Any:
    """Texts with commas between them, as a shallow tree: some backends limit how deep expressions are."""
    if len(texts) == 1:
        return texts[0]
    middle = len(texts) // 2
    return _join_texts(texts[:middle]) + ibis.literal(",") + _join_texts(texts[middle:])


def _of_bytes(value):  # type: ignore[no-untyped-def]  # ibis reads the names of its arguments
    """Stands for a function of the backend."""


def _of_bytes_with(value, more):  # type: ignore[no-untyped-def]
    """Stands for a function of the backend."""


def _function(name: str, gives: str, *more: str) -> Any:
    stands = _of_bytes_with if more else _of_bytes
    return ibis.udf.scalar.builtin(stands, name=name, signature=(("binary", *more), gives))


HEXADECIMAL: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "bigquery": (_function("to_hex", "string"), ()),
    "duckdb": (_function("hex", "string"), ()),
    "postgres": (_function("encode", "string", "string"), ("hex",)),
    "snowflake": (_function("hex_encode", "string"), ()),
    "trino": (_function("to_hex", "string"), ()),
}
"""The function of a backend that writes bytes in hexadecimal digits, "hex" if it is not here."""

SHA256: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "databricks": (_function("sha2", "string", "int32"), (256,)),
    "duckdb": (_function("sha256", "string"), ()),
    "pyspark": (_function("sha2", "string", "int32"), (256,)),
    "snowflake": (_function("sha2_binary", "binary", "int32"), (256,)),
}
"""The function of a backend that gives SHA-256 of bytes, "sha256" with bytes as its answer if not here."""


def _hexadecimal(value: Any, backend: str) -> Any:
    function, more = HEXADECIMAL.get(backend, (_function("hex", "string"), ()))
    return function(value, *more)


def _digest(text: Any, backend: str) -> Any:
    """SHA-256 of a text's bytes, as bytes."""
    function, more = SHA256.get(backend, (_function("sha256", "binary"), ()))
    found = function(text_bytes(text, backend), *more)
    return found if found.type().is_binary() else text_bytes(found, backend)


def quiet(run: Callable[[], Any], constraint: str) -> Any:
    """What run returns; backends' errors and warnings quote values, so neither is passed on.

    Raises:
        InputError: It raised.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return read_guarded(run, constraint)


def fetch_rows(expression: Any) -> Any:
    """The rows of an ibis table expression as a pyarrow.Table. **Not private.**

    Raises:
        InputError: The backend could not give them.
    """
    return quiet(expression.to_pyarrow, "a table that its backend can count")


SETS = frozenset({"databricks", "mssql", "oracle", "postgres", "snowflake", "trino"})
"""Backends whose GROUPING SETS save scans. DuckDB and Spark have them too, but Spark copies every row once
for each set before it groups, and both are faster with a query a table over codes that are kept."""

BACKENDS_WITH_CODE_TABLE = frozenset({"duckdb", "pyspark"})
"""Backends that keep the codes as a table of their own, in columns: small, and fast to query."""

MAX_SHARED_CELLS = 1 << 16
"""Most cells of a table that answers several cliques: larger ones cost the backend more than they save."""

CELLS = 1 << 23
"""Most cells, empty ones included, that one query asks for."""

MOST_SETS = 128
"""Most tables that one query asks for."""

Members = tuple[int, ...]


@final
class PushdownEngine(PrivateRows):
    """Exact counts of a table that its backend groups (the `Engine` of protocols). **Not private.**

    The cliques asked for are summed out of fewer, larger tables (`engines.cover.merge_cliques`). Those are
    counted by one query with GROUPING SETS, so in one scan, where the backend has them and their cells are
    not too many; else by one query each. DuckDB and Spark keep the codes first. Only cells that hold rows are
    fetched. Its repr shows the domain's names only and it refuses to be pickled.

    Args:
        table: An ibis.Table.
        domain: Names and sizes of the attributes.
        codings: How each attribute is encoded.
    """

    __slots__ = ("_backend", "_codes", "_domain", "_keep")

    def __init__(self, table: Any, domain: Domain, codings: Sequence[Coding]) -> None:
        self._domain = domain
        self._backend = table.get_backend()
        self._codes, self._keep = _encode_table(table, codings)
        for lookup in self._keep:  # so that text made of the query finds it
            quiet(partial(self._backend.to_pyarrow, lookup.limit(0)), "a table to join others with")
        if self._backend.name in BACKENDS_WITH_CODE_TABLE and codings:
            spark = self._backend.name == "pyspark"  # it has no unsigned numbers
            # Codes are kept as narrow as they can be, as every query scans them.
            kinds = ["int32" if spark else code_dtype(size).name for size in domain.sizes]
            small = self._codes.select(**{f"c{i}": self._codes[f"c{i}"].cast(k) for i, k in enumerate(kinds)})
            self._codes = quiet(small.cache, "a table whose backend can keep its codes")

    @property
    def domain(self) -> Domain:
        """Names and sizes of the attributes."""
        return self._domain

    def count(self, cliques: Sequence[Clique]) -> list[Counts]:
        """Rows in each cell of each clique's table, in as few scans as the backend allows.

        The axes of a table are in the clique's order; the empty clique counts the rows.

        Raises:
            SchemaError: A clique names an attribute twice or one that does not exist.
            InputError: A table would have too many cells.
        """
        for clique in cliques:
            check_clique(self._domain, clique, MAX_CELLS)
        sizes = self._domain.sizes
        axes = [tuple(self._domain.index(name) for name in clique) for clique in cliques]
        # Cliques that differ in order alone share one table.
        asked = sorted({tuple(sorted(members)) for members in axes})
        cover = merge_cliques(asked, sizes, MAX_SHARED_CELLS)
        owner = dict(zip(asked, cover.owner, strict=True))
        answers = [np.zeros(self._domain.shape(clique), dtype=np.int64) for clique in cliques]
        done = 0
        for batch in _make_batches(cover.tables, sizes):
            cells = self._group(batch)
            for index, members in enumerate(axes):
                # Where the clique's table is within this batch; tables are batched in the cover's order.
                place = owner[tuple(sorted(members))] - done
                if 0 <= place < len(batch):
                    _sum_out(batch[place], *cells[place], members, answers[index])
            done += len(batch)
        return [Counts(answer) for answer in answers]

    def _group(self, tables: Sequence[Members]) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The cells of each table that hold rows, [axes, cells], and their rows, [cells]."""
        # Without GROUPING SETS, or where they cost more than they save, each table is a query.
        if self._backend.name not in SETS:
            return [self._group_one(members) for members in tables]
        used = sorted({v for members in tables for v in members})
        sets = ", ".join(f"({', '.join(f'c{v}' for v in members)})" for members in tables)
        names = "".join(f"c{v}, " for v in used)
        inner = quiet(lambda: self._backend.compile(self._codes), "a table that its backend can count")
        # Every part is made here: numbered names, and what ibis compiled of typed literals.
        text = f"SELECT {names}COUNT(*) AS n FROM ({inner}) AS q GROUP BY GROUPING SETS ({sets})"  # noqa: S608
        schema = ibis.schema({**{f"c{v}": "int32" for v in used}, "n": "int64"})
        found = fetch_rows(
            quiet(lambda: self._backend.sql(text, schema=schema), "a table that can be grouped")
        )
        codes = [found[f"c{v}"] for v in used]
        shape = len(used), len(found)
        # A null in a column of GROUPING SETS says that the row's table is summed over it.
        held = np.array([_numpy(column.is_valid()) for column in codes], dtype=np.bool_).reshape(shape)
        values = np.array([_numpy(column.fill_null(0)) for column in codes], dtype=np.int64).reshape(shape)
        return list(_part_answers(tables, used, held, values, _numpy(found["n"])))

    def _group_one(self, members: Members) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if not members:
            found = fetch_rows(self._codes.aggregate(n=self._codes.count()))
            return np.zeros((0, 1), dtype=np.int64), _numpy(found["n"])
        found = fetch_rows(self._codes.group_by([f"c{v}" for v in members]).agg(n=lambda t: t.count()))
        return np.array([_numpy(found[f"c{v}"]) for v in members], dtype=np.int64), _numpy(found["n"])

    def __repr__(self) -> str:
        return f"PushdownEngine({list(self._domain.names)})"


def _numpy(column: Any) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _encode_table(table: Any, codings: Sequence[Coding]) -> tuple[Any, list[Any]]:
    """The table of codes, columns c0, c1, ..., and the lookup tables it is joined with."""
    if not codings:
        return table.select(c=ibis.literal(0)), []
    codes = table.select(
        **{
            f"c{i}": found.stored.value if found.stored is not None else found.code
            for i, found in enumerate(codings)
        }
    )
    keep = []
    for i, found in enumerate(codings):
        if found.stored is not None:
            lookup = ibis.memtable(_make_lookup(i, found))
            # A left join keeps rows that no key matches; they get the code for unseen values below.
            codes = codes.left_join(lookup, codes[f"c{i}"] == lookup[f"k{i}"])
            keep.append(lookup)
    return codes.select(**{f"c{i}": _code(codes, i, found) for i, found in enumerate(codings)}), keep


def _make_lookup(i: int, found: Coding) -> Any:
    """The keys of a coding and their codes, as columns k and n: text by its bytes, as `Stored` has it.

    Each row is joined with one row of this table at most, whatever the rows are: keys are compared as numbers
    or as bytes, and none is there twice.
    """
    keys, codes = found.keys, pa.array(found.codes)
    if pa.types.is_string(keys.type):
        keys = keys.cast(pa.binary())
    elif pa.types.is_floating(keys.type):  # zero and minus zero are equal to the backend: one of them stays
        # Adding 0.0 turns minus zero into zero, as the backend holds both for equal.
        plain = np.asarray(keys.to_numpy(zero_copy_only=False), dtype=np.float64) + 0.0
        first = pa.array(np.unique(plain, return_index=True)[1])
        keys, codes = pa.array(plain).take(first), codes.take(first)
    if len(keys.unique()) != len(keys):
        what = f"column {found.column.name!r}"
        raise InputError(invalid(what, "declared with distinct values", "Name each value once."))
    return pa.table({f"k{i}": keys, f"n{i}": codes})


def _code(codes: Any, i: int, found: Coding) -> Any:
    if found.code is not None:
        return codes[f"c{i}"].cast("int32")
    code = ibis.coalesce(codes[f"n{i}"], ibis.literal(found.unseen, type="int64"))
    absent = ibis.literal(found.absent, type="int64")
    return ibis.ifelse(codes[f"c{i}"].isnull(), absent, code).cast("int32")


def _make_batches(tables: Sequence[Members], sizes: Sequence[int]) -> Iterator[list[Members]]:
    run: list[Members] = []
    held = 0
    for table in tables:
        cells = math.prod(sizes[v] for v in table)
        if run and (held + cells > CELLS or len(run) >= MOST_SETS):
            yield run
            run, held = [], 0
        run.append(table)
        held += cells
    if run:
        yield run


def _part_answers(
    tables: Sequence[Members],
    used: Sequence[int],
    held: NDArray[np.bool_],
    values: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The answers of GROUPING SETS, parted by table: a row has codes for its own table's attributes only."""
    # The pattern of nulls tells the tables apart; as bytes it is a key to sort and look up by.
    marks = np.packbits(held, axis=0) if len(used) else np.zeros((1, len(rows)), dtype=np.uint8)
    place = {v: k for k, v in enumerate(used)}
    order = np.lexsort(marks)
    ends = np.flatnonzero((np.diff(marks[:, order], axis=1) != 0).any(axis=0)) + 1
    groups = {marks[:, part[0]].tobytes(): part for part in np.split(order, ends) if len(part)}
    for members in tables:
        mark = np.zeros((len(used), 1), dtype=np.bool_)
        mark[[place[v] for v in members]] = True
        key = (np.packbits(mark, axis=0) if len(used) else np.zeros((1, 1), dtype=np.uint8)).tobytes()
        part = groups.get(key, order[:0])
        yield values[[place[v] for v in members]][:, part] if members else values[:0, part], rows[part]


def _sum_out(
    table: Members,
    codes: NDArray[np.int64],
    rows: NDArray[np.int64],
    axes: Members,
    answer: NDArray[np.int64],
) -> None:
    """Add a table's cells to the answer of a clique whose axes are some of its own, in any order."""
    place = np.zeros(len(rows), dtype=np.int64)
    for v, size in zip(axes, answer.shape, strict=True):
        place = place * size + codes[table.index(v)]
    # A table's cell may fall into an answer's cell many times, so plain indexing would lose counts.
    np.add.at(answer.reshape(-1), place, rows)
