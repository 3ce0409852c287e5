"""Denoiser: the network that takes noise off rows, and what it learns from each of them, in whole numbers.

A row is noised K times, at a time t and with noise of its own each, from uniform numbers it is given. The
network, dense layers with ReLU between them, sees the noised row, t and the label. For numbers it says
v = sqrt(kept_t) e - sqrt(1 - kept_t) x_0 (Salimans and Ho 2022, appendix D), from which the noise is
e = sqrt(kept_t) v + sqrt(1 - kept_t) x_t. For a category it says what has to be *added* to the logits of the
released one-way to have those of x_0 given the noised values of all *other* columns. A network of zeros thus
draws independent columns with the released one-ways.

The loss of a row is |e - e_hat|^2 / p over its p numbers, plus the mean over its categories of -ln P(x_0 |
x_t), with the logits of q(x_t | x_0) for the category's own noised value added by Bayes' rule; averaged
over K draws. It is least where the Kullback-Leibler divergence of the true posterior of x_{t-1} from the
network's is, as both are of one and the same distribution of x_0. Its gradient is bounded; the divergence
times T would swamp the numbers once gradients are clipped.

**A row's gradient hangs on that row alone, bit for bit**, as the door asks. The layers are those of
`models._torch.exact`, whose sums are exact in any order. *Softmax*: logits are multiples of 2^-6 and looked
up in a table of whole numbers below 2^30. All else are single operations on single numbers, which IEEE
arithmetic fixes.

Rows are drawn from noise, step by step back, by a trained denoiser; `Schedule` says how fast rows turn into
noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from margrave.models._sampling.rounding import draw_column
from margrave.models._torch.device import Device
from margrave.models._torch.exact import (
    DEEPEST,
    INPUT,
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

MOST_BETA = 0.999
"""Nichol and Dhariwal 2021, section 3.2: it keeps the last steps of the schedule from singularities."""


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The noise of each step t = 0, ..., T - 1 of the two processes (Kotelnikov et al. 2023, section 3).

    Numbers: x_t = sqrt(kept_t) x_0 + sqrt(1 - kept_t) e with e ~ N(0, 1). A category of K values:
    q(x_t | x_{t-1}) keeps the value with probability 1 - beta_t and else draws one of all K, evenly, so that
    q(x_t | x_0) is kept_t [x_t = x_0] + (1 - kept_t) / K (Hoogeboom et al. 2021, equations 11 and 12).

    Args:
        betas: Shape [T], in (0, 1).
    """

    betas: Floats

    @property
    def times(self) -> int:
        """T."""
        return len(self.betas)

    @property
    def kept(self) -> Floats:
        """The product of 1 - beta up to each step, shape [T]."""
        return np.asarray(np.cumprod(1.0 - self.betas))

    @property
    def before(self) -> Floats:
        """`kept` of the step before, 1 for the first: [T]."""
        return np.append(1.0, self.kept[:-1])

    def back(self, t: int) -> tuple[float, float, float]:
        """Of x_{t-1} given x_t and x_0, for numbers: the weights of x_0 and x_t in its mean; its variance.

        Ho, Jain and Abbeel 2020, equation 7.
        """
        beta, kept, before = self.betas[t], self.kept[t], self.before[t]
        first = np.sqrt(before) * beta / (1.0 - kept)
        second = np.sqrt(1.0 - beta) * (1.0 - before) / (1.0 - kept)
        return float(first), float(second), float(beta * (1.0 - before) / (1.0 - kept))

    def posterior(self, t: int, now: NDArray[np.int64], start: Floats) -> Floats:
        """Of x_{t-1} given x_t and a distribution of x_0, for a category: [rows, K].

        In proportion to ((1 - beta_t) x_t + beta_t / K) * (before_t x_0 + (1 - before_t) / K), Hoogeboom et
        al. 2021, equation 13. For x_0 known it is Bayes' rule. For a distribution of x_0 it is that if the
        distribution takes no notice of x_t, as the first factor does: x_t would count twice.

        Args:
            t: The step.
            now: x_t, [rows].
            start: x_0, as a distribution, [rows, K].
        """
        size, beta, before = start.shape[1], self.betas[t], self.before[t]
        # The first factor is beta_t / K for every value but x_t, where 1 - beta_t is added: divide both by
        # beta_t / K, and only the column of x_t is multiplied.
        found = before * start + (1.0 - before) / size
        found[np.arange(len(now)), now] *= 1.0 + (1.0 - beta) * size / beta
        return np.asarray(found / found.sum(axis=1, keepdims=True))


