"""Audits with canaries: a lower bound on epsilon from runs of any method on tables with and without them.

`audit` makes many runs on two neighbouring tables; the test that tells runs with the canary from runs without
is found on some of the runs and judged on the others. `audit_in_one_run`, below it, puts many canaries into
one table, each in or out by a coin, and guesses about every one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from margrave.auditing.bounds import (
    WHAT_IT_CANNOT_SHOW,
    WHAT_IT_SHOWS,
    Audit,
    Claim,
    Rates,
    epsilon_of_guesses,
)
from margrave.auditing.world import Evidence, World, count_cells, generated, rows_of
from margrave.errors import InputError, invalid
from margrave.run.synthesis import Synthesis
from margrave.run.synthesizer import Synthesizer
from margrave.schema.encode import decode
from margrave.schema.encoded import Encoded, code_dtype
from margrave.schema.frame import Frame

if TYPE_CHECKING:
    from margrave.protocols import Fitter, Strategy


THRESHOLDS = 40
"""Cuts of a statistic that are tried, evenly over its quantiles from 1 to 99 %."""
RIDGE = 1e-3
"""Added to the variances, which are 1, before Fisher's direction is solved for, so that statistics that
say the same leave a system that can be solved."""
Numbers = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True)
class Detector:
    """Says that the canary is in where a weighted sum of statistics is at or above a threshold.

    Args:
        name: The statistic, in words.
        weights: Of each statistic, shape [statistics].
        threshold: The least sum that counts.
    """

    name: str
    weights: tuple[float, ...]
    threshold: float

    def rates(self, without: Numbers, present: Numbers, confidence: float) -> Rates:
        """How often it says so, in runs without the canary and in runs with it: [runs, statistics] each."""
        false, true = (
            int((side @ np.array(self.weights) >= self.threshold).sum()) for side in (without, present)
        )
        return Rates(false, len(without), true, len(present), confidence)


def best_detector(
    names: Sequence[str],
    without: Numbers,
    present: Numbers,
    confidence: float,
    worth: Callable[[Rates], float],
) -> Detector:
    """The test of one statistic, or of all together, whose rates prove most on these runs.

    Args:
        names: Of the statistics.
        without, present: Their values in runs without and with the canary: [runs, statistics] each.
        confidence: Of the rates.
        worth: What rates prove; where none proves anything, the widest gap between the rates is taken.
    """
    found: list[tuple[float, float, Detector]] = []
    for name, weights in [*_list_statistics(names), ("all together", together(without, present))]:
        pooled = np.concatenate([without, present]) @ np.array(weights)
        for threshold in np.unique(np.quantile(pooled, np.linspace(0.01, 0.99, THRESHOLDS))):
            detector = Detector(name, weights, float(threshold))
            rates = detector.rates(without, present, confidence)
            gap = rates.true / rates.present - rates.false / rates.without
            found.append((worth(rates), gap, detector))
    return max(found, key=lambda entry: entry[:2])[2]


def _list_statistics(names: Sequence[str]) -> list[tuple[str, tuple[float, ...]]]:
    """Each statistic by itself, high and low."""
    size = len(names)
    weights = [
        tuple(sign * float(place == at) for place in range(size)) for at in range(size) for sign in (1, -1)
    ]
    return [(f"{'high' if sum(w) > 0 else 'low'} {names[place // 2]}", w) for place, w in enumerate(weights)]


def together(without: Numbers, present: Numbers) -> tuple[float, ...]:
    """Weights of Fisher's linear discriminant, lightly shrunk: shape [statistics]."""
    both = np.concatenate([without, present])
    scale = both.std(axis=0)
    scale[scale == 0] = 1.0
    sides = [(side - both.mean(axis=0)) / scale for side in (without, present)]
    spread = sum(np.cov(side, rowvar=False).reshape(2 * (side.shape[1],)) for side in sides) / 2
    gap = sides[1].mean(axis=0) - sides[0].mean(axis=0)
    weights = np.linalg.solve(spread + RIDGE * np.eye(len(gap)), gap) / scale
    return tuple(float(weight) for weight in weights)


LEAST_RUNS = 8
"""Runs, at least: two for each of the two worlds in either part, the one that chooses the test and the one
that judges it."""
Run = Callable[[Any], Any]
"""Takes a pyarrow.Table; returns a Synthesis, a pyarrow.Table of synthetic rows, or Encoded rows."""
OnRun = Callable[[int, int], None]


