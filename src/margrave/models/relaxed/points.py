"""Points: ordered attributes of relaxed rows as numbers, their codes by sigmoids that grow steep (RAP++)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.device import Device
from margrave.models.relaxed.blocks import softmaxes
from margrave.schema.domain import Domain

__all__ = ["Points"]

LEAST = 3
"""An attribute is a number if so many of its codes or more stand in order."""


@dataclass(frozen=True, slots=True)
class _Block:
    """One attribute.

    Args:
        size: Number of its codes.
        number: Row of `Points.start` that holds its number; None for a distribution over its codes.
        ordered: Leading codes that stand in order; the number says which of them a row has.
        gates: Where its logits lie: of all codes, or of "has a number" and the codes behind the ordered ones.
    """

    size: int
    number: int | None
    ordered: int
    gates: slice


class Points:
    """Relaxed rows with a number in [0, 1] for each ordered attribute and softmax blocks for all others.

    Codes of k bins are the intervals of equal length of [0, 1]; a number u is in bin c by
    sigmoid(tau (u - c / k)) - sigmoid(tau (u - (c + 1) / k)), the outermost bins without an outer edge, so
    that the bins' shares sum to 1 at every steepness tau and become 0 and 1 as it grows (RAP++, section 3.2).

    Args:
        domain: With `ordered`.
        device: Where to compute.
    """

    def __init__(self, domain: Domain, device: Device) -> None:
        self.device = device
        self.blocks: list[_Block] = []
        numbers = gates = 0
        for size, ordered in zip(domain.sizes, domain.ordered, strict=True):
            point = ordered >= LEAST
            width = 1 + size - ordered if point else size
            self.blocks.append(_Block(size, numbers if point else None, ordered, slice(gates, gates + width)))
            numbers, gates = numbers + point, gates + width
        self.numbers, self.gates = numbers, gates
        self._edges = {
            block.ordered: device.put(
                np.arange(1, block.ordered)[:, None] / block.ordered, device.torch.float32
            )
            for block in self.blocks
            if block.number is not None
        }

    def start(self, rows: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Numbers spread over [0, 1] and logits near 0: shapes [numbers, rows] and [gates, rows]."""
        single = self.device.torch.float32
        numbers, gates = rng.random((self.numbers, rows)), rng.standard_normal((self.gates, rows))
        return self.device.put(numbers, single), self.device.put(gates, single)

    def place(self, attribute: int, numbers: Any) -> Any:
        """The numbers of one attribute, shape [rows]; an attribute without has none."""
        number = self.blocks[attribute].number
        if number is None:
            raise ValueError("not a number")
        return numbers[number]

    def present(self, attribute: int, gates: Any) -> Any:
        """How much of each row has a number in this attribute, shape [rows]."""
        return self.device.torch.softmax(gates[self.blocks[attribute].gates], 0)[0]

    def shares(self, numbers: Any, gates: Any, steepness: float) -> Any:
        """Each row's distribution over the codes of each attribute, shape [codes, rows]."""
        torch, parts = self.device.torch, []
        opened = softmaxes(self.device, gates, [b.gates.stop - b.gates.start for b in self.blocks])
        for block in self.blocks:
            gate = opened[block.gates]
            if block.number is None:
                parts.append(gate)
                continue
            above = torch.sigmoid(steepness * (numbers[block.number] - self._edges[block.ordered]))
            none, all_ = torch.zeros_like(above[:1]), torch.ones_like(above[:1])
            bins = torch.cat([all_, above]) - torch.cat([above, none])
            parts += [gate[:1] * bins, gate[1:]]
        return torch.cat(parts)

    def exact(self, numbers: Any, gates: Any) -> NDArray[np.float64]:
        """The shares with every number in the one bin it lies in, shape [codes, rows]."""
        opened = softmaxes(self.device, gates, [b.gates.stop - b.gates.start for b in self.blocks])
        open_, at = opened.cpu().numpy().astype(np.float64), numbers.cpu().numpy()
        parts = []
        for block in self.blocks:
            gate = open_[block.gates]
            if block.number is None:
                parts.append(gate)
                continue
            bins = np.clip(np.floor(at[block.number] * block.ordered), 0, block.ordered - 1)
            held = np.arange(block.ordered)[:, None] == bins[None, :]
            parts += [gate[:1] * held, gate[1:]]
        return np.concatenate(parts)
