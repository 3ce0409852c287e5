"""find_epsilon: the least epsilon that an error needs, or the largest that a risk allows, before a run.

Nothing private is looked at: names, storage types and the schema of a table, and a public guess of its rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from margrave.errors import InputError, invalid
from margrave.privacy.accounting.conversions import bound_power
from margrave.run.planning import foretell_noise
from margrave.select.strategy import ONE, PAIR

if TYPE_CHECKING:
    from margrave.run.synthesizer import Synthesizer
    from margrave.schema.schema import Schema

LEAST, LARGEST = 1e-3, 50.0
"""Epsilons that are tried. Beyond the largest the promise protects against next to nothing."""
STEP = 1.25
"""Factor between those that are tried first. Where bins are discovered a larger epsilon means more of them,
so that the error need not fall all the way: the first one that suffices is taken."""
HALVINGS = 25
"""Halvings of the bracket on a logarithmic scale: far more than DIGITS can show."""
DIGITS = 3
"""Digits of an epsilon that is found."""
MARGIN = 1.05
"""By how much the noise of single runs may pass the error that is foretold. In a method that moves rho to
dependent tables noisy ones may pass it by more, which is not covered: docs/epsilon.md has figures."""


@dataclass(frozen=True, slots=True)
class Risk:
    """The most that an attack may find at a rate of false alarms.

    Args:
        power: Share of those who are in the table whom an attack may find at most.
        false_alarm: Share of those who are not in it whom it accuses all the same.

    Raises:
        InputError: Not 0 < false_alarm < power < 1.

    Example:
        >>> Risk.parse("10% at 1%")
        Risk(power=0.1, false_alarm=0.01)
    """

    power: float
    false_alarm: float

    def __post_init__(self) -> None:
        if not 0.0 < self.false_alarm < self.power < 1.0:
            remedy = "Try '10% at 1%': guessing finds as many as it accuses wrongly, so more must be allowed."
            raise InputError(invalid("risk", "two shares, the first the larger", remedy, got=str(self)))

    @classmethod
    def parse(cls, text: str) -> Risk:
        """The risk that a text such as "10% at 1%" or "0.1 at 0.01" says.

        Raises:
            InputError: It says none.
        """
        found = re.fullmatch(r"\s*([0-9.]+)\s*(%?)\s*at\s*([0-9.]+)\s*(%?)\s*", text)
        try:
            numbers = zip(found.groups()[::2], found.groups()[1::2], strict=True) if found else ()
            shares = [float(number) / (100.0 if percent else 1.0) for number, percent in numbers]
        except ValueError:
            shares = []
        if not shares:
            raise InputError(invalid("risk", "of the form '10% at 1%'", "Write two shares.", got=text))
        return cls(shares[0], shares[1])

    def __str__(self) -> str:
        return f"{100 * self.power:g}% at {100 * self.false_alarm:g}%"


def find_epsilon(
    synthesizer: Synthesizer,
    schema: Schema,
    rows: int | None,
    error: float | None,
    risk: Risk | str | None,
) -> tuple[Synthesizer, str]:
    """The synthesizer at the epsilon that an error needs, or the largest that a risk allows.

    Where both are given it is the one that the error needs, found to be within the risk.

    Args:
        synthesizer: With its arguments; its own epsilon is set aside.
        schema: The columns to release.
        rows: A public guess of the row count; needed for an error.
        error: Mean total variation between released and private tables of two columns, or of one where no
            pair is measured, that noise alone may make: above 0, below 1.
        risk: The most that an attack may find.

    Returns:
        The synthesizer, and in words what its epsilon was found from, what that covers and what not.

    Raises:
        InputError: An argument is out of range, or there is no such epsilon up to LARGEST.
    """
    if error is not None and not 0.0 < error < 1.0:
        raise InputError(invalid("error", "above 0 and below 1", "Try error=0.02.", got=error))
    if error is not None and rows is None:
        raise InputError(
            invalid("rows", "given for an error", "Give a public guess of the row count: rows=20000.")
        )
    asked = Risk.parse(risk) if isinstance(risk, str) else risk
    found, said = math.inf, []
    if asked is not None:
        found = _largest(lambda epsilon: _power(synthesizer, schema, epsilon, asked) <= asked.power, asked)
        said.append(_say_risk(asked, found))
    if error is not None and rows is not None:
        needed, what = _least(synthesizer, schema, rows, error)
        if needed > found:
            constraint = f"within the risk {asked}, which allows epsilon {found:g}"
            remedy = f"Epsilon {needed:g} is needed. Allow a larger error, or use a cheaper method or schema."
            raise InputError(invalid("error", constraint, remedy, got=error))
        found = needed
        said.append(_say_error(what, error, needed))
    return _at(synthesizer, found), " ".join(said)


def _at(synthesizer: Synthesizer, epsilon: float) -> Synthesizer:
    return synthesizer.clone().set_params(epsilon=epsilon)


def _power(synthesizer: Synthesizer, schema: Schema, epsilon: float, risk: Risk) -> float:
    """The power of the best attack at the risk's rate of false alarms, under the accountant's own curve."""
    run = _at(synthesizer, epsilon)
    ledger = run.new_ledger(run.searches(schema))
    slack = float(ledger.partition_delta)
    return bound_power(ledger.accountant.name, float(ledger.total), risk.false_alarm, slack)


def _largest(safe: Callable[[float], bool], risk: Risk) -> float:
    """The largest epsilon that is safe, rounded down."""
    low, high = LEAST, LARGEST
    if safe(high):
        return high
    if not safe(low):
        remedy = f"Even epsilon {LEAST:g} allows more: allow a larger share."
        raise InputError(invalid("risk", "one that some epsilon keeps", remedy, got=str(risk)))
    # Halved on a logarithmic scale, as epsilons are compared by their ratio.
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if safe(middle) else (low, middle)
    return _round(low, math.floor)


def _least(synthesizer: Synthesizer, schema: Schema, rows: int, error: float) -> tuple[float, str]:
    """The least epsilon whose foretold error suffices, rounded up, and of which tables it is."""

    def foretell(epsilon: float) -> float:
        found = foretell_noise(_at(synthesizer, epsilon), schema, rows)[1]
        return MARGIN * found.get(PAIR, found[ONE])

    def suffices(epsilon: float) -> bool:
        try:
            return foretell(epsilon) <= error
        except InputError:
            # A training under Renyi accounting has no order that allows anything at a very small epsilon.
            return False

    foretell(LARGEST)  # what is wrong with other arguments is said here, whatever the epsilon
    low = high = LEAST
    # The error falls as epsilon grows, so steps upwards find a bracket.
    while not suffices(high):
        if high >= LARGEST:
            remedy = (
                "Declare columns with fewer bins and values, leave columns out, or allow a larger error: the "
                "plan's line 'error' at a given epsilon says how far it is."
            )
            raise InputError(invalid("error", f"to be had at epsilon {LARGEST:g} or less", remedy, got=error))
        low, high = high, min(high * STEP, LARGEST)
    for _ in range(HALVINGS if high > low else 0):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if suffices(middle) else (middle, high)
    pairs = PAIR in foretell_noise(_at(synthesizer, high), schema, rows)[1]
    return min(_round(high, math.ceil), LARGEST), "two columns" if pairs else "one column"


def _round(epsilon: float, way: Callable[[float], int]) -> float:
    """To DIGITS digits, up or down; what rounding made 0.300000004 stays 0.3."""
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - DIGITS + 1)
    return float(f"{way(epsilon / unit) * unit:.{DIGITS}g}")


def _say_error(what: str, error: float, epsilon: float) -> str:
    return (
        f"epsilon {epsilon:g} is the least for an error of {error:g}: the mean, over the tables of {what}, "
        "of the share of rows that would have to change for a table to be the true one, by noise that all "
        "tables share alike. Covered are the tables that synthetic rows have, as far as noise goes, if there "
        "are as many rows as was guessed. Not covered: noisy tables before the fit, where a method moves rho "
        "to dependent ones, what a model cannot follow, questions finer than a bin, values that are "
        "discovered, relations of more columns."
    )


def _say_risk(risk: Risk, epsilon: float) -> str:
    return (
        f"epsilon {epsilon:g} is the largest for the risk {risk}: an attack that accuses "
        f"{100 * risk.false_alarm:g} % of those who are not in the table finds at most "
        f"{100 * risk.power:g} % of those who are, whatever else the attacker knows. Left out: attacks with "
        "other shares of false alarms, what is true of whole groups, and other releases of the same people."
    )
