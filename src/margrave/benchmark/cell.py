"""One cell of the grid, run in a process of its own. **Not private.**

Called as `python -m margrave.benchmark.cell FOLDER PARENT`. FOLDER/request.json says what to do.
The process leaves FOLDER/stage, the stage it has come to, and FOLDER/outcome.json, its scores or the reason
why it has none.

Its rows are what margrave, a reference, a script or a peer makes of a split table.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import math
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from margrave.benchmark.methods import MethodEntry, run_peer
from margrave.benchmark.prepared import Prepared, merging_schema
from margrave.errors import InputError, MargraveError, MissingExtraError, invalid, locate_error
from margrave.evaluation.rows import Rows, bootstrap_rows, shuffled_rows
from margrave.limits import bytes_of

if TYPE_CHECKING:
    from margrave.privacy.unit import Unit
    from margrave.schema.schema import Schema

GUARD = 0.5
"""Seconds between two looks at whether the process that started this one is still there."""


def run_cell(request: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Split, synthesize and score. **Not private.**

    Args:
        request: The entries of method and table, epsilon, delta, repeat, seed, share, metrics and python.
        folder: Where the stage is written and files are exchanged with a peer.

    Returns:
        status "done" with scores, or "error" with a reason that holds no value of the table.
    """
    from margrave.benchmark.datasets import TableEntry
    from margrave.benchmark.methods import MethodEntry

    _note_stage(folder, "load")
    try:
        table, method = TableEntry.from_json(request["table"]), MethodEntry.from_json(request["method"])
        return {"status": "done", **_score_table(request, table, method, folder)}
    except MargraveError as error:
        reason = " ".join(str(error).split())
    except MemoryError:
        reason = "out of memory"
    except Exception as error:  # its message may quote the table
        reason = f"{type(error).__name__}{locate_error(error)}"
    return {"status": "error", "reason": reason}


def _score_table(request: Mapping[str, Any], table: Any, method: Any, folder: Path) -> dict[str, Any]:
    from margrave.benchmark.prepared import prepare, stream
    from margrave.evaluation.review import score_metrics
    from margrave.evaluation.task import Task

    seed, repeat = request["seed"], request["repeat"]
    prepared = prepare(table, request["share"], seed)
    if method.kind == "margrave":
        # What a first call imports is no time of the method.
        warm_up(method.settings["method"])
    rng = stream(seed, "sample", table.name, method.name, request["epsilon"], repeat)
    _note_stage(folder, "synthesize")
    used = _processor_seconds()
    made = made_rows(method, prepared, (request["epsilon"], request["delta"]), rng, folder, request["python"])
    # Read before scoring, which may take more than the method did.
    used, peak = _processor_seconds() - used, _peak_memory()
    _note_stage(folder, "score")
    start = time.perf_counter()
    task = Task(
        *(prepared.train_rows, made.rows, prepared.scoring),
        held_out=prepared.held_rows,
        target=prepared.target,
        seed=seed,
    )
    scores = score_metrics(task, request["metrics"])
    return {
        "scores": {one.name: one.value if math.isfinite(one.value) else None for one in scores},
        "notes": {one.name: one.note for one in scores if one.note},
        "seconds": {"fit": made.fit, "sample": made.sample, "score": time.perf_counter() - start},
        "cpu": used,
        "peak": peak,
        "rows": {"train": prepared.train_rows.size, "held_out": prepared.held_rows.size},
        "columns": len(prepared.scoring.names),
        "versions": dict(made.versions),
    }


def _note_stage(folder: Path, stage: str) -> None:
    (folder / "stage").write_text(stage, encoding="ascii")


def _processor_seconds() -> float:
    """Processor seconds so far, of this process and of those it waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _peak_memory() -> int:
    """Most bytes of memory so far, of this process or of the largest it waited for."""
    unit = 1 if sys.platform == "darwin" else 1024
    both = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return unit * max(resource.getrusage(who).ru_maxrss for who in both)


def _die_with(parent: int) -> None:
    """End this process and all it started when the one that started it is gone, however that was killed."""

    def guard() -> None:
        while os.getppid() == parent:
            time.sleep(GUARD)
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGKILL)
        os._exit(1)  # started by hand: the group is not ours

    threading.Thread(target=guard, daemon=True).start()


def main() -> None:
    """Run the cell that a folder describes; its parent is the second argument."""
    folder = Path(sys.argv[1])
    _die_with(int(sys.argv[2]))
    request = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    outcome = run_cell(request, folder)
    (folder / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")


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
    import margrave.measure.discovery.discover
    import margrave.models.mixture
    import margrave.models.pgm.fitter
    import margrave.run.synthesis  # noqa: F401
    from margrave.run.options import check_libraries
    from margrave.run.synthesizer import Synthesizer

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
        return _make_reference(method.name, prepared, rng)
    if method.kind == "script":
        return _run_script(method, prepared, budget, rng)
    if method.kind == "peer":
        schema = _publish_schema(prepared, method.name)
        assert python is not None  # noqa: S101 - the run makes the environment before the cell
        rows, record = run_peer(method, prepared, schema, budget, rng, folder, python)
        return Made(prepared.rows_of(rows), record["fit"], record["sample"], record.get("versions", {}))
    return _run_margrave(method, prepared, budget, rng)


def _make_reference(name: str, prepared: Prepared, rng: np.random.Generator) -> Made:
    start = time.perf_counter()
    make = {"real": lambda rows, _: rows, "bootstrap": bootstrap_rows, "shuffled": shuffled_rows}[name]
    rows = make(prepared.train_rows, rng)
    return Made(rows, 0.0, time.perf_counter() - start)


def _run_margrave(
    method: MethodEntry, prepared: Prepared, budget: tuple[float, float], rng: np.random.Generator
) -> Made:
    from margrave.run.synthesizer import Synthesizer

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
        options.setdefault("discovery", _split_discovery(schema, prepared.scoring, entry.discovery))
    start = time.perf_counter()
    synthesizer = Synthesizer(
        settings["method"],
        epsilon=budget[0],
        delta=budget[1],
        unit=_make_unit(entry.owner, entry.max_rows),
        schema=schema,
        **options,
    )
    synthesis = synthesizer.fit(prepared.train)
    fitted = time.perf_counter()
    table = synthesis.sample_arrow(prepared.train_rows.size, rng=rng)
    done = time.perf_counter()
    return Made(prepared.rows_of(table), fitted - start, done - fitted)


def _split_discovery(schema: Schema | None, columns: Schema, share: float) -> float:
    """The `discovery` of `Synthesizer` with which columns that are not known get a share of rho in all."""
    from margrave.measure.discovery.discover import open_part

    every = len(columns.attributes)
    part = Fraction(1) if schema is None else open_part(schema.attributes, every)
    return float(share / part) if part else share


def _make_unit(owner: str, max_rows: int) -> Unit | None:
    from margrave.privacy.unit import Unit

    return Unit(owner, max_rows) if owner else None


def _publish_schema(prepared: Prepared, name: str) -> Schema:
    """The schema that a peer is told, every code of it there to be used."""
    if prepared.public is None or prepared.entry.owner:
        constraint = "one with a public domain that protects rows"
        raise InputError(invalid(f"table {prepared.entry.name}", constraint, f"{name} can do no other."))
    columns = tuple(dataclasses.replace(column, strict=True) for column in prepared.public.columns)
    return dataclasses.replace(prepared.public, columns=columns)


def _run_script(
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


if __name__ == "__main__":
    main()
