"""Generator: a small network from Gaussian noise to a product distribution over the attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from margrave.models.device import Device
from margrave.models.relaxed.blocks import softmaxes

__all__ = ["Generator"]

SLACK = 1e-5
"""Added to variances before they are divided by, as in torch's BatchNorm."""


class Generator:
    """Blocks of linear map, batch normalisation and ReLU, each joined to its input; then softmax a column.

    The generator of GEM (Liu, Vietri and Wu 2021), which is CTGAN's. Normalisation is by the batch's own
    mean and variance whenever the network is asked, so that it has no running state: what it says of one
    noise vector depends on the others of the batch.

    Args:
        device: Where to compute.
        inputs: Length of a noise vector.
        widths: Outputs of each block.
        sizes: Codes of each attribute.
        rng: Of the starting weights: uniform within 1 / sqrt(inputs of the map), as in torch.
    """

    def __init__(
        self,
        device: Device,
        inputs: int,
        widths: Sequence[int],
        sizes: Sequence[int],
        rng: np.random.Generator,
    ) -> None:
        self.device, self.sizes = device, tuple(sizes)
        self.weights: list[Any] = []
        width = inputs
        for wide in widths:
            self._map(width, wide, rng)
            self.weights += [device.put(np.full(wide, one), device.torch.float32) for one in (1.0, 0.0)]
            width += wide
        self._map(width, sum(sizes), rng)

    def _map(self, inputs: int, outputs: int, rng: np.random.Generator) -> None:
        bound = inputs**-0.5
        for shape in ((outputs, inputs), (outputs,)):
            start = rng.uniform(-bound, bound, shape)
            self.weights.append(self.device.put(start, self.device.torch.float32))

    def __call__(self, weights: Sequence[Any], noise: Any) -> Any:
        """The product of each noise vector under some weights, shape [codes, vectors].

        Args:
            weights: Shapes as `self.weights`.
            noise: Shape [vectors, inputs].
        """
        torch, at = self.device.torch, noise
        for k in range(0, len(weights) - 2, 4):
            linear, offset, scale, shift = weights[k : k + 4]
            made = at @ linear.T + offset
            mean, variance = made.mean(0), made.var(0, correction=0)
            made = (made - mean) * torch.rsqrt(variance + SLACK) * scale + shift
            at = torch.cat([torch.relu(made), at], 1)
        return softmaxes(self.device, (at @ weights[-2].T + weights[-1]).T, self.sizes)
