"""Progress on a terminal: the stage, rounds, the share of rho spent and the time left."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from margrave.progress import OnStep, Step, silent

LINES = 1.9
"""Seconds between lines of one stage where standard error is not a terminal."""


@contextmanager
def listen_to_steps(quiet: bool) -> Iterator[OnStep]:
    """A listener that draws a bar on standard error, or says nothing.

    The bar runs over the share of rho spent, which is what a run has to get through; where standard
    error is not a terminal, a line a stage is printed instead, and one every two seconds in long stages.
    """
    if quiet:
        yield silent
        return
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _print_lines(console)
        return
    columns = (
        TextColumn("{task.fields[stage]:<8}"),
        BarColumn(),
        TaskProgressColumn(text_format="rho {task.percentage:>3.0f}%"),
        TextColumn("round {task.fields[round]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[message]}", style="dim"),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=1.0, stage="read", round=0, message="")

        def listen(step: Step) -> None:
            fields = {"stage": step.stage, "round": step.round, "message": step.message}
            progress.update(task, completed=step.spent, **fields)  # type: ignore[arg-type]
            if step.waiting:
                progress.refresh()

        yield listen


def _print_lines(console: Console) -> OnStep:
    seen: set[str] = set()
    told = time.monotonic()

    def listen(step: Step) -> None:
        nonlocal told
        if step.stage == "read" and not step.waiting:
            return  # a table that opens at once, or is refused, needs no line of its own
        now = time.monotonic()
        if step.stage not in seen:
            seen.add(step.stage)
            console.print(f"{step.stage}: rho {step.spent:.0%} spent", highlight=False)
        elif now - told >= LINES:
            done = f"round {step.round}, " if step.round else ""
            console.print(f"{step.stage}: rho {step.spent:.0%} spent, {done}{step.message}", highlight=False)
        else:
            return
        told = now

    return listen
