"""shadow_attack: a classifier that learned from many runs tells whether a record was in the table.

`ShadowFeatures` makes of a synthetic table a few hundred numbers that a classifier can learn from.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.auditing.bounds import highest_rate, lowest_rate
from margrave.auditing.canary import LEAST_RUNS, Run, runner
from margrave.auditing.world import World, check_adjacency, rows_of, worlds_of
from margrave.errors import InputError, invalid
from margrave.evaluation.attacks import area, area_error
from margrave.evaluation.learners import fit_quietly, one_thread, part
from margrave.evaluation.score import Facts, Score
from margrave.privacy.unit import Adjacency
from margrave.run.synthesis import Synthesis
from margrave.schema.encode import encode
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Fitter, Strategy

QUERIES = 100
"""Random targeted queries (Houssiau et al. 2022, TAPAS) among the features."""
MAX_QUERY_COLUMNS = 4
"""Columns of one query, at most: with more of them hardly another row agrees with the target."""
Numbers = NDArray[np.float64]


@final
class ShadowFeatures:
    """The features of Stadler, Oprisanu and Troncoso 2022, and the targeted queries of TAPAS, side by side.

    - naive: the mean, median and variance of each column's codes, how many codes occur, the most and the
      least frequent;
    - histograms: the share of each code of each column;
    - correlations: Pearson's, of the codes of each pair of columns, 0 where one is constant;
    - queries: the share of rows that agree with the target in some of its columns, drawn once.

    Args:
        schema: Of the rows.
        target: The codes of the record under attack, by column.
        rng: Draws the columns of the queries.
    """

    def __init__(self, schema: Schema, target: Mapping[str, int], rng: np.random.Generator) -> None:
        self._names, self._sizes = schema.domain.names, schema.domain.sizes
        self._target = np.array([target[name] for name in self._names])
        widest = min(MAX_QUERY_COLUMNS, len(self._names))
        self._queries = [
            rng.choice(len(self._names), rng.integers(1, widest + 1), replace=False) for _ in range(QUERIES)
        ]

    def of(self, rows: Encoded) -> Numbers:
        """The features of one table, shape [features]; all 0 of a table without rows."""
        codes = np.column_stack([rows.column(name).astype(np.float64) for name in self._names])
        counts = [
            np.bincount(rows.column(name), minlength=size)
            for name, size in zip(self._names, self._sizes, strict=True)
        ]
        if rows.rows == 0:
            codes = np.zeros((1, len(self._names)))
        naive = [codes.mean(axis=0), np.median(codes, axis=0), codes.var(axis=0)]
        for count in counts:
            # How many codes occur, the most frequent one and the rarest.
            facts = [(count > 0).sum(), count.argmax(), count.argmin()]
            naive.append(np.array(facts, dtype=np.float64))
        histograms = [count / max(rows.rows, 1) for count in counts]
        found = np.concatenate([*naive, *histograms, self._correlations(codes), self._answer_queries(codes)])
        return found if rows.rows else np.zeros_like(found)

    def _correlations(self, codes: Numbers) -> Numbers:
        centred = codes - codes.mean(axis=0)
        lengths = np.sqrt((centred**2).sum(axis=0))
        lengths[lengths == 0] = np.inf
        found: Numbers = (centred / lengths).T @ (centred / lengths)
        return found[np.triu_indices(len(self._names), 1)]

    def _answer_queries(self, codes: Numbers) -> Numbers:
        same = codes == self._target
        return np.array([same[:, places].all(axis=1).mean() for places in self._queries])


OnStep = Callable[[str], None]
ERROR_RATE = 0.025
"""Chance of error on either side of a share: together 5 %."""
FACTS = Facts(
    "attack_shadow",
    "Chance that a classifier of synthetic tables, trained on runs with and without a record, ranks a run "
    "with it above one without: 0.5 is guessing.",
    title="Attack: shadow models",
    group="What the rows may give away",
    goal=0.5,
    source="Stadler, Oprisanu and Troncoso 2022; Houssiau et al. 2022 (TAPAS) for targeted queries",
    cost="two runs of the method for each pair of runs and each target",
    reads="rows",
    discloses=True,
)


@dataclass(frozen=True, slots=True)
class ShadowAttack:
    """How well runs with a record are told from runs without. **Not private** if the reference is not.

    Args:
        what: What was attacked.
        members, others: What the classifiers thought of test runs with and without a target: [targets, runs].
        trained: Runs that each classifier learned from.
        seconds: That all took.
    """

    what: str
    members: Numbers
    others: Numbers
    trained: int
    seconds: float

    @property
    def areas(self) -> tuple[float, ...]:
        """The area under the curve for each target."""
        return tuple(area(told, untold) for told, untold in zip(self.members, self.others, strict=True))

    def caught(self, false: float) -> tuple[float, float, float]:
        """Share of runs with a target told at so many false alarms, and its 95 % limits.

        Over all targets, each with a threshold of its own (Carlini et al. 2022). The limits (Clopper and
        Pearson 1934) take the thresholds as given; they were set on the same runs without the targets.
        """
        bars = np.quantile(self.others, 1 - false, axis=1, method="higher")
        hits, runs = int((self.members > bars[:, None]).sum()), self.members.size
        return hits / runs, lowest_rate(hits, runs, ERROR_RATE), highest_rate(hits, runs, ERROR_RATE)

    @property
    def score(self) -> Score:
        """The mean area over targets, with its standard error and the shares caught."""
        value, count = float(np.mean(self.areas)), self.members.shape[1]
        errors = [area_error(one, count, count) for one in self.areas]
        parts = {"standard error": float(np.sqrt(np.sum(np.square(errors)))) / len(errors)}
        for false in (0.01, 0.1):
            rate, low, high = self.caught(false)
            name = f"caught at {false:.0%} false alarms"
            parts |= {name: rate, f"{name}, at least": low, f"{name}, at most": high}
        scope = f"{len(self.areas)} targets, {self.trained} runs to learn from and {2 * count} to test, each"
        return FACTS.score(value, scope, parts=parts)

    def __str__(self) -> str:
        score = self.score
        rate, low, high = self.caught(0.1)
        error = score.parts["standard error"]
        return "\n".join(
            [
                f"shadow models against {self.what}: {score.scope}, {self.seconds:.0f} s",
                f"area under the curve {score.value:.3f}, standard error {error:.3f}; 0.5 is guessing",
                f"{rate:.1%} of runs with a target told at 10% false alarms ({low:.1%} to {high:.1%})",
                "can show: that a record of this kind can be told from synthetic rows, by this attacker",
                "cannot show: that none can. Other records, features or classifiers may do better",
            ]
        )

    def __repr__(self) -> str:
        return str(self)


def shadow_attack(
    method: str | Run,
    reference: Any,
    schema: Schema,
    *,
    rows: int = 1000,
    runs: int = 100,
    targets: int | Sequence[Mapping[str, int]] = 1,
    adjacency: Adjacency = "replace_one",
    seed: int = 0,
    on_step: OnStep = lambda words: None,
    **options: Any,
) -> ShadowAttack:
    """Train shadow models of a method with and without a record, and a classifier that tells them apart.

    **Not private** where the reference is: every run reads it under a ledger of its own. The attack is meant
    for a public table that looks like the private one. It is costly; `on_step` is told after the first pair
    of runs how long all will take.

    Args:
        method: The name of a method, or anything that makes a release or rows from a table.
        reference: A pyarrow.Table of the schema's columns, from which each run's rows are drawn.
        schema: All of it known.
        rows: Of each run's table, without replacement; as many synthetic rows are looked at.
        runs: For each target, half of them with it; half of each kind train the classifier.
        targets: How many records to attack, the rarest of the reference; or their codes, by column.
        adjacency: Whether the target is added, or takes the place of an ordinary row.
        seed: Of the rows drawn, the sampling and the classifier, never of the noise.
        options: epsilon (1), delta (1e-9), select and model, as for `Synthesizer`, where method is a name.

    Raises:
        InputError: An argument is outside its range. MissingExtraError: scikit-learn is not installed.
    """
    game = _Game(reference, schema, rows, adjacency, np.random.default_rng(seed))
    chosen = outliers(reference, schema, targets) if isinstance(targets, int) else list(targets)
    return _run_attack(game, method, _count_pairs(runs, reference, rows), chosen, options, seed, on_step)


def _count_pairs(runs: int, reference: Any, rows: int) -> int:
    """Half of the runs, after a look at what was asked for."""
    part("ensemble")
    if not isinstance(runs, int) or runs < LEAST_RUNS:
        raise InputError(invalid("runs", f"a whole number, {LEAST_RUNS} or more", "Try 100.", got=runs))
    if not 1 <= rows <= reference.num_rows:
        most = "1 or more, and at most the reference's rows"
        raise InputError(invalid("rows", most, "Draw fewer rows.", got=rows))
    return runs // 2


def _run_attack(
    game: _Game,
    method: str | Run,
    pairs: int,
    targets: Sequence[Mapping[str, int]],
    options: Mapping[str, Any],
    seed: int,
    on_step: OnStep,
) -> ShadowAttack:
    started = time.perf_counter()

    def report_time(done: int) -> None:
        # Told after the first run: whoever started it by mistake can still stop it.
        if done == 1:
            whole = (time.perf_counter() - started) * pairs * len(targets)
            on_step(f"{2 * pairs * len(targets)} runs will take about {whole:.0f} s")

    scores: list[tuple[Numbers, Numbers]] = []
    for place, target in enumerate(targets):
        run = _run(method, game.world(target), **options)
        sides = game.play(run, target, pairs, (lambda done: None) if place else report_time)
        scores.append(_score_releases(sides, pairs // 2, seed))
        on_step(f"target {place + 1} of {len(targets)} done")
    named = isinstance(method, str) and not {"select", "model"} & set(options)
    members, others = (np.array([one[side] for one in scores]) for side in (1, 0))
    seconds = time.perf_counter() - started
    return ShadowAttack(
        str(method) if named else "the given method", members, others, pairs // 2 * 2, seconds
    )


def _run(
    method: str | Run,
    world: World,
    *,
    epsilon: float = 1.0,
    delta: float = 1e-9,
    select: Strategy | None = None,
    model: Fitter | str | None = None,
) -> Run:
    return runner(method, epsilon, delta, world, select, model)


def outliers(reference: Any, schema: Schema, count: int) -> list[dict[str, int]]:
    """The rows of the reference whose values are rarest: least sums of log shares of their codes."""
    codes = encode(reference.select(list(schema.names)), schema)
    if not 1 <= count <= codes.rows:
        raise InputError(
            invalid("targets", "1 or more, and at most the reference's rows", "Try 1.", got=count)
        )
    likely = np.zeros(codes.rows)
    for name, size in zip(schema.domain.names, schema.domain.sizes, strict=True):
        column = codes.column(name)
        likely += np.log(np.bincount(column, minlength=size)[column])
    places = np.argsort(likely, kind="stable")[:count]
    return [{name: int(codes.column(name)[place]) for name in schema.domain.names} for place in places]


class _Game:
    """Draws tables with and without a target, and turns what was made of them into features."""

    def __init__(
        self, reference: Any, schema: Schema, rows: int, adjacency: Adjacency, rng: np.random.Generator
    ) -> None:
        check_adjacency(adjacency)
        self._reference, self._schema = reference.select(list(schema.names)), schema
        self._rows, self._adjacency, self._rng = rows, adjacency, rng
        self._codes, self._seed = encode(self._reference, schema), int(rng.integers(1 << 31))

    def world(self, target: Mapping[str, int]) -> World:
        """Rows of the reference that are not the target, and the same with it; its numbers are always alike.

        Raises:
            InputError: Too few rows of the reference are not the target.
        """
        same = np.array([self._codes.column(name) == code for name, code in target.items()]).all(axis=0)
        others = np.flatnonzero(~same)
        if others.size < self._rows:
            remedy = "Draw fewer, or attack a rarer record."
            raise InputError(
                invalid("rows", "at most the rows that are not the target", remedy, got=self._rows)
            )
        table = self._reference.take(pa.array(self._rng.choice(others, self._rows, replace=False)))
        options: Any = {"adjacency": self._adjacency, "canary": target, "seed": self._seed}
        return worlds_of(table, self._schema, **options)

    def play(
        self, run: Run, target: Mapping[str, int], pairs: int, timed: Callable[[int], None]
    ) -> tuple[Numbers, Numbers]:
        """Features of runs without the target and with it: [pairs, features] each."""
        features = ShadowFeatures(self._schema, target, self._rng)
        found: tuple[list[Numbers], list[Numbers]] = ([], [])
        for pair in range(pairs):
            for present in (False, True):
                world = self.world(target)
                made = run(world.present if present else world.without)
                if isinstance(made, Synthesis):
                    made = made.encoded(self._rows, rng=self._rng)
                found[present].append(features.of(rows_of(made, world)))
            timed(pair + 1)
        return np.array(found[0]), np.array(found[1])


def _score_releases(sides: tuple[Numbers, Numbers], trained: int, seed: int) -> tuple[Numbers, Numbers]:
    """What a classifier that learned from the first runs thinks of the others: without, with the target."""
    inputs = np.concatenate([side[:trained] for side in sides])
    wanted = np.repeat([0, 1], trained)
    with one_thread():
        forest = part("ensemble").RandomForestClassifier(200, min_samples_leaf=2, random_state=seed)
        forest = fit_quietly(forest, inputs, wanted)
        without, present = (forest.predict_proba(side[trained:])[:, 1] for side in sides)
    return without, present
