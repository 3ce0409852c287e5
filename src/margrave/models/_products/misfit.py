"""Misfit: how far a mixture of products is from measured tables, on PyTorch, with gradients.

Measured pairs are few products of matrices, with their gradient written out. `ConstrainedShares` has relaxed
rows under rules, as `condition_block` in `margrave.models._mixture.constraint_blocks` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from margrave.models._base.pooling import Pooled
from margrave.models._mixture.constraint_blocks import ConstraintBlock, constraint_blocks
from margrave.models._mixture.stacked import Stacked, stack
from margrave.models._torch.device import Device
from margrave.schema.domain import Clique, Domain

BRIDGE = 16
"""So many codes of unmeasured attributes cost less than another product of matrices."""
MIN_PRODUCT_CELLS = 8_000
"""Cells of a product of matrices that take as long as a panel's many small operations."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Measured pairs of some attributes with others, as one table of codes by codes.

    Args:
        rows: Codes of the one side.
        columns: Codes of the other side.
        values: Noisy proportions, shape [rows, columns]; 0 where unmeasured.
        weights: 1 / variance of each, scaled; 0 where unmeasured.
    """

    rows: slice
    columns: slice
    values: Any
    weights: Any


def panels(measured: Stacked, scale: float, device: Device) -> list[Panel]:
    """Panels that hold every measured pair once; none where no pair is measured.

    An attribute is a panel with each run of later attributes that it was measured with, so that what was not
    measured costs nothing. Where that is no less work, and on other devices than the processor, which take
    longer to begin a product than to compute one, all codes by all codes are one panel in which every pair
    stands twice with half its weight: it is its own mirror image, so its derivative is one product.
    """
    weights = scale * measured.pair_weights.astype(np.float64)
    if not weights.any():
        return []
    spans = [span for i in range(measured.attributes - 1) for span in _runs(measured, i)]
    # The third product is that of the derivative; the constant stands for the time to begin a product.
    asked = sum(
        3 * (one.stop - one.start) * (other.stop - other.start) + MIN_PRODUCT_CELLS for one, other in spans
    )
    if device.place.type != "cpu" or asked >= 2 * measured.codes**2:
        spans, weights = [(slice(None), slice(None))], 0.5 * weights
    single = device.torch.float32
    return [
        Panel(*span, device.put(measured.pairs[span], single), device.put(weights[span], single))
        for span in spans
    ]


def _runs(measured: Stacked, attribute: int) -> list[tuple[slice, slice]]:
    """The codes of an attribute by those of later ones it was measured with, near ones together."""
    starts = measured.starts.tolist()
    own = slice(starts[attribute], starts[attribute + 1])
    runs: list[tuple[int, int]] = []
    for start, stop in zip(starts[attribute + 1 : -1], starts[attribute + 2 :], strict=True):
        if not measured.pair_weights[own, start:stop].any():
            continue
        # Runs join over a gap where the codes between cost less than a product of their own.
        if runs and start - runs[-1][1] <= BRIDGE:
            runs[-1] = (runs[-1][0], stop)
        else:
            runs.append((start, stop))
    return [(own, slice(*run)) for run in runs]


def pair_misfit(device: Device, held: Sequence[Panel], shares: Any) -> tuple[Any, Any]:
    """The sum over cells of weight (model - measured)^2, a scalar tensor, and its derivative by the shares.

    The derivative is written out: automatic differentiation takes twice the time for small products, since it
    keeps a copy of the shares for each of them.

    Args:
        device: Where to compute.
        held: The panels.
        shares: Each row's distribution over the codes of each attribute, shape [codes, rows]; without a
            gradient.
    """
    slope = device.torch.zeros_like(shares)
    value = shares.new_zeros(())
    count = shares.shape[1]
    for panel in held:
        one, other = shares[panel.rows], shares[panel.columns]
        off = (one @ other.T).div_(count).sub_(panel.values)
        pull = panel.weights * off
        value += (pull * off).sum()
        # A panel that mirrors itself has both its derivatives in one product.
        if panel.rows == panel.columns:
            slope.addmm_(pull, other, alpha=4.0 / count)
            continue
        slope[panel.rows].addmm_(pull, other, alpha=2.0 / count)
        slope[panel.columns].addmm_(pull.T, one, alpha=2.0 / count)
    return value, slope


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a clique's cells are products inside a row.

    Args:
        parts: For each factor a slice of the shares, or a constraint block and each of its cells' cell of
            some attributes with the number of those.
        sizes: Codes of the attributes, in the order of the factors.
        axes: Where each attribute of the clique is among those.
    """

    parts: tuple[slice | tuple[int, Any, int], ...]
    sizes: tuple[int, ...]
    axes: tuple[int, ...]


