"""Waves: how far a mixture of products is from a noisy mean embedding, on PyTorch, with its derivative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models.coarse import Coarse
from margrave.models.device import Device
from margrave.release import NoisyMoments
from margrave.schema.domain import Domain
from margrave.schema.embedding import TURN

__all__ = ["Waves"]


class Waves:
    """The sum over features of (model - measured)^2 / sigma^2; noise alone has an expectation of `count`.

    Inside a product the columns are independent, so the mean of exp(i (phase_1 + ... + phase_d)) is
    the product of the columns' means of exp(i phase_j): the embedding of a mixture is exact, where
    DP-MERF draws rows to estimate it. The derivative is written out.

    Args:
        domain: Names and sizes of the attributes.
        moments: What was released.
        rows: The number of rows that the model stands for.
        device: Where to compute.
        coarse: Attributes of which the domain has groups of codes; a group has its codes' mean point.
    """

    def __init__(
        self,
        domain: Domain,
        moments: NoisyMoments,
        rows: float,
        device: Device,
        coarse: Coarse | None = None,
    ) -> None:
        self.device, self.features = device, moments.embedding
        single, starts = device.torch.float32, np.concatenate([[0], np.cumsum(domain.sizes)]).tolist()

        def part(name: str) -> slice:
            at = domain.index(name)
            return slice(starts[at], starts[at + 1])

        self._parts = [part(name) for name in self.features.names]
        self._label = None if self.features.label is None else part(self.features.label)
        points = [np.exp(2j * math.pi / TURN * table) for table in self.features.phases]
        if coarse is not None:
            points = [_met(p, name, coarse) for p, name in zip(points, self.features.names, strict=True)]
        self._waves = [device.put(np.stack([p.T.real, p.T.imag]), single) for p in points]
        labels = moments.values.shape[0]
        values = moments.values.reshape(labels, 2, self.frequencies).transpose(1, 2, 0) / rows
        self._values = device.put(values, single)
        self._weight = (rows / moments.sigma) ** 2

    @property
    def frequencies(self) -> int:
        """How many features there are."""
        return self.features.frequencies

    @property
    def count(self) -> int:
        """How many numbers are compared."""
        return int(self._values.numel())

    def means(self, shares: Any, chosen: slice) -> Any:
        """The mixture's mean embedding in proportions, cosines and sines: shape [2, chosen, labels].

        Args:
            shares: Each product's distribution over the codes of each attribute, shape [codes, products].
            chosen: Which features.
        """
        return self._labelled(_running(self._columns(shares, chosen))[1], shares)

    def sloped(self, shares: Any, chosen: slice) -> tuple[Any, Any]:
        """The misfit, estimated without bias from some of the features, and its derivative by the shares."""
        columns, count = self._columns(shares, chosen), shares.shape[1]
        before, whole = _running(columns)
        off = self._labelled(whole, shares) - self._values[:, chosen]
        weight = self._weight * self.frequencies / whole.shape[1]
        pull, slope = off * (2.0 * weight / count), self.device.torch.zeros_like(shares)
        if self._label is None:
            after = pull.expand(whole.shape)
        else:
            after = pull @ shares[self._label]
            slope[self._label].addmm_(pull.flatten(0, 1).T, whole.flatten(0, 1))
        for k in reversed(range(len(columns))):
            down = after if k == 0 else _times(after, before[k - 1], -1.0)
            waves = self._waves[k][:, chosen].flatten(0, 1)
            slope[self._parts[k]].addmm_(waves.T, down.flatten(0, 1))
            if k:
                after = _times(after, columns[k], -1.0)
        return (off * off).sum() * weight, slope

    def _columns(self, shares: Any, chosen: slice) -> list[Any]:
        """Each column's means of exp(i phase) in each product, in planes: shapes [2, chosen, products]."""
        return [waves[:, chosen] @ shares[part] for part, waves in zip(self._parts, self._waves, strict=True)]

    def _labelled(self, whole: Any, shares: Any) -> Any:
        if self._label is None:
            return whole.mean(2, keepdim=True)
        return whole @ shares[self._label].T / shares.shape[1]


def _times(one: Any, other: Any, sign: float = 1.0) -> Any:
    """The product of complex numbers in planes, shapes [2, ...]; a sign of -1 conjugates `other`."""
    found = one * other[0]
    found[0].addcmul_(one[1], other[1], value=-sign)
    found[1].addcmul_(one[0], other[1], value=sign)
    return found


def _running(columns: Sequence[Any]) -> tuple[list[Any], Any]:
    """The products of the first column, the first two and so on, and that of all."""
    found = [columns[0]]
    for column in columns[1:]:
        found.append(_times(found[-1], column))
    return found, found[-1]


def _met(points: NDArray[np.complex128], name: str, coarse: Coarse) -> NDArray[np.complex128]:
    """The mean point of each group's codes, by their shares: shape [groups, frequencies]."""
    if name not in coarse.groups:
        return points
    groups = coarse.groups[name]
    found = np.zeros((int(groups.max()) + 1, points.shape[1]), dtype=np.complex128)
    np.add.at(found, groups, points * coarse.shares[name][:, None])
    return found
