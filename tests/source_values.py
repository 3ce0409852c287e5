"""All values of a column as a source counts them."""

from __future__ import annotations

from typing import Any


def list_values(source: Any, column: str) -> tuple[tuple[str, ...], list[int]]:
    """The distinct present values as text, sorted, and the rows of each; last the rows without a value."""
    pairs, none = [], 0
    for texts, counts in source.value_parts(column):
        *held, absent = counts.reveal().tolist()
        pairs += zip(texts, held, strict=True)
        none += absent
    pairs.sort()
    return tuple(text for text, _ in pairs), [*(rows for _, rows in pairs), none]