def cosine(times: int) -> Schedule:
    """The cosine schedule of T steps.

    1 - beta_t = f(t + 1) / f(t) with f(t) = cos^2((t / T + 0.008) / 1.008 pi / 2): Nichol and Dhariwal
    2021, equation 17; beta is at most 0.999.
    """
    angles = (np.arange(times + 1) / times + 0.008) / 1.008 * np.pi / 2
    kept = np.cos(angles) ** 2
    return Schedule(np.minimum(1.0 - kept[1:] / kept[:-1], MOST_BETA))


Longs = NDArray[np.int64]

BETAS = (0.9, 0.999)
"""Adam's, as Kingma and Ba 2015 propose them."""
WAVES = 8
"""Sines and cosines of the time."""
SOFTMAX = np.rint(np.exp(-np.arange(DEEPEST * LOGIT + 1) / LOGIT) * 2.0**30)
"""exp(-k / 64), in whole steps of 2^-30."""


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """Where a training is, all of it public.

    Args:
        weights: Of each layer, [out, in + 1], the last column for a constant 1.
        means, squares: Adam's running means of the gradients and of their squares.
        average: Running mean of the weights, which is what is kept at the end.
        step: How many were taken.
    """

    weights: tuple[Floats, ...]
    means: tuple[Floats, ...]
    squares: tuple[Floats, ...]
    average: tuple[Floats, ...]
    step: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Denoiser:
    """A `Learner`.

    Args:
        coding: Of the rows.
        schedule: Of the noise.
        device: Where it computes; it must have double precision.
        widths: Of the hidden layers.
        draws: K, how often a row is noised in one gradient.
        rows: Expected in a sample, by public or released numbers.
        rate: Adam's step length.
        average: Weight of the past in the running mean of the weights.
        seed: Of the first weights.

    Raises:
        InputError: A layer is wider than MAX_LAYER_WIDTH.
    """

    coding: Coding
    schedule: Schedule
    device: Device
    widths: tuple[int, ...]
    draws: int
    rows: float
    rate: float
    average: float
    seed: int

    def __post_init__(self) -> None:
        check_widths(self.layers)

    @property
    def layers(self) -> tuple[int, ...]:
        """Numbers that go into each layer, and come out of the last."""
        coding = self.coding
        first = len(coding.numbers) + coding.values + 2 * WAVES + coding.labels
        return (first, *self.widths, len(coding.numbers) + coding.values)

    @property
    def shapes(self) -> tuple[tuple[int, int], ...]:
        """Rows and columns of each weight matrix."""
        # One column more than numbers go in, for the bias.
        return tuple((out, into + 1) for into, out in pairwise(self.layers))

    @property
    def uniforms(self) -> int:
        """For each draw a time, a score and its noise for every number, one number for every category."""
        return self.draws * (1 + 2 * len(self.coding.numbers) + len(self.coding.categories))

    def start(self) -> State:
        """Normal weights of variance 2 over the inputs, and 0 in the last layer."""
        # He et al. 2015 for layers with ReLU; the last layer begins at 0, so that the first steps draw from
        # the released one-ways.
        rng = np.random.default_rng(self.seed)
        weights = []
        for out, into in self.shapes[:-1]:
            made = rng.standard_normal((out, into)) * np.sqrt(2.0 / into)
            made[:, -1] = 0.0
            weights.append(made)
        weights.append(np.zeros(self.shapes[-1]))
        nothing = tuple(np.zeros_like(made) for made in weights)
        return State(tuple(weights), nothing, nothing, tuple(weights))

    def factors(self, state: State, codes: Longs, uniform: Floats) -> list[tuple[Any, Any]]:
        """Each row's gradient, as factors: see `protocols.Learner`."""
        scores, velocity, known, times, now, first = self._add_noise(codes, uniform)
        label = () if self.coding.target is None else codes[:, self.coding.target]
        given = self._input(scores, now, times, np.asarray(label))
        weights = round_weights(self.device, state.weights)
        entering, out = pass_forward(self.device, weights, given)
        slope = self._loss_gradient(out, velocity, known, times, now, first)
        return pass_back(weights, entering, slope)

    def moved(self, state: State, gradients: Sequence[Floats]) -> State:
        """A step of Adam on the noisy mean gradient."""
        step = state.step + 1
        slopes, memory = [gradient / self.rows for gradient in gradients], (state.means, state.squares)
        weights, means, squares = move_weights(state.weights, memory, slopes, step, self.rate, BETAS, 1e-12)
        # Early weights are poor: the running mean forgets them faster than it does later on.
        stay = min(self.average, step / (10.0 + step))
        pairs = zip(state.average, weights, strict=True)
        average = tuple(stay * before + (1.0 - stay) * now for before, now in pairs)
        return State(weights, means, squares, average, step)

    def finished(self, state: State) -> tuple[Floats, ...]:
        """The averaged weights."""
        return state.average

    def _add_noise(
        self, codes: Longs, uniform: Floats
    ) -> tuple[Floats, Floats, NDArray[np.bool_], Longs, Longs, Longs]:
        """Noised scores, v and whether there is one [rows, draws, numbers]; times [rows, draws]; noised and
        true values [rows, draws, categories]."""
        coding, numbers = self.coding, len(self.coding.numbers)
        # Each row comes with uniform numbers of its own, so nothing here depends on other rows.
        own = uniform.reshape(len(codes), self.draws, 1 + 2 * numbers + len(coding.categories))
        times = np.minimum((own[..., 0] * self.schedule.times).astype(np.int64), self.schedule.times - 1)
        kept = self.schedule.kept[times]
        signal, spread = np.sqrt(kept), np.sqrt(1.0 - kept)
        shape = (*times.shape, numbers)
        scores, velocity, known = np.zeros(shape), np.zeros(shape), np.zeros(shape, dtype=np.bool_)
        for k, number in enumerate(coding.numbers):
            mine = np.broadcast_to(codes[:, number.place, None], times.shape)
            start, known[..., k] = number.scores(mine, own[..., 1 + k])
            # x_t and v = sqrt(kept) e - sqrt(1 - kept) x_0 are the two coordinates of (x_0, e), turned by one
            # angle.
            noise = ndtri(own[..., 1 + numbers + k])
            scores[..., k] = signal * start + spread * noise
            velocity[..., k] = signal * noise - spread * start
        now = np.zeros((*times.shape, len(coding.categories)), dtype=np.int64)
        first = np.zeros_like(now)
        for k, category in enumerate(coding.categories):
            first[..., k] = category.values[codes[:, category.place]][:, None]
            # One uniform number decides both: below `kept` the value stays, and above it is spread over all K
            # values.
            drawn = own[..., 1 + 2 * numbers + k]
            other = ((drawn - kept) / (1.0 - kept) * category.size).astype(np.int64)
            now[..., k] = np.where(drawn < kept, first[..., k], np.minimum(other, category.size - 1))
        return scores, velocity, known, times, now, first

    def _input(self, scores: Floats, now: Longs, times: Longs, label: Longs) -> Floats:
        """What goes into the first layer, [rows, draws, in]."""
        hot = np.concatenate([scores, one_hot(self.coding, now)], axis=-1)
        marks = np.zeros((*times.shape, self.coding.labels))
        if self.coding.labels:
            marks[np.arange(len(label)), :, label] = 1.0
        both = np.concatenate([hot, time_features(self.schedule)[times], marks], axis=-1)
        return round_input(both)

    def _loss_gradient(
        self, out: Any, velocity: Floats, known: NDArray[np.bool_], times: Longs, now: Longs, first: Longs
    ) -> Any:
        """The gradient of the loss by what the network says, [rows, draws, out]."""
        torch, on, coding = self.device.torch, self.device, self.coding
        numbers, parts = len(coding.numbers), []
        if numbers:
            wanted = on.put(np.rint(velocity * INPUT) / INPUT, torch.float64)
            # |e - e_hat|^2 is kept_t |v - v_hat|^2, and its derivative has a factor 2; missing numbers count
            # nothing.
            weights = known * (self.schedule.kept[times] * (2.0 / numbers / self.draws))[..., None]
            parts.append((out[..., :numbers] - wanted) * on.put(weights, torch.float64))
        if coding.categories:
            table = on.put(SOFTMAX, torch.float64)
            # The network adds to what the one-way and the value's own x_t say, by Bayes' rule; see the head
            # of the file.
            logits = out[..., numbers:] + on.put(offsets(coding, self.schedule, times, now), torch.float64)
            logits, truth = (logits * LOGIT).round(), on.put(one_hot(coding, first), torch.float64)
            share, start = 1.0 / len(coding.categories) / self.draws, 0
            for category in coding.categories:
                end = start + category.size
                mine = logits[..., start:end]
                # Whole steps below the largest logit are looked up, so that the sums of exponentials are
                # exact.
                depth = (mine.amax(dim=-1, keepdim=True) - mine).clamp(max=float(DEEPEST * LOGIT))
                grown = table[depth.long()]
                said = grown / grown.sum(dim=-1, keepdim=True)
                parts.append((said - truth[..., start:end]) * share)
                start = end
        return torch.cat(parts, dim=-1)


