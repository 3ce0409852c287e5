"""Grid: what a benchmark is to run, and the cells that it is made of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from margrave.benchmark.datasets import TableEntry, expand_words, table_entry
from margrave.benchmark.methods import MethodEntry, method_entry
from margrave.errors import InputError, invalid
from margrave.evaluation.metrics.registry import METRICS
from margrave.files import check_entries, read_spec
from margrave.limits import Limits, bytes_of

DEFAULT_METRICS = (
    "average_sw1",
    "average_tv",
    "counting_queries",
    "covariance_error",
    "fidelity_error",
    "l1_3way",
    "l1_4way",
    "logistic_f1",
    "query_error",
    "threshold_queries",
)
"""The metrics by default: those of the papers that take seconds."""
LEARNING_METRICS = ("downstream_error", "ml_accuracy", "ml_auc", "ml_f1")
"""What `--metrics learnt` adds: models trained on the rows, which takes a minute a cell and more."""
DEPENDENCE = ("dependence_invented", "dependence_kept", "order_broken", "rank_slope")
"""What `--metrics dependence` adds: what a mean of total variations does not see."""
SPEC: dict[str, type] = {
    "methods": list,
    "data": list,
    "epsilon": list,
    "repeats": int,
    "metrics": list,
    "delta": float,
    "share": float,
    "seed": int,
    "max_seconds": float,
    "max_memory": str,
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One run: a table, a method, an epsilon and a repeat.

    Args:
        table: The table's entry.
        method: The method's entry.
        epsilon: None for a reference, which spends nothing.
        repeat: From 0.
    """

    table: TableEntry
    method: MethodEntry
    epsilon: float | None
    repeat: int

    @property
    def key(self) -> str:
        """Its name, that of the file of its outcome."""
        spent = "reference" if self.epsilon is None else f"eps{self.epsilon!r}"
        return f"{self.table.name}__{self.method.name}__{spent}__{self.repeat}"


@dataclass(frozen=True, slots=True)
class Grid:
    """A declared benchmark.

    Args:
        methods: Entries, each with a name of its own.
        tables: Likewise.
        epsilons: Above 0.
        repeats: Runs of each cell; noise is drawn anew in each.
        metrics: Names of `margrave.evaluation.METRICS`; those that need a target are not defined without one.
        delta: In (0, 1).
        share: Of the rows, held out.
        seed: Of the split, of sampling and of what metrics draw; never of the noise.
        limits: Time and memory of one cell.

    Raises:
        InputError: Something is out of its range, named twice or missing.
    """

    methods: tuple[MethodEntry, ...]
    tables: tuple[TableEntry, ...]
    epsilons: tuple[float, ...]
    repeats: int = 5
    metrics: tuple[str, ...] = DEFAULT_METRICS
    delta: float = 1e-9
    share: float = 0.2
    seed: int = 0
    limits: Limits = dataclasses.field(default_factory=Limits)

    def __post_init__(self) -> None:
        for param, entries in (("methods", self.methods), ("data", self.tables)):
            _check_several(param, [entry.name for entry in entries])
        check_halves([entry.half for entry in self.tables], "data")
        _check_several("epsilon", self.epsilons)
        _check_several("metrics", self.metrics)
        if any(not (math.isfinite(epsilon) and epsilon > 0) for epsilon in self.epsilons):
            raise InputError(invalid("epsilon", "finite numbers above 0", "Try 1.", got=list(self.epsilons)))
        unknown = sorted(set(self.metrics) - set(METRICS))
        if unknown:
            raise InputError(invalid("metrics", f"among {list(METRICS)}", "Check them.", got=unknown))
        if self.repeats < 1:
            raise InputError(invalid("repeats", "at least 1", "Try 5.", got=self.repeats))
        for param, value in (("delta", self.delta), ("share", self.share)):
            if not 0 < value < 1:
                raise InputError(invalid(param, "between 0 and 1, both excluded", "Correct it.", got=value))
        if self.seed < 0:
            raise InputError(invalid("seed", "a whole number, not negative", "Try 0.", got=self.seed))

    def cells(self) -> Iterator[Cell]:
        """All cells, in the order of tables, epsilons, methods and repeats; references come first.

        The real rows are the same in every repeat and have one cell a table.
        """
        for table in self.tables:
            for method in self.methods:
                if method.epsilon_free:
                    for repeat in range(1 if method.name == "real" else self.repeats):
                        yield Cell(table, method, None, repeat)
            for epsilon in self.epsilons:
                for method in self.methods:
                    if not method.epsilon_free:
                        for repeat in range(self.repeats):
                            yield Cell(table, method, epsilon, repeat)

    def settings(self) -> dict[str, Any]:
        """What all cells of one folder share."""
        return {"delta": self.delta, "metrics": sorted(self.metrics), "seed": self.seed, "share": self.share}


