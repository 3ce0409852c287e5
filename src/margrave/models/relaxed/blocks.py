"""Blocks: each attribute's part of a relaxed row, kept a distribution by softmax or by projection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from margrave.models.device import Device

__all__ = ["simplices", "softmaxes"]


def softmaxes(device: Device, logits: Any, sizes: Sequence[int]) -> Any:
    """exp(logits) over their sum in each attribute's block, shape [codes, rows]."""
    torch = device.torch
    return torch.cat([torch.softmax(block, 0) for block in torch.split(logits, list(sizes))])


def simplices(device: Device, points: Any, sizes: Sequence[int]) -> Any:
    """The distribution nearest to each block by squares (sparsemax), shape [codes, rows].

    A block of the values z_1 >= ... >= z_k is lowered by tau = (sum of the first m - 1) / m and cut off at 0,
    with m the largest number for which z_m exceeds the tau of m (Martins and Astudillo 2016, algorithm 1).
    """
    torch = device.torch
    return torch.cat([_simplex(torch, block) for block in torch.split(points, list(sizes))])


def _simplex(torch: Any, block: Any) -> Any:
    falling = torch.sort(block, dim=0, descending=True).values
    counts = torch.arange(1, len(block) + 1, dtype=block.dtype, device=block.device)[:, None]
    levels = (falling.cumsum(0) - 1.0) / counts
    kept = (falling > levels).sum(0, keepdim=True).clamp(min=1)
    return (block - levels.gather(0, kept - 1)).clamp(min=0.0)
