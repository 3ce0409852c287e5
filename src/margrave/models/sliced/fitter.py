"""SliceFDiv and SliceWass: generators trained against a noisy copy of every row; docs/methods/slice_fdiv.md.

SlicedModel: the mixture of products that a generator is on noise vectors, with the noisy copies.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, check_counts, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.constraints import resolve_dependencies
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import Pooled, pool
from margrave.models._products.products import alone, fit_mixture, products_from_state
from margrave.models._torch.device import ready, serial
from margrave.models.sliced.divergence import SlicedDivergence, SlicedWasserstein
from margrave.models.sliced.training import Course, NoisyRows, RowGenerator, SliceLoss, train_generator
from margrave.release import NoisySlices
from margrave.schema.domain import Domain
from margrave.schema.features import RowNumbers

if TYPE_CHECKING:
    from margrave.protocols import LearnsFrom, Model
    from margrave.release import NoisyMarginal

Floats = NDArray[np.float64]
VALUES, SIGMA = "slices_values", "slices_sigma"


class SlicedModel(DelegatingModel["Model"]):
    """A mixture that a generator made, and the noisy copies that it was trained against. All answers are its.

    The copies are kept with the saved model, so that a release file holds all that was released and another
    generator can be trained without the table.

    Args:
        inner: What the generator is on its noise vectors.
        slices: The noisy copies, indicators of codes.
    """

    def __init__(self, inner: Model, slices: NoisySlices) -> None:
        super().__init__(inner)
        self.slices = slices

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `SlicedEstimator.restore` builds the same model again."""
        values = self.slices.values
        if values.size and (values == np.trunc(values)).all():
            # The noise of indicators is in whole numbers: a quarter of the space.
            narrow = np.int16 if np.abs(values).max() < np.iinfo(np.int16).max else np.int64
            values = values.astype(narrow)
        return super().state() | {VALUES: values, SIGMA: np.asarray(self.slices.sigma)}


