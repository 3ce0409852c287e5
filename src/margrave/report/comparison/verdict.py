"""The first screen of a comparison: a verdict on each table between two reference rows, and why.

`judge_comparison` says in plain words what is close, what is not, and what to look at;
`first_screen` shows it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from margrave.report.html import (
    Level,
    Markup,
    count,
    details,
    facts,
    join,
    mark_name,
    percent,
    row,
    shorten,
    table,
    tag,
)

if TYPE_CHECKING:
    from margrave.evaluation.comparison import Comparison
    from margrave.evaluation.review import Review


LEVELS = {Level.GOOD: "✓ close", Level.FAIR: "! in part", Level.BAD: "✗ far off"}
HEADLINES = {
    Level.GOOD: "Close to the real table in all that was judged.",
    Level.FAIR: "Close to the real table in part: see what to look at.",
    Level.BAD: "Far from the real table in at least one respect: see what to look at.",
}
SLIGHT, LARGE = 0.02, 0.1
"""Mean share of rows to change in a column: below the first it is close, above the second far off."""
KEPT, LOST = 0.8, 0.5
"""Share of the dependence that is kept: above the first close, below the second far off."""
SOUND = 0.9
"""Mean share of relations kept at first look, from which it is called close; below LOST it is far off."""
TAUGHT, UNTAUGHT = 0.9, 0.7
"""Share of what real rows teach over shuffled ones: above the first close, below the second far off."""
SPARE, BROKEN = 0.001, 0.05
"""Share of rows above the real one's that break rules: below the first close, above the second far off."""
NAMED, TOLD = 3, 7
"""Columns or pairs that are named as least alike, and sentences on relations that are lost."""


@dataclass(frozen=True, slots=True)
class Aspect:
    """One respect in which a table is judged.

    Args:
        key: Short name, the same for all tables.
        title: Heading of its column.
        value: What stands in the table, in a few characters.
        level: How the table comes off in it; None where it is told and not judged.
        words: A whole sentence.
    """

    key: str
    title: str
    value: str
    level: Level | None
    words: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of one synthetic table.

    Args:
        level: The worst of its aspects.
        headline: In one sentence.
        aspects: One by one.
        good: Sentences on what is close.
        look: Sentences on what to look at.
    """

    level: Level
    headline: str
    aspects: tuple[Aspect, ...]
    good: tuple[str, ...]
    look: tuple[str, ...]


def judge_comparison(comparison: Comparison) -> Verdict:
    """The verdict on the synthetic table of a comparison."""
    found = aspects(comparison, None)
    levels = [aspect.level for aspect in found if aspect.level is not None]
    level = min(levels, default=Level.FAIR)
    good = [aspect.words for aspect in found if aspect.level == Level.GOOD]
    look = [aspect.words for aspect in found if aspect.level is not None and aspect.level < Level.GOOD]
    look += _list_copies(comparison)
    look += [words for score in comparison.scores for words in score.words[:TOLD]]
    look += _unlike(comparison)
    return Verdict(level, HEADLINES[level], found, tuple(good), tuple(look))


def aspects(comparison: Comparison, reference: str | None) -> tuple[Aspect, ...]:
    """Each respect in which a table can be judged.

    Args:
        comparison: Of the synthetic table.
        reference: Tells of this reference table instead of the synthetic one, and judges nothing.
    """
    own = _Values(comparison, reference)
    made = (
        *(_columns(own), _first_look(own), _dependence(own), _prediction(own), _rules(own)),
        _copies(own),
    )
    return tuple(aspect for aspect in made if aspect is not None)


class _Values:
    """The scores of a synthetic or a reference table, and of both brackets."""

    def __init__(self, comparison: Comparison, reference: str | None) -> None:
        self.scores = {score.name: score for score in comparison.scores}
        self.references = comparison.references
        self.own = reference is None
        self.rows = max(comparison.rows[0], 1)
        self._reference = reference

    def get(self, name: str, reference: str | None = None) -> float:
        """A score of this table, or of a reference; NaN where there is none."""
        reference = reference or self._reference
        if reference is not None:
            return self.references.get(reference, {}).get(name, math.nan)
        return self.scores[name].value if name in self.scores else math.nan

    def level(self, good: bool, fair: bool) -> Level | None:
        """The level of the synthetic table; none for references."""
        if not self.own:
            return None
        return Level.GOOD if good else Level.FAIR if fair else Level.BAD


def _columns(own: _Values) -> Aspect | None:
    value, drawn = own.get("tv_1_mean"), own.get("tv_1_mean", "bootstrap")
    if math.isnan(value):
        return None
    close = value <= max(SLIGHT, 2 * drawn if drawn == drawn else 0.0)
    kind = {True: "Single columns are close", False: "Single columns differ"}[close]
    words = f"{kind}: on average {percent(value)} of the rows would have to change for a column to agree."
    return Aspect(
        "columns", "Columns: rows to change", percent(value), own.level(close, value <= LARGE), words
    )


def _first_look(own: _Values) -> Aspect | None:
    """What a person checks first; the relations that are lost are named by `judge_comparison`."""
    if "first_look" not in own.scores:
        return None
    title, kept = "First look: relations kept", own.get("first_look")
    if math.isnan(kept):
        return Aspect("first look", title, "–", None, "There is nothing to look at first.")
    level = own.level(kept >= SOUND, kept >= LOST)
    shown = percent(kept, 0)
    words = (
        f"Orders, equalities, dependencies, gaps, strong correlations, codes and spelling are kept to {shown}"
        f"{'.' if level == Level.GOOD else ': the worst are named below.'}"
    )
    return Aspect("first look", title, shown, level, words)


def _dependence(own: _Values) -> Aspect | None:
    """The share of dependence that is kept cell by cell; by Cramér's V where that was not scored."""
    if "dependence_kept" in own.scores:
        return _dependence_judged(own, own.get("dependence_kept"))
    value = own.get("association_mean")
    drawn, lost = (own.get("association_mean", name) for name in ("bootstrap", "shuffled"))
    if math.isnan(value):
        return None
    kept = min(max(1 - (value - drawn) / (lost - drawn), 0.0), 1.0) if lost > 2 * drawn else math.nan
    return _dependence_judged(own, kept)


