"""Teachers: discriminators that each see a part of the rows, and a student that sees their votes alone.

PATE-GAN (Yoon, Jordon and van der Schaar 2019). In a round every teacher learns to tell rows of its part
from made ones and votes on Q made rows. The student learns from noisy counts of the votes, the generator
from the student. Neither sees a real row, so the door charges for the votes alone
(`measure.mechanisms.votes`).

Two things are other than in the paper. *Votes are not cut to yes or no*: the released count of yes, divided
by the number of teachers, is the student's target. It costs the same, and as the gradient of the
cross-entropy is linear in the target, noise of mean 0 in it is noise of mean 0 in the gradient: it averages
out over questions, however large, where the larger of two noisy counts is a coin's throw. *Answered
questions are kept*: they are public, so the student learns from those of the last rounds as well.

**A teacher hangs on its own part alone, bit for bit**: on what the door shows it, its numbers and the public
state, by exact sums (`Judge`) and single operations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from margrave.models._sampling.coding import Coding
from margrave.models.adversarial.networks import Generator, Judge, Weights, build_vectors

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class State:
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

    def start(self) -> State:
        """Student and generator before the first round, and the first questions."""
        rng = np.random.default_rng((self.seed, 0))
        maker, student = self.generator.start(rng), self.judge.start(rng)
        nothing = np.zeros((0, self.generator.width))
        return self._ask(State(student, maker, maker.layers, nothing, nothing, nothing, np.zeros(0)), rng)

    def _ask(self, state: State, rng: np.random.Generator) -> State:
        """The state with rows made anew."""
        made = self.generator.make_vectors(state.maker, self.shown + self.questions, rng)
        return replace(state, made=made[: self.shown], asked=made[self.shown :])

    def hire(self, place: int) -> Weights:
        """A teacher before it has seen a row."""
        return self.judge.start(np.random.default_rng((self.seed, 1, place)))

    def taught(self, state: State, teacher: Weights, codes: Longs, uniform: Floats) -> tuple[Weights, Floats]:
        """The teacher after a round, and its logits of the questions: see `protocols.Ensemble`."""
        rows = build_vectors(self.generator.coding, codes, uniform.reshape(len(codes), -1))
        truth = np.repeat([1.0, 0.0], self.batch)
        for k in range(self.lessons):
            own = slice(k * self.batch, (k + 1) * self.batch)
            both = np.concatenate([rows[own], state.made[own]])
            teacher = teacher.moved(self.judge.slopes(teacher, both, truth), self.rates[0])
        return teacher, self.judge.say(teacher, state.asked)

    def moved(self, state: State, counts: Floats, sigma: float) -> State:
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

    def finished(self, state: State) -> tuple[Floats, ...]:
        """The averaged weights of the generator."""
        return state.average
