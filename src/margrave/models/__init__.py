"""Fitters and models: released marginals in, a distribution and synthetic rows out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from margrave.models._base.estimator import Estimator
    from margrave.models._base.model import Model
    from margrave.models.diffusion.fitter import Diffusion
    from margrave.models.independent import Independent
    from margrave.models.mixture.fitter import Mixture
    from margrave.models.networks.merf import Merf
    from margrave.models.networks.network import Network
    from margrave.models.particles.fitter import Particles
    from margrave.models.pgm.fitter import PGM
    from margrave.models.pgm.multiplicative_weights import PMW
    from margrave.models.registry import resolve
    from margrave.models.relaxed import Relaxed
    from margrave.models.rowwise.genetic import Genetic
    from margrave.models.rowwise.gum import GUM
    from margrave.models.rowwise.residual import Residual
    from margrave.models.sliced.fitter import SliceFDiv, SliceWass

__all__ = [
    "GUM",
    "PGM",
    "PMW",
    "Diffusion",
    "Estimator",
    "Genetic",
    "Independent",
    "Merf",
    "Mixture",
    "Model",
    "Network",
    "Particles",
    "Relaxed",
    "Residual",
    "SliceFDiv",
    "SliceWass",
    "resolve",
]


_HOMES = {
    "Estimator": "margrave.models._base.estimator",
    "Model": "margrave.models._base.model",
    "GUM": "margrave.models.rowwise.gum",
    "PGM": "margrave.models.pgm.fitter",
    "PMW": "margrave.models.pgm.multiplicative_weights",
    "Diffusion": "margrave.models.diffusion.fitter",
    "Genetic": "margrave.models.rowwise.genetic",
    "Residual": "margrave.models.rowwise.residual",
    "Independent": "margrave.models.independent",
    "Merf": "margrave.models.networks.merf",
    "Mixture": "margrave.models.mixture.fitter",
    "Network": "margrave.models.networks.network",
    "Particles": "margrave.models.particles.fitter",
    "Relaxed": "margrave.models.relaxed",
    "SliceFDiv": "margrave.models.sliced.fitter",
    "SliceWass": "margrave.models.sliced.fitter",
    "resolve": "margrave.models.registry",
}


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used, so that `import margrave.models` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
