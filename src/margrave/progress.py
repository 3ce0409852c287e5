"""Step: what a long run says about itself while it works. Released quantities only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["OnStep", "Step", "silent"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a run.

    Args:
        stage: "discover", "measure", "select", "fit" or "sample".
        message: What is happening, in public words.
        round: Rounds finished, from 0.
        spent: Share of the run's rho spent so far, in [0, 1].
    """

    stage: str
    message: str
    round: int = 0
    spent: float = 0.0


OnStep = Callable[[Step], None]


def silent(step: Step) -> None:
    """Ignore the step: the default listener."""
