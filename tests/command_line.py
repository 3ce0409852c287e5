"""Calls of the command line inside the test's own process, through the true entrance."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import typer.main

from margrave.cli.app import main
from margrave.methods import METHODS
from margrave.privacy.unit import Adjacency

make_command = functools.cache(typer.main.get_command)
"""The command line as the parser has it: made once, and not again at each call in one process."""


@dataclass(frozen=True)
class Done:
    code: Any
    out: str
    err: str


def call(*args: object) -> Done:
    """What `margrave ARGS` exits with and prints."""
    out, err, code = io.StringIO(), io.StringIO(), None
    argv = ["margrave", *(str(arg) for arg in args)]
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(typer.main, "get_command", make_command),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as stop:
            code = 0 if stop.code is None else stop.code
    return Done(code, out.getvalue(), err.getvalue())


def write_csv(path: Path, rows: list[list[object]], delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def people(path: Path, rows: int = 3000, extra: list[object] | None = None) -> Path:
    """A table of owners, awkward column names, numbers and gaps; `extra` is a last row."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["Ä'\"x", "M, or so"], rows)
    age = rng.integers(18, 80, rows)
    pay = np.where(rng.random(rows) < 0.3, "?", np.char.mod("%.2f", age * 20.5))
    table: list[list[object]] = [["person", "select", 'my "größe", cm', "pay"]]
    table += [[f"p{i // 2}", sex[i], age[i], pay[i]] for i in range(rows)]
    return write_csv(path, [*table, extra] if extra else table)


def files(folder: Path) -> set[str]:
    """All files of a folder, hidden ones included."""
    return {path.name for path in folder.iterdir()}


def usual_adjacency(name: str) -> Adjacency:
    """The adjacency that a named method is tried under: the usual one, or another if it refuses that."""
    accepted = METHODS[name].strategy().adjacencies
    return "add_remove" if accepted is None or "add_remove" in accepted else "replace_one"
