"""A generator of rows, and its training against slices of noisy copies.

`RowGenerator` is a network of dense layers from Gaussian noise, and a label where there is one, to rows: its
layers are matrices that an optimiser changes, with leaky ReLU between them. `NoisyRows` are noisy copies,
from which slices in any directions follow; `train_generator` moves the generator towards them.

The training is Algorithm 1 of arXiv 2410.19941; how far slices of two samples are apart stands in
`margrave.models.sliced.divergence`. All of it sees released rows and made rows only: post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, check_counts, invalid
from margrave.models._torch.device import Adam, Device

LEAK = 0.2
"""Slope of the leaky ReLU below 0, as in DCGAN (Radford, Metz and Chintala 2016)."""


class Dense:
    """Layers a -> W (a, 1) with leaky ReLU between them; automatic differentiation does the rest.

    Args:
        device: Where to compute.
        widths: Numbers that go into the first layer, that come out of it, and so on: two or more.
        rng: Of the starting weights: uniform within 1 / sqrt(inputs of the layer), offsets too.
    """

    def __init__(self, device: Device, widths: Sequence[int], rng: np.random.Generator) -> None:
        if len(widths) < 2 or min(widths) < 1:
            remedy = "Try (64, 128, 10)."
            raise InputError(invalid("widths", "two or more, each at least 1", remedy, got=tuple(widths)))
        self.device, self.widths = device, tuple(widths)
        self.weights: list[Any] = []
        """Of each layer, shape [outputs, inputs + 1], the offsets last; tensors with gradients."""
        for inputs, outputs in itertools.pairwise(widths):
            start = rng.uniform(-(inputs**-0.5), inputs**-0.5, (outputs, inputs + 1))
            self.weights.append(device.put(start, device.torch.float32).requires_grad_(True))

    def __call__(self, inputs: Any, weights: Sequence[Any] | None = None) -> Any:
        """What the last layer says, shape [rows, outputs].

        Args:
            inputs: Shape [rows, inputs].
            weights: Others than its own, of the same shapes.
        """
        given, torch = self.weights if weights is None else list(weights), self.device.torch
        found = inputs
        for place, weight in enumerate(given):
            found = torch.nn.functional.linear(found, weight[:, :-1], weight[:, -1])
            # The last layer's outputs are logits and numbers before softmax, so nothing cuts them.
            if place + 1 < len(given):
                found = torch.nn.functional.leaky_relu(found, LEAK)
        return found


class RowGenerator:
    """Rows from noise: probabilities of codes by softmax, numbers in [0, 1] by the logistic function.

    Args:
        device: Where to compute.
        noise: Length of a noise vector.
        widths: Of the hidden layers; may be empty.
        sizes: Codes of each attribute that is a distribution over codes.
        numbers: How many numbers in [0, 1] follow them.
        labels: Classes; a row's class goes in as an indicator beside the noise. 0 for none.
        rng: Of the starting weights.
    """

    def __init__(
        self,
        device: Device,
        noise: int,
        widths: Sequence[int],
        sizes: Sequence[int],
        rng: np.random.Generator,
        *,
        numbers: int = 0,
        labels: int = 0,
    ) -> None:
        self.device, self.noise, self.labels = device, noise, labels
        self.sizes, self.numbers = tuple(sizes), numbers
        self.dense = Dense(device, (noise + labels, *widths, sum(sizes) + numbers), rng)

    @property
    def weights(self) -> list[Any]:
        """Of each layer, shape [outputs, inputs + 1]: what an optimiser changes."""
        return self.dense.weights

    def draw_noise(self, rows: int, rng: np.random.Generator) -> Any:
        """Noise vectors, shape [rows, noise]."""
        return self.device.put(rng.standard_normal((rows, self.noise)), self.device.torch.float32)

    def __call__(self, noise: Any, labels: Any = None, weights: Sequence[Any] | None = None) -> Any:
        """The rows of some noise vectors, shape [rows, outputs].

        Args:
            noise: Shape [rows, noise].
            labels: The class of each row, whole numbers of shape [rows]; left out where there are none.
            weights: Others than its own, of the same shapes.

        Raises:
            InputError: Labels are given and there are none, or the other way round.
        """
        torch = self.device.torch
        if (labels is None) != (self.labels == 0):
            remedy = "Make the generator with as many labels as there are classes."
            raise InputError(invalid("labels", "given exactly where there are classes", remedy))
        if labels is not None:
            known = torch.nn.functional.one_hot(labels, self.labels).to(noise.dtype)
            noise = torch.cat([noise, known], 1)
        said = self.dense(noise, weights)
        coded = sum(self.sizes)
        blocks = said[:, :coded].split(self.sizes, 1) if self.sizes else ()
        parts = [torch.softmax(block, 1) for block in blocks]
        if self.numbers:
            parts.append(torch.sigmoid(said[:, coded:]))
        return torch.cat(parts, 1)

    def draw_codes(self, shares: Any, rng: np.random.Generator) -> Any:
        """Indicators of codes drawn from the probabilities, with the gradient of the probabilities.

        A row's attribute has the code whose cumulated probability first exceeds a uniform number. Forward the
        rows are whole rows; backward the draw is left out, the straight-through estimator (Bengio, Léonard
        and Courville 2013). Numbers stay as they are.

        Args:
            shares: What the generator says, shape [rows, outputs].
            rng: Of the uniform numbers.
        """
        torch = self.device.torch
        uniform = self.device.put(rng.random((len(shares), len(self.sizes))), shares.dtype)
        parts, start = [], 0
        for place, size in enumerate(self.sizes):
            block = shares[:, start : start + size].detach()
            # Inversion: how many cumulated shares the uniform has passed; rounding may pass the last one.
            code = (block.cumsum(1) <= uniform[:, place : place + 1]).sum(1).clamp(max=size - 1)
            parts.append(torch.nn.functional.one_hot(code, size).to(shares.dtype))
            start += size
        parts.append(shares[:, start:].detach())
        # Forward the drawn row, backward the gradient of the shares.
        return shares + (torch.cat(parts, 1) - shares).detach()


Floats = NDArray[np.float64]

LEAST_ROWS = 8
"""Rows for each direction of a slice from which the moments of a batch are matched; a covariance of fewer
says too little of their shape."""
RIDGE = 1e-3
"""Part of the noise's variance that is added to covariances that are matched, so that they have a root."""


