"""Progress on a terminal: the stage, rounds, the share of rho spent and the time left; warnings of a plan."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from margrave.errors import PlanWarning
from margrave.progress import OnStep, Step, silent

BETWEEN, AGAIN = 0.9, 1.4
"""Least seconds between lines of one stage where standard error is not a terminal, and between those where
only the time has changed. As steps are told again after a second, the next comes within two seconds."""


@contextmanager
def listen_to_steps(quiet: bool) -> Iterator[OnStep]:
    """A listener that draws a bar on standard error, or says nothing.

    The bar runs over the share of rho spent, which is what a run has to get through; where standard
    error is not a terminal, a line a stage is printed instead, and then at least one every two seconds, with
    the time taken where nothing else has changed. What a run warns of before it spends anything
    (`PlanWarning`) is a line of its own.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "always", PlanWarning)
        warnings.showwarning = _show_warning
        if quiet:
            yield silent
            return
        console = Console(stderr=True)
        if not console.is_terminal:
            yield _print_lines(console)
            return
        with _draw_bar(console) as listen:
            yield listen


def _show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print what a plan warns of; any other warning is for programmers, and might quote the table."""
    if issubclass(category, PlanWarning):
        typer.echo(f"warning: {message}", err=True)


@contextmanager
def _draw_bar(console: Console) -> Iterator[OnStep]:
    # A message may name a column, whose brackets are no markup: that of "income [/EUR]" would end a paid run.
    columns = (
        TextColumn("{task.fields[stage]:<8}", markup=False),
        BarColumn(),
        TaskProgressColumn(text_format="rho {task.percentage:>3.0f}%"),
        TextColumn("round {task.fields[round]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[message]}", style="dim", markup=False),
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
    told = began = time.monotonic()
    latest = ""

    def listen(step: Step) -> None:
        nonlocal told, began, latest
        if step.stage == "read" and not step.waiting:
            return  # a table that opens at once, or is refused, needs no line of its own
        now, line = time.monotonic(), _describe_step(step)
        changed = line != latest
        if step.stage in seen and now - told < (BETWEEN if changed else AGAIN):
            return
        if changed:
            began = now - step.waiting
        taken = f", {now - began:.0f} s" if now - began >= AGAIN else ""
        # As written: a column's name may hold brackets, or a word between colons, which are no markup here.
        console.print(line + taken, markup=False, emoji=False, highlight=False, soft_wrap=True)
        seen.add(step.stage)
        told, latest = now, line

    return listen


def _describe_step(step: Step) -> str:
    """A step in one line, the same as long as nothing but the time changes."""
    done = [f"round {step.round}"] if step.round else []
    said = [step.message] if step.message else []
    return ", ".join([f"{step.stage}: rho {step.spent:.0%} spent", *done, *said])
