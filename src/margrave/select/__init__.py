"""Strategies that decide which marginals to buy; they see a curator, never data."""

from margrave.select.aim import AIM
from margrave.select.all_kway import AllKWay
from margrave.select.all_pairs import AllPairs
from margrave.select.batched import Batched
from margrave.select.fixed import Fixed
from margrave.select.mst import MST

__all__ = ["AIM", "MST", "AllKWay", "AllPairs", "Batched", "Fixed"]
