"""RowGenerator: a network of dense layers from Gaussian noise, and a label where there is one, to rows.

Its layers are matrices that an optimiser changes, with leaky ReLU between them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models._torch.device import Device

LEAK = 0.2
"""Slope of the leaky ReLU below 0, as in DCGAN (Radford, Metz and Chintala 2016)."""


class Dense:
    """Layers a -> W (a, 1) with leaky ReLU between them; automatic differentiation does the rest.

    Args:
        device: Where to compute.
        widths: Numbers that go into the first layer, that come out of it, and so on: two or more.
        rng: Of the starting weights: uniform within 1 / sqrt(inputs of the layer), offsets too.
    """

    def __init__(self, device: Device, widths: Sequence[int], rng: np.random.Generator) -> None:
        if len(widths) < 2 or min(widths) < 1:
            remedy = "Try (64, 128, 10)."
            raise InputError(invalid("widths", "two or more, each at least 1", remedy, got=tuple(widths)))
        self.device, self.widths = device, tuple(widths)
        self.weights: list[Any] = []
        """Of each layer, shape [outputs, inputs + 1], the offsets last; tensors with gradients."""
        for inputs, outputs in itertools.pairwise(widths):
            start = rng.uniform(-(inputs**-0.5), inputs**-0.5, (outputs, inputs + 1))
            self.weights.append(device.put(start, device.torch.float32).requires_grad_(True))

    def __call__(self, inputs: Any, weights: Sequence[Any] | None = None) -> Any:
        """What the last layer says, shape [rows, outputs].

        Args:
            inputs: Shape [rows, inputs].
            weights: Others than its own, of the same shapes.
        """
        given, torch = self.weights if weights is None else list(weights), self.device.torch
        found = inputs
        for place, weight in enumerate(given):
            found = torch.nn.functional.linear(found, weight[:, :-1], weight[:, -1])
            if place + 1 < len(given):
                found = torch.nn.functional.leaky_relu(found, LEAK)
        return found

    def arrays(self) -> list[NDArray[np.float32]]:
        """Copies of the weights on the processor."""
        return [weight.detach().cpu().numpy().copy() for weight in self.weights]


class RowGenerator:
    """Rows from noise: probabilities of codes by softmax, numbers in [0, 1] by the logistic function.

    Args:
        device: Where to compute.
        noise: Length of a noise vector.
        widths: Of the hidden layers; may be empty.
        sizes: Codes of each attribute that is a distribution over codes.
        numbers: How many numbers in [0, 1] follow them.
        labels: Classes; a row's class goes in as an indicator beside the noise. 0 for none.
        rng: Of the starting weights.
    """

    def __init__(
        self,
        device: Device,
        noise: int,
        widths: Sequence[int],
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        numbers: int = 0,
        labels: int = 0,
    ) -> None:
        self.device, self.noise, self.labels = device, noise, labels
        self.sizes, self.numbers = tuple(sizes), numbers
        self.dense = Dense(device, (noise + labels, *widths, sum(sizes) + numbers), rng)

    @property
    def weights(self) -> list[Any]:
        """Of each layer, shape [outputs, inputs + 1]: what an optimiser changes."""
        return self.dense.weights

    @property
    def outputs(self) -> int:
        """Numbers of a row."""
        return self.dense.widths[-1]

    def draw_noise(self, rows: int, rng: np.random.Generator) -> Any:
        """Noise vectors, shape [rows, noise]."""
        return self.device.put(rng.standard_normal((rows, self.noise)), self.device.torch.float32)

    def __call__(self, noise: Any, labels: Any = None, weights: Sequence[Any] | None = None) -> Any:
        """The rows of some noise vectors, shape [rows, outputs].

        Args:
            noise: Shape [rows, noise].
            labels: The class of each row, whole numbers of shape [rows]; left out where there are none.
            weights: Others than its own, of the same shapes.

        Raises:
            InputError: Labels are given and there are none, or the other way round.
        """
        torch = self.device.torch
        if (labels is None) != (self.labels == 0):
            remedy = "Make the generator with as many labels as there are classes."
            raise InputError(invalid("labels", "given exactly where there are classes", remedy))
        if labels is not None:
            known = torch.nn.functional.one_hot(labels, self.labels).to(noise.dtype)
            noise = torch.cat([noise, known], 1)
        said = self.dense(noise, weights)
        coded = sum(self.sizes)
        blocks = said[:, :coded].split(self.sizes, 1) if self.sizes else ()
        parts = [torch.softmax(block, 1) for block in blocks]
        if self.numbers:
            parts.append(torch.sigmoid(said[:, coded:]))
        return torch.cat(parts, 1)

    def draw_codes(self, shares: Any, rng: np.random.Generator) -> Any:
        """Indicators of codes drawn from the probabilities, with the gradient of the probabilities.

        A row's attribute has the code whose cumulated probability first exceeds a uniform number. Forward the
        rows are whole rows; backward the draw is left out, the straight-through estimator (Bengio, Léonard
        and Courville 2013). Numbers stay as they are.

        Args:
            shares: What the generator says, shape [rows, outputs].
            rng: Of the uniform numbers.
        """
        torch = self.device.torch
        uniform = self.device.put(rng.random((len(shares), len(self.sizes))), shares.dtype)
        parts, start = [], 0
        for place, size in enumerate(self.sizes):
            block = shares[:, start : start + size].detach()
            code = (block.cumsum(1) <= uniform[:, place : place + 1]).sum(1).clamp(max=size - 1)
            parts.append(torch.nn.functional.one_hot(code, size).to(shares.dtype))
            start += size
        parts.append(shares[:, start:].detach())
        return shares + (torch.cat(parts, 1) - shares).detach()
