"""Files that appear whole or not at all, and tables written by suffix.

A file is written under a hidden name beside its own, `.` and twelve hexadecimal digits in front, and then
takes its place in one step. An error or an interrupt removes the hidden file; only a process killed outright
leaves one behind, which nothing reads and which may be deleted.

A spec file is a small TOML or JSON file that says something about a grid, a method or a table.
"""

from __future__ import annotations

import csv
import errno
import gzip
import hashlib
import importlib
import io
import json
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from margrave.errors import InputError, MissingExtraError, invalid
from margrave.schema.storage.spelling import write_cells
from margrave.schema.storage.text import TextFormat

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".feather")


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an error.

    Killed at any moment, `path` holds what it held before or the whole new content.
    """
    target = Path(path)
    temporary = _beside(target)
    try:
        yield temporary
        with temporary.open("rb+") as handle:  # Windows syncs only what could be written
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def _beside(target: Path) -> Path:
    return target.with_name(f".{secrets.token_hex(6)}.{target.name}")


def check_writable(path: str | Path, param: str) -> Path:
    """The path, if a file can be made there: tried out, before anything is spent.

    Raises:
        InputError: It cannot be written.
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError
        trial = _beside(target)
        try:
            trial.touch(exist_ok=False)
        finally:
            trial.unlink(missing_ok=True)  # also where the user stops the run just then
    except (OSError, ValueError):
        remedy = "Make the folder first, or pick another."
        raise InputError(invalid(param, "a file in a writable folder", remedy, got=str(path))) from None
    return target


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None], *, new: bool = False
) -> None:
    """Check that all files to be written can be, and that none takes the place of another or of an input.

    Args:
        outputs: Paths by the name of their parameter; None is left out.
        inputs: The files that are read.
        new: Whether there must not be such files yet.

    Raises:
        InputError: A path cannot be written or is used twice, or a file is there that must not be.
    """
    taken = {path.resolve(): name for name, path in inputs.items() if path is not None}
    for name, path in outputs.items():
        if path is None:
            continue
        other = taken.setdefault(check_writable(path, name).resolve(), name)
        if other != name:
            raise InputError(invalid(name, f"another file than {other}", "Pick another name.", got=str(path)))
        if new and path.exists():
            remedy = "Pick another name, or write over it with --force."
            raise InputError(invalid(name, "a file that is not there yet", remedy, got=str(path)))


def suffix_of(path: str | Path, param: str = "out") -> str:
    """The suffix that says the format of a table file.

    Raises:
        InputError: It is none that is known.
    """
    name = Path(path).name.lower()
    for suffix in TABLE_SUFFIXES:
        if name.endswith(suffix):
            return suffix
    raise InputError(
        invalid(param, f"a file ending in one of {list(TABLE_SUFFIXES)}", "Rename it.", got=str(path))
    )


