"""Relaxed: relaxed rows fitted to noisy marginals by gradient descent (RAP and RAP++).

`Points` makes the codes of ordered attributes from numbers, by sigmoids that grow steep, and `Thresholds`
asks random linear thresholds over the ordered attributes of measured tables, both as RAP++ does.
`PlacedModel` is the mixture of products that relaxed rows with numbers are, together with the numbers. See
docs/methods/rap.md.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import Effort
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import Pooled
from margrave.models._mixture.model import GroupedMixture, MixtureModel
from margrave.models._products.misfit import NOISE, Misfit
from margrave.models._products.products import (
    ProductsEstimator,
    alone,
    fit_mixture,
    held_shares,
    products_from_state,
    simplices,
    softmaxes,
)
from margrave.models._torch.device import Device, Plan, descend, open_device, ready, serial
from margrave.schema.domain import Domain
from margrave.schema.features import MIN_ORDERED_CODES

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal


MIN_SCALED_SHARE, MIN_LOG_SHARE = 1e-9, 1e-3
"""Added to shares before they are scaled, and before their logarithm is taken."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Block:
    """One attribute.

    Args:
        size: Number of its codes.
        number: Row of `Points.start` that holds its number; None for a distribution over its codes.
        ordered: Leading codes that stand in order; the number says which of them a row has.
        gates: Where its logits lie: of all codes, or of "has a number" and the codes behind the ordered ones.
    """

    size: int
    number: int | None
    ordered: int
    gates: slice


