"""The pages of a release and of a regression: one file each, made of released quantities alone.

`render` puts the sections of a release together. Two of them are here: the schema as a table, with the
relations between columns that a release found and how sure that is, and a contact sheet of synthetic
pictures, where the release is of pictures. `render_regression`, last, is the page of a regression that spent
a budget of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import margrave
from margrave.errors import InputError, invalid
from margrave.images import GAP, LABEL, Pixels
from margrave.privacy.accounting.events import Event
from margrave.release import Guarantee, Release
from margrave.report.html import (
    DEFINITIONS,
    Markup,
    Section,
    count,
    document,
    equals,
    facts,
    join,
    mark_name,
    percent,
    row,
    shorten,
    significant,
    table,
    tag,
)
from margrave.report.release.advice import usefulness_box, usefulness_section
from margrave.report.release.columns import Sides, columns_section, pairs_section
from margrave.report.release.fit import Fitted, Released, TableFits
from margrave.report.release.ledger import ledger_section
from margrave.report.release.questions import question_links, questions_section
from margrave.report.release.record import handling_section, record_section
from margrave.report.release.summary import (
    describe_promise,
    describe_unit,
    guarantee_section,
    list_limits,
    not_private_banner,
    overview,
    owner_box,
    rules_box,
)
from margrave.report.release.usefulness import Usefulness, judge_release
from margrave.schema.columns import (
    Binned,
    Categorical,
    Column,
    Date,
    Identifier,
    Integer,
    Listed,
    Moment,
    Omitted,
    Relative,
    Temporal,
)
from margrave.schema.columns.identifier import name_shapes
from margrave.schema.columns.repeats import rows_per_key
from margrave.schema.constraints.references import find_references
from margrave.schema.constraints.rules import Rule
from margrave.schema.describe import describe_found_ranges
from margrave.schema.encoded import Encoded
from margrave.schema.schema import Schema

if TYPE_CHECKING:
    from margrave.protocols import Model


def render(
    release: Release,
    model: Model | None,
    *,
    synthetic: Encoded | None = None,
    title: str | None = None,
    outputs: Mapping[str, str] | None = None,
    use: Usefulness | None = None,
) -> str:
    """The report of a release as one self-contained HTML file.

    **Privacy.** Reads the release, the model fitted to it and synthetic rows drawn from that, so it is
    post-processing and costs nothing.

    Args:
        release: What left the private side.
        model: The model fitted to the release; None to go without.
        synthetic: Synthetic rows under the release's schema; drawn in the pictures when given.
        title: Title of the page.
        outputs: SHA-256 of files made from the release, by name.
        use: The verdict, where it has been made already.

    Returns:
        The text of the file, the same for the same arguments.

    Raises:
        InputError: The synthetic rows are of another domain.
        UnsupportedEventError: The ledger holds an event whose cost is not known.
    """
    if synthetic is not None and synthetic.domain != release.domain:
        raise InputError(invalid("synthetic", "of the release's domain", "Pass rows sampled from its model."))
    rows = synthetic if synthetic is not None and synthetic.rows else None
    judged = judge_release(release, model) if use is None else use
    sections = _sections(release, Sides(Released(release), Fitted(model, rows), rows), judged, outputs or {})
    heading, banner = title or _title(release), not_private_banner(release.guarantee)
    window = None if banner is None else f"NOT PRIVATE: {heading}"
    return document(heading, _lead(release), sections, _footer(release), banner=banner, window=window)


def _lead(release: Release) -> Markup:
    """What stands under the title."""
    return tag(
        "p",
        "What was released about a private table, what it may be used for, and what it cost in privacy. "
        "This page is made of released quantities alone: it may be published with the release."
        if not release.guarantee.warning
        else "What a test run made of a private table. None of it is for anybody who may not see that table.",
        class_="lead",
    )


def _title(release: Release) -> str:
    dataset = release.provenance.dataset
    what = "Report of a test run" if release.guarantee.warning else "Report of a private release"
    return f"{what}: {shorten(dataset, 80)}" if dataset else what


def _sections(
    release: Release, sides: Sides, use: Usefulness, outputs: Mapping[str, str]
) -> tuple[Section, ...]:
    fits = TableFits.of(sides.released, sides.fitted)
    found = relations_section(release, sides.fitted.model)
    related = () if found is None else (Section("relations", "Relations found", found),)
    sheet = sheet_section(release.schema, sides.synthetic)
    drawn = () if sheet is None else (Section("pictures", "Pictures", sheet),)
    return (
        Section("summary", "Summary", _summary(release, sides, use)),
        Section("questions", "Questions and answers", questions_section(release, use, outputs)),
        Section("guarantee", "The guarantee", guarantee_section(release)),
        Section("record", "About this release", record_section(release, outputs)),
        Section("handling", "What became of each column", handling_section(release)),
        Section("usefulness", "Usefulness, column by column", usefulness_section(use)),
        Section("ledger", "The ledger", ledger_section(release.guarantee, release.events)),
        Section("schema", "The schema", schema_section(release)),
        *related,
        *drawn,
        Section("columns", "Columns", columns_section(release.schema, sides)),
        Section("pairs", "Pairs of columns", pairs_section(sides)),
        Section("quality", "Quality of the fit", fits.render()),
        Section("definitions", "Definitions", facts(DEFINITIONS, css="terms")),
    )


def _summary(release: Release, sides: Sides, use: Usefulness) -> Markup:
    """The first screen: what it may be used for, whom it protects, key facts, and links to answers."""
    rows = None if sides.synthetic is None else sides.synthetic.rows
    return tag(
        "div",
        tag("div", usefulness_box(use), owner_box(release.guarantee), rules_box(release)),
        tag("div", tag("h3", "Twenty questions"), question_links(), class_="asked"),
        tag("div", overview(release, rows)),
        class_="first",
    )


def _footer(release: Release) -> Markup:
    warning = release.guarantee.warning
    notes = [f"{shorten(key, 40)}: {shorten(value, 200)}" for key, value in sorted(release.notes.items())]
    return join(
        tag("p", warning) if warning else None,
        tag(
            "p",
            (
                f"Made by margrave {margrave.__version__}. This file is complete in itself and "
                "fetches nothing."
            ),
        ),
        tag("p", "; ".join(notes)) if notes else None,
    )


MAX_VALUES_SHOWN = 6
"""Values of a column that are written out; set for reading, not measured."""
LEAST_SHARE = 0.005
"""Share of the values on a grid below which the page does not mention the grid. Not measured."""
HEADS = ("Column", "Kind", "Origin", "Missing", "Values or bins", "Codes")


def schema_section(release: Release) -> Markup:
    """The section of the page."""
    return join(
        tag(
            "p",
            (
                "What the release knows of each column. Declared parts were given by the data "
                "holder as public; discovered parts were read from the private table with noise "
                "and are in the ledger." + _ranges_sentence(release)
            ),
        ),
        table(
            "Columns",
            HEADS,
            [_line(column, column.name in release.declared_columns) for column in release.schema.columns],
            numeric=1,
        ),
    )


def _ranges_sentence(release: Release) -> str:
    """What became of numbers beyond the bins that were found, as a sentence; empty where none were."""
    words = describe_found_ranges(release.schema.columns, release.declared_columns)
    return f" {words[0].upper()}{words[1:]}." if words else ""


def _line(column: Column, declared: bool) -> Markup:
    origin = tag(
        "span",
        "declared" if declared else "discovered",
        class_="chip" if declared else "chip found",
    )
    return row(
        mark_name(column.name),
        column.kind,
        origin,
        "possible" if column.missing else "never",
        join(_values(column), _format(column, declared)),
        count(column.size) if column.attribute else "none",
        numeric=1,
    )


def _values(column: Column) -> Markup:
    if isinstance(column, Listed):
        return _list_values(column)
    if isinstance(column, Binned):
        low, high = _ends(column)
        bins = f"{count(column.present)} bin{'s' if column.present != 1 else ''} from {low} to {high}"
        fine = f", decoded by {count(len(column.weights))} finer cells" if column.weights else ""
        return join(bins + fine + _grids(column) + _repeats(column))
    if isinstance(column, Relative):
        return join(column.sentence)
    if isinstance(column, Identifier):
        named, more = name_shapes(column)
        shapes = [join(", " if place else "", mark_name(one)) for place, one in enumerate(named)]
        shapes += [join(f" and {count(more)} more")] if more else []
        return join("new keys", *([" of the shape ", *shapes] if shapes else []))
    if isinstance(column, Omitted):
        return join("left out", f": {column.reason}" if column.reason else "")
    return join("not known")


def _ends(column: Binned) -> tuple[str, str]:
    """Least and greatest value, for reading."""
    ends = column.lower or 0, column.upper or 0
    if isinstance(column, Temporal):
        return column.spell(ends[0]), column.spell(ends[1])
    low = column.spell(ends[0]) if ends[0] == math.nextafter(0.0, 1.0) else significant(ends[0], 8)
    return low, significant(ends[1], 8)


def _format(column: Column, declared: bool) -> str:
    """How texts have the numbers or dates of a column, where it is not as usual."""
    if not isinstance(column, Binned) or not column.format:
        return ""
    return f"; {'declared' if declared else 'found'} format {column.format}"


def _grids(column: Binned) -> str:
    """The rounding that decoding keeps up."""
    if not column.grids:
        return ""
    shown = [
        f"{percent(share, 0)} on multiples of {column.spell_step(step)}"
        for step, share in column.grids
        if share >= LEAST_SHARE
    ]
    return "; " + ", ".join(shown)


def _repeats(column: Binned) -> str:
    """What decoding knows of hours, weekdays, days of the month and keys."""
    if isinstance(column, Integer):
        if column.repeats:
            return f"; each number drawn for {rows_per_key(column.repeats):.1f} rows in the mean"
        return "; no number twice" if column.unique else ""
    cycles = ["hours"] if isinstance(column, Moment) and column.hours is not None else []
    cycles += ["weekdays"] if isinstance(column, (Date, Moment)) and column.weekdays is not None else []
    cycles += ["days of the month"] if isinstance(column, Date) and column.month_days is not None else []
    return f"; drawn by {' and '.join(cycles)}" if cycles else ""


def _list_values(column: Listed) -> Markup:
    values = column.values or ()
    shown = [
        join(", " if place else "", mark_name(str(value), limit=28))
        for place, value in enumerate(values[:MAX_VALUES_SHOWN])
    ]
    more = len(values) - len(shown)
    rest = join(f" and {count(more)} more" if more > 0 else "")
    for how, names in (("by how they begin", column.stems), ("by their pattern", column.patterns)):
        if not names:
            continue
        named = [
            join(", " if place else "", mark_name(name))
            for place, name in enumerate(names[:MAX_VALUES_SHOWN])
        ]
        more = len(names) - len(named)
        rest = join(
            rest,
            f"; others {how}: " if values else f"{how}: ",
            *named,
            f" and {count(more)} more" if more > 0 else "",
        )
    other = join("; all else as ", mark_name(column.other, limit=28)) if column.other is not None else None
    repeats = column.repeats if isinstance(column, Categorical) else ()
    often = f"; each text made up for {rows_per_key(repeats):.1f} rows in the mean" if repeats else ""
    return join(*shown, rest, other, often)


RELATION_HEADS = ("Column", "Relation", "Rows that fit", "±2σ of noise")
WORDS = (
    "Columns whose values are drawn by how they differ from another column of the row, as a part of it, or "
    "as what follows from it. These relations were found in the private table under noise, or seen in its "
    "noisy tables. They are not promised: rows that do not fit were moved to the nearest bin or value. A "
    "relation that is public can be declared as a rule; rules are exact and cost nothing."
)


def relations_section(release: Release, model: Model | None = None) -> Markup | None:
    """The section of the page; None if no column is coded by another, or was found to follow from one.

    Args:
        release: Of which discovery found relations.
        model: What was fitted to it, which may have found more.
    """
    lines = [_relation_line(column) for column in release.schema.columns if isinstance(column, Relative)]
    seen = () if model is None else model.found_rules
    lines += [_rule_line(rule) for rule in (*release.schema.rules, *seen) if rule.found is not None]
    lines += [
        row(mark_name(of), mark_name(f"refers to {key}", limit=120), "by name", "none", numeric=2)
        for of, key in find_references(release.schema).items()
    ]
    if not lines:
        return None
    return join(tag("p", WORDS), table("Relations found", RELATION_HEADS, lines, numeric=2))


def _rule_line(rule: Rule) -> Markup:
    """A line of the table for a rule that was found."""
    share, error = rule.found or (1.0, 0.0)
    column, said = mark_name(rule.names[-1]), mark_name(rule.words, limit=120)
    return row(column, said, percent(share, 1), percent(2 * error, 1), numeric=2)


def _relation_line(column: Relative) -> Markup:
    shown = ("declared", "none") if column.share is None else tuple(percent(x, 1) for x in _noise(column))
    return row(mark_name(column.name), mark_name(column.relation, limit=120), *shown, numeric=2)


def _noise(column: Relative) -> tuple[float, float]:
    share, error = column.share or (1.0, 0.0)
    return share, 2 * error


COLUMNS = 10
"""Pictures of a class, at most."""
CLASSES = 20
"""Classes that are drawn."""
DRAWN_PIXELS = 40_000
"""Pixels of the whole sheet, at most, unless one picture a class has more; a page stays far below a
megabyte."""
SHADES = 16
"""Shades of grey that are told apart."""
ENLARGE = 3
"""Points a side of each pixel."""
LINE = 7
"""Pixels above the pictures of a class, for its name."""

Codes = NDArray[np.int64]


def sheet_section(schema: Schema, synthetic: Encoded | None) -> Markup | None:
    """The first synthetic pictures of each class; None where rows are no pictures, or there are none.

    That rows are pictures is told by the schema: it is that of some `Pixels`, in all its columns.

    Args:
        schema: Of the release.
        synthetic: Synthetic rows under it.
    """
    pixels = Pixels.find(schema)
    if pixels is None or synthetic is None or not synthetic.rows:
        return None
    grey = np.stack([synthetic.column(name) for name in pixels.names], axis=1).astype(np.int64)
    grey = grey.reshape(-1, pixels.height, pixels.width)
    return join(
        tag(
            "p",
            "Synthetic pictures, drawn from the model and not taken from the table. Of each class they are "
            "the first that were drawn: none was picked.",
        ),
        _draw(pixels, grey, synthetic.column(LABEL).astype(np.int64)),
        _tell_left_out(pixels),
    )


def _tell_left_out(pixels: Pixels) -> Markup | None:
    left = len(pixels.labels) - CLASSES
    return tag("p", f"The first {CLASSES} classes are drawn; {left} more are not.") if left > 0 else None


def _draw(pixels: Pixels, grey: Codes, labels: Codes) -> Markup:
    """The picture: a line for each class, its name above it."""
    names = pixels.labels[:CLASSES]
    size = pixels.height * pixels.width
    columns = max(1, min(COLUMNS, DRAWN_PIXELS // (size * len(names))))
    runs: dict[int, list[str]] = {}
    parts, top = [], 0
    for code, name in enumerate(names):
        parts.append(tag("text", shorten(name, 40), x=0, y=top + LINE - 2, font_size=LINE - 2))
        top += LINE
        for place, picture in enumerate(grey[labels == code][:columns]):
            left = place * (pixels.width + GAP)
            parts.append(tag("rect", x=left, y=top, width=pixels.width, height=pixels.height, fill="#000"))
            shades = np.rint(picture * ((SHADES - 1) / (pixels.levels - 1))).astype(int)
            _add_runs(runs, shades, left, top)
        top += pixels.height + GAP
    for shade, found in sorted(runs.items()):
        tone = "#" + f"{shade * 255 // (SHADES - 1):02x}" * 3
        parts.append(tag("path", d="".join(found), stroke=tone, fill="none"))
    wide = columns * (pixels.width + GAP)
    return tag(
        "svg",
        tag("title", "Contact sheet of synthetic pictures", id="sheet-t"),
        tag("desc", f"At most {columns} pictures of each of {len(names)} classes.", id="sheet-d"),
        join(*parts),
        viewbox=f"0 0 {wide} {top}",
        width=wide * ENLARGE,
        role="img",
        aria_labelledby="sheet-t sheet-d",
        shape_rendering="crispEdges",
    )


def _add_runs(runs: dict[int, list[str]], shades: Codes, left: int, top: int) -> None:
    """Add the strokes of one picture to those of its shades: pixels side by side of one shade are one."""
    for down, line in enumerate(shades):
        starts = np.flatnonzero(np.diff(line, prepend=-1))
        lengths = np.diff(np.append(starts, len(line)))
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            if line[start]:
                runs.setdefault(int(line[start]), []).append(f"M{left + start} {top + down}.5h{length}")


COEFFICIENT_HEADS = ("Coefficient", "Estimate", "Lower", "Upper")
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
    return join(
        tag("p", INTERVALS if known else NO_INTERVALS), table(caption, COEFFICIENT_HEADS, lines, numeric=3)
    )


def _limit(number: float | None, endless: str) -> str:
    return endless if number is None else f"{number:.5g}"
