"""Tensor: the mixture's objective and optimiser on PyTorch, by the formulas of `objective` and `descent`.

Start, steps and formulas are those of the compiled kernels; only sums are added up in another order: in
double precision both end at the same point. It is untimed on a GPU, so which sizes gain by it is not known;
bench/runs/device.py measures that. Nothing waits for the device between steps. On a GPU, products are as
precise as `torch.set_float32_matmul_precision` says: full float32, unless the program has asked for less.

`TensorTie` has rules in the objective, by the formulas of `margrave.models._mixture.constraint_blocks`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from margrave.models._mixture.constraint_blocks import MIN_CELL_SHARE, MIN_LOG_PROBABILITY, ConstrainedTables
from margrave.models._mixture.stacked import Stacked
from margrave.models._torch.device import Device
from margrave.models.mixture.descent import LAST, MEMORY, Descent
from margrave.models.mixture.objective import FLOOR, Point
from margrave.models.mixture.score_moments import ScoreMoments


class TensorTie:
    """The part of an objective that one constraint block has, on a device.

    Sums over cells are products with tables of zeros and ones, which have one order on any device.

    Args:
        tables: The constraint block and what was measured of it.
        information: Penalty per nat of dependence.
        device: Where to compute.
        dtype: The precision of tables.
    """

    def __init__(self, tables: ConstrainedTables, information: float, device: Device, dtype: Any) -> None:
        self.information = information
        self.lowest = tables.constraint.lowest
        self.rows = device.put(tables.rows, device.torch.int64)
        self._known = device.put(tables.measured, dtype)[:, None]
        # Logarithms of feasible shares are the same for all components.
        self._log_feasible_shares = device.put(np.log(tables.constraint.feasible_shares), dtype)
        member = np.arange(len(tables.rows))[:, None]
        self._member = device.put(sum(member == place[None, :] for place in tables.places), dtype)
        self._pairs = []
        # Cells outside of the rules have no share, so their residuals are constants and only `rest` is kept
        # of them.
        for pair in tables.pairs:
            used, own = np.unique(pair.keys, return_inverse=True)
            at = np.arange(len(used))[:, None] == own.ravel()[None, :]
            parts = [device.put(part, dtype) for part in (at, pair.values[used], pair.weights[used])]
            rest = np.delete(pair.weights * pair.values**2, used).sum()
            self._pairs.append((*parts, float(rest)))
        self._torch, self._wide = device.torch, device.wide

    def spread(self, at: Any, shares: Any) -> Any:
        """Put the one-ways of T in place of Q in `shares`; return what `pull_weights` needs."""
        logs = at.logs.index_select(0, self.rows).clamp_(min=self.lowest).mul_(self._known)
        # A cell's logarithm is the sum of its codes', one product with the table of which code is in which
        # cell.
        cells = self._member.T @ logs + self._log_feasible_shares[:, None]
        norms = cells.logsumexp(0)
        cells = cells.sub_(norms).exp_()
        ones = self._member @ cells
        shares.index_copy_(0, self.rows, ones)
        return logs, cells, norms, ones, cells @ at.weights

    def pull_weights(self, gradient: Any, kept: Any, weights: Any, by_weight: Any) -> Any:
        """See `ConstrainedPart.pull_weights`; the value is a tensor in the device's most precise type."""
        logs, cells, norms, ones, mean = kept
        value, alone = mean.new_zeros((), dtype=self._wide), self._torch.zeros_like(mean)
        for member, values, precision, rest in self._pairs:
            miss = member @ mean - values
            pull = precision * miss
            value = value + (pull @ miss).to(self._wide) + rest
            alone += 2.0 * (member.T @ pull)
        known = self._log_feasible_shares - mean.clamp(min=MIN_CELL_SHARE).log()
        alone += self.information * known
        below = gradient.index_select(0, self.rows) + self.information * logs
        summed = self._member @ (cells * (self._member.T @ below + alone[:, None]))
        paid = alone @ cells
        # Less its mean under Q in every component: what adds to all potentials alike changes nothing.
        centred = summed / ones.clamp(min=MIN_CELL_SHARE) - (paid + (below * ones).sum(0))
        gradient.index_copy_(
            0, self.rows, self._torch.where(ones > MIN_CELL_SHARE, centred, 0.0) * self._known
        )
        nats = self.information * ((ones * logs).sum(0) - norms)
        by_weight += (paid + nats).to(self._wide)
        return value + (self.information * (known @ mean) + weights @ nats).to(self._wide)


A_TENSOR_SQUARE, A_TENSOR_CODE = 36, 64
"""Bytes at most on the device of each pair of codes, and of each code in each component, in float32."""

PART = float(np.float32(1.0 - MEMORY))
"""Rounded as in the kernels, so that both paths take the same steps."""


@dataclass(slots=True)
class TensorPoint:
    """A `Point` on a device.

    Args:
        logs: log Q, shape [codes, components].
        weigh: log w, shape [components], in the device's most precise type.
        shares: Q, shape [codes, components].
        weights: w, shape [components].
    """

    logs: Any
    weigh: Any
    shares: Any
    weights: Any