def hash_file(path: str | Path) -> str:
    """SHA-256 of a file that was made from a release, in hexadecimal digits. Never of private rows."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_table(table: pa.Table, path: str | Path, missing: str = "", text: TextFormat | None = None) -> None:
    """Write a table in the format its suffix names, whole or not at all.

    Args:
        table: The rows. Time stamps and times become ISO text in CSV and TSV: in the spelling of their
            field's metadata where it has one, as in {"spelling": "T00:00:00Z"}.
        path: Where to; see TABLE_SUFFIXES.
        missing: Text that stands for a missing value in CSV and TSV.
        text: How CSV and TSV files are written, if not as usual. A .tsv file always has tabs.
    """
    suffix = suffix_of(path)
    with written_whole(path) as temporary:
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            from margrave.schema.storage.forms import without_views

            pq.write_table(without_views(table), temporary)
        elif suffix in (".arrow", ".feather"):
            import pyarrow.feather as feather

            feather.write_feather(table, str(temporary))
        else:
            _write_text_file(table, temporary, suffix, missing, text or TextFormat())


def _write_text_file(table: pa.Table, path: Path, suffix: str, missing: str, text: TextFormat) -> None:
    import duckdb

    from margrave.schema.storage.forms import without_views

    usual = ";" if text.decimal == "," else ","
    quote = text.quote if text.quote != '"' else None
    packed = suffix == ".csv.gz"
    plain = text.encoding is None
    separator = "\t" if suffix == ".tsv" else text.separator or usual
    cells = write_cells(_spell_table(without_views(table)), text)
    names = cells.column_names
    # DuckDB takes names that differ in case alone for the same, and would rename all but the first.
    alike = len({name.lower() for name in names}) < len(names)
    if alike:
        cells = cells.rename_columns([f"c{place}" for place in range(len(names))])
    relation = duckdb.connect().from_arrow(cells)
    try:
        relation.write_csv(
            str(path),
            sep=separator,
            na_rep=missing,
            header=text.headed and not alike,
            compression="gzip" if packed and plain else "none",
            quotechar=quote,
            escapechar=quote,
        )
    except duckdb.IOException:  # a RuntimeError, and its message names the hidden file
        raise OSError(errno.EIO, "the disk is full or its folder cannot be written") from None
    if alike and text.headed:
        _put_header(path, names, separator, text.quote, packed and plain)
    if not plain:
        _encode_file(path, str(text.encoding), packed)


def _put_header(path: Path, names: Sequence[str], separator: str, quote: str, packed: bool) -> None:
    """Put a first line of column names before the rows of a UTF-8 file, as another member of a gzip file."""
    line = io.StringIO()
    quoted: Any = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE, "quotechar": None}
    csv.writer(line, delimiter=separator, lineterminator="\n", **quoted).writerow(names)
    content = line.getvalue().encode()
    target = _beside(path)
    try:
        with open(path, "rb") as source, open(target, "wb") as sink:
            sink.write(gzip.compress(content) if packed else content)
            shutil.copyfileobj(source, sink, 1 << 20)
        os.replace(target, path)
    finally:
        target.unlink(missing_ok=True)


def _encode_file(path: Path, encoding: str, packed: bool) -> None:
    """Turn a UTF-8 file into another encoding; signs that it lacks become question marks."""
    target = _beside(path)
    opened: Any = gzip.open if packed else open
    try:
        with (
            open(path, encoding="utf-8", newline="") as source,
            opened(target, "wt", encoding=encoding, errors="replace", newline="") as sink,
        ):
            shutil.copyfileobj(source, sink, 1 << 20)
        os.replace(target, path)
    finally:
        target.unlink(missing_ok=True)


def _spell_table(table: pa.Table) -> pa.Table:
    """The table with what has a spelling as text, and with types that the writer knows."""
    import pyarrow as pa

    columns = []
    for field, column in zip(table.schema, table.columns, strict=True):
        told = {name.decode(): text.decode() for name, text in (field.metadata or {}).items()}
        written = _written(column, field.type, told.get("spelling") or None)
        written = _write_censored(written, field.name, json.loads(told.get("censored", "[]")))
        columns.append(_mark_missing(written, told.get("missing")))
    return pa.table(columns, names=table.column_names)


def _written(column: Any, kind: Any, spelling: str | None) -> Any:
    """A column as text where its type or its spelling wants it."""
    import pyarrow as pa

    moment = pa.types.is_timestamp(kind)
    if moment or pa.types.is_time(kind):
        zone = "Z" if moment and kind.tz else ""
        return _clock(column, spelling or (f"T00:00:00{zone}" if moment else "00:00:00"), moment)
    if spelling is not None and pa.types.is_boolean(kind):
        return _truths(column, spelling)
    if spelling is not None and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        from margrave.schema.storage.spelling import spell_numbers

        return spell_numbers(column, spelling)
    return _plain(column)


def _truths(column: Any, spelling: str) -> Any:
    """Truth values as text."""
    import pyarrow.compute as pc

    from margrave.schema.columns.listed import FALSITIES

    return pc.if_else(column, spelling, FALSITIES[spelling])


def _mark_missing(column: Any, mark: str | None) -> Any:
    """A column whose missing values are a text of its own, if it has one."""
    import pyarrow.compute as pc

    return column if mark is None else pc.fill_null(_number_texts(column), mark)


def _write_censored(column: Any, name: str, censored: Sequence[tuple[str, float]]) -> Any:
    """A column of which a share of the missing values is each of some texts.

    Which cells these are is drawn by the column's name, so that the same rows make the same file.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from margrave.schema.storage.forms import one_chunk

    if not censored:
        return column
    texts = _number_texts(one_chunk(column))
    drawn = np.random.default_rng(zlib.crc32(name.encode())).random(len(texts))
    ends = np.cumsum([share for _, share in censored])
    known = pa.array([*(text for text, _ in censored), None], texts.type)
    return pc.coalesce(texts, known.take(pa.array(np.searchsorted(ends, drawn, side="right"))))


def _number_texts(column: Any) -> Any:
    """Numbers, or texts of some, as text."""
    import pyarrow as pa

    from margrave.schema.storage.forms import number_texts

    return number_texts(column) if pa.types.is_floating(column.type) else column.cast(pa.string())


