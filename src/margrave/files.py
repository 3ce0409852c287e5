"""Files that appear whole or not at all, and tables written by suffix."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["TABLE_SUFFIXES", "check_writable", "write_table", "write_text", "written_whole"]

TABLE_SUFFIXES = (".csv", ".csv.gz", ".tsv", ".parquet", ".arrow", ".feather")


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends without an error.

    Killed at any moment, `path` holds what it held before or the whole new content.
    """
    target = Path(path)
    temporary = target.with_name(f".{secrets.token_hex(6)}.{target.name}")
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def check_writable(path: str | Path, param: str) -> Path:
    """The path, if its folder exists and is not itself a folder: asked before anything is spent.

    Raises:
        InputError: It cannot be written.
    """
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        raise InputError(
            invalid(param, "a file in a writable folder", "Make the folder first.", got=str(path))
        )
    return target


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


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_table(table: pa.Table, path: str | Path, missing: str = "") -> None:
    """Write a table in the format its suffix names, whole or not at all.

    Args:
        table: The rows.
        path: Where to; see TABLE_SUFFIXES.
        missing: Text that stands for a missing value in CSV and TSV.
    """
    suffix = suffix_of(path)
    with written_whole(path) as temporary:
        if suffix == ".parquet":
            import pyarrow.parquet as pq

            pq.write_table(table, temporary)
        elif suffix in (".arrow", ".feather"):
            import pyarrow.feather as feather

            feather.write_feather(table, str(temporary))
        else:
            import duckdb

            relation = duckdb.connect().from_arrow(table)
            relation.write_csv(
                str(temporary),
                sep="\t" if suffix == ".tsv" else ",",
                na_rep=missing,
                header=True,
                compression="gzip" if suffix == ".csv.gz" else "none",
            )
