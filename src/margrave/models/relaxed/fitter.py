"""Relaxed: relaxed rows fitted to noisy marginals by gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models.device import Device, opened
from margrave.models.mixture.grouped import GroupedMixture
from margrave.models.mixture.model import MixtureModel
from margrave.models.pooled import Pooled
from margrave.models.relaxed.blocks import simplices, softmaxes
from margrave.models.relaxed.descent import Plan, descend
from margrave.models.relaxed.misfit import Misfit
from margrave.models.relaxed.points import Points
from margrave.models.relaxed.products import cells_with, check_size, held_shares, loaded, mixed
from margrave.models.relaxed.serial import ready, serial
from margrave.models.relaxed.thresholds import Thresholds, thresholds
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal

__all__ = ["Relaxed", "pointwise"]

Floats = NDArray[np.float64]

BLOCKS = ("points", "softmax", "sparsemax")
RATES = {"points": 0.006, "softmax": 0.1, "sparsemax": 0.003}
"""Adam's step length by blocks: that of numbers with points."""
GATES, DOUBLINGS = 0.1, 10
"""Step length of logits beside numbers, and how often sigmoids grow twice as steep in a pass."""
ROUGH = 10
"""A rough fit has this part of the steps."""
TINY = 1e-12
"""Added to shares before their logarithm is taken."""


@dataclass(frozen=True, slots=True)
class Relaxed:
    """Fits `rows` relaxed rows, each a product of distributions, to all measured marginals.

    RAP (Aydore et al. 2021): a synthetic table whose rows need not be one-hot answers marginals by products,
    which have gradients; the mean over rows of prod shares is brought to the measured tables by Adam on the
    squared residuals over their variances (`misfit`). Such a table is a mixture of products with equal
    weights, and is kept as one: rows, codes given, rules and marginals are a `MixtureModel`'s, and a
    saved model needs no PyTorch. Its rows replace RAP's oversampling: each relaxed row gets rows / `rows` of
    the synthetic ones, and every code within 1 of its expectation there.

    With `blocks="points"`, RAP++ (Vietri et al. 2022) for mixed types: an ordered attribute is a number in
    [0, 1], whose bin is a difference of sigmoids (`points`) that grow steep while the loss stands still;
    `thresholds` random linear thresholds of each measured table, answered from its noisy cells, join
    the loss (`thresholds`).

    **Privacy.** Sees released quantities only: post-processing.

    Args:
        rows: Relaxed rows.
        blocks: "softmax" (logits), "sparsemax" (each step ends with the projection onto distributions) or
            "points".
        steps: Most steps of each pass.
        rate: Adam's first step length, with points that of numbers; None for the default of `blocks`.
        passes: Passes, each with half the step length of the one before, from the best so far.
        tolerance: A pass ends (or sigmoids grow steeper) when the loss falls by less than this part.
        thresholds: Random thresholds a measured table, for points only.
        seed: Of the starting rows and the thresholds.
        largest: Attributes with more codes are modelled in this many groups of codes.
        max_codes: Most codes all attributes may have together, groups counted as codes.
        max_cells: Most cells of a clique of three or more attributes.
        device: Where to compute: "cpu" or None, "cuda", "cuda:1" or "mps", all with PyTorch.

    Raises:
        InputError: An argument is out of range, or there is no such device.
        MissingExtraError: PyTorch is not installed.

    Example:
        >>> Relaxed(rows=500).name, Relaxed(blocks="points").name
        ('relaxed', 'relaxed_points')
    """

    rows: int = 1000
    blocks: str = "softmax"
    steps: int = 2000
    rate: float | None = None
    passes: int = 1
    tolerance: float = 1e-3
    thresholds: int = 0
    seed: int = 0
    largest: int = 512
    max_codes: int = 8192
    max_cells: int = 1_000_000
    device: str | None = None

    def __post_init__(self) -> None:
        for param in ("rows", "steps", "passes", "largest", "max_codes", "max_cells"):
            if getattr(self, param) < 1:
                raise InputError(invalid(param, "at least 1", "Try the default.", got=getattr(self, param)))
        if self.blocks not in BLOCKS:
            raise InputError(invalid("blocks", f"one of {BLOCKS}", "Pick one.", got=self.blocks))
        if self.rate is not None and not (np.isfinite(self.rate) and self.rate > 0):
            raise InputError(invalid("rate", "a finite number above 0", "Leave it out.", got=self.rate))
        if not 0 < self.tolerance < 1:
            raise InputError(invalid("tolerance", "between 0 and 1", "Try 0.001.", got=self.tolerance))
        if self.thresholds < 0 or (self.thresholds and self.blocks != "points"):
            remedy = "Take blocks='points' with thresholds."
            asked = "at least 0, and 0 without points"
            raise InputError(invalid("thresholds", asked, remedy, got=self.thresholds))
        if self.device not in (None, "cpu"):
            opened(self.device)

    @property
    def name(self) -> str:
        """The name it is saved and resolved under."""
        return "relaxed_points" if self.blocks == "points" else "relaxed"

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> MixtureModel | GroupedMixture:
        """The relaxed rows that explain the measurements; see the class.

        A rough fit goes on from `warm` with a tenth of the steps; any other starts afresh, so that it
        depends on the measurements alone. After the effort's deadline no step is taken.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or a fit would be too large.
            MissingExtraError: PyTorch is not installed.
        """
        self.admit(domain, [])

        def make(inner: Domain, tables: Sequence[Pooled], rows: float) -> Floats:
            start = held_shares(warm, inner, self.rows) if effort.rough else None
            return self._shares(inner, tables, rows, start, effort)

        with serial(ready(self.device)):
            return mixed(domain, measurements, total, self.largest, make)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> MixtureModel | GroupedMixture:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of a mixture over this domain.
        """
        return loaded(domain, measurements, state)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check sizes and that PyTorch is there, before anything is measured.

        Raises:
            InputError: There are more codes than max_codes or a clique has more cells than max_cells.
            MissingExtraError: PyTorch is not installed.
        """
        ready(self.device)
        check_size(domain, cliques, self.largest, self.max_codes, self.max_cells)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells that a fit compares, infinite with a clique of more than max_cells, shape [candidates]."""
        return cells_with(domain, cliques, candidates, self.largest, self.max_cells)

    def _plan(self, effort: Effort) -> Plan:
        steps = max(self.steps // ROUGH, 1) if effort.rough else self.steps
        passes = 1 if effort.rough else self.passes
        if self.blocks == "points":
            return Plan(steps, (self.rate or RATES["points"], GATES), passes, 2.0, DOUBLINGS, self.tolerance)
        return Plan(steps, (self.rate or RATES[self.blocks],), passes, 1.0, 0, self.tolerance)

    def _shares(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, start: Floats | None, effort: Effort
    ) -> Floats:
        device, rng, plan = ready(self.device), np.random.default_rng(self.seed), self._plan(effort)
        misfit = Misfit(domain, tables, rows, device)

        def stop() -> bool:
            return effort.over

        if self.blocks == "points":
            points = Points(domain, device)
            asked = thresholds(domain, tables, rows, self.thresholds, rng)
            also = Thresholds(points, asked, domain)
            return _placed(points, misfit, also, plan, points.start(self.rows, rng), stop)
        if start is None:
            start = rng.standard_exponential((sum(domain.sizes), self.rows))
        if self.blocks == "softmax":
            return _softened(device, misfit, plan, domain.sizes, np.log(start + TINY), stop)
        return _projected(device, misfit, plan, domain.sizes, start, stop)


def pointwise() -> Relaxed:
    """RAP++'s rows: numbers as points, and one random threshold a table."""
    return Relaxed(blocks="points", thresholds=1)


