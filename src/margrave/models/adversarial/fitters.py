"""Fitters of generators that learn against discriminators: by noisy gradients, or by noisy votes."""

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
from margrave.models.adversarial.networks import MOST_BATCH, Adversary, Generator, Judge, Teachers
from margrave.schema.domain import Domain

if TYPE_CHECKING:
    from margrave.protocols import LearnsFrom
    from margrave.release import NoisyMarginal

Floats = NDArray[np.float64]


class GeneratorModel(DrawnRows):
    """Rows drawn by a generator, with its weights."""

    prefix = "generator_"


@dataclass(frozen=True, slots=True)
class _Adversarial(TrainedEstimator[GeneratorModel]):
    """What the two fitters share: the generator, and rows of it. The model is those rows, as for `GUM`.

    Args:
        widths: Of the generator's hidden layers.
        judging: Of the discriminators' hidden layers.
        latent: Length of a noise vector.
        batch: Rows that are made in a step.
        average: Weight of the past in the running mean of the generator's weights, which draws the rows.
        most_rows: Rows that are drawn, at most; else as many as the model stands for.
        seed: Of the first weights and of the rows.
        device: "cpu", "cuda" or "cuda:N"; it needs double precision, so not "mps".

    Raises:
        InputError: An argument is out of range.
    """

    widths: tuple[int, ...] = (128, 128)
    judging: tuple[int, ...] = (64,)
    latent: int = 32
    batch: int = 256
    average: float = 0.95
    most_rows: int = 100_000
    seed: int = 0
    device: str | None = None

    def __post_init__(self) -> None:
        check_counts(latent=self.latent, batch=self.batch, most_rows=self.most_rows)
        if 2 * self.batch > MOST_BATCH:
            raise InputError(invalid("batch", f"at most {MOST_BATCH // 2}", "Try 128.", got=self.batch))
        for name, widths in (("widths", self.widths), ("judging", self.judging)):
            if not widths or min(widths) < 1:
                remedy = "Try (128, 128)."
                raise InputError(invalid(name, "one or more, each at least 1", remedy, got=widths))
        if not 0 <= self.average < 1:
            raise InputError(invalid("average", "at least 0 and below 1", "Try 0.95.", got=self.average))

    def make_networks(
        self, domain: Domain, target: str | None, ways: Mapping[str, Floats]
    ) -> tuple[Generator, Judge]:
        """Generator and discriminator for a domain.

        Args:
            domain: Names and sizes of the attributes.
            target: The label, or None.
            ways: Released distribution of each attribute, [codes].

        Raises:
            InputError: The rows have too many codes for the networks.
        """
        coding = code_domain(domain, target, ways)
        generator = Generator(coding, ready(self.device), self.latent, self.widths)
        return generator, Judge(ready(self.device), generator.width, self.judging)

    def finished(
        self,
        learner: Adversary | Teachers,
        weights: Sequence[Floats],
        measurements: Sequence[NoisyMarginal],
        total: float,
    ) -> GeneratorModel:
        """The model of a trained generator.

        Args:
            learner: As it was trained.
            weights: What the training released.
            measurements: Released marginals; rules are read off them where that is needed.
            total: Rows to stand for.
        """
        generator = learner.generator
        model = self.draw_model(
            generator.coding.domain,
            lambda rows, rng: generator.draw_codes(weights, rows, rng),
            measurements,
            total,
        )
        return GeneratorModel(model, weights)

    def restore_model(
        self, domain: Domain, measurements: Sequence[NoisyMarginal], state: Mapping[str, Floats]
    ) -> GeneratorModel:
        """The model whose `state` was saved, with no optimisation and no PyTorch.

        Raises:
            ReleaseError: The state is not that of such a model over this domain.
        """
        weights = GeneratorModel.read_weights(state)
        return GeneratorModel(row_model_from_state(domain, state), weights)


