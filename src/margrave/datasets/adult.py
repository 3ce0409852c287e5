"""Adult, the table that ships with margrave. Its source and licence are in ADULT.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    import pyarrow as pa

SPLITS = {"train": "adult.csv.gz", "test": "adult_test.csv.gz"}
MISSING = ("", "?")
"""The texts that mean missing in Adult."""
NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")


def adult_path(split: str = "train") -> Path:
    """The path of the CSV file: "train" has 32,561 rows, "test" 16,281; 15 columns each.

    Raises:
        InputError: There is no such split.
    """
    if split not in SPLITS:
        raise InputError(invalid("split", f"one of {list(SPLITS)}", "Pick one.", got=split))
    return Path(__file__).with_name(SPLITS[split])


def load_adult(split: str = "train") -> pa.Table:
    """Adult as an Arrow table: six columns of whole numbers, nine of text, "?" read as missing.

    Raises:
        InputError: There is no such split.

    Example:
        >>> load_adult().shape
        (32561, 15)
    """
    from pyarrow import csv, int64, string

    header: Any = csv.open_csv(adult_path(split)).schema.names
    types = {name: int64() if name in NUMBERS else string() for name in header}
    return csv.read_csv(
        adult_path(split),
        convert_options=csv.ConvertOptions(
            column_types=types, null_values=list(MISSING), strings_can_be_null=True
        ),
    )