class TensorObjective:
    """The value and the natural gradient of one set of measurements, on a device; see `Objective`.

    Args:
        stacked: The measurements.
        information: Penalty per nat of dependence, in the units of the squared residuals.
        smoothness: Penalty of unlike neighbours among ordered codes.
        device: Where to compute.
        moments: What is asked of moments of scores besides.
        double: Compute in double precision, which the compiled kernels do not.
    """

    def __init__(
        self,
        stacked: Stacked,
        information: float,
        smoothness: float,
        device: Device,
        moments: Sequence[ScoreMoments] = (),
        double: bool = False,
    ) -> None:
        torch = device.torch
        self.stacked = stacked
        self.device = device
        self.dtype = torch.float64 if double else torch.float32
        self.information = float(np.float32(information))
        self.smoothness = float(np.float32(smoothness))
        self._pairs, self._pair_weights, self._ones, self._one_weights = (
            device.put(part, self.dtype)
            for part in (stacked.pairs, stacked.apart, stacked.ones, stacked.one_weights)
        )
        owner = np.repeat(np.arange(stacked.attributes), np.diff(stacked.starts))
        self._inferred: Any = None
        if stacked.inferred.any():
            # Attributes' table of inferred pairs, spread over their codes.
            self._inferred = device.put(stacked.inferred[np.ix_(owner, owner)], self.dtype)
            # What was measured of an inferred pair means nothing; its target is the product of the one-ways.
            self._pairs *= 1.0 - self._inferred
        self._constraint_blocks = [
            TensorTie(tables, self.information, device, self.dtype) for tables in stacked.tied
        ]
        self._penalties = device.put(self.information * stacked.alone[:, None], self.dtype)
        self.shares: Any = None
        """Q of the last point looked at, as the rules leave it, shape [codes, components]."""
        self._owner = device.put(owner, torch.int64)
        member = np.arange(stacked.attributes)[:, None] == owner[None, :]
        self._member = device.put(member, self.dtype)
        # For each kind of scores: one line an attribute, its codes' scores in their places.
        self._moments = [
            tuple(device.put(part, self.dtype) for part in (member * one.scores, one.targets, one.weights))
            for one in moments
            if not one.empty
        ]
        low = _neighbours(stacked)
        self._low, self._high = device.put(low, torch.int64), device.put(low + 1, torch.int64)

    def __call__(self, at: TensorPoint) -> tuple[Any, Any, Any]:
        """The value, the derivative by each weight [components], and that by Q over w [codes, components]."""
        torch, wide = self.device.torch, self.device.wide
        self.shares = shares = at.shares.clone() if self._constraint_blocks else at.shares
        kept = [constraint.spread(at, shares) for constraint in self._constraint_blocks]
        ones = (shares @ at.weights).clamp_(min=float(FLOOR))
        miss = (shares * at.weights) @ shares.T
        products = None if self._inferred is None else self._inferred * torch.outer(ones, ones)
        # Where nothing was inferred the targets are constants.
        miss -= self._pairs if products is None else self._pairs + products
        pull = miss * self._pair_weights
        # The symmetric table holds every pair twice, hence the half.
        value = 0.5 * torch.linalg.vecdot(miss, pull).to(wide).sum()
        gradient = pull.mul_(2.0) @ shares
        for parts in self._moments:
            value = value + self._pull_moments(parts, gradient, shares, at.weights)
        by_weight = 0.5 * (gradient * shares).sum(0).to(wide)
        short = ones - self._ones
        offset = 2.0 * self._one_weights * short
        value = value + 0.5 * (offset * short).sum().to(wide)
        if self._inferred is not None:
            # The targets of inferred pairs move with the one-ways, so their pull comes back here.
            offset -= (self._inferred * pull) @ ones
        by_weight += (offset @ shares).to(wide)
        gradient += offset[:, None]
        nats = self._penalties * (at.logs - ones.log()[:, None])
        gradient += nats
        paid = (shares * nats).sum(0)
        value = value + (at.weights @ paid).to(wide)
        by_weight += paid.to(wide)
        if self.smoothness > 0.0 and len(self._low):
            value = value + self._smooth(gradient, shares, at.weights, ones, by_weight)
        for constraint, parts in zip(self._constraint_blocks, kept, strict=True):
            value = value + constraint.pull_weights(gradient, parts, at.weights, by_weight)
        return value, by_weight, gradient

    def centre(self, gradient: Any) -> None:
        """Make the gradient at the last point that of the logarithms: take out its mean under each Q_k."""
        gradient -= self._spread(self._member @ (gradient * self.shares))

    def settle(self, at: TensorPoint) -> None:
        """Normalise logs and weights, and bring shares and weights up to date."""
        at.logs.clamp_(min=MIN_LOG_PROBABILITY)
        shares = at.logs.exp()
        total = self._member @ shares
        at.shares = shares.mul_(self._spread(1.0 / total))
        at.logs -= self._spread(total.log())
        at.weigh = self.device.torch.log_softmax(at.weigh, 0)
        at.weights = at.weigh.exp().to(self.dtype)

    def gap(self, gradient: Any, at: TensorPoint) -> float:
        """Mean over attributes of E|natural gradient|, over the penalty per nat."""
        moved = float((gradient * self.shares).abs().sum(0) @ at.weights)
        return moved / max(self.stacked.attributes, 1) / max(self.information, 1e-30)

    def _spread(self, table: Any) -> Any:
        """What is said of attributes said of each of their codes, shape [codes, components]."""
        return table.index_select(0, self._owner)

    def _pull_moments(self, parts: Any, gradient: Any, shares: Any, weights: Any) -> Any:
        """See `ScoreMoments.pull`; the value is a tensor in the device's most precise type."""
        scores, targets, precisions = parts
        means = scores @ shares
        miss = (means * weights) @ means.T - targets
        pull = precisions * miss
        gradient += scores.T @ (2.0 * (pull @ means))
        return 0.5 * (pull * miss).to(self.device.wide).sum()

    def _smooth(self, gradient: Any, shares: Any, weights: Any, ones: Any, by_weight: Any) -> Any:
        """The penalty of unlike neighbours, added to both derivatives; see `objective._smooth`.

        No code is twice in `_low` or in `_high`, so every sum below has one order on any device.
        """
        below, above = ones[self._low], ones[self._high]
        both, low, high = below + above, 1.0 / below, 1.0 / above
        lower, upper = shares[self._low], shares[self._high]
        step = upper * high[:, None] - lower * low[:, None]
        pull = (self.smoothness * below * above / both)[:, None] * step
        # No code stands twice in one of the two lists, so plain additions have one order.
        gradient.index_add_(0, self._high, pull * high[:, None])
        gradient.index_add_(0, self._low, pull * low[:, None], alpha=-1.0)
        cost = 0.5 * (pull * step).sum(0)
        half = 0.5 * self.smoothness * ((step * step) @ weights)
        through = self.device.torch.zeros_like(ones)
        through.index_add_(0, self._low, half * (above / both) ** 2 + ((pull * lower) @ weights) * low**2)
        through.index_add_(0, self._high, half * (below / both) ** 2 - ((pull * upper) @ weights) * high**2)
        gradient += through[:, None]
        by_weight += (cost + through @ shares).to(self.device.wide)
        return (weights @ cost).to(self.device.wide)


