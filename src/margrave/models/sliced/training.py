"""A generator of rows, its training against slices of noisy copies, and how far slices are apart.

`RowGenerator` is a network of dense layers from Gaussian noise, and a label where there is one, to rows: its
layers are matrices that an optimiser changes, with leaky ReLU between them. `NoisyRows` are noisy copies,
from which slices in any directions follow; `train_generator` moves the generator towards them.

The training is Algorithm 1 of arXiv 2410.19941. The distances at the end, between slices of two samples, are
smoothed-sliced f-divergences and sliced Wasserstein: Greenewald, Yu, Wang and Xu (NeurIPS 2024, the same),
Definition 4 and equations 4 to 6, and Rakotomamonjy and Ralaivola 2021. All of it sees released rows and made
rows only: post-processing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
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
            if place + 1 < len(given):
                found = torch.nn.functional.leaky_relu(found, LEAK)
        return found

    def arrays(self) -> list[NDArray[np.float32]]:
        """Copies of the weights on the processor."""
        return [weight.detach().cpu().numpy().copy() for weight in self.weights]


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

    @property
    def outputs(self) -> int:
        """Numbers of a row."""
        return self.dense.widths[-1]

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
            code = (block.cumsum(1) <= uniform[:, place : place + 1]).sum(1).clamp(max=size - 1)
            parts.append(torch.nn.functional.one_hot(code, size).to(shares.dtype))
            start += size
        parts.append(shares[:, start:].detach())
        return shares + (torch.cat(parts, 1) - shares).detach()


Floats = NDArray[np.float64]


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
            part -= part.mean(axis=1, keepdims=True)
            start += size
        put, torch = self.device.put, self.device.torch
        directions = put(np.linalg.qr(drawn)[0], torch.float32)
        chosen = self._values[put(places, torch.int64)]
        return directions, chosen @ directions


@dataclass(frozen=True, slots=True)
class Course:
    """How a generator is trained.

    Args:
        steps: Steps of Adam.
        batch: Real and made rows of a step; fewer where there are fewer real ones.
        slices: Slices of a step.
        k: Directions of a slice.
        rate: Adam's first step length; it falls like half a cosine.
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
        InputError: Fewer than two rows were released, slices have more directions than there can be, or the
            generator has not as many labels.
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
        at += batch
        made = draw_rows(generator, batch, rng, classes)
        noise = device.put(rng.standard_normal(tuple(rows.shape)), rows.dtype)
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


def _update_means(means: Sequence[Any], weights: Sequence[Any], average: float, step: int) -> None:
    """Move running means towards the weights after a step; of few steps it is the mean of all."""
    for mean, weight in zip(means, weights, strict=True):
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


MIN_RATIO = 1e-12
"""Ratios of densities are cut off here, so that the logarithm of one that is 0 is finite."""
MIN_POWER = 1e-24
"""Mean power of distances below which the root has no gradient, which would be infinite at 0."""
MEDIAN_ROWS = 128
"""Rows whose distances give a slice's median distance."""


def _kl(torch: Any, ratio: Any) -> Any:
    return ratio * ratio.log() - ratio + 1.0


def _chi_square(torch: Any, ratio: Any) -> Any:
    return (ratio - 1.0) ** 2


def _jensen_shannon(torch: Any, ratio: Any) -> Any:
    middle = (0.5 * (ratio + 1.0)).log()
    return 0.5 * (ratio * (ratio.log() - middle) - middle)


def _total_variation(torch: Any, ratio: Any) -> Any:
    return 0.5 * (ratio - 1.0).abs()


DIVERGENCES: Mapping[str, Callable[[Any, Any], Any]] = {
    "kl": _kl,
    "chi_square": _chi_square,
    "jensen_shannon": _jensen_shannon,
    "total_variation": _total_variation,
}
"""f of each divergence D_f(P || Q) = E_Q[f(dP / dQ)], with f(1) = 0 and f at least 0: r ln r - r + 1 for
Kullback-Leibler, (r - 1)^2, (r ln(2 r / (r + 1)) + ln(2 / (r + 1))) / 2, and |r - 1| / 2."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The real side of some slices: what the ratios of densities there are found with, all of it released.

    Args:
        rows: Noisy rows on each slice, shape [slices, rows, k].
        scales: Widths of the Gaussian kernels in each slice, shape [widths, slices].
        factors: Cholesky factors of the kernel matrices plus tau, shape [widths, slices, rows, rows].
    """

    rows: Any
    scales: Any
    factors: Any


