"""Dense layers in which no row is rounded differently beside others, forward and backward.

Products of float matrices do not have that: their last bits can change with the rows beside. Here every
number that goes into a product is a whole multiple of a power of two, so small that all partial sums are
below 2^53 of their common step: exact in float64, in any order, on any processor. *Forward*: weights are
multiples of 2^-12 up to 8, what goes into a layer of 2^-8 up to 64, so sums are multiples of 2^-20 below 2^9
times the width. *Backward*: what comes down to a layer is rounded to 2^-20 and cut at 16, times weights:
multiples of 2^-32 below 2^7 times the width. Between products there are only single operations on single
numbers (rounding, cutting, one addition or multiplication), which IEEE arithmetic fixes. Rounding is taken
as the identity where gradients pass. Widths up to MAX_LAYER_WIDTH keep all sums below 2^53.

`move_weights` takes a step of such a network by single operations on single numbers, so that a network that
sees private rows, as a teacher does, hangs on its own gradients alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models._torch.device import Device

Floats = NDArray[np.float64]

MAX_LAYER_WIDTH = 1 << 13
"""Most inputs or outputs of a layer."""
WEIGHT, MOST_WEIGHT = 2.0**12, 8.0
"""Steps of 1 that weights are rounded to, and the largest weight."""
INPUT, MOST_INPUT = 2.0**8, 64.0
"""The same of what goes into a layer."""
PASSED, MOST_PASSED = 2.0**20, 16.0
"""The same of what is passed back to a layer. Why these keep all sums exact is told at the head of the
file."""

LOGIT, DEEPEST = 64, 16
"""Steps of 1 that logits are rounded to, and how far from the largest, or from 0, one counts: exp(-16) is
1e-7."""


def check_widths(layers: Sequence[int]) -> None:
    """Check that layers are narrow enough for exact sums.

    Raises:
        InputError: They are not.
    """
    most = max(layers)
    if most > MAX_LAYER_WIDTH:
        remedy = "Group rare values, or use fewer columns."
        raise InputError(invalid("network", f"of at most {MAX_LAYER_WIDTH} inputs a layer", remedy, got=most))


def round_input(given: Floats) -> Floats:
    """What goes into the first layer, in steps; shape of given."""
    return np.clip(np.rint(given * INPUT) / INPUT, -MOST_INPUT, MOST_INPUT)


def round_weights(device: Device, weights: Sequence[Floats]) -> list[Any]:
    """The weights of each layer in steps, [out, in + 1], the last column for a constant 1."""
    held = (np.clip(np.rint(w * WEIGHT) / WEIGHT, -MOST_WEIGHT, MOST_WEIGHT) for w in weights)
    return [device.put(weight, device.torch.float64) for weight in held]


def pass_forward(device: Device, weights: Sequence[Any], given: Floats) -> tuple[list[Any], Any]:
    """What goes into each layer, with a last number of 1, and what comes out of the last, with ReLU between.

    Args:
        device: Where to compute.
        weights: Of `round_weights`.
        given: Of `round_input`, [..., in].
    """
    torch = device.torch
    entering = [_with_one(torch, device.put(given, torch.float64))]
    for weight in weights[:-1]:
        made = (entering[-1] @ weight.T).clamp(min=0.0)
        entering.append(_with_one(torch, _round_to_steps(made, INPUT, MOST_INPUT)))
    return entering, entering[-1] @ weights[-1].T


def pass_back(weights: Sequence[Any], entering: Sequence[Any], slope: Any) -> list[tuple[Any, Any]]:
    """Left and right factors of the gradient by each layer's weights, [..., out] and [..., in + 1].

    Args:
        weights: Of `round_weights`.
        entering: Of `pass_forward`.
        slope: The derivative of the loss by what comes out of the last layer, [..., out].
    """
    passed = _round_to_steps(slope, PASSED, MOST_PASSED)
    found = [(passed, entering[-1])]
    for weight, into, below in zip(
        reversed(weights), reversed(entering), reversed(entering[:-1]), strict=False
    ):
        passed = (passed @ weight[:, :-1]) * (into[..., :-1] > 0.0)
        passed = _round_to_steps(passed, PASSED, MOST_PASSED)
        found.append((passed, below))
    return found[::-1]


def move_weights(
    layers: Sequence[Floats],
    memory: tuple[Sequence[Floats], Sequence[Floats]],
    slopes: Sequence[Floats],
    step: int,
    rate: float,
    betas: tuple[float, float],
    tiny: float,
) -> tuple[tuple[Floats, ...], tuple[Floats, ...], tuple[Floats, ...]]:
    """A step of Adam down the slopes (Kingma and Ba 2015, algorithm 1), weights cut to MOST_WEIGHT.

    Args:
        layers: Weights of each layer, [out, in + 1].
        memory: Running means of the gradients, and of their squares, as the step before left them.
        slopes: The gradient by each layer.
        step: Which step it is, from 1.
        rate: Its length.
        betas: How much of each running mean a step leaves.
        tiny: Added to the root of the mean square, by which the step is divided.

    Returns:
        Weights, means and mean squares after the step.
    """
    kept, squared = betas
    moved, means, squares = [], [], []
    for layer, mean, square, slope in zip(layers, *memory, slopes, strict=True):
        means.append(kept * mean + (1.0 - kept) * slope)
        squares.append(squared * square + (1.0 - squared) * slope**2)
        # Both means begin at 0 and are divided by what of their weights has come in so far.
        size = np.sqrt(squares[-1] / (1.0 - squared**step)) + tiny
        new = layer - rate * means[-1] / (1.0 - kept**step) / size
        moved.append(np.clip(new, -MOST_WEIGHT, MOST_WEIGHT))
    return tuple(moved), tuple(means), tuple(squares)


def _round_to_steps(numbers: Any, steps: float, most: float) -> Any:
    """Rounded to whole steps, and cut."""
    return ((numbers * steps).round() / steps).clamp(-most, most)


def _with_one(torch: Any, entering: Any) -> Any:
    """With a last number of 1."""
    return torch.cat([entering, torch.ones_like(entering[..., :1])], dim=-1)
