"""The command `margrave show`: what a release file holds. Free."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from margrave.cli.options import Estimator

if TYPE_CHECKING:
    from margrave.release import Guarantee, Release


def show(
    release: Annotated[Path, typer.Argument(help="A release file written by --release or save().")],
    estimator: Estimator = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say what a release file is good for and what it holds: guarantee, columns. Free: post-processing."""
    from margrave.archive import guarantee_to_json, provenance_to_json
    from margrave.run.synthesis import load

    synthesis = load(release, estimator)
    found = synthesis.release
    if as_json:
        marked = {"NOT PRIVATE": found.guarantee.warning} if found.guarantee.warning else {}
        document = {
            **marked,
            "usefulness": synthesis.usefulness().to_json(),
            "provenance": provenance_to_json(found.provenance),
            "guarantee": guarantee_to_json(found.guarantee),
            "method": found.notes.get("method"),
            "rows": round(found.total),
            "schema": found.schema.to_json(),
            "measurements": [list(marginal.clique) for marginal in found.measurements],
            "text": found.text.to_json(),
            "notes": dict(found.notes),
            "rules left out": [rule.to_json() for rule in found.rules_left_out],
        }
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    warning = [found.guarantee.warning] if found.guarantee.warning else []
    notes = [f"warning: {line}" for line in rule_notes(found)]
    typer.echo("\n".join([*warning, *notes, str(synthesis.usefulness()), *describe_release(found)]))


def tell_warning(guarantee: Guarantee, out: Path) -> None:
    """Say on standard error, however quiet the command is to be, that rows or tables are not private.

    Args:
        guarantee: Of the release that they come from.
        out: The file to write.

    Raises:
        InputError: They are not private and the name of the file does not say so.
    """
    from margrave.release import check_marked_name

    if guarantee.warning:
        check_marked_name(out)
        typer.echo(f"warning: {guarantee.warning}", err=True)


def describe_release(release: Release) -> list[str]:
    """A release in a few lines, all of them from released quantities."""
    from margrave.schema.schema import describe_column, describe_rule

    sizes = [len(marginal.clique) for marginal in release.measurements]
    counts = [f"{sizes.count(size)} of {size} column(s)" for size in sorted(set(sizes))]
    lines = [
        f"guarantee     {release.guarantee}",
        f"method        {release.method}",
        f"rows          about {max(round(release.total), 0):,}",
        f"measured      {', '.join(counts) or 'nothing'}; {len(release.events)} spends in its ledger",
        f"written by    margrave {release.notes.get('margrave', 'unknown')}",
    ]
    origin = release.provenance
    said = {
        "data set": origin.dataset,
        "made by": origin.operator,
        "read from": origin.source,
        "day": origin.date,
    }
    lines += [f"{what:<13} {text}" for what, text in said.items() if text]
    format_parts = release.text.to_json()
    if format_parts:
        parts = [f"{name} {value!r}" for name, value in format_parts.items()]
        lines.append(f"text files    {', '.join(parts)}")
    width = max(len(column.name) for column in release.schema.columns)
    lines.append(f"columns       {len(release.schema.columns)}")
    lines += [f"  {column.name:<{width}}  {describe_column(column)}" for column in release.schema.columns]
    if release.schema.rules:
        declared = [rule.kind for rule in release.schema.rules if rule.found is None]
        lines += [f"rules         {', '.join(declared)}"] if declared else []
        lines += [f"found         {describe_rule(r)}" for r in release.schema.rules if r.found is not None]
    return lines


def rule_notes(release: Release) -> list[str]:
    """Declared rules that the rows of a release may break, with the reason."""
    from margrave.schema.schema import describe_rule

    return [
        f"the rule {describe_rule(rule)} is left out, and rows may break it: no row of the values that were "
        "discovered obeys it. Declare bounds and values of its columns, or check the rule"
        for rule in release.rules_left_out
    ]


def column_notes(release: Release) -> list[str]:
    """What was found out about columns that a reader of the synthetic rows has to know."""
    from margrave.schema.columns import Binned, Identifier, Listed, Omitted
    from margrave.schema.columns.public_lists import lists_used
    from margrave.schema.schema import describe_found_ranges

    ranges = describe_found_ranges(release.schema.columns, release.declared_columns)
    found = [ranges] if ranges else []
    lists = lists_used([event.what for event in release.events])
    for column in release.schema.columns:
        if column.name in release.declared_columns:
            continue
        if isinstance(column, Omitted):
            found.append(f"{column.name!r} is left out: {column.reason}")
        if isinstance(column, Identifier):
            shapes = " or ".join(column.shapes)
            found.append(
                f"{column.name!r} holds new keys of the shape {shapes}; one may be a real one by chance"
            )
        if isinstance(column, Binned) and column.format:
            found.append(
                f"{column.name!r}: found format {column.format}; if that is wrong, run again with "
                f"--format '{column.name}=...'"
            )
        if column.name in lists:
            found.append(
                f"{column.name!r}: values of the public list {lists[column.name]!r}; found, not promised: "
                "rare ones may be there by noise alone"
            )
        if isinstance(column, Listed) and column.stems:
            found.append(
                f"{column.name!r}: codes that are not frequent fell back to {len(column.stems)} beginnings; "
                "these stand alone, or what follows is made up"
            )
    return found
