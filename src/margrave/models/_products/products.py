"""Relaxed rows as the mixture of products that they are, loaded again, and a network that makes them.

Each attribute's part of a relaxed row is a block, kept a distribution by softmax or by projection. The
generator is a small network from Gaussian noise to such rows. It is trained by steps of Adam that grow short
like a cosine; its weights are averaged over the second half of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.models._base.constraints import zero_forbidden
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import Model
from margrave.models._base.pooling import Pooled, one_ways
from margrave.models._grouping import group_codes, groups_from_state
from margrave.models._mixture.model import GroupedMixture, MixtureModel, mixture_from_state, undo_grouping
from margrave.models._torch.device import Adam, Device, ready
from margrave.release import project_simplex
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave import protocols

Floats = NDArray[np.float64]
Fitted = TypeVar("Fitted", bound=Model, covariant=True)
HAZE = 0.02
"""Part of a start that is uniform."""
Make = Callable[[Domain, Sequence[Pooled], float], Floats]


def fit_mixture(
    domain: Domain, tables: Sequence[Pooled], rows: float, largest: int, make: Make
) -> MixtureModel | GroupedMixture:
    """The mixture with equal weights whose products `make` finds.

    Args:
        domain: Names and sizes of the attributes.
        tables: What was released, one table a clique.
        rows: To stand for.
        largest: Attributes with more codes are modelled in this many groups of codes.
        make: From a domain, one table a clique and the rows to shares of shape [codes, products].
    """
    grouping = group_codes(domain, tables, largest)
    if grouping is None:
        return _model(domain, tables, rows, make)
    inner = _model(grouping.inner, [grouping.summed(table) for table in tables], rows, make)
    return undo_grouping(inner, grouping, False)


def _model(domain: Domain, tables: Sequence[Pooled], rows: float, make: Make) -> MixtureModel:
    known = zero_forbidden(domain, tables, 1.0)
    shares = _exact(domain, tables, make(domain, known, rows))
    count = shares.shape[1]
    return MixtureModel(domain, rows, np.full(count, 1.0 / count), shares, 0.0, None)


def _exact(domain: Domain, tables: Sequence[Pooled], shares: Floats) -> Floats:
    """The shares in double precision, each summing to 1; uniform for attributes not measured."""
    exact = np.array(shares, dtype=np.float64)
    seen = {name for table in tables for name in table.clique}
    start = 0
    for name, size in zip(domain.names, domain.sizes, strict=True):
        part = exact[start : start + size]
        # Nothing pulls on an attribute without measurements, so that what it has is its random start.
        if name not in seen:
            part[...] = 1.0
        part /= part.sum(axis=0)
        start += size
    return exact


def alone(domain: Domain, tables: Sequence[Pooled], rows: float, haze: float = HAZE) -> Floats:
    """What the tables say of each attribute by itself, uniform where nothing, shape [codes, 1].

    Relaxed rows that start near it have only the dependence to learn, and attributes that no table joins stay
    independent.

    Args:
        domain: Names and sizes of the attributes.
        tables: What was measured.
        rows: The number of rows that it is of.
        haze: Part of it that is made uniform, so that no share is 0.
    """
    found = one_ways(tables)
    parts = []
    for name, size in zip(domain.names, domain.sizes, strict=True):
        part = np.full(size, 1.0 / size)
        if name in found:
            # The noisy one-way as the nearest distribution, with a part spread evenly.
            part = (1.0 - haze) * project_simplex(
                found[name].values / rows, found[name].sigma ** 2
            ) + haze * part
        parts.append(part)
    return np.concatenate(parts)[:, None]


def products_from_state(domain: Domain, state: Mapping[str, Floats]) -> MixtureModel | GroupedMixture:
    """The mixture whose `state` was saved; needs no PyTorch.

    Raises:
        ReleaseError: The state is not that of a mixture over this domain.
    """
    grouping = groups_from_state(domain, state)
    if grouping is None:
        return mixture_from_state(domain, state)
    return GroupedMixture(mixture_from_state(grouping.inner, state), grouping)


def held_shares(model: protocols.Model | None, domain: Domain, count: int) -> Floats | None:
    """The shares of an earlier model over the same domain with as many products, if it is one."""
    inner = model.inner if isinstance(model, GroupedMixture) else model
    if not isinstance(inner, MixtureModel) or inner.domain != domain or len(inner.weights) != count:
        return None
    return inner.fitted


def check_size(
    domain: Domain, cliques: Sequence[Clique], largest: int, max_codes: int, max_cells: int
) -> None:
    """Check that a fit is affordable, before anything is measured.

    Raises:
        InputError: The attributes have more than max_codes codes together, groups counted as codes, or a
            clique of three or more attributes has more than max_cells cells.
    """
    codes = sum(min(size, largest) for size in domain.sizes)
    if codes > max_codes:
        remedy = "Merge rare categories, use fewer bins, or raise max_codes."
        raise InputError(invalid("codes", f"at most {max_codes}", remedy, got=codes))
    for clique in cliques:
        if not np.isfinite(_cells(domain, clique, largest, max_cells)):
            remedy = "Leave it out, or raise max_cells."
            raise InputError(invalid("cliques", f"of at most {max_cells} cells", remedy, got=clique))


def cells_with(
    domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique], largest: int, max_cells: int
) -> Floats:
    """Cells that a fit to cliques and each one candidate compares, infinite where one is too large."""
    # Tables are compared once, whatever the order of their names.
    held = {frozenset(clique) for clique in cliques}
    start = sum(_cells(domain, clique, largest, max_cells) for clique in held)
    asked = [frozenset(clique) for clique in candidates]
    more = [0.0 if clique in held else _cells(domain, clique, largest, max_cells) for clique in asked]
    return np.maximum(start + np.asarray(more, dtype=np.float64), 1.0)


def _cells(domain: Domain, names: Collection[str], largest: int, max_cells: int) -> float:
    cells = float(math.prod(min(domain[name], largest) for name in names))
    # Pairs go by matrix products and are never too large; only larger cliques are.
    return cells if len(names) <= 2 or cells <= max_cells else float("inf")


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
    # The sum of the m largest less 1, over m: tau for every m.
    levels = (falling.cumsum(0) - 1.0) / counts
    # Entries that exceed their own tau come first in falling order, so that counting them gives m.
    kept = (falling > levels).sum(0, keepdim=True).clamp(min=1)
    return (block - levels.gather(0, kept - 1)).clamp(min=0.0)


class ProductsEstimator(Estimator[Fitted]):
    """The base of families on PyTorch whose model is a mixture of products; a saved one needs no PyTorch."""

    __slots__ = ()

    @property
    @abstractmethod
    def largest(self) -> int:
        """Attributes with more codes are modelled in this many groups of codes."""

    @property
    @abstractmethod
    def max_codes(self) -> int:
        """Most codes all attributes may have together, groups counted as codes."""

    @property
    @abstractmethod
    def max_cells(self) -> int:
        """Most cells of a clique of three or more attributes."""

    @property
    @abstractmethod
    def device(self) -> str | None:
        """Where to compute."""

    def prepare(self) -> None:
        """Check that PyTorch is there, before anything is spent.

        Raises:
            MissingExtraError: PyTorch is not installed.
        """
        ready(self.device)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check sizes and that PyTorch is there, before anything is measured.

        Raises:
            InputError: There are more codes than max_codes or a clique has more cells than max_cells.
            MissingExtraError: PyTorch is not installed.
        """
        self.prepare()
        check_size(domain, cliques, self.largest, self.max_codes, self.max_cells)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells that a fit compares, infinite with a clique of more than max_cells, shape [candidates]."""
        return cells_with(domain, cliques, candidates, self.largest, self.max_cells)

    def count_codes(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Codes that are modelled, large attributes in groups, and how many it takes at most."""
        return float(sum(min(size, self.largest) for size in sizes)), float(self.max_codes)


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
            # Each block reads its input and all outputs before, so the next one's input is wider.
            width += wide
        start += [_draw_weights(shape, width, rng) for shape in ((sum(sizes), width), (sum(sizes),))]
        self.width = width
        self.shapes = [part.shape for part in start]
        """Of a block's map, scales and shifts, block by block, and of the last map and its offsets."""
        self.start = device.put(np.concatenate([part.ravel() for part in start]), device.torch.float32)
        """Starting weights, all in one tensor."""
        # Which attribute each code belongs to, for sums inside of attributes.
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
        # Where the loss leaps, a single step may have less of it than the average will.
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
    # The averaged weights are tried once more against the best single step.
    return mean if best is None or sloped(network.parts(mean), into) <= least else best
