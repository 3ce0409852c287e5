"""Rows as vectors, the generator that makes them up, what tells them from real ones, and how both learn.

A row is a vector of the normal scores of its numbers (times 1/2), an indicator for each value of its
categories, and one for each label. The generator is given Gaussian noise and a label, and says the scores
and the values' logits, to which those of the released one-ways are added: last layers begin at 0, so that an
untrained generator draws independent columns with the released one-ways. It hands on values as indicators;
where gradients pass these count as the probabilities they were drawn from (the straight-through estimator
with Gumbel noise: Jang, Gu and Poole 2017).

A discriminator (`Judge`) says how likely a row is a real one, as a logit. What it makes of a row hangs on
that row alone, bit for bit, and what it learns from a batch on the batch alone: vectors are made by looking
up and single operations, and rounded; the layers are those of `models._torch.exact`; the sigmoid is looked
up in a table at logits in steps of 1/64; and sums over at most MOST_BATCH rows are of multiples of 2^-28
below 2^20, so exact.

Who learns how follows in two parts. An adversary learns from rows by noisy gradients, teachers by noisy
votes; both are what the door is handed, so both have to be read by whoever checks that a row's part hangs on
that row, or a teacher on its own part of the rows, alone.

**By noisy gradients** (`Adversary`). The discriminator says how likely a row is a real one, as a logit. The
door gives the noisy sum of the gradients of -ln sigmoid(logit) of real rows, each of norm 1 at most (Abadi et
al. 2016; as a generator's only touch with rows: Xie et al. 2018). Those of made rows, -ln(1 -
sigmoid(logit)), are taken here, in public, each cut to norm 1 as well, so that both sides weigh alike.
Between steps of the generator the discriminator takes several: where its gradients are noisy, that is what
helps most (Bie, Kamath and Zhang 2023).

A row's gradient hangs on that row alone, bit for bit, as the door asks: see `Judge`.

**By noisy votes** (`Teachers`): discriminators that each see a part of the rows, and a student that sees
their votes alone: PATE-GAN (Yoon, Jordon and van der Schaar 2019). In a round every teacher learns to tell
rows of its part from made ones and votes on Q made rows. The student learns from noisy counts of the votes,
the generator from the student. Neither sees a real row, so the door charges for the votes alone
(`measure.mechanisms.votes`).

Two things are other than in the paper. *Votes are not cut to yes or no*: the released count of yes, divided
by the number of teachers, is the student's target. It costs the same, and as the gradient of the
cross-entropy is linear in the target, noise of mean 0 in it is noise of mean 0 in the gradient: it averages
out over questions, however large, where the larger of two noisy counts is a coin's throw. *Answered
questions are kept*: they are public, so the student learns from those of the last rounds as well.

A teacher hangs on its own part alone, bit for bit: on what the door shows it, its numbers and the public
state, by exact sums (`Judge`) and single operations.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from margrave.models._sampling.rounding import draw_column
from margrave.models._torch.device import Device
from margrave.models._torch.exact import (
    DEEPEST,
    LOGIT,
    check_widths,
    move_weights,
    pass_back,
    pass_forward,
    round_input,
    round_weights,
)
from margrave.models._torch.trained import MAX_SCORE, ROWS_AT_ONCE, Coding

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]

BETAS = (0.5, 0.99)
"""Adam's: with much memory of past gradients two networks that follow each other swing (Radford et al.
2016)."""
SHRINK = 0.5
"""Scores are multiplied by it, so that a number weighs about as much as an indicator."""
LEAST_SHARE = 1e-3
"""Least share of a value in the logits that the generator begins with, so that none is out of its reach."""
MOST_BATCH = 1 << 10
"""Most rows of a batch: sums over so many are exact, see the head of this file."""
SIGMOID = np.rint(expit(np.arange(-DEEPEST * LOGIT, DEEPEST * LOGIT + 1) / LOGIT) * 2.0**20) / 2.0**20
"""sigmoid(k / 64) in steps of 2^-20, for k from -1024 to 1024."""


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """The weights of a network and Adam's running means, all float64.

    Args:
        layers: Of each layer, [out, in + 1], the last column for a constant 1.
        means, squares: Of the gradients and of their squares.
        step: How many steps were taken.
    """

    layers: tuple[Floats, ...]
    means: tuple[Floats, ...]
    squares: tuple[Floats, ...]
    step: int = 0

    @classmethod
    def begin(cls, layers: Sequence[Floats]) -> Weights:
        """Before the first step."""
        nothing = tuple(np.zeros_like(layer) for layer in layers)
        return cls(tuple(layers), nothing, nothing)

    def moved(self, slopes: Sequence[Floats], rate: float) -> Weights:
        """The weights after a step of Adam down the slopes."""
        step, memory = self.step + 1, (self.means, self.squares)
        layers, means, squares = move_weights(self.layers, memory, slopes, step, rate, BETAS, 1e-8)
        return Weights(layers, means, squares, step)


def _start_layers(widths: Sequence[int], rng: np.random.Generator) -> list[Floats]:
    """Normal weights of variance 2 over the inputs, offsets of 0; all of the last layer are 0."""
    found = []
    for into, out in itertools.pairwise(widths):
        made = rng.standard_normal((out, into + 1)) * np.sqrt(2.0 / into)
        made[:, -1] = 0.0
        found.append(made)
    found[-1] = np.zeros_like(found[-1])
    return found


def build_vectors(coding: Coding, codes: Longs, uniform: Floats) -> Floats:
    """Rows as vectors, each made of its own codes and numbers alone, [rows, coding's width].

    Args:
        coding: Of the rows.
        codes: In the domain's order, [rows, attributes].
        uniform: In (0, 1), [rows, numbers]: where in its code's interval a score lies.
    """
    parts = []
    for k, number in enumerate(coding.numbers):
        mine, known = number.scores(codes[:, number.place], uniform[:, k])
        parts.append((np.where(known, mine, 0.0) * SHRINK)[:, None])
    for category in coding.categories:
        parts.append(np.eye(category.size)[category.values[codes[:, category.place]]])
    if coding.target is not None:
        parts.append(np.eye(coding.labels)[codes[:, coding.target]])
    return np.concatenate(parts, axis=1) if parts else np.zeros((len(codes), 0))


def draw_labels(coding: Coding, rows: int, rng: np.random.Generator) -> Longs:
    """As many of each label as its share says, to within one, in random order; 0 without a target."""
    if coding.target is None:
        return np.zeros(rows, dtype=np.int64)
    groups, order = np.zeros(rows, dtype=np.int64), rng.permutation(rows)
    return np.asarray(draw_column(groups, order, coding.label[None], rng), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """A discriminator: says of a row's vector, as a logit, how likely it is of a real one.

    Args:
        device: Where to compute; it must have double precision.
        width: Length of a row's vector.
        widths: Of the hidden layers.

    Raises:
        InputError: A layer is too wide.
    """

    device: Device
    width: int
    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        check_widths((self.width, *self.widths))

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of each weight matrix."""
        layers = (self.width, *self.widths, 1)
        return tuple((out, into + 1) for into, out in itertools.pairwise(layers))

    def start(self, rng: np.random.Generator) -> Weights:
        """Weights before the first step; 0 in the last layer, so that it says of no row anything yet."""
        return Weights.begin(_start_layers((self.width, *self.widths, 1), rng))

    def say(self, weights: Weights, given: Floats) -> Floats:
        """The logits of rows' vectors, [rows]."""
        held = round_weights(self.device, weights.layers)
        _, out = pass_forward(self.device, held, round_input(given))
        return np.asarray(out[:, 0].cpu().numpy())

    def factors(self, weights: Weights, given: Floats, truth: Floats) -> list[tuple[Any, Any]]:
        """Of each row's gradient of its cross-entropy, [rows, out] and [rows, in + 1], for each layer.

        Args:
            weights: Of the layers.
            given: Vectors, [rows, width].
            truth: 1 for real rows and 0 for made ones, or a noisy estimate of that, [rows].
        """
        on, torch = self.device, self.device.torch
        held = round_weights(on, weights.layers)
        entering, out = pass_forward(on, held, round_input(given))
        place = (out.clamp(-float(DEEPEST), float(DEEPEST)) * LOGIT).round().long() + DEEPEST * LOGIT
        slope = on.put(SIGMOID, torch.float64)[place] - on.put(truth[:, None], torch.float64)
        return pass_back(held, entering, slope)

    def slopes(self, weights: Weights, given: Floats, truth: Floats) -> list[Floats]:
        """The mean over rows of these gradients; at most MOST_BATCH rows."""
        factors = self.factors(weights, given, truth)
        return [np.asarray((left.T @ right).cpu().numpy()) / len(given) for left, right in factors]


@dataclass(frozen=True, slots=True, eq=False)
class Generator:
    """Makes rows of Gaussian noise and labels.

    Args:
        coding: Of the rows.
        device: Where to compute, in single precision.
        latent: Length of a noise vector.
        widths: Of the hidden layers.
    """

    coding: Coding
    device: Device
    latent: int
    widths: tuple[int, ...]

    @property
    def outputs(self) -> int:
        """Scores and values that it says."""
        return len(self.coding.numbers) + self.coding.values

    @property
    def width(self) -> int:
        """Length of a row's vector."""
        return self.outputs + self.coding.labels

    def start(self, rng: np.random.Generator) -> Weights:
        """Weights before the first step; 0 in the last layer, but for what spreads the scores."""
        layers = _start_layers((self.latent + self.coding.labels, *self.widths, self.outputs), rng)
        numbers = len(self.coding.numbers)
        # Scores are that of an independent normal already: noise passes through the hidden layers as it is.
        size = 1.0 / np.sqrt(max(self.widths[-1], 1))
        layers[-1][:numbers, :-1] = rng.standard_normal((numbers, self.widths[-1])) * size
        return Weights.begin(layers)

    def put_layers(self, weights: Weights, *, learns: bool = False) -> list[Any]:
        """The weights on the device, to be differentiated by where it learns."""
        single = self.device.torch.float32
        found = [self.device.put(layer, single) for layer in weights.layers]
        return [layer.requires_grad_(learns) for layer in found]

    def say(self, layers: Sequence[Any], labels: Longs, rng: np.random.Generator) -> tuple[Any, Any]:
        """Scores [rows, numbers], cut to where they can be, and logits [rows, values] for rows of some
        labels."""
        torch, on, coding = self.device.torch, self.device, self.coding
        noise = rng.standard_normal((len(labels), self.latent))
        marks = np.eye(coding.labels)[labels] if coding.labels else np.zeros((len(labels), 0))
        out = _score(torch, layers, on.put(np.concatenate([noise, marks], axis=1), torch.float32))
        numbers = len(coding.numbers)
        shares = [np.log(np.maximum(c.prior, LEAST_SHARE)) for c in coding.categories]
        offset = on.put(np.concatenate([np.zeros(0), *shares]), torch.float32)
        return out[:, :numbers].clamp(-MAX_SCORE, MAX_SCORE), out[:, numbers:] + offset

    def make(self, layers: Sequence[Any], labels: Longs, rng: np.random.Generator) -> Any:
        """Rows as vectors, [rows, width], which gradients pass to the weights."""
        torch, on, coding = self.device.torch, self.device, self.coding
        scores, logits = self.say(layers, labels, rng)
        parts, start = [scores * SHRINK], 0
        drawn = on.put(rng.gumbel(size=tuple(logits.shape)), torch.float32)
        for category in coding.categories:
            own = slice(start, start + category.size)
            start += category.size
            soft = torch.softmax(logits[:, own], dim=1)
            best = (logits[:, own] + drawn[:, own]).argmax(dim=1)
            hard = torch.nn.functional.one_hot(best, category.size).to(soft.dtype)
            parts.append(hard + soft - soft.detach())
        if coding.labels:
            parts.append(on.put(np.eye(coding.labels)[labels], torch.float32))
        return torch.cat(parts, dim=1)

    def make_vectors(self, weights: Weights, rows: int, rng: np.random.Generator) -> Floats:
        """Vectors of made rows, [rows, width], with labels as their shares say."""
        labels = draw_labels(self.coding, rows, rng)
        with self.device.torch.no_grad():
            made = self.make(self.put_layers(weights), labels, rng)
        return np.asarray(made.cpu().numpy(), dtype=np.float64)

    def follow(
        self, weights: Weights, judge: Sequence[Floats], rows: int, rate: float, rng: np.random.Generator
    ) -> Weights:
        """A step of Adam towards rows that a discriminator takes for real: down the mean of -ln
        sigmoid(logit)."""
        torch, on = self.device.torch, self.device
        layers = self.put_layers(weights, learns=True)
        made = self.make(layers, draw_labels(self.coding, rows, rng), rng)
        logits = _score(torch, [on.put(layer, torch.float32) for layer in judge], made)
        slopes = torch.autograd.grad(torch.nn.functional.softplus(-logits).mean(), layers)
        return weights.moved([np.asarray(s.cpu().numpy(), dtype=np.float64) for s in slopes], rate)

    def draw_codes(self, layers: Sequence[Floats], rows: int, rng: np.random.Generator) -> list[Longs]:
        """Codes of each attribute, [rows] each, in the domain's order."""
        torch, coding = self.device.torch, self.coding
        own = [self.device.put(layer, torch.float32) for layer in layers]
        labels, blocks = draw_labels(coding, rows, rng), []
        for first in range(0, max(rows, 1), ROWS_AT_ONCE):
            mine = labels[first : first + ROWS_AT_ONCE]
            with torch.no_grad():
                scores, logits = self.say(own, mine, rng)
            noisy = logits.cpu().numpy().astype(np.float64) + rng.gumbel(size=tuple(logits.shape))
            values, start = np.zeros((len(mine), len(coding.categories)), dtype=np.int64), 0
            for k, category in enumerate(coding.categories):
                values[:, k] = noisy[:, start : start + category.size].argmax(axis=1)
                start += category.size
            blocks.append(coding.columns(mine, scores.cpu().numpy().astype(np.float64), values))
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _score(torch: Any, layers: Sequence[Any], rows: Any) -> Any:
    """What dense layers with ReLU between them say of vectors: [rows, out]."""
    for k, layer in enumerate(layers):
        rows = torch.addmm(layer[:, -1], rows, layer[:, :-1].T)
        if k + 1 < len(layers):
            rows = rows.clamp(min=0.0)
    return rows


@dataclass(frozen=True, slots=True, eq=False)
class AdversaryState:
    """Where a training is, all of it public.

    Args:
        judge: The discriminator.
        maker: The generator.
        average: Running mean of the generator's weights, which is what is kept at the end.
        step: How many noisy gradients were taken.
    """

    judge: Weights
    maker: Weights
    average: tuple[Floats, ...]
    step: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Adversary:
    """A `Learner`, to be trained with a clip of 1.

    Args:
        generator: What makes rows.
        judge: The discriminator.
        rows: Real rows expected in a sample, by public or released numbers.
        batch: Rows that are made in a step.
        turns: Steps of the discriminator to one of the generator.
        rates: Adam's step lengths of the discriminator and of the generator.
        scale: What gradients are multiplied by before they are cut to norm 1.
        average: Weight of the past in the running mean of the generator's weights.
        seed: Of first weights and of made rows.
    """

    generator: Generator
    judge: Judge
    rows: float
    batch: int
    turns: int
    rates: tuple[float, float]
    scale: float
    average: float
    seed: int

    @property
    def coding(self) -> Coding:
        """Of the rows."""
        return self.generator.coding

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of each weight matrix of the discriminator."""
        return self.judge.shapes

    @property
    def uniforms(self) -> int:
        """One number for the score of each number of a row."""
        return len(self.generator.coding.numbers)

    def start(self) -> AdversaryState:
        """Discriminator and generator before the first step."""
        rng = np.random.default_rng((self.seed, 0))
        maker = self.generator.start(rng)
        return AdversaryState(self.judge.start(rng), maker, maker.layers)

    def factors(self, state: AdversaryState, codes: Longs, uniform: Floats) -> list[tuple[Any, Any]]:
        """Each row's gradient as a real row, as factors: see `protocols.Learner`."""
        given = build_vectors(self.generator.coding, codes, uniform)
        found = self.judge.factors(state.judge, given, np.ones(len(given)))
        return [((left * self.scale)[:, None], right[:, None]) for left, right in found]

    def moved(self, state: AdversaryState, gradients: Sequence[Floats]) -> AdversaryState:
        """A step of the discriminator, and of the generator where it is its turn."""
        rng = np.random.default_rng((self.seed, 1 + state.step))
        against = self._average_made(state, rng)
        slopes = [gradient / self.rows + own for gradient, own in zip(gradients, against, strict=True)]
        state = replace(state, judge=state.judge.moved(slopes, self.rates[0]), step=state.step + 1)
        if state.step % self.turns:
            return state
        maker = self.generator.follow(state.maker, state.judge.layers, self.batch, self.rates[1], rng)
        stay = min(self.average, maker.step / (10.0 + maker.step))
        kept = zip(state.average, maker.layers, strict=True)
        return replace(state, maker=maker, average=tuple(stay * a + (1.0 - stay) * w for a, w in kept))

    def _average_made(self, state: AdversaryState, rng: np.random.Generator) -> list[Floats]:
        """The mean gradient of made rows, each cut to norm 1."""
        made = self.generator.make_vectors(state.maker, self.batch, rng)
        factors = self.judge.factors(state.judge, made, np.zeros(len(made)))
        squares: Any = sum(left.square().sum(1) * right.square().sum(1) for left, right in factors)
        # A gradient of norm up to 1 is taken whole, a longer one over its norm; then all are averaged.
        norms = squares.sqrt() * self.scale
        cut = norms.clamp(min=1.0).reciprocal()[:, None] * (self.scale / len(made))
        return [np.asarray(((left * cut).T @ right).cpu().numpy()) for left, right in factors]

    def finished(self, state: AdversaryState) -> tuple[Floats, ...]:
        """The averaged weights of the generator."""
        return state.average


@dataclass(frozen=True, slots=True, eq=False)
class TeachersState:
    """Where a training is, all of it public.

    Args:
        student: Learns from votes.
        maker: The generator.
        average: Running mean of the generator's weights, which is what is kept at the end.
        made: Vectors of made rows that teachers learn from in the next round, [shown, width].
        asked: Vectors of those they vote on, [questions, width].
        answered, answers: Vectors of questions of the last rounds, and noisy shares of yes.
        step: How many rounds there were.
    """

    student: Weights
    maker: Weights
    average: tuple[Floats, ...]
    made: Floats
    asked: Floats
    answered: Floats
    answers: Floats
    step: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Teachers:
    """An `Ensemble`.

    Args:
        generator: What makes rows.
        judge: Teachers and student are networks of this shape.
        teachers: How many there are.
        questions: Made rows that they vote on in a round.
        lessons: Steps of each teacher in a round.
        batch: Rows of its part in a step of a teacher, and as many made ones.
        turns: Steps of the student, and of the generator, in a round.
        memory: Rounds whose answers the student learns from.
        rates: Adam's step lengths of teachers, student and generator.
        average: Weight of the past in the running mean of the generator's weights.
        seed: Of first weights and of made rows.
    """

    generator: Generator
    judge: Judge
    teachers: int
    questions: int
    lessons: int
    batch: int
    turns: tuple[int, int]
    memory: int
    rates: tuple[float, float, float]
    average: float
    seed: int

    @property
    def coding(self) -> Coding:
        """Of the rows."""
        return self.generator.coding

    @property
    def shown(self) -> int:
        """How many rows a teacher is shown in a round."""
        return self.lessons * self.batch

    @property
    def uniforms(self) -> int:
        """One number for the score of each number of a row."""
        return self.shown * len(self.generator.coding.numbers)

    def start(self) -> TeachersState:
        """Student and generator before the first round, and the first questions."""
        rng = np.random.default_rng((self.seed, 0))
        maker, student = self.generator.start(rng), self.judge.start(rng)
        nothing = np.zeros((0, self.generator.width))
        return self._ask(
            TeachersState(student, maker, maker.layers, nothing, nothing, nothing, np.zeros(0)), rng
        )

    def _ask(self, state: TeachersState, rng: np.random.Generator) -> TeachersState:
        """The state with rows made anew."""
        made = self.generator.make_vectors(state.maker, self.shown + self.questions, rng)
        return replace(state, made=made[: self.shown], asked=made[self.shown :])

    def hire(self, place: int) -> Weights:
        """A teacher before it has seen a row."""
        return self.judge.start(np.random.default_rng((self.seed, 1, place)))

    def taught(
        self, state: TeachersState, teacher: Weights, codes: Longs, uniform: Floats
    ) -> tuple[Weights, Floats]:
        """The teacher after a round, and its logits of the questions: see `protocols.Ensemble`."""
        rows = build_vectors(self.generator.coding, codes, uniform.reshape(len(codes), -1))
        truth = np.repeat([1.0, 0.0], self.batch)
        for k in range(self.lessons):
            own = slice(k * self.batch, (k + 1) * self.batch)
            both = np.concatenate([rows[own], state.made[own]])
            teacher = teacher.moved(self.judge.slopes(teacher, both, truth), self.rates[0])
        return teacher, self.judge.say(teacher, state.asked)

    def moved(self, state: TeachersState, counts: Floats, sigma: float) -> TeachersState:
        """Student and generator after a round, and the next questions."""
        rng = np.random.default_rng((self.seed, 2, state.step))
        kept = self.memory * self.questions
        answered = np.concatenate([state.answered, state.asked])[-kept:]
        answers = np.concatenate([state.answers, counts / self.teachers])[-kept:]
        student, maker, average = state.student, state.maker, state.average
        for _ in range(self.turns[0]):
            drawn = rng.integers(0, len(answered), self.questions)
            slopes = self.judge.slopes(student, answered[drawn], answers[drawn])
            student = student.moved(slopes, self.rates[1])
        for _ in range(self.turns[1]):
            maker = self.generator.follow(maker, student.layers, self.batch, self.rates[2], rng)
            stay = min(self.average, maker.step / (10.0 + maker.step))
            average = tuple(stay * a + (1.0 - stay) * w for a, w in zip(average, maker.layers, strict=True))
        moved = replace(state, student=student, maker=maker, average=average, step=state.step + 1)
        return self._ask(replace(moved, answered=answered, answers=answers), rng)

    def finished(self, state: TeachersState) -> tuple[Floats, ...]:
        """The averaged weights of the generator."""
        return state.average
