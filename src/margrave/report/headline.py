"""The first thing on the page of a release: what it may be used for, what was lost, and what to do next."""

from __future__ import annotations

from margrave.report.advice import headline, list_findings, list_steps
from margrave.report.fit import clique_text
from margrave.report.markup import Markup, join, named, tag
from margrave.report.numerals import count, percent
from margrave.report.tables import details, row, table
from margrave.report.usefulness import BAD, FAIR, GOOD, KEPT, ColumnUse, Usefulness

__all__ = ["usefulness_box", "usefulness_section"]

BOXES = {GOOD: "good", FAIR: "care", BAD: "far"}
STATES = {
    "clear": "came through",
    "noise": "lost in the noise",
    "other": "most rows are in “(other)”",
    "clamped": "cut off by its bounds",
    "one": "one value",
    "unmeasured": "not measured",
}
HEADS = ("Column", "Verdict", "Rows whose value stands out", "Noise", "In “(other)”", "In the end bins")
LISTED = 400


def usefulness_box(use: Usefulness) -> Markup:
    """The verdict in a box: red where nothing is usable, amber where a part is."""
    findings, steps = list_findings(use), list_steps(use)
    return tag(
        "div",
        tag("p", tag("strong", headline(use))),
        tag("ul", *[tag("li", sentence) for sentence in findings]) if findings else None,
        tag("p", "What to do next:") if steps and use.level != GOOD else None,
        tag("ul", *[tag("li", step) for step in steps]) if steps and use.level != GOOD else None,
        tag(
            "p",
            tag("a", "How this was judged, column by column", href="#usefulness"),
            ". Compare with the real rows by ",
            tag("code", "margrave evaluate"),
            " before you rely on it; that comparison is not private.",
        ),
        class_=f"box {BOXES[use.level]}",
        role="note",
        aria_label="What this release may be used for",
    )


def usefulness_section(use: Usefulness) -> Markup:
    """Column by column and pair by pair, what the verdict rests on."""
    lines = [_column_line(column) for column in use.columns]
    return join(
        tag(
            "p",
            (
                "The verdict is made of the released tables and the known size of their noise; the private "
                "rows were not looked at again. A value stands out if its released share is above what "
                "noise alone gives in any value of the column. Noise is the distance to expect between the "
                "released shares and the private ones. What is in “(other)” was too rare to be named."
            ),
        ),
        table("What came through of each column", HEADS, lines[:LISTED], numeric=4),
        tag("p", f"and {count(len(lines) - LISTED)} more columns") if len(lines) > LISTED else None,
        _pairs(use),
    )


def _column_line(column: ColumnUse) -> Markup:
    unmeasured = column.state == "unmeasured"
    return row(
        named(column.name),
        tag("span", STATES[column.state], class_=f"chip {'good' if column.usable else 'care'}"),
        "–" if unmeasured else percent(column.seen, 0),
        "–" if unmeasured else _share(column.noise),
        _share(column.other),
        _share(column.ends),
        numeric=4,
    )


def _share(share: float | None) -> str:
    if share is None:
        return "–"
    return percent(share) if share <= 1 else "above 100%"


def _pairs(use: Usefulness) -> Markup | None:
    if not use.pairs:
        return None
    looked = "" if len(use.pairs) == use.measured else f", of which {count(len(use.pairs))} were looked at"
    text = tag(
        "p",
        f"{count(use.measured)} pairs of columns were measured{looked}. In {count(len(use.found))} of them "
        "the two columns depend on each other by clearly more than the noise. A pair came out about "
        f"independent where the fitted distribution has less than {percent(KEPT, 0)} of the dependence that "
        f"was released: {count(len(use.lost))} pairs did.",
    )
    if not use.lost:
        return text
    lines = [
        row(clique_text(pair.pair), percent(max(pair.kept or 0.0, 0.0), 0), numeric=1)
        for pair in sorted(use.lost, key=lambda pair: pair.kept or 0.0)[:LISTED]
    ]
    return join(
        text,
        details(
            f"{count(len(use.lost))} pairs that came out about independent",
            table("Pairs that lost their dependence", ("Pair", "Dependence that is left"), lines, numeric=1),
        ),
    )
