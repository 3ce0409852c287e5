"""Points: ordered attributes of relaxed rows as numbers, their codes by sigmoids that grow steep (RAP++).

Thresholds: random linear thresholds over the ordered attributes of measured tables, as RAP++ asks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._base.pooling import Pooled
from margrave.models._products.products import softmaxes
from margrave.models._torch.device import Device
from margrave.schema.domain import Domain

MIN_SCALED_SHARE, MIN_LOG_SHARE = 1e-9, 1e-3
"""Added to shares before they are scaled, and before their logarithm is taken."""
Floats = NDArray[np.float64]

MIN_ORDERED_CODES = 3
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
            point = ordered >= MIN_ORDERED_CODES
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
                inside = own[: block.ordered] + MIN_SCALED_SHARE
                inside /= inside.sum()
                drawn = (rng.permutation(rows) + 0.5) / rows
                bins = np.searchsorted(np.cumsum(inside)[:-1], drawn, side="right")
                numbers.append((bins + 0.25 + 0.5 * rng.random(rows)) / block.ordered)
                own = np.concatenate([[own[: block.ordered].sum()], own[block.ordered :]])
            gates.append(np.log(own + MIN_LOG_SHARE)[:, None] + rng.standard_normal((len(own), rows)))
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


@dataclass(frozen=True, slots=True)
class Threshold:
    """The share of rows above a plane, by the codes of the other attributes of the table.

    Args:
        numbers: Positions of the ordered attributes, in the domain.
        direction: h, one number an ordered attribute.
        offset: b; rows with h . x > b are above.
        others: Positions of the table's other attributes.
        values: Noisy proportions, shape of the others' table.
        weights: 1 / variance of each.
    """

    numbers: tuple[int, ...]
    direction: NDArray[np.float64]
    offset: float
    others: tuple[int, ...]
    values: NDArray[np.float64]
    weights: NDArray[np.float64]


def thresholds(
    domain: Domain, tables: Sequence[Pooled], rows: float, count: int, rng: np.random.Generator
) -> list[Threshold]:
    """`count` thresholds for each table with an ordered attribute, answered from its noisy cells.

    A threshold is a sum of cells, so its answer is free and its variance the sum of theirs. Directions are
    normal, scaled to length 1; offsets lie halfway between two cells' centres, so that some cells are above
    and some are not. Codes behind the ordered ones, as a missing value's, are above no plane.
    """
    found = []
    for table in tables:
        positions = [domain.index(name) for name in table.clique]
        axes = [k for k, i in enumerate(positions) if domain.ordered[i] >= MIN_ORDERED_CODES]
        for _ in range(count if axes else 0):
            direction = rng.standard_normal(len(axes))
            direction /= np.linalg.norm(direction)  # so that a sigmoid's width is a distance
            sizes = [domain.ordered[positions[k]] for k in axes]
            centres = [(np.arange(size) + 0.5) / size for size in sizes]
            score = np.asarray(sum(np.ix_(*(h * c for h, c in zip(direction, centres, strict=True)))))
            levels = np.unique(score.round(12))
            at = rng.integers(len(levels) - 1)
            offset = float(levels[at] + levels[at + 1]) / 2
            above = np.zeros([table.values.shape[k] for k in axes], dtype=bool)
            above[tuple(slice(n) for n in score.shape)] = score > offset
            shape = [table.values.shape[k] if k in axes else 1 for k in range(len(positions))]
            held = above.reshape(shape)
            values = (table.values * held).sum(axis=tuple(axes)) / rows
            variance = (table.sigma**2 * held).sum(axis=tuple(axes)) / rows**2
            others = tuple(i for k, i in enumerate(positions) if k not in axes)
            numbers = tuple(positions[k] for k in axes)
            found.append(Threshold(numbers, direction, offset, others, np.asarray(values), 1.0 / variance))
    return found


class Thresholds:
    """The mean over answers of (model - noisy)^2 / variance, with the indicator as a sigmoid.

    Thresholds by the codes of at most one attribute are one product of matrices: rows above each plane, by
    all codes and one that every row has. Others go one by one.

    Args:
        points: How rows hold their numbers.
        asked: The thresholds.
        domain: Names and sizes of the attributes.
    """

    def __init__(self, points: Points, asked: Sequence[Threshold], domain: Domain) -> None:
        self._points = points
        self._starts = np.concatenate([[0], np.cumsum(domain.sizes)]).tolist()
        self._asked = sorted(asked, key=lambda one: len(one.others) > 1)
        self._few = sum(len(one.others) <= 1 for one in asked)
        whole = max(sum(one.values.size for one in asked), 1)
        values, weights = (np.zeros((self._few, self._starts[-1] + 1)) for _ in range(2))
        for k, one in enumerate(self._asked[: self._few]):
            at = slice(*self._starts[one.others[0] :][:2]) if one.others else slice(-1, None)
            values[k, at], weights[k, at] = one.values, one.weights / whole
        single, put = points.device.torch.float32, points.device.put
        self._values, self._weights = put(values, single), put(weights, single)
        self._planes(domain)
        self._held = [
            (put(one.values, single), put(one.weights / whole, single)) for one in self._asked[self._few :]
        ]

    def _planes(self, domain: Domain) -> None:
        """Directions [thresholds, numbers], offsets and bins a unit [thresholds, 1], and which numbers."""
        count, numbers = len(self._asked), self._points.numbers
        widest = max((len(one.numbers) for one in self._asked), default=1)
        directions, offsets, bins = np.zeros((count, numbers)), np.zeros((count, 1)), np.ones((count, 1))
        which = np.full((widest, count), numbers)
        for k, one in enumerate(self._asked):
            at = [self._points.number(i) for i in one.numbers]
            directions[k, at], offsets[k] = one.direction, one.offset
            bins[k] = max(domain.ordered[i] for i in one.numbers)
            which[: len(at), k] = at
        torch, put = self._points.device.torch, self._points.device.put
        self._directions, self._offsets = put(directions, torch.float32), put(offsets, torch.float32)
        self._bins, self._which = put(bins, torch.float32), put(which, torch.int64)

    def __call__(self, numbers: Any, gates: Any, shares: Any, steepness: float) -> Any:
        """The misfit of relaxed rows, a scalar tensor; see `Points` for the shapes."""
        torch, count = self._points.device.torch, shares.shape[1]
        every = torch.ones((1, count), dtype=shares.dtype, device=shares.device)
        above = torch.sigmoid(steepness * self._bins * (self._directions @ numbers - self._offsets))
        present = torch.cat([self._points.present(gates), every])
        for which in self._which:
            above = above * present.index_select(0, which)
        found = above[: self._few] @ torch.cat([shares, every]).T / count
        value = (self._weights * (found - self._values) ** 2).sum()
        for k, (values, weights) in enumerate(self._held, self._few):
            table = above[k : k + 1]
            for i in self._asked[k].others:
                block = shares[self._starts[i] : self._starts[i + 1]]
                table = (table[:, None, :] * block[None, :, :]).reshape(-1, count)
            value = value + (weights * (table.mean(1).reshape(values.shape) - values) ** 2).sum()
        return value
