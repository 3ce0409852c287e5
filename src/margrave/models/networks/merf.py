"""Merf: a generator network fitted to a noisy mean embedding and marginals.

A generator network fitted to a noisy mean embedding: DP-MERF; see docs/methods/dp_merf.md.

MerfModel: the mixture of products that a generator is, with the noisy embedding it was fitted to.

Waves: how far a mixture of products is from a noisy mean embedding, on PyTorch, with its derivative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, invalid
from margrave.limits import FULL, Effort
from margrave.models._base.constraints import resolve_dependencies, zero_forbidden
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import Pooled, pool, rows_of
from margrave.models._grouping import CodeGrouping, group_codes
from margrave.models._mixture.model import MixtureModel, undo_grouping
from margrave.models._products.misfit import Misfit
from margrave.models._products.products import Generator, Training, products_from_state, train_generator
from margrave.models._torch.device import BETAS, MIN_LOSS, Device, ready, serial
from margrave.models.networks.network import Network
from margrave.release import NoisyMoments
from margrave.schema.domain import Clique, Domain
from margrave.schema.features import TURN, Embedding

if TYPE_CHECKING:
    from margrave.protocols import LearnsFrom, Model
    from margrave.release import NoisyMarginal

Floats = NDArray[np.float64]


class MerfModel(DelegatingModel["Model"]):
    """A model and the moments that were released for it. All answers are the model's.

    The moments are kept with the saved model, so that a release file holds all that was released and a
    generator can be trained again without the table.

    Args:
        inner: The mixture that the generator is on its noise vectors.
        moments: What it was fitted to besides marginals.
    """

    def __init__(self, inner: Model, moments: NoisyMoments) -> None:
        super().__init__(inner)
        self.moments = moments

    def state(self) -> dict[str, Floats]:
        """Arrays from which `Merf.restore` builds the same model again."""
        features = self.moments.embedding
        places = [self.domain.index(name) for name in features.names]
        label = -1 if features.label is None else self.domain.index(features.label)
        return super().state() | {
            "moments_values": self.moments.values,
            "moments_sigma": np.asarray(self.moments.sigma),
            "moments_label": np.asarray(float(label)),
            "moments_columns": np.asarray(places, dtype=np.float64),
            "moments_phases": np.concatenate(features.phases).astype(np.float64),
        }


def remembered_moments(domain: Domain, state: Mapping[str, Floats]) -> NoisyMoments | None:
    """The moments in a saved state, if there are any.

    Raises:
        ReleaseError: They do not fit the domain.
    """
    if "moments_values" not in state:
        return None
    damaged = ReleaseError(invalid("state", "with whole moments", "The release is damaged."))
    # All of it comes from a file, so whatever does not fit is damage and no error of a library.
    try:
        places = [int(place) for place in state["moments_columns"]]
        phases, values = state["moments_phases"], np.asarray(state["moments_values"], dtype=np.float64)
        sigma, label = float(state["moments_sigma"]), int(state["moments_label"])
        names = tuple(domain.names[place] for place in places)
        cuts = np.cumsum(domain.shape(names))
        parts = np.split(np.asarray(phases, dtype=np.float64), cuts[:-1])
        sound = bool(((phases >= 0) & (phases < TURN)).all()) and np.isfinite(values).all() and sigma > 0
        tables = tuple(part.astype(np.uint16) for part in parts)
        features = Embedding(names, tables, None if label < 0 else domain.names[label])
        sound = sound and features.shape(domain) == values.shape
    except (KeyError, IndexError, ValueError, TypeError, OverflowError):
        raise damaged from None
    if not sound:
        raise damaged
    return NoisyMoments(features, values, sigma)


class Waves:
    """The sum over features of (model - measured)^2 / sigma^2; noise alone has an expectation of `count`.

    Inside a product the columns are independent, so the mean of exp(i (phase_1 + ... + phase_d)) is
    the product of the columns' means of exp(i phase_j): the embedding of a mixture is exact, where
    DP-MERF draws rows to estimate it. The derivative is written out.

    Args:
        domain: Names and sizes of the attributes.
        moments: What was released.
        rows: The number of rows that the model stands for.
        device: Where to compute.
        grouping: Attributes of which the domain has groups of codes; a group has its codes' mean point.
    """

    def __init__(
        self,
        domain: Domain,
        moments: NoisyMoments,
        rows: float,
        device: Device,
        grouping: CodeGrouping | None = None,
    ) -> None:
        self.device, self.features = device, moments.embedding
        single, starts = device.torch.float32, np.cumsum([0, *domain.sizes]).tolist()

        def part(name: str) -> slice:
            at = domain.index(name)
            return slice(starts[at], starts[at + 1])

        self._parts = [part(name) for name in self.features.names]
        self._label = None if self.features.label is None else part(self.features.label)
        # A phase is a whole number of TURN-ths of a turn; the feature is the point on the unit circle
        # there.
        points = [np.exp(2j * math.pi / TURN * table) for table in self.features.phases]
        if grouping is not None:
            points = [_met(p, name, grouping) for p, name in zip(points, self.features.names, strict=True)]
        self._waves = [device.put(np.stack([p.T.real, p.T.imag]), single) for p in points]
        labels = moments.values.shape[0]
        values = moments.values.reshape(labels, 2, self.frequencies).transpose(1, 2, 0) / rows
        self._values = device.put(values, single)
        self._weight = (rows / moments.sigma) ** 2

    @property
    def frequencies(self) -> int:
        """How many features there are."""
        return self.features.frequencies

    @property
    def count(self) -> int:
        """How many numbers are compared."""
        return int(self._values.numel())

    def means(self, shares: Any, chosen: slice) -> Any:
        """The mixture's mean embedding in proportions, cosines and sines: shape [2, chosen, labels].

        Args:
            shares: Each product's distribution over the codes of each attribute, shape [codes, products].
            chosen: Which features.
        """
        return self._average_by_label(_running_products(self._columns(shares, chosen))[1], shares)

    def value_and_slope(self, shares: Any, chosen: slice) -> tuple[Any, Any]:
        """The misfit, estimated without bias from some of the features, and its derivative by the shares."""
        columns, count = self._columns(shares, chosen), shares.shape[1]
        before, whole = _running_products(columns)
        off = self._average_by_label(whole, shares) - self._values[:, chosen]
        weight = self._weight * self.frequencies / whole.shape[1]
        pull, slope = off * (2.0 * weight / count), self.device.torch.zeros_like(shares)
        if self._label is None:
            after = pull.expand(whole.shape)
        else:
            after = pull @ shares[self._label]
            slope[self._label].addmm_(pull.flatten(0, 1).T, whole.flatten(0, 1))
        for k in reversed(range(len(columns))):
            down = after if k == 0 else _times(after, before[k - 1], -1.0)
            waves = self._waves[k][:, chosen].flatten(0, 1)
            slope[self._parts[k]].addmm_(waves.T, down.flatten(0, 1))
            if k:
                after = _times(after, columns[k], -1.0)
        return (off * off).sum() * weight, slope

    def _columns(self, shares: Any, chosen: slice) -> list[Any]:
        """Each column's means of exp(i phase) in each product, in planes: shapes [2, chosen, products]."""
        return [waves[:, chosen] @ shares[part] for part, waves in zip(self._parts, self._waves, strict=True)]

    def _average_by_label(self, whole: Any, shares: Any) -> Any:
        if self._label is None:
            return whole.mean(2, keepdim=True)
        return whole @ shares[self._label].T / shares.shape[1]


