"""What a run buys, in order: tables of declared dependencies, all that the strategy buys, and sums of
products of the rows' numbers where a target is told.

A dependency that was declared without its table is read off the noisy counts of its two columns. A strategy
that chooses what it measures may leave that pair out, and rows would break the rule. So the run buys these
pairs first, each for a fixed share of rho.

Sums of products of two of a row's numbers serve regressions of the target. Where a target is told, a share of
rho buys them for the columns of numbers, after the tables: centred at what these say of their means
(`margrave.regression.number_sums`).

**Privacy.** The tables of dependencies and all shares are fixed by public arguments, and what is asked of the
sums depends on released numbers and public things alone. So the run is an adaptive composition of the verbs
of the door, each of which is in the ledger at its price before its noise is drawn, and whose proofs hold for
any question that is chosen so (zCDP: Bun and Steinke 2016, lemma 2.3; GDP: Dong, Roth and Su 2022, theorem
4). Nothing here needs a proof of its own.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

from margrave.errors import InputError, invalid
from margrave.limits import Deadline
from margrave.privacy.unit import Neighbours
from margrave.progress import OnStep, Step
from margrave.run.resume import run_strategy
from margrave.schema.constraints.rules import find_open_dependencies

if TYPE_CHECKING:
    from margrave.measure.curator import Curator
    from margrave.privacy.ledger.ledger import Ledger
    from margrave.protocols import Fitter, Model, Strategy
    from margrave.release import NoisySums
    from margrave.schema.domain import Clique
    from margrave.schema.schema import Schema

DEPENDENCY = Fraction(1, 20)
"""Share of what discovery leaves of rho for the pair of each dependency that was declared without a table."""
DEPENDENCIES = Fraction(1, 5)
"""Share of it for all these pairs at most: of many, each gets less."""
MAX_CELLS = 1 << 22
"""Cells of such a pair at most, 32 MiB of counts; a larger one is not bought, and its rule is not read."""
NUMBERS, MORE_NUMBERS = Fraction(1, 20), Fraction(1, 10)
"""Share of it for sums of products where a target is told, and where `moments` asks for them; chosen on
tables of the choosing half (bench/LOG.md, 2026-11-30, evening)."""

MOST_NOISE = 1 << 20
"""Standard deviation of a sum's noise, in rows, up to which sums are bought: so much hides all there is, and
far more could not be drawn."""


def list_dependency_pairs(schema: Schema, public: Collection[str]) -> list[Clique]:
    """The pairs of dependencies declared without a table, each once, in the order of the rules.

    Args:
        schema: With its rules.
        public: Names of the public columns.
    """
    rules = find_open_dependencies(schema.rules, public)
    return list({frozenset(rule.names): rule.names for rule in rules}.values())


def share_dependencies(pairs: Sequence[Clique]) -> Fraction:
    """The share of what discovery leaves of rho for the pairs of `list_dependency_pairs`."""
    return min(len(pairs) * DEPENDENCY, DEPENDENCIES)


def share_moments(
    moments: bool | float | None, target: str | None, neighbours: Neighbours, strategy: Strategy
) -> Fraction:
    """The share of what dependencies leave of rho for sums of products of the rows' numbers.

    Args:
        moments: Whether they are asked for; a number is the share. None where a strategy serves regressions
            of a target, if there is one.
        target: Of the run.
        neighbours: Of the run.
        strategy: Of the run.

    Raises:
        InputError: It is no share; there is no target, or the adjacency is not one for which their cost is
            proved.
    """
    proved = neighbours.adjacency in ("add_remove", "replace_one")
    if moments is None:
        return NUMBERS if proved and target is not None and strategy.serves_regressions else Fraction(0)
    share = MORE_NUMBERS * moments if isinstance(moments, bool) else _check_share(moments)
    if not share:
        return share
    if target is None:
        raise InputError(invalid("moments", "with a target", "Say target='...', or leave moments out."))
    if not proved:
        remedy = "Leave moments out, or choose one of them."
        constraint = "left out unless the adjacency is 'add_remove' or 'replace_one'"
        raise InputError(invalid("moments", constraint, remedy))
    return share


def _check_share(moments: Any) -> Fraction:
    number = isinstance(moments, Real)
    if not number or not 0 <= moments < 1:
        remedy = "Try moments=True, which is a tenth."
        raise InputError(invalid("moments", "True, False, or at least 0 and below 1", remedy, got=moments))
    return Fraction(moments).limit_denominator(1 << 20)


class Bought(NamedTuple):
    """What a run has bought.

    Args:
        model: Fitted to all tables.
        fitter: That made it.
        sums: Of products, if the release is to hold some.
    """

    model: Model
    fitter: Fitter
    sums: NoisySums | None = None


@dataclass(frozen=True, slots=True)
class Buyer:
    """A run whose columns are known, with all that buying takes.

    Args:
        curator, ledger: Of the run.
        schema: Known.
        target: The column that regressions explain; of no meaning where no sums are bought.
        strategy, fitter: With what the run hands them.
        on_step: Told about each step.
        deadline: When the run is to be done; None for no limit.
    """

    curator: Curator
    ledger: Ledger
    schema: Schema
    target: str
    strategy: Strategy
    fitter: Fitter
    on_step: OnStep
    deadline: Deadline | None

    def buy(self, share: Fraction) -> Bought:
        """All that the run buys: the strategy's tables, and sums of products for a share, if any serve.

        Raises:
            BudgetError: As `run_strategy`.
        """
        self._buy_dependencies()
        if not share:
            return Bought(*self._run_strategy())
        # Loaded here, as most runs are not told a target.
        from margrave.regression.number_sums import centre_numbers, find_numbers

        curator, numbers = self.curator, find_numbers(self.schema, self.target)
        rho = curator.remaining * share
        # A row's squared norm is at most the number of columns.
        if not numbers or curator.sigma(rho) * len(numbers) > MOST_NOISE:
            return Bought(*self._run_strategy())
        with curator.set_aside(rho):
            model, fitter = self._run_strategy()
        if self.ledger.exhausted:  # a stop has cost all that was left
            return Bought(model, fitter)
        self.on_step(Step("measure", f"products of {len(numbers)} numbers", 3, curator.progress))
        return Bought(model, fitter, curator.sums(centre_numbers(numbers, model), curator.remaining))

    def _buy_dependencies(self) -> None:
        """Buy the pairs of dependencies whose table is not declared, but for those that are too large."""
        curator = self.curator
        declared = list_dependency_pairs(self.schema, self.ledger.neighbours.public)
        pairs = [curator.domain.canonical(pair) for pair in declared]
        pairs = [pair for pair in pairs if curator.domain.size(pair) <= MAX_CELLS]
        cells = self.fitter.cells(curator.domain, [], pairs) if pairs else ()
        fitting = [pair for pair, size in zip(pairs, cells, strict=True) if math.isfinite(size)]
        if not fitting:
            return
        self.on_step(Step("measure", f"{len(fitting)} declared dependencies", 0, curator.progress))
        share = share_dependencies(declared)
        curator.measure(fitting, curator.remaining * share / len(fitting))

    def _run_strategy(self) -> tuple[Model, Fitter]:
        return run_strategy(
            self.strategy, self.curator, self.ledger, self.deadline, self.on_step, self.fitter
        )