def descend_tensors(
    objective: TensorObjective,
    at: Point,
    steps: int,
    rate: float,
    stop: Callable[[], bool] = lambda: False,
) -> Descent:
    """Move `at` down the objective, in place; see `descent.descend`.

    The device is sent steps ahead of what it has done, so a few more may run after `stop` has said so.
    """
    device, dtype = objective.device, objective.dtype
    # The device works on copies; what it ends at is written back below.
    on = TensorPoint(
        device.put(at.logs, dtype),
        device.put(at.weigh, device.wide),
        device.put(at.shares, dtype),
        device.put(at.weights, dtype),
    )
    mean, square = device.torch.zeros_like(on.logs), device.torch.zeros_like(on.logs)
    slope, bend = device.torch.zeros_like(on.weigh), device.torch.zeros_like(on.weigh)
    done = 0
    while done < steps and not stop():
        done += 1
        _, by_weight, gradient = objective(on)
        objective.centre(gradient)
        # As in `descent.descend`: steps shrink to LAST of the first, and Adam's means are corrected for how
        # few there were.
        length = rate * (1.0 - done / steps + LAST)
        known = 1.0 - MEMORY**done
        _advance(on.logs, gradient, mean, square, length / known, 1.0 / known)
        weights = on.weights.to(device.wide)
        pull = weights * (by_weight - weights @ by_weight)
        slope += (1.0 - MEMORY) * (pull - slope)
        bend += (1.0 - MEMORY) * (pull * pull - bend)
        on.weigh -= length / known * slope / ((bend / known).sqrt() + 1e-12)
        objective.settle(on)
    value, _, gradient = objective(on)
    objective.centre(gradient)
    # The caller's arrays are the start and the end, as in `descent.descend`.
    for part, found in ((at.logs, on.logs), (at.shares, on.shares), (at.weigh, on.weigh)):
        part[...] = found.cpu().numpy()
    at.weights = on.weights.cpu().numpy().astype(at.logs.dtype)
    return Descent(float(value), objective.gap(gradient, on), done)


def _advance(logs: Any, gradient: Any, mean: Any, square: Any, scale: float, bias: float) -> None:
    """One step; no logarithm moves by more than 1."""
    mean += PART * (gradient - mean)
    square += PART * (gradient * gradient - square)
    step = float(np.float32(scale)) * mean
    step /= (square * float(np.float32(bias))).sqrt_().add_(float(np.float32(1e-12)))
    logs -= step.clamp_(-1.0, 1.0)


def _neighbours(stacked: Stacked) -> NDArray[np.int64]:
    """Codes whose next code is their neighbour in an attribute's order."""
    found = [np.zeros(0, np.int64)]
    # Only leading codes stand in order; missing and other codes behind them have no neighbours.
    for start, count in zip(stacked.starts[:-1], stacked.ordered, strict=True):
        if count > 1:
            found.append(np.arange(start, start + count - 1))
    return np.concatenate(found)
