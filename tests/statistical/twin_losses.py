"""What two runs on neighbouring tables have lost together: findings in words, none for an honest run.

`findings` holds a replayed run against the recorded one, event by event and as a whole. The exact answers
give the true loss of each event, which has to be at most the declared one. All true losses are then composed
twice, by margrave's own accountant and by formulas written here, and have to stay within epsilon and delta.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, logsumexp
from scipy.stats import binom, norm
from twins import GAUSSIANS, OFFSET, Draw, Question, Tape

from margrave.privacy.accounting.accountants import GDP, Renyi
from margrave.privacy.accounting.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    PartitionEvent,
    SubsampledGaussianEvent,
)
from margrave.privacy.ledger.ledger import Ledger
from margrave.release import NoisyMarginal, Release
from margrave.run.owner_sizes import OwnerSizes
from margrave.run.synthesis import Synthesis

__all__ = ["delta_of", "findings", "tail_chance", "true_events"]

CLOSE = 1e-6
"""Relative error of the formulas here, which are computed in floating point."""
UNLIKELY = 1e-12
"""A sample of the rows so large that an honest one is so large with this probability is a finding."""


def findings(first: Tape, second: Tape, rows: int | None = None) -> list[str]:
    """What the neighbouring run shows that no event pays for; each finding begins with a word for its kind.

    - structure: the second run asks for other events, or for fewer.
    - error: it ends otherwise.
    - read: something is read outside an event, and differs.
    - said: its steps of progress differ.
    - release: what it returns differs.
    - stray: noise is drawn before an event is recorded.
    - noise: other noise is drawn than declared, or it is not added.
    - sensitivity: an exact answer moves further than declared.
    - delta: a value that one table lacks passes with a larger probability than declared.
    - sampling: a training takes more rows than declared.
    - loss: the true losses add up to more than epsilon and delta.

    Args:
        first: The recorded run.
        second: The replay on a neighbouring table.
        rows: How many a training draws its samples from, if there is one.
    """
    found = [*_structure(first, second)]
    found += [f"stray: {name}" for name in first.stray + second.stray]
    for one in first.questions:
        found += _noise(one)
    asked = [(a, b) for a, b in zip(first.questions, second.questions, strict=False) if _complete(a, b)]
    for one, other in asked:
        found += _moved(one, other)
        found += _sampled(one, rows)
    if first.ledger is not None and asked:
        found += _together([event for pair in asked for event in true_events(*pair)], first.ledger)
    return found


def _complete(*questions: Question) -> bool:
    """Whether the exact answers are known of both runs; `_noise` tells of samplers that were not used."""
    chosen = isinstance(questions[0].events[0], ExponentialEvent)
    return all(question.exact is not None and (question.zeros or not chosen) for question in questions)


def _structure(first: Tape, second: Tape) -> Iterator[str]:
    if len(first.questions) != len(second.questions) or (second.error or "").startswith("another"):
        yield f"structure: {len(first.questions)} and {len(second.questions)} questions, {second.error}"
    if first.error != second.error:
        yield f"error: {first.error} and {second.error}"
    if first.reads != second.reads:
        pairs = zip(first.reads, second.reads, strict=False)
        differing = next((pair for pair in pairs if pair[0] != pair[1]), "more of them in one run")
        yield f"read: {differing}"
    if first.steps != second.steps:
        pairs = zip(first.steps, second.steps, strict=False)
        yield f"said: {next((pair for pair in pairs if pair[0] != pair[1]), 'more by one run')}"
    if first.error is None and second.error is None and not _alike(first.released, second.released):
        yield "release: the two runs return different things"


def _alike(one: Any, other: Any) -> bool:
    """Whether two returned things are equal in all they hold, bit for bit."""
    if isinstance(one, Synthesis):
        return _alike(one.release, other.release)
    if isinstance(one, np.ndarray):
        same = one.shape == other.shape and one.dtype == other.dtype
        return bool(same and one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, Release | NoisyMarginal | OwnerSizes):
        fields = [field.name for field in dataclasses.fields(one)]
        return all(_alike(getattr(one, name), getattr(other, name)) for name in fields)
    return bool(one == other)


def _noise(question: Question) -> Iterator[str]:
    """The noise drawn is that of the events, one draw a number, and all that the answer adds."""
    if question.exact is None or question.released is None:
        return
    used = question.drawn or question.zeros
    for event, draw in zip(_each(question), used, strict=False):
        if not _as_declared(event, draw):
            yield f"noise: {draw.sampler} of {draw.parameters} for {event}"
    sizes = [draw.values.size for draw in used]
    (event, *_), arrays = question.events, question.exact.arrays
    wanted = [array.size for array in arrays]
    if question.sums:
        wanted = [sum(part.size for part in parts) for parts in question.sums]
    if sizes != wanted:
        yield f"noise: draws of {sizes} numbers for answers of {wanted}"
    elif question.drawn and not _added(question):
        yield f"noise: what is released for {event.what!r} is not the exact answer plus what was drawn"


def _each(question: Question) -> list[Event]:
    """The event that pays for each use of a sampler."""
    if question.sums:
        return [question.events[0]] * len(question.sums)
    return list(question.events)


def _as_declared(event: Event, draw: Draw) -> bool:
    if isinstance(event, ExponentialEvent):
        declared = event.epsilon, event.sensitivity
        same = draw.parameters == declared and len(draw.scores) == event.candidates
        return draw.sampler == "exponential" and same
    if isinstance(event, SubsampledGaussianEvent):
        return draw.sampler == "rounded_gaussian" and draw.parameters == (event.sigma_squared,)
    if isinstance(event, GaussianEvent | PartitionEvent):
        return draw.sampler == GAUSSIANS[event.rounded] and draw.parameters == (event.sigma_squared,)
    return False  # a perturbed objective is of regressions, which twins do not replay; no other is used


def _added(question: Question) -> bool:
    """Whether the released numbers are the exact ones plus those drawn."""
    assert question.exact is not None
    assert question.released is not None
    (event, *_), released = question.events, question.released
    if isinstance(event, ExponentialEvent):
        return int(released.arrays[0]) == int(question.drawn[0].values)
    if question.sums:
        exact = [np.concatenate([part.ravel() for part in parts]) for parts in question.sums]
        path = [np.concatenate([part.ravel() for part in parts]) for parts in question.path]
        unit = math.sqrt(event.l2_squared) if isinstance(event, SubsampledGaussianEvent) else 1.0
        steps = zip(exact, path, question.drawn, strict=True)
        return all(np.array_equal(a * unit + draw.values, b * unit) for a, b, draw in steps)
    if isinstance(event, PartitionEvent):
        exact_counts, noisy = _by_name(question, question.exact), _by_name(question, released, offset=0)
        gaps = {noisy[name] - exact_counts.get(name, math.nan) for name in noisy}
        return gaps <= set(question.drawn[0].values.tolist())
    triples = zip(question.exact.arrays, question.drawn, released.arrays, strict=True)
    return all(np.array_equal(a + draw.values.reshape(a.shape), b) for a, draw, b in triples)


def _by_name(question: Question, answer: Any, offset: int = OFFSET) -> dict[str | None, float]:
    """Counts by the name of the value, those of rows without one under None."""
    counts = (answer.arrays[0] - offset).tolist()
    return dict(zip((*answer.texts, None), counts, strict=True))


def _squared(one: NDArray[np.float64], other: NDArray[np.float64]) -> int:
    """The squared L2 distance of two arrays of whole numbers, exact."""
    return sum(int(gap) ** 2 for gap in (one - other).ravel().tolist() if gap)


def _distances(one: Question, other: Question) -> list[Fraction | int]:
    """How far the exact answers are apart, in the measure of each event's sensitivity.

    Squared L2 for Gaussian noise, the largest change of a score for a choice, and the largest squared L2 of
    any step for a training, the sum over all rounds for votes.
    """
    assert one.exact is not None
    assert other.exact is not None
    (event, *_) = one.events
    if isinstance(event, ExponentialEvent):
        changes = one.zeros[0].scores - other.zeros[0].scores
        return [Fraction(float(np.abs(changes).max()))]
    if isinstance(event, SubsampledGaussianEvent):
        unit = math.sqrt(event.l2_squared)
        steps = zip(one.sums, other.sums, strict=True)
        return [max(sum(_squared(a * unit, b * unit) for a, b in zip(*step, strict=True)) for step in steps)]
    if isinstance(event, PartitionEvent):
        a, b = _by_name(one, one.exact), _by_name(other, other.exact)
        return [sum(int(a.get(name, 0) - b.get(name, 0)) ** 2 for name in a.keys() | b.keys())]
    if one.sums:
        # One event covers all rounds of votes, whose squares add up.
        return [sum(_squared(a, b) for (a,), (b,) in zip(one.sums, other.sums, strict=True))]
    return [_squared(a, b) for a, b in zip(one.exact.arrays, other.exact.arrays, strict=True)]


def _moved(one: Question, other: Question) -> Iterator[str]:
    for event, moved in zip(one.events, _distances(one, other), strict=True):
        allowed = event.sensitivity if isinstance(event, ExponentialEvent) else event.l2_squared
        if moved > allowed:
            yield f"sensitivity: {event.what!r} moves by {float(moved):g}, declared is {float(allowed):g}"
        if isinstance(event, PartitionEvent) and _passing(one, other, event) > event.delta:
            yield f"delta: a value of one table alone passes {event.what!r} more often than declared"


def _passing(one: Question, other: Question, event: PartitionEvent) -> float:
    """The probability that a value which one of the tables lacks passes, on the side where it is larger."""
    counts = [_by_name(question, question.exact) for question in (one, other)]
    chances = []
    for mine, others in (counts, counts[::-1]):
        alone = [mine[name] for name in mine.keys() - others.keys()]
        tails = [tail_chance(event, event.threshold - count) for count in alone]
        fails = math.fsum(math.log1p(-min(tail, 1 - 1e-16)) for tail in tails)
        chances.append(-math.expm1(fails))
    return max(chances)


def tail_chance(event: PartitionEvent, least: float) -> float:
    """The probability that the noise of an event is at least a whole number."""
    sigma = math.sqrt(float(event.sigma_squared))
    if event.rounded:
        return float(norm.sf((least - 0.5) / sigma))
    reach = int(40 * sigma) + 2
    whole = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = -(whole**2) / (2 * sigma**2)
    return float(np.exp(logsumexp(weights[whole >= least]) - logsumexp(weights))) if least <= reach else 0.0


def _sampled(question: Question, rows: int | None) -> Iterator[str]:
    (event, *_) = question.events
    if isinstance(event, SubsampledGaussianEvent) and rows is not None:
        most = binom.isf(UNLIKELY, rows * len(question.taken), float(event.rate))
        if sum(question.taken) > most:
            yield f"sampling: {sum(question.taken)} rows taken, by the declared rate at most {most:g}"


def true_events(one: Question, other: Question) -> list[Event]:
    """The events with what the exact answers really lose instead of what is declared."""
    found: list[Event] = []
    for event, moved in zip(one.events, _distances(one, other), strict=True):
        if isinstance(event, ExponentialEvent):
            changes = one.zeros[0].scores - other.zeros[0].scores
            # Scores that all rise alike change no probability: the range of the changes counts.
            width = Fraction(float(changes.max())) - Fraction(float(changes.min()))
            found.append(dataclasses.replace(event, epsilon=event.epsilon * width / (2 * event.sensitivity)))
        elif isinstance(event, PartitionEvent):
            delta = Fraction(_passing(one, other, event))
            found.append(dataclasses.replace(event, l2_squared=int(moved), delta=delta))
        else:
            assert isinstance(event, GaussianEvent | SubsampledGaussianEvent)
            found.append(dataclasses.replace(event, l2_squared=int(moved)))
    return found


def _together(events: list[Event], ledger: Ledger) -> Iterator[str]:
    """The losses of all events within epsilon and delta, by margrave's accountant and by another."""
    cost = sum((ledger.accountant.cost(event) for event in events), Fraction(0))
    searches = sum((event.delta for event in events if isinstance(event, PartitionEvent)), Fraction(0))
    if cost > ledger.total or searches > ledger.partition_delta:
        yield f"loss: rho {float(cost):g} of {float(ledger.total):g}, deltas of searches {float(searches):g}"
    delta = delta_of(events, ledger) + float(searches)
    if not delta <= ledger.delta * (1 + CLOSE):
        yield f"loss: delta {delta:g} at epsilon {ledger.epsilon:g}, promised is {ledger.delta:g}"


