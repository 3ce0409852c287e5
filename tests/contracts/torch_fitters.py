"""The fitters that need PyTorch, in sizes for small tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from margrave.models.adversarial import GradientGan, VotedGan
from margrave.models.diffusion.fitter import Diffusion
from margrave.models.networks.network import Network, PublicNetwork
from margrave.models.particles.fitter import Particles
from margrave.models.relaxed import Relaxed
from margrave.models.sliced.fitter import SliceFDiv, SliceWass
from margrave.models.sliced.training import Course

NEEDS_TORCH = pytest.mark.needs_extra("torch")

SMALL: dict[str, Callable[[], Any]] = {
    "network": lambda: Network(components=30, noise=8, widths=(16,), steps=120, rate=0.03),
    "public_network": lambda: PublicNetwork(
        components=30, noise=8, widths=(16,), steps=120, rate=0.03, pretraining=0
    ),
    "particles": lambda: Particles(particles=1500, epochs=25, projection_steps=40, projection_directions=20),
    "relaxed": lambda: Relaxed(rows=40, steps=150),
    "relaxed_points": lambda: Relaxed(rows=40, steps=150, blocks="points"),
}
"""Small, and still close to what is measured."""

TINY: dict[str, Callable[[], Any]] = {
    "network": lambda: Network(components=8, noise=4, widths=(8,), steps=5),
    "public_network": lambda: PublicNetwork(components=8, noise=4, widths=(8,), steps=5, pretraining=0),
    "particles": lambda: Particles(
        particles=300, epochs=2, directions=1, batch=20, projection_steps=5, projection_directions=5
    ),
    "relaxed": lambda: Relaxed(rows=10, steps=10),
    "relaxed_points": lambda: Relaxed(rows=10, steps=10, blocks="points", thresholds=1),
}
"""For what must hold however rough the fit."""

_COURSE = Course(steps=3, batch=16, slices=2, k=1)
TRAINED: dict[str, Callable[[], Any]] = {
    "diffusion": lambda: Diffusion(widths=(8,), times=5, draws=1),
    "gan": lambda: GradientGan(widths=(8,), judging=(8,), latent=4, batch=16),
    "slice_fdiv": lambda: SliceFDiv(course=_COURSE, widths=(8,), noise=4, components=20),
    "slice_wass": lambda: SliceWass(course=_COURSE, widths=(8,), noise=4, components=20),
    "voted_gan": lambda: VotedGan(widths=(8,), judging=(8,), latent=4, batch=8, questions=8),
}
"""Those that learn from rows, votes or noisy copies and from no marginal, in sizes for small tables."""

SMALL_NAMES = [pytest.param(name, marks=NEEDS_TORCH) for name in SMALL]
"""The names of SMALL as parameters of tests."""
