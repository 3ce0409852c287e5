"""The command `margrave release`: one file says all of a release."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated

import typer

NOT_MET = 3
"""The exit code of a release that was made and does not meet what was required of it."""


def release(
    spec: Annotated[Path, typer.Argument(help="A TOML or JSON file that says all of the release.")],
    fail_under: Annotated[
        float | None,
        typer.Option(
            "--fail-under",
            help="End with code 3 if a smaller share of the measured tables is usable: moved by noise by at "
            "most 0.1 in total variation. Over what [checks] says.",
        ),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only say what it would do. Spends nothing.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that was stopped.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and no progress.")] = False,
) -> None:
    """Make a release as one file says it, and check it. Ends with code 3 if a requirement is not met."""
    from margrave.archive import guarantee_to_json
    from margrave.cli.console import listen_to_steps
    from margrave.cli.show import rule_notes
    from margrave.run.specification import make_release, read_specification

    said = read_specification(spec)
    if "owner" in said.data and "max_rows" not in said.data and not (quiet or as_json):
        owner = said.data["owner"]
        words = f"note: one row of each {owner!r} is used and the others are dropped; choose with max_rows"
        typer.echo(f"{words} in [data], and see `margrave owners`", err=True)
    if plan:
        found = said.synthesizer().plan(str(said.folder / said.data["table"]))
        typer.echo(json.dumps(found.to_json(), default=dict) if as_json else str(found))
        return
    with listen_to_steps(quiet or as_json) as on_step:
        made = make_release(said, usable=fail_under, resume=resume, force=force, on_step=on_step)
    if as_json:
        checks = [
            {
                "name": one.name,
                "value": one.value if math.isfinite(one.value) else None,
                "bound": one.bound,
                "at_least": one.at_least,
                "met": one.met,
                "private": one.private,
            }
            for one in made.checks
        ]
        files = {name: str(path) for name, path in made.files.items()}
        promise = guarantee_to_json(made.synthesis.guarantee)
        typer.echo(json.dumps({"guarantee": promise, "files": files, "checks": checks, "met": made.met}))
    elif not quiet:
        for line in rule_notes(made.synthesis.release):
            typer.echo(f"warning: {line}", err=True)
        typer.echo(f"guarantee: {made.synthesis.guarantee}")
        for name, path in made.files.items():
            typer.echo(f"{name}: {path}")
        for one in made.checks:
            typer.echo(f"check: {one}")
    if not made.met:
        raise typer.Exit(NOT_MET)