def _plain(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_float16(column.type):
        return column.cast(pa.float32())
    return column.cast(pa.string()) if pa.types.is_decimal256(column.type) else column


def _clock(column: Any, spelling: str, moment: bool) -> Any:
    """Time stamps or times as text, as precise as the spelling or as they are stored, whichever is more."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from margrave.schema.storage import zones

    mark = zones.mark_of(spelling) if moment else ""
    digits = len(spelling.removesuffix(mark).partition(".")[2])
    stored = {"s": 0, "ms": 3, "us": 6, "ns": 6}[column.type.unit]
    unit = {0: "s", 3: "ms", 6: "us"}[max(digits, stored)]
    if not moment:
        # Arrow has times of the day to the second and the millisecond in 32 bits, finer ones in 64.
        kind = pa.time64(unit) if unit == "us" else pa.time32(unit)
        text = column.cast(kind, safe=False).cast(pa.string())
        text = pc.utf8_slice_codeunits(text, 0, 5) if spelling in ("00:00", "0:00") else text
        # Hours below 10 in one digit.
        return pc.replace_substring_regex(text, "^0([0-9]:)", r"\1") if spelling[1] == ":" else text
    seconds = "" if spelling[1:].removesuffix(mark) == "00:00" else ":%S"
    pattern = f"%Y-%m-%d{spelling[0]}%H:%M{seconds}"
    if "+" not in mark:
        instants = column.cast(pa.timestamp(unit, "UTC" if column.type.tz else None), safe=False)
        return pc.strftime(instants, pattern + mark)
    return _write_offsets(column, pattern, mark, unit)


def _write_offsets(column: Any, pattern: str, mark: str, unit: str) -> Any:
    """Moments by the clock of the column's zone, with the offset from UTC behind them as a mark has it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from margrave.schema.storage import zones
    from margrave.schema.storage.clock_numbers import MINUTE
    from margrave.schema.storage.forms import one_chunk

    micros = one_chunk(column.cast(pa.timestamp("us", column.type.tz), safe=False)).cast(pa.int64())
    ticks = np.asarray(pc.fill_null(micros, 0))
    offsets = zones.find_offsets(ticks, column.type.tz)
    clock = pa.array(ticks + offsets * MINUTE, mask=np.asarray(micros.is_null()))
    spelt = pc.strftime(clock.cast(pa.timestamp("us")).cast(pa.timestamp(unit), safe=False), pattern)
    minutes, place = np.unique(offsets, return_inverse=True)
    ends = pa.array([zones.spell_offset(one, mark) for one in minutes.tolist()], pa.string())
    return pc.binary_join_element_wise(spelt, ends.take(pa.array(place.ravel())), "")


SUFFIXES = (".toml", ".json")
WORDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
}
"""What the types of a spec are called in errors."""


def read_spec(path: Path, param: str) -> dict[str, Any]:
    """What a TOML or JSON file holds: one object.

    Args:
        path: The file.
        param: The parameter that named it, for errors.

    Raises:
        InputError: It cannot be read, or is not of that format.
        MissingExtraError: A TOML file, under Python 3.10 without tomli.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(
            invalid(param, f"a file ending in one of {list(SUFFIXES)}", "Rename it.", got=str(path))
        )
    try:
        text = path.read_text(encoding="utf-8-sig")  # editors of Windows write a byte order mark
    except (OSError, UnicodeDecodeError):
        raise InputError(
            invalid(param, "a file that can be read", "Check the path.", got=str(path))
        ) from None
    try:
        spec = json.loads(text) if suffix == ".json" else _toml().loads(text)
    except ValueError as error:
        remedy = f"It says: {error}."
        raise InputError(invalid(param, f"valid {suffix[1:].upper()}", remedy, got=str(path))) from None
    if not isinstance(spec, dict):
        raise InputError(invalid(param, "one JSON object", "Put braces around it.", got=str(path)))
    return spec


def _toml() -> Any:
    """The standard library's reader, or the package it grew from."""
    for name in ("tomllib", "tomli"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise MissingExtraError(
        invalid("tomli", "installed to read TOML under Python 3.10", "Run: pip install tomli; or write JSON")
    )


def check_entries(spec: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> dict[str, Any]:
    """The entries of a spec, each of the type it must have; a whole number is a number, too.

    Args:
        spec: What was read.
        kinds: The type of each entry there may be.
        where: What it is a spec of, for errors.

    Raises:
        InputError: An entry is unknown or of another type.
    """
    unknown = sorted(set(spec) - set(kinds))
    if unknown:
        remedy = f"Entries may be {sorted(kinds)}."
        raise InputError(invalid(where, "made of known entries", remedy, got=unknown))
    for name, value in spec.items():
        kind = kinds[name]
        wanted = (int, float) if kind is float else (kind,)
        if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
            raise InputError(invalid(f"{name} of {where}", WORDS[kind], "Correct the file.", got=value))
    return {name: float(value) if kinds[name] is float else value for name, value in spec.items()}


def check_name(name: str, param: str) -> str:
    """The name of an entry, if it can be part of a file's name.

    Raises:
        InputError: It cannot.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,59}", name):
        remedy = 'Use letters, digits and . _ + -, at most 60 of them; say name = "..." in a spec file.'
        raise InputError(invalid(param, "a short plain name", remedy, got=name))
    return name


def digest(value: Any, *files: Path) -> str:
    """A fingerprint of what an entry says and of the bytes of its files: 16 hexadecimal digits."""
    found = hashlib.sha256(json.dumps(value, sort_keys=True).encode())
    for path in files:
        with path.open("rb") as handle:
            while part := handle.read(1 << 20):
                found.update(part)
    return found.hexdigest()[:16]
