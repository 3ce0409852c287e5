"""Appraisals in the ledger: the public words by which one is recorded, and what they say to a reader."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from margrave.privacy.events import Event, GaussianEvent

__all__ = ["Appraisal", "describe_appraisal", "read_appraisal"]


@dataclass(frozen=True, slots=True)
class Appraisal:
    """Errors of many marginals that were released together.

    Args:
        marginals: How many.
        columns: Columns of each, 0 where they have not the same number.
        sigma: Standard deviation of the noise in each error, in rows.
    """

    marginals: int
    columns: int
    sigma: float

    @property
    def largest(self) -> float:
        """What the noise of the largest of the errors seldom exceeds, in rows."""
        return (math.sqrt(2.0 * math.log(max(self.marginals, 1))) + 1.0) * self.sigma


def describe_appraisal(columns: Sequence[int], digits: int) -> str:
    """The words for an appraisal of marginals with so many columns each, in steps of 2^-digits rows."""
    each = f" of {columns[0]} columns" if len(set(columns)) == 1 else ""
    return f"errors of {len(columns)} marginals{each}, in steps of 2^-{digits} rows"


def read_appraisal(event: Event) -> Appraisal | None:
    """What an event says of an appraisal; None if it is another."""
    found = re.fullmatch(
        r"errors of (\d+) marginals(?: of (\d+) columns)?, in steps of 2\^-(\d+) rows", event.what
    )
    if found is None or not isinstance(event, GaussianEvent):
        return None
    sigma = math.sqrt(float(event.sigma_squared)) / 2.0 ** int(found[3])
    return Appraisal(int(found[1]), int(found[2] or 0), sigma)
