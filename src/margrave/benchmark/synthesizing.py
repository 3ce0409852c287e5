"""An entry's rows: what margrave, a reference, a script or a peer makes of a split table. **Not private.**"""

from __future__ import annotations

import dataclasses
import importlib.util
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from margrave.benchmark.domain import merging_schema
from margrave.benchmark.methods import MethodEntry
from margrave.benchmark.peers import run_peer
from margrave.benchmark.prepared import Prepared
from margrave.errors import InputError, MissingExtraError, invalid
from margrave.evaluation.rows import Rows
from margrave.evaluation.splits import bootstrap_rows, shuffled_rows
from margrave.limits import bytes_of

if TYPE_CHECKING:
    from margrave.privacy.unit import Unit
    from margrave.schema.schema import Schema

__all__ = ["Made", "made_rows", "warm_up"]


@dataclass(frozen=True, slots=True)
class Made:
    """Rows that a method made.

    Args:
        rows: As metrics read them.
        fit: Seconds of fitting, imports left out.
        sample: Seconds of sampling.
        versions: Of the libraries of another environment, by name.
    """

    rows: Rows
    fit: float = 0.0
    sample: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)


def warm_up(method: str) -> None:
    """Import what a first call would import, so that the clock leaves it out, as it does for peers.

    PyTorch too, where the method computes with it; where that is missing, nothing: its first call says so.
    """
    import margrave.engines.opening
    import margrave.measure.curator
    import margrave.measure.discover
    import margrave.models.mixture
    import margrave.models.pgm.fitter
    import margrave.synthesis  # noqa: F401
    from margrave._api import Synthesizer
    from margrave.parts import check_libraries

    with suppress(MissingExtraError):
        check_libraries(Synthesizer(method, epsilon=1.0, delta=1e-5).fitter)


def made_rows(
    method: MethodEntry,
    prepared: Prepared,
    budget: tuple[float, float],
    rng: np.random.Generator,
    folder: Path,
    python: str | None = None,
) -> Made:
    """As many rows as the method learned from.

    Args:
        method: The entry.
        prepared: The split table.
        budget: epsilon and delta.
        rng: Of sampling; the noise is secure and has no seed.
        folder: An empty folder to exchange files with a peer in.
        python: The interpreter of a peer's environment.

    Raises:
        InputError: The method cannot do this table.
    """
    if method.kind == "reference":
        return _reference(method.name, prepared, rng)
    if method.kind == "script":
        return _script(method, prepared, budget, rng)
    if method.kind == "peer":
        schema = _public(prepared, method.name)
        assert python is not None  # noqa: S101 - the run makes the environment before the cell
        rows, record = run_peer(method, prepared, schema, budget, rng, folder, python)
        return Made(prepared.rows_of(rows), record["fit"], record["sample"], record.get("versions", {}))
    return _ours(method, prepared, budget, rng)


def _reference(name: str, prepared: Prepared, rng: np.random.Generator) -> Made:
    start = time.perf_counter()
    make = {"real": lambda rows, _: rows, "bootstrap": bootstrap_rows, "shuffled": shuffled_rows}[name]
    rows = make(prepared.train_rows, rng)
    return Made(rows, 0.0, time.perf_counter() - start)


def _ours(
    method: MethodEntry, prepared: Prepared, budget: tuple[float, float], rng: np.random.Generator
) -> Made:
    from margrave._api import Synthesizer

    settings, entry = method.settings, prepared.entry
    options: dict[str, Any] = dict(settings["options"])
    if isinstance(options.get("max_memory"), str):
        options["max_memory"] = bytes_of(options["max_memory"])
    if settings["target"]:
        if prepared.target is None:
            raise InputError(invalid(f"table {entry.name}", "one with a target", f"{method.name} needs it."))
        options["target"] = prepared.target
    schema = prepared.public
    if schema is not None and entry.rare:
        schema = merging_schema(schema, entry.rare)
    if entry.discovery:
        options.setdefault("discovery", _discovery(schema, prepared.scoring, entry.discovery))
    start = time.perf_counter()
    synthesizer = Synthesizer(
        settings["method"],
        epsilon=budget[0],
        delta=budget[1],
        unit=_unit(entry.owner, entry.max_rows),
        schema=schema,
        **options,
    )
    synthesis = synthesizer.fit(prepared.train)
    fitted = time.perf_counter()
    table = synthesis.sample_arrow(prepared.train_rows.size, rng=rng)
    done = time.perf_counter()
    return Made(prepared.rows_of(table), fitted - start, done - fitted)


def _discovery(schema: Schema | None, columns: Schema, share: float) -> float:
    """The `discovery` of `Synthesizer` with which columns that are not known get a share of rho in all."""
    from margrave.measure.discover import open_share

    every = len(columns.attributes)
    asked = float(every) if schema is None else float(sum(map(open_share, schema.attributes)))
    return share * every / asked if asked else share


def _unit(owner: str, max_rows: int) -> Unit | None:
    from margrave.privacy.unit import Unit

    return Unit(owner, max_rows) if owner else None


def _public(prepared: Prepared, name: str) -> Schema:
    """The schema that a peer is told, every code of it there to be used."""
    if prepared.public is None or prepared.entry.owner:
        constraint = "one with a public domain that protects rows"
        raise InputError(invalid(f"table {prepared.entry.name}", constraint, f"{name} can do no other."))
    columns = tuple(dataclasses.replace(column, strict=True) for column in prepared.public.columns)
    return dataclasses.replace(prepared.public, columns=columns)


def _script(
    method: MethodEntry, prepared: Prepared, budget: tuple[float, float], rng: np.random.Generator
) -> Made:
    """Rows of a function `synthesize(table, schema, *, epsilon, delta, target, rows, rng)` in a file."""
    assert method.script is not None  # noqa: S101 - an entry of this kind has one
    spec = importlib.util.spec_from_file_location(f"margrave_bench_{method.name}", method.script)
    assert spec is not None  # noqa: S101 - the path ends in .py
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    synthesize = getattr(module, "synthesize", None)
    if not callable(synthesize):
        raise InputError(invalid(f"script {method.name}", "with a function synthesize", "Define it."))
    start = time.perf_counter()
    table = synthesize(
        prepared.train,
        prepared.public,
        epsilon=budget[0],
        delta=budget[1],
        target=prepared.target,
        rows=prepared.train_rows.size,
        rng=rng,
    )
    return Made(prepared.rows_of(table), time.perf_counter() - start)