class ConstrainedShares:
    """Each row's distribution given the rules: attributes that rules tie together have one table a row.

    Args:
        domain: With its rules, if any.
        device: Where to compute.
    """

    def __init__(self, domain: Domain, device: Device) -> None:
        self.device, self.domain = device, domain
        self.starts = np.cumsum([0, *domain.sizes]).tolist()
        self.constraint_blocks: tuple[ConstraintBlock, ...] = constraint_blocks(domain)
        self._places = [
            [domain.index(name) for name in constraint.names] for constraint in self.constraint_blocks
        ]
        put, whole = device.put, device.torch.int64
        self._codes = [
            [put(codes, whole) for codes in constraint.codes] for constraint in self.constraint_blocks
        ]
        self._log_feasible_shares = [
            put(np.log(constraint.feasible_shares), device.torch.float32)[:, None]
            for constraint in self.constraint_blocks
        ]

    def loose(self, clique: Clique) -> bool:
        """Whether no two attributes of a clique are tied together."""
        return all(
            len(set(clique).intersection(constraint.names)) < 2 for constraint in self.constraint_blocks
        )

    def tables(self, shares: Any) -> list[Any]:
        """Each constraint block's distribution over its cells in every row, shapes [cells, rows]."""
        found = []
        for constraint, places, codes, feasible_shares in zip(
            self.constraint_blocks, self._places, self._codes, self._log_feasible_shares, strict=True
        ):
            # All rows start at the rules' own shares; each attribute's log share is added to its cells.
            logs = feasible_shares.expand(-1, shares.shape[1])
            for i, code in zip(places, codes, strict=True):
                block = shares[self.starts[i] : self.starts[i + 1]]
                # A share of 0 in one code would make the whole row of cells impossible.
                logs = logs + block.clamp(min=float(np.exp(constraint.lowest))).log().index_select(0, code)
            found.append(self.device.torch.softmax(logs, 0))
        return found

    def condition_shares(self, shares: Any, tables: Sequence[Any]) -> Any:
        """The shares with those of tied attributes as the rules leave them, shape [codes, rows]."""
        if not self.constraint_blocks:
            return shares
        parts = list(self.device.torch.split(shares, list(self.domain.sizes)))
        for table, places, codes in zip(tables, self._places, self._codes, strict=True):
            for i, code in zip(places, codes, strict=True):
                parts[i] = self._sum_cells(table, code, self.domain.sizes[i])
        return self.device.torch.cat(parts)

    def blocks(self, clique: Clique) -> Blocks:
        """How the cells of a clique are made of shares and tables."""
        parts: list[slice | tuple[int, Any, int]] = []
        order: list[str] = []
        for k, constraint in enumerate(self.constraint_blocks):
            # Two attributes or more of one constraint block are read off its table, being dependent inside a
            # row.
            names = tuple(name for name in clique if name in constraint.names)
            if len(names) > 1:
                keys, size = constraint.keys(names)
                parts.append((k, self.device.put(keys, self.device.torch.int64), size))
                order += names
        for name in clique:
            if name not in order:
                i = self.domain.index(name)
                parts.append(slice(self.starts[i], self.starts[i + 1]))
                order.append(name)
        return Blocks(tuple(parts), self.domain.shape(order), tuple(order.index(name) for name in clique))

    def cells(self, blocks: Blocks, shares: Any, tables: Sequence[Any]) -> Any:
        """The mean over rows of each cell's share, shape of the clique; shares as from
        `condition_shares`."""
        factors = [
            shares[part] if isinstance(part, slice) else self._sum_cells(tables[part[0]], part[1], part[2])
            for part in blocks.parts
        ]
        found, count = factors[0], shares.shape[1]
        # All factors but the last are multiplied cell by cell; the last product also takes the mean over
        # rows.
        for factor in factors[1:-1]:
            found = (found[:, None, :] * factor[None, :, :]).reshape(-1, count)
        mean = found @ factors[-1].T / count if len(factors) > 1 else found.mean(1)
        return mean.reshape(blocks.sizes).permute(blocks.axes)

    def _sum_cells(self, table: Any, keys: Any, size: int) -> Any:
        torch = self.device.torch
        empty = torch.zeros((size, table.shape[1]), dtype=table.dtype, device=table.device)
        return empty.index_add(0, keys, table)


NOISE = 1.0
"""The misfit of the distribution that was measured, in expectation. What fits better fits the noise."""


class Misfit:
    """The mean over measured cells of (model - measured)^2 / sigma^2, in proportions of `rows`.

    The model is a mean over relaxed rows of products: cell x of clique C has the proportion
    mean_r prod_{i in C} shares[x_i, r] (RAP, definition 3: a product query extended to relaxed rows).
    Noise alone has an expectation of `NOISE`. Pairs go by panels (`panels`); larger tables,
    and those of attributes that rules tie together, one by one. Rows are as the rules leave them, as
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
        self.tied = ConstrainedShares(domain, device)
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
        shares = self.tied.condition_shares(shares, tied)
        value, slope = self._small(shares.detach())
        # Of that value and with the gradient `slope`.
        line = (slope * shares).sum()
        value = value + line - line.detach()
        for blocks, values, weights in self._large:
            value = value + (weights * (self.tied.cells(blocks, shares, tied) - values) ** 2).sum()
        return value

    def value_and_slope(self, shares: Any) -> tuple[Any, Any]:
        """The misfit and its derivative by the shares, of their shape, both without a gradient."""
        if not self._large and not self.tied.constraint_blocks:
            return self._small(shares)
        asked = shares.detach().requires_grad_()
        with self.device.torch.enable_grad():
            value = self(asked)
            value.backward()
        return value.detach(), asked.grad

    def _small(self, shares: Any) -> tuple[Any, Any]:
        """The part of pairs and single attributes that no rule ties together, with its derivative."""
        value, slope = pair_misfit(self.device, self._panels, shares)
        off = shares.mean(1) - self._ones
        pull = self._one_weights * off
        slope += (2.0 / shares.shape[1]) * pull[:, None]
        return value + (pull * off).sum(), slope