def read_grid(spec: Path | None, given: Mapping[str, Any], root: Path | None = None) -> Grid:
    """The grid of a spec file, options on top.

    Args:
        spec: A TOML or JSON file; paths in it are relative to it. None for options alone.
        given: Options by the names of `SPEC`, None where an option was not given.
        root: Where data files lie.

    Raises:
        InputError: Something is missing or cannot be used.
    """
    said = {} if spec is None else check_entries(read_spec(spec, "spec"), SPEC, f"the grid {spec.name}")
    chosen = {key: value for key, value in given.items() if value is not None}
    here = Path()
    base = {key: here if key in chosen or spec is None else spec.parent for key in ("methods", "data")}
    said = said | chosen
    for key in ("methods", "data", "epsilon"):
        if not said.get(key):
            raise InputError(invalid(key, "given", f"Say --{key}, or give --spec a file that does."))
    _check_kinds(said)
    memory = said.get("max_memory")
    return Grid(
        methods=tuple(method_entry(word, base["methods"]) for word in said["methods"]),
        tables=tuple(table_entry(word, base["data"], root) for word in expand_words(said["data"])),
        epsilons=tuple(float(value) for value in said["epsilon"]),
        limits=Limits(None if memory is None else bytes_of(memory), said.get("max_seconds")),
        metrics=_spell_out_metrics(said.get("metrics", DEFAULT_METRICS)),
        **{key: said[key] for key in ("repeats", "delta", "share", "seed") if key in said},
    )


def check_halves(halves: Sequence[str], param: str) -> None:
    """Check that tables are of one half of the nursery at most: nothing may be chosen on the reporting half.

    Raises:
        InputError: They are of both.
    """
    found = sorted({half for half in halves if half})
    if len(found) > 1:
        remedy = "Choose on one half, then report on the other, in a folder of its own."
        raise InputError(invalid(param, "tables of one half of the nursery", remedy, got=found))


def _spell_out_metrics(words: Sequence[str]) -> tuple[str, ...]:
    """Names of metrics, "cheap", "dependence", "learnt" and "all" spelt out."""
    groups = {
        "cheap": DEFAULT_METRICS,
        "dependence": DEPENDENCE,
        "learnt": LEARNING_METRICS,
        "all": tuple(METRICS),
    }
    names = [name for word in words for name in groups.get(word, (word,))]
    return tuple(dict.fromkeys(names))


def _check_kinds(said: Mapping[str, Any]) -> None:
    for key, kind, word in (
        ("methods", str, "texts"),
        ("data", str, "texts"),
        ("metrics", str, "texts"),
        ("epsilon", (int, float), "numbers"),
    ):
        if any(not isinstance(value, kind) or isinstance(value, bool) for value in said.get(key, [])):
            raise InputError(invalid(key, f"a list of {word}", "Correct the file."))


def _check_several(param: str, values: Sequence[object]) -> None:
    if not values:
        raise InputError(invalid(param, "one or more", "Name one."))
    twice = sorted({str(value) for value in values if list(values).count(value) > 1})
    if twice:
        raise InputError(invalid(param, "named once each", "Leave out those that repeat.", got=twice))