def _dependence_judged(own: _Values, kept: float) -> Aspect:
    if math.isnan(kept):
        words = "The columns of the real table hardly depend on each other, so there is nothing to keep."
        return Aspect("dependence", "Dependence kept", "–", None, words)
    shown = percent(kept, 0)
    words = {
        Level.GOOD: f"How columns depend on each other is kept: {shown} of it.",
        Level.FAIR: f"How columns depend on each other is kept in part: {shown} of it.",
    }.get(
        own.level(kept >= KEPT, kept >= LOST) or Level.BAD,
        f"Much of how columns depend on each other is lost: {shown} is kept.",
    )
    return Aspect("dependence", "Dependence kept", shown, own.level(kept >= KEPT, kept >= LOST), words)


def _prediction(own: _Values) -> Aspect | None:
    value = own.get("roc_auc")
    best, worst = own.get("roc_auc", "real rows"), own.get("roc_auc", "shuffled")
    if "roc_auc" not in own.scores:
        return None
    shown = "–" if math.isnan(value) else f"{value:.3f}"
    title = "Prediction: AUC"
    if not best > worst + 0.05:
        words = "Even real rows teach hardly anything about the column to predict."
        return Aspect("prediction", title, shown, None, words)
    share = (value - worst) / (best - worst)
    what = own.scores["roc_auc"].scope.removeprefix("find ")
    words = (
        f"A model that learned from it finds “{shorten(what, 60)}” among real rows with an area under the "
        f"curve of {shown}; "
        f"real rows reach {best:.3f}, shuffled columns {worst:.3f}."
    )
    return Aspect("prediction", title, shown, own.level(share >= TAUGHT, share >= UNTAUGHT), words)


def _rules(own: _Values) -> Aspect | None:
    if "rules" not in own.scores:
        return None
    value = own.get("rules")
    if math.isnan(value):
        return Aspect("rules", "Rows that break rules", "–", None, "The declared rules could not be judged.")
    real = own.scores["rules"].parts.get("any rule: share of real rows", 0.0)
    words = f"{percent(value)} of its rows break a declared rule; {percent(real)} of the real rows do."
    # Two standard errors of the real share: two tables of one source differ as much.
    chance = 2 * math.sqrt(real * (1 - real) / own.rows)
    level = own.level(value <= real + max(chance, SPARE), value <= real + BROKEN)
    return Aspect("rules", "Rows that break rules", percent(value), level, words)


