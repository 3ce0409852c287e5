"""Misfit: how far a mixture of products is from measured tables, on PyTorch, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.device import Device
from margrave.models.mixture.stacked import stack
from margrave.models.pooled import Pooled
from margrave.models.relaxed.tied import Tied
from margrave.schema.domain import Domain

__all__ = ["Misfit"]


class Misfit:
    """The mean over measured cells of (model - measured)^2 / sigma^2, in proportions of `rows`.

    The model is a mean over relaxed rows of products: cell x of clique C has the proportion
    mean_r prod_{i in C} shares[x_i, r] (RAP, definition 3: a product query extended to relaxed rows).
    Noise alone has an expectation of 1. One-ways and pairs of all attributes are taken from one product of
    matrices; larger tables, and those of attributes that rules tie together, one by one. Rows are as the
    rules leave them (`tied`), as a `MixtureModel` takes them.

    Args:
        domain: Names and sizes of the attributes.
        tables: What was measured.
        rows: The number of rows that proportions are of.
        device: Where to compute.
    """

    def __init__(self, domain: Domain, tables: Sequence[Pooled], rows: float, device: Device) -> None:
        self.device = device
        single = device.torch.float32
        self.tied = Tied(domain, device)
        plain = [table for table in tables if len(table.clique) <= 2 and self.tied.loose(table.clique)]
        small = stack(domain, plain, rows)
        self.cells = sum(table.values.size for table in tables)
        # The square holds every pair twice, hence the half; one factor for all keeps values of order 1.
        whole = 1.0 / max(self.cells, 1)
        self._pairs, self._ones = device.put(small.pairs, single), device.put(small.ones, single)
        self._pair_weights = device.put(0.5 * whole * small.pair_weights.astype(np.float64), single)
        self._one_weights = device.put(whole * small.one_weights.astype(np.float64), single)
        self._any = bool(small.pair_weights.any())
        self._large = [
            (
                self.tied.blocks(table.clique),
                device.put(table.values / rows, single),
                device.put(whole * (rows / table.sigma) ** 2, single),
            )
            for table in tables
            if len(table.clique) > 2 or not self.tied.loose(table.clique)
        ]

    def __call__(self, shares: Any) -> Any:
        """The misfit of relaxed rows, a scalar tensor.

        Args:
            shares: Each row's distribution over the codes of each attribute, shape [codes, rows].
        """
        tied = self.tied.tables(shares)
        shares = self.tied.settled(shares, tied)
        value = (self._one_weights * (shares.mean(1) - self._ones) ** 2).sum()
        if self._any:
            square = shares @ shares.T / shares.shape[1]
            value = value + (self._pair_weights * (square - self._pairs) ** 2).sum()
        for blocks, values, weights in self._large:
            value = value + (weights * (self.tied.cells(blocks, shares, tied) - values) ** 2).sum()
        return value

    def exact(self, shares: NDArray[Any]) -> float:
        """The misfit of rows that are on no device, shape [codes, rows]."""
        return float(self(self.device.put(shares, self.device.torch.float32)))
