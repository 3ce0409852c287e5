"""Ties as nests: attributes that rules tie together share atoms, each of which obeys the rules.

Atom z of a tied nest has the distribution T_z over the cells that the rules allow (`rules_objective`), in
place of a product; component k has sum_z U_zk T_z. All else is as in `nest_objective`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from margrave.models.mixture.kernels import centred, priced
from margrave.models.mixture.nest_objective import NestPart
from margrave.models.mixture.objective import FLOOR
from margrave.models.mixture.rules_objective import TiedPart
from margrave.models.mixture.rules_tables import TiedTables
from margrave.models.mixture.stacked import Stacked

__all__ = ["TiedNestPart", "nest_part", "tied_groups"]

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]


def tied_groups(stacked: Stacked) -> list[tuple[int, ...]]:
    """Positions of the attributes of each tie, in the tie's order."""
    owner = np.repeat(np.arange(stacked.attributes), np.diff(stacked.starts))
    return [tuple(dict.fromkeys(owner[tables.rows].tolist())) for tables in stacked.tied]


def nest_part(
    stacked: Stacked,
    group: Sequence[int],
    logs: Singles,
    components: int,
    information: float,
    smoothness: float,
    rng: np.random.Generator,
) -> NestPart:
    """The nest of a group of attributes, with atoms that obey the rules where the group is a tie.

    Arguments are those of `NestPart`.
    """
    rest = logs, components, information, smoothness, rng
    for tables, members in zip(stacked.tied, tied_groups(stacked), strict=True):
        if tuple(group) == members:
            return TiedNestPart(stacked, tables, members, *rest)
    return NestPart(stacked, group, *rest)


class TiedNestPart(NestPart):
    """The part of an objective that a nest whose atoms obey rules has.

    Args:
        stacked: The measurements.
        tables: Those of the tie.
        members: Positions of its attributes, in the tie's order.
        logs, components, information, smoothness, rng: As for `NestPart`.
    """

    def __init__(
        self,
        stacked: Stacked,
        tables: TiedTables,
        members: Sequence[int],
        logs: Singles,
        components: int,
        information: float,
        smoothness: float,
        rng: np.random.Generator,
    ) -> None:
        super().__init__(stacked, members, logs, components, information, smoothness, rng)
        local = dataclasses.replace(tables, rows=np.arange(len(tables.rows)))
        self._tie = TiedPart(local, self.atoms.logs.shape[1], float(self._information))
        self._none_alone = np.zeros(len(self.rows), dtype=np.bool_)
        self._ones = self.atoms.shares

    def spread(self, shares: Singles) -> None:
        """Put the one-ways of T U in place of Q in `shares`, [codes, components]."""
        self._ones = self.atoms.shares.copy()
        self._tie.spread(self._ones, self.atoms.logs)
        shares[self.rows] = self._ones @ self.tops.shares

    def pulled(self, gradient: Singles, weights: Singles, by_weight: Floats) -> float:
        """See `NestPart.pulled`."""
        v, u, outside = self._ones, self.tops.shares, gradient[self.rows]
        held = np.maximum(u @ weights, FLOOR)
        by_v, by_atom = np.zeros_like(v), np.zeros(v.shape[1])
        value = priced(
            by_v, self.atoms.logs, v, held, np.maximum(v @ held, FLOOR), self._none_alone,
            self._starts, self._ordered, self._information, self._smoothness, by_atom,
        )  # fmt: skip
        by_v += ((outside * weights) @ u.T) / held
        value += self._tie.pulled(by_v, v, held, by_atom)
        by_u = v.T @ outside + by_atom[:, None].astype(by_v.dtype)
        by_weight += by_atom @ u
        value += priced(
            by_u, self.tops.logs, u, weights, held, np.ones(len(u), np.bool_),
            self._whole, self._none, self._information, np.float32(0.0), by_weight,
        )  # fmt: skip
        centred(by_u, u, self._whole)
        gradient[self.rows] = 0.0
        self.slopes = (by_v, by_u)
        return value

    def moved(self, weights: Singles) -> float:
        """E|natural gradient|, summed over the nest's attributes and its atoms."""
        by_v, by_u = self.slopes
        inner = np.abs(by_v * self._ones).sum(axis=0) @ (self.tops.shares @ weights)
        return float(inner + np.abs(by_u * self.tops.shares).sum(axis=0) @ weights)
