"""Frame: what a table looked like from outside when it came in. Public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from margrave.errors import SchemaError, invalid
from margrave.schema.text_format import TextFormat

__all__ = ["KINDS", "TEXT_FILE", "Frame", "type_warning"]

KINDS = ("pandas", "polars", "arrow")
TEXT_FILE = "text"
"""The storage type of every column of a text file: decoding gives it the type of its column kind."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The library and the storage types of a table, plain enough for a release file.

    Args:
        kind: "pandas", "polars" or "arrow"; files are "arrow".
        dtypes: The storage type of each column as text, by name, in the table's order. Lists of
            categories are not part of it: they would come from the rows.
        text: How a text file was written, and how synthetic rows are written to one.

    Raises:
        SchemaError: kind is none of the three.
    """

    kind: str = "arrow"
    dtypes: Mapping[str, str] = field(default_factory=dict)
    text: TextFormat = field(default_factory=TextFormat)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SchemaError(invalid("kind", f"one of {list(KINDS)}", "Pick one.", got=self.kind))
        object.__setattr__(self, "dtypes", dict(self.dtypes))


def type_warning(kind: str) -> str:
    """What to say of the storage types of a table of this kind, which count as public; empty if nothing.

    Readers of text files in pandas and polars choose types by looking at the rows. Where a frame's types come
    from cannot be seen, so it is said of every such frame.
    """
    if kind not in ("pandas", "polars"):
        return ""
    return (
        f"a {kind} frame made by read_csv has types that follow its rows: pass the file itself, or give the "
        "reader explicit types"
    )