@dataclass(frozen=True, slots=True)
class GradientGan(_Adversarial):
    """A generator against a discriminator that learns by noisy gradients (DP-SGD): see `Adversary`.

    `learner` gives what `Training` has trained at the door. It learns from gradients only.

    Args:
        turns: Steps of the discriminator to one of the generator.
        rates: Adam's step lengths of the discriminator and of the generator.
        scale: What gradients are multiplied by before they are cut to norm 1.
    """

    turns: int = 2
    rates: tuple[float, float] = (5e-3, 1e-3)
    scale: float = 1.0
    name: ClassVar[str] = "gan"
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"gradients"})

    def __post_init__(self) -> None:
        _Adversarial.__post_init__(self)
        check_counts(turns=self.turns)
        _check_rates((*self.rates, self.scale))

    def learner(
        self, domain: Domain, target: str | None, ways: Mapping[str, Floats], rows: float
    ) -> Adversary:
        """What is to be trained at the door.

        Args:
            domain, target, ways: As for `make_networks`.
            rows: Expected in a sample.

        Raises:
            InputError: The rows have too many codes for the networks.
        """
        generator, judge = self.make_networks(domain, target, ways)
        return Adversary(
            generator=generator,
            judge=judge,
            rows=max(rows, 1.0),
            batch=self.batch,
            turns=self.turns,
            rates=self.rates,
            scale=self.scale,
            average=self.average,
            seed=self.seed,
        )


@dataclass(frozen=True, slots=True)
class VotedGan(_Adversarial):
    """A generator against a student of teachers that vote with noise (PATE-GAN): see `Teachers`.

    `ensemble` gives what `Votes` has asked at the door. It learns from votes only.

    Args:
        questions: Made rows that teachers vote on in a round.
        lessons: Steps of each teacher in a round.
        turns: Steps of the student, and of the generator, in a round.
        memory: Rounds whose answers the student learns from.
        rates: Adam's step lengths of teachers, student and generator.
    """

    judging: tuple[int, ...] = (32,)
    batch: int = 32
    questions: int = 128
    lessons: int = 3
    turns: tuple[int, int] = (10, 2)
    memory: int = 60
    rates: tuple[float, float, float] = (1e-2, 3e-3, 2e-4)
    name: ClassVar[str] = "voted_gan"
    fit_seconds: ClassVar[float] = 1.0
    learns_from: ClassVar[frozenset[LearnsFrom]] = frozenset({"votes"})

    def __post_init__(self) -> None:
        _Adversarial.__post_init__(self)
        check_counts(questions=self.questions, lessons=self.lessons, memory=self.memory)
        if self.questions > MOST_BATCH:
            raise InputError(invalid("questions", f"at most {MOST_BATCH}", "Try 128.", got=self.questions))
        if len(self.turns) != 2 or min(self.turns) < 1:
            raise InputError(invalid("turns", "two numbers of at least 1", "Try (10, 2).", got=self.turns))
        _check_rates(self.rates)

    def ensemble(
        self, domain: Domain, target: str | None, ways: Mapping[str, Floats], teachers: int
    ) -> Teachers:
        """Who is to be asked at the door.

        Args:
            domain, target, ways: As for `make_networks`.
            teachers: How many there are.

        Raises:
            InputError: The rows have too many codes for the networks.
        """
        generator, judge = self.make_networks(domain, target, ways)
        return Teachers(
            generator=generator,
            judge=judge,
            teachers=teachers,
            questions=self.questions,
            lessons=self.lessons,
            batch=self.batch,
            turns=self.turns,
            memory=self.memory,
            rates=self.rates,
            average=self.average,
            seed=self.seed,
        )


def _check_rates(rates: Sequence[float]) -> None:
    if len(rates) != 3 or not all(math.isfinite(rate) and rate > 0 for rate in rates):
        raise InputError(invalid("rates and scale", "above 0", "Try the defaults.", got=rates))
