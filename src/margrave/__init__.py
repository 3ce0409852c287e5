"""margrave: differentially private releases of tables, through one guarded door.

    import margrave as mg

    synthesis = mg.Synthesizer(epsilon=1.0).fit(frame_or_path)
    table = synthesis.sample()

Names are loaded when they are first used, so that importing the package stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from margrave import errors, models, select
    from margrave._api import Synthesizer, evaluate, synthesize
    from margrave.fitting import fit_tables
    from margrave.privacy.unit import Unit
    from margrave.release import Guarantee, NoisyMarginal, Release
    from margrave.schema.columns import Boolean, Categorical, Integer, Ordinal, Real, Unknown
    from margrave.schema.domain import Domain
    from margrave.schema.schema import Schema
    from margrave.synthesis import Synthesis, load
    from margrave.tables.files import read_tables

__version__ = "0.1.0.dev0"

_HOMES = {
    "Boolean": "margrave.schema.columns",
    "Categorical": "margrave.schema.columns",
    "Domain": "margrave.schema.domain",
    "Guarantee": "margrave.release",
    "Integer": "margrave.schema.columns",
    "NoisyMarginal": "margrave.release",
    "Ordinal": "margrave.schema.columns",
    "Real": "margrave.schema.columns",
    "Release": "margrave.release",
    "Schema": "margrave.schema.schema",
    "Synthesis": "margrave.synthesis",
    "Synthesizer": "margrave._api",
    "Unit": "margrave.privacy.unit",
    "Unknown": "margrave.schema.columns",
    "evaluate": "margrave._api",
    "fit_tables": "margrave.fitting",
    "load": "margrave.synthesis",
    "read_tables": "margrave.tables.files",
    "synthesize": "margrave._api",
}
_ROOMS = ("errors", "models", "select")

__all__ = [
    "Boolean",
    "Categorical",
    "Domain",
    "Guarantee",
    "Integer",
    "NoisyMarginal",
    "Ordinal",
    "Real",
    "Release",
    "Schema",
    "Synthesis",
    "Synthesizer",
    "Unit",
    "Unknown",
    "errors",
    "evaluate",
    "fit_tables",
    "load",
    "models",
    "read_tables",
    "select",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _ROOMS:
        value = import_module(f"margrave.{name}")
    else:
        raise AttributeError(f"module 'margrave' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