def _copies(own: _Values) -> Aspect | None:
    value = own.get("unique_exact_match")
    if math.isnan(value):
        return None
    words = f"{percent(value)} of the real rows that are unlike any other reappear among the synthetic ones."
    return Aspect("copies", "One-of-a-kind rows that reappear", percent(value), None, words)


def _list_copies(comparison: Comparison) -> list[str]:
    """A sentence where more of the real rows unlike any other reappear than real rows drawn anew would have.

    As many as are drawn anew leave out a share of them; twice as many leave out its square. More than half of
    the way from there to all of them is told: not measured, a copy is at the end of the way.
    """
    own = _Values(comparison, None)
    value, drawn = own.get("unique_exact_match"), own.get("unique_exact_match", "bootstrap")
    real, synthetic = comparison.rows
    missed = (1.0 - drawn) ** (synthetic / max(real, 1))
    # Not a number where there is no such row, of which nothing is true.
    if not 1.0 - value < missed / 2.0:
        return []
    words = f"{percent(value)} of the real rows that are unlike any other are among its rows; of as many "
    words += f"drawn anew from the real table {percent(1.0 - missed)} would be. Is it a copy of real rows?"
    return [words]


def _unlike(comparison: Comparison) -> list[str]:
    """Columns and pairs that are least alike, and numbers of rows that are."""
    found = []
    worst = sorted(comparison.columns, key=lambda column: -column.tv)[:NAMED]
    far = [f"{shorten(column.name, 40)} ({percent(column.tv)})" for column in worst if column.tv > SLIGHT]
    if far:
        found.append(f"Columns least alike, with the rows that would have to change: {', '.join(far)}.")
    pairs = comparison.pairs
    upper = np.argwhere(np.triu(np.nan_to_num(pairs.tv), 1) > LARGE).tolist()
    upper.sort(key=lambda place: -pairs.tv[tuple(place)])
    named = [
        f"{shorten(pairs.names[i], 32)} with {shorten(pairs.names[j], 32)} ({percent(pairs.tv[i, j])})"
        for i, j in upper[:NAMED]
    ]
    if named:
        found.append(f"Pairs least alike: {', '.join(named)}.")
    real, synthetic = comparison.rows
    if abs(synthetic - real) > 0.05 * real:
        found.append(f"It has {count(synthetic)} rows where the real table has {count(real)}.")
    return found


def plain_lines(review: Review) -> list[str]:
    """The verdicts as lines of text, for a terminal. **Not private**."""
    lines = []
    for name, comparison in review.comparisons.items():
        verdict = judge_comparison(comparison)
        lines += [f"{name}: {verdict.headline}"]
        lines += [f"  + {text}" for text in verdict.good]
        lines += [f"  ! {text}" for text in verdict.look]
    return lines + [f"Note: {note}" for note in review.notes]


BRACKETS = {
    "real rows": "Real rows themselves",
    "bootstrap": "Real against real (bootstrap)",
    "shuffled": "Shuffled columns",
}
ROLES = {
    "bootstrap": ("Real against real", "reference: the best to hope for"),
    "shuffled": ("Shuffled columns", "reference: all dependence lost"),
}
READING = (
    (
        "Columns: rows to change",
        (
            "The share of rows that would have to change, on average, for a single column to have the real "
            f"shares: its total variation. Up to {percent(SLIGHT, 0)} is called close, or twice what real "
            f"rows drawn anew have; above {percent(LARGE, 0)} far off."
        ),
    ),
    (
        "First look: relations kept",
        (
            "How much is kept of what a person checks first: orders such as admitted before discharged, "
            "columns that are equal, values that are missing together, strong rank correlations, codes that "
            "come back, values that no real row has, and how numbers and codes are written. 0% is what "
            f"independent columns would show. From {percent(SOUND, 0)} it is called close, below "
            f"{percent(LOST, 0)} far off."
        ),
    ),
    (
        "Dependence kept",
        (
            "How much of the dependence between two columns is left, on average: 100% as in real rows drawn "
            "anew, 0% as in shuffled columns, by the error of Cramér's V. From "
            f"{percent(KEPT, 0)} it is called close, below {percent(LOST, 0)} far off."
        ),
    ),
    (
        "Prediction: AUC",
        (
            "How well a model that learned from the table finds the rows asked for among real rows: 0.5 is "
            f"guessing, 1 perfect. From {percent(TAUGHT, 0)} of the way from shuffled to real rows it is "
            f"called close, below {percent(UNTAUGHT, 0)} far off."
        ),
    ),
    (
        "Rows that break rules",
        (
            "Rows that break a declared rule. No more than among the real rows is called close, above "
            f"{percent(BROKEN, 0)} more far off."
        ),
    ),
    (
        "One-of-a-kind rows that reappear",
        (
            "The share of real rows unlike any other, by the codes of all columns, that are also among the "
            "synthetic rows. It is told and not judged: a match can be chance, and no number on this page "
            "proves that people are protected. That is for the guarantee of the release, if there is one."
        ),
    ),
    ("Verdict", "The worst of the levels in its line."),
)