def offsets(coding: Coding, schedule: Schedule, times: Longs, now: Longs) -> Floats:
    """Logits of x_0 from the one-ways and x_t alone, in steps of 1/64: [..., values].

    times and now are of shapes [...] and [..., categories].
    """
    # ln q(x_t | x_0 = x_t) - ln q(x_t | x_0 other), by step and category.
    least = (1.0 - schedule.kept)[:, None] / np.array([category.size for category in coding.categories])
    gain = np.rint(np.log((schedule.kept[:, None] + least) / least) * LOGIT) / LOGIT
    found: Floats = np.broadcast_to(prior(coding), (*times.shape, coding.values)).copy()
    places = now + _starts(coding)
    held = np.take_along_axis(found, places, axis=-1)
    np.put_along_axis(found, places, held + gain[times], axis=-1)
    return found


def prior(coding: Coding) -> Floats:
    """Logits of x_0 from the one-ways alone, in steps of 1/64: [values]."""
    logs = [np.log(category.prior) for category in coding.categories]
    return np.asarray(np.rint(np.concatenate([*logs, np.zeros(0)]) * LOGIT) / LOGIT)


def time_features(schedule: Schedule) -> Floats:
    """Sines and cosines of half a turn, one, two, four and so on over all times: [T, 2 WAVES]."""
    turns = np.pi * np.arange(schedule.times)[:, None] / schedule.times * 2.0 ** np.arange(WAVES)
    return np.concatenate([np.sin(turns), np.cos(turns)], axis=1)


