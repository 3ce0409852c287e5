"""The verdict on a release in sentences: what was found, and what to do next. Plain text, for every page.

The first thing on the page of a release: what it may be used for, what was lost, and what to do next.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from margrave.report.html import (
    MAX_LISTED,
    Level,
    Markup,
    count,
    details,
    join,
    mark_name,
    percent,
    row,
    significant,
    table,
    tag,
)
from margrave.report.release.fit import clique_text
from margrave.report.release.usefulness import KEPT, ColumnUse, Usefulness

MAX_NAMED = 4
"""Columns or pairs that a sentence names; the report lists all of them."""
CLEAR_NOISE = 0.1
"""The noise that a step towards more epsilon or more rows aims at, as a share of the rows of a column."""
ROWS_OVER_NOISE = 20
"""Rows over the noise of a count that such a step aims at: a tenth of the rows is then twice the noise."""
MAX_PROPOSED_EPSILON = 10.0
"""An epsilon above this is not proposed."""


def headline(use: Usefulness) -> str:
    """The verdict in one sentence."""
    columns = f"{count(len(use.usable))} of {count(len(use.columns) + len(use.left_out))} columns"
    if use.level == Level.BAD:
        return f"Next to nothing in this release is usable: {columns} came through."
    if all(column.state == "unmeasured" for column in use.columns):
        return "What this method releases does not tell how good its rows are."
    if use.level == Level.FAIR:
        return f"A part of this release is usable: {columns} came through, {_joint(use)}."
    return f"This release is usable: {columns} came through, {_joint(use)}."


def _joint(use: Usefulness) -> str:
    """What came through of the dependence between columns."""
    if len(use.columns) < 2:
        return "and there are no pairs"
    if not use.measured:
        return "and no pair of columns was measured, so columns are drawn independently or by inference"
    if not use.found:
        return "and no dependence between columns stands out of the noise"
    kept = len(use.found) - len(use.lost)
    return f"and {count(kept)} of the {count(len(use.found))} dependent pairs that were found"


def list_findings(use: Usefulness) -> tuple[str, ...]:
    """What was lost and why, one sentence each; what matters most comes first."""
    found = (
        _scarcity_finding(use),
        _columns_finding(use.in_state("noise"), "the noise hides what the rows hold"),
        _columns_finding(use.in_state("other"), "most rows are in “(other)”, values that were not kept"),
        _columns_finding(
            use.in_state("clamped"), "the declared bounds cut off many values, which stand at the ends"
        ),
        _columns_finding(use.in_state("one"), "one value holds nearly all rows, or nearly all are missing"),
        _columns_finding(use.in_state("unmeasured"), "nothing was measured, so nothing is known"),
        _names_finding(use.left_out, "left out, as texts of which nothing can be told"),
        _names_finding(
            (*use.keys, *(column.name for column in use.in_state("keys"))),
            "taken for keys, with new values that go with nothing else",
        ),
        _pairs_finding(use),
        _lost_finding(use),
    )
    return tuple(sentence for sentence in found if sentence)


def _scarcity_finding(use: Usefulness) -> str:
    if not use.scarce:
        return ""
    return (
        f"There are about {count(max(use.rows, 0))} rows, and the noise in each count is about "
        f"{count(use.sigma)} rows: too few rows for this ε, or too many columns for these rows."
    )


def _columns_finding(columns: Sequence[ColumnUse], what: str) -> str:
    if not columns:
        return ""
    word = "column" if len(columns) == 1 else "columns"
    return f"In {count(len(columns))} {word} {what}: {_name_some([c.name for c in columns])}."


def _names_finding(names: Sequence[str], what: str) -> str:
    if not names:
        return ""
    word = "column" if len(names) == 1 else "columns"
    return f"{count(len(names))} {word} {what}: {_name_some(list(names))}."


def _pairs_finding(use: Usefulness) -> str:
    if len(use.columns) < 2:
        return ""
    if not use.measured:
        return "No pair of columns was measured: which values go together was not asked of the rows."
    if not use.found and len(use.usable) > 1:
        pairs = (
            "The measured pair is not"
            if use.measured == 1
            else f"Not one of {count(use.measured)} measured pairs is"
        )
        return (
            f"{pairs} dependent by more than its noise: take single columns from this release, and no "
            "relations between them."
        )
    return ""


def _lost_finding(use: Usefulness) -> str:
    if not use.lost:
        return ""
    text = (
        f"{count(len(use.lost))} of {count(len(use.found))} pairs that were measured as dependent came out "
        f"about independent: {_name_some([' × '.join(lost.pair) for lost in use.lost])}."
    )
    if use.independent:
        text += f" Columns left with no dependence at all: {_name_some(list(use.independent))}."
    return text


def list_steps(use: Usefulness) -> tuple[str, ...]:
    """What to do next, one sentence each."""
    other = use.in_state("other")
    steps = []
    unfound = use.measured and not use.found and len(use.usable) > 1
    if use.scarce or use.in_state("noise") or unfound:
        steps += _list_steps_against_noise(use)
    if any(not column.declared for column in other):
        steps.append(
            "Declare the values of the columns in “(other)” where they are public; declare keys and free "
            "text as identifiers, or leave them out."
        )
        if len(other) * 2 >= len(use.columns) and not use.scarce:
            steps.append(
                "Check how the file is written: --separator, --decimal, --encoding, --missing and --format."
            )
    if any(column.declared for column in other):
        steps.append(
            "Compare the declared values with how the table spells them: what is spelled otherwise is "
            "“(other)”."
        )
    if use.in_state("clamped"):
        steps.append("Widen the declared bounds of the columns that are cut off, and check their unit.")
    if len(use.columns) > 1 and not use.measured and not use.in_state("unmeasured"):
        steps.append(
            "Use a method that measures pairs, such as auto, where relations between columns matter."
        )
    if use.lost and use.level != Level.GOOD:
        steps.append("Try another method (aim, mst), or name the column to predict with --target.")
    if steps:
        steps.append("A new release of the same table is paid for anew: its ε adds to what was spent.")
    return tuple(steps)


def _list_steps_against_noise(use: Usefulness) -> list[str]:
    """How to get more out of the noise."""
    steps = []
    discovered = sum(not column.declared for column in use.columns)
    if discovered:
        word = "column that was" if discovered == 1 else "columns that were"
        steps.append(
            f"Declare what is public of the {count(discovered)} {word} discovered: what is declared costs "
            "nothing."
        )
    if use.max_rows > 1:
        steps.append(
            f"Lower --max-rows, now {use.max_rows}: the noise grows in proportion to it. `margrave owners` "
            "helps to choose."
        )
    if len(use.columns) > 3:
        steps.append("Release fewer columns: all of them share the same ε.")
    levels = sorted(column.noise for column in use.in_state("noise"))
    factor = max(
        2.0,
        levels[len(levels) // 2] / CLEAR_NOISE if levels else 0.0,
        ROWS_OVER_NOISE * use.sigma / max(use.rows, 1.0) if use.scarce else 0.0,
    )
    wanted = factor * use.epsilon
    if wanted <= MAX_PROPOSED_EPSILON:
        steps.append(
            f"Spend more: an ε of about {significant(wanted, 2)} instead of {significant(use.epsilon)}. "
            f"Or use about {significant(factor, 2)} times the rows."
        )
    else:
        steps.append(
            f"No usual ε is enough for these rows and columns (it is {significant(use.epsilon)} now): it "
            "takes far more rows, or far fewer columns."
        )
    return steps


def compose_verdict(use: Usefulness) -> list[str]:
    """The verdict as lines for a terminal, a warning where less than most of a release is usable."""
    if use.level == Level.GOOD:
        return [headline(use)]
    lines = [f"warning: {headline(use)}"]
    lines += [f"  - {sentence}" for sentence in list_findings(use)]
    return lines + [f"  next: {sentence}" for sentence in list_steps(use)]


def _name_some(names: Sequence[str]) -> str:
    """A few names, and how many more there are."""
    shown = ", ".join(repr(name) if " " in name and "×" not in name else name for name in names[:MAX_NAMED])
    more = len(names) - MAX_NAMED
    return f"{shown} and {count(more)} more" if more > 0 else shown


STATES = {
    "clear": "came through",
    "noise": "lost in the noise",
    "other": "most rows are in “(other)”",
    "clamped": "cut off by its bounds",
    "one": "one value",
    "keys": "keys",
    "unmeasured": "not measured",
}
HEADS = ("Column", "Verdict", "Rows whose value stands out", "Noise", "In “(other)”", "In the end bins")


def usefulness_box(use: Usefulness) -> Markup:
    """The verdict in a box: red where nothing is usable, amber where a part is."""
    findings, steps = list_findings(use), list_steps(use)
    return tag(
        "div",
        tag("p", tag("strong", headline(use))),
        tag("ul", *[tag("li", sentence) for sentence in findings]) if findings else None,
        tag("p", "What to do next:") if steps and use.level != Level.GOOD else None,
        tag("ul", *[tag("li", *_mark_commands(step)) for step in steps])
        if steps and use.level != Level.GOOD
        else None,
        tag(
            "p",
            tag("a", "How this was judged, column by column", href="#usefulness"),
            ". Compare with the real rows by ",
            tag("code", "margrave evaluate"),
            " before you rely on it; that comparison is not private.",
        ),
        class_=f"box {use.level.css}",
        role="note",
        aria_label="What this release may be used for",
    )


def _mark_commands(text: str) -> list[Markup | str]:
    """A sentence whose commands in backticks and options are marked as code."""
    parts = re.split(r"(`[^`]+`|--[a-z][a-z-]*)", text)
    return [
        tag("code", part.strip("`"), class_="nb") if part.startswith(("`", "--")) else part for part in parts
    ]


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
        table("What came through of each column", HEADS, lines[:MAX_LISTED], numeric=4),
        tag("p", f"and {count(len(lines) - MAX_LISTED)} more columns") if len(lines) > MAX_LISTED else None,
        _pairs(use),
    )


def _column_line(column: ColumnUse) -> Markup:
    unmeasured = column.state == "unmeasured"
    return row(
        mark_name(column.name),
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
        for pair in sorted(use.lost, key=lambda pair: pair.kept or 0.0)[:MAX_LISTED]
    ]
    return join(
        text,
        details(
            f"{count(len(use.lost))} pairs that came out about independent",
            table("Pairs that lost their dependence", ("Pair", "Dependence that is left"), lines, numeric=1),
        ),
    )
