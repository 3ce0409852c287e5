"""Misfit: how far a mixture of products is from measured tables, on PyTorch, with gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from margrave.models.device import Device
from margrave.models.mixture.stacked import stack
from margrave.models.pooled import Pooled
from margrave.models.relaxed.panels import paired, panels
from margrave.models.relaxed.tied import Tied
from margrave.schema.domain import Domain

__all__ = ["NOISE", "Misfit"]

NOISE = 1.0
"""The misfit of the distribution that was measured, in expectation. What fits better fits the noise."""


class Misfit:
    """The mean over measured cells of (model - measured)^2 / sigma^2, in proportions of `rows`.

    The model is a mean over relaxed rows of products: cell x of clique C has the proportion
    mean_r prod_{i in C} shares[x_i, r] (RAP, definition 3: a product query extended to relaxed rows).
    Noise alone has an expectation of `NOISE`. Pairs go by panels (`panels`); larger tables,
    and those of attributes that rules tie together, one by one. Rows are as the rules leave them (`tied`), as
    a `MixtureModel` takes them.

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
        # One factor for all keeps values of order 1.
        whole = 1.0 / max(self.cells, 1)
        self._ones = device.put(small.ones, single)
        self._one_weights = device.put(whole * small.one_weights.astype(np.float64), single)
        self._panels = panels(small, whole, device)
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
        """The misfit of relaxed rows, a scalar tensor with a gradient.

        Args:
            shares: Each row's distribution over the codes of each attribute, shape [codes, rows].
        """
        tied = self.tied.tables(shares)
        shares = self.tied.settled(shares, tied)
        value, slope = self._small(shares.detach())
        # Of that value and with the gradient `slope`.
        line = (slope * shares).sum()
        value = value + line - line.detach()
        for blocks, values, weights in self._large:
            value = value + (weights * (self.tied.cells(blocks, shares, tied) - values) ** 2).sum()
        return value

    def sloped(self, shares: Any) -> tuple[Any, Any]:
        """The misfit and its derivative by the shares, of their shape, both without a gradient."""
        if not self._large and not self.tied.ties:
            return self._small(shares)
        asked = shares.detach().requires_grad_()
        with self.device.torch.enable_grad():
            value = self(asked)
            value.backward()
        return value.detach(), asked.grad

    def _small(self, shares: Any) -> tuple[Any, Any]:
        """The part of pairs and single attributes that no rule ties together, with its derivative."""
        value, slope = paired(self.device, self._panels, shares)
        off = shares.mean(1) - self._ones
        pull = self._one_weights * off
        slope += (2.0 / shares.shape[1]) * pull[:, None]
        return value + (pull * off).sum(), slope