@dataclass(frozen=True, slots=True)
class SlicedDivergence:
    """The mean over slices of D_f(made || real), both with the noise of the release, by kernel mean matching.

    On each slice the ratio of the densities of made and real rows is estimated at the real ones,

        r = max((K + tau I)^-1 K' 1 * n / n', 0),

    K the kernel between the n real rows and K' that between these and the n' made ones; the divergence is the
    mean of f(r). What is inverted holds released numbers alone, so no gradient goes through an inverse and a
    generator that makes one row only has a finite loss. A ratio that is cut off at 0 has no gradient.

    Args:
        function: One of `DIVERGENCES`.
        widths: Of the Gaussian kernels exp(-distance^2 / (2 width^2)), in median distances of a slice; ratios
            of several are averaged.
        tau: Added to the diagonal of K.

    Raises:
        InputError: An argument is out of range.
    """

    function: str = "kl"
    widths: tuple[float, ...] = (1.0,)
    tau: float = 0.01

    def __post_init__(self) -> None:
        if self.function not in DIVERGENCES:
            raise InputError(
                invalid("function", f"one of {sorted(DIVERGENCES)}", "Try 'kl'.", got=self.function)
            )
        if not self.widths or not all(math.isfinite(width) and width > 0 for width in self.widths):
            raise InputError(invalid("widths", "one or more numbers above 0", "Try (1.0,).", got=self.widths))
        if not (math.isfinite(self.tau) and self.tau > 0):
            raise InputError(invalid("tau", "a finite number above 0", "Try 0.01.", got=self.tau))

    @property
    def max_width(self) -> int | None:
        """The most directions a slice may have; None for any number."""
        return None

    def prepare(self, device: Device, real: Any) -> Reference:
        """What is needed of the real side; the same for any number of made samples.

        Args:
            device: Where it is.
            real: Noisy rows on each slice, shape [slices, rows, k].
        """
        torch = device.torch
        with torch.no_grad():
            some = real[:, :MEDIAN_ROWS]
            upper = torch.triu_indices(some.shape[1], some.shape[1], 1, device=real.device)
            apart = torch.cdist(some, some)[:, upper[0], upper[1]]
            middle = apart.median(1).values if apart.shape[1] else torch.ones_like(real[:, 0, 0])
            # A slice on which all rows are alike has no scale of its own.
            middle = torch.where(middle > 0, middle, torch.ones_like(middle))
            scales = torch.stack([width * middle for width in self.widths])
            matrices = torch.stack([_kernel(torch, real, real, scale) for scale in scales])
            matrices.diagonal(dim1=-2, dim2=-1).add_(self.tau)
            return Reference(real, scales, torch.linalg.cholesky(matrices))

    def estimate_ratios(self, device: Device, reference: Reference, made: Any) -> Any:
        """The density of made rows over that of real ones, at the real ones: shape [slices, real rows].

        Args:
            device: Where it is.
            reference: Of the real rows.
            made: Made rows with noise of the same law, shape [slices, rows, k]; gradients flow through it.
        """
        torch, real = device.torch, reference.rows
        sums = torch.stack([_kernel(torch, real, made, scale).mean(-1) for scale in reference.scales])
        ratios = torch.cholesky_solve(sums[..., None], reference.factors)[..., 0] * real.shape[1]
        return ratios.clamp(min=MIN_RATIO).mean(0)

    def measure(self, device: Device, reference: Reference, made: Any) -> Any:
        """The divergence, averaged over slices; its gradient by the made rows is automatic."""
        ratios = self.estimate_ratios(device, reference, made)
        return DIVERGENCES[self.function](device.torch, ratios).mean()


def _kernel(torch: Any, one: Any, other: Any, scale: Any) -> Any:
    """exp(-distance^2 / (2 scale^2)) on each slice, shape [slices, rows of one, rows of the other]."""
    left, right = one / scale[:, None, None], other / scale[:, None, None]
    lengths = (left**2).sum(-1)[:, :, None] + (right**2).sum(-1)[:, None, :]
    # Rounding may leave a square just below 0, where rows are equal.
    return torch.baddbmm(lengths, left, right.transpose(-1, -2), beta=-0.5).clamp(max=0.0).exp()


@dataclass(frozen=True, slots=True)
class SlicedWasserstein:
    """The p-th root of the mean over slices of the p-th power of the Wasserstein distance, both sides noisy.

    On a line the best plan joins sorted numbers in their order, so slices have one direction. Both samples
    have to be of one size.

    Args:
        power: p, a whole number.

    Raises:
        InputError: It is below 1.
    """

    power: int = 2

    def __post_init__(self) -> None:
        check_counts(power=self.power)

    @property
    def max_width(self) -> int | None:
        """The most directions a slice may have."""
        return 1

    def prepare(self, device: Device, real: Any) -> Reference:
        """The real side in order.

        Args:
            device: Where it is.
            real: Noisy rows on each slice, shape [slices, rows, 1].

        Raises:
            InputError: Slices have more than one direction.
        """
        if real.shape[-1] != 1:
            raise InputError(invalid("k", "1 for Wasserstein distances", "Use k=1.", got=real.shape[-1]))
        ordered = real.sort(1).values
        return Reference(ordered, None, None)

    def measure(self, device: Device, reference: Reference, made: Any) -> Any:
        """The distance; its gradient by the made rows, shape [slices, rows, 1], is automatic.

        Raises:
            InputError: There are more or fewer made rows than real ones.
        """
        if made.shape != reference.rows.shape:
            remedy = "Make as many rows as there are real ones."
            raise InputError(invalid("made", "of the shape of the real rows", remedy, got=tuple(made.shape)))
        apart = (made.sort(1).values - reference.rows).abs()
        return (apart**self.power).mean().clamp(min=MIN_POWER) ** (1.0 / self.power)
