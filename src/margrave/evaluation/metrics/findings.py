"""Findings: single relations of a real table, and how much of each a synthetic one keeps. **Not private**."""

from __future__ import annotations

from dataclasses import dataclass

FINDING_KINDS = (
    *("order", "equality", "times", "dependency", "missing", "rank", "calendar", "codes", "new values"),
    "spelling",
)
"""The kinds of findings, in the order in which they are told."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One relation that the real rows show. **Not private**.

    Args:
        kind: One of `FINDING_KINDS`.
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


EXCEPTIONS = 0.01
"""Most real rows, as a share, that break an order which the real table is still said to keep."""
ROWS_TRIED = 2_000
"""Real rows on which pairs are tried first, with SLACK beside the shares above: five standard errors."""
SLACK = 0.02
"""Share by which the first ROWS_TRIED rows may miss a relation that all rows keep."""
