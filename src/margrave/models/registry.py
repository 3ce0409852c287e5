"""The table of model families: which name stands for which fitter."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    from margrave.protocols import Fitter

__all__ = ["FITTERS", "resolve"]


HOMES = {
    "auto": ("margrave.models.auto", "Auto"),
    "compressed": ("margrave.models.compressed", "Compressed"),
    "conditional_pgm": ("margrave.models.conditional", "ConditionalPGM"),
    "diffusion": ("margrave.models.diffusion.fitter", "Diffusion"),
    "gated": ("margrave.models.gated.fitter", "Gated"),
    "genetic": ("margrave.models.rowwise.genetic", "Genetic"),
    "gum": ("margrave.models.rowwise.gum", "GUM"),
    "independent": ("margrave.models.independent", "Independent"),
    "merf": ("margrave.models.merf", "Merf"),
    "mixture": ("margrave.models.mixture.fitter", "Mixture"),
    "network": ("margrave.models.network", "Network"),
    "particles": ("margrave.models.particles.fitter", "Particles"),
    "pgm": ("margrave.models.pgm.fitter", "PGM"),
    "pmw": ("margrave.models.multiplicative_weights", "PMW"),
    "relaxed": ("margrave.models.relaxed.fitter", "Relaxed"),
    "relaxed_points": ("margrave.models.relaxed.fitter", "pointwise"),
    "residual": ("margrave.models.residual", "Residual"),
}
"""The module and the class of each fitter, imported when it is asked for."""

FITTERS = tuple(sorted(HOMES))
"""Every name `resolve` knows."""


def resolve(name: str) -> Fitter:
    """The fitter of a name, with its default settings.

    Raises:
        InputError: No fitter has this name.

    Example:
        >>> resolve("pgm").name
        'pgm'
    """
    if name not in HOMES:
        raise InputError(invalid("model", f"one of {FITTERS}", "Or pass a fitter object.", got=name))
    module, kind = HOMES[name]
    fitter: Fitter = getattr(import_module(module), kind)()
    return fitter
