"""The report of a regression that spent a budget of its own: one file, made of what was released alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import margrave
from margrave.privacy.accounting.events import Event
from margrave.release import Guarantee
from margrave.report.html import Markup, Section, document, facts, join, mark_name, row, shorten, table, tag
from margrave.report.numerals import count, equals, significant
from margrave.report.release.ledger import ledger_section
from margrave.report.release.summary import (
    describe_promise,
    describe_unit,
    list_limits,
    owner_box,
)

HEADS = ("Coefficient", "Estimate", "Lower", "Upper")
NO_INTERVALS = (
    "There are no intervals: this method releases too little to tell its own error. Do not read the "
    "estimates as exact."
)
INTERVALS = (
    "Intervals hold the privacy noise alone: the coefficients of least squares on the private table lie in "
    "them as often as the level says. Sampling is not in them. An estimate is drawn towards 0 where noise "
    "is large, and may lie outside of its interval, whose middle is unbiased. An interval from -∞ to ∞ means "
    "that the release does not determine the coefficient."
)


def render_regression(
    facts_of_run: Mapping[str, str],
    coefficients: Sequence[Mapping[str, Any]],
    guarantee: Guarantee,
    events: tuple[Event, ...],
    *,
    title: str | None = None,
) -> str:
    """The report of a regression as one self-contained HTML file.

    **Privacy.** Made of the released coefficients, the promise and the ledger: post-processing.

    Args:
        facts_of_run: What was fitted, and how, by what it is called: such as the target and the method.
        coefficients: For each, its "name", "estimate", "lower" and "upper"; None where there is no limit.
        guarantee: What was promised.
        events: The ledger.
        title: Of the page.

    Raises:
        UnsupportedEventError: The ledger holds an event whose cost is not known.
    """
    sections = (
        Section("summary", "Summary", join(owner_box(guarantee), _summarise(facts_of_run, guarantee))),
        Section("coefficients", "Coefficients", _tabulate(coefficients)),
        Section("guarantee", "The guarantee", _explain_promise(guarantee)),
        Section("ledger", "The ledger", ledger_section(guarantee, events)),
    )
    lead = tag(
        "p",
        "One regression of a private table: its coefficients, and what they cost in privacy. This page is "
        "made of released quantities alone: it may be published with them.",
        class_="lead",
    )
    made = f"Made by margrave {margrave.__version__}. This file is complete in itself and fetches nothing."
    heading = shorten(title, 80) if title else "Report of a private regression"
    return document(heading, lead, sections, tag("p", made))


def _explain_promise(guarantee: Guarantee) -> Markup:
    limits = [tag("li", text) for text in list_limits(guarantee)]
    heading = tag("h3", "What it does not mean", id="limits")
    return join(describe_promise(guarantee), heading, tag("ul", *limits))


def _summarise(facts_of_run: Mapping[str, str], guarantee: Guarantee) -> Markup:
    promised = ", ".join(
        (equals("ε", significant(guarantee.epsilon)), equals("δ", significant(guarantee.delta)))
    )
    return facts(
        [
            *((what, mark_name(told)) for what, told in facts_of_run.items()),
            ("Guarantee", f"differential privacy, {promised}"),
            ("Protects", describe_unit(guarantee.neighbours)),
            ("Accounting", guarantee.accountant.removeprefix("accounting ")),
        ]
    )


def _tabulate(coefficients: Sequence[Mapping[str, Any]]) -> Markup:
    lines = [
        row(
            mark_name(figures["name"]),
            f"{figures['estimate']:.5g}",
            _limit(figures["lower"], "-∞"),
            _limit(figures["upper"], "∞"),
            numeric=3,
        )
        for figures in coefficients
    ]
    known = any(figures["lower"] is not None for figures in coefficients)
    caption = f"{count(len(lines))} coefficients and their confidence limits"
    return join(tag("p", INTERVALS if known else NO_INTERVALS), table(caption, HEADS, lines, numeric=3))


def _limit(number: float | None, endless: str) -> str:
    return endless if number is None else f"{number:.5g}"
