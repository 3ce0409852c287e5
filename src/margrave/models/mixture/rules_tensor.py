"""Rules in the objective on PyTorch, by the formulas of `rules_objective`."""

from __future__ import annotations

from typing import Any

import numpy as np

from margrave.models.device import Device
from margrave.models.mixture.rules_objective import LEAST
from margrave.models.mixture.rules_tables import TiedTables

__all__ = ["TensorTie"]


class TensorTie:
    """The part of an objective that one tie has, on a device.

    Sums over cells are products with tables of zeros and ones, which have one order on any device.

    Args:
        tables: The tie and what was measured of it.
        information: Price of a nat of dependence.
        device: Where to compute.
        dtype: The precision of tables.
    """

    def __init__(self, tables: TiedTables, information: float, device: Device, dtype: Any) -> None:
        self.information = information
        self.lowest = tables.tie.lowest
        self.rows = device.put(tables.rows, device.torch.int64)
        self._known = device.put(tables.measured, dtype)[:, None]
        self._room = device.put(np.log(tables.tie.room), dtype)
        member = np.arange(len(tables.rows))[:, None]
        self._member = device.put(sum(member == place[None, :] for place in tables.places), dtype)
        self._pairs = []
        for pair in tables.pairs:
            used, own = np.unique(pair.keys, return_inverse=True)
            at = np.arange(len(used))[:, None] == own.ravel()[None, :]
            parts = [device.put(part, dtype) for part in (at, pair.values[used], pair.weights[used])]
            rest = np.delete(pair.weights * pair.values**2, used).sum()
            self._pairs.append((*parts, float(rest)))
        self._torch, self._wide = device.torch, device.wide

    def spread(self, at: Any, shares: Any) -> Any:
        """Put the one-ways of T in place of Q in `shares`; return what `pulled` needs."""
        logs = at.logs.index_select(0, self.rows).clamp_(min=self.lowest).mul_(self._known)
        cells = self._member.T @ logs + self._room[:, None]
        norms = cells.logsumexp(0)
        cells = cells.sub_(norms).exp_()
        ones = self._member @ cells
        shares.index_copy_(0, self.rows, ones)
        return logs, cells, norms, ones, cells @ at.weights

    def pulled(self, gradient: Any, kept: Any, weights: Any, by_weight: Any) -> Any:
        """See `TiedPart.pulled`; the value is a tensor in the device's most precise type."""
        logs, cells, norms, ones, mean = kept
        value, alone = mean.new_zeros((), dtype=self._wide), self._torch.zeros_like(mean)
        for member, values, precision, rest in self._pairs:
            miss = member @ mean - values
            pull = precision * miss
            value = value + (pull @ miss).to(self._wide) + rest
            alone += 2.0 * (member.T @ pull)
        known = self._room - mean.clamp(min=LEAST).log()
        alone += self.information * known
        below = gradient.index_select(0, self.rows) + self.information * logs
        summed = self._member @ (cells * (self._member.T @ below + alone[:, None]))
        paid = alone @ cells
        centred = summed / ones.clamp(min=LEAST) - (paid + (below * ones).sum(0))
        gradient.index_copy_(0, self.rows, self._torch.where(ones > LEAST, centred, 0.0) * self._known)
        nats = self.information * ((ones * logs).sum(0) - norms)
        by_weight += (paid + nats).to(self._wide)
        return value + (self.information * (known @ mean) + weights @ nats).to(self._wide)
