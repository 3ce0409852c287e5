"""The ledger as a table: every spend in order, long runs folded."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from margrave.release import Release
from margrave.report.markup import Markup, join, shorten, tag
from margrave.report.numerals import count, equals, percent, significant
from margrave.report.pricing import Spend, priced
from margrave.report.tables import details, facts, row, table

__all__ = ["folded", "ledger_section"]

FOLD = 4
LISTED = 400
HEADS = ("No.", "Released", "Mechanism", "Sensitivity", "Noise", "ρ", "Share", "Cumulative")


def ledger_section(release: Release) -> Markup:
    """The section of the page.

    Raises:
        UnsupportedEventError: An event whose cost is not known.
    """
    spends = priced(release.events)
    if not spends:
        return tag("p", "Nothing was spent.")
    total = Fraction(release.guarantee.rho)
    lines = [_run(run, total) for run in folded(spends)]
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
        _totals(release, spends, total),
    )


def folded(spends: Sequence[Spend]) -> list[tuple[Spend, ...]]:
    """The spends in runs: equal terms, or the same two terms in turn, FOLD times or more; else one by one."""
    runs: list[tuple[Spend, ...]] = []
    start = 0
    while start < len(spends):
        length = max((_repeats(spends, start, period), -period) for period in (1, 2))
        taken = length[0] if length[0] >= FOLD * -length[1] else 1
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
        _stacked([kind[0] for kind in kinds]),
        _stacked([kind[1] for kind in kinds]),
        _stacked([_unbroken(kind[2]) for kind in kinds]),
        significant(cost, padded=True),
        percent(float(cost / total)),
        significant(run[-1].cumulative, padded=True),
        numeric=3,
        head=1,
        css="folded",
    )
    listed = details(f"Which {count(len(run))}", _listing(run))
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


def _stacked(texts: Sequence[str]) -> Markup:
    return join(*[join(tag("br") if place else "", text) for place, text in enumerate(texts)])


def _listing(run: tuple[Spend, ...]) -> Markup:
    items = [
        tag(
            "li",
            tag("bdi", shorten(spend.what, 200)),
            f", ρ so far {significant(spend.cumulative)}",
            value=spend.number,
        )
        for spend in run[:LISTED]
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


def _totals(release: Release, spends: Sequence[Spend], total: Fraction) -> Markup:
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
    epsilon, delta = significant(release.guarantee.epsilon), significant(release.guarantee.delta)
    promised = f"{equals('ε', epsilon)}, {equals('δ', delta)}"
    entries.append(("Declared", "NOT PRIVATE: nothing" if release.guarantee.warning else promised))
    return facts(entries, css="terms totals")
