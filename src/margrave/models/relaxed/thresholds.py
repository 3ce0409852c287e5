"""Thresholds: random linear thresholds over the ordered attributes of measured tables, as RAP++ asks them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.pooled import Pooled
from margrave.models.relaxed.points import LEAST, Points
from margrave.schema.domain import Domain

__all__ = ["Threshold", "Thresholds", "thresholds"]


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
        axes = [k for k, i in enumerate(positions) if domain.ordered[i] >= LEAST]
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
