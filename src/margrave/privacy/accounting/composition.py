"""Composition over runs: what many runs on one data set promise together, and whether a cap allows them.

A cap (E, D) is kept by two accounts, fixed beforehand:

* *basic*: the sum of the runs' epsilons is at most E, and that of their deltas at most D/2;
* *zCDP*: the sum of the runs' rho is at most the rho that (E, D/4) allows, and the sum of the deltas of
  their searches for values at most D/4.

A run may be opened if, with it, the one **or** the other holds.

**Theorem.** All runs on the data set together, however they overlap and however what one asks depends on
what others have released, are (E, D)-DP for the cap's neighbours.

*Proof.* Write P and Q for the laws of everything released, on two neighbouring tables, S for a set of
outcomes and A for those in which the basic account holds at the end; in all others the zCDP account holds,
since the one that admitted the last run still does (sums grow only when a run is opened; see *closing*).

1. *The basic account alone is (E, D/2)-DP*: each run is (epsilon_i, delta_i)-DP whatever the others do
   (`Ledger`), runs answer in turns, and their parameters may be chosen after looking: "stop before the sums
   pass E and D/2" is a valid filter (Rogers, Roth, Ullman and Vadhan 2016), which stays valid when
   interactive mechanisms overlap (Haney et al. 2023). Stopping everything at the moment the
   account would be passed changes nothing for outcomes in A. So P(S and A) <= e^E Q(S and A) + D/2.
2. *The zCDP account alone is (E, D/4 + D/4)-DP*: forget which run an event belongs to. All events, in the
   order they were recorded, are single mechanisms, each priced in rho before its noise is drawn, chosen by
   what was released before: one long run, to which docs/privacy/accounting.md ("Adding up") applies as it
   does to one. A GDP run's events have mu^2 = 2 rho and are rho-zCDP (continuous Gaussian, rounded). Sum of
   rho and sum of search deltas are bounded, so P(S and not A) <= e^E Q(S and not A) + D/2.
3. The two lines add up to P(S) <= e^E Q(S) + D. ∎

Why D is halved: which account admits a run may depend on answers seen before, so "the smaller of two valid
bounds" needs both to hold at once. The price is small, as rho hardly depends on delta.

**Errors.** The theorem is about what is released. A run that ends in an error has told its caller one thing
more: which of the errors listed in docs/privacy/limits.md occurred, and after which recorded event. Some of
them follow the rows; no epsilon covers them. The one that could be asked at will, a strict declaration, is
refused in a book from the schema alone. The others are on record: an attempt is written before its table is
opened (`margrave.privacy.ledger.book_run`). So after n attempts the caller has learnt, beyond what is (E,
D)-DP, at most n outcomes out of that list, and the book says what n is and which they were.

**Closing.** A run that ends normally counts in the zCDP account by the rho and the search deltas its events
*spent*, not by what it had reserved. *Why that is sound:* step 2 speaks of events only. A reservation is no
part of the theorem; it keeps other runs from spending what this run still may. At any moment the sum over
recorded events is at most the sum counted, hence below the bound, and which events there were is known
from what was released. In detail: closing replaces what the run reserved by r, the sum of the prices of its
events, in one transaction that also erases the run's token. Every write of the run checks the token in its
own transaction, so no event can follow, and r is computed from all of them, rounded up. Hence the sum that
counts is at all times at least the sum over all recorded events, and never above the bound, since runs are
let in only beside what counts then. Deltas of searches are treated alike. In the basic account a run counts
in full from its first event on; a run that recorded no event released nothing, and counts nowhere once it
has ended, refused or not, and can record none any more. A run that crashed, or may still be going, counts
in full in both accounts, for ever or until it is resumed and closed.

**Copies.** All this holds for the newest state of the book. A copy of it lacks what was spent since, and
counts as fully spent: `Book.retire`.

**Neighbours.** A run counts towards a cap if its promise implies one for the cap's neighbours (`steps`):
the same owner column (or rows in both) and the same adjacency, whatever max_rows, which sets the noise and
not who is protected. Replacing is removing and adding: an add_remove run counts towards a replace_one cap as
two steps, with 2 epsilon, (1 + e^epsilon) delta (group privacy), 4 rho (Bun and Steinke 2016, Proposition
1.9, step by step) and twice its search deltas. All else is refused: a replace_one run need not hide the row
count, and rows say nothing about owners. A replace_private run counts towards a cap of the same kind whose
public columns include its own, and towards no other, since it tells who is in the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from margrave.privacy.accounting.conversions import zcdp_epsilon, zcdp_rho
from margrave.privacy.unit import Neighbours


@dataclass(frozen=True, slots=True)
class Charge:
    """What one run counts.

    Args:
        epsilon: As promised, exact.
        delta: As promised, exact.
        rho: Reserved, or spent once the run is closed.
        searches: The same of the deltas of partition events.
    """

    epsilon: Fraction
    delta: Fraction
    rho: Fraction
    searches: Fraction = Fraction(0)

    def over(self, count: int) -> Charge:
        """What it counts towards neighbours that lie `count` of its own steps apart: 1 or 2."""
        if count == 1:
            return self
        # Group privacy multiplies delta by 1 + e^epsilon; the factor covers the rounding of exp, the cap its
        # overflow.
        grown = math.exp(min(float(self.epsilon), 700.0)) * (1 + 2.0**-40)
        return Charge(2 * self.epsilon, (1 + Fraction(grown)) * self.delta, 4 * self.rho, 2 * self.searches)


def steps(run: Neighbours, cap: Neighbours) -> int | None:
    """How many of the run's steps lead from a table to the cap's neighbour of it; None if not known.

    Towards a replace_private cap a zero_out run counts two: the row's values are erased, which is one step,
    and the row with other private values is erased to the same table, which is another; the number of rows is
    public under both. An add_remove run counts two as well: the row goes and the other comes.
    """
    if run.unit.owner != cap.unit.owner:
        return None
    # Under this adjacency the public columns and who is in the table are not hidden at all.
    if cap.adjacency == "replace_private":
        if run.adjacency == "replace_private":  # fewer public columns hide more
            return 1 if set(run.public) <= set(cap.public) else None
        return 1 if run.adjacency == "replace_one" else 2
    if run.adjacency == cap.adjacency:
        return 1
    return 2 if (run.adjacency, cap.adjacency) == ("add_remove", "replace_one") else None


@dataclass(frozen=True, slots=True)
class Standing:
    """How some charges stand with a cap.

    Args:
        total: Their sum.
        together: An epsilon that all of it promises with the cap's delta, the smaller of both accounts;
            infinite where neither holds.
        rho_left: What the zCDP account still allows, 0 at least.
        epsilon_left: The same of the basic account.
    """

    total: Charge
    together: float
    rho_left: Fraction
    epsilon_left: Fraction


def find_standing(charges: Sequence[Charge], epsilon: float, delta: float) -> Standing:
    """How charges stand with the cap (epsilon, delta)."""
    total = _together(charges)
    quarter = delta / 4.0
    # Half of delta belongs to each account, since which of them admits a run may depend on answers.
    basic = total.delta <= Fraction(delta) / 2
    # The zCDP account's half is shared by its conversion and its searches.
    zcdp = total.searches <= Fraction(quarter)
    ways = [float(total.epsilon)] if basic else []
    # Rounded up to a float before it is converted: rho may be a fraction of many digits.
    rho = math.nextafter(float(total.rho), math.inf) if total.rho else 0.0
    ways += [zcdp_epsilon(rho, quarter)] if zcdp else []
    return Standing(
        total,
        together=min(ways, default=math.inf),
        rho_left=max(_allowed_rho(epsilon, quarter) - total.rho, Fraction(0)) if zcdp else Fraction(0),
        epsilon_left=max(Fraction(epsilon) - total.epsilon, Fraction(0)) if basic else Fraction(0),
    )


def fits(charges: Sequence[Charge], epsilon: float, delta: float) -> bool:
    """Whether the cap (epsilon, delta) allows all these charges together; proof at the head of this file."""
    total = _together(charges)
    # Compared as exact fractions: rounding a sum of many epsilons could let in one run too many.
    if total.epsilon <= Fraction(epsilon) and total.delta <= Fraction(delta) / 2:
        return True
    quarter = delta / 4.0
    return total.rho <= _allowed_rho(epsilon, quarter) and total.searches <= Fraction(quarter)


def _together(charges: Sequence[Charge]) -> Charge:
    """The sum of charges in every respect."""
    return Charge(
        sum((charge.epsilon for charge in charges), Fraction(0)),
        sum((charge.delta for charge in charges), Fraction(0)),
        sum((charge.rho for charge in charges), Fraction(0)),
        sum((charge.searches for charge in charges), Fraction(0)),
    )


def _allowed_rho(epsilon: float, delta: float) -> Fraction:
    return Fraction(zcdp_rho(epsilon, delta))
