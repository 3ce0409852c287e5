"""What networks that are trained at the door have in common, whatever they are trained by.

`Coding` is how they see rows: codes as numbers and categories, by public maps and released one-ways, and
back. `TrainedEstimator` checks the device and keeps the work on one thread. `DrawnRows` are rows that such a
network has drawn, kept with its weights.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from margrave.errors import InputError, ReleaseError, invalid
from margrave.models._base.constraints import resolve_dependencies
from margrave.models._base.estimator import Estimator, Fitted
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import pool
from margrave.models._sampling.rows import RowModel, row_dtype
from margrave.models._torch.device import ready, serial
from margrave.schema.domain import Domain
from margrave.schema.features import MIN_ORDERED_CODES

if TYPE_CHECKING:
    from margrave.release import NoisyMarginal

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

MAX_SINGLE_CATEGORY, DIGIT_BASE = 512, 256
"""Attributes with more codes than that are several categories: the digits of their codes to base 256."""
MAX_SCORE = 4.0
"""Scores are cut there: the normal quantile of 3e-5."""
ROWS_AT_ONCE = 4096
"""Rows drawn from a network at a time, a bound on memory. Not measured."""
FLOOR = 1e-6
"""Least share of a value."""


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """An attribute whose codes stand in order, as a normal score.

    Code c stands for the interval of the normal distribution with the probability that the released one-way
    gives it: a score is drawn in it. (What others do with the quantiles of the private rows.) Codes outside
    the order have no score.

    Args:
        place: Of the attribute in the domain.
        edges: Of the codes in order, on the scale of probabilities: from 0 to 1, [ordered + 1].
        size: Codes of the attribute.
    """

    place: int
    edges: Floats
    size: int

    def scores(self, codes: Longs, uniform: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """A score of each code, 0 where it is none, and whether it has one; shapes as of uniform."""
        ordered = len(self.edges) - 1
        low, high = np.full(self.size, 0.5), np.full(self.size, 0.5)
        low[:ordered], high[:ordered] = self.edges[:-1], self.edges[1:]
        found = ndtri(low[codes] + uniform * (high - low)[codes])
        return np.clip(found, -MAX_SCORE, MAX_SCORE), codes < ordered

    def codes(self, scores: Floats) -> Longs:
        """The code whose interval a score lies in, shape as of scores."""
        cuts = ndtri(self.edges[1:-1])
        return np.asarray(np.searchsorted(cuts, scores, side="right"), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Category:
    """A category of two or more values, which an attribute's code decides.

    Args:
        place: Of the attribute in the domain.
        values: The value of each code, [codes].
        prior: Share of each value by the released one-way, above 0, [values].
    """

    place: int
    values: Longs
    prior: Floats

    @property
    def size(self) -> int:
        """How many values there are."""
        return len(self.prior)


@dataclass(frozen=True, slots=True, eq=False)
class Coding:
    """How a network that is trained at the door sees rows.

    Args:
        domain: Names and sizes of the attributes.
        target: Place of the label, given which all else is drawn; None for no label.
        label: Share of each label; one of 1 without a target.
        numbers, categories: In the domain's order. Codes of a number outside its order are a category.
    """

    domain: Domain
    target: int | None
    label: Floats
    numbers: tuple[Number, ...]
    categories: tuple[Category, ...]

    @property
    def labels(self) -> int:
        """How many labels there are; 0 without a target."""
        return 0 if self.target is None else len(self.label)

    @property
    def values(self) -> int:
        """Values of all categories together."""
        return sum(category.size for category in self.categories)

    def columns(self, label: Longs, scores: Floats, values: Longs) -> list[Longs]:
        """Codes of each attribute, [rows] each, from labels [rows], scores and values [rows, ...]."""
        found = [np.zeros(len(label), dtype=np.int64) for _ in self.domain.names]
        if self.target is not None:
            found[self.target] = label
        in_order: dict[int, int] = {}
        for k, number in enumerate(self.numbers):
            found[number.place] = number.codes(scores[:, k])
            in_order[number.place] = len(number.edges) - 1
        for k, category in enumerate(self.categories):
            place, own = category.place, values[:, k]
            if place in in_order:
                found[place] = np.where(own > 0, in_order[place] + own - 1, found[place])
            else:  # the next digit, if there are several
                found[place] = found[place] * category.size + own
        return [np.minimum(c, size - 1) for c, size in zip(found, self.domain.sizes, strict=True)]


def code_domain(domain: Domain, target: str | None, ways: Mapping[str, Floats]) -> Coding:
    """The coding of a domain.

    Args:
        domain: Names and sizes of the attributes.
        target: The label, or None.
        ways: Released distribution of each attribute, not negative, [codes].
    """
    numbers: list[Number] = []
    categories: list[Category] = []
    for place, (name, size) in enumerate(zip(domain.names, domain.sizes, strict=True)):
        ordered, way = domain.ordered[place], _shares(ways[name])
        if name == target:
            continue
        if ordered >= MIN_ORDERED_CODES:
            # A number is its place in the distribution function, which spreads codes evenly whatever their
            # shares; codes behind the ordered ones, such as missing, are a category of their own.
            edges = np.append(0.0, np.cumsum(way[:ordered]))
            numbers.append(Number(place, edges / edges[-1], size))
            outside = np.maximum(np.arange(size) - ordered + 1, 0)
            categories += _category(place, outside, way, size - ordered + 1)
        else:
            for values, count in _digits(size):
                categories += _category(place, values, way, count)
    place_of = None if target is None else domain.index(target)
    label = np.ones(1) if target is None else _shares(ways[target])
    return Coding(domain, place_of, label, tuple(numbers), tuple(categories))


def _shares(way: Floats) -> Floats:
    """Shares that add up to 1, none below a floor."""
    found = np.maximum(np.asarray(way, dtype=np.float64), FLOOR * max(float(way.sum()), FLOOR))
    return np.asarray(found / found.sum())


def _category(place: int, values: Longs, way: Floats, size: int) -> list[Category]:
    """The category, unless it has one value only."""
    prior = np.bincount(values, weights=way, minlength=size).astype(np.float64)
    return [Category(place, values, _shares(prior))] if size > 1 else []


def _digits(size: int) -> Sequence[tuple[Longs, int]]:
    """Codes, or their digits, the highest first, each with how many values it has."""
    codes = np.arange(size)
    if size <= MAX_SINGLE_CATEGORY:
        return [(codes, size)]
    found: list[tuple[Longs, int]] = []
    while True:
        rest = int(codes.max())
        if rest < DIGIT_BASE:
            return [(codes, rest + 1), *found]
        found.insert(0, (codes % DIGIT_BASE, DIGIT_BASE))
        codes = codes // DIGIT_BASE


T = TypeVar("T")


class DrawnRows(DelegatingModel[RowModel]):
    """Rows drawn by a network; all answers are theirs.

    The weights are kept with the saved model, so that a release file holds all that was released.

    Args:
        inner: The rows.
        weights: Of each layer, [out, in + 1].
    """

    prefix: ClassVar[str]
    """What names of weights begin with in a saved state; the rest is the number of the layer."""

    def __init__(self, inner: RowModel, weights: Sequence[Floats]) -> None:
        super().__init__(inner)
        self.weights = tuple(weights)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which the fitter's `restore` builds the same model again."""
        return super().state() | {f"{self.prefix}{k}": weight for k, weight in enumerate(self.weights)}

    @classmethod
    def read_weights(cls, state: Mapping[str, NDArray[Any]]) -> list[Floats]:
        """The network's weights in a saved state.

        Raises:
            ReleaseError: There are none, or they do not fit each other.
        """
        count = sum(name.startswith(cls.prefix) for name in state)
        found = [np.asarray(state.get(f"{cls.prefix}{k}", ())) for k in range(count)]
        sound = count > 0 and all(weight.ndim == 2 and weight.dtype.kind == "f" for weight in found)
        sound = sound and all(bool(np.isfinite(weight).all()) for weight in found)
        if not sound or any(
            below.shape[0] + 1 != above.shape[1] for below, above in itertools.pairwise(found)
        ):
            raise ReleaseError(invalid("state", "with the network's weights", "The release is damaged."))
        return found


