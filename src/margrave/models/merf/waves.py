"""Waves: how far a mixture of products is from a noisy mean embedding, on PyTorch, with gradients."""

from __future__ import annotations

import math
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
    DP-MERF draws rows to estimate it.

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
        self._waves = [(device.put(p.T.real, single), device.put(p.T.imag, single)) for p in points]
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

    def means(self, shares: Any, chosen: Any) -> Any:
        """The mixture's mean embedding in proportions, cosines and sines: shape [2, chosen, labels].

        Args:
            shares: Each product's distribution over the codes of each attribute, shape [codes, products].
            chosen: Which features, indices.
        """
        torch, one = self.device.torch, None
        for part, (cosines, sines) in zip(self._parts, self._waves, strict=True):
            cosine, sine = cosines[chosen] @ shares[part], sines[chosen] @ shares[part]
            if one is None:
                one = (cosine, sine)
            else:
                one = (one[0] * cosine - one[1] * sine, one[0] * sine + one[1] * cosine)
        both = torch.stack(one)
        if self._label is None:
            return both.mean(2, keepdim=True)
        return both @ shares[self._label].T / shares.shape[1]

    def __call__(self, shares: Any, chosen: Any) -> Any:
        """The misfit, estimated without bias from some of the features: a scalar tensor."""
        apart = ((self.means(shares, chosen) - self._values[:, chosen]) ** 2).sum()
        return apart * (self._weight * self.frequencies / len(chosen))


def _met(points: NDArray[np.complex128], name: str, coarse: Coarse) -> NDArray[np.complex128]:
    """The mean point of each group's codes, by their shares: shape [groups, frequencies]."""
    if name not in coarse.groups:
        return points
    groups = coarse.groups[name]
    found = np.zeros((int(groups.max()) + 1, points.shape[1]), dtype=np.complex128)
    np.add.at(found, groups, points * coarse.shares[name][:, None])
    return found
