"""Fitters and models: released marginals in, a distribution and synthetic rows out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from margrave.models.independent import Independent
    from margrave.models.mixture.fitter import Mixture
    from margrave.models.pgm.fitter import PGM
    from margrave.models.table import resolve

__all__ = ["PGM", "Independent", "Mixture", "resolve"]

_HOMES = {
    "PGM": "margrave.models.pgm.fitter",
    "Independent": "margrave.models.independent",
    "Mixture": "margrave.models.mixture.fitter",
    "resolve": "margrave.models.table",
}


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used, so that `import margrave.models` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