def delta_of(events: list[Event], ledger: Ledger) -> float:
    """The delta at which all these events, but for values that one table lacks, keep the ledger's epsilon."""
    accountant, epsilon = ledger.accountant, ledger.epsilon
    plain = [event for event in events if not isinstance(event, SubsampledGaussianEvent)]
    rho = math.fsum(_rho(event) for event in plain)
    if isinstance(accountant, Renyi):
        steps = [event for event in events if isinstance(event, SubsampledGaussianEvent)]
        order = accountant.order
        divergence = order * rho + math.fsum(map(_sampled_divergence, steps))
        return math.exp(min(_log_delta(order, divergence, epsilon), 0.0))
    if rho == 0.0:
        return 0.0
    if isinstance(accountant, GDP):
        mu = math.sqrt(2 * rho)
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu))
    best = minimize_scalar(
        lambda log: _log_delta(1 + math.exp(log), (1 + math.exp(log)) * rho, epsilon),
        bounds=(-8, 12),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return math.exp(min(float(best.fun), 0.0))


def _rho(event: Event) -> float:
    """zCDP of one event: D^2 / (2 sigma^2) for Gaussian noise, width^2 / 8 for a choice."""
    if isinstance(event, ExponentialEvent):
        return float(event.epsilon) ** 2 / 8
    assert isinstance(event, GaussianEvent | PartitionEvent)
    return event.l2_squared / (2 * float(event.sigma_squared))


def _log_delta(order: float, divergence: float, epsilon: float) -> float:
    """The logarithm of the delta of a Renyi divergence: Canonne, Kamath and Steinke 2020, Proposition 12."""
    return (order - 1) * (divergence - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)


def _sampled_divergence(event: SubsampledGaussianEvent) -> float:
    """All steps of a training: Mironov, Talwar and Zhang 2019, section 3.3, in floating point."""
    a, q, ratio = event.order, float(event.rate), event.l2_squared / float(event.sigma_squared)
    k = np.arange(a + 1.0)
    chances = gammaln(a + 1) - gammaln(k + 1) - gammaln(a - k + 1)
    with np.errstate(divide="ignore"):
        chances = chances + k * np.log(q) + np.where(k < a, (a - k) * np.log1p(-q), 0.0)
    return event.steps * float(logsumexp(chances + k * (k - 1) * ratio / 2)) / (a - 1)
