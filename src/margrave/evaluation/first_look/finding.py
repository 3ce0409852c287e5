"""Finding: one relation of the real table, and how much of it the synthetic one keeps. **Not private**."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("order", "equality", "dependency", "missing", "rank", "codes", "new values", "spelling")
"""The kinds of findings, in the order in which they are told."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One relation that the real rows show. **Not private**.

    Args:
        kind: One of `KINDS`.
        name: The relation in a few words, the same for every synthetic table.
        kept: How much of it the synthetic rows keep, from 0 (no more than independent columns or other
            values would) to 1 (as in the real rows).
        words: What the synthetic and the real rows do, one whole sentence.
    """

    kind: str
    name: str
    kept: float
    words: str


def share_kept(real: float, synthetic: float, chance: float) -> float:
    """How much of the way from `chance` to `real` a synthetic share goes; on the far side of `real`, less.

    Example:
        >>> share_kept(1.0, 0.75, 0.5), share_kept(0.25, 0.5, 0.0), share_kept(0.5, 0.5, 0.5)
        (0.5, 0.0, 1.0)
    """
    if synthetic == real:
        return 1.0
    if chance == real:
        return 0.0
    return min(max(1.0 - abs(synthetic - real) / abs(chance - real), 0.0), 1.0)
