"""Policy: how large a mixture is and what it pays, from rows, codes and precision; see docs/auto.md."""

from __future__ import annotations

import math
from dataclasses import dataclass

SPARSE_SIGNAL = 2000.0
"""Rows times mu below which the penalty falls off faster: where noise hides nearly all, a dear nat hides
more. Over four tables of 2,000 to 3,000 rows the best penalty is a half of the root's at 120 and 0.7 of it at
600."""
PILOT_COMPONENTS, PILOT_STEPS, ROUGH_STEPS = 80, 200, 100
"""Components and steps of the fits that only choose, and steps of a rough fit. With 120 and 250 what is
chosen is as good, in twice the time; with 120 and 150 it is 1.5 % worse: the last steps follow the noise."""
MIN_COMPONENTS, WIDE_CODES = 250, 1500
"""Components at least; with more codes than WIDE_CODES fewer in proportion: noise on so many pairs hides
more."""
MAX_COMPONENTS, COMPONENT_WORK = 800, 2.1e7
"""More components where they cost little: COMPONENT_WORK / codes^2, at most MAX_COMPONENTS. One start of so
many is as good as the mean of two starts of half as many (bench/LOG.md)."""
FINE_SIGNAL, MAX_FINE_COMPONENTS, FINE_WORK = 200.0, 2000, 9e8
"""A component for each FINE_SIGNAL of rows times mu, at most MAX_FINE_COMPONENTS or FINE_WORK / codes^2:
where noise hides little, tables of many codes want for components, not for data."""
BLOCK_PENALTY_SHARE, STATE_PENALTY = 0.65, 2.25
"""With latent blocks: what is paid for states, over the penalty without, as dependence is what they are for;
and what for shares of states over that."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a mixture is fitted at.

    Args:
        penalty: Of a nat of dependence.
        groups: Positions of the attributes of each latent block.
        components: Products.
        refinements: Whether attributes that nobody asked for are refined attributes
            (`margrave.models._mixture.refinements`).
    """

    penalty: float
    groups: tuple[tuple[int, ...], ...] = ()
    components: int = MIN_COMPONENTS
    refinements: bool = True


def set_policy(codes: int, signal: float, groups: tuple[tuple[int, ...], ...] = ()) -> Setting:
    """The setting that a mixture starts its search from.

    The penalty is 10 sqrt(x) min(x / SPARSE_SIGNAL, 1)^(1/4), with latent blocks BLOCK_PENALTY_SHARE times
    that.

    Args:
        codes: Of all attributes together.
        signal: x, rows times mu, mu^2 the precision of all measurements together.
        groups: Positions of the attributes of each latent block.
    """
    penalty = 10.0 * math.sqrt(signal) * min(signal / SPARSE_SIGNAL, 1.0) ** 0.25
    square = max(codes, 1) ** 2
    components = max(
        MIN_COMPONENTS * min(WIDE_CODES / max(codes, 1), 1.0),
        min(COMPONENT_WORK / square, MAX_COMPONENTS),
        min(signal / FINE_SIGNAL, MAX_FINE_COMPONENTS, FINE_WORK / square),
    )
    return Setting((BLOCK_PENALTY_SHARE if groups else 1.0) * penalty, groups, round(components))
