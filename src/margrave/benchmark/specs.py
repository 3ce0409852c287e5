"""Spec files: what one small TOML or JSON file says about a grid, a method or a table."""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from margrave.errors import InputError, MissingExtraError, invalid

__all__ = ["SUFFIXES", "check_name", "checked", "digest", "read_spec"]

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
        text = path.read_text(encoding="utf-8")
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


def checked(spec: Mapping[str, Any], kinds: Mapping[str, type], where: str) -> dict[str, Any]:
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
