"""Panels: measured pairs as few products of matrices, with their gradient written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from margrave.models.device import Device
from margrave.models.mixture.stacked import Stacked

__all__ = ["Panel", "paired", "panels"]

BRIDGE = 16
"""So many codes of unmeasured attributes cost less than another product of matrices."""
BEGIN = 8_000
"""Cells of a product of matrices that take as long as a panel's many small operations."""


@dataclass(frozen=True, slots=True)
class Panel:
    """Measured pairs of some attributes with others, as one table of codes by codes.

    Args:
        rows: Codes of the one side.
        columns: Codes of the other side.
        values: Noisy proportions, shape [rows, columns]; 0 where unmeasured.
        weights: 1 / variance of each, scaled; 0 where unmeasured.
    """

    rows: slice
    columns: slice
    values: Any
    weights: Any


def panels(measured: Stacked, scale: float, device: Device) -> list[Panel]:
    """Panels that hold every measured pair once; none where no pair is measured.

    An attribute is a panel with each run of later attributes that it was measured with, so that what was not
    measured costs nothing. Where that is no less work, and on other devices than the processor, which take
    longer to begin a product than to compute one, all codes by all codes are one panel in which every pair
    stands twice with half its weight: it is its own mirror image, so its derivative is one product.
    """
    weights = scale * measured.pair_weights.astype(np.float64)
    if not weights.any():
        return []
    spans = [span for i in range(measured.attributes - 1) for span in _runs(measured, i)]
    asked = sum(3 * (one.stop - one.start) * (other.stop - other.start) + BEGIN for one, other in spans)
    if device.place.type != "cpu" or asked >= 2 * measured.codes**2:
        spans, weights = [(slice(None), slice(None))], 0.5 * weights
    single = device.torch.float32
    return [
        Panel(*span, device.put(measured.pairs[span], single), device.put(weights[span], single))
        for span in spans
    ]


def _runs(measured: Stacked, attribute: int) -> list[tuple[slice, slice]]:
    """The codes of an attribute by those of later ones it was measured with, near ones together."""
    starts = measured.starts.tolist()
    own = slice(starts[attribute], starts[attribute + 1])
    runs: list[tuple[int, int]] = []
    for start, stop in zip(starts[attribute + 1 : -1], starts[attribute + 2 :], strict=True):
        if not measured.pair_weights[own, start:stop].any():
            continue
        if runs and start - runs[-1][1] <= BRIDGE:
            runs[-1] = (runs[-1][0], stop)
        else:
            runs.append((start, stop))
    return [(own, slice(*run)) for run in runs]


def paired(device: Device, held: Sequence[Panel], shares: Any) -> tuple[Any, Any]:
    """The sum over cells of weight (model - measured)^2, a scalar tensor, and its derivative by the shares.

    The derivative is written out: automatic differentiation takes twice the time for small products, since it
    keeps a copy of the shares for each of them.

    Args:
        device: Where to compute.
        held: The panels.
        shares: Each row's distribution over the codes of each attribute, shape [codes, rows]; without a
            gradient.
    """
    slope = device.torch.zeros_like(shares)
    value = shares.new_zeros(())
    count = shares.shape[1]
    for panel in held:
        one, other = shares[panel.rows], shares[panel.columns]
        off = (one @ other.T).div_(count).sub_(panel.values)
        pull = panel.weights * off
        value += (pull * off).sum()
        if panel.rows == panel.columns:
            slope.addmm_(pull, other, alpha=4.0 / count)
            continue
        slope[panel.rows].addmm_(pull, other, alpha=2.0 / count)
        slope[panel.columns].addmm_(pull.T, one, alpha=2.0 / count)
    return value, slope
