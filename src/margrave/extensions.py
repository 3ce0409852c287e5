"""Extensions: other installed packages that add methods, estimators, metrics and column kinds of their own.

A package names a function without arguments under the entry-point group "margrave.extensions"; the function
registers what the package adds. It is called only where a name is asked for that margrave does not have, so
that a plain run imports nothing foreign. What an extension does runs in the same process as the door and
could read the table: install those you trust. A release file never causes an import of anything that is not
installed as an extension.
"""

from __future__ import annotations

import functools
from importlib.metadata import entry_points
from typing import TypeVar

from margrave.errors import InputError, invalid

GROUP = "margrave.extensions"
Entry = TypeVar("Entry")


@functools.cache
def load_extensions() -> tuple[str, ...]:
    """Have all installed extensions register what they add, once; returns their names.

    Raises:
        InputError: One cannot be imported, or fails.
    """
    found = sorted(entry_points(group=GROUP), key=lambda point: point.name)
    for point in found:
        try:
            point.load()()
        except Exception as error:
            reason = f"it ended in {type(error).__name__}"
            remedy = f"Mend or uninstall it: {reason}."
            raise InputError(
                invalid(f"extension {point.name!r}", "one that can be loaded", remedy)
            ) from error
    return tuple(point.name for point in found)


def find_entry(table: dict[str, Entry], name: str) -> Entry | None:
    """What a table holds under a name, extensions included; None if nothing."""
    if name not in table:
        load_extensions()
    return table.get(name)


def add_entry(table: dict[str, Entry], name: str, entry: Entry, what: str) -> None:
    """Put an entry into a table of names.

    Raises:
        InputError: The name is taken by another entry.
    """
    if name in table and table[name] != entry:
        raise InputError(invalid(f"name of {what}", "one that is not taken", "Choose another.", got=name))
    table[name] = entry
