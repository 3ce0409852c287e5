"""Synthetic tables held against one real table. **Not private**.

`score_metrics` scores one synthetic table by several metrics, with reference rows, and `score_request` the
metrics that a caller named, for tables of any kind. `review`, below, holds one or several tables against the
real one; `add_overall` adds one number for a whole comparison, with the parts that it is the mean of.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

from margrave.errors import InputError, MissingExtraError, invalid
from margrave.evaluation.comparison import NOT_PRIVATE, Comparison, align_columns, compare
from margrave.evaluation.learners import one_thread
from margrave.evaluation.metrics.dependence import pearson
from margrave.evaluation.metrics.efficiency import Efficiency
from margrave.evaluation.metrics.pictures import Curves, Scatter, draw_curves, draw_scatter
from margrave.evaluation.metrics.registry import METRICS, list_asked, metric
from margrave.evaluation.rows import Rows, references, shuffled_rows, widen_schema
from margrave.evaluation.score import Score
from margrave.evaluation.task import Counted, Metric, Task
from margrave.schema.constraints.rules import Rule
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Engine, Source


GROUND_TRUTH = "real rows"
"""Name of the reference row in which the real rows themselves take the synthetic ones' place."""


def score_metrics(task: Task, metrics: str | Sequence[str | Metric] | None = None) -> tuple[Score, ...]:
    """Scores of a task's synthetic table, in the order asked for. **Not private**: do not publish them.

    Metrics made from counts share one pass over each table. Models are trained on one thread, so that a score
    does not depend on the number of cores and a busy machine does not slow it down further.

    Args:
        task: The tables.
        metrics: Names from `METRICS`, or metrics of your own; all of `METRICS` by default, those that need
            a target, held-out rows or rules only if the task has them.

    Raises:
        InputError: There is no such metric, two have one name, or one says that it reads "counts" and is not
            `Counted`.
        MissingExtraError: A metric needs scikit-learn, which is not installed.

    Example:
        >>> import numpy as np
        >>> from margrave.evaluation import Rows
        >>> from margrave.schema.encoded import Encoded
        >>> from margrave.schema.schema import Schema
        >>> schema = Schema.from_sizes({"a": 2, "b": 2})
        >>> codes = Encoded(schema.domain, (np.array([0, 1, 1], np.uint8), np.array([1, 0, 0], np.uint8)))
        >>> rows = Rows.from_codes(codes, schema)
        >>> [score.value for score in score_metrics(Task(rows, rows, schema), ["average_tv", "k_marginal"])]
        [0.0, 1000.0]
    """
    chosen = _choose_metrics(task, metrics)
    task.survey([one for one in chosen if _counts_cliques(one)])
    with one_thread():
        return tuple(one.run(task) for one in chosen)


def score_references(
    task: Task, metrics: Sequence[str | Metric] | None = None
) -> dict[str, Mapping[str, float]]:
    """The same scores of tables to hold the synthetic one against, by reference and name. **Not private**.

    The references are a bootstrap and a shuffle of the real rows and, where rows are held out, the real
    rows themselves, as in the row "Ground Truth" of Chen et al. 2025 (table 2). What is not defined is
    left out.
    """
    return _score_references(task, lambda beside, _: score_metrics(beside, metrics))


def _score_references(
    task: Task, score: Callable[[Task, str], Sequence[Score]]
) -> dict[str, Mapping[str, float]]:
    """What `score` says of each reference table in place of the synthetic one, by its name."""
    tables = references(task.real, task.rng("references"))
    if task.held_out is not None:
        tables = {GROUND_TRUTH: task.real} | tables
    found: dict[str, Mapping[str, float]] = {}
    for name, table in tables.items():
        scores = score(task.of(table), name)
        found[name] = {one.name: one.value for one in scores if not math.isnan(one.value)}
    return found


def _choose_metrics(task: Task, metrics: str | Sequence[str | Metric] | None) -> list[Metric]:
    if metrics is None:
        had = {"target"} if task.target is not None else set[str]()
        had |= {"held_out"} if task.held_out is not None else set()
        had |= {"rules"} if task.rules else set()
        return [one for one in METRICS.values() if had.issuperset(one.facts.needs)]
    chosen = [metric(one) if isinstance(one, str) else one for one in list_asked(metrics)]
    names = [one.facts.name for one in chosen]
    if len(set(names)) < len(names):
        raise InputError(invalid("metrics", "of distinct names", "Ask for each once.", got=names))
    return chosen


