"""Network: a generator network fitted to noisy marginals by gradient descent: GEM; see docs/methods/gem.md.

`NetworkModel` is the mixture of products that a generator is on its noise vectors, with its weights.
`PublicNetwork` is trained on tables of public columns before it sees a measurement: vGEM-pub of Maddock,
Gade, Cormode and Bullock 2025, "Leveraging Vertical Public-Private Split for Improved Synthetic Data
Generation" (arXiv 2504.10987), after GEM-pub of Liu, Vietri and Wu 2021 (arXiv 2106.07153).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import Pooled
from margrave.models._base.public_rows import PublicRows
from margrave.models._mixture.model import GroupedMixture, MixtureModel
from margrave.models._products.misfit import NOISE, Misfit
from margrave.models._products.products import (
    Generator,
    ProductsEstimator,
    Training,
    alone,
    fit_mixture,
    products_from_state,
    train_generator,
)
from margrave.models._torch.device import BETAS, MIN_LOSS, Device, open_device, ready, serial
from margrave.schema.domain import Domain
from margrave.schema.encoded import Encoded

if TYPE_CHECKING:
    from margrave.protocols import LearnsFrom, Model
    from margrave.release import NoisyMarginal


class NetworkModel(DelegatingModel[MixtureModel | GroupedMixture]):
    """A mixture of products, and the weights of the network that made it.

    All answers are the mixture's; the weights are for a later fit to go on from, and are not saved.

    Args:
        inner: What the network is on its noise vectors.
        weights: The network's; empty for a model that was loaded.
    """

    def __init__(
        self, inner: MixtureModel | GroupedMixture, weights: Sequence[NDArray[np.float32]] = ()
    ) -> None:
        super().__init__(inner)
        self.weights = tuple(weights)


Floats = NDArray[np.float64]
Weights = Sequence[NDArray[np.float32]]

ROUGH_STEP_DIVISOR = 42
"""A rough fit has this part of the steps: one more table moves a network little, and what a round leaves over
the next one takes up."""
ROUGH_NOISE_DIVISOR = 3
"""And this part of the noise vectors: what is worst fitted shows in few products, too."""


@dataclass(frozen=True, slots=True)
class Network(ProductsEstimator["NetworkModel"]):
    """GEM's generator (Liu, Vietri and Wu 2021), fitted to whole measured marginals.

    A network maps Gaussian noise vectors to products of distributions (`generator`): on `components` vectors
    a mixture of products with equal weights. Adam lowers the squared residuals of all measured tables
    over their variances (`relaxed.misfit`), with a step length that falls like a cosine; the weights of the
    second half of the steps are averaged (an exponential mean). GEM pays for single cells and fits those
    furthest off; all cells of a table cost as much as one, so whole tables are used here.

    The mixture on the fixed vectors is the model: exact answers, rows, codes given and rules are those of
    `MixtureModel`, and a saved model needs no PyTorch.

    **Privacy.** Sees released quantities only: post-processing.

    Args:
        components: Noise vectors of a batch, and products in the model.
        noise: Length of a noise vector.
        widths: Outputs of each block of the network.
        steps: Steps of the optimiser.
        rate: Adam's first step length.
        average: How long averaged weights remember: the share that one step leaves of them, 0 for the last
            weights alone.
        floor: A fit ends when its mean squared residual over variance is no larger. 1 is what noise alone
            leaves, so that a better fit is one to noise; 0 takes all steps.
        resample: Draw other noise vectors in every step; the model is then the network on the first ones.
        seed: Of weights and noise vectors.
        largest: Attributes with more codes are modelled in this many groups of codes.
        max_codes: Most codes all attributes may have together, groups counted as codes.
        max_cells: Most cells of a clique of three or more attributes.
        device: Where to compute: "cpu" or None, "cuda", "cuda:1" or "mps", all with PyTorch.

    Raises:
        InputError: An argument is out of range, or there is no such device.
        MissingExtraError: The device needs PyTorch, which is not installed.
    """

    components: int = 250
    noise: int = 64
    widths: tuple[int, ...] = (128,)
    steps: int = 300
    rate: float = 5e-3
    average: float = 0.9
    floor: float = NOISE
    resample: bool = False
    seed: int = 0
    largest: int = 512
    max_codes: int = 8192
    max_cells: int = 1_000_000
    device: str | None = None
    name: ClassVar[str] = "network"
    fit_seconds: ClassVar[float] = 3e-2

    def __post_init__(self) -> None:
        check_counts(
            noise=self.noise,
            steps=self.steps,
            largest=self.largest,
            max_codes=self.max_codes,
            max_cells=self.max_cells,
        )
        if self.components < 2:
            remedy = "Batch normalisation needs two noise vectors or more."
            raise InputError(invalid("components", "at least 2", remedy, got=self.components))
        if any(width < 1 for width in self.widths):
            raise InputError(invalid("widths", "at least 1 each", "Try (128,).", got=self.widths))
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(invalid("rate", "a finite number above 0", "Try 0.005.", got=self.rate))
        if not (math.isfinite(self.floor) and self.floor >= 0):
            raise InputError(invalid("floor", "a finite number of 0 or more", "Try 1.", got=self.floor))
        if not 0 <= self.average < 1:
            raise InputError(invalid("average", "at least 0 and below 1", "Try 0.9.", got=self.average))
        if self.device not in (None, "cpu"):
            open_device(self.device)

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> NetworkModel:
        """The network that explains the measurements; see the class.

        A rough fit goes on from the weights of `warm` for few steps on a third of the noise vectors; any
        other starts afresh, so that it depends on the measurements alone. After the effort's deadline no
        step is taken.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or a fit would be too large.
            MissingExtraError: PyTorch is not installed.
        """
        start = warm.weights if effort.rough and isinstance(warm, NetworkModel) else ()
        return self.fit_from(domain, tables, rows, start, effort)

    def fit_from(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, start: Weights, effort: Effort
    ) -> NetworkModel:
        """The network after training that goes on from some weights.

        Args:
            domain: Names and sizes of the attributes.
            tables: What was measured, one table a clique.
            rows: To stand for.
            start: Weights of a network of this shape; any others, or none, for a fresh start.
            effort: A rough fit takes few steps on a third of the noise vectors.

        Raises:
            InputError: A fit would be too large.
            MissingExtraError: PyTorch is not installed.
        """
        self.admit(domain, [])
        device, kept = ready(self.device), []

        def make(inner: Domain, tables: Sequence[Pooled], rows: float) -> Floats:
            network = self.start_network(device, inner, tables, rows)
            misfit = Misfit(inner, tables, rows, device)
            shares, weights = self._train_network(device, network, misfit, start, effort)
            kept.extend(weights)
            return shares

        with serial(device):
            mixture = fit_mixture(domain, tables, rows, self.largest, make)
        return NetworkModel(mixture, kept)

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> NetworkModel:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of a mixture over this domain.
        """
        return NetworkModel(products_from_state(domain, state))

    def start_network(
        self, device: Device, domain: Domain, tables: Sequence[Pooled], rows: float
    ) -> Generator:
        """The network before any step, its last offsets such that each attribute is as measured by itself.

        Args:
            device: Where it computes.
            domain: Names and sizes of the attributes.
            tables: What was measured.
            rows: The number of rows that it is of.
        """
        ways = alone(domain, tables, rows)
        network = Generator(device, self.noise, self.widths, domain.sizes, np.random.default_rng(self.seed))
        biases = network.parts(network.start)[-1]
        biases.copy_(device.put(np.log(ways[:, 0]), device.torch.float32))
        return network

    def _train_network(
        self, device: Device, network: Generator, misfit: Misfit, start: Weights, effort: Effort
    ) -> tuple[Floats, list[NDArray[np.float32]]]:
        """Shares on the fixed noise vectors, [codes, components], and the averaged weights."""
        rng, torch = np.random.default_rng((self.seed, 1)), device.torch

        components = max(self.components // ROUGH_NOISE_DIVISOR, 2) if effort.rough else self.components

        def draw_noise() -> Any:
            return device.put(rng.standard_normal((components, self.noise)), torch.float32)

        fixed, weights = draw_noise(), network.start.clone()
        if [w.shape for w in start] == network.shapes:
            weights = device.put(np.concatenate([w.ravel() for w in start]), torch.float32)
        steps = max(self.steps // (ROUGH_STEP_DIVISOR if effort.rough else 1), 1)
        noise = draw_noise if self.resample else lambda: fixed

        def value_and_slope(parts: Sequence[Any], into: Sequence[Any]) -> float:
            made = network(parts, noise())
            loss, slope = misfit.value_and_slope(made.shares)
            # Down the logarithm, as relaxed rows go: see `relaxed.descent`.
            network.gradient(parts, made, slope / (loss + MIN_LOSS), into)
            return float(loss)

        with torch.no_grad():
            pace = Training(steps, self.rate, self.average, self.floor, BETAS, exact=not self.resample)
            parts = network.parts(
                train_generator(network, weights, value_and_slope, pace, lambda: effort.over)
            )
            shares = network(parts, fixed).shares.cpu().numpy().astype(np.float64)
        return shares, [w.cpu().numpy() for w in parts]


DEGREE = 3
"""Public columns of a table that it is trained on beforehand, as in the paper."""


@dataclass(frozen=True, slots=True)
class PublicNetwork(Network):
    """The network of `Network` (GEM), which has learnt the public columns first (vGEM-pub).

    Before the first fit it is trained for `pretraining` rounds: each adds the table of three public columns
    that it explains worst, by L1 distance, and takes as many steps as any fit does, on the fixed noise
    vectors that it keeps from then on. A rough fit goes on from the weights of the one before, the last one
    from those of the pretraining, so that it follows from what is known alone; the one-way tables of the
    public columns are among its tables.

    Differences from the paper: the loss is that of `Network`, squares over variances, where the paper has the
    mean L1 distance; weights are averaged over the second half of a fit's steps, not over the rounds.

    **Privacy.** Sees released marginals and public rows only: post-processing.

    Args:
        given: The public rows as codes; None for none, which makes it `Network`.
        pretraining: Rounds on public tables, at least 0.

    Raises:
        InputError: An argument is out of range, or there is no such device.
        MissingExtraError: The device needs PyTorch, which is not installed.
    """

    given: Encoded | None = None
    pretraining: int = 10
    name: ClassVar[str] = "public_network"
    fit_seconds: ClassVar[float] = 2e-1
    options: ClassVar[frozenset[str]] = frozenset({"given"})
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"marginals", "public marginals"})

    def __post_init__(self) -> None:
        Network.__post_init__(self)
        if self.pretraining < 0:
            raise InputError(invalid("pretraining", "at least 0", "Try 10.", got=self.pretraining))

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> NetworkModel:
        """The network that explains the measurements, from the weights of `warm` in a rough fit, else from
        those of its pretraining.

        Raises:
            InputError: The tables do not fit the domain, total is not positive, or a fit would be too large.
            MissingExtraError: PyTorch is not installed.
        """
        before = warm.weights if effort.rough and isinstance(warm, NetworkModel) else ()
        start = before or self.pretrain(domain, rows, effort).weights
        measured = {table.clique for table in tables}
        ones = self._count_tables(domain, PublicRows.read(domain, self.given), rows, 1)
        known = [table for table in ones if table.clique not in measured]
        return self.fit_from(domain, [*tables, *known], rows, start, effort)

    def pretrain(self, domain: Domain, rows: float, effort: Effort = FULL) -> NetworkModel:
        """The network after its training on public tables; a fresh one without public rows.

        Args:
            domain: Names and sizes of the attributes.
            rows: To stand for.
            effort: After its deadline no other round begins.
        """
        public = PublicRows.read(domain, self.given)
        exact = self._count_tables(domain, public, rows, DEGREE)
        taken: list[Pooled] = []
        model = self.fit_from(domain, [], rows, (), Effort(rough=True, deadline=effort.deadline))
        for _ in range(min(self.pretraining, len(exact))):
            if effort.over:
                break
            expected = model.project_many([table.clique for table in exact])
            errors = [np.abs(t.values - own).sum() for t, own in zip(exact, expected, strict=True)]
            taken.append(exact.pop(int(np.argmax(errors))))
            model = self.fit_from(domain, taken, rows, model.weights, Effort(deadline=effort.deadline))
        return model

    def _count_tables(self, domain: Domain, public: PublicRows, rows: float, degree: int) -> list[Pooled]:
        """Exact tables of all sets of `degree` public columns that are not too large."""
        found: list[Pooled] = []
        for clique in combinations(public.names, min(degree, max(len(public.names), 1))):
            keys, size = public.key_cells(domain, clique)
            if size <= self.max_cells:
                counts = rows * np.bincount(keys, public.weights.astype(np.float64), minlength=size)
                shape = domain.shape(clique)
                exact = np.asarray(counts, dtype=np.float64).reshape(shape)
                found.append(Pooled(clique, exact, np.ones_like(exact)))
        return found
