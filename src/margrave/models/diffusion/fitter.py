"""Diffusion: TabDDPM's denoiser, trained at the door by noisy gradients, and the rows it draws.

`DiffusionModel` holds rows that a trained denoiser has drawn, with its weights.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, ReleaseError, check_counts, invalid
from margrave.models._base.constraints import resolve_dependencies
from margrave.models._base.estimator import Estimator
from margrave.models._base.model import DelegatingModel
from margrave.models._base.pooling import pool
from margrave.models._sampling.coding import code_domain
from margrave.models._sampling.rows import RowModel, row_dtype, row_model_from_state
from margrave.models._torch.device import ready, serial
from margrave.models.diffusion.denoiser import Denoiser, cosine, draw_codes, spoken
from margrave.schema.domain import Domain

if TYPE_CHECKING:
    from margrave.protocols import LearnsFrom
    from margrave.release import NoisyMarginal

WEIGHTS = "denoiser_"


class DiffusionModel(DelegatingModel[RowModel]):
    """Rows drawn by a denoiser; all answers are theirs.

    The weights are kept with the saved model, so that a release file holds all that was released.

    Args:
        inner: The rows.
        weights: Of each layer, [out, in + 1].
    """

    def __init__(self, inner: RowModel, weights: Sequence[NDArray[np.float64]]) -> None:
        super().__init__(inner)
        self.weights = tuple(weights)

    def state(self) -> dict[str, NDArray[Any]]:
        """Arrays from which `Diffusion.restore` builds the same model again."""
        return super().state() | {f"{WEIGHTS}{k}": weight for k, weight in enumerate(self.weights)}


def remembered_weights(state: Mapping[str, NDArray[Any]]) -> list[NDArray[np.float64]]:
    """The weights in a saved state; none where it holds none.

    Raises:
        ReleaseError: They do not fit each other.
    """
    count = sum(name.startswith(WEIGHTS) for name in state)
    found = [np.asarray(state.get(f"{WEIGHTS}{k}", ())) for k in range(count)]
    sound = all(weight.ndim == 2 and weight.dtype.kind == "f" for weight in found)
    sound = sound and all(bool(np.isfinite(weight).all()) for weight in found)
    pairs = itertools.pairwise(found)
    if not sound or any(below.shape[0] + 1 != above.shape[1] for below, above in pairs):
        raise ReleaseError(invalid("state", "with whole weights", "The release is damaged."))
    return found


Floats = NDArray[np.float64]
T = TypeVar("T")
DRAWS, PAIRS = 32, 1 << 13
"""Most draws of a row in one gradient, and most pairs of them over all layers: the door adds up the products
of all pairs, in whole numbers that have to stay below 2^63 (`measure.mechanisms.gradients`)."""


@dataclass(frozen=True, slots=True)
class Diffusion(Estimator["DiffusionModel"]):
    """Gaussian and multinomial diffusion of rows (Kotelnikov, Baranchuk, Rubachev and Babenko 2023, TabDDPM).

    `learner` gives what `Training` has trained at the door, and `finished` draws rows with it: the model is
    those rows, so that rows given codes are those of them which have them, as for `GUM`. It learns from
    gradients only: strategies that buy marginals are refused before anything is spent.

    Args:
        widths: Of the hidden layers.
        times: Steps of the diffusion.
        draws: How often a row is noised in one gradient.
        rate: Adam's step length.
        average: Weight of the past in the running mean of the weights, which draws the rows.
        most_rows: Rows that are drawn, at most; else as many as the model stands for.
        seed: Of the first weights and of the rows.
        device: "cpu", "cuda" or "cuda:N"; it needs double precision, so not "mps".

    Raises:
        InputError: An argument is out of range.
    """

    widths: tuple[int, ...] = (128, 128)
    times: int = 100
    draws: int = 2
    rate: float = 8e-3
    average: float = 0.99
    most_rows: int = 100_000
    seed: int = 0
    device: str | None = None
    name: ClassVar[str] = "diffusion"
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"gradients"})

    def __post_init__(self) -> None:
        check_counts(times=self.times, draws=self.draws, most_rows=self.most_rows)
        if self.draws > DRAWS:
            raise InputError(invalid("draws", f"at most {DRAWS}", "Try 2.", got=self.draws))
        if not self.widths or min(self.widths) < 1:
            remedy = "Try (128, 128)."
            raise InputError(invalid("widths", "one or more, each at least 1", remedy, got=self.widths))
        if self.draws**2 * (len(self.widths) + 1) > PAIRS:
            most = f"so few that draws^2 times the number of layers is at most {PAIRS}"
            raise InputError(invalid("draws and widths", most, "Try draws=2."))
        if not (math.isfinite(self.rate) and self.rate > 0 and 0 <= self.average < 1):
            remedy = "Try rate=0.008 and average=0.99."
            raise InputError(invalid("rate", "above 0, and average in [0, 1)", remedy, got=self.rate))

    def prepare(self) -> None:
        """Check that PyTorch and the device are there and will do, before anything is spent.

        Raises:
            InputError: There is no such device, or it has no double precision.
            MissingExtraError: PyTorch is not installed.
        """
        if not ready(self.device).double:
            remedy = "Leave it out for the processor."
            raise InputError(invalid("device", "one with double precision", remedy, got=self.device))

    def learner(
        self, domain: Domain, target: str | None, ways: Mapping[str, Floats], rows: float
    ) -> Denoiser:
        """What is to be trained at the door.

        Args:
            domain: Names and sizes of the attributes.
            target: The label, or None.
            ways: Released distribution of each attribute, [codes].
            rows: Expected in a sample.

        Raises:
            InputError: The rows have too many codes for the network.
        """
        return Denoiser(
            coding=code_domain(domain, target, ways),
            schedule=cosine(self.times),
            device=ready(self.device),
            widths=self.widths,
            draws=self.draws,
            rows=max(rows, 1.0),
            rate=self.rate,
            average=self.average,
            seed=self.seed,
        )

    def alone(self, work: Callable[[], T]) -> T:
        """What some work with the network returns, done on one thread of the processor; see `serial`."""
        with serial(ready(self.device)):
            return work()

    def finished(
        self,
        learner: Denoiser,
        weights: Sequence[Floats],
        measurements: Sequence[NoisyMarginal],
        total: float,
    ) -> DiffusionModel:
        """The model of a trained learner.

        Args:
            learner: As `learner` gave it.
            weights: What the training released.
            measurements: Released marginals; rules are read off them where that is needed.
            total: Rows to stand for.
        """
        coding, rng = learner.coding, np.random.default_rng(self.seed)
        rows = min(max(round(total), 1), self.most_rows)
        said = spoken(coding, learner.schedule, learner.device, weights)
        columns = np.array(self.alone(lambda: draw_codes(coding, learner.schedule, said, rows, rng)))
        domain = resolve_dependencies(coding.domain, pool(coding.domain, measurements))
        return DiffusionModel(
            RowModel(domain, total, domain.names, columns.astype(row_dtype(domain))), weights
        )

    def restore(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> DiffusionModel:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of such a model over this domain.
        """
        weights = remembered_weights(state)
        if not weights:
            raise ReleaseError(invalid("state", "with the network's weights", "The release is damaged."))
        return DiffusionModel(row_model_from_state(domain, measurements, state), weights)
