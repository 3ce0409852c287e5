"""Points: ordered attributes of relaxed rows as numbers, their codes by sigmoids that grow steep (RAP++)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.device import Device
from margrave.models.relaxed.blocks import softmaxes
from margrave.schema.domain import Domain

__all__ = ["LEAST", "Points"]

TINY, LITTLE = 1e-9, 1e-3
"""Added to shares before they are scaled, and before their logarithm is taken."""
Floats = NDArray[np.float64]

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
    sigmoid(tau (k u - c)) - sigmoid(tau (k u - c - 1)), the outermost bins without an outer edge, so
    that the bins' shares sum to 1 at every steepness tau and become 0 and 1 as it grows (RAP++, section 3.2).
    Steepness is by the width of a bin: at less than 1 no number tells one bin from the next.

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
            block.ordered: device.put(np.arange(1.0, block.ordered)[:, None], device.torch.float32)
            for block in self.blocks
            if block.number is not None
        }

    def start(self, ways: Floats, rows: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Numbers and logits of rows that are as each attribute is by itself: [numbers, rows], [gates, rows].

        Args:
            ways: The attributes' distributions, one after another, shape [codes].
            rows: How many.
            rng: Of the order of numbers and their places in bins, and of the logits' noise.
        """
        numbers, gates, start = [], [], 0
        for block in self.blocks:
            own = ways[start : start + block.size]
            start += block.size
            if block.number is not None:
                inside = own[: block.ordered] + TINY
                inside /= inside.sum()
                drawn = (rng.permutation(rows) + 0.5) / rows
                bins = np.searchsorted(np.cumsum(inside)[:-1], drawn, side="right")
                numbers.append((bins + 0.25 + 0.5 * rng.random(rows)) / block.ordered)
                own = np.concatenate([[own[: block.ordered].sum()], own[block.ordered :]])
            gates.append(np.log(own + LITTLE)[:, None] + rng.standard_normal((len(own), rows)))
        single = self.device.torch.float32
        placed = np.stack(numbers) if numbers else np.zeros((0, rows))
        return self.device.put(placed, single), self.device.put(np.concatenate(gates), single)

    def number(self, attribute: int) -> int:
        """Which row of the numbers is an attribute's; an attribute without has none."""
        found = self.blocks[attribute].number
        if found is None:
            raise ValueError("not a number")
        return found

    def present(self, gates: Any) -> Any:
        """How much of each row has a number in each attribute that is one, shape [numbers, rows]."""
        softmax = self.device.torch.softmax
        rows = [softmax(gates[block.gates], 0)[:1] for block in self.blocks if block.number is not None]
        return self.device.torch.cat(rows) if rows else gates[:0]

    def shares(self, numbers: Any, gates: Any, steepness: float) -> Any:
        """Each row's distribution over the codes of each attribute, shape [codes, rows]."""
        torch, parts = self.device.torch, []
        opened = softmaxes(self.device, gates, [b.gates.stop - b.gates.start for b in self.blocks])
        for block in self.blocks:
            gate = opened[block.gates]
            if block.number is None:
                parts.append(gate)
                continue
            place = block.ordered * numbers[block.number]
            above = torch.sigmoid(steepness * (place - self._edges[block.ordered]))
            none, all_ = torch.zeros_like(above[:1]), torch.ones_like(above[:1])
            bins = torch.cat([all_, above]) - torch.cat([above, none])
            parts += [gate[:1] * bins, gate[1:]]
        return torch.cat(parts)
