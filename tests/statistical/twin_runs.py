"""Runs of the named methods for the twin audit, in sizes for small tables."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import pytest
import twin_tables
from torch_fitters import NEEDS_TORCH, TINY, TRAINED
from twin_losses import findings
from twins import Run, Tape, record, replay

from margrave import Synthesizer
from margrave.methods import METHODS
from margrave.models.networks.merf import Merf
from margrave.privacy.unit import Adjacency
from margrave.select.aim import AIM
from margrave.select.from_rows.mean_embedding import MeanEmbedding
from margrave.select.from_rows.training import Training
from margrave.select.from_rows.votes import Votes
from margrave.select.public_rounds import JAM, VerticalRounds
from margrave.select.top_q import TopQ

__all__ = ["COLUMNS", "FEW", "NAMES", "SLICED", "audited", "columns_of", "fitting", "refused"]

COLUMNS = ("city", "age", "pay", "day", "sold")
FEW = ("city", "age")
"""For models of all cells at once where nothing is declared."""
SLICED = ("slice_fdiv", "slice_wass", "slicing")
"""Methods that release every row with noise, whose number is public."""
QUICK = TINY | TRAINED | {"merf": lambda: Merf(network=TINY["network"](), features=16)}
NAMES = [pytest.param(name, marks=NEEDS_TORCH if METHODS[name].fitter in QUICK else ()) for name in METHODS]
"""All named methods; those that need PyTorch are skipped without it."""


def columns_of(method: str, whole: bool) -> tuple[str, ...]:
    """The columns that a method is run on: all of them, unless its model would have too many cells."""
    return COLUMNS if whole or method not in ("mwem", "vpmw") else FEW


def refused(method: str, adjacency: Adjacency, k: int) -> bool:
    """Whether the method protects no such neighbours, and says so before it looks at any row."""
    if method in SLICED:
        return adjacency == "add_remove" or k > 0
    return method in ("dpsgd_gan", "tabddpm") and (adjacency != "add_remove" or k > 1)


def _parts(method: str) -> dict[str, Any]:
    """Fewer rounds and rough models: what is asked at the door has the same forms."""
    strategy, fitter = METHODS[method].strategy(), METHODS[method].fitter
    parts: dict[str, Any] = {}
    if isinstance(strategy, AIM | TopQ):
        parts["select"] = dataclasses.replace(strategy, rounds=6 if method.startswith("aim") else 3)
    if isinstance(strategy, JAM | VerticalRounds):
        parts["select"] = dataclasses.replace(strategy, rounds=3, degree=2)
    if isinstance(strategy, MeanEmbedding):
        parts["select"] = dataclasses.replace(strategy, frequencies=20)
    if isinstance(strategy, Training):
        parts["select"] = dataclasses.replace(strategy, steps=12, rate=Fraction(1, 4))
    if isinstance(strategy, Votes):
        parts["select"] = dataclasses.replace(strategy, rounds=4)
    if fitter in QUICK:
        parts["model"] = QUICK[fitter]()
    return parts


def fitting(
    data: Any, method: str, columns: Iterable[str], adjacency: Adjacency, k: int, *, whole: bool, **more: Any
) -> Run:
    """A run of a method.

    Args:
        data: What `Synthesizer.fit` takes, or a table that was opened beforehand (`Opened`).
        method: Its name.
        columns: Of the table, the owners' column left out.
        adjacency: As for `Synthesizer`.
        k: Rows kept of an owner; 0 where rows are protected.
        whole: Whether all columns are declared; else nothing is.
        more: Other arguments of `Synthesizer`.
    """
    options: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-6, **_parts(method), **more}
    if whole and "schema" not in options:
        options["schema"] = twin_tables.declared(tuple(columns))
    unit = twin_tables.neighbours(adjacency, k).unit

    def run(on_step: Any) -> Any:
        synthesizer = Synthesizer(method, unit=unit, adjacency=adjacency, on_step=on_step, **options)
        return synthesizer.fit(data)

    return run


def audited(first: Run, *others: Run, rows: int | None = None, seed: int = 0) -> tuple[Tape, list[str]]:
    """A recorded run, and what its replays on neighbouring tables show that no event pays for."""
    tape = record(first, seed)
    found = [finding for other in others for finding in findings(tape, replay(other, tape, seed), rows)]
    return tape, found