def _counts_cliques(one: Metric) -> TypeGuard[Counted]:
    if one.facts.reads != "counts":
        return False
    if not isinstance(one, Counted):
        must = "one with `cliques`, `of` and `unseen`, since its facts have reads='counts', the default"
        remedy = "Give its Facts reads='rows' or reads='values', or see margrave.evaluation.task.Counted."
        raise InputError(invalid(f"metric {one.facts.name!r}", must, remedy))
    return True


class _Held(Protocol):
    """An engine that has the rows' codes at hand."""

    @property
    def encoded(self) -> Encoded: ...


def score_request(
    metrics: Sequence[str | Metric],
    tables: Mapping[str, tuple[Source, Any]],
    schema: Schema,
    *,
    declared: Schema | None = None,
    target: str | None = None,
    seed: int = 0,
) -> tuple[tuple[Score, ...], dict[str, Mapping[str, float]]]:
    """Scores of a synthetic table, and of reference tables in its place. **Not private**.

    Args:
        metrics: Names from `METRICS`, or metrics of your own.
        tables: By "real", "synthetic" and, where rows are held out, "test": the source, whose engine holds
            the codes, and the pyarrow.Table of raw values, or None where it is too large to be held.
        schema: Of the first two tables, as `observed_schema` reads it off them.
        declared: What was known of the columns before any was read.
        target: The column to predict.
        seed: Of all that is drawn.

    Raises:
        InputError: There is no such metric, or a table cannot be used.
        MissingExtraError: scikit-learn is missing.
    """
    if "test" in tables:
        schema = widen_schema(schema, tables["test"][0], declared)
    rows = {name: held_rows(source, raw, schema) for name, (source, raw) in tables.items()}
    task = Task(
        *(rows["real"], rows["synthetic"], schema),
        held_out=rows.get("test"),
        target=target,
        seed=seed,
        rules=() if declared is None else declared.rules,
    )
    return score_metrics(task, metrics), score_references(task, metrics)


def held_rows(source: Source, raw: Any, schema: Schema) -> Rows:
    """Rows with what counts them: of raw values, of codes where those are None. **Not private**."""
    engine: Any = source.bind(schema)
    if raw is not None:
        return Rows.of(raw, schema, engine)
    held: _Held = engine
    counts: Engine = engine
    return Rows.from_codes(held.encoded, schema, counts)


SCORED = ("dependence_invented", "dependence_kept", "rank_slope")
"""Metrics that the number needs beside the scores of `compare`."""
DEFINITION = (
    "The mean of what is kept of single columns, of the dependence between columns and of rank correlations, "
    "each from 0 to 1; a part that the real table does not have is left out."
)


def split_overall(values: Mapping[str, float]) -> dict[str, float]:
    """The parts of the number, each from 0 to 1, from scores by name; none where a score is not defined.

    - columns: 1 less the mean total variation of single columns.
    - dependence: the share of the dependence that is kept, less the mean share that is invented.
    - rank correlations: 1 less how far their slope is from 1.

    Example:
        >>> split_overall({"tv_1_mean": 0.25, "rank_slope": 1.5})
        {'columns': 0.75, 'rank correlations': 0.5}
    """
    far, kept, slope = (values.get(name, math.nan) for name in ("tv_1_mean", "dependence_kept", "rank_slope"))
    invented = values.get("dependence_invented", math.nan)
    parts = {
        "columns": 1.0 - far,
        "dependence": kept - (0.0 if math.isnan(invented) else invented),
        "rank correlations": 1.0 - abs(1.0 - slope),
    }
    return {name: min(max(part, 0.0), 1.0) for name, part in parts.items() if not math.isnan(part)}


def add_overall(comparison: Comparison) -> Comparison:
    """The comparison with the score `overall` in front, for the synthetic and the reference tables."""
    parts = split_overall({score.name: score.value for score in comparison.scores})
    overall = Score(
        "overall",
        _mean(parts),
        "higher",
        f"mean of {', '.join(parts)}" if parts else "nothing",
        DEFINITION,
        high=1.0,
        goal=1.0,
        source="docs/metrics.md, overall",
        cost="none beside its parts",
        parts=parts,
        note="" if parts else "none of its parts is defined",
        title="Overall",
        group="Overall",
    )
    beside = {name: _mean(split_overall(values)) for name, values in comparison.references.items()}
    # References get the same mean of the same parts, so that they can be read beside it.
    merged = {
        name: dict(values) | ({} if math.isnan(beside[name]) else {"overall": beside[name]})
        for name, values in comparison.references.items()
    }
    return dataclasses.replace(comparison, scores=(overall, *comparison.scores), references=merged)


def _mean(parts: Mapping[str, float]) -> float:
    return math.fsum(parts.values()) / len(parts) if parts else math.nan