def audit(
    method: str | Run = "auto",
    *,
    epsilon: float,
    delta: float = 1e-9,
    runs: int = 400,
    confidence: float = 0.95,
    world: World | None = None,
    select: Strategy | None = None,
    model: Fitter | str | None = None,
    seed: int = 0,
    on_run: OnRun = lambda done, runs: None,
) -> Audit:
    """Run a method many times with and without a canary, and bound its epsilon from below.

    **Not private** where the world is made from a private table: the runs are not in one ledger, and the
    attacker knows both tables exactly. The first half of the runs chooses statistics and thresholds, the
    second half judges them, so that the choice does not weaken the confidence.

    Args:
        method: The name of a method, or anything that makes a release or rows from a table.
        epsilon, delta: What it claims.
        runs: In all, half of them with the canary: n prove no more than about ln(n / 17) at 95 %.
        confidence: That the bounds hold, in (0, 1).
        world: The neighbouring tables, their unit and adjacency; a generated one by default.
        select, model: A strategy and a fitter instead of the method's, as for `Synthesizer`.
        seed: Of sampling, never of the noise: no two audits are alike.
        on_run: Told after each run how many are done, and of how many.

    Raises:
        InputError: An argument is outside its range.
    """
    check_runs(runs, confidence)
    world = generated() if world is None else world
    run = runner(method, epsilon, delta, world, select, model)
    names, sides, claim = _play_runs(run, world, runs // 2, (epsilon, delta), seed, on_run)
    tests, rates = _judge_runs(names, sides, delta, confidence)
    return Audit(name_method(method, select, model), claim, runs // 2 * 2, confidence, tests, rates)


def _judge_runs(
    names: Sequence[str], sides: Sequence[NDArray[np.float64]], delta: float, confidence: float
) -> tuple[tuple[str, str], tuple[Rates, Rates]]:
    """The two tests that the first runs choose, and their rates on the others."""
    each, half = 1 - (1 - confidence) / 2, len(sides[0]) // 2
    found = []
    for worth in (lambda rates: rates.epsilon(delta), lambda rates: rates.mu):
        test = best_detector(names, sides[0][:half], sides[1][:half], each, worth)
        found.append((test.name, test.rates(sides[0][half:], sides[1][half:], each)))
    return (found[0][0], found[1][0]), (found[0][1], found[1][1])


def name_method(method: str | Run, select: Strategy | None, model: Fitter | str | None) -> str:
    """What an audit calls the method."""
    return method if isinstance(method, str) and select is None and model is None else "the given method"


def check_runs(runs: int, confidence: float, least: int = LEAST_RUNS) -> None:
    """Raise InputError unless there are runs enough, and confidence is between 0 and 1."""
    if not isinstance(runs, int) or runs < least:
        raise InputError(invalid("runs", f"a whole number, {least} or more", "Run more.", got=runs))
    if not 0 < confidence < 1:
        raise InputError(invalid("confidence", "between 0 and 1, both excluded", "Try 0.95.", got=confidence))


def runner(
    method: str | Run,
    epsilon: float,
    delta: float,
    world: World,
    select: Strategy | None,
    model: Fitter | str | None,
) -> Run:
    """What makes a release of a table: the callable, or a new synthesizer each time."""
    if not isinstance(method, str):
        return _refuse_seeded(method)
    name, neighbours = method, world.neighbours

    # A new synthesizer for every run, since one that was fitted may keep what it learned.
    def run(table: Any) -> Any:
        return Synthesizer(
            name,
            epsilon=epsilon,
            delta=delta,
            unit=neighbours.unit,
            adjacency=neighbours.adjacency,
            schema=world.schema,
            select=select,
            model=model,
        ).fit(table)

    return run


def _refuse_seeded(given: Run) -> Run:
    """The callable, which may not return releases whose noise comes from a seed."""

    def run(table: Any) -> Any:
        made = given(table)
        if isinstance(made, Synthesis) and made.guarantee.warning:
            remedy = "There is no claim to audit with it, and runs with one seed are not independent."
            raise InputError(invalid("run", "without not_private_test_seed", remedy))
        return made

    return run


def _play_runs(
    run: Run, world: World, pairs: int, promised: tuple[float, float], seed: int, on_run: OnRun
) -> tuple[tuple[str, ...], list[NDArray[np.float64]], Claim]:
    """The statistics' names, their values without and with the canary [pairs, statistics], and the claim."""
    evidence = Evidence(world, np.random.default_rng(seed))
    found: list[list[NDArray[np.float64]]] = [[], []]
    claim, names = Claim(*promised, world.neighbours), tuple[str, ...]()
    for pair in range(pairs):
        for present, table in enumerate((world.without, world.present)):
            made = run(table)
            names = names or evidence.names(made)
            found[present].append(evidence.of(made))
            on_run(2 * pair + present + 1, 2 * pairs)
    if isinstance(made, Synthesis):
        claim = Claim(*promised, world.neighbours, made.guarantee.rho, made.guarantee.accounting)
    return names, [np.array(side) for side in found], claim


WIDE = {f"c{place}": 8 for place in range(6)}
"""Columns of the table by default: 262,144 kinds of rows, so that a thousand canaries differ from one
another."""
SYNTHETIC_ROWS = 20_000
"""Synthetic rows that canaries are looked for in, if the run leaves the number open."""
SHARE = 0.5
"""Of the canaries that are guessed where no run is there to choose by: a quarter in, a quarter out."""
SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the canaries that may be guessed. A guess of a coin that is no surer than even only weakens
the bound, and which share proves most depends on the method, so that the first run chooses among these."""


@dataclass(frozen=True, slots=True)
class OneRunAudit:
    """A lower bound on epsilon from guesses about many canaries (Steinke, Nasr and Jagielski 2023).

    **Not private** if the table is not.

    Args:
        what: What was audited.
        claim: What it promises.
        runs: Runs whose guesses count.
        canaries: Coins flipped in those runs, in all.
        guesses: Made in those runs, in all.
        right: Of them.
        statistic: What was guessed by.
        confidence: In (0, 1).
    """

    what: str
    claim: Claim
    runs: int
    canaries: int
    guesses: int
    right: int
    statistic: str
    confidence: float

    @property
    def epsilon(self) -> float:
        """The lower bound on epsilon at the claimed delta."""
        return self._bound(self.right)

    @property
    def most(self) -> float:
        """What would have been proved, had every guess been right."""
        return self._bound(self.guesses)

    @property
    def violated(self) -> bool:
        """Whether the bound is above the claimed epsilon."""
        return self.epsilon > self.claim.epsilon

    def _bound(self, right: int) -> float:
        return epsilon_of_guesses(right, self.guesses, self.canaries, self.claim.delta, self.confidence)

    def to_json(self) -> dict[str, Any]:
        """A JSON object of all that the words say."""
        return {
            "what": self.what,
            "claim": {"epsilon": self.claim.epsilon, "delta": self.claim.delta},
            "runs": self.runs,
            "canaries": self.canaries,
            "guesses": self.guesses,
            "right": self.right,
            "statistic": self.statistic,
            "confidence": self.confidence,
            "epsilon_at_least": self.epsilon,
            "provable_at_most": self.most,
            "violated": self.violated,
        }

    def __str__(self) -> str:
        verdict = "VIOLATED: the guesses contradict the claim" if self.violated else "no violation found"
        sure = f"with {self.confidence:.2%} confidence"
        return "\n".join(
            [
                f"audit of {self.what} with {self.canaries} canaries in {self.runs} run(s): {verdict}",
                f"claim: {self.claim}",
                f"epsilon >= {self.epsilon:.3g} at the claimed delta, {sure}",
                f"({self.guesses} guesses could have proved {self.most:.3g} at most)",
                f"{self.right} of {self.guesses} guesses by {self.statistic} were right",
                WHAT_IT_SHOWS,
                WHAT_IT_CANNOT_SHOW,
            ]
        )

    def __repr__(self) -> str:
        return str(self)


def audit_in_one_run(
    method: str | Run = "auto",
    *,
    epsilon: float,
    delta: float = 1e-9,
    canaries: int = 1000,
    runs: int = 1,
    confidence: float = 0.95,
    world: World | None = None,
    select: Strategy | None = None,
    model: Fitter | str | None = None,
    seed: int = 0,
) -> OneRunAudit:
    """Bound epsilon from below with one run, or a few: much cheaper than `audit`, and weaker.

    Each canary, a random row, is put into the table by a coin of its own; under "replace_one" an ordinary
    row is put in otherwise. The attacker, who knows all other rows, guesses the coins it is surest of. Runs
    with independent coins are one game of a mechanism of the same epsilon, so their guesses add up. Of two
    runs or more the first only chooses the statistic and how many coins to guess.

    Args:
        method, epsilon, delta, confidence, select, model: As for `audit`.
        canaries: In each run; rows in their own right, so many of them change the table.
        runs: One or more.
        world: Whose table without the canary is the base; its unit must be rows.
        seed: Of the canaries, the coins and sampling, never of the noise.

    Raises:
        InputError: An argument is outside its range.
    """
    check_runs(runs, confidence, 1)
    world = world or generated(sizes=WIDE, rows=1000)
    _check(canaries, world)
    run, rng = runner(method, epsilon, delta, world, select, model), np.random.default_rng(seed)
    games = [_Game(world, canaries, rng) for _ in range(runs)]
    played = [(game, game.scores(run(game.table), rng)) for game in games]
    return _count_guesses(
        played, name_method(method, select, model), Claim(epsilon, delta, world.neighbours), confidence
    )


def _check(canaries: int, world: World) -> None:
    if canaries < 10:
        raise InputError(invalid("canaries", "10 or more", "Try 1000.", got=canaries))
    if world.neighbours.unit.owner is not None:
        raise InputError(invalid("world", "one that protects rows", "Use audit for owners."))


def _count_guesses(
    played: list[tuple[_Game, dict[str, Numbers]]], what: str, claim: Claim, confidence: float
) -> OneRunAudit:
    """The guesses of all runs but the first, which chooses how to guess; its own if it is the only one."""
    canaries = played[0][0].inside.size
    statistic, guesses = next(iter(played[0][1])), max(2, round(canaries * SHARE) // 2 * 2)
    if len(played) > 1:
        statistic, guesses = _choose_statistic(*played.pop(0), claim.delta, confidence)
    runs = len(played)
    right = sum(game.right(scores[statistic], guesses) for game, scores in played)
    return OneRunAudit(what, claim, runs, canaries * runs, guesses * runs, right, statistic, confidence)


class _Game:
    """A table with some of many canaries, and which."""

    def __init__(self, world: World, canaries: int, rng: np.random.Generator) -> None:
        schema = world.schema
        self.inside = rng.random(canaries) < 0.5
        self.canaries = Encoded(
            schema.domain,
            tuple(
                rng.integers(0, schema[name].present, canaries).astype(code_dtype(size))
                for name, size in zip(schema.domain.names, schema.domain.sizes, strict=True)
            ),
        )
        self._world, self._base = world, world.codes(False)
        base = world.without
        types = {field.name: str(field.type) for field in base.schema}
        rows = decode(self.canaries, schema, rng, Frame("arrow", types)).select(base.column_names)
        # The number of rows is public there, so a row of the table stands where a canary is out.
        if world.neighbours.adjacency == "replace_one":
            instead = base.take(pa.array(rng.integers(0, base.num_rows, int((~self.inside).sum()))))
        else:
            instead = base.slice(0, 0)
        kept = rows.filter(pa.array(self.inside)).cast(base.schema)
        self.table = pa.concat_tables([base, kept, instead])

    def scores(self, made: Any, rng: np.random.Generator) -> dict[str, Numbers]:
        """What speaks for each canary, by statistic, each of shape [canaries]."""
        found: dict[str, Numbers] = {}
        if isinstance(made, Synthesis):
            found["released cells"] = self._cells(made.measurements)
            made = made.encoded(SYNTHETIC_ROWS, rng=rng)
        rows = rows_of(made, self._world)
        unlike = np.array([self._unlike(rows, place) for place in range(self.inside.size)])
        found["rows alike"] = (unlike == 0).sum(axis=1).astype(np.float64)
        found["rows near"] = found["rows alike"] + (unlike == 1).sum(axis=1)
        return found

    def _unlike(self, rows: Encoded, place: int) -> NDArray[np.int16]:
        """In how many columns each synthetic row differs from a canary, [rows]."""
        names = rows.domain.names
        total = np.zeros(rows.rows, dtype=np.int16)
        for name in names:
            total += rows.column(name) != self.canaries.column(name)[place]
        return total

    def _cells(self, measurements: Any) -> Numbers:
        """The log-likelihood ratio of each canary, all others being coins with a mean and a variance."""
        total = np.zeros(self.inside.size)
        for noisy in measurements:
            if noisy.clique:
                cell = tuple(self.canaries.column(name) for name in noisy.clique)
                others = count_cells(self.canaries, noisy.clique)[cell] - 1
                excess = (noisy.values - count_cells(self._base, noisy.clique))[cell] - (others + 1) / 2
                total += excess / (noisy.sigmas[cell] ** 2 + others / 4)
        return total

    def right(self, scores: Numbers, guesses: int) -> int:
        """How many of the surest guesses are right: half of them "in", half "out"."""
        order, half = np.argsort(scores, kind="stable"), guesses // 2
        guessed_in, guessed_out = order[-half:], order[:half]
        return int(self.inside[guessed_in].sum() + (~self.inside[guessed_out]).sum())


def _choose_statistic(
    game: _Game, scores: dict[str, Numbers], delta: float, confidence: float
) -> tuple[str, int]:
    """The statistic and the number of guesses that prove most in one run; the most right where none does."""
    size = game.inside.size
    worth: Callable[[str, int], tuple[float, float]] = lambda name, guesses: (  # noqa: E731
        epsilon_of_guesses(right := game.right(scores[name], guesses), guesses, size, delta, confidence),
        right - guesses / 2,
    )
    options = [(name, max(2, round(size * share) // 2 * 2)) for name in scores for share in SHARES]
    return max(options, key=lambda option: worth(*option))
