"""One number for a comparison, and the parts that it is the mean of. **Not private**."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

from margrave.evaluation.comparison import Comparison
from margrave.evaluation.score import Score

__all__ = ["SCORED", "add_overall", "split_overall"]

SCORED = ("dependence_invented", "dependence_kept", "rank_slope")
"""Metrics that the number needs beside the scores of `compare`."""
DEFINITION = (
    "The mean of what is kept of single columns, of the dependence between columns and of rank correlations, "
    "each from 0 to 1; a part that the real table does not have is left out."
)


def split_overall(values: Mapping[str, float]) -> dict[str, float]:
    """The parts of the number, each from 0 to 1, from scores by name; none where a score is not defined.

    - columns: 1 less the mean total variation of single columns.
    - dependence: the share of the dependence that is kept, less the mean share that is invented.
    - rank correlations: 1 less how far their slope is from 1.

    Example:
        >>> split_overall({"tv_1_mean": 0.25, "rank_slope": 1.5})
        {'columns': 0.75, 'rank correlations': 0.5}
    """
    far, kept, slope = (values.get(name, math.nan) for name in ("tv_1_mean", "dependence_kept", "rank_slope"))
    invented = values.get("dependence_invented", math.nan)
    parts = {
        "columns": 1.0 - far,
        "dependence": kept - (0.0 if math.isnan(invented) else invented),
        "rank correlations": 1.0 - abs(1.0 - slope),
    }
    return {name: min(max(part, 0.0), 1.0) for name, part in parts.items() if not math.isnan(part)}


def add_overall(comparison: Comparison) -> Comparison:
    """The comparison with the score `overall` in front, for the synthetic and the reference tables."""
    parts = split_overall({score.name: score.value for score in comparison.scores})
    overall = Score(
        "overall",
        _mean(parts),
        "higher",
        f"mean of {', '.join(parts)}" if parts else "nothing",
        DEFINITION,
        high=1.0,
        goal=1.0,
        source="docs/metrics.md, overall",
        cost="none beside its parts",
        parts=parts,
        note="" if parts else "none of its parts is defined",
    )
    beside = {name: _mean(split_overall(values)) for name, values in comparison.references.items()}
    merged = {
        name: dict(values) | ({} if math.isnan(beside[name]) else {"overall": beside[name]})
        for name, values in comparison.references.items()
    }
    return dataclasses.replace(comparison, scores=(overall, *comparison.scores), references=merged)


def _mean(parts: Mapping[str, float]) -> float:
    return math.fsum(parts.values()) / len(parts) if parts else math.nan
