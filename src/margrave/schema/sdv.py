"""Schemas from the metadata of SDV: kinds of columns, and nothing that was read from rows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from margrave.errors import InputError, SchemaError, invalid
from margrave.schema.columns import (
    Boolean,
    Categorical,
    Column,
    Date,
    Identifier,
    Integer,
    Moment,
    Ordinal,
    Real,
    Time,
    Unknown,
)

LISTED = {"categorical", "country_code", "administrative_unit", "state", "city", "postcode", "state_abbr"}
NUMBERS = {"latitude", "longitude"}
KEPT_OPEN = {"unknown"}
CLOCK = re.compile(r"%[HIMSfpTXcs]")
CALENDAR = re.compile(r"%[YymBbdjDxFcs]")
DIGITS = re.compile(r"([A-Za-z0-9 _-]*?)(?:\\d|\[0-9\])\{(\d+)\}")
"""A regular expression of SDV that a key of a prefix and some digits can follow."""


def table_from_sdv(metadata: Mapping[str, Any] | str | Path, table: str | None = None) -> Mapping[str, Any]:
    """The part of SDV's metadata that describes one table.

    Args:
        metadata: The metadata as `to_dict()` gives it, or the path of its JSON file; of one table or several.
        table: Which table, where there are several.

    Raises:
        InputError: The file cannot be read, or the table has to be named.
        SchemaError: It is not metadata of SDV.
    """
    document = _read(metadata) if isinstance(metadata, (str, Path)) else metadata
    if not isinstance(document, Mapping):
        raise _foreign()
    tables = document.get("tables")
    if tables is None:
        found: Any = document
    elif not isinstance(tables, Mapping) or not tables:
        raise _foreign()
    elif table is None and len(tables) > 1:
        raise InputError(invalid("table", f"one of {sorted(tables)}", "Say which one: table=, or --table."))
    elif table is not None and table not in tables:
        raise InputError(invalid("table", f"one of {sorted(tables)}", "Check the spelling.", got=table))
    else:
        found = tables[table] if table is not None else next(iter(tables.values()))
    if (
        not isinstance(found, Mapping)
        or not isinstance(found.get("columns"), Mapping)
        or not found["columns"]
    ):
        raise _foreign()
    return found


def columns_from_sdv(described: Mapping[str, Any]) -> tuple[Column, ...]:
    """The columns of one table.

    Args:
        described: As `table_from_sdv` gives it.

    Raises:
        SchemaError: A column is not described as SDV does.
    """
    keys = described.get("primary_key")
    primary = set(keys) if isinstance(keys, list) else {keys}
    found = []
    for name, entry in described["columns"].items():
        if (
            not isinstance(name, str)
            or not isinstance(entry, Mapping)
            or not isinstance(entry.get("sdtype"), str)
        ):
            raise _foreign()
        alone = len(primary) == 1 and name in primary
        found.append(_key(name, entry) if alone else _column(name, entry))
    return tuple(found)


def dates_from_sdv(described: Mapping[str, Any]) -> dict[str, str]:
    """How dates are written in a text file, for columns where it is not as in ISO 8601: for `TextFormat`."""
    found = {}
    for name, entry in described["columns"].items():
        written = entry.get("datetime_format")
        if entry.get("sdtype") == "datetime" and isinstance(written, str) and not _is_iso(written):
            found[str(name)] = written
    return found


def _column(name: str, entry: Mapping[str, Any]) -> Column:
    kind = str(entry["sdtype"])
    if kind == "boolean":
        return Boolean(name=name)
    if kind in LISTED:
        order = entry.get("order")
        if isinstance(order, list) and order:
            return Ordinal(name=name, values=tuple(value for value in order if value is not None))
        return Categorical(name=name)
    if kind == "numerical" or kind in NUMBERS:
        whole = "int" in str(entry.get("computer_representation", "")).lower()
        return Integer(name=name) if whole else Real(name=name)
    if kind == "datetime":
        return _temporal(name, str(entry.get("datetime_format", "")))
    if kind in KEPT_OPEN and not entry.get("pii", False):
        return Unknown(name=name)
    return _key(name, entry)


def _temporal(name: str, written: str) -> Column:
    """A date, a moment or a time of day, by what its format has; a moment where there is no format."""
    if not written:
        return Moment(name=name)
    if not CALENDAR.search(written):
        return Time(name=name)
    return Moment(name=name) if CLOCK.search(written) else Date(name=name)


def _key(name: str, entry: Mapping[str, Any]) -> Identifier:
    """A key that is made anew: as its regular expression has it where that is a prefix and digits."""
    found = DIGITS.fullmatch(str(entry.get("regex_format", "")))
    if found is not None:
        return Identifier(name=name, pattern="text", prefix=found[1], digits=min(int(found[2]), 99))
    kind = str(entry.get("sdtype"))
    if kind in ("id", "numerical"):
        return Identifier(name=name)
    return Identifier(name=name, pattern="text", prefix=f"{kind}-", digits=6)


def _is_iso(written: str) -> bool:
    date = written[:8] == "%Y-%m-%d"
    return (date and written[8:9] in ("", "T", " ")) or written in ("%H:%M", "%H:%M:%S", "%H:%M:%S.%f")


def _read(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError:
        raise InputError(invalid("metadata", "a readable file", "Check the path.", got=str(path))) from None
    except ValueError:
        raise SchemaError(invalid("metadata", "valid JSON in UTF-8", "Save it again from SDV.")) from None


def _foreign() -> SchemaError:
    remedy = "Save it from SDV with metadata.save_to_json, or pass metadata.to_dict()."
    return SchemaError(invalid("metadata", "of SDV: columns with an sdtype each", remedy))
