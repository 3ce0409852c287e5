"""The ledger as a table: every spend in order, long runs folded.

What each event of a ledger cost, in words and exact numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from margrave.errors import UnsupportedEventError, invalid
from margrave.privacy.accounting.accountants import event_delta, event_rho
from margrave.privacy.accounting.events import (
    Event,
    ExponentialEvent,
    GaussianEvent,
    ObjectiveEvent,
    PartitionEvent,
    SubsampledGaussianEvent,
)
from margrave.release import Guarantee
from margrave.report.html import (
    MAX_LISTED,
    Markup,
    count,
    details,
    equals,
    facts,
    join,
    percent,
    root,
    row,
    shorten,
    significant,
    table,
    tag,
)


@dataclass(frozen=True, slots=True)
class Spend:
    """One line of the ledger.

    Args:
        number: Position in the ledger, from 1.
        what: The thing released, in public words.
        mechanism: The randomised algorithm.
        sensitivity: The largest change of the exact answer between neighbours, with its norm.
        noise: The scale of the noise.
        rho: The cost in zCDP, mu^2 / 2 under GDP, or a Renyi divergence over its order.
        delta: What the event adds to delta by itself; 0 for most.
        cumulative: rho of this and all earlier events.
    """

    number: int
    what: str
    mechanism: str
    sensitivity: str
    noise: str
    rho: Fraction
    delta: Fraction
    cumulative: Fraction

    @property
    def terms(self) -> tuple[str, str, str, Fraction]:
        """All but what was released: equal for events of one run."""
        return (self.mechanism, self.sensitivity, self.noise, self.rho)


def price_events(events: tuple[Event, ...]) -> tuple[Spend, ...]:
    """The ledger's lines, in order.

    Raises:
        UnsupportedEventError: An event whose cost is not known.
    """
    spends: list[Spend] = []
    total = Fraction(0)
    for number, event in enumerate(events, start=1):
        rho = event_rho(event)
        total += rho
        spends.append(Spend(number, event.what, *_terms(event), rho, event_delta(event), total))
    return tuple(spends)


def _terms(event: Event) -> tuple[str, str, str]:
    """Mechanism, sensitivity and noise, in words."""
    if isinstance(event, PartitionEvent):
        noise = ", ".join(
            (
                equals("σ", _sigma(event.sigma_squared)),
                f"threshold\u00a0{event.threshold}",
                equals("δ", significant(event.delta)),
            )
        )
        return f"{_gaussian(event.rounded)} with a threshold", f"{root(event.l2_squared)}\u00a0(L2)", noise
    if isinstance(event, GaussianEvent):
        return (
            _gaussian(event.rounded),
            f"{root(event.l2_squared)}\u00a0(L2)",
            equals("σ", _sigma(event.sigma_squared)),
        )
    if isinstance(event, ExponentialEvent):
        noise = equals("ε", significant(event.epsilon))
        return "Exponential", f"{event.sensitivity}\u00a0(score)", noise
    if isinstance(event, SubsampledGaussianEvent):
        terms = (
            equals("σ", _sigma(event.sigma_squared)),
            f"{event.steps}\u00a0steps",
            equals("q", significant(event.rate)),
        )
        return "Subsampled Gaussian", f"{root(event.l2_squared)}\u00a0(L2)", ", ".join(terms)
    if isinstance(event, ObjectiveEvent):
        noise = equals("σ", _sigma(event.sigma_squared))
        return "Objective perturbation", f"{root(event.l2_squared)}\u00a0(L2)", noise
    raise UnsupportedEventError(
        invalid("events", "of a kind whose cost is known", "Upgrade margrave.", got=type(event).__name__)
    )


def _gaussian(rounded: bool) -> str:
    return "Rounded Gaussian" if rounded else "Discrete Gaussian"


def _sigma(variance: Fraction) -> str:
    return significant(float(variance) ** 0.5)


MIN_FOLDED = 4
"""Equal spends in a row from which they are shown as one line; set for reading, not measured."""
HEADS = ("No.", "Released", "Mechanism", "Sensitivity", "Noise", "ρ", "Share", "Cumulative")


def ledger_section(guarantee: Guarantee, events: tuple[Event, ...]) -> Markup:
    """The section of the page.

    Args:
        guarantee: What was promised.
        events: The ledger.

    Raises:
        UnsupportedEventError: An event whose cost is not known.
    """
    spends = price_events(events)
    if not spends:
        return tag("p", "Nothing was spent.")
    total = Fraction(guarantee.rho)
    lines = [_run(run, total) for run in fold_spends(spends)]
    return join(
        tag(
            "p",
            (
                "Every answer that was drawn from the private table, in the order in which it was "
                "paid for. Each was entered before its noise was drawn. ρ is the cost of one "
                "answer; costs add up."
            ),
        ),
        table("Every spend, in order", HEADS, lines, numeric=3),
        _totals(guarantee, spends, total),
    )


def fold_spends(spends: Sequence[Spend]) -> list[tuple[Spend, ...]]:
    """The spends in runs: equal terms, or the same two terms in turn, MIN_FOLDED times or more; else one by
    one."""
    runs: list[tuple[Spend, ...]] = []
    start = 0
    while start < len(spends):
        length = max((_repeats(spends, start, period), -period) for period in (1, 2))
        taken = length[0] if length[0] >= MIN_FOLDED * -length[1] else 1
        runs.append(tuple(spends[start : start + taken]))
        start += taken
    return runs


def _repeats(spends: Sequence[Spend], start: int, period: int) -> int:
    """How many spends from start on repeat their first `period` terms, whole periods only."""
    end = start + period
    if end > len(spends):
        return 0
    while end < len(spends) and spends[end].terms == spends[end - period].terms:
        end += 1
    return (end - start) // period * period


def _run(run: tuple[Spend, ...], total: Fraction) -> Markup:
    if len(run) == 1:
        return _line(run[0], total)
    cost = sum((spend.rho for spend in run), Fraction(0))
    kinds = list(dict.fromkeys((spend.mechanism, spend.sensitivity, spend.noise) for spend in run))
    line = row(
        f"{run[0].number}–{run[-1].number}",
        f"{count(len(run))} answers, {_each(run)}",
        _stack_lines([kind[0] for kind in kinds]),
        _stack_lines([kind[1] for kind in kinds]),
        _stack_lines([_unbroken(kind[2]) for kind in kinds]),
        significant(cost, padded=True),
        percent(float(cost / total)),
        significant(run[-1].cumulative, padded=True),
        numeric=3,
        head=1,
        css="folded",
    )
    listed = details(f"Which {count(len(run))}", _list_spends(run))
    return join(line, tag("tr", tag("td"), tag("td", listed, colspan=len(HEADS) - 1), class_="listing"))


def _each(run: tuple[Spend, ...]) -> str:
    costs = list(dict.fromkeys(spend.rho for spend in run))
    return (
        "ρ = "
        + " and ".join(significant(cost) for cost in costs)
        + (" each" if len(costs) == 1 else " in turn")
    )


def _unbroken(text: str) -> Markup:
    """Terms set off by commas, each kept on one line."""
    terms = text.split(", ")
    commas = [*[", "] * (len(terms) - 1), None]
    return join(
        *[join(tag("span", term, class_="nb"), comma) for term, comma in zip(terms, commas, strict=True)]
    )


def _stack_lines(texts: Sequence[str]) -> Markup:
    return join(*[join(tag("br") if place else "", text) for place, text in enumerate(texts)])


def _list_spends(run: tuple[Spend, ...]) -> Markup:
    items = [
        tag(
            "li",
            tag("bdi", shorten(spend.what, 200)),
            f", ρ so far {significant(spend.cumulative)}",
            value=spend.number,
        )
        for spend in run[:MAX_LISTED]
    ]
    more = len(run) - len(items)
    rest = (
        tag("p", f"and {count(more)} more of the same cost, each named in the release file") if more else None
    )
    return join(tag("ol", *items), rest)


def _line(spend: Spend, total: Fraction) -> Markup:
    return row(
        count(spend.number),
        tag("bdi", shorten(spend.what, 200)),
        spend.mechanism,
        spend.sensitivity,
        _unbroken(spend.noise),
        significant(spend.rho, padded=True),
        percent(float(spend.rho / total)),
        significant(spend.cumulative, padded=True),
        numeric=3,
        head=1,
    )


def _totals(guarantee: Guarantee, spends: Sequence[Spend], total: Fraction) -> Markup:
    spent = spends[-1].cumulative
    left = total - spent
    partitions = sum((spend.delta for spend in spends), Fraction(0))
    entries = [
        ("Answers", count(len(spends))),
        ("ρ spent", f"{significant(spent, 6)} ({percent(float(spent / total), 2)})"),
        ("ρ allowed", significant(total, 6)),
        ("ρ unspent", significant(left, 3) if abs(left) > total / 10**12 else "0"),
    ]
    if partitions:
        entries.append(("δ spent on thresholds", significant(partitions)))
    epsilon, delta = significant(guarantee.epsilon), significant(guarantee.delta)
    promised = f"{equals('ε', epsilon)}, {equals('δ', delta)}"
    entries.append(("Declared", "NOT PRIVATE: nothing" if guarantee.warning else promised))
    return facts(entries, css="terms totals")
