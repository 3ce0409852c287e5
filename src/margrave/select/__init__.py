"""Strategies that decide which marginals to buy; they see a curator, never data."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from margrave.select.aim import AIM, ConditionalAIM
    from margrave.select.all_pairs import AllPairs
    from margrave.select.batched import Batched
    from margrave.select.fixed import AllKWay, Fixed
    from margrave.select.from_rows import MeanEmbedding, Slices, SliceTraining, Training, Votes
    from margrave.select.mst import MST
    from margrave.select.private_pairs import PrivatePairs
    from margrave.select.privmrf import PrivMRF
    from margrave.select.privsyn import PrivSyn
    from margrave.select.public_rounds import JAM, VerticalRounds
    from margrave.select.residual_planner import ResidualPlanner
    from margrave.select.strategy import Strategy
    from margrave.select.top_q import TopQ

__all__ = [
    "AIM",
    "JAM",
    "MST",
    "AllKWay",
    "AllPairs",
    "Batched",
    "ConditionalAIM",
    "Fixed",
    "MeanEmbedding",
    "PrivMRF",
    "PrivSyn",
    "PrivatePairs",
    "ResidualPlanner",
    "SliceTraining",
    "Slices",
    "Strategy",
    "TopQ",
    "Training",
    "VerticalRounds",
    "Votes",
]

_HOMES = {
    "AIM": "margrave.select.aim",
    "JAM": "margrave.select.public_rounds",
    "MST": "margrave.select.mst",
    "AllKWay": "margrave.select.fixed",
    "AllPairs": "margrave.select.all_pairs",
    "Batched": "margrave.select.batched",
    "ConditionalAIM": "margrave.select.aim",
    "Fixed": "margrave.select.fixed",
    "MeanEmbedding": "margrave.select.from_rows",
    "PrivMRF": "margrave.select.privmrf",
    "PrivSyn": "margrave.select.privsyn",
    "PrivatePairs": "margrave.select.private_pairs",
    "ResidualPlanner": "margrave.select.residual_planner",
    "SliceTraining": "margrave.select.from_rows",
    "Slices": "margrave.select.from_rows",
    "Strategy": "margrave.select.strategy",
    "TopQ": "margrave.select.top_q",
    "Training": "margrave.select.from_rows",
    "VerticalRounds": "margrave.select.public_rounds",
    "Votes": "margrave.select.from_rows",
}


def __getattr__(name: str) -> Any:
    """Import a strategy where it is first used, so that a run loads its own alone."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