RESERVED_NAMES = frozenset({"real", "bootstrap", "shuffled", GROUND_TRUTH})
"""Names that no synthetic table can have."""
MOST_NUMBERS = 40
"""Columns of numbers, the first ones, whose correlations are shown."""

OnStep = Callable[[str], None]
Held = tuple["Source", Any]
"""A source, and the pyarrow.Table of its raw values or None where it is too large to be held."""


@dataclass(frozen=True, slots=True, eq=False)
class Correlations:
    """Pearson's coefficients of the numeric columns of each table. **Not private**.

    Args:
        names: Of the numeric columns.
        tables: By table, "real" first: shape [columns, columns], NaN where it is not defined.
    """

    names: tuple[str, ...]
    tables: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Review:
    """Several synthetic tables held against one real table, under one schema. **Not private**.

    Its text and its repr begin with the words NOT PRIVATE.

    Args:
        comparisons: One a synthetic table, by its name; all have the same scores in the same order.
        correlations: Of numeric columns; None where there are fewer than two.
        scatter: Rows as points of a plane, or why there is none.
        curves: Of a classifier, or why there are none.
        notes: What was left out, whole sentences.
    """

    comparisons: Mapping[str, Comparison]
    correlations: Correlations | None = None
    scatter: Scatter | str = ""
    curves: Curves | str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the synthetic tables."""
        return tuple(self.comparisons)

    @property
    def first(self) -> Comparison:
        """The comparison of the first table; its references are those of all."""
        return next(iter(self.comparisons.values()))

    def to_json(self) -> dict[str, Any]:
        """A JSON document; what is not defined is null. **Not private**."""
        tables = {name: found.to_json() for name, found in self.comparisons.items()}
        shared = {key: self.first.to_json()[key] for key in ("warning", "references")}
        for document in tables.values():
            for key in ("margrave_comparison", *shared):
                del document[key]
        return {"margrave_comparison": 2, **shared, "tables": tables, "notes": list(self.notes)}

    def __str__(self) -> str:
        """All scores as a plain table, one column a synthetic table."""
        return self.table([score.name for score in self.first.scores])

    def __repr__(self) -> str:
        """As `str`: what a console prints carries the warning."""
        return str(self)

    def table(self, few: Sequence[str], asked: Sequence[str] = ()) -> str:
        """Some scores as a plain table that warns; `all` among those asked for gives all there are."""
        names = list(self.first.references)
        lines = [["score", *self.names, *names, "better"]]
        wanted = {*few, *asked}
        for place, score in enumerate(self.first.scores):
            if score.name not in wanted and "all" not in wanted:
                continue
            own = [found.scores[place].value for found in self.comparisons.values()]
            others = [self.first.references[name].get(score.name, math.nan) for name in names]
            numbers = ["-" if math.isnan(value) else f"{value:.4f}" for value in (*own, *others)]
            lines.append([score.name, *numbers, score.better])
        return "\n".join([NOT_PRIVATE, *align_columns(lines)])


def default_metrics(target: bool, held_out: bool, rules: bool) -> tuple[str, ...]:
    """Names of the metrics that run unasked: all that are defined and do not train four models a table."""
    had = {name for name, given in (("target", target), ("held_out", held_out), ("rules", rules)) if given}
    return tuple(
        name
        for name, one in METRICS.items()
        if not isinstance(one, Efficiency) and had.issuperset(one.facts.needs)
    )


def review(
    real: Held,
    tables: Mapping[str, Held],
    schema: Schema,
    *,
    test: Held | None = None,
    rules: Sequence[Rule] = (),
    target: str | None = None,
    metrics: str | Sequence[str | Metric] = (),
    pictures: bool = True,
    seed: int = 0,
    on_step: OnStep = lambda _: None,
) -> Review:
    """Score synthetic tables, and reference tables in their place. **Not private**.

    Args:
        real: The real table.
        tables: The synthetic ones by name.
        schema: Under which all of them encode.
        test: Real rows that nothing was made from.
        rules: Declared facts to count broken rows of.
        target: The column to predict.
        metrics: What to score beside the defaults, by name or as objects; "all" for all there are.
        pictures: Whether to embed rows and to train the classifier of the curves.
        seed: Of all that is drawn.
        on_step: Told what is being done.

    Raises:
        InputError: There is no table, a name is taken, or there is no such metric.
        MissingExtraError: A metric that was asked for by name needs scikit-learn.
    """
    if not tables or RESERVED_NAMES & set(tables):
        raise InputError(
            invalid("tables", f"one or more, none called {sorted(RESERVED_NAMES)}", "Rename them.")
        )
    on_step("reading rows")
    truth, held_out = held_rows(*real, schema), None if test is None else held_rows(*test, schema)
    options: Any = {"held_out": held_out, "target": target, "seed": seed, "rules": rules}
    tasks = {name: Task(truth, held_rows(*held, schema), schema, **options) for name, held in tables.items()}
    with one_thread():
        found = Review(_compare_tables(tasks, metrics, on_step))
        return _add_pictures(found, tasks, on_step) if pictures else found


def _compare_tables(
    tasks: Mapping[str, Task], metrics: str | Sequence[str | Metric], on_step: OnStep
) -> dict[str, Comparison]:
    """Each table's scores, beside those of the reference tables, which are the same for all."""
    task = next(iter(tasks.values()))
    chosen = _Chosen.of(task, metrics)
    found = {}
    for name, one in tasks.items():
        on_step(f"scoring {name}")
        found[name] = _compare_counts(one).with_scores(chosen.scores(one))

    def score(reference: Task, name: str) -> tuple[Score, ...]:
        on_step(f"scoring {name}, for reference")
        return chosen.scores(reference)

    beside = _score_references(task, score)
    return {name: add_overall(one.with_scores((), beside)) for name, one in found.items()}


