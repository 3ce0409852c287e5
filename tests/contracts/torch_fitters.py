"""The fitters that need PyTorch, in sizes for small tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from margrave.models.networks.network import Network
from margrave.models.networks.public_network import PublicNetwork
from margrave.models.particles import Particles
from margrave.models.relaxed import Relaxed

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

SMALL_NAMES = [pytest.param(name, marks=NEEDS_TORCH) for name in SMALL]
"""The names of SMALL as parameters of tests."""
