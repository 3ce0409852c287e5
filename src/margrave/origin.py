"""What is public about where a release comes from: the data set's name, the file's, the day, the schema."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from margrave.release import Provenance
from margrave.schema.schema import Schema

__all__ = ["describe_origin"]


def describe_origin(
    given: Provenance, data: Any, schema: Schema | str | Path | None, dataset: str | None
) -> Provenance:
    """Fill in what the caller left out, before the table is opened. No row is read, and none is hashed.

    Args:
        given: What the caller said.
        data: The table, as it was given to `Synthesizer.fit`.
        schema: What was declared: a schema, its file, or nothing.
        dataset: The name in the book.
    """
    return dataclasses.replace(
        given,
        dataset=given.dataset or dataset or "",
        source=given.source or _name_source(data),
        date=given.date or datetime.now(timezone.utc).date().isoformat(),
        schema=given.schema or _hash_schema(schema),
    )


def _name_source(data: Any) -> str:
    """The last part of a path, or the kind of table."""
    if isinstance(data, str | Path):
        name = str(data).replace("\\", "/").rstrip("/").rpartition("/")[2]
        return "".join(letter if letter.isprintable() else "?" for letter in name)[:200]
    library = type(data).__module__.partition(".")[0]
    return f"a table in memory ({library})"


def _hash_schema(schema: Schema | str | Path | None) -> str:
    """SHA-256 of a schema's file, so that it can be compared by any tool, or of its JSON."""
    if schema is None:
        return ""
    if isinstance(schema, Schema):
        return hashlib.sha256(json.dumps(schema.to_json(), sort_keys=True).encode()).hexdigest()
    return hashlib.sha256(Path(schema).read_bytes()).hexdigest()
