"""Generator: a small network from Gaussian noise to a product distribution over the attributes.

It is trained by steps of Adam that grow short like a cosine; weights are averaged over the second half of
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from margrave.models._products.products import softmaxes
from margrave.models._torch.descent import Adam
from margrave.models._torch.device import Device

SLACK = 1e-5
"""Added to variances before they are divided by, as in torch's BatchNorm."""


@dataclass(frozen=True, slots=True)
class Made:
    """What the network makes of some noise vectors, and what its gradient is made of.

    Args:
        shares: The product of each noise vector, shape [codes, vectors].
        held: Outputs of the blocks, last one first, and the noise: shape [vectors, inputs of the last map].
        normal: Normalised outputs of each block's map, shapes [vectors, width], with what they were
            multiplied by, shapes [width].
    """

    shares: Any
    held: Any
    normal: tuple[tuple[Any, Any], ...]


class Generator:
    """Blocks of linear map, batch normalisation and ReLU, each joined to its input; then softmax a column.

    The generator of GEM (Liu, Vietri and Wu 2021), which is CTGAN's. Normalisation is by the batch's own
    mean and variance whenever the network is asked, so that it has no running state: what it says of one
    noise vector depends on the others of the batch. Maps that are normalised have no offset, which the mean
    would take out again. The gradient is written out: a dozen products of matrices, of which
    automatic differentiation would also take those by the noise.

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
        self.device, self.inputs, self.widths, self.sizes = device, inputs, tuple(widths), tuple(sizes)
        start, width = [], inputs
        for wide in widths:
            start += [_draw_weights((wide, width), width, rng), np.ones(wide), np.zeros(wide)]
            width += wide
        start += [_draw_weights(shape, width, rng) for shape in ((sum(sizes), width), (sum(sizes),))]
        self.width = width
        self.shapes = [part.shape for part in start]
        """Of a block's map, scales and shifts, block by block, and of the last map and its offsets."""
        self.start = device.put(np.concatenate([part.ravel() for part in start]), device.torch.float32)
        """Starting weights, all in one tensor."""
        attribute = np.repeat(np.arange(len(sizes)), sizes)
        self._of = device.put(attribute, device.torch.int64)
        one_hot = np.arange(len(sizes))[:, None] == attribute
        self._blocks = device.put(one_hot, device.torch.float32)

    def parts(self, weights: Any) -> list[Any]:
        """Views of weights that lie in one tensor, by `shapes`."""
        pieces = weights.split([int(np.prod(shape)) for shape in self.shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, self.shapes, strict=True)]

    def __call__(self, parts: Sequence[Any], noise: Any) -> Made:
        """The product of each noise vector under some weights.

        Args:
            parts: The weights, of `shapes`.
            noise: Shape [vectors, inputs].
        """
        # One matrix holds the noise and what all blocks make of it, the last block first: a block reads all
        # columns behind its own, so that no copies are joined.
        held, normal = noise.new_empty((len(noise), self.width)), []
        left = self.width - self.inputs
        held[:, left:] = noise
        for k, wide in enumerate(self.widths):
            linear, scale, shift = parts[3 * k : 3 * k + 3]
            made = held[:, left:] @ linear.T
            made -= made.mean(0)
            # `made` is centred by now, so the mean of its squares is the variance.
            unit = made.square().mean(0).add_(SLACK).rsqrt_()
            made *= unit
            held[:, left - wide : left] = (made * scale).add_(shift).clamp_(min=0.0)
            normal.append((made, unit))
            left -= wide
        logits = (parts[-2] @ held.T).add_(parts[-1][:, None])
        return Made(softmaxes(self.device, logits, self.sizes), held, tuple(normal))

    def gradient(self, parts: Sequence[Any], made: Made, slope: Any, into: Sequence[Any]) -> None:
        """Write the derivative by the weights.

        Args:
            parts: The weights, of `shapes`.
            made: What the network makes of the noise under them.
            slope: The derivative by the shares, shape [codes, vectors].
            into: Where to write, tensors of `shapes`.
        """
        matmul, count, held = self.device.torch.matmul, len(made.held), made.held
        pull = slope * made.shares
        # Through the softmax of each attribute: share * (slope - mean slope under the attribute's shares).
        pull -= made.shares * (self._blocks @ pull).index_select(0, self._of)
        matmul(pull, held, out=into[-2])
        into[-1].copy_(pull.sum(1))
        hidden, left = self.width - self.inputs, 0
        # The noise stands last, and nothing asks for the derivative by it.
        back = pull.T @ parts[-2][:, :hidden]
        for k in reversed(range(len(self.widths))):
            linear, scale, _ = parts[3 * k : 3 * k + 3]
            (normal, unit), own = made.normal[k], slice(left, left + self.widths[k])
            left += self.widths[k]
            # ReLU lets pass what is above 0; then scale and shift; then the normalisation, whose mean and
            # variance depend on the whole batch (Ioffe and Szegedy 2015, the chain rule of section 3).
            down = back[:, own] * (held[:, own] > 0)
            by_scale, by_shift = (down * normal).sum(0), down.sum(0)
            into[3 * k + 1].copy_(by_scale)
            into[3 * k + 2].copy_(by_shift)
            down = (down - by_shift / count - normal * (by_scale / count)) * (unit * scale)
            matmul(down.T, held[:, left:], out=into[3 * k])
            if k:
                back[:, left:] += down @ linear[:, : hidden - left]


def _draw_weights(shape: tuple[int, ...], inputs: int, rng: np.random.Generator) -> Any:
    return rng.uniform(-(inputs**-0.5), inputs**-0.5, shape)


Sloped = Callable[[Sequence[Any], Sequence[Any]], float]


@dataclass(frozen=True, slots=True)
class Training:
    """How to train.

    Args:
        steps: Most steps.
        rate: Adam's first step length.
        average: The share that one step leaves of the averaged weights, 0 for the last weights alone.
        floor: The loss at which to end.
        betas: Adam's.
        exact: Whether every step's loss is of the same noise and all features, so that losses compare.
    """

    steps: int
    rate: float
    average: float
    floor: float
    betas: tuple[float, float]
    exact: bool = True


def train_generator(
    network: Generator, start: Any, sloped: Sloped, pace: Training, stop: Callable[[], bool]
) -> Any:
    """Weights after the steps, in one tensor: their average, or those of less loss than it has.

    Where measurements are sharp the loss can leap by a factor of a thousand in the last steps.

    Args:
        network: Whose weights they are.
        start: Weights to go on from, in one tensor; changed.
        sloped: Writes the derivative at weights, of `Generator.shapes`, into tensors alike; returns the loss.
        pace: How to train.
        stop: Whether to end at once.
    """
    weights, mean, best, least = start, None, None, math.inf
    slope = weights.new_empty(weights.shape)
    parts, into, adam = network.parts(weights), network.parts(slope), Adam([weights], pace.betas)
    for step in range(pace.steps):
        if stop() or (loss := sloped(parts, into)) <= pace.floor:
            break
        if mean is not None and pace.exact and loss < least:
            best, least = weights.clone(), loss
        # Averaging begins half way, when the first weights no longer tell.
        if pace.average and mean is None and step and 2 * step >= pace.steps:
            mean = weights.clone()
        adam.step([slope], [pace.rate * 0.5 * (1.0 + math.cos(math.pi * step / pace.steps))])
        if mean is not None:
            mean.lerp_(weights, 1.0 - pace.average)
    if mean is None:
        return weights
    return mean if best is None or sloped(network.parts(mean), into) <= least else best
