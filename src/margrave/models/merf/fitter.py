"""Merf: a generator network fitted to a noisy mean embedding and marginals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, invalid
from margrave.limits import FULL, Effort
from margrave.models.coarse import Coarse, coarsen
from margrave.models.device import Device
from margrave.models.merf.model import MerfModel, remembered_moments
from margrave.models.merf.waves import Waves
from margrave.models.mixture.grouped import ungrouped
from margrave.models.mixture.model import MixtureModel
from margrave.models.network.fitter import Network
from margrave.models.network.generator import Generator
from margrave.models.network.training import Training, trained
from margrave.models.pooled import Pooled, pool, rows_of
from margrave.models.relaxed.adam import BETAS
from margrave.models.relaxed.descent import LEAST
from margrave.models.relaxed.misfit import Misfit
from margrave.models.relaxed.products import loaded
from margrave.models.relaxed.serial import ready, serial
from margrave.models.ruled import settled, sharpened
from margrave.schema.domain import Clique, Domain

if TYPE_CHECKING:
    from margrave.protocols import Model
    from margrave.release import NoisyMarginal, NoisyMoments

__all__ = ["Merf"]

Floats = NDArray[np.float64]

RATE = 1.5e-3
"""Adam's first step length: of thousands of features most is noise, and longer steps fit that, too."""


@dataclass(frozen=True, slots=True)
class Merf:
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

    def __post_init__(self) -> None:
        if self.features < 1:
            raise InputError(invalid("features", "at least 1", "Try the default.", got=self.features))

    @property
    def name(self) -> str:
        """The name it is saved and resolved under."""
        return "merf"

    def fit(
        self,
        domain: Domain,
        measurements: Sequence[NoisyMarginal],
        *,
        total: float | None = None,
        warm: Model | None = None,
        effort: Effort = FULL,
    ) -> Model:
        """A generator fitted to marginals alone: `Network.fit`."""
        return self.network.fit(domain, measurements, total=total, warm=warm, effort=effort)

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
        domain = settled(domain, tables)
        coarse = _coarse(domain, tables, self.network.largest, moments.embedding.label)
        if coarse is None:
            return MerfModel(self._made(domain, tables, rows, moments, None, effort), moments)
        summed = [coarse.summed(table) for table in tables]
        model = self._made(coarse.inner, summed, rows, moments, coarse, effort)
        return MerfModel(ungrouped(model, coarse, False), moments)

    def _made(
        self,
        domain: Domain,
        tables: Sequence[Pooled],
        rows: float,
        moments: NoisyMoments,
        coarse: Coarse | None,
        effort: Effort,
    ) -> MixtureModel:
        """The mixture over a domain in which large attributes may be in groups."""
        device = ready(self.network.device)
        with serial(device):
            known = sharpened(domain, tables, 1.0)
            misfit = Misfit(domain, known, rows, device)
            waves = Waves(domain, moments, rows, device, coarse)
            network = self.network.started(device, domain, known, rows)
            shares = self._trained(device, network, misfit, waves, effort)
        starts = np.cumsum([0, *domain.sizes[:-1]])
        shares /= np.repeat(np.add.reduceat(shares, starts), domain.sizes, axis=0)
        count = shares.shape[1]
        return MixtureModel(domain, rows, np.full(count, 1.0 / count), shares, 0.0, None)

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> Model:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of a mixture over this domain.
        """
        model, moments = loaded(domain, measurements, state), remembered_moments(domain, state)
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

    def _trained(
        self, device: Device, network: Generator, misfit: Misfit, waves: Waves, effort: Effort
    ) -> Floats:
        """Shares on the fixed noise vectors under the averaged weights, [codes, components]."""
        net, rng, torch = self.network, np.random.default_rng((self.network.seed, 1)), device.torch
        noise = device.put(rng.standard_normal((net.components, net.noise)), torch.float32)
        numbers, some = misfit.cells + waves.count, min(self.features, waves.frequencies)

        def sloped(parts: Sequence[Any], into: Sequence[Any]) -> float:
            made = network(parts, noise)
            loss, slope = misfit.sloped(made.shares)
            # Frequencies were drawn alike, so that neighbours are as good as any.
            first = some * int(rng.integers(waves.frequencies // some))
            apart, more = waves.sloped(made.shares, slice(first, first + some))
            whole = loss * misfit.cells + apart
            # Down the logarithm, as relaxed rows go: see `relaxed.descent`.
            network.gradient(parts, made, (slope * misfit.cells + more) / (whole + numbers * LEAST), into)
            return float(whole) / numbers

        with torch.no_grad():
            pace = Training(net.steps, net.rate, net.average, 0.0, BETAS, exact=False)
            found = trained(network, network.start, sloped, pace, lambda: effort.over)
            shares = network(network.parts(found), noise).shares.cpu().numpy()
        return np.asarray(shares, dtype=np.float64)


def _coarse(domain: Domain, tables: Sequence[Pooled], largest: int, label: str | None) -> Coarse | None:
    """Groups of codes for the attributes that have more than `largest`, the label excepted."""
    found = coarsen(domain, tables, largest)
    found = found if found is None or label is None else found.without([label])
    return found if found is not None and found.groups else None