class TrainedEstimator(Estimator[Fitted]):
    """The base of estimators whose network is trained at the door, by gradients or by votes.

    Its arithmetic has to be the same for a row whatever rows are beside it, so it needs double precision
    and one thread.
    """

    __slots__ = ()

    fit_seconds: ClassVar[float] = 3e-1

    @property
    @abstractmethod
    def device(self) -> str | None:
        """Where the network is: "cpu", "cuda" or "cuda:N"; None for the processor."""

    @property
    @abstractmethod
    def most_rows(self) -> int:
        """Rows that are drawn, at most; else as many as the model stands for."""

    @property
    @abstractmethod
    def seed(self) -> int:
        """Of the first weights and of the rows."""

    def prepare(self) -> None:
        """Check that PyTorch and the device are there and will do, before anything is spent.

        Raises:
            InputError: There is no such device, or it has no double precision.
            MissingExtraError: PyTorch is not installed.
        """
        if not ready(self.device).double:
            remedy = "Leave it out for the processor."
            raise InputError(invalid("device", "one with double precision", remedy, got=self.device))

    def alone(self, work: Callable[[], T]) -> T:
        """What some work with the network returns, done on one thread of the processor; see `serial`."""
        with serial(ready(self.device)):
            return work()

    def draw_model(
        self,
        domain: Domain,
        draw_codes: Callable[[int, np.random.Generator], Any],
        measurements: Sequence[NoisyMarginal],
        total: float,
    ) -> RowModel:
        """The rows of a trained network as a model.

        Args:
            domain: Names and sizes of the attributes.
            draw_codes: Draws a number of rows, an array of codes for each attribute.
            measurements: Released marginals; rules are read off them where that is needed.
            total: Rows to stand for.
        """
        rows, rng = min(max(round(total), 1), self.most_rows), np.random.default_rng(self.seed)
        columns = np.array(self.alone(lambda: draw_codes(rows, rng)))
        domain = resolve_dependencies(domain, pool(domain, measurements))
        return RowModel(domain, total, domain.names, columns.astype(row_dtype(domain)))