class Points:
    """Relaxed rows with a number in [0, 1] for each ordered attribute and softmax blocks for all others.

    Codes of k bins are the intervals of equal length of [0, 1]; a number u is in bin c by
    sigmoid(tau (k u - c)) - sigmoid(tau (k u - c - 1)), the outermost bins without an outer edge, so
    that the bins' shares sum to 1 at every steepness tau and become 0 and 1 as it grows (RAP++, section 3.2).
    Steepness is by the width of a bin: at less than 1 no number tells one bin from the next.

    Args:
        domain: With `ordered`.
        device: Where to compute.
    """

    def __init__(self, domain: Domain, device: Device) -> None:
        self.device = device
        self.blocks: list[_Block] = []
        numbers = gates = 0
        for size, ordered in zip(domain.sizes, domain.ordered, strict=True):
            # Attributes with fewer ordered codes get a distribution in place of a number.
            point = ordered >= MIN_ORDERED_CODES
            width = 1 + size - ordered if point else size
            self.blocks.append(_Block(size, numbers if point else None, ordered, slice(gates, gates + width)))
            numbers, gates = numbers + point, gates + width
        self.numbers, self.gates = numbers, gates
        self._edges = {
            block.ordered: device.put(np.arange(1.0, block.ordered)[:, None], device.torch.float32)
            for block in self.blocks
            if block.number is not None
        }

    def start(self, ways: Floats, rows: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Numbers and logits of rows that are as each attribute is by itself: [numbers, rows], [gates, rows].

        Args:
            ways: The attributes' distributions, one after another, shape [codes].
            rows: How many.
            rng: Of the order of numbers and their places in bins, and of the logits' noise.
        """
        numbers, gates, start = [], [], 0
        for block in self.blocks:
            own = ways[start : start + block.size]
            start += block.size
            # Numbers begin where the noisy one-way puts them: even quantiles in a random order, each
            # somewhere in the middle half of its bin, so that no sigmoid starts on an edge. The gate holds
            # what has a number at all.
            if block.number is not None:
                inside = own[: block.ordered] + MIN_SCALED_SHARE
                inside /= inside.sum()
                # Even quantiles in a random order, one a row.
                drawn = (rng.permutation(rows) + 0.5) / rows
                bins = np.searchsorted(np.cumsum(inside)[:-1], drawn, side="right")
                numbers.append((bins + 0.25 + 0.5 * rng.random(rows)) / block.ordered)
                # The gate keeps "has a number" and the codes behind the ordered ones.
                own = np.concatenate([[own[: block.ordered].sum()], own[block.ordered :]])
            gates.append(np.log(own + MIN_LOG_SHARE)[:, None] + rng.standard_normal((len(own), rows)))
        single = self.device.torch.float32
        placed = np.stack(numbers) if numbers else np.zeros((0, rows))
        return self.device.put(placed, single), self.device.put(np.concatenate(gates), single)

    def number(self, attribute: int) -> int:
        """Which row of the numbers is an attribute's; an attribute without has none."""
        found = self.blocks[attribute].number
        if found is None:
            raise ValueError("not a number")
        return found

    def present(self, gates: Any) -> Any:
        """How much of each row has a number in each attribute that is one, shape [numbers, rows]."""
        softmax = self.device.torch.softmax
        rows = [softmax(gates[block.gates], 0)[:1] for block in self.blocks if block.number is not None]
        return self.device.torch.cat(rows) if rows else gates[:0]

    def shares(self, numbers: Any, gates: Any, steepness: float) -> Any:
        """Each row's distribution over the codes of each attribute, shape [codes, rows]."""
        torch, parts = self.device.torch, []
        opened = softmaxes(self.device, gates, [b.gates.stop - b.gates.start for b in self.blocks])
        for block in self.blocks:
            gate = opened[block.gates]
            if block.number is None:
                parts.append(gate)
                continue
            place = block.ordered * numbers[block.number]
            above = torch.sigmoid(steepness * (place - self._edges[block.ordered]))
            none, all_ = torch.zeros_like(above[:1]), torch.ones_like(above[:1])
            # A number's chance of each bin is the difference of two sigmoids at the bin's edges, which grow
            # to steps as steepness does.
            bins = torch.cat([all_, above]) - torch.cat([above, none])
            parts += [gate[:1] * bins, gate[1:]]
        return torch.cat(parts)


@dataclass(frozen=True, slots=True)
class Threshold:
    """The share of rows above a plane, by the codes of the other attributes of the table.

    Args:
        numbers: Positions of the ordered attributes, in the domain.
        direction: h, one number an ordered attribute.
        offset: b; rows with h . x > b are above.
        others: Positions of the table's other attributes.
        values: Noisy proportions, shape of the others' table.
        weights: 1 / variance of each.
    """

    numbers: tuple[int, ...]
    direction: NDArray[np.float64]
    offset: float
    others: tuple[int, ...]
    values: NDArray[np.float64]
    weights: NDArray[np.float64]


def thresholds(
    domain: Domain, tables: Sequence[Pooled], rows: float, count: int, rng: np.random.Generator
) -> list[Threshold]:
    """`count` thresholds for each table with an ordered attribute, answered from its noisy cells.

    A threshold is a sum of cells, so its answer is free and its variance the sum of theirs. Directions are
    normal, scaled to length 1; offsets lie halfway between two cells' centres, so that some cells are above
    and some are not. Codes behind the ordered ones, as a missing value's, are above no plane.
    """
    found = []
    for table in tables:
        positions = [domain.index(name) for name in table.clique]
        axes = [k for k, i in enumerate(positions) if domain.ordered[i] >= MIN_ORDERED_CODES]
        for _ in range(count if axes else 0):
            direction = rng.standard_normal(len(axes))
            direction /= np.linalg.norm(direction)  # so that a sigmoid's width is a distance
            sizes = [domain.ordered[positions[k]] for k in axes]
            centres = [(np.arange(size) + 0.5) / size for size in sizes]
            # h . x at the centre of every cell of the ordered attributes, by broadcasting one axis each.
            score = np.asarray(sum(np.ix_(*(h * c for h, c in zip(direction, centres, strict=True)))))
            # Rounded, so that cells that lie on one plane but for the last bits are one level.
            levels = np.unique(score.round(12))
            at = rng.integers(len(levels) - 1)
            offset = float(levels[at] + levels[at + 1]) / 2
            above = np.zeros([table.values.shape[k] for k in axes], dtype=bool)
            above[tuple(slice(n) for n in score.shape)] = score > offset
            shape = [table.values.shape[k] if k in axes else 1 for k in range(len(positions))]
            held = above.reshape(shape)
            # The answer is a sum of noisy cells, and its variance the sum of theirs.
            values = (table.values * held).sum(axis=tuple(axes)) / rows
            variance = (table.sigma**2 * held).sum(axis=tuple(axes)) / rows**2
            others = tuple(i for k, i in enumerate(positions) if k not in axes)
            numbers = tuple(positions[k] for k in axes)
            found.append(Threshold(numbers, direction, offset, others, np.asarray(values), 1.0 / variance))
    return found


class Thresholds:
    """The mean over answers of (model - noisy)^2 / variance, with the indicator as a sigmoid.

    Thresholds by the codes of at most one attribute are one product of matrices: rows above each plane, by
    all codes and one that every row has. Others go one by one.

    Args:
        points: How rows hold their numbers.
        asked: The thresholds.
        domain: Names and sizes of the attributes.
    """

    def __init__(self, points: Points, asked: Sequence[Threshold], domain: Domain) -> None:
        self._points = points
        self._starts = np.cumsum([0, *domain.sizes]).tolist()
        self._asked = sorted(asked, key=lambda one: len(one.others) > 1)
        self._few = sum(len(one.others) <= 1 for one in asked)
        # The loss is a mean over all answers, so each weighs 1 / (its variance times how many there are).
        whole = max(sum(one.values.size for one in asked), 1)
        values, weights = (np.zeros((self._few, self._starts[-1] + 1)) for _ in range(2))
        for k, one in enumerate(self._asked[: self._few]):
            at = slice(*self._starts[one.others[0] :][:2]) if one.others else slice(-1, None)
            values[k, at], weights[k, at] = one.values, one.weights / whole
        single, put = points.device.torch.float32, points.device.put
        self._values, self._weights = put(values, single), put(weights, single)
        self._planes(domain)
        self._held = [
            (put(one.values, single), put(one.weights / whole, single)) for one in self._asked[self._few :]
        ]

    def _planes(self, domain: Domain) -> None:
        """Directions [thresholds, numbers], offsets and bins a unit [thresholds, 1], and which numbers."""
        count, numbers = len(self._asked), self._points.numbers
        widest = max((len(one.numbers) for one in self._asked), default=1)
        directions = np.zeros((count, numbers))
        offsets, bins = np.zeros((count, 1)), np.ones((count, 1))
        # The last row of presence is that of ones: attributes that a threshold lacks point there.
        which = np.full((widest, count), numbers)
        for k, one in enumerate(self._asked):
            at = [self._points.number(i) for i in one.numbers]
            directions[k, at], offsets[k] = one.direction, one.offset
            # Steepness is by the width of a bin, so a plane's is by its finest attribute.
            bins[k] = max(domain.ordered[i] for i in one.numbers)
            which[: len(at), k] = at
        torch, put = self._points.device.torch, self._points.device.put
        self._directions, self._offsets = put(directions, torch.float32), put(offsets, torch.float32)
        self._bins, self._which = put(bins, torch.float32), put(which, torch.int64)

    def __call__(self, numbers: Any, gates: Any, shares: Any, steepness: float) -> Any:
        """The misfit of relaxed rows, a scalar tensor; see `Points` for the shapes."""
        torch, count = self._points.device.torch, shares.shape[1]
        every = torch.ones((1, count), dtype=shares.dtype, device=shares.device)
        above = torch.sigmoid(steepness * self._bins * (self._directions @ numbers - self._offsets))
        present = torch.cat([self._points.present(gates), every])
        # A threshold on numbers holds only for rows that have all of them.
        for which in self._which:
            above = above * present.index_select(0, which)
        # All tables of a threshold and one attribute are one product of matrices; the few with more
        # attributes follow one by one.
        # Shares of thresholds by code, as a mean over relaxed rows.
        found = above[: self._few] @ torch.cat([shares, every]).T / count
        value = (self._weights * (found - self._values) ** 2).sum()
        for k, (values, weights) in enumerate(self._held, self._few):
            table = above[k : k + 1]
            for i in self._asked[k].others:
                block = shares[self._starts[i] : self._starts[i + 1]]
                table = (table[:, None, :] * block[None, :, :]).reshape(-1, count)
            value = value + (weights * (table.mean(1).reshape(values.shape) - values) ** 2).sum()
        return value


@dataclass(frozen=True, slots=True)
class Placed:
    """Relaxed rows as numbers and logits.

    Args:
        numbers: In [0, 1], shape [numbers, rows], on a device.
        gates: Logits, shape [gates, rows], on a device.
        steepness: Of the sigmoids that make shares of codes from numbers.
    """

    numbers: Any
    gates: Any
    steepness: float


class PlacedModel(DelegatingModel[MixtureModel | GroupedMixture]):
    """A mixture of products, and the numbers it is made of.

    All answers are the mixture's; the numbers are for a later fit to go on from, and are not saved.

    Args:
        inner: The relaxed rows' shares.
        placed: Their numbers; None for a model that was loaded.
    """

    def __init__(self, inner: MixtureModel | GroupedMixture, placed: Placed | None = None) -> None:
        super().__init__(inner)
        self.placed = placed


BLOCKS = ("points", "softmax", "sparsemax")
RATES = {"points": 0.003, "softmax": 0.1, "sparsemax": 0.003}
"""Adam's step length by blocks: that of numbers with points."""
GATES = 0.1
"""Step length of logits beside numbers."""
FIRST_STEEPNESS, LAST_STEEPNESS = 8.0, 128.0
"""Steepness of a pass's first and last sigmoids, by the width of a bin: at 8 nearly a fifth of a row's share
lies in other bins than its number."""
ROUGH_STEP_DIVISOR = 10
"""A rough fit has this part of the steps."""
MIN_SHARE = 1e-12
"""Added to shares before their logarithm is taken."""


@dataclass(frozen=True, slots=True)
class Relaxed(ProductsEstimator["MixtureModel | GroupedMixture | PlacedModel"]):
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
        passes: Passes, each with a quarter of the step length of the one before, from the best so far.
        tolerance: A pass ends (or sigmoids grow steeper) when the loss falls by less than this part.
        floor: A fit ends when its mean squared residual over variance is no larger. 1 is what noise alone
            leaves, so that a better fit is one to noise; 0 goes on until the loss stands still.
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
    steps: int = 500
    rate: float | None = None
    passes: int = 4
    tolerance: float = 1e-3
    floor: float = NOISE
    thresholds: int = 0
    seed: int = 0
    largest: int = 512
    max_codes: int = 8192
    max_cells: int = 1_000_000
    device: str | None = None

    def __post_init__(self) -> None:
        check_counts(
            rows=self.rows,
            steps=self.steps,
            passes=self.passes,
            largest=self.largest,
            max_codes=self.max_codes,
            max_cells=self.max_cells,
        )
        if self.blocks not in BLOCKS:
            raise InputError(invalid("blocks", f"one of {BLOCKS}", "Pick one.", got=self.blocks))
        if self.rate is not None and not (np.isfinite(self.rate) and self.rate > 0):
            raise InputError(invalid("rate", "a finite number above 0", "Leave it out.", got=self.rate))
        if not 0 < self.tolerance < 1:
            raise InputError(invalid("tolerance", "between 0 and 1", "Try 0.001.", got=self.tolerance))
        if not (np.isfinite(self.floor) and self.floor >= 0):
            raise InputError(invalid("floor", "a finite number of 0 or more", "Try 1.", got=self.floor))
        if self.thresholds < 0 or (self.thresholds and self.blocks != "points"):
            remedy = "Take blocks='points' with thresholds."
            asked = "at least 0, and 0 without points"
            raise InputError(invalid("thresholds", asked, remedy, got=self.thresholds))
        if self.device not in (None, "cpu"):
            open_device(self.device)

    @property
    def name(self) -> str:
        """The name it is saved and resolved under."""
        return "relaxed_points" if self.blocks == "points" else "relaxed"

    @property
    def fit_seconds(self) -> float:
        """Processor seconds that its fits add to a run, a squared column; more for rows that are points."""
        return 4e-2 if self.blocks == "points" else 1.5e-2

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> MixtureModel | GroupedMixture | PlacedModel:
        """The relaxed rows that explain the measurements; see the class.

        A rough fit goes on from `warm` with a tenth of the steps; any other starts afresh, so that it
        depends on the measurements alone. After the effort's deadline no step is taken.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or a fit would be too large.
            MissingExtraError: PyTorch is not installed.
        """
        # Codes and PyTorch alone are checked: strategies ask for their cliques before they buy them.
        self.admit(domain, [])
        warm, placed = warm if effort.rough else None, list[Placed]()

        def make(inner: Domain, tables: Sequence[Pooled], rows: float) -> Floats:
            if self.blocks != "points":
                return self._shares(inner, tables, rows, held_shares(warm, inner, self.rows), effort)
            held = warm.placed if isinstance(warm, PlacedModel) else None
            shares, found = self._place_rows(inner, tables, rows, held, effort)
            placed.append(found)
            return shares

        with serial(ready(self.device)):
            mixture = fit_mixture(domain, tables, rows, self.largest, make)
        return PlacedModel(mixture, placed[0]) if placed else mixture

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> MixtureModel | GroupedMixture:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of a mixture over this domain.
        """
        return products_from_state(domain, state)

    def _plan(self, effort: Effort, rates: tuple[float, ...]) -> Plan:
        steps = max(self.steps // ROUGH_STEP_DIVISOR, 1) if effort.rough else self.steps
        return Plan(steps, rates, 1 if effort.rough else self.passes, 1.0, 0, self.tolerance, self.floor)

    def _shares(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, start: Floats | None, effort: Effort
    ) -> Floats:
        """Shares of each code, [codes, rows]."""
        device, rng = ready(self.device), np.random.default_rng(self.seed)
        misfit, plan = Misfit(domain, tables, rows, device), self._plan(effort, (self._rate,))
        if start is None:
            # Exponential noise makes a Dirichlet-like start around the one-ways, once it is normalised.
            start = alone(domain, tables, rows) * rng.standard_exponential((sum(domain.sizes), self.rows))
        descent = _descend_logits if self.blocks == "softmax" else _descend_shares
        return descent(device, misfit, plan, domain.sizes, start, lambda: effort.over)

    def _place_rows(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, held: Placed | None, effort: Effort
    ) -> tuple[Floats, Placed]:
        """Shares of each code, [codes, rows], and the numbers they come from."""
        device, rng = ready(self.device), np.random.default_rng(self.seed)
        misfit, points = Misfit(domain, tables, rows, device), Points(domain, device)
        asked = thresholds(domain, tables, rows, self.thresholds, rng)
        also = Thresholds(points, asked, domain)
        start = points.start(alone(domain, tables, rows, 0.0)[:, 0], self.rows, rng)
        first = FIRST_STEEPNESS
        if held is not None and [p.shape for p in start] == [held.numbers.shape, held.gates.shape]:
            start, first = (held.numbers, held.gates), held.steepness

        def losses(at: Sequence[Any], steepness: float) -> tuple[Any, Any]:
            shares = points.shares(at[0], at[1], steepness)
            return misfit(shares), also(at[0], at[1], shares, steepness)

        def settle(at: Sequence[Any]) -> None:
            at[0].clamp_(0.0, 1.0)

        plan = dataclasses.replace(
            self._plan(effort, (self._rate, GATES)),
            steepness=first,
            # Steepness doubles from the first to the last.
            doublings=round(math.log2(LAST_STEEPNESS / first)),
        )
        (numbers, gates), steepness = descend(
            device, start, losses, plan, settle=settle, stop=lambda: effort.over
        )
        found = Placed(numbers, gates, steepness)
        return _numbers(points.shares(numbers, gates, steepness)), found

    @property
    def _rate(self) -> float:
        return self.rate or RATES[self.blocks]


def pointwise() -> Relaxed:
    """RAP++'s rows: numbers as points, and one random threshold a table."""
    return Relaxed(blocks="points", thresholds=1)


def _descend_logits(
    device: Device, misfit: Misfit, plan: Plan, sizes: Sequence[int], start: Floats, stop: Callable[[], bool]
) -> Floats:
    """Shares by descent over their logarithms."""

    def losses(at: Sequence[Any], _: float) -> tuple[Any]:
        return (misfit(softmaxes(device, at[0], sizes)),)

    logits = device.put(np.log(start + MIN_SHARE), device.torch.float32)
    found, _ = descend(device, [logits], losses, plan, stop=stop)
    return _numbers(softmaxes(device, found[0], sizes))


def _descend_shares(
    device: Device, misfit: Misfit, plan: Plan, sizes: Sequence[int], start: Floats, stop: Callable[[], bool]
) -> Floats:
    """Shares by descent over the shares, each step followed by the projection onto distributions."""
    shares = device.put(start, device.torch.float32)
    # Projection keeps distributions, so the start has to be one.
    shares = device.torch.cat([part / part.sum(0) for part in device.torch.split(shares, list(sizes))])

    def settle(at: Sequence[Any]) -> None:
        at[0].copy_(simplices(device, at[0], sizes))

    def lose(at: Sequence[Any], _: Any) -> tuple[Any]:
        return (misfit(at[0]),)

    found, _ = descend(device, [shares], lose, plan, settle=settle, stop=stop)
    return _numbers(found[0])


def _numbers(shares: Any) -> Floats:
    return np.asarray(shares.cpu().numpy(), dtype=np.float64)