def _softened(
    device: Device, misfit: Misfit, plan: Plan, sizes: Sequence[int], logits: Floats, stop: Callable[[], bool]
) -> Floats:
    """Shares by descent over logits."""

    def loss(at: Sequence[Any], _: float) -> Any:
        return misfit(softmaxes(device, at[0], sizes))

    found = descend(device, [device.put(logits, device.torch.float32)], loss, plan, stop=stop)
    return _numbers(softmaxes(device, found[0], sizes))


def _projected(
    device: Device, misfit: Misfit, plan: Plan, sizes: Sequence[int], start: Floats, stop: Callable[[], bool]
) -> Floats:
    """Shares by descent over the shares, each step followed by the projection onto distributions."""
    shares = device.put(start, device.torch.float32)
    shares = device.torch.cat([part / part.sum(0) for part in device.torch.split(shares, list(sizes))])

    def settle(at: Sequence[Any]) -> None:
        at[0].copy_(simplices(device, at[0], sizes))

    return _numbers(descend(device, [shares], lambda at, _: misfit(at[0]), plan, settle=settle, stop=stop)[0])


def _placed(
    points: Points,
    misfit: Misfit,
    also: Thresholds,
    plan: Plan,
    start: tuple[Any, Any],
    stop: Callable[[], bool],
) -> Floats:
    """Shares by descent over numbers and logits, the best by the misfit of numbers in their bins."""

    def loss(at: Sequence[Any], steepness: float) -> Any:
        shares = points.shares(at[0], at[1], steepness)
        return misfit(shares) + also(at[0], at[1], shares, steepness)

    def settle(at: Sequence[Any]) -> None:
        at[0].clamp_(0.0, 1.0)

    def exact(at: Sequence[Any]) -> float:
        return misfit.exact(points.exact(at[0], at[1]))

    found = descend(points.device, start, loss, plan, settle=settle, exact=exact, stop=stop)
    return points.exact(found[0], found[1])


def _numbers(shares: Any) -> Floats:
    return np.asarray(shares.cpu().numpy(), dtype=np.float64)