def first_screen(review: Review) -> Markup:
    """What a reader sees first."""
    verdicts = {name: judge_comparison(comparison) for name, comparison in review.comparisons.items()}
    real = review.first.rows[0]
    return join(
        _table(review, verdicts),
        tag(
            "p",
            "Read each synthetic table between the two references: real rows drawn anew, and real rows "
            "whose columns were shuffled. ",
            tag("a", "What the columns mean", href="#reading"),
            ".",
        ),
        tag("div", *[_said(name, verdict) for name, verdict in verdicts.items()], class_="verdicts"),
        _explain_columns(),
        facts(
            [
                ("Real rows", count(real)),
                *((f"Rows of {name}", count(one.rows[1])) for name, one in review.comparisons.items()),
                ("Columns compared", count(len(review.first.columns))),
            ]
        ),
        *[tag("p", note, class_="note") for note in review.notes],
    )


def chip(level: Level) -> Markup:
    """A level as a word with a sign, in a colour."""
    return tag("span", LEVELS[level], class_=f"chip {level.css}")


def _table(review: Review, verdicts: dict[str, Verdict]) -> Markup:
    columns = next(iter(verdicts.values())).aspects
    heads = ("Table", "Verdict", *(aspect.title for aspect in columns))
    lines = []
    for name, verdict in verdicts.items():
        cells = [_cell(aspect) for aspect in verdict.aspects]
        lines.append(
            row(tag("strong", mark_name(name, limit=40)), chip(verdict.level), *cells, numeric=len(cells))
        )
    for name, (title, role) in ROLES.items():
        # What is learned from real rows is known of the rows themselves only, not of a bootstrap of them.
        sources = ("real rows", name) if name == "bootstrap" else (name,)
        told: dict[str, str] = {}
        for source in sources:
            found = {aspect.key: aspect.value for aspect in aspects(review.first, source)}
            told |= {key: value for key, value in found.items() if value != "–" or key not in told}
        cells = [tag("span", told.get(aspect.key, "–")) for aspect in columns]
        lines.append(row(title, role, *cells, numeric=len(cells), css="bracket"))
    return table(
        "The synthetic tables at a glance, between reference tables", heads, lines, numeric=len(columns)
    )


def _cell(aspect: Aspect) -> Markup:
    if aspect.level is None:
        return tag("span", aspect.value)
    return join(
        tag("strong", aspect.value),
        " ",
        tag("span", LEVELS[aspect.level], class_=f"level {aspect.level.css}"),
    )


def _said(name: str, verdict: Verdict) -> Markup:
    return tag(
        "article",
        tag("h3", mark_name(name, limit=48)),
        tag("p", chip(verdict.level), " ", verdict.headline),
        _list_lines("What is good", verdict.good),
        _list_lines("What to look at", verdict.look),
    )


def _list_lines(heading: str, lines: tuple[str, ...]) -> Markup | None:
    if not lines:
        return None
    return join(tag("h4", heading), tag("ul", *[tag("li", line) for line in lines]))


def _explain_columns() -> Markup:
    return tag("div", details("What the columns mean", facts(READING, css="terms")), id="reading")
