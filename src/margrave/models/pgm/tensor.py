"""Inference on PyTorch, where every table of the junction tree is a dense array of its axes.

The formulas are those of `kernels.calibrate`: factors and messages are scaled to a largest entry of 1, and
where that could lose precision the pass is repeated in log space. Tables meet by broadcasting and are added
up over axes; nothing is compiled for a structure. The device is waited for after the way up, once for all
scales, and at the end for the measured tables. It is untimed on a GPU, so which trees gain by it is not
known; bench/runs/device.py measures that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._torch.device import Device
from margrave.models.pgm.kernels import LOST_PROBABILITY, MAX_SAFE_LOG
from margrave.models.pgm.tree import Layout

Floats = NDArray[np.float64]

A_TENSOR_CELL = 32
"""Bytes at most on the device of each cell of the junction tree: belief, and what is multiplied or summed."""


@dataclass(frozen=True, slots=True)
class _Fold:
    """How a table over some attributes meets a larger one that holds them all.

    Args:
        shape: The table's axes with a 1 for each of the larger one's others: it broadcasts.
        summed: The others' positions among the larger one's axes.
    """

    shape: tuple[int, ...]
    summed: tuple[int, ...]

    @classmethod
    def of(cls, layout: Layout, small: tuple[int, ...], large: tuple[int, ...]) -> _Fold:
        kept = set(small)
        return cls(
            tuple(layout.sizes[v] if v in kept else 1 for v in large),
            tuple(axis for axis, v in enumerate(large) if v not in kept),
        )


class TensorInference:
    """p(x) = exp(sum_r theta_r(x_r) - log Z(theta)) over the attributes of a layout; see `Inference`.

    All in double precision: the optimiser's line search compares values that differ in their last digits.

    Args:
        layout: The tree and the measured tables.
        device: Where to compute; one that has double precision.

    After `run`, `belief` holds the probabilities of every tree clique, [layout.node_starts[-1]], and
    `marginals` those of every measured clique, [layout.starts[-1]].
    """

    def __init__(self, layout: Layout, device: Device) -> None:
        self.layout = layout
        self.marginals: Floats = np.empty(layout.starts[-1])
        self.log_space_runs = 0
        self._device = device
        tree = layout.tree
        self._shapes = [layout.shape(clique) for clique in tree.cliques]
        self._hosted: list[list[tuple[int, _Fold]]] = [[] for _ in tree.cliques]
        self._children: list[list[int]] = [[] for _ in tree.cliques]
        self._own = [_Fold.of(layout, *pair) for pair in zip(tree.separators, tree.cliques, strict=True)]
        self._theirs = list(self._own)
        for k, parent in enumerate(tree.parents):
            if parent >= 0:
                self._theirs[k] = _Fold.of(layout, tree.separators[k], tree.cliques[parent])
                self._children[parent].append(k)
        self._group_shapes = [layout.shape(group) for group in layout.hosts]
        for g, (home, group) in enumerate(zip(layout.groups[:, 0].tolist(), layout.hosts, strict=True)):
            self._hosted[home].append((g, _Fold.of(layout, group, tree.cliques[home])))
        # Measured tables of one node were joined into groups; a member is found by where its group starts.
        # Groups are known by where they start in the engine's one long array.
        place = {start: g for g, start in enumerate(layout.group_starts[:-1])}
        self._members = [
            (place[start], _Fold.of(layout, clique, layout.hosts[place[start]]))
            for clique, (start, _, _) in zip(layout.measured, layout.members.tolist(), strict=True)
        ]
        self._beliefs: list[Any] = []
        self._copied: Floats | None = None

    @property
    def belief(self) -> Floats:
        """Probabilities of every tree clique after `run`; fetched once, and then no longer on the device."""
        if self._copied is None:
            parts = [np.zeros(0), *(table.reshape(-1).cpu().numpy() for table in self._beliefs)]
            self._copied, self._beliefs = np.concatenate(parts), []
        return self._copied

    def run(self, theta: Floats) -> float:
        """log Z at theta, [layout.starts[-1]]; fills `belief` and `marginals`. d log Z / d theta = marginals.

        Works in probability space; where that would lose precision, again in log space.
        """
        self._copied, self._beliefs = None, []
        logs = self._group_potentials(theta)
        log_z = 0.0
        if logs:
            # Each factor's largest entry becomes 1, so that exponentials cannot overflow; what was taken off
            # is part of log Z.
            peaks = [table.max() for table in logs]
            logs = [table - peak for table, peak in zip(logs, peaks, strict=True)]
            log_z = float(self._device.torch.stack(peaks).sum())
        found = self._calibrate([table.exp() for table in logs])
        if found is None:
            self.log_space_runs += 1
            found = self._calibrate_logs(logs)
        self._collect()
        return log_z + found

    def _group_potentials(self, theta: Floats) -> list[Any]:
        """The potentials of the tables that are spread over the tree, each the sum of those it hosts."""
        torch, starts = self._device.torch, self.layout.starts
        flat = self._device.put(theta, torch.float64)
        groups = [
            torch.zeros(shape, dtype=torch.float64, device=self._device.place) for shape in self._group_shapes
        ]
        for k, (g, fold) in enumerate(self._members):
            groups[g] += flat[starts[k] : starts[k + 1]].reshape(fold.shape)
        return groups

    def _collect(self) -> None:
        """Add the beliefs up to the groups, and those to the measured tables."""
        groups: list[Any] = [None] * len(self._group_shapes)
        for belief, hosted in zip(self._beliefs, self._hosted, strict=True):
            for g, fold in hosted:
                groups[g] = _add_axes(belief, fold.summed)
        tables = [_add_axes(groups[g], fold.summed).reshape(-1) for g, fold in self._members]
        self.marginals = self._device.torch.cat(tables).cpu().numpy() if tables else np.zeros(0)

    def _calibrate(self, factors: list[Any]) -> float | None:
        """Hugin passing in probability space; log Z, or None where precision would be lost."""
        torch, parents = self._device.torch, self.layout.tree.parents
        messages: list[Any] = [None] * len(parents)
        scales: list[Any] = []
        beliefs: list[Any] = []
        # Up the tree, children first: a node is the product of its factors and of its children's messages.
        for k, parent in enumerate(parents):
            near = [factors[g].reshape(fold.shape) for g, fold in self._hosted[k]]
            near += [messages[c].reshape(self._theirs[c].shape) for c in self._children[k]]
            beliefs.append(self._product(near, k))
            sent = _add_axes(beliefs[k], self._own[k].summed)
            # A message is scaled to a largest entry of 1. A root sends its sum, which is the rest of Z.
            scales.append(sent.max() if parent >= 0 else sent)
            messages[k] = sent / scales[k]
        if not scales:
            self._beliefs = []
            return 0.0
        # One transfer for all nodes: asking for each scale by itself would wait for the device every time.
        scale = torch.stack(scales).cpu().numpy()
        if not (scale > LOST_PROBABILITY).all() or self._lost(scale) > MAX_SAFE_LOG:
            return None
        for k in range(len(parents) - 1, -1, -1):
            parent = parents[k]
            if parent < 0:
                beliefs[k] /= scales[k]
                continue
            # Down the tree: a node takes the ratio of what its separator should be to what it sent up
            # (Hugin).
            before = messages[k] * scales[k]
            fresh = _add_axes(beliefs[parent], self._theirs[k].summed)
            ratio = torch.where(before > LOST_PROBABILITY, fresh / before, torch.zeros_like(before))
            beliefs[k] *= ratio.reshape(self._own[k].shape)
        self._beliefs = beliefs
        return float(np.log(scale).sum())

    def _product(self, tables: list[Any], k: int) -> Any:
        """The product of tables that broadcast to node k, small ones first, in memory of its own."""
        torch = self._device.torch
        filled = torch.ones(self._shapes[k], dtype=torch.float64, device=self._device.place)
        if tables:
            # Small tables are multiplied with one another first, so that the large node is passed over twice
            # at most.
            tables = sorted(tables, key=lambda table: int(table.numel()))
            filled *= reduce(torch.mul, tables[:-1]) if len(tables) > 1 else tables.pop()
            if len(tables) > 1:
                filled *= tables[-1]
        return filled

    def _lost(self, scale: Floats) -> float:
        """The largest log factor by which scaling has raised what fell below LOST_PROBABILITY; see
        `kernels.lost`."""
        raised = -np.log(scale)
        for k in range(len(scale) - 1, -1, -1):
            parent = self.layout.tree.parents[k]
            raised[k] += raised[parent] if parent >= 0 else 0.0
        return float(raised.max(initial=0.0))

    def _calibrate_logs(self, factors: list[Any]) -> float:
        """As `_calibrate`, all in log space: slower, safe for any finite potentials."""
        torch, parents = self._device.torch, self.layout.tree.parents
        messages: list[Any] = [None] * len(parents)
        beliefs: list[Any] = []
        log_z = 0.0
        for k, parent in enumerate(parents):
            table = torch.zeros(self._shapes[k], dtype=torch.float64, device=self._device.place)
            for g, fold in self._hosted[k]:
                table += factors[g].reshape(fold.shape)
            for c in self._children[k]:
                table += messages[c].reshape(self._theirs[c].shape)
            # At a root the message has no axis left: it is the log of that tree's sum, and sums of trees
            # multiply.
            messages[k] = _log_added(table, self._own[k].summed)
            if parent < 0:
                log_z += float(messages[k])
                table -= messages[k]
            beliefs.append(table)
        # Parents before children. What a child told its parent is taken out again, since its own belief
        # holds it already.
        for k in range(len(parents) - 1, -1, -1):
            if parents[k] >= 0:
                fresh = _log_added(beliefs[parents[k]], self._theirs[k].summed)
                beliefs[k] += (fresh - messages[k]).reshape(self._own[k].shape)
        self._beliefs = [table.exp_() for table in beliefs]
        return log_z


def _add_axes(table: Any, axes: tuple[int, ...]) -> Any:
    """The sum over axes, none included: PyTorch would take none for all."""
    return table.sum(dim=axes) if axes else table


def _log_added(table: Any, axes: tuple[int, ...]) -> Any:
    """The log of the sum of exponentials over axes, none included."""
    return table.logsumexp(dim=axes) if axes else table
