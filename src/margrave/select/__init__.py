"""Strategies that decide which marginals to buy; they see a curator, never data."""

from __future__ import annotations

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