class SlicedEstimator(Estimator["SlicedModel"]):
    """The base of generators that learn from noisy copies of rows; a saved model needs no PyTorch.

    A network maps Gaussian noise to a product of distributions over the attributes; on fixed noise vectors
    it is a mixture of products with equal weights, and that is what is kept. Its last offsets start as the
    logarithms of the released one-way marginals, so that it has the dependence to learn. Columns that rules
    tie together are taken as independent inside a product; the rows obey the rules as any mixture's do.

    **Privacy.** Sees released quantities only: post-processing, at no cost however often it is done.
    """

    __slots__ = ()
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"slices"})

    @property
    @abstractmethod
    def loss(self) -> SliceLoss:
        """How far made rows are from released ones."""

    @property
    @abstractmethod
    def course(self) -> Course:
        """How the network is trained."""

    @property
    @abstractmethod
    def widths(self) -> tuple[int, ...]:
        """Of the hidden layers."""

    @property
    @abstractmethod
    def noise(self) -> int:
        """Length of a noise vector."""

    @property
    @abstractmethod
    def components(self) -> int:
        """Products in the model."""

    @property
    @abstractmethod
    def from_one_ways(self) -> bool:
        """Whether the network starts at the released one-way marginals."""

    @property
    @abstractmethod
    def device(self) -> str | None:
        """Where to compute."""

    def fit_slices(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        slices: NoisySlices,
        *,
        effort: Effort = FULL,
    ) -> SlicedModel:
        """The generator trained against noisy copies; after the deadline no step is taken.

        Args:
            domain: Names and sizes of the attributes.
            measurements: Released marginals, those of `NoisySlices.tables` among them.
            slices: The noisy copies, indicators of all codes of the domain; their number is public.
            effort: When to stop.

        Raises:
            InputError: The copies are not indicators of the domain's codes, or are fewer than two, or slices
                have more directions than there can be.
            MissingExtraError: PyTorch is not installed.
        """
        if not slices.indicators or slices.numbers.names != domain.names:
            raise InputError(
                invalid("slices", "indicators of the domain's codes", "Use select=SliceTraining().")
            )
        tables = pool(domain, measurements)
        domain = resolve_dependencies(domain, tables)
        # Only one-ways: pairs are to come from the noisy copies themselves.
        single = [table for table in tables if len(table.clique) == 1]
        # No attribute is grouped: the copies are indicators of single codes.
        rows, largest = float(len(slices.values)), max(domain.sizes)

        def make(inner: Domain, known: Sequence[Pooled], total: float) -> Floats:
            return self._train_network(inner, known, total, slices, effort)

        with serial(ready(self.device)):
            return SlicedModel(fit_mixture(domain, single, max(rows, 1.0), largest, make), slices)

    def _train_network(
        self, domain: Domain, known: Sequence[Pooled], rows: float, slices: NoisySlices, effort: Effort
    ) -> Floats:
        """Shares on fixed noise vectors, shape [codes, components]."""
        device, rng = ready(self.device), np.random.default_rng((self.course.seed, 1))
        torch = device.torch
        generator = RowGenerator(device, self.noise, self.widths, domain.sizes, rng)
        if self.from_one_ways:
            ways = device.put(np.log(alone(domain, known, rows)[:, 0]), torch.float32)
            with torch.no_grad():
                # The last column of the last layer holds its offsets, which alone set the one-ways at first.
                generator.weights[-1][:, -1] = ways
        real = NoisyRows(device, slices.values, slices.sigma, domain.sizes)
        train_generator(generator, real, self.loss, self.course, lambda: effort.over)
        with torch.no_grad():
            shares = generator(generator.draw_noise(self.components, rng)).T.cpu().numpy()
        return np.asarray(shares, dtype=np.float64)

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, NDArray[Any]]
    ) -> SlicedModel:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of such a model over this domain.
        """
        values, sigma = np.asarray(state.get(VALUES, ())), np.asarray(state.get(SIGMA, 0.0))
        sound = values.ndim == 2 and values.dtype.kind in "if" and values.shape[1] == sum(domain.sizes)
        sound = sound and bool(np.isfinite(values).all()) and sigma.shape == () and sigma.dtype.kind == "f"
        if not (sound and np.isfinite(sigma) and sigma > 0):
            raise ReleaseError(invalid("state", "with whole noisy copies", "The release is damaged."))
        slices = NoisySlices(RowNumbers.indicate_codes(domain), values.astype(np.float64), float(sigma))
        return SlicedModel(products_from_state(domain, state), slices)

    def prepare(self) -> None:
        """Check that PyTorch is there, before anything is spent.

        Raises:
            MissingExtraError: PyTorch is not installed.
        """
        ready(self.device)

    def _check(self) -> None:
        check_counts(noise=self.noise, components=self.components)
        if any(width < 1 for width in self.widths):
            raise InputError(invalid("widths", "at least 1 each", "Try (128,).", got=self.widths))


@dataclass(frozen=True, slots=True)
class SliceFDiv(SlicedEstimator):
    """A generator trained by the smoothed-sliced f-divergence of Greenewald, Yu, Wang and Xu (2024).

    Args:
        loss: The divergence and how it is estimated.
        course: How the network is trained.
        widths: Of the hidden layers.
        noise: Length of a noise vector.
        components: Products in the model.
        from_one_ways: Whether the network starts at the released one-way marginals.
        device: Where to compute: "cpu" or None, "cuda", "cuda:1" or "mps", all with PyTorch.

    Raises:
        InputError: An argument is out of range.
    """

    loss: SlicedDivergence = field(default_factory=lambda: SlicedDivergence(widths=(4.0,), tau=0.1))
    course: Course = field(default_factory=lambda: Course(steps=500, batch=128, slices=32, k=3, rate=5e-4))
    widths: tuple[int, ...] = (128,)
    noise: int = 64
    components: int = 1000
    from_one_ways: bool = True
    device: str | None = None
    name: ClassVar[str] = "slice_fdiv"
    fit_seconds: ClassVar[float] = 1.5e-1

    def __post_init__(self) -> None:
        self._check()


@dataclass(frozen=True, slots=True)
class SliceWass(SlicedEstimator):
    """A generator trained by the sliced Wasserstein distance of Rakotomamonjy and Ralaivola (2021), both
    sides noisy.

    Args:
        loss: The distance.
        course: How the network is trained; a slice has one direction whatever its k.
        widths: Of the hidden layers.
        noise: Length of a noise vector.
        components: Products in the model.
        from_one_ways: Whether the network starts at the released one-way marginals.
        device: Where to compute: "cpu" or None, "cuda", "cuda:1" or "mps", all with PyTorch.

    Raises:
        InputError: An argument is out of range.
    """

    loss: SlicedWasserstein = field(default_factory=SlicedWasserstein)
    course: Course = field(default_factory=lambda: Course(steps=300, batch=512, slices=100, k=1, rate=5e-4))
    widths: tuple[int, ...] = (128,)
    noise: int = 64
    components: int = 1000
    from_one_ways: bool = True
    device: str | None = None
    name: ClassVar[str] = "slice_wass"
    fit_seconds: ClassVar[float] = 1.0e-1

    def __post_init__(self) -> None:
        self._check()
