"""What a run buys, in order: tables of declared dependencies, moments where it is asked for them, and all
that the strategy buys.

A dependency that was declared without its table is read off the noisy counts of its two columns. A strategy
that chooses what it measures may leave that pair out, and rows would break the rule. So the run buys these
pairs first, each for a fixed share of rho.

Moments serve regressions of the target: sums of products of row numbers, or more tables. A fixed share of
rho buys Z'Z before the strategy begins. Without one the run finds out which of the two the target's
regression is better served by: the strategy gets a first part, and all that is left goes to the one of which
less error is foretold by what that part has released, or by halves to both where that leaves doubt.

**Privacy.** The tables of dependencies and the first part are fixed by public arguments, and what the rest
buys depends on released numbers and public things alone. So the run is an adaptive composition of the verbs
of the door, each of which is in the ledger at its price before its noise is drawn, and whose proofs hold for
any question that is chosen so (zCDP: Bun and Steinke 2016, lemma 2.3; GDP: Dong, Roth and Su 2022, theorem
4). Nothing of the decision needs a proof of its own. It is as public as what it was made from.
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
FIRST = Fraction(1, 10)
"""Share of what discovery leaves of rho that the strategy gets before the run decides."""
FIXED = Fraction(1, 2)
"""Share of it for Z'Z where a strategy does not measure tables, so that nothing can be decided by them."""
FIRST_SECONDS = 1.0 / 3.0
"""Share of a time limit within which the strategy's first part ends."""


@dataclass(frozen=True, slots=True)
class MomentShares:
    """The shares of what discovery leaves of rho that are fixed before a run begins; both 0 without moments.

    Args:
        sums: Of Z'Z; the strategy gets all else. 0 where the run decides.
        tables: Of the strategy, before it is decided whether it or Z'Z gets the rest; 0 where nothing is.
    """

    sums: Fraction = Fraction(0)
    tables: Fraction = Fraction(0)

    @property
    def asked(self) -> bool:
        """Whether the run was asked for moments."""
        return self.sums > 0 or self.decides

    @property
    def decides(self) -> bool:
        """Whether the run decides what the rest buys."""
        return self.tables > 0

    def __str__(self) -> str:
        return f"decided after {self.tables}" if self.decides else str(self.sums)


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
    moments: bool | float, target: str | None, neighbours: Neighbours, strategy: Strategy
) -> MomentShares:
    """The shares of rho for sums of products of the rows' numbers; 0 where a run is not asked for them.

    Args:
        moments: Whether they are asked for; a number is a fixed share.
        target: Of the run.
        neighbours: Of the run.
        strategy: Of the run; one that measures no tables has a fixed share.

    Raises:
        InputError: It is no share; there is no target, or the adjacency is not one for which their cost is
            proved.
    """
    fixed = None if isinstance(moments, bool) else _check_share(moments)
    if moments is False:
        return MomentShares()
    if target is None:
        raise InputError(invalid("moments", "with a target", "Say target='...', or leave moments out."))
    if neighbours.adjacency not in ("add_remove", "replace_one"):
        remedy = "Leave moments out, or choose one of them."
        constraint = "left out unless the adjacency is 'add_remove' or 'replace_one'"
        raise InputError(invalid("moments", constraint, remedy))
    if fixed is not None:
        return MomentShares(fixed)
    return MomentShares(tables=FIRST) if strategy.learns_by == "marginals" else MomentShares(FIXED)


def _check_share(moments: Any) -> Fraction:
    number = isinstance(moments, Real) and not isinstance(moments, bool)
    if not number or not 0 < moments < 1:
        remedy = "Try moments=0.5, or moments=True, which decides by what the run has released."
        raise InputError(invalid("moments", "True, False, or above 0 and below 1", remedy, got=moments))
    return Fraction(moments).limit_denominator(1 << 20)


class Bought(NamedTuple):
    """What a run has bought.

    Args:
        model: Fitted to all tables.
        fitter: That made it.
        sums: Of products, if the release is to hold some.
        decided: What the rest of rho went into, a key of `DECISIONS`; empty where nothing was decided.
    """

    model: Model
    fitter: Fitter
    sums: NoisySums | None = None
    decided: str = ""


@dataclass(frozen=True, slots=True)
class Buyer:
    """A run whose columns are known, with all that buying takes.

    Args:
        curator, ledger: Of the run.
        schema: Known.
        target: The column that regressions explain; of no meaning in a run without moments.
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

    def buy(self, shares: MomentShares) -> Bought:
        """All that the run buys: the strategy's tables, and moments where it was asked for them.

        Raises:
            BudgetError: As `run_strategy`.
        """
        self._buy_dependencies()
        if not shares.asked:
            return Bought(*self._run_strategy(self.deadline))
        whole = self.curator.remaining
        if shares.decides:
            return self._decide(whole * shares.tables)
        sums = self._buy_sums(whole * shares.sums)
        return Bought(*self._run_strategy(self.deadline), sums)

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

    def _decide(self, tables: Fraction) -> Bought:
        """Tables for this part of rho, and for the rest what they foretell to err less, or a half of both."""
        curator, clock = self.curator, self.curator.stopwatch
        first = None if self.deadline is None else Deadline(FIRST_SECONDS * self.deadline.left, clock)
        with curator.set_aside(curator.remaining - tables):
            model, fitter = self._run_strategy(first)
        if self.ledger.exhausted:  # a stop has cost all that was left
            return Bought(model, fitter)
        self.on_step(Step("select", "tables or moments", 2, curator.progress))
        share = self._share_sums(model)
        sums = self._buy_sums(curator.remaining * share) if share else None
        if share == 1:
            return Bought(model, fitter, sums, "moments")
        with curator.set_aside(Fraction(0)):
            found = self._run_strategy(self.deadline)
        return Bought(*found, sums, "both" if share else "tables")

    def _share_sums(self, model: Model) -> Fraction:
        """The share of the rest that Z'Z gets, by what regressions of the target are foretold to err by."""
        from margrave.regression.foretold import foretell_errors, share_sums

        curator, pairs = self.curator, math.comb(len(self.curator.domain), 2)
        rho = curator.remaining
        noise = (curator.sigma(rho), curator.sigma(rho / max(pairs, 1)))
        return share_sums(foretell_errors(self.schema, model, self.target, noise))

    def _buy_sums(self, rho: Fraction) -> NoisySums:
        from margrave.regression.moments import number_columns

        numbers = number_columns(self.schema, self.target)
        self.on_step(Step("measure", f"{numbers.size} sums of products", 1, self.curator.progress))
        return self.curator.sums(numbers, rho)

    def _run_strategy(self, deadline: Deadline | None) -> tuple[Model, Fitter]:
        return run_strategy(self.strategy, self.curator, self.ledger, deadline, self.on_step, self.fitter)


DECISIONS = {
    "moments": "the rest went into sums of products of the rows' numbers, which the first tables foretold to "
    "serve the target best",
    "tables": "the rest went into tables, which the first ones foretold to serve the target best",
    "both": "the rest went by halves into sums of products of the rows' numbers and into tables, as the "
    "first tables did not foretell which serve the target best",
}
"""What a release says of the decision."""


def note_decision(decided: str) -> dict[str, str]:
    """What a release says of the decision, by name; nothing where there was none."""
    return {"moments": DECISIONS[decided]} if decided else {}