def one_hot(coding: Coding, values: Longs) -> Floats:
    """One-hot values of all categories side by side, [..., values]."""
    found = np.zeros((*values.shape[:-1], coding.values))
    np.put_along_axis(found, values + _starts(coding), 1.0, axis=-1)
    return found


def _starts(coding: Coding) -> Longs:
    """Where each category's values begin."""
    sizes = [category.size for category in coding.categories]
    return np.cumsum([0, *sizes])[:-1].astype(np.int64)


Said = Callable[[int, Floats, Longs, Longs], Floats]
"""What a network says of rows at a time: from t, scores [rows, numbers], values [rows, categories] and labels
[rows] to [rows, numbers and values]."""


def spoken(coding: Coding, schedule: Schedule, device: Device, weights: Sequence[Floats]) -> Said:
    """What the network of these weights says; in single precision, as these rows are no private ones."""
    torch, waves = device.torch, time_features(schedule)
    layers = [device.put(weight, torch.float32) for weight in weights]

    def said(t: int, scores: Floats, values: Longs, label: Longs) -> Floats:
        parts = [scores, one_hot(coding, values)]
        parts.append(np.broadcast_to(waves[t], (len(scores), waves.shape[1])))
        if coding.labels:
            parts.append(np.eye(coding.labels)[label])
        parts.append(np.ones((len(scores), 1)))
        made = device.put(np.concatenate(parts, axis=1), torch.float32)
        with torch.no_grad():
            for layer in layers[:-1]:
                made = (made @ layer.T).clamp(min=0.0)
                made = torch.cat([made, torch.ones_like(made[:, :1])], dim=1)
            out: Any = made @ layers[-1].T
        return np.asarray(out.cpu().numpy(), dtype=np.float64)

    return said