class SliceLoss(Protocol):
    """How far made rows are from real ones on some slices: `SlicedDivergence` or `SlicedWasserstein`."""

    @property
    def max_width(self) -> int | None:
        """The most directions a slice may have; None for any number."""

    def prepare(self, device: Device, real: Any) -> Any:
        """What is needed of the real side, shape [slices, rows, k]."""

    def measure(self, device: Device, reference: Any, made: Any) -> Any:
        """The loss of made rows on the same slices, shape [slices, rows, k]."""


class NoisyRows:
    """Noisy copies of rows. A slice is a Haar-random set of orthonormal directions, with independent noise.

    Where features are indicators of codes, the noise along an attribute's sum is known and no direction has a
    part along it.

    Args:
        device: Where to keep them.
        values: Rows with independent noise in each feature, shape [rows, features].
        sigma: Standard deviation of that noise.
        blocks: Features of each attribute whose indicators sum to 1, in order from the first feature on;
            those after them are numbers.
    """

    def __init__(self, device: Device, values: Floats, sigma: float, blocks: Sequence[int] = ()) -> None:
        self.device, self._sigma, self._blocks = device, sigma, tuple(blocks)
        self._values = device.put(values, device.torch.float32)
        mean = values.sum(axis=0) / max(len(values), 1)
        # The covariance of all released rows, noise included.
        spread = values.T @ values / max(len(values), 1) - np.outer(mean, mean)
        self._mean, self._spread = (device.put(found, device.torch.float32) for found in (mean, spread))

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self._values)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in each projection."""
        return self._sigma

    def check(self, width: int) -> None:
        """Check that slices may have so many directions.

        Raises:
            InputError: There are fewer independent features.
        """
        # Indicators of an attribute sum to 1, so that each attribute has one feature less that is free.
        free = self._values.shape[1] - len(self._blocks)
        if width > free:
            constraint = f"at most the {free} features that can differ between rows"
            raise InputError(invalid("k", constraint, "Use a smaller k.", got=width))

    def draw_slices(
        self, places: NDArray[np.int64], slices: int, width: int, rng: np.random.Generator
    ) -> Any:
        """Directions of some slices, [slices, features, width], and rows on them, [slices, places, width]."""
        drawn = rng.standard_normal((slices, self._values.shape[1], width))
        start = 0
        for size in self._blocks:
            part = drawn[:, start : start + size]
            # Without the mean along an attribute a direction has no part in the noise of its sum.
            part -= part.mean(axis=1, keepdims=True)
            start += size
        put, torch = self.device.put, self.device.torch
        # Orthonormal columns of a Gaussian matrix are Haar-random.
        directions = put(np.linalg.qr(drawn)[0], torch.float32)
        chosen = self._values[put(places, torch.int64)]
        return directions, chosen @ directions

    def match_rows(self, directions: Any, rows: Any) -> Any:
        """A batch on some slices, moved so that its mean and covariance there are those of all rows.

        Args:
            directions: Shape [slices, features, width].
            rows: Rows on them, shape [slices, rows, width].
        """
        spread = directions.transpose(-1, -2) @ (self._spread @ directions)
        return match_moments(self.device, rows, self._mean @ directions, spread, self._sigma)


def match_moments(device: Device, rows: Any, mean: Any, spread: Any, sigma: float) -> Any:
    """Rows moved by one affine map on each slice, so that their mean and covariance are given ones.

    Args:
        device: Where they are.
        rows: Shape [slices, rows, width].
        mean: Shape [slices, width].
        spread: The covariance, shape [slices, width, width].
        sigma: Standard deviation of the noise that is in the rows, or is them.

    Returns:
        The moved rows; where there are fewer than LEAST_ROWS for each direction, as they were.
    """
    torch, (count, width) = device.torch, rows.shape[-2:]
    if count < LEAST_ROWS * width:
        return rows
    centred = rows - rows.mean(-2, keepdim=True)
    ridge = RIDGE * sigma**2 * torch.eye(width, dtype=rows.dtype, device=rows.device)
    own = torch.linalg.cholesky(centred.transpose(-1, -2) @ centred / count + ridge)
    root = torch.linalg.cholesky(spread + ridge)
    # Rows are y' = c' own^-T root^T, whose covariance is that of `spread`.
    whitened = torch.linalg.solve_triangular(own, centred.transpose(-1, -2), upper=False)
    return (root @ whitened).transpose(-1, -2) + mean[..., None, :]


@dataclass(frozen=True, slots=True)
class Course:
    """How a generator is trained.

    Args:
        steps: Steps of Adam.
        batch: Real and made rows of a step; fewer where there are fewer real ones.
        slices: Slices of a step.
        k: Directions of a slice.
        rate: Adam's first step length; it falls like half a cosine.
        matched: Whether the rows of a batch are moved on each slice so that they have the mean and the
            covariance of all rows, and the noise of made rows so that it has those of its law.
        average: What one step leaves of the running mean of the weights, 0 for the last weights alone.
        seed: Of noise vectors, batches, directions and the noise of made rows.

    Raises:
        InputError: An argument is out of range.
    """

    steps: int = 1000
    batch: int = 512
    slices: int = 16
    k: int = 2
    rate: float = 2e-3
    matched: bool = True
    average: float = 0.98
    seed: int = 0

    def __post_init__(self) -> None:
        check_counts(steps=self.steps, slices=self.slices, k=self.k)
        if self.batch < 2:
            raise InputError(invalid("batch", "at least 2", "Try 512.", got=self.batch))
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(invalid("rate", "a finite number above 0", "Try 0.002.", got=self.rate))
        if not 0 <= self.average < 1:
            raise InputError(invalid("average", "at least 0 and below 1", "Try 0.98.", got=self.average))


def train_generator(
    generator: RowGenerator,
    real: NoisyRows,
    loss: SliceLoss,
    course: Course,
    stop: Callable[[], bool] = lambda: False,
    *,
    classes: Floats | None = None,
) -> list[float]:
    """Change a generator's weights until its rows, with noise, look on slices as the released ones do.

    Each step draws real rows, slices, made rows whose codes are drawn from their probabilities, and noise of
    the release's size for these. **Privacy.** Only released rows are looked at: post-processing, at no cost,
    as often as one likes.

    Args:
        generator: What is trained.
        real: Released rows.
        loss: How far made rows are from real ones.
        course: How to train.
        stop: Whether to end before the next step.
        classes: The share of each class, where the generator has labels: released rows then begin with the
            indicators of their class, and so do made ones.

    Returns:
        The loss of each step.

    Raises:
        InputError: Rows are fewer than two, a slice's directions too many, or labels not those of classes.
    """
    width = course.k if loss.max_width is None else min(course.k, loss.max_width)
    real.check(width)
    if real.rows < 2:
        raise InputError(invalid("rows", "at least 2 to train on", "Release more rows.", got=real.rows))
    rng, device, torch = np.random.default_rng(course.seed), generator.device, generator.device.torch
    adam, means, found = Adam(generator.weights), [w.detach().clone() for w in generator.weights], []
    batch = min(course.batch, real.rows)
    order, at = rng.permutation(real.rows), 0
    for step in range(course.steps):
        if stop():
            break
        if at + batch > real.rows:
            order, at = rng.permutation(real.rows), 0
        with torch.no_grad():
            directions, rows = real.draw_slices(order[at : at + batch], course.slices, width, rng)
            noise = _draw_noise(device, rows, course.matched, rng)
            rows = real.match_rows(directions, rows) if course.matched else rows
        at += batch
        made = draw_rows(generator, batch, rng, classes)
        value = loss.measure(device, loss.prepare(device, rows), made @ directions + real.sigma * noise)
        slopes = torch.autograd.grad(value, generator.weights)
        rate = course.rate * 0.5 * (1.0 + math.cos(math.pi * step / course.steps))
        with torch.no_grad():
            adam.step(slopes, [rate] * len(slopes))
            _update_means(means, generator.weights, course.average, step)
        found.append(float(value.detach()))
    with torch.no_grad():
        for mean, weight in zip(means, generator.weights, strict=True):
            weight.copy_(mean)
    return found


def _draw_noise(device: Device, rows: Any, matched: bool, rng: np.random.Generator) -> Any:
    """Standard normal noise for rows on slices; matched, its mean is 0 and its covariance the identity."""
    noise = device.put(rng.standard_normal(tuple(rows.shape)), rows.dtype)
    if not matched:
        return noise
    whole = device.torch.eye(noise.shape[-1], dtype=noise.dtype, device=noise.device)
    mean = device.torch.zeros_like(noise[:, 0])
    return match_moments(device, noise, mean, whole.expand(len(noise), -1, -1), 1.0)


def _update_means(means: Sequence[Any], weights: Sequence[Any], average: float, step: int) -> None:
    """Move running means towards the weights after a step; of few steps it is the mean of all."""
    for mean, weight in zip(means, weights, strict=True):
        # Of the first steps it is their plain mean, so that the start leaves no trace.
        mean.lerp_(weight, 1.0 - min(average, step / (step + 1.0)))


def draw_rows(
    generator: RowGenerator,
    rows: int,
    rng: np.random.Generator,
    classes: Floats | None = None,
    labels: NDArray[np.int64] | None = None,
) -> Any:
    """Rows of a generator, with codes drawn; they begin with the indicators of their class where it has some.

    Args:
        generator: What draws them.
        rows: How many.
        rng: Of noise vectors, classes and codes.
        classes: The share of each class; None where the generator has no labels.
        labels: The class of each row instead, shape [rows].

    Raises:
        InputError: The classes are not as many as the generator's labels.
    """
    if generator.labels != (0 if classes is None else len(classes)):
        remedy = "Make the generator with as many labels as there are classes."
        raise InputError(invalid("classes", "as many as the generator has labels", remedy))
    noise = generator.draw_noise(rows, rng)
    if classes is None:
        return generator.draw_codes(generator(noise), rng)
    torch = generator.device.torch
    drawn = rng.choice(len(classes), rows, p=classes) if labels is None else labels
    given = generator.device.put(drawn, torch.int64)
    indicators = torch.nn.functional.one_hot(given, len(classes)).to(noise.dtype)
    return torch.cat([indicators, generator.draw_codes(generator(noise, given), rng)], 1)
