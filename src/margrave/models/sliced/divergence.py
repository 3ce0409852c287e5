"""Divergences between slices of two samples: smoothed-sliced f-divergences, and sliced Wasserstein.

Greenewald, Yu, Wang and Xu (NeurIPS 2024, arXiv 2410.19941), Definition 4 and equations 4 to 6, and
Rakotomamonjy and Ralaivola 2021. All of it sees released rows and made rows only: post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from margrave.errors import InputError, check_counts, invalid
from margrave.models._torch.device import Device

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
            # A part of the rows is enough for a median.
            some = real[:, :MEDIAN_ROWS]
            upper = torch.triu_indices(some.shape[1], some.shape[1], 1, device=real.device)
            apart = torch.cdist(some, some)[:, upper[0], upper[1]]
            middle = apart.median(1).values if apart.shape[1] else torch.ones_like(real[:, 0, 0])
            # A slice on which all rows are alike has no scale of its own.
            middle = torch.where(middle > 0, middle, torch.ones_like(middle))
            scales = torch.stack([width * middle for width in self.widths])
            matrices = torch.stack([_kernel(torch, real, real, scale) for scale in scales])
            # The ridge makes the kernel matrix invertible where rows are alike.
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
        # Mean kernel sums: the right side of kernel mean matching, over n' made rows.
        sums = torch.stack([_kernel(torch, real, made, scale).mean(-1) for scale in reference.scales])
        # The inverse was prepared as Cholesky factors, so that no gradient passes through it.
        ratios = torch.cholesky_solve(sums[..., None], reference.factors)[..., 0] * real.shape[1]
        return ratios.clamp(min=MIN_RATIO).mean(0)

    def measure(self, device: Device, reference: Reference, made: Any) -> Any:
        """The divergence, averaged over slices; its gradient by the made rows is automatic."""
        ratios = self.estimate_ratios(device, reference, made)
        return DIVERGENCES[self.function](device.torch, ratios).mean()


def _kernel(torch: Any, one: Any, other: Any, scale: Any) -> Any:
    """exp(-distance^2 / (2 scale^2)) on each slice, shape [slices, rows of one, rows of the other]."""
    left, right = one / scale[:, None, None], other / scale[:, None, None]
    # The squared distance is the squared lengths of both, less twice their product.
    left_lengths, right_lengths = (left**2).sum(-1), (right**2).sum(-1)
    lengths = left_lengths[:, :, None] + right_lengths[:, None, :]
    exponents = torch.baddbmm(lengths, left, right.transpose(-1, -2), beta=-0.5)
    # Rounding may leave a square just below 0, where rows are equal.
    return exponents.clamp(max=0.0).exp()


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
        # On a line the cheapest plan pairs sorted numbers.
        apart = (made.sort(1).values - reference.rows).abs()
        return (apart**self.power).mean().clamp(min=MIN_POWER) ** (1.0 / self.power)