def draw_codes(
    coding: Coding, schedule: Schedule, said: Said, rows: int, rng: np.random.Generator
) -> list[Longs]:
    """Codes of each attribute, [rows] each, in the domain's order: labels first, then the rest given them.

    Labels are as many of each as their shares say, to within one. Estimates of x_0 are cut to where scores
    can be, as a poor denoiser says more.
    """
    label = np.zeros(rows, dtype=np.int64)
    if coding.target is not None:
        groups, order = np.zeros(rows, dtype=np.int64), rng.permutation(rows)
        label = np.asarray(draw_column(groups, order, coding.label[None], rng), dtype=np.int64)
    blocks = []
    for first in range(0, max(rows, 1), ROWS_AT_ONCE):
        own = label[first : first + ROWS_AT_ONCE]
        scores = rng.standard_normal((len(own), len(coding.numbers)))
        sizes = np.array([category.size for category in coding.categories], dtype=np.int64)
        values = rng.integers(0, sizes, (len(own), len(sizes)))
        # Start from pure noise, and go back step by step: numbers and categories of a step see the same x_t.
        for t in range(schedule.times - 1, -1, -1):
            out = said(t, scores, values, own)
            scores, values = (
                _scores(coding, schedule, t, scores, out, rng),
                _values(coding, schedule, t, values, out, rng),
            )
        blocks.append(coding.columns(own, scores, values))
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _scores(
    coding: Coding, schedule: Schedule, t: int, now: Floats, out: Floats, rng: np.random.Generator
) -> Floats:
    """x_{t-1} of the numbers; without noise at the last step, where it is the estimate of x_0."""
    kept = schedule.kept[t]
    # Solve x_t and v for x_0.
    start = np.sqrt(kept) * now - np.sqrt(1.0 - kept) * out[:, : len(coding.numbers)]
    weight, stay, variance = schedule.back(t)
    mean = weight * np.clip(start, -MAX_SCORE, MAX_SCORE) + stay * now
    return np.asarray(mean + np.sqrt(variance) * rng.standard_normal(now.shape))


def _values(
    coding: Coding, schedule: Schedule, t: int, now: Longs, out: Floats, rng: np.random.Generator
) -> Longs:
    """x_{t-1} of the categories, drawn from the posteriors."""
    found, start = np.empty_like(now), len(coding.numbers)
    if not coding.categories:
        return found
    logits = out[:, start:] + prior(coding)
    begin = 0
    for k, category in enumerate(coding.categories):
        mine = logits[:, begin : begin + category.size]
        begin += category.size
        said = np.exp(mine - mine.max(axis=1, keepdims=True))
        said /= said.sum(axis=1, keepdims=True)
        back = schedule.posterior(t, now[:, k], said)
        sums = np.cumsum(back, axis=1)
        # Inversion by row: how many partial sums lie at or below the drawn point.
        places = (rng.random((len(now), 1)) * sums[:, -1:] >= sums).sum(axis=1)
        found[:, k] = np.minimum(places, category.size - 1)
    return found
