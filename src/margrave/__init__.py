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
    from margrave import datasets, errors, models, regression, select
    from margrave._api import Synthesizer, evaluate, synthesize
    from margrave.auditing import Audit, audit
    from margrave.dummy import make_dummy
    from margrave.fitting import fit_tables
    from margrave.notebook import show_progress
    from margrave.owners import owner_sizes
    from margrave.privacy.book import Book
    from margrave.privacy.unit import Unit
    from margrave.release import Guarantee, NoisyMarginal, Provenance, Release
    from margrave.reviewing import review
    from margrave.schema import rules
    from margrave.schema.choices import Between
    from margrave.schema.columns import (
        Boolean,
        Categorical,
        Date,
        Duration,
        Identifier,
        Integer,
        Moment,
        Omitted,
        Ordinal,
        Real,
        Time,
        Unknown,
    )
    from margrave.schema.domain import Domain
    from margrave.schema.schema import Schema
    from margrave.schema.text_format import TextFormat
    from margrave.synthesis import Synthesis, load
    from margrave.tables.files import read_tables

__version__ = "0.1.0.dev0"

_HOMES = {
    "Audit": "margrave.auditing",
    "Between": "margrave.schema.choices",
    "Book": "margrave.privacy.book",
    "Boolean": "margrave.schema.columns",
    "Categorical": "margrave.schema.columns",
    "Date": "margrave.schema.columns",
    "Domain": "margrave.schema.domain",
    "Duration": "margrave.schema.columns",
    "Guarantee": "margrave.release",
    "Identifier": "margrave.schema.columns",
    "Integer": "margrave.schema.columns",
    "Moment": "margrave.schema.columns",
    "NoisyMarginal": "margrave.release",
    "Omitted": "margrave.schema.columns",
    "Ordinal": "margrave.schema.columns",
    "Real": "margrave.schema.columns",
    "Provenance": "margrave.release",
    "Release": "margrave.release",
    "Schema": "margrave.schema.schema",
    "Synthesis": "margrave.synthesis",
    "Synthesizer": "margrave._api",
    "TextFormat": "margrave.schema.text_format",
    "Time": "margrave.schema.columns",
    "Unit": "margrave.privacy.unit",
    "Unknown": "margrave.schema.columns",
    "audit": "margrave.auditing",
    "evaluate": "margrave._api",
    "fit_tables": "margrave.fitting",
    "load": "margrave.synthesis",
    "make_dummy": "margrave.dummy",
    "owner_sizes": "margrave.owners",
    "read_tables": "margrave.tables.files",
    "review": "margrave.reviewing",
    "show_progress": "margrave.notebook",
    "synthesize": "margrave._api",
}
_ROOMS = {
    "datasets": "margrave.datasets",
    "errors": "margrave.errors",
    "models": "margrave.models",
    "regression": "margrave.regression",
    "rules": "margrave.schema.rules",
    "select": "margrave.select",
}

__all__ = [
    "Audit",
    "Between",
    "Book",
    "Boolean",
    "Categorical",
    "Date",
    "Domain",
    "Duration",
    "Guarantee",
    "Identifier",
    "Integer",
    "Moment",
    "NoisyMarginal",
    "Omitted",
    "Ordinal",
    "Provenance",
    "Real",
    "Release",
    "Schema",
    "Synthesis",
    "Synthesizer",
    "TextFormat",
    "Time",
    "Unit",
    "Unknown",
    "audit",
    "datasets",
    "errors",
    "evaluate",
    "fit_tables",
    "load",
    "make_dummy",
    "models",
    "owner_sizes",
    "read_tables",
    "regression",
    "review",
    "rules",
    "select",
    "show_progress",
    "synthesize",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _ROOMS:
        value = import_module(_ROOMS[name])
    else:
        raise AttributeError(f"module 'margrave' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
