"""What a benchmark has found, and the folder that keeps it. **Not private**: exact scores of private rows.

First the outcomes of cells as Parquet, one row a cell, and back: scores are columns `metric_NAME`, and what
margrave and the machine were is in every row, since cells of one folder may have run on several. `Findings`
has the outcomes by table, method and epsilon, as means with intervals.

Then `Store`, the folder:

    benchmark.json     what all its cells share, and a fingerprint of each entry
    cells/KEY.json     the outcome of one finished cell; it appears whole or not at all
    results.parquet    all outcomes, one row a cell, sorted by key; it is enough to go on from

A folder holds one benchmark: another seed, delta, share or set of metrics, or an entry that changed, needs
another folder, so that figures which look alike are alike. Entries, epsilons and repeats can be added.

Last the facts about a run, which are public: versions, the machine, the commit of the code.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from margrave import __version__
from margrave.benchmark.datasets import TableEntry
from margrave.benchmark.grid import Cell, Grid, check_halves
from margrave.benchmark.methods import REFERENCES, MethodEntry
from margrave.errors import InputError, invalid
from margrave.evaluation.metrics.registry import METRICS
from margrave.evaluation.score import Facts, Summary, summarise
from margrave.files import write_text, written_whole
from margrave.limits import count_cores
from margrave.methods import METHODS
from margrave.privacy.ledger.system_files import take_lock

if TYPE_CHECKING:
    import pyarrow as pa


METRIC = "metric_"
DIGEST = b"margrave.benchmark.digest"
TEXTS = ("key", "data", "method", "kind", "status", "stage", "reason", "day")
FLOATS = (
    *("epsilon", "delta", "share", "max_seconds"),
    *(
        "fit_seconds",
        "sample_seconds",
        "score_seconds",
        "synthesis_cpu_seconds",
        "wall_seconds",
        "cpu_seconds",
    ),
)
WHOLES = (
    *("repeat", "seed", "peak_bytes", "synthesis_peak_bytes", "max_bytes"),
    *("train_rows", "held_out_rows", "columns", "workers"),
)
OBJECTS = ("versions", "machine", "notes")
"""Kept as JSON text."""


def write_results(outcomes: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write outcomes, sorted by key; a file that holds the same outcomes is left as it is.

    Args:
        outcomes: JSON objects with some of the fields above and `scores`, by name.
        path: Where to.
    """
    import pyarrow.parquet as pq

    ordered = sorted((_drop_empty(outcome) for outcome in outcomes), key=lambda outcome: str(outcome["key"]))
    found = hashlib.sha256(json.dumps(ordered, sort_keys=True).encode()).hexdigest().encode()
    if _digest(path) == found:
        return
    table = _write_outcomes(ordered).replace_schema_metadata({DIGEST: found})
    with written_whole(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def _drop_empty(outcome: Mapping[str, Any]) -> dict[str, Any]:
    """An outcome without what is None or empty: as it was before it was written, or after it was read."""
    kept = {name: value for name, value in outcome.items() if value is not None and name != "scores"}
    scores = {name: value for name, value in outcome.get("scores", {}).items() if value is not None}
    return {name: value for name, value in kept.items() if value != {}} | {"scores": scores}


def _digest(path: Path) -> bytes | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(path).metadata
    except (OSError, pa.ArrowException):
        return None
    return None if metadata is None else metadata.get(DIGEST)


def _write_outcomes(outcomes: Sequence[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for names, kind in ((TEXTS, pa.string()), (FLOATS, pa.float64()), (WHOLES, pa.int64())):
        for name in names:
            columns[name] = pa.array([outcome.get(name) for outcome in outcomes], kind)
    for name in OBJECTS:
        texts = [json.dumps(outcome.get(name, {}), sort_keys=True) for outcome in outcomes]
        columns[name] = pa.array(texts, pa.string())
    for score in sorted({name for outcome in outcomes for name in outcome.get("scores", {})}):
        values = [outcome.get("scores", {}).get(score) for outcome in outcomes]
        columns[METRIC + score] = pa.array(values, pa.float64())
    return pa.table(columns)


def read_results(path: Path) -> list[dict[str, Any]]:
    """Outcomes as they were written, scores by name under `scores`.

    Raises:
        InputError: There is no such file, or it is none of these.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException):
        rows = None
    if rows is None or any("key" not in row or "status" not in row for row in rows):
        remedy = "Give the folder of a benchmark that has run."
        raise InputError(invalid("results", "a file written by margrave bench", remedy, got=path.name))
    return [_outcome_from_row(row) for row in rows]


def _outcome_from_row(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in row.items() if not name.startswith(METRIC)}
    scores = {name[len(METRIC) :]: value for name, value in row.items() if name.startswith(METRIC)}
    objects = {name: json.loads(row[name]) for name in OBJECTS}
    return {**plain, **objects, "scores": scores}


Outcome = Mapping[str, Any]


class Findings:
    """What the cells of a benchmark found.

    Args:
        outcomes: As `read_results` gives them.
        metrics: Names of the metrics to look at; all there are by default.

    Raises:
        InputError: There are no outcomes, or there is no such metric among them.
    """

    def __init__(self, outcomes: Sequence[Outcome], metrics: Sequence[str] | None = None) -> None:
        if not outcomes:
            raise InputError(invalid("folder", "one with outcomes", "Run margrave bench first."))
        self.outcomes = tuple(outcomes)
        there = sorted({name for one in outcomes for name in one["scores"]} & set(METRICS))
        unknown = sorted(set(metrics or ()) - set(there))
        if unknown:
            raise InputError(invalid("metrics", f"among {there}", "Run the others first.", got=unknown))
        self.metrics = tuple(metrics or there)
        self.tables = tuple(sorted({str(one["data"]) for one in outcomes}))
        names = {str(one["method"]): str(one["kind"]) for one in outcomes}
        ours = [name for name in sorted(names, key=_rank) if names[name] != "reference"]
        self.methods = tuple(ours)
        self.references = tuple(name for name in REFERENCES if name in names)
        self.epsilons = tuple(sorted({one["epsilon"] for one in outcomes if one["epsilon"] is not None}))
        self._groups: dict[tuple[str, str, float | None], list[Outcome]] = {}
        for one in outcomes:
            self._groups.setdefault((one["data"], one["method"], one["epsilon"]), []).append(one)

    def facts(self, metric: str) -> Facts:
        """What a metric says about itself."""
        return METRICS[metric].facts

    def runs(self, table: str, method: str, epsilon: float | None) -> list[Outcome]:
        """The finished runs of a cell, by repeat; a reference's are the same for every epsilon."""
        key = (table, method, None if method in REFERENCES else epsilon)
        done = [one for one in self._groups.get(key, []) if one["status"] == "done"]
        return sorted(done, key=lambda one: int(one["repeat"]))

    def score(self, table: str, method: str, epsilon: float | None, metric: str) -> Summary | None:
        """A metric's mean over the runs of a cell; None where it is not defined in any."""
        values = [one["scores"].get(metric) for one in self.runs(table, method, epsilon)]
        facts = self.facts(metric)
        found = summarise([[facts.score(value, "")] for value in values if value is not None])
        return found[0] if found and not math.isnan(found[0].mean) else None

    def middle(self, table: str, method: str, epsilon: float | None, field: str) -> float | None:
        """The median of a measured field, such as seconds, over the runs of a cell."""
        found = [one.get(field) for one in self.runs(table, method, epsilon)]
        values = [float(value) for value in found if value is not None]
        return statistics.median(values) if values else None

    def ratio(self, table: str, method: str, epsilon: float, metric: str, against: str) -> float | None:
        """log2 of a mean error over that of another method; of what is missing to 1 where higher is better.

        As figures 1 and 2 of Donhauser et al. 2024. None where one of the two is not there or is 0.
        """
        errors = [self.error(table, name, epsilon, metric) for name in (method, against)]
        if errors[0] is None or errors[1] is None or not (errors[0] > 0 and errors[1] > 0):
            return None
        return math.log2(errors[0] / errors[1])

    def error(self, table: str, method: str, epsilon: float | None, metric: str) -> float | None:
        """A mean as an error: itself where lower is better, else its distance from the goal."""
        found = self.score(table, method, epsilon, metric)
        if found is None:
            return None
        facts = self.facts(metric)
        if facts.better == "lower":
            return found.mean
        # Higher is better: the error is what is missing to the score of equal tables, or to the best there
        # can be.
        best = facts.goal if facts.goal is not None else facts.high
        return None if best is None else best - found.mean

    @property
    def ordered(self) -> tuple[Outcome, ...]:
        """All cells, in the order of methods, references last."""
        places = {name: place for place, name in enumerate((*self.methods, *self.references))}
        return tuple(sorted(self.outcomes, key=lambda one: places[str(one["method"])]))

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """Cells that failed, by key."""
        failed = (one for one in self.outcomes if one["status"] != "done")
        return tuple(sorted(failed, key=lambda one: str(one["key"])))


def _rank(name: str) -> tuple[int, str]:
    """margrave's methods in the order of their table, then others by name."""
    plain = name.removesuffix("+target")
    place = list(METHODS).index(plain) if plain in METHODS else len(METHODS)
    return place, name


FORMAT = 1
"""Version of the result files; others are not read."""


class Store:
    """The folder of a benchmark.

    Args:
        folder: Made if need be.

    Raises:
        InputError: It cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.cells.mkdir(parents=True, exist_ok=True)
        except OSError:
            raise InputError(
                invalid("out", "a folder that can be made", "Pick another.", got=str(folder))
            ) from None

    @property
    def cells(self) -> Path:
        """Where the outcomes lie."""
        return self.folder / "cells"

    @property
    def results(self) -> Path:
        """The outcomes as Parquet."""
        return self.folder / "results.parquet"

    @contextmanager
    def lock_folder(self) -> Iterator[Path]:
        """Nobody else works in the folder; gives a place for files that last no longer.

        Rows for peers lie there as codes, and stay after a kill until the next run: only the owner of the
        folder may read it.

        Raises:
            InputError: Another run is at work in it.
        """
        with (self.folder / ".lock").open("w", encoding="ascii") as handle:
            try:
                take_lock(handle.fileno())
            except OSError:
                remedy = "Wait for the other run, or pick another folder."
                raise InputError(invalid("out", "a folder no other run works in", remedy)) from None
            work = self.folder / ".work"
            shutil.rmtree(work, ignore_errors=True)  # of a run that was killed
            work.mkdir(mode=0o700)
            try:
                yield work
            finally:
                shutil.rmtree(work, ignore_errors=True)

    def declare(self, grid: Grid) -> None:
        """Write down what the grid's cells share, or see that the folder says the same.

        Raises:
            InputError: The folder holds another benchmark.
        """
        path = self.folder / "benchmark.json"
        fresh: dict[str, Any] = {
            "format": FORMAT,
            "settings": grid.settings(),
            "data": {table.name: _describe_entry(table) | _nursery_half(table) for table in grid.tables},
            "methods": {method.name: _describe_entry(method) for method in grid.methods},
        }
        held = self._read_existing(path)
        if held is not None:
            _check_same(held, fresh)
            fresh["data"] = held["data"] | fresh["data"]
            fresh["methods"] = held["methods"] | fresh["methods"]
            check_halves([entry.get("half", "") for entry in fresh["data"].values()], "out")
        text = json.dumps(fresh, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        if held is None or path.read_text(encoding="utf-8") != text:
            write_text(path, text)

    def _read_existing(self, path: Path) -> dict[str, Any] | None:
        if not path.exists():
            return None
        try:
            held = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            held = {}
        if not isinstance(held, dict) or held.get("format") != FORMAT:
            raise InputError(
                invalid("out", "a folder of this version", "Pick another.", got=str(self.folder))
            )
        return held

    def outcomes(self) -> dict[str, dict[str, Any]]:
        """Every outcome by key: of the cells' files, and of results.parquet where a file is gone.

        Raises:
            InputError: results.parquet is none, or a file of a cell is torn.
        """
        held = read_results(self.results) if self.results.exists() else []
        found = {str(one["key"]): one for one in held}
        for path in sorted(self.cells.glob("*.json")):
            if not path.name.startswith("."):  # half written by a run that was killed
                one = _read_outcome(path)
                found[str(one["key"])] = one
        return found

    def put(self, cell: Cell, outcome: Mapping[str, Any]) -> None:
        """Keep the outcome of a cell: it appears whole or not at all."""
        text = json.dumps({"key": cell.key, **outcome}, indent=1, sort_keys=True) + "\n"
        write_text(self.cells / f"{cell.key}.json", text)

    def compact(self) -> None:
        """Write all outcomes as Parquet; a file that holds the same is left as it is."""
        write_results(list(self.outcomes().values()), self.results)


def _read_outcome(path: Path) -> dict[str, Any]:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        held = None
    if not isinstance(held, dict) or "key" not in held or "status" not in held:
        raise InputError(invalid(f"cells/{path.name}", "an outcome", "Delete it and run again."))
    return held


def _describe_entry(entry: TableEntry | MethodEntry) -> dict[str, str]:
    """A fingerprint of an entry, and what it is for those who read the results; no path."""
    if isinstance(entry, TableEntry):
        return {"digest": entry.digest, "title": entry.title, "source": entry.source}
    return {"digest": entry.digest, "title": entry.summary, "source": ""}


def _nursery_half(table: TableEntry) -> dict[str, str]:
    """The half of the nursery that a table is in, if it is in one."""
    return {"half": table.half} if table.half else {}


def _check_same(held: Mapping[str, Any], fresh: Mapping[str, Any]) -> None:
    for key, value in fresh["settings"].items():
        if held["settings"].get(key) != value:
            remedy = "Say the same, or pick another --out."
            raise InputError(invalid(key, "that of the folder's benchmark", remedy, got=value))
    for key in ("data", "methods"):
        for name in set(held[key]) & set(fresh[key]):
            if held[key][name]["digest"] != fresh[key][name]["digest"]:
                remedy = "It has changed since: give it another name, or pick another --out."
                raise InputError(invalid(f"{key} {name}", "the one in the folder's benchmark", remedy))


PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "pyarrow",
    "duckdb",
    "scikit-learn",
    "catboost",
    "xgboost",
    "xgboost-cpu",
    "torch",
)
THREADS = (
    *(f"{name}_NUM_THREADS" for name in ("MKL", "NUMBA", "NUMEXPR", "OMP", "OPENBLAS", "RAYON")),
    *("POLARS_MAX_THREADS", "VECLIB_MAXIMUM_THREADS"),
)
"""What of the environment says how many threads libraries take."""


@functools.cache
def versions() -> dict[str, str]:
    """Versions of Python, margrave and what it works with, where it is installed."""
    found = {"python": platform.python_version(), "margrave": __version__}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    commit = _find_commit()
    return found | ({"commit": commit} if commit else {})


@functools.cache
def machine_facts() -> dict[str, Any]:
    """The processor, its cores that we may use, the memory in bytes and the system."""
    return {
        "cpu": _processor_name(),
        "cores": count_cores(),
        "memory": _memory_bytes(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def _processor_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model"):
            return value.strip()
    return _ask_program(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]) or platform.machine()


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _find_commit() -> str:
    """The commit of the code that runs, with + where it was changed since; empty outside its repository."""
    here = Path(__file__).resolve().parents[1]
    git = ["git", "-C", str(here)]
    if not _ask_program([*git, "ls-files", "--error-unmatch", "__init__.py"]):
        return ""  # installed somewhere inside another repository
    head = _ask_program([*git, "rev-parse", "--short=12", "HEAD"])
    changed = _ask_program([*git, "status", "--porcelain", "--", str(here)])
    return head + ("+" if head and changed else "")


def _ask_program(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - fixed commands
            list(command), capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
