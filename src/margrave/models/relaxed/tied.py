"""Tied: relaxed rows under rules, on PyTorch, as `mixture.rules_ties.conditioned` has them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from margrave.models.device import Device
from margrave.models.mixture.rules_ties import Tie, ties
from margrave.schema.domain import Clique, Domain

__all__ = ["Blocks", "Tied"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """How a clique's cells are products inside a row.

    Args:
        parts: For each factor a slice of the shares, or a tie and each of its cells' cell of some attributes
            with the number of those.
        sizes: Codes of the attributes, in the order of the factors.
        axes: Where each attribute of the clique is among those.
    """

    parts: tuple[slice | tuple[int, Any, int], ...]
    sizes: tuple[int, ...]
    axes: tuple[int, ...]


class Tied:
    """Each row's distribution given the rules: attributes that rules tie together have one table a row.

    Args:
        domain: With its rules, if any.
        device: Where to compute.
    """

    def __init__(self, domain: Domain, device: Device) -> None:
        self.device, self.domain = device, domain
        self.starts = np.concatenate([[0], np.cumsum(domain.sizes)]).tolist()
        self.ties: tuple[Tie, ...] = ties(domain)
        self._places = [[domain.index(name) for name in tie.names] for tie in self.ties]
        put, whole = device.put, device.torch.int64
        self._codes = [[put(codes, whole) for codes in tie.codes] for tie in self.ties]
        self._room = [put(np.log(tie.room), device.torch.float32)[:, None] for tie in self.ties]

    def loose(self, clique: Clique) -> bool:
        """Whether no two attributes of a clique are tied together."""
        return all(len(set(clique).intersection(tie.names)) < 2 for tie in self.ties)

    def tables(self, shares: Any) -> list[Any]:
        """Each tie's distribution over its cells in every row, shapes [cells, rows]."""
        found = []
        for tie, places, codes, room in zip(self.ties, self._places, self._codes, self._room, strict=True):
            logs = room.expand(-1, shares.shape[1])
            for i, code in zip(places, codes, strict=True):
                block = shares[self.starts[i] : self.starts[i + 1]]
                logs = logs + block.clamp(min=float(np.exp(tie.lowest))).log().index_select(0, code)
            found.append(self.device.torch.softmax(logs, 0))
        return found

    def settled(self, shares: Any, tables: Sequence[Any]) -> Any:
        """The shares with those of tied attributes as the rules leave them, shape [codes, rows]."""
        if not self.ties:
            return shares
        parts = list(self.device.torch.split(shares, list(self.domain.sizes)))
        for table, places, codes in zip(tables, self._places, self._codes, strict=True):
            for i, code in zip(places, codes, strict=True):
                parts[i] = self._summed(table, code, self.domain.sizes[i])
        return self.device.torch.cat(parts)

    def blocks(self, clique: Clique) -> Blocks:
        """How the cells of a clique are made of shares and tables."""
        parts: list[slice | tuple[int, Any, int]] = []
        order: list[str] = []
        for k, tie in enumerate(self.ties):
            names = tuple(name for name in clique if name in tie.names)
            if len(names) > 1:
                keys, size = tie.keys(names)
                parts.append((k, self.device.put(keys, self.device.torch.int64), size))
                order += names
        for name in clique:
            if name not in order:
                i = self.domain.index(name)
                parts.append(slice(self.starts[i], self.starts[i + 1]))
                order.append(name)
        return Blocks(tuple(parts), self.domain.shape(order), tuple(order.index(name) for name in clique))

    def cells(self, blocks: Blocks, shares: Any, tables: Sequence[Any]) -> Any:
        """The mean over rows of each cell's share, shape of the clique; shares are `settled`."""
        factors = [
            shares[part] if isinstance(part, slice) else self._summed(tables[part[0]], part[1], part[2])
            for part in blocks.parts
        ]
        found, count = factors[0], shares.shape[1]
        for factor in factors[1:-1]:
            found = (found[:, None, :] * factor[None, :, :]).reshape(-1, count)
        mean = found @ factors[-1].T / count if len(factors) > 1 else found.mean(1)
        return mean.reshape(blocks.sizes).permute(blocks.axes)

    def _summed(self, table: Any, keys: Any, size: int) -> Any:
        torch = self.device.torch
        empty = torch.zeros((size, table.shape[1]), dtype=table.dtype, device=table.device)
        return empty.index_add(0, keys, table)
