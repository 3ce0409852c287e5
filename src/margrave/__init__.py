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
    from margrave import datasets, errors, images, models, regression, select
    from margrave.auditing import Audit, audit
    from margrave.privacy.ledger.book import Book
    from margrave.privacy.unit import Unit
    from margrave.progress import show_progress
    from margrave.release import Guarantee, NoisyMarginal, Provenance, Release
    from margrave.run import slicing
    from margrave.run.evaluate import evaluate, review
    from margrave.run.owner_sizes import owner_sizes
    from margrave.run.synthesis import Synthesis, load
    from margrave.run.synthesizer import Synthesizer, synthesize
    from margrave.run.without_table import fit_tables, make_dummy
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
    from margrave.schema.constraints import rules
    from margrave.schema.domain import Domain
    from margrave.schema.given import Between
    from margrave.schema.schema import Schema
    from margrave.schema.storage.text import TextFormat
    from margrave.tables.files import read_tables

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
    "images",
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
    "slicing",
    "synthesize",
]


__version__ = "0.1.0.dev0"

_HOMES = {
    "Audit": "margrave.auditing",
    "Between": "margrave.schema.given",
    "Book": "margrave.privacy.ledger.book",
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
    "Synthesis": "margrave.run.synthesis",
    "Synthesizer": "margrave.run.synthesizer",
    "TextFormat": "margrave.schema.storage.text",
    "Time": "margrave.schema.columns",
    "Unit": "margrave.privacy.unit",
    "Unknown": "margrave.schema.columns",
    "audit": "margrave.auditing",
    "evaluate": "margrave.run.evaluate",
    "fit_tables": "margrave.run.without_table",
    "load": "margrave.run.synthesis",
    "make_dummy": "margrave.run.without_table",
    "owner_sizes": "margrave.run.owner_sizes",
    "read_tables": "margrave.tables.files",
    "review": "margrave.run.evaluate",
    "show_progress": "margrave.progress",
    "synthesize": "margrave.run.synthesizer",
}
_ROOMS = {
    "datasets": "margrave.datasets",
    "errors": "margrave.errors",
    "images": "margrave.images",
    "models": "margrave.models",
    "regression": "margrave.regression",
    "rules": "margrave.schema.constraints.rules",
    "select": "margrave.select",
    "slicing": "margrave.run.slicing",
}


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
