"""The table of model families: which name stands for which fitter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from margrave.errors import InputError, invalid

if TYPE_CHECKING:
    from margrave.protocols import Fitter

__all__ = ["FITTERS", "resolve"]

FITTERS = ("independent", "mixture", "pgm")
"""Every name `resolve` knows."""


def resolve(name: str) -> Fitter:
    """The fitter of a name, with its default settings.

    Raises:
        InputError: No fitter has this name.

    Example:
        >>> resolve("pgm").name
        'pgm'
    """
    if name == "pgm":
        from margrave.models.pgm.fitter import PGM

        return PGM()
    if name == "mixture":
        from margrave.models.mixture.fitter import Mixture

        return Mixture()
    if name == "independent":
        from margrave.models.independent import Independent

        return Independent()
    raise InputError(invalid("model", f"one of {FITTERS}", "Or pass a fitter object.", got=name))