def _add_pictures(found: Review, tasks: Mapping[str, Task], on_step: OnStep) -> Review:
    """The review with rows as points, curves and their areas."""
    task = next(iter(tasks.values()))
    tables = {name: one.synthetic for name, one in tasks.items()}
    comparisons, curves = found.comparisons, _curves(task, tables, on_step)
    if isinstance(curves, Curves):
        areas = curves.reference_scores
        comparisons = {name: one.with_scores(curves.scores(name), areas) for name, one in comparisons.items()}
    on_step("drawing rows")
    shown = {**tables, "shuffled": shuffled_rows(task.real, task.rng("rows to draw"))}
    scatter = draw_scatter(task.real, shown, task.schema, seed=task.seed)
    # Asked for by its target and not there: the reader is told, with what to install.
    notes = (curves,) if task.target is not None and isinstance(curves, str) else ()
    return Review(comparisons, _correlations(task, tables), scatter, curves, notes)


def _curves(task: Task, tables: Mapping[str, Rows], on_step: OnStep) -> Curves | str:
    if task.target is None:
        return "No column to predict was named: give one with --target (target= in Python)."
    on_step("training classifiers")
    try:
        return draw_curves(
            task.real, tables, task.schema, task.target, held_out=task.held_out, seed=task.seed
        )
    except MissingExtraError as error:
        return f"Left out: how well {task.target!r} is predicted. {error}"


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The metrics to run: those by default, and those asked for, which may not be left out."""

    default: tuple[Metric, ...]
    asked: tuple[str | Metric, ...]

    @classmethod
    def of(cls, task: Task, metrics: str | Sequence[str | Metric]) -> _Chosen:
        asked = list_asked(metrics)
        named = {one if isinstance(one, str) else one.facts.name for one in asked}
        names = default_metrics(task.target is not None, task.held_out is not None, bool(task.rules))
        return cls(tuple(METRICS[name] for name in names if name not in named), tuple(asked))

    def scores(self, task: Task) -> tuple[Score, ...]:
        """All scores; one by default that wants scikit-learn has no value where that is missing."""
        asked = score_metrics(task, self.asked) if self.asked else ()
        # Those made from counts share one pass; they keep what they counted, so each is asked again below.
        score_metrics(task, [one for one in self.default if one.facts.reads == "counts"])
        found = list(asked)
        for one in self.default:
            try:
                found += score_metrics(task, [one])
            except MissingExtraError as error:
                found.append(one.facts.undefined_score("", str(error)))
        return tuple(sorted(found, key=lambda score: score.name))


def _compare_counts(task: Task) -> Comparison:
    first, second = task.real.engine, task.synthetic.engine
    assert first is not None  # noqa: S101 - held_rows gives both one
    assert second is not None  # noqa: S101
    return compare(first, second, schema=task.schema, seed=task.seed)


def _correlations(task: Task, tables: Mapping[str, Rows]) -> Correlations | None:
    names = task.numeric[:MOST_NUMBERS]
    if len(names) < 2:
        return None
    found = {}
    for name, rows in {"real": task.real, **tables}.items():
        matrix = np.full((len(names), len(names)), np.nan)
        for i, j in combinations(range(len(names)), 2):
            matrix[i, j] = matrix[j, i] = pearson(rows, names[i], names[j])
        found[name] = matrix
    return Correlations(names, found)