def _times(one: Any, other: Any, sign: float = 1.0) -> Any:
    """The product of complex numbers in planes, shapes [2, ...]; a sign of -1 conjugates `other`."""
    found = one * other[0]
    found[0].addcmul_(one[1], other[1], value=-sign)
    found[1].addcmul_(one[0], other[1], value=sign)
    return found


def _running_products(columns: Sequence[Any]) -> tuple[list[Any], Any]:
    """The products of the first column, the first two and so on, and that of all."""
    found = [columns[0]]
    for column in columns[1:]:
        found.append(_times(found[-1], column))
    return found, found[-1]


def _met(points: NDArray[np.complex128], name: str, grouping: CodeGrouping) -> NDArray[np.complex128]:
    """The mean point of each group's codes, by their shares: shape [groups, frequencies]."""
    if name not in grouping.groups:
        return points
    groups = grouping.groups[name]
    found = np.zeros((int(groups.max()) + 1, points.shape[1]), dtype=np.complex128)
    np.add.at(found, groups, points * grouping.shares[name][:, None])
    return found


RATE = 1.5e-3
"""Adam's first step length: of thousands of features most is noise, and longer steps fit that, too."""


@dataclass(frozen=True, slots=True)
class Merf(Estimator["Model"]):
    """DP-MERF's generator (Harder, Adamczewski and Park 2021), trained on released quantities alone.

    The network is that of `Network`: noise vectors to products of distributions, the label one of the
    columns. Adam lowers the squared residuals over their variances of all that was released together: the
    Fourier features by label (`waves`, some of them in each step), and every marginal, which includes the
    one-hot part of the embedding and the weights of the labels. The mixture on the fixed noise vectors
    is the model; a saved one needs no PyTorch. Columns that rules tie together are taken as independent
    inside a product by the Fourier part of the loss; the rows obey the rules as any mixture's do.

    Without moments it is `Network`, so any strategy goes with it.

    **Privacy.** Sees released quantities only: post-processing.

    Args:
        network: The network and how it is trained; its `resample` is not used.
        features: Fourier features in a step.

    Raises:
        InputError: An argument is out of range.
    """

    network: Network = field(default_factory=lambda: Network(components=160, steps=150, rate=RATE))
    features: int = 64
    name: ClassVar[str] = "merf"
    fit_seconds: ClassVar[float] = 1e-2
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"marginals", "moments"})

    def __post_init__(self) -> None:
        if self.features < 1:
            raise InputError(invalid("features", "at least 1", "Try the default.", got=self.features))

    def fit_tables(
        self, domain: Domain, tables: Sequence[Pooled], rows: float, warm: Model | None, effort: Effort
    ) -> Model:
        """A generator fitted to marginals alone: `Network.fit_tables`."""
        return self.network.fit_tables(domain, tables, rows, warm, effort)

    def fit_moments(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        moments: NoisyMoments | None,
        *,
        total: float | None = None,
        effort: Effort = FULL,
    ) -> Model:
        """The generator that explains marginals and moments together; after the deadline no step is taken.

        Args:
            domain: Names and sizes of the attributes.
            measurements: Released marginals.
            moments: Released Fourier features; None where no column has any.
            total: Rows to stand for; estimated from the measurements when None.
            effort: When to stop.

        Raises:
            InputError: The tables do not fit the domain, or total is not positive.
            MissingExtraError: PyTorch is not installed.
        """
        if moments is None:
            return self.fit(domain, measurements, total=total, effort=effort)
        rows, tables = rows_of(measurements, total), pool(domain, measurements)
        domain = resolve_dependencies(domain, tables)
        grouping = _group_codes(domain, tables, self.network.largest, moments.embedding.label)
        if grouping is None:
            return MerfModel(self._make_mixture(domain, tables, rows, moments, None, effort), moments)
        summed = [grouping.summed(table) for table in tables]
        model = self._make_mixture(grouping.inner, summed, rows, moments, grouping, effort)
        return MerfModel(undo_grouping(model, grouping, False), moments)

    def _make_mixture(
        self,
        domain: Domain,
        tables: Sequence[Pooled],
        rows: float,
        moments: NoisyMoments,
        grouping: CodeGrouping | None,
        effort: Effort,
    ) -> MixtureModel:
        """The mixture over a domain in which large attributes may be in groups."""
        device = ready(self.network.device)
        with serial(device):
            known = zero_forbidden(domain, tables, 1.0)
            misfit = Misfit(domain, known, rows, device)
            waves = Waves(domain, moments, rows, device, grouping)
            network = self.network.start_network(device, domain, known, rows)
            shares = self._train_network(device, network, misfit, waves, effort)
        starts = np.cumsum([0, *domain.sizes[:-1]])
        shares /= np.repeat(np.add.reduceat(shares, starts), domain.sizes, axis=0)
        count = shares.shape[1]
        return MixtureModel(domain, rows, np.full(count, 1.0 / count), shares, 0.0, None)

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> Model:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of a mixture over this domain.
        """
        model, moments = products_from_state(domain, state), remembered_moments(domain, state)
        return model if moments is None else MerfModel(model, moments)

    def prepare(self) -> None:
        """Check that PyTorch is there, before anything is spent.

        Raises:
            MissingExtraError: PyTorch is not installed.
        """
        ready(self.network.device)

    def admit(self, domain: Domain, cliques: Sequence[Clique]) -> None:
        """Check sizes and that PyTorch is there, before anything is measured: see `Network.admit`."""
        self.network.admit(domain, cliques)

    def cells(self, domain: Domain, cliques: Sequence[Clique], candidates: Sequence[Clique]) -> Floats:
        """Cells that a fit compares, see `Network.cells`: shape [candidates]."""
        return self.network.cells(domain, cliques, candidates)

    def count_codes(self, sizes: Sequence[int]) -> tuple[float, float]:
        """Codes that are modelled, and how many it takes at most: see `Network.count_codes`."""
        return self.network.count_codes(sizes)

    def _train_network(
        self, device: Device, network: Generator, misfit: Misfit, waves: Waves, effort: Effort
    ) -> Floats:
        """Shares on the fixed noise vectors under the averaged weights, [codes, components]."""
        net, rng, torch = self.network, np.random.default_rng((self.network.seed, 1)), device.torch
        noise = device.put(rng.standard_normal((net.components, net.noise)), torch.float32)
        numbers, some = misfit.cells + waves.count, min(self.features, waves.frequencies)

        def value_and_slope(parts: Sequence[Any], into: Sequence[Any]) -> float:
            made = network(parts, noise)
            loss, slope = misfit.value_and_slope(made.shares)
            # Frequencies were drawn alike, so that neighbours are as good as any.
            first = some * int(rng.integers(waves.frequencies // some))
            apart, more = waves.value_and_slope(made.shares, slice(first, first + some))
            whole = loss * misfit.cells + apart
            # Down the logarithm, as relaxed rows go: see `relaxed.descent`.
            network.gradient(parts, made, (slope * misfit.cells + more) / (whole + numbers * MIN_LOSS), into)
            return float(whole) / numbers

        with torch.no_grad():
            pace = Training(net.steps, net.rate, net.average, 0.0, BETAS, exact=False)
            found = train_generator(network, network.start, value_and_slope, pace, lambda: effort.over)
            shares = network(network.parts(found), noise).shares.cpu().numpy()
        return np.asarray(shares, dtype=np.float64)


def _group_codes(
    domain: Domain, tables: Sequence[Pooled], largest: int, label: str | None
) -> CodeGrouping | None:
    """Groups of codes for the attributes that have more than `largest`, the label excepted."""
    found = group_codes(domain, tables, largest)
    found = found if found is None or label is None else found.without([label])
    return found if found is not None and found.groups else None
