"""audit: a lower bound on epsilon from many runs of any method on two neighbouring tables.

The test that tells runs with the canary from runs without is found on some of the runs and judged on the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from margrave.auditing.bounds import Audit, Claim, Rates
from margrave.auditing.world import Evidence, World, generated
from margrave.errors import InputError, invalid
from margrave.run.synthesis import Synthesis
from margrave.run.synthesizer import Synthesizer

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
