"""Diffusion: TabDDPM's denoiser, trained at the door by noisy gradients, and the rows it draws.

`DiffusionModel` holds rows that a trained denoiser has drawn, with its weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.models._sampling.rows import row_model_from_state
from margrave.models._torch.device import ready
from margrave.models._torch.trained import DrawnRows, TrainedEstimator, code_domain
from margrave.models.diffusion.denoiser import Denoiser, cosine, draw_codes, spoken
from margrave.schema.domain import Domain

if TYPE_CHECKING:
    from margrave.protocols import LearnsFrom
    from margrave.release import NoisyMarginal


class DiffusionModel(DrawnRows):
    """Rows drawn by a denoiser, with its weights."""

    prefix = "denoiser_"


Floats = NDArray[np.float64]
DRAWS, PAIRS = 32, 1 << 13
"""Most draws of a row in one gradient, and most pairs of them over all layers: the door adds up the products
of all pairs, in whole numbers that have to stay below 2^63 (`measure.mechanisms.gradients`)."""


@dataclass(frozen=True, slots=True)
class Diffusion(TrainedEstimator[DiffusionModel]):
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
        coding = learner.coding
        said = spoken(coding, learner.schedule, learner.device, weights)
        model = self.draw_model(
            coding.domain,
            lambda rows, rng: draw_codes(coding, learner.schedule, said, rows, rng),
            measurements,
            total,
        )
        return DiffusionModel(model, weights)

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> DiffusionModel:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of such a model over this domain.
        """
        weights = DiffusionModel.read_weights(state)
        return DiffusionModel(row_model_from_state(domain, state), weights)
